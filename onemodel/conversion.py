"""Between the caller's arrays and NumPy's: feeds are checked, outputs go back in the feeds' library."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import array_api_compat
import numpy as np

from onemodel import types
from onemodel.errors import InputError

Shape = Sequence[int | str | None] | None


def moved(value: Any, move: Callable[[Any], Any]) -> Any:
    """``value`` with ``move`` done to each of its arrays; maps and omitted optionals stay as they are."""
    if isinstance(value, list):
        return [moved(item, move) for item in value]
    return value if value is None or isinstance(value, dict) else move(value)


def _nowhere(given: Any) -> None:
    """A backend without a device has no arrays there."""


def feed(what: str, declared: str | None, shape: Shape, given: Any, adopt: Callable[[Any], Any] = _nowhere) -> Any:
    """One feed as NumPy arrays, or as arrays on the backend's device, checked against what the model declares.

    Args:
        what: the input's name, for errors.
        declared: its ONNX type, None where the model declares none.
        shape: its shape, None where the model declares none.
        given: what the caller feeds.
        adopt: see ``Backend.adopt``.

    Raises:
        InputError: it does not fit.
    """
    kind = (declared or "").partition("(")[0]
    if kind == "optional":
        return None if given is None else feed(what, types.inner(declared or ""), shape, given, adopt)
    if kind == "seq":
        if not isinstance(given, (list, tuple)):
            raise InputError(f"{what} expects {declared}, a list; got {what_is(given)}")
        item = types.inner(declared or "")
        return [feed(f"{what}[{i}]", item, None, value, adopt) for i, value in enumerate(given)]
    if kind == "map":
        if not isinstance(given, Mapping):
            raise InputError(f"{what} expects {declared}, a dict; got {what_is(given)}")
        return _mapping(what, declared or "", given)
    array = adopt(given)
    if array is None:
        array = _to_numpy(what, declared, given)
    if declared is not None:
        expected = types.dtype_of(declared)
        if expected.kind == "O" and isinstance(array, np.ndarray):
            array = _strings(what, array)
        elif array.dtype.newbyteorder("=") == expected:
            array = array.astype(expected, copy=False)
        else:
            remedy = "use astype"
            if expected.isbuiltin != 1 and array.dtype in (f"u{expected.itemsize}", f"V{expected.itemsize}"):
                remedy = "use view if these are its bits, or astype if they are numbers"  # a type that NumPy lacks
            raise InputError(
                f"{what} expects {declared}, dtype {expected.name}; got dtype {array.dtype.name}: {remedy}"
            )
    if shape is not None:
        if array.ndim != len(shape):
            raise InputError(
                f"{what} expects {len(shape)} dimensions {_shape(shape)}; got {array.ndim}, shape {_shape(array.shape)}"
            )
        for axis, (size, fixed) in enumerate(zip(array.shape, shape, strict=True)):
            if isinstance(fixed, int) and size != fixed:
                raise InputError(
                    f"{what} expects shape {_shape(shape)}; got {_shape(array.shape)}, which differs at axis {axis}: "
                    f"{size}, not {fixed}"
                )
    return array


def _to_numpy(what: str, declared: str | None, given: Any) -> np.ndarray[Any, Any]:
    if isinstance(given, np.ma.MaskedArray):
        raise InputError(f"{what} got a masked array, and ONNX knows no masks; fill it, or pass the mask as an input")
    if isinstance(given, np.ndarray):
        return np.asarray(given)
    if not hasattr(given, "__dlpack__") and not hasattr(given, "__array__"):
        raise InputError(
            f"{what} expects {declared or 'an array'}; got {what_is(given)}: pass an array (NumPy's, or one with "
            "DLPack or __array__)"
        )
    readers = [np.from_dlpack] * hasattr(given, "__dlpack__") + [np.asarray] * hasattr(given, "__array__")
    failures: list[Exception] = []
    for read in [np.asarray] if isinstance(given, np.generic) else readers:
        try:
            return read(given)
        except Exception as error:  # noqa: BLE001 - other libraries raise what they like
            failures.append(error)
    message = f"{what}: {what_is(given)} cannot be read on the host, so pass a NumPy array: {failures[-1]}"
    raise InputError(message) from failures[-1]


def _mapping(what: str, declared: str, given: Mapping[Any, Any]) -> dict[Any, Any]:
    """A map with keys and values of the declared types."""
    key_type, _, item_type = types.inner(declared).partition(",")
    dtype = types.dtype_of(item_type)
    key_class: Any = str if key_type == "string" else (int, np.integer)
    number: Any = (int, np.integer) if dtype.kind in "iu" else (int, float, np.number)
    item_class: Any = str if dtype.kind == "O" else number
    for key, item in given.items():
        if not isinstance(key, key_class) or not isinstance(item, item_class):
            raise InputError(f"{what} expects {declared}; it holds {key!r}: {item!r}")
    keys = given if key_type == "string" else map(int, given)
    return dict(zip(keys, given.values() if dtype.kind == "O" else map(dtype.type, given.values()), strict=True))


def _strings(what: str, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if array.dtype.kind == "S":
        try:
            return np.char.decode(array, "utf-8").astype(object)
        except UnicodeDecodeError as error:
            raise InputError(f"{what} expects tensor(string), whose bytes must be UTF-8: {error}") from error
    if array.dtype.kind == "U":
        return array.astype(object)
    if array.dtype.kind == "T":
        array = array.astype(object)
    if array.dtype != object:
        raise InputError(f"{what} expects tensor(string), an array of str; got dtype {array.dtype.name}")
    for item in array.reshape(-1):
        if not isinstance(item, str):
            raise InputError(f"{what} expects tensor(string), an array of str; it holds a {type(item).__name__}")
    return array


def _shape(shape: Sequence[int | str | None]) -> str:
    return "[" + ", ".join("?" if dim is None else str(dim) for dim in shape) + "]"


def what_is(value: Any) -> str:
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def library_of(values: Iterable[Any]) -> Any:
    """The Array API namespace of the feeds where they are not NumPy's; None where they are."""
    foreign = [
        value
        for value in values
        if not isinstance(value, (np.ndarray, np.generic)) and array_api_compat.is_array_api_obj(value)
    ]
    return array_api_compat.array_namespace(foreign[0]) if foreign else None


def to_library(array: Any, library: Any) -> Any:
    """A backend's array as one of ``library``, not copied where they can share it; itself without such a dtype."""
    try:
        return library.from_dlpack(np.ascontiguousarray(array) if isinstance(array, np.ndarray) else array)
    except (BufferError, TypeError, ValueError, RuntimeError):
        return array
