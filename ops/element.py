"""Element types by ONNX's codes and names."""

from __future__ import annotations

from typing import Any

from onnx import TensorProto
from onnx.helper import np_dtype_to_tensor_dtype

_ELEMENTS = {name.lower() for name, code in TensorProto.DataType.items() if code != TensorProto.UNDEFINED}


def tensor_type(code: int) -> str | None:
    """The type of a tensor with this element type code, ``tensor(float)``; None where ONNX has no such code."""
    return f"tensor({TensorProto.DataType.Name(code).lower()})" if code in TensorProto.DataType.values() else None


def type_of(array: Any) -> str | None:
    """The type of a NumPy array."""
    return tensor_type(np_dtype_to_tensor_dtype(array.dtype))


def is_type(text: str) -> bool:
    """Whether a text is an ONNX type: ``tensor(float)``, ``map(string,tensor(float))``."""
    kind, _, rest = text.partition("(")
    rest, closed = rest[:-1], rest.endswith(")")
    if not closed or kind not in ("tensor", "seq", "optional", "map"):
        return False
    if kind in ("seq", "optional"):
        return is_type(rest)
    element, _, item = rest.partition(",")
    return element in _ELEMENTS and (is_type(item) if kind == "map" else not item)


def agree(first: str | None, second: str | None) -> bool:
    """Whether one value may have both types: they are the same, one is the other's optional, or one is not known."""
    return None in (first, second) or first in (second, f"optional({second})") or second == f"optional({first})"


def code_of(value_type: str) -> int:
    """The element type code of a tensor type."""
    return int(TensorProto.DataType.Value(value_type[len("tensor(") : -1].upper()))
