"""Whole models whose bits ``digests.json`` keeps; weights that are made here and all inputs come from ``patterns``."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from onemodel import demo
from tests.exact.digest_cases import DigestCase, Feeds
from tests.exact.patterns import Patterns, scaled
from tests.models import light
from tests.models.decoder import decoder
from tests.models.fetch import fetch, manifest

FETCHED = ("minilm_l3", "minilm_l6_int8", "silero_vad_16k_op15")
"""Models that come from the package index; see ``tests/models/manifest.toml``."""

FLOAT = onnx.TensorProto.FLOAT


def models() -> tuple[DigestCase, ...]:
    """All of them; the fetched ones raise ``Unreachable`` when they are made without a network."""
    return (
        DigestCase("model digits", _digits),
        DigestCase("model light_resnet50", partial(_light, "resnet50")),
        DigestCase("model light_squeezenet", partial(_light, "squeezenet")),
        DigestCase("model decoder", _decoder),
        DigestCase("model quantised", _quantised),
        DigestCase("model lstm", _lstm),
        *(DigestCase(f"model {name}", partial(_fetched, name)) for name in FETCHED),
    )


def _digits() -> tuple[onnx.ModelProto, Feeds]:
    images, _ = demo.held_out()
    return onnx.load_from_string(demo.model_bytes()), {
        "image": np.concatenate([demo.as_input(image) for image in images])
    }


def _light(name: str) -> tuple[onnx.ModelProto, Feeds]:
    model = light.with_random_weights(light.load(name), generator=lambda seeds: Patterns(*seeds))
    return model, {light.input_name(model): scaled(np.float32, (1, 3, 224, 224), 1, most=1)}


def _weight(name: str, shape: Sequence[int]) -> Any:
    """Of a size that keeps activations of order one."""
    values = scaled(np.float32, shape, zlib.crc32(name.encode()))
    return values if len(shape) == 1 else values * np.float32(2.0 ** -((shape[0].bit_length()) // 2))


def _decoder() -> tuple[onnx.ModelProto, Feeds]:
    model = decoder(_weight, layers=2, width=64, heads=4, vocabulary=300, positions=32)
    caches = {
        f"{kind}{i}": scaled(np.float32, (2, 4, 9, 16), i, k)
        for i in range(2)
        for k, kind in enumerate(("key", "value"))
    }
    return model, {"ids": np.int64([[7], [299]]), "position": np.int64([9]), **caches}


def _quantised() -> tuple[onnx.ModelProto, Feeds]:
    """uint8 convolution and product between QuantizeLinear and DequantizeLinear."""
    patterns = Patterns(5)

    def whole(name: str, dtype: Any, *shape: int) -> onnx.TensorProto:
        info = np.iinfo(dtype)
        return numpy_helper.from_array(patterns.integers(info.min, info.max + 1, shape).astype(dtype), name)

    def scalar(name: str, value: Any) -> onnx.TensorProto:
        return numpy_helper.from_array(np.asarray(value), name)

    scales = {"s_x": 0.0117, "s_w": 0.0031, "s_c": 0.37, "s_m": 0.0042, "s_y": 7.3}
    weights = [
        *(scalar(name, np.float32(value)) for name, value in scales.items()),
        *(scalar(name, np.uint8(value)) for name, value in (("z_x", 128), ("z_c", 121), ("z_y", 3))),
        *(scalar(name, np.int8(0)) for name in ("z_w", "z_m")),
        whole("w", np.int8, 6, 3, 3, 3),
        whole("m", np.int8, 6 * 8 * 8, 10),
    ]
    node = helper.make_node
    nodes = [
        node("QuantizeLinear", ["x", "s_x", "z_x"], ["q"]),
        node("QLinearConv", ["q", "s_x", "z_x", "w", "s_w", "z_w", "s_c", "z_c"], ["c"], pads=[1, 1, 1, 1]),
        node("Flatten", ["c"], ["f"]),
        node("QLinearMatMul", ["f", "s_c", "z_c", "m", "s_m", "z_m", "s_y", "z_y"], ["p"]),
        node("DequantizeLinear", ["p", "s_y", "z_y"], ["d"]),
        node("Softmax", ["d"], ["y"]),
        node("DynamicQuantizeLinear", ["d"], ["dq", "ds", "dz"]),
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in ("p", "y", "dq", "ds", "dz")]
    declared = [helper.make_tensor_value_info("x", FLOAT, ["n", 3, 8, 8])]
    graph = helper.make_graph(nodes, "quantised", declared, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return model, {"x": scaled(np.float32, (4, 3, 8, 8), 6, most=1)}


def _lstm() -> tuple[onnx.ModelProto, Feeds]:
    """A bidirectional LSTM, then a GRU, over sequences of different lengths."""
    hidden, size = 24, 10
    shapes = {"w": (2, 4 * hidden, size), "r": (2, 4 * hidden, hidden), "b": (2, 8 * hidden)}
    shapes |= {"gw": (1, 3 * hidden, 2 * hidden), "gr": (1, 3 * hidden, hidden), "gb": (1, 6 * hidden)}
    weights = [
        numpy_helper.from_array(scaled(np.float32, shape, i, most=-2), name)
        for i, (name, shape) in enumerate(shapes.items())
    ]
    weights.append(numpy_helper.from_array(np.int64([0, 0, -1]), "joined"))
    node = helper.make_node
    nodes = [
        node("LSTM", ["x", "w", "r", "b", "lengths"], ["h", "", "c"], hidden_size=hidden, direction="bidirectional"),
        node("Transpose", ["h"], ["t"], perm=[0, 2, 1, 3]),
        node("Reshape", ["t", "joined"], ["j"]),
        node("GRU", ["j", "gw", "gr", "gb", "lengths"], ["g", "last"], hidden_size=hidden, linear_before_reset=1),
    ]
    declared = [
        helper.make_tensor_value_info("x", FLOAT, ["steps", "n", size]),
        helper.make_tensor_value_info("lengths", onnx.TensorProto.INT32, ["n"]),
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in ("g", "last", "c")]
    graph = helper.make_graph(nodes, "lstm", declared, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return model, {"x": scaled(np.float32, (9, 3, size), 9, most=1), "lengths": np.int32([9, 4, 7])}


def _fetched(name: str) -> tuple[onnx.ModelProto, Feeds]:
    model = onnx.load(fetch(manifest()[name]))
    if name.startswith("minilm"):
        ids = Patterns(8).integers(1000, 30000, (2, 16))
        mask = (np.arange(16) < np.int64([[16], [11]])).astype(np.int64)
        given = {"input_ids": ids * mask, "attention_mask": mask, "token_type_ids": np.zeros_like(mask)}
    else:
        given = {
            "input": scaled(np.float32, (2, 576), 3, most=-3),
            "state": scaled(np.float32, (2, 2, 128), 4, most=-1),
            "sr": np.asarray(16000, np.int64),
        }
    weights = {tensor.name for tensor in model.graph.initializer}
    return model, {value.name: given[value.name] for value in model.graph.input if value.name not in weights}
