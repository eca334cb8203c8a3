"""A small convolutional network and a small transformer with dynamic shapes, as exporters write them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.models_by_hand import graph_model

Arrays = dict[str, np.ndarray[Any, Any]]
WIDTH, HEADS, VOCABULARY, LONGEST = 16, 4, 50, 32


def _initializers(arrays: Arrays) -> list[onnx.TensorProto]:
    return [numpy_helper.from_array(array, name) for name, array in arrays.items()]


def convolutional(seed: int = 0) -> tuple[onnx.ModelProto, Arrays]:
    """Convolutions (strided, grouped), batch normalization, pooling and a classifier; and its feeds."""
    draw = np.random.default_rng(seed)

    def weights(*shape: int) -> np.ndarray[Any, Any]:
        return np.asarray(draw.standard_normal(shape) / np.sqrt(np.prod(shape[1:])), np.float32)

    nodes = [
        helper.make_node("Conv", ["x", "w0", "b0"], ["c0"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("BatchNormalization", ["c0", "s", "o", "m", "v"], ["n0"]),
        helper.make_node("Relu", ["n0"], ["r0"]),
        helper.make_node("MaxPool", ["r0"], ["p0"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["p0", "w1"], ["c1"], pads=[1, 1, 1, 1], group=8),
        helper.make_node("HardSwish", ["c1"], ["r1"]),
        helper.make_node("AveragePool", ["r1"], ["p1"], kernel_shape=[2, 2]),
        helper.make_node("Resize", ["p1", "", "scales"], ["u1"], mode="linear"),
        helper.make_node("GlobalAveragePool", ["u1"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", "w2", "b2"], ["logits"], transB=1),
        helper.make_node("Softmax", ["logits"], ["y"]),
    ]
    arrays = {
        "w0": weights(8, 3, 3, 3),
        "b0": weights(8),
        "s": np.abs(weights(8)),
        "o": weights(8),
        "m": weights(8),
        "v": np.abs(weights(8)),
        "w1": weights(8, 1, 3, 3),
        "w2": weights(10, 8),
        "b2": weights(10),
        "scales": np.array([1, 1, 2, 2], np.float32),
    }
    inputs = [("x", "tensor(float)", ["batch", 3, "height", "width"])]
    model = graph_model(nodes, inputs, ["y"], initializers=_initializers(arrays))
    return model, {"x": draw.standard_normal((2, 3, 17, 16)).astype(np.float32)}


def transformer(seed: int = 0, half: bool = False) -> tuple[onnx.ModelProto, Arrays]:
    """One decoder layer with token and position embeddings, whose shapes are computed in the graph; and its feeds.

    Args:
        half: float16 weights and values.
    """
    draw = np.random.default_rng(seed)
    element = np.float16 if half else np.float32

    def weights(*shape: int) -> np.ndarray[Any, Any]:
        return np.asarray(draw.standard_normal(shape) / 4, element)

    def heads(name: str) -> list[onnx.NodeProto]:
        return [
            helper.make_node("MatMul", ["n0", f"w_{name}"], [f"{name}_flat"]),
            helper.make_node("Reshape", [f"{name}_flat", "split"], [f"{name}_split"]),
            helper.make_node("Transpose", [f"{name}_split"], [name], perm=[0, 2, 1, 3]),
        ]

    nodes = [
        helper.make_node("Shape", ["ids"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["batch"]),
        helper.make_node("Gather", ["shape", "one"], ["length"]),
        helper.make_node("Unsqueeze", ["batch", "zero_axis"], ["batch_1d"]),
        helper.make_node("Unsqueeze", ["length", "zero_axis"], ["length_1d"]),
        helper.make_node("Concat", ["batch_1d", "length_1d", "head_sizes"], ["split"], axis=0),
        helper.make_node("Concat", ["batch_1d", "length_1d", "minus_one"], ["join"], axis=0),
        helper.make_node("Concat", ["length_1d", "length_1d"], ["square"], axis=0),
        helper.make_node("Range", ["zero", "length", "one"], ["positions"]),
        helper.make_node("Gather", ["words", "ids"], ["e0"]),
        helper.make_node("Gather", ["places", "positions"], ["e1"]),
        helper.make_node("Add", ["e0", "e1"], ["x0"]),
        helper.make_node("LayerNormalization", ["x0", "scale", "offset"], ["n0"], axis=-1),
        *heads("q"),
        *heads("k"),
        *heads("v"),
        helper.make_node("Transpose", ["k"], ["k_turned"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["q", "k_turned"], ["raw"]),
        helper.make_node("Div", ["raw", "root"], ["scores"]),
        helper.make_node("ConstantOfShape", ["square"], ["ones"], value=helper.make_tensor("one", 9, [1], [True])),
        helper.make_node("Trilu", ["ones"], ["causal"], upper=0),
        helper.make_node("Where", ["causal", "scores", "least"], ["masked"]),
        helper.make_node("Softmax", ["masked"], ["weights"], axis=-1),
        helper.make_node("MatMul", ["weights", "v"], ["mixed"]),
        helper.make_node("Transpose", ["mixed"], ["mixed_turned"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["mixed_turned", "join"], ["mixed_flat"]),
        helper.make_node("MatMul", ["mixed_flat", "w_o"], ["attended"]),
        helper.make_node("Add", ["x0", "attended"], ["x1"]),
        helper.make_node("LayerNormalization", ["x1", "scale", "offset"], ["n1"], axis=-1),
        helper.make_node("MatMul", ["n1", "w_up"], ["up"]),
        helper.make_node("Gelu", ["up"], ["active"], approximate="tanh"),
        helper.make_node("MatMul", ["active", "w_down"], ["down"]),
        helper.make_node("Add", ["x1", "down"], ["x2"]),
        helper.make_node("Slice", ["x2", "minus_one", "most", "one_axis"], ["last"]),
        helper.make_node("MatMul", ["last", "w_out"], ["y"]),
    ]
    arrays = {
        "words": weights(VOCABULARY, WIDTH),
        "places": weights(LONGEST, WIDTH),
        "scale": weights(WIDTH),
        "offset": weights(WIDTH),
        **{f"w_{name}": weights(WIDTH, WIDTH) for name in "qkvo"},
        "w_up": weights(WIDTH, 4 * WIDTH),
        "w_down": weights(4 * WIDTH, WIDTH),
        "w_out": weights(WIDTH, VOCABULARY),
        "root": np.array(np.sqrt(WIDTH // HEADS), element),
        "least": np.array(-10000, element),
        "zero": np.array(0),
        "one": np.array(1),
        "zero_axis": np.array([0]),
        "one_axis": np.array([1]),
        "minus_one": np.array([-1]),
        "most": np.array([2**31]),
        "head_sizes": np.array([HEADS, WIDTH // HEADS]),
    }
    inputs = [("ids", "tensor(int64)", ["batch", "length"])]
    model = graph_model(nodes, inputs, ["y"], initializers=_initializers(arrays))
    return model, {"ids": draw.integers(0, VOCABULARY, (2, 7))}
