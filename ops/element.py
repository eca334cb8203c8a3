"""Element types by ONNX's codes and names."""

from __future__ import annotations

from typing import Any

from onnx import TensorProto
from onnx.helper import np_dtype_to_tensor_dtype


def tensor_type(code: int) -> str | None:
    """The type of a tensor with this element type code, ``tensor(float)``; None where ONNX has no such code."""
    return f"tensor({TensorProto.DataType.Name(code).lower()})" if code in TensorProto.DataType.values() else None


def type_of(array: Any) -> str | None:
    """The type of a NumPy array."""
    return tensor_type(np_dtype_to_tensor_dtype(array.dtype))


def agree(first: str | None, second: str | None) -> bool:
    """Whether one value may have both types: they are the same, one is the other's optional, or one is not known."""
    return None in (first, second) or first in (second, f"optional({second})") or second == f"optional({first})"


def code_of(value_type: str) -> int:
    """The element type code of a tensor type."""
    return int(TensorProto.DataType.Value(value_type[len("tensor(") : -1].upper()))
