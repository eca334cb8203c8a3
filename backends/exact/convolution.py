"""Convolution in the exact namespace: each element is the exact sum of the exact products, rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from onemodel.backends.exact.extraction import OpenSums
from onemodel.backends.exact.operand import Operand
from onemodel.backends.exact.products import Prepared, matrix_product
from onemodel.backends.exact.rounding import pieces
from onemodel.backends.exact.sums import must_round
from onemodel.backends.sliding import positions_of

Array = Any

_PATCHES = 1 << 18
"""Elements of the patches that are written out at a time: the product reads them while they are in the cache."""


def conv(x: Array, w: Any, strides: Sequence[int], dilations: Sequence[int], groups: int = 1, /, *, xp: Any) -> Array:
    """See ``extension.conv``: the products of filters with patches, which are written out in float64 part by part."""
    dtype = x.dtype if x.dtype == w.dtype else xp.result_type(x.dtype, w.dtype)
    kernel = w.shape[2:]
    batch, channels, count = x.shape[0], x.shape[1] // groups, w.shape[0] // groups
    terms = channels * math.prod(kernel)
    if not must_round(dtype, xp):
        return xp.conv(x, w, strides, dilations, groups)
    positions = positions_of(x.shape[2:], kernel, strides, dilations)
    across = math.prod(positions[1:])
    result = xp.zeros((batch, groups, count, positions[0] * across), dtype=dtype)
    if 0 in (*result.shape, terms):
        return xp.reshape(result, (batch, groups * count, *positions))
    filters = w.operand if isinstance(w, Prepared) and w.dtype == dtype else _filters(w, groups, dtype, xp)
    sums = OpenSums(dtype, xp)
    row = terms * across
    most = _PATCHES * xp.block_scale
    some = min(max(most // (row * positions[0]), 1), groups)
    rows = min(max(most // row, 1), positions[0])
    for image in range(batch):
        for here in pieces(groups, some):
            lines = filters if some == groups else filters.part(here, slice(0, count))
            part = x[image, here.start * channels : here.stop * channels, ...]
            for band in pieces(positions[0], rows):
                low = band.start * strides[0]
                high = (band.stop - 1) * strides[0] + dilations[0] * (kernel[0] - 1) + 1
                wide = xp.astype(part[:, low:high, ...], xp.float64)
                wide = xp.reshape(wide, (here.stop - here.start, channels, *wide.shape[1:]))
                patches = _patches(wide, dtype, kernel, strides, dilations, xp)
                places = slice(band.start * across, band.stop * across)
                matrix_product(lines, patches, result[image, here, :, places], sums)
    sums.settle()
    return xp.reshape(result, (batch, groups * count, *positions))


def _filters(w: Any, groups: int, dtype: Any, xp: Any) -> Operand:
    w = w.array if isinstance(w, Prepared) else w
    w = w if w.dtype == dtype else xp.astype(w, dtype)
    operand = Operand(xp.reshape(w, (groups, w.shape[0] // groups, math.prod(w.shape[1:]))), 2, xp)
    _ = operand.wide, operand.norms
    return operand


def _patches(
    x: Array, dtype: Any, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int], xp: Any
) -> Operand:
    """The patches of x (groups, channels, *spatial), in float64 though of type ``dtype``, as columns."""
    rank, groups = len(kernel), x.shape[0]
    windows = xp.windows(x, kernel, strides, dilations)
    positions = windows.shape[2 : 2 + rank]
    order = (0, 1, *range(2 + rank, 2 + 2 * rank), *range(2, 2 + rank))
    columns = xp.reshape(xp.permute_dims(windows, order), (groups, -1, math.prod(positions)))
    if max(*kernel, *strides) == 1 or dtype == xp.float64:
        return Operand(columns, 1, xp, dtype=dtype)
    # The squares of all channels are added up first, then those of each patch along one axis after the other.
    squares = xp.sum(x * x, axis=1)
    for axis, (size, taps, stride, step) in enumerate(zip(positions, kernel, strides, dilations, strict=True), 1):
        lead, reach = (slice(None),) * axis, (size - 1) * stride + 1
        squares = _added([squares[(*lead, slice(i * step, i * step + reach, stride), ...)] for i in range(taps)])
    norms = xp.reshape(xp.sqrt(squares), (groups, math.prod(positions))) * (1 + 2.0**-20)
    return Operand(columns, 1, xp, dtype=dtype, norms=norms)


def _added(arrays: Sequence[Array]) -> Array:
    total = arrays[0]
    for array in arrays[1:]:
        total = total + array
    return total


FUNCTIONS: dict[str, Callable[..., Any]] = {"conv": conv}
"""The functions of this chapter."""
