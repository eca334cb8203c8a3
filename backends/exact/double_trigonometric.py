"""Trigonometric functions of float64 and their inverses: bodies for ``double.py``."""

from __future__ import annotations

import math

from onemodel.backends.exact import double_double as dd
from onemodel.backends.exact.double import double_function, unit
from onemodel.backends.exact.double_double import Number, Pair
from onemodel.backends.exact.functions import MAGIC, table
from onemodel.backends.exact.program import Trace, Value

_CIRCLE = 1024


def _reduce(x: Value, xp: Trace) -> tuple[Value, Pair]:
    """The step of the circle nearest to x >= 0 and the angle from there, by Payne and Hanek's method.

    x is an integer times a power of two; 1024 / (2 pi) times this power, less whole turns, is in a table, in pieces of
    26 bits, whose products with the halves of the integer are exact.
    """
    bits = xp.bitcast(x, "int64")
    exponent = bits >> 52
    whole = xp.astype((bits & 0xFFFFFFFFFFFFF) | (xp.minimum(exponent, 1) << 52), "float64")
    halves = dd.split(whole, xp)
    total: list[Number] = [x * 0.0, x * 0.0, x * 0.0]
    steps = x * 0.0
    for j, row in enumerate(table("double_sin_large")):
        piece = xp.take(row, exponent)
        for half in halves:
            term = piece * half
            term = term - xp.round(term * (1 / _CIRCLE)) * float(_CIRCLE)
            total[0], error = dd.two_sum(total[0], term)
            total[1], error = dd.two_sum(total[1], error)
            total[2] = total[2] + error
        if j >= 2:
            # From here on the terms are below 1: what whole steps there are can go.
            turned = xp.round(total[0])
            steps, total[0] = steps + turned, total[0] - turned
    high, low = dd.two_sum(total[0], total[1])
    angle = dd.multiply(dd.fast_two_sum(high, low + total[2]), unit("angle"), xp)
    return xp.bitcast(steps + MAGIC, "int64") & (_CIRCLE - 1), angle


def _sine_cosine(x: Value, xp: Trace) -> tuple[Pair, Pair]:
    place, angle = _reduce(x, xp)
    square = dd.multiply(angle, angle, xp)
    small = dd.multiply(_series("double_sin_series", square, xp), angle, xp)
    large = _series("double_cos_series", square, xp)
    values = table("double_sin")
    quarter = (place + _CIRCLE // 4) & (_CIRCLE - 1)
    sine = (xp.take(values[0], place), xp.take(values[1], place))
    cosine = (xp.take(values[0], quarter), xp.take(values[1], quarter))
    return (
        dd.add(dd.multiply(sine, large, xp), dd.multiply(cosine, small, xp)),
        dd.add(dd.multiply(cosine, large, xp), dd.negative(dd.multiply(sine, small, xp))),
    )


def _series(name: str, square: Pair, xp: Trace) -> Pair:
    high, low = table(name).tolist()
    return dd.polynomial(square, high, low[:4], xp)


def _finite(x: Value, a: Pair, xp: Trace) -> Value:
    return xp.where(xp.equal(x, math.inf), math.nan, a[0] + a[1])


@double_function("odd", identity=True)
def sin(x: Value, xp: Trace) -> Value:
    """Sine."""
    return _finite(x, _sine_cosine(x, xp)[0], xp)


@double_function("even")
def cos(x: Value, xp: Trace) -> Value:
    """Cosine."""
    return _finite(x, _sine_cosine(x, xp)[1], xp)


@double_function("odd", identity=True)
def tan(x: Value, xp: Trace) -> Value:
    """Tangent."""
    return _finite(x, dd.divide(*_sine_cosine(x, xp), xp), xp)


def angle_of(y: Pair, x: Pair, xp: Trace) -> Pair:
    """The angle in [0, pi / 2] of the point (x, y), y and x >= 0 and not both 0.

    With q the smaller over the larger coordinate and c near q, atan(q) = atan(c) + atan((q - c) / (1 + q c)).
    """
    steep = y[0] > x[0]
    q = dd.divide(dd.select(steep, x, y, xp), dd.select(steep, y, x, xp), xp)
    shifted = q[0] * 128.0 + MAGIC
    centre = (shifted - MAGIC) * (1 / 128)
    t = dd.divide(dd.add_number(q, -centre), dd.add_number(dd.times(q, centre, xp), 1.0), xp)
    series = dd.multiply(_series("double_atan_series", dd.multiply(t, t, xp), xp), t, xp)
    place = xp.bitcast(shifted, "int64") & 0xFF
    values = table("double_atan")
    angle = dd.add((xp.take(values[0], place), xp.take(values[1], place)), series)
    return dd.select(steep, dd.add(unit("pi/2"), dd.negative(angle)), angle, xp)


def _pair(x: Number, like: Value) -> Pair:
    zero = like * 0.0
    return zero + x, zero


@double_function("odd", high=2.0**200, identity=True)
def atan(x: Value, xp: Trace) -> Value:
    """Inverse tangent."""
    return dd.total(angle_of(_pair(x, x), _pair(1.0, x), xp))


def _other_side(x: Value, xp: Trace) -> Pair:
    """sqrt(1 - x**2)."""
    return dd.square_root(dd.multiply(dd.two_sum(1.0, -x), dd.two_sum(1.0, x), xp), xp)


@double_function("odd", identity=True)
def asin(x: Value, xp: Trace) -> Value:
    """Inverse sine; NaN above 1."""
    return xp.where(x > 1.0, math.nan, dd.total(angle_of(_pair(x, x), _other_side(x, xp), xp)))


@double_function()
def acos(x: Value, xp: Trace) -> Value:
    """Inverse cosine; NaN beyond 1."""
    size = xp.abs(x)
    angle = angle_of(_other_side(size, xp), _pair(size, x), xp)
    angle = dd.select(x < 0.0, dd.add(unit("pi"), dd.negative(angle)), angle, xp)
    return xp.where(size > 1.0, math.nan, angle[0] + angle[1])
