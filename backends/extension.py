"""What operators need and the Array API standard lacks, written in the Array API.

Each function takes the namespace as ``xp``; a namespace binds it, so that operators call ``xp.pad(x, ...)``. A backend
may put a native function of the same signature in its place. The docstrings say why the standard does not suffice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from onemodel.backends import extension_activation, extension_fourier, extension_math, extension_windows
from onemodel.backends.extension_table import FUNCTIONS, Array, extension

__all__ = ["FUNCTIONS", "extension_activation", "extension_fourier", "extension_math", "extension_windows"]


@extension
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


@extension
def onnx_code(dtype: Any, /, *, xp: Any) -> int:
    """ONNX's element type code for a dtype of the namespace: the other way round from ``onnx_dtype``."""
    from onnx.helper import np_dtype_to_tensor_dtype

    return int(np_dtype_to_tensor_dtype(xp.host_dtype(dtype)))


@extension
def constant(value: Any, like: Array, /, *, xp: Any) -> Array:
    """The Python number ``value`` as a 0-d array of ``like``'s dtype.

    The standard lets operators mix arrays and Python numbers, but leaves functions such as ``where`` and ``maximum``
    with two numbers, and numbers beyond the dtype's range, open.
    """
    return xp.asarray(value, dtype=like.dtype)


@extension
def as_index(values: Any, /, *, xp: Any) -> Array:
    """Integers on the host (a NumPy array, a list) as an int64 array of the namespace.

    Host inputs arrive as NumPy arrays; this brings them where the data is.
    """
    return xp.asarray([int(v) for v in values], dtype=xp.int64)


@extension
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


@extension
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


@extension
def legacy_uniform(seed: int, shape: Sequence[int], /, *, xp: Any) -> np.ndarray[Any, Any]:
    """Draws from [0, 1) by NumPy's legacy MT19937 generator, float64, on the host.

    ONNX's own test cases of Dropout in training expect these draws.
    """
    return np.random.RandomState(seed % 2**32).random_sample(tuple(shape))


@extension
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


@extension
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


@extension
def checked_indices(indices: Array, size: int, /, *, xp: Any) -> Array:
    """``indices`` as int64 in [0, size), negative ones counted from the end.

    The standard leaves an index out of range undefined; libraries wrap, clamp or raise.

    Raises:
        IndexError: an index is not in [-size, size).
    """
    indices = xp.astype(indices, xp.int64)
    text = f"index {{}} is out of range for {size} elements; indices go from {-size} to {size - 1}"
    xp.refuse((indices < -size) | (indices >= size), IndexError, text, indices)
    return xp.where(indices < 0, indices + size, indices)


@extension
def refuse(wrong: Array, error: type[Exception], text: str, values: Array | None = None, /, *, xp: Any) -> None:
    """Raise ``error`` where an element of ``wrong`` is true.

    One function, so that a backend whose arrays lie on a device need not wait for it: it may raise later, once the
    device is waited for anyway. What is computed from wrong values until then must be harmless.

    Args:
        wrong: booleans.
        error: class of the error.
        text: its text; ``{}`` stands for the first wrong one of ``values``.
        values: an array of wrong's shape.
    """
    if xp.item(xp.any(wrong)):
        if values is not None:
            first = xp.argmax(xp.astype(xp.reshape(wrong, (-1,)), xp.int8))
            text = text.format(xp.item(xp.take(xp.reshape(values, (-1,)), xp.reshape(first, (1,)))))
        raise error(text)


@extension
def item(x: Array, /, *, xp: Any) -> Any:
    """The only element of ``x`` as a Python number.

    The standard has ``bool()``, ``int()`` and ``float()`` for it. One function, because on a device it waits: a backend
    can tell where.
    """
    x = x[(0,) * x.ndim]
    return bool(x) if xp.isdtype(x.dtype, "bool") else int(x) if xp.isdtype(x.dtype, "integral") else float(x)


@extension
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


@extension
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
    while xp.item(xp.any(count > turn)):
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


@extension
def bitcast(x: Array, dtype: Any, /, *, xp: Any) -> Array:
    """The same bits read as ``dtype`` of the same width; the standard has no reinterpreting view.

    Generic by way of the host.
    """
    return xp.from_host(xp.to_host(x).view(xp.host_dtype(dtype)))


@extension
def one_nan(x: Array, /, *, xp: Any) -> Array:
    """``x`` itself; exact mode gives all NaN the same bits, which arithmetic leaves to the machine.

    For where bits are looked at: before they are read as another type, and at the outputs of a model.
    """
    return x


@extension
def as_factor(w: Array, side: str, groups: int = 1, /, *, xp: Any) -> Any:
    """``w``, or what stands in for it in several products: exact mode works out once what it needs of a factor.

    Args:
        w: at least two axes.
        side: ``"right"`` or ``"left"`` of ``matmul``; filters of ``conv`` are ``"left"``.
        groups: of the convolution.
    """
    return w


@extension
def contiguous(x: Array, /, *, xp: Any) -> Array:
    """``x`` itself; a backend may lay it out row by row in memory, which the standard leaves out of sight.

    Worth its copy where a transposed matrix is multiplied many times: BLAS is several times slower on it for few rows.
    """
    return x


@extension
def join_complex(x: Array, /, *, xp: Any) -> Array:
    """Real and imaginary parts, the last axis of ``x``, as complex numbers; the standard does not put them together.

    Generic by way of the host: real + 1j * imaginary loses infinities and the sign of zero.
    """
    dtype = xp.host_dtype(xp.complex64 if x.dtype == xp.float32 else xp.complex128)
    return xp.from_host(xp.to_host(x).copy().view(dtype)[..., 0])


@extension
def split_complex(z: Array, /, *, xp: Any) -> Array:
    """The other way round: complex numbers as real and imaginary parts along a new last axis."""
    return xp.stack([xp.real(z), xp.imag(z)], axis=-1)
