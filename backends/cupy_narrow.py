"""Element types that CuPy lacks: numbers of 8 bits and fewer, held as bytes on the device.

One rule: one element to a byte, with the bits that ml_dtypes keeps in memory, never packed. What moves elements moves
the bytes; conversions go by tables, which NumPy's conversion fills, so that both give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import cupy
import ml_dtypes
import numpy as np
from onnx import TensorProto

from onemodel.backends import numpy_cast
from onemodel.backends.base import Array, numpy_dtype
from onemodel.backends.cupy_run import per_device, row_major, shared

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = frozenset(
    dtype
    for code in TensorProto.DataType.values()
    if code not in (TensorProto.UNDEFINED, TensorProto.STRING)
    and (dtype := numpy_dtype(code)).itemsize == 1
    and dtype.kind not in "biu"
) | frozenset(map(np.dtype, (ml_dtypes.int2, ml_dtypes.int4, ml_dtypes.uint2, ml_dtypes.uint4)))
"""The element types that are held as bytes."""


class NarrowArray:
    """An array of an element type that CuPy lacks.

    Attributes:
        bits: uint8, one byte per element.
        dtype: ml_dtypes' dtype.
    """

    def __init__(self, bits: Array, dtype: np.dtype[Any]) -> None:
        self.bits = bits
        self.dtype = dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.bits.shape)

    @property
    def ndim(self) -> int:
        return int(self.bits.ndim)

    @property
    def size(self) -> int:
        return int(self.bits.size)

    @property
    def nbytes(self) -> int:
        return int(self.bits.nbytes)

    @property
    def data(self) -> Any:
        return self.bits.data

    def __getitem__(self, key: Any) -> NarrowArray:
        return NarrowArray(self.bits[key], self.dtype)

    def __len__(self) -> int:
        return len(self.bits)

    def copy(self) -> NarrowArray:
        return NarrowArray(self.bits.copy(), self.dtype)


def bits_of(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A NumPy array of a narrow type as bytes."""
    return np.ascontiguousarray(array).view(np.uint8).reshape(array.shape)


def moving(function: Callable[..., Any], on_host: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, which moves elements alone, on bytes where it gets narrow arrays.

    Texts are NumPy's wherever they are; for them it is ``on_host``, which is the same function of NumPy's namespace.
    """

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        dtype = _unusual_dtype(args)
        if dtype is None:
            return function(*args, **options)
        if dtype.kind == "O":
            return on_host(*args, **options)
        return _packed(function(*map(_unpacked, args), **options), dtype)

    return call


def _unusual_dtype(values: Any) -> Any:
    for value in values:
        if isinstance(value, NarrowArray) or (isinstance(value, np.ndarray) and value.dtype.kind == "O"):
            return value.dtype
        if isinstance(value, (list, tuple)) and (found := _unusual_dtype(value)) is not None:
            return found
    return None


def _unpacked(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(map(_unpacked, value))
    return value.bits if isinstance(value, NarrowArray) else value


def _packed(value: Any, dtype: np.dtype[Any]) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_packed(item, dtype) for item in value)
    return NarrowArray(value, dtype)


def filling(function: Callable[..., Any], value: int | None) -> Callable[..., Any]:
    """A function that makes arrays of one number, ``value`` or else its second argument, for narrow types too."""

    @wraps(function)
    def call(*args: Any, dtype: Any = None, **options: Any) -> Any:
        first, *rest = args
        kind = first.dtype if dtype is None and isinstance(first, NarrowArray) else dtype
        if kind is None or (np.dtype(kind) not in DTYPES and np.dtype(kind).kind != "O"):
            return function(*args, dtype=dtype, **options)
        number = rest[0] if value is None else value
        if np.dtype(kind).kind == "O":
            return np.full(first, number, object)
        filled = bits_of(np.asarray(number, np.dtype(kind))).item()
        shape = first.shape if isinstance(first, NarrowArray) else first
        return NarrowArray(cupy.full(shape, filled, dtype=np.uint8), np.dtype(kind))

    return call


# Conversions


@per_device
def _values(dtype: np.dtype[Any]) -> Array:
    """The number of each byte: int8 for integers, float32 for floats."""
    numbers = np.arange(256, dtype=np.uint8).view(dtype)
    return shared(numbers.astype(np.int8 if dtype in numpy_cast.SMALL_INTEGERS else np.float32))


def widened(x: NarrowArray) -> Array:
    """The same numbers as int8 or float32."""
    return cupy.take(_values(x.dtype), x.bits)


def narrowed(x: Array, code: int, saturate: bool | str, round_mode: str) -> NarrowArray:
    """Numbers of one of CuPy's types, but no half type, in a narrow type."""
    dtype = numpy_dtype(code)
    if dtype in numpy_cast.SMALL_INTEGERS:
        return NarrowArray(_small_integers(x, dtype), dtype)
    negative = cupy.signbit(x) if x.dtype.kind == "f" else x < 0
    keys = magnitude(x)
    edges, positive, below = _steps(x.dtype, code, saturate, round_mode)
    places = cupy.searchsorted(edges, keys, side="right")
    bits = cupy.where(negative, cupy.take(below, places), cupy.take(positive, places))
    return NarrowArray(bits, dtype)


def magnitude(x: Array) -> Array:
    """An unsigned integer that grows with |x|; NaN is beyond infinity."""
    if x.dtype.kind == "f":
        unsigned = np.dtype(f"u{x.dtype.itemsize}")
        return cupy.bitwise_and(row_major(x).view(unsigned), unsigned.type(np.iinfo(unsigned).max >> 1))
    if x.dtype.kind == "b":
        return x.astype(np.uint64)
    wide = x.astype(np.int64 if x.dtype.kind == "i" else np.uint64)
    if x.dtype.kind == "u":
        return wide
    return cupy.where(wide < 0, cupy.negative(wide), wide).view(np.uint64)


@per_device
def _steps(source: np.dtype[Any], code: int, saturate: bool | str, round_mode: str) -> tuple[Array, Array, Array]:
    """Where the code of the narrow type changes as |x| grows, and the codes between, for x from 0 on and for x below.

    Found by halving intervals of NumPy's conversion, which grows with |x|.
    """
    key = np.dtype(f"u{source.itemsize}") if source.kind == "f" else np.dtype(np.uint64)
    most = int(np.iinfo(key).max)
    if source.kind == "f":
        most >>= 1
    elif source.kind == "i":
        most = 1 << 63  # the magnitude of the least int64

    def codes(keys: np.ndarray[Any, Any], negative: bool) -> np.ndarray[Any, Any]:
        if source.kind == "f":
            numbers = keys.view(source)
            numbers = -numbers if negative else numbers
        elif source.kind == "i":
            # -2**63 has no counterpart; 2**63 - 1 stands for it where it is positive.
            least = np.minimum(keys, np.uint64(2**63 - 1)).view(np.int64)
            numbers = np.where(keys == 2**63, np.int64(-(2**63)), -least) if negative else least
        else:
            numbers = keys
        return bits_of(numpy_cast.convert(numbers, code, saturate=saturate, round_mode=round_mode))

    def both(keys: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The codes of both signs in one number."""
        return np.asarray(codes(keys, False).astype(np.uint16) << 8 | codes(keys, True))

    # A code can come back at the other end (NaN), so the search begins with many short intervals.
    powers = (1 << bit for bit in range(most.bit_length()) if 1 << bit <= most)
    marks = np.array(sorted({0, most, *powers, *_finite(source, key)}), key)
    low, high = marks[:-1], marks[1:]
    edges: list[int] = []
    while low.size:
        differ = both(low) != both(high)
        edges += high[differ & (high - low == 1)].tolist()
        low, high = low[differ & (high - low > 1)], high[differ & (high - low > 1)]
        middle = low + (high - low) // key.type(2)
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
    edges.sort()
    starts = np.array([0, *edges], key)
    return shared(np.array(edges, key)), shared(codes(starts, False)), shared(codes(starts, True))


def _finite(source: np.dtype[Any], key: np.dtype[Any]) -> set[int]:
    """The keys of infinity and of the least NaN, at which the codes jump."""
    if source.kind != "f":
        return set()
    infinity = int(np.array([np.inf], source).view(key)[0])
    return {infinity - 1, infinity, infinity + 1}


def _small_integers(x: Array, dtype: np.dtype[Any]) -> Array:
    """The bytes of integers of 2 and 4 bits; see ``numpy_cast``."""
    low, high = numpy_cast.SMALL_INTEGERS[dtype]
    span = high - low + 1
    if x.dtype.kind == "f":
        ends = cupy.where(x > 0, x.dtype.type(high), x.dtype.type(low))
        rest = cupy.fmod(cupy.trunc(x), x.dtype.type(span))
        rest = cupy.where(cupy.isfinite(x), rest, x.dtype.type(0))
        whole = cupy.where(cupy.isinf(x), ends, rest).astype(np.int8)
    else:
        whole = x.astype(np.int8)
    whole = cupy.bitwise_and(whole, np.int8(span - 1))
    whole = cupy.where(whole <= high, whole, whole - np.int8(span))
    return cupy.take(_patterns(dtype), whole.view(np.uint8))


@per_device
def _patterns(dtype: np.dtype[Any]) -> Array:
    """For each int8 the byte that ml_dtypes has for it."""
    numbers = np.arange(256, dtype=np.uint8).view(np.int8)
    low, high = numpy_cast.SMALL_INTEGERS[dtype]
    return shared(bits_of(np.clip(numbers, low, high).astype(dtype)))
