"""The error function of float64 and what is made of it: bodies for ``double.py``."""

from __future__ import annotations

import math

from onemodel.backends.exact import double_double as dd
from onemodel.backends.exact.double import double_function, unit
from onemodel.backends.exact.double_exponential import exponential, lifted, nudged
from onemodel.backends.exact.functions import cell, table
from onemodel.backends.exact.program import Trace, Value


@double_function("odd", high=6.0)
def erf(x: Value, xp: Trace) -> Value:
    """Error function: polynomials about multiples of 1/16; it rounds to 1 from 5.93 on."""
    high, low = table("double_erf")
    lift, back = lifted(x, xp)
    index, r = cell(lift, 1 / 16, xp)
    value = dd.tabled(index, (r, 0.0), high, low[:11], xp)
    return dd.rounded(value, back, xp)


@double_function("sign", gate=True)
def gelu(x: Value, xp: Trace) -> Value:
    """max(x, 0) - |x| erfc(t) / 2 with t = |x| / sqrt(2), erfc(t) = exp(-x**2 / 2) times a slowly falling function."""
    size = xp.minimum(xp.abs(x), 38.9)
    t = dd.times(unit("sqrt(1/2)"), size, xp)
    index, r = cell(t[0], 1 / 8, xp)
    high, low = table("double_erfc")
    factor = dd.tabled(index, dd.fast_two_sum(r, t[1]), high, low[:14], xp)
    power = exponential(dd.scaled(dd.two_product(size, size, xp), -0.5), xp)
    tail = dd.multiply(factor, power.significand(), xp)
    lift, back = lifted(size, xp)
    tail = dd.scaled(dd.times(tail, lift, xp), -0.5)
    below = x < 0.0
    whole = dd.add_number(dd.scaled(tail, dd.power_of_two(power.exponent, xp)), lift)
    result = nudged(dd.select(below, tail, whole, xp), lift, xp)
    exponent = back + xp.where(below, power.exponent, power.exponent * 0)
    return xp.where(x > 38.9, x, dd.rounded(result, exponent, xp))


@double_function()
def rsqrt(x: Value, xp: Trace) -> Value:
    """1 / sqrt(x)."""
    tiny, huge = x < 2.0**-500, x > 2.0**500
    t = xp.where(tiny, x * 2.0**200, xp.where(huge, x * 2.0**-200, x))
    high, low = dd.divide((1.0, 0.0), dd.square_root((t, 0.0), xp), xp)
    root = high + low
    result = xp.where(tiny, root * 2.0**100, xp.where(huge, root * 2.0**-100, root))
    result = xp.where(xp.equal(x, math.inf), 0.0, result)
    return xp.where(xp.equal(x, 0.0), 1.0 / x, result)
