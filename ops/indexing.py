"""Reading parts of an array: slices, padding, gathering by index, selecting by condition."""

from __future__ import annotations

import math

from onemodel.ops.axes import integers, one_axis, one_number, some_axes
from onemodel.ops.registry import operator

# Slices


@operator("Slice", since=10, host=("starts", "ends", "axes", "steps"), widen=False)
def slice_(data, starts, ends, axes=None, steps=None, /, *, xp):
    """From ``starts`` up to ``ends`` by ``steps``, along ``axes``; bounds are clamped as the step's sign says."""
    starts, ends = integers(starts), integers(ends)
    steps = [1] * len(starts) if steps is None else integers(steps)
    axes = some_axes(range(len(starts)) if axes is None else integers(axes), data.ndim)
    if not len(starts) == len(ends) == len(steps) == len(axes):
        raise ValueError(f"starts {starts}, ends {ends}, steps {steps} and axes {axes} must be equally many")
    index = [slice(None)] * data.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        index[axis] = bounded(start, end, step, data.shape[axis])
    return data[tuple(index)]


@operator("Slice", since=1, widen=False)
def slice_by_attributes(data, /, *, starts, ends, axes=None, xp):
    """Before opset 10 the bounds are attributes, and every step is 1."""
    return slice_(data, starts, ends, axes, xp=xp)


def bounded(start, end, step, size):
    """A Python slice of ``size`` elements with ONNX's clamping."""
    if step == 0:
        raise ValueError("a step is 0")
    start, end = (bound + size if bound < 0 else bound for bound in (start, end))
    if step > 0:
        start, end = (min(max(bound, 0), size) for bound in (start, end))
        return slice(start, max(start, end), step)
    start, end = min(max(start, 0), size - 1), min(max(end, -1), size - 1)
    if start <= end:
        return slice(0, 0, 1)
    return slice(start, end if end >= 0 else None, step)


# Padding


@operator("Pad", since=11, host=("pads", "axes"), widen=False)
def pad(data, pads, constant_value=None, axes=None, /, *, mode="constant", xp):
    """``pads`` elements more, or fewer, before and after each of ``axes``: a constant, or the input's own."""
    axes = range(data.ndim) if axes is None else some_axes(integers(axes), data.ndim)
    amounts = integers(pads)
    if len(amounts) != 2 * len(axes):
        raise ValueError(f"pads {amounts} must be {2 * len(axes)} numbers: all that go before, then all that go after")
    widths = [(0, 0)] * data.ndim
    for i, axis in enumerate(axes):
        widths[axis] = amounts[i], amounts[i + len(axes)]
    if any(min(width) < 0 for width in widths):
        data, widths = _cropped(data, widths)
    if mode == "constant":
        return xp.pad(data, widths, blank(data, xp) if constant_value is None else xp.reshape(constant_value, ()))
    if mode not in _SOURCES:
        raise ValueError(f"mode is {mode!r}; it must be 'constant', 'reflect', 'edge' or 'wrap'")
    if any(n == 0 and max(width) > 0 for n, width in zip(data.shape, widths, strict=True)):
        raise ValueError(f"an axis of shape {data.shape} is empty; only the mode 'constant' can pad it")
    source = _SOURCES[mode]
    return xp.extend(
        data,
        [
            ([source(i, n) for i in range(-before, 0)], [source(i, n) for i in range(n, n + after)])
            for n, (before, after) in zip(data.shape, widths, strict=True)
        ],
    )


@operator("Pad", since=2, widen=False)
def pad_by_attributes(data, /, *, pads, mode="constant", value=0.0, xp):
    """Before opset 11 the amounts and the value are attributes."""
    return pad(data, pads, xp.constant(value, data), mode=mode, xp=xp)


def _cropped(x, widths):
    """What negative pads leave of x, and the pads that remain: one side may eat into what the other one adds."""
    index, rest = [], []
    for n, (before, after) in zip(x.shape, widths, strict=True):
        if before + n + after < 0:
            raise ValueError(f"pads {before} and {after} take more than the {n} elements of an axis")
        start, end = min(max(-before, 0), n), max(n - max(-after, 0), 0)
        index.append(slice(start, max(start, end)))
        rest.append((max(before + min(n + after, 0), 0), max(after + min(n + before, 0), 0)))
    return x[tuple(index)], rest


_SOURCES = {
    "edge": lambda i, n: min(max(i, 0), n - 1),
    "wrap": lambda i, n: i % n,
    "reflect": lambda i, n: n - 1 - abs(n - 1 - i % (2 * n - 2)) if n > 1 else 0,
}
"""For each mode, which of n elements stands at place i, which may lie outside."""


def blank(x, xp):
    """What stands where nothing is: 0, False or the empty string, a 0-d array of x's dtype."""
    return xp.asarray("" if x.dtype == object else 0, dtype=x.dtype)


@operator("CenterCropPad", since=18, host=("shape",), widen=False)
def center_crop_pad(input_data, shape, /, *, axes=None, xp):
    """Cropped or padded with zeros to ``shape`` along ``axes``, the centre kept; an odd rest goes to the right."""
    axes = range(input_data.ndim) if axes is None else some_axes(axes, input_data.ndim)
    sizes = integers(shape)
    if len(sizes) != len(axes) or min(sizes, default=0) < 0:
        raise ValueError(f"shape {sizes} must be {len(axes)} sizes, one per axis")
    index, widths = [slice(None)] * input_data.ndim, [(0, 0)] * input_data.ndim
    for axis, size in zip(axes, sizes, strict=True):
        old = input_data.shape[axis]
        start = max(old - size, 0) // 2
        index[axis] = slice(start, start + min(old, size))
        more = max(size - old, 0)
        widths[axis] = more // 2, more - more // 2
    return xp.pad(input_data[tuple(index)], widths, blank(input_data, xp))


# Gathering


@operator("Gather", since=1, widen=False)
def gather(data, indices, /, *, axis=0, xp):
    """The slices of ``data`` along ``axis`` at ``indices``, whose axes take the place of ``axis``."""
    return xp.gather(data, indices, one_axis(axis, data.ndim))


@operator("GatherElements", since=11, widen=False)
def gather_elements(data, indices, /, *, axis=0, xp):
    """For each index the element of ``data`` at the index's own place, but for ``axis``, where the index says."""
    axis = one_axis(axis, data.ndim)
    check_elements(data, indices, axis)
    places = xp.checked_indices(indices, data.shape[axis])
    data = data[tuple(slice(None) if i == axis else slice(n) for i, n in enumerate(indices.shape))]
    return xp.take_along_axis(data, places, axis=axis)


def check_elements(data, indices, axis):
    """Raise unless ``indices`` fits into ``data`` in every axis but ``axis``."""
    if indices.ndim != data.ndim or any(n > data.shape[i] for i, n in enumerate(indices.shape) if i != axis):
        raise ValueError(f"indices {indices.shape} do not fit into data {data.shape} in each axis but {axis}")


@operator("GatherND", since=11, widen=False)
def gather_nd(data, indices, /, *, batch_dims=0, xp):
    """The slices of ``data`` at the index tuples in the last axis of ``indices``; ``batch_dims`` axes are common."""
    if not 0 <= batch_dims < min(data.ndim, indices.ndim) or data.shape[:batch_dims] != indices.shape[:batch_dims]:
        raise ValueError(f"batch_dims {batch_dims} does not fit data {data.shape} and indices {indices.shape}")
    batch, width = data.shape[:batch_dims], indices.shape[-1]
    if not 1 <= width <= data.ndim - batch_dims:
        raise ValueError(f"index tuples of {width} do not fit data of shape {data.shape} after {batch_dims} batch axes")
    sizes, rest = data.shape[batch_dims : batch_dims + width], data.shape[batch_dims + width :]
    rows = rows_of(indices, sizes, xp)
    if batch:
        starts = xp.arange(math.prod(batch), dtype=xp.int64) * math.prod(sizes)
        rows = rows + xp.reshape(starts, (*batch, *[1] * (rows.ndim - batch_dims)))
    table = xp.reshape(data, (math.prod(batch) * math.prod(sizes), math.prod(rest)))
    return xp.reshape(xp.take(table, xp.reshape(rows, (-1,)), axis=0), (*rows.shape, *rest))


def rows_of(indices, sizes, xp):
    """For index tuples in the last axis, their place where the axes of ``sizes`` are flattened into one."""
    rows = xp.zeros(indices.shape[:-1], dtype=xp.int64)
    for i, size in enumerate(sizes):
        rows = rows * size + xp.checked_indices(indices[..., i], size)
    return rows


@operator("ReverseSequence", since=10, host=("sequence_lens",), widen=False)
def reverse_sequence(input, sequence_lens, /, *, batch_axis=1, time_axis=0, xp):
    """The first ``sequence_lens[i]`` steps of each sequence in reverse order, the others as they are."""
    if (batch_axis, time_axis) not in ((0, 1), (1, 0)) or input.ndim < 2:
        raise ValueError(f"batch_axis {batch_axis} and time_axis {time_axis} must be 0 and 1, or 1 and 0")
    batch, steps = input.shape[batch_axis], input.shape[time_axis]
    lengths = integers(sequence_lens)
    if len(lengths) != batch or not all(0 <= n <= steps for n in lengths):
        raise ValueError(f"sequence_lens {lengths} must be {batch} lengths from 0 to {steps}")
    lens = xp.reshape(xp.as_index(lengths), (batch, 1))
    time = xp.expand_dims(xp.arange(steps, dtype=xp.int64), axis=0)
    rows = xp.where(time < lens, lens - 1 - time, time)
    rows = rows + xp.reshape(xp.arange(batch, dtype=xp.int64) * steps, (batch, 1))
    x = input if batch_axis == 0 else xp.moveaxis(input, 1, 0)
    table = xp.reshape(x, (batch * steps, math.prod(x.shape[2:])))
    x = xp.reshape(xp.take(table, xp.reshape(rows, (-1,)), axis=0), x.shape)
    return x if batch_axis == 0 else xp.moveaxis(x, 0, 1)


# Selecting


@operator("NonZero", since=9, widen=False)
def non_zero(x, /, *, xp):
    """Where x is not zero: one row of indices per axis, in row-major order; a scalar has no axes, and so no rows."""
    if x.ndim == 0:
        return xp.zeros((0, xp.nonzero(xp.reshape(x, (1,)))[0].shape[0]), dtype=xp.int64)
    return xp.astype(xp.stack(xp.nonzero(x), axis=0), xp.int64)


@operator("Compress", since=9, widen=False)
def compress(input, condition, /, *, axis=None, xp):
    """The slices along ``axis``, or the elements, whose condition is true; a short condition leaves the rest out."""
    if axis is None:
        input, axis = xp.reshape(input, (-1,)), 0
    axis = one_axis(axis, input.ndim)
    if condition.ndim != 1:
        raise ValueError(f"condition of shape {condition.shape} must have one axis")
    (chosen,) = xp.nonzero(condition)
    return xp.gather(input, chosen, axis)


@operator("Trilu", since=14, host=("k",), widen=False)
def trilu(input, k=None, /, *, upper=1, xp):
    """The upper or lower triangle of each matrix in the last two axes, from the diagonal ``k`` on; zeros elsewhere."""
    if input.ndim < 2:
        raise ValueError(f"the input of shape {input.shape} must have two axes at least")
    diagonal = 0 if k is None else one_number(k, "k", int)
    rows, columns = input.shape[-2:]
    above = xp.expand_dims(xp.arange(columns), axis=0) - xp.expand_dims(xp.arange(rows), axis=1)
    return xp.where(above >= diagonal if upper else above <= diagonal, input, blank(input, xp))
