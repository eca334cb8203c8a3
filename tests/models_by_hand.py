"""Small models for the tests of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx
from onnx import helper

from onemodel import types

Declared = tuple[str, str, Sequence[int | str | None] | None]


def value(name: str, value_type: str, shape: Sequence[int | str | None] | None = None) -> onnx.ValueInfoProto:
    """A declared input or output."""
    if types.is_tensor(value_type):
        return helper.make_tensor_value_info(name, types.code_of(value_type), shape)
    return helper.make_value_info(name, types.to_proto(value_type))


def graph_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[Declared],
    outputs: Sequence[str],
    *,
    opset: int = 21,
    ir_version: int = 10,
    initializers: Sequence[onnx.TensorProto] = (),
    functions: Sequence[onnx.FunctionProto] = (),
    domains: dict[str, int] | None = None,
) -> onnx.ModelProto:
    """A model of these nodes; the outputs' types are left to the plan."""
    graph = helper.make_graph(
        list(nodes),
        "by_hand",
        [value(*declared) for declared in inputs],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        list(initializers),
    )
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, v) for d, v in (domains or {}).items())]
    return helper.make_model(graph, opset_imports=imports, ir_version=ir_version, functions=list(functions))


def subgraph(
    nodes: Sequence[onnx.NodeProto],
    outputs: Sequence[str],
    inputs: Sequence[Declared] = (),
    initializers: Sequence[onnx.TensorProto] = (),
) -> onnx.GraphProto:
    """A subgraph for If, Loop and Scan."""
    return helper.make_graph(
        list(nodes),
        "body",
        [value(*declared) for declared in inputs],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        list(initializers),
    )


def constant(name: str, array: Any) -> onnx.TensorProto:
    """An initializer."""
    return onnx.numpy_helper.from_array(array, name)


node = helper.make_node
