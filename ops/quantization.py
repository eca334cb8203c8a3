"""Quantization: to low precision and back, and products of quantized arrays."""

from __future__ import annotations

import math

from onemodel.ops.registry import operator

_FLOAT, _INT32, _DOUBLE, _UINT8 = 1, 6, 11, 2
_FLOAT16 = 10
_HALVES = (_FLOAT16, 16)
_E8M0 = 24
# ONNX's codes of the integer types to the range that results saturate to.
_RANGES = {2: (0, 255), 3: (-128, 127), 4: (0, 65535), 5: (-32768, 32767)}
_RANGES |= {21: (0, 15), 22: (-8, 7), 25: (0, 3), 26: (-2, 1)}
_FLOATS = (17, 18, 19, 20, 23, 27, 28)  # float8, float4e2m1, float6


def _spread(name, value, x, axis, block_size, xp):
    """A scale or zero point made to broadcast against x: one number, one per element of ``axis``, or one per block."""
    if math.prod(value.shape) == 1:
        return xp.reshape(value, ())
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(f"axis {axis} is not in [-{x.ndim}, {x.ndim})")
    axis, size = axis % x.ndim, x.shape[axis]
    if block_size == 0:
        if tuple(value.shape) != (size,):
            raise ValueError(f"{name} of shape {tuple(value.shape)} must be one number, or {size} for axis {axis} of x")
        return xp.reshape(value, (size, *[1] * (x.ndim - axis - 1)))
    blocks = -(-size // block_size)
    if block_size < 0 or tuple(value.shape) != (*x.shape[:axis], blocks, *x.shape[axis + 1 :]):
        raise ValueError(
            f"{name} of shape {tuple(value.shape)} does not fit blocks of {block_size} along axis {axis} of {x.shape}"
        )
    value = xp.repeat(value, block_size, axis=axis)
    return value if blocks * block_size == size else value[(slice(None),) * axis + (slice(size), ...)]


def _pair(scale, zero, x, axis, block_size, xp):
    """The scale and the zero point, which may be None, spread."""
    if zero is not None and zero.shape != scale.shape and math.prod(zero.shape) * math.prod(scale.shape) != 1:
        raise ValueError(f"the zero point's shape {zero.shape} is not the scale's, {scale.shape}")
    zero = None if zero is None else _spread("the zero point", zero, x, axis, block_size, xp)
    return _spread("the scale", scale, x, axis, block_size, xp), zero


# One array


@operator("QuantizeLinear", since=10, widen=False)
def quantize_linear(
    x, y_scale, y_zero_point=None, /, *, axis=1, block_size=0, output_dtype=0, precision=0, saturate=1, xp
):
    """x / scale rounded half to even, plus the zero point, saturated; 8-bit and smaller floats are rounded once.

    The division has the type ``precision``, else the scale's; NaN becomes 0.
    """
    code = output_dtype or _UINT8
    if y_zero_point is not None:
        code = xp.onnx_code(y_zero_point.dtype)
        if output_dtype not in (0, code):
            raise ValueError(f"output_dtype {output_dtype} is not the zero point's type, {y_zero_point.dtype}")
    if code not in _RANGES and code not in _FLOATS:
        raise ValueError(f"output_dtype {code} is no type to quantize to")
    scale, zero = _pair(y_scale, y_zero_point, x, axis, block_size, xp)
    if precision not in (0, _FLOAT, _DOUBLE, *_HALVES):
        raise ValueError(f"precision {precision} must be the code of float, double, float16 or bfloat16")
    precision = precision or xp.onnx_code(y_scale.dtype)
    inside = _DOUBLE if precision in (_INT32, _DOUBLE) else _FLOAT
    x, scale = xp.convert(x, inside), xp.convert(scale, inside)
    if precision in _HALVES:
        x = xp.convert(xp.convert(x / scale, precision), _FLOAT)
        scale = xp.constant(1, x)
    return _low(x, scale, zero, code, saturate, xp)


def _low(x, scale, zero, code, saturate, xp):
    """x / scale, moved by the zero point, in the low precision type ``code``."""
    zero = None if zero is None else xp.astype(xp.convert(zero, _FLOAT), x.dtype)
    if code < _FLOAT16:
        return xp.quantize(x, scale, zero, code)
    quotient = x / scale
    if code in _FLOATS:
        if zero is not None:
            quotient = xp.where(zero == 0, quotient, quotient + zero)
        return xp.convert(quotient, code, saturate=bool(saturate))
    whole = xp.round(quotient)
    whole = whole if zero is None else whole + zero
    low, high = _RANGES[code]
    whole = xp.where(whole < low, xp.constant(low, whole), whole)
    whole = xp.where(whole > high, xp.constant(high, whole), whole)
    return xp.convert(whole, code)


@operator("DequantizeLinear", since=10, widen=False)
def dequantize_linear(x, x_scale, x_zero_point=None, /, *, axis=1, block_size=0, output_dtype=0, xp):
    """(x - zero point) * scale, in float32 and rounded once to ``output_dtype``, else to the scale's type."""
    code = output_dtype or xp.onnx_code(x_scale.dtype)
    if code == _E8M0:
        raise ValueError("output_dtype must be given where the scale is float8e8m0")
    if x_zero_point is not None and x_zero_point.dtype != x.dtype:
        raise ValueError(f"the zero point's type {x_zero_point.dtype} is not x's, {x.dtype}")
    scale, zero = _pair(x_scale, x_zero_point, x, axis, block_size, xp)
    if zero is not None and xp.onnx_code(x.dtype) == _INT32:
        x, zero = x - zero, None
    x = xp.convert(x, _FLOAT)
    x = x if zero is None else x - xp.convert(zero, _FLOAT)
    return xp.convert(x * xp.convert(scale, _FLOAT), code)


@operator("DynamicQuantizeLinear", since=11)
def dynamic_quantize_linear(x, /, *, xp):
    """x as uint8, with the scale and the zero point that its range and 0 ask for; a range of 0 has the scale 1."""
    if 0 in x.shape:
        least = most = xp.asarray(0, dtype=x.dtype)
    else:
        nothing = xp.constant(0, x)
        least, most = xp.minimum(xp.min(x), nothing), xp.maximum(xp.max(x), nothing)
    scale = (most - least) / xp.constant(255, x)
    scale = xp.where(scale == 0, xp.constant(1, x), scale)
    zero = xp.convert(xp.round(-least / scale), _UINT8)
    return quantize_linear(x, scale, zero, xp=xp), scale, zero


# Products


def _rows(value, xp):
    """A scale or zero point of A, which may have one number per row; None stays None."""
    if value is None or math.prod(value.shape) == 1:
        return None if value is None else xp.reshape(value, ())
    return xp.expand_dims(value, axis=-1) if value.ndim == 1 else value


def _columns(value, xp):
    """A scale or zero point of B, which may have one number per column; None stays None."""
    return xp.reshape(value, ()) if value is not None and math.prod(value.shape) == 1 else value


@operator("MatMulInteger", since=10)
def matmul_integer(A, B, a_zero_point=None, b_zero_point=None, /, *, xp):
    """The matrix product of A and B less their zero points, exact but for int32's wrapping."""
    _check_matrices(A, B)
    return xp.integer_matmul(A, B, _rows(a_zero_point, xp), _columns(b_zero_point, xp))


def _check_matrices(a, b):
    inner = (a.shape[-1:], b.shape[-2:][:1])
    if a.ndim == 0 or b.ndim == 0 or inner[0] != inner[1]:
        raise ValueError(
            f"shapes {a.shape} and {b.shape} do not multiply: the last axis of A must be the last but one of B"
        )


@operator("QLinearMatMul", since=21)
def qlinear_matmul(a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point, /, *, xp):
    """QLinearMatMul of opset 10; 8-bit floats are multiplied in float32."""
    if xp.onnx_code(a.dtype) in _RANGES and xp.onnx_code(b.dtype) in _RANGES:
        return qlinear_matmul_of_integers(
            a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point, xp=xp
        )
    _check_matrices(a, b)
    a_wide = xp.convert(a, _FLOAT) - xp.convert(_rows(a_zero_point, xp), _FLOAT)
    b_wide = xp.convert(b, _FLOAT) - xp.convert(_columns(b_zero_point, xp), _FLOAT)
    factor = _rows(a_scale, xp) * _columns(b_scale, xp) / _rows(y_scale, xp)
    return _requantized(xp.matmul(a_wide, b_wide), factor, _rows(y_zero_point, xp), xp)


@operator("QLinearMatMul", since=10)
def qlinear_matmul_of_integers(a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point, /, *, xp):
    """The int32 product times a_scale * b_scale / y_scale, rounded half to even, plus the zero point, saturated."""
    factor = _rows(a_scale, xp) * _columns(b_scale, xp) / _rows(y_scale, xp)
    return _requantized(matmul_integer(a, b, a_zero_point, b_zero_point, xp=xp), factor, _rows(y_zero_point, xp), xp)


def _requantized(total, factor, zero, xp):
    """int32 or float32 sums times ``factor`` in float32, in the zero point's type."""
    total = xp.convert(total, _FLOAT) * factor
    return _low(total, xp.constant(1, total), zero, xp.onnx_code(zero.dtype), 1, xp)


@operator("ConvInteger", since=10)
def conv_integer(
    x,
    w,
    x_zero_point=None,
    w_zero_point=None,
    /,
    *,
    auto_pad="NOTSET",
    dilations=None,
    group=1,
    kernel_shape=None,
    pads=None,
    strides=None,
    xp,
):
    """The convolution of x and w less their zero points, exact but for int32's wrapping; padding counts as 0."""
    if x.ndim < 3 or w.ndim != x.ndim:
        raise ValueError(f"x of shape {x.shape} and w of shape {w.shape} must have the same three or more dimensions")
    if kernel_shape is not None and tuple(kernel_shape) != tuple(w.shape[2:]):
        raise ValueError(f"kernel_shape {list(kernel_shape)} is not that of w, {w.shape}")
    if group < 1 or x.shape[1] != w.shape[1] * group or w.shape[0] % group:
        raise ValueError(
            f"{x.shape[1]} channels and {w.shape[0]} filters of {w.shape[1]} channels do not fit group {group}"
        )
    x_zero_point, w_zero_point = _one("x_zero_point", x_zero_point, xp), _filters("w_zero_point", w_zero_point, w, xp)
    windows = xp.sliding(x.shape[2:], w.shape[2:], strides, dilations, pads, auto_pad)
    nothing = 0 if x_zero_point is None else x_zero_point
    x = xp.pad(x, ((0, 0), (0, 0), *windows.widths), nothing)
    return xp.integer_conv(x, w, x_zero_point, w_zero_point, windows.strides, windows.dilations, group)


def _one(name, value, xp):
    """A scale or zero point that is one number."""
    if value is None:
        return None
    if math.prod(value.shape) != 1:
        raise ValueError(f"{name} of shape {value.shape} must be one number")
    return xp.reshape(value, ())


def _filters(name, value, w, xp):
    """A scale or zero point that is one number or one per filter."""
    if value is None or math.prod(value.shape) == 1:
        return _one(name, value, xp)
    if tuple(value.shape) != (w.shape[0],):
        raise ValueError(f"{name} of shape {value.shape} must be one number, or one for each of {w.shape[0]} filters")
    return value


@operator("QLinearConv", since=10)
def qlinear_conv(
    x,
    x_scale,
    x_zero_point,
    w,
    w_scale,
    w_zero_point,
    y_scale,
    y_zero_point,
    B=None,
    /,
    *,
    auto_pad="NOTSET",
    dilations=None,
    group=1,
    kernel_shape=None,
    pads=None,
    strides=None,
    xp,
):
    """ConvInteger plus B times x_scale * w_scale / y_scale, rounded half to even, plus the zero point, saturated."""
    total = conv_integer(
        x,
        w,
        x_zero_point,
        w_zero_point,
        auto_pad=auto_pad,
        dilations=dilations,
        group=group,
        kernel_shape=kernel_shape,
        pads=pads,
        strides=strides,
        xp=xp,
    )
    ones = [1] * (x.ndim - 2)
    if B is not None:
        if tuple(B.shape) != (w.shape[0],):
            raise ValueError(f"B of shape {B.shape} must have {w.shape[0]} elements, one for each filter")
        total = total + xp.reshape(B, (-1, *ones))
    factor = _one("x_scale", x_scale, xp) * _filters("w_scale", w_scale, w, xp) / _one("y_scale", y_scale, xp)
    factor = xp.reshape(factor, (-1, *ones)) if factor.ndim else factor
    return _requantized(total, factor, _one("y_zero_point", y_zero_point, xp), xp)
