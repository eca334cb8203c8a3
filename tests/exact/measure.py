"""Measures the exact functions where no proof over all inputs exists, and sweeps types of 16 bits.

    python -m tests.exact.measure halves      all 65,536 float16 and bfloat16 inputs of every function of one number
    python -m tests.exact.measure doubles     float64 samples of every function
    python -m tests.exact.measure pairs       pow and atan2: samples, ties and near ties
    python -m tests.exact.measure formulas    activations that are formulas: every 61st of all float32 inputs

Every result is compared with MPFR, those of formulas with glibc's double value. The outcome goes to ``measures.json``.
Add a number for another size of the samples.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from onemodel.backends.exact import elementary, functions, powers
from onemodel.backends.numpy_cast import odd_float32
from tests.exact import prove, references

MEASURES = Path(__file__).with_name("measures.json")
HALVES = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
TWO = 1 << 64
Array = np.ndarray[Any, Any]


def right(name: str, dtype: str, *arguments: float) -> float:
    """The correctly rounded value; NaN where there is none."""
    return references.rounded(references.value(name, *arguments), *references.FORMATS[dtype])


def differ(result: float, expected: float) -> bool:
    """Whether two numbers have other bits; all NaN are one."""
    if math.isnan(expected) or math.isnan(result):
        return math.isnan(expected) != math.isnan(result)
    return result != expected or math.copysign(1, result) != math.copysign(1, expected)


def half_errors(name: str, dtype: str, step: int = 1, start: int = 0) -> list[int]:
    """The bits of the inputs, every ``step``-th, whose result is wrong."""
    bits = np.arange(start, 1 << 16, step, dtype=np.uint16)
    with np.errstate(invalid="ignore"):
        inputs = bits.view(HALVES[dtype]).astype(np.float64).tolist()
    results = elementary.half_table(name, dtype)[bits].astype(np.float64).tolist()
    return [
        int(bit) for bit, x, result in zip(bits, inputs, results, strict=True) if differ(result, right(name, dtype, x))
    ]


def all_half_errors(name: str, dtype: str, values: Callable[[str, Array], Array]) -> list[int]:
    """The same for all inputs; MPFR decides only where glibc's double value, with a margin, does not."""
    inputs = np.arange(1 << 16, dtype=np.uint16).view(HALVES[dtype])
    with np.errstate(all="ignore"):
        exact, margin = values(name, inputs.astype(np.float32)), max(prove.MARGINS.get(name, (2.0**-48,)))
        low, high = (odd_float32(exact * factor).astype(HALVES[dtype]) for factor in (1 - margin, 1 + margin))
    results = elementary.half_table(name, dtype)
    decided = (low.view(np.uint16) == high.view(np.uint16)) & (low.view(np.uint16) == results.view(np.uint16))
    left = np.flatnonzero(~(decided & np.isfinite(inputs.astype(np.float32))))
    return [int(bit) for bit in left if half_errors(name, dtype, step=1 << 16, start=int(bit))]


def double_inputs(count: int, seed: int = 0) -> Array:
    """float64 of all sizes, with those where functions of float64 turn, overflow and vanish."""
    random = np.random.default_rng(seed)
    special = [0, 1, 0.5, 2, 5e-324, 1.5e-323, 1e-320, 2.0**-1022, 2.0**-300, 1e300, 1.7976931348623157e308, math.inf]
    special += [708.5, 709.7, 709.8, 745.1, 740.2, 37.5, 38.4, 20.9, 21.5, 5.9, 1 + 2.0**-52, 1 - 2.0**-53, 1e22]
    parts = [
        random.integers(0, TWO, count, dtype=np.uint64).view(np.float64),
        random.integers(-(1 << 52), 1 << 52, count) * 2.0 ** random.integers(-80, -40, count),
        random.integers(-(1 << 52), 1 << 52, count) * 2.0**-52,
        1 + random.integers(-(1 << 30), 1 << 30, count) * 2.0**-50,
        random.integers(-(1 << 52), 1 << 52, count) * (750 * 2.0**-52),
        np.array([*special, *(-x for x in special)]),
    ]
    return np.concatenate(parts)


def double_errors(name: str, count: int, seed: int = 0) -> tuple[int, list[float], float]:
    """How many inputs, those whose result is not correctly rounded, and the worst error in units in the last place."""
    inputs = double_inputs(count, seed)
    if name in ("log", "log2", "log10", "rsqrt", "acosh"):
        inputs = np.abs(inputs)
    if name == "acosh":
        inputs = np.concatenate([inputs, 1 + inputs])
    results = elementary.host_runner(elementary.program(name, "float64"))(inputs).tolist()
    wrong, worst = [], 0.0
    for x, result in zip(inputs.tolist(), results, strict=True):
        exact = references.value(name, x)
        expected = references.rounded(exact, *references.FORMATS["float64"])
        if differ(result, expected):
            wrong.append(x)
        if math.isfinite(result) and math.isfinite(expected):
            with references.precise():
                worst = max(worst, abs(float((exact - result) / math.ulp(expected))))
    return len(inputs), wrong, worst


def pair_inputs(dtype: str, count: int, seed: int = 0) -> tuple[Array, Array]:
    """Pairs of numbers: any bits, moderate ones, and those whose power is short, so that it may be a tie."""
    random = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    unsigned = np.dtype(f"u{kind.itemsize}")

    def any_bits() -> Array:
        return random.integers(0, TWO, count, dtype=np.uint64).astype(unsigned).view(kind)

    def scaled(low: int, high: int) -> Array:
        return random.integers(1, 1 << 24, count) * 2.0 ** random.integers(low, high, count)

    exponents = np.array([2, 3, 4, 5, -1, -2, 0.5, 1.5, 2.5, 0.25, 0.75, 7, 1 / 3])
    special = np.array([0, 1, 0.5, 2, 3, 2.5, 1e30, 1e-30, 1e-45, 3e38, 2.0**24, 2.0**53, 7, 2.0**24 + 2, math.inf])
    grid = np.meshgrid(*[np.concatenate([special, -special, [math.nan]])] * 2)
    pairs = [
        (any_bits(), any_bits()),
        (scaled(-30, 0), (random.integers(-(1 << 20), 1 << 20, count) * 2.0**-14)),
        (scaled(-24, -22), random.integers(-400, 400, count) * 1.0),
        (scaled(-60, 60), scaled(-60, 60)),
        (random.integers(1, 1 << 13, count) * 2.0 ** random.integers(-12, 12, count), random.choice(exponents, count)),
        ((random.integers(1, 1 << 12, count) * 1.0) ** 2, random.choice(exponents, count)),
        (1 + random.integers(-(1 << 12), 1 << 12, count) * 2.0**-23, scaled(-10, 4)),
        (grid[0].reshape(-1), grid[1].reshape(-1)),
    ]
    with np.errstate(all="ignore"):
        return tuple(np.concatenate(side).astype(kind) for side in zip(*pairs, strict=True))


def pair_errors(name: str, dtype: str, count: int, seed: int = 0) -> tuple[int, list[tuple[float, float]]]:
    """How many pairs, and those whose result is not correctly rounded."""
    a, b = pair_inputs("float32" if dtype in HALVES else dtype, count, seed)
    if dtype in HALVES:
        with np.errstate(all="ignore"):
            a, b = a.astype(HALVES[dtype]), b.astype(HALVES[dtype])
    with np.errstate(all="ignore"):
        results = elementary.FUNCTIONS[name](a, b, xp=host()).astype(np.float64).tolist()
    pairs = list(zip(a.astype(np.float64).tolist(), b.astype(np.float64).tolist(), strict=True))
    wrong = [pair for pair, result in zip(pairs, results, strict=True) if differ(result, right(name, dtype, *pair))]
    return len(pairs), wrong


ALPHA, GAMMA = (float(np.float32(value)) for value in (1.6732632423543772, 1.0507009873554805))
"""The defaults of Selu."""

FORMULAS: dict[str, tuple[str, Callable[[Array, Array], Array]]] = {
    "Elu": ("expm1", lambda x, value: np.where(x < 0, value, x)),
    "Celu": ("expm1", lambda x, value: np.where(x < 0, value, x)),
    "Selu": ("expm1", lambda x, value: GAMMA * np.where(x <= 0, ALPHA * value, x)),
    "Swish": ("silu", lambda x, value: value),
}
"""Operator to the function that it is a formula of, and the operator with its defaults in float64."""

FORMULA_STEP = 61


def formula_error(op: str, values: Callable[[str, Array], Array], step: int = FORMULA_STEP) -> tuple[int, float]:
    """How many float32 inputs, and the largest error of the operator in units in the last place.

    Results that overflow or are NaN are left out, and subnormal ones have the unit of the smallest normal number.
    """
    from onemodel.backends import get_backend
    from onemodel.ops import registry

    entry = registry.find("", op, 28)
    assert entry is not None
    name, right_value = FORMULAS[op]
    chunk, worst, count = 1024 * 1024, 0.0, 0
    for begin in range(0, 1 << 32, chunk * step):
        bits = np.arange(begin, min(begin + chunk * step, 1 << 32), step, dtype=np.uint64).astype(np.uint32)
        x = np.resize(bits, -(-bits.size // 1024) * 1024).view(np.float32)
        with np.errstate(all="ignore"):
            got = entry.function(x, xp=get_backend("numpy").namespace("exact"))
            want = right_value(x.astype(np.float64), values(name, x))
            size = np.maximum(np.abs(want.astype(np.float32)), np.float32(2.0**-126))
            error = np.abs(got - want) / np.spacing(size)
        finite = np.isfinite(got) & np.isfinite(want) & np.isfinite(x)
        worst, count = max(worst, float(error[finite].max(initial=0.0))), count + bits.size
    return count, worst


def host() -> Any:
    """NumPy's own namespace, as exact functions get it."""
    from onemodel.backends import get_backend

    return get_backend("numpy").namespace("fast")


def record(kind: str, name: str, outcome: dict[str, Any]) -> None:
    """Enter an outcome in measures.json."""
    print(kind, name, json.dumps(outcome), flush=True)
    kept = json.loads(MEASURES.read_text()) if MEASURES.exists() else {}
    kept.setdefault(kind, {})[name] = outcome
    MEASURES.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")


def main(arguments: list[str]) -> int:
    """Measure what is named; 1 where a result is wrong."""
    count = next((int(argument) for argument in arguments if argument.isdigit()), 4000)
    failed = False
    names = sorted(elementary.PROVEN)
    for kind in (argument for argument in arguments if not argument.isdigit()):
        if kind == "halves":
            with tempfile.TemporaryDirectory() as folder:
                values = prove.reference_values(folder)
            for name in names:
                wrong = {dtype: len(all_half_errors(name, dtype, values)) for dtype in HALVES}
                digest = functions.FUNCTIONS[name].wide_program().digest()
                record(kind, name, {"inputs": 1 << 17, "wrong": sum(wrong.values()), "program": digest})
                failed |= any(wrong.values())
        elif kind == "doubles":
            for name in names:
                begun = time.perf_counter()
                inputs, bad, worst = double_errors(name, count)
                print(f"  {bad[:5]} {time.perf_counter() - begun:.0f} s" if bad else "", end="")
                digest = elementary.program(name, "float64").digest()
                record(kind, name, {"inputs": inputs, "wrong": len(bad), "ulp": round(worst, 6), "program": digest})
                failed |= bool(bad)
        elif kind == "pairs":
            for name in powers.NAMES:
                for dtype in ("float32", "float64", *HALVES):
                    inputs, poor = pair_errors(name, dtype, count)
                    digest = elementary.program(name, "odd" if dtype in HALVES else dtype).digest()
                    record(kind, f"{name} {dtype}", {"inputs": inputs, "wrong": len(poor), "program": digest})
                    if poor:
                        print(f"  {poor[:5]}")
                    failed |= bool(poor)
        elif kind == "formulas":
            with tempfile.TemporaryDirectory() as folder:
                values = prove.reference_values(folder)
            for op in FORMULAS:
                inputs, worst = formula_error(op, values)
                record(kind, op, {"inputs": inputs, "ulp": round(worst, 4)})
        else:
            raise SystemExit(__doc__)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
