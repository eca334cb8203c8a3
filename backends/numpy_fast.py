"""NumPy's own way where the Array API's would be slower, or where NumPy lacks a type of the standard's function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import array_api_compat.numpy as library
import numpy as np
from numpy.lib.stride_tricks import as_strided

Array = np.ndarray[Any, Any]

_HALVES = ("float16", "bfloat16")


def windows(x: Array, kernel_shape: Sequence[int], strides: Sequence[int], dilations: Sequence[int], /) -> Array:
    """See ``extension.windows``; a view, not a copy."""
    lead = x.ndim - len(kernel_shape)
    spatial = zip(x.shape[lead:], kernel_shape, strides, dilations, strict=True)
    positions = [
        max((size - dilation * (kernel - 1) - 1) // stride + 1, 0) for size, kernel, stride, dilation in spatial
    ]
    steps = x.strides[lead:]
    return as_strided(
        x,
        (*x.shape[:lead], *positions, *kernel_shape),
        (
            *x.strides[:lead],
            *(step * stride for step, stride in zip(steps, strides, strict=True)),
            *(step * dilation for step, dilation in zip(steps, dilations, strict=True)),
        ),
        writeable=False,
    )


def pad(x: Array, widths: Sequence[tuple[int, int]], value: Any = 0, /) -> Array:
    """See ``extension.pad``; one allocation for all axes."""
    if not any(before or after for before, after in widths):
        return x
    shape = [before + size + after for size, (before, after) in zip(x.shape, widths, strict=True)]
    result = np.full(shape, value, x.dtype)
    result[tuple(slice(before, before + size) for size, (before, _) in zip(x.shape, widths, strict=True))] = x
    return result


def gather(x: Array, indices: Array, axis: int, /) -> Array:
    """See ``extension.gather``; NumPy checks the indices itself."""
    return np.take(x, indices, axis=axis)


def half_through_float32(function: Callable[..., Array]) -> Callable[..., Array]:
    """``function`` with float16 and bfloat16 arrays computed in float32 and rounded once.

    NumPy multiplies and adds them in their own type, term by term, and has no bfloat16 matrix product.
    """

    @wraps(function)
    def compute(*arrays: Any, **options: Any) -> Array:
        dtype = arrays[0].dtype
        if dtype.name not in _HALVES:
            return function(*arrays, **options)
        widened = [array.astype(np.float32) if isinstance(array, np.ndarray) else array for array in arrays]
        return np.asarray(function(*widened, **options)).astype(dtype)

    return compute


def sigmoid(x: Array, /) -> Array:
    """See ``extension.sigmoid``; one buffer."""
    result = np.asarray(np.negative(x))
    np.exp(result, out=result)
    result += 1
    return np.divide(1, result, out=result)


MEMBERS: dict[str, Any] = {
    name: half_through_float32(getattr(library, name))
    for name in ("matmul", "tensordot", "vecdot", "sum", "prod", "mean", "cumulative_sum", "cumulative_prod")
}
MEMBERS["sigmoid"] = sigmoid
