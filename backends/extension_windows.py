"""What operators need and the standard lacks: sliding windows, convolution, weighted sums of taps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

from onemodel.backends.extension_table import Array, extension
from onemodel.backends.sliding import Sliding, slide


@extension
def sliding(
    sizes: Sequence[int],
    kernel_shape: Sequence[int],
    strides: Sequence[int] | None,
    dilations: Sequence[int] | None,
    pads: Sequence[int] | None,
    auto_pad: str,
    ceil_mode: int = 0,
    /,
    *,
    xp: Any,
) -> Sliding:
    """Where the windows of a kernel lie, from ONNX's attributes.

    It is here so that operators and native kernels share one definition.

    Args:
        sizes: of the spatial axes, without padding.
        kernel_shape: of the kernel, without dilation.
        strides, dilations, pads: ONNX's attributes; None is 1, 1 and 0.
        auto_pad: NOTSET takes ``pads``, VALID none; SAME_UPPER and SAME_LOWER pad to ceil(size / stride) windows.
        ceil_mode: 1 lets a last window hang over the padding at the end. VALID has its own formula, without it.

    Raises:
        ValueError: an attribute has the wrong length or a value out of range, or the kernel does not fit.
    """
    strides, dilations, pads = (None if v is None else tuple(v) for v in (strides, dilations, pads))
    return slide(tuple(sizes), tuple(kernel_shape), strides, dilations, pads, auto_pad, ceil_mode)


@extension
def check_filters(
    x: Array, w: Array, b: Array | None, group: int, kernel_shape: Sequence[int] | None, /, *, xp: Any
) -> None:
    """Raise ValueError where ``x`` (N, C, *spatial), ``w`` (M, C / group, *kernel) and the bias ``b`` (M) do not fit.

    It is here so that operators and native kernels say the same.
    """
    if x.ndim < 3 or w.ndim != x.ndim:
        raise ValueError(f"X and W must have the same rank, from 3 on; their shapes are {x.shape} and {w.shape}")
    if kernel_shape is not None and tuple(kernel_shape) != w.shape[2:]:
        raise ValueError(f"kernel_shape {list(kernel_shape)} is not that of W, whose shape is {w.shape}")
    if group < 1 or x.shape[1] != w.shape[1] * group or w.shape[0] % group:
        raise ValueError(f"{x.shape[1]} channels do not fit W of shape {w.shape} and group {group}")
    if b is not None and b.shape != (w.shape[0],):
        raise ValueError(f"B must have the shape ({w.shape[0]},), one number per output channel, not {b.shape}")


@extension
def windows(
    x: Array, kernel_shape: Sequence[int], strides: Sequence[int], dilations: Sequence[int], /, *, xp: Any
) -> Array:
    """All windows that a kernel sees on its way over the last axes of ``x``; the standard has no sliding window.

    Args:
        x: shape (..., *spatial), padded already.
        kernel_shape, strides, dilations: one integer per spatial axis.

    Returns:
        shape (..., *positions, *kernel_shape), positions[i] = (spatial[i] - dilated kernel) // stride + 1 or 0.
    """
    lead, axes = x.shape[: x.ndim - len(kernel_shape)], range(len(kernel_shape))
    reach = [dilations[i] * (kernel_shape[i] - 1) + 1 for i in axes]
    positions = [max((x.shape[len(lead) + i] - reach[i]) // strides[i] + 1, 0) for i in axes]
    taps = []
    for offset in product(*map(range, kernel_shape)):
        starts = [offset[i] * dilations[i] for i in axes]
        index = tuple(
            slice(start, start + max((count - 1) * step + 1, 0), step)
            for start, count, step in zip(starts, positions, strides, strict=True)
        )
        taps.append(
            x[(slice(None),) * len(lead) + index]
            if 0 not in positions
            else xp.zeros((*lead, *positions), dtype=x.dtype)
        )
    return xp.reshape(xp.stack(taps, axis=-1), (*lead, *positions, *kernel_shape))


@extension
def conv(x: Array, w: Array, strides: Sequence[int], dilations: Sequence[int], groups: int = 1, /, *, xp: Any) -> Array:
    """Cross-correlation of ``x`` (N, C, *spatial), padded already, with the filters ``w`` (M, C / groups, *kernel).

    One function, because exact mode rounds each of its sums once; the standard has no convolution.

    Returns:
        shape (N, M, *positions), see ``windows``.
    """
    columns, filters, shape = _columns(x, w, strides, dilations, groups, xp)
    return xp.reshape(xp.matmul(filters, columns), shape)


def _columns(
    x: Array, w: Array, strides: Sequence[int], dilations: Sequence[int], groups: int, xp: Any
) -> tuple[Array, Array, tuple[int, ...]]:
    """The factors of the matrix product that a convolution is, and the shape of its result."""
    kernel_shape = w.shape[2:]
    patches = xp.windows(x, kernel_shape, strides, dilations)
    rank, batch, channels, count = len(kernel_shape), x.shape[0], x.shape[1] // groups, w.shape[0] // groups
    positions = patches.shape[2 : 2 + rank]
    size = channels * math.prod(kernel_shape)
    patches = xp.reshape(patches, (batch, groups, channels, *positions, *kernel_shape))
    order = (0, 1, 2, *range(3 + rank, 3 + 2 * rank), *range(3, 3 + rank))
    columns = xp.reshape(xp.permute_dims(patches, order), (batch, groups, size, math.prod(positions)))
    filters = xp.reshape(w, (1, groups, count, size))
    return columns, filters, (batch, groups * count, *positions)


@extension
def rescale(x: Array, mean: Array, factor: Array, offset: Array, /, *, xp: Any) -> Array:
    """(x - mean) * factor + offset, broadcast to x; one function, so that a backend may pass over memory once."""
    return (x - mean) * factor + offset


@extension
def standardized(
    x: Array, axes: Sequence[int], epsilon: float, scale: Array = None, offset: Array = None, /, *, xp: Any
) -> tuple[Array, Array, Array]:
    """x with mean 0 and variance 1; one function, so that a backend may do it row by row.

    Args:
        x: floats.
        axes: those that the mean and the variance are taken over.
        epsilon: what is added to the variance.
        scale, offset: what the result is multiplied with, and what is added then; None for neither.

    Returns:
        the result, the mean, and 1 / sqrt(variance + epsilon); of these ``axes`` have size 1.
    """
    mean = xp.mean(x, axis=tuple(axes), keepdims=True)
    off = x - mean
    variance = xp.mean(off * off, axis=tuple(axes), keepdims=True)
    inverse = xp.constant(1, x) / xp.sqrt(variance + xp.constant(epsilon, x))
    y = off * inverse
    y = y if scale is None else y * scale
    return y if offset is None else y + offset, mean, inverse


@extension
def weighted_taps(
    x: Array, indices: Sequence[Sequence[int | None]], weights: Sequence[Sequence[float]], axis: int, /, *, xp: Any
) -> Array:
    """Each element along ``axis`` a weighted sum of elements of ``x`` along it, tap after tap from the left.

    One function, because it fixes the order of operations, in both modes: each product is rounded, then each sum.

    Args:
        x: floats.
        indices: for each tap the positions that the elements read; None where an element has no such tap (but a first).
        weights: the same of numbers, which are rounded to x's dtype.
    """
    total = None
    for positions, factors in zip(indices, weights, strict=True):
        shape = (len(positions), *[1] * (x.ndim - axis - 1))
        index = xp.asarray([0 if i is None else i for i in positions], dtype=xp.int64)
        term = xp.take(x, index, axis=axis) * xp.reshape(xp.asarray(factors, dtype=x.dtype), shape)
        if None in positions:
            # Of all numbers only -0 leaves every sum as it is.
            there = xp.reshape(xp.asarray([i is not None for i in positions], dtype=xp.bool), shape)
            term = xp.where(there, term, xp.constant(-0.0, x))
        total = term if total is None else total + term
    return total


@extension
def integer_matmul(
    a: Array, b: Array, a_zero: Array | None = None, b_zero: Array | None = None, /, *, xp: Any
) -> Array:
    """The matrix product of int8 or uint8 arrays less their zero points, int32, which wraps.

    One function, because libraries are slow on integers, and exact on them in floats where the sums fit.

    Args:
        a, b: as for ``matmul``.
        a_zero, b_zero: of the type of a and b; they broadcast against them.
    """
    a, b = xp.astype(a, xp.int32), xp.astype(b, xp.int32)
    a = a if a_zero is None else a - xp.astype(a_zero, xp.int32)
    return xp.matmul(a, b if b_zero is None else b - xp.astype(b_zero, xp.int32))


@extension
def integer_conv(
    x: Array,
    w: Array,
    x_zero: Array | None,
    w_zero: Array | None,
    strides: Sequence[int],
    dilations: Sequence[int],
    groups: int,
    /,
    *,
    xp: Any,
) -> Array:
    """``conv`` of int8 or uint8 arrays less their zero points, int32, which wraps; see ``integer_matmul``.

    Args:
        x: padded already, with its zero point.
        w: the filters.
        x_zero, w_zero: of the type of x and w; 0-d, or for w one per filter.
    """
    columns, filters, shape = _columns(x, w, strides, dilations, groups, xp)
    if w_zero is not None and w_zero.ndim:
        w_zero = xp.reshape(w_zero, (1, groups, w.shape[0] // groups, 1))
    return xp.reshape(xp.integer_matmul(filters, columns, w_zero, x_zero), shape)
