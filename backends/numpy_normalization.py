"""Normalization on NumPy in fast mode: in one buffer, block by block."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import array_api_compat.numpy as library
import numpy as np

from onemodel.backends import numpy_reduction
from onemodel.backends.base import Kernel, build_namespace
from onemodel.backends.numpy_reduction import row_sums

Array = np.ndarray[Any, Any]

_generic = build_namespace("numpy generic", library, {"mean": numpy_reduction.mean})
_BLOCK = 1 << 15
"""Elements that are computed at a time."""


def rescale(x: Array, mean: Array, factor: Array, offset: Array, /) -> Array:
    """See ``extension.rescale``; one product and one sum, in one buffer."""
    y: Array = np.multiply(x, factor)
    y += offset - mean * factor
    return y


def standardized(
    x: Array, axes: Sequence[int], epsilon: float, scale: Array | None = None, offset: Array | None = None, /
) -> tuple[Array, Array, Array]:
    """See ``extension.standardized``; some rows at a time, where the last axes are meant."""
    lead = x.ndim - len(axes)
    factors = [factor for factor in (scale, offset) if factor is not None]
    rows_of_their_own = any(factor.ndim > len(axes) for factor in factors)
    if sorted(axes) != list(range(lead, x.ndim)) or not x.size or rows_of_their_own:
        return cast("tuple[Array, Array, Array]", _generic.standardized(x, axes, epsilon, scale, offset))
    length = math.prod(x.shape[lead:])
    y, kept = np.empty(x.shape, x.dtype), (*x.shape[:lead], *[1] * len(axes))
    source, target = np.ascontiguousarray(x).reshape(-1, length), y.reshape(-1, length)
    mean, inverse = np.empty((len(source), 1), x.dtype), np.empty((len(source), 1), x.dtype)
    factors = [np.broadcast_to(factor, x.shape[lead:]).reshape(length) for factor in factors]
    step = max(_BLOCK // length, 1)
    for start in range(0, len(source), step):
        part = slice(start, start + step)
        rows, out = source[part], target[part]
        np.divide(row_sums(rows)[:, None], x.dtype.type(length), out=mean[part])
        np.subtract(rows, mean[part], out=out)
        variance = np.vecdot(out, out)[:, None]
        variance /= x.dtype.type(length)
        variance += x.dtype.type(epsilon)
        np.divide(x.dtype.type(1), np.sqrt(variance), out=inverse[part])
        out *= inverse[part]
        for factor, apply in zip(factors, (np.multiply, np.add) if scale is not None else (np.add,), strict=False):
            apply(out, factor, out=out)
    return y, mean.reshape(kept), inverse.reshape(kept)


def local_response_normalization(
    x: Array, /, *, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0, size: int, xp: Any
) -> Array:
    """LRN, some positions at a time."""
    if size < 1 or x.ndim < 2:
        raise ValueError(f"size must be 1 or more and X have channels; size is {size} and X's shape {x.shape}")
    channels = x.shape[1]
    y = np.empty(x.shape, x.dtype)
    shape = (len(x), channels, math.prod(x.shape[2:]))
    source, target = x.reshape(shape), y.reshape(shape)
    count = max(_BLOCK // max(channels, 1), 1)
    factor, offset, before, after = x.dtype.type(alpha / size), x.dtype.type(bias), (size - 1) // 2, size // 2
    for image, result in zip(source, target, strict=True):
        for start in range(0, source.shape[2], count):
            part, out = image[:, start : start + count], result[:, start : start + count]
            squares = part * part
            squares *= factor
            total = squares + offset
            for shift in range(1, min(max(before, after), channels - 1) + 1):
                if shift <= after:
                    total[:-shift] += squares[shift:]
                if shift <= before:
                    total[shift:] += squares[:-shift]
            if beta == 0.75:
                np.sqrt(total, out=squares)
                total *= squares
                np.sqrt(total, out=total)
            else:
                np.power(total, x.dtype.type(beta), out=total)
            np.divide(part, total, out=out)
    return y


KERNELS: dict[tuple[str, str], Kernel] = {
    ("", "LRN"): Kernel(local_response_normalization, 1, ("float32", "float64")),
}
