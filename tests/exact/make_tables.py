"""Makes ``backends/exact/functions.npz``: the tables and coefficients of the exact functions, from 60 digits.

    python -m tests.exact.make_tables

Needs mpmath. The file is part of the repository; a test compares it with what this script makes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mpmath as mp  # type: ignore[import-untyped]
import numpy as np

Array = np.ndarray[Any, Any]
Real = Any
"""An mpmath number."""

PATH = Path(__file__).resolve().parents[2] / "backends" / "exact" / "functions.npz"

EXP_BITS = 11
LOG_BITS = 10
LOG_OFFSET = 0x3FE6000000000000
"""The bits of 0.6875: the logarithm takes the significand from [0.6875, 1.375)."""

TINY = mp.mpf(10) ** -25


def near(value: Real) -> float:
    """The nearest float64."""
    return float(value)


def leading(value: Real, bits: int) -> Real:
    """``value`` rounded to so many significant bits."""
    if not value:
        return mp.mpf(0)
    fraction, exponent = mp.frexp(value)
    return mp.ldexp(mp.floor(mp.ldexp(fraction, bits) + mp.mpf(1) / 2), int(exponent) - bits)


def fit(function: Callable[[Real], Real], low: Real, high: Real, count: int, centre: Real = 0) -> list[Real]:
    """Coefficients in (x - centre), lowest first, of the polynomial through Chebyshev nodes of [low, high]."""
    middle, half = (mp.mpf(low) + high) / 2, (mp.mpf(high) - low) / 2
    nodes = [middle + half * mp.cos(mp.pi * (2 * k + 1) / (2 * count)) for k in range(count)]
    steps = [node - centre for node in nodes]
    newton = [function(node) for node in nodes]
    for order in range(1, count):
        for i in range(count - 1, order - 1, -1):
            newton[i] = (newton[i] - newton[i - 1]) / (steps[i] - steps[i - order])
    result = [newton[-1]]
    for i in range(count - 2, -1, -1):
        shifted = [mp.mpf(0), *result]
        for k, coefficient in enumerate(result):
            shifted[k] -= coefficient * steps[i]
        shifted[0] += newton[i]
        result = shifted
    return result


def odd_fit(quotient: Callable[[Real], Real], half: Real, degree: int) -> list[Real]:
    """The same about 0 for an odd function f, from f(x) / x: every other coefficient is 0."""
    count = (degree - 1) // 2 + 1
    result = [mp.mpf(0)] * (degree + 1)
    result[1::2] = fit(lambda square: quotient(mp.sqrt(abs(square))), 0, mp.mpf(half) ** 2, count)
    return result


def grid(
    function: Callable[[Real], Real],
    step: float,
    cells: int,
    degree: int,
    quotient: Callable[[Real], Real] | None = None,
    odd: bool = False,
) -> Array:
    """Coefficients (degree + 1, cells) about k * step for k = 0, 1 ...; cell 0 from f(x) / x where that is given."""
    half = mp.mpf(step) / 2 * mp.mpf("1.0000001")
    rows = []
    for k in range(cells):
        centre = mp.mpf(k) * mp.mpf(step)
        if k == 0 and quotient is not None:
            row = odd_fit(quotient, half, degree) if odd else [mp.mpf(0), *fit(quotient, -half, half, degree)]
        else:
            row = fit(function, centre - half, centre + half, degree + 1, centre)
        rows.append([near(value) for value in row])
    return np.array(rows).T.copy()


def saturated(table: Array) -> Array:
    """The last cell is 1 throughout."""
    table[:, -1] = 0
    table[0, -1] = 1
    return table


def octave_grid(
    function: Callable[[Real], Real], quotient: Callable[[Real], Real], first: int, last: int, bits: int, degree: int
) -> Array:
    """Rows: the cells' centres, then coefficients; cell 0 is [0, 2**first), then 2**bits cells an octave."""
    rows = [[0.0, *map(near, odd_fit(quotient, mp.mpf(2) ** first, degree))]]
    for exponent in range(first, last):
        for j in range(1 << bits):
            low = mp.ldexp(1 + mp.mpf(j) / (1 << bits), exponent)
            high = mp.ldexp(1 + mp.mpf(j + 1) / (1 << bits), exponent)
            centre = (low + high) / 2
            rows.append([near(centre), *map(near, fit(function, low, high, degree + 1, centre))])
    return np.array(rows).T.copy()


def chunks(value: Real, bits: int, count: int) -> list[float]:
    """``value`` as a sum of numbers of so many bits each."""
    if not value:
        return [0.0] * count
    exponent = int(mp.frexp(value)[1])
    result = []
    for j in range(count):
        unit = exponent - bits * (j + 1)
        part = mp.ldexp(mp.floor(mp.ldexp(value, -unit) + mp.mpf(1) / 2), unit)
        result.append(float(part))
        value -= part
    return result


def series(function: Callable[[Real], Real], at_zero: Real) -> Callable[[Real], Real]:
    """``function`` with its limit at 0, where it cannot be computed."""
    return lambda x: function(x) if abs(x) > TINY else mp.mpf(at_zero)


def exponential() -> dict[str, Array]:
    """2**(i / 2048), and exp(r) - 1 for |r| up to ln 2 / 4096."""
    count = 1 << EXP_BITS
    powers = [mp.power(2, mp.mpf(i) / count) for i in range(count)]
    rounded = np.array([near(power) for power in powers])
    step = mp.log(2) / count
    high = leading(step, 30)
    half = step / 2 * mp.mpf("1.0001")
    second = series(lambda r: (mp.exp(r) - 1 - r) / r**2, mp.mpf(1) / 2)
    by_two = series(lambda r: mp.expm1(r * step) / r, step)
    return {
        "exp_bits": rounded.view(np.int64) - (np.arange(count) << (52 - EXP_BITS)),
        "exp_rest": np.array([near((p - mp.mpf(float(r))) / p) for p, r in zip(powers, rounded, strict=True)]),
        "exp_step": np.array([near(count / mp.log(2)), near(high), near(step - high)]),
        "exp_short": np.array([near(value) for value in fit(second, -half, half, 2)]),
        "exp_long": np.array([near(value) for value in fit(second, -half, half, 3)]),
        "exp2": np.array([near(value) for value in fit(by_two, mp.mpf("-0.5001"), mp.mpf("0.5001"), 3)]),
    }


def logarithm_cells(bits: int) -> list[Real]:
    """For each cell of significands a reciprocal of so many bits; 1 in the cell of 1."""
    result = []
    for i in range(1 << LOG_BITS):
        ends = [LOG_OFFSET + ((i + j) << (52 - LOG_BITS)) for j in (0, 1)]
        low, high = np.array(ends, np.int64).view(np.float64).tolist()
        centre = (mp.mpf(low) + mp.mpf(high)) / 2
        result.append(mp.mpf(1) if low <= 1 <= high else mp.floor(mp.ldexp(1 / centre, bits) + 0.5) / mp.mpf(2) ** bits)
    return result


def logarithm() -> dict[str, Array]:
    """-log(c) for reciprocals c of significands, to three bases, and log(1 + r) - r for |r| up to 1.08 / 1024."""
    cells = logarithm_cells(21)
    half = mp.mpf("1.08") / (1 << LOG_BITS)
    second = series(lambda r: (mp.log1p(r) - r) / r**2, mp.mpf(-1) / 2)
    binary = series(lambda r: (mp.log1p(r) - r) / mp.log(2) / r**2, -1 / mp.log(2) / 2)
    logs = [-mp.log(c) / mp.log(2) for c in cells]
    high = [mp.floor(mp.ldexp(v, 20) + 0.5) / mp.mpf(2) ** 20 for v in logs]
    slope = leading(1 / mp.log(2), 15)
    residual = series(lambda r: mp.expm1(r * mp.log(2)) / r, mp.log(2))
    width = mp.mpf("0.51") / (1 << EXP_BITS)
    return {
        "log_reciprocal": np.array([near(c) for c in cells]),
        "log_value": np.array([near(-mp.log(c)) for c in cells]),
        "log2_value": np.array([near(v) for v in logs]),
        "log10_value": np.array([near(-mp.log(c) / mp.log(10)) for c in cells]),
        "log_series": np.array([near(value) for value in fit(second, -half, half, 4)]),
        "log_units": np.array([near(v) for v in (mp.log(2), 1 / mp.log(2), 1 / mp.log(10), mp.log(2) / mp.log(10))]),
        "pow_high": np.array([near(v) for v in high]),
        "pow_low": np.array([near(v - h) for v, h in zip(logs, high, strict=True)]),
        "pow_slope": np.array([near(slope), near(1 / mp.log(2) - slope)]),
        "pow_series": np.array([near(value) for value in fit(binary, -half, half, 5)]),
        "pow_exp": np.array([near(value) for value in fit(residual, -width, width, 4)]),
    }


def trigonometric() -> dict[str, Array]:
    """Sine at 1024 points of the circle, polynomials between them, and x * 1024 / (2 pi) in pieces."""
    count = 1024
    angle = 2 * mp.pi / count
    sine = series(lambda r: mp.sin(r * angle) / r, angle)
    cosine = series(lambda r: (mp.cos(r * angle) - 1) / r**2, -(angle**2) / 2)
    large = np.zeros((4, 256))
    with mp.workprec(600):
        for exponent in range(256):
            # A float32 of this exponent field is an integer below 2**24 times 2**(exponent - 150).
            value = mp.ldexp(count / (2 * mp.pi), max(exponent, 1) - 150)
            large[:, exponent] = chunks(value - count * mp.floor(value / count), 29, 4)
    return {
        "sin": np.array([near(mp.sin(i * angle)) if i % (count // 2) else 0.0 for i in range(count)]),
        "sin_scale": np.array(chunks(count / (2 * mp.pi), 29, 4)),
        "sin_series": np.array([near(v) for v in fit(lambda s: sine(mp.sqrt(abs(s))), 0, mp.mpf("0.32"), 3)]),
        "cos_series": np.array([near(v) for v in fit(lambda s: cosine(mp.sqrt(abs(s))), 0, mp.mpf("0.32"), 3)]),
        "sin_large": large,
        "atan": octave_grid(mp.atan, series(lambda r: mp.atan(r) / r, 1), -8, 27, 6, 6),
        "asin": grid(mp.asin, 1 / 128, 66, 5, series(lambda r: mp.asin(r) / r, 1), odd=True),
        "acos": grid(_acos_of_complement, 1 / 128, 129, 5),
        "pi": np.array([near(mp.pi), near(mp.pi / 2)]),
    }


def _acos_of_complement(u: Real) -> Real:
    """acos(1 - u) / sqrt(u), which is analytic at 0."""
    return mp.acos(1 - u) / mp.sqrt(u) if u > 0 else mp.sqrt(2) * mp.hyp2f1(0.5, 0.5, 1.5, u / 2)


def special() -> dict[str, Array]:
    """Functions by tables of polynomials."""

    def tail(t: Real) -> Real:
        return -mp.erfc(t / mp.sqrt(2)) / 2

    return {
        "tanh": saturated(grid(mp.tanh, 1 / 64, 9 * 64 + 5, 6, series(lambda r: mp.tanh(r) / r, 1), odd=True)),
        "erf": saturated(
            grid(mp.erf, 1 / 64, 4 * 64 + 1, 6, series(lambda r: mp.erf(r) / r, 2 / mp.sqrt(mp.pi)), odd=True)
        ),
        "gelu": grid(lambda t: t * tail(t), 1 / 128, int(14.5 * 128) + 1, 7, tail),
        "gelu_tanh": np.array(
            [near(v) for v in chunks(2 * mp.sqrt(2 / mp.pi), 29, 2)]
            + [near(2 * mp.sqrt(2 / mp.pi) * mp.mpf("0.044715"))]
        ),
        "softplus": grid(lambda t: mp.log1p(mp.exp(-t)), 1 / 32, 104 * 32 + 17, 6),
    }


def pair(value: Real) -> tuple[float, float]:
    """``value`` as a float64 and another one for the rest."""
    high = near(value)
    return high, near(value - mp.mpf(high))


def pairs(values: Sequence[Real]) -> Array:
    """Shape (2, n): the rounded values, and the rests."""
    return np.array([pair(value) for value in values]).T.copy()


def pair_grid(
    function: Callable[[Real], Real],
    step: float,
    cells: int,
    degree: int,
    quotient: Callable[[Real], Real] | None = None,
) -> Array:
    """Shape (2, degree + 1, cells): as ``grid``, in pairs; cell 0 is odd where f(x) / x is given."""
    half = mp.mpf(step) / 2 * mp.mpf("1.0000001")
    rows = []
    for k in range(cells):
        centre = mp.mpf(k) * mp.mpf(step)
        if k == 0 and quotient is not None:
            row = odd_fit(quotient, half, degree)
        else:
            row = fit(function, centre - half, centre + half, degree + 1, centre)
        rows.append([pair(value) for value in row])
    return np.array(rows).transpose(2, 1, 0).copy()


def doubles() -> dict[str, Array]:
    """What the functions of float64 need beyond that, in pairs."""
    step = mp.log(2) / (1 << EXP_BITS)
    first = leading(step, 31)
    second = leading(step - first, 31)
    octave = leading(mp.log(2), 42)
    rest = leading(mp.log(2) - octave, 42)
    angle = 2 * mp.pi / 1024
    count = 1024
    large = np.zeros((9, 2048))
    with mp.workprec(2600):
        for exponent in range(2048):
            # A float64 of this exponent field is an integer below 2**53 times 2**(exponent - 1075).
            value = mp.ldexp(count / (2 * mp.pi), max(exponent, 1) - 1075)
            large[:, exponent] = chunks(value - count * mp.floor(value / count), 26, 9)
    units = (mp.log(2), 1 / mp.log(2), 1 / mp.log(10), angle, mp.pi, mp.pi / 2, mp.sqrt(mp.mpf(1) / 2))
    rate = 2 * mp.sqrt(2 / mp.pi)

    def scaled_erfc(t: Real) -> Real:
        return mp.exp(t * t) * mp.erfc(t)

    with mp.workprec(300):
        error = pair_grid(mp.erf, 1 / 16, 96 + 1, 18, series(lambda r: mp.erf(r) / r, 2 / mp.sqrt(mp.pi)))
        complement = pair_grid(scaled_erfc, 1 / 8, 28 * 8 + 1, 22)
    return {
        "double_exp_step": np.array([near(1 / step), near(first), near(second), near(step - first - second)]),
        "double_exp": pairs([1 / mp.factorial(i + 1) for i in range(9)]),
        "double_log_unit": np.array([near(octave), near(rest), near(mp.log(2) - octave - rest)]),
        "double_log_value": pairs([-mp.log(c) for c in logarithm_cells(21)]),
        "double_log": pairs([mp.mpf(-1) ** i / (i + 1) for i in range(12)]),
        "double_units": pairs([*units, rate, rate * mp.mpf("0.044715")]),
        "double_sin": pairs([mp.sin(i * angle) if i % (count // 2) else mp.mpf(0) for i in range(count)]),
        "double_sin_series": pairs([mp.mpf(-1) ** i / mp.factorial(2 * i + 1) for i in range(7)]),
        "double_cos_series": pairs([mp.mpf(-1) ** i / mp.factorial(2 * i) for i in range(7)]),
        "double_sin_large": large,
        "double_atan": pairs([mp.atan(mp.mpf(i) / 128) for i in range(129)]),
        "double_atan_series": pairs([mp.mpf(-1) ** i / (2 * i + 1) for i in range(7)]),
        "double_erf": error,
        "double_erfc": complement,
    }


def tables(parts: Sequence[Callable[[], dict[str, Array]]] = ()) -> dict[str, Array]:
    """All of them by name."""
    with mp.workprec(200):
        result: dict[str, Array] = {}
        for part in parts or (exponential, logarithm, trigonometric, special, doubles):
            result |= part()
    return result


if __name__ == "__main__":
    np.savez_compressed(PATH, **tables())
    print(f"{PATH.name}: {PATH.stat().st_size} bytes")
