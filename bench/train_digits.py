"""Train the demo's model: a small convolutional network on scikit-learn's 8 x 8 digits, in NumPy alone.

    python bench/train_digits.py

writes ``onemodel/data/digits.onnx`` and ``onemodel/data/digits.npz`` (two held-out digits of each class, with labels).
Seeds and split are fixed. A run on another machine gives the same network up to the rounding of its matrix products.

The data is the test part of "Optical Recognition of Handwritten Digits" (E. Alpaydin and C. Kaynak, 1998, UCI Machine
Learning Repository, CC BY 4.0), as scikit-learn ships it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

DATA = Path(__file__).resolve().parents[1] / "onemodel" / "data"
SEED = 0
EPOCHS = 40
BATCH = 32
LEARNING_RATE = 2e-3
LEAST_ACCURACY = 0.97
LARGEST_FILE = 200_000
SHIPPED_OF_EACH_CLASS = 2

Array = NDArray[np.float64]
Weights = dict[str, Array]


def convolve(x: Array, kernel: Array, bias: Array) -> tuple[Array, Array]:
    """A 3 x 3 convolution with one pixel of padding: the result, and the windows that the backward pass needs."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    y = np.tensordot(windows, kernel, axes=((1, 4, 5), (1, 2, 3)))
    return y.transpose(0, 3, 1, 2) + bias[:, None, None], windows


def convolve_backward(gradient: Array, windows: Array, kernel: Array) -> tuple[Array, Array, Array]:
    """The gradients of the input, the kernel and the bias."""
    of_kernel = np.tensordot(gradient, windows, axes=((0, 2, 3), (0, 2, 3)))
    flipped = kernel[:, :, ::-1, ::-1].swapaxes(0, 1)
    of_input, _ = convolve(gradient, flipped, np.zeros(len(flipped)))
    return of_input, of_kernel, gradient.sum((0, 2, 3))


def pool(x: Array) -> tuple[Array, Array]:
    """The largest of each 2 x 2 square, and which one that is, shared among equals."""
    count, channels, height, width = x.shape
    squares = x.reshape(count, channels, height // 2, 2, width // 2, 2)
    y = squares.max((3, 5), keepdims=True)
    largest = (squares == y).astype(x.dtype)
    return y[:, :, :, 0, :, 0], largest / largest.sum((3, 5), keepdims=True)


def pool_backward(gradient: Array, share: Array) -> Array:
    """The gradient of the input."""
    count, channels, height, _, width, _ = share.shape
    return (gradient[:, :, :, None, :, None] * share).reshape(count, channels, 2 * height, 2 * width)


def softmax(x: Array) -> Array:
    """The probabilities, row by row."""
    weights: Array = np.exp(x - x.max(1, keepdims=True))
    total: Array = weights.sum(1, keepdims=True)
    return weights / total


def forward(weights: Weights, x: Array) -> tuple[Array, dict[str, Array]]:
    """The probabilities of the ten classes, and what the backward pass needs."""
    kept: dict[str, Array] = {}
    for layer in ("conv1", "conv2"):
        x, kept[f"{layer}.windows"] = convolve(x, weights[f"{layer}.weight"], weights[f"{layer}.bias"])
        x = np.maximum(x, 0)
        kept[f"{layer}.active"] = np.sign(x)
        x, kept[f"{layer}.share"] = pool(x)
    kept["features"] = x.reshape(len(x), -1)
    return softmax(kept["features"] @ weights["classes.weight"].T + weights["classes.bias"]), kept


def backward(weights: Weights, probabilities: Array, labels: NDArray[np.int64], kept: dict[str, Array]) -> Weights:
    """The gradients of the mean cross-entropy."""
    gradients: Weights = {}
    gradient = (probabilities - np.eye(10)[labels]) / len(labels)
    gradients["classes.weight"] = gradient.T @ kept["features"]
    gradients["classes.bias"] = gradient.sum(0)
    share = kept["conv2.share"]
    gradient = (gradient @ weights["classes.weight"]).reshape(*share.shape[:3], share.shape[4])
    for layer in ("conv2", "conv1"):
        gradient = pool_backward(gradient, kept[f"{layer}.share"]) * kept[f"{layer}.active"]
        gradient, gradients[f"{layer}.weight"], gradients[f"{layer}.bias"] = convolve_backward(
            gradient, kept[f"{layer}.windows"], weights[f"{layer}.weight"]
        )
    return gradients


def shifted(x: Array, random: np.random.Generator) -> Array:
    """Each image moved by up to one pixel along both axes."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    return np.stack(
        [
            image[:, row : row + 8, column : column + 8]
            for image, (row, column) in zip(padded, random.integers(0, 3, (len(x), 2)), strict=True)
        ]
    )


def train(images: Array, labels: NDArray[np.int64]) -> Weights:
    """Adam with a learning rate that falls to zero along a cosine."""
    random = np.random.default_rng(SEED)
    weights: Weights = {}
    for name, shape in (("conv1", (16, 1, 3, 3)), ("conv2", (32, 16, 3, 3)), ("classes", (10, 32 * 2 * 2))):
        weights[f"{name}.weight"] = random.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))
        weights[f"{name}.bias"] = np.zeros(shape[0])
    mean = {name: np.zeros_like(value) for name, value in weights.items()}
    square = {name: np.zeros_like(value) for name, value in weights.items()}
    steps = EPOCHS * (len(images) // BATCH)
    step = 0
    for epoch in range(EPOCHS):
        order = random.permutation(len(images))
        loss = 0.0
        for start in range(0, len(images) - BATCH + 1, BATCH):
            chosen = order[start : start + BATCH]
            probabilities, kept = forward(weights, shifted(images[chosen], random))
            loss -= float(np.log(probabilities[np.arange(BATCH), labels[chosen]]).mean())
            step += 1
            rate = LEARNING_RATE * 0.5 * (1 + np.cos(np.pi * step / steps))
            for name, gradient in backward(weights, probabilities, labels[chosen], kept).items():
                mean[name] += 0.1 * (gradient - mean[name])
                square[name] += 0.001 * (gradient**2 - square[name])
                ratio = mean[name] / (1 - 0.9**step) / (np.sqrt(square[name] / (1 - 0.999**step)) + 1e-8)
                weights[name] -= rate * ratio
        print(f"epoch {epoch + 1:2d}: loss {loss / (len(images) // BATCH):.4f}")
    return {name: value.astype(np.float32).astype(np.float64) for name, value in weights.items()}


def export(weights: Weights) -> onnx.ModelProto:
    """The network as an ONNX model: ``image`` [batch, 1, 8, 8] from 0 to 1 -> ``probabilities`` [batch, 10]."""
    conv: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    square: dict[str, Any] = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [
        helper.make_node("Conv", ["image", "conv1.weight", "conv1.bias"], ["conv1"], "conv1", **conv),
        helper.make_node("Relu", ["conv1"], ["relu1"], "relu1"),
        helper.make_node("MaxPool", ["relu1"], ["pool1"], "pool1", **square),
        helper.make_node("Conv", ["pool1", "conv2.weight", "conv2.bias"], ["conv2"], "conv2", **conv),
        helper.make_node("Relu", ["conv2"], ["relu2"], "relu2"),
        helper.make_node("MaxPool", ["relu2"], ["pool2"], "pool2", **square),
        helper.make_node("Flatten", ["pool2"], ["features"], "flatten"),
        helper.make_node("Gemm", ["features", "classes.weight", "classes.bias"], ["scores"], "classes", transB=1),
        helper.make_node("Softmax", ["scores"], ["probabilities"], "softmax"),
    ]
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 8, 8])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", 10])],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()],
        doc_string="Which digit an 8 x 8 image shows. Pixels go from 0 (paper) to 1 (ink).",
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 21)],
        ir_version=10,
        producer_name="bench/train_digits.py",
        producer_version="1",
    )
    onnx.checker.check_model(model, full_check=True)
    return model


def main() -> None:
    """Train, check, and write both files."""
    pixels, labels = load_digits(return_X_y=True)
    images = pixels.reshape(-1, 1, 8, 8)
    images, held_out, labels, held_out_labels = train_test_split(
        images, labels, test_size=0.2, random_state=SEED, stratify=labels
    )
    weights = train(images / 16, labels)

    answers = forward(weights, held_out / 16)[0].argmax(1)
    accuracy = float((answers == held_out_labels).mean())
    print(f"held-out accuracy: {accuracy:.2%} of {len(held_out)}")
    assert accuracy >= LEAST_ACCURACY, f"held-out accuracy {accuracy:.2%} is below {LEAST_ACCURACY:.0%}"

    model = export(weights).SerializeToString(deterministic=True)
    assert len(model) < LARGEST_FILE, f"the model has {len(model)} bytes, more than {LARGEST_FILE}"
    # The first ones of each class in the order of the split, whether the network is right on them or not.
    shipped = np.concatenate([np.flatnonzero(held_out_labels == c)[:SHIPPED_OF_EACH_CLASS] for c in range(10)])
    DATA.mkdir(exist_ok=True)
    (DATA / "digits.onnx").write_bytes(model)
    np.savez_compressed(
        DATA / "digits.npz",
        images=held_out[shipped, 0].astype(np.uint8),
        labels=held_out_labels[shipped].astype(np.uint8),
    )
    right = int((answers[shipped] == held_out_labels[shipped]).sum())
    print(f"{DATA}: digits.onnx ({len(model)} bytes), digits.npz ({right} of {len(shipped)} digits are read rightly)")


if __name__ == "__main__":
    main()
