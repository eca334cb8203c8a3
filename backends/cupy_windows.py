"""Convolution and pooling over one to three spatial axes on CuPy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import cupy
import numpy as np

from onemodel.backends import cupy_cudnn, cupy_gemm, cupy_launch
from onemodel.backends.base import Array, Kernel
from onemodel.backends.cupy_launch import TYPES, over_elements
from onemodel.backends.cupy_run import chose, row_major
from onemodel.backends.sliding import Sliding

_FILE = "windows.cu"
_COLUMNS = 1 << 28
"""Bytes of columns at a time; a larger batch is convolved in parts."""


def _flat(windows: Sliding) -> list[np.int32]:
    """The parameters WINDOWS of windows.cu; axes that are missing come first, with one element each."""

    def triple(values: Sequence[int], missing: int) -> list[int]:
        return [missing] * (3 - len(values)) + list(values)

    before = [first for first, _ in windows.pads]
    numbers = (
        triple(windows.sizes, 1)
        + triple(windows.kernel, 1)
        + triple(windows.strides, 1)
        + triple(windows.dilations, 1)
        + triple(before, 0)
        + triple(windows.positions, 1)
    )
    return [np.int32(number) for number in numbers]


def _named(kernel: str, x: Array) -> str:
    """A kernel of windows.cu for the type and the spatial axes of an array."""
    return f"{kernel}<{TYPES[x.dtype]}, {max(x.ndim - 2, 2)}>"


def _fits(x: Array, windows: Sliding) -> bool:
    """Whether the kernels take the arrays: one to three spatial axes, each window on the input or its padding."""
    return x.ndim in (3, 4, 5) and max(windows.sizes) < 2**31 and 0 not in (*x.shape, *windows.positions)


def conv(
    x: Array,
    w: Array,
    b: Array | None = None,
    /,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    xp: Any,
) -> Array:
    """Conv: depthwise by a kernel of its own, else by cuDNN, else as a product of filters and the windows' columns."""
    xp.check_filters(x, w, b, group, kernel_shape)
    windows: Sliding = xp.sliding(x.shape[2:], w.shape[2:], strides, dilations, pads, auto_pad)
    if not _fits(x, windows) or w.dtype != x.dtype or 0 in w.shape:
        return NotImplemented
    x, w = row_major(x), row_major(w)
    batch, channels, outputs = x.shape[0], x.shape[1], w.shape[0]
    if w.shape[1] == 1 and group > 1:
        result = cupy.empty((batch, outputs, *windows.positions), x.dtype)
        b = None if b is None else row_major(b)
        arguments = (x, w, b, result, *_flat(windows), batch, channels, outputs // channels)
        over_elements(_FILE, _named("depthwise", x), result.size, arguments)
        chose("depthwise, by a kernel of its own")
        return result
    done = cupy_cudnn.conv(x, w, b, windows)
    if not isinstance(done, str):
        chose("by cuDNN")
        return done
    chose(f"by columns and a product: {done}")
    count, taps = math.prod(windows.positions), math.prod(windows.kernel)
    rows = channels // group * taps
    filters = cupy.reshape(w, (1, group, outputs // group, rows))
    pointwise = taps == 1 and windows.positions == windows.sizes
    part = batch if pointwise else max(1, _COLUMNS // max(group * rows * count * x.dtype.itemsize, 1))
    half = x.dtype.itemsize == 2
    result = cupy.empty((batch, group, outputs // group, count), x.dtype)
    if half:
        result[...] = 0 if b is None else cupy.reshape(b, (group, outputs // group, 1))
    for start in range(0, batch, part):
        columns = x[start : start + part] if pointwise else _columns(x[start : start + part], windows)
        columns = cupy.reshape(columns, (-1, group, rows, count))
        if half:
            cupy_gemm.add_product(filters, columns, result[start : start + part])
        elif part >= batch:
            result = cupy_gemm.matmul(filters, columns)
        else:
            result[start : start + part] = cupy_gemm.matmul(filters, columns)
    result = cupy.reshape(result, (batch, outputs, *windows.positions))
    return result if b is None or half else result + cupy.reshape(b, (outputs, *[1] * (x.ndim - 2)))


def _columns(x: Array, windows: Sliding) -> Array:
    """The windows of each channel as columns, padding included: shape (N, C, taps, windows)."""
    taps, count = math.prod(windows.kernel), math.prod(windows.positions)
    result = cupy.empty((*x.shape[:2], taps, count), x.dtype)
    arguments = (x, result, *_flat(windows), x.shape[0] * x.shape[1])
    over_elements(_FILE, _named("im2col", x), result.size, arguments)
    return result


def max_pool(
    x: Array,
    /,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Sequence[int] | None = None,
    kernel_shape: Sequence[int],
    pads: Sequence[int] | None = None,
    storage_order: int = 0,
    strides: Sequence[int] | None = None,
    wanted: Sequence[bool],
    xp: Any,
) -> Array:
    """MaxPool without indices, in one pass."""
    windows: Sliding = xp.sliding(x.shape[2:], kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    windows.counts()
    if any(wanted[1:]) or not _fits(x, windows):
        return NotImplemented
    return _pooled("max_pool", x, windows)


def average_pool(
    x: Array,
    /,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: Sequence[int] | None = None,
    kernel_shape: Sequence[int],
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    xp: Any,
) -> Array:
    """AveragePool, in one pass."""
    windows: Sliding = xp.sliding(x.shape[2:], kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    windows.counts(bool(count_include_pad))
    if not _fits(x, windows):
        return NotImplemented
    after = [0] * (3 - len(windows.pads)) + [last for _, last in windows.pads]
    ends = [np.int32(number) for number in (bool(count_include_pad), *after)]
    return _pooled("average_pool", x, windows, *ends)


def _pooled(kernel: str, x: Array, windows: Sliding, *more: np.int32) -> Array:
    """What a pooling kernel of windows.cu makes of each window; ``more`` are its last parameters."""
    x = row_major(x)
    result = cupy.empty((*x.shape[:2], *windows.positions), x.dtype)
    arguments = (x, result, *_flat(windows), x.shape[0] * x.shape[1], *more)
    over_elements(_FILE, _named(kernel, x), result.size, arguments)
    return result


KERNELS = {
    ("", "Conv"): Kernel(conv, 1, cupy_launch.NAMES, halves=True, partial=True),
    ("", "MaxPool"): Kernel(max_pool, 1, cupy_launch.NAMES, halves=True, partial=True),
    ("", "AveragePool"): Kernel(average_pool, 1, cupy_launch.NAMES, halves=True, partial=True),
}
