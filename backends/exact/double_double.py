"""Arithmetic on sums of two float64, in single-rounding operations: about 104 bits.

A pair (high, low) stands for high + low, where high is that sum rounded. Error-free transformations after Dekker (1971)
and Knuth; there is no fused multiply-add. They hold where nothing overflows and nothing underflows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from onemodel.backends.exact.program import Trace, Value

Number = Any
"""A value of float64, or a Python number."""
Pair = tuple[Number, Number]

_HALF_MASK = -(1 << 27)


def two_sum(a: Number, b: Number) -> Pair:
    """a + b, rounded, and what the rounding lost."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def fast_two_sum(a: Number, b: Number) -> Pair:
    """The same where |a| is not below |b|."""
    total = a + b
    return total, b - (total - a)


def split(a: Number, xp: Trace) -> Pair:
    """a as a sum of two numbers of 26 bits."""
    if isinstance(a, float):
        fraction, exponent = math.frexp(a)
        rounded_part = math.ldexp(round(fraction * 2**26), exponent - 26)
        return rounded_part, a - rounded_part
    high = xp.bitcast((xp.bitcast(a, "int64") + (1 << 26)) & _HALF_MASK, "float64")
    return high, a - high


def two_product(a: Number, b: Number, xp: Trace) -> Pair:
    """a * b, rounded, and what the rounding lost."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = split(a, xp), split(b, xp)
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def add(a: Pair, b: Pair) -> Pair:
    """a + b, also where they cancel."""
    high, error = two_sum(a[0], b[0])
    low, rest = two_sum(a[1], b[1])
    high, error = fast_two_sum(high, error + low)
    return fast_two_sum(high, error + rest)


def add_number(a: Pair, b: Number) -> Pair:
    """a + b for one number b."""
    high, error = two_sum(a[0], b)
    return fast_two_sum(high, error + a[1])


def negative(a: Pair) -> Pair:
    """-a."""
    return -a[0], -a[1]


def scaled(a: Pair, factor: Number) -> Pair:
    """a times a power of two."""
    return a[0] * factor, a[1] * factor


def multiply(a: Pair, b: Pair, xp: Trace) -> Pair:
    """a * b."""
    high, error = two_product(a[0], b[0], xp)
    return fast_two_sum(high, error + (a[0] * b[1] + a[1] * b[0]))


def times(a: Pair, b: Number, xp: Trace) -> Pair:
    """a * b for one number b."""
    high, error = two_product(a[0], b, xp)
    return fast_two_sum(high, error + a[1] * b)


def divide(a: Pair, b: Pair, xp: Trace) -> Pair:
    """a / b: three digits of a long division."""
    first = a[0] / b[0]
    rest = add(a, negative(times(b, first, xp)))
    second = rest[0] / b[0]
    rest = add(rest, negative(times(b, second, xp)))
    return add_number(fast_two_sum(first, second), rest[0] / b[0])


def square_root(a: Pair, xp: Trace) -> Pair:
    """The square root of a >= 0, by one step of Newton's method; 0 gives 0."""
    root = xp.sqrt(a[0])
    square, error = two_product(root, root, xp)
    rest = ((a[0] - square) - error) + a[1]
    safe = xp.where(xp.equal(root, 0.0), 1.0, root)
    return fast_two_sum(root, rest / (safe + safe))


def polynomial(r: Pair, high: Sequence[float], low: Sequence[float], xp: Trace) -> Pair:
    """The sum of coefficient[i] * r**i by Horner's rule.

    Args:
        r: below 1.
        high: the coefficients, rounded.
        low: what that lost, for the first of them; the terms beyond are computed in float64 alone.
    """
    tail: Number = high[-1]
    for coefficient in high[-2 : len(low) - 1 : -1]:
        tail = tail * r[0] + coefficient
    result: Pair = (tail, 0.0)
    for i in range(len(low) - 1, -1, -1):
        result = add(multiply(result, r, xp), (high[i], low[i]))
    return result


def tabled(index: Value, r: Pair, high: np.ndarray[Any, Any], low: np.ndarray[Any, Any], xp: Trace) -> Pair:
    """The same with coefficients that are looked up: ``high[i][index]``."""
    tail: Number = xp.take(high[-1], index)
    for row in high[-2 : len(low) - 1 : -1]:
        tail = tail * r[0] + xp.take(row, index)
    result: Pair = (tail, 0.0)
    for i in range(len(low) - 1, -1, -1):
        result = add(multiply(result, r, xp), (xp.take(high[i], index), xp.take(low[i], index)))
    return result


def total(a: Pair) -> Value:
    """a[0] + a[1], rounded."""
    result: Value = a[0] + a[1]
    return result


def select(condition: Value, a: Pair, b: Pair, xp: Trace) -> Pair:
    """a where the condition holds, else b, which are values."""
    return xp.where(condition, a[0], b[0]), xp.where(condition, a[1], b[1])


def power_of_two(exponent: Value, xp: Trace) -> Value:
    """2**exponent for an int64 from -1022 to 1023; beyond, the nearest end."""
    inside = xp.minimum(xp.maximum(exponent, -1022), 1023)
    return xp.bitcast((inside + 1023) << 52, "float64")


def round_to_odd(a: Pair, xp: Trace) -> Value:
    """a[0] + a[1] as that of the two float64 around it whose last bit is 1, where it is none itself.

    One more rounding, to fewer bits, then gives what one rounding of the sum gives.
    """
    total, rest = fast_two_sum(*a)
    bits = xp.bitcast(total, "int64")
    change = xp.equal(bits & 1, 0) & xp.not_equal(rest, 0.0)
    outward = xp.equal((bits ^ xp.bitcast(rest, "int64")) >> 63, 0)
    moved = bits + (xp.astype(outward, "int64") * 2 - 1)
    return xp.bitcast(xp.where(change, moved, bits), "float64")


def add_to_odd(a: Pair, b: Pair, xp: Trace) -> Pair:
    """a + b with a rest that is rounded to odd, so that what is next to a tie is not taken for one."""
    high, error = two_sum(a[0], b[0])
    low, rest = two_sum(a[1], b[1])
    low, lost = two_sum(error, low)
    return high, round_to_odd((low, lost + rest), xp)


def rounded(a: Pair, exponent: Value, xp: Trace) -> Value:
    """(a[0] + a[1]) * 2**exponent, rounded once, also where that is subnormal or overflows.

    Args:
        a: |a[0]| in [2**-930, 2**300], or 0, or NaN.
        exponent: int64 in [-2000, 2000].
    """
    total, rest = fast_two_sum(*a)
    result = _shifted(total, exponent, xp)
    small = (xp.abs(result) <= 2.0**-1022) & (exponent < 0)
    return xp.mend(small, result, _rounded_small, total, rest, exponent)


def _shifted(x: Value, exponent: Value, xp: Trace) -> Value:
    """x * 2**exponent in two steps, the second of which rounds."""
    half = exponent >> 1
    return x * power_of_two(half, xp) * power_of_two(exponent - half, xp)


def _rounded_small(total: Value, rest: Value, exponent: Value, xp: Trace) -> Value:
    """Results below the normal numbers: an addition rounds at the place of the last subnormal bit.

    What it has to round is summed to odd first.
    """
    sign = xp.bitcast(total, "int64") & -(1 << 63)
    size, rest = xp.abs(total), xp.bitcast(xp.bitcast(rest, "int64") ^ sign, "float64")
    place = xp.minimum(xp.maximum(-1074 - exponent, -1000), 900)
    anchor = power_of_two(place + 52, xp)
    shifted, error = two_sum(anchor, size)
    whole = (shifted + round_to_odd(two_sum(error, rest), xp)) - anchor
    return xp.bitcast(xp.bitcast(_shifted(whole, exponent, xp), "int64") | sign, "float64")
