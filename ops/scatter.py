"""Writing into a copy of an array by index."""

from __future__ import annotations

import math

from onemodel.ops.axes import integers, one_axis
from onemodel.ops.indexing import check_elements, rows_of
from onemodel.ops.registry import operator

# With duplicate indices the last one wins where nothing is reduced; reductions take the updates in order.


@operator("ScatterElements", since=16, widen=False)
def scatter_elements(data, indices, updates, /, *, axis=0, reduction="none", xp):
    """``data`` with each update at its own place, but for ``axis``, where its index says; see ``extension.scatter``."""
    axis = one_axis(axis, data.ndim)
    check_elements(data, indices, axis)
    if updates.shape != indices.shape:
        raise ValueError(f"updates of shape {updates.shape} must have the shape of indices, {indices.shape}")
    rows = xp.zeros((), dtype=xp.int64)
    for i, size in enumerate(data.shape):
        if i == axis:
            places = xp.checked_indices(indices, size)
        else:
            places = xp.reshape(xp.arange(indices.shape[i], dtype=xp.int64), (-1, *[1] * (data.ndim - 1 - i)))
        rows = rows * size + places
    rows = xp.reshape(xp.broadcast_to(rows, indices.shape), (-1,))
    table = xp.scatter(xp.reshape(data, (-1, 1)), rows, xp.reshape(updates, (-1, 1)), reduction)
    return xp.reshape(table, data.shape)


@operator("ScatterElements", since=11, widen=False)
@operator("Scatter", since=9, widen=False)
def scatter_elements_before_16(data, indices, updates, /, *, axis=0, xp):
    """Before opset 16 nothing is reduced."""
    return scatter_elements(data, indices, updates, axis=axis, xp=xp)


@operator("ScatterND", since=16, widen=False)
def scatter_nd(data, indices, updates, /, *, reduction="none", xp):
    """``data`` with each update at the place that the index tuple in the last axis of ``indices`` names."""
    width = indices.shape[-1] if indices.ndim else 0
    if not 1 <= width <= data.ndim:
        raise ValueError(f"indices of shape {indices.shape} do not hold index tuples into data of shape {data.shape}")
    sizes, rest = data.shape[:width], data.shape[width:]
    if updates.shape != (*indices.shape[:-1], *rest):
        raise ValueError(f"updates of shape {updates.shape} must have the shape {(*indices.shape[:-1], *rest)}")
    rows = xp.reshape(rows_of(indices, sizes, xp), (-1,))
    each = math.prod(rest)
    table = xp.reshape(data, (math.prod(sizes), each))
    return xp.reshape(xp.scatter(table, rows, xp.reshape(updates, (rows.shape[0], each)), reduction), data.shape)


@operator("ScatterND", since=11, widen=False)
def scatter_nd_before_16(data, indices, updates, /, *, xp):
    """Before opset 16 nothing is reduced."""
    return scatter_nd(data, indices, updates, xp=xp)


@operator("TensorScatter", since=24, host=("write_indices",), widen=False)
def tensor_scatter(past_cache, update, write_indices=None, /, *, axis=-2, mode="linear", xp):
    """A cache with ``update`` written along ``axis`` from ``write_indices`` (one per batch, or 0) on."""
    axis = one_axis(axis, past_cache.ndim)
    if axis == 0:
        raise ValueError("axis 0 is the batch; it cannot be the axis of the sequence")
    if mode not in ("linear", "circular"):
        raise ValueError(f"mode is {mode!r}; it must be 'linear' or 'circular'")
    before, most, after = past_cache.shape[:axis], past_cache.shape[axis], past_cache.shape[axis + 1 :]
    steps = update.shape[axis] if update.ndim == past_cache.ndim else -1
    if update.shape != (*before, steps, *after) or steps > most:
        raise ValueError(f"update {update.shape} does not fit into a cache {past_cache.shape} along axis {axis}")
    starts = [0] * before[0] if write_indices is None else integers(write_indices)
    last = most - steps if mode == "linear" else most - 1
    if len(starts) != before[0] or not all(0 <= start <= last for start in starts):
        raise ValueError(f"write_indices {starts} must be {before[0]} numbers from 0 to {last}")
    places = xp.expand_dims(xp.as_index(starts), axis=1) + xp.expand_dims(xp.arange(steps, dtype=xp.int64), axis=0)
    places = xp.reshape(xp.where(places >= most, places - most, places), (before[0], *[1] * (axis - 1), steps))
    firsts = xp.reshape(xp.arange(math.prod(before), dtype=xp.int64) * most, (*before, 1))
    rows = xp.reshape(firsts + places, (-1,))
    each = math.prod(after)
    table = xp.reshape(past_cache, (math.prod(before) * most, each))
    return xp.reshape(xp.scatter(table, rows, xp.reshape(update, (rows.shape[0], each)), "none"), past_cache.shape)
