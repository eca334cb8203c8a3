"""Every operator in exact mode, alone and inside If, Loop and a local function: the same bits, or refused by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import onemodel
from onemodel.ops import registry
from tests.exact.rationals import same_bits
from tests.ops import test_image, test_training
from tests.ops.harness import LATEST, model
from tests.oracle import chapters
from tests.oracle.draw import ENTRIES, case

chapters.load()

SEEDS = 4
"""Cases of each operator; they take its versions in turn."""

RANDOM_SEEDS = 16
"""Cases of random operators, of which Dropout draws in few."""

UNSEEDED = "draws random numbers without a seed; the node's attribute or Session(seed=...) gives one"
REFUSED = {
    "ImageDecoder": "the pixels of lossy formats depend on the version of the decoding library",
    "Bernoulli": UNSEEDED,
    "Dropout": UNSEEDED,
    "Multinomial": UNSEEDED,
    "RandomNormal": UNSEEDED,
    "RandomNormalLike": UNSEEDED,
    "RandomUniform": UNSEEDED,
    "RandomUniformLike": UNSEEDED,
}
"""All that exact mode refuses, and why; the random ones only without a seed, Dropout only in training."""

ELSEWHERE = {"CastMap", "DictVectorizer"}
"""Operators on maps, of which no case is drawn; they are made by hand below."""

Model = tuple[onnx.ModelProto, dict[str, Any]]


def _drawn(op: str, seed: int) -> Model:
    drawn = case(op, seed)
    proto = drawn.model
    if REFUSED.get(op) == UNSEEDED:
        kept = [attribute for attribute in proto.graph.node[0].attribute if attribute.name != "seed"]
        del proto.graph.node[0].attribute[:]
        proto.graph.node[0].attribute.extend(kept)
    return proto, {f"x{i}": value for i, value in enumerate(drawn.inputs) if value is not None}


def _by_hand(op: str) -> Model:
    """A case of an operator that has no entry among the drawn ones."""
    if op == "ImageDecoder":
        data = test_image.encoded(test_image.GREY, "PNG")
        return model(op, [data]), {"x0": data}
    if op in ELSEWHERE:
        keys = "map(int64,tensor(float))" if op == "CastMap" else "map(string,tensor(float))"
        options: dict[str, Any] = {} if op == "CastMap" else {"string_vocabulary": ["a", "b"]}
        given = {1: 1.5} if op == "CastMap" else {"b": 2.5}
        kinds = {"input_types": [keys], "domain": "ai.onnx.ml", "opset": 3}
        return model(op, [given], **kinds, **options), {"x0": given}
    arrays = [np.float32(0.1), np.array(2), *test_training.tensors(op, (3, 2))]
    options = test_training.TRAINING | (test_training.MOMENTUM if op == "Momentum" else {})
    outputs = 1 + test_training.STATES[op]
    return model(op, arrays, outputs=outputs, **options), {f"x{i}": value for i, value in enumerate(arrays)}


@cache
def _operators() -> tuple[str, ...]:
    return tuple(sorted(name for _, name in registry.table()))


def _models(op: str) -> Iterator[Model]:
    """Models of one node that fast mode runs."""
    seeds = range(RANDOM_SEEDS if REFUSED.get(op) == UNSEEDED else SEEDS)
    for given in [_drawn(op, seed) for seed in seeds] if op in ENTRIES else [_by_hand(op)]:
        try:
            onemodel.Session(given[0], mode="fast", seed=1).run(None, given[1])
        except onemodel.OneModelError:
            continue
        yield given


# Places for a node


def _within(proto: onnx.ModelProto, nodes: list[Any], outputs: list[str], functions: Any = ()) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes, "around", list(proto.graph.input), [onnx.ValueInfoProto(name=name) for name in outputs]
    )
    imports = [*proto.opset_import, *([helper.make_opsetid("walk", 1)] if functions else [])]
    if "" not in {entry.domain for entry in imports}:
        imports.append(helper.make_opsetid("", LATEST))
    return helper.make_model(graph, opset_imports=imports, ir_version=proto.ir_version, functions=list(functions))


def _names(proto: onnx.ModelProto) -> list[str]:
    return [output.name for output in proto.graph.output]


def _condition() -> onnx.NodeProto:
    value = helper.make_tensor("true", onnx.TensorProto.BOOL, [], [True])
    return helper.make_node("Constant", [], ["walk_true"], value=value)


def alone(proto: onnx.ModelProto) -> onnx.ModelProto:
    return proto


def in_if(proto: onnx.ModelProto) -> onnx.ModelProto:
    body = helper.make_graph(list(proto.graph.node), "body", [], list(proto.graph.output))
    outputs = [f"walk_{name}" for name in _names(proto)]
    node = helper.make_node("If", ["walk_true"], outputs, "around", then_branch=body, else_branch=body)
    return _within(proto, [_condition(), node], outputs)


def in_loop(proto: onnx.ModelProto) -> onnx.ModelProto:
    """One trip; what the node makes becomes stacked."""
    inputs = [
        helper.make_tensor_value_info("walk_at", onnx.TensorProto.INT64, []),
        helper.make_tensor_value_info("walk_before", onnx.TensorProto.BOOL, []),
        helper.make_tensor_value_info("walk_carried", onnx.TensorProto.BOOL, []),
    ]
    after = [helper.make_node("Identity", [name], [f"{name}_on"]) for name in ("walk_before", "walk_carried")]
    given = [*(onnx.ValueInfoProto(name=node.output[0]) for node in after), *proto.graph.output]
    body = helper.make_graph([*after, *proto.graph.node], "body", inputs, given)
    count = helper.make_node(
        "Constant", [], ["walk_count"], value=helper.make_tensor("one", onnx.TensorProto.INT64, [], [1])
    )
    outputs = [f"walk_{name}" for name in _names(proto)]
    inner = ["walk_count", "walk_true", "walk_true"]
    node = helper.make_node("Loop", inner, ["walk_last", *outputs], "around", body=body)
    return _within(proto, [_condition(), count, node], outputs)


def in_function(proto: onnx.ModelProto) -> onnx.ModelProto:
    imports = [*proto.opset_import]
    if "" not in {entry.domain for entry in imports}:
        imports.append(helper.make_opsetid("", LATEST))
    inputs = [value.name for value in proto.graph.input]
    function = helper.make_function("walk", "F", inputs, _names(proto), list(proto.graph.node), imports)
    outputs = [f"walk_{name}" for name in _names(proto)]
    return _within(proto, [helper.make_node("F", inputs, outputs, "around", domain="walk")], outputs, [function])


PLACES: tuple[Callable[[onnx.ModelProto], onnx.ModelProto], ...] = (in_if, in_loop, in_function)


def _equal(got: Any, want: Any) -> None:
    if isinstance(want, list):
        assert len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            _equal(a, b)
    elif not isinstance(want, np.ndarray) or want.dtype == object:
        assert np.array_equal(got, want)
    elif want.dtype.name.startswith("float4") or want.dtype.kind in "iubc" or "int" in want.dtype.name:
        assert (got.dtype, got.shape, got.tobytes()) == (want.dtype, want.shape, want.tobytes())
    else:
        same_bits(got, want)


@pytest.mark.parametrize("op", _operators())
def test_an_operator_runs_everywhere_or_is_refused_everywhere(op: str) -> None:
    refused = 0
    models = list(_models(op))
    assert models, "no case runs"
    for proto, feeds in models:
        try:
            want = onemodel.Session(proto, mode="exact").run(None, feeds)
        except onemodel.InexactOperatorError as error:
            refused += 1
            _check_refusals(op, proto, error)
            if REFUSED[op] != UNSEEDED:
                continue
            want = onemodel.Session(proto, mode="exact", seed=1).run(None, feeds)
        tensors = all(isinstance(value, np.ndarray) for value in want)
        for place in PLACES:
            if place is in_loop and not tensors:
                continue
            got = onemodel.Session(place(proto), mode="exact", seed=1).run(None, feeds)
            if place is in_loop:
                got = [value[0, ...] for value in got]
            if REFUSED.get(op) == UNSEEDED:
                # The place of a node in its model is part of its key.
                assert [value.shape for value in got] == [value.shape for value in want]
            else:
                _equal(got, want)
    assert bool(refused) == (op in REFUSED)


def _check_refusals(op: str, proto: onnx.ModelProto, error: onemodel.InexactOperatorError) -> None:
    """By name, with the reason, in every place."""
    for place in (alone, *PLACES):
        with pytest.raises(onemodel.InexactOperatorError) as raised:
            onemodel.Session(place(proto), mode="exact")
        text = str(raised.value)
        assert text.endswith('The session is exact; it runs with mode="fast"')
        assert f"node 'node' (ai.onnx::{op} at opset" in text
        assert REFUSED[op] in text
        assert {node.op_type for node in raised.value.nodes} == {op}


def test_the_list_is_of_operators() -> None:
    assert set(REFUSED) <= set(_operators())
    assert set(_operators()) >= ELSEWHERE
