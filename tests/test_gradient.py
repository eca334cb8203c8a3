"""The operator Gradient, against differences of the function itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import onemodel
from tests.gradients import TRAINING, agrees, agrees_twice, mixed, positive, run, with_gradient
from tests.models_by_hand import constant, graph_model, node, subgraph


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "Pow"])
@pytest.mark.parametrize("shapes", [((2, 3), (2, 3)), ((2, 3), (3,)), ((1, 3), (2, 1)), ((), (2,))])
@pytest.mark.parametrize("opset", [7, 21])
def test_arithmetic_with_broadcasting(op: str, shapes: Any, opset: int) -> None:
    inputs = {name: positive(*shape, seed=i) for i, (name, shape) in enumerate(zip("ab", shapes, strict=True))}
    agrees([node(op, ["a", "b"], ["p"]), node("Mul", ["p", "p"], ["y"])], inputs, opset=opset)


@pytest.mark.parametrize(
    "op",
    "Neg Exp Log Sqrt Reciprocal Sin Cos Tan Sinh Cosh Tanh Asin Acos Atan Asinh Acosh Atanh Erf Sigmoid Softplus Relu "
    "Abs LeakyRelu Identity".split(),
)
def test_functions_of_one_element(op: str) -> None:
    inputs = {"x": positive(2, 3) if op in ("Log", "Sqrt") else mixed(2, 3)}
    if op in ("Asin", "Acos", "Atanh"):
        inputs["x"] /= 2.5
    if op == "Acosh":
        inputs["x"] = positive(2, 3) + 0.75
    agrees([node(op, ["x"], ["p"]), node("Mul", ["p", "x"], ["y"])], inputs)


@pytest.mark.parametrize("op", ["Sum", "Mean"])
def test_many_inputs(op: str) -> None:
    inputs = {"a": mixed(2, 3), "b": mixed(3, seed=3), "c": mixed(2, 1, seed=5)}
    agrees([node(op, ["a", "b", "c", "a"], ["p"]), node("Mul", ["p", "p"], ["y"])], inputs)


def test_where_and_comparisons() -> None:
    nodes = [node("Greater", ["a", "b"], ["c"]), node("Where", ["c", "a", "b"], ["p"]), node("Mul", ["p", "a"], ["y"])]
    agrees(nodes, {"a": mixed(2, 3), "b": mixed(3, seed=3)})


@pytest.mark.parametrize(
    "shapes", [((2, 3), (3, 4)), ((3,), (3, 4)), ((2, 3), (3,)), ((3,), (3,)), ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4))]
)
def test_matmul(shapes: Any) -> None:
    inputs = {name: mixed(*shape, seed=i) for i, (name, shape) in enumerate(zip("ab", shapes, strict=True))}
    agrees([node("MatMul", ["a", "b"], ["p"]), node("Mul", ["p", "p"], ["y"])], inputs)


@pytest.mark.parametrize("trans_a", [0, 1])
@pytest.mark.parametrize("trans_b", [0, 1])
def test_gemm(trans_a: int, trans_b: int) -> None:
    inputs = {
        "a": mixed(*((3, 2) if trans_a else (2, 3))),
        "b": mixed(*((4, 3) if trans_b else (3, 4)), seed=2),
        "c": mixed(4, seed=4),
    }
    options: dict[str, Any] = {"transA": trans_a, "transB": trans_b, "alpha": 0.5, "beta": 2.0}
    agrees([node("Gemm", ["a", "b", "c"], ["p"], **options), node("Mul", ["p", "p"], ["y"])], inputs)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"strides": [2, 2]},
        {"strides": [2, 3], "pads": [1, 0, 2, 1]},
        {"dilations": [2, 1], "pads": [1, 1, 1, 1]},
        {"group": 2},
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
        {"auto_pad": "SAME_LOWER"},
        {"auto_pad": "VALID", "strides": [3, 2]},
    ],
)
def test_conv(options: dict[str, Any]) -> None:
    group = options.get("group", 1)
    inputs = {"x": mixed(1, 2, 6, 5), "w": mixed(4, 2 // group, 3, 2, seed=2), "b": mixed(4, seed=4)}
    agrees([node("Conv", ["x", "w", "b"], ["p"], **options), node("Mul", ["p", "p"], ["y"])], inputs)


def test_conv_in_one_dimension() -> None:
    inputs = {"x": mixed(1, 2, 9), "w": mixed(3, 2, 4, seed=2)}
    agrees([node("Conv", ["x", "w"], ["p"], strides=[2]), node("Mul", ["p", "p"], ["y"])], inputs)


@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMean"])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axes", [None, [0], [-1, 0]])
@pytest.mark.parametrize("opset", [11, 21])
def test_reductions(op: str, keepdims: int, axes: list[int] | None, opset: int) -> None:
    as_input = axes is not None and opset == 21
    options = {"axes": axes} if axes is not None and opset == 11 else {}
    nodes = [
        node(op, ["p", "axes"] if as_input else ["p"], ["q"], keepdims=keepdims, **options),
        node("Mul", ["q", "q"], ["y"]),
    ]
    initializers = [constant("axes", np.array(axes))] if as_input else []
    nodes.insert(0, node("Mul", ["x", "x"], ["p"]))
    agrees(nodes, {"x": mixed(2, 3, 4)}, opset=opset, initializers=initializers)


def test_a_reduction_of_nothing() -> None:
    nodes = [node("ReduceSum", ["x"], ["p"], noop_with_empty_axes=1), node("Mul", ["p", "x"], ["y"])]
    agrees(nodes, {"x": mixed(2, 3)})


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize(("axis", "opset"), [(0, 11), (1, 11), (None, 11), (0, 21), (1, 21), (None, 21)])
def test_softmax(op: str, axis: int | None, opset: int) -> None:
    options = {} if axis is None else {"axis": axis}
    nodes = [node(op, ["x"], ["p"], **options), node("Mul", ["p", "w"], ["y"])]
    agrees(nodes, {"x": mixed(2, 3, 2), "w": mixed(2, 3, 2, seed=2)}, opset=opset)


@pytest.mark.parametrize(
    ("made", "initializers"),
    [
        (node("Reshape", ["x", "s"], ["p"]), [constant("s", np.array([3, -1]))]),
        (node("Flatten", ["x"], ["p"], axis=2), []),
        (node("Unsqueeze", ["x", "s"], ["p"]), [constant("s", np.array([1]))]),
        (node("Squeeze", ["x", "s"], ["p"]), [constant("s", np.array([0]))]),
        (node("Transpose", ["x"], ["p"], perm=[2, 0, 1]), []),
        (node("Transpose", ["x"], ["p"]), []),
        (node("Expand", ["x", "s"], ["p"]), [constant("s", np.array([4, 2, 3]))]),
        (node("Concat", ["x", "x", "x"], ["p"], axis=-2), []),
    ],
    ids=lambda value: value.op_type if isinstance(value, onnx.NodeProto) else "",
)
def test_shapes(made: onnx.NodeProto, initializers: list[onnx.TensorProto]) -> None:
    agrees([made, node("Mul", ["p", "p"], ["y"])], {"x": mixed(1, 2, 3)}, initializers=initializers)


def test_concat_of_different_parts() -> None:
    nodes = [node("Concat", ["a", "b", "a"], ["p"], axis=1), node("Mul", ["p", "p"], ["y"])]
    agrees(nodes, {"a": mixed(2, 1), "b": mixed(2, 3, seed=2)})


# The graph


def test_a_network_of_layers() -> None:
    nodes = [
        node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        node("Relu", ["c"], ["r"]),
        node("Flatten", ["r"], ["f"]),
        node("Gemm", ["f", "v"], ["g"]),
        node("LogSoftmax", ["g"], ["l"]),
        node("Mul", ["l", "t"], ["m"]),
        node("ReduceMean", ["m"], ["y"], keepdims=0),
    ]
    inputs = {"x": mixed(2, 1, 3, 3), "w": mixed(2, 1, 3, 3, seed=1), "b": mixed(2, seed=2)}
    agrees(nodes, {**inputs, "v": mixed(18, 3, seed=3), "t": positive(2, 3)})


MUL = [node("Mul", ["a", "b"], ["h"]), node("Mul", ["h", "b"], ["y"])]
AB = {"a": np.array([2.0, 3.0]), "b": np.array([5.0, 7.0])}


def test_an_intermediate_variable() -> None:
    # y = h b: its gradient with respect to h is b, with respect to b is h.
    _, dh, db = run(with_gradient(MUL, AB, ["h", "b"], "y"), AB)
    assert dh.tolist() == [5, 7]
    assert db.tolist() == [10, 21]


def test_at_another_point_than_the_graph_s() -> None:
    inputs = {**AB, "e": np.array([1.0, -1.0])}
    y, da, db = run(with_gradient(MUL, inputs, ["a", "b"], "y", feeds=["e", "a"]), inputs)
    assert y.tolist() == [50, 147]
    assert da.tolist() == [4, 9]
    assert db.tolist() == [4, -6]


def test_zs_take_part_but_have_no_gradient() -> None:
    (_, da) = run(with_gradient(MUL, AB, ["a"], "y", zs=["b"]), AB)
    assert da.tolist() == [25, 49]


def test_what_is_not_listed_keeps_its_value() -> None:
    inputs = {"a": AB["a"]}
    _, da = run(with_gradient(MUL, inputs, ["a"], "y", initializers=[constant("b", AB["b"])]), inputs)
    assert da.tolist() == [25, 49]


def test_a_variable_without_influence_has_gradient_zero() -> None:
    inputs = {**AB, "e": np.ones((2, 2))}
    assert run(with_gradient(MUL, inputs, ["a", "e"], "y"), inputs)[2].tolist() == [[0, 0], [0, 0]]


def test_the_target_itself() -> None:
    assert run(with_gradient(MUL, AB, ["y"], "y"), AB)[1].tolist() == [1, 1]


def test_an_output_may_be_omitted() -> None:
    proto = with_gradient(MUL, AB, ["a", "b"], "y")
    proto.graph.node[-1].output[0] = ""
    del proto.graph.output[1]
    assert run(proto, AB)[1].tolist() == [20, 42]


def test_the_gradient_may_stand_before_its_target() -> None:
    proto = with_gradient(MUL, AB, ["a", "b"], "y")
    last = proto.graph.node.pop()
    proto.graph.node.insert(0, last)
    assert run(proto, AB)[1].tolist() == [25, 49]


def test_inside_a_function() -> None:
    inner = [
        node("LeakyRelu", ["a"], ["h"]),
        node("Mul", ["h", "b"], ["y"]),
        node("Gradient", ["a", "b"], ["da", "db"], domain=TRAINING, xs=["a", "b"], y="y"),
    ]
    inner[0].attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT))
    imports = [helper.make_opsetid("", 21), helper.make_opsetid(TRAINING, 1)]
    function = helper.make_function("own", "Slopes", ["a", "b"], ["da", "db"], inner, imports, ["slope"])
    proto = graph_model(
        [node("Slopes", ["a", "b"], ["p", "q"], domain="own", slope=0.25)],
        [("a", "tensor(double)", None), ("b", "tensor(double)", None)],
        ["p", "q"],
        functions=[function],
        domains={"own": 1, TRAINING: 1},
    )
    p, q = run(proto, {"a": np.array([-4.0, 3.0]), "b": np.array([2.0, 5.0])})
    assert p.tolist() == [0.5, 5]
    assert q.tolist() == [-1, 3]


def test_constant_nodes_and_subgraphs_that_do_not_vary() -> None:
    branches = [subgraph([node("Identity", [name], [f"{name}_{i}"])], [f"{name}_{i}"]) for i, name in enumerate("bk")]
    nodes = [
        node("Constant", [], ["k"], value_float=2.0),
        node("Cast", ["k"], ["kd"], to=onnx.TensorProto.DOUBLE),
        node("If", ["c"], ["p"], then_branch=branches[0], else_branch=branches[0]),
        node("Mul", ["a", "p"], ["q"]),
        node("Mul", ["q", "kd"], ["y"]),
    ]
    initializers = [constant("c", np.array(True))]
    _, da = run(with_gradient(nodes, AB, ["a"], "y", zs=["b"], initializers=initializers), AB)
    assert da.tolist() == [10, 14]


class TestSecondOrder:
    @pytest.mark.parametrize("op", ["Mul", "Div", "Pow", "Add", "Sub"])
    def test_arithmetic(self, op: str) -> None:
        nodes = [node(op, ["a", "b"], ["p"]), node("Mul", ["p", "p"], ["q"]), node("Mul", ["q", "a"], ["y"])]
        agrees_twice(nodes, {"a": positive(2, 3), "b": positive(3, seed=1)}, "b")

    @pytest.mark.parametrize(
        "op", "Exp Log Sqrt Reciprocal Sin Cos Tan Sinh Cosh Tanh Asin Atan Asinh Erf Sigmoid Softplus Relu".split()
    )
    def test_functions(self, op: str) -> None:
        x = positive(2, 3) / (2.5 if op in ("Asin", "Tan") else 1)
        agrees_twice([node(op, ["x"], ["p"]), node("Mul", ["p", "p"], ["y"])], {"x": x}, "x")

    @pytest.mark.parametrize("shapes", [((2, 3), (3, 4)), ((3,), (3, 2)), ((2, 3), (3,))])
    @pytest.mark.parametrize("x", ["a", "b"])
    def test_matmul(self, shapes: Any, x: str) -> None:
        inputs = {name: mixed(*shape, seed=i) for i, (name, shape) in enumerate(zip("ab", shapes, strict=True))}
        agrees_twice([node("MatMul", ["a", "b"], ["p"]), node("Mul", ["p", "p"], ["y"])], inputs, x)

    @pytest.mark.parametrize("x", ["a", "b", "c"])
    def test_gemm(self, x: str) -> None:
        inputs = {"a": mixed(2, 3), "b": mixed(4, 3, seed=1), "c": mixed(4, seed=2)}
        nodes = [node("Gemm", ["a", "b", "c"], ["p"], transB=1, alpha=0.5), node("Mul", ["p", "p"], ["y"])]
        agrees_twice(nodes, inputs, x)

    @pytest.mark.parametrize("x", ["x", "w", "b"])
    def test_conv(self, x: str) -> None:
        inputs = {"x": mixed(1, 2, 4, 4), "w": mixed(2, 2, 2, 2, seed=1), "b": mixed(2, seed=2)}
        options: dict[str, Any] = {"strides": [2, 1], "pads": [1, 0, 0, 1]}
        agrees_twice([node("Conv", ["x", "w", "b"], ["p"], **options), node("Mul", ["p", "p"], ["y"])], inputs, x)

    @pytest.mark.parametrize("opset", [11, 21])
    def test_reductions_and_softmax(self, opset: int) -> None:
        nodes = [
            node("Softmax", ["x"], ["p"]),
            node("Mul", ["p", "x"], ["q"]),
            node("ReduceMean", ["q"], ["r"], keepdims=0, **({"axes": [1]} if opset == 11 else {})),
            node("Mul", ["r", "r"], ["y"]),
        ]
        agrees_twice(nodes, {"x": mixed(2, 3)}, "x", opset=opset)

    def test_shapes(self) -> None:
        nodes = [node("Transpose", ["x"], ["p"]), node("Reshape", ["p", "flat"], ["q"]), node("Mul", ["q", "q"], ["y"])]
        agrees_twice(nodes, {"x": mixed(2, 3)}, "x", initializers=[constant("flat", np.array([-1]))])


class TestErrors:
    def refused(self, message: str, proto: onnx.ModelProto) -> None:
        with pytest.raises(onemodel.ModelError, match=message) as raised:
            onemodel.Session(proto, mode="fast")
        assert "'slope'" in str(raised.value)

    def test_an_operator_without_a_rule(self) -> None:
        nodes = [node("Einsum", ["a"], ["p"], equation="i->i"), node("Mul", ["p", "b"], ["y"])]
        self.refused(
            "no rule for the gradient of ai.onnx::Einsum, which makes 'p'", with_gradient(nodes, AB, ["a", "b"], "y")
        )
        assert run(with_gradient(nodes, AB, ["b"], "y", zs=["a"]), AB)[1].shape == (2,)

    def test_the_number_of_inputs(self) -> None:
        self.refused("need 2 inputs", with_gradient(MUL, AB, ["a", "b"], "y", feeds=["a"]))

    def test_an_old_opset(self) -> None:
        self.refused("opset 7 or later", with_gradient(MUL, AB, ["a", "b"], "y", opset=6))

    def test_a_target_that_nothing_makes(self) -> None:
        proto = with_gradient(MUL, AB, ["a", "b"], "nowhere")
        proto.graph.output[0].name = "y"
        with pytest.raises(onemodel.ModelError, match="'nowhere'"):
            onemodel.Session(proto, mode="fast")

    def test_a_target_that_depends_on_the_gradient(self) -> None:
        nodes = [node("Mul", ["a", "d0"], ["y"])]
        self.refused("depends on its own outputs", with_gradient(nodes, AB, ["a"], "y"))
