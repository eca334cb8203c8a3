"""Arithmetic, comparison, logic and bits, element by element, with NumPy's broadcasting."""

from __future__ import annotations

import math
from functools import reduce

from onemodel.ops.registry import operator

# Arithmetic


@operator("Add", since=7, elementwise=True)
def add(a, b, /, *, xp):
    """a + b; integers wrap."""
    return a + b


@operator("Sub", since=7, elementwise=True)
def subtract(a, b, /, *, xp):
    """a - b; integers wrap."""
    return a - b


@operator("Mul", since=7, elementwise=True)
def multiply(a, b, /, *, xp):
    """a * b; integers wrap."""
    return a * b


@operator("Div", since=7, elementwise=True)
def divide(a, b, /, *, xp):
    """a / b; integers truncate toward zero, and a zero divisor is an error."""
    return xp.trunc_divide(a, b) if xp.isdtype(a.dtype, "integral") else a / b


@operator("Pow", since=7, elementwise=True, widen="fast")
def power(x, y, /, *, xp):
    """x to the power y, in x's type. Integer bases are exact, wrap, and truncate 1 / x**n to zero."""
    return xp.power(x, y)


@operator("Mod", since=28, elementwise=True)
def modulo(a, b, /, *, fmod=0, xp):
    """What a division leaves over: rounded down, so with b's sign, or with ``fmod`` toward zero, so with a's."""
    integral = xp.isdtype(a.dtype, "integral")
    if integral:
        xp.refuse_zero(b)
    if not fmod:
        return xp.remainder(a, b)
    return a - xp.trunc_divide(a, b) * b if integral else xp.trunc_remainder(a, b)


@operator("Mod", since=10, elementwise=True)
def modulo_of_integers(a, b, /, *, fmod=0, xp):
    """Before opset 28 floats need ``fmod``."""
    if not fmod and not xp.isdtype(a.dtype, "integral"):
        raise ValueError("Mod of floats needs fmod=1 before opset 28; rounding down came with opset 28")
    return modulo(a, b, fmod=fmod, xp=xp)


@operator("Abs", since=6, elementwise=True)
def absolute(x, /, *, xp):
    """|x|; the least signed integer stays as it is."""
    return xp.abs(x)


@operator("Neg", since=6, elementwise=True)
def negate(x, /, *, xp):
    """-x; the least signed integer stays as it is."""
    return -x


@operator("Sign", since=9, elementwise=True)
def sign(x, /, *, xp):
    """1 above zero, -1 below, 0 at zero; NaN stays NaN."""
    return xp.sign(x)


@operator("Sqrt", since=6, elementwise=True)
def square_root(x, /, *, xp):
    """Square root; NaN below zero."""
    return xp.sqrt(x)


@operator("Reciprocal", since=6, elementwise=True)
def reciprocal(x, /, *, xp):
    """1 / x."""
    return xp.constant(1, x) / x


@operator("Ceil", since=6, elementwise=True)
def ceiling(x, /, *, xp):
    """The least whole number that is not below x."""
    return xp.ceil(x)


@operator("Floor", since=6, elementwise=True)
def floor(x, /, *, xp):
    """The greatest whole number that is not above x."""
    return xp.floor(x)


@operator("Round", since=11, elementwise=True)
def round_half_even(x, /, *, xp):
    """The nearest whole number; halves go to the even one."""
    return xp.round(x)


# Any number of arrays


@operator("Sum", since=8, elementwise=True, widen=False)
def total(*data_0, xp):
    """The sum of all inputs."""
    return xp.add_all(data_0)


@operator("Mean", since=8, elementwise=True)
def mean(*data_0, xp):
    """The sum of all inputs over their number."""
    result = xp.add_all(data_0)
    return result / xp.constant(len(data_0), result)


@operator("Max", since=8, elementwise=True)
def maximum(*data_0, xp):
    """The greatest of all inputs; NaN where one is NaN."""
    return reduce(lambda a, b: xp.maximum(a, b), data_0)


@operator("Min", since=8, elementwise=True)
def minimum(*data_0, xp):
    """The least of all inputs; NaN where one is NaN."""
    return reduce(lambda a, b: xp.minimum(a, b), data_0)


def _of_one_shape(name, function, **options):
    """Enter ``function`` with the meaning before opset 8: no broadcasting."""

    def old(*data_0, xp):
        if any(array.shape != data_0[0].shape for array in data_0):
            raise ValueError(f"shapes {[array.shape for array in data_0]} differ; broadcasting came with opset 8")
        return function(*data_0, xp=xp)

    old.__doc__ = f"{function.__doc__} All have one shape."
    operator(name, since=6, elementwise=True, **options)(old)


_of_one_shape("Sum", total, widen=False)
_of_one_shape("Mean", mean)
_of_one_shape("Max", maximum)
_of_one_shape("Min", minimum)


# Limits


@operator("Clip", since=11, elementwise=True)
def clip(input, min=None, max=None, /, *, xp):
    """Min(max, Max(input, min)): ``max`` wins over ``min``, NaN stays; a limit that is left out does not limit."""
    if min is not None:
        input = xp.maximum(input, _scalar(min, "min", xp))
    if max is not None:
        input = xp.minimum(input, _scalar(max, "max", xp))
    return input


@operator("Clip", since=6, elementwise=True)
def clip_to_attributes(input, /, *, min=-3.4028234663852886e38, max=3.4028234663852886e38, xp):
    """Before opset 11 the limits are attributes; by default they are float32's, which infinities do not pass."""
    return clip(input, xp.constant(min, input), xp.constant(max, input), xp=xp)


def _scalar(limit, name, xp):
    if math.prod(limit.shape) != 1:
        raise ValueError(f"{name} of shape {limit.shape} must be a scalar")
    return xp.reshape(limit, ())


# Comparison and choice


@operator("Equal", since=7, elementwise=True)
def equal(a, b, /, *, xp):
    """a == b; NaN equals nothing."""
    return a == b


@operator("Less", since=7, elementwise=True)
def less(a, b, /, *, xp):
    """a < b."""
    return a < b


@operator("LessOrEqual", since=12, elementwise=True)
def less_or_equal(a, b, /, *, xp):
    """a <= b; false where one is NaN."""
    return a <= b


@operator("Greater", since=7, elementwise=True)
def greater(a, b, /, *, xp):
    """a > b."""
    return a > b


@operator("GreaterOrEqual", since=12, elementwise=True)
def greater_or_equal(a, b, /, *, xp):
    """a >= b; false where one is NaN."""
    return a >= b


@operator("Where", since=9, elementwise=True, widen=False)
def where(condition, x, y, /, *, xp):
    """x where the condition holds, else y."""
    return xp.where(condition, x, y)


@operator("IsNaN", since=9, elementwise=True)
def is_nan(x, /, *, xp):
    """True where x is NaN."""
    return xp.isnan(x)


@operator("IsInf", since=10, elementwise=True)
def is_infinite(x, /, *, detect_negative=1, detect_positive=1, xp):
    """True at infinities of the signs asked for."""
    found = xp.isinf(x)
    if not detect_negative:
        found = found & ~xp.signbit(x)
    return found if detect_positive else found & xp.signbit(x)


# Logic


@operator("Not", since=1, elementwise=True)
def logical_not(x, /, *, xp):
    """The other truth value."""
    return ~x


@operator("And", since=7, elementwise=True)
def logical_and(a, b, /, *, xp):
    """True where both are."""
    return a & b


@operator("Or", since=7, elementwise=True)
def logical_or(a, b, /, *, xp):
    """True where one is, or both."""
    return a | b


@operator("Xor", since=7, elementwise=True)
def logical_xor(a, b, /, *, xp):
    """True where just one is."""
    return a ^ b


# Bits


@operator("BitwiseAnd", since=18, elementwise=True)
def bitwise_and(a, b, /, *, xp):
    """Bits that both have."""
    return a & b


@operator("BitwiseOr", since=18, elementwise=True)
def bitwise_or(a, b, /, *, xp):
    """Bits that one has, or both."""
    return a | b


@operator("BitwiseXor", since=18, elementwise=True)
def bitwise_xor(a, b, /, *, xp):
    """Bits that just one has."""
    return a ^ b


@operator("BitwiseNot", since=18, elementwise=True)
def bitwise_not(x, /, *, xp):
    """All bits turned over."""
    return ~x


@operator("BitShift", since=11, elementwise=True)
def bit_shift(x, y, /, *, direction, xp):
    """x's bits moved by y places; LEFT drops those past the end, RIGHT fills in the sign.

    A y that is negative, or not below the number of bits, moves all bits out.
    """
    if direction not in ("LEFT", "RIGHT"):
        raise ValueError(f"direction {direction!r} must be LEFT or RIGHT")
    bits = xp.iinfo(x.dtype).bits
    inside = (y >= 0) & (y < bits)
    if direction == "RIGHT" and xp.isdtype(x.dtype, "signed integer"):
        return xp.bitwise_right_shift(x, xp.where(inside, y, xp.constant(bits - 1, y)))
    shift = xp.bitwise_left_shift if direction == "LEFT" else xp.bitwise_right_shift
    return xp.where(inside, shift(x, xp.where(inside, y, xp.constant(0, y))), xp.constant(0, x))


@operator("BitCast", since=26, elementwise=True, widen=False)
def bit_cast(input, /, *, to, xp):
    """The same bits read as the type ``to``, which has as many; as a boolean any bit makes true."""
    code = xp.onnx_code(input.dtype)
    if _bits(code) != _bits(to):
        raise ValueError(f"BitCast from {_bits(code)} to {_bits(to)} bits (TensorProto types {code} and {to})")
    input = xp.one_nan(input)
    if to == _BOOL:
        return xp.bitcast(input, xp.onnx_dtype(_UINT8)) != 0
    return xp.bitcast(input, xp.onnx_dtype(to))


_UINT8, _BOOL = 2, 9
_WIDTHS = {2: (25, 26), 4: (21, 22, 23), 16: (4, 5, 10, 16), 32: (1, 6, 12), 64: (7, 11, 13, 14), 128: (15,)}


def _bits(code):
    """How many bits an element has, by its code in TensorProto.DataType; 8 where it isn't listed."""
    return next((bits for bits, codes in _WIDTHS.items() if code in codes), 8)


# Before opset 7: broadcasting on request, along named axes


def _before_opset_7(name, since, function, **options):
    """Enter ``function`` with the old broadcasting: b is one element, or has the shape of a's axes from ``axis`` on."""

    def old(a, b, /, *, axis=None, broadcast=0, xp):
        if not broadcast:
            if a.shape != b.shape:
                raise ValueError(f"shapes {a.shape} and {b.shape} differ, and broadcast is 0")
            return function(a, b, xp=xp)
        if math.prod(b.shape) == 1:
            return function(a, xp.reshape(b, (1,) * min(b.ndim, a.ndim)), xp=xp)
        start = a.ndim - b.ndim if axis is None else axis + a.ndim * (axis < 0)
        stop = start + b.ndim
        run = a.shape[max(start, 0) : stop]
        if len(run) != b.ndim or any(size not in (1, whole) for size, whole in zip(b.shape, run, strict=True)):
            raise ValueError(f"shape {b.shape} is not found in {a.shape} at axis {start}")
        return function(a, xp.reshape(b, (*b.shape, *[1] * (a.ndim - stop))), xp=xp)

    old.__doc__ = function.__doc__
    operator(name, since=since, elementwise=True, **options)(old)


_before_opset_7("Add", 6, add)
_before_opset_7("Sub", 6, subtract)
_before_opset_7("Mul", 6, multiply)
_before_opset_7("Div", 6, divide)
_before_opset_7("Pow", 1, power, widen="fast")
_before_opset_7("Equal", 1, equal)
_before_opset_7("Less", 1, less)
_before_opset_7("Greater", 1, greater)
_before_opset_7("And", 1, logical_and)
_before_opset_7("Or", 1, logical_or)
_before_opset_7("Xor", 1, logical_xor)
