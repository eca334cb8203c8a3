"""Logarithms of float64 and the inverse hyperbolic functions: bodies for ``double.py``."""

from __future__ import annotations

import math

from onemodel.backends.exact import double_double as dd
from onemodel.backends.exact.double import double_function, unit
from onemodel.backends.exact.double_double import Pair
from onemodel.backends.exact.functions import numbers, table
from onemodel.backends.exact.functions_logarithmic import EXPONENT, OFFSET
from onemodel.backends.exact.program import Trace, Value

_BITS = 10


def parts(t: Value, low: Pair, xp: Trace) -> tuple[Value, Pair]:
    """k and log(1 + r) - log(c) with t + low = 2**k (1 + r) / c, c a reciprocal of 21 bits from a table.

    In the cell of 1 c is 1, so that r keeps all bits of ``low``.
    """
    bits = xp.bitcast(t, "int64")
    shifted = bits - OFFSET
    place = (shifted >> (52 - _BITS)) & ((1 << _BITS) - 1)
    significand = xp.bitcast(bits - (shifted & EXPONENT), "float64")
    exponent = shifted >> 52
    reciprocal = xp.take(table("log_reciprocal"), place)
    product, error = dd.two_product(significand, reciprocal, xp)
    r = dd.two_sum(product - 1.0, error)
    if low != (0.0, 0.0):
        scale = dd.power_of_two(-exponent, xp)
        r = dd.add(r, dd.times(dd.scaled(low, scale), reciprocal, xp))
    high_parts, low_parts = table("double_log").tolist()
    series = dd.multiply(dd.polynomial(r, high_parts, low_parts[:6], xp), r, xp)
    values = table("double_log_value")
    value = (xp.take(values[0], place), xp.take(values[1], place))
    return xp.astype(exponent, "float64"), dd.add(value, series)


def logarithm(t: Value, low: Pair, xp: Trace, offset: Value | float = 0.0) -> Pair:
    """log((t + low[0] + low[1]) * 2**offset) for a positive normal t, also where it is near 0."""
    exponent, rest = parts(t, low, xp)
    return joined(exponent + offset, rest, xp)


def joined(exponent: Value, rest: Pair, xp: Trace) -> Pair:
    """The logarithm of 2**exponent, and ``rest``."""
    first, second, third = numbers("double_log_unit")
    high, error = dd.fast_two_sum(exponent * first, exponent * second)
    return dd.add((high, error + exponent * third), rest)


def normal(x: Value, xp: Trace) -> tuple[Value, Value]:
    """x as a normal number times 2**offset; the offset comes second."""
    tiny = x < 2.0**-1022
    return xp.where(tiny, x * 2.0**54, x), xp.astype(tiny, "float64") * -54.0


def _positive(x: Value, result: Value, xp: Trace) -> Value:
    """``result`` where x is positive and finite; -infinity at zero, NaN below."""
    result = xp.where(xp.equal(x, 0.0), -math.inf, result)
    result = xp.where(xp.equal(x, math.inf), math.inf, result)
    return xp.where(x < 0.0, math.nan, result)


@double_function()
def log(x: Value, xp: Trace) -> Value:
    """The natural logarithm."""
    t, offset = normal(x, xp)
    return _positive(x, dd.total(logarithm(t, (0.0, 0.0), xp, offset)), xp)


@double_function()
def log2(x: Value, xp: Trace) -> Value:
    """The logarithm to base 2."""
    t, offset = normal(x, xp)
    exponent, rest = parts(t, (0.0, 0.0), xp)
    return _positive(x, dd.total(dd.add_number(dd.multiply(rest, unit("1/ln2"), xp), exponent + offset)), xp)


@double_function()
def log10(x: Value, xp: Trace) -> Value:
    """The logarithm to base 10."""
    t, offset = normal(x, xp)
    return _positive(x, dd.total(dd.multiply(logarithm(t, (0.0, 0.0), xp, offset), unit("1/ln10"), xp)), xp)


@double_function("sign", identity=True)
def log1p(x: Value, xp: Trace) -> Value:
    """log(1 + x): -infinity at -1, NaN below."""
    total, error = dd.two_sum(1.0, x)
    result = dd.total(logarithm(total, (error, 0.0), xp))
    result = xp.where(xp.equal(x, -1.0), -math.inf, result)
    result = xp.where(xp.equal(x, math.inf), math.inf, result)
    return xp.where(x < -1.0, math.nan, result)


def _of_one_plus(v: Pair, x: Value, xp: Trace) -> Value:
    """log(1 + v), or log(2 x) where x is large."""
    large = x > 2.0**60
    total, error = dd.two_sum(1.0, v[0])
    zero = xp.astype(xp.logical_not(large), "float64")
    error, low = xp.where(large, 0.0, error), xp.where(large, 0.0, v[1] * zero)
    twice = 1.0 - zero
    doubled = (twice * unit("ln2")[0], twice * unit("ln2")[1])
    return dd.total(dd.add(logarithm(xp.where(large, x, total), (error, low), xp), doubled))


@double_function("odd", identity=True)
def asinh(x: Value, xp: Trace) -> Value:
    """log(1 + v) with v = x + x**2 / (1 + sqrt(1 + x**2))."""
    square = dd.two_product(x, x, xp)
    root = dd.square_root(dd.add_number(square, 1.0), xp)
    v = dd.add_number(dd.divide(square, dd.add_number(root, 1.0), xp), x)
    return xp.where(xp.equal(x, math.inf), math.inf, _of_one_plus(v, x, xp))


@double_function()
def acosh(x: Value, xp: Trace) -> Value:
    """log(1 + v) with v = (x - 1) + sqrt((x - 1) (x + 1)); NaN below 1."""
    less, more = dd.two_sum(x, -1.0), dd.two_sum(x, 1.0)
    v = dd.add(less, dd.square_root(dd.multiply(less, more, xp), xp))
    result = xp.where(xp.equal(x, math.inf), math.inf, _of_one_plus(v, x, xp))
    return xp.where(x < 1.0, math.nan, result)


@double_function("odd", identity=True)
def atanh(x: Value, xp: Trace) -> Value:
    """log(1 + 2 x / (1 - x)) / 2; infinite at 1, NaN beyond."""
    v = dd.divide((x + x, 0.0), dd.two_sum(1.0, -x), xp)
    total, error = dd.two_sum(1.0, v[0])
    result = dd.total(dd.scaled(logarithm(total, (error, v[1]), xp), 0.5))
    result = xp.where(xp.equal(x, 1.0), math.inf, result)
    return xp.where(x > 1.0, math.nan, result)
