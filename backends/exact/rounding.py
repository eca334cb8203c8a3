"""Rounding once: error-free additions, rounding to odd, and narrowing from float64.

Everything here is IEEE 754's single operations and operations on bits, so the same in every library. ``xp`` is the
library's own namespace; numbers beyond float64's precision are pairs of float64, a sum and what it leaves over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

Array = Any

UNIT = 2.0**-53
"""The most that rounding to float64 changes a number, relative to it."""

_EXPONENT = 0x7FF0000000000000


def pieces(count: int, step: int) -> Iterator[slice]:
    """The ranges of at most ``step`` that ``count`` things fall into."""
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


@cache
def name_of(dtype: np.dtype[Any]) -> str:
    """A dtype's name, which NumPy puts together anew each time."""
    return dtype.name


def is_float(dtype: Any, xp: Any) -> bool:
    """Whether sums and products of the type are rounded here: float64, float32, float16 and bfloat16."""
    return dtype in (xp.float32, xp.float64) or name_of(xp.host_dtype(dtype)) in ("float16", "bfloat16")


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """a + b, and exactly what that leaves over (Knuth)."""
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """a * b, and exactly what that leaves over (Dekker), for numbers below 2**995 whose product does not underflow."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _halves(x: Array) -> tuple[Array, Array]:
    """x as two numbers of at most 26 bits each (Veltkamp)."""
    scaled = x * 134217729.0
    high = scaled - (scaled - x)
    return high, x - high


def bits_of(x: Array, xp: Any) -> Array:
    """The bits of floats, as integers."""
    if x.dtype == xp.float32:
        return xp.bitcast(x, xp.int32)
    return xp.bitcast(x, xp.int64 if x.dtype == xp.float64 else xp.int16)


def leading_power(x: Array, xp: Any) -> Array:
    """The greatest power of two that is not above ``|x|``; 0 for 0."""
    small = xp.abs(x) < 2.0**-1022
    power = xp.bitcast(xp.bitcast(xp.where(small, x * 2.0**52, x), xp.int64) & _EXPONENT, xp.float64)
    return xp.where(small, power * 2.0**-52, power)


def power_of_two(exponent: Array, xp: Any) -> Array:
    """2**exponent for int64 in [-1022, 1023]."""
    return xp.bitcast(xp.bitwise_left_shift(exponent + 1023, xp.asarray(52, dtype=xp.int64)), xp.float64)


def times_power(x: Array, exponent: Array, xp: Any) -> Array:
    """x * 2**exponent for int64 exponents up to 2048, and |x| below 2**1000: exact where the result is normal."""
    # Below that the result is 0 anyway.
    exponent = xp.where(exponent < -2040, xp.full_like(exponent, -2040), exponent)
    # Above it the halves would not be powers that float64 has.
    large = exponent > 2040
    x = xp.where(large, x * 2.0**8, x)
    exponent = xp.where(large, exponent - 8, exponent)
    half = xp.bitwise_right_shift(exponent, xp.asarray(1, dtype=xp.int64))
    return x * power_of_two(half, xp) * power_of_two(exponent - half, xp)


def exponent_of(x: Array, xp: Any) -> Array:
    """e as int64 with 2**(e - 1) <= |x| < 2**e; -1074 for 0."""
    shift = xp.asarray(52, dtype=xp.int64)
    small = xp.abs(x) < 2.0**-1022
    normal = xp.where(small, x * 2.0**52, x)
    exponent = xp.bitwise_right_shift(xp.bitcast(normal, xp.int64) & _EXPONENT, shift) - 1022
    return xp.where(small, exponent - 52, exponent)


def bottom_up(expansion: Sequence[Array]) -> tuple[Array, list[Array]]:
    """The sum of components in increasing order, and what each addition leaves over."""
    total, errors = expansion[0], []
    for component in expansion[1:]:
        total, error = two_sum(total, component)
        errors.append(error)
    return total, errors


def distil(parts: Sequence[Array], xp: Any) -> tuple[Array, Array]:
    """The exact sum of ``parts`` as the float64 nearest to it, give or take a tie, and the rest *rounded to odd*.

    The parts are made an expansion without overlap, one after the other (Shewchuk, Adaptive precision floating-point
    arithmetic, 1997, theorem 10), which is then added up from its small end twice.
    """
    expansion: list[Array] = []
    for part in parts:
        grown = []
        for component in expansion:
            part, error = two_sum(part, component)
            grown.append(error)
        expansion = [*grown, part]
    total, errors = bottom_up(expansion)
    if not errors:
        return total, xp.zeros_like(total)
    rest, errors = bottom_up(errors)
    if not errors:
        return total, rest
    return total, to_odd(rest, bottom_up(errors)[0], xp)


def to_odd(x: Array, rest: Array, xp: Any) -> Array:
    """x + rest *rounded to odd*, where x is float64's nearest: the neighbour whose last bit is 1 where it is inexact.

    Rounding that once more, to a type with two bits less or more than that, gives what one rounding of x + rest gives.
    """
    bits = xp.bitcast(x, xp.int64)
    inexact = (rest != 0) & ((bits & 1) == 0)
    step = xp.where((rest > 0) == (x > 0), xp.ones_like(bits), -xp.ones_like(bits))
    return xp.bitcast(xp.where(inexact, bits + step, bits), xp.float64)


def narrow(x: Array, dtype: Any, xp: Any) -> Array:
    """float64 rounded once to ``dtype``; libraries round twice to 16 bits and below, by way of float32."""
    if dtype == xp.float64:
        return x
    if dtype == xp.float32:
        return xp.astype(x, dtype)
    return xp.astype(_odd_float32(x, xp), dtype)


def _odd_float32(x: Array, xp: Any) -> Array:
    """As float32 rounded to odd."""
    nearest = xp.astype(x, xp.float32)
    back = xp.astype(nearest, xp.float64)
    inexact = (back != x) & (x == x)
    bits = xp.bitcast(nearest, xp.int32)
    bits = bits - xp.astype(inexact & (xp.abs(back) > xp.abs(x)), xp.int32)
    return xp.bitcast(bits | xp.astype(inexact, xp.int32), xp.float32)


def rounded(total: Array, rest: Array, dtype: Any, xp: Any) -> Array:
    """total + rest rounded once; the rest may itself be rounded to odd. A zero is +0."""
    total, rest = two_sum(total, rest)
    total = total + 0.0
    return total if dtype == xp.float64 else narrow(to_odd(total, rest, xp), dtype, xp)


def bracketed(total: Array, rest: Array, bound: Array, dtype: Any, xp: Any) -> tuple[Array, Array]:
    """What lies within ``bound`` of total + rest, rounded, and where that depends on which of them it is.

    A bound of 0 says that total + rest is the sum; then nothing is left open.
    """
    slack = bound + xp.where(bound > 0, (xp.abs(rest) + bound) * 2.0**-51, xp.zeros_like(bound))
    low = rounded(total, rest - slack, dtype, xp)
    high = rounded(total, rest + slack, dtype, xp)
    return low, bits_of(low, xp) != bits_of(high, xp)


def certified(x: Array, bound: Array, dtype: Any, xp: Any) -> tuple[Array, Array]:
    """``bracketed`` for results narrower than float64, in few steps. The bound has room for one rounding of x."""
    low = narrow(x - bound, dtype, xp)
    high = narrow(x + bound, dtype, xp)
    return low, bits_of(low, xp) != bits_of(high, xp)


def one_nan(x: Array, /, *, xp: Any) -> Array:
    """x with one NaN: positive where its type has a sign, quiet, without payload."""
    name = name_of(xp.host_dtype(x.dtype))
    if name.startswith("complex"):
        return xp.join_complex(one_nan(xp.split_complex(x), xp=xp)) if bool(xp.any(xp.isnan(x))) else x
    if not name.startswith(("float", "bfloat")):
        return x
    wrong = xp.isnan(x)
    return xp.where(wrong, xp.asarray(float("nan"), dtype=x.dtype), x) if bool(xp.any(wrong)) else x
