"""Normalization on NumPy in fast mode: in one buffer, block by block."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from onemodel.backends.base import Kernel

Array = np.ndarray[Any, Any]

_BLOCK = 1 << 15
"""Elements that are computed at a time."""


def rescale(x: Array, mean: Array, factor: Array, offset: Array, /) -> Array:
    """See ``extension.rescale``; one product and one sum, in one buffer."""
    y: Array = np.multiply(x, factor)
    y += offset - mean * factor
    return y


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
