"""The tensors of a model file: checked against their data, sparse ones made dense, external ones mapped into memory."""

from __future__ import annotations

import errno
import math
import mmap
import os
import posixpath
import re
import stat
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray
from onnx import SparseTensorProto, TensorProto, helper

from onemodel.errors import InputError, LimitError, ModelError

__all__ = ["TYPED_FIELDS", "ExternalData", "check_tensor", "dense"]

TYPED_FIELDS = ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")
_MAX_RANK = 64  # NumPy's
_MAX_BYTES = 2**63 - 1
_HAS_DIR_FD = os.open in os.supports_dir_fd


def element_type(number: int, label: str) -> ir.DataType:
    """The element type with this number in ``TensorProto.DataType``."""
    try:
        dtype = ir.DataType(number)
    except ValueError:
        dtype = ir.DataType.UNDEFINED
    if dtype is ir.DataType.UNDEFINED:
        raise ModelError(f"{label} has the element type {number}, which ONNX does not define")
    return dtype


def check_tensor(tensor: TensorProto, label: str) -> None:
    """Check that a tensor holds as much data as its type and dims need; bring its external data entries into one form.

    Args:
        tensor: the tensor; its external data entries become location, offset and length, and those alone.
        label: what the tensor is, for messages.

    Raises:
        ModelError: the type, the dims, the data or the entries are not valid.
    """
    dtype = element_type(tensor.data_type, label)
    count = _count(tensor.dims, label)
    if tensor.HasField("segment"):
        raise ModelError(f"{label} is stored in segments, which ONNX does not define; store it whole")
    if tensor.data_location == TensorProto.EXTERNAL:
        _check_external(tensor, dtype, count, label)
    else:
        _check_data(tensor, dtype, count, label)


def _count(dims: Sequence[int], label: str) -> int:
    """How many elements a tensor of these dims has."""
    if min(dims, default=0) < 0:
        raise ModelError(f"{label} has a negative dim: {list(dims)}")
    if len(dims) > _MAX_RANK:
        raise ModelError(f"{label} has {len(dims)} dims; at most {_MAX_RANK} can be computed with")
    # Without data behind it an empty tensor may claim any dims; arrays of any element type must still have a size.
    positive = 1
    for dim in dims:
        positive *= dim or 1
        if positive * 16 > _MAX_BYTES:
            raise ModelError(f"{label} has dims too large for any memory: {list(dims)}")
    return 0 if 0 in dims else positive


def _bytes(dtype: ir.DataType, count: int) -> int:
    """How many bytes ``count`` elements take as raw data, where types below eight bits are packed."""
    return (count * dtype.bitwidth + 7) // 8


def _check_data(tensor: TensorProto, dtype: ir.DataType, count: int, label: str) -> None:
    typed = helper.tensor_dtype_to_field(int(dtype))
    if tensor.HasField("raw_data") and dtype is not ir.DataType.STRING:
        field, unit, needed, found = "raw_data", "bytes", _bytes(dtype, count), len(tensor.raw_data)
    else:
        field, unit, needed, found = typed, "entries", _entries(dtype, count), len(getattr(tensor, typed))
    if found != needed:
        raise ModelError(
            f"{label} is {_kind(dtype, tensor.dims)}, which takes {needed} {unit} of {field}, but it holds {found}"
        )
    if strays := [name for name in TYPED_FIELDS if name != field and len(getattr(tensor, name))]:
        raise ModelError(f"{label} is {_kind(dtype, tensor.dims)} stored in {field}, but holds {strays[0]} too")
    if dtype is ir.DataType.STRING:
        for text in tensor.string_data:
            decode(text, label)
    elif _has_forbidden_bits(dtype):
        _check_bits(ir.serde.TensorProtoTensor(tensor), label)


def _entries(dtype: ir.DataType, count: int) -> int:
    """How many entries of its typed field ``count`` elements take."""
    if dtype is ir.DataType.STRING or dtype.bitwidth == 6:
        return count
    if dtype in (ir.DataType.COMPLEX64, ir.DataType.COMPLEX128):
        return 2 * count
    return _bytes(dtype, count) if dtype.bitwidth < 8 else count


def decode(text: bytes, label: str) -> str:
    """A string of the model, which is UTF-8 by ONNX's rules."""
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise ModelError(f"{label} holds a string that is not UTF-8: {text[:40]!r}") from error


def _kind(dtype: ir.DataType, dims: Sequence[int]) -> str:
    return f"{dtype.name.lower()}{list(dims)}"


def _has_forbidden_bits(dtype: ir.DataType) -> bool:
    return dtype is ir.DataType.BOOL or dtype.bitwidth == 6


def _check_bits(tensor: ir.TensorProtocol, label: str) -> None:
    """A bool is 0 or 1, nothing else; the bits that float6 elements leave over are 0."""
    try:
        array = tensor.numpy()
    except ValueError as error:
        raise ModelError(f"{label} is not stored as {tensor.dtype.name.lower()} must be: {error}") from error
    if tensor.dtype is ir.DataType.BOOL and np.any(array.view(np.uint8) > 1):
        raise ModelError(f"{label} holds a bool that is neither 0 nor 1")


def _check_external(tensor: TensorProto, dtype: ir.DataType, count: int, label: str) -> None:
    if dtype is ir.DataType.STRING:
        raise ModelError(f"{label} is a string tensor, which cannot lie in external data")
    given = {entry.key: entry.value for entry in tensor.external_data}
    if not given.get("location"):
        raise ModelError(f"{label} has external data without a location")
    needed = _bytes(dtype, count)
    sizes = {"offset": given.get("offset", "0"), "length": given.get("length", str(needed))}
    for key, size in sizes.items():
        if not re.fullmatch("[0-9]{1,19}", size):
            raise ModelError(f"{label} has external data with {key} {size[:40]!r}, which is no number of bytes")
    if int(sizes["length"]) != needed:
        raise ModelError(
            f"{label} is {_kind(dtype, tensor.dims)}, which takes {needed} bytes of external data, "
            f"but its length is given as {sizes['length']}"
        )
    del tensor.external_data[:]
    for key, value in {"location": given["location"], **sizes}.items():
        tensor.external_data.add(key=key, value=value)


def dense(sparse: SparseTensorProto, external: ExternalData, label: str, limit: int) -> TensorProto:
    """A sparse tensor as an ordinary one with the same name; what it does not list is 0, or ``""``.

    Args:
        sparse: values of shape [n] and int64 indices of shape [n] (into the flattened tensor) or [n, rank], ascending.
        external: where its parts' external data lies.
        label: what the tensor is, for messages.
        limit: how many bytes the dense tensor may take.

    Raises:
        ModelError: a part is not valid.
        LimitError: the dense tensor takes more than ``limit`` bytes.
    """
    check_tensor(sparse.values, f"{label}, values")
    check_tensor(sparse.indices, f"{label}, indices")
    dims = list(sparse.dims)
    count = _count(dims, label)
    dtype = ir.DataType(sparse.values.data_type)
    string = dtype is ir.DataType.STRING
    # A string costs a pointer; a type below eight bits is unpacked to one byte an element.
    if count * (8 if string else max(dtype.bitwidth // 8, 1)) > limit:
        raise LimitError(
            f"{label} is {_kind(dtype, dims)} when made dense; Limits(fold_bytes=...) leaves {limit} bytes for it"
        )
    if len(sparse.values.dims) != 1:
        raise ModelError(f"{label} has values of shape {list(sparse.values.dims)}; they are a list, of shape [n]")
    values = _read(sparse.values, external)
    flat = np.full(count, b"", object) if string else np.zeros(count, values.dtype)
    flat[_positions(sparse.indices, dims, values.size, external, label)] = values
    array = flat.reshape(dims)
    name = sparse.values.name
    tensor = ir.StringTensor(array, shape=ir.Shape(dims), name=name) if string else ir.Tensor(array, dtype, name=name)
    return ir.serde.serialize_tensor(tensor)


def _positions(
    indices: TensorProto, dims: Sequence[int], count: int, external: ExternalData, label: str
) -> NDArray[np.int64]:
    """Where in the flattened tensor the values of a sparse one go."""
    if indices.data_type != TensorProto.INT64 or list(indices.dims) not in ([count], [count, len(dims)]):
        raise ModelError(
            f"{label} has indices {_kind(ir.DataType(indices.data_type), indices.dims)}; "
            f"for its {count} values they are {_kind(ir.DataType.INT64, [count])} or {[count, len(dims)]}"
        )
    array = _read(indices, external)
    if np.any(array < 0) or np.any(array >= (dims if array.ndim == 2 else math.prod(dims))):
        raise ModelError(f"{label} has an index outside its dims {list(dims)}")
    if array.ndim == 2:
        columns, array = array.T, np.zeros(count, np.int64)
        for extent, column in zip(dims, columns, strict=True):
            array = array * extent + column
    if np.any(array[1:] <= array[:-1]):
        raise ModelError(f"{label} has indices that do not ascend")
    return array


def _read(tensor: TensorProto, external: ExternalData) -> NDArray[Any]:
    value = ir.serde.deserialize_tensor(tensor)
    return (external.open(value) if isinstance(value, ir.ExternalTensor) else value).numpy()


_ELSEWHERE = "pass folder= (the folder it lies in) or external_data= (a mapping from location to bytes)"


class ExternalData:
    """Where the data outside a model lies: buffers by location, and a folder for what is not among them.

    Only regular files inside the folder are opened, and only where no link of any kind leads to them. Each is mapped
    into memory once, read-only, and must stay as it is while arrays over it live.

    Attributes:
        folder: the folder; None where there is none.
        buffers: uint8 arrays by location.
    """

    def __init__(self, folder: str | None, buffers: Mapping[str, Any]) -> None:
        self.folder = folder
        self.buffers = {location: _as_bytes(location, buffer) for location, buffer in buffers.items()}
        self._files: dict[str, NDArray[np.uint8]] = {}
        self._locations: set[str] = set()

    @property
    def used_folder(self) -> str | None:
        """The folder, if a file in it has been opened."""
        return self.folder if self._files else None

    @property
    def used(self) -> Mapping[str, NDArray[np.uint8]]:
        """What has been opened so far, whole, by location; buffers count as opened."""
        return {**self._files, **self.buffers}

    def open(self, tensor: ir.ExternalTensor) -> ir.TensorProtocol:
        """A tensor that ``check_tensor`` has checked, over its mapped data; ``meta["location"]`` keeps where that lies.

        Raises:
            ModelError: the data is not there, is too short, or may not be opened.
        """
        label = f"external tensor {tensor.name!r}"
        location, start, count = str(tensor.location), tensor.offset or 0, tensor.length or 0
        data = self._data(location, label)
        if start + count > data.size:
            raise ModelError(
                f"{label} takes bytes {start} to {start + count} of {location!r}, which holds only {data.size}"
            )
        data = data[start : start + count]
        dims = tensor.shape.numpy()
        about: dict[str, Any] = {"name": tensor.name, "doc_string": tensor.doc_string}
        if tensor.dtype.bitwidth < 8:
            result: ir.TensorProtocol = ir.PackedTensor(data, tensor.dtype, shape=dims, **about)
        else:
            array = data.view(tensor.dtype.numpy().newbyteorder("<")).reshape(dims)
            result = ir.Tensor(array if array.flags.aligned else array.copy(), tensor.dtype, **about)
        if _has_forbidden_bits(tensor.dtype):
            _check_bits(result, label)
        result.meta["location"] = location
        return result

    def refuse_unused(self) -> None:
        """Refuse buffers that no tensor opened so far refers to.

        Raises:
            InputError: there are some.
        """
        if unused := sorted(repr(location) for location in self.buffers if location not in self._locations):
            known = ", ".join(map(repr, sorted(self._locations))) or "none"
            raise InputError(
                f"external_data has {', '.join(unused)}, which no tensor of the model refers to; "
                f"the model's locations: {known}"
            )

    def _data(self, location: str, label: str) -> NDArray[np.uint8]:
        self._locations.add(location)
        if location in self.buffers:
            return self.buffers[location]
        given = f"; external_data has {', '.join(map(repr, self.buffers))} alone" if self.buffers else ""
        if self.folder is None:
            raise ModelError(f"{label} lies outside the model, at {location!r}: {_ELSEWHERE}{given}")
        if location not in self._files:
            try:
                self._files[location] = _map(self.folder, _parts(location))
            except (OSError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) else error
                if getattr(error, "errno", None) == errno.ELOOP:  # what O_NOFOLLOW gives
                    reason = "it is a symbolic link"
                raise ModelError(
                    f"{label} lies at {location!r}, which cannot be opened in the folder {self.folder!r}: {reason}; "
                    f"it must be a regular file inside that folder, without symbolic or hard links; copy it there, or "
                    f"{_ELSEWHERE}{given}"
                ) from error
        return self._files[location]


def _as_bytes(location: Any, buffer: Any) -> NDArray[np.uint8]:
    """A read-only view of a caller's buffer."""
    try:
        # The element types of ml_dtypes have no buffer of their own.
        data = np.frombuffer(buffer.view(np.uint8) if isinstance(buffer, np.ndarray) else buffer, np.uint8)
    except (TypeError, ValueError, BufferError) as error:
        kind = type(buffer).__name__
        raise InputError(
            f"external_data[{location!r}] is of type {kind}; it must be bytes or another contiguous buffer"
        ) from error
    data.flags.writeable = False
    return data


def _parts(location: str) -> list[str]:
    """The names on the way from the folder to the file."""
    if location.startswith("/") or "\\" in location or "\0" in location or re.match("[A-Za-z]:", location):
        raise ValueError("the location must be a relative path with forward slashes")
    parts = posixpath.normpath(location).split("/")
    if parts[0] in ("..", "."):
        raise ValueError("the location names no file inside the folder")
    return parts


def _map(folder: str, parts: Sequence[str]) -> NDArray[np.uint8]:
    """The bytes of a file, mapped into memory. What is checked is the opened file itself, so nothing can be swapped."""
    with ExitStack() as stack:
        descriptor = (_open_below if _HAS_DIR_FD else _open_by_path)(folder, parts, stack)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is not a regular file")
        if status.st_nlink > 1:
            raise ValueError(f"it has {status.st_nlink} hard links")
        if not status.st_size:
            return np.empty(0, np.uint8)
        return np.frombuffer(mmap.mmap(descriptor, status.st_size, access=mmap.ACCESS_READ), np.uint8)


def _open_below(folder: str, parts: Sequence[str], stack: ExitStack) -> int:
    """Open a file by walking down from the folder's descriptor, following no symbolic link."""

    def enter(path: str, flags: int, parent: int | None = None) -> int:
        opened = os.open(path, os.O_RDONLY | flags, dir_fd=parent)
        stack.callback(os.close, opened)
        return opened

    descriptor = enter(folder, os.O_DIRECTORY)
    for part in parts[:-1]:
        descriptor = enter(part, os.O_DIRECTORY | os.O_NOFOLLOW, descriptor)
    # A pipe without a writer would block, a terminal would become the process's own.
    return enter(parts[-1], os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY, descriptor)


def _open_by_path(folder: str, parts: Sequence[str], stack: ExitStack) -> int:
    """The same where folders have no descriptors (Windows): look at each name, open, and compare with what was seen."""
    path = folder
    for part in parts:
        path = os.path.join(path, part)  # noqa: PTH118 - pathlib would normalise the name
        seen = os.lstat(path)
        reparse = getattr(seen, "st_file_attributes", 0) & stat.FILE_ATTRIBUTE_REPARSE_POINT
        if stat.S_ISLNK(seen.st_mode) or reparse:
            raise ValueError("it is reached through a symbolic link")
    if not stat.S_ISREG(seen.st_mode):
        raise ValueError("it is not a regular file")
    descriptor = os.open(path, os.O_RDONLY)
    stack.callback(os.close, descriptor)
    if not os.path.samestat(seen, os.fstat(descriptor)):
        raise ValueError("it was replaced while it was opened")
    return descriptor
