"""What the schema of an operator version says: attributes, counts, and the types of a node's outputs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from inspect import Parameter
from typing import Any, cast

import numpy as np
import onnx
import onnx_ir as ir
from onnx import defs, helper, numpy_helper
from onnx.checker import ValidationError
from onnx.shape_inference import InferenceError, infer_node_outputs

from onemodel.errors import ModelError
from onemodel.ops.registry import Operator
from onemodel.program import NodeInfo
from onemodel.types import dtype_of, is_tensor, of_proto, of_schema, to_proto

Option = defs.OpSchema.FormalParameterOption
_MANY = 2**31 - 1  # what a schema gives for any number
_MOST_LISTED = 12


@cache
def schema_of(domain: str, name: str, opset: int) -> defs.OpSchema | None:
    """ONNX's schema of ``domain::name`` at ``opset``; None where it has none."""
    try:
        return defs.get_schema(name, opset, domain)
    except defs.SchemaError:
        return None


def _type_variables(schema: defs.OpSchema) -> dict[str, list[str]]:
    """What each type variable of a schema may stand for."""
    return {
        variable.type_param_str: list(map(of_schema, variable.allowed_type_strs))
        for variable in schema.type_constraints
    }


def expanded(parameters: Sequence[Any], count: int) -> list[Any]:
    """One formal parameter per actual one: the last, variadic one repeats."""
    if count <= len(parameters):
        return list(parameters[:count])
    return [*parameters, *[parameters[-1]] * (count - len(parameters))] if parameters else []


def check_node(
    schema: defs.OpSchema, info: NodeInfo, given: Mapping[str, ir.Attr], inputs: Sequence[object], outputs: int
) -> None:
    """Refuse attributes that this version lacks, misses or has of another type, and wrong counts of in- and outputs.

    Args:
        schema: the operator version.
        info: the node.
        given: its attributes.
        inputs: what stands at each input, None for nothing.
        outputs: how many outputs it has.
    """
    _check_known(info, given, schema.attributes, f"this version (since opset {schema.since_version}) does not have")
    for name, attribute in given.items():
        expected = ir.AttributeType(cast("int", schema.attributes[name].type))
        if expected is ir.AttributeType.SPARSE_TENSOR:
            expected = ir.AttributeType.TENSOR  # the loader has written it out
        if attribute.type not in (expected, ir.AttributeType.UNDEFINED):
            raise ModelError(
                f"{info}: the attribute {name!r} is of type {attribute.type.name}; it must be {expected.name}"
            )
    _check_required(info, given, (name for name, attribute in schema.attributes.items() if attribute.required))
    for kind, count, least, most in (
        ("inputs", len(inputs), schema.min_input, schema.max_input),
        ("outputs", outputs, schema.min_output, schema.max_output),
    ):
        if not least <= count <= most:
            raise ModelError(f"{info} has {count} {kind}; this version takes {_bounds(least, most)}")
    for formal, value in zip(expanded(schema.inputs, len(inputs)), inputs, strict=True):
        if formal.option != Option.Optional and value is None:
            raise ModelError(f"{info} lacks the input {formal.name!r}, which is required")


def check_entry(entry: Operator, info: NodeInfo, given: Sequence[str], inputs: Sequence[object]) -> None:
    """The same for an operator that has no schema: its function's signature is the measure."""
    _check_known(info, given, entry.attributes, f"{entry.function.__qualname__} does not take")
    _check_required(info, given, (name for name, default in entry.attributes.items() if default is Parameter.empty))
    count, most = len(inputs), len(entry.inputs) if entry.variadic is None else _MANY
    if not entry.required <= count <= most:
        bounds = _bounds(entry.required, most)
        raise ModelError(f"{info} has {count} inputs; {entry.function.__qualname__} takes {bounds}")


def _check_known(info: NodeInfo, given: Collection[str], known: Collection[str], refusal: str) -> None:
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ModelError(
            f"{info} has the attribute {', '.join(map(repr, unknown))}, which {refusal}; "
            f"its attributes: {', '.join(sorted(known)) or 'none'}"
        )


def _check_required(info: NodeInfo, given: Collection[str], required: Iterable[str]) -> None:
    missing = sorted(set(required) - set(given))
    if missing:
        raise ModelError(f"{info} lacks the attribute {', '.join(map(repr, missing))}, which is required")


def _bounds(least: int, most: int) -> str:
    return str(least) if least == most else f"{least} to {most}" if most < _MANY else f"{least} or more"


def check_types(schema: defs.OpSchema, info: NodeInfo, types: Sequence[str | None]) -> dict[str, str]:
    """Refuse input types that the operator version does not take; returns what its type variables stand for."""
    allowed = _type_variables(schema)
    bound: dict[str, str] = {}
    for formal, value_type in zip(expanded(schema.inputs, len(types)), types, strict=True):
        if value_type is None:
            continue
        variable = formal.type_str
        options = allowed.get(variable, [of_schema(variable)])
        if value_type not in options:
            raise ModelError(
                f"{info}: input {formal.name!r} is {value_type}; this version (since opset {schema.since_version}) "
                f"takes {_listed(options)}"
            )
        if formal.option == Option.Variadic and not formal.is_homogeneous:
            continue
        if bound.setdefault(variable, value_type) != value_type:
            raise ModelError(
                f"{info}: input {formal.name!r} is {value_type}, but must be {bound[variable]} like the others"
            )
    return bound


def _listed(options: Iterable[str]) -> str:
    """Types in few words: many are grouped by what holds their element type T."""
    names = sorted(options)
    if len(names) <= _MOST_LISTED:
        return ", ".join(names)
    elements: dict[str, list[str]] = {}
    for name in names:
        before, _, rest = name.rpartition("tensor(")
        element, _, after = rest.partition(")")
        elements.setdefault(f"{before}tensor(T){after}", []).append(element)
    holders: dict[str, list[str]] = {}
    for holder, some in elements.items():
        holders.setdefault(", ".join(some), []).append(holder)
    return "; ".join(f"{', '.join(some)} with T {told}" for told, some in holders.items())


def output_types(
    schema: defs.OpSchema,
    node: ir.Node,
    attributes: Mapping[str, ir.Attr],
    info: NodeInfo,
    types: Sequence[str | None] | None,
    bound: Mapping[str, str],
) -> list[str | None]:
    """The types of a node's outputs: from the schema's type variables, else from ONNX's own inference.

    Args:
        schema, node, attributes, info: the node and its operator version.
        types: the inputs' types, None for an omitted one; None where some are not known.
        bound: what the schema's type variables stand for.
    """
    allowed = _type_variables(schema)
    result: list[str | None] = []
    for formal in expanded(schema.outputs, len(node.outputs)):
        options = allowed.get(formal.type_str, [of_schema(formal.type_str)])
        variadic = formal.option == Option.Variadic and not formal.is_homogeneous
        if formal.type_str in bound and not variadic:
            result.append(bound[formal.type_str])
        elif len(options) == 1:
            result.append(options[0])
        else:
            result.append(None)
    if None in result and types is not None:
        inferred = _infer(schema, node, attributes, info, {i: to_proto(t) for i, t in enumerate(types) if t}, {})
        result = [known or (of_proto(proto) if proto else None) for known, proto in zip(result, inferred, strict=True)]
    return result


def declared_types(
    entry: Operator, info: NodeInfo, types: Sequence[str | None], attributes: Mapping[str, Any], count: int
) -> list[str | None]:
    """The output types that an entry declares itself, ``count`` of them."""
    if callable(entry.types):
        try:
            declared = list(entry.types(types, attributes))
        except ModelError:
            raise
        except ValueError as error:
            raise ModelError(f"{info}: {error}") from error
        except Exception as error:
            raise ModelError(f"{info}: the output types cannot be told: {type(error).__name__}: {error}") from error
    else:
        by_name = dict(zip((*entry.inputs, entry.variadic), types, strict=False))  # of a variadic input the first
        declared = [text if "(" in text else by_name.get(text) for text in entry.types or ()]
    return (declared + [None] * count)[:count]


def predicted_bytes(
    schema: defs.OpSchema,
    node: ir.Node,
    attributes: Mapping[str, ir.Attr],
    info: NodeInfo,
    values: Sequence[Any],
    types: Sequence[str | None],
) -> int | None:
    """The bytes of the largest output of a node on constant inputs, before it is computed; None where unknown."""
    protos, data = {}, {}
    for i, (value, value_type) in enumerate(zip(values, types, strict=True)):
        if isinstance(value, np.ndarray) and value_type is not None and is_tensor(value_type):
            protos[i] = to_proto(value_type, value.shape)
            if value.size <= 1024 and value.dtype != object:
                data[i] = numpy_helper.from_array(value)
    sizes = []
    for proto in _infer(schema, node, attributes, info, protos, data):
        value_type = None if proto is None else of_proto(proto)
        if proto is None or value_type is None or not is_tensor(value_type) or not proto.tensor_type.HasField("shape"):
            return None
        size = dtype_of(value_type).itemsize
        for dim in proto.tensor_type.shape.dim:
            if not dim.HasField("dim_value"):
                return None
            size *= dim.dim_value
        sizes.append(size)
    return max(sizes, default=None)


def node_proto(node: ir.Node, attributes: Mapping[str, ir.Attr], info: NodeInfo) -> onnx.NodeProto:
    """The node as a proto, its references to function attributes resolved, inputs and outputs named by position."""
    proto = helper.make_node(
        info.op_type,
        ["" if value is None else f"i{i}" for i, value in enumerate(node.inputs)],
        [f"o{i}" if value.name else "" for i, value in enumerate(node.outputs)],
        domain=info.domain,
    )
    proto.attribute.extend(ir.serde.serialize_attribute(_slim(attribute)) for attribute in attributes.values())
    return proto


def _slim(attribute: ir.Attr) -> ir.Attr:
    """The attribute, without the data of a large tensor: inference needs its type alone."""
    tensor: Any = attribute.value
    if attribute.type is not ir.AttributeType.TENSOR or tensor.size <= 1024:
        return attribute
    return ir.AttrTensor(attribute.name, ir.Tensor(np.empty(0, tensor.dtype.numpy()), dtype=tensor.dtype))


def _infer(
    schema: defs.OpSchema,
    node: ir.Node,
    attributes: Mapping[str, ir.Attr],
    info: NodeInfo,
    protos: Mapping[int, onnx.TypeProto],
    data: Mapping[int, onnx.TensorProto],
) -> list[onnx.TypeProto | None]:
    """ONNX's inference for one node; None for each output that it says nothing of."""
    try:
        found = infer_node_outputs(
            schema,
            node_proto(node, attributes, info),
            {f"i{i}": proto for i, proto in protos.items()},
            {f"i{i}": tensor for i, tensor in data.items()},
            opset_imports=[helper.make_opsetid(info.domain, info.opset)],
        )
    except (InferenceError, ValidationError, RuntimeError, ValueError, LookupError):
        return [None] * len(node.outputs)
    return [found.get(f"o{i}") for i in range(len(node.outputs))]
