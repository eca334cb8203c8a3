"""NumPy's own way to quantize, and to multiply small integers: in floats, whose sums are exact as long as they fit."""

from __future__ import annotations

from typing import Any

import numpy as np

from onemodel.backends.base import numpy_dtype

Array = np.ndarray[Any, Any]

_BLOCK = 32768
"""Elements that are computed at a time, so that they stay in the cache."""


def quantize(x: Array, scale: Array, zero: Array | None, code: int, /) -> Array:
    """See ``extension.quantize``; the same operations, block by block where scale and zero are numbers."""
    dtype = numpy_dtype(code)
    if scale.ndim or (zero is not None and zero.ndim) or not x.flags.c_contiguous:
        return _quantize_block(np.divide(x, scale), zero, dtype)
    result = np.empty(x.shape, dtype)
    source, target = x.reshape(-1), result.reshape(-1)
    buffer = np.empty(min(_BLOCK, source.size), x.dtype)
    for start in range(0, source.size, _BLOCK):
        part = source[start : start + _BLOCK]
        target[start : start + _BLOCK] = _quantize_block(np.divide(part, scale, out=buffer[: part.size]), zero, dtype)
    return result


def _quantize_block(quotient: Array, zero: Array | None, dtype: np.dtype[Any]) -> Array:
    """The quotient, which may be overwritten, rounded and moved to the integer type; NaN gives 0."""
    if not isinstance(quotient, np.ndarray):
        quotient = np.asarray(quotient)
    limits = np.iinfo(dtype)
    np.rint(quotient, out=quotient)
    if zero is not None:
        quotient += zero
    # Three times as fast as maximum and minimum with numbers.
    np.clip(quotient, quotient.dtype.type(limits.min), quotient.dtype.type(limits.max), out=quotient)
    # A sum is NaN only where an element is, the elements being bounded.
    if np.isnan(quotient.sum()):
        quotient[np.isnan(quotient)] = 0
    return quotient.astype(dtype)


def integer_matmul(a: Array, b: Array, a_zero: Array | None = None, b_zero: Array | None = None, /) -> Array:
    """See ``extension.integer_matmul``; float32 products of so many terms that each sum stays below 2^24."""
    terms = a.shape[-1]
    most = 2**24 // (_reach(a, a_zero) * _reach(b, b_zero))
    left, right = _moved(a, a_zero), _moved(b, b_zero)
    if terms <= most:
        return np.asarray(np.matmul(left, right)).astype(np.int32)
    total: Array | None = None
    for start in range(0, terms, most):
        rows = right[start : start + most] if right.ndim == 1 else right[..., start : start + most, :]
        part = np.asarray(np.matmul(left[..., start : start + most], rows)).astype(np.int32)
        total = part if total is None else np.add(total, part, out=total if total.ndim else None)
    return np.asarray(total)


def _moved(x: Array, zero: Array | None) -> Array:
    """The array less its zero point as float32."""
    if zero is None:
        return x.astype(np.float32)
    return np.subtract(x, zero.astype(np.float32), dtype=np.float32)


def _reach(x: Array, zero: Array | None) -> int:
    """How large the array less its zero point can be."""
    limits = np.iinfo(x.dtype)
    low, high = (0, 0) if zero is None or not zero.size else (int(zero.min()), int(zero.max()))
    return max(high - int(limits.min), int(limits.max) - low)
