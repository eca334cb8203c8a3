"""ai.onnx.preview.training: one step of each optimizer, against the specification's formulas in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.ops.harness import refused as refused_of
from tests.ops.harness import run, same

TRAINING: dict[str, Any] = {"domain": "ai.onnx.preview.training", "opset": 1}
STATES = {"Adagrad": 1, "Adam": 2, "Momentum": 1}
MOMENTUM: dict[str, Any] = {"alpha": 0.95, "beta": 0.85, "mode": "standard", "norm_coefficient": 0.001}


def refused(message: str, op: str, *inputs: Any, **options: Any) -> None:
    refused_of(message, op, *inputs, **(TRAINING | options))


def tensors(op: str, *shapes: tuple[int, ...], dtype: Any = np.float32) -> list[NDArray[Any]]:
    """Tensors, their gradients, and their states; squares are positive."""
    rng = np.random.default_rng(0)
    groups = 2 + STATES[op]
    made = [rng.standard_normal(shape).astype(dtype) for _ in range(groups) for shape in shapes]
    return made if op == "Momentum" else [*made[: -len(shapes)], *map(np.abs, made[-len(shapes) :])]


def step(op: str, rate: Any, count: int, arrays: list[NDArray[Any]], outputs: int, **options: Any) -> Any:
    return run(op, rate, np.array(count), *arrays, outputs=outputs, **TRAINING, **options)


def f32(value: float) -> float:
    """An attribute's value: it is stored as float32."""
    return float(np.float32(value))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("count", [0, 1, 7])
class TestFormulas:
    RATE = 0.1

    def inputs(self, op: str, dtype: Any) -> tuple[Any, list[NDArray[Any]], list[NDArray[Any]]]:
        arrays = tensors(op, (2, 3), dtype=dtype)
        return dtype(self.RATE).reshape(()), arrays, [array.astype(np.float64) for array in arrays]

    def test_adagrad(self, count: int, dtype: Any) -> None:
        rate, arrays, (x, g, h) = self.inputs("Adagrad", dtype)
        options = {"decay_factor": 0.1, "epsilon": 1e-4, "norm_coefficient": 0.01}
        g = g + f32(0.01) * x
        h = h + g * g
        want = x - self.RATE / (1 + count * f32(0.1)) * g / (np.sqrt(h) + f32(1e-4))
        same(step("Adagrad", rate, count, arrays, 2, **options), [want.astype(dtype), h.astype(dtype)])

    def test_adam(self, count: int, dtype: Any) -> None:
        rate, arrays, (x, g, v, h) = self.inputs("Adam", dtype)
        a, b = f32(0.8), f32(0.9)
        options = {"alpha": a, "beta": b, "epsilon": 1e-4, "norm_coefficient": 0.01, "norm_coefficient_post": 0.02}
        g = g + f32(0.01) * x
        v = a * v + (1 - a) * g
        h = b * h + (1 - b) * g * g
        adjusted = self.RATE * np.sqrt(1 - b**count) / (1 - a**count) if count else self.RATE
        want = (1 - f32(0.02)) * (x - adjusted * v / (np.sqrt(h) + f32(1e-4)))
        same(step("Adam", rate, count, arrays, 3, **options), [part.astype(dtype) for part in (want, v, h)])

    @pytest.mark.parametrize("mode", ["standard", "nesterov"])
    def test_momentum(self, count: int, dtype: Any, mode: str) -> None:
        rate, arrays, (x, g, v) = self.inputs("Momentum", dtype)
        a, b = f32(0.95), f32(0.85)
        g = g + f32(0.001) * x
        v = a * v + (b if count else 1) * g
        want = x - self.RATE * (v if mode == "standard" else g + a * v)
        same(
            step("Momentum", rate, count, arrays, 2, **{**MOMENTUM, "mode": mode}),
            [want.astype(dtype), v.astype(dtype)],
        )


@pytest.mark.parametrize("op", STATES)
class TestEach:
    def options(self, op: str) -> dict[str, Any]:
        return MOMENTUM if op == "Momentum" else {}

    def test_several_tensors_are_each_on_their_own(self, op: str) -> None:
        arrays = tensors(op, (2,), (3, 1))
        parts = 1 + STATES[op]
        rate = np.array([0.1])
        both = step(op, rate, 2, arrays, 2 * parts, **self.options(op))
        for i in range(2):
            same(both[i::2], step(op, rate, 2, arrays[i::2], parts, **self.options(op)))

    def test_bad_input(self, op: str) -> None:
        options = {"outputs": 2, **self.options(op)}
        rate, count, arrays = np.float32(0.1).reshape(()), np.array(1), tensors(op, (2,))
        refused("for each tensor", op, rate, count, *arrays[:-1], **options)
        refused("one shape and type", op, rate, count, *arrays[:-1], np.zeros((3,), np.float32), **options)
        refused("T of shape (2,)", op, rate, np.array([1, 2]), *arrays, **options)
        refused("R of shape (2,)", op, np.zeros((2,), np.float32), count, *arrays, **options)


def test_defaults_of_adam() -> None:
    arrays = tensors("Adam", (4,))
    given = step("Adam", np.float32(0.1).reshape(()), 3, arrays, 3)
    written = {"alpha": 0.9, "beta": 0.999, "epsilon": 1e-6, "norm_coefficient": 0.0, "norm_coefficient_post": 0.0}
    same(given, step("Adam", np.float32(0.1).reshape(()), 3, arrays, 3, **written))


def test_bad_attributes() -> None:
    rate, count = np.float32(0.1).reshape(()), np.array(1)
    refused(
        "'nestrov'", "Momentum", rate, count, *tensors("Momentum", (2,)), outputs=2, **{**MOMENTUM, "mode": "nestrov"}
    )
    refused("alpha is 1", "Adam", rate, count, *tensors("Adam", (2,)), outputs=3, alpha=1.0)
