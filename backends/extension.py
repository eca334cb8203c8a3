"""What operators need and the Array API standard lacks, written in the Array API.

Each function takes the namespace as ``xp``; a namespace binds it, so that operators call ``xp.pad(x, ...)``. A backend
may put a native function of the same signature in its place. The docstrings say why the standard does not suffice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from onemodel.backends.sliding import Sliding, slide

Array = Any

FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""Name to generic definition."""


def _extension(function: Callable[..., Any]) -> Callable[..., Any]:
    FUNCTIONS[function.__name__] = function
    return function


@_extension
def onnx_dtype(code: int, /, *, xp: Any) -> Any:
    """The namespace's dtype for an ONNX element type code (TensorProto.DataType).

    The standard knows nothing of ONNX's codes, and libraries carry different sets of types beyond the standard's.

    Raises:
        TypeError: the library has no such type.
    """
    from onnx import TensorProto

    name = {"FLOAT": "float32", "DOUBLE": "float64"}.get(TensorProto.DataType.Name(code))
    dtype = getattr(xp, name or TensorProto.DataType.Name(code).lower(), None)
    if dtype is None:
        raise TypeError(f"the {xp.label} namespace has no dtype for ONNX's {TensorProto.DataType.Name(code)}")
    return dtype


@_extension
def onnx_code(dtype: Any, /, *, xp: Any) -> int:
    """ONNX's element type code for a dtype of the namespace: the other way round from ``onnx_dtype``."""
    from onnx.helper import np_dtype_to_tensor_dtype

    return int(np_dtype_to_tensor_dtype(xp.host_dtype(dtype)))


@_extension
def constant(value: Any, like: Array, /, *, xp: Any) -> Array:
    """The Python number ``value`` as a 0-d array of ``like``'s dtype.

    The standard lets operators mix arrays and Python numbers, but leaves functions such as ``where`` and ``maximum``
    with two numbers, and numbers beyond the dtype's range, open.
    """
    return xp.asarray(value, dtype=like.dtype)


@_extension
def as_index(values: Any, /, *, xp: Any) -> Array:
    """Integers on the host (a NumPy array, a list) as an int64 array of the namespace.

    Host inputs arrive as NumPy arrays; this brings them where the data is.
    """
    return xp.asarray([int(v) for v in values], dtype=xp.int64)


@_extension
def pad(x: Array, widths: Sequence[tuple[int, int]], value: Any = 0, /, *, xp: Any) -> Array:
    """``x`` with ``widths[i] = (before, after)`` elements of ``value`` added along axis i; the standard has no ``pad``.

    Args:
        x: any shape and dtype.
        widths: one pair of non-negative integers per axis.
        value: a Python number, or a 0-d array of x's dtype.
    """
    for axis, (before, after) in enumerate(widths):
        parts = [
            xp.broadcast_to(xp.asarray(value, dtype=x.dtype), (*x.shape[:axis], count, *x.shape[axis + 1 :]))
            for count in (before, after)
        ]
        if before or after:
            x = xp.concat([parts[0], x, parts[1]], axis=axis)
    return x


@_extension
def extend(x: Array, sources: Sequence[tuple[Sequence[int], Sequence[int]]], /, *, xp: Any) -> Array:
    """``x`` with elements of its own added along each axis; the standard has no ``pad``.

    Args:
        x: any shape and dtype.
        sources: for each axis the places whose elements go before, and those whose elements go after.
    """
    for axis, (before, after) in enumerate(sources):
        if before or after:
            parts = [xp.take(x, xp.as_index(places), axis=axis) for places in (before, after)]
            x = xp.concat([parts[0], x, parts[1]], axis=axis)
    return x


@_extension
def sliding(
    sizes: Sequence[int],
    kernel_shape: Sequence[int],
    strides: Sequence[int] | None,
    dilations: Sequence[int] | None,
    pads: Sequence[int] | None,
    auto_pad: str,
    ceil_mode: int = 0,
    /,
    *,
    xp: Any,
) -> Sliding:
    """Where the windows of a kernel lie, from ONNX's attributes.

    It is here so that operators and native kernels share one definition.

    Args:
        sizes: of the spatial axes, without padding.
        kernel_shape: of the kernel, without dilation.
        strides, dilations, pads: ONNX's attributes; None is 1, 1 and 0.
        auto_pad: NOTSET takes ``pads``, VALID none; SAME_UPPER and SAME_LOWER pad to ceil(size / stride) windows.
        ceil_mode: 1 lets a last window hang over the padding at the end. VALID has its own formula, without it.

    Raises:
        ValueError: an attribute has the wrong length or a value out of range, or the kernel does not fit.
    """
    strides, dilations, pads = (None if v is None else tuple(v) for v in (strides, dilations, pads))
    return slide(tuple(sizes), tuple(kernel_shape), strides, dilations, pads, auto_pad, ceil_mode)


@_extension
def check_filters(
    x: Array, w: Array, b: Array | None, group: int, kernel_shape: Sequence[int] | None, /, *, xp: Any
) -> None:
    """Raise ValueError where ``x`` (N, C, *spatial), ``w`` (M, C / group, *kernel) and the bias ``b`` (M) do not fit.

    It is here so that operators and native kernels say the same.
    """
    if x.ndim < 3 or w.ndim != x.ndim:
        raise ValueError(f"X and W must have the same rank, from 3 on; their shapes are {x.shape} and {w.shape}")
    if kernel_shape is not None and tuple(kernel_shape) != w.shape[2:]:
        raise ValueError(f"kernel_shape {list(kernel_shape)} is not that of W, whose shape is {w.shape}")
    if group < 1 or x.shape[1] != w.shape[1] * group or w.shape[0] % group:
        raise ValueError(f"{x.shape[1]} channels do not fit W of shape {w.shape} and group {group}")
    if b is not None and b.shape != (w.shape[0],):
        raise ValueError(f"B must have the shape ({w.shape[0]},), one number per output channel, not {b.shape}")


@_extension
def windows(
    x: Array, kernel_shape: Sequence[int], strides: Sequence[int], dilations: Sequence[int], /, *, xp: Any
) -> Array:
    """All windows that a kernel sees on its way over the last axes of ``x``; the standard has no sliding window.

    Args:
        x: shape (..., *spatial), padded already.
        kernel_shape, strides, dilations: one integer per spatial axis.

    Returns:
        shape (..., *positions, *kernel_shape), positions[i] = (spatial[i] - dilated kernel) // stride + 1 or 0.
    """
    lead, axes = x.shape[: x.ndim - len(kernel_shape)], range(len(kernel_shape))
    reach = [dilations[i] * (kernel_shape[i] - 1) + 1 for i in axes]
    positions = [max((x.shape[len(lead) + i] - reach[i]) // strides[i] + 1, 0) for i in axes]
    taps = []
    for offset in product(*map(range, kernel_shape)):
        starts = [offset[i] * dilations[i] for i in axes]
        index = tuple(
            slice(start, start + max((count - 1) * step + 1, 0), step)
            for start, count, step in zip(starts, positions, strides, strict=True)
        )
        taps.append(
            x[(slice(None),) * len(lead) + index]
            if 0 not in positions
            else xp.zeros((*lead, *positions), dtype=x.dtype)
        )
    return xp.reshape(xp.stack(taps, axis=-1), (*lead, *positions, *kernel_shape))


@_extension
def conv(x: Array, w: Array, strides: Sequence[int], dilations: Sequence[int], groups: int = 1, /, *, xp: Any) -> Array:
    """Cross-correlation of ``x`` (N, C, *spatial), padded already, with the filters ``w`` (M, C / groups, *kernel).

    One function, because exact mode rounds each of its sums once; the standard has no convolution.

    Returns:
        shape (N, M, *positions), see ``windows``.
    """
    columns, filters, shape = _columns(x, w, strides, dilations, groups, xp)
    return xp.reshape(xp.matmul(filters, columns), shape)


def _columns(
    x: Array, w: Array, strides: Sequence[int], dilations: Sequence[int], groups: int, xp: Any
) -> tuple[Array, Array, tuple[int, ...]]:
    """The factors of the matrix product that a convolution is, and the shape of its result."""
    kernel_shape = w.shape[2:]
    patches = xp.windows(x, kernel_shape, strides, dilations)
    rank, batch, channels, count = len(kernel_shape), x.shape[0], x.shape[1] // groups, w.shape[0] // groups
    positions = patches.shape[2 : 2 + rank]
    size = channels * math.prod(kernel_shape)
    patches = xp.reshape(patches, (batch, groups, channels, *positions, *kernel_shape))
    order = (0, 1, 2, *range(3 + rank, 3 + 2 * rank), *range(3, 3 + rank))
    columns = xp.reshape(xp.permute_dims(patches, order), (batch, groups, size, math.prod(positions)))
    filters = xp.reshape(w, (1, groups, count, size))
    return columns, filters, (batch, groups * count, *positions)


@_extension
def rescale(x: Array, mean: Array, factor: Array, offset: Array, /, *, xp: Any) -> Array:
    """(x - mean) * factor + offset, broadcast to x; one function, so that a backend may pass over memory once."""
    return (x - mean) * factor + offset


@_extension
def legacy_uniform(seed: int, shape: Sequence[int], /, *, xp: Any) -> np.ndarray[Any, Any]:
    """Draws from [0, 1) by NumPy's legacy MT19937 generator, float64, on the host.

    ONNX's own test cases of Dropout in training expect these draws.
    """
    return np.random.RandomState(seed % 2**32).random_sample(tuple(shape))


@_extension
def random_bits(key: int, count: int, /, *, xp: Any) -> Array:
    """``count`` random uint32 numbers, all bits of them independent; the standard has no random numbers.

    The generator is Philox 4x32-10: a function of the key and of the position alone, in integer operations, so the same
    bits in every library (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, 2011).

    Args:
        key: 64 bits; another key gives an independent stream.
        count: how many numbers.
    """

    def word(value: int) -> Array:
        return xp.asarray(value, dtype=xp.uint64)

    half, low = word(32), word(0xFFFFFFFF)
    first, second = word(0xD2511F53), word(0xCD9E8D57)
    blocks = xp.arange(-(-count // 4), dtype=xp.uint64)
    a, b = xp.bitwise_and(blocks, low), xp.bitwise_right_shift(blocks, half)
    c = d = xp.zeros_like(blocks)
    keys = key % 2**32, key // 2**32 % 2**32
    for _ in range(10):
        x, y = a * first, c * second
        a = xp.bitwise_xor(xp.bitwise_xor(xp.bitwise_right_shift(y, half), b), word(keys[0]))
        c = xp.bitwise_xor(xp.bitwise_xor(xp.bitwise_right_shift(x, half), d), word(keys[1]))
        b, d = xp.bitwise_and(y, low), xp.bitwise_and(x, low)
        keys = (keys[0] + 0x9E3779B9) % 2**32, (keys[1] + 0xBB67AE85) % 2**32
    words = xp.reshape(xp.stack([a, b, c, d], axis=-1), (-1,))
    return xp.astype(words[:count], xp.uint32)


@_extension
def gather(x: Array, indices: Array, axis: int, /, *, xp: Any) -> Array:
    """Slices of ``x`` along ``axis`` at ``indices`` of any rank, which take that axis's place.

    The standard's ``take`` allows only 1-D indices, and leaves an index out of range undefined.

    Args:
        x: any dtype, at least 1-D.
        indices: integers in [-n, n) for n elements along ``axis``.

    Raises:
        IndexError: an index is out of range.
    """
    axis %= x.ndim
    flat = xp.reshape(xp.checked_indices(indices, x.shape[axis]), (-1,))
    return xp.reshape(xp.take(x, flat, axis=axis), (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))


@_extension
def checked_indices(indices: Array, size: int, /, *, xp: Any) -> Array:
    """``indices`` as int64 in [0, size), negative ones counted from the end.

    The standard leaves an index out of range undefined; libraries wrap, clamp or raise.

    Raises:
        IndexError: an index is not in [-size, size).
    """
    indices = xp.astype(indices, xp.int64)
    wrong = (indices < -size) | (indices >= size)
    if bool(xp.any(wrong)):
        first = int(xp.reshape(indices, (-1,))[int(xp.argmax(xp.astype(xp.reshape(wrong, (-1,)), xp.int8)))])
        raise IndexError(f"index {first} is out of range for {size} elements; indices go from {-size} to {size - 1}")
    return xp.where(indices < 0, indices + size, indices)


@_extension
def convert(x: Array, code: int, /, *, saturate: bool | str = True, round_mode: str = "up", xp: Any) -> Array:
    """``x`` in the type with ONNX's code ``code``, by the rules of the operator Cast.

    The standard leaves casts of floats that are out of an integer's range open. Floats are truncated toward zero and
    saturate, NaN gives 0; integers drop their higher bits; any number but 0 is true. This definition knows the
    standard's types; NumPy's knows all of ONNX's.

    Args:
        x: any shape and dtype.
        code: TensorProto.DataType of the result.
        saturate: to 8-bit floats: whether what is out of range becomes the greatest number. ``"finite"`` does that with
            finite numbers alone.
        round_mode: to float8e8m0: ``"up"``, ``"down"`` or ``"nearest"``.
    """
    dtype = xp.onnx_dtype(code)
    if x.dtype == dtype:
        return x
    if xp.isdtype(dtype, "bool"):
        return xp.astype(x, dtype) if xp.isdtype(x.dtype, "bool") else x != 0
    if not (xp.isdtype(x.dtype, "real floating") and xp.isdtype(dtype, "integral")):
        return xp.astype(x, dtype)
    limits = xp.iinfo(dtype)
    low, high = int(limits.min), int(limits.max)
    whole = xp.trunc(x)
    below, above = whole < float(low), whole >= float(high + 1)
    result = xp.astype(xp.where(below | above | xp.isnan(x), xp.constant(0, x), whole), dtype)
    result = xp.where(above, xp.asarray(high, dtype=dtype), result)
    return xp.where(below, xp.asarray(low, dtype=dtype), result)


@_extension
def scatter(x: Array, rows: Array, updates: Array, reduction: str, /, *, xp: Any) -> Array:
    """``x`` with ``updates[i]`` written to the row ``rows[i]``, or reduced with it; the standard cannot write so.

    Updates of one row follow each other in order: the last one wins, and sums and products are rounded after each.

    Args:
        x: shape (n, width).
        rows: shape (m,), integers in [0, n).
        updates: shape (m, width), x's dtype.
        reduction: ``"none"``, ``"add"``, ``"mul"``, ``"max"`` or ``"min"``. Extremes keep NaN, and order -0 below +0.
    """
    if reduction not in _REDUCTIONS:
        raise ValueError(f"reduction is {reduction!r}; it must be one of {', '.join(map(repr, _REDUCTIONS))}")
    if rows.shape[0] == 0 or x.shape[0] == 0 or x.shape[1] == 0:
        return x
    order = xp.argsort(rows, stable=True)
    places = xp.take(rows, order)
    targets = xp.arange(x.shape[0], dtype=rows.dtype)
    first = xp.searchsorted(places, targets, side="left")
    count = xp.searchsorted(places, targets, side="right") - first

    def update(position: Array) -> Array:
        inside = xp.where(position < rows.shape[0], position, xp.constant(0, position))
        return xp.take(updates, xp.take(order, inside), axis=0)

    if reduction == "none":
        return xp.where(xp.expand_dims(count > 0, axis=1), update(xp.where(count > 0, first + count - 1, first)), x)
    turn = 0
    while bool(xp.any(count > turn)):
        x = xp.where(xp.expand_dims(count > turn, axis=1), _REDUCTIONS[reduction](x, update(first + turn), xp), x)
        turn += 1
    return x


def _larger(a: Array, b: Array, xp: Any) -> Array:
    """The larger one; NaN before all, and +0 before -0."""
    first = a > b
    if xp.isdtype(a.dtype, "real floating"):
        first = first | xp.isnan(a) | ((a == b) & xp.signbit(b) & ~xp.signbit(a))
    return xp.where(first, a, b)


def _smaller(a: Array, b: Array, xp: Any) -> Array:
    """The smaller one; NaN before all, and -0 before +0."""
    first = a < b
    if xp.isdtype(a.dtype, "real floating"):
        first = first | xp.isnan(a) | ((a == b) & xp.signbit(a) & ~xp.signbit(b))
    return xp.where(first, a, b)


_REDUCTIONS: dict[str, Callable[[Array, Array, Any], Array]] = {
    "none": lambda a, b, xp: b,
    "add": lambda a, b, xp: a + b,
    "mul": lambda a, b, xp: a * b,
    "max": _larger,
    "min": _smaller,
}


@_extension
def trunc_divide(a: Array, b: Array, /, *, xp: Any) -> Array:
    """Quotient of two integer arrays, truncated toward zero and wrapped to the dtype.

    The standard's ``floor_divide`` rounds down, and leaves division by zero open.

    Raises:
        ZeroDivisionError: an element of ``b`` is 0.
    """
    xp.refuse_zero(b)
    if not xp.isdtype(b.dtype, "signed integer"):
        return xp.floor_divide(a, b)
    overflow = b == -1
    safe = xp.where(overflow, xp.constant(1, b), b)
    quotient = xp.floor_divide(a, safe)
    rest = a - quotient * safe
    quotient = xp.where((rest != 0) & ((a < 0) != (safe < 0)), quotient + xp.constant(1, a), quotient)
    return xp.where(overflow, -a, quotient)


@_extension
def refuse_zero(b: Array, /, *, xp: Any) -> None:
    """Raise ZeroDivisionError where an integer divisor is 0: the standard leaves that open, some libraries die of it."""
    if bool(xp.any(b == 0)):
        raise ZeroDivisionError("integer division by zero: a divisor holds a 0")


@_extension
def bitcast(x: Array, dtype: Any, /, *, xp: Any) -> Array:
    """The same bits read as ``dtype`` of the same width; the standard has no reinterpreting view.

    Generic by way of the host.
    """
    return xp.from_host(xp.to_host(x).view(xp.host_dtype(dtype)))


@_extension
def trunc_remainder(a: Array, b: Array, /, *, xp: Any) -> Array:
    """What the division of two float arrays, truncated toward zero, leaves over: C's fmod, exact, with a's sign.

    The standard's ``remainder`` rounds the quotient down.
    """
    return xp.copysign(xp.remainder(xp.abs(a), xp.abs(b)), a)


@_extension
def power(x: Array, y: Array, /, *, xp: Any) -> Array:
    """``x`` to the power ``y`` in x's dtype, whatever real dtype y has.

    The standard's ``pow`` leaves operands of different kinds, and negative exponents of integers, open.

    Args:
        x: floats or integers. Integers are exact and wrap; for a negative exponent 1 / x**n truncates to zero.
        y: a broadcastable shape. An integer x to a fractional power is computed in float64, truncated and saturated.

    Raises:
        ZeroDivisionError: an integer 0 meets a negative exponent.
    """
    if not xp.isdtype(x.dtype, "integral"):
        if x.dtype == y.dtype:
            return xp.pow(x, y)
        narrow = xp.isdtype(y.dtype, "integral") and xp.iinfo(y.dtype).bits <= 16
        common = x.dtype if narrow else xp.float64
        return xp.astype(xp.pow(xp.astype(x, common), xp.astype(y, common)), x.dtype)
    if not xp.isdtype(y.dtype, "unsigned integer"):
        xp.refuse_zero(xp.where(y < 0, x, xp.constant(1, x)))
    if xp.isdtype(y.dtype, "integral"):
        return _integer_power(x, y, xp)
    y = xp.astype(y, xp.float64)
    whole = (y == xp.trunc(y)) & (xp.abs(y) <= 2.0**53)
    exact = _integer_power(x, xp.astype(xp.where(whole, y, xp.constant(0, y)), xp.int64), xp)
    return xp.where(whole, exact, xp.convert(xp.pow(xp.astype(x, xp.float64), y), xp.onnx_code(x.dtype)))


def _integer_power(x: Array, y: Array, xp: Any) -> Array:
    """Modulo 2**64, then narrowed: every product of whole numbers is right in the bits that are kept."""
    base = xp.astype(x, xp.uint64)
    if xp.isdtype(y.dtype, "unsigned integer"):
        return xp.astype(xp.pow(base, xp.astype(y, xp.uint64)), x.dtype)
    negative = y < 0
    result = xp.astype(xp.pow(base, xp.astype(xp.where(negative, xp.constant(0, y), y), xp.uint64)), x.dtype)
    one, zero = xp.constant(1, x), xp.constant(0, x)
    odd = xp.bitwise_and(y, xp.constant(1, y)) == 1
    inverse = xp.where(x == 1, one, zero)
    if xp.isdtype(x.dtype, "signed integer"):
        inverse = xp.where(x == -1, xp.where(odd, -one, one), inverse)
    return xp.where(negative, inverse, result)


_ERF_NEAR = (
    1.1283791670955126,
    -0.3761263890318355,
    0.11283791670945252,
    -0.026866170643276073,
    0.005223977607422502,
    -0.0008548325989661416,
    0.00012055295319730584,
    -1.492474465356765e-05,
    1.6447517609499445e-06,
    -1.6209175731923008e-07,
    1.3722976770798816e-08,
    -7.801191888341914e-10,
)
_ERF_FAR = (
    0.13699945762506138,
    -0.2590680487601718,
    0.21871967891826444,
    -0.16425781669725584,
    0.10896317739905655,
    -0.0631078156451756,
    0.03129905649727299,
    -0.012843945821463029,
    0.004060264846088955,
    -0.000799128938689536,
    -2.1789584224479274e-05,
    7.893783741617954e-05,
    -2.239748416636892e-05,
    -1.1260751302139333e-06,
    4.2976663618776225e-06,
    6.867470823783915e-07,
)


@_extension
def erf(x: Array, /, *, xp: Any) -> Array:
    """The error function of float32 or float64; the standard has none.

    Computed in float64, to 3e-16 relative: below 1 as x p(x**2), above as 1 - exp(-x**2) q((x - 4) / (x + 4)), which is
    1 from 6 on. p and q are minimax polynomials (relative errors 7e-18 on [0, 1], 2e-17 on [1, 6]) that Remez's algorithm
    gave for erf(sqrt(t)) / sqrt(t) and exp(x**2) erfc(x) in 60 digits.
    """
    wide = xp.astype(x, xp.float64, copy=False)
    size = xp.abs(wide)
    size = xp.where(size > 6, xp.constant(6, size), size)
    square = size * size
    near = size * _polynomial(square, _ERF_NEAR)
    far = 1 - xp.exp(-square) * _polynomial((size - 4) / (size + 4), _ERF_FAR)
    return xp.astype(xp.copysign(xp.where(size < 1, near, far), wide), x.dtype, copy=False)


def _polynomial(x: Array, coefficients: Sequence[float]) -> Array:
    """The sum of ``coefficients[i] * x**i`` by Horner's rule."""
    result = x * coefficients[-1] + coefficients[-2]
    for coefficient in coefficients[-3::-1]:
        result = result * x + coefficient
    return result


@_extension
def softmax(x: Array, axis: int, /, *, xp: Any) -> Array:
    """exp(x) over its sum along ``axis``, the largest term taken out first so that nothing overflows.

    One function, because it is the heart of attention; the standard has none.
    """
    if 0 in x.shape:
        return x
    weights = xp.exp(x - xp.max(x, axis=axis, keepdims=True))
    return weights / xp.sum(weights, axis=axis, keepdims=True)


@_extension
def sigmoid(x: Array, /, *, xp: Any) -> Array:
    """1 / (1 + exp(-x)) of floats: one function, because exact mode rounds it once; the standard has none."""
    # From x = 80 on it rounds to 1; exp(-x) would overflow far below 0, where the result is small but not 0.
    power = xp.exp(xp.minimum(x, xp.constant(80, x)))
    return power / (power + xp.constant(1, x))


@_extension
def softplus(x: Array, /, *, xp: Any) -> Array:
    """log(1 + exp(x)) of floats: one function, because exact mode rounds it once; the standard has none."""
    return xp.maximum(x, xp.constant(0, x)) + xp.log1p(xp.exp(-xp.abs(x)))


@_extension
def contiguous(x: Array, /, *, xp: Any) -> Array:
    """``x`` itself; a backend may lay it out row by row in memory, which the standard leaves out of sight.

    Worth its copy where a transposed matrix is multiplied many times: BLAS is several times slower on it for few rows.
    """
    return x


@_extension
def weighted_taps(
    x: Array, indices: Sequence[Sequence[int | None]], weights: Sequence[Sequence[float]], axis: int, /, *, xp: Any
) -> Array:
    """Each element along ``axis`` a weighted sum of elements of ``x`` along it, tap after tap from the left.

    One function, because it fixes the order of operations, in both modes: each product is rounded, then each sum.

    Args:
        x: floats.
        indices: for each tap the positions that the elements read; None where an element has no such tap (but a first).
        weights: the same of numbers, which are rounded to x's dtype.
    """
    total = None
    for positions, factors in zip(indices, weights, strict=True):
        shape = (len(positions), *[1] * (x.ndim - axis - 1))
        index = xp.asarray([0 if i is None else i for i in positions], dtype=xp.int64)
        term = xp.take(x, index, axis=axis) * xp.reshape(xp.asarray(factors, dtype=x.dtype), shape)
        if None in positions:
            # Of all numbers only -0 leaves every sum as it is.
            there = xp.reshape(xp.asarray([i is not None for i in positions], dtype=xp.bool), shape)
            term = xp.where(there, term, xp.constant(-0.0, x))
        total = term if total is None else total + term
    return total


@_extension
def integer_matmul(
    a: Array, b: Array, a_zero: Array | None = None, b_zero: Array | None = None, /, *, xp: Any
) -> Array:
    """The matrix product of int8 or uint8 arrays less their zero points, int32, which wraps.

    One function, because libraries are slow on integers, and exact on them in floats where the sums fit.

    Args:
        a, b: as for ``matmul``.
        a_zero, b_zero: of the type of a and b; they broadcast against them.
    """
    a, b = xp.astype(a, xp.int32), xp.astype(b, xp.int32)
    a = a if a_zero is None else a - xp.astype(a_zero, xp.int32)
    return xp.matmul(a, b if b_zero is None else b - xp.astype(b_zero, xp.int32))


@_extension
def integer_conv(
    x: Array,
    w: Array,
    x_zero: Array | None,
    w_zero: Array | None,
    strides: Sequence[int],
    dilations: Sequence[int],
    groups: int,
    /,
    *,
    xp: Any,
) -> Array:
    """``conv`` of int8 or uint8 arrays less their zero points, int32, which wraps; see ``integer_matmul``.

    Args:
        x: padded already, with its zero point.
        w: the filters.
        x_zero, w_zero: of the type of x and w; 0-d, or for w one per filter.
    """
    columns, filters, shape = _columns(x, w, strides, dilations, groups, xp)
    if w_zero is not None and w_zero.ndim:
        w_zero = xp.reshape(w_zero, (1, groups, w.shape[0] // groups, 1))
    return xp.reshape(xp.integer_matmul(filters, columns, w_zero, x_zero), shape)


@_extension
def join_complex(x: Array, /, *, xp: Any) -> Array:
    """Real and imaginary parts, the last axis of ``x``, as complex numbers; the standard does not put them together."""
    dtype = xp.complex64 if x.dtype == xp.float32 else xp.complex128
    parts = xp.astype(x, dtype)
    return parts[..., 0] + parts[..., 1] * xp.asarray(1j, dtype=dtype)


@_extension
def split_complex(z: Array, /, *, xp: Any) -> Array:
    """The other way round: complex numbers as real and imaginary parts along a new last axis."""
    return xp.stack([xp.real(z), xp.imag(z)], axis=-1)


@_extension
def quantize(x: Array, scale: Array, zero: Array | None, code: int, /, *, xp: Any) -> Array:
    """x / scale rounded half to even, plus ``zero``, saturated to the 8 or 16-bit integer type of ONNX's ``code``.

    One function, because it is all that a quantized model does between two products: a backend can do it in one pass.

    Args:
        x, scale, zero: of one type of floats; scale and zero broadcast against x.
    """
    whole = xp.round(x / scale)
    return xp.convert(whole if zero is None else whole + zero, code)
