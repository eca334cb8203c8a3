"""What a session tells of its model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from onemodel import types


@dataclass(frozen=True)
class NodeArg:
    """An input or output of a model.

    Attributes:
        name: its name in the graph.
        type: its ONNX type, such as ``"tensor(float)"``; None where the model declares none.
        shape: per dimension a number, the name of a symbolic dimension, or None; None where the model declares no
            shape.
    """

    name: str
    type: str | None
    shape: tuple[int | str | None, ...] | None


@dataclass(frozen=True)
class ModelMetadata:
    """What a model says of itself; the names are ONNX Runtime's."""

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: Mapping[str, str]


def node_arg(value: Any) -> NodeArg:
    """An input, output or initializer of an ``onnx_ir`` graph."""
    declared = types.of_value(value)
    shape = types.shape_of(value)
    if value.const_value is not None and declared is None:
        declared = types.tensor(int(value.const_value.dtype))
    if value.const_value is not None and shape is None:
        shape = tuple(value.const_value.shape)
    return NodeArg(value.name, declared, shape)
