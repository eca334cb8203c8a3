"""Operators that move elements by indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.oracle.draw import Array, Case, Draw, draws, kind
from tests.oracle.shape import ints


def indices(d: Draw, dtype: Any, shape: Any, size: int) -> Array:
    """Indices into an axis of ``size``, negative ones too from opset 11 on."""
    low = -size if d.opset >= 11 and kind(np.dtype(dtype)) == "i" else 0
    return d.rng.integers(low, size, shape).astype(dtype) if size else np.zeros(shape, dtype)


@draws("Gather")
def gather(d: Draw) -> Case:
    x = d.array(d.dtype(), d.shape(1, 4))
    axis = d.axis(x.ndim) if d.opset >= 11 else d.integer(0, x.ndim - 1)
    shape = d.shape(0, 3) if x.shape[axis] else (0,)
    return d.case(x, indices(d, d.dtype("Tind"), shape, x.shape[axis]), axis=axis if axis else d.maybe(0))


@draws("GatherElements")
def gather_elements(d: Draw) -> Case:
    x = d.array(d.dtype(), d.shape(1, 4, empty=False))
    axis = d.axis(x.ndim)
    shape = [d.integer(1, size) for size in x.shape]
    shape[axis] = d.integer(1, 4)
    return d.case(x, indices(d, d.dtype("Tind"), shape, x.shape[axis]), axis=axis if axis else d.maybe(0))


@draws("GatherND")
def gather_nd(d: Draw) -> Case:
    x = d.array(d.dtype(), d.shape(1, 4, empty=False))
    batch = d.integer(0, x.ndim - 1) if d.opset >= 12 else 0
    depth = d.integer(1, x.ndim - batch)
    shape = (*x.shape[:batch], *d.shape(0, 2))
    return d.case(x, tuples(d, shape, x.shape[batch : batch + depth]), batch_dims=batch if batch else None)


def tuples(d: Draw, shape: Any, sizes: Any) -> Array:
    """Indices of several axes, in the last axis of the result."""
    return np.stack([indices(d, np.int64, shape, size) for size in sizes], axis=-1)


@draws("Scatter", "ScatterElements")
def scatter_elements(d: Draw) -> Case:
    reductions = {16: ("none", "add", "mul"), 18: ("none", "add", "mul", "max", "min")}
    reduction = d.maybe(*reductions[min(d.opset, 18) // 2 * 2]) if d.opset >= 16 else None
    dtype = d.dtype(kinds="iuf" if reduction not in (None, "none") else "")
    x = d.array(dtype, d.shape(1, 4, empty=False), "finite", -3, 3)
    axis = d.axis(x.ndim) if d.opset >= 11 else d.integer(0, x.ndim - 1)
    shape = [d.integer(1, size) for size in x.shape]
    index = indices(d, d.dtype("Tind"), shape, x.shape[axis])
    if reduction in (None, "none"):
        index = np.moveaxis(
            np.broadcast_to(d.rng.permutation(x.shape[axis])[: shape[axis]], np.moveaxis(index, axis, -1).shape),
            -1,
            axis,
        ).astype(index.dtype)
    updates = d.array(dtype, shape, "finite", -3, 3)
    given = axis if axis else d.maybe(0)
    return d.case(x, index, updates, axis=given, reduction=reduction, rtol=1e-4, zeros=reduction is None)


@draws("ScatterND")
def scatter_nd(d: Draw) -> Case:
    reductions = {16: ("none", "add", "mul"), 18: ("none", "add", "mul", "max", "min")}
    reduction = d.maybe(*reductions[min(d.opset, 18) // 2 * 2]) if d.opset >= 16 else None
    dtype = d.dtype(kinds="iuf" if reduction not in (None, "none") else "")
    x = d.array(dtype, d.shape(1, 4, empty=False), "finite", -3, 3)
    depth = d.integer(1, x.ndim)
    index = tuples(d, d.shape(1, 2, empty=False), x.shape[:depth])
    if reduction in (None, "none"):
        every = np.argwhere(np.ones(x.shape[:depth]))
        index = every[d.rng.permutation(len(every))[: d.integer(1, len(every))]]
    updates = d.array(dtype, (*index.shape[:-1], *x.shape[depth:]), "finite", -3, 3)
    return d.case(x, index, updates, reduction=reduction, rtol=1e-4, zeros=reduction is None)


@draws("TensorScatter")
def tensor_scatter(d: Draw) -> Case:
    rank = d.integer(2, 4)
    cache = [d.integer(1, 4) for _ in range(rank)]
    axis = d.pick(*range(1, rank), *range(1 - rank, 0))
    update = list(cache)
    update[axis] = d.integer(1, cache[axis])
    mode = d.maybe("linear", "circular")
    last = cache[axis] - 1 if mode == "circular" else cache[axis] - update[axis]
    writes = d.maybe(ints(d.integers(0, last, cache[0])))
    dtype = d.dtype()
    return d.case(d.array(dtype, cache), d.array(dtype, update), writes, axis=axis, mode=mode)


@draws("NonZero")
def non_zero(d: Draw) -> Case:
    return d.case(d.array(d.dtype(), d.shape(0, 4), "ties"))


@draws("Compress")
def compress(d: Draw) -> Case:
    x = d.array(d.dtype(), d.shape(1, 4))
    axis = d.maybe(d.axis(x.ndim) if d.opset >= 11 else d.integer(0, x.ndim - 1))
    length = x.size if axis is None else x.shape[axis]
    return d.case(x, d.array(bool, (d.integer(min(1, length), length),)), axis=axis)


@draws("OneHot")
def one_hot(d: Draw) -> Case:
    some = () if d.chance(0.3) else ("int64", "float32", "int32", "object")  # it has kernels for few combinations
    depth, where = d.integer(1, 5), d.dtype("T1", among=some)
    low = -depth - 1 if d.opset >= 11 and kind(where) != "u" else 0
    index = d.rng.integers(low, depth + 2, d.shape(0, 3)).astype(where)
    axis = d.maybe(d.axis(index.ndim + 1))
    values = d.array(d.dtype("T3", among=some), (2,))
    return d.case(index, np.array(d.pick(depth, [depth]), d.dtype("T2", among=some)), values, axis=axis)
