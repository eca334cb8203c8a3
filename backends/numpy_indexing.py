"""Indices on NumPy: checking them, and writing and reducing by them; the same bits in both modes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_UFUNCS: dict[str, np.ufunc] = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def extend(x: Array, sources: Sequence[tuple[Sequence[int], Sequence[int]]], /) -> Array:
    """See ``extension.extend``; one allocation for all axes."""
    if not any(before or after for before, after in sources):
        return x
    shape = [len(before) + n + len(after) for n, (before, after) in zip(x.shape, sources, strict=True)]
    result = np.empty(shape, x.dtype)
    index = [slice(len(before), len(before) + n) for n, (before, _) in zip(x.shape, sources, strict=True)]
    result[tuple(index)] = x
    for axis, (before, after) in enumerate(sources):
        first, n = len(before), x.shape[axis]
        done, rest = tuple(index[:axis]), tuple(index[axis + 1 :])
        for places, start in ((before, 0), (after, first + n)):
            if places:
                taken = result[(*done, np.add(places, first), *rest)]
                result[(*done, slice(start, start + len(places)), *rest)] = taken
        index[axis] = slice(None)
    return result


def scatter(x: Array, rows: Array, updates: Array, reduction: str, /) -> Array:
    """See ``extension.scatter``; half types are summed and multiplied in float32."""
    if reduction == "none":
        result = x.copy()
        result[rows] = updates
        return result
    if reduction not in _UFUNCS:
        raise ValueError(f"reduction is {reduction!r}; it must be one of 'none', {', '.join(map(repr, _UFUNCS))}")
    if rows.size == 0 or x.size == 0:
        return x
    ufunc = _UFUNCS[reduction]
    if reduction in ("add", "mul"):
        if x.dtype.name in ("float16", "bfloat16"):
            return _reduced(ufunc, x.astype(np.float32), rows, updates.astype(np.float32)).astype(x.dtype)
        return _reduced(ufunc, x.copy(), rows, updates)
    if x.dtype.kind not in "fV":
        return _reduced(ufunc, x.copy(), rows, updates)
    negative = reduction == "min"
    keys = _reduced(ufunc, _ordered(x, negative), rows, _ordered(updates, negative))
    return _flipped(keys).view(x.dtype)


def _reduced(ufunc: np.ufunc, result: Array, rows: Array, updates: Array) -> Array:
    """``result`` itself, reduced with ``updates`` in order."""
    if np.bincount(rows).max() <= 1:
        result[rows] = ufunc(result[rows], updates)
    else:
        ufunc.at(result, rows, updates)
    return result


def _ordered(x: Array, negative: bool) -> Array:
    """Integers in the order of x's floats, -0 below +0, one NaN at the end (the beginning, where ``negative``)."""
    nan = np.asarray(np.nan, dtype=x.dtype)
    x = np.where(np.isnan(x), -nan if negative else nan, x)
    return _flipped(x.view(f"i{x.itemsize}"))


def _flipped(bits: Array) -> Array:
    """Sign and magnitude as two's complement, and back."""
    top = 8 * bits.itemsize - 1
    return np.asarray(bits ^ ((bits >> top) & bits.dtype.type(2**top - 1)))


def checked_indices(indices: Array, size: int, /) -> Array:
    """See ``extension.checked_indices``; one pass where nothing is wrong or negative."""
    places = indices.astype(np.int64, copy=False)
    if places.size == 0:
        return places
    least, most = int(places.min()), int(places.max())
    if least < -size or most >= size:
        wrong = places[(places < -size) | (places >= size)]
        raise IndexError(f"index {wrong[0]} is out of range for {size} elements; indices go from {-size} to {size - 1}")
    return np.where(places < 0, places + size, places) if least < 0 else places
