"""Convolution and its relatives."""

from __future__ import annotations

import itertools
import math

from onemodel.ops.axes import integers
from onemodel.ops.registry import operator


@operator("Conv", since=1, factors={"w": lambda _, given: ("left", given.get("group", 1))})
def conv(
    x, w, b=None, /, *, auto_pad="NOTSET", dilations=None, group=1, kernel_shape=None, pads=None, strides=None, xp
):
    """Cross-correlation of x (N, C, *spatial) with the filters w (M, C / group, *kernel), plus the bias b (M)."""
    xp.check_filters(x, w, b, group, kernel_shape)
    windows = xp.sliding(x.shape[2:], w.shape[2:], strides, dilations, pads, auto_pad)
    y = xp.conv(xp.pad(x, ((0, 0), (0, 0), *windows.widths)), w, windows.strides, windows.dilations, group)
    return _with_bias(y, b, xp)


@operator("ConvTranspose", since=1)
def conv_transpose(
    x,
    w,
    b=None,
    /,
    *,
    auto_pad="NOTSET",
    dilations=None,
    group=1,
    kernel_shape=None,
    output_padding=None,
    output_shape=None,
    pads=None,
    strides=None,
    xp,
):
    """Each element of x (N, C, *spatial) times its filters w (C, M / group, *kernel), added where they overlap, plus b.

    With three spatial axes the additions have one order, that of x's elements.
    """
    if x.ndim < 3 or w.ndim != x.ndim or x.shape[1] != w.shape[0] or group < 1 or x.shape[1] % group:
        raise ValueError(f"X of shape {x.shape} does not fit W of shape {w.shape} and group {group}")
    if kernel_shape is not None and tuple(kernel_shape) != w.shape[2:]:
        raise ValueError(f"kernel_shape {list(kernel_shape)} is not that of W, whose shape is {w.shape}")
    if b is not None and b.shape != (w.shape[1] * group,):
        raise ValueError(f"B must have the shape ({w.shape[1] * group},), one number per channel, not {b.shape}")
    # Strides, dilations and pads mean what they mean in a convolution over an input that is large enough.
    whole = xp.sliding([2**62] * (x.ndim - 2), w.shape[2:], strides, dilations, pads, auto_pad)
    sizes, starts = _transposed_sizes(x, whole, auto_pad, output_padding, output_shape)
    if x.ndim == 5:
        convolve = _add_in_order
    else:

        def convolve(x, w, dilations, group, xp):
            return xp.conv(x, w, (1,) * len(dilations), dilations, group)

    return _with_bias(_by_phases(convolve, x, w, whole, sizes, starts, group, xp), b, xp)


def _transposed_sizes(x, windows, auto_pad, output_padding, output_shape):
    """The output's spatial sizes, and how much is cut off before."""
    rank = x.ndim - 2
    extra = tuple(output_padding or (0,) * rank)
    wanted = tuple(output_shape[-rank:]) if output_shape else None  # some models give the batch and channels, too
    if len(extra) != rank or (output_shape and len(output_shape) not in (rank, rank + 2)):
        raise ValueError(f"output_padding {list(extra)} and output_shape {output_shape} must have {rank} numbers")
    sizes, starts = [], []
    for axis, (stride, dilation) in enumerate(zip(windows.strides, windows.dilations, strict=True)):
        if not 0 <= extra[axis] < max(stride, dilation):
            raise ValueError(f"output_padding {list(extra)} must be less than the stride or the dilation")
        reach = dilation * (windows.kernel[axis] - 1) + 1
        natural = stride * (x.shape[axis + 2] - 1) + reach + extra[axis]
        if wanted is None and not auto_pad.startswith("SAME"):
            before, after = windows.pads[axis]
            size, start = natural - before - after, before
        else:
            size = x.shape[axis + 2] * stride if wanted is None else wanted[axis]
            total = max(natural - size, 0)
            start = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
            if wanted is not None and size - natural >= max(stride, dilation):
                raise ValueError(f"output_shape {list(wanted)} is larger than {natural} on axis {axis + 2} can become")
        if size < 1:
            raise ValueError(f"the output's size on axis {axis + 2} is {size}; pads take away more than there is")
        sizes.append(size)
        starts.append(start)
    return tuple(sizes), tuple(starts)


def _by_phases(convolve, x, w, windows, sizes, starts, group, xp):
    """A transposed convolution as one convolution with stride 1 for each phase of the output.

    Outputs that lie a stride apart meet the same taps of the kernel: these, backwards, are the phase's filter.
    """
    rank, channels, count = x.ndim - 2, x.shape[1] // group, w.shape[1]
    lead = (group, channels, count)
    order = (0, 2, 1, *range(3, 3 + rank))
    w = xp.reshape(
        xp.permute_dims(xp.reshape(w, (*lead, *w.shape[2:])), order), (group * count, channels, *w.shape[2:])
    )
    rows = tuple(-(-size // stride) for size, stride in zip(sizes, windows.strides, strict=True))
    parts = []
    for phase in itertools.product(*map(range, windows.strides)):
        taps, begins, steps = [], [], []
        for axis in range(rank):
            stride, dilation = windows.strides[axis], windows.dilations[axis]
            first, rest = divmod(phase[axis] + starts[axis], stride)
            met = [tap for tap in range(windows.kernel[axis]) if tap * dilation % stride == rest]
            taps.append(met[::-1])
            steps.append(dilation // math.gcd(stride, dilation))
            begins.append(first - (met[-1] * dilation - rest) // stride if met else 0)
        if not all(taps):
            parts.append(xp.zeros((x.shape[0], group * count, *rows), dtype=x.dtype))
            continue
        spans = [row + step * (len(met) - 1) for row, step, met in zip(rows, steps, taps, strict=True)]
        filters = w[(slice(None), slice(None), *(_slice(met) for met in taps))]
        parts.append(convolve(_cut(x, begins, spans, xp), filters, tuple(steps), group, xp))
    y = xp.reshape(xp.stack(parts, axis=0), (*windows.strides, x.shape[0], group * count, *rows))
    order = (rank, rank + 1, *itertools.chain.from_iterable((rank + 2 + axis, axis) for axis in range(rank)))
    whole = (row * stride for row, stride in zip(rows, windows.strides, strict=True))
    y = xp.reshape(xp.permute_dims(y, order), (x.shape[0], group * count, *whole))
    return y[(slice(None), slice(None), *map(slice, sizes))]


def _slice(numbers):
    """The slice that takes evenly spaced, falling ``numbers``."""
    step = numbers[1] - numbers[0] if len(numbers) > 1 else -1
    end = numbers[-1] + step
    return slice(numbers[0], end if end >= 0 else None, step)


def _cut(x, begins, spans, xp):
    """``spans`` elements of x along each spatial axis from ``begins`` on, zeros where x has none."""
    index, widths = [slice(None)] * 2, [(0, 0)] * 2
    for begin, span, size in zip(begins, spans, x.shape[2:], strict=True):
        start, stop = min(max(begin, 0), size), min(max(begin + span, 0), size)
        before = min(max(-begin, 0), span)
        index.append(slice(start, max(stop, start)))
        widths.append((before, span - before - max(stop - start, 0)))
    return xp.pad(x[tuple(index)], widths)


def _add_in_order(x, w, dilations, group, xp):
    """A convolution with stride 1 that adds one product after another: channels outside, taps inside, left to right."""
    rank, channels, count = len(dilations), w.shape[1], w.shape[0] // group
    kernel = w.shape[2:]
    sizes = [x.shape[2 + i] - dilations[i] * (kernel[i] - 1) for i in range(rank)]
    x = xp.reshape(x, (x.shape[0], group, 1, channels, *x.shape[2:]))
    w = xp.reshape(w, (group, count, channels, *kernel))
    y = xp.zeros((x.shape[0], group, count, *sizes), dtype=x.dtype)
    for channel, *tap in itertools.product(range(channels), *map(range, kernel)):
        starts = [at * dilation for at, dilation in zip(tap, dilations, strict=True)]
        index = (slice(start, start + size) for start, size in zip(starts, sizes, strict=True))
        weights = xp.reshape(w[(slice(None), slice(None), channel, *tap)], (group, count, *[1] * rank))
        y = y + x[(slice(None), slice(None), slice(None), channel, *index)] * weights
    return xp.reshape(y, (y.shape[0], group * count, *sizes))


@operator("DeformConv", since=19)
def deform_conv(
    x,
    w,
    offset,
    b=None,
    mask=None,
    /,
    *,
    dilations=None,
    group=1,
    kernel_shape=None,
    offset_group=1,
    pads=None,
    strides=None,
    xp,
):
    """A convolution whose taps are moved by ``offset`` and weighted by ``mask``, both per window.

    Between elements x is linear along each axis; beyond its elements it is 0.

    offset has the shape (N, offset_group * taps * axes, *positions), mask (N, offset_group * taps, *positions).
    """
    xp.check_filters(x, w, b, group, kernel_shape)
    windows = xp.sliding(x.shape[2:], w.shape[2:], strides, dilations, pads, "NOTSET")
    if offset_group < 1 or x.shape[1] % offset_group:
        raise ValueError(f"{x.shape[1]} channels do not divide into {offset_group} offset groups")
    rank, taps, positions = x.ndim - 2, math.prod(w.shape[2:]), windows.positions
    expected = (x.shape[0], offset_group * taps * rank, *positions)
    if offset.shape != expected:
        raise ValueError(f"offset must have the shape {expected}, not {offset.shape}")
    expected = (x.shape[0], offset_group * taps, *positions)
    if mask is not None and mask.shape != expected:
        raise ValueError(f"mask must have the shape {expected}, not {mask.shape}")
    lead = (x.shape[0], offset_group, taps)
    offset = xp.reshape(offset, (*lead, rank, math.prod(positions)))
    places = [offset[:, :, :, axis, :] + _undeformed(windows, axis, offset, xp) for axis in range(rank)]
    sampled = _sampled(x, places, offset_group, xp)
    if mask is not None:
        sampled = sampled * xp.reshape(mask, (x.shape[0], offset_group, 1, taps, math.prod(positions)))
    columns = xp.reshape(sampled, (x.shape[0], group, w.shape[1] * taps, math.prod(positions)))
    filters = xp.reshape(w, (1, group, w.shape[0] // group, w.shape[1] * taps))
    return _with_bias(xp.reshape(xp.matmul(filters, columns), (x.shape[0], w.shape[0], *positions)), b, xp)


def _undeformed(windows, axis, like, xp):
    """Where along ``axis`` each tap of each window lies before it is moved: shape (taps, positions)."""
    rank = len(windows.kernel)

    def along(count, step, start):
        shape = (*[1] * axis, count, *[1] * (rank - axis - 1))
        return xp.reshape(xp.asarray([start + step * i for i in range(count)], dtype=like.dtype), shape)

    taps = xp.broadcast_to(along(windows.kernel[axis], windows.dilations[axis], 0), windows.kernel)
    starts = along(windows.positions[axis], windows.strides[axis], -windows.pads[axis][0])
    starts = xp.broadcast_to(starts, windows.positions)
    return xp.reshape(taps, (-1, 1)) + xp.reshape(starts, (1, -1))


def _sampled(x, places, groups, xp):
    """x between its elements at ``places``, one array (N, groups, taps, positions) per axis.

    Returns:
        shape (N, groups, channels of a group, taps, positions).
    """
    batch, channels = x.shape[0], x.shape[1] // groups
    flat = xp.reshape(x, (batch, groups, channels, math.prod(x.shape[2:])))
    corners = []
    for place, size in zip(places, x.shape[2:], strict=True):
        inside = (place > -1) & (place < size)
        low = xp.floor(xp.where(inside, place, xp.constant(0, place)))
        part = xp.where(inside, place - low, xp.constant(0, place))
        low = xp.astype(low, xp.int64)
        here, there = inside & (low >= 0), inside & (low + 1 < size)
        first = xp.constant(0, low)
        lower = (xp.where(here, low, first), xp.constant(1, part) - part, here)
        upper = (xp.where(there, low + 1, first), part, there)
        corners.append((lower, upper))
    total = None
    for corner in itertools.product(*corners):
        index, weight, valid = corner[0]
        for size, (along, share, reached) in zip(x.shape[3:], corner[1:], strict=True):
            index, weight, valid = index * size + along, weight * share, valid & reached
        shape = (batch, groups, channels, math.prod(index.shape[2:]))
        index = xp.broadcast_to(xp.reshape(index, (batch, groups, 1, shape[-1])), shape)
        values = xp.reshape(xp.take_along_axis(flat, index, axis=-1), (*shape[:3], *places[0].shape[2:]))
        # Where there is no element another one was read, which may be infinite.
        term = values * xp.expand_dims(weight, axis=2)
        term = xp.where(xp.expand_dims(valid, axis=2), term, xp.constant(0, term))
        total = term if total is None else total + term
    return total


_STRING = 8


@operator("Col2Im", since=18, host=("image_shape", "block_shape"), widen=False)
def col2im(input, image_shape, block_shape, /, *, dilations=None, pads=None, strides=None, xp):
    """Blocks (N, C * block, L) put back where a window of ``block_shape`` took them, added up where they overlap."""
    sizes, block = integers(image_shape), integers(block_shape)
    windows = xp.sliding(sizes, block, strides, dilations, pads, "NOTSET")
    taps, count = math.prod(block), math.prod(windows.positions)
    if xp.onnx_code(input.dtype) == _STRING:
        raise TypeError("Col2Im adds up what overlaps, which has no meaning for strings")
    if input.ndim != 3 or input.shape[1] % taps or input.shape[2] != count:
        raise ValueError(f"input must have the shape (N, C * {taps}, {count}), not {input.shape}")
    lead = (input.shape[0], input.shape[1] // taps)
    columns = xp.reshape(input, (*lead, *block, *windows.positions))
    whole = [size + sum(pads) for size, pads in zip(sizes, windows.pads, strict=True)]
    parts = []
    for tap in itertools.product(*map(range, block)):
        part = columns[(slice(None), slice(None), *tap, ...)]
        starts = [at * dilation for at, dilation in zip(tap, windows.dilations, strict=True)]
        parts.append(_spread(part, starts, windows.strides, whole, xp))
    # One sum of all, because exact mode rounds it once.
    stacked = xp.stack(parts, axis=0)
    total = xp.any(stacked, axis=0) if stacked.dtype == xp.bool else xp.sum(stacked, axis=0, dtype=stacked.dtype)
    crop = (slice(before, before + size) for size, (before, _) in zip(sizes, windows.pads, strict=True))
    return total[(slice(None), slice(None), *crop)]


def _spread(x, starts, strides, sizes, xp):
    """x's elements ``strides`` apart from ``starts`` on, among zeros, in ``sizes``."""
    for axis, (start, stride, size) in enumerate(zip(starts, strides, sizes, strict=True), 2):
        count = x.shape[axis]
        x = xp.expand_dims(x, axis=axis + 1)
        x = xp.pad(x, [(0, stride - 1) if i == axis + 1 else (0, 0) for i in range(x.ndim)])
        x = xp.reshape(x, (*x.shape[:axis], count * stride, *x.shape[axis + 2 :]))
        x = x[(slice(None),) * axis + (slice(0, (count - 1) * stride + 1), ...)]
        after = size - start - x.shape[axis]
        x = xp.pad(x, [(start, after) if i == axis else (0, 0) for i in range(x.ndim)])
    return x


def _with_bias(y, b, xp):
    return y if b is None else y + xp.reshape(b, (1, b.shape[0], *[1] * (y.ndim - 2)))
