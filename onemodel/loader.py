"""From a path, bytes or proto to a model in memory that has been checked."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError, EncodeError  # type: ignore[import-untyped]

from onemodel.config import Limits
from onemodel.errors import InputError, ModelError
from onemodel.preflight import plain_domain, prepare
from onemodel.tensors import TYPED_FIELDS, ExternalData

__all__ = ["LoadedModel", "domain_of", "load", "overridable"]

_MAX_BYTES = 2**31 - 1  # protobuf's
_TOO_LARGE = "a model file holds at most 2 GiB, so store its weights as external data"
_MAX_MESSAGE_DEPTH = 100  # protobuf's, of files
_STRING, _MESSAGE = 9, 11  # FieldDescriptor.TYPE_STRING and TYPE_MESSAGE
_DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True, eq=False)
class LoadedModel:
    """A model that has been checked.

    Attributes:
        model: the graph in memory, with the model's metadata. The graph, its subgraphs and the functions are sorted;
            tensors in external data are mapped into memory.
        opset_imports: domain to version, ``""`` for ai.onnx.
    """

    model: ir.Model
    opset_imports: Mapping[str, int]
    _proto: onnx.ModelProto = field(repr=False)
    _external: ExternalData = field(repr=False)

    def external_data(self) -> Mapping[str, Any]:
        """The data outside the model that it uses, by location: a uint8 array of each whole file or buffer."""
        return self._external.used

    def serialize(self) -> tuple[bytes, str | None, dict[str, bytes]]:
        """What ``load`` makes an equal model of: the model's bytes, its ``folder`` and its ``external_data``.

        The folder is an absolute path; it is None where no data lies in it.

        Raises:
            ModelError: the model came as a proto of more than 2 GiB.
        """
        try:
            data = _with_weights(self._proto, self.model).SerializeToString(deterministic=True)
        except (EncodeError, ValueError) as error:
            raise ModelError(f"the model cannot be written as bytes: {error}; {_TOO_LARGE}") from error
        buffers = {location: buffer.tobytes() for location, buffer in self._external.buffers.items()}
        return data, self._external.used_folder, buffers


def load(
    model: Any,
    *,
    folder: str | os.PathLike[str] | None = None,
    external_data: Mapping[str, Any] | None = None,
    limits: Limits = _DEFAULT_LIMITS,
) -> LoadedModel:
    """Read a model and check it.

    External data is mapped into memory and must stay as it is while the model is in use. From a folder it is taken only
    from regular files inside that folder, through no symbolic or hard link.

    Args:
        model: a path, bytes or another buffer, a binary file object, an ``onnx.ModelProto`` or an ``onnx_ir.Model``;
            none is changed.
        folder: where external data lies; by default the folder of a model that comes by path.
        external_data: location, as the model names it, to bytes, another buffer or an array. It goes before the folder.
        limits: what the model may cost.

    Returns:
        the model, sorted, with dense initializers and plain domains.

    Raises:
        InputError: an argument is not one of those, or ``external_data`` has a location that the model has not.
        ModelError: the model is not valid ONNX, or its external data cannot be had.
        LimitError: the model goes beyond a limit.
    """
    if external_data is not None and not isinstance(external_data, Mapping):
        raise InputError(f"external_data is of type {type(external_data).__name__}; it must map locations to bytes")
    try:
        proto, home = _proto_of(model)
        external = ExternalData(home if folder is None else _folder(folder), external_data or {})
        imports = prepare(proto, external, limits)
        loaded = LoadedModel(_in_memory(proto, external), imports, proto, external)
        external.refuse_unused()
        return loaded
    except RecursionError as error:
        raise ModelError("the model nests deeper than Python's recursion limit lets it be read") from error


def domain_of(node: ir.Node | onnx.NodeProto) -> str:
    """The domain of a node's operator; ``""`` is ai.onnx."""
    return plain_domain(node.domain)


def overridable(loaded: LoadedModel) -> set[str]:
    """Initializers of the main graph that are its inputs too, so that a run may feed others. IR 3 lists them all."""
    graph = loaded.model.graph
    return {value.name for value in graph.inputs if value.name} & set(graph.initializers)


def _proto_of(model: Any) -> tuple[onnx.ModelProto, str | None]:
    """A proto of our own, and the folder that the model came from."""
    if isinstance(model, onnx.ModelProto):
        _check_messages(model)
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        return copy, None
    if isinstance(model, ir.Model):
        try:
            proto = ir.to_proto(model)
        except ir.serde.SerdeError as error:
            raise ModelError(f"the onnx_ir model cannot be written as a proto: {_root(error)}") from error
        _check_messages(proto)
        return proto, None
    if isinstance(model, bytes | bytearray | memoryview):
        return _parse(bytes(model), "the model"), None
    if isinstance(model, str | os.PathLike):
        path = Path(model)
        return _parse(_read(path), f"the model {str(path)!r}"), str(path.absolute().parent)
    if callable(getattr(model, "read", None)):
        try:
            data = model.read()
        except (OSError, ValueError) as error:
            raise InputError(f"the file object cannot be read: {error}") from error
        if not isinstance(data, bytes | bytearray | memoryview):
            raise InputError(f"the file object gives {type(data).__name__}; open it in binary mode")
        return _parse(bytes(data), "the model"), None
    raise InputError(
        f"the model is of type {type(model).__name__}; it must be a path, bytes, a binary file object, "
        "an onnx.ModelProto or an onnx_ir.Model"
    )


def _read(path: Path) -> bytes:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"{str(path)!r} is not a file; pass the path of a model file")
        if status.st_size > _MAX_BYTES:
            raise ModelError(f"the model {str(path)!r} has {status.st_size} bytes; {_TOO_LARGE}")
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError(f"there is no file {str(path)!r}") from error
    except (OSError, ValueError) as error:
        raise ModelError(f"the model {str(path)!r} cannot be read: {error}") from error


def _parse(data: bytes, label: str) -> onnx.ModelProto:
    if not data:
        raise ModelError(f"{label} is empty")
    if len(data) > _MAX_BYTES:
        raise ModelError(f"{label} has {len(data)} bytes; {_TOO_LARGE}")
    try:
        proto = onnx.ModelProto.FromString(data)
    except (DecodeError, UnicodeDecodeError) as error:
        raise ModelError(f"{label} is not an ONNX file, is cut short, or nests too deep: {error}") from error
    if not (proto.ir_version or proto.HasField("graph")):  # other files may parse as a message of unknown fields
        raise ModelError(f"{label} is not an ONNX file: it has neither an IR version nor a graph")
    _check_messages(proto)
    return cast("onnx.ModelProto", proto)


def _check_messages(proto: onnx.ModelProto) -> None:
    """Check that all text is UTF-8 and that no message nests so deep that protobuf would crash.

    Raises:
        ModelError: it is not, or one does.
    """
    open_messages: list[Iterator[Any]] = [iter([proto])]
    while open_messages:
        message = next(open_messages[-1], None)
        if message is None:
            open_messages.pop()
            continue
        below: list[Any] = []
        if isinstance(message, onnx.TensorProto):  # listing all its fields would copy its data
            _check_texts((message.name, message.doc_string), message)
            below += (*message.external_data, *message.metadata_props)
        else:
            for descriptor, value in message.ListFields():
                kind = descriptor.type
                if kind == _MESSAGE:
                    below += (value,) if descriptor.has_presence else value
                elif kind == _STRING:
                    _check_texts((value,) if descriptor.has_presence else value, message)
        if below:
            if len(open_messages) == _MAX_MESSAGE_DEPTH:
                raise ModelError(
                    f"the model's messages nest more than {_MAX_MESSAGE_DEPTH} deep, which no file can hold"
                )
            open_messages.append(iter(below))


def _check_texts(texts: Iterable[Any], message: Any) -> None:
    for text in texts:
        if not isinstance(text, str):  # protobuf hands out what is not UTF-8 as bytes
            owner = message.DESCRIPTOR.name
            raise ModelError(f"a {owner} of the model has text that is not UTF-8: {text[:40]!r}")


def _folder(folder: str | os.PathLike[str]) -> str:
    if not isinstance(folder, str | os.PathLike):
        raise InputError(f"folder is of type {type(folder).__name__}; it must be a path")
    path = Path(folder).absolute()
    if not path.is_dir():
        raise InputError(f"folder={str(folder)!r} is not a folder")
    return str(path)


def _in_memory(proto: onnx.ModelProto, external: ExternalData) -> ir.Model:
    """The model in onnx_ir's form, its external tensors opened."""
    try:
        with _without_false_alarm():
            model = ir.from_proto(proto)
    except ir.serde.SerdeError as error:
        raise ModelError(f"onnx_ir cannot read the model: {_root(error)}") from error
    _take_weights(proto, model)
    functions = model.functions.values()
    for function in functions:
        _open_attributes(function.attributes, external)
    for body in (model.graph, *(function.graph for function in functions)):
        for graph in (body, *body.subgraphs()):
            for value in graph.initializers.values():
                if value.const_value is not None:
                    value.const_value = _opened(value.const_value, external)
            for node in graph:
                _open_attributes(node.attributes, external)
    return model


def _take_weights(proto: onnx.ModelProto, model: ir.Model) -> None:
    """Move the main graph's weights out of the proto, so that they lie in memory once."""
    for tensor in proto.graph.initializer:
        value = model.graph.initializers[tensor.name]
        held = value.const_value
        if isinstance(held, ir.TensorProtoTensor) and held.dtype != ir.DataType.STRING:
            value.const_value = ir.Tensor(held.numpy(), dtype=held.dtype, shape=held.shape, name=held.name)
            for field_name in ("raw_data", *TYPED_FIELDS):
                tensor.ClearField(field_name)


def _with_weights(proto: onnx.ModelProto, model: ir.Model) -> onnx.ModelProto:
    """The proto with its weights in it again."""
    whole = onnx.ModelProto()
    whole.CopyFrom(proto)
    for tensor in whole.graph.initializer:
        weights = model.graph.initializers[tensor.name].const_value
        if isinstance(weights, ir.Tensor) and tensor.data_location != onnx.TensorProto.EXTERNAL:
            tensor.raw_data = weights.tobytes()
    return whole


def _open_attributes(attributes: MutableMapping[str, ir.Attr], external: ExternalData) -> None:
    for name, attribute in attributes.items():
        if attribute.type is ir.AttributeType.TENSOR and isinstance(attribute.value, ir.ExternalTensor):
            attributes[name] = ir.AttrTensor(name, external.open(attribute.value))
        elif attribute.type is ir.AttributeType.TENSORS and attribute.value:
            attributes[name] = ir.AttrTensors(name, [_opened(each, external) for each in attribute.value])


def _opened(tensor: ir.TensorProtocol, external: ExternalData) -> ir.TensorProtocol:
    return external.open(tensor) if isinstance(tensor, ir.ExternalTensor) else tensor


@contextmanager
def _without_false_alarm() -> Iterator[None]:
    """onnx_ir warns of a subgraph output that names a value outside of the subgraph, which is legal."""

    def keep(record: logging.LogRecord) -> bool:
        return not str(record.msg).startswith("Output '%s' is not produced by any node")

    logger = logging.getLogger("onnx_ir.serde")
    logger.addFilter(keep)
    try:
        yield
    finally:
        logger.removeFilter(keep)


def _root(error: BaseException) -> BaseException:
    """What started a chain of errors."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error
