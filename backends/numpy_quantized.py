"""NumPy's own way to multiply small integers: in floats, whose sums are exact as long as they fit."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


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
