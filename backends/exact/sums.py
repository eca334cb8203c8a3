"""Sums, means and products of elements in the exact namespace.

A sum is the exact sum rounded once, a zero sum +0; a mean is that over the count; products are folded, and running sums
and products taken from the left, with each step rounded. Integers are the library's own: they wrap.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from onemodel.backends.exact.extraction import OpenSums, condensed
from onemodel.backends.exact.rounding import UNIT, certified, is_float, narrow, pieces

Array = Any

_BLOCK = 1 << 15
"""Elements that are summed at a time, so that their float64 copies stay in the cache."""

_GROUP = 256
"""Terms that are added up first where there are many: the bound grows with these and with the number of groups."""

_SHORT = 32
"""Sums of fewer terms are often exact in float64, and then often halfway between two results: worth a test."""


def must_round(dtype: Any, xp: Any) -> bool:
    """``is_float``, for everything that has an exact definition.

    Raises:
        TypeError: complex numbers, for which nothing is defined.
    """
    if is_float(dtype, xp):
        return True
    if xp.isdtype(dtype, "complex floating"):
        raise TypeError(f'sums and products of {dtype} have no exact definition; mode="fast" computes them')
    return False


def sum(
    x: Array, /, *, axis: int | tuple[int, ...] | None = None, dtype: Any = None, keepdims: bool = False, xp: Any
) -> Array:
    """The exact sum along the axes, rounded once."""
    if not must_round(x.dtype if dtype is None else dtype, xp):
        return xp.sum(x, axis=axis, dtype=dtype, keepdims=keepdims)
    if not is_float(x.dtype, xp):
        x = xp.astype(x, dtype)
    dtype = x.dtype if dtype is None else dtype
    axes = _axes(axis, x.ndim)
    kept = tuple(size for i, size in enumerate(x.shape) if i not in axes)
    result = xp.reshape(_sums(*_folded(x, axes, xp), dtype, xp), kept)
    return xp.reshape(result, tuple(1 if i in axes else size for i, size in enumerate(x.shape))) if keepdims else result


def mean(x: Array, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, xp: Any) -> Array:
    """The sum over the number of elements: two roundings."""
    if not is_float(x.dtype, xp):
        raise TypeError(f"mean takes floats, not {x.dtype}")
    total = sum(x, axis=axis, keepdims=keepdims, xp=xp)
    count = math.prod(x.shape[i] for i in _axes(axis, x.ndim))
    if x.dtype == xp.float32 or x.dtype == xp.float64:
        return total / xp.asarray(count, dtype=x.dtype)
    return narrow(xp.astype(total, xp.float64) / float(count), x.dtype, xp)


def prod(
    x: Array, /, *, axis: int | tuple[int, ...] | None = None, dtype: Any = None, keepdims: bool = False, xp: Any
) -> Array:
    """The product along the axes: element i times element i + ceil(n / 2), until one is left; each step is rounded."""
    if not must_round(x.dtype if dtype is None else dtype, xp):
        return xp.prod(x, axis=axis, dtype=dtype, keepdims=keepdims)
    x = x if dtype is None else xp.astype(x, dtype)
    axes = _axes(axis, x.ndim)
    whole = [1 if i in axes else size for i, size in enumerate(x.shape)]
    x, _, _ = _folded(x, axes, xp)
    while x.shape[1] > 1:
        half = -(-x.shape[1] // 2)
        pairs = x[:, : x.shape[1] - half, :] * x[:, half:, :]
        x = xp.concat([pairs, x[:, x.shape[1] - half : half, :]], axis=1)
    if x.shape[1] == 0:
        x = xp.ones((x.shape[0], 1, x.shape[2]), dtype=x.dtype)
    return xp.reshape(x, tuple(size for i, size in enumerate(whole) if keepdims or i not in axes))


def cumulative_sum(
    x: Array, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False, xp: Any
) -> Array:
    """Each sum so far plus the next element, from the left, rounded at every step."""
    return _running("cumulative_sum", np.add, 0, x, axis, dtype, include_initial, xp)


def cumulative_prod(
    x: Array, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False, xp: Any
) -> Array:
    """Each product so far times the next element, from the left, rounded at every step."""
    return _running("cumulative_prod", np.multiply, 1, x, axis, dtype, include_initial, xp)


def _running(
    name: str, step: np.ufunc, initial: int, x: Array, axis: int | None, dtype: Any, include_initial: bool, xp: Any
) -> Array:
    if not must_round(x.dtype if dtype is None else dtype, xp):
        return getattr(xp, name)(x, axis=axis, dtype=dtype, include_initial=include_initial)
    x = x if dtype is None else xp.astype(x, dtype)
    if axis is None:
        if x.ndim > 1:
            raise ValueError(f"{name} of an array of {x.ndim} axes needs an axis")
        axis, x = 0, xp.reshape(x, (-1,))
    # One step waits for the other, so there is nothing for a device to do; and accumulate keeps the order.
    axis %= x.ndim
    result = xp.from_host(np.asarray(step.accumulate(xp.to_host(x), axis=axis, dtype=xp.host_dtype(x.dtype))))
    if not include_initial:
        return result
    first = xp.full((*x.shape[:axis], 1, *x.shape[axis + 1 :]), initial, dtype=x.dtype)
    return xp.concat([first, result], axis=axis)


def add_all(arrays: Sequence[Array], /, *, xp: Any) -> Array:
    """See ``extension.add_all``: from three arrays of floats on the exact sum, rounded once."""
    if len(arrays) < 3 or not must_round(arrays[0].dtype, xp):
        return xp.add_all(arrays)
    return sum(xp.stack(xp.broadcast_arrays(*arrays), axis=0), axis=0, xp=xp)


def _axes(axis: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(rank))
    wanted = (axis,) if isinstance(axis, int) else tuple(axis)
    if any(not -rank <= i < rank for i in wanted):
        raise IndexError(f"axis {axis} is out of range for {rank} axes")
    return tuple(sorted({i % rank for i in wanted}))


def _folded(x: Array, axes: tuple[int, ...], xp: Any) -> tuple[Array, int, int]:
    """x with three axes of which the middle one is reduced; and the sizes of the others."""
    if axes and axes != tuple(range(axes[0], axes[-1] + 1)):
        kept = [i for i in range(x.ndim) if i not in axes]
        x = xp.permute_dims(x, (*kept, *axes))
        axes = tuple(range(len(kept), x.ndim))
    start, stop = (axes[0], axes[-1] + 1) if axes else (x.ndim, x.ndim)
    outer, inner = math.prod(x.shape[:start]), math.prod(x.shape[stop:])
    return xp.reshape(x, (outer, math.prod(x.shape[start:stop]), inner)), outer, inner


def _sums(x: Array, outer: int, inner: int, dtype: Any, xp: Any) -> Array:
    """The sums of x (outer, count, inner) along its middle axis."""
    count = x.shape[1]
    result = xp.zeros((outer, inner), dtype=dtype)
    if count == 0 or outer * inner == 0:
        return result
    block = _BLOCK * xp.block_scale
    columns = min(inner, max(block // count, _SHORT))
    sums = OpenSums(dtype, xp)
    for across in pieces(inner, columns):
        for rows in pieces(outer, max(block // (count * columns), 1)):
            _tile(x[rows, :, across], result[rows, across], sums, xp)
    sums.settle()
    return result


def _tile(x: Array, out: Array, sums: OpenSums, xp: Any) -> None:
    """Write the sums of x (outer, count, inner) along its middle axis, or hand them over."""
    count = x.shape[1]
    chunk = max(_BLOCK * xp.block_scale // (x.shape[0] * x.shape[2]), 1)
    parts = [_part(x[:, some, :], xp) for some in _chunks(count, chunk)]
    total, size, least, _ = parts[0]
    for more_total, more_size, _, _ in parts[1:]:
        total, size = total + more_total, size + more_size
    if out.dtype == xp.float64:
        result = total + 0.0
        is_open = xp.full(total.shape, count > 1, dtype=xp.bool)
    else:
        bound = size * (1.001 * UNIT * (max(deep for *_, deep in parts) + len(parts) + 2))
        if least is not None and len(parts) == 1 and x.dtype != xp.float64:
            # All terms are multiples of the last bit that the least one has room for: short sums of such are exact.
            spare = 53 - (24 if x.dtype == xp.float32 else 11)
            bound = xp.where(size <= least * 2.0**spare, xp.zeros_like(bound), bound)
        result, is_open = certified(total, bound, out.dtype, xp)
    if not bool(xp.all(xp.isfinite(size))):
        infinite = xp.where(xp.isfinite(x), xp.zeros_like(x), x)
        value = xp.reshape(xp.sum(xp.astype(infinite, xp.float64), axis=1), total.shape)
        value = xp.where(xp.isnan(value), xp.full_like(value, float("nan")), value)
        is_special = ~xp.isfinite(value)
        result = xp.where(is_special, xp.astype(value, out.dtype), result)
        is_open = is_open & ~is_special
    out[...] = xp.reshape(result, out.shape)
    if bool(xp.any(is_open)):
        sums.expect([(xp.reshape(is_open, out.shape), out)])
        index, lines = xp.nonzero(is_open)[0], []
        for some in _chunks(count, chunk):
            part = xp.permute_dims(x[:, some, :], (0, 2, 1))
            part = xp.take(xp.reshape(part, (total.shape[0], part.shape[2])), index, axis=0)
            part = xp.astype(part, xp.float64)
            lines.append(part if len(parts) == 1 else condensed(part, xp))
        sums.add(lines[0] if len(parts) == 1 else xp.concat(lines, axis=1))


def _chunks(count: int, chunk: int) -> list[slice]:
    """The parts of a sum: where there are several, all but the last, short one can be summed in groups."""
    if count <= chunk or chunk < _GROUP:
        return list(pieces(count, chunk))
    whole = count - count % _GROUP
    return [*pieces(whole, chunk - chunk % _GROUP), *([slice(whole, count)] if whole < count else [])]


def _part(x: Array, xp: Any) -> tuple[Array, Array, Array | None, int]:
    """float64's sums of x along its middle axis, those of its sizes, and of a short one the least size but 0.

    The last is how many additions one term goes through at most.
    """
    outer, count, inner = x.shape
    wide = xp.astype(x, xp.float64)
    if inner == 1 and count >= _SHORT:
        axis, terms = 1, xp.reshape(wide, (outer, count))
    else:
        axis, terms = 0, xp.contiguous(xp.reshape(xp.permute_dims(wide, (1, 0, 2)), (count, outer * inner)))
    sizes = xp.abs(terms)
    if axis == 1 and count > _GROUP and count % _GROUP == 0:
        total, size = (xp.sum(xp.sum(xp.reshape(y, (outer, -1, _GROUP)), axis=2), axis=1) for y in (terms, sizes))
        return total, size, None, _GROUP + count // _GROUP
    least = None
    if count < _SHORT:
        least = xp.min(xp.where(sizes == 0, xp.asarray(float("inf"), dtype=xp.float64), sizes), axis=axis)
    return xp.sum(terms, axis=axis), xp.sum(sizes, axis=axis), least, count


FUNCTIONS: dict[str, Callable[..., Any]] = {
    function.__name__: function for function in (sum, mean, prod, cumulative_sum, cumulative_prod, add_all)
}
"""The functions of this chapter."""
