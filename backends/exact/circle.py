"""Cosines and sines of rational parts of a circle, correctly rounded to float64, by integers alone."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

_BITS = 192
"""Of fixed-point numbers."""


@lru_cache(maxsize=8)
def circle(count: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """The cosines and the sines of 2 pi i / count for i from 0 to ``count`` - 1, two rows, read-only.

    Angles within the first eighth of the circle are left to the series; the others mirror them. Quarters, and where
    the result is 1/2, are exact; all other results are irrational, and so no tie.
    """
    result = np.empty((2, count))
    for i in range(count // 2 + 1):
        result[0, -i] = result[0, i] = _cosine(i, count)
        sine = _cosine(abs(count - 4 * i), 4 * count)
        result[1, -i], result[1, i] = -sine, sine
    result.flags.writeable = False
    return result


def _cosine(i: int, count: int) -> float:
    """cos(2 pi i / count) for i / count in [0, 1/2]."""
    if 4 * i > count:
        return -_cosine(count - 2 * i, 2 * count)
    if 6 * i == count:
        return 0.5
    bits = _BITS
    while True:
        # The sine of what a quarter leaves is better where the cosine is small.
        value = _series(i, count, bits) if 8 * i <= count else _series(count - 4 * i, 4 * count, bits, sine=True)
        low, high = ((value + error) / (1 << bits) for error in (-256, 256))
        if low == high or value == 0:
            return low if value else 0.0
        bits *= 2


def _series(i: int, count: int, bits: int, *, sine: bool = False) -> int:
    """The cosine or sine of 2 pi i / count, which is at most pi / 4, times 2**bits, to a few units."""
    angle = 2 * _pi(bits) * i // count
    square = angle * angle >> bits
    term = total = angle if sine else 1 << bits
    place = 2 if sine else 1
    while term:
        term = -(term * square >> bits) // (place * (place + 1))
        total += term
        place += 2
    return total


@lru_cache(maxsize=4)
def _pi(bits: int) -> int:
    """pi times 2**bits, by Machin's formula: 16 atan(1/5) - 4 atan(1/239)."""
    one = 1 << (bits + 32)

    def inverse_tangent(n: int) -> int:
        term, total, place = one // n, 0, 1
        while term:
            total += term // place if place % 4 == 1 else -(term // place)
            term //= n * n
            place += 2
        return total

    return (16 * inverse_tangent(5) - 4 * inverse_tangent(239)) >> 32
