"""Convolution and matrix products on NumPy in fast mode."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from onemodel.backends.base import Kernel

Array = np.ndarray[Any, Any]

_BLOCK = 1 << 19
"""Elements of the patch matrix that are made at a time: they shall still be in cache when BLAS reads them."""


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
    """Conv, with the patches written out block by block for BLAS."""
    windows = xp.conv_windows(x, w, b, group, kernel_shape, strides, dilations, pads, auto_pad)
    return convolve(xp.pad(x, ((0, 0), (0, 0), *windows.widths)), w, windows.strides, windows.dilations, group, b)


def convolve(
    x: Array,
    w: Array,
    strides: Sequence[int],
    dilations: Sequence[int],
    groups: int = 1,
    bias: Array | None = None,
    /,
) -> Array:
    """See ``extension.conv``; with a bias per output channel."""
    batch, count, channels, kernel = x.shape[0], w.shape[0] // groups, w.shape[1], w.shape[2:]
    spatial = list(zip(x.shape[2:], kernel, strides, dilations, strict=True))
    positions = tuple((size - step * (taps - 1) - 1) // stride + 1 for size, taps, stride, step in spatial)
    depth, width = channels * math.prod(kernel), math.prod(positions)
    filters = w.reshape(groups, count, depth)
    offset = None if bias is None else bias.reshape(groups, count, 1)
    if max(*kernel, *strides) == 1:
        y = np.matmul(filters, x.reshape(batch, groups, channels, width))
        if offset is not None:
            y += offset
        return y.reshape(batch, groups * count, *positions)
    # Short rows are copied faster as one run over all of them, with the windows that wrap around cut off in the end.
    rows, columns = (*positions[-2:],) if len(kernel) == 2 else (0, 0)
    in_one_run = len(kernel) == 2 and max(strides) == 1 and columns <= 32 and count <= 32
    steps = [step * stride for step, stride in zip(x.strides[2:], strides, strict=True)]
    places = positions
    if in_one_run and x.strides[2] == x.shape[3] * x.strides[3]:
        places, steps = ((rows - 1) * x.shape[3] + columns,), steps[1:]
        y = np.empty((batch, groups, count, rows * x.shape[3]), x.dtype)
    else:
        in_one_run = False
        y = np.empty((batch, groups, count, width), x.dtype)
    taps = (step * stride for step, stride in zip(x.strides[2:], dilations, strict=True))
    lead = (x.strides[0], x.strides[1] * channels, x.strides[1])
    patches = as_strided(x, (batch, groups, channels, *kernel, *places), (*lead, *taps, *steps), writeable=False)
    _multiply(filters, patches, offset, y, len(places))
    if in_one_run:
        y = y.reshape(batch, groups * count, rows, x.shape[3])[..., :columns]
        return np.ascontiguousarray(y)
    return y.reshape(batch, groups * count, *positions)


def _multiply(filters: Array, patches: Array, offset: Array | None, y: Array, rank: int) -> None:
    """Write filters (groups, M, depth) times patches (N, groups, *depth, *positions), plus ``offset``, into y.

    Block by block: whole images if several fit, else whole groups, else rows of one group.
    """
    batch, groups, _ = patches.shape[:3]
    positions = patches.shape[-rank:]
    depth, row = filters.shape[2], math.prod(positions[1:])
    rows = _fitting(depth * row, positions[0])
    some = _fitting(depth * row * positions[0], groups)
    images = _fitting(depth * row * positions[0] * groups, batch)
    buffer = np.empty(images * some * rows * depth * row, y.dtype)
    lead = (slice(None),) * (patches.ndim - rank - 2)
    for image in range(0, batch, images):
        for first in range(0, groups, some):
            for top in range(0, positions[0], rows):
                block = (slice(image, image + images), slice(first, first + some))
                part = patches[(*block, *lead, slice(top, top + rows))]
                columns = buffer[: part.size].reshape(part.shape)
                columns[...] = part
                columns = columns.reshape(*part.shape[:2], depth, math.prod(part.shape[-rank:]))
                out = y[(*block, slice(None), slice(top * row, top * row + columns.shape[3]))]
                np.matmul(filters[first : first + some], columns, out=out)
                if offset is not None:
                    out += offset[first : first + some]


def _fitting(size: int, count: int) -> int:
    """How many of ``count`` things of ``size`` elements are made at a time, at least one."""
    return min(max(_BLOCK // max(size, 1), 1), max(count, 1))


def matmul(a: Array, b: Array, /) -> Array:
    """``matmul`` with a stack of matrices times one matrix as one product."""
    if a.ndim > 2 and b.ndim == 2 and a.shape[-1] == b.shape[0]:
        return np.matmul(a.reshape(-1, a.shape[-1]), b).reshape(*a.shape[:-1], b.shape[1])
    result: Array = np.matmul(a, b)
    return result


KERNELS: dict[tuple[str, str], Kernel] = {("", "Conv"): Kernel(conv, 1, ("float32", "float64"))}
