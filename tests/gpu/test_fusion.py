"""Neighbouring elementwise nodes as one kernel: the numbers of the nodes one by one, on the stand-in for CuPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

import onemodel
from onemodel.program import Together
from tests.exact.test_source import sample
from tests.gpu import cpu_kernels, device_rules
from tests.test_fusion import CONSTANTS, SHAPES, WRITTEN_OUT, graph, groups

pytestmark = pytest.mark.skipif(cpu_kernels.compiler() is None, reason="g++, which builds the kernels, is not there")

TYPES = {TensorProto.FLOAT: np.float32, TensorProto.DOUBLE: np.float64, TensorProto.FLOAT16: np.float16}
TYPES |= {TensorProto.BFLOAT16: ml_dtypes.bfloat16}


def wide(x: Any) -> Any:
    return x.astype(np.float64) if x.dtype.kind in "fV" else x


def check(model: Any, feeds: dict[str, Any], *, rtol: float = 0.0) -> list[str]:
    """The same with and without kernels; the operators of each merged step that ran."""
    session = onemodel.Session(model, backend="cupy", outputs="numpy")
    got = session.run(None, feeds)
    want = onemodel.Session(model, backend="cupy", kernels="generic", outputs="numpy").run(None, feeds)
    for one, other in zip(got, want, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_allclose(wide(one), wide(other), rtol=rtol, atol=rtol)
        if not rtol:
            assert np.array_equal(np.signbit(wide(one)), np.signbit(wide(other))) or np.isnan(wide(one)).any()
    return [step.node.op_type for step in session.profile(feeds).nodes if step.node.parts]


@pytest.mark.parametrize("shapes", ["alike", "rows", "columns", "channels", "both ways", "one", "more axes", "empty"])
@pytest.mark.parametrize("name", WRITTEN_OUT)
def test_written_out_functions(cupy: Any, name: str, shapes: str) -> None:
    if (name, shapes) == ("layer norm", "empty"):
        return  # there is no mean of nothing
    model = graph(CONSTANTS + WRITTEN_OUT[name], "float x, float y")
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.ClearField("shape")
    random = np.random.default_rng(1)
    given = {n: random.standard_normal(s).astype(np.float32) for n, s in zip("xy", SHAPES[shapes], strict=True)}
    ran = check(model, given, rtol=2e-6)
    assert bool(ran) == (shapes != "empty")


@pytest.mark.parametrize("shapes", ["alike", "rows", "columns", "channels", "both ways", "one", "scalar", "empty"])
@pytest.mark.parametrize("name", ["gelu", "hard swish", "choice"])
def test_exact_mode_gives_numpys_bits(cupy: Any, name: str, shapes: str) -> None:
    model = graph(CONSTANTS + WRITTEN_OUT[name], "float x, float y")
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.ClearField("shape")
    numbers = sample("float32", 2048, 3)
    given = {n: numbers[: int(np.prod(s))].reshape(s) for n, s in zip("xy", SHAPES[shapes], strict=True)}
    session = onemodel.Session(model, backend="cupy", mode="exact", outputs="numpy")
    want = onemodel.Session(model, mode="exact", kernels="generic").run(None, given)[0]
    got = session.run(None, given)[0]
    assert (got.shape, got.tobytes()) == (want.shape, want.tobytes())
    assert any(step.node.parts for step in session.profile(given).nodes) == (shapes != "empty")


@pytest.mark.parametrize("pair", [((2, 3, 4), (2, 1, 4)), ((2, 1, 4, 1), (3, 1, 5)), ((4,), (5, 3, 4)), ((), (3,))])
def test_ways_to_broadcast(cupy: Any, pair: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    model = graph("a = Add(x, y) b = Mul(a, y) z = Sub(b, x)", "float x, float y")
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.ClearField("shape")
    given = {
        name: np.arange(np.prod(shape), dtype=np.float32).reshape(shape) for name, shape in zip("xy", pair, strict=True)
    }
    in_one_run = pair not in [((2, 3, 4), (2, 1, 4)), ((2, 1, 4, 1), (3, 1, 5))]
    assert check(model, given) == (["Add+Mul+Sub"] if in_one_run else [])


_EXACT = (
    "Add",
    "Sub",
    "Mul",
    "Div",
    "Neg",
    "Abs",
    "Sqrt",
    "Floor",
    "Relu",
    "Reciprocal",
    "Where",
    "Cast",
    "Clip",
    "Not",
)


@st.composite
def models(draw: Any) -> tuple[Any, dict[str, Any]]:
    """Random nodes of single IEEE operations, on all floats and truth values."""
    shapes = {"x": (6, 10), "y": (6, 10), "row": (10,), "column": (6, 1)}
    kind = draw(st.sampled_from(list(TYPES)))
    types: dict[str, int] = dict.fromkeys((*shapes, "c"), kind)
    nodes: list[Any] = []

    def pick(*kinds: int) -> str:
        return str(draw(st.sampled_from([name for name, one in types.items() if one in kinds])))

    def add(op: str, inputs: list[str], made: int, **attributes: Any) -> None:
        nodes.append(helper.make_node(op, inputs, [f"n{len(nodes)}"], **attributes))
        types[f"n{len(nodes) - 1}"] = made

    add("Less", ["x", "row"], TensorProto.BOOL)
    for op in draw(st.lists(st.sampled_from(_EXACT), min_size=3, max_size=10)):
        name = pick(*TYPES)
        if op in ("Add", "Sub", "Mul", "Div"):
            add(op, [name, pick(types[name])], types[name])
        elif op == "Where":
            add(op, [pick(TensorProto.BOOL), name, pick(types[name])], types[name])
        elif op == "Cast":
            made = draw(st.sampled_from([*TYPES, TensorProto.BOOL]))
            add(op, [pick(*TYPES, TensorProto.BOOL)], made, to=made)
        elif op == "Clip":
            add(op, [pick(kind), "c"], kind)
        elif op == "Not":
            add(op, [pick(TensorProto.BOOL)], TensorProto.BOOL)
        else:
            add(op, [name], types[name])
    last = f"n{len(nodes) - 1}"
    inputs = [helper.make_tensor_value_info(name, kind, shape) for name, shape in shapes.items()]
    output = onnx.ValueInfoProto(name=last)
    output.type.tensor_type.elem_type = types[last]
    constant = helper.make_tensor("c", kind, draw(st.sampled_from([[], [1]])), [0.5])
    made_graph = helper.make_graph(nodes, "g", inputs, [output], [constant])
    model = helper.make_model(made_graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    numbers = np.array([np.inf, -np.inf, -0.0, 0.0, 1.0, -1.5, 3.25, 0.1, -7e4, 300.7, 1e-7, 2.5e-6, np.nan])
    random = np.random.default_rng(draw(st.integers(0, 9)))
    with np.errstate(over="ignore"):
        return model, {name: random.choice(numbers, shape).astype(TYPES[kind]) for name, shape in shapes.items()}


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
@given(models())
def test_random_models_give_the_same_bits(cupy: Any, drawn: tuple[Any, dict[str, Any]]) -> None:
    check(*drawn)


def test_halves_are_rounded_at_each_node(cupy: Any) -> None:
    for kind, dtype in ((TensorProto.FLOAT16, np.float16), (TensorProto.BFLOAT16, ml_dtypes.bfloat16)):
        model = graph("a = Mul(x, y) b = Mul(a, y) c = Less(a, b) d = Where(c, a, b) z = Sub(d, x)")
        for value in (*model.graph.input, *model.graph.output):
            value.type.tensor_type.elem_type = kind
        random = np.random.default_rng(2)
        given = {name: random.standard_normal((8, 65)).astype(dtype) for name in "xy"}
        assert check(model, given) == ["Mul+Mul+Less+Where+Sub"]


def test_subnormal_numbers_are_true(cupy: Any) -> None:
    """By their bits, whatever the GPU flushes."""
    from onemodel.backends.cupy_programs import Trace

    for dtype, text in ((np.float32, "(__float_as_uint(v0) << 1) != 0"), (np.float64, "v0 != 0")):
        trace = Trace()
        trace.convert(trace.loaded("x0[i]", np.dtype(dtype)), TensorProto.BOOL)
        assert trace.lines[-1] == f"const bool v1 = {text};"
    model = graph("b = Cast<to = 9>(x) c = Cast<to = 1>(b) z = Sub(c, y)")
    x = np.array([[1e-45, -3e-39, 0.0, -0.0, np.nan, 2.0]], np.float32)
    assert check(model, {"x": x, "y": np.ones_like(x)}) == ["Cast+Cast+Sub"]


def test_what_the_host_reads(cupy: Any) -> None:
    """Resize reads its scales there, so nobody can leave them inside a step; what only shapes need runs there alone."""
    model = graph(
        """
        z, w = If (t) <
          then_branch = g1 () => (float[A,B] u, float[C] v) {
            k = Constant<value_floats = [2.0, 1.0]>() p = Add(y, k) q = Div(p, p) o = Mul(q, k)
            u = Resize(x, , o)
            r = Neg(o) v = Exp(r)
          },
          else_branch = g2 () => (float[A,B] u, float[C] v) {
            s = Shape(x) f = Cast<to = 1>(s) h = Mul(f, f) j = Cast<to = 7>(h)
            u = Expand(x, j) v = Abs(y)
          }
        >
        """,
        "float[1,1] x, float[2] y, bool t",
        "z w",
    )
    session = onemodel.Session(model, backend="cupy", outputs="numpy")
    assert groups(session) == ["Add+Div+Mul", "Neg+Exp"]
    given = {"x": np.ones((1, 1), np.float32), "y": np.array([3, 4], np.float32)}
    for choice, shape in ((True, (2, 1)), (False, (1, 1))):
        z, w = session.run(None, given | {"t": np.array(choice)})
        assert z.shape == shape
        np.testing.assert_allclose(w, np.exp([-2, -1]) if choice else [3, 4], rtol=1e-6)


def test_nothing_is_read_in_between(cupy: Any) -> None:
    model = graph(CONSTANTS + WRITTEN_OUT["choice"])
    session = onemodel.Session(model, backend="cupy", outputs="backend")
    given = {name: cupy.asarray(np.ones((5, 6), np.float32)) for name in "xy"}
    session.run(None, given)
    device_rules.reads.clear()
    session.run(None, given)
    assert device_rules.reads == []


def test_views_and_repeated_graphs(cupy: Any) -> None:
    model = graph("a = Transpose(x) b = Add(a, y) c = Mul(b, a) z = Neg(c)")
    session = onemodel.Session(model, backend="cupy", graphs=True)
    for seed in range(4):
        x, y = np.random.default_rng(seed).standard_normal((2, 9, 9)).astype(np.float32)
        assert np.array_equal(session.run(None, {"x": x, "y": y})[0], -((x.T + y) * x.T))


def test_errors_name_the_node(cupy: Any) -> None:
    model = graph("a = Neg(x) bad = Add(a, y) z = Exp(bad)")
    session = onemodel.Session(model, backend="cupy")
    assert any(isinstance(step[2], Together) for step in session._program(frozenset(), ()).steps)
    with pytest.raises(onemodel.ExecutionError, match=r"^node that makes 'bad' .*float32\[4, 3\], float32\[2, 3\]"):
        session.run(None, {"x": np.ones((4, 3), np.float32), "y": np.ones((2, 3), np.float32)})
