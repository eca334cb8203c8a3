"""What ONNX Runtime's quantiser and its float16 converter make of small networks gives ONNX Runtime's numbers.

Rounding turns a difference of the last bit into one of a whole step wherever a number lies half way, so outputs are
compared in steps: nearly all equal, none far off. The float network tells that a variant still computes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)
from onnxruntime.quantization.matmul_nbits_quantizer import DefaultWeightOnlyQuantConfig, MatMulNBitsQuantizer
from onnxruntime.transformers.float16 import convert_float_to_float16

import onemodel
from tests.models.oracle import Oracle, error

Array = NDArray[Any]
PATHS: list[dict[str, Any]] = [{"mode": "fast"}, {"mode": "fast", "kernels": "generic"}, {"mode": "exact"}]
node = helper.make_node


class Weights:
    """Seeded random initializers, by name."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self.tensors: list[onnx.TensorProto] = []

    def __call__(self, *shape: int, scale: float | None = None) -> str:
        name = f"w{len(self.tensors)}"
        fan = np.prod(shape[1:]) if len(shape) == 4 else shape[0]
        array = self._rng.standard_normal(shape) * (scale or (2 / fan) ** 0.5)
        self.tensors.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    def constant(self, array: Any) -> str:
        name = f"w{len(self.tensors)}"
        self.tensors.append(numpy_helper.from_array(np.asarray(array), name))
        return name


def _model(nodes: list[onnx.NodeProto], shape: Sequence[Any], weights: Weights, opset: int) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        weights.tensors,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return onnx.shape_inference.infer_shapes(model)


def cnn(opset: int) -> onnx.ModelProto:
    """Convolutions, one of them by channel, a residual, pooling and a classifier."""
    w = Weights(0)
    nodes = [
        node("Conv", ["x", w(8, 3, 3, 3), w(8, scale=0.1)], ["c1"], pads=[1, 1, 1, 1]),
        node("Relu", ["c1"], ["r1"]),
        node("Conv", ["r1", w(8, 1, 3, 3), w(8, scale=0.1)], ["c2"], pads=[1, 1, 1, 1], group=8),
        node("Relu", ["c2"], ["r2"]),
        node("Conv", ["r2", w(8, 8, 1, 1), w(8, scale=0.1)], ["c3"]),
        node("Add", ["c3", "r1"], ["a"]),
        node("MaxPool", ["a"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["p", w(12, 8, 3, 3), w(12, scale=0.1)], ["c4"], strides=[2, 2]),
        node("Relu", ["c4"], ["r4"]),
        node("GlobalAveragePool", ["r4"], ["g"]),
        node("Flatten", ["g"], ["f"]),
        node("Gemm", ["f", w(12, 10), w(10, scale=0.1)], ["y"]),
    ]
    return _model(nodes, ["N", 3, 16, 16], w, opset)


def transformer(opset: int) -> onnx.ModelProto:
    """An encoder layer of two heads: projections, attention, LayerNormalization and a feed-forward part."""
    w = Weights(1)
    split = w.constant(np.array([0, 0, 2, 16]))
    joined = w.constant(np.array([0, 0, 32]))
    nodes = []
    for name, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        nodes += [
            node("MatMul", ["x", w(32, 32, scale=0.2)], [f"{name}0"]),
            node("Add", [f"{name}0", w(32, scale=0.1)], [f"{name}1"]),
            node("Reshape", [f"{name}1", split], [f"{name}2"]),
            node("Transpose", [f"{name}2"], [name], perm=perm),
        ]
    nodes += [
        node("MatMul", ["q", "k"], ["s"]),
        node("Mul", ["s", w.constant(np.float32(0.25))], ["s1"]),
        node("Softmax", ["s1"], ["p"], axis=-1),
        node("MatMul", ["p", "v"], ["o"]),
        node("Transpose", ["o"], ["o1"], perm=[0, 2, 1, 3]),
        node("Reshape", ["o1", joined], ["o2"]),
        node("MatMul", ["o2", w(32, 32, scale=0.2)], ["o3"]),
        node("Add", ["o3", "x"], ["h"]),
        node("LayerNormalization", ["h", w(32, scale=1), w(32, scale=0.1)], ["n"], axis=-1),
        node("MatMul", ["n", w(32, 64, scale=0.2)], ["m"]),
        node("Add", ["m", w(64, scale=0.1)], ["m1"]),
        node("Div", ["m1", w.constant(np.float32(2**0.5))], ["e0"]),
        node("Erf", ["e0"], ["e1"]),
        node("Add", ["e1", w.constant(np.float32(1))], ["e2"]),
        node("Mul", ["m1", "e2"], ["e3"]),
        node("MatMul", ["e3", w(64, 32, scale=0.2)], ["m2"]),
        node("Add", ["m2", "n"], ["y"]),
    ]
    return _model(nodes, ["N", "T", 32], w, opset)


NETWORKS: Mapping[str, tuple[Callable[[int], onnx.ModelProto], list[tuple[int, ...]]]] = {
    "cnn": (cnn, [(2, 3, 16, 16), (1, 3, 16, 16)]),
    "transformer": (transformer, [(2, 7, 32), (1, 12, 32)]),
}


def inputs(shape: tuple[int, ...], seed: int) -> dict[str, Array]:
    return {"x": np.random.default_rng(seed).standard_normal(shape).astype(np.float32)}


class Reader(CalibrationDataReader):  # type: ignore[misc]
    """A few seeded inputs to find the ranges on."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._feeds = iter([inputs(shape, seed) for seed in range(100, 108)])

    def get_next(self) -> dict[str, Array] | None:
        return next(self._feeds, None)


STATIC: dict[str, dict[str, Any]] = {
    "QDQ, uint8 and int8": {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8},
    "QDQ, int8 by channel": {
        "activation_type": QuantType.QInt8,
        "weight_type": QuantType.QInt8,
        "per_channel": True,
    },
    "QDQ, uint8 symmetric": {
        "activation_type": QuantType.QUInt8,
        "weight_type": QuantType.QUInt8,
        "extra_options": {"ActivationSymmetric": True},
    },
    "QDQ, 16-bit activations": {"activation_type": QuantType.QUInt16, "weight_type": QuantType.QInt8},
    "QDQ, 4-bit weights": {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt4},
    "QOperator, uint8": {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QUInt8},
    "QOperator, int8 by channel": {
        "activation_type": QuantType.QInt8,
        "weight_type": QuantType.QInt8,
        "per_channel": True,
    },
}
STANDARD = ["Conv", "MatMul", "MaxPool", "Relu", "Reshape", "Transpose"]
"""What QOperator turns into operators of ai.onnx; of Add, Softmax and others it makes operators of com.microsoft."""


def static(network: str, way: str, folder: Path) -> onnx.ModelProto:
    build, shapes = NETWORKS[network]
    options = dict(STATIC[way])
    operators = way.startswith("QOperator")
    opset = 21 if "16-bit" in way or "4-bit" in way else 17
    source, target = folder / "float.onnx", folder / "quantised.onnx"
    onnx.save(build(opset), source)
    quantize_static(
        source,
        target,
        Reader(shapes[0]),
        quant_format=QuantFormat.QOperator if operators else QuantFormat.QDQ,
        op_types_to_quantize=STANDARD if operators else None,
        **options,
    )
    return onnx.load(target)


def dynamic(network: str, weight: Any, by_channel: bool, folder: Path) -> onnx.ModelProto:
    source, target = folder / "float.onnx", folder / "quantised.onnx"
    onnx.save(NETWORKS[network][0](17), source)
    quantize_dynamic(
        source, target, weight_type=weight, per_channel=by_channel, op_types_to_quantize=["MatMul", "Conv", "Gemm"]
    )
    return onnx.load(target)


def compare(proto: onnx.ModelProto, network: str, far: float, most: float) -> set[str]:
    """Compare with ONNX Runtime and with the float network, on every path.

    Args:
        proto: the quantised network.
        network: which one it is.
        far: how far it may lie from the float network, as a part of the greatest output.
        most: how far from ONNX Runtime.

    Returns:
        the operators of the model.
    """
    assert {entry.domain for entry in proto.opset_import if entry.domain} <= {"ai.onnx", "ai.onnx.ml", "com.microsoft"}
    assert {node.domain for node in proto.graph.node} <= {"", "ai.onnx"}
    build, shapes = NETWORKS[network]
    oracle, plain = Oracle(proto), Oracle(build(17))
    for options in PATHS:
        session = onemodel.Session(proto, **options)
        for seed, shape in enumerate(shapes):
            feeds = inputs(shape, seed)
            (got,), (theirs,), (floats,) = session.run(None, feeds), oracle.run(feeds), plain.run(feeds)
            assert (got.shape, got.dtype) == (theirs.shape, theirs.dtype)
            assert error(got, theirs) <= most
            assert np.median(np.abs(got - theirs)) <= 1e-5 * np.abs(theirs).max()
            assert error(got, floats) <= far
    return {node.op_type for node in proto.graph.node}


@pytest.mark.parametrize("way", STATIC)
@pytest.mark.parametrize("network", NETWORKS)
def test_static(network: str, way: str, tmp_path: Path) -> None:
    proto = static(network, way, tmp_path)
    operators = compare(proto, network, 0.6 if "4-bit" in way else 0.2, 0.03)
    if way.startswith("QOperator"):
        assert operators >= ({"QLinearConv"} if network == "cnn" else {"QLinearMatMul"})
    else:
        assert operators >= {"QuantizeLinear", "DequantizeLinear"}


@pytest.mark.parametrize("by_channel", [False, True])
@pytest.mark.parametrize("weight", [QuantType.QInt8, QuantType.QUInt8])
@pytest.mark.parametrize("network", NETWORKS)
def test_dynamic(network: str, weight: Any, by_channel: bool, tmp_path: Path) -> None:
    operators = compare(dynamic(network, weight, by_channel, tmp_path), network, 0.12, 0.03)
    assert operators >= {"DynamicQuantizeLinear", "ConvInteger" if network == "cnn" else "MatMulInteger"}


@pytest.mark.parametrize("symmetric", [True, False])
def test_blocks_of_four_bits(symmetric: bool) -> None:
    """Weights in blocks of 16 along the sum, by DequantizeLinear of opset 21."""
    config = DefaultWeightOnlyQuantConfig(block_size=16, is_symmetric=symmetric, quant_format=QuantFormat.QDQ)
    quantizer = MatMulNBitsQuantizer(transformer(21), algo_config=config)
    quantizer.process()
    proto = quantizer.model.model
    blocks = [attribute.i for n in proto.graph.node for attribute in n.attribute if attribute.name == "block_size"]
    assert set(blocks) == {16}
    compare(proto, "transformer", 0.4, 1e-5)


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("network", NETWORKS)
def test_float16(network: str, keep: bool) -> None:
    build, shapes = NETWORKS[network]
    proto = convert_float_to_float16(build(17), keep_io_types=keep)
    oracle, plain = Oracle(proto), Oracle(build(17))
    for options in PATHS:
        session = onemodel.Session(proto, **options)
        for seed, shape in enumerate(shapes):
            feeds = inputs(shape, seed)
            (floats,) = plain.run(feeds)
            given = feeds if keep else {"x": feeds["x"].astype(np.float16)}
            (got,), (theirs,) = session.run(None, given), oracle.run(given)
            assert (got.shape, got.dtype) == (theirs.shape, theirs.dtype)
            assert error(got, theirs) <= 4e-3
            assert error(got, floats) <= 4e-3
