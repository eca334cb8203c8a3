"""Determinants in the exact namespace: one fixed elimination in float64, rounded in the end."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from onemodel.backends.exact.sums import prod

Array = Any


def determinant(x: Array, /, *, xp: Any) -> Array:
    """The determinant of each matrix in the last two axes, by Gauss's elimination with partial pivoting in float64.

    Column after column, the first of the largest elements becomes the pivot. Each multiplier, product and difference
    is rounded. The determinant is the product of the pivots by ``prod``, of which swaps of rows change the sign,
    rounded to x's dtype; a zero is +0.
    """
    if x.dtype not in (xp.float32, xp.float64):
        raise TypeError(f"determinant takes float32 or float64, not {x.dtype}")
    size, lead = x.shape[-1], x.shape[:-2]
    rest = xp.astype(xp.reshape(x, (math.prod(lead), size, size)), xp.float64)
    sign, one = xp.ones((rest.shape[0],), dtype=xp.float64), xp.asarray(1.0, dtype=xp.float64)
    pivots = []
    for left in range(size, 0, -1):
        place = xp.argmax(xp.abs(rest[:, :, 0]), axis=1, keepdims=True)
        here = xp.reshape(xp.arange(left, dtype=place.dtype), (1, left))
        first = xp.asarray(0, dtype=place.dtype)
        source = xp.where(here == 0, place, xp.where(here == place, first, here))
        rest = xp.take_along_axis(rest, xp.broadcast_to(source[:, :, None], rest.shape), axis=1)
        sign = xp.where(place[:, 0] > 0, -sign, sign)
        pivot = rest[:, 0, 0]
        pivots.append(pivot)
        # Where the pivot is 0 so is the column below it.
        factor = rest[:, 1:, 0] / xp.where(pivot == 0, one, pivot)[:, None]
        rest = rest[:, 1:, 1:] - factor[:, :, None] * rest[:, :1, 1:]
    if not pivots:
        return xp.ones(lead, dtype=x.dtype)
    result = prod(xp.stack(pivots, axis=1), axis=1, xp=xp) * sign + 0.0
    return xp.reshape(xp.astype(result, x.dtype), lead)


FUNCTIONS: dict[str, Callable[..., Any]] = {"determinant": determinant}
"""The functions of this chapter."""
