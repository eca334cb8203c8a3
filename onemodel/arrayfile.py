"""Values of ONNX in ``.npy`` and ``.npz`` files, without loss and without pickle.

NumPy's file format knows neither ONNX's small element types nor strings of any length. In an ``.npz`` file

- a bfloat16, float8, float6 or float4 array ``y`` is kept under the key ``y:bfloat16`` (with ONNX's name of the type)
  as its bits, in unsigned integers of the same width; an int4, uint4, int2 or uint2 array under ``y:int4`` as its
  numbers, in (u)int8;
- strings are NumPy's fixed-width text;
- a sequence is ``y[0]``, ``y[1]`` and so on, and a map is ``y.keys`` and ``y.values``. An empty optional and an empty
  sequence leave no key.
"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from onemodel import types
from onemodel.errors import InputError

Array = np.ndarray[Any, np.dtype[Any]]

_SMALL = """
    bfloat16 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz float8e8m0 float6e2m3 float6e3m2 float4e2m1
    int4 uint4 int2 uint2
""".split()
"""ONNX's element types that NumPy's file format does not know."""

_STARTS = (b"\x93NUMPY", b"PK\x03\x04", b"PK\x05\x06")
"""How .npy files start, and .npz files: archives, and empty ones."""

_NOTHING = object()
"""What a look-up gives where a file has no such value; None is a value."""


def write_npz(path: Path, values: Mapping[str, Any]) -> None:
    """Write values by name into an ``.npz`` file; the file is there whole or not at all.

    Raises:
        InputError: two values come to the same key, or a string ends with NUL, which NumPy's text cannot keep.
        OSError: the file cannot be written.
    """
    arrays: dict[str, Array] = {}
    for name, value in values.items():
        for key, array in _parts(name, value):
            if key in arrays:
                raise InputError(f"two of the values to write come to the key {key!r} in {path}")
            arrays[key] = array
    try:
        _write_zip(path, arrays)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def _write_zip(path: Path, arrays: Mapping[str, Array]) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        # numpy.savez takes the names as keywords, where "file" and "allow_pickle" are taken.
        with temporary.open("xb") as file, zipfile.ZipFile(file, "w", allowZip64=True) as archive:
            for key, array in arrays.items():
                with archive.open(f"{key}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _parts(name: str, value: Any) -> Iterator[tuple[str, Array]]:
    """The keys and arrays that keep a value."""
    if value is None:
        return
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _parts(f"{name}[{index}]", item)
        return
    if isinstance(value, dict):
        text = any(isinstance(key, str) for key in value)
        yield from _parts(f"{name}.keys", np.asarray(list(value), object if text else np.int64))
        yield from _parts(f"{name}.values", np.asarray(list(value.values())))
        return
    array = np.asarray(value)
    kind = types.inner(types.of_dtype(array.dtype))
    if kind in _SMALL:
        yield f"{name}:{kind}", array.astype(_storage(kind)) if "int" in kind else array.view(_storage(kind))
    elif kind == "string":
        texts = [str(item) for item in array.ravel()]
        if any(text.endswith("\0") for text in texts):
            raise InputError(f"{name!r} has a string that ends with NUL, which an .npz file cannot keep")
        yield name, np.array(texts, np.str_).reshape(array.shape)
    else:
        yield name, array


def _storage(kind: str) -> np.dtype[Any]:
    """The integers that keep a small type's numbers (int4 ...) or bits (float8 ...)."""
    return np.dtype(f"{'i' if kind.startswith('int') else 'u'}{_dtype(kind).itemsize}")


def _dtype(kind: str) -> np.dtype[Any]:
    return types.dtype_of(f"tensor({kind})")


def read(path: Path, name: str, value_type: str | None = None, key: str | None = None) -> Any:
    """Read the value of one input from an ``.npy`` or ``.npz`` file; the content tells which of the two it is.

    Args:
        path: the file.
        name: the input's name, which is its key in an ``.npz`` file unless ``key`` says another. A file with one array
            alone needs no key.
        value_type: the ONNX type that the model wants, which tells what the bits of a small float are.
        key: the key to read.

    Raises:
        InputError: the file is neither, has no such key, or keeps something else than the type says.
        OSError: the file cannot be read.
    """
    content = _load(path)
    if not isinstance(content, dict):
        if key is not None:
            raise InputError(f"{path} is an .npy file, which has no keys; leave out {':' + key!r}")
        return restore(content, _element(value_type), str(path))
    found = _assemble(content, name if key is None else key, value_type, path)
    if found is _NOTHING and key is None and len(content) == 1:
        found = _assemble(content, next(iter(content)), value_type, path)
    if found is _NOTHING:
        keys = ", ".join(map(repr, content)) or "none"
        raise InputError(f"{path} has no array {name if key is None else key!r}; it has {keys}")
    return found


def read_all(path: Path, inputs: Mapping[str, str | None]) -> dict[str, Any]:
    """Read from an ``.npz`` file every value that is named like an input.

    Args:
        path: the file.
        inputs: the inputs' names and ONNX types.

    Raises:
        InputError: it is no ``.npz`` file, has nothing for any input, or keeps something else than a type says.
        OSError: the file cannot be read.
    """
    content = _load(path)
    if not isinstance(content, dict):
        raise InputError(f"{path} is an .npy file, which has no names; say for which input it is: NAME={path}")
    found = {name: _assemble(content, name, value_type, path) for name, value_type in inputs.items()}
    values = {name: value for name, value in found.items() if value is not _NOTHING}
    if not values:
        raise InputError(
            f"{path} has {', '.join(map(repr, content)) or 'no array'}, but nothing for the inputs "
            f"{', '.join(map(repr, inputs))}; say which array is for which input: NAME={path}:KEY"
        )
    return values


def _element(value_type: str | None) -> str | None:
    """``float`` for ``tensor(float)``; None for what is no tensor or not known."""
    if value_type is not None and value_type.startswith("optional("):
        value_type = types.inner(value_type)
    return types.inner(value_type) if value_type is not None and types.is_tensor(value_type) else None


def _assemble(content: Mapping[str, Array], name: str, value_type: str | None, path: Path) -> Any:
    """The value kept under ``name``: an array, a list or a dict."""
    if name in content:
        kind = name.rpartition(":")[2]
        return restore(content[name], kind if kind in _SMALL else _element(value_type), f"{path}:{name}")
    for kind in _SMALL:
        if f"{name}:{kind}" in content:
            return restore(content[f"{name}:{kind}"], kind, f"{path}:{name}:{kind}")
    if f"{name}.keys" in content and f"{name}.values" in content:
        keys, values = (
            restore(content[f"{name}.{part}"], None, f"{path}:{name}.{part}") for part in ("keys", "values")
        )
        if keys.ndim != 1 or keys.shape[:1] != values.shape[:1]:
            raise InputError(f"{path} has {keys.shape} keys and {values.shape} values for the map {name!r}")
        return dict(zip(keys.tolist(), values, strict=True))
    items: list[Any] = []
    if not any(key.startswith(f"{name}[0]") for key in content):
        return _NOTHING
    inner = types.inner(value_type) if value_type is not None and value_type.startswith("seq(") else None
    while (item := _assemble(content, f"{name}[{len(items)}]", inner, path)) is not _NOTHING:
        items.append(item)
    return items or _NOTHING


def restore(array: Array, kind: str | None, where: str) -> Array:
    """What the file keeps as an array of the element type ``kind``; what ``kind`` does not concern stays as it is.

    Raises:
        InputError: the array cannot be one of ``kind``.
    """
    if array.dtype.kind == "U":
        return array.astype(object)
    if array.dtype.kind == "S":
        try:
            return np.char.decode(array, "utf-8").astype(object)
        except UnicodeDecodeError as error:
            raise InputError(f"{where} has bytes that are no UTF-8 text: {error}") from error
    if kind is not None and kind in _SMALL:
        dtype, storage = _dtype(kind), _storage(kind)
        if "int" in kind and array.dtype.kind in "iu":
            small = array.astype(dtype)
            if not np.array_equal(small.astype(array.dtype), array):
                raise InputError(f"{where} has numbers outside of {kind}")
            return small
        if array.dtype.itemsize == dtype.itemsize and array.dtype.kind in "Vu":
            return np.ascontiguousarray(array).reshape(array.shape).view(dtype)
        raise InputError(f"{where} has {array.dtype}, which is not how {kind} is kept: {storage} of the same shape")
    if array.dtype.kind == "V":
        raise InputError(f"{where} has elements without a type ({array.dtype}), and the model names none of that width")
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _load(path: Path) -> Array | dict[str, Array]:
    """The content of a file: one array, or several by key."""
    with path.open("rb") as opened:
        file = opened if opened.seekable() else io.BytesIO(opened.read())  # a pipe
        start = file.read(len(_STARTS[0]))
        if not start.startswith(_STARTS):  # NumPy would take it for a pickle
            raise InputError(f"{path} is no .npy or .npz file; write one with numpy.save or numpy.savez")
        file.seek(0)
        try:
            content = np.load(file, allow_pickle=False)
            if isinstance(content, np.ndarray):
                return content
            return {key: content[key] for key in content.files}
        except OSError:
            raise
        # A damaged file brings NumPy's reader to many kinds of errors.
        except Exception as error:
            raise InputError(f"{path} is no .npy or .npz file that can be read without pickle: {error}") from error
