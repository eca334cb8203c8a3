"""One step of a decoder in the shape of GPT-2, with a cache of keys and values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

Array = np.ndarray[Any, Any]


def decoder(
    draw: Callable[[str, tuple[int, ...]], Array],
    *,
    layers: int = 12,
    width: int = 768,
    heads: int = 12,
    vocabulary: int = 50257,
    positions: int = 1024,
) -> onnx.ModelProto:
    """The model: token and position in, logits and the grown caches out.

    Inputs are ``ids`` (int64, (batch, 1)), ``position`` (int64, (1,)), and for each layer ``key0`` and ``value0``,
    float32 of shape (batch, heads, past, width / heads). Outputs are ``logits`` and ``key0_out`` and so on.

    Args:
        draw: makes a float32 weight from its name and shape.
        layers, width, heads, vocabulary, positions: sizes; the defaults are those of the small GPT-2.
    """
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []
    depth = width // heads

    def weight(name: str, *shape: int) -> str:
        weights.append(numpy_helper.from_array(draw(name, shape).astype(np.float32), name))
        return name

    def node(op: str, inputs: list[str], *outputs: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(op, inputs, list(outputs), outputs[0], **attributes))
        return outputs[0]

    def normalized(x: str, name: str) -> str:
        return node("LayerNormalization", [x, weight(f"{name}_scale", width), weight(f"{name}_shift", width)], name)

    def dense(x: str, name: str, inputs: int, outputs: int) -> str:
        node("MatMul", [x, weight(f"{name}_w", inputs, outputs)], f"{name}_p")
        return node("Add", [f"{name}_p", weight(f"{name}_b", outputs)], name)

    node("Gather", [weight("tokens", vocabulary, width), "ids"], "token")
    node("Gather", [weight("places", positions, width), "position"], "place")
    x = node("Add", ["token", "place"], "x")
    for i in range(layers):
        qkv = dense(normalized(x, f"norm_a{i}"), f"qkv{i}", width, 3 * width)
        node("Split", [qkv], f"q{i}", f"k{i}", f"v{i}", axis=2, num_outputs=3)
        node(
            "Attention",
            [f"q{i}", f"k{i}", f"v{i}", "", f"key{i}", f"value{i}"],
            *(f"attended{i}", f"key{i}_out", f"value{i}_out"),
            q_num_heads=heads,
            kv_num_heads=heads,
        )
        x = node("Add", [x, dense(f"attended{i}", f"mixed{i}", width, width)], f"between{i}")
        inner = dense(normalized(x, f"norm_b{i}"), f"inner{i}", width, 4 * width)
        node("Gelu", [inner], f"gelu{i}", approximate="tanh")
        x = node("Add", [x, dense(f"gelu{i}", f"outer{i}", 4 * width, width)], f"layer{i}")
    node("Transpose", ["tokens"], "tokens_t", perm=[1, 0])
    node("MatMul", [normalized(x, "last"), "tokens_t"], "logits")
    caches = [f"{kind}{i}" for i in range(layers) for kind in ("key", "value")]
    float_info, int64 = helper.make_tensor_value_info, onnx.TensorProto.INT64
    graph = helper.make_graph(
        nodes,
        "decoder",
        [
            float_info("ids", int64, ["batch", 1]),
            float_info("position", int64, [1]),
            *(float_info(name, onnx.TensorProto.FLOAT, ["batch", heads, "past", depth]) for name in caches),
        ],
        [onnx.ValueInfoProto(name=name) for name in ("logits", *(f"{name}_out" for name in caches))],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10)
