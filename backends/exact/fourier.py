"""Fourier transforms in the exact namespace: of each part the exact sum of the exact products, rounded once.

The factors are cosines and sines rounded to float64. A fast transform comes first, for float32: its error is bounded,
and where all numbers within the bound round to one, that is the result. What is left is a matrix product. The product
of a float32 number with a factor is one with three float32 numbers that sum to the factor, so that the sum over all of
them is an exact product of float32 matrices.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from onemodel.backends.exact.circle import circle
from onemodel.backends.exact.products import Prepared, matmul
from onemodel.backends.exact.rounding import UNIT, certified, pieces

Array = Any

_BLOCK = 1 << 20
"""Elements of the matrix of factors, and of what is transformed fast, that are made at a time."""

_SHORT = 64
"""Lengths below it cost less as matrix products alone."""

_LARGEST = 61
"""The largest prime factor of lengths that are transformed fast: the cost and the bound grow with it."""

_MARGIN = 1 + 2.0**-10
"""For the roundings of the bounds themselves."""


def fourier(x: Array, axis: int, length: int, inverse: bool, onesided: bool, /, *, xp: Any) -> Array:
    """See ``extension.fourier``; an inverse transform divides the rounded sum by the length."""
    if x.dtype not in (xp.float32, xp.float64):
        raise TypeError(f"fourier takes float32 or float64, not {x.dtype}")
    if x.shape[-1] == 1 and not (inverse or onesided):
        return _with_mirrored(fourier(x, axis, length, False, True, xp=xp), axis, length, xp)
    real = inverse and onesided
    taken = min(x.shape[axis], length // 2 + 1 if real else length)
    made, parts = (length if real or not onesided else length // 2 + 1), (1 if real else 2)
    lines = xp.moveaxis(x[(*(slice(None),) * axis, slice(0, taken), ...)], axis, -2)
    lead = lines.shape[:-2]
    lines = xp.reshape(lines, (math.prod(lead), taken, x.shape[-1]))
    result = xp.empty((lines.shape[0], made, parts), dtype=x.dtype)
    radices = _radices(length) if x.dtype == xp.float32 and length >= _SHORT and taken else None
    step = lines.shape[0] if radices is None else max(_BLOCK * xp.block_scale // (2 * length), 1)
    for some in pieces(lines.shape[0], max(step, 1)):
        part, out = lines[some, :, :], result[some, :, :]
        if radices is None:
            out[...] = _products(part, np.arange(made), length, inverse, onesided, xp)
            continue
        is_open = _fast(part, out, length, radices, inverse, onesided, xp)
        rows = xp.any(is_open, axis=(1, 2))
        index = xp.nonzero(rows)[0]
        if index.shape[0]:
            columns = xp.any(is_open, axis=(0, 2))
            frequencies = np.nonzero(xp.to_host(columns))[0]
            exact = _products(xp.take(part, index, axis=0), frequencies, length, inverse, onesided, xp)
            out[rows[:, None] & columns[None, :]] = xp.reshape(exact, (-1, parts))
    if inverse:
        result = result / xp.asarray(length, dtype=x.dtype)
    return xp.moveaxis(xp.reshape(result, (*lead, made, parts)), -2, axis)


def _with_mirrored(half: Array, axis: int, length: int, xp: Any) -> Array:
    """The whole transform of real numbers: the second half is the first one's conjugate."""
    lead = (slice(None),) * axis
    other = xp.flip(half[(*lead, slice(1, (length + 1) // 2), ...)], axis=axis)
    # 0 less 0 is +0, as a sum is.
    other = xp.stack([other[..., 0], 0.0 - other[..., 1]], axis=-1)
    return xp.concat([half, other], axis=axis)


# By products


def _products(lines: Array, frequencies: np.ndarray[Any, Any], length: int, *options: Any) -> Array:
    """The sums of lines (count, taken, parts) at some frequencies, shape (count, frequencies, parts)."""
    inverse, onesided, xp = options
    count, taken, of_line = lines.shape
    dtype, parts = lines.dtype, (1 if inverse and onesided else 2)
    lines = xp.reshape(lines, (count, taken * of_line))
    if dtype == xp.float32:
        # An infinite number meets the first part of its factor alone, which has the factor's sign.
        finite = xp.where(xp.isfinite(lines), lines, xp.zeros_like(lines))
        lines = xp.concat([lines, finite, finite], axis=1)
    step = max(_BLOCK * xp.block_scale // max(lines.shape[1] * parts, 1), 1)
    columns = []
    for some in pieces(frequencies.size, step):
        here = tuple(frequencies[some].tolist())
        columns.append(matmul(lines, _factors(length, here, taken, of_line, inverse, onesided, dtype, xp), xp=xp))
    product = columns[0] if len(columns) == 1 else xp.concat(columns, axis=1)
    return xp.reshape(product, (count, frequencies.size, parts))


@lru_cache(maxsize=4)
def _factors(
    length: int,
    frequencies: tuple[int, ...],
    taken: int,
    parts: int,
    inverse: bool,
    onesided: bool,
    dtype: Any,
    xp: Any,
) -> Prepared:
    """What each part of each element (rows) is multiplied with for each part of the results (columns)."""
    at = np.arange(taken)[:, None] * np.asarray(frequencies, dtype=np.int64) % length
    cosine, sine = (values[at] for values in circle(length))
    sine = sine if inverse else -sine
    if inverse and onesided:
        weights = _mirrored(length, taken)[:, None]
        cosine, sine = cosine * weights, sine * weights
    # (real, imaginary) times e = cosine + i sine; a one-sided inverse has no imaginary part.
    rows = [np.stack([cosine, sine], axis=-1), np.stack([-sine, cosine], axis=-1)][:parts]
    matrix = np.stack(rows, axis=1)[..., : 1 if inverse and onesided else 2]
    matrix = matrix.reshape(taken * parts, math.prod(matrix.shape[2:]))
    if dtype == xp.float32:
        high = matrix.astype(np.float32)
        middle = (matrix - high).astype(np.float32)
        matrix = np.concatenate([high, middle, (matrix - high - middle).astype(np.float32)])
    return Prepared(xp.from_host(matrix), "right", xp=xp)


def _mirrored(length: int, taken: int) -> np.ndarray[Any, Any]:
    """How often frequencies count, with their mirror images: the first, and an even length's last, have none."""
    often: np.ndarray[Any, Any] = 2.0 - (np.arange(taken) * 2 % length == 0)
    return often


# Fast


def _fast(
    lines: Array, out: Array, length: int, radices: tuple[int, ...], inverse: bool, onesided: bool, xp: Any
) -> Array:
    """Write the rounded transform of lines (count, taken, parts); return where it is not sure.

    A stage of radix p takes sums of 2p products, of which the rows of factors have the norm sqrt(p) and p are the
    exact stage's gain: each of 2p sums is off by (2p + 1) units of that, the factor's own rounding counted, so all by
    (2p + 1) sqrt(2p); turning the results adds 3 sqrt(2). In the 2-norm no stage enlarges what comes before it, but by
    the gain. The definition's own factors, rounded, add one unit, and the bound's own step one more.
    """
    _, taken, parts = lines.shape
    wide = xp.astype(lines, xp.float64)
    if inverse and onesided:
        wide = wide * xp.from_host(_mirrored(length, taken)[:, None])
    norms = xp.sqrt(xp.sum(wide * wide, axis=(1, 2))) * (1 + 2.0**-20)
    units = 4 + sum((2 * p + 2) * math.sqrt(2 * p) + 5 for p in radices)
    bound = norms * (UNIT * _MARGIN * units * math.sqrt(length))
    # The parts first, the lines last; zeros stand for what is missing.
    wide = xp.permute_dims(wide, (2, 1, 0))
    for axis, missing in ((0, 2 - parts), (1, length - taken)):
        if missing:
            zeros = [missing if i == axis else size for i, size in enumerate(wide.shape)]
            wide = xp.concat([wide, xp.zeros(zeros, dtype=xp.float64)], axis=axis)
    total = xp.permute_dims(_transformed(wide, radices, inverse, xp), (2, 1, 0))[:, : out.shape[1], : out.shape[2]]
    result, is_open = certified(total + 0.0, bound[:, None, None], out.dtype, xp)
    if parts == 1 and not (inverse and onesided):
        # Real numbers have no imaginary part where each of its factors is 0.
        none = xp.from_host((np.arange(out.shape[1]) * 2 % length == 0)[:, None] & np.array([False, True]))
        result = xp.where(none, xp.zeros_like(result), result)
        is_open = is_open & ~none
    out[...] = result
    return is_open | ~xp.isfinite(bound)[:, None, None]


def _transformed(x: Array, radices: tuple[int, ...], inverse: bool, xp: Any) -> Array:
    """The transform of x (2, length, count) along its middle axis, stage by stage (Stockham)."""
    length, count = x.shape[1:]
    left = length
    for p in radices:
        left //= p
        x = xp.matmul(xp.from_host(_stage(p, inverse)), xp.reshape(x, (2 * p, -1)))
        x = xp.reshape(x, (2, p, left, -1))
        if left > 1:
            cosine, sine = (xp.from_host(part) for part in _turn(length, p, left, inverse))
            one, other = x[0, ...], x[1, ...]
            x = xp.stack([one * cosine - other * sine, one * sine + other * cosine])
        x = xp.reshape(xp.permute_dims(x, (0, 2, 1, 3)), (2, left, -1))
    return xp.reshape(x, (2, length, count))


@lru_cache(maxsize=64)
def _stage(p: int, inverse: bool) -> np.ndarray[Any, Any]:
    """The transform of p complex numbers as a matrix (2p, 2p), the real parts before the imaginary ones."""
    cosine, sine = (values[np.arange(p)[:, None] * np.arange(p) % p] for values in circle(p))
    sine = sine if inverse else -sine
    return np.block([[cosine, -sine], [sine, cosine]])


def _turn(length: int, p: int, left: int, inverse: bool) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Cosines and sines (p, left, 1) that turn what a stage of radix p leaves to do."""
    at = np.arange(p)[:, None] * np.arange(left) * (length // (p * left))
    cosine, sine = (values[at][:, :, None] for values in circle(length))
    return cosine, sine if inverse else -sine


def _radices(length: int) -> tuple[int, ...] | None:
    """Factors of the length, powers of two by threes; None where a prime is too large."""
    twos = (length & -length).bit_length() - 1
    radices, rest = [8] * (twos // 3) + [2 ** (twos % 3)] * (twos % 3 > 0), length >> twos
    for p in range(3, _LARGEST + 1, 2):
        while rest % p == 0:
            radices.append(p)
            rest //= p
    return tuple(radices) if rest == 1 else None


FUNCTIONS: dict[str, Callable[..., Any]] = {"fourier": fourier}
"""The functions of this chapter."""
