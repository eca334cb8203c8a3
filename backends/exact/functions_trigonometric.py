"""Trigonometric functions and their inverses: bodies for ``functions.py``."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from onemodel.backends.exact.functions import MAGIC, cell, function, numbers, polynomial, table, tabled
from onemodel.backends.exact.program import Trace, Value

_CIRCLE = 1024
"""Steps of the table; a step is 2 pi / 1024."""

_SMALL = 2.0**18
"""Below it x * 1024 / (2 pi) is reduced with three pieces of the factor."""


def _reduce(x: Value, xp: Trace) -> tuple[Value, Value]:
    """The step of the circle nearest to x in [0, 2**18), and the rest in steps."""
    a = xp.astype(x, "float64")
    first, second, third, _ = numbers("sin_scale")
    product = a * first
    shifted = product + MAGIC
    rest = (product - (shifted - MAGIC)) + a * second + a * third
    return xp.bitcast(shifted, "int64") & (_CIRCLE - 1), rest


def _reduce_large(x: Value, xp: Trace) -> tuple[Value, Value]:
    """The same for any normal float32, by Payne and Hanek's method.

    x is an integer times a power of two; 1024 / (2 pi) times this power, less whole turns, is in a table, in pieces
    whose products with the integer are exact.
    """
    bits = xp.bitcast(x, "uint32")
    exponent = xp.astype(bits >> 23, "int64")
    whole = xp.astype((bits & 0x7FFFFF) | 0x800000, "float64")
    pieces = [xp.take(row, exponent) * whole for row in table("sin_large")]
    shifted = pieces[0] + MAGIC
    rest = (pieces[0] - (shifted - MAGIC)) + pieces[1]
    again = rest + MAGIC
    rest = (rest - (again - MAGIC)) + pieces[2] + pieces[3]
    return (xp.bitcast(shifted, "int64") + xp.bitcast(again, "int64")) & (_CIRCLE - 1), rest


def _sine(place: Value, r: Value, xp: Trace) -> Value:
    sine, cosine = xp.take(table("sin"), place), xp.take(_cosines(), place)
    square = r * r
    small = polynomial(square, numbers("sin_series")) * r
    bent = polynomial(square, numbers("cos_series")) * square
    return sine + (sine * bent + cosine * small)


def _cosine(place: Value, r: Value, xp: Trace) -> Value:
    sine, cosine = xp.take(table("sin"), place), xp.take(_cosines(), place)
    square = r * r
    small = polynomial(square, numbers("sin_series")) * r
    bent = polynomial(square, numbers("cos_series")) * square
    return cosine + (cosine * bent - sine * small)


def _tangent(place: Value, r: Value, xp: Trace) -> Value:
    return _sine(place, r, xp) / _cosine(place, r, xp)


def _cosines() -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.roll(table("sin"), -_CIRCLE // 4)


def _of_angle(x: Value, xp: Trace, final: Callable[[Value, Value, Trace], Value]) -> Value:
    """``final`` of the reduced angle x >= 0; NaN at infinity."""

    def large(x: Value, xp: Trace) -> Value:
        return xp.where(x < math.inf, final(*_reduce_large(x, xp), xp), xp.astype(x, "float64") * 0.0)

    return xp.mend(x >= _SMALL, final(*_reduce(x, xp), xp), large, x)


@function("odd")
def sin(x: Value, xp: Trace) -> Value:
    """Sine."""
    return _of_angle(x, xp, _sine)


@function("even")
def cos(x: Value, xp: Trace) -> Value:
    """Cosine."""
    return _of_angle(x, xp, _cosine)


@function("odd")
def tan(x: Value, xp: Trace) -> Value:
    """Tangent."""
    return _of_angle(x, xp, _tangent)


@function("odd", high=1.3e8)
def atan(x: Value, xp: Trace) -> Value:
    """Inverse tangent: 64 cells an octave from 2**-8 on."""
    centre, *rows = table("atan")
    first = ((127 - 8) << 6) - 1
    top = xp.maximum(xp.bitcast(x, "uint32") >> (23 - 6), first)
    index = xp.astype(top - first, "int64")
    return tabled(index, xp.astype(x, "float64") - xp.take(centre, index), np.array(rows), xp)


@function("odd")
def asin(x: Value, xp: Trace) -> Value:
    """Inverse sine: up to 1/2 by a table, above as pi / 2 - acos(x), this from 1 - x. NaN above 1."""
    near, far = table("asin"), table("acos")
    _, quarter = numbers("pi")
    upper = x > 0.5
    a, is_upper = xp.astype(x, "float64"), xp.astype(upper, "float64")
    a = xp.minimum(a, 1.0 - a)
    root = xp.sqrt(a * is_upper + (1.0 - is_upper))
    index, r = cell(a, 1 / 128, xp)
    index = index + xp.astype(upper, "int64") * near.shape[1]
    value = tabled(index, r, np.concatenate([near, far], axis=1), xp) * root
    return is_upper * quarter + value * (is_upper * -2.0 + 1.0)


@function()
def acos(x: Value, xp: Trace) -> Value:
    """Inverse cosine, from 1 - |x|. NaN beyond 1."""
    u = 1.0 - xp.astype(xp.abs(x), "float64")
    index, r = cell(u, 1 / 128, xp)
    value = tabled(index, r, table("acos"), xp) * xp.sqrt(u)
    half, _ = numbers("pi")
    negative = xp.astype(xp.bitcast(x, "uint32") >> 31, "int64")
    sign, base = xp.take(np.array([1.0, -1.0]), negative), xp.take(np.array([0.0, half]), negative)
    return base + value * sign
