"""Shapes: what an array's axes are, and how arrays are joined, divided and repeated along them."""

from __future__ import annotations

import math

from onemodel.ops.axes import integers, one_axis, some_axes
from onemodel.ops.registry import operator


@operator("Identity", since=1, widen=False)
def identity(x, /, *, xp):
    """x itself: a tensor, a sequence or an optional."""
    return x


@operator("Shape", since=1, metadata=True, widen=False)
def shape(x, /, *, start=0, end=None, xp):
    """The sizes of x's axes from ``start`` up to ``end``, int64; both are clamped, and count back where negative."""
    return xp.as_index(x.shape[slice(start, end)])


@operator("Size", since=1, metadata=True, widen=False)
def size(x, /, *, xp):
    """The number of elements, a 0-d int64."""
    return xp.asarray(math.prod(x.shape), dtype=xp.int64)


# The same elements in other axes


@operator("Reshape", since=5, host=("shape",), widen=False)
def reshape(data, shape, /, *, allowzero=0, xp):
    """The same elements in ``shape``: -1 is what is left over, 0 keeps the axis (or means zero with ``allowzero``)."""
    sizes = integers(shape)
    count = math.prod(data.shape)
    if not allowzero:
        if any(n == 0 and i >= data.ndim for i, n in enumerate(sizes)):
            raise ValueError(f"shape {sizes} keeps an axis that the input of {data.ndim} dimensions does not have")
        sizes = [data.shape[i] if n == 0 else n for i, n in enumerate(sizes)]
    if sizes.count(-1) > 1 or min(sizes, default=0) < -1:
        raise ValueError(f"shape {sizes} must be of sizes, at most one of them -1")
    if -1 in sizes:
        known = math.prod(n for n in sizes if n != -1)
        if known == 0 or count % known:
            raise ValueError(f"{count} elements of shape {data.shape} do not fit into shape {sizes}")
        sizes[sizes.index(-1)] = count // known
    if math.prod(sizes) != count:
        raise ValueError(f"{count} elements of shape {data.shape} do not fit into shape {sizes}")
    return xp.reshape(data, tuple(sizes))


@operator("Flatten", since=1, widen=False)
def flatten(input, /, *, axis=1, xp):
    """Two dimensions: the axes before ``axis``, and the others."""
    if not -input.ndim <= axis <= input.ndim:
        raise ValueError(f"axis {axis} is not in [-{input.ndim}, {input.ndim}]")
    axis = axis if axis >= 0 else axis + input.ndim
    return xp.reshape(input, (math.prod(input.shape[:axis]), math.prod(input.shape[axis:])))


@operator("Transpose", since=1, widen=False)
def transpose(data, /, *, perm=None, xp):
    """The axes in the order ``perm``; reversed where it is omitted."""
    order = tuple(reversed(range(data.ndim))) if perm is None else tuple(perm)
    if sorted(order) != list(range(data.ndim)):
        raise ValueError(f"perm {list(order)} must name each of the {data.ndim} axes of the input once")
    return xp.permute_dims(data, order)


@operator("Squeeze", since=13, host=("axes",), widen=False)
def squeeze(data, axes=None, /, *, xp):
    """Without ``axes``, which have size 1 each; without all axes of size 1 where ``axes`` is omitted."""
    ones = [i for i, n in enumerate(data.shape) if n == 1]
    dropped = ones if axes is None else some_axes(integers(axes), data.ndim)
    if any(data.shape[i] != 1 for i in dropped):
        raise ValueError(f"axes {dropped} of shape {data.shape} must have size 1")
    return xp.reshape(data, tuple(n for i, n in enumerate(data.shape) if i not in dropped))


@operator("Squeeze", since=1, widen=False)
def squeeze_by_attribute(data, /, *, axes=None, xp):
    """Before opset 13 ``axes`` is an attribute."""
    return squeeze(data, axes, xp=xp)


@operator("Unsqueeze", since=13, host=("axes",), widen=False)
def unsqueeze(data, axes, /, *, xp):
    """With axes of size 1 at the places ``axes`` of the result."""
    added = integers(axes)
    added = some_axes(added, data.ndim + len(added))
    sizes = list(data.shape)
    for axis in sorted(added):
        sizes.insert(axis, 1)
    return xp.reshape(data, tuple(sizes))


@operator("Unsqueeze", since=1, widen=False)
def unsqueeze_by_attribute(data, /, *, axes, xp):
    """Before opset 13 ``axes`` is an attribute."""
    return unsqueeze(data, axes, xp=xp)


@operator("DepthToSpace", since=11, widen=False)
def depth_to_space(input, /, *, blocksize, mode="DCR", xp):
    """Channels laid out as blocks of pixels; a channel counts the place in its block first with DCR, last with CRD."""
    n, c, h, w = _image(input, blocksize)
    depth = c // blocksize**2
    if c % blocksize**2:
        raise ValueError(f"{c} channels cannot be divided into blocks of {blocksize} x {blocksize}")
    if _crd(mode):
        x = xp.permute_dims(xp.reshape(input, (n, depth, blocksize, blocksize, h, w)), (0, 1, 4, 2, 5, 3))
    else:
        x = xp.permute_dims(xp.reshape(input, (n, blocksize, blocksize, depth, h, w)), (0, 3, 4, 1, 5, 2))
    return xp.reshape(x, (n, depth, h * blocksize, w * blocksize))


@operator("DepthToSpace", since=1, widen=False)
def depth_to_space_dcr(input, /, *, blocksize, xp):
    """Before opset 11 there is DCR only."""
    return depth_to_space(input, blocksize=blocksize, xp=xp)


@operator("SpaceToDepth", since=28, widen=False)
def space_to_depth(input, /, *, blocksize, mode="DCR", xp):
    """Blocks of ``blocksize`` x ``blocksize`` pixels laid out as channels, the reverse of DepthToSpace."""
    n, c, h, w = _image(input, blocksize)
    if h % blocksize or w % blocksize:
        raise ValueError(f"an image of {h} x {w} cannot be divided into blocks of {blocksize} x {blocksize}")
    x = xp.reshape(input, (n, c, h // blocksize, blocksize, w // blocksize, blocksize))
    x = xp.permute_dims(x, (0, 1, 3, 5, 2, 4) if _crd(mode) else (0, 3, 5, 1, 2, 4))
    return xp.reshape(x, (n, c * blocksize**2, h // blocksize, w // blocksize))


@operator("SpaceToDepth", since=1, widen=False)
def space_to_depth_dcr(input, /, *, blocksize, xp):
    """Before opset 28 there is DCR only."""
    return space_to_depth(input, blocksize=blocksize, xp=xp)


def _image(x, blocksize):
    if x.ndim != 4 or blocksize < 1:
        raise ValueError(f"blocksize {blocksize} must be positive and the input of shape {x.shape} (N, C, H, W)")
    return x.shape


def _crd(mode):
    if mode not in ("DCR", "CRD"):
        raise ValueError(f"mode is {mode!r}; it must be 'DCR' or 'CRD'")
    return mode == "CRD"


# Repeating


@operator("Expand", since=8, host=("shape",), widen=False)
def expand(input, shape, /, *, xp):
    """Broadcast to ``shape`` and the input's own shape, whichever is larger in each axis."""
    sizes, own = integers(shape), list(input.shape)
    rank = max(len(sizes), len(own))
    sizes, own = [1] * (rank - len(sizes)) + sizes, [1] * (rank - len(own)) + own
    if any(a < 0 or (a != b and 1 not in (a, b)) for a, b in zip(sizes, own, strict=True)):
        raise ValueError(f"shape {integers(shape)} cannot be broadcast with the input's shape {input.shape}")
    result = tuple(b if a == 1 else a for a, b in zip(sizes, own, strict=True))
    return input if result == input.shape else xp.broadcast_to(input, result)


@operator("Tile", since=6, host=("repeats",), widen=False)
def tile(input, repeats, /, *, xp):
    """The input repeated along each axis."""
    counts = integers(repeats)
    if len(counts) != input.ndim or min(counts, default=0) < 0:
        raise ValueError(f"repeats {counts} must be {input.ndim} counts, one per axis of the input")
    return xp.tile(input, tuple(counts))


# Joining and dividing


@operator("Concat", since=4, widen=False)
def concat(*inputs, axis, xp):
    """The inputs one after the other along ``axis``; their other axes agree."""
    axis = one_axis(axis, inputs[0].ndim)
    first = inputs[0].shape
    for x in inputs:
        if x.ndim != len(first) or any(i != axis and x.shape[i] != first[i] for i in range(x.ndim)):
            shapes = ", ".join(str(other.shape) for other in inputs)
            raise ValueError(f"the shapes {shapes} must agree in every axis but {axis}")
    return xp.concat(inputs, axis=axis) if len(inputs) > 1 else inputs[0]


@operator("Split", since=18, host=("split",), widen=False)
def split(input, split=None, /, *, axis=0, num_outputs=None, wanted, xp):
    """Parts along ``axis`` of the sizes ``split``, or equal ones of which the last may be smaller."""
    axis = one_axis(axis, input.ndim)
    if split is not None:
        if num_outputs is not None:
            raise ValueError("split and num_outputs are given; only one of them may be")
        return parts(input, integers(split), axis, len(wanted))
    length, count = input.shape[axis], num_outputs or len(wanted)
    if count != len(wanted):
        raise ValueError(f"num_outputs is {num_outputs}, but the node has {len(wanted)} outputs")
    largest = -(-length // count)
    if largest * (count - 1) > length:
        raise ValueError(f"{length} elements along axis {axis} do not make {count} parts, the last one smaller")
    return parts(input, [largest] * (count - 1) + [length - largest * (count - 1)], axis, count)


@operator("Split", since=13, host=("split",), widen=False)
def split_evenly(input, split=None, /, *, axis=0, wanted, xp):
    """Before opset 18 the parts are equal where ``split`` is omitted."""
    axis = one_axis(axis, input.ndim)
    if split is not None:
        return parts(input, integers(split), axis, len(wanted))
    length, count = input.shape[axis], len(wanted)
    if length % count:
        raise ValueError(f"{length} elements along axis {axis} cannot be divided into {count} equal parts")
    return parts(input, [length // count] * count, axis, count)


@operator("Split", since=2, widen=False)
def split_by_attribute(input, /, *, split=None, axis=0, wanted, xp):
    """Before opset 13 ``split`` is an attribute."""
    return split_evenly(input, split, axis=axis, wanted=wanted, xp=xp)


def parts(x, sizes, axis, count):
    """x cut along ``axis`` into ``count`` parts of the given sizes, which must add up."""
    if len(sizes) != count or min(sizes, default=0) < 0 or sum(sizes) != x.shape[axis]:
        raise ValueError(f"split {sizes} must be {count} sizes that add up to {x.shape[axis]}, the size of axis {axis}")
    starts = [sum(sizes[:i]) for i in range(count)]
    before = (slice(None),) * axis
    return tuple(x[(*before, slice(start, start + n), ...)] for start, n in zip(starts, sizes, strict=True))
