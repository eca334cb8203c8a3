"""What gradients are made of: the operators that ``onemodel.gradient`` puts into the graph beside ONNX's own.

They are not in the table of operators, since they are no part of what models may hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from onemodel.ops.convolution import conv_transpose
from onemodel.ops.reduction import running_product
from onemodel.ops.registry import operator

DOMAIN = "onemodel.gradient"
FUNCTIONS: list[Callable[..., Any]] = []


def _operator(name, types=("g",), **options):
    """An operator of this domain; unless ``types`` says else, its result has the type of its first input, ``g``."""

    def enter(function):
        FUNCTIONS.append(operator(name, since=1, domain=DOMAIN, types=types, register=False, **options)(function))
        return function

    return enter


@_operator("FillLike", metadata=True, widen=False)
def fill_like(g, /, *, value=1.0, xp):
    """The shape and type of g, filled with one value."""
    return xp.full(g.shape, value, dtype=g.dtype)


@_operator("SumTo")
def sum_to(g, x, /, *, xp):
    """g summed over the axes along which broadcasting spread x."""
    if g.shape == x.shape:
        return g
    lead = g.ndim - x.ndim
    axes = tuple(i for i in range(g.ndim) if i < lead or (x.shape[i - lead] == 1 and g.shape[i] != 1))
    return xp.reshape(xp.sum(g, axis=axes), x.shape)


@_operator("ExpandTo", widen=False)
def expand_to(g, x, /, *, xp):
    """g broadcast to the shape of x."""
    return xp.broadcast_to(g, x.shape)


@_operator("ReshapeLike", widen=False)
def reshape_like(g, x, /, *, xp):
    """g in the shape of x."""
    return xp.reshape(g, x.shape)


@_operator("Above", widen=False, elementwise=True)
def above(g, /, *, xp):
    """1 where g is above 0, else 0."""
    return xp.where(g > 0, xp.constant(1, g), xp.constant(0, g))


@_operator("Same", widen=False, elementwise=True)
def same(g, x, /, *, xp):
    """1 where g equals x, else 0."""
    return xp.where(g == x, xp.constant(1, g), xp.constant(0, g))


@_operator("Over", elementwise=True)
def over(g, x, /, *, xp):
    """g / x, but 0 where x is 0."""
    zero = xp.constant(0, x)
    return xp.where(x == zero, zero, g / xp.where(x == zero, xp.constant(1, x), x))


@_operator("CastTo", types=("x",), widen=False)
def cast_to(g, x, /, *, xp):
    """g in the type of x; 0 where one of the two is no floating-point type."""
    if xp.isdtype(g.dtype, "real floating") and xp.isdtype(x.dtype, "real floating"):
        return xp.astype(g, x.dtype)
    return xp.zeros(x.shape, dtype=x.dtype)


@_operator("Keep", widen=False, elementwise=True)
def keep(g, condition, /, *, negated=0, xp):
    """g where the condition holds (or with ``negated`` where it does not), else 0."""
    zero = xp.constant(0, g)
    return xp.where(condition, zero, g) if negated else xp.where(condition, g, zero)


@_operator("Scale", elementwise=True)
def scale(g, /, *, by, xp):
    """g times a number."""
    return g * xp.constant(by, g)


@_operator("SumAlong")
def sum_along(g, /, *, axis, rows=0, xp):
    """The sum along an axis, which stays with size 1; with ``rows`` along all axes from there on."""
    first = axis + g.ndim if axis < 0 else axis
    return xp.sum(g, axis=tuple(range(first, g.ndim)) if rows else first, keepdims=True)


@_operator("Spread", host=("axes",))
def spread(g, x, axes=None, /, *, along=None, keepdims=1, noop_with_empty_axes=0, mean=0, xp):
    """The gradient of a sum or mean of x over axes: g on every element that took part."""
    reduced = _reduced(x, axes, along, noop_with_empty_axes)
    kept = xp.reshape(g, tuple(1 if i in reduced else size for i, size in enumerate(x.shape)))
    if mean and reduced:
        kept = kept / xp.constant(math.prod(x.shape[i] for i in reduced), kept)
    return xp.broadcast_to(kept, x.shape)


@_operator("SumOver", host=("axes",))
def sum_over(g, axes=None, /, *, along=None, keepdims=1, noop_with_empty_axes=0, mean=0, xp):
    """The sum or mean of g over axes."""
    reduced = _reduced(g, axes, along, noop_with_empty_axes)
    if not reduced:
        return g
    total = xp.sum(g, axis=reduced, keepdims=bool(keepdims))
    return total / xp.constant(math.prod(g.shape[i] for i in reduced), total) if mean else total


@_operator("ReduceProdSlope", host=("axes",))
def reduce_prod_slope(g, axes=None, /, *, along=None, noop_with_empty_axes=0, xp):
    """For each element of g the product of those that a product over axes multiplies it with."""
    reduced = _reduced(g, axes, along, noop_with_empty_axes)
    order = (*(i for i in range(g.ndim) if i not in reduced), *reduced)
    moved = xp.permute_dims(g, order)
    rows = xp.reshape(moved, (*moved.shape[: g.ndim - len(reduced)], math.prod(g.shape[i] for i in reduced)))
    before, after = (running_product(rows, [-1], exclusive=1, reverse=turn, xp=xp) for turn in (0, 1))
    return xp.permute_dims(xp.reshape(before * after, moved.shape), tuple(order.index(i) for i in range(g.ndim)))


def _reduced(x, axes, along, noop):
    """The axes of x, from 0 on and in order, that a reduction with these inputs and attributes takes away."""
    given = along if axes is None else [int(axis) for axis in axes]
    if not given:
        return () if noop else tuple(range(x.ndim))
    return tuple(sorted({axis + x.ndim if axis < 0 else axis for axis in given}))


@_operator("MatMulFirst")
def matmul_first(g, a, b, /, *, xp):
    """The gradient of a product of matrices or vectors with respect to a."""
    g, first, second = _matrices(g, a, b, xp)
    return xp.reshape(sum_to(xp.matmul(g, xp.matrix_transpose(second)), first, xp=xp), a.shape)


@_operator("MatMulSecond")
def matmul_second(g, a, b, /, *, xp):
    """The same with respect to b."""
    g, first, second = _matrices(g, a, b, xp)
    return xp.reshape(sum_to(xp.matmul(xp.matrix_transpose(first), g), second, xp=xp), b.shape)


def _matrices(g, a, b, xp):
    """All three as matrices: a vector on the left is a row, on the right a column."""
    if b.ndim == 1:
        g, b = xp.expand_dims(g, axis=g.ndim), xp.expand_dims(b, axis=1)
    if a.ndim == 1:
        g, a = xp.expand_dims(g, axis=g.ndim - 1), xp.expand_dims(a, axis=0)
    return g, a, b


@_operator("Part", widen=False)
def part(g, /, *x, axis, index, xp):
    """The part of g that the input number ``index`` has in a concatenation along ``axis``."""
    axis = axis + g.ndim if axis < 0 else axis
    start = sum(array.shape[axis] for array in x[:index])
    slices = [slice(None)] * g.ndim
    slices[axis] = slice(start, start + x[index].shape[axis])
    return g[tuple(slices)]


@_operator("Places", types=("tensor(int64)",), metadata=True, widen=False)
def places(g, /, *, xp):
    """The numbers of g's elements, from 1 on, in its shape."""
    return xp.reshape(xp.arange(1, math.prod(g.shape) + 1, dtype=xp.int64), g.shape)


@_operator("PutBack")
def put_back(g, places, x, /, *, xp):
    """In the shape of x, the sum of the elements of g that have this place among ``places``; 0 is no place."""
    count, flat = math.prod(x.shape), xp.reshape(places, (-1,))
    # What has no place goes to a row of its own past the end: many updates of one row would be slow.
    rows = xp.where(flat == 0, xp.arange(count, count + flat.shape[0], dtype=xp.int64), flat - 1)
    table = xp.zeros((count + flat.shape[0], 1), dtype=g.dtype)
    return xp.reshape(xp.scatter(table, rows, xp.reshape(g, (-1, 1)), "add")[:count, 0], x.shape)


@_operator("Fetch", widen=False)
def fetch(g, places, /, *, xp):
    """The elements of g at ``places``, 0 where there is none."""
    table = xp.concat([xp.zeros((1,), dtype=g.dtype), xp.reshape(g, (-1,))])
    return xp.reshape(xp.take(table, xp.reshape(places, (-1,)), axis=0), places.shape)


@_operator("ConvInput")
def conv_input(
    g, w, x, /, *, auto_pad="NOTSET", dilations=None, group=1, kernel_shape=None, pads=None, strides=None, xp
):
    """The gradient of a convolution of x with w with respect to x."""
    windows = xp.sliding(x.shape[2:], w.shape[2:], strides, dilations, pads, auto_pad)
    begins, ends = zip(*windows.widths, strict=True)
    missing = []
    for i, size in enumerate(x.shape[2:]):
        reach = windows.dilations[i] * (w.shape[2 + i] - 1) + 1
        missing.append(size - ((g.shape[2 + i] - 1) * windows.strides[i] + reach - begins[i] - ends[i]))
    return conv_transpose(
        g,
        w,
        dilations=windows.dilations,
        group=group,
        output_padding=missing,
        pads=(*begins, *ends),
        strides=windows.strides,
        xp=xp,
    )


@_operator("ConvWeight")
def conv_weight(
    g, x, w, /, *, auto_pad="NOTSET", dilations=None, group=1, kernel_shape=None, pads=None, strides=None, xp
):
    """The same with respect to w."""
    windows = xp.sliding(x.shape[2:], w.shape[2:], strides, dilations, pads, auto_pad)
    padded = xp.pad(x, ((0, 0), (0, 0), *windows.widths))
    patches = xp.windows(padded, w.shape[2:], windows.strides, windows.dilations)
    count = math.prod(g.shape[2:])
    patches = xp.reshape(patches, (x.shape[0], group, x.shape[1] // group, count, math.prod(w.shape[2:])))
    columns = xp.reshape(xp.permute_dims(patches, (1, 0, 3, 2, 4)), (group, x.shape[0] * count, -1))
    rows = xp.permute_dims(xp.reshape(g, (x.shape[0], group, -1, count)), (1, 2, 0, 3))
    return xp.reshape(xp.matmul(xp.reshape(rows, (group, w.shape[0] // group, -1)), columns), w.shape)


@_operator("ChannelSum")
def channel_sum(g, /, *, xp):
    """The sum over all axes but the second."""
    return xp.sum(g, axis=(0, *range(2, g.ndim)))


@_operator("ChannelSpread", widen=False)
def channel_spread(g, x, /, *, xp):
    """g, one number for each channel, in the shape of x."""
    return xp.broadcast_to(xp.reshape(g, (1, -1, *[1] * (x.ndim - 2))), x.shape)
