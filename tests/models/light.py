"""The light models of the onnx package with weights worth computing with.

As shipped, every weight of these nine CNNs is the constant 0.02, made by ConstantOfShape so that the files stay small,
and their outputs are equal for all images. Here each weight gets seeded random values of a fitting scale.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
NAMES = (
    "bvlc_alexnet",
    "densenet121",
    "inception_v1",
    "inception_v2",
    "resnet50",
    "shufflenet",
    "squeezenet",
    "vgg19",
    "zfnet512",
)
_Users = Mapping[str, list[tuple[onnx.NodeProto, int]]]
_CARRIERS = ("Identity", "Reshape", "Unsqueeze")


def load(name: str) -> onnx.ModelProto:
    """A light model as shipped."""
    return onnx.load(FOLDER / f"light_{name}.onnx")


def with_random_weights(
    model: onnx.ModelProto, seed: int = 0, generator: Callable[[Sequence[int]], Any] = np.random.default_rng
) -> onnx.ModelProto:
    """A copy of a light model whose constant weights are random.

    Filters and matrices are normal with He's standard deviation, sqrt(2 / fan-in), biases and offsets normal with 0.1,
    means normal with 0.1, variances uniform from 0.8 to 1.25, and scales uniform from 0.8 to 1.2, or from 0.2 to
    0.4 where a Sum adds the result to a shortcut, so that many of these stay of order one.

    Each ConstantOfShape node becomes a Constant node with the tensor; float initializers keep their place. A weight's
    values hang on its own name and the seed alone.

    Args:
        model: one of the light models.
        seed: another seed gives other weights.
        generator: makes the source of numbers of one weight from two seeds.

    Raises:
        ValueError: a constant is used in a way that none of the light models has.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    users: dict[str, list[tuple[onnx.NodeProto, int]]] = defaultdict(list)
    for node in copy.graph.node:
        for index, name in enumerate(node.input):
            users[name].append((node, index))
    initializers = {tensor.name: tensor for tensor in copy.graph.initializer}
    for node in copy.graph.node:
        if node.op_type == "ConstantOfShape":
            shape = tuple(int(size) for size in numpy_helper.to_array(initializers[node.input[0]]))
            node.op_type = "Constant"
            del node.input[:]
            _fill(node.attribute[0].t, shape, _draw(users, node.output[0], shape, generator, seed))
    for name, tensor in initializers.items():
        if tensor.data_type == onnx.TensorProto.FLOAT and users[name]:
            shape = tuple(tensor.dims)
            _fill(tensor, shape, _draw(users, name, shape, generator, seed))
    return copy


def logits(model: onnx.ModelProto) -> list[str]:
    """The name of what goes into the last Softmax, which hides most of the numbers; nothing where there is none."""
    last = model.graph.node[-1]
    return [last.input[0]] if last.op_type == "Softmax" else []


def with_fixed_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy whose initializers are no graph inputs, so that a runtime may fold them; IR version 4 allows that."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    names = {tensor.name for tensor in copy.graph.initializer}
    inputs = [value for value in copy.graph.input if value.name not in names]
    copy.ir_version = max(copy.ir_version, 4)
    del copy.graph.input[:]
    copy.graph.input.extend(inputs)
    return copy


def input_name(model: onnx.ModelProto) -> str:
    """The name of the image; in some of the models it is not the first input."""
    names = {tensor.name for tensor in model.graph.initializer}
    name: str
    (name,) = [value.name for value in model.graph.input if value.name not in names]
    return name


def _draw(
    users: _Users, name: str, shape: tuple[int, ...], generator: Callable[[Sequence[int]], Any], seed: int
) -> np.ndarray[Any, Any]:
    rng = generator([seed, zlib.crc32(name.encode())])
    values: np.ndarray[Any, Any]
    (kind,) = {_kind(users, node, index) for node, index in _uses(users, name)} or {"nothing"}
    if kind == "filter":
        # The matrix of inception_v1 is declared with leading ones and reshaped; its last axis is what is summed over.
        fan_in = shape[-1] if shape[:2] == (1, 1) else int(np.prod(shape[1:]))
        values = rng.standard_normal(shape, dtype=np.float32)
        values *= np.float32(np.sqrt(2.0 / fan_in))
    elif kind == "offset":
        values = rng.normal(0.0, 0.1, shape).astype(np.float32)
    elif kind == "scale":
        values = rng.uniform(0.8, 1.2, shape).astype(np.float32)
    elif kind == "branch scale":
        values = rng.uniform(0.2, 0.4, shape).astype(np.float32)
    elif kind == "variance":
        values = rng.uniform(0.8, 1.25, shape).astype(np.float32)
    else:
        raise ValueError(f"weight {name!r} is used as {kind}, which no light model does")
    return values


_KINDS: dict[tuple[str, int], str] = {
    ("Conv", 1): "filter",
    ("Gemm", 1): "filter",
    ("Conv", 2): "offset",
    ("Gemm", 2): "offset",
    ("Add", 1): "offset",
    ("Mul", 1): "scale",
    ("BatchNormalization", 1): "scale",
    ("BatchNormalization", 2): "offset",
    ("BatchNormalization", 3): "offset",
    ("BatchNormalization", 4): "variance",
}


def _kind(users: _Users, node: onnx.NodeProto, index: int) -> str:
    kind = _KINDS.get((node.op_type, index), f"input {index} of {node.op_type}")
    if kind == "scale" and any(user.op_type == "Sum" for user, _ in _uses(users, node.output[0])):
        return "branch scale"
    return kind


def _uses(users: _Users, name: str) -> Iterator[tuple[onnx.NodeProto, int]]:
    """Nodes that take a value, and as which input, seen through the nodes that only move it."""
    for node, index in users[name]:
        if node.op_type in _CARRIERS:
            yield from _uses(users, node.output[0])
        else:
            yield node, index


def _fill(tensor: onnx.TensorProto, shape: tuple[int, ...], values: np.ndarray[Any, Any]) -> None:
    """Put values into a tensor in place: the largest weights take 400 MB, and each copy counts."""
    tensor.ClearField("float_data")
    del tensor.dims[:]
    tensor.dims.extend(shape)
    tensor.raw_data = values.astype("<f4", copy=False).tobytes()
