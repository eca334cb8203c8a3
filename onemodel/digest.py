"""One line that says whether two runs gave the same bits."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from onemodel import conversion, types
from onemodel.errors import InputError

EXACT_REVISION = 1
"""Raised by every change of any bit that exact mode returns."""

_NAN = {
    "float16": 0x7E00,
    "bfloat16": 0x7FC0,
    "float": 0x7FC00000,
    "double": 0x7FF8000000000000,
    "float8e4m3fn": 0x7F,
    "float8e4m3fnuz": 0x80,
    "float8e5m2": 0x7E,
    "float8e5m2fnuz": 0x80,
    "float8e8m0": 0xFF,
}
"""The bits that stand for every NaN: positive, quiet and without payload, where the type has more than one."""

_PARTS = {"complex64": "float", "complex128": "double"}


def digest_of(values: Mapping[str, Any]) -> str:
    """SHA-256 of named values in the byte format of ``Session.digest``, as 64 hexadecimal digits.

    Raises:
        InputError: a value is no array, list, dict or None.
    """
    state = _State()
    state.text("onemodel")
    state.number(EXACT_REVISION)
    state.number(len(values))
    if not all(isinstance(name, str) for name in values):
        raise InputError("a digest takes values by name, and names are texts")
    for name in sorted(values):
        state.text(name)
        state.value(f"the value {name!r}", values[name])
    return state.sha256.hexdigest()


class _State:
    """A hash that takes numbers, text and values."""

    def __init__(self) -> None:
        self.sha256 = hashlib.sha256()

    def number(self, value: int) -> None:
        self.sha256.update(value.to_bytes(8, "little"))

    def text(self, text: str) -> None:
        data = text.encode("utf-8", "surrogatepass")
        self.number(len(data))
        self.sha256.update(data)

    def value(self, what: str, value: Any) -> None:
        if value is None:
            self.text("none")
        elif isinstance(value, list):
            self.text("seq")
            self.number(len(value))
            for item in value:
                self.value(what, item)
        elif isinstance(value, dict):
            self.text("map")
            self.number(len(value))
            for key in sorted(value):
                self._array(np.asarray(key, object if isinstance(key, str) else np.int64))
                self.value(what, np.asarray(value[key]))
        else:
            self._array(conversion.feed(what, None, None, value))

    def _array(self, array: np.ndarray[Any, Any]) -> None:
        array = array.astype(array.dtype.newbyteorder("="), copy=False)
        value_type = types.of_dtype(array.dtype)
        self.text(value_type)
        self.number(array.ndim)
        for size in array.shape:
            self.number(size)
        kind = types.inner(value_type)
        if kind == "string":
            for item in array.ravel():
                if not isinstance(item, str):
                    raise InputError(f"a digest takes arrays of str; one holds a {type(item).__name__}")
                self.text(item)
        else:
            self.sha256.update(canonical(array, kind).data)


def canonical(array: np.ndarray[Any, Any], kind: str) -> np.ndarray[Any, Any]:
    """The elements' bytes as uint8, little-endian, in row-major order, with one NaN.

    Args:
        array: numbers or booleans.
        kind: ONNX's name of the element type.
    """
    if kind == "bool":
        array = np.asarray(array) != 0
    if kind in _PARTS:
        kind, array = _PARTS[kind], np.ascontiguousarray(array).reshape(-1).view(array.real.dtype)
    if "int" in kind:
        array = array.astype(np.dtype(f"{'u' if kind[0] == 'u' else 'i'}{array.dtype.itemsize}"), copy=False)
    bits = np.ascontiguousarray(array).reshape(-1).view(f"u{array.dtype.itemsize}")
    if kind in _NAN:
        with np.errstate(invalid="ignore"):
            wrong = np.isnan(array).reshape(-1)
        if wrong.any():
            bits = np.where(wrong, bits.dtype.type(_NAN[kind]), bits)
    return bits.astype(bits.dtype.newbyteorder("<"), copy=False).view(np.uint8)
