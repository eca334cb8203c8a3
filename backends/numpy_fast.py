"""NumPy's own way where the Array API's would be slower, or where NumPy lacks a type of the standard's function."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import array_api_compat.numpy as library
import numpy as np
from numpy.lib.stride_tricks import as_strided

from onemodel.backends import numpy_convolution, numpy_elementwise, numpy_normalization, numpy_reduction
from onemodel.backends.numpy_indexing import checked_indices
from onemodel.backends.sliding import positions_of

Array = np.ndarray[Any, Any]

_HALVES = ("float16", "bfloat16")

_BLOCK = 16384
"""Elements at a time, so that they stay in the second-level cache."""


def windows(x: Array, kernel_shape: Sequence[int], strides: Sequence[int], dilations: Sequence[int], /) -> Array:
    """See ``extension.windows``; a view, not a copy."""
    lead = x.ndim - len(kernel_shape)
    positions = positions_of(x.shape[lead:], kernel_shape, strides, dilations)
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
    try:
        return np.take(x, indices, axis=axis)
    except IndexError:
        checked_indices(indices, x.shape[axis])  # says it in the same words as elsewhere
        raise


def truth_of(step: Any) -> Callable[..., Any]:
    """The standard's ``all`` or ``any`` by its step, without the frames that NumPy puts around a reduction."""

    def reduce(x: Array, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Any:
        return step.reduce(x, axis, bool, None, keepdims)

    return reduce


def where(condition: Any, a: Any, b: Any, /) -> Array:
    """The standard's ``where``: of many elements of 32 bits by masks, which do not care how often the condition turns.

    NumPy's own takes four times as long where it turns at random.
    """
    if not isinstance(condition, np.ndarray) or condition.size <= _BLOCK or not condition.flags.c_contiguous:
        return np.asarray(np.where(condition, a, b))
    parts = [part for part in (a, b) if isinstance(part, np.ndarray)]
    if len(parts) < 2 or a.dtype != b.dtype or a.dtype.itemsize != 4 or condition.dtype != np.bool_:
        return np.asarray(np.where(condition, a, b))
    if any(part.ndim and (part.shape != condition.shape or not part.flags.c_contiguous) for part in parts):
        return np.asarray(np.where(condition, a, b))
    result = np.empty(condition.shape, a.dtype)
    chosen, target = condition.reshape(-1).view(np.int8), result.reshape(-1).view(np.int32)
    first, second = (part.reshape(-1).view(np.int32) if part.ndim else part.view(np.int32) for part in parts)
    buffer = np.empty(_BLOCK, np.int32)
    for start in range(0, condition.size, _BLOCK):
        here = slice(start, start + _BLOCK)
        x, y = (part[here] if part.ndim else part for part in (first, second))
        out = target[here]
        mask = buffer[: out.size]
        np.copyto(mask, chosen[here])
        np.negative(mask, out=mask)
        np.bitwise_xor(x, y, out=out)
        np.bitwise_and(out, mask, out=out)
        np.bitwise_xor(out, y, out=out)
    return result


def weighted_taps(
    x: Array, indices: Sequence[Sequence[int | None]], weights: Sequence[Sequence[float]], axis: int, /
) -> Array:
    """See ``extension.weighted_taps``; the same operations, block by block in place."""
    lead, size, trail = math.prod(x.shape[:axis]), x.shape[axis], x.shape[axis + 1 :]
    count = len(indices[0])
    rows = x.reshape(lead, size, *([math.prod(trail)] if trail else []))
    result = np.empty((lead, count, *rows.shape[2:]), x.dtype)
    taps = []
    for positions, factors in zip(indices, weights, strict=True):
        missing = [i for i, position in enumerate(positions) if position is None]
        index = np.array([position or 0 for position in positions], np.intp)
        taps.append((index, np.array(factors, x.dtype).reshape(count, *[1] * len(trail[:1])), missing))
    block = max(1, 65536 // max(math.prod(result.shape[1:]), 1))
    term = np.empty((min(block, lead), *result.shape[1:]), x.dtype)
    for start in range(0, lead, block):
        part, total = rows[start : start + block], result[start : start + block]
        for i, (index, factor, missing) in enumerate(taps):
            target = term[: len(total)] if i else total
            np.take(part, index, axis=1, out=target, mode="clip")
            target *= factor
            if missing:
                target[:, missing] = -0.0
            if i:
                total += target
    return result.reshape(*x.shape[:axis], count, *trail)


def join_complex(x: Array, /) -> Array:
    """See ``extension.join_complex``; a view where the parts lie side by side."""
    dtype = np.complex64 if x.dtype == np.float32 else np.complex128
    return np.ascontiguousarray(x).view(dtype)[..., 0]


def split_complex(z: Array, /) -> Array:
    """See ``extension.split_complex``; a view."""
    return np.ascontiguousarray(z).view(z.real.dtype).reshape(*z.shape, 2)


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
    """See ``extension.sigmoid``; two buffers."""
    power = np.asarray(numpy_elementwise.minimum(x, np.asarray(80, x.dtype)))
    np.exp(power, out=power)
    return np.asarray(np.divide(power, power + 1, out=power))


def silu(x: Array, /) -> Array:
    """See ``extension.silu``."""
    result = sigmoid(x)
    return np.asarray(np.multiply(result, x, out=result))


MEMBERS: dict[str, Any] = {
    name: half_through_float32(getattr(library, name))
    for name in ("matmul", "tensordot", "vecdot", "prod", "cumulative_sum", "cumulative_prod")
}
MEMBERS["sum"] = half_through_float32(numpy_reduction.sum_)
MEMBERS["mean"] = half_through_float32(numpy_reduction.mean)
MEMBERS["sigmoid"] = sigmoid
MEMBERS["silu"] = silu
MEMBERS["exp2"] = np.exp2
MEMBERS["matmul"] = half_through_float32(numpy_convolution.matmul)
MEMBERS["rescale"] = numpy_normalization.rescale
MEMBERS["standardized"] = numpy_normalization.standardized
MEMBERS["conv"] = half_through_float32(numpy_convolution.convolve)
MEMBERS |= numpy_elementwise.MEMBERS
