"""If, Loop, Scan and SequenceMap: subgraphs, what they capture, and what they carry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import onemodel
from onemodel import types
from tests.ops import harness
from tests.ops.harness import onnxruntime_gives, run_model, same

Value = onnx.ValueInfoProto
FLOAT, INT, BOOL = "tensor(float)", "tensor(int64)", "tensor(bool)"


def value(name: str, value_type: str | None = None, shape: Any = None) -> Value:
    return Value(name=name) if value_type is None else helper.make_value_info(name, types.to_proto(value_type, shape))


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    """A node; names are separated by blanks, an omitted one is ``_``."""
    names = [["" if name == "_" else name for name in text.split()] for text in (inputs, outputs)]
    return helper.make_node(op, *names, **attributes)


def graph(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[Value] = (),
    outputs: Sequence[Value] = (),
    **constants: Any,
) -> onnx.GraphProto:
    tensors = [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    return helper.make_graph(list(nodes), "graph", list(inputs), list(outputs), tensors)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    opset: int = 21,
    **constants: Any,
) -> onnx.ModelProto:
    return helper.make_model(
        graph(nodes, inputs, outputs, **constants), opset_imports=[helper.make_opsetid("", opset)], ir_version=10
    )


def check(want: Any, proto: onnx.ModelProto, *inputs: Any, peer: bool = True) -> None:
    """On every path, and ONNX Runtime where it is right."""
    same(run_model(proto, *inputs), want)
    if peer:
        same(onnxruntime_gives(proto, *inputs), want)


def fails(message: str, proto: onnx.ModelProto, *inputs: Any) -> None:
    with pytest.raises(onemodel.OneModelError, match=message):
        onemodel.Session(proto, mode="fast").run(None, {f"x{i}": x for i, x in enumerate(inputs) if x is not None})


F = np.float32
ONE = np.ones(1, F)


# If


@pytest.mark.parametrize("opset", [6, 11, 13, 16, 21, harness.LATEST])
@pytest.mark.parametrize("cond", [True, False])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_if(shape: tuple[int, ...], cond: bool, opset: int) -> None:
    then = graph([node("Neg", "x1", "t")], outputs=[value("t", FLOAT)])
    other = graph([node("Abs", "x1", "e")], outputs=[value("e", FLOAT)])
    proto = model(
        [node("If", "x0", "y", then_branch=then, else_branch=other)],
        [value("x0", BOOL, shape), value("x1", FLOAT, (2,))],
        [value("y", FLOAT)],
        opset,
    )
    x = np.array([-1, 2], F)
    check(-x if cond else np.abs(x), proto, np.full(shape, cond), x, peer=opset in (11, 13, 16))


@pytest.mark.parametrize("cond", [True, False])
def test_branches_of_other_shapes_and_several_outputs(cond: bool) -> None:
    then = graph([node("Identity", "x1", "a"), node("Size", "x1", "b")], outputs=[value("a", FLOAT), value("b", INT)])
    other = graph([node("Concat", "x1 x1", "a", axis=0)], outputs=[value("a", FLOAT), value("k", INT)], k=np.array(7))
    proto = model(
        [node("If", "x0", "y z", then_branch=then, else_branch=other)],
        [value("x0", BOOL, ()), value("x1", FLOAT, ("n",))],
        [value("y", FLOAT), value("z", INT)],
    )
    check([ONE, np.array(1)] if cond else [np.ones(2, F), np.array(7)], proto, np.array(cond), ONE)


def test_a_branch_may_be_an_outer_value_or_a_constant() -> None:
    then = graph([], outputs=[value("x1", FLOAT)])
    other = graph([], outputs=[value("c", FLOAT)], c=F(5))
    proto = model(
        [node("If", "x0", "y", then_branch=then, else_branch=other)],
        [value("x0", BOOL, ()), value("x1", FLOAT, ())],
        [value("y", FLOAT)],
    )
    check(np.array(3, F), proto, np.array(True), np.array(3, F), peer=False)
    check(np.array(5, F), proto, np.array(False), np.array(3, F), peer=False)


def test_nested_subgraphs_see_all_outer_values_and_the_inner_name_wins() -> None:
    inner = graph([node("Add", "a b", "t"), node("Add", "t x1", "u")], outputs=[value("u", FLOAT)])
    zero = graph([node("Sub", "a a", "v")], outputs=[value("v", FLOAT)])
    middle = graph(
        [node("Mul", "x1 two", "b"), node("If", "x0", "w", then_branch=inner, else_branch=zero)],
        outputs=[value("w", FLOAT)],
        two=F(2),
    )
    shadow = graph([node("Neg", "x1", "a")], outputs=[value("a", FLOAT)])
    proto = model(
        [node("Mul", "x1 ten", "a"), node("If", "x0", "y", then_branch=middle, else_branch=shadow)],
        [value("x0", BOOL, ()), value("x1", FLOAT, ())],
        [value("y", FLOAT)],
        ten=F(10),
    )
    # ONNX Runtime refuses the inner name.
    check(np.array(39, F), proto, np.array(True), np.array(3, F), peer=False)
    check(np.array(-3, F), proto, np.array(False), np.array(3, F), peer=False)


def test_only_the_chosen_branch_runs() -> None:
    bad = graph([node("Reshape", "x1 s", "t")], outputs=[value("t", FLOAT)], s=np.array([7]))
    good = graph([node("Neg", "x1", "e")], outputs=[value("e", FLOAT)])
    proto = model(
        [node("If", "x0", "y", then_branch=bad, else_branch=good)],
        [value("x0", BOOL, ()), value("x1", FLOAT, (2,))],
        [value("y", FLOAT)],
    )
    check(-np.ones(2, F), proto, np.array(False), np.ones(2, F))
    fails("do not fit into shape", proto, np.array(True), np.ones(2, F))


def test_if_refuses() -> None:
    then = graph([node("Neg", "x1", "t")], outputs=[value("t", FLOAT)])
    with_input = graph([node("Neg", "i", "t")], [value("i", FLOAT)], [value("t", FLOAT)])
    inputs = [value("x0", BOOL, None), value("x1", FLOAT, None)]
    proto = model([node("If", "x0", "y", then_branch=then, else_branch=then)], inputs, [value("y", FLOAT)])
    fails("must have one element", proto, np.array([True, False]), ONE)
    fails("must have one element", proto, np.zeros(0, bool), ONE)
    proto = model([node("If", "x0", "y", then_branch=with_input, else_branch=then)], inputs, [value("y", FLOAT)])
    fails("'then_branch' has 1 inputs; this node gives it 0", proto, np.array(True), ONE)
    proto = model([node("If", "x0", "y z", then_branch=then, else_branch=then)], inputs, [value("y"), value("z")])
    fails("1 outputs", proto, np.array(True), ONE)


def test_dtypes_are_inferred_through_branches() -> None:
    then = graph([node("Cast", "x1", "t", to=TensorProto.DOUBLE)], outputs=[value("t")])
    zeros = node("ConstantOfShape", "s", "e", value=onnx.numpy_helper.from_array(np.zeros(1)))
    other = graph([zeros], outputs=[value("e")], s=np.array([2]))
    proto = model(
        [node("If", "x0", "y", then_branch=then, else_branch=other), node("Add", "y c", "z")],
        [value("x0", BOOL, ()), value("x1", FLOAT, None)],
        [value("z", "tensor(double)")],
        c=np.array(1.0),
    )
    check(np.array([2.0]), proto, np.array(True), ONE, peer=False)
    check(np.array([1.0, 1.0]), proto, np.array(False), ONE, peer=False)


# Loop


def counting(
    opset: int = 21, *, m: str = "x0", cond: str = "x1", limit: float = 1e9, shape: tuple[int, ...] | None = ()
) -> onnx.ModelProto:
    """Carries v + 1, goes on while v < limit, and scans v and v + i."""
    body = graph(
        [
            node("Add", "v one", "v_next"),
            node("Less", "v_next limit", "going"),
            node("Cast", "i", "i_float", to=1),
            node("Add", "v i_float", "s"),
            node("Identity", "v_next", "u"),
        ],
        [value("i", INT, ()), value("c", BOOL, ()), value("v", FLOAT, (2,))],
        [value("going", BOOL, ()), value("v_next", FLOAT, (2,)), value("s", FLOAT, (2,)), value("u", FLOAT, (2,))],
        one=F(1),
    )
    body.node.insert(1, node("ReduceMax", "v_next", "most", keepdims=0))
    body.node[2].input[0] = "most"
    return model(
        [node("Loop", f"{m} {cond} x2", "y s u", body=body)],
        [value("x0", INT, shape), value("x1", BOOL, shape), value("x2", FLOAT, (2,))],
        [value("y", FLOAT), value("s", FLOAT), value("u", FLOAT)],
        opset,
        limit=F(limit),
    )


def counted(x: Any, trips: int) -> list[Any]:
    rows = [x + i for i in range(trips)]
    return [
        x + F(trips),
        np.array([row + F(i) for i, row in enumerate(rows)], F).reshape(trips, 2),
        np.array([row + F(1) for row in rows], F).reshape(trips, 2),
    ]


X = np.array([0.5, -1], F)


@pytest.mark.parametrize("opset", [11, 13, 16, 21])
def test_loop_by_count(opset: int) -> None:
    check(counted(X, 4), counting(opset), np.array(4), np.array(True), X)


@pytest.mark.parametrize("shape", [(), (1,)])
def test_loop_while_the_condition_holds(shape: tuple[int, ...]) -> None:
    proto = counting(limit=3)
    check(counted(X, 3), proto, np.array(10), np.array(True), X)
    check(counted(X, 2), proto, np.array(2), np.array(True), X)
    check(counted(X, 3), counting(limit=3, shape=shape), np.full(shape, 10), np.full(shape, True), X, peer=not shape)


@pytest.mark.parametrize(("trips", "cond"), [(0, True), (5, False), (0, False), (-3, True)])
def test_no_trips_give_empty_scan_outputs(trips: int, cond: bool) -> None:
    check([X, np.zeros((0, 2), F), np.zeros((0, 2), F)], counting(), np.array(trips), np.array(cond), X)


def test_without_a_count_the_condition_ends_the_loop() -> None:
    check(counted(X, 3), counting(m="_", limit=3), np.array(0), np.array(True), X)
    check(counted(X, 0), counting(m="_", limit=3), np.array(9), np.array(False), X)
    check(counted(X, 3), counting(m="_", cond="_", limit=3), np.array(0), np.array(False), X)


def test_without_a_condition_the_count_alone_ends_the_loop() -> None:
    # "input (trip_count, ""): cond = ...; // ignored"; ONNX Runtime stops at 3.
    check(counted(X, 5), counting(cond="_", limit=3), np.array(5), np.array(False), X, peer=False)


def test_loop_state_may_change_its_shape() -> None:
    body = graph(
        [node("Concat", "v v", "w", axis=0)],
        [value("i", INT, ()), value("c", BOOL, ()), value("v", FLOAT, (None,))],
        [value("c", BOOL, ()), value("w", FLOAT, (None,))],
    )
    inputs = [value("x0", INT, ()), value("x1", FLOAT, (None,))]
    proto = model([node("Loop", "x0 _ x1", "y", body=body)], inputs, [value("y", FLOAT)])
    check(np.ones(8, F), proto, np.array(3), ONE, peer=False)


def test_loop_carries_sequences() -> None:
    body = graph(
        [node("SequenceInsert", "s x1", "t"), node("SequenceInsert", "t x1 zero", "u")],
        [value("i", INT, ()), value("c", BOOL, ()), value("s", "seq(tensor(float))")],
        [value("c", BOOL, ()), value("u", "seq(tensor(float))")],
        zero=np.array(0),
    )
    proto = model(
        [node("SequenceEmpty", "", "s0"), node("Loop", "x0 _ s0", "y", body=body), node("SequenceLength", "y", "n")],
        [value("x0", INT, ()), value("x1", FLOAT, (1,))],
        [value("y", "seq(tensor(float))"), value("n", INT)],
    )
    check([[ONE] * 6, np.array(6)], proto, np.array(3), ONE)
    check([[], np.array(0)], proto, np.array(0), ONE, peer=False)


def test_loop_carries_optionals() -> None:
    held = graph([node("OptionalGetElement", "o", "t"), node("Add", "t x1", "a")], outputs=[value("a", FLOAT)])
    empty = graph([node("Neg", "x1", "b")], outputs=[value("b", FLOAT)])
    body = graph(
        [
            node("OptionalHasElement", "o", "h"),
            node("If", "h", "v", then_branch=held, else_branch=empty),
            node("Optional", "v", "p"),
        ],
        [value("i", INT, ()), value("c", BOOL, ()), value("o", "optional(tensor(float))")],
        [value("c", BOOL, ()), value("p", "optional(tensor(float))")],
    )
    proto = model(
        [
            node("Optional", "", "o0", type=types.to_proto(FLOAT)),
            node("Loop", "x0 _ o0", "o1", body=body),
            node("OptionalGetElement", "o1", "y"),
        ],
        [value("x0", INT, ()), value("x1", FLOAT, (1,))],
        [value("y", FLOAT)],
    )
    check(np.array([2], F), proto, np.array(4), ONE, peer=False)
    fails("the optional is empty", proto, np.array(0), ONE)


def test_loops_nest_and_see_each_others_values() -> None:
    inner = graph(
        [node("Add", "w v", "t"), node("Add", "t x1", "w_next"), node("Identity", "k", "going")],
        [value("j", INT, ()), value("k", BOOL, ()), value("w", FLOAT, (1,))],
        [value("going", BOOL, ()), value("w_next", FLOAT, (1,))],
    )
    outer = graph(
        [node("Identity", "c", "c2"), node("Loop", "i _ v", "v_next", body=inner)],
        [value("i", INT, ()), value("c", BOOL, ()), value("v", FLOAT, (1,))],
        [value("c2", BOOL, ()), value("v_next", FLOAT, (1,))],
    )
    inputs = [value("x0", INT, ()), value("x1", FLOAT, (1,))]
    proto = model([node("Loop", "x0 _ x1", "y", body=outer)], inputs, [value("y", FLOAT)])
    v = 1.0
    for i in range(4):
        v += i * (v + 1)
    check(np.array([v], F), proto, np.array(4), ONE)


def test_the_condition_may_be_an_input_a_constant_or_an_outer_value() -> None:
    for name, trips in (("c", 3), ("yes", 3), ("no", 1), ("x1", 1)):
        body = graph(
            [node("Add", "v v", "w")],
            [value("i", INT, ()), value("c", BOOL, ()), value("v", FLOAT, (1,))],
            [value(name, BOOL, ()), value("w", FLOAT, (1,))],
            yes=np.array(True),
            no=np.array(False),
        )
        proto = model(
            [node("Loop", "x0 t x2", "y", body=body)],
            [value("x0", INT, ()), value("x1", BOOL, ()), value("x2", FLOAT, (1,))],
            [value("y", FLOAT)],
            t=np.array(True),
        )
        check(np.array([2.0**trips], F), proto, np.array(3), np.array(False), ONE, peer=False)


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.bool_, object, ml_dtypes.bfloat16, np.float64])
@pytest.mark.parametrize("trips", [0, 2])
def test_scan_outputs_of_other_types(trips: int, dtype: Any) -> None:
    x = np.array(["a", "b"], object) if dtype is object else np.array([1, 0]).astype(dtype)
    kind = types.of_dtype(x.dtype)
    body = graph(
        [node("Identity", "x1", "s")],
        [value("i", INT, ()), value("c", BOOL, ())],
        [value("c", BOOL, ()), value("s", kind, ("n",))],
    )
    inputs = [value("x0", INT, ()), value("x1", kind, (2,))]
    proto = model([node("Loop", "x0 _", "y", body=body)], inputs, [value("y", kind)])
    want = np.stack([x] * trips) if trips else np.zeros((0, 0), x.dtype)
    check(want, proto, np.array(trips), x, peer=False)


def test_scan_outputs_must_agree() -> None:
    body = graph(
        [node("Concat", "v v", "w", axis=0)],
        [value("i", INT, ()), value("c", BOOL, ()), value("v", FLOAT, (None,))],
        [value("c", BOOL, ()), value("w", FLOAT, (None,)), value("v", FLOAT, (None,))],
    )
    inputs = [value("x0", INT, ()), value("x1", FLOAT, None)]
    proto = model([node("Loop", "x0 _ x1", "y z", body=body)], inputs, [value("y"), value("z")])
    fails("shape", proto, np.array(2), ONE)


def test_loop_refuses() -> None:
    body = graph([], [value("i", INT, ()), value("c", BOOL, ())], [value("c", BOOL, ())])
    inputs = [value("x0", INT, None), value("x1", FLOAT, None)]
    proto = model([node("Loop", "x0 _ x1", "y", body=body)], inputs, [value("y")])
    fails("has 2 inputs; this node gives it 3", proto, np.array(1), ONE)
    body.input.append(value("v", FLOAT))
    proto = model([node("Loop", "x0 _ x1", "y", body=body)], inputs, [value("y")])
    fails("the subgraph has 1 outputs; this node needs 2", proto, np.array(1), ONE)
    fails("M of shape", counting(shape=None), np.array([1, 2]), np.array(True), X)
    fails("the condition of shape", counting(shape=None), np.array(1), np.array([True, True]), X)


# Scan


def accumulating(opset: int = 21, shape: Any = (2,), other: Any = (4,), **attributes: Any) -> onnx.ModelProto:
    """Carries the sum of the elements of one scan input, and scans the sum and the elements of the other."""
    shapes = (shape, shape, other)
    body = graph(
        [node("Add", "v a", "w"), node("Identity", "w", "s"), node("Identity", "b", "t")],
        [value(name, FLOAT, shape) for name, shape in zip("vab", shapes, strict=True)],
        [value(name, FLOAT, shape) for name, shape in zip("wst", shapes, strict=True)],
    )
    names = "_ x0 x1 x2" if opset == 8 else "x0 x1 x2"
    return model(
        [node("Scan", names, "y s t", body=body, num_scan_inputs=2, **attributes)],
        [value(f"x{i}", FLOAT, None) for i in range(3)],
        [value(name, FLOAT) for name in ("y", "s", "t")],
        opset,
    )


@pytest.mark.parametrize("opset", [9, 11, 16, 21, harness.LATEST])
def test_scan(opset: int) -> None:
    a, b = np.arange(6, dtype=F).reshape(3, 2), np.arange(12, dtype=F).reshape(3, 4)
    sums = np.cumsum(a, axis=0) + F(1)
    check([sums[-1], sums, b], accumulating(opset), np.ones(2, F), a, b, peer=opset <= 21)


@pytest.mark.parametrize("directions", [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("prepended", [(0, 1), (1, 0)])
@pytest.mark.parametrize(("axes", "output_axes"), [((1, -1), (1, 0)), ((-2, 2), (-1, -2)), ((1, 2), (0, 2))])
def test_scan_axes_and_directions(
    axes: tuple[int, int], output_axes: tuple[int, int], prepended: tuple[int, int], directions: tuple[int, int]
) -> None:
    a, b = np.arange(12, dtype=F).reshape(2, 3, 2), np.arange(18, dtype=F).reshape(3, 2, 3)
    rows_a = np.moveaxis(a, axes[0], 0)[:: -1 if directions[0] else 1]
    rows_b = np.moveaxis(b, axes[1], 0)[:: -1 if directions[1] else 1]
    state = np.ones((2, 2), F)
    sums = []
    for row in rows_a:
        state = state + row
        sums.append(state)
    outputs = [values[::-1] if flag else values for values, flag in zip((sums, list(rows_b)), prepended, strict=True)]
    want = [state, *(np.stack(values, axis=axis) for values, axis in zip(outputs, output_axes, strict=True))]
    proto = accumulating(
        shape=(2, 2),
        other=rows_b.shape[1:],
        scan_input_axes=axes,
        scan_input_directions=directions,
        scan_output_axes=output_axes,
        scan_output_directions=prepended,
    )
    check(want, proto, np.ones((2, 2), F), a, b)


def test_scan_of_nothing() -> None:
    body = graph(
        [node("Add", "v a", "w"), node("Identity", "w", "s")],
        [value("v", FLOAT, (2,)), value("a", FLOAT, (2,))],
        [value("w", FLOAT, (2,)), value("s", FLOAT, (2,))],
    )
    proto = model(
        [node("Scan", "x0 x1", "y s", body=body, num_scan_inputs=1, scan_output_axes=(1,))],
        [value("x0", FLOAT, (2,)), value("x1", FLOAT, (None, 2))],
        [value("y", FLOAT), value("s", FLOAT)],
    )
    check([X, np.zeros((2, 0), F)], proto, X, np.zeros((0, 2), F), peer=False)


def test_scan_without_state() -> None:
    body = graph([node("Neg", "a", "b")], [value("a", FLOAT, None)], [value("b", FLOAT, None)])
    scan = node("Scan", "x0", "y", body=body, num_scan_inputs=1)
    proto = model([scan], [value("x0", FLOAT, None)], [value("y", FLOAT)])
    check(-np.arange(6, dtype=F).reshape(3, 2), proto, np.arange(6, dtype=F).reshape(3, 2), peer=False)


@pytest.mark.parametrize("directions", [None, (1, 0)])
def test_scan_8_works_on_batches(directions: tuple[int, int] | None) -> None:
    a, b = np.arange(12, dtype=F).reshape(2, 3, 2), np.arange(6, dtype=F).reshape(2, 3)
    state = np.ones((2, 2), F)
    sums = np.cumsum(a[:, ::-1] if directions else a, axis=1) + F(1)
    proto = accumulating(8, other=(), **({"directions": directions} if directions else {}))
    check([sums[:, -1], sums, b], proto, state, a, b)


@pytest.mark.parametrize("reverse", [0, 1])
def test_scan_8_with_lengths(reverse: int) -> None:
    proto = accumulating(8, other=(), directions=(reverse, 0))
    proto.graph.node[0].input[0] = "x3"
    proto.graph.input.append(value("x3", INT, (2,)))
    a, b = np.arange(1, 13, dtype=F).reshape(2, 3, 2), np.arange(1, 7, dtype=F).reshape(2, 3)
    sums, rows, last = np.zeros((2, 3, 2), F), np.zeros((2, 3), F), []
    for i, n in enumerate((2, 3)):
        part = a[i, :n][::-1] if reverse else a[i, :n]
        sums[i, :n], rows[i, :n] = np.cumsum(part, axis=0) + 1, b[i, :n]
        last.append(sums[i, n - 1])
    check([np.stack(last), sums, rows], proto, np.ones((2, 2), F), a, b, np.array([2, 3]), peer=not reverse)
    fails("2 lengths from 0 to 3", proto, np.ones((2, 2), F), a, b, np.array([2, 4]))


def test_scan_refuses() -> None:
    a, b = np.ones((3, 2), F), np.ones((4, 2), F)
    fails("they must have as many", accumulating(), np.ones(2, F), a, b)
    fails("scan_input_axes has 1 entries; it must have 2", accumulating(scan_input_axes=(0,)), np.ones(2, F), a, a)
    fails("axis 2 is not one of 2 axes", accumulating(scan_input_axes=(0, 2)), np.ones(2, F), a, a)


# SequenceMap


def test_sequence_map() -> None:
    body = graph(
        [node("Add", "a b", "s"), node("Mul", "s k", "t"), node("Shape", "a", "n")],
        [value("a", FLOAT, None), value("b", FLOAT, None), value("k", FLOAT, None)],
        [value("t", FLOAT, None), value("n", INT, None)],
    )
    proto = model(
        [node("SequenceMap", "x0 x1 x2", "y n", body=body)],
        [value("x0", "seq(tensor(float))"), value("x1", "seq(tensor(float))"), value("x2", FLOAT, None)],
        [value("y", "seq(tensor(float))"), value("n", "seq(tensor(int64))")],
        17,
    )
    xs = [ONE, np.array([1, 2], F)]
    want = [[ONE * 6, np.array([6, 12], F)], [np.array([1]), np.array([2])]]
    check(want, proto, xs, xs, np.array([3], F))
    fails("they must be as long", proto, xs, xs[:1], ONE)
    (y, n) = onemodel.Session(proto, mode="fast").run(None, {"x0": [], "x1": [], "x2": ONE})
    assert (y, n) == ([], [])


def test_control_flow_is_exact_where_its_graphs_are() -> None:
    @onemodel.operator("Guess", domain="test", since=1, inexact="it guesses", types=("x",), register=False)
    def guess(x: Any, /, *, xp: Any) -> Any:
        return x

    onemodel.Session(accumulating(), mode="exact")
    for op, domain in (("Neg", ""), ("Guess", "test")):
        then = graph([node("Neg", "x1", "t")], outputs=[value("t", FLOAT)])
        other = graph([node(op, "x1", "t", domain=domain)], outputs=[value("t", FLOAT)])
        proto = model(
            [node("If", "x0", "y", then_branch=then, else_branch=other)],
            [value("x0", BOOL, ()), value("x1", FLOAT, (1,))],
            [value("y", FLOAT)],
        )
        proto.opset_import.append(helper.make_opsetid("test", 1))
        if op == "Neg":
            onemodel.Session(proto, mode="exact", operators=[guess])
        else:
            with pytest.raises(onemodel.InexactOperatorError, match=r"(?s)else_branch of If.*it guesses"):
                onemodel.Session(proto, mode="exact", operators=[guess])


# Types that contradict each other


def _if(then: onnx.NodeProto, other: onnx.NodeProto, declared: str | None = None) -> onnx.ModelProto:
    branches = [graph([branch], outputs=[value("r")]) for branch in (then, other)]
    return model(
        [node("If", "c", "y", name="pick", then_branch=branches[0], else_branch=branches[1])],
        [value("c", BOOL, ()), value("x", FLOAT, (1,)), value("q", "seq(tensor(float))")],
        [value("y", declared)],
    )


@pytest.mark.parametrize(
    ("then", "other", "declared", "message"),
    [
        (
            node("Neg", "x", "r"),
            node("Cast", "x", "r", to=TensorProto.INT64),
            FLOAT,
            r"node 'pick' .*: output 1 is tensor\(float\) from then_branch, but tensor\(int64\) from else_branch; give",
        ),
        (
            node("Identity", "q", "r"),
            node("Neg", "x", "r"),
            None,
            r"output 1 is seq\(tensor\(float\)\) from .* tensor\(",
        ),
        (
            node("Neg", "x", "r"),
            node("Exp", "x", "r"),
            INT,
            r"'y' of node 'pick' .* is declared tensor\(int64\), but its node makes tensor\(float\)",
        ),
        (
            node("Identity", "q", "r"),
            node("Identity", "q", "r"),
            FLOAT,
            r"'y' of node 'pick' .* is declared tensor\(float\), but its node makes seq\(tensor\(float\)\)",
        ),
    ],
)
def test_branches_make_what_is_declared(
    then: onnx.NodeProto, other: onnx.NodeProto, declared: str | None, message: str
) -> None:
    with pytest.raises(onemodel.ModelError, match=message) as caught:
        onemodel.Session(_if(then, other, declared), mode="fast")
    assert "\n" not in str(caught.value)


def test_an_intermediate_value_is_what_its_if_makes() -> None:
    proto = _if(node("Neg", "x", "r"), node("Exp", "x", "r"), FLOAT)
    proto.graph.node.append(node("Neg", "y", "z"))
    del proto.graph.output[:]
    proto.graph.output.append(value("z"))
    proto.graph.value_info.append(value("y", INT))
    with pytest.raises(onemodel.ModelError, match=r"'y' of node 'pick' .* is declared tensor\(int64\), but"):
        onemodel.Session(proto, mode="fast")


def test_a_branch_of_unknown_type_takes_the_others() -> None:
    unknown = onemodel.operator("Any", domain="test", since=1, register=False)(lambda x, /, *, xp: x)
    proto = _if(node("Any", "x", "r", domain="test"), node("Neg", "x", "r"), FLOAT)
    proto.opset_import.append(helper.make_opsetid("test", 1))
    session = onemodel.Session(proto, mode="fast", operators=[unknown])
    for c, want in ((True, [1]), (False, [-1])):
        assert session(c=np.array(c), x=np.array([1], F), q=[])["y"] == want


def test_branches_may_make_an_optional_and_what_it_holds() -> None:
    proto = _if(node("Optional", "x", "r"), node("Neg", "x", "r"), "optional(tensor(float))")
    assert onemodel.Session(proto, mode="fast")(c=np.array(False), x=np.array([1], F), q=[])["y"] == [-1]


def _loop(declared: str | None, body: Sequence[onnx.NodeProto], going: onnx.NodeProto) -> onnx.ModelProto:
    loop = graph(
        [going, *body], [value("i", INT, ()), value("on", BOOL, ()), value("s", declared)], [value("go"), value("t")]
    )
    return model([node("Loop", "n _ x", "y", body=loop)], [value("n", INT, ()), value("x", FLOAT, ())], [value("y")])


@pytest.mark.parametrize(
    ("declared", "state", "going", "message"),
    [
        (
            None,
            node("Cast", "s", "t", to=TensorProto.DOUBLE),
            node("Identity", "on", "go"),
            r"Loop .*: state 1 is tensor\(float\) at first, but tensor\(double\) from the body; give",
        ),
        (
            INT,
            node("Identity", "s", "t"),
            node("Identity", "on", "go"),
            r"Loop .*: the input 's' of the subgraph 'body' is declared tensor\(int64\), but gets tensor\(float\)",
        ),
        (
            FLOAT,
            node("Identity", "s", "t"),
            node("Identity", "i", "go"),
            r"Loop .*: the condition that the body makes is tensor\(int64\); it must be tensor\(bool\)",
        ),
    ],
)
def test_a_loop_keeps_the_types_of_its_state(
    declared: str | None, state: onnx.NodeProto, going: onnx.NodeProto, message: str
) -> None:
    with pytest.raises(onemodel.ModelError, match=message):
        onemodel.Session(_loop(declared, [state], going), mode="fast")


@pytest.mark.parametrize("opset", [8, 21])
@pytest.mark.parametrize(
    ("declared", "to", "message"),
    [
        (FLOAT, TensorProto.INT64, r"Scan .*: state 1 is tensor\(float\) at first, but tensor\(int64\) from the body"),
        (
            INT,
            TensorProto.FLOAT,
            r"the input 'v' of the subgraph 'body' is declared tensor\(int64\), but gets tensor\(f",
        ),
    ],
)
def test_a_scan_keeps_the_types_of_its_state(opset: int, declared: str, to: int, message: str) -> None:
    body = graph(
        [node("Cast", "s", "t", to=to), node("Identity", "v", "o")],
        [value("s", FLOAT), value("v", declared)],
        [value("t"), value("o")],
    )
    proto = model(
        [node("Scan", "_ x v" if opset == 8 else "x v", "y z", num_scan_inputs=1, body=body)],
        [value("x", FLOAT), value("v", FLOAT)],
        [value("y"), value("z")],
        opset,
    )
    with pytest.raises(onemodel.ModelError, match=message):
        onemodel.Session(proto, mode="fast")


def test_a_sequence_map_gives_its_body_the_items() -> None:
    body = graph([node("Identity", "a", "b")], [value("a", INT)], [value("b")])
    proto = model(
        [node("SequenceMap", "q", "y", body=body)],
        [value("q", "seq(tensor(float))")],
        [value("y", "seq(tensor(float))")],
    )
    with pytest.raises(
        onemodel.ModelError, match=r"'a' of .* 'body' is declared tensor\(int64\), but gets tensor\(float"
    ):
        onemodel.Session(proto, mode="fast")
