"""Fourier transforms in the exact namespace: of each part the exact sum of the exact products, rounded once.

The factors are cosines and sines rounded to float64. A product of float32 numbers with them is one with three float32
numbers that sum to the factor, so that the sum over all of them is an exact product of float32 matrices.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from onemodel.backends.exact.circle import circle
from onemodel.backends.exact.products import Prepared, matmul
from onemodel.backends.exact.rounding import pieces

Array = Any

_BLOCK = 1 << 20
"""Elements of the matrix of factors that are made at a time."""


def fourier(x: Array, axis: int, length: int, inverse: bool, onesided: bool, /, *, xp: Any) -> Array:
    """See ``extension.fourier``; an inverse transform divides the rounded sum by the length."""
    if x.dtype not in (xp.float32, xp.float64):
        raise TypeError(f"fourier takes float32 or float64, not {x.dtype}")
    real = inverse and onesided
    taken = min(x.shape[axis], length // 2 + 1 if real else length)
    made, parts = (length if real or not onesided else length // 2 + 1), (1 if real else 2)
    lines = xp.moveaxis(x[(*(slice(None),) * axis, slice(0, taken), ...)], axis, -2)
    lead, inner = lines.shape[:-2], taken * x.shape[-1]
    lines = xp.reshape(lines, (math.prod(lead), inner))
    if x.dtype == xp.float32:
        # An infinite number meets the first part of its factor alone, which has the factor's sign.
        finite = xp.where(xp.isfinite(lines), lines, xp.zeros_like(lines))
        lines = xp.concat([lines, finite, finite], axis=1)
    step = max(_BLOCK * xp.block_scale // max(lines.shape[1] * parts, 1), 1)
    columns = []
    for some in pieces(made, step):
        factors = _factors(length, (some.start, some.stop), taken, x.shape[-1], inverse, onesided, x.dtype, xp)
        columns.append(matmul(lines, factors, xp=xp))
    result = columns[0] if len(columns) == 1 else xp.concat(columns, axis=1)
    if inverse:
        result = result / xp.asarray(length, dtype=x.dtype)
    return xp.moveaxis(xp.reshape(result, (*lead, made, parts)), -2, axis)


@lru_cache(maxsize=4)
def _factors(
    length: int, here: tuple[int, int], taken: int, parts: int, inverse: bool, onesided: bool, dtype: Any, xp: Any
) -> Prepared:
    """What each part of each element (rows) is multiplied with for each part of the results from ``here`` (columns)."""
    at = np.arange(taken)[:, None] * np.arange(*here) % length
    cosine, sine = (values[at] for values in circle(length))
    sine = sine if inverse else -sine
    if inverse and onesided:
        # Frequencies stand for their mirror images too, but for the first one, and the last one of an even length.
        mirrored = 2.0 - (np.arange(taken) * 2 % length == 0)[:, None]
        cosine, sine = cosine * mirrored, sine * mirrored
    # (real, imaginary) times e = cosine + i sine; a one-sided inverse has no imaginary part.
    rows = [np.stack([cosine, sine], axis=-1), np.stack([-sine, cosine], axis=-1)][:parts]
    matrix = np.stack(rows, axis=1)[..., : 1 if inverse and onesided else 2]
    matrix = matrix.reshape(taken * parts, math.prod(matrix.shape[2:]))
    if dtype == xp.float32:
        high = matrix.astype(np.float32)
        middle = (matrix - high).astype(np.float32)
        matrix = np.concatenate([high, middle, (matrix - high - middle).astype(np.float32)])
    return Prepared(xp.from_host(matrix), "right", xp=xp)


FUNCTIONS: dict[str, Callable[..., Any]] = {"fourier": fourier}
"""The functions of this chapter."""
