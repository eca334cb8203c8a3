"""The exponential function and what is made of it: bodies for ``functions.py``."""

from __future__ import annotations

from onemodel.backends.exact.functions import MAGIC, function, numbers, polynomial, table
from onemodel.backends.exact.program import Trace, Value

_BITS = 11
_MASK = (1 << _BITS) - 1

NUDGE = 2.0**-179
"""Less than any float64 that matters, and more than half a unit below float32's subnormal ties.

silu and gelu of x near 0 are x / 2 and a little more; where x / 2 is a tie the little more decides.
"""


def scale_of(shifted: Value, xp: Trace) -> tuple[Value, Value]:
    """2**(n / 2048) for the integer n in the low bits of ``shifted``, and its place in the table."""
    bits = xp.bitcast(shifted, "int64")
    place = bits & _MASK
    return xp.bitcast(xp.take(table("exp_bits"), place) + (bits << (52 - _BITS)), "float64"), place


def _reduce(a: Value, xp: Trace) -> tuple[Value, Value, Value]:
    """r, s and a place in the table with exp(a) = s exp(r), s a table's power of two."""
    steps, high, low = numbers("exp_step")
    shifted = a * steps + MAGIC
    whole = shifted - MAGIC
    r = a - whole * high - whole * low
    return r, *scale_of(shifted, xp)


def exponential(a: Value, xp: Trace) -> Value:
    """exp(a) of float64 between -700 and 700, relative error 2**-51."""
    r, scale, _ = _reduce(a, xp)
    second, third = numbers("exp_short")
    rest = ((r * third + second) * r + 1.0) * r
    return scale + rest * scale


def exponential_less_one(a: Value, xp: Trace) -> Value:
    """exp(a) - 1, to 2**-51 of its value: the table's own rounding errors are added back."""
    r, scale, place = _reduce(a, xp)
    rest = polynomial(r, numbers("exp_long")) * r * r + r + xp.take(table("exp_rest"), place)
    return (scale - 1.0) + rest * scale


@function(low=-104.0, high=89.0)
def exp(x: Value, xp: Trace) -> Value:
    """e to the power x."""
    return exponential(xp.astype(x, "float64"), xp)


@function(low=-151.0, high=129.0)
def exp2(x: Value, xp: Trace) -> Value:
    """2 to the power x; x * 2048 and its fraction are exact."""
    a = xp.astype(x, "float64") * float(1 << _BITS)
    shifted = a + MAGIC
    r = a - (shifted - MAGIC)
    scale, _ = scale_of(shifted, xp)
    return scale + polynomial(r, numbers("exp2")) * r * scale


@function("sign", low=-40.0, high=89.0)
def expm1(x: Value, xp: Trace) -> Value:
    """exp(x) - 1."""
    return exponential_less_one(xp.astype(x, "float64"), xp)


@function("even", high=90.0)
def cosh(x: Value, xp: Trace) -> Value:
    """(E + 1 / E) / 2 with E = exp(x)."""
    e = exponential(xp.astype(x, "float64"), xp)
    return e * 0.5 + 0.5 / e


@function("odd", high=90.0)
def sinh(x: Value, xp: Trace) -> Value:
    """(m + m / (m + 1)) / 2 with m = exp(x) - 1."""
    m = exponential_less_one(xp.astype(x, "float64"), xp)
    return (m + m / (m + 1.0)) * 0.5


@function(low=-104.0, high=89.0)
def sigmoid(x: Value, xp: Trace) -> Value:
    """E / (E + 1)."""
    e = exponential(xp.astype(x, "float64"), xp)
    return e / (e + 1.0)


@function("sign", low=-110.0, gate=True)
def silu(x: Value, xp: Trace) -> Value:
    """x E / (E + 1)."""
    e = exponential(xp.astype(xp.minimum(x, 89.0), "float64"), xp)
    return e * xp.astype(x, "float64") / (e + 1.0) + NUDGE


@function("sign", low=-110.0, gate=True)
def mish(x: Value, xp: Trace) -> Value:
    """x tanh(log(1 + E)) = x n / (n + 2) with n = E (E + 2)."""
    e = exponential(xp.astype(xp.minimum(x, 60.0), "float64"), xp)
    n = (e + 2.0) * e
    return n * xp.astype(x, "float64") / (n + 2.0)


@function("sign", low=-110.0, gate=True)
def gelu_tanh(x: Value, xp: Trace) -> Value:
    """x (1 + tanh(u / 2)) / 2 = x exp(u) / (exp(u) + 1) with u = 2 sqrt(2 / pi) (x + 0.044715 x**3), all exact numbers.

    u is the sum of an exact product and a rest; its rounding, up to 2**-47 where the result is smallest, is the error.
    """
    linear, linear_low, cubic = numbers("gelu_tanh")
    wide = xp.astype(x, "float64")
    a = xp.maximum(xp.minimum(wide, 11.0), -11.0)
    u = a * linear + (a * linear_low + a * a * a * cubic)
    e = exponential(u, xp)
    return e * wide / (e + 1.0) + NUDGE
