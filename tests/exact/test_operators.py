"""Operators on exact sums, products and extremes: admitted in sessions, the same bits on every namespace and batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import onemodel
from onemodel.backends import get_backend
from tests.exact import cases
from tests.exact.rationals import product_of, same_bits
from tests.ops.harness import model


def _normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng([*shape, seed]).standard_normal(shape).astype(np.float32)


def _holed(*shape: int) -> Any:
    """Normal numbers with zeros of both signs, infinities and NaN."""
    x = _normal(*shape)
    x.reshape(-1)[::7] = np.resize([0.0, -0.0, np.nan, np.inf, -np.inf, -0.0, 1e-42], x.reshape(-1)[::7].shape)
    return x


CASES: dict[str, tuple[str, list[Any], dict[str, Any], bool]] = {
    "MatMul": ("MatMul", [_normal(5, 30), _normal(30, 7)], {}, True),
    "MatMul of stacks": ("MatMul", [_normal(4, 3, 5, 8), _normal(3, 8, 6)], {}, True),
    "MatMul with special values": ("MatMul", [_holed(5, 30), _normal(30, 7)], {}, True),
    "Gemm": ("Gemm", [_normal(5, 9), _normal(7, 9), _normal(7)], {"transB": 1, "alpha": 0.3, "beta": 1.7}, True),
    "Conv": ("Conv", [_normal(2, 3, 9, 8), _normal(4, 3, 3, 3), _normal(4)], {"pads": [1, 1, 1, 1]}, True),
    "Conv depthwise": ("Conv", [_normal(2, 4, 9, 8), _normal(4, 1, 3, 3)], {"group": 4, "strides": [2, 2]}, True),
    "ConvTranspose": ("ConvTranspose", [_normal(2, 3, 4, 4), _normal(3, 2, 3, 3)], {"strides": [2, 2]}, True),
    "Einsum": ("Einsum", [_normal(4, 3, 5), _normal(5, 4)], {"equation": "bij,jb->bi"}, False),
    "ReduceSum": ("ReduceSum", [_normal(4, 6, 5), np.array([1])], {}, True),
    "ReduceSum with special values": ("ReduceSum", [_holed(4, 6, 5), np.array([1])], {}, True),
    "ReduceMean": ("ReduceMean", [_normal(4, 6, 5), np.array([2])], {"keepdims": 0}, True),
    "ReduceProd": ("ReduceProd", [_normal(4, 6, 5), np.array([1, 2])], {}, True),
    "ReduceMax": ("ReduceMax", [_holed(4, 6, 5), np.array([1])], {}, True),
    "ReduceMin": ("ReduceMin", [_holed(4, 6, 5), np.array([1])], {}, True),
    "ReduceL2": ("ReduceL2", [_normal(4, 6, 5), np.array([1])], {}, True),
    "ReduceSumSquare": ("ReduceSumSquare", [_normal(4, 6, 5), np.array([1])], {}, True),
    "CumSum": ("CumSum", [_normal(4, 50), np.array(1)], {}, True),
    "CumSum reversed": ("CumSum", [_normal(4, 50), np.array(1)], {"exclusive": 1, "reverse": 1}, True),
    "AveragePool": ("AveragePool", [_normal(2, 3, 9, 8)], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}, True),
    "MaxPool": ("MaxPool", [_holed(2, 3, 9, 8)], {"kernel_shape": [3, 3], "strides": [2, 2]}, True),
    "GlobalAveragePool": ("GlobalAveragePool", [_normal(2, 3, 9, 8)], {}, True),
    "GlobalMaxPool": ("GlobalMaxPool", [_holed(2, 3, 9, 8)], {}, True),
    "Relu": ("Relu", [_holed(4, 30)], {}, True),
    "Clip": ("Clip", [_holed(4, 30), np.float32(-0.0), np.float32(0.75)], {}, True),
    "Max": ("Max", [_holed(4, 30), -_holed(4, 30), _normal(1, 30)], {}, False),
    "Min": ("Min", [_holed(4, 30), -_holed(4, 30), _normal(1, 30)], {}, False),
    "Mod": ("Mod", [_normal(4, 30), _normal(4, 30, seed=1)], {"fmod": 1}, False),
    "BatchNormalization": (
        "BatchNormalization",
        [_normal(2, 3, 5), _normal(3), _normal(3), _normal(3), abs(_normal(3))],
        {},
        True,
    ),
    "LayerNormalization": ("LayerNormalization", [_normal(4, 30), _normal(30), _normal(30)], {}, True),
}


def _run(name: str, inputs: list[Any], backend: str = "numpy", **options: Any) -> Any:
    op, _, attributes, _ = CASES[name]
    session = onemodel.Session(model(op, inputs, **attributes), backend=backend, mode="exact", **options)
    feeds = {f"x{i}": value for i, value in enumerate(inputs)}
    result = session.run(None, feeds)[0]
    return np.where(np.isnan(result), np.float32(np.nan), result)


@pytest.mark.parametrize("name", CASES)
def test_the_strict_namespace_gives_the_same_bits(name: str) -> None:
    same_bits(_run(name, CASES[name][1], "strict"), _run(name, CASES[name][1]))


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case[3]])
def test_a_row_of_a_batch_is_the_row_alone(name: str) -> None:
    """And in a larger batch, where memory, blocks and the library's kernels differ."""
    x, *others = CASES[name][1]
    want = _run(name, [x, *others])
    for row in range(x.shape[0]):
        same_bits(_run(name, [x[row : row + 1], *others]), want[row : row + 1])
    same_bits(_run(name, [np.concatenate([x] * 9), *others]), np.concatenate([want] * 9))


def test_threads_change_nothing() -> None:
    x, w = _normal(300, 400), _normal(400, 200)
    proto = model("MatMul", [x, w])
    results = [
        onemodel.Session(proto, mode="exact", threads=threads).run(None, {"x0": x, "x1": w})[0] for threads in (1, 2)
    ]
    same_bits(results[0], results[1])
    places = [(0, 0), (17, 5), (299, 199)]
    for i, j in places:
        same_bits(results[0][i : i + 1, j : j + 1], product_of(x[i : i + 1], w[:, j : j + 1]))


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_halves_are_summed_as_they_are(name: str) -> None:
    """One rounding, not one to float32 and another one."""
    a, b = cases.operands("ties", name)
    session = onemodel.Session(model("MatMul", [a, b]), mode="exact")
    same_bits(session.run(None, {"x0": a, "x1": b})[0], product_of(a, b))


def test_exact_is_there_on_every_backend_here() -> None:
    assert {get_backend(name).namespace("exact").label for name in ("numpy", "strict")} == {
        "numpy exact",
        "strict exact",
    }
