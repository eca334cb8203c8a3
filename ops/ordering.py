"""Sorting: the largest and smallest elements, and the different ones."""

from __future__ import annotations

import math

from onemodel.ops.axes import one_axis, one_number
from onemodel.ops.registry import operator


@operator("TopK", since=10, host=("k",))
def top_k(x, k, /, *, axis=-1, largest=1, sorted=1, xp):
    """The k largest or smallest elements along ``axis`` in order, and where they are.

    Of equal ones the one with the lower index comes first; NaN is the greatest.
    """
    return _top(x, one_number(k, "K", int), axis, largest, xp)


@operator("TopK", since=1)
def top_k_of_attribute(x, /, *, k, axis=-1, xp):
    """Before opset 10 k is an attribute, and the largest elements are meant."""
    return _top(x, k, axis, 1, xp)


def _top(x, k, axis, largest, xp):
    axis = one_axis(axis, x.ndim)
    if not 0 <= k <= x.shape[axis]:
        raise ValueError(f"K is {k}, but axis {axis} has {x.shape[axis]} elements")
    order = xp.argsort(x, axis=axis, descending=bool(largest), stable=True)
    indices = xp.astype(order[(slice(None),) * axis + (slice(0, k), ...)], xp.int64, copy=False)
    return xp.take_along_axis(x, indices, axis=axis), indices


@operator("Unique", since=11)
def unique(x, /, *, axis=None, sorted=1, xp):
    """The different elements, or slices along ``axis``; where each comes first, where each element went, and how often.

    They are sorted, slices by their first elements first, or stay in x's order. NaN equals nothing, and is greatest.
    """
    if axis is None:
        axis, x = 0, xp.reshape(x, (-1,))
    axis = one_axis(axis, x.ndim)
    count = x.shape[axis]
    rows = xp.reshape(xp.moveaxis(x, axis, 0), (count, math.prod(x.shape) // count if count else 0))
    order = xp.arange(count, dtype=xp.int64)
    for column in range(rows.shape[1] - 1, -1, -1):
        for key in _keys(rows[:, column], xp):
            order = xp.take(order, xp.argsort(xp.take(key, order), stable=True))
    arranged = xp.take(rows, order, axis=0)
    new = xp.any(arranged[min(count, 1) :, :] != arranged[: max(count - 1, 0), :], axis=1)
    starts = xp.nonzero(xp.concat([xp.ones((min(count, 1),), dtype=xp.bool), new]))[0]
    places = xp.searchsorted(starts, xp.arange(count, dtype=starts.dtype), side="right") - 1
    inverse = xp.take(places, xp.argsort(order))
    counts = xp.diff(starts, append=xp.asarray([count], dtype=starts.dtype))
    first = xp.take(order, starts)
    if not sorted:
        by_place = xp.argsort(first)
        first, counts = xp.take(first, by_place), xp.take(counts, by_place)
        inverse = xp.take(xp.argsort(by_place), inverse)
    outputs = (first, inverse, counts)
    return xp.take(x, first, axis=axis), *(xp.astype(output, xp.int64, copy=False) for output in outputs)


def _keys(values, xp):
    """What to sort by, the last key first; the standard sorts real numbers alone."""
    if xp.isdtype(values.dtype, "complex floating"):
        return xp.imag(values), xp.real(values)
    if xp.isdtype(values.dtype, "bool"):
        return (xp.astype(values, xp.uint8),)
    return (values,)
