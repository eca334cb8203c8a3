"""The exponential function of float64 and what is made of it: bodies for ``double.py``."""

from __future__ import annotations

from dataclasses import dataclass

from onemodel.backends.exact import double_double as dd
from onemodel.backends.exact.double import double_function, unit
from onemodel.backends.exact.double_double import Pair
from onemodel.backends.exact.double_logarithmic import logarithm
from onemodel.backends.exact.functions import MAGIC, numbers, table
from onemodel.backends.exact.program import Trace, Value

_BITS = 11
_MAGIC_BITS = 0x4338000000000000

_SCALE = 150
"""Powers of two by which products with tiny numbers are lifted, so that no error term underflows."""


@dataclass(frozen=True)
class Power:
    """exp(a) = (power + change) * 2**exponent: a table's power of two, and power * (exp(r) - 1)."""

    power: Pair
    change: Pair
    exponent: Value

    def significand(self) -> Pair:
        """Between 1 and 2."""
        return dd.add(self.power, self.change)

    def significand_to_odd(self, xp: Trace) -> Pair:
        """The same, with all bits of a small ``change``: they tell a tie from what is next to one."""
        return dd.add_to_odd(self.power, self.change, xp)

    def less(self, number: float, xp: Trace) -> Pair:
        """(exp(a) - number) / 2**exponent, accurate also where that is small; ``number`` is 1 or -1."""
        shift = dd.power_of_two(-self.exponent, xp) * number
        return dd.add(dd.add_number(self.power, -shift), self.change)

    def value(self, xp: Trace) -> Pair:
        """exp(a), where it neither overflows nor matters when it underflows."""
        return dd.scaled(self.significand(), dd.power_of_two(self.exponent, xp))


def _power(shifted: Value, r: Pair, xp: Trace) -> Power:
    bits = xp.bitcast(shifted, "int64")
    place = bits & ((1 << _BITS) - 1)
    high = xp.bitcast(xp.take(table("exp_bits"), place) + (place << (52 - _BITS)), "float64")
    power = (high, high * xp.take(table("exp_rest"), place))
    high_parts, low_parts = table("double_exp").tolist()
    grown = dd.multiply(dd.polynomial(r, high_parts, low_parts[:4], xp), r, xp)
    return Power(power, dd.multiply(power, grown, xp), (bits - _MAGIC_BITS) >> _BITS)


def exponential(a: Pair, xp: Trace) -> Power:
    """exp(a[0] + a[1]) for |a[0]| up to 800; beyond, that of the nearest end."""
    inverse, first, second, third = numbers("double_exp_step")
    high = xp.minimum(xp.maximum(a[0], -800.0), 800.0)
    shifted = high * inverse + MAGIC
    whole = shifted - MAGIC
    r, error = dd.two_sum(high - whole * first, -(whole * second))
    return _power(shifted, dd.fast_two_sum(r, error + (a[1] - whole * third)), xp)


def _of(x: Value, xp: Trace) -> Power:
    return exponential((x, 0.0), xp)


@double_function()
def exp(x: Value, xp: Trace) -> Value:
    """e to the power x."""
    power = _of(x, xp)
    return dd.rounded(power.significand_to_odd(xp), power.exponent, xp)


@double_function(low=-1100.0, high=1100.0)
def exp2(x: Value, xp: Trace) -> Value:
    """2 to the power x."""
    steps = x * float(1 << _BITS)
    shifted = steps + MAGIC
    rest = (steps - (shifted - MAGIC)) * (1.0 / (1 << _BITS))
    power = _power(shifted, dd.times(unit("ln2"), rest, xp), xp)
    return dd.rounded(power.significand(), power.exponent, xp)


@double_function("sign", low=-45.0, high=800.0, identity=True)
def expm1(x: Value, xp: Trace) -> Value:
    """exp(x) - 1."""
    power = _of(x, xp)
    result = dd.rounded(power.less(1.0, xp), power.exponent, xp)
    # Here and below: of a small x three terms of the series, whose last one tells which side of a tie the result is on.
    square, error = dd.scaled(dd.two_product(x, x, xp), 0.5)
    small = dd.total(dd.add_to_odd((x, 0.0), (square, error + x * x * x * (1 / 6)), xp))
    return xp.where(xp.abs(x) < 2.0**-40, small, result)


@double_function("odd", high=800.0, identity=True)
def sinh(x: Value, xp: Trace) -> Value:
    """(m + m / E) / 2 with m = exp(x) - 1 and E = exp(x)."""
    power = _of(x, xp)
    m = power.less(1.0, xp)
    other = dd.scaled(dd.divide(m, power.significand(), xp), dd.power_of_two(-power.exponent, xp))
    return dd.rounded(dd.add(m, other), power.exponent - 1, xp)


@double_function("even", high=800.0)
def cosh(x: Value, xp: Trace) -> Value:
    """(E + 1 / E) / 2 with E = exp(x)."""
    power = _of(x, xp)
    e, shift = power.significand(), dd.power_of_two(-power.exponent, xp)
    other = dd.scaled(dd.divide((1.0, 0.0), e, xp), shift * shift)
    result = dd.rounded(dd.add(e, other), power.exponent - 1, xp)
    square, error = dd.scaled(dd.two_product(x, x, xp), 0.5)
    small = dd.total(dd.add_to_odd((1.0, 0.0), (square, error + square * square * (1 / 6)), xp))
    return xp.where(x < 2.0**-20, small, result)


@double_function("odd", high=20.0, identity=True)
def tanh(x: Value, xp: Trace) -> Value:
    """(E - 1) / (E + 1) with E = exp(2 x)."""
    power = _of(x + x, xp)
    return dd.total(dd.divide(power.less(1.0, xp), power.less(-1.0, xp), xp))


def _share(a: Pair, xp: Trace) -> tuple[Pair, Value]:
    """1 / (1 + exp(-a)) as a pair times a power of two, whose exponent comes second."""
    below = a[0] < 0.0
    power = exponential(dd.scaled(a, xp.astype(below, "float64") * 2.0 - 1.0), xp)
    e = power.significand()
    zero = e[0] * 0.0
    above = dd.select(below, e, (zero + 1.0, zero), xp)
    return dd.divide(above, dd.add_number(power.value(xp), 1.0), xp), xp.where(
        below, power.exponent, power.exponent * 0
    )


@double_function()
def sigmoid(x: Value, xp: Trace) -> Value:
    """1 / (1 + exp(-x))."""
    share, exponent = _share((x, 0.0), xp)
    result = dd.rounded(share, exponent, xp)
    # 1 / 2 + x / 4, and less than that by more than nothing.
    small = dd.total(dd.add_to_odd((0.5, 0.0), (x * 0.25, x * -(2.0**-120)), xp))
    return xp.where(xp.abs(x) < 2.0**-26, small, result)


def lifted(x: Value, xp: Trace) -> tuple[Value, Value]:
    """x times 2**150 where it is below 2**-200, and the exponent that takes that back."""
    tiny = xp.abs(x) < 2.0**-200
    return xp.where(tiny, x * 2.0**_SCALE, x), xp.astype(tiny, "int64") * -_SCALE


def nudged(product: Pair, x: Value, xp: Trace) -> Pair:
    """x / 2 and a little more, where the little more is lost and x / 2 may be a tie."""
    return dd.fast_two_sum(product[0], product[1] + xp.abs(x) * 2.0**-118)


def _gated(x: Value, a: Pair, xp: Trace) -> Value:
    """x / (1 + exp(-a)); x itself where it is huge."""
    share, exponent = _share(a, xp)
    safe = xp.minimum(xp.maximum(x, -800.0), 2.0**900)
    lift, back = lifted(safe, xp)
    result = dd.rounded(nudged(dd.times(share, lift, xp), lift, xp), exponent + back, xp)
    return xp.where(x >= 2.0**900, x, result)


@double_function("sign", gate=True)
def silu(x: Value, xp: Trace) -> Value:
    """x sigmoid(x)."""
    return _gated(x, (x, 0.0), xp)


@double_function("sign", gate=True)
def gelu_tanh(x: Value, xp: Trace) -> Value:
    """x sigmoid(u) with u = 2 sqrt(2 / pi) (x + 0.044715 x**3), all exact numbers."""
    a = xp.minimum(xp.maximum(x, -30.0), 30.0)
    bent = dd.multiply(dd.two_product(a, a, xp), unit("gelu cubic"), xp)
    u = dd.times(dd.add(bent, unit("gelu rate")), a, xp)
    return _gated(x, u, xp)


@double_function("sign", gate=True)
def mish(x: Value, xp: Trace) -> Value:
    """x E (E + 2) / (E (E + 2) + 2) with E = exp(x)."""
    power = _of(xp.minimum(x, 40.0), xp)
    e = power.value(xp)
    more = dd.add_number(e, 2.0)
    share = dd.multiply(power.significand(), dd.divide(more, dd.add_number(dd.multiply(e, more, xp), 2.0), xp), xp)
    lift, back = lifted(xp.minimum(xp.maximum(x, -800.0), 2.0**900), xp)
    result = dd.rounded(dd.times(share, lift, xp), power.exponent + back, xp)
    return xp.where(x >= 2.0**900, x, result)


@double_function()
def softplus(x: Value, xp: Trace) -> Value:
    """max(x, 0) + log(1 + e) with e = exp(-|x|); where e is tiny, that logarithm is e (1 - e / 2)."""
    power = _of(-xp.abs(x), xp)
    e = power.value(xp)
    total, error = dd.two_sum(1.0, e[0])
    high, low = dd.add_number(logarithm(total, (error, e[1]), xp), xp.maximum(x, 0.0))
    tail = dd.multiply(power.significand(), dd.add_number(dd.scaled(e, -0.5), 1.0), xp)
    result = xp.where(x < -60.0, dd.rounded(tail, power.exponent, xp), high + low)
    return xp.where(x > 800.0, x, result)
