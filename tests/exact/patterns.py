"""Numbers that are the same on every machine: integer patterns scaled by powers of two.

NumPy promises no bits of its distributions, and ``linspace`` and the like round on the way. Here all that is not an
integer operation is one product with a power of two, or one rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]
Shape = int | Sequence[int] | None

FLOATS = {
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
}
_GOLDEN = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


def _mixed(words: Array) -> Array:
    """The finalizer of SplitMix64 (Steele, Lea and Flood, 2014): one uint64 to another, one to one."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(words ^ (words >> np.uint64(31)))


class Patterns:
    """Stands in for ``numpy.random.Generator`` where bits must not hang on NumPy.

    It has the methods that the tests' draws of cases use, with the same arguments.

    Args:
        seeds: whole numbers from 0 on.
    """

    def __init__(self, *seeds: int) -> None:
        self._place = 0
        for seed in seeds:
            self._place = int(_mixed(np.array([(self._place + seed * 2 + 1) * _GOLDEN & _MASK], np.uint64))[0])

    def words(self, count: int) -> Array:
        """Uniform uint64."""
        steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_GOLDEN)
        start = np.uint64(self._place)
        self._place = (self._place + count * _GOLDEN) & _MASK
        return _mixed(steps + start)

    def integers(self, low: int, high: int | None = None, size: Shape = None) -> Any:
        """int64 from ``low`` (0 where it stands alone) to below ``high``."""
        low, high = (0, low) if high is None else (low, high)
        span = int(high) - int(low)
        if not 0 < span < 1 << 63:
            raise ValueError(f"no integers from {low} to below {high}")
        values = (self.words(_count(size)) % np.uint64(span)).astype(np.int64) + np.int64(low)
        return _shaped(values, size)

    def random(self, size: Shape = None) -> Any:
        """float64 from 0 to below 1: multiples of 2^-53."""
        return _shaped((self.words(_count(size)) >> np.uint64(11)).astype(np.float64) * 2.0**-53, size)

    def uniform(self, low: float = 0.0, high: float = 1.0, size: Shape = None) -> Any:
        """float64 from ``low`` to ``high``."""
        return low + (high - low) * self.random(size)

    def standard_normal(self, size: Shape = None, dtype: Any = np.float64) -> Any:
        """About normal: a multiple of 2^-49, between -4 and 4, the sum of four uniform integers."""
        words = self.words(4 * _count(size)).reshape(4, -1) >> np.uint64(14)
        values = (words.astype(np.int64).sum(axis=0) - (1 << 51)).astype(np.float64) * 2.0**-49
        return _shaped(values.astype(dtype), size)

    def normal(self, mean: float = 0.0, deviation: float = 1.0, size: Shape = None) -> Any:
        """The same, scaled and shifted."""
        return mean + deviation * self.standard_normal(size)

    def permutation(self, x: Any) -> Array:
        """The numbers below ``x``, or the items of ``x``, in another order."""
        order = np.argsort(self.words(x if isinstance(x, int) else len(x)), kind="stable")
        return order if isinstance(x, int) else np.asarray(np.asarray(x)[order])

    def choice(self, a: Any, size: Shape = None, p: Any = None) -> Any:
        """Items of ``a``, or numbers below it, with equal chances or those of ``p``."""
        items = np.arange(a) if isinstance(a, int) else np.asarray(a)
        if p is None:
            return items[self.integers(len(items), size=size)]
        bounds = np.asarray([math.fsum(p[: i + 1]) for i in range(len(p) - 1)])
        return items[np.searchsorted(bounds, self.random(size), side="right")]


def _count(size: Shape) -> int:
    return math.prod([] if size is None else [size] if isinstance(size, int) else [int(each) for each in size])


def _shaped(values: Array, size: Shape) -> Any:
    return values[0] if size is None else values.reshape(size)


def bits(dtype: Any, shape: Sequence[int], *seeds: int) -> Array:
    """Any bits at all as numbers of a type: every exponent, subnormal numbers, infinities, NaN."""
    dtype = np.dtype(dtype)
    words = Patterns(*seeds).words(math.prod(shape)) >> np.uint64(64 - 8 * dtype.itemsize)
    # Types of 4 and 6 bits leave the upper ones of their byte 0.
    words &= np.uint64((1 << ml_dtypes.finfo(dtype).bits) - 1)
    return np.asarray(words.astype(f"u{dtype.itemsize}").view(dtype).reshape(tuple(shape)))


def scaled(dtype: Any, shape: Sequence[int], *seeds: int, spread: int = 0, most: int = 0) -> Array:
    """Whole numbers of both signs with as many bits as the type has, times powers of two.

    Args:
        dtype: a float type.
        shape: the shape.
        seeds: of ``Patterns``.
        spread: how many different powers there are.
        most: the greatest numbers lie just below 2^most.
    """
    dtype, patterns, count = np.dtype(dtype), Patterns(*seeds), math.prod(shape)
    width = 1 + int(ml_dtypes.finfo(dtype).nmant)
    whole = patterns.integers(1 - (1 << width), 1 << width, count).astype(np.float64)
    powers = patterns.integers(most - width - spread, most - width + 1, count)
    return np.asarray(np.ldexp(whole, powers).astype(dtype).reshape(tuple(shape)))
