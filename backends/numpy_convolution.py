"""Convolution and matrix products on NumPy in fast mode."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from onemodel.backends.base import Kernel
from onemodel.backends.sliding import positions_of

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
    xp.check_filters(x, w, b, group, kernel_shape)
    windows = xp.sliding(x.shape[2:], w.shape[2:], strides, dilations, pads, auto_pad)
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
    positions = positions_of(x.shape[2:], kernel, strides, dilations)
    depth, width = channels * math.prod(kernel), math.prod(positions)
    filters = w.reshape(groups, count, depth)
    offset = None if bias is None else bias.reshape(groups, count, 1)
    y: Array
    if max(*kernel, *strides) == 1:
        y = np.matmul(filters, x.reshape(batch, groups, channels, width))
        if offset is not None:
            y += offset
        return y.reshape(batch, groups * count, *positions)
    places = positions
    steps = [step * stride for step, stride in zip(x.strides[2:], strides, strict=True)]
    if len(kernel) == 2 and max(strides) == 1 and _in_one_run(x, count, positions):
        # The last row ends with its last window; after the others some wrap around, and are cut off in the end.
        places, steps = ((positions[0] - 1) * x.shape[3] + positions[1],), steps[1:]
        width = positions[0] * x.shape[3]
    y = np.empty((batch, groups, count, width), x.dtype)
    taps = (step * stride for step, stride in zip(x.strides[2:], dilations, strict=True))
    lead = (x.strides[0], x.strides[1] * channels, x.strides[1])
    patches = as_strided(x, (batch, groups, channels, *kernel, *places), (*lead, *taps, *steps), writeable=False)
    _multiply(filters, patches, offset, y, len(places))
    if places is positions:
        return y.reshape(batch, groups * count, *positions)
    return np.ascontiguousarray(y.reshape(batch, groups * count, positions[0], x.shape[3])[..., : positions[1]])


def _in_one_run(x: Array, count: int, positions: Sequence[int]) -> bool:
    """Whether short rows are copied as one run over all of them; it pays where there are few filters to multiply."""
    dense = x.strides[2] == x.shape[3] * x.strides[3]
    return dense and count <= 32 and 0 < positions[1] <= 32 and positions[0] > 0


def _multiply(filters: Array, patches: Array, offset: Array | None, y: Array, rank: int) -> None:
    """Write filters (groups, M, depth) times patches (N, groups, *depth, *positions), plus ``offset``, into y.

    Block by block: whole images if several fit, else whole groups, else rows of one group.
    """
    batch, groups, _ = patches.shape[:3]
    positions = patches.shape[-rank:]
    depth, row = filters.shape[2], math.prod(positions[1:])
    # A matrix of few rows is not worth packing, so BLAS reads the patches once, and a small block serves as well.
    block = _BLOCK if filters.shape[1] > 4 else _BLOCK // 8
    rows = _fitting(block, depth * row, positions[0])
    some = _fitting(block, depth * row * positions[0], groups)
    images = _fitting(block, depth * row * positions[0] * groups, batch)
    buffer = np.empty(images * some * rows * depth * row, y.dtype)
    lead = (slice(None),) * (patches.ndim - rank - 2)
    for image in range(0, batch, images):
        for first in range(0, groups, some):
            for top in range(0, positions[0], rows):
                here = (slice(image, image + images), slice(first, first + some))
                index: tuple[slice, ...] = (*here, *lead, slice(top, top + rows))
                part = patches[index]
                columns = buffer[: part.size].reshape(part.shape)
                columns[...] = part
                size = math.prod(part.shape[-rank:])
                index = (*here, slice(None), slice(top * row, top * row + size))
                out = y[index]
                np.matmul(filters[first : first + some], columns.reshape(*part.shape[:2], depth, size), out=out)
                if offset is not None:
                    out += offset[first : first + some]


def _fitting(block: int, size: int, count: int) -> int:
    """How many of ``count`` things of ``size`` elements fit into a block, at least one."""
    return min(max(block // max(size, 1), 1), max(count, 1))


def matmul(a: Array, b: Array, /) -> Array:
    """``matmul`` with a stack of matrices times one matrix as one product."""
    if a.ndim > 2 and b.ndim == 2 and a.shape[-1] == b.shape[0]:
        rows: Array = a.reshape(math.prod(a.shape[:-1]), a.shape[-1])
        return np.matmul(rows, b).reshape(*a.shape[:-1], b.shape[1])  # type: ignore[no-any-return]
    product: Array = np.matmul(a, b)
    return product


KERNELS: dict[tuple[str, str], Kernel] = {("", "Conv"): Kernel(conv, 1, ("float32", "float64"))}
