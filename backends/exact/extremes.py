"""Extremes and orders in the exact namespace: -0 lies below +0, NaN is what one NaN among the operands gives.

Libraries leave open which of two zeros is the larger one, and do not agree with themselves on it across machines.
Sorting takes the two as ties, which keep their order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from onemodel.backends.exact.rounding import bits_of, is_float

Array = Any


def maximum(a: Any, b: Any, /, *, xp: Any) -> Array:
    """The larger one of each pair; NaN where one is NaN."""
    a, b = _pair(a, b, xp)
    larger = xp.maximum(a, b)
    if not is_float(larger.dtype, xp) or _is_no_zero(a) or _is_no_zero(b):
        return larger
    if _is_positive_zero(a, xp) or _is_positive_zero(b, xp):
        return larger + xp.zeros_like(a if a.ndim == 0 else b)
    total = a + b
    return xp.where((larger == 0) & (total == 0), total, larger)


def minimum(a: Any, b: Any, /, *, xp: Any) -> Array:
    """The smaller one of each pair; NaN where one is NaN."""
    a, b = _pair(a, b, xp)
    smaller = xp.minimum(a, b)
    if not is_float(smaller.dtype, xp) or _is_no_zero(a) or _is_no_zero(b):
        return smaller
    for x, limit in ((a, b), (b, a)):
        if _is_positive_zero(limit, xp):
            return xp.where(x > 0, limit, x)
    total = (-a) - b
    return xp.where((smaller == 0) & (total == 0), -total, smaller)


def _pair(a: Any, b: Any, xp: Any) -> tuple[Array, Array]:
    """Both as arrays; a Python number takes the other's type."""
    if not hasattr(a, "dtype"):
        a = xp.asarray(a, dtype=b.dtype)
    return a, b if hasattr(b, "dtype") else xp.asarray(b, dtype=a.dtype)


def _is_no_zero(x: Array) -> bool:
    return x.ndim == 0 and bool(x != 0)


def _is_positive_zero(x: Array, xp: Any) -> bool:
    return x.ndim == 0 and bool(bits_of(x, xp) == 0)


def clip(x: Array, /, min: Any = None, max: Any = None, *, xp: Any) -> Array:
    """The smaller one of ``max`` and the larger one of x and ``min``."""
    if min is not None:
        x = maximum(x, min, xp=xp)
    if max is not None:
        x = minimum(x, max, xp=xp)
    return x if min is not None or max is not None else xp.asarray(x, copy=True)


def max(x: Array, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False, xp: Any) -> Array:
    """The largest element along the axes; NaN where one is NaN."""
    largest = xp.max(x, axis=axis, keepdims=keepdims)
    if not is_float(x.dtype, xp):
        return largest
    zero = largest == 0
    if not bool(xp.any(zero)):
        return largest
    # As an integer +0 is 0, and all that is not above it as a float is negative.
    positive = xp.max(bits_of(x, xp), axis=axis, keepdims=keepdims) == 0
    nothing = xp.zeros_like(largest)
    return xp.where(zero, xp.where(positive, nothing, -nothing), largest)


def min(x: Array, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False, xp: Any) -> Array:
    """The smallest element along the axes; NaN where one is NaN."""
    return (
        -max(-x, axis=axis, keepdims=keepdims, xp=xp)
        if is_float(x.dtype, xp)
        else xp.min(x, axis=axis, keepdims=keepdims)
    )


def sort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True, xp: Any) -> Array:
    """The elements in order, equal ones as they came; NaN last, first where descending."""
    return xp.take_along_axis(x, xp.argsort(x, axis=axis, descending=descending, stable=True), axis=axis)


class UniqueAll(NamedTuple):
    """The distinct values in order, where each is first, where each element is among them, and how often each is."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """The distinct values in order, and how often each is."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """The distinct values in order, and where each element is among them."""

    values: Array
    inverse_indices: Array


def unique_all(x: Array, /, *, xp: Any) -> UniqueAll:
    """The distinct values in order, of equal zeros the first; every NaN is distinct."""
    flat = xp.reshape(x, (-1,))
    order = xp.argsort(flat, stable=True)
    ordered = xp.take(flat, order)
    count = flat.shape[0]
    if count == 0:
        return UniqueAll(flat, order, xp.reshape(order, x.shape), order)
    is_first = xp.ones((count,), dtype=xp.bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    firsts = xp.nonzero(is_first)[0]
    indices = xp.take(order, firsts)
    counts = xp.concat([firsts[1:], xp.asarray([count], dtype=firsts.dtype)]) - firsts
    place = xp.cumulative_sum(xp.astype(is_first, xp.int64)) - 1
    inverse = xp.take(place, xp.argsort(order, stable=True))
    return UniqueAll(xp.take(flat, indices), indices, xp.reshape(inverse, x.shape), counts)


def unique_counts(x: Array, /, *, xp: Any) -> UniqueCounts:
    """See ``unique_all``."""
    found = unique_all(x, xp=xp)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Array, /, *, xp: Any) -> UniqueInverse:
    """See ``unique_all``."""
    found = unique_all(x, xp=xp)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: Array, /, *, xp: Any) -> Array:
    """See ``unique_all``."""
    return unique_all(x, xp=xp).values


FUNCTIONS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        maximum,
        minimum,
        clip,
        max,
        min,
        sort,
        unique_all,
        unique_counts,
        unique_inverse,
        unique_values,
    )
}
"""The functions of this chapter."""
