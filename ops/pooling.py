"""Pooling: one number for each window, or for each channel."""

from __future__ import annotations

import math

from onemodel.ops.axes import integers
from onemodel.ops.registry import operator


@operator("MaxPool", since=1)
def max_pool(
    x,
    /,
    *,
    auto_pad="NOTSET",
    ceil_mode=0,
    dilations=None,
    kernel_shape,
    pads=None,
    storage_order=0,
    strides=None,
    wanted,
    xp,
):
    """The largest element of each window, NaN if there is one, and its index in all of x; padding never counts.

    The index belongs to the first of equal elements. It counts x's elements with the last axis fastest, or, with
    ``storage_order`` 1, with the first spatial axis fastest.
    """
    windows = xp.sliding(x.shape[2:], kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    if any(0 in counts for counts in windows.counts(False)):
        raise ValueError(
            f"pads {list(windows.pads)} leave windows of kernel_shape {list(kernel_shape)} with padding alone"
        )
    largest = x
    for axis in range(2, x.ndim):
        largest = _fold(xp.maximum, _taps(_padded(largest, axis, windows, _least(x, xp), xp), axis, windows))
    if not any(wanted[1:]):
        return largest
    return largest, _indices_of_largest(x, windows, storage_order, xp)


def _indices_of_largest(x, windows, storage_order, xp):
    """For each window the index of its first largest element, NaN being largest.

    One axis after another, the last first: the first largest of a row, then the first row among those.
    """
    strides = [math.prod(x.shape[axis + 1 :]) for axis in range(x.ndim)]
    if storage_order:
        strides[2:] = [math.prod(x.shape[2:axis]) for axis in range(2, x.ndim)]
    index = xp.zeros(x.shape, dtype=xp.int64)
    for axis, stride in enumerate(strides):
        shape = (*[1] * axis, -1, *[1] * (x.ndim - axis - 1))
        index = index + xp.reshape(xp.arange(x.shape[axis], dtype=xp.int64), shape) * xp.asarray(stride, dtype=xp.int64)

    def first_largest(best, other):
        (value, at), (x, there) = best, other
        larger = (x > value) | ((x != x) & (value == value)) | (at < 0)
        larger = larger & (there >= 0)
        return xp.where(larger, x, value), xp.where(larger, there, at)

    for axis in reversed(range(2, x.ndim)):
        values = _taps(_padded(x, axis, windows, _least(x, xp), xp), axis, windows)
        indices = _taps(_padded(index, axis, windows, -1, xp), axis, windows)
        x, index = _fold(first_largest, zip(values, indices, strict=True))
    return index


@operator("AveragePool", since=1)
def average_pool(
    x,
    /,
    *,
    auto_pad="NOTSET",
    ceil_mode=0,
    count_include_pad=0,
    dilations=None,
    kernel_shape,
    pads=None,
    strides=None,
    xp,
):
    """The sum of each window over the number of its elements; padding counts on request, never what lies beyond."""
    windows = xp.sliding(x.shape[2:], kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    counts = windows.counts(bool(count_include_pad))
    if any(0 in axis for axis in counts):
        raise ValueError(
            f"pads {list(windows.pads)} leave windows of kernel_shape {list(kernel_shape)} with padding alone"
        )
    return _sum_of_windows(x, windows, xp) / _product_of_counts(counts, x, xp)


def _product_of_counts(counts, like, xp):
    """The number of elements of each window, from its counts along each axis."""
    result = xp.constant(1, like)
    for axis, along in enumerate(counts):
        shape = (-1, *[1] * (len(counts) - axis - 1))
        result = result * xp.reshape(xp.asarray(along, dtype=like.dtype), shape)
    return result


@operator("GlobalAveragePool", since=1)
def global_average_pool(x, /, *, xp):
    """The mean of each channel."""
    return xp.mean(x, axis=_spatial(x), keepdims=True)


@operator("GlobalMaxPool", since=1)
def global_max_pool(x, /, *, xp):
    """The largest element of each channel, NaN if there is one."""
    return xp.max(x, axis=_spatial(x), keepdims=True)


@operator("LpPool", since=2)
def lp_pool(
    x,
    /,
    *,
    auto_pad="NOTSET",
    ceil_mode=0,
    dilations=None,
    kernel_shape,
    p=2,
    pads=None,
    strides=None,
    xp,
):
    """The p-norm of each window; padding is 0."""
    windows = xp.sliding(x.shape[2:], kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    return _root(_sum_of_windows(_power(x, p, xp), windows, xp), p, xp)


@operator("GlobalLpPool", since=2)
def global_lp_pool(x, /, *, p=2, xp):
    """The p-norm of each channel."""
    return _root(xp.sum(_power(x, p, xp), axis=_spatial(x), keepdims=True), p, xp)


def _power(x, p, xp):
    """|x| ** p."""
    if p < 1:
        raise ValueError(f"p must be 1 or more, not {p}")
    if p == 2:
        return x * x
    return xp.abs(x) if p == 1 else xp.pow(xp.abs(x), xp.constant(p, x))


def _root(x, p, xp):
    """x ** (1 / p)."""
    if p == 2:
        return xp.sqrt(x)
    return x if p == 1 else xp.pow(x, xp.constant(1 / p, x))


@operator("MaxUnpool", since=9, host=("output_shape",), widen=False)
def max_unpool(x, indices, output_shape=None, /, *, kernel_shape, pads=None, strides=None, xp):
    """Each element of x at its index among zeros.

    An index counts the elements of the shape that the pooling implies; in another ``output_shape`` an element keeps
    its place along each axis. Of elements with the same index the last one stays.
    """
    rank = len(_spatial(x))
    strides, pads = strides or (1,) * rank, pads or (0,) * 2 * rank
    lengths = len(kernel_shape), len(strides), len(pads)
    if lengths != (rank, rank, 2 * rank) or min(strides) < 1 or indices.shape != x.shape:
        raise ValueError(
            f"kernel_shape {list(kernel_shape)}, strides {list(strides)}, pads {list(pads)} and indices of shape "
            f"{indices.shape} do not fit X of shape {x.shape}"
        )
    shape = list(x.shape)
    for i in range(rank):
        shape[i + 2] = (x.shape[i + 2] - 1) * strides[i] - pads[i] - pads[rank + i] + kernel_shape[i]
    if min(shape[2:]) < 1:
        raise ValueError(f"kernel_shape, strides and pads imply an output of shape {shape}")
    given = shape if output_shape is None else integers(output_shape)
    if len(given) != x.ndim or min(given) < 0:
        raise ValueError(f"output_shape {given} must have {x.ndim} sizes, like X of shape {x.shape}")
    # For each element of the implied shape where it is in the given one, -1 where it is not.
    places = xp.reshape(xp.arange(math.prod(given), dtype=xp.int64), tuple(given))
    places = places[tuple(slice(0, min(both)) for both in zip(shape, given, strict=True))]
    places = xp.pad(places, [(0, max(size - new, 0)) for size, new in zip(shape, given, strict=True)], -1)
    index = xp.reshape(indices, (-1,))
    text = f"index {{}} is not one of the {math.prod(shape)} of the implied shape {shape}"
    xp.refuse((index < 0) | (index >= math.prod(shape)), IndexError, text, index)
    rows = xp.take(xp.reshape(places, (-1,)), index)
    text = f"index {{}} of the implied shape {shape} lies outside of output_shape {given}"
    xp.refuse(rows < 0, IndexError, text, index)
    nothing = xp.zeros((math.prod(given), 1), dtype=x.dtype)
    return xp.reshape(xp.scatter(nothing, rows, xp.reshape(x, (-1, 1)), "none"), tuple(given))


# Windows


def _spatial(x):
    """The axes that are pooled, all but batch and channels."""
    if x.ndim < 3 or 0 in x.shape[2:]:
        raise ValueError(f"X must have batch, channels and spatial axes that are not empty; its shape is {x.shape}")
    return tuple(range(2, x.ndim))


def _least(x, xp):
    """What no element of x's dtype is below."""
    return -math.inf if xp.isdtype(x.dtype, "real floating") else xp.iinfo(x.dtype).min


def _padded(x, axis, windows, value, xp):
    """x with the windows' padding along one axis."""
    return xp.pad(x, [windows.widths[axis - 2] if i == axis else (0, 0) for i in range(x.ndim)], value)


def _taps(x, axis, windows):
    """For each tap of the kernel along ``axis``, the elements of x that it meets, one per window."""
    stride, positions = windows.strides[axis - 2], windows.positions[axis - 2]
    for tap in range(windows.kernel[axis - 2]):
        start = tap * windows.dilations[axis - 2]
        yield x[(slice(None),) * axis + (slice(start, start + (positions - 1) * stride + 1, stride), ...)]


def _fold(function, items):
    """function(... function(first, second) ..., last)."""
    items = iter(items)
    result = next(items)
    for item in items:
        result = function(result, item)
    return result


def _sum_of_windows(x, windows, xp):
    """The sum of each window, padded with zeros; one sum, because exact mode rounds it once."""
    rank = len(windows.kernel)
    x = xp.pad(x, ((0, 0), (0, 0), *windows.widths))
    taps = xp.windows(x, windows.kernel, windows.strides, windows.dilations)
    return xp.sum(taps, axis=tuple(range(taps.ndim - rank, taps.ndim)))
