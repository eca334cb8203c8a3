"""Gradients against differences of the function itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

import onemodel
from tests.models_by_hand import graph_model, node

TRAINING = "ai.onnx.preview.training"
Array = NDArray[Any]


def with_gradient(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Array],
    xs: Sequence[str],
    y: str,
    *,
    zs: Sequence[str] = (),
    feeds: Sequence[str] | None = None,
    opset: int = 21,
    initializers: Sequence[onnx.TensorProto] = (),
) -> onnx.ModelProto:
    """A model that returns ``y`` and its gradients."""
    names = [f"d{i}" for i in range(len(xs))]
    options = {"zs": list(zs)} if zs else {}
    gradient = node("Gradient", feeds or [*xs, *zs], names, "slope", domain=TRAINING, xs=list(xs), y=y, **options)
    declared = [(name, f"tensor({'double' if a.dtype == np.float64 else 'int64'})", None) for name, a in inputs.items()]
    return graph_model(
        [*nodes, gradient], declared, [y, *names], opset=opset, domains={TRAINING: 1}, initializers=initializers
    )


def numerical(proto: onnx.ModelProto, inputs: Mapping[str, Array], x: str, out: int = 0, step: float = 1e-5) -> Array:
    """The gradient of the sum of output number ``out`` by central differences."""
    session = onemodel.Session(proto, mode="fast")
    result = np.zeros_like(inputs[x])
    for index in np.ndindex(result.shape):
        sums = []
        for sign in (1, -1):
            moved = inputs[x].copy()
            moved[index] += sign * step
            sums.append(session.run(None, {**inputs, x: moved})[out].sum())
        result[index] = (sums[0] - sums[1]) / (2 * step)
    return result


def agrees(nodes: Sequence[onnx.NodeProto], inputs: Mapping[str, Array], y: str = "y", **options: Any) -> list[Array]:
    """Check the gradients for all floating-point inputs, on NumPy, array-api-strict and in exact mode; returns them."""
    xs = [name for name, array in inputs.items() if array.dtype == np.float64]
    zs = [name for name in inputs if name not in xs]
    proto = with_gradient(nodes, inputs, xs, y, zs=zs, **options)
    sessions = [onemodel.Session(proto, mode="fast", backend=b) for b in ("numpy", "strict")]
    sessions.append(onemodel.Session(proto, mode="exact"))
    got = [session.run(None, dict(inputs))[1:] for session in sessions]
    for x, made, strict, exact in zip(xs, *got, strict=True):
        assert made.shape == inputs[x].shape
        np.testing.assert_allclose(made, numerical(proto, inputs, x), rtol=1e-6, atol=1e-6, err_msg=x)
        np.testing.assert_allclose(made, strict, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(made, exact, rtol=1e-12, atol=1e-12)
    return list(got[0])


def positive(*shape: int, seed: int = 0) -> Array:
    return np.asarray(np.random.default_rng(seed).uniform(0.5, 2, shape))


def mixed(*shape: int, seed: int = 0) -> Array:
    return np.asarray(positive(*shape, seed=seed) * np.random.default_rng(seed + 1).choice([-1, 1], shape))


def run(proto: onnx.ModelProto, inputs: Mapping[str, Array], **options: Any) -> list[Array]:
    return list(onemodel.Session(proto, **{"mode": "fast", **options}).run(None, dict(inputs)))


def agrees_twice(nodes: Sequence[onnx.NodeProto], inputs: Mapping[str, Array], x: str, **options: Any) -> None:
    """Check the gradient of the (sum of squares of the) gradient for ``x``."""
    first = node("Gradient", list(inputs), [f"e_{n}" for n in inputs], domain=TRAINING, xs=list(inputs), y="y")
    square = node("Mul", [f"e_{x}", f"e_{x}"], ["squared"])
    proto = with_gradient([*nodes, first, square], inputs, list(inputs), "squared", **options)
    got = run(proto, inputs)[1:]
    for name, made in zip(inputs, got, strict=True):
        np.testing.assert_allclose(made, numerical(proto, inputs, name), rtol=1e-5, atol=1e-5, err_msg=name)
