"""Functions of two numbers: pow and atan2, of float32 and float64.

pow of float32 is computed to about 2**-50 first. Where that is too near a boundary of rounding, and for all other
types, pairs of float64 are computed with.
"""

from __future__ import annotations

import math
from functools import cache

from onemodel.backends.exact import double_double as dd
from onemodel.backends.exact.double import unit
from onemodel.backends.exact.double_double import Pair
from onemodel.backends.exact.double_exponential import exponential
from onemodel.backends.exact.double_logarithmic import joined, normal, parts
from onemodel.backends.exact.double_trigonometric import angle_of
from onemodel.backends.exact.functions import MAGIC, numbers, polynomial, table
from onemodel.backends.exact.functions_exponential import scale_of
from onemodel.backends.exact.functions_logarithmic import cells
from onemodel.backends.exact.program import Program, Trace, Value, trace

_SETTLE = MAGIC * 2.0**-88
"""Adding it rounds to a multiple of 2**-88.

x**y is a tie or a number of the type itself only where it has few bits. The pairs' last bits would hide that.
"""

_MOST_SHIFT = 1200.0
"""Whole powers of two that are taken out of a power; more than that is out of range anyway, or next to it."""

_MARGIN = 2.0**-50
"""What the fast program's relative error stays below."""

_STEP_CUT = -(1 << 39)
"""Keeps 14 significant bits."""


def _magnitude(x: Value, y: Value, xp: Trace) -> tuple[Pair, Value]:
    """x**y for finite x > 0 and finite y, as a pair in [1, 2) times a power of two."""
    t, offset = normal(x, xp)
    exponent, rest = parts(t, (0.0, 0.0), xp)
    exponent = exponent + offset
    shift, lost = dd.two_product(exponent, y, xp)
    apart = xp.equal(xp.round(shift), shift) & xp.equal(lost, 0.0) & (xp.abs(shift) < _MOST_SHIFT)
    log = joined(xp.where(apart, 0.0, exponent), rest, xp)
    guess = log[0] * y
    large = xp.abs(guess) > 790.0
    product = dd.times(log, xp.where(large, 0.0, y), xp)
    power = exponential((xp.where(large, guess, product[0]), product[1]), xp)
    high, low = power.significand()
    result = high, (low + _SETTLE) - _SETTLE
    # Next to a power of two the last bits of the change are known too, and tell a tie from what is next to one.
    near = apart & xp.equal(power.power[0], 1.0) & xp.equal(power.exponent, 0)
    change, more = power.change
    settle = change * 2.0**-28
    close = dd.add_to_odd((1.0, 0.0), (change, (more + settle) - settle), xp)
    whole = xp.astype(xp.where(xp.logical_not(apart), 0.0, shift), "int64")
    return dd.select(near, close, result, xp), power.exponent + whole


def _special(x: Value, y: Value, result: Value, xp: Trace) -> Value:
    """What IEEE 754 says of signs, zeros, infinities and NaN, where ``result`` is |x|**y."""
    size = xp.abs(x)
    whole, half = xp.equal(xp.round(y), y), y * 0.5
    odd = whole & xp.not_equal(xp.round(half), half) & (xp.abs(y) < math.inf)
    ends = xp.equal(size, 0.0) | xp.equal(size, math.inf) | xp.equal(xp.abs(y), math.inf)
    grows = xp.equal(size > 1.0, y > 0.0)
    result = xp.where(ends, 0.0, result)
    result = xp.where(ends & grows, math.inf, result)
    result = xp.where((xp.bitcast(x, "int64") < 0) & odd, -result, result)
    result = xp.where((x < 0.0) & (size < math.inf) & xp.logical_not(whole), math.nan, result)
    result = xp.where(xp.not_equal(x, x) | xp.not_equal(y, y), math.nan, result)
    # From 2**53 on all numbers are even.
    one = xp.equal(y, 0.0) | xp.equal(x, 1.0) | (xp.equal(x, -1.0) & (xp.abs(y) >= 2.0**53))
    return xp.where(one, 1.0, result)


def _pow_pairs(x: Value, y: Value, xp: Trace) -> Value:
    """float64, correctly rounded."""
    pair, exponent = _magnitude(xp.abs(x), y, xp)
    return _special(x, y, dd.rounded(pair, exponent, xp), xp)


def _pow_odd(x: Value, y: Value, xp: Trace) -> Value:
    """float64 rounded to odd, for one more rounding to a type with no more exponents than float32."""
    pair, exponent = _magnitude(xp.abs(x), y, xp)
    return _special(x, y, dd.round_to_odd(pair, xp) * dd.power_of_two(exponent, xp), xp)


def _pow_fast(x: Value, y: Value, xp: Trace) -> Value:
    """x**y = 2**(y log2 x) for finite float32 x > 0 and y, to 2**-50 of its value.

    log2 x = (k + log2 c) + r / ln 2 + ..., where y times the first part, and y times the leading bits of r and of
    1 / ln 2, are exact.
    """
    exponent, significand, place = cells(xp.bitcast(x, "int64"), xp)
    r = significand * xp.take(table("log_reciprocal"), place) - 1.0
    slope, slope_low = numbers("pow_slope")
    r_high = xp.bitcast(xp.bitcast(r, "int64") & _STEP_CUT, "float64")
    bent = (polynomial(r, numbers("pow_series")) * r + slope_low) * r
    rest = (bent + (r - r_high) * slope) + xp.take(table("pow_low"), place)
    total, error = dd.two_sum(y * (exponent + xp.take(table("pow_high"), place)), y * (r_high * slope))
    error = error + y * rest
    steps = float(1 << 11)
    shifted = xp.maximum(xp.minimum(total + error, 160.0), -160.0) * steps + MAGIC
    step = (total - (shifted - MAGIC) * (1 / steps)) + error
    step = xp.maximum(xp.minimum(step, 1 / steps), -1 / steps)
    scale, position = scale_of(shifted, xp)
    growth = polynomial(step, numbers("pow_exp")) * step + xp.take(table("exp_rest"), position)
    return scale + growth * scale


def _pow_single(x: Value, y: Value, xp: Trace) -> Value:
    """float32, correctly rounded."""
    wide_x, wide_y = xp.astype(x, "float64"), xp.astype(y, "float64")
    result = _pow_fast(wide_x, wide_y, xp)
    below, above = (xp.astype(result * factor, "float32") for factor in (1.0 - _MARGIN, 1.0 + _MARGIN))
    usual = (x > 0.0) & (x < math.inf) & (xp.abs(y) < math.inf) & xp.equal(below, above)
    return xp.astype(xp.mend(xp.logical_not(usual), result, _pow_odd, wide_x, wide_y), "float32")


def _fraction(x: Value, xp: Trace) -> tuple[Value, Value]:
    """x >= 0 as a number in [1, 2), or 0, times a power of two, whose exponent comes second."""
    t, offset = normal(x, xp)
    bits = xp.bitcast(t, "int64")
    fraction = xp.bitcast((bits & 0xFFFFFFFFFFFFF) | (1023 << 52), "float64")
    return xp.where(xp.equal(x, 0.0), 0.0, fraction), (bits >> 52) + xp.astype(offset, "int64")


def _atan2(y: Value, x: Value, xp: Trace, *, odd: bool) -> Value:
    """The angle of the point (x, y), rounded once, or rounded to odd.

    Points at infinity are moved to where their direction is 0, 1 or infinite, the origin to (1, 0) or (-1, 0).
    """
    tall, wide = xp.abs(y), xp.abs(x)
    far_up, far_aside = xp.equal(tall, math.inf), xp.equal(wide, math.inf)
    far = far_up | far_aside
    tall = xp.where(far, xp.astype(far_up, "float64"), tall)
    wide = xp.where(far, xp.astype(far_aside, "float64"), wide)
    wide = xp.where(xp.equal(tall, 0.0) & xp.equal(wide, 0.0), 1.0, wide)
    (rise, rise_exponent), (run, run_exponent) = _fraction(tall, xp), _fraction(wide, xp)
    on_axis = xp.equal(tall, 0.0) | xp.equal(wide, 0.0)
    exponent = xp.where(on_axis, 0, rise_exponent - run_exponent)
    right = xp.bitcast(x, "int64") >= 0
    lean = dd.power_of_two(xp.minimum(xp.maximum(exponent, -100), 100), xp)
    zero = rise * 0.0
    angle = angle_of((rise * lean, zero), (run, zero), xp)
    angle = dd.select(right, angle, dd.add(unit("pi"), dd.negative(angle)), xp)
    # A tiny angle is the quotient and a little less, which decides where the quotient is a tie; where it is next to one
    # its rest decides.
    quotient = rise / run
    product, error = dd.two_product(quotient, run, xp)
    rest = ((rise - product) - error) / run
    ratio = (quotient, xp.where(xp.equal(rest, 0.0), -(2.0**-104), rest))
    tiny = right & (exponent < -54)
    if odd:
        small, usual = dd.round_to_odd(ratio, xp) * dd.power_of_two(exponent, xp), dd.round_to_odd(angle, xp)
    else:
        small, usual = dd.rounded(ratio, exponent, xp), angle[0] + angle[1]
    bits = xp.bitcast(xp.where(tiny, small, usual), "int64") | (xp.bitcast(y, "int64") & -(1 << 63))
    return xp.where(xp.not_equal(x, x) | xp.not_equal(y, y), math.nan, xp.bitcast(bits, "float64"))


def _atan2_pairs(y: Value, x: Value, xp: Trace) -> Value:
    """float64, correctly rounded."""
    return _atan2(y, x, xp, odd=False)


def _atan2_odd(y: Value, x: Value, xp: Trace) -> Value:
    """float64 rounded to odd."""
    return _atan2(y, x, xp, odd=True)


def _atan2_single(y: Value, x: Value, xp: Trace) -> Value:
    """float32, correctly rounded."""
    return xp.astype(_atan2(xp.astype(y, "float64"), xp.astype(x, "float64"), xp, odd=True), "float32")


BODIES = {
    ("pow", "float32"): _pow_single,
    ("pow", "float64"): _pow_pairs,
    ("pow", "odd"): _pow_odd,
    ("atan2", "float32"): _atan2_single,
    ("atan2", "float64"): _atan2_pairs,
    ("atan2", "odd"): _atan2_odd,
}
"""By function and dtype; ``"odd"`` is float64 rounded to odd, which types of 16 bits are rounded from."""

NAMES = ("pow", "atan2")


@cache
def program(name: str, dtype: str) -> Program:
    """The program of pow or atan2."""
    return trace(BODIES[name, dtype], ["float32" if dtype == "float32" else "float64"] * 2)
