"""Exact elementary functions: correctly rounded, and the same bits on every namespace."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from onemodel.backends import get_backend
from onemodel.backends.exact import elementary, functions, powers

pytest.importorskip("gmpy2", reason="MPFR is what results are compared with: pip install gmpy2")

from tests.exact import measure, prove
from tests.exact import references as mpfr

NAMES = sorted(elementary.PROVEN)
SPECIAL = [
    0,
    -0.0,
    1,
    -1,
    0.5,
    -0.5,
    1e-45,
    -1e-45,
    1e-38,
    3e38,
    -3e38,
    math.inf,
    -math.inf,
    math.nan,
    2**18,
    88.7,
    -103.9,
]


@pytest.fixture
def exact() -> Iterator[Any]:
    backend = get_backend("numpy")
    with backend.running():
        yield backend.namespace("exact")


def _sample(name: str, count: int) -> Any:
    """float32 of all sizes and of ordinary size, special values, and the inputs that are exceptions, of both signs."""
    random = np.random.default_rng(len(name))
    listed = np.array([bits for bits, _ in functions.exceptions().get(name, [])], np.uint32)
    return np.concatenate(
        [
            random.integers(0, 1 << 32, count, dtype=np.uint64).astype(np.uint32).view(np.float32),
            (random.integers(-(1 << 24), 1 << 24, count) * 2.0**-21).astype(np.float32),
            (random.integers(-(1 << 24), 1 << 24, count) * 2.0**-18).astype(np.float32),
            listed.view(np.float32),
            (listed ^ np.uint32(1 << 31)).view(np.float32),
            np.array(SPECIAL, np.float32),
        ]
    )


@pytest.mark.parametrize("name", NAMES)
def test_float32_is_correctly_rounded(name: str, exact: Any) -> None:
    inputs = _sample(name, 400)
    results = getattr(exact, name)(inputs)
    assert results.dtype == np.float32
    for x, result in zip(inputs.tolist(), results.tolist(), strict=True):
        assert not measure.differ(result, measure.right(name, "float32", x)), (name, x, result)


@pytest.mark.parametrize("name", NAMES)
def test_float64_is_correctly_rounded(name: str) -> None:
    _, wrong, worst = measure.double_errors(name, 60, seed=7)
    assert wrong == []
    assert worst <= 0.5


@pytest.mark.parametrize("name", NAMES)
def test_float64_next_to_ties(name: str) -> None:
    """Where x has few bits the first terms of a series may sum to a tie, which only the next one breaks."""
    x = np.array([sign * m * 2.0**-j for m in (1, 3, 7, 9) for j in range(10, 64) for sign in (1, -1)])
    x = np.concatenate([x, *(end + x[np.abs(x) < 2.0**-45] for end in (1, -1, 2, 0.5))])
    results = elementary.host_runner(elementary.program(name, "float64"))(x)
    pairs = zip(x.tolist(), results.tolist(), strict=True)
    assert [x for x, result in pairs if measure.differ(result, measure.right(name, "float64", x))] == []


def _wrong(name: str, dtype: str, a: Any, b: Any) -> list[Any]:
    """The pairs of which the function of two numbers is not correctly rounded."""
    a, b = (array.astype(dtype).reshape(-1) for array in np.broadcast_arrays(a, b))
    results = elementary.FUNCTIONS[name](a, b, xp=measure.host()).astype(np.float64)
    triples = zip(a.tolist(), b.tolist(), results.tolist(), strict=True)
    return [(a, b, r) for a, b, r in triples if measure.differ(r, measure.right(name, dtype, a, b))]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", powers.NAMES)
def test_functions_of_two_numbers_at_the_ends_of_their_types(name: str, dtype: str) -> None:
    limits = np.finfo(dtype)
    one, most, whole = np.asarray(1, dtype), limits.max, 2.0**limits.nmant
    some = [0, one, 0.5, 3, whole, 2 * whole - 1, 2 * whole, most, np.nextafter(most, 0 * one), most / 2, math.inf]
    some += [limits.smallest_subnormal, 3 * limits.smallest_subnormal, limits.smallest_normal, 1.5, 0.75 * most]
    some += [np.nextafter(one, 0 * one), np.nextafter(one, 2 * one), 1 - limits.eps, 1 + 2 * limits.eps]
    ends = np.array([*some, *(-x for x in some), math.nan], dtype)
    assert _wrong(name, dtype, ends[:, None], ends[None, :]) == []


def test_float64_pow_next_to_powers_of_two() -> None:
    exponents = np.array([0.5, 0.25, 0.75, 1.5, -1, -0.5, 2, 3, -3, 0.125, 2.5, 1 / 3, 0.1, 100, -0.75, 1e-3, 0.375])
    steps = np.concatenate([np.arange(-40, 41, 3), np.arange(-7, 8)])
    for power in (0, 1, 3, 4, -8, 600, -600, -1022):
        x = 2.0**power * (1 + steps * np.where(steps < 0, 2.0**-53, 2.0**-52))
        assert _wrong("pow", "float64", x[:, None], exponents[None, :]) == []


def test_float64_atan2_of_quotients_next_to_ties() -> None:
    sides = np.array([1, 1 + 2.0**-52, 2 - 2.0**-52, 1.5, 1 + 2.0**-51, 4 / 3])
    for exponent in (-1074, -1060, -1022, -1000, *range(-70, -20)):
        y, x = np.ldexp(sides, exponent // 2), np.ldexp(sides, exponent // 2 - exponent)
        assert _wrong("atan2", "float64", y[:, None], x[None, :]) == []


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", NAMES)
def test_types_of_16_bits_are_correctly_rounded(name: str, dtype: str) -> None:
    assert measure.half_errors(name, dtype, step=331, start=len(name)) == []


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("name", powers.NAMES)
def test_functions_of_two_numbers(name: str, dtype: str) -> None:
    assert measure.pair_errors(name, dtype, 60, seed=3)[1] == []


@pytest.mark.skipif(shutil.which("gcc") is None, reason="the reference is compiled")
def test_formulas_are_as_near_as_the_page_says(tmp_path: Any) -> None:
    values = prove.reference_values(str(tmp_path))
    recorded = json.loads(measure.MEASURES.read_text())["formulas"]
    for op in measure.FORMULAS:
        _, worst = measure.formula_error(op, values, step=measure.FORMULA_STEP * 257)
        assert 0.49 < worst <= recorded[op]["ulp"]


def test_the_page_is_up_to_date() -> None:
    from tests.exact import page

    assert page.PAGE.read_text(encoding="utf-8") == page.page()


@pytest.mark.skipif(shutil.which("gcc") is None, reason="the proofs compile C")
def test_the_proof_finds_wrong_results(tmp_path: Any) -> None:
    compare = prove.reference(str(tmp_path))
    run = prove.compiled_program(functions.FUNCTIONS["exp"].program(), str(tmp_path))
    begin = 0x3F800000  # from 1 on

    def spoilt(x: Any) -> Any:
        results = run(x)
        results.view(np.uint32)[x == np.float32(1.25)] += 1
        return results

    chunk = [begin]
    assert prove.prove("exp", compare, run, chunk)["wrong"] == []
    assert prove.prove("exp", compare, spoilt, chunk)["wrong"] == [int(np.float32(1.25).view(np.uint32))]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="the proofs compile C")
@pytest.mark.parametrize("name", ["sin", "log1p", "sigmoid", "acos"])
def test_the_compiled_program_has_numpy_bits(name: str, tmp_path: Any) -> None:
    program = functions.FUNCTIONS[name].program()
    inputs = _sample(name, 20000)
    inputs = np.resize(inputs, -(-inputs.size // 1024) * 1024)
    assert prove.same(
        prove.compiled_program(program, str(tmp_path))(inputs), elementary.host_runner(program)(inputs)
    ).all()


def test_the_reference_rounds_like_numpy() -> None:
    random = np.random.default_rng(5)
    numbers = random.integers(0, 1 << 63, 500, dtype=np.uint64).view(np.float64)
    numbers = np.concatenate([numbers, random.integers(1, 1 << 52, 500) * 2.0 ** random.integers(-205, -170, 500)])
    with np.errstate(all="ignore"):
        expected = numbers.astype(np.float32).astype(np.float64)
    for number, right in zip(numbers.tolist(), expected.tolist(), strict=True):
        with mpfr.precise():
            assert not measure.differ(mpfr.rounded(mpfr.from_float(number), *mpfr.FORMATS["float32"]), right)


@pytest.mark.slow
def test_the_tables_are_what_their_script_makes() -> None:
    pytest.importorskip("mpmath", reason="the script computes with it")
    from tests.exact.make_tables import PATH, tables

    with np.load(PATH) as kept:
        made = tables()
        assert set(made) == set(kept)
        for name, table in made.items():
            assert table.dtype == kept[name].dtype
            assert np.array_equal(table, kept[name]), name
