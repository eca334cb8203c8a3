"""Softmax, normalization and sums of rows on CuPy: one kernel each, where the generic form makes several passes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import cupy
import numpy as np

from onemodel.backends import cupy_launch
from onemodel.backends.base import Array, Kernel
from onemodel.backends.cupy_launch import TYPES, over_rows, wide
from onemodel.backends.cupy_run import row_major

_FILE = "rows.cu"
_STASH = {1: np.dtype(np.float32), 11: np.dtype(np.float64)}
"""ONNX's codes of the types that statistics are computed in."""


def softmax(generic: Callable[[Array, int], Array]) -> Callable[[Array, int], Array]:
    """See ``extension.softmax``; the last axis in one kernel, others as ``generic`` has it."""

    def compute(x: Array, axis: int, /) -> Array:
        if axis not in (-1, x.ndim - 1) or x.dtype not in TYPES or x.size == 0:
            return generic(x, axis)
        x = row_major(x)
        result = cupy.empty(x.shape, x.dtype)
        rows, length = x.size // x.shape[-1], x.shape[-1]
        over_rows(_FILE, f"softmax<{TYPES[x.dtype]}>", rows, length, (x, result, rows, length))
        return result

    return compute


def row_sums(generic: Callable[..., Array], *, mean: bool) -> Callable[..., Array]:
    """The standard's ``sum`` or ``mean``; half types along the last axis without arrays of float32 between."""

    def compute(x: Array, /, *, axis: Any = None, keepdims: bool = False, **options: Any) -> Array:
        last = axis if isinstance(axis, int) else axis[0] if isinstance(axis, tuple) and len(axis) == 1 else None
        half = x.dtype in TYPES and x.dtype.itemsize == 2
        if last not in (-1, x.ndim - 1) or last is None or not half or x.size == 0 or options.get("dtype") is not None:
            return generic(x, axis=axis, keepdims=keepdims, **options)
        x = row_major(x)
        length = x.shape[-1]
        result = cupy.empty(x.shape[:-1], x.dtype)
        divisor = np.float32(length if mean else 1)
        over_rows(_FILE, f"sum_rows<{TYPES[x.dtype]}>", result.size, length, (x, result, result.size, length, divisor))
        return cupy.expand_dims(result, -1) if keepdims else result

    return compute


def _rows(x: Array, axis: int, scale: Array, *offsets: Array | None) -> int | None:
    """The length of the rows from ``axis`` on, where scale and offsets have one element for each; else None."""
    axis = axis + x.ndim if axis < 0 else axis
    if not 0 <= axis < x.ndim or x.size == 0:
        return None
    shape = x.shape[axis:]
    same = all(array is None or (array.shape == shape and array.dtype == x.dtype) for array in (scale, *offsets))
    return math.prod(shape) if same else None


def layer_normalization(
    x: Array,
    scale: Array,
    b: Array | None = None,
    /,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
    xp: Any,
) -> Any:
    """LayerNormalization, a row at a time."""
    length = _rows(x, axis, scale, b)
    if length is None or _STASH.get(stash_type) != wide(x.dtype):
        return NotImplemented
    x = row_major(x)
    rows, kind = x.size // length, wide(x.dtype)
    result = cupy.empty(x.shape, x.dtype)
    means, inverses = (cupy.empty((rows,), kind) for _ in range(2))
    scale = row_major(scale)
    b = None if b is None else row_major(b)
    arguments = (x, scale, b, result, means, inverses, rows, length, kind(epsilon))
    over_rows(_FILE, f"layer_norm<{TYPES[x.dtype]}>", rows, length, arguments)
    shape = (*x.shape[: axis + x.ndim if axis < 0 else axis], *[1] * (x.ndim - (axis % x.ndim)))
    return result, cupy.reshape(means, shape), cupy.reshape(inverses, shape)


def rms_normalization(
    x: Array, scale: Array, /, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1, xp: Any
) -> Any:
    """RMSNormalization, a row at a time."""
    length = _rows(x, axis, scale)
    if length is None or _STASH.get(stash_type) != wide(x.dtype):
        return NotImplemented
    x, scale = row_major(x), row_major(scale)
    rows, result = x.size // length, cupy.empty(x.shape, x.dtype)
    arguments = (x, scale, result, rows, length, wide(x.dtype)(epsilon))
    over_rows(_FILE, f"rms_norm<{TYPES[x.dtype]}>", rows, length, arguments)
    return result


KERNELS = {
    ("", "LayerNormalization"): Kernel(layer_normalization, 17, cupy_launch.NAMES, halves=True, partial=True),
    ("", "RMSNormalization"): Kernel(rms_normalization, 23, cupy_launch.NAMES, halves=True, partial=True),
}
