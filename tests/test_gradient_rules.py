"""The gradients of shape operators, reductions, choices and activations, against differences of the function."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import onemodel
from tests.gradients import Array, agrees, agrees_twice, mixed, positive, run, with_gradient
from tests.models_by_hand import constant, node

SQUARE = node("Mul", ["p", "p"], ["y"])
CUBE = [node("Mul", ["p", "p"], ["q"]), node("Mul", ["q", "p"], ["y"])]


def spaced(*shape: int, seed: int = 0) -> Array:
    """Numbers of both signs that lie apart, so that no step makes another one the greatest."""
    count = int(np.prod(shape))
    return np.random.default_rng(seed).permutation(np.linspace(-2.1, 1.9, count) + seed / 10).reshape(shape)


# Shapes

I64 = np.int64
MOVES: dict[str, tuple[onnx.NodeProto, dict[str, Any], tuple[int, ...], int]] = {
    "Slice-1": (node("Slice", ["x"], ["p"], starts=[1, 0], ends=[3, 2], axes=[1, 0]), {}, (2, 4), 9),
    "Slice": (node("Slice", ["x", "s", "e"], ["p"]), {"s": [1], "e": [9]}, (3, 2), 10),
    "Slice of steps": (
        node("Slice", ["x", "s", "e", "a", "t"], ["p"]),
        {"s": [-1, 0], "e": [-9, 2], "a": [1, 0], "t": [-2, 1]},
        (2, 5),
        21,
    ),
    "Pad-2": (node("Pad", ["x"], ["p"], pads=[1, 0, 0, 2], value=3.0), {}, (2, 3), 10),
    "Pad-2 reflect": (node("Pad", ["x"], ["p"], pads=[1, 2, 0, 2], mode="reflect"), {}, (2, 3), 7),
    "Pad": (node("Pad", ["x", "w"], ["p"]), {"w": [1, -1, 0, 2]}, (2, 3), 11),
    "Pad edge": (node("Pad", ["x", "w"], ["p"], mode="edge"), {"w": [1, 1, 0, 2]}, (2, 3), 13),
    "Pad wrap": (node("Pad", ["x", "w", "", "a"], ["p"], mode="wrap"), {"w": [1, 2], "a": [1]}, (2, 3), 21),
    "Gather": (node("Gather", ["x", "i"], ["p"], axis=1), {"i": [[0, -1], [2, 0]]}, (2, 3, 2), 7),
    "Gather one": (node("Gather", ["x", "i"], ["p"]), {"i": 1}, (2, 3), 21),
    "GatherElements": (node("GatherElements", ["x", "i"], ["p"], axis=1), {"i": [[0, 0], [2, -1]]}, (2, 3), 11),
    "GatherND": (node("GatherND", ["x", "i"], ["p"]), {"i": [[0, 1], [1, -1], [0, 1]]}, (2, 3, 2), 21),
    "Tile": (node("Tile", ["x", "r"], ["p"]), {"r": [2, 3]}, (2, 2), 7),
    "DepthToSpace": (node("DepthToSpace", ["x"], ["p"], blocksize=2), {}, (1, 4, 2, 1), 7),
    "DepthToSpace CRD": (node("DepthToSpace", ["x"], ["p"], blocksize=2, mode="CRD"), {}, (1, 8, 1, 2), 13),
    "SpaceToDepth": (node("SpaceToDepth", ["x"], ["p"], blocksize=2), {}, (1, 1, 2, 4), 13),
    "SpaceToDepth CRD": (node("SpaceToDepth", ["x"], ["p"], blocksize=2, mode="CRD"), {}, (1, 2, 2, 4), 28),
    "Trilu": (node("Trilu", ["x", "k"], ["p"], upper=0), {"k": 1}, (2, 3, 4), 14),
    "Compress": (node("Compress", ["x", "c"], ["p"], axis=1), {"c": np.array([True, False, True])}, (2, 3), 11),
    "CenterCropPad": (node("CenterCropPad", ["x", "n"], ["p"]), {"n": [5, 2]}, (3, 4), 18),
    "ReverseSequence": (node("ReverseSequence", ["x", "n"], ["p"]), {"n": [1, 3]}, (3, 2), 10),
}


@pytest.mark.parametrize("case", MOVES)
def test_moved_elements(case: str) -> None:
    made, others, shape, opset = MOVES[case]
    initializers = [constant(name, np.array(value)) for name, value in others.items()]
    agrees([made, SQUARE], {"x": mixed(*shape)}, opset=opset, initializers=initializers)
    agrees_twice([made, *CUBE], {"x": mixed(*shape)}, "x", opset=opset, initializers=initializers)


@pytest.mark.parametrize("shape", [(), (1,)])
def test_the_value_of_padding(shape: tuple[int, ...]) -> None:
    nodes = [node("Pad", ["x", "w", "v"], ["p"]), SQUARE]
    initializers = [constant("w", np.array([1, 0, 2, 1]))]
    agrees(nodes, {"x": mixed(2, 3), "v": positive(*shape)}, initializers=initializers)


@pytest.mark.parametrize("opset", [11, 13, 21])
@pytest.mark.parametrize("used", [(0,), (1, 2), (0, 1, 2)])
def test_split(opset: int, used: tuple[int, ...]) -> None:
    sizes = np.array([1, 3, 2])
    options = {"split": list(sizes)} if opset == 11 else {}
    nodes = [node("Split", ["x", "s"][: 1 + (opset > 11)], ["a0", "a1", "a2"], axis=-1, **options)]
    nodes += [node("ReduceSum", [f"a{i}"], [f"b{i}"]) for i in used]
    nodes += [node("Sum", [f"b{i}" for i in used], ["p"]), *CUBE]
    initializers = [constant("s", sizes)] if opset > 11 else []
    agrees(nodes, {"x": mixed(2, 6)}, opset=opset, initializers=initializers)
    agrees_twice(nodes, {"x": mixed(2, 6)}, "x", opset=opset, initializers=initializers)


def test_split_with_an_unnamed_part() -> None:
    nodes = [node("Split", ["x"], ["", "p"], num_outputs=2), SQUARE]
    agrees(nodes, {"x": mixed(5, 2)})


def test_concat_twice() -> None:
    nodes = [node("Concat", ["a", "b", "a"], ["p"], axis=1), *CUBE]
    for x in "ab":
        agrees_twice(nodes, {"a": mixed(2, 1), "b": mixed(2, 2, seed=2)}, x)


# Reductions

REDUCTIONS = "ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSum ReduceLogSumExp".split()


def reduction(op: str, axes: list[int] | None, opset: int, **options: Any) -> tuple[onnx.NodeProto, Any]:
    """The node, and its initializers."""
    if axes is None or opset < 18:
        return node(op, ["x"], ["p"], **options, **({} if axes is None else {"axes": axes})), []
    return node(op, ["x", "axes"], ["p"], **options), [constant("axes", np.array(axes, np.int64))]


@pytest.mark.parametrize("op", REDUCTIONS)
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize(("axes", "opset"), [(None, 21), ([0], 11), ([-1, 0], 13), ([-1, 0], 21), ([1], 18)])
def test_reductions(op: str, keepdims: int, axes: list[int] | None, opset: int) -> None:
    made, initializers = reduction(op, axes, opset, keepdims=keepdims)
    x = positive(2, 3, 2) if op == "ReduceLogSum" else spaced(2, 3, 2)
    agrees([made, SQUARE], {"x": x}, opset=opset, initializers=initializers)


@pytest.mark.parametrize("op", [op for op in REDUCTIONS if op != "ReduceProd"])
@pytest.mark.parametrize("opset", [13, 21])
def test_reductions_twice(op: str, opset: int) -> None:
    made, initializers = reduction(op, [1], opset, keepdims=0)
    x = positive(2, 3) if op == "ReduceLogSum" else spaced(2, 3)
    agrees_twice([made, *CUBE], {"x": x}, "x", opset=opset, initializers=initializers)


@pytest.mark.parametrize("op", REDUCTIONS)
def test_reductions_along_no_axis(op: str) -> None:
    made, initializers = reduction(op, [], 21, noop_with_empty_axes=1)
    agrees([made, SQUARE], {"x": positive(2, 3)}, initializers=initializers)


@pytest.mark.parametrize("zeros", [1, 2])
def test_products_with_zeros(zeros: int) -> None:
    x = mixed(2, 3)
    x[0, :zeros] = 0
    made, initializers = reduction("ReduceProd", [1], 21)
    agrees([made, node("Mul", ["p", "x"], ["y"])], {"x": x}, initializers=initializers)


def test_the_gradient_of_a_product_s_gradient_is_refused() -> None:
    nodes = [node("ReduceProd", ["x"], ["p"]), SQUARE]
    with pytest.raises(onemodel.ModelError, match=r"no rule for the gradient of onemodel\.gradient::ReduceProdSlope"):
        agrees_twice(nodes, {"x": mixed(3)}, "x")


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
def test_running_sums(exclusive: int, reverse: int) -> None:
    made = node("CumSum", ["x", "a"], ["p"], exclusive=exclusive, reverse=reverse)
    initializers = [constant("a", np.array(1))]
    agrees([made, SQUARE], {"x": mixed(2, 4)}, initializers=initializers)
    agrees_twice([made, *CUBE], {"x": mixed(2, 4)}, "x", initializers=initializers)


# Choices


@pytest.mark.parametrize("op", ["Max", "Min"])
def test_extremes(op: str) -> None:
    inputs = {"a": spaced(2, 3), "b": spaced(3, seed=1), "c": spaced(2, 1, seed=2) / 3}
    agrees([node(op, ["a", "b", "c"], ["p"]), SQUARE], inputs, opset=8)
    agrees([node(op, ["a", "d"], ["p"]), SQUARE], {"a": spaced(2, 3), "d": spaced(2, 3, seed=4)}, opset=7)
    agrees_twice([node(op, ["a", "b", "c"], ["p"]), *CUBE], inputs, "a")


@pytest.mark.parametrize("inputs", [["x", "", "h"], ["x", "l"], ["x", "l", "h"], ["x"]])
def test_clip_to_inputs(inputs: list[str]) -> None:
    values = {"x": spaced(2, 3), "l": np.array(-0.6), "h": np.array(0.7)}
    agrees([node("Clip", inputs, ["p"]), SQUARE], {name: values[name] for name in inputs if name}, opset=12)


def test_clip_to_attributes() -> None:
    agrees([node("Clip", ["x"], ["p"], min=-0.7, max=0.8), SQUARE], {"x": spaced(2, 3)}, opset=7)


def gradients(nodes: list[onnx.NodeProto], **inputs: list[float]) -> list[Any]:
    arrays = {name: np.array(value) for name, value in inputs.items()}
    return [made.tolist() for made in run(with_gradient(nodes, arrays, list(arrays), "y"), arrays)[1:]]


def test_equal_elements_share_the_gradient() -> None:
    assert gradients([node("Max", ["a", "b"], ["y"])], a=[1, 2.0], b=[1, 3.0]) == [[0.5, 0], [0.5, 1]]
    assert gradients([node("Min", ["a", "a", "b"], ["y"])], a=[1.0], b=[1.0]) == [[pytest.approx(2 / 3)], [1 / 3]]
    assert gradients([node("ReduceMax", ["a"], ["y"])], a=[4.0, 1, 4, 4, 4]) == [[0.25, 0, 0.25, 0.25, 0.25]]


def test_at_the_edges() -> None:
    # Limits that an element meets pass its gradient; both limits that meet give it to the upper one.
    clip = [node("Clip", ["x", "l", "h"], ["y"])]
    arrays = {"x": np.array([-1.0, 1.0, 0.5, 3.0, -3.0]), "l": np.array(-1.0), "h": np.array(1.0)}
    made = run(with_gradient(clip, arrays, list(arrays), "y"), arrays)[1:]
    assert [array.tolist() for array in made] == [[1, 1, 1, 0, 0], 1, 1]
    assert gradients([node("ReduceL2", ["x"], ["y"])], x=[0.0, 0.0]) == [[0, 0]]
    assert gradients([node("ReduceL1", ["x"], ["y"])], x=[0.0, -2.0]) == [[0, -1]]


@pytest.mark.parametrize(("opset", "fmod"), [(10, 1), (21, 1), (28, 0)])
def test_remainders(opset: int, fmod: int) -> None:
    inputs = {"a": spaced(2, 3) * 3.1, "b": np.array([0.7, -0.9, 1.3])}
    agrees([node("Mod", ["a", "b"], ["p"], fmod=fmod), SQUARE], inputs, opset=opset)
    agrees_twice([node("Mod", ["a", "b"], ["p"], fmod=fmod), *CUBE], inputs, "b", opset=opset)


# Activations

ACTIVATIONS = {
    "LeakyRelu": {"alpha": 0.3},
    "Elu": {"alpha": 1.5},
    "Selu": {},
    "HardSigmoid": {"alpha": 0.4},
    "HardSwish": {},
    "Gelu": {},
    "Swish": {"alpha": 1.7},
    "Mish": {},
    "Softsign": {},
    "ThresholdedRelu": {"alpha": 0.6},
    "Shrink": {"lambd": 0.8, "bias": 0.25},
}


@pytest.mark.parametrize("op", ACTIVATIONS)
@pytest.mark.parametrize("by_default", [False, True])
def test_activations(op: str, by_default: bool) -> None:
    nodes = [node(op, ["x"], ["p"], **({} if by_default else ACTIVATIONS[op])), node("Mul", ["p", "x"], ["y"])]
    agrees(nodes, {"x": 2 * spaced(2, 4)}, opset=24)
    agrees_twice(nodes, {"x": 2 * spaced(2, 4)}, "x", opset=24)


def test_gelu_by_tanh() -> None:
    nodes = [node("Gelu", ["x"], ["p"], approximate="tanh"), node("Mul", ["p", "x"], ["y"])]
    agrees(nodes, {"x": spaced(2, 4)})
    agrees_twice(nodes, {"x": spaced(2, 4)}, "x")


@pytest.mark.parametrize("op", ["Elu", "Selu", "Softsign"])
def test_far_from_zero(op: str) -> None:
    ((low, high),) = gradients([node(op, ["x"], ["y"])], x=[-1e4, 1e4])
    assert low == pytest.approx(0, abs=1e-7)
    assert high == pytest.approx({"Selu": 1.05070102214813232421875, "Softsign": 0}.get(op, 1), abs=1e-7)


def test_celu() -> None:
    # It takes float32 alone.
    x = [-1e4, -1.5, -0.25, 0.25, 1.5, 1e4]
    nodes = [
        node("Cast", ["x"], ["f"], to=onnx.TensorProto.FLOAT),
        node("Celu", ["f"], ["p"], alpha=0.75),
        node("Cast", ["p"], ["y"], to=onnx.TensorProto.DOUBLE),
    ]
    np.testing.assert_allclose(gradients(nodes, x=x), [np.exp(np.minimum(x, 0) / 0.75)], rtol=1e-6)


@pytest.mark.parametrize("opset", [7, 21])
def test_parametric_relu(opset: int) -> None:
    nodes = [node("PRelu", ["x", "s"], ["p"]), SQUARE]
    agrees(nodes, {"x": spaced(2, 3, 2), "s": positive(3, 1)}, opset=opset)
    agrees_twice([nodes[0], *CUBE], {"x": spaced(2, 3), "s": positive(3)}, "s", opset=opset)


def test_rounding_has_no_slope() -> None:
    for op in ("Sign", "Floor", "Ceil", "Round"):
        assert gradients([node(op, ["x"], ["p"]), node("Mul", ["p", "x"], ["y"])], x=[1.25, -2.75]) == [
            {"Sign": [1, -1], "Floor": [1, -3], "Ceil": [2, -2], "Round": [1, -3]}[op]
        ]


# Types


def test_casts_between_floats() -> None:
    nodes = [
        node("Cast", ["x"], ["f"], to=onnx.TensorProto.FLOAT),
        node("Mul", ["f", "f"], ["q"]),
        node("CastLike", ["q", "x"], ["y"]),
    ]
    assert gradients(nodes, x=[1.5, -2.25]) == [[3, -4.5]]


@pytest.mark.parametrize("between", [onnx.TensorProto.INT32, onnx.TensorProto.BOOL])
def test_casts_to_other_types_have_no_slope(between: int) -> None:
    nodes = [
        node("Cast", ["x"], ["i"], to=between),
        node("Cast", ["i"], ["p"], to=onnx.TensorProto.DOUBLE),
        node("Mul", ["p", "x"], ["y"]),
    ]
    assert gradients(nodes, x=[1.0, 0.0]) == [[1, 0]]
