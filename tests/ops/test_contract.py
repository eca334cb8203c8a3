"""Every entry takes what the schema of every version that it serves says."""

from __future__ import annotations

from inspect import Parameter
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, defs, helper

from onemodel.ops import registry

OLDEST = 6
OPTIONAL = defs.OpSchema.FormalParameterOption.Optional
VARIADIC = defs.OpSchema.FormalParameterOption.Variadic


def _versions() -> list[tuple[Any, int]]:
    """Every schema version of every registered operator, with the first opset from 6 on at which it holds."""
    by_name: dict[tuple[str, str], list[Any]] = {}
    for schema in defs.get_all_schemas_with_history():
        by_name.setdefault((schema.domain, schema.name), []).append(schema)
    served = []
    for key, schemas in sorted(by_name.items()):
        if key not in registry.table():
            continue
        schemas.sort(key=lambda schema: schema.since_version)
        oldest = OLDEST if key[0] == "" else 1
        for schema, following in zip(schemas, [*schemas[1:], None], strict=True):
            # What ONNX removed has no body either; GroupNormalization 18 is deprecated, but there.
            removed = schema.deprecated and not schema.context_dependent_function_opset_versions
            if removed or (following is not None and following.since_version <= oldest):
                continue
            served.append((schema, max(schema.since_version, oldest)))
    return served


def _default(attribute: Any) -> Any:
    if attribute.required:
        return Parameter.empty
    if attribute.default_value.type == AttributeProto.UNDEFINED:
        return None
    value = helper.get_attribute_value(attribute.default_value)
    if isinstance(value, list):
        value = tuple(value)
    if isinstance(value, tuple):
        return tuple(item.decode() if isinstance(item, bytes) else item for item in value)
    return value.decode() if isinstance(value, bytes) else value


def _same(ours: Any, theirs: Any) -> bool:
    if isinstance(theirs, float) and isinstance(ours, (int, float)):
        return bool(np.float32(ours) == np.float32(theirs))
    if isinstance(theirs, tuple) and isinstance(ours, tuple):
        return len(ours) == len(theirs) and all(map(_same, ours, theirs))
    return type(ours) is type(theirs) and ours == theirs


def _later(schema: defs.OpSchema) -> list[defs.OpSchema]:
    return [
        other
        for other in defs.get_all_schemas_with_history()
        if (other.domain, other.name) == (schema.domain, schema.name) and other.since_version > schema.since_version
    ]


@pytest.mark.parametrize(
    ("schema", "opset"),
    [pytest.param(s, o, id=f"{s.domain or 'ai.onnx'}-{s.name}-{s.since_version}") for s, o in _versions()],
)
def test_contract(schema: defs.OpSchema, opset: int) -> None:
    entry = registry.find(schema.domain, schema.name, opset)
    assert entry is not None, f"no meaning at opset {opset}"
    assert "xp" in entry.extras or schema.name in ("If", "Loop"), "xp is missing"

    formal = list(schema.inputs)
    if formal and formal[-1].option == VARIADIC:
        assert entry.variadic is not None, "the last input is variadic"
        formal.pop()
    else:
        assert entry.variadic is None, f"no input is variadic; *{entry.variadic}"
    assert len(entry.inputs) >= len(formal), f"inputs are {[f.name for f in formal]}"
    if entry.variadic is None:
        for position, parameter in enumerate(formal):
            optional = parameter.option == OPTIONAL
            if optional:
                assert position >= entry.required, f"input {parameter.name} is optional"
        needed = sum(parameter.option != OPTIONAL for parameter in formal)
        assert entry.required <= needed, f"{needed} inputs are required"
    for name in entry.inputs[len(formal) :]:
        position = entry.inputs.index(name)
        assert any(
            len(later.inputs) > position and later.inputs[position].option == OPTIONAL for later in _later(schema)
        ), f"input {name} is in no version"

    ours = dict(entry.attributes)
    for name, attribute in schema.attributes.items():
        assert name in ours, f"attribute {name} is missing"
        default = ours.pop(name)
        theirs = _default(attribute)
        loosened = theirs is Parameter.empty and any(
            name in later.attributes
            and not later.attributes[name].required
            and _same(default, _default(later.attributes[name]))
            for later in _later(schema)
        )
        assert _same(default, theirs) or loosened, f"attribute {name}: default {default!r}, the schema's is {theirs!r}"
    for name, default in ours.items():
        assert any(
            name in later.attributes and _same(default, _default(later.attributes[name])) for later in _later(schema)
        ), f"attribute {name} is in no version with default {default!r}"


def test_every_entry_is_an_operator_of_onnx() -> None:
    known = {(schema.domain, schema.name) for schema in onnx.defs.get_all_schemas_with_history()}
    strange = [
        entry.key for entry in registry.entries() if entry.domain in ("", "ai.onnx.ml") and entry.key not in known
    ]
    assert strange == []
