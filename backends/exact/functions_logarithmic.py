"""Logarithms and the inverse hyperbolic functions: bodies for ``functions.py``."""

from __future__ import annotations

import math

from onemodel.backends.exact.functions import function, numbers, polynomial, table
from onemodel.backends.exact.program import Trace, Value

OFFSET = 0x3FE6000000000000
"""Bits of 0.6875: significands are taken from [0.6875, 1.375), so that the exponent is 0 around 1."""

EXPONENT = -(1 << 52)
_BITS = 10
_HIGH = -(1 << 24)


def cells(bits: Value, xp: Trace) -> tuple[Value, Value, Value]:
    """Exponent, significand and place in the table, of a positive float64 given by its bits."""
    shifted = bits - OFFSET
    place = (shifted >> (52 - _BITS)) & ((1 << _BITS) - 1)
    significand = xp.bitcast(bits - (shifted & EXPONENT), "float64")
    return xp.astype(shifted >> 52, "float64"), significand, place


def _parts(x: Value, xp: Trace) -> tuple[Value, Value, Value]:
    """Exponent k, r and place with x = 2**k (1 + r) / reciprocal[place]; r is exact for a float32 x."""
    exponent, significand, place = cells(xp.bitcast(xp.astype(x, "float64"), "int64"), xp)
    return exponent, significand * xp.take(table("log_reciprocal"), place) - 1.0, place


def _bent(r: Value) -> Value:
    """log(1 + r) - r."""
    return polynomial(r, numbers("log_series")) * (r * r)


def _positive(x: Value, result: Value, xp: Trace) -> Value:
    """``result`` where x is positive and finite; -infinity at zero, NaN below."""
    # As an unsigned integer less 1, zero lies above the infinity, like all negative numbers and NaN.
    outside = (xp.bitcast(x, "uint32") - 1) >= 0x7F7FFFFF
    return xp.mend(outside, result, _logarithm_outside, x)


def _logarithm_outside(x: Value, xp: Trace) -> Value:
    wide = xp.astype(x, "float64")
    infinite = xp.where(xp.equal(x, 0.0), -math.inf, wide)
    return xp.where(x < 0.0, math.nan, infinite)


@function()
def log(x: Value, xp: Trace) -> Value:
    """The natural logarithm."""
    exponent, r, place = _parts(x, xp)
    unit = numbers("log_units")[0]
    return _positive(x, (exponent * unit + xp.take(table("log_value"), place)) + (_bent(r) + r), xp)


@function()
def log2(x: Value, xp: Trace) -> Value:
    """The logarithm to base 2."""
    exponent, r, place = _parts(x, xp)
    unit = numbers("log_units")[1]
    return _positive(x, (exponent + xp.take(table("log2_value"), place)) + (_bent(r) + r) * unit, xp)


@function()
def log10(x: Value, xp: Trace) -> Value:
    """The logarithm to base 10."""
    exponent, r, place = _parts(x, xp)
    _, _, unit, octave = numbers("log_units")
    return _positive(x, (exponent * octave + xp.take(table("log10_value"), place)) + (_bent(r) + r) * unit, xp)


def logarithm_of_one_plus(v: Value, xp: Trace) -> Value:
    """log(1 + v) of float64 above -1, to 2**-51 of its value."""
    total = v + 1.0
    part = total - 1.0
    lost = (1.0 - (total - part)) + (v - part)
    exponent, significand, place = cells(xp.bitcast(total, "int64"), xp)
    reciprocal = xp.take(table("log_reciprocal"), place)
    high = xp.bitcast(xp.bitcast(significand, "int64") & _HIGH, "float64")
    r = (high * reciprocal - 1.0) + (significand - high) * reciprocal
    base = exponent * numbers("log_units")[0] + xp.take(table("log_value"), place)
    return base + ((_bent(r) + lost / total) + r)


@function("sign")
def log1p(x: Value, xp: Trace) -> Value:
    """log(1 + x): -infinity at -1, NaN below."""
    result = logarithm_of_one_plus(xp.astype(x, "float64"), xp)
    inside = (x > -1.0) & (x < math.inf)
    return xp.mend(xp.logical_not(inside), result, _log1p_outside, x)


def _log1p_outside(x: Value, xp: Trace) -> Value:
    wide = xp.astype(x, "float64")
    infinite = xp.where(xp.equal(x, -1.0), -math.inf, wide)
    return xp.where(x < -1.0, math.nan, infinite)


@function("odd")
def asinh(x: Value, xp: Trace) -> Value:
    """log(1 + v) with v = x + x**2 / (1 + sqrt(1 + x**2))."""
    a = xp.astype(x, "float64")
    square = a * a
    result = logarithm_of_one_plus(a + square / (xp.sqrt(square + 1.0) + 1.0), xp)
    return xp.mend(xp.equal(x, math.inf), result, _widened, x)


def _widened(x: Value, xp: Trace) -> Value:
    return xp.astype(x, "float64")


@function()
def acosh(x: Value, xp: Trace) -> Value:
    """log(1 + v) with v = (x - 1) + sqrt((x - 1) (x + 1)); NaN below 1."""
    a = xp.astype(x, "float64") - 1.0
    result = logarithm_of_one_plus(a + xp.sqrt(a * (a + 2.0)), xp)
    inside = (x >= 1.0) & (x < math.inf)
    return xp.mend(xp.logical_not(inside), result, _acosh_outside, x)


def _acosh_outside(x: Value, xp: Trace) -> Value:
    return xp.where(x < 1.0, math.nan, xp.astype(x, "float64"))


@function("odd")
def atanh(x: Value, xp: Trace) -> Value:
    """log(1 + 2 x / (1 - x)) / 2; infinite at 1, NaN beyond."""
    a = xp.astype(x, "float64")
    result = logarithm_of_one_plus((a + a) / (1.0 - a), xp) * 0.5
    return xp.mend(x >= 1.0, result, _atanh_outside, x)


def _atanh_outside(x: Value, xp: Trace) -> Value:
    wide = xp.astype(xp.equal(x, 1.0), "float64")
    return xp.where(xp.equal(x, 1.0), math.inf, wide * math.nan)
