"""TopK on NumPy in fast mode: find the k-th element first, then sort only what is not behind it."""

from __future__ import annotations

from typing import Any

import numpy as np

from onemodel.backends.base import Kernel

Array = np.ndarray[Any, Any]

_NUMBERS = ("float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_SPARSE = 8
"""Partitioning pays where k is at most this part of a row."""


def top_k(x: Array, k: Array, /, *, axis: int = -1, largest: int = 1, sorted: int = 1, xp: Any) -> tuple[Array, Array]:
    """TopK, see the operator; always sorted."""
    if k.shape not in ((), (1,)):
        raise ValueError(f"K of shape {k.shape} must be one number")
    count = int(k.item())
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(f"axis {axis} is not one of {x.ndim} axes; it goes from {-x.ndim} to {x.ndim - 1}")
    length = x.shape[axis]
    if not 0 <= count <= length:
        raise ValueError(f"K is {count}, but axis {axis} has {length} elements")
    rows = np.moveaxis(x, axis, -1)
    indices = None
    if 0 < count * _SPARSE <= length and x.size:
        indices = _by_partition(np.ascontiguousarray(rows).reshape(-1, length), count, bool(largest))
    if indices is None:
        indices = _order(rows, bool(largest))[..., :count]
    indices = np.moveaxis(indices.reshape(*rows.shape[:-1], count), -1, axis)
    return np.take_along_axis(x, indices, axis), np.ascontiguousarray(indices)


def _order(rows: Array, largest: bool) -> Array:
    """How to sort each row; of equal elements the first stays first, also from the greatest to the least."""
    if not largest:
        return np.argsort(rows, axis=-1, stable=True)
    return np.asarray(rows.shape[-1] - 1 - np.flip(np.argsort(np.flip(rows, -1), axis=-1, stable=True), -1))


def _by_partition(rows: Array, count: int, largest: bool) -> Array | None:
    """Indices of the ``count`` first elements of each row in order; None where NaN is among them."""
    place = rows.shape[1] - count if largest else count - 1
    parts = np.partition(rows, place, axis=1)
    last = parts[:, place : place + 1]
    if rows.dtype.kind == "f" and bool(np.isnan(parts[:, place:] if largest else last).any()):
        return None
    found = rows >= last if largest else rows <= last
    which, places = np.nonzero(found)
    if places.size == rows.shape[0] * count:
        indices = places.reshape(-1, count)
        order = _order(np.take_along_axis(rows, indices, 1), largest)
        return np.take_along_axis(indices, order, 1)
    starts = np.searchsorted(which, np.arange(rows.shape[0] + 1))
    result = np.empty((rows.shape[0], count), np.int64)
    for row in range(rows.shape[0]):
        some = places[starts[row] : starts[row + 1]]
        result[row] = some[_order(rows[row, some], largest)[:count]]
    return result


KERNELS = {("", "TopK"): Kernel(top_k, 10, _NUMBERS)}
"""Kernels of operators."""
