"""Reading and writing by index on CuPy, and weighted sums of taps: one kernel each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import cupy
import numpy as np

from onemodel.backends.base import Array
from onemodel.backends.cupy_launch import TYPES, over_elements
from onemodel.backends.cupy_run import NOWHERE, Check, current_node, kept, put_off, row_major, shared

Over = Callable[[str, str, int, Sequence[Any]], None]
"""``cupy_launch.over_elements``, or another way to compile."""

_FILE = "indices.cu"
_INDICES = {np.dtype(np.int32): "int", np.dtype(np.int64): "index_t"}
_ELEMENTS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}
_NUMBERS = {
    **{dtype: name for dtype, name in TYPES.items() if dtype.itemsize > 2},
    np.dtype(np.int32): "int",
    np.dtype(np.int64): "index_t",
    np.dtype(np.uint8): "unsigned char",
    np.dtype(np.int8): "signed char",
}
_REDUCTIONS = {"none": "Replace", "add": "Add", "mul": "Multiply", "max": "Larger", "min": "Smaller"}


def _text(size: int) -> str:
    return f"index {{}} is out of range for {size} elements; indices go from {-size} to {size - 1}"


def _wrong() -> Array:
    """Where a kernel puts the position of the first wrong index."""
    return cupy.full((1,), NOWHERE, dtype=np.int64)


def _put_off(wrong: Array, indices: Array, size: int) -> None:
    put_off(Check(wrong, IndexError, _text(size), indices, current_node()))


def checked_indices(indices: Array, size: int, /) -> Array:
    """See ``extension.checked_indices``; the check is put off, and what is wrong becomes 0."""
    if indices.dtype not in _INDICES:
        indices = indices.astype(np.int64)
    if indices.size == 0 or size == 0:
        return _refused_at_all(indices, size)
    indices = row_major(indices)
    places, wrong = cupy.empty(indices.shape, np.int64), _wrong()
    arguments = (indices, places, indices.size, size, wrong)
    over_elements(_FILE, f"check_indices<{_INDICES[indices.dtype]}>", indices.size, arguments)
    _put_off(wrong, indices, size)
    return places


def _refused_at_all(indices: Array, size: int) -> Array:
    """No indices, or none that can be right."""
    if indices.size:
        raise IndexError(f"{indices.size} indices into an axis of no elements")
    return indices.astype(np.int64)


def gather(x: Array, indices: Array, axis: int, /) -> Array:
    """See ``extension.gather``; checked and read in one pass."""
    axis %= x.ndim
    if indices.dtype not in _INDICES or x.dtype.itemsize not in _ELEMENTS or x.size == 0 or indices.size == 0:
        return cupy.take(x, checked_indices(indices, x.shape[axis]), axis=axis)
    x, indices = row_major(x), row_major(indices)
    lead, size, trail = math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :])
    result = cupy.empty((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]), x.dtype)
    wrong = _wrong()
    name = f"gather<{_ELEMENTS[x.dtype.itemsize]}, {_INDICES[indices.dtype]}>"
    over_elements(_FILE, name, result.size, (x, indices, result, lead, size, indices.size, trail, wrong))
    _put_off(wrong, indices, size)
    return result


def scatter(generic: Callable[..., Array], launch: Over = over_elements) -> Callable[..., Array]:
    """See ``extension.scatter``; every row reduces its updates in order, so the bits do not depend on the threads.

    Args:
        generic: the same function, for what the kernel does not take.
        launch: how the kernel is compiled and launched.
    """

    def compute(x: Array, rows: Array, updates: Array, reduction: str, /) -> Array:
        if reduction not in _REDUCTIONS:
            raise ValueError(f"reduction is {reduction!r}; it must be one of {', '.join(map(repr, _REDUCTIONS))}")
        if rows.size == 0 or x.size == 0:
            return x
        if x.dtype.itemsize == 2 and x.dtype in TYPES and reduction != "none":
            return compute(x.astype(np.float32), rows, updates.astype(np.float32), reduction).astype(x.dtype)
        kind = _NUMBERS.get(x.dtype)
        if reduction == "none" and x.dtype.itemsize in _ELEMENTS:
            kind = _ELEMENTS[x.dtype.itemsize]
        if kind is None:
            return generic(x, rows, updates, reduction)
        order = cupy.argsort(rows, kind="stable")
        places = cupy.take(rows, order)
        targets = cupy.arange(x.shape[0], dtype=rows.dtype)
        first, last = (cupy.searchsorted(places, targets, side) for side in ("left", "right"))
        if reduction == "none":
            first = cupy.maximum(first, last - 1)
        x, updates = row_major(x), row_major(updates)
        result = cupy.empty(x.shape, x.dtype)
        name = f"scatter<{kind}, {_REDUCTIONS[reduction]}>"
        launch(_FILE, name, x.size, (x, updates, order, first, last, result, *x.shape))
        return result

    return compute


@lru_cache(maxsize=256)
def _taps(
    indices: tuple[tuple[int | None, ...], ...], weights: tuple[tuple[float, ...], ...], dtype: Any, _device: int
) -> tuple[Array, Array]:
    """Positions and weights on the device; a model has the same ones in every run."""
    places = [[-1 if place is None else place for place in row] for row in indices]
    return shared(np.array(places, np.int64)), shared(np.array(weights, dtype))


def weighted_taps(generic: Callable[..., Array], launch: Over = over_elements) -> Callable[..., Array]:
    """See ``extension.weighted_taps``; all taps in one pass."""

    def compute(
        x: Array, indices: Sequence[Sequence[int | None]], weights: Sequence[Sequence[float]], axis: int, /
    ) -> Array:
        if x.dtype not in TYPES or x.dtype.itemsize == 2 or x.size == 0 or not indices[0]:
            return generic(x, indices, weights, axis)
        device = cupy.cuda.runtime.getDevice()
        places, factors = kept(_taps(tuple(map(tuple, indices)), tuple(map(tuple, weights)), x.dtype, device))
        taps, count = places.shape
        lead, size, trail = math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :])
        x = row_major(x)
        result = cupy.empty((*x.shape[:axis], count, *x.shape[axis + 1 :]), x.dtype)
        arguments = (x, places, factors, result, lead, size, count, trail, taps)
        launch("taps.cu", f"weighted_taps<{TYPES[x.dtype]}>", result.size, arguments)
        return result

    return compute
