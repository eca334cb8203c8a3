"""Reductions along axes: sums, norms, extremes, their places, and running sums."""

from __future__ import annotations

import math

from onemodel.ops.axes import integers, one_axis, some_axes
from onemodel.ops.registry import operator


def _axes(axes, noop, rank):
    """The axes to reduce, counted from the front. None or no axes means all of them, or none with ``noop``."""
    return tuple(some_axes(integers(axes), rank)) or (() if noop else tuple(range(rank)))


def _sum(x, axes, keepdims, xp):
    return xp.sum(x, axis=axes, keepdims=keepdims, dtype=x.dtype) if axes else x


def _product(x, axes, keepdims, xp):
    return xp.prod(x, axis=axes, keepdims=keepdims, dtype=x.dtype) if axes else x


def _sum_of_sizes(x, axes, keepdims, xp):
    return _sum(x if xp.isdtype(x.dtype, "unsigned integer") else xp.abs(x), axes, keepdims, xp)


def _sum_of_squares(x, axes, keepdims, xp):
    return _sum(x * x, axes, keepdims, xp)


def _norm(x, axes, keepdims, xp):
    if not xp.isdtype(x.dtype, "integral"):
        return xp.sqrt(_sum_of_squares(x, axes, keepdims, xp))
    squares = _sum_of_squares(xp.astype(x, xp.uint64), axes, keepdims, xp)
    return xp.convert(_whole_root(squares, xp), xp.onnx_code(x.dtype))


def _whole_root(x, xp):
    """The square root of uint64, truncated: float64's is at most one off."""
    one = xp.constant(1, x)
    root = xp.astype(xp.sqrt(xp.astype(x, xp.float64)), xp.uint64)
    limit = xp.constant(2**32 - 1, x)
    root = xp.where(root > limit, limit, root)
    root = xp.where(root * root > x, root - one, root)
    return xp.where((root < limit) & ((root + one) * (root + one) <= x), root + one, root)


def _log_of_sum(x, axes, keepdims, xp):
    if not xp.isdtype(x.dtype, "integral"):
        return xp.log(_sum(x, axes, keepdims, xp))
    return xp.convert(xp.log(_sum(xp.astype(x, xp.float64), axes, keepdims, xp)), xp.onnx_code(x.dtype))


def _log_of_sum_of_powers(x, axes, keepdims, xp):
    if xp.isdtype(x.dtype, "integral"):
        wide = _log_of_sum_of_powers(xp.astype(x, xp.float64), axes, keepdims, xp)
        return xp.convert(wide, xp.onnx_code(x.dtype))
    if not axes:
        return x
    greatest = _max(x, axes, True, xp)
    # Nothing is taken out where the greatest is infinite, or where there is nothing.
    greatest = xp.where(xp.isfinite(greatest), greatest, xp.constant(0, greatest))
    result = greatest + xp.log(_sum(xp.exp(x - greatest), axes, True, xp))
    return result if keepdims else xp.squeeze(result, axis=axes)


def _mean(x, axes, keepdims, xp):
    if not axes:
        return x
    count = math.prod(x.shape[axis] for axis in axes)
    if not xp.isdtype(x.dtype, "integral"):
        return _sum(x, axes, keepdims, xp) / xp.constant(count, x)
    wide = xp.uint64 if xp.isdtype(x.dtype, "unsigned integer") else xp.int64
    total = _sum(xp.astype(x, wide), axes, keepdims, xp)
    return xp.astype(xp.trunc_divide(total, xp.constant(count, total)), x.dtype)


def _extreme(x, axes, keepdims, xp, function, identity):
    if not axes:
        return x
    if 0 in (x.shape[axis] for axis in axes):
        kept = [1 if axis in axes else size for axis, size in enumerate(x.shape) if keepdims or axis not in axes]
        return xp.full(tuple(kept), identity, dtype=x.dtype)
    return function(x, axis=axes, keepdims=keepdims)


def _max(x, axes, keepdims, xp):
    if xp.isdtype(x.dtype, "bool"):
        return xp.any(x, axis=axes, keepdims=keepdims) if axes else x
    least = xp.iinfo(x.dtype).min if xp.isdtype(x.dtype, "integral") else -math.inf
    return _extreme(x, axes, keepdims, xp, xp.max, least)


def _min(x, axes, keepdims, xp):
    if xp.isdtype(x.dtype, "bool"):
        return xp.all(x, axis=axes, keepdims=keepdims) if axes else x
    greatest = xp.iinfo(x.dtype).max if xp.isdtype(x.dtype, "integral") else math.inf
    return _extreme(x, axes, keepdims, xp, xp.min, greatest)


def _enter(name, since, reduction, meaning, **options):
    """Enter ``reduction`` of (x, axes, keepdims, xp); ``axes`` is an input from opset ``since`` on."""

    @operator(name, since=since, host=("axes",), **options)
    def reduce(data, axes=None, /, *, keepdims=1, noop_with_empty_axes=0, xp):
        return reduction(data, _axes(axes, noop_with_empty_axes, data.ndim), bool(keepdims), xp)

    @operator(name, since=1, **options)
    def reduce_along_attribute(data, /, *, axes=None, keepdims=1, xp):
        return reduction(data, _axes(axes, 0, data.ndim), bool(keepdims), xp)

    for function in (reduce, reduce_along_attribute):
        function.__doc__ = f"{meaning} along ``axes``; all axes where none is given."


_enter("ReduceSum", 13, _sum, "The sum, 0 of nothing; integers wrap,", widen=False)
_enter("ReduceMean", 18, _mean, "The mean, NaN of nothing; of integers truncated toward zero,")
_enter("ReduceMax", 18, _max, "The greatest element, NaN where one is NaN, -infinity or the type's least of nothing,")
_enter("ReduceMin", 18, _min, "The least element, NaN where one is NaN, infinity or the type's greatest of nothing,")
_enter("ReduceProd", 18, _product, "The product, 1 of nothing; integers wrap,")
_enter("ReduceL1", 18, _sum_of_sizes, "The sum of absolute values")
_enter("ReduceL2", 18, _norm, "The square root of the sum of squares, of integers truncated,")
_enter("ReduceSumSquare", 18, _sum_of_squares, "The sum of squares; integers wrap,")
_enter("ReduceLogSum", 18, _log_of_sum, "The logarithm of the sum")
_enter("ReduceLogSumExp", 18, _log_of_sum_of_powers, "The logarithm of the sum of exp(x), without overflow,")


# Where the extremes are


def _place(function, data, axis, keepdims, select_last_index, xp):
    axis = one_axis(axis, data.ndim)
    if data.shape[axis] == 0:
        shape = [1 if i == axis else size for i, size in enumerate(data.shape) if keepdims or i != axis]
        if 0 in shape:
            return xp.zeros(tuple(shape), dtype=xp.int64)
        raise ValueError(f"axis {axis} of shape {data.shape} is empty and has no greatest or least element")
    if not select_last_index:
        return function(data, axis=axis, keepdims=bool(keepdims))
    return data.shape[axis] - 1 - function(xp.flip(data, axis=axis), axis=axis, keepdims=bool(keepdims))


@operator("ArgMax", since=1)
def arg_max(data, /, *, axis=0, keepdims=1, select_last_index=0, xp):
    """Where the greatest element along ``axis`` is: the first one, or the last; a NaN is the greatest."""
    return _place(xp.argmax, data, axis, keepdims, select_last_index, xp)


@operator("ArgMin", since=1)
def arg_min(data, /, *, axis=0, keepdims=1, select_last_index=0, xp):
    """Where the least element along ``axis`` is: the first one, or the last; a NaN is the least."""
    return _place(xp.argmin, data, axis, keepdims, select_last_index, xp)


# Running sums and products


def _running(function, x, axis, exclusive, reverse, xp):
    axes = integers(axis)
    if len(axes) != 1:
        raise ValueError(f"axis holds {len(axes)} numbers, not one")
    axis = one_axis(axes[0], x.ndim)
    if reverse:
        x = xp.flip(x, axis=axis)
    x = function(x, axis=axis, dtype=x.dtype, include_initial=bool(exclusive))
    if exclusive:
        x = x[(slice(None),) * axis + (slice(0, -1), ...)]
    return xp.flip(x, axis=axis) if reverse else x


@operator("CumSum", since=11, host=("axis",))
def running_sum(x, axis, /, *, exclusive=0, reverse=0, xp):
    """The sum of all elements up to here on ``axis``, with or (``exclusive``) without this one; integers wrap."""
    return _running(xp.cumulative_sum, x, axis, exclusive, reverse, xp)


@operator("CumProd", since=26, host=("axis",))
def running_product(x, axis, /, *, exclusive=0, reverse=0, xp):
    """The product of all elements up to here on ``axis``, with or (``exclusive``) without this one; integers wrap."""
    return _running(xp.cumulative_prod, x, axis, exclusive, reverse, xp)
