"""What the plan decides: resolution, types, widening, host inputs, folding, liveness, functions, refusals."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import onemodel
from onemodel import (
    ExecutionError,
    InexactOperatorError,
    LimitError,
    Limits,
    ModelError,
    Session,
    UnsupportedOperatorError,
)
from onemodel.backends import numpy_kernels
from onemodel.backends.base import Kernel
from onemodel.ops import registry
from tests.models_by_hand import constant, graph_model, node, subgraph

FLOAT, HALF, BFLOAT, INT, BOOL = "tensor(float)", "tensor(float16)", "tensor(bfloat16)", "tensor(int64)", "tensor(bool)"
DOMAIN = "test.plan"
X = np.float32([1, 2, 3])


def own(name: str, function: Any, **options: Any) -> Any:
    """An operator of the test's own, for ``operators=``."""
    return onemodel.operator(name, domain=DOMAIN, since=1, register=False, **options)(function)


def run(model: onnx.ModelProto, *operators: Any, mode: str = "fast", **feeds: Any) -> Any:
    outputs = Session(model, mode=mode, operators=operators).run(None, feeds)
    return outputs[0] if len(outputs) == 1 else outputs


@pytest.fixture
def spy() -> Any:
    """An operator that returns its input and notes what it saw."""
    seen: list[Any] = []

    def look(x: Any, /, *, xp: Any) -> Any:
        seen.append(x)
        return x

    own("Spy", look, types=("x",))
    look.seen = seen  # type: ignore[attr-defined]
    return look


# Types


@pytest.mark.parametrize("half", [HALF, BFLOAT])
def test_half_types_are_widened_and_rounded_once(half: str, spy: Any) -> None:
    from onemodel.types import dtype_of

    model = graph_model([node("Spy", ["x"], ["y"], domain=DOMAIN)], [("x", half, None)], ["y"], domains={DOMAIN: 1})
    x = np.array([1.5, 2.5]).astype(dtype_of(half))
    y = run(model, spy, x=x)
    assert [value.dtype for value in spy.seen] == [np.float32]
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y, x)


def test_one_rounding_at_the_end_not_one_per_step() -> None:
    def thirds(x: Any, /, *, xp: Any) -> Any:
        return x / xp.constant(3, x) * xp.constant(3, x)

    model = graph_model([node("Thirds", ["x"], ["y"], domain=DOMAIN)], [("x", HALF, None)], ["y"], domains={DOMAIN: 1})
    x = np.arange(1, 2000, dtype=np.float16)
    np.testing.assert_array_equal(run(model, own("Thirds", thirds, types=("x",)), x=x), x)
    assert (x / np.float16(3) * np.float16(3) != x).any()


def test_types_are_known_through_subgraphs_and_functions(spy: Any) -> None:
    """Only a known float16 is widened: the operator behind If, Cast and a function sees float32."""
    function = helper.make_function(
        "local", "Same", ["a"], ["b"], [node("Identity", ["a"], ["b"])], [helper.make_opsetid("", 21)]
    )
    branch = subgraph([node("Identity", ["h"], ["r"])], ["r"])
    model = graph_model(
        [
            node("Cast", ["x"], ["h"], to=onnx.TensorProto.FLOAT16),
            node("If", ["c"], ["i"], then_branch=branch, else_branch=branch),
            node("Same", ["i"], ["s"], domain="local"),
            node("Spy", ["s"], ["y"], domain=DOMAIN),
        ],
        [("x", FLOAT, None), ("c", BOOL, [])],
        ["y"],
        functions=[function],
        domains={DOMAIN: 1, "local": 1},
    )
    y = run(model, spy, x=X, c=np.array(True))
    assert spy.seen[0].dtype == np.float32
    assert y.dtype == np.float16


def test_wrong_types_are_refused() -> None:
    model = graph_model([node("Add", ["x", "i"], ["y"], name="sum")], [("x", FLOAT, None), ("i", INT, None)], ["y"])
    with pytest.raises(ModelError, match=r"node 'sum' .*: input 'B' is tensor\(int64\), but must be tensor\(float\)"):
        Session(model)
    model = graph_model([node("Sqrt", ["i"], ["y"], name="root")], [("i", INT, None)], ["y"])
    with pytest.raises(ModelError, match=r"input 'X' is tensor\(int64\); this version \(since opset 13\) takes tensor"):
        Session(model)


# Attributes and counts


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (
            node("Add", ["x", "x"], ["y"], name="n", axis=1),
            "has the attribute 'axis', which this version (since opset 14)",
        ),
        (node("Cast", ["x"], ["y"], name="n"), "lacks the attribute 'to', which is required"),
        (node("Add", ["x"], ["y"], name="n"), "has 1 inputs; this version takes 2"),
        (node("Identity", ["x"], ["y", "z"], name="n"), "has 2 outputs; this version takes 1"),
    ],
)
def test_what_the_nodes_own_version_lacks(made: onnx.NodeProto, message: str) -> None:
    with pytest.raises(ModelError) as error:
        Session(graph_model([made], [("x", FLOAT, None)], ["y"]))
    assert message in str(error.value)
    assert str(error.value).startswith("node 'n' (ai.onnx::")


def test_omitted_float_attributes_have_their_float32_value() -> None:
    def give(x: Any, /, *, a: float = 0.1, b: float = 0.1, xp: Any) -> Any:
        return xp.asarray([a, b, 0.1], dtype=xp.float64)

    model = graph_model(
        [node("Give", ["x"], ["y"], domain=DOMAIN, b=0.1)], [("x", FLOAT, None)], ["y"], domains={DOMAIN: 1}
    )
    a, b, plain = run(model, own("Give", give), x=X)
    assert a == b == float(np.float32(0.1)) != plain


# Host inputs and placement


def test_host_inputs_arrive_as_numpy_arrays_on_every_backend() -> None:
    seen = []

    def look(x: Any, shape: Any, /, *, xp: Any) -> Any:
        seen.append((type(x).__module__.partition(".")[0], type(shape)))
        return xp.reshape(x, tuple(int(n) for n in shape))

    model = graph_model(
        [node("Shape", ["x"], ["s"]), node("Add", ["s", "d"], ["t"]), node("Look", ["x", "t"], ["y"], domain=DOMAIN)],
        [("x", FLOAT, None), ("d", INT, None)],
        ["y", "t"],
        domains={DOMAIN: 1},
    )
    operator = own("Look", look, host=("shape",), types=("x",))
    for backend in ("numpy", "strict"):
        session = Session(model, backend=backend, mode="fast", operators=[operator])
        y, t = session.run(None, {"x": X, "d": np.array([0])})
        np.testing.assert_array_equal(y, X)
        np.testing.assert_array_equal(t, [3])
    assert seen == [("numpy", np.ndarray), ("array_api_strict", np.ndarray)]


def test_small_integer_arithmetic_for_shapes_stays_on_the_host() -> None:
    model = graph_model(
        [
            node("Shape", ["x"], ["s"]),
            node("Add", ["s", "one"], ["t"]),
            node("Sub", ["t", "one"], ["u"]),
            node("Reshape", ["x", "u"], ["y"]),
        ],
        [("x", FLOAT, None)],
        ["y"],
        initializers=[constant("one", np.array([1]))],
    )
    session = Session(model, backend="strict")
    steps = session._program(frozenset(), ()).steps
    assert [step[4].op_type for step in steps] == ["Shape", "Add", "Sub", "Reshape"], "no transfers"
    np.testing.assert_array_equal(session(x=X)["y"], X)


# Folding and liveness


def _counting() -> tuple[Any, list[int]]:
    calls: list[int] = []

    def count(x: Any, /, *, xp: Any) -> Any:
        calls.append(1)
        return x + x

    return own("Count", count, types=("x",)), calls


def _constant_model() -> onnx.ModelProto:
    return graph_model(
        [node("Count", ["w"], ["v"], domain=DOMAIN), node("Add", ["x", "v"], ["y"])],
        [("x", FLOAT, None)],
        ["y"],
        initializers=[constant("w", X)],
        domains={DOMAIN: 1},
    )


def test_constants_are_computed_once() -> None:
    operator, calls = _counting()
    session = Session(_constant_model(), mode="fast", operators=[operator])
    assert len(calls) == 1
    for _ in range(3):
        np.testing.assert_array_equal(session(x=X)["y"], 3 * X)
    assert len(calls) == 1
    assert session.memory() == {"constants": X.nbytes}, "w itself is not needed any more"


def test_huge_constants_are_not_kept() -> None:
    operator, calls = _counting()
    session = Session(_constant_model(), mode="fast", operators=[operator], limits=Limits(fold_bytes=8))
    calls.clear()
    for _ in range(3):
        np.testing.assert_array_equal(session(x=X)["y"], 3 * X)
    assert len(calls) == 3


def test_a_result_too_large_to_keep_is_not_even_computed() -> None:
    model = graph_model(
        [node("ConstantOfShape", ["shape"], ["huge"]), node("Shape", ["huge"], ["y"])],
        [],
        ["y"],
        initializers=[constant("shape", np.array([1 << 40]))],
    )
    with pytest.raises(ExecutionError, match="ConstantOfShape"):
        Session(model, mode="fast").run(None, {})


def test_a_constant_node_that_fails_fails_where_it_runs() -> None:
    branch = subgraph([node("Div", ["one", "zero"], ["q"], name="quotient")], ["q"])
    other = subgraph([node("Identity", ["one"], ["r"])], ["r"])
    model = graph_model(
        [node("If", ["c"], ["y"], then_branch=branch, else_branch=other)],
        [("c", BOOL, [])],
        ["y"],
        initializers=[constant("one", np.array([1])), constant("zero", np.array([0]))],
    )
    session = Session(model)
    assert session(c=np.array(False))["y"] == [1]
    with pytest.raises(ExecutionError, match=r"node 'quotient' .* in then_branch of If .*ZeroDivisionError"):
        session(c=np.array(True))


def test_values_are_freed_after_their_last_use() -> None:
    alive: list[bool] = []
    first: list[weakref.ref[Any]] = []

    def make(x: Any, /, *, xp: Any) -> Any:
        result = x + x
        first.append(weakref.ref(result))
        return result

    def ask(x: Any, /, *, xp: Any) -> Any:
        gc.collect()
        alive.append(first[0]() is not None)
        return x

    model = graph_model(
        [
            node("Make", ["x"], ["a"], domain=DOMAIN),
            node("Add", ["a", "a"], ["b"]),
            node("Ask", ["b"], ["y"], domain=DOMAIN),
        ],
        [("x", FLOAT, None)],
        ["y"],
        domains={DOMAIN: 1},
    )
    run(model, own("Make", make, types=("x",)), own("Ask", ask, types=("x",)), x=X)
    assert alive == [False]


def test_nodes_that_no_output_needs_do_not_run(spy: Any) -> None:
    model = graph_model(
        [node("Spy", ["x"], ["z"], domain=DOMAIN), node("Identity", ["x"], ["y"])],
        [("x", FLOAT, None)],
        ["y"],
        domains={DOMAIN: 1},
    )
    session = Session(model, operators=[spy])
    session(x=X)
    assert spy.seen == []
    session.run(["z"], {"x": X})
    assert len(spy.seen) == 1


# Functions


def _functions_model() -> onnx.ModelProto:
    """outer(x, scale) = inner(x) [+ bias], inner with an attribute that has a default and is passed on by reference."""
    opset = [helper.make_opsetid("", 21), helper.make_opsetid("local", 1)]
    value = helper.make_node("Constant", [], ["k"])
    value.attribute.append(
        onnx.AttributeProto(name="value_float", type=onnx.AttributeProto.FLOAT, ref_attr_name="factor")
    )
    inner = helper.make_function(
        "local",
        "Inner",
        ["a", "b"],
        ["r"],
        [
            value,
            node("Mul", ["a", "k"], ["m"]),
            node("Optional_", ["m", "b"], ["r"], domain=DOMAIN),
        ],
        [*opset, helper.make_opsetid(DOMAIN, 1)],
        attribute_protos=[helper.make_attribute("factor", 2.0)],
    )
    call = node("Inner", ["p"], ["q"], domain="local")
    call.attribute.append(onnx.AttributeProto(name="factor", type=onnx.AttributeProto.FLOAT, ref_attr_name="factor"))
    outer = helper.make_function("local", "Outer", ["p"], ["q"], [call], opset, attributes=["factor"])
    return graph_model(
        [
            node("Outer", ["x"], ["with_default"], domain="local"),
            node("Outer", ["x"], ["with_five"], domain="local", factor=5.0),
            node("Inner", ["x", "x"], ["with_bias"], domain="local"),
        ],
        [("x", FLOAT, None)],
        ["with_default", "with_five", "with_bias"],
        functions=[inner, outer],
        domains={"local": 1},
    )


def test_local_functions_nested_with_defaults_references_and_omitted_inputs() -> None:
    def add_if_given(a: Any, b: Any = None, /, *, xp: Any) -> Any:
        return a if b is None else a + b

    outputs = run(_functions_model(), own("Optional_", add_if_given, types=("a",)), x=X)
    for got, factor in zip(outputs, (2, 5, 3), strict=True):
        np.testing.assert_array_equal(got, factor * X)


def test_a_function_has_its_own_opset_imports() -> None:
    """Softmax of opset 1 works on rows; the model's own opset is 21."""
    function = helper.make_function(
        "local", "Rows", ["a"], ["b"], [node("Softmax", ["a"], ["b"])], [helper.make_opsetid("", 9)]
    )
    model = graph_model(
        [node("Rows", ["x"], ["y"], domain="local")],
        [("x", FLOAT, None)],
        ["y"],
        functions=[function],
        domains={"local": 1},
    )
    np.testing.assert_allclose(run(model, x=np.zeros((1, 2, 2), np.float32)), np.full((1, 2, 2), 0.25))


@pytest.mark.usefixtures("registry_restored")
@pytest.mark.parametrize("name", ["Relu", "LessOrEqual", "Clip", "ThresholdedRelu"])
def test_an_operator_without_entry_runs_through_onnx_s_function_body(name: str) -> None:
    """Bodies: a plain one, one of two inputs, one by which inputs are given, one with an attribute's default."""
    x = np.float32([-1, 0, 2])
    inputs = {"LessOrEqual": ["x", "z"], "Clip": ["x", "", "z"]}.get(name, ["x"])
    model = graph_model([node(name, inputs, ["y"])], [("x", FLOAT, None), ("z", FLOAT, [])], ["y"])
    expected = run(model, x=x, z=np.float32(0))
    registry._TABLE.pop(("", name), None)
    np.testing.assert_array_equal(run(model, x=x, z=np.float32(0)), expected)


# Refusals


def test_all_unsupported_nodes_are_named_at_once() -> None:
    branch = subgraph([node("Strange", ["x"], ["r"], name="inside", domain="far")], ["r"])
    model = graph_model(
        [
            node("Foo", ["x"], ["a"], name="first"),
            node("Upsample", ["a"], ["b"], name="second"),
            node("If", ["c"], ["y"], then_branch=branch, else_branch=branch),
        ],
        [("x", FLOAT, None), ("c", BOOL, [])],
        ["b", "y"],
        domains={"far": 3},
    )
    with pytest.raises(UnsupportedOperatorError) as error:
        Session(model)
    message = str(error.value)
    assert message.startswith("4 nodes have no definition:")
    assert "node 'first' (ai.onnx::Foo at opset 21): not an ONNX operator" in message
    assert "node 'second' (ai.onnx::Upsample at opset 21): ONNX removed it at opset 10" in message
    assert message.count("node 'inside' (far::Strange at opset 3) in then_branch of If") == 1
    assert message.endswith(
        "\nUpsample is in ai.onnx up to opset 9: let the model import the opset that it was written for "
        "(model.opset_import), or use what ONNX has in its place."
        "\nGive such an operator a meaning with @onemodel.operator(name, domain=..., since=...)."
    )
    assert [refused.op_type for refused in error.value.nodes] == ["Foo", "Upsample", "Strange", "Strange"]


def test_an_operator_that_begins_with_a_later_opset() -> None:
    nodes = [node("Gelu", ["x"], ["a"]), node("Gelu", ["a"], ["y"])]
    with pytest.raises(UnsupportedOperatorError) as error:
        Session(graph_model(nodes, [("x", FLOAT, None)], ["y"], opset=17))
    assert str(error.value).count("\n") == 3
    assert str(error.value).endswith(
        "\nGelu is in ai.onnx from opset 20 on: let the model import that or a later one (model.opset_import), "
        "or export it anew."
    )


def test_many_types_that_an_operator_takes_are_told_in_short() -> None:
    strange = "optional(seq(tensor(bfloat16)))"
    with pytest.raises(ModelError) as error:
        Session(graph_model([node("Identity", ["x"], ["y"])], [("x", strange, None)], ["y"]))
    message = str(error.value)
    assert f"input 'input' is {strange}; this version (since opset 21) takes optional(seq(tensor(T))), opt" in message
    assert "seq(tensor(T)) with T bool, complex128," in message
    assert "; tensor(T) with T bfloat16, bool," in message
    assert len(message) < 600
    few = graph_model([node("Mod", ["x", "x"], ["y"])], [("x", "tensor(string)", None)], ["y"])
    with pytest.raises(ModelError, match=r"takes tensor\(bfloat16\), tensor\(double\), .*, tensor\(uint8\)$"):
        Session(few)


def test_exact_mode_names_every_inexact_node_at_once() -> None:
    function = helper.make_function(
        "local", "F", ["a"], ["b"], [node("Multinomial", ["a"], ["b"], name="deep")], [helper.make_opsetid("", 21)]
    )
    branch = subgraph([node("Multinomial", ["x"], ["r"], name="inside")], ["r"])
    model = graph_model(
        [
            node("Multinomial", ["x"], ["a"], name="draws"),
            node("F", ["x"], ["b"], domain="local"),
            node("If", ["c"], ["y"], then_branch=branch, else_branch=branch),
            node("Add", ["x", "x"], ["z"], name="fine"),
        ],
        [("x", FLOAT, None), ("c", BOOL, [])],
        ["a", "b", "y", "z"],
        functions=[function],
        domains={"local": 1},
    )
    with pytest.raises(InexactOperatorError) as error:
        Session(model)
    message = str(error.value)
    for name in ("draws", "deep", "inside"):
        assert f"node '{name}'" in message
    assert "fine" not in message
    assert message.endswith('mode="fast"')
    assert {refused.name for refused in error.value.nodes} == {"draws", "deep", "inside"}
    Session(model, mode="fast")


def test_exact_mode_runs_what_is_exact_already() -> None:
    model = graph_model(
        [
            node("Sqrt", ["x"], ["root"]),
            node("Div", ["root", "x"], ["ratio"]),
            node("Transpose", ["ratio"], ["turned"]),
            node("Less", ["turned", "x"], ["less"]),
            node("MatMul", ["i", "i"], ["product"]),
        ],
        [("x", FLOAT, [1]), ("i", "tensor(int32)", [2, 2])],
        ["turned", "less", "product"],
    )
    turned, less, product = Session(model).run(None, {"x": np.float32([4]), "i": np.int32([[1, 2], [3, 4]])})
    assert (turned, less) == ([0.5], [True])
    np.testing.assert_array_equal(product, [[7, 10], [15, 22]])


def test_an_operator_can_be_refused_by_its_own_reason() -> None:
    operator = own("Draw", lambda x, /, *, xp: x, inexact="it draws lots")
    model = graph_model([node("Draw", ["x"], ["y"], domain=DOMAIN)], [("x", FLOAT, None)], ["y"], domains={DOMAIN: 1})
    with pytest.raises(InexactOperatorError, match="it draws lots"):
        Session(model, operators=[operator])


def test_an_operator_of_unknown_type_counts_as_float() -> None:
    def halve(x: Any, /, *, xp: Any) -> Any:
        return xp.floor_divide(x, xp.constant(2, x))

    model = graph_model([node("Halve", ["x"], ["y"], domain=DOMAIN)], [("x", INT, None)], ["y"], domains={DOMAIN: 1})
    with pytest.raises(InexactOperatorError, match="floor_divide: exact on integers alone"):
        Session(model, operators=[own("Halve", halve)])
    x = np.array([6])
    assert run(model, own("Halve", halve, types=("x",)), mode="exact", x=x) == 3


def test_a_failing_operator_names_node_operator_shapes_and_types() -> None:
    model = graph_model(
        [node("Reshape", ["x", "s"], ["y"], name="fold")], [("x", FLOAT, None), ("s", INT, None)], ["y"]
    )
    with pytest.raises(ExecutionError) as error:
        run(model, x=X, s=np.array([2, 2]))
    assert str(error.value).startswith(
        "node 'fold' (ai.onnx::Reshape at opset 21) failed on (float32[3], int64[2]): ValueError: 3 elements"
    )
    assert isinstance(error.value.__cause__, ValueError)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (Limits(nodes=1), "the model comes to 14 nodes with its functions written out; limits.nodes is 1"),
        (Limits(depth=1), "nest at least 2 deep; limits.depth is 1"),
    ],
)
def test_limits(limits: Limits, message: str) -> None:
    with pytest.raises(LimitError, match=message):
        Session(_functions_model(), limits=limits, operators=[own("Optional_", lambda a, b=None, /, *, xp: a)])


# Native kernels


def test_a_native_kernel_serves_its_own_meaning_and_types_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def native(a: Any, b: Any, /, *, xp: Any) -> Any:
        return a * 0

    monkeypatch.setitem(numpy_kernels.FAST, ("", "Add"), Kernel(native, since=7, dtypes=("float32",)))
    for opset, dtype, kernels, expected in [
        (21, np.float32, "native", 0),
        (21, np.float64, "native", 2),
        (21, np.float32, "generic", 2),
        (6, np.float32, "native", 2),
    ]:
        value_type = FLOAT if dtype == np.float32 else "tensor(double)"
        model = graph_model([node("Add", ["x", "x"], ["y"])], [("x", value_type, None)], ["y"], opset=opset)
        assert Session(model, mode="fast", kernels=kernels)(x=np.ones(1, dtype))["y"] == [expected]


def test_a_constant_sequence() -> None:
    nodes = [node("SequenceConstruct", ["k", "k"], ["s"]), node("SequenceAt", ["s", "i"], ["y"])]
    model = graph_model(nodes, [], ["y"], initializers=[constant("k", X), constant("i", np.array(1))])
    np.testing.assert_array_equal(run(model), X)


def test_a_future_opset_of_another_onnx_domain() -> None:
    model = graph_model([node("Identity", ["x"], ["y"])], [("x", FLOAT, None)], ["y"], domains={"ai.onnx.ml": 99})
    with pytest.raises(ModelError, match=r"imports opset 99 of ai.onnx.ml; 1 to \d are supported"):
        Session(model)


# What does not fit together


def test_a_function_without_an_input_that_its_nodes_need() -> None:
    function = helper.make_function(
        "local", "F", ["a", "b"], ["c"], [node("Add", ["a", "b"], ["c"], name="sum")], [helper.make_opsetid("", 21)]
    )
    model = graph_model(
        [node("F", ["x"], ["y"], domain="local")],
        [("x", FLOAT, None)],
        ["y"],
        functions=[function],
        domains={"local": 1},
    )
    with pytest.raises(ModelError, match=r"node 'sum' .* in function F lacks the input 'B', which is required"):
        Session(model)


@pytest.mark.parametrize("op", ["Sum", "Concat", "Max"])
def test_nothing_among_the_inputs_of_any_number(op: str) -> None:
    attributes = {"axis": 0} if op == "Concat" else {}
    with pytest.raises(ModelError, match=r"lacks the input '\w+', which is required"):
        Session(graph_model([node(op, ["x", ""], ["y"], **attributes)], [("x", FLOAT, None)], ["y"]))


def test_a_subgraph_that_makes_another_type_than_it_declares() -> None:
    branch = subgraph([node("Neg", ["x"], ["r"])], [])
    branch.output.append(helper.make_tensor_value_info("r", onnx.TensorProto.INT64, None))
    model = graph_model(
        [node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)], [("x", FLOAT, None), ("c", BOOL, [])], ["y"]
    )
    with pytest.raises(ModelError, match=r"'r' in .* of If 'y' is declared tensor\(int64\), but .* tensor\(float\)"):
        Session(model)


def test_a_subgraph_that_a_function_takes_as_attribute() -> None:
    inner = node("If", ["c"], ["o"])
    for name in ("then_branch", "else_branch"):
        inner.attribute.append(onnx.AttributeProto(name=name, type=onnx.AttributeProto.GRAPH, ref_attr_name="body"))
    function = helper.make_function("local", "F", ["c"], ["o"], [inner], [helper.make_opsetid("", 21)], ["body"])
    model = graph_model(
        [node("F", ["c"], ["y"], domain="local", body=subgraph([node("Neg", ["x"], ["r"])], ["r"]))],
        [("x", FLOAT, None), ("c", BOOL, [])],
        ["y"],
        functions=[function],
        domains={"local": 1},
    )
    with pytest.raises(ModelError, match=r"takes its subgraph from attribute 'body' of the function, .* not supported"):
        Session(model)


def test_functions_nested_beyond_pythons_stack() -> None:
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("local", 1)]
    functions = [helper.make_function("local", "F0", ["a"], ["b"], [node("Neg", ["a"], ["b"])], imports)]
    for i in range(1, 3000):
        body = [node(f"F{i - 1}", ["a"], ["b"], domain="local")]
        functions.append(helper.make_function("local", f"F{i}", ["a"], ["b"], body, imports))
    model = graph_model(
        [node("F2999", ["x"], ["y"], domain="local")],
        [("x", FLOAT, None)],
        ["y"],
        functions=functions,
        domains={"local": 1},
    )
    with pytest.raises(LimitError, match="deeper than Python's recursion limit"):
        Session(model, limits=Limits(depth=5000))


@pytest.mark.parametrize("result", [lambda x: x, lambda x: (x,), lambda x: None])
def test_an_operator_that_gives_fewer_results_than_the_node_has_outputs(result: Any) -> None:
    model = graph_model(
        [node("Short", ["x"], ["y", "z"], domain=DOMAIN)], [("x", FLOAT, None)], ["y", "z"], domains={DOMAIN: 1}
    )
    with pytest.raises(ExecutionError, match="it gave 1 results for 2 outputs"):
        run(model, own("Short", lambda x, /, *, xp: result(x)), x=X)


def test_an_operator_whose_types_cannot_be_told() -> None:
    def types(inputs: Any, attributes: Any) -> Any:
        return 1 / 0

    model = graph_model([node("Odd", ["x"], ["y"], domain=DOMAIN)], [("x", FLOAT, None)], ["y"], domains={DOMAIN: 1})
    with pytest.raises(ModelError, match=r"test.plan::Odd .*: the output types cannot be told: ZeroDivisionError"):
        Session(model, operators=[own("Odd", lambda x, /, *, xp: x, types=types)])


# What users' own operators do


@pytest.mark.parametrize("mode", ["fast", "exact"])
def test_an_operator_cannot_write_into_its_inputs(mode: Any) -> None:
    def add(x: Any, /, *, xp: Any) -> Any:
        x += 1
        return x

    def assign(x: Any, /, *, xp: Any) -> Any:
        x[0] = 1
        return x

    nodes = [node("Spoil", ["x"], ["h"], domain=DOMAIN), node("Add", ["h", "x"], ["y"])]
    model = graph_model(nodes, [("x", FLOAT, None)], ["y"], domains={DOMAIN: 1})
    x = X.copy()
    message = (
        r"test.plan::Spoil .* read-only: the values of a run are; make new arrays, so write x = x \+ 1, not x \+= 1"
    )
    for spoil in (add, assign):
        with pytest.raises(ExecutionError, match=message):
            run(model, own("Spoil", spoil, types=("x",)), mode=mode, x=x)
    np.testing.assert_array_equal(x, X)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (
            lambda x: x.astype(np.float64),
            "it gave an array of float64 as output 1, which is tensor(float): give constants a dtype, or cast",
        ),
        (lambda x: None, "it gave None as output 1, which is tensor(float): return an array"),
        (lambda x: 3.0, "it gave a float as output 1, which is tensor(float)"),
    ],
)
def test_results_are_of_the_types_that_an_operator_declares(result: Any, message: str) -> None:
    model = graph_model([node("Odd", ["x"], ["y"], domain=DOMAIN)], [("x", FLOAT, None)], ["y"], domains={DOMAIN: 1})
    with pytest.raises(ExecutionError) as error:
        run(model, own("Odd", lambda x, /, *, xp: result(x), types=("x",)), x=X)
    assert message in str(error.value)


def test_a_variadic_input_names_a_type() -> None:
    model = graph_model(
        [node("Join", ["x", "x"], ["h"], domain=DOMAIN), node("Neg", ["h"], ["y"])],
        [("x", FLOAT, None)],
        ["y"],
        domains={DOMAIN: 1},
    )
    join = own("Join", lambda *parts, xp: xp.concat(parts), types=("parts",))
    np.testing.assert_array_equal(run(model, join, x=X), -np.concatenate([X, X]))
    with pytest.raises(ExecutionError, match=r"float64 as output 1, which is tensor\(float\)"):
        run(model, own("Join", lambda *parts, xp: parts[0].astype(np.float64), types=("parts",)), x=X)


@pytest.mark.parametrize(
    ("function", "bounds"),
    [
        (lambda a, b, /, *, xp: a, "2"),
        (lambda a, b, c=None, /, *, xp: a, "2 to 3"),
        (lambda a, b, /, *more, xp: a, "2 or more"),
    ],
)
def test_a_wrong_number_of_inputs_is_refused(function: Any, bounds: str) -> None:
    model = graph_model([node("Odd", ["x"], ["y"], domain=DOMAIN)], [("x", FLOAT, None)], ["y"], domains={DOMAIN: 1})
    with pytest.raises(ModelError, match=rf"has 1 inputs; .*<lambda> takes {bounds}$"):
        run(model, own("Odd", function), x=X)


def test_types_that_are_none() -> None:
    with pytest.raises(ValueError, match=r"types=\['z'\] of Odd names no input of"):
        own("Odd", lambda x, /, *, xp: x, types=("z",))
    with pytest.raises(TypeError, match=r"types='x' of Odd is a text"):
        own("Odd", lambda x, /, *, xp: x, types="x")


def test_a_function_that_the_namespace_lacks() -> None:
    def wrong(x: Any, /, *, xp: Any) -> Any:
        return xp.expp(x)

    model = graph_model([node("Wrong", ["x"], ["y"], domain=DOMAIN)], [("x", FLOAT, None)], ["y"], domains={DOMAIN: 1})
    with pytest.raises(InexactOperatorError, match="xp has no 'expp'"):
        Session(model, operators=[own("Wrong", wrong)])
