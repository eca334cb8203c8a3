"""Activation functions: of one element each, and of whole rows."""

from __future__ import annotations

import math

from onemodel.ops.axes import one_axis
from onemodel.ops.registry import operator

# Of one element


@operator("Relu", since=6, elementwise=True)
def relu(x, /, *, xp):
    """x above zero, else 0."""
    return xp.maximum(x, xp.constant(0, x))


@operator("LeakyRelu", since=6, elementwise=True)
def leaky_relu(x, /, *, alpha=0.01, xp):
    """x, times ``alpha`` below zero."""
    return xp.where(x < 0, x * xp.constant(alpha, x), x)


@operator("PRelu", since=7, elementwise=True)
def parametric_relu(x, slope, /, *, xp):
    """x, times ``slope`` below zero. ``slope`` is broadcast to x's shape."""
    result = xp.where(x < 0, x * slope, x)
    if result.shape != x.shape:
        raise ValueError(f"slope of shape {slope.shape} cannot be broadcast to x's shape {x.shape}")
    return result


@operator("PRelu", since=6, elementwise=True)
def parametric_relu_of_channels(x, slope, /, *, xp):
    """Before opset 7 ``slope`` is one number, or one for each channel, which is x's axis 1."""
    count = math.prod(slope.shape)
    if count != 1 and (x.ndim < 2 or count != x.shape[1]):
        raise ValueError(f"slope of shape {slope.shape} must be one number, or one per channel of x of shape {x.shape}")
    return parametric_relu(x, xp.reshape(slope, (count,) + (1,) * (x.ndim - 2) if count != 1 else ()), xp=xp)


@operator("Sigmoid", since=6, elementwise=True, widen="fast")
def sigmoid(x, /, *, xp):
    """1 / (1 + exp(-x))."""
    return xp.sigmoid(x)


@operator("HardSigmoid", since=6, elementwise=True)
def hard_sigmoid(x, /, *, alpha=0.2, beta=0.5, xp):
    """alpha x + beta, between 0 and 1."""
    line = x * xp.constant(alpha, x) + xp.constant(beta, x)
    return xp.maximum(xp.constant(0, x), xp.minimum(xp.constant(1, x), line))


@operator("ThresholdedRelu", since=10, elementwise=True)
def thresholded_relu(x, /, *, alpha=1.0, xp):
    """x above ``alpha``, else 0, also where x is NaN."""
    return xp.where(x > xp.constant(alpha, x), x, xp.constant(0, x))


@operator("Elu", since=6, elementwise=True)
def elu(x, /, *, alpha=1.0, xp):
    """x, below zero alpha (exp(x) - 1)."""
    return xp.where(x < 0, xp.constant(alpha, x) * xp.expm1(x), x)


@operator("Selu", since=6, elementwise=True)
def selu(x, /, *, alpha=1.67326319217681884765625, gamma=1.05070102214813232421875, xp):
    """gamma x, up to zero gamma (alpha exp(x) - alpha)."""
    return xp.constant(gamma, x) * xp.where(x <= 0, xp.constant(alpha, x) * xp.expm1(x), x)


@operator("Celu", since=12, elementwise=True)
def celu(x, /, *, alpha=1.0, xp):
    """max(0, x) + min(0, alpha (exp(x / alpha) - 1))."""
    zero, alpha = xp.constant(0, x), xp.constant(alpha, x)
    return xp.maximum(zero, x) + xp.minimum(zero, alpha * xp.expm1(x / alpha))


@operator("Gelu", since=20, elementwise=True, widen="fast")
def gelu(x, /, *, approximate="none", xp):
    """x times the normal distribution's function of x, or with ``approximate="tanh"`` a formula near it."""
    if approximate not in ("none", "tanh"):
        raise ValueError(f"approximate {approximate!r} must be none or tanh")
    return xp.gelu(x) if approximate == "none" else xp.gelu_tanh(x)


@operator("Swish", since=24, elementwise=True)
def swish(x, /, *, alpha=1.0, xp):
    """x / (1 + exp(-alpha x))."""
    return xp.silu(x) if alpha == 1 else x * xp.sigmoid(x * xp.constant(alpha, x))


@operator("SwiGLU", since=28, elementwise=True)
def swiglu(a, b, /, *, alpha=1.0, xp):
    """Swish of a, times b, which has the same shape."""
    if a.shape != b.shape:
        raise ValueError(f"A of shape {a.shape} and B of shape {b.shape} must have one shape")
    return swish(a, alpha=alpha, xp=xp) * b


@operator("HardSwish", since=14, elementwise=True)
def hard_swish(x, /, *, xp):
    """x times x / 6 + 1 / 2, this between 0 and 1."""
    return x * hard_sigmoid(x, alpha=1 / 6, beta=0.5, xp=xp)


@operator("Mish", since=18, elementwise=True, widen="fast")
def mish(x, /, *, xp):
    """x tanh(log(1 + exp(x)))."""
    return xp.mish(x)


@operator("Softplus", since=1, elementwise=True, widen="fast")
def softplus(x, /, *, xp):
    """log(1 + exp(x))."""
    return xp.softplus(x)


@operator("Softsign", since=1, elementwise=True)
def softsign(input, /, *, xp):
    """x / (1 + |x|)."""
    return input / (xp.constant(1, input) + xp.abs(input))


@operator("Shrink", since=9, elementwise=True)
def shrink(input, /, *, bias=0.0, lambd=0.5, xp):
    """x + bias below -lambd, x - bias above lambd, else 0. Integers are exact, truncate toward zero, and wrap."""
    zero = xp.constant(0, input)
    if not xp.isdtype(input.dtype, "integral"):
        step, edge = xp.constant(bias, input), xp.constant(lambd, input)
        return xp.where(input < -edge, input + step, xp.where(input > edge, input - step, zero))
    lower = _shifted(input, bias, xp)
    upper = _shifted(input, -bias, xp)
    return xp.where(_compared(input, -lambd, xp)[0], lower, xp.where(_compared(input, lambd, xp)[1], upper, zero))


def _compared(x, number, xp):
    """Where the integers x are below, and where above, a Python number that their type may not hold."""
    limits = xp.iinfo(x.dtype)
    low, high = (min(max(n, limits.min), limits.max) for n in (math.ceil(number), math.floor(number)))
    none = xp.zeros_like(x, dtype=xp.bool)
    below = ~none if number > limits.max else none if number <= limits.min else x < xp.constant(low, x)
    above = ~none if number < limits.min else none if number >= limits.max else x > xp.constant(high, x)
    return below, above


def _shifted(x, step, xp):
    """The integers x plus the Python number ``step``, truncated toward zero and wrapped."""
    limits = xp.iinfo(x.dtype)
    size = limits.max - limits.min + 1
    down, up = (xp.constant((n - limits.min) % size + limits.min, x) for n in (math.floor(step), math.ceil(step)))
    positive = ~_compared(x, -step, xp)[0]
    return xp.where(positive, x + down, x + up)


# Of rows


@operator("Softmax", since=13, widen=False)
def softmax(input, /, *, axis=-1, xp):
    """exp(x) over its sum along ``axis``; the largest term is taken out first so that nothing overflows.

    In float16 each step is rounded, as ONNX's function body and the suite have it. bfloat16, whose sums would lose
    hundredths, is computed in float32 and rounded once.
    """
    axis = one_axis(axis, input.ndim)
    match str(xp.host_dtype(input.dtype)):
        case "float16" if 0 not in input.shape:
            power = xp.exp(input - xp.max(input, axis=axis, keepdims=True))
            return power / xp.sum(power, axis=axis, keepdims=True)
        case "bfloat16":
            return xp.astype(xp.softmax(xp.astype(input, xp.float32), axis), input.dtype)
    return xp.softmax(input, axis)


@operator("LogSoftmax", since=13)
def log_softmax(input, /, *, axis=-1, xp):
    """The logarithm of Softmax: x less the logarithm of the sum of exp(x); the largest x is taken out first."""
    axis = one_axis(axis, input.ndim)
    if 0 in input.shape:
        return input
    shifted = input - xp.max(input, axis=axis, keepdims=True)
    return shifted - xp.log(xp.sum(xp.exp(shifted), axis=axis, keepdims=True))


@operator("Hardmax", since=13)
def hardmax(input, /, *, axis=-1, xp):
    """1 at the first of the largest elements along ``axis``, else 0."""
    axis = one_axis(axis, input.ndim)
    if 0 in input.shape:
        return input
    places = xp.reshape(xp.arange(input.shape[axis]), (-1,) + (1,) * (input.ndim - axis - 1))
    return xp.astype(places == xp.argmax(input, axis=axis, keepdims=True), input.dtype)


def _rows_before_13(name, function, **options):
    """Enter ``function`` with the meaning before opset 13: all axes from ``axis`` on form one row."""

    def of_rows(input, /, *, axis=1, xp):
        axis = one_axis(axis, input.ndim)
        rows = xp.reshape(input, (math.prod(input.shape[:axis]), math.prod(input.shape[axis:])))
        return xp.reshape(function(rows, axis=1, xp=xp), input.shape)

    of_rows.__doc__ = f"{function.__doc__} All axes from ``axis`` on form one row."
    operator(name, since=1, **options)(of_rows)


_rows_before_13("Softmax", softmax, widen=False)
_rows_before_13("LogSoftmax", log_softmax)
_rows_before_13("Hardmax", hardmax)
