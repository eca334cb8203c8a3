"""Value types, written as ONNX writes them: ``tensor(float)``, ``seq(tensor(int64))``, ``optional(tensor(float))``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeGuard

import numpy as np
import onnx_ir as ir
from onnx import TensorProto, TypeProto
from onnx.helper import make_optional_type_proto, make_sequence_type_proto, make_tensor_type_proto

from onemodel.backends.base import numpy_dtype
from onemodel.errors import ModelError
from onemodel.tensors import element_type

_CODES: Mapping[str, int] = {
    name.lower(): code for name, code in TensorProto.DataType.items() if code != TensorProto.UNDEFINED
}
_NAMES = {code: name for name, code in _CODES.items()}

TYPE_KEY = "onnx.type"
"""Metadata of a value whose type onnx_ir has no class for: the type's name, ``"map(int64,tensor(float))"``."""

HALVES = ("tensor(float16)", "tensor(bfloat16)")


def tensor(code: int) -> str:
    """The type of a tensor with ONNX element type ``code``."""
    return f"tensor({_NAMES[code]})"


def inner(value_type: str) -> str:
    """What stands in the outermost brackets: ``seq(tensor(float))`` gives ``tensor(float)``."""
    return value_type[value_type.index("(") + 1 : -1]


def is_tensor(value_type: str | None) -> TypeGuard[str]:
    return value_type is not None and value_type.startswith("tensor(")


@cache
def code_of(value_type: str) -> int:
    """The ONNX element type code of a tensor type."""
    return _CODES[inner(value_type)]


@cache
def dtype_of(value_type: str) -> np.dtype[Any]:
    """NumPy's dtype for a tensor type; ml_dtypes' where NumPy has none, object for strings."""
    return numpy_dtype(code_of(value_type))


@cache
def dtype_name(value_type: str) -> str:
    """The name of ``dtype_of``, which NumPy makes anew each time."""
    return dtype_of(value_type).name


@cache
def of_dtype(dtype: np.dtype[Any]) -> str:
    """The tensor type with this NumPy dtype; text and objects are strings."""
    if dtype.kind in "OUST":
        return "tensor(string)"
    for code in _NAMES:
        if code != TensorProto.STRING and numpy_dtype(code) == dtype:
            return tensor(code)
    raise TypeError(f"ONNX has no element type for {dtype}")


@cache
def of_schema(text: str) -> str:
    """A type as schemas write it: they leave ``tensor`` out inside maps, ``map(int64, float)``."""
    return re.sub(r"map\((\w+), (\w+)\)", r"map(\1,tensor(\2))", text)


def of_proto(proto: TypeProto) -> str | None:
    """A TypeProto as text; None where it says nothing."""
    match proto.WhichOneof("value"):
        case "tensor_type":
            code = proto.tensor_type.elem_type
            return tensor(code) if code in _NAMES else None
        case "sequence_type":
            item = of_proto(proto.sequence_type.elem_type)
            return None if item is None else f"seq({item})"
        case "optional_type":
            item = of_proto(proto.optional_type.elem_type)
            return None if item is None else f"optional({item})"
        case "map_type":
            item = of_proto(proto.map_type.value_type)
            return None if item is None else f"map({_NAMES[proto.map_type.key_type]},{item})"
    return None


def to_proto(value_type: str, shape: tuple[int | None, ...] | None = None) -> TypeProto:
    """The TypeProto of a type's text."""
    kind, _, rest = value_type.partition("(")
    rest = rest[:-1]
    match kind:
        case "tensor":
            return make_tensor_type_proto(_CODES[rest], shape)
        case "seq":
            return make_sequence_type_proto(to_proto(rest))
        case "optional":
            return make_optional_type_proto(to_proto(rest))
        case "map":
            key, _, item = rest.partition(",")
            proto = TypeProto()
            proto.map_type.key_type = _CODES[key]
            proto.map_type.value_type.CopyFrom(to_proto(item))
            return proto
    raise ValueError(f"{value_type!r} is not an ONNX type")


def fits_onnx_ir(proto: TypeProto, label: str, nested: bool = False) -> bool:
    """Check a type; tell whether onnx_ir has a class for it. Dims below zero, another way to say unknown, are unset."""
    kind = proto.WhichOneof("value")
    if kind in ("tensor_type", "sparse_tensor_type"):
        tensor = getattr(proto, kind)
        if tensor.elem_type:
            element_type(tensor.elem_type, label)
        for dim in tensor.shape.dim:
            if dim.dim_value < 0:
                dim.ClearField("dim_value")
        return bool(tensor.elem_type) or not nested
    if kind in ("sequence_type", "optional_type"):
        return fits_onnx_ir(getattr(proto, kind).elem_type, label, nested=True)
    if kind == "map_type":
        element_type(proto.map_type.key_type, label)
        fits_onnx_ir(proto.map_type.value_type, label)
        return False
    return not nested and kind is None


def check_name(name: str, label: str) -> None:
    """Refuse metadata under ``TYPE_KEY`` that names no type."""
    try:
        to_proto(name)
    except (KeyError, ValueError) as error:
        raise ModelError(f"{label} has the metadata {TYPE_KEY} {name[:40]!r}, which is not an ONNX type") from error


def of_value(value: ir.Value) -> str | None:
    """The type that the model declares for a value; None where it declares none."""
    if value.type is None:
        return value.metadata_props.get(TYPE_KEY)
    return of_ir(value.type)


def of_ir(value_type: Any) -> str | None:
    """The same for an onnx_ir type."""
    if isinstance(value_type, ir.SequenceType):
        item = of_ir(value_type.elem_type)
        return None if item is None else f"seq({item})"
    if isinstance(value_type, ir.OptionalType):
        item = of_ir(value_type.elem_type)
        return None if item is None else f"optional({item})"
    if isinstance(value_type, ir.TensorType):
        code = int(value_type.dtype)
        return tensor(code) if code in _NAMES else None
    return None


def shape_of(value: ir.Value) -> tuple[int | str | None, ...] | None:
    """The shape that the model declares: numbers, names of symbolic dimensions, None; None where there is no shape."""
    if value.shape is None:
        return None
    return tuple(dim if isinstance(dim, int) else dim.value for dim in value.shape)
