"""The function bodies by which ONNX itself defines operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import onnx
import onnx_ir as ir

from onemodel import inference
from onemodel import types as value_types
from onemodel.frames import Value
from onemodel.program import NodeInfo


def function_of(
    schema: Any,
    opset: int,
    node: ir.Node,
    attributes: Mapping[str, ir.Attr],
    info: NodeInfo,
    inputs: Sequence[Value | None],
) -> ir.Function | None:
    """ONNX's own body for the operator at ``opset``, with the schema's defaults; None where it has none.

    Some bodies depend on which inputs are given and on their types, which must all be known then.
    """
    body: bytes | onnx.FunctionProto = b""
    if versions := [version for version in schema.function_opset_versions if version <= opset]:
        body = schema.get_function_with_opset_version(max(versions))
    elif all(value is None or value.type is not None for value in inputs):
        versions = [version for version in schema.context_dependent_function_opset_versions if version <= opset]
        if versions:
            protos = [value_types.to_proto(v.type).SerializeToString() if v and v.type else b"" for v in inputs]
            written = inference.node_proto(node, attributes, info).SerializeToString()
            body = schema.get_context_dependent_function_with_opset_version(max(versions), written, protos)
    if not body:
        return None
    proto = onnx.FunctionProto.FromString(body) if isinstance(body, bytes) else body
    del proto.attribute[:]
    for name, attribute in schema.attributes.items():
        if attribute.default_value.type == onnx.AttributeProto.UNDEFINED:
            proto.attribute.append(name)
        else:
            proto.attribute_proto.append(attribute.default_value)
    if not any(imported.domain == "" for imported in proto.opset_import):
        # Bodies in ONNX's preview domains use ai.onnx without an import of it.
        proto.opset_import.append(onnx.helper.make_opsetid("", onnx.defs.onnx_opset_version()))
    # A body may leave out what makes the outputs that the node does not want.
    del proto.output[len(node.outputs) :]
    try:
        return cast("ir.Function", ir.from_proto(proto))
    except ir.serde.SerdeError:
        return None
