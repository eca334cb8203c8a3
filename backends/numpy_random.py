"""NumPy's own way to random bits."""

from __future__ import annotations

from typing import Any

import numpy as np

_BLOCK = 8192
"""Blocks of four words that stay in cache together."""


def random_bits(key: int, count: int, /) -> np.ndarray[Any, Any]:
    """See ``extension.random_bits``; the same operations in place."""
    blocks = -(-count // 4)
    words = np.empty((blocks, 4), np.uint32)
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    first, second = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
    for start in range(0, blocks, _BLOCK):
        stop = min(start + _BLOCK, blocks)
        a = np.arange(start, stop, dtype=np.uint64)
        b = a >> half
        a &= low
        c, d, x, y = np.zeros((4, stop - start), np.uint64)
        k, m = key % 2**32, key // 2**32 % 2**32
        for _ in range(10):
            np.multiply(a, first, out=x)
            np.multiply(c, second, out=y)
            np.right_shift(y, half, out=a)
            a ^= b
            a ^= np.uint64(k)
            np.right_shift(x, half, out=c)
            c ^= d
            c ^= np.uint64(m)
            np.bitwise_and(y, low, out=b)
            np.bitwise_and(x, low, out=d)
            k, m = (k + 0x9E3779B9) % 2**32, (m + 0xBB67AE85) % 2**32
        np.stack([a, b, c, d], axis=1, out=words[start:stop], casting="unsafe")
    return words.reshape(-1)[:count]
