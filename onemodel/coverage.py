"""Which operators run, from which opset on, and in which mode: the table behind ``onemodel ops``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import onnx
from onnx import defs, helper

from onemodel import exactness
from onemodel.errors import OneModelError
from onemodel.gradient import TRAINING
from onemodel.ops import registry
from onemodel.ops.registry import Operator
from onemodel.session import Session
from onemodel.types import inner, to_proto

OWN = "own entry"
BODY = "ONNX function body"
CHAIN_RULE = "nodes of the chain rule"
NOT_YET = "-"

_FLOATS = ("tensor(float)", "tensor(double)", "tensor(float16)", "tensor(bfloat16)", "tensor(complex64)")
_INTEGERS = ("tensor(int64)", "tensor(int32)", "tensor(uint8)", "tensor(int8)", "tensor(bool)", "tensor(uint64)")
_ON_FLOATS = _FLOATS + _INTEGERS
_ON_INTEGERS = _INTEGERS + _FLOATS


@dataclass(frozen=True)
class Row:
    """How far one operator is covered.

    Attributes:
        domain: ``ai.onnx`` and so on.
        name: the operator's name.
        opsets: those that brought a meaning that OneModel runs.
        runs: ``"own entry"``, ``"ONNX function body"``, ``"nodes of the chain rule"`` (Gradient) or ``"-"``.
        exact: ``"yes"``, ``"no"``, ``"ints only"``; ``"-"`` where the operator does not run.
        deprecated: the opset from which ONNX has it no more, or None.
    """

    domain: str
    name: str
    opsets: tuple[int, ...]
    runs: str
    exact: str
    deprecated: int | None = None


def table() -> tuple[Row, ...]:
    """One row for each operator that ONNX defines or OneModel has an entry for, in order of domain and name."""
    schemas: dict[tuple[str, str], list[defs.OpSchema]] = {}
    for schema in defs.get_all_schemas_with_history():
        schemas.setdefault((schema.domain, schema.name), []).append(schema)
    entries = registry.table()
    return tuple(
        _row(domain, name, schemas.get((domain, name), []), entries.get((domain, name), {}))
        for domain, name in sorted({*schemas, *entries})
    )


def _row(domain: str, name: str, schemas: list[defs.OpSchema], entries: Mapping[int, Operator]) -> Row:
    schemas = sorted(schemas, key=lambda schema: schema.since_version)
    deprecated = schemas[-1].since_version if schemas and schemas[-1].deprecated else None
    live = [schema for schema in schemas if not schema.deprecated]
    if entries:
        exact = _exact_entry(entries[max(entries)], live[-1] if live else None)
        return Row(domain or "ai.onnx", name, tuple(sorted(entries)), OWN, exact, deprecated)
    if (domain, name) == (TRAINING, "Gradient"):
        return Row(domain, name, (1,), CHAIN_RULE, "yes")
    bodies = {opset: schema for schema in live for opset in _body_opsets(schema)}
    opsets = tuple(opset for opset in sorted(bodies) if _plans(_node_model(bodies[opset], opset, _ON_FLOATS), "fast"))
    if not opsets:
        return Row(domain or "ai.onnx", name, (), NOT_YET, NOT_YET, deprecated)
    newest = opsets[-1]
    models = (_node_model(bodies[newest], newest, preferred) for preferred in (_ON_FLOATS, _ON_INTEGERS))
    exact = next(
        (word for word, model in zip(("yes", "ints only"), models, strict=True) if _plans(model, "exact")), "no"
    )
    return Row(domain or "ai.onnx", name, opsets, BODY, exact, deprecated)


def _exact_entry(entry: Operator, schema: defs.OpSchema | None) -> str:
    if schema is None:
        return "no" if exactness.refusal(entry, [None]) else "yes"
    if exactness.refusal(entry, _types(schema, _ON_FLOATS)) is None:
        return "yes"
    return "no" if exactness.refusal(entry, _types(schema, _ON_INTEGERS)) else "ints only"


def _types(schema: defs.OpSchema, preferred: Iterable[str]) -> list[str]:
    """Types of all inputs and outputs, of ``preferred`` where there is a choice."""
    allowed = {constraint.type_param_str: constraint.allowed_type_strs for constraint in schema.type_constraints}
    options = [allowed.get(formal.type_str, [formal.type_str]) for formal in (*schema.inputs, *schema.outputs)]
    return [next((value_type for value_type in preferred if value_type in some), some[0]) for some in options]


def _body_opsets(schema: defs.OpSchema) -> list[int]:
    # onnx's stubs lack the attribute.
    versions: list[int] = schema.all_function_opset_versions  # type: ignore[attr-defined]
    return versions


def _plans(model: onnx.ModelProto, mode: str) -> bool:
    try:
        Session(model, mode=mode)
    except OneModelError:
        return False
    return True


def _node_model(schema: defs.OpSchema, opset: int, preferred: Iterable[str]) -> onnx.ModelProto:
    """A model of one node with every input and output, and some value for each required attribute."""
    types = _types(schema, preferred)
    given = types[: len(schema.inputs)]
    inputs = [helper.make_value_info(f"input{i}", to_proto(each)) for i, each in enumerate(given)]
    outputs = [helper.make_empty_tensor_value_info(f"output{i}") for i in range(len(schema.outputs))]
    node = helper.make_node(
        schema.name, [value.name for value in inputs], [value.name for value in outputs], domain=schema.domain
    )
    kinds = defs.OpSchema.AttrType
    values: dict[Any, Any] = {kinds.INT: 2, kinds.FLOAT: 1.0, kinds.INTS: [2], kinds.FLOATS: [1.0], kinds.STRING: ""}
    values[kinds.GRAPH] = helper.make_graph(
        [helper.make_node("Identity", ["item0"], ["result"])],
        "body",
        [helper.make_value_info(f"item{i}", to_proto(_item(each))) for i, each in enumerate(given)],
        [helper.make_value_info("result", to_proto(_item(given[0])))],
    )
    for name, attribute in schema.attributes.items():
        if attribute.required and attribute.type in values:
            node.attribute.append(helper.make_attribute(name, values[attribute.type]))
    imports = {"": _newest(), schema.domain: opset}
    return helper.make_model(
        helper.make_graph([node], schema.name, inputs, outputs),
        opset_imports=[helper.make_opsetid(*item) for item in imports.items()],
    )


def _item(value_type: str) -> str:
    return inner(value_type) if value_type.startswith("seq(") else value_type


@cache
def _newest() -> int:
    return max(schema.since_version for schema in defs.get_all_schemas() if not schema.domain)
