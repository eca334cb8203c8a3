"""Sums and means of NumPy arrays in fast mode, none of which loses digits by its layout."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_LONG = 4096
"""Terms of a float32 sum from which on adding them one by one loses too much."""


def _axes(x: Array, axis: int | tuple[int, ...] | None) -> tuple[int, ...]:
    axes = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    return tuple(i % x.ndim for i in axes)


def row_sums(x: Array, /) -> Array:
    """The sums of the rows of a matrix. NumPy's reduction takes several times as long where rows are short."""
    return np.asarray(np.einsum("ij->i", x) if x.shape[1] <= _LONG else np.add.reduce(x, axis=1))


def sum_(x: Array, /, *, axis: int | tuple[int, ...] | None = None, dtype: Any = None, keepdims: bool = False) -> Array:
    """The standard's ``sum``. NumPy adds pairwise along the axis of the least stride alone, and else one by one."""
    if x.dtype == np.float32 and dtype in (None, np.float32) and x.size > _LONG:
        axes = _axes(x, axis)
        lead = x.ndim - len(axes)
        if sorted(axes) == list(range(lead, x.ndim)) and x.flags.c_contiguous:
            sums = row_sums(x.reshape(-1, math.prod(x.shape[lead:])))
            return sums.reshape((*x.shape[:lead], *[1] * (keepdims * len(axes))))
        nearest = min((abs(stride), -i) for i, stride in enumerate(x.strides) if x.shape[i] > 1)
        if -nearest[1] not in axes and math.prod(x.shape[i] for i in axes) > _LONG:
            return np.asarray(np.sum(x, axis=axes, dtype=np.float64, keepdims=keepdims)).astype(np.float32)
    return np.asarray(np.sum(x, axis=axis, dtype=dtype, keepdims=keepdims))


def mean(x: Array, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
    """The standard's ``mean``; NumPy's own warns where there is nothing to add up, and NaN is the answer to that."""
    total = sum_(x, axis=axis, keepdims=keepdims)
    return np.asarray(total / np.asarray(math.prod(x.shape[i] for i in _axes(x, axis)), total.dtype))
