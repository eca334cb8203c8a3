"""Subgraphs, sequences, optionals."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper

from onemodel import types
from tests.oracle.draw import Case, Draw, code, draws
from tests.oracle.layers import near
from tests.oracle.shape import ints

FLOAT, BOOL, INT = onnx.TensorProto.FLOAT, onnx.TensorProto.BOOL, onnx.TensorProto.INT64


def body(nodes: Any, inputs: Any, outputs: Any, rank: int | None) -> onnx.GraphProto:
    """A subgraph; inputs and outputs are names of float arrays of ``rank``, or pairs of a scalar's name and type."""

    def declared(entry: Any) -> onnx.ValueInfoProto:
        name, element = entry if isinstance(entry, tuple) else (entry, FLOAT)
        shape = [] if isinstance(entry, tuple) else None if rank is None else [None] * rank
        return helper.make_tensor_value_info(name, element, shape)

    return helper.make_graph(nodes, "body", [*map(declared, inputs)], [*map(declared, outputs)])


node = helper.make_node


@draws("If")
def condition(d: Draw) -> Case:
    """The branches have constants alone: names of the outer graph are the case's inputs, which only a body can see."""
    branches, shape = [], d.shape(0, 3)
    for _ in range(2):
        shape = d.shape(0, 3) if d.opset >= 11 else shape
        array = onnx.numpy_helper.from_array(d.array(np.float32, shape), "")
        branches.append(body([node("Constant", [], ["y"], value=array)], [], ["y"], len(shape)))
    cond = np.array(d.chance()) if d.chance(0.7) else np.array([d.chance()])
    return d.case(cond, then_branch=branches[0], else_branch=branches[1])


@draws("Loop")
def loop(d: Draw) -> Case:
    """A state, doubled and added to, while it is small; its values are collected."""
    nodes = [
        node("Cast", ["i"], ["step"], to=FLOAT),
        node("Add", ["state", "state"], ["twice"]),
        node("Add", ["twice", "step"], ["next"]),
        node("ReduceMax", ["next"], ["most"], keepdims=0),
        node("Constant", [], ["limit"], value=onnx.numpy_helper.from_array(np.array(d.pick(1, 20, 1000), np.float32))),
        node("Less", ["most", "limit"], ["go"]),
        node("Identity", ["next"], ["seen"]),
    ]
    trips, cond = ints(d.integer(0, 5)), np.array(d.chance(0.85))
    state = near(d, np.float32, d.integers(1, 3, d.integer(1, 2)))
    graph = body(nodes, [("i", INT), ("go_in", BOOL), "state"], [("go", BOOL), "next", "seen"], state.ndim)
    return d.case(trips, cond if d.chance(0.8) else None, state, outputs=2, body=graph)


@draws("Scan")
def scan(d: Draw) -> Case:
    """A running sum of the slices; opset 8 has a batch axis in front."""
    nodes = [node("Add", ["state", "x"], ["next"]), node("Identity", ["next"], ["seen"])]
    steps, shape = d.integer(1, 4), d.integers(1, 3, d.integer(1, 2))
    graph = body(nodes, ["state", "x"], ["next", "seen"], len(shape))
    if d.opset < 9:
        batch = d.integer(1, 2)
        lengths = ints(d.integers(1, steps, batch)) if d.chance() else None
        state, x = near(d, np.float32, (batch, *shape)), near(d, np.float32, (batch, steps, *shape))
        return d.case(lengths, state, x, outputs=2, body=graph, num_scan_inputs=1, directions=d.maybe([0], [1]))
    axis = d.integer(0, len(shape))
    x = near(d, np.float32, (*shape[:axis], steps, *shape[axis:]))
    options: dict[str, Any] = {"scan_input_axes": [axis] if axis else d.maybe([0])}
    options["scan_output_axes"] = d.maybe([d.integer(0, len(shape))])
    options["scan_input_directions"], options["scan_output_directions"] = d.maybe([0], [1]), d.maybe([0], [1])
    return d.case(near(d, np.float32, shape), x, outputs=2, body=graph, num_scan_inputs=1, **options)


@draws("SequenceMap")
def sequence_map(d: Draw) -> Case:
    graph = body([node("Add", ["x", "y"], ["z"])], ["x", "y"], ["z"], None)
    items = [near(d, np.float32, d.shape(1, 2)) for _ in range(d.integer(1, 3))]
    return d.case(items, near(d, np.float32, (1,)), body=graph)


def sequence(d: Draw, least: int = 1) -> list[Any]:
    """A list of arrays of one type and several shapes."""
    dtype = d.pick(*map(np.dtype, ("float32", "float64", "int64", "int32", "bool", "object")))
    return [d.array(dtype, d.shape(0, 3)) for _ in range(d.integer(least, 4))]


def position(d: Draw, count: int, *, end: bool = False) -> Any:
    """A position in a sequence of ``count`` items, counted from either end."""
    return np.array(d.integer(-count, count if end else count - 1), d.pick(np.int32, np.int64))


@draws("SequenceConstruct")
def sequence_construct(d: Draw) -> Case:
    return d.case(*sequence(d))


@draws("SequenceEmpty")
def sequence_empty(d: Draw) -> Case:
    return d.case(dtype=d.maybe(code(np.float32), code(np.int64)))


@draws("SequenceLength")
def sequence_length(d: Draw) -> Case:
    return d.case(sequence(d))


@draws("SequenceAt", "SequenceErase")
def sequence_at(d: Draw) -> Case:
    items = sequence(d)
    at = position(d, len(items))
    return d.case(items, at if d.op == "SequenceAt" else d.maybe(at))


@draws("SequenceInsert")
def sequence_insert(d: Draw) -> Case:
    items = sequence(d)
    return d.case(items, d.array(items[0].dtype, d.shape(0, 3)), d.maybe(position(d, len(items), end=True)))


@draws("SplitToSequence")
def split_to_sequence(d: Draw) -> Case:
    x = d.array(d.dtype(), d.shape(1, 3, empty=False))
    axis = d.axis(x.ndim)
    size = x.shape[axis]
    lengths = [1] * size if d.chance() else [size]
    split = d.maybe(np.array(d.integer(1, size), d.dtype("I")), np.array(lengths, d.dtype("I")))
    return d.case(x, split, axis=axis if axis else d.maybe(0), keepdims=d.maybe(0, 1))


@draws("ConcatFromSequence")
def concat_from_sequence(d: Draw) -> Case:
    dtype, shape, new = d.pick(np.float32, np.int64), list(d.shape(1, 3)), d.maybe(0, 1)
    axis = d.integer(0, len(shape)) if new else d.axis(len(shape))
    items = []
    for _ in range(d.integer(1, 3)):
        if not new:
            shape[axis] = d.size()
        items.append(d.array(dtype, shape))
    return d.case(items, axis=axis, new_axis=new)


@draws("Optional")
def optional(d: Draw) -> Case:
    given = d.pick(sequence(d), d.array(np.float32, d.shape(0, 3)))
    return d.case(given)


@draws("OptionalHasElement", "OptionalGetElement")
def optional_element(d: Draw) -> Case:
    given: Any = d.pick(sequence(d), d.array(np.float32, d.shape(0, 3)))
    inner = types.of_dtype(given[0].dtype if isinstance(given, list) else given.dtype)
    inner = f"seq({inner})" if isinstance(given, list) else inner
    plain = d.opset >= 18 and d.chance()
    return d.case(given, input_types=[inner if plain else f"optional({inner})"])
