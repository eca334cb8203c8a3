"""Quantization: to small integers and back, and products of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.oracle.draw import Case, Draw, code, draws, kind
from tests.oracle.layers import Windows, near
from tests.oracle.reduction import product_shapes


def scale_shape(d: Draw, shape: tuple[int, ...]) -> tuple[tuple[int, ...], dict[str, Any]]:
    """The shape of a scale for all elements, per axis (from 13 on) or of blocks (from 21 on), and its attributes."""
    axis = d.axis(len(shape))
    if d.opset >= 21 and d.chance(0.3):
        block = d.integer(1, 3)
        return tuple(-(-n // block) if i == axis % len(shape) else n for i, n in enumerate(shape)), {
            "axis": axis,
            "block_size": block,
        }
    if d.opset >= 13 and d.chance(0.5):
        return (shape[axis],), {"axis": axis}
    return (), {}


@draws("QuantizeLinear")
def quantize(d: Draw) -> Case:
    shape = d.shape(1, 4, empty=False)
    x = near(d, d.dtype("T1", among=("float32", "float16", "int32")), shape)
    if kind(x.dtype) == "i":
        x = d.array(x.dtype, shape, "finite", -99, 99)
    scales, options = scale_shape(d, shape)
    scale_type = np.dtype(np.float32) if kind(x.dtype) == "i" or d.opset < 19 else x.dtype
    scale = d.array(scale_type, scales, "between", 0.02, 0.3)
    point = d.array(d.dtype("T2" if d.opset < 23 else "T3", kinds="iu"), scales, "finite")
    if d.chance(0.2):
        if point.dtype != np.uint8:
            return (
                d.case(x, scale, output_dtype=code(point.dtype), **options)
                if d.opset >= 21
                else d.case(x, scale, **options)
            )
        return d.case(x, scale, **options)
    return d.case(x, scale, point, **options)


@draws("DequantizeLinear")
def dequantize(d: Draw) -> Case:
    shape = d.shape(1, 4, empty=False)
    x = d.array(d.dtype("T1" if d.opset >= 19 else "T", kinds="iu"), shape)
    scales, options = scale_shape(d, shape)
    wide = np.dtype(np.float32) if d.opset < 19 else d.dtype("T2", among=("float32", "float16"))
    point = None if x.dtype == np.int32 else d.maybe(d.array(x.dtype, scales, "finite"))
    return d.case(x, d.array(wide, scales, "between", 0.02, 0.3), point, zeros=False, **options)


@draws("DynamicQuantizeLinear")
def dynamic_quantize(d: Draw) -> Case:
    return d.case(near(d, np.float32, d.shape()), outputs=3)


@draws("MatMulInteger")
def matmul_integer(d: Draw) -> Case:
    a, b = (d.array(d.dtype(t), s) for t, s in zip(("T1", "T2"), product_shapes(d), strict=True))
    points = [d.maybe(d.array(value.dtype, (), "finite")) for value in (a, b)]
    return d.case(a, b, *points)


def quantized(d: Draw, dtype: Any, shape: Any, scale: Any = np.float32) -> list[Any]:
    """An array, its scale and its zero point."""
    return [d.array(dtype, shape), d.array(scale, (), "between", 0.01, 0.2), d.array(dtype, (), "finite")]


@draws("QLinearMatMul")
def qlinear_matmul(d: Draw) -> Case:
    types = [d.dtype(variable, kinds="iu") for variable in ("T1", "T2", "T3")]
    a, b = product_shapes(d)
    while 0 in a + b:
        a, b = product_shapes(d)
    _, scale, point = quantized(d, types[2], ())
    return d.case(*quantized(d, types[0], a), *quantized(d, types[1], b), scale, point)


@draws("QLinearConv")
def qlinear_conv(d: Draw) -> Case:
    windows, group = Windows(d), d.integer(1, 2)
    each, filters = d.integer(1, 2), group * d.integer(1, 2)
    types = [d.dtype(variable) for variable in ("T1", "T2", "T3")]
    x = quantized(d, types[0], (d.integer(1, 2), group * each, *windows.sizes))
    w = quantized(d, types[1], (filters, each, *windows.kernel))
    _, scale, point = quantized(d, types[2], ())
    bias = d.maybe(d.array(np.int32, (filters,), "finite", -99, 99))
    return d.case(*x, *w, scale, point, bias, group=group, **windows.attributes)
