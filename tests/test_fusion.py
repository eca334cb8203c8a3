"""Neighbouring elementwise nodes as one step: which nodes merge, and that nobody can tell but by the time it takes."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from itertools import pairwise, permutations, product
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

import onemodel
from onemodel.backends import numpy_fusion
from onemodel.backends.exact import symbolic
from onemodel.backends.exact.program import Program as ExactProgram
from onemodel.backends.fusion import block_of, blocks_of
from onemodel.program import Program, Together
from tests.exact.test_source import sample

MODES = ("exact", "fast")


@pytest.fixture(autouse=True)
def small_arrays_too() -> Iterator[None]:
    """Arrays of any size are worth a step."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_LARGE", "_LONG", "_HUGE"):
            patch.setattr(symbolic, name, 0)
        patch.setattr(numpy_fusion, "LARGE", 0)
        patch.setattr(numpy_fusion, "BLOCK", 64)
        yield


def graph(body: str, inputs: str = "float[N,M] x, float[N,M] y", outputs: str = "z", more: str = "") -> Any:
    """A model of nodes as text; its outputs are float."""
    made = ", ".join(f"float[A,B] {name}" for name in outputs.split())
    text = f'<ir_version: 10, opset_import: ["" : 21, "own" : 1]> g ({inputs}) => ({made}) {{ {body} }} {more}'
    return onnx.parser.parse_model(text)


def programs(program: Program) -> Iterator[Program]:
    yield program
    for body in program.bodies:
        yield from programs(body)


def groups(session: onemodel.Session, extra: tuple[str, ...] = ()) -> list[str]:
    """The operators of each merged step, subgraphs' included."""
    every = programs(session._program(frozenset(), extra))
    return sorted(step[4].op_type for program in every for step in program.steps if isinstance(step[2], Together))


def feeds(rows: int = 7, columns: int = 33) -> dict[str, Any]:
    random = np.random.default_rng(rows)
    return {name: random.standard_normal((rows, columns)).astype(np.float32) for name in "xy"}


def check(model: Any, given: dict[str, Any], mode: str, names: list[str] | None = None) -> list[Any]:
    """The same bits, merged or not."""
    got = onemodel.Session(model, mode=mode).run(names, given)
    want = onemodel.Session(model, mode=mode, kernels="generic").run(names, given)
    for one, other in zip(got, want, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        if mode == "exact":
            assert one.tobytes() == other.tobytes()
        else:
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    return got


# Which nodes


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("body", "outputs", "expected"),
    [
        ("a = Add(x, y) b = Sigmoid(a) z = Mul(b, y)", "z", ["Add+Sigmoid+Mul"]),
        ("a = Add(x, y) b = Sigmoid(a) z = Mul(a, b)", "z", ["Add+Sigmoid+Mul"]),
        ("a = Mul(x, x) z = Add(a, a)", "z", ["Mul+Add"]),
        ("a = Add(x, y) b = Exp(x) c = Mul(a, b) d = Neg(y) z = Sub(c, d)", "z", ["Add+Exp+Mul+Neg+Sub"]),
        # Two groups read it
        ("a = Add(x, y) b = Exp(a) z = Neg(b) c = Exp(a) w = Abs(c)", "z w", ["Exp+Abs", "Exp+Neg"]),
        # An output
        ("a = Add(x, y) b = Exp(a) z = Neg(b)", "z b", ["Add+Exp"]),
        # Something else reads it
        ("a = Add(x, y) b = Exp(a) c = Transpose(b) d = Neg(b) z = MatMul(d, c)", "z", ["Add+Exp"]),
        # Through something else it depends on itself
        ("a = Add(x, y) b = Softmax(a) c = Neg(b) z = Mul(a, c)", "z", ["Neg+Mul"]),
        ("a = Relu(x) b = Softmax(a) z = Softmax(b)", "z", []),
        # Sums of three are rounded once in exact mode; slopes broadcast one way
        ("a = PRelu(x, y) b = Neg(a) z = Exp(b)", "z", ["Neg+Exp"]),
    ],
)
def test_groups(body: str, outputs: str, expected: list[str], mode: str) -> None:
    model = graph(body, outputs=outputs)
    assert groups(onemodel.Session(model, mode=mode)) == expected
    assert groups(onemodel.Session(model, mode=mode, kernels="generic")) == []
    check(model, {name: value[:, :7] for name, value in feeds().items()}, mode)


@pytest.mark.parametrize("mode", MODES)
def test_values_that_are_asked_for(mode: str) -> None:
    model = graph("a = Add(x, y) b = Sigmoid(a) c = Mul(b, y) z = Neg(c)")
    session = onemodel.Session(model, mode=mode)
    assert groups(session) == ["Add+Sigmoid+Mul+Neg"]
    assert groups(session, ("b",)) == ["Add+Sigmoid", "Mul+Neg"]
    check(model, feeds(), mode, ["b", "z", "a"])


@pytest.mark.parametrize("mode", MODES)
def test_subgraphs_and_functions(mode: str) -> None:
    model = graph(
        """
        a = Add(x, y) b = Neg(a)
        c = If (t) <
          then_branch = g1 () => (float[A,B] u) { v = Mul(b, y) w = Exp(v) u = Sub(w, b) },
          else_branch = g2 () => (float[A,B] u) { u = Relu(a) }
        >
        d = own.twice(c) z = Abs(d)
        """,
        "float[N,M] x, float[N,M] y, bool t",
        more='<opset_import: ["" : 21], domain: "own"> twice (p) => (q) { r = Add(p, p) q = Sqrt(r) }',
    )
    # Both a and b are captured.
    assert groups(onemodel.Session(model, mode=mode)) == ["Add+Sqrt+Abs", "Mul+Exp+Sub"]
    for choice in (True, False):
        check(model, feeds() | {"t": np.array(choice)}, mode)


@pytest.mark.parametrize("mode", MODES)
def test_operators_of_users_stay_alone(mode: str) -> None:
    @onemodel.operator("Third", domain="own", since=1, elementwise=True, types=("x",), register=False)
    def third(x: Any, /, *, xp: Any) -> Any:
        return x / xp.constant(3, x)

    model = graph("a = Add(x, y) b = own.Third(a) c = Neg(b) z = Exp(c)")
    session = onemodel.Session(model, mode=mode, operators=[third])
    assert groups(session) == ["Neg+Exp"]


@pytest.mark.parametrize("mode", MODES)
def test_long_chains_are_cut(mode: str) -> None:
    names = [*(f"v{i}" for i in range(70)), "z"]
    body = "v0 = Neg(x) " + " ".join(f"{b} = Sub({a}, y)" for a, b in pairwise(names))
    model = graph(body)
    counts = [text.count("+") + 1 for text in groups(onemodel.Session(model, mode=mode))]
    assert sorted(counts) == [7, 32, 32]
    check(model, feeds(), mode)


def test_halves_stay_alone_in_programs() -> None:
    model = graph("a = Cast<to = 10>(x) b = Exp(a) c = Cast<to = 1>(b) d = Neg(c) z = Mul(d, y)")
    assert groups(onemodel.Session(model, mode="exact")) == ["Neg+Mul"]
    assert groups(onemodel.Session(model, mode="fast")) == ["Cast+Exp+Cast+Neg+Mul"]
    for mode in MODES:
        check(model, feeds(), mode)


# What they give

NUMBERS = {"half": 0.5, "one": 1.0, "two": 2.0, "three": 3.0, "six": 6.0, "zero": 0.0, "minus": -0.0, "root": 2**0.5}
NUMBERS |= {"cubic": 0.044715, "slope": 0.79788456, "epsilon": 1e-5}
CONSTANTS = " ".join(f"{name} = Constant<value_float = {value}>()" for name, value in NUMBERS.items())
WRITTEN_OUT = {
    "gelu": "a = Add(x, y) b = Div(a, root) c = Erf(b) d = Add(c, one) e = Mul(a, d) z = Mul(e, half)",
    "gelu by tanh": """
        w = Add(x, y) a = Pow(w, three) b = Mul(a, cubic) c = Add(w, b) d = Mul(slope, c) e = Tanh(d) f = Add(e, one)
        g = Mul(w, f) z = Mul(g, half)""",
    "hard swish": "w = Mul(x, y) a = Add(w, three) b = Clip(a, zero, six) c = Mul(w, b) z = Div(c, six)",
    "layer norm": """
        m = ReduceMean(x) d = Sub(x, m) q = Pow(d, two) v = ReduceMean(q) w = Add(v, epsilon) r = Sqrt(w) f = Div(d, r)
        g = Mul(f, y) z = Add(g, y)""",
    "choice": """
        a = Less(x, y) b = Greater(y, minus) c = And(a, b) d = Not(c) i = IsNaN(x) o = Or(d, i) e = Max(x, y)
        f = Min(x, minus) g = Where(o, e, f) h = Where(i, g, x) k = Equal(x, y) l = Xor(k, c) q = Cast<to = 1>(l)
        r = Cast<to = 11>(h) s = Ceil(r) t = Floor(r) u = Sub(s, t) v = Cast<to = 1>(u) z = Mul(v, q)""",
}
SHAPES = {
    "alike": ((6, 50), (6, 50)),
    "rows": ((6, 50), (50,)),
    "columns": ((6, 50), (6, 1)),
    "channels": ((3, 5, 40), (5, 1)),
    "both ways": ((1, 50), (6, 1)),
    "one": ((6, 50), (1, 1)),
    "scalar": ((), (6, 50)),
    "more axes": ((3,), (1, 1)),
    "scalars": ((), ()),
    "empty": ((0, 50), (1, 50)),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("name", "shapes"),
    [pair for pair in product(WRITTEN_OUT, SHAPES) if pair != ("layer norm", "empty")],  # there is no mean of nothing
)
def test_written_out_functions(name: str, shapes: str, mode: str) -> None:
    model = graph(CONSTANTS + WRITTEN_OUT[name], "float x, float y")
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.ClearField("shape")
    numbers = sample("float32", 2048, 3)
    given = {
        name: numbers[i : i + int(np.prod(shape))].reshape(shape) if mode == "exact" else np.ones(shape, np.float32)
        for i, (name, shape) in enumerate(zip("xy", SHAPES[shapes], strict=True))
    }
    assert max(groups(onemodel.Session(model, mode=mode)), key=len).count("+") >= 3
    check(model, given, mode)


def test_transposed_and_read_only_arrays() -> None:
    model = graph(CONSTANTS + WRITTEN_OUT["gelu"])
    given = {name: np.asfortranarray(value) for name, value in feeds(60, 51).items()}
    for value in given.values():
        value.flags.writeable = False
    for mode in MODES:
        check(model, given, mode)


_UNARY = ("Neg", "Abs", "Sqrt", "Exp", "Tanh", "Relu", "Sigmoid", "Floor", "Reciprocal", "HardSwish", "Elu", "Identity")
_BINARY = ("Add", "Sub", "Mul", "Div", "Max", "Min", "Less", "GreaterOrEqual", "Equal")
_OTHER = ("Where", "Cast", "Clip", "Not", "And")


@st.composite
def models(draw: Any) -> tuple[Any, dict[str, Any]]:
    """Random nodes on float32, float64 and bool, of arrays, rows, columns and constants."""
    shapes = {"x": (5, 40), "y": (5, 40), "row": (40,), "column": (5, 1)}
    double, truth = TensorProto.DOUBLE, TensorProto.BOOL
    types: dict[str, int] = dict.fromkeys(shapes, TensorProto.FLOAT)
    constants = []
    for i, number in enumerate((0.5, -0.0, 0.0, float("inf"), 3e-39)):
        types[f"c{i}"] = TensorProto.FLOAT
        constants.append(
            helper.make_tensor(f"c{i}", TensorProto.FLOAT, draw(st.sampled_from([[], [1], [1, 1]])), [number])
        )
    nodes: list[Any] = []

    def pick(*kinds: int) -> str:
        return str(draw(st.sampled_from([name for name, kind in types.items() if kind in kinds])))

    def add(op: str, inputs: list[str], kind: int, **attributes: Any) -> None:
        nodes.append(helper.make_node(op, inputs, [f"n{len(nodes)}"], **attributes))
        types[f"n{len(nodes) - 1}"] = kind

    add("Less", ["x", "row"], truth)
    for op in draw(st.lists(st.sampled_from(_UNARY + _BINARY * 2 + _OTHER), min_size=3, max_size=16)):
        if op in _UNARY:
            name = pick(TensorProto.FLOAT, double)
            add(op, [name], types[name])
        elif op in _BINARY:
            name = pick(TensorProto.FLOAT, double)
            other = pick(types[name])
            add(op, [name, other], truth if op in ("Less", "GreaterOrEqual", "Equal") else types[name])
        elif op == "Where":
            name = pick(TensorProto.FLOAT, double)
            add(op, [pick(truth), name, pick(types[name])], types[name])
        elif op == "Cast":
            kind = draw(st.sampled_from([TensorProto.FLOAT, double, truth]))
            add(op, [pick(TensorProto.FLOAT, double, truth)], kind, to=kind)
        elif op == "Clip":
            add(op, [pick(TensorProto.FLOAT), draw(st.sampled_from(["", "c1", "c2"])), "c0"], TensorProto.FLOAT)
        else:
            add(op, [pick(truth)] if op == "Not" else [pick(truth), pick(truth)], truth)
    last = f"n{len(nodes) - 1}"
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    outputs = [
        onnx.ValueInfoProto(name=name) for name in {last, draw(st.sampled_from([f"n{i}" for i in range(len(nodes))]))}
    ]
    for value in outputs:
        value.type.tensor_type.elem_type = types[value.name]
    made = helper.make_graph(nodes, "g", tensors, outputs, constants)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    numbers = sample("float32", 1024, draw(st.integers(0, 9)))
    numbers[:8] = [np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-45, -3e-39, 3.4e38]
    random = np.random.default_rng(draw(st.integers(0, 9)))
    return model, {name: random.choice(numbers, shape).astype(np.float32) for name, shape in shapes.items()}


@settings(max_examples=120, deadline=None)
@given(models())
def test_random_models_give_the_same_bits(drawn: tuple[Any, dict[str, Any]]) -> None:
    model, given = drawn
    check(model, given, "exact")


# How they run


def test_a_session_leaves_no_programs_behind() -> None:
    def alive() -> int:
        gc.collect()
        return sum(isinstance(thing, ExactProgram) for thing in gc.get_objects())

    def run(factor: float) -> None:
        model = graph(f"c = Constant<value_float = {factor}>() a = Mul(x, c) b = Gelu(a) d = Mul(b, y) z = Gelu(d)")
        onemodel.Session(model, mode="exact").run(None, feeds(200, 300))

    run(0.5)
    before = alive()
    for factor in (1.5, 2.5, 3.5):
        run(factor)
    assert alive() == before


@pytest.mark.parametrize("order", list(permutations(range(3))))
@pytest.mark.parametrize("other", [(4, 5, 6), (5, 1), (6,), (1, 5, 6), ()])
def test_fast_results_lie_in_memory_as_numpys_own(order: tuple[int, ...], other: tuple[int, ...]) -> None:
    model = graph("a = Sub(x, y) b = Abs(a) z = Mul(b, x)", "float x, float y")
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.ClearField("shape")
    for flipped in (False, True):
        x = np.arange(-60, 60, dtype=np.float32).reshape([(4, 5, 6)[axis] for axis in order])
        x = x.transpose(np.argsort(order))[:, :: -1 if flipped else 1]
        y = np.arange(np.prod(other), dtype=np.float32).reshape(other)
        (z,) = check(model, {"x": x, "y": y}, "fast")
        assert np.array_equal(z, abs(x - y) * x)
        if other == ():
            assert z.strides == (abs(x - y) * x).strides


@pytest.mark.parametrize("mode", MODES)
def test_a_profile_names_the_nodes(mode: str) -> None:
    model = graph("a = Add(x, y) b = Exp(a) c = Softmax(b) z = Neg(c)")
    profile = onemodel.Session(model, mode=mode).profile(feeds())
    merged, *others = [step.node for step in profile.nodes]
    assert [part.op_type for part in merged.parts] == ["Add", "Exp"]
    assert "2 nodes in one step: node that makes 'a' (ai.onnx::Add at opset 21), node that makes 'b'" in str(profile)
    assert [node.op_type for node in others] == ["Softmax", "Neg"]


@pytest.mark.parametrize("mode", MODES)
def test_small_arrays_run_node_by_node(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symbolic, "_LARGE", 1 << 15)
    monkeypatch.setattr(numpy_fusion, "LARGE", 1 << 15)
    model = graph("a = Add(x, y) b = Exp(a) z = Neg(b)")
    session = onemodel.Session(model, mode=mode)
    assert [step.node.op_type for step in session.profile(feeds()).nodes] == ["Add", "Exp", "Neg"]
    assert [step.node.op_type for step in session.profile(feeds(1000)).nodes] == ["Add+Exp+Neg"]


@pytest.mark.parametrize("mode", MODES)
def test_errors_name_the_node(mode: str) -> None:
    model = graph("a = Neg(x) bad = Add(a, y) b = Exp(bad) z = Neg(b)")
    model.graph.node[1].name = "the wrong one"
    session = onemodel.Session(model, mode=mode)
    with pytest.raises(onemodel.ExecutionError, match=r"^node 'the wrong one' .*float32\[7, 33\], float32\[5, 33\]"):
        session.run(None, feeds() | {"y": feeds(5)["y"]})
    session.run(None, feeds())


def test_a_slope_with_more_axes_is_refused_in_a_step_too() -> None:
    model = graph("s = Constant<value = float[1,1] {0.5}>() a = PRelu(x, s) z = Add(a, y)", "float[N] x, float[M,N] y")
    session = onemodel.Session(model, mode="fast")
    assert groups(session) == ["PRelu+Add"]
    with pytest.raises(onemodel.ExecutionError, match=r"^node that makes 'a' .*slope of shape \(1, 1\)"):
        session.run(None, {"x": np.ones(3, np.float32), "y": np.ones((2, 3), np.float32)})


def test_errors_in_a_block_name_the_node() -> None:
    model = graph("p = Cast<to = 7>(x) q = Cast<to = 7>(y) r = Div(p, q) s = Neg(r) z = Cast<to = 1>(s)")
    session = onemodel.Session(model, mode="fast")
    assert groups(session) == ["Cast+Cast+Div+Neg+Cast"]
    given = {name: value * 10 for name, value in feeds().items()}
    given["y"][:] = 3
    check(model, given, "fast")
    given["y"][6, 32] = 0
    with pytest.raises(onemodel.ExecutionError, match=r"node that makes 'r' .*int64\[7, 33\].*ZeroDivisionError"):
        session.run(None, given)


@pytest.mark.parametrize("mode", MODES)
def test_results_without_memory_name_the_node(mode: str) -> None:
    model = graph("a = Neg(x) b = Exp(y) c = Add(a, b) z = Abs(c)", "float[N,1] x, float[1,M] y")
    session = onemodel.Session(model, mode=mode)
    assert groups(session) == ["Neg+Exp+Add+Abs"]
    x = np.zeros(1 << 24, np.float32)  # of 2^50 bytes would be the result
    with pytest.raises(onemodel.ExecutionError, match=r"^node that makes 'c' .*16777216, 1\].*MemoryError"):
        session.run(None, {"x": x[:, None], "y": x[None]})


@pytest.mark.parametrize("mode", MODES)
def test_errors_of_no_node_name_them_all(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("not of a node")

    session = onemodel.Session(graph("a = Add(x, y) z = Neg(a)"), mode=mode)
    monkeypatch.setattr(numpy_fusion, "_computed", fail)
    monkeypatch.setattr(symbolic, "traced_expression", fail)
    message = r"^2 nodes in one step: .*'a' .*'z' .* failed on \(float32\[7, 33\], .*RuntimeError: not of a node"
    with pytest.raises(onemodel.ExecutionError, match=message):
        session.run(None, feeds())


@pytest.mark.parametrize("mode", MODES)
def test_slots_are_freed(mode: str) -> None:
    model = graph("a = Softmax(x) b = Neg(a) c = Mul(b, y) d = Softmax(c) e = Abs(d) z = Add(e, a)")
    program = onemodel.Session(model, mode=mode)._program(frozenset(), ())
    ran = 0
    for limit in (0, 1 << 30):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(symbolic, "_LARGE", limit)
            patch.setattr(numpy_fusion, "LARGE", limit)
            slots = program.template.copy()
            for slot, value in zip(program.inputs, feeds().values(), strict=True):
                assert slot is not None
                slots[slot] = value
            program.execute(slots)
            kept = [i for i, value in enumerate(slots) if value is not None and program.template[i] is None]
            assert kept == list(program.outputs)
            ran += 1
    assert ran == 2


@pytest.mark.parametrize("mode", MODES)
def test_threads(mode: str) -> None:
    model = graph(CONSTANTS + WRITTEN_OUT["gelu"])
    session = onemodel.Session(model, mode=mode)
    given = [feeds(rows, 700) for rows in range(1, 9)]
    want = [
        onemodel.Session(graph(CONSTANTS + WRITTEN_OUT["gelu"]), mode=mode).run(None, one)[0].tobytes() for one in given
    ]
    wrong: list[int] = []

    def work(number: int) -> None:
        results = (session.run(None, given[number])[0] for _ in range(10))
        wrong.extend(number for result in results if result.tobytes() != want[number])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("shape", [(1,), (7,), (64,), (65,), (5, 13), (3, 1, 200), (70, 1), (2, 3, 4, 5), (1, 65, 2)])
def test_blocks_cover_each_element_once(shape: tuple[int, ...]) -> None:
    places = np.arange(np.prod(shape)).reshape(shape)
    blocks = [places[block] for block in blocks_of(shape, 64)]
    assert np.array_equal(np.concatenate([block.reshape(-1) for block in blocks]), places.reshape(-1))
    assert max(block.size for block in blocks) <= 64
    for axis in range(len(shape)):
        part = places.take([0], axis=axis)
        for block in blocks_of(shape, 64):
            want = np.broadcast_to(part, shape)[block]
            assert np.array_equal(np.broadcast_to(block_of(part, block, len(shape)), want.shape), want)
