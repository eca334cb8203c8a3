"""Casts between all of ONNX's element types on NumPy, ml_dtypes' narrow types and strings included."""

from __future__ import annotations

import re
import string
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from onemodel.backends.base import numpy_dtype

Array = np.ndarray[Any, Any]


@cache
def _dtype(code: int) -> np.dtype[Any]:
    try:
        return numpy_dtype(code)
    except KeyError:
        raise TypeError(f"{code} is not an element type of ONNX; see TensorProto.DataType") from None


SMALL_INTEGERS = {
    np.dtype(ml_dtypes.int2): (-2, 1),
    np.dtype(ml_dtypes.int4): (-8, 7),
    np.dtype(ml_dtypes.uint2): (0, 3),
    np.dtype(ml_dtypes.uint4): (0, 15),
}
"""The integers that NumPy has only by ml_dtypes, with their limits."""
_GREATEST = {
    np.dtype(ml_dtypes.float8_e4m3fn): np.float32(448),
    np.dtype(ml_dtypes.float8_e4m3fnuz): np.float32(240),
    np.dtype(ml_dtypes.float8_e5m2): np.float32(57344),
    np.dtype(ml_dtypes.float8_e5m2fnuz): np.float32(57344),
}
"""The floats that saturate on request."""
_EXPONENTS = np.dtype(ml_dtypes.float8_e8m0fnu)
_FLOATS = frozenset(map(np.dtype, ("float16", "float32", "float64")))
_LIMITS = {np.dtype(code): (int(np.iinfo(code).min), int(np.iinfo(code).max)) for code in "bBhHiIqQlL"}
_LITERAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)
_SPECIAL = {"nan": np.nan, "inf": np.inf, "+inf": np.inf, "-inf": -np.inf}


def isdtype(dtype: Any, kind: Any, /) -> bool:
    """The standard's ``isdtype``; ml_dtypes' types, which NumPy's own refuses, have the kinds of their likes."""
    dtype = np.dtype(dtype)
    if dtype.type.__module__ != "ml_dtypes":
        return bool(np.isdtype(dtype, kind))
    if isinstance(kind, tuple):
        return any(isdtype(dtype, part) for part in kind)
    if "float" in dtype.name:
        return kind in ("real floating", "numeric", dtype)
    return kind in (f"{'un' * dtype.name.startswith('u')}signed integer", "integral", "numeric", dtype)


def convert(x: Array, code: int, /, *, saturate: bool | str = True, round_mode: str = "up") -> Array:
    """See ``extension.convert``; every type of ONNX, each conversion rounded once."""
    target = _dtype(code)
    if x.dtype == target:
        return x
    if x.dtype.kind == "O":
        return _parsed(x, target, code, saturate, round_mode)
    x = _native(x)
    if target.kind == "O":
        return _written(x)
    if target.kind == "b":
        return np.asarray(x != 0)
    if target in SMALL_INTEGERS:
        return _small_integers(x, target)
    if target.kind in "iu":
        return _integers(x, target) if x.dtype.kind == "f" else x.astype(target)
    if target in _FLOATS:
        return x.astype(target)
    if target == _EXPONENTS:
        return _exponents(x, bool(saturate), round_mode).astype(np.uint8).view(target)
    x = odd_float32(x)
    if saturate and target in _GREATEST:
        most = _GREATEST[target]
        x = np.clip(np.where(np.isinf(x), np.float32(np.nan), x) if saturate == "finite" else x, -most, most)
    return np.asarray(x.astype(target))


def convert_exact(x: Array, code: int, /, *, saturate: bool | str = True, round_mode: str = "up") -> Array:
    """``convert`` with one NaN: which payload survives a narrowing cast depends on the machine.

    Types of one size count as narrower than each other: float4, which has no NaN, makes its sign a number's.
    """
    target = _dtype(code)
    narrowing = target.kind in "fV" and target.itemsize <= x.dtype.itemsize
    if narrowing and x.dtype.kind in "fV" and x.dtype != target:
        x = _native(x)
        wrong = np.isnan(x)
        if wrong.any():
            x = np.where(wrong, x.dtype.type(np.nan), x)
    return convert(x, code, saturate=saturate, round_mode=round_mode)


def _native(x: Array) -> Array:
    """The same in a type of NumPy's own that holds all its values."""
    if x.dtype in SMALL_INTEGERS:
        return x.astype(np.int8)
    return x if x.dtype.kind in "biu" or x.dtype in _FLOATS else x.astype(np.float32)


def _integers(x: Array, target: np.dtype[Any]) -> Array:
    """Floats truncated toward zero; beyond the range its nearest end, NaN 0."""
    if x.dtype == np.float16:
        x = x.astype(np.float32)
    low, high = _LIMITS[target]
    least, above = x.dtype.type(low), x.dtype.type(high + 1)
    before = least if low else x.dtype.type(-0.5)
    if x.size == 0 or (x.min() >= before and x.max() < above):
        return x.astype(target)
    inside = (x >= least) & (x < above)
    result = np.where(inside, x, x.dtype.type(0)).astype(target)
    result = np.where(x >= above, target.type(high), result)
    return np.where(x < least, target.type(low), result)


def _small_integers(x: Array, target: np.dtype[Any]) -> Array:
    """Integers of 2 and 4 bits: truncated, then the higher bits dropped; infinities go to the ends, NaN to 0."""
    low, high = SMALL_INTEGERS[target]
    span = high - low + 1
    if x.dtype.kind == "f":
        infinite = np.isinf(x)
        ends = np.where(x > 0, high, low)
        whole = np.where(infinite, ends, np.nan_to_num(np.fmod(np.trunc(x), span))).astype(np.int8)
    else:
        whole = x.astype(np.uint8).view(np.int8)
    whole &= np.int8(span - 1)
    return np.where(whole <= high, whole, whole - np.int8(span)).astype(target)


def odd_float32(x: Any, library: Any = np) -> Any:
    """As float32 *rounded to odd*: where inexact, the neighbour whose last bit is 1.

    Rounding that once more to any narrower type gives what one rounding of x gives.

    Args:
        x: numbers.
        library: whose array it is, NumPy or CuPy.
    """
    if x.dtype.kind in "iu" and x.dtype.itemsize == 8:
        # Beyond 2^53 the lower 12 bits matter only in whether one of them is set.
        magnitude = library.where(x < 0, library.negative(x), x).view(np.uint64) if x.dtype.kind == "i" else x
        kept = magnitude >> np.uint64(12) | ((magnitude & np.uint64(0xFFF)) != 0).astype(np.uint64)
        large = magnitude >> np.uint64(53) != 0
        wide = library.where(large, kept.astype(np.float64) * 4096.0, magnitude.astype(np.float64))
        x = library.where(x < 0, -wide, wide) if x.dtype.kind == "i" else wide
    elif x.dtype.kind in "iu" and x.dtype.itemsize == 4:
        x = x.astype(np.float64)
    if x.dtype != np.float64:
        return x.astype(np.float32, copy=False)
    nearest = x.astype(np.float32)
    back = nearest.astype(np.float64)
    inexact = (back != x) & ~library.isnan(x)
    bits = library.asarray(nearest).view(np.int32) - (inexact & (library.abs(back) > library.abs(x)))
    return library.asarray(bits | inexact).view(np.float32)


def _exponents(x: Array, saturate: bool, round_mode: str) -> Array:
    """The codes of float8e8m0: 0 to 254 for 2^-127 to 2^127, 255 for NaN. The sign is ignored."""
    wide = np.abs(odd_float32(x).astype(np.float64) if x.dtype.kind in "iu" else x.astype(np.float64))
    fraction, exponent = np.frexp(wide)
    match round_mode:
        case "up":
            more = fraction > 0.5
        case "down":
            more = np.zeros(wide.shape, np.bool_)
        case "nearest":
            more = fraction >= 0.75
        case _:
            raise ValueError(f"round_mode is {round_mode!r}; it must be 'up', 'down' or 'nearest'")
    codes = np.where(wide > 0, exponent + 126 + more, 0)
    codes = np.where(np.isinf(wide), 254, np.clip(codes, 0, 254))
    outside = (wide > 2.0**127) | (wide < 2.0**-127)
    return np.where(np.isnan(wide) | (outside & (not saturate)), 255, codes)


# Text


def _written(x: Array) -> Array:
    """Numbers as text: plain notation, the fewest digits that read back as the same number, NaN, INF and -INF."""
    result = np.empty(x.shape, object)
    result.reshape(-1)[:] = [_text(value) for value in x.reshape(-1)]
    return result


def _text(value: Any) -> str:
    if value.dtype.kind != "f":
        return str(int(value))
    if np.isfinite(value):
        return np.format_float_positional(value, unique=True, trim="-")
    return "NaN" if np.isnan(value) else "INF" if value > 0 else "-INF"


def _parsed(x: Array, target: np.dtype[Any], code: int, saturate: bool | str, round_mode: str) -> Array:
    """Text as numbers: plain and scientific notation, INF and NaN in any case."""
    texts = [str(text).strip(string.whitespace) for text in x.reshape(-1)]
    if target.kind == "b":
        values = [_truth(text) for text in texts]
        return np.array(values, np.bool_).reshape(x.shape)
    if target.kind in "iu":
        low, high = _LIMITS[target]
        whole = [min(max(_whole(text), low), high) for text in texts]
        return np.array(whole, target).reshape(x.shape)
    if target in SMALL_INTEGERS:
        low, high = SMALL_INTEGERS[target]
        return np.array([_wrapped(text, low, high) for text in texts], np.int8).reshape(x.shape).astype(target)
    odd = target != np.float64
    numbers = np.array([_number(text, odd=odd) for text in texts], np.float64).reshape(x.shape)
    return numbers if not odd else convert(numbers, code, saturate=saturate, round_mode=round_mode)


def _number(text: str, *, odd: bool) -> float:
    """The float64 of a literal; with ``odd`` rounded to odd, so that it can be rounded once more."""
    special = _SPECIAL.get(text.lower())
    if special is not None:
        return special
    if not _LITERAL.fullmatch(text):
        raise ValueError(f"{text!r} is not a number")
    value = float(text)
    if not odd or value == 0 or np.isinf(value):
        return value
    rest = Fraction(Decimal(text)) - Fraction(value)
    if rest == 0 or np.float64(value).view(np.int64) & 1:
        return value
    return float(np.nextafter(value, np.inf if rest > 0 else -np.inf))


def _whole(text: str) -> int:
    """A literal without its fraction; infinities are beyond all types."""
    value = _number(text, odd=False)
    if value == 0 or np.isnan(value):
        return 0
    return int(Decimal(text)) if np.isfinite(value) else 2**64 if value > 0 else -(2**64)


def _wrapped(text: str, low: int, high: int) -> int:
    """A whole number without its higher bits; infinities go to the ends."""
    value = _number(text, odd=False)
    if np.isinf(value):
        return high if value > 0 else low
    return (_whole(text) - low) % (high - low + 1) + low


def _truth(text: str) -> bool:
    word = text.lower()
    return word == "true" or (word != "false" and _number(text, odd=False) != 0)
