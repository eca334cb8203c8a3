"""Attributes and tensors of the model as operators get them: numbers, text, tuples, NumPy arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from onemodel import types as value_types


def resolved(node: ir.Node, around: Mapping[str, ir.Attr] | None) -> dict[str, ir.Attr]:
    """The node's attributes, those of the function around it in place of references."""
    attributes: dict[str, ir.Attr] = {}
    for name, attribute in node.attributes.items():
        if not attribute.is_ref():
            attributes[name] = attribute
        elif given := (around or {}).get(attribute.ref_attr_name or ""):
            attributes[name] = ir.Attr(name, given.type, given.value)
    return attributes


def python_value(attribute: ir.Attr) -> Any:
    """An attribute's value as operators get it: numbers, text, tuples, NumPy arrays."""
    value: Any = attribute.value
    match attribute.type:
        case ir.AttributeType.TENSOR:
            return tensor_array(value)
        case ir.AttributeType.TENSORS:
            return tuple(map(tensor_array, value))
        case ir.AttributeType.TYPE_PROTO:
            return value_types.of_ir(value.type)
        case ir.AttributeType.INTS | ir.AttributeType.FLOATS | ir.AttributeType.STRINGS:
            return tuple(value)
    return value


def as_float32(value: Any) -> Any:
    """Omitted float attributes have their float32 value, as written ones do."""
    if isinstance(value, float):
        return float(np.float32(value))
    if isinstance(value, tuple):
        return tuple(map(as_float32, value))
    return value


def tensor_array(tensor: Any) -> np.ndarray[Any, Any]:
    """The NumPy array of an onnx_ir tensor; strings as objects."""
    if tensor.dtype == ir.DataType.STRING:
        return np.array([item.decode() for item in tensor.string_data()], dtype=object).reshape(tuple(tensor.shape))
    return np.asarray(tensor.numpy())
