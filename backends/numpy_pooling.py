"""Pooling on NumPy in fast mode: one axis after another, some channels at a time, so that all stays in cache."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from onemodel.backends.base import Kernel
from onemodel.backends.sliding import Sliding

Array = np.ndarray[Any, Any]

_BLOCK = 1 << 16
"""Input elements that are pooled at a time."""


def max_pool(
    x: Array,
    /,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Sequence[int] | None = None,
    kernel_shape: Sequence[int],
    pads: Sequence[int] | None = None,
    storage_order: int = 0,
    strides: Sequence[int] | None = None,
    wanted: Sequence[bool],
    xp: Any,
) -> Array | tuple[Array, Array]:
    """MaxPool, in place."""
    windows: Sliding = xp.sliding(x.shape[2:], kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    windows.counts()
    least = -math.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    if not any(wanted[1:]):
        return _over_axes(np.maximum, x, windows, least)
    index = np.arange(x.size, dtype=np.int64).reshape(x.shape)
    if storage_order:
        spatial = np.arange(math.prod(x.shape[2:]), dtype=np.int64).reshape(x.shape[:1:-1])
        planes = np.arange(math.prod(x.shape[:2]), dtype=np.int64).reshape(*x.shape[:2], *[1] * (x.ndim - 2))
        index = planes * spatial.size + spatial.T
    for axis in reversed(range(x.ndim - 2)):
        largest = np.full((*x.shape[: axis + 2], windows.positions[axis], *x.shape[axis + 3 :]), least, x.dtype)
        place = np.full(largest.shape, -1, np.int64)
        for here, there in _taps(windows, axis):
            value, best, at = x[there], largest[here], place[here]
            larger = (value > best) | (at < 0)
            if x.dtype.kind == "f":
                larger |= np.isnan(value) & ~np.isnan(best)
            np.copyto(best, value, where=larger)
            np.copyto(at, index[there], where=larger)
        x, index = largest, place
    return x, index


def average_pool(
    x: Array,
    /,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: Sequence[int] | None = None,
    kernel_shape: Sequence[int],
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    xp: Any,
) -> Array:
    """AveragePool, in place."""
    windows: Sliding = xp.sliding(x.shape[2:], kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    counts = windows.counts(bool(count_include_pad))
    divisor = np.ones((), x.dtype)
    for along in counts:
        divisor = divisor[..., np.newaxis] * np.array(along if len(set(along)) > 1 else along[:1], x.dtype)
    return _over_axes(np.add, x, windows, 0, divisor)


def _over_axes(function: np.ufunc, x: Array, windows: Sliding, neutral: float, divisor: Array | None = None) -> Array:
    """``function`` over each window, then divided.

    The first axis goes first: its taps are whole rows, and the others have less to do after it.
    """
    result = np.empty((*x.shape[:2], *windows.positions), x.dtype)
    planes = x.shape[0] * x.shape[1]
    source = x.reshape(planes, 1, *x.shape[2:])
    target = result.reshape(planes, 1, *windows.positions)
    count = max(_BLOCK // max(math.prod(x.shape[2:]), 1), 1)
    last = len(windows.positions) - 1
    for start in range(0, len(source), count):
        part, out = source[start : start + count], target[start : start + count]
        for axis, positions in enumerate(windows.positions):
            shape = (len(out), 1, *windows.positions[:axis], positions, *x.shape[axis + 3 :])
            here = out if axis == last else np.empty(shape, x.dtype)
            _over_taps(function, part, here, windows, axis, neutral)
            part = here
        if divisor is not None:
            out /= divisor
    return result


def _over_taps(function: np.ufunc, x: Array, out: Array, windows: Sliding, axis: int, neutral: float) -> None:
    """``function`` over the taps along one axis."""
    taps = list(_taps(windows, axis))
    positions = out.shape[axis + 2]
    whole = next((tap for tap in taps if tap[0][-1] == slice(0, positions)), None)
    if whole is None:
        out[...] = neutral
    else:
        taps.remove(whole)
        if taps:
            here, there = taps.pop(0)
            _begin(function, x, out, whole[1], here, there)
        else:
            out[...] = x[whole[1]]
    for here, there in taps:
        function(out[here], x[there], out=out[here])


def _begin(function: np.ufunc, x: Array, out: Array, whole: Any, here: Any, there: Any) -> None:
    """The first two taps at once, where the second has an element."""
    low, high = here[-1].start, here[-1].stop
    lead = here[:-1]
    base = x[whole]
    out[(*lead, slice(0, low))] = base[(*lead, slice(0, low))]
    function(base[here], x[there], out=out[here])
    out[(*lead, slice(high, None))] = base[(*lead, slice(high, None))]


def _taps(windows: Sliding, axis: int) -> Iterator[tuple[tuple[slice, ...], tuple[slice, ...]]]:
    """For each tap along ``axis`` the windows in which it lies on the input, and where."""
    size, stride, positions = windows.sizes[axis], windows.strides[axis], windows.positions[axis]
    lead = (slice(None),) * (axis + 2)
    for tap in range(windows.kernel[axis]):
        offset = tap * windows.dilations[axis] - windows.pads[axis][0]
        low = max(-(offset // stride), 0)
        high = min((size - 1 - offset) // stride + 1, positions)
        if low < high:
            start = offset + low * stride
            yield (*lead, slice(low, high)), (*lead, slice(start, start + (high - low - 1) * stride + 1, stride))


_FLOATS = ("float32", "float64")

KERNELS: dict[tuple[str, str], Kernel] = {
    ("", "MaxPool"): Kernel(max_pool, 1, (*_FLOATS, "int8", "uint8")),
    ("", "AveragePool"): Kernel(average_pool, 1, _FLOATS),
}
