"""Sequences and optionals."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import onemodel
from onemodel import types
from tests.ops import harness
from tests.ops.harness import check, like_onnxruntime, refused, run, run_model, same

F = np.float32
A, B, C = np.array([1, 2], F), np.zeros((2, 2), F), np.array(5, F)


def sequence(dtype: Any) -> list[Any]:
    if dtype is object:
        return [np.array(["a"], object), np.array(["b", "c"], object)]
    return [np.ones(2).astype(dtype), np.zeros((1, 2)).astype(dtype)]


DTYPES = [np.float32, np.int64, np.bool_, np.float16, object, ml_dtypes.bfloat16]


# Items


@pytest.mark.parametrize("dtype", DTYPES[:-1])
def test_construct(dtype: Any) -> None:
    items = sequence(dtype)
    check(items, "SequenceConstruct", *items)
    check([items[0]], "SequenceConstruct", items[0])


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("position", [0, 2, -1, -3])
def test_at(position: int, index: Any) -> None:
    check([A, B, C][position], "SequenceAt", [A, B, C], np.array(position, index))


@pytest.mark.parametrize("dtype", DTYPES[:-1])
def test_length_and_at_of_all_types(dtype: Any) -> None:
    items = sequence(dtype)
    check(np.array(2), "SequenceLength", items)
    check(items[1], "SequenceAt", items, np.array(1))


@pytest.mark.parametrize("position", [0, 1, 3, -1, -3])
def test_insert(position: int) -> None:
    want: list[Any] = [A, B, C]
    want.insert(position, A + 1)
    check(want, "SequenceInsert", [A, B, C], A + 1, np.array(position))


def test_erase_and_insert_at_the_end() -> None:
    check([A, B, C, A], "SequenceInsert", [A, B, C], A)
    check([A, B], "SequenceErase", [A, B, C])
    check([B, C], "SequenceErase", [A, B, C], np.array(0))
    check([A, C], "SequenceErase", [A, B, C], np.array(-2))
    check([], "SequenceErase", [A])


def test_positions_out_of_range_are_refused() -> None:
    for position in (3, -4):
        refused("it goes from -3 to 2", "SequenceAt", [A, B, C], np.array(position))
        refused("it goes from -3 to 2", "SequenceErase", [A, B, C], np.array(position))
    for position in (4, -4):
        refused("it goes from -3 to 3", "SequenceInsert", [A, B, C], A, np.array(position))


def chain(nodes: list[onnx.NodeProto], outputs: list[onnx.ValueInfoProto], **inputs: str) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes, "chain", [helper.make_value_info(name, types.to_proto(kind)) for name, kind in inputs.items()], outputs
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("dtype", [None, TensorProto.INT64, TensorProto.STRING])
def test_an_empty_sequence(dtype: int | None) -> None:
    nodes = [
        helper.make_node("SequenceEmpty", [], ["s"], **({} if dtype is None else {"dtype": dtype})),
        helper.make_node("SequenceLength", ["s"], ["n"]),
    ]
    proto = chain(nodes, [onnx.ValueInfoProto(name="s"), onnx.ValueInfoProto(name="n")])
    same(run_model(proto), [[], np.array(0)])


def test_sequences_are_never_changed() -> None:
    """Each of two operators that take the same sequence sees it whole."""
    nodes = [
        helper.make_node("SequenceConstruct", ["x0", "x0"], ["s"]),
        helper.make_node("SequenceErase", ["s"], ["t"]),
        helper.make_node("SequenceInsert", ["s", "x0"], ["u"]),
        helper.make_node("SequenceLength", ["s"], ["n"]),
    ]
    proto = chain(nodes, [onnx.ValueInfoProto(name=name) for name in "stun"], x0="tensor(float)")
    same(run_model(proto, A), [[A, A], [A], [A, A, A], np.array(2)])
    given = [A, B]
    onemodel.Session(harness.model("SequenceErase", [given]), mode="fast").run(None, {"x0": given})
    assert len(given) == 2


# To and from tensors


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concat_from_sequence(axis: int) -> None:
    items = [np.arange(4, dtype=F).reshape(2, 2), np.ones((2, 2), F)]
    check(np.concatenate(items, axis), "ConcatFromSequence", items, axis=axis)
    check(np.stack(items, axis), "ConcatFromSequence", items, axis=axis, new_axis=1)
    like_onnxruntime("ConcatFromSequence", items, axis=axis, new_axis=1)


def test_concat_from_sequence_at_the_edges() -> None:
    check(np.stack([C, C]), "ConcatFromSequence", [C, C], axis=0, new_axis=1)
    check(np.stack([A, A], -2), "ConcatFromSequence", [A, A], axis=-2, new_axis=1)
    refused("axis 2 is not one of 2 axes", "ConcatFromSequence", [A, A], axis=2, new_axis=1)
    refused("must agree in every axis", "ConcatFromSequence", [B, np.zeros((1, 1), F)], axis=0)
    proto = harness.model("ConcatFromSequence", [[A]], axis=0)
    with pytest.raises(onemodel.ExecutionError, match="the sequence is empty"):
        onemodel.Session(proto, mode="fast").run(None, {"x0": []})


@pytest.mark.parametrize("dtype", DTYPES[:-1])
@pytest.mark.parametrize(("axis", "length"), [(0, 5), (1, 4), (-1, 4)])
def test_split_to_sequence(axis: int, length: int, dtype: Any) -> None:
    x = np.arange(20).reshape(5, 4)
    x = x.astype(str).astype(object) if dtype is object else x.astype(dtype)
    ones = np.split(x, length, axis)
    check(ones, "SplitToSequence", x, axis=axis)
    check([one.squeeze(axis) for one in ones], "SplitToSequence", x, axis=axis, keepdims=0)
    twos = np.split(x, [2, 4] if length == 5 else [2], axis)
    check(twos, "SplitToSequence", x, np.array(2), axis=axis)
    check(np.split(x, [1], axis), "SplitToSequence", x, np.array([1, length - 1], np.int32), axis=axis, keepdims=0)
    check(np.split(x, [0, 0], axis), "SplitToSequence", x, np.array([0, 0, length]), axis=axis)


def test_split_to_sequence_refuses() -> None:
    refused("add up to 2", "SplitToSequence", A, np.array([1, 2]))
    refused("split 0 must be positive", "SplitToSequence", A, np.array(0))
    refused("axis 1 is not one of 1 axes", "SplitToSequence", A, axis=1, error=onemodel.OneModelError)


# Optionals


@pytest.mark.parametrize("opset", [15, 18, harness.LATEST])
@pytest.mark.parametrize("kind", ["tensor(float)", "seq(tensor(float))"])
def test_optionals(kind: str, opset: int) -> None:
    given: Any = A if kind.startswith("tensor") else [A, B]
    nodes = [
        helper.make_node("Optional", ["x0"], ["full"]),
        helper.make_node("Optional", [], ["empty"], type=types.to_proto(kind)),
        helper.make_node("OptionalHasElement", ["full"], ["yes"]),
        helper.make_node("OptionalHasElement", ["empty"], ["no"]),
        helper.make_node("OptionalGetElement", ["full"], ["y"]),
    ]
    names = ("yes", "no", "y", "full", "empty")
    proto = chain(nodes, [onnx.ValueInfoProto(name=name) for name in names], x0=kind)
    proto.opset_import[0].version = opset
    same(run_model(proto, given), [np.array(True), np.array(False), given, given, None])


@pytest.mark.parametrize("opset", [18, harness.LATEST])
def test_from_opset_18_tensors_and_sequences_count_as_elements(opset: int) -> None:
    for given in (A, [A, B]):
        check(np.array(True), "OptionalHasElement", given, opset=opset)
        check(given, "OptionalGetElement", given, opset=opset)
    nodes = [helper.make_node("OptionalHasElement", inputs, [name]) for inputs, name in (([], "a"), ([""], "b"))]
    proto = chain(nodes, [onnx.ValueInfoProto(name="a"), onnx.ValueInfoProto(name="b")])
    same(run_model(proto), [np.array(False), np.array(False)])


def test_fed_optionals() -> None:
    kind = "optional(tensor(float))"
    proto = harness.model("OptionalHasElement", [A], input_types=[kind])
    session = onemodel.Session(proto, mode="fast")
    assert session.run(None, {"x0": None}) == [np.array(False)]
    assert session.run(None, {"x0": A}) == [np.array(True)]
    proto = harness.model("OptionalGetElement", [A], input_types=[kind])
    session = onemodel.Session(proto, mode="fast")
    same(session.run(None, {"x0": A}), [A])
    with pytest.raises(onemodel.ExecutionError, match="the optional is empty"):
        session.run(None, {"x0": None})


def test_an_optional_needs_a_value_or_a_type() -> None:
    proto = chain([helper.make_node("Optional", [], ["y"], "node")], [onnx.ValueInfoProto(name="y")])
    with pytest.raises(onemodel.OneModelError, match="attribute type"):
        onemodel.Session(proto, mode="fast").run(None, {})


@pytest.mark.parametrize(
    ("op", "inputs", "options"),
    [
        ("SequenceConstruct", [A, B], {}),
        ("SequenceAt", [[A, B], np.array(0)], {}),
        ("SequenceErase", [[A, B]], {}),
        ("SequenceInsert", [[A, B], A], {}),
        ("ConcatFromSequence", [[A, A]], {"axis": 0}),
        ("SplitToSequence", [A], {}),
        ("OptionalGetElement", [A], {}),
    ],
)
def test_exact_mode_moves_items(op: str, inputs: list[Any], options: dict[str, Any]) -> None:
    onemodel.Session(harness.model(op, inputs, **options), mode="exact")
    run(op, *inputs, **options)
