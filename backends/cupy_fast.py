"""CuPy's own way where the Array API's would be slower, would wait for the device, or where CuPy differs from NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial, wraps
from types import ModuleType
from typing import Any

import array_api_compat.cupy as namespace
import array_api_compat.numpy as host_library
import cupy
import numpy as np

from onemodel.backends import cupy_convert, cupy_gemm, cupy_run, get_backend
from onemodel.backends.base import Array
from onemodel.backends.cupy_narrow import BFLOAT16, DTYPES, NarrowArray, filling, moving, widened
from onemodel.backends.cupy_run import row_major
from onemodel.backends.sliding import positions_of

library: ModuleType = namespace
_host = get_backend("numpy").namespace("fast")

_HALVES = (np.dtype(np.float16), BFLOAT16)


def clip(x: Array, /, min: Any = None, max: Any = None) -> Array:
    """The standard's ``clip``: array_api_compat's assigns by boolean masks, which waits for the device."""
    x = x if min is None else cupy.maximum(x, min if hasattr(min, "dtype") else x.dtype.type(min))
    return x if max is None else cupy.minimum(x, max if hasattr(max, "dtype") else x.dtype.type(max))


def where(condition: Array, a: Any, b: Any, /) -> Array:
    """The standard's ``where``: CuPy's gives float32 for bfloat16."""
    if getattr(a, "dtype", None) == BFLOAT16 == getattr(b, "dtype", None):
        words = cupy.where(condition, *(row_major(x).view(np.uint16) for x in (a, b)))
        return words.view(BFLOAT16)
    return cupy.where(condition, a, b)


def isdtype(dtype: Any, kind: Any) -> bool:
    """The standard's ``isdtype``: NumPy's, which CuPy has taken over, knows no bfloat16."""
    if dtype != BFLOAT16:
        return bool(library.isdtype(dtype, kind))
    return any(one in ("real floating", "numeric", BFLOAT16) for one in (kind if isinstance(kind, tuple) else (kind,)))


def trunc_remainder(a: Array, b: Array, /) -> Array:
    """See ``extension.trunc_remainder``; C's function."""
    return cupy.fmod(a, b)


def remainder(a: Any, b: Any, /) -> Array:
    """The standard's ``remainder``: CuPy's is a - floor(a / b) * b, which is NaN for a finite a and an infinite b."""
    dtype = library.result_type(a, b)
    if dtype.kind not in "fV":
        return cupy.remainder(a, b)
    rest = cupy.fmod(a, b)
    other_side = (rest != 0) & ((rest < 0) != (b < dtype.type(0)))
    return cupy.where(other_side, rest + b, cupy.where(rest == 0, cupy.copysign(rest, b), rest))


def floor_divide(a: Any, b: Any, /) -> Array:
    """The standard's ``floor_divide``; of floats by ``remainder``, for the same reason."""
    dtype = library.result_type(a, b)
    return cupy.floor_divide(a, b) if dtype.kind not in "fV" else cupy.rint((a - remainder(a, b)) / b)


def round_(x: Array, /) -> Array:
    """The standard's ``round``."""
    return cupy.rint(x) if x.dtype.kind in "fV" else x.copy()


def repeat(x: Array, repeats: Any, /, *, axis: int | None = None) -> Array:
    """The standard's ``repeat``; counts on the device have to be read."""
    if not isinstance(repeats, int):
        repeats = cupy_run.to_host(repeats).tolist()
    return cupy.repeat(x, repeats, axis)


def windows(x: Array, kernel_shape: Sequence[int], strides: Sequence[int], dilations: Sequence[int], /) -> Array:
    """See ``extension.windows``; a view, not a copy."""
    lead = x.ndim - len(kernel_shape)
    positions = positions_of(x.shape[lead:], kernel_shape, strides, dilations)
    steps = x.strides[lead:]
    return cupy.lib.stride_tricks.as_strided(
        x,
        (*x.shape[:lead], *positions, *kernel_shape),
        (
            *x.strides[:lead],
            *(step * stride for step, stride in zip(steps, strides, strict=True)),
            *(step * dilation for step, dilation in zip(steps, dilations, strict=True)),
        ),
    )


def pad(x: Array, widths: Sequence[tuple[int, int]], value: Any = 0, /) -> Array:
    """See ``extension.pad``; one allocation for all axes."""
    if not any(before or after for before, after in widths):
        return x
    shape = [before + size + after for size, (before, after) in zip(x.shape, widths, strict=True)]
    result = cupy.empty(shape, x.dtype)
    result[...] = value
    result[tuple(slice(before, before + size) for size, (before, _) in zip(x.shape, widths, strict=True))] = x
    return result


_JOINED = 8
"""Arrays that CuPy joins without a table of their addresses, which it would upload."""


def concat(arrays: Any, /, *, axis: int | None = 0) -> Array:
    """The standard's ``concat``; for a CUDA graph some at a time."""
    if cupy_run.recorder() is None or len(arrays) <= _JOINED or axis is None:
        return library.concat(arrays, axis=axis)
    parts = [library.concat(arrays[i : i + _JOINED], axis=axis) for i in range(0, len(arrays), _JOINED)]
    return concat(parts, axis=axis)


def stack(arrays: Any, /, *, axis: int = 0) -> Array:
    """The standard's ``stack``; in the same way."""
    if cupy_run.recorder() is None or len(arrays) <= _JOINED:
        return library.stack(arrays, axis=axis)
    return concat([library.expand_dims(x, axis=axis) for x in arrays], axis=axis)


@lru_cache(maxsize=1024)
def _uploaded(values: tuple[int, ...], _device: int) -> Array:
    return cupy_run.shared(np.array(values, np.int64))


def as_index(values: Any, /) -> Array:
    """See ``extension.as_index``; the same few lists come in every run, so they stay on the device."""
    return cupy_run.kept(_uploaded(tuple(int(v) for v in values), cupy.cuda.runtime.getDevice()))


def gather(x: Array, indices: Array, axis: int, /) -> Array:
    """See ``extension.gather``; indices of any rank at once."""
    return cupy.take(x, checked_indices(indices, x.shape[axis]), axis=axis)


def checked_indices(indices: Array, size: int, /) -> Array:
    """See ``extension.checked_indices``; the check is put off, and what is wrong becomes 0."""
    indices = indices.astype(np.int64, copy=False)
    if indices.size == 0:
        return indices
    inside = (indices >= -size) & (indices < size)
    text = f"index {{}} is out of range for {size} elements; indices go from {-size} to {size - 1}"
    cupy_run.refuse(~inside, IndexError, text, indices)
    return cupy.where(inside, cupy.where(indices < 0, indices + size, indices), np.int64(0))


def join_complex(x: Array, /) -> Array:
    """See ``extension.join_complex``; a view where the parts lie side by side."""
    dtype = np.dtype(np.complex64 if x.dtype == np.float32 else np.complex128)
    x = row_major(x)
    # The GPU reads a complex number at once, from where its size allows.
    return (x.copy() if x.data.ptr % dtype.itemsize else x).view(dtype)[..., 0]


def split_complex(z: Array, /) -> Array:
    """See ``extension.split_complex``; a view."""
    flat = cupy.reshape(row_major(z), (-1,))
    return cupy.reshape(flat.view(z.real.dtype), (*z.shape, 2))


def bitcast(x: Array, dtype: Any, /) -> Array:
    """See ``extension.bitcast``; narrow types are bytes already."""
    bits = x.bits if isinstance(x, NarrowArray) else row_major(x)
    if np.dtype(dtype) in DTYPES:
        return NarrowArray(cupy.reshape(bits.view(np.uint8), x.shape), np.dtype(dtype))
    return cupy.reshape(bits.view(dtype), x.shape)


def of_numbers(function: Callable[..., Array]) -> Callable[..., Array]:
    """``function``, which asks what kind of numbers there are, for narrow types too."""

    @wraps(function)
    def compute(x: Any, /) -> Array:
        return function(widened(x) if isinstance(x, NarrowArray) else x)

    return compute


def half_through_float32(function: Callable[..., Array]) -> Callable[..., Array]:
    """``function`` with float16 and bfloat16 arrays computed in float32 and rounded once."""

    @wraps(function)
    def compute(*arrays: Any, **options: Any) -> Array:
        dtype = arrays[0].dtype
        if dtype not in _HALVES:
            return function(*arrays, **options)
        widened = [array.astype(np.float32) if hasattr(array, "astype") else array for array in arrays]
        return function(*widened, **options).astype(dtype)

    return compute


def order_of_bfloat16(function: Callable[..., Array]) -> Callable[..., Array]:
    """``function``, which finds an order, with bfloat16 arrays as float32: CuPy cannot sort them."""

    @wraps(function)
    def compute(*arrays: Any, **options: Any) -> Array:
        return function(*(a.astype(np.float32) if a.dtype == BFLOAT16 else a for a in arrays), **options)

    return compute


def sort(x: Array, /, **options: Any) -> Array:
    """The standard's ``sort``, of bfloat16 too."""
    return (
        library.sort(x.astype(np.float32), **options).astype(BFLOAT16)
        if x.dtype == BFLOAT16
        else library.sort(x, **options)
    )


def mean(x: Array, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
    """The standard's ``mean``; nothing to add up gives NaN."""
    total = cupy.sum(x, axis=axis, keepdims=keepdims)
    axes = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    return total / x.dtype.type(math.prod(x.shape[i] for i in axes))


def integer_matmul(a: Array, b: Array, a_zero: Array | None = None, b_zero: Array | None = None, /) -> Array:
    """See ``extension.integer_matmul``; in floats, where every sum is exact: CuPy has no fast product of integers.

    Terms lie within 255**2, so float32 holds the sums of 256 of them, and float64 those of any number there can be.
    """
    wide = np.dtype(np.float32) if a.shape[-1] <= 256 else np.dtype(np.float64)
    left, right = _less(a, a_zero, wide), _less(b, b_zero, wide)
    return cupy_gemm.matmul(left, right).astype(np.int64).astype(np.int32)


def _less(x: Array, zero: Array | None, dtype: np.dtype[Any]) -> Array:
    x = x.astype(dtype)
    return x if zero is None else x - zero.astype(dtype)


_MOVING = (
    "broadcast_arrays broadcast_to expand_dims flip moveaxis permute_dims reshape roll squeeze take "
    "take_along_axis tile unstack matrix_transpose"
).split()
"""Functions of the standard that move elements, of narrow types too."""

MEMBERS: dict[str, Any] = {
    "onnx_dtype": cupy_convert.onnx_dtype,
    "host_dtype": np.dtype,
    "to_host": cupy_convert.fetch,
    "from_host": cupy_convert.from_host,
    "item": cupy_run.item,
    "refuse": cupy_run.refuse,
    "convert": cupy_convert.convert,
    "astype": cupy_convert.astype,
    "asarray": partial(cupy_convert.asarray, library),
    "as_index": as_index,
    "isdtype": isdtype,
    "clip": clip,
    "remainder": remainder,
    "trunc_remainder": trunc_remainder,
    "floor_divide": floor_divide,
    "round": round_,
    "checked_indices": checked_indices,
    "join_complex": join_complex,
    "split_complex": split_complex,
    "bitcast": bitcast,
    "isnan": of_numbers(library.isnan),
    "isinf": of_numbers(library.isinf),
    "signbit": of_numbers(library.signbit),
    "integer_matmul": integer_matmul,
    "contiguous": row_major,
    "argsort": order_of_bfloat16(library.argsort),
    "searchsorted": order_of_bfloat16(library.searchsorted),
    "sort": sort,
    "nonzero": cupy_run.waits("nonzero", library.nonzero),
    "zeros": filling(library.zeros, 0),
    "ones": filling(library.ones, 1),
    "full": filling(library.full, None),
    "zeros_like": filling(library.zeros_like, 0),
    "ones_like": filling(library.ones_like, 1),
    "full_like": filling(library.full_like, None),
    "empty": filling(library.empty, 0),
    "empty_like": filling(library.empty_like, 0),
}
MEMBERS |= {name: moving(getattr(library, name), vars(host_library)[name]) for name in _MOVING}
_OWN_MOVING: dict[str, Callable[..., Any]] = {
    "concat": concat,
    "stack": stack,
    "where": where,
    "repeat": repeat,
    "windows": windows,
    "pad": pad,
    "gather": gather,
}
MEMBERS |= {name: moving(function, getattr(_host, name)) for name, function in _OWN_MOVING.items()}
MEMBERS |= {
    name: cupy_run.waits(name, getattr(library, name))
    for name in ("unique_all", "unique_counts", "unique_inverse", "unique_values")
}
MEMBERS |= {
    name: half_through_float32(getattr(library, name))
    for name in ("sum", "prod", "cumulative_sum", "cumulative_prod", "tensordot", "vecdot")
}
MEMBERS["mean"] = half_through_float32(mean)
MEMBERS["matmul"] = cupy_gemm.matmul

WAITING = frozenset({"nonzero", "item", "to_host", "unique_all", "unique_counts", "unique_inverse", "unique_values"})
"""The functions that wait for the device."""
