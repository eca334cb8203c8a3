"""ScatterElements, ScatterND and TensorScatter, duplicates and reductions included."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import onemodel
from tests.ops import harness
from tests.ops.harness import arrays, check, like_onnxruntime, refused, run

DTYPES = [np.float32, np.float64, np.float16, np.int32, np.uint8, np.bool_, object, ml_dtypes.bfloat16]
REDUCTIONS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def data(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    """1, 2, 3 ... in ``shape``."""
    flat = np.arange(1, 1 + np.prod(shape))
    return (np.array([str(n) for n in flat], dtype=object) if dtype is object else flat.astype(dtype)).reshape(shape)


def elements(x: Any, indices: Any, updates: Any, axis: int = 0, reduction: str = "none") -> Any:
    """ScatterElements by a plain loop."""
    result = x.copy()
    for place in np.ndindex(*np.shape(indices)):
        target = list(place)
        target[axis] = indices[place]
        old, new = result[tuple(target)], updates[place]
        result[tuple(target)] = new if reduction == "none" else REDUCTIONS[reduction](old, new)
    return result


def slices(x: Any, indices: Any, updates: Any, reduction: str = "none") -> Any:
    """ScatterND by a plain loop."""
    result = x.copy()
    for place in np.ndindex(*np.shape(indices)[:-1]):
        target = tuple(indices[place])
        old, new = result[target], updates[place]
        result[target] = new if reduction == "none" else REDUCTIONS[reduction](old, new)
    return result


# ScatterElements


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scatter_elements(axis: int, dtype: Any) -> None:
    x, updates = data(3, 4, dtype=dtype), data(2, 3, dtype=dtype)
    indices = np.array([[1, 0, 2], [-1, 2, 0]])
    want = elements(x, indices, updates, axis)
    check(want, "ScatterElements", x, indices, updates, axis=axis)
    check(want, "ScatterElements", x, indices.astype(np.int32), updates, axis=axis)


OLDER = [("Scatter", 9), ("Scatter", 10), ("ScatterElements", 11), ("ScatterElements", 13)]


@pytest.mark.parametrize(("op", "opset"), OLDER)
def test_the_older_ones(op: str, opset: int) -> None:
    indices = np.array([[1, 0, 2], [0, 2, 1]])
    updates = np.array([[1.0, 1.1, 1.2], [2.0, 2.1, 2.2]], np.float32)
    want = np.array([[2.0, 1.1, 0.0], [1.0, 0.0, 2.2], [0.0, 2.1, 1.2]], np.float32)
    check(want, op, np.zeros((3, 3), np.float32), indices, updates, opset=opset)


def test_scatter_is_gone_from_opset_11() -> None:
    x = np.zeros(3, np.float32)
    with pytest.raises(onemodel.UnsupportedOperatorError, match="ONNX removed it at opset 11"):
        run("Scatter", x, np.array([1]), x[:1], opset=11)


def test_the_last_duplicate_wins() -> None:
    updates = np.array([7, 9, 8], np.float32)
    check(np.array([1, 8, 3], np.float32), "ScatterElements", data(3), np.array([1, 1, 1]), updates)
    want, updates = np.array([[3, 3], [2, 2]], np.float32), np.array([[1, 1], [2, 2], [3, 3]], np.float32)
    check(want, "ScatterND", np.zeros((2, 2), np.float32), np.array([[0], [1], [-2]]), updates)


@pytest.mark.parametrize("opset", [16, 18])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, np.uint8])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_duplicates_accumulate(reduction: str, dtype: Any, opset: int) -> None:
    if opset < 18 and reduction in ("max", "min"):
        reduction = "add"
    rng = np.random.default_rng(3)
    x, updates = arrays(rng, (3, 4), (5, 4), dtype=dtype)
    indices = rng.integers(-3, 3, (5, 4))
    want = elements(x, indices, updates, 0, reduction)
    check(want, "ScatterElements", x, indices, updates, reduction=reduction, opset=opset)
    tuples = rng.integers(-3, 3, (6, 1))
    (updates,) = arrays(rng, (6, 4), dtype=dtype)
    check(slices(x, tuples, updates, reduction), "ScatterND", x, tuples, updates, reduction=reduction, opset=opset)


def test_values_of_the_settled_semantics() -> None:
    x, indices, updates = np.array([2], np.float32), np.array([0, 0, 0]), np.array([3, -5, 4], np.float32)
    for reduction, want in (("add", 4), ("mul", -120), ("max", 4), ("min", -5)):
        check(np.array([want], np.float32), "ScatterElements", x, indices, updates, reduction=reduction)


@pytest.mark.parametrize("reduction", ["max", "min"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_extremes_keep_nan_and_order_zeros(dtype: Any, reduction: str) -> None:
    x = np.array([1, np.nan, 0.0, -0.0, np.inf, -np.inf]).astype(dtype)
    updates = np.array([np.nan, 1, -0.0, 0.0, -np.inf, np.inf, 5]).astype(dtype)
    indices = np.array([0, 1, 2, 3, 4, 5, 0])
    got = run("ScatterElements", x, indices, updates, reduction=reduction).astype(np.float64)
    assert np.isnan(got[:2]).all()
    assert np.signbit(got[2:4]).tolist() == [reduction == "min"] * 2
    assert got[4:].tolist() == [np.inf if reduction == "max" else -np.inf] * 2


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_types_are_summed_in_float32(dtype: Any) -> None:
    x, updates = np.array([2048]).astype(dtype), np.ones(16, dtype)
    check(np.array([2064]).astype(dtype), "ScatterElements", x, np.zeros(16, int), updates, reduction="add")


def test_sums_follow_the_order_of_the_updates() -> None:
    x, updates = np.zeros((1, 1), np.float32), np.array([2**24, 1, 1, -(2**24)], np.float32).reshape(4, 1)
    for proto in (
        harness.model("ScatterElements", [x, np.zeros((4, 1), int), updates], reduction="add"),
        harness.model("ScatterND", [x, np.zeros((4, 1), int), updates], reduction="add"),
    ):
        assert harness.run_model(proto, x, np.zeros((4, 1), int), updates) == 0


def test_text_is_moved() -> None:
    x = np.array(["a", "b"], object)
    check(np.array(["a", "z"], object), "ScatterElements", x, np.array([1]), np.array(["z"], object))


def test_nothing_to_write() -> None:
    x, none = data(3, 2), np.zeros((0, 2), np.int64)
    for reduction in ("none", *REDUCTIONS):
        check(x, "ScatterElements", x, none, x[:0], reduction=reduction)
        check(x, "ScatterND", x, np.zeros((0, 1), np.int64), x[:0], reduction=reduction)
    check(x[:0], "ScatterElements", x[:0], none, x[:0])


def test_scatter_elements_refuses() -> None:
    x = data(3, 2)
    for index in (3, -4):
        refused(f"index {index} is out of range for 3 elements", "ScatterElements", x, np.array([[index]]), x[:1, :1])
    refused("updates of shape (2, 2)", "ScatterElements", x, np.array([[0]]), x[:2])
    refused("do not fit", "ScatterElements", x, np.zeros((1, 3), int), data(1, 3))
    refused("reduction is 'mean'", "ScatterElements", x, np.array([[0]]), x[:1, :1], reduction="mean")


# ScatterND


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("opset", [11, 13, 18])
@pytest.mark.parametrize(
    "indices",
    [[[2], [0]], [[0, 1], [-1, -2]], [[2, 1, 0], [0, 0, 1]], [[[0, 1]], [[1, 0]]], [1], np.zeros((0, 2), int)],
)
def test_scatter_nd(indices: Any, opset: int, dtype: Any) -> None:
    if dtype is ml_dtypes.bfloat16:
        opset = max(opset, 13)
    x, indices = data(3, 2, 2, dtype=dtype), np.array(indices)
    updates = data(*indices.shape[:-1], *x.shape[indices.shape[-1] :], dtype=dtype)
    check(slices(x, indices, updates), "ScatterND", x, indices, updates, opset=opset)


def test_scatter_nd_refuses() -> None:
    x = data(3, 2)
    refused("index 3 is out of range for 3 elements", "ScatterND", x, np.array([[3, 0]]), data(1))
    refused("index -3 is out of range for 2 elements", "ScatterND", x, np.array([[0, -3]]), data(1))
    refused("must have the shape (1, 2)", "ScatterND", x, np.array([[0]]), data(1), error=onemodel.OneModelError)
    refused("do not hold index tuples", "ScatterND", x, np.array([[0, 0, 0]]), data(1), error=onemodel.OneModelError)


@pytest.mark.parametrize("reduction", ["none", *REDUCTIONS])
def test_like_onnxruntime(reduction: str) -> None:
    rng = np.random.default_rng(11)
    x, updates = arrays(rng, (4, 5), (3, 5))
    indices = rng.permuted(np.tile(np.arange(4)[:, None], 5), axis=0)[:3]
    like_onnxruntime("ScatterElements", x, indices, updates, reduction=reduction)
    like_onnxruntime("ScatterND", x, np.array([[3], [1], [0]]), updates, reduction=reduction)


# TensorScatter


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", ["linear", "circular"])
@pytest.mark.parametrize(
    ("shape", "axis", "steps"), [((2, 3, 4, 2), -2, 2), ((2, 4), 1, 3), ((3, 4, 2), 1, 4), ((2, 3, 4), -1, 1)]
)
def test_tensor_scatter(shape: tuple[int, ...], axis: int, steps: int, mode: str, dtype: Any) -> None:
    cache = data(*shape, dtype=dtype)
    axis %= len(shape)
    update = data(*shape[:axis], steps, *shape[axis + 1 :], dtype=dtype)[::-1]
    starts = np.arange(shape[0]) % (4 - steps + 1) if mode == "linear" else np.arange(shape[0]) + 1
    want = np.moveaxis(cache.copy(), axis, 1)
    new = np.moveaxis(update, axis, 1)
    for i, start in enumerate(starts):
        for step in range(steps):
            want[i, (start + step) % 4] = new[i, step]
    check(np.moveaxis(want, 1, axis), "TensorScatter", cache, update, starts, axis=axis, mode=mode)


def test_tensor_scatter_from_the_start() -> None:
    cache = data(2, 3, 1)
    want = cache.copy()
    want[:, :2] = 0
    check(want, "TensorScatter", cache, np.zeros((2, 2, 1), np.float32))


def test_tensor_scatter_refuses() -> None:
    cache, update = data(2, 3, 1), data(2, 2, 1)
    refused("numbers from 0 to 1", "TensorScatter", cache, update, np.array([0, 2]))
    refused("numbers from 0 to 2", "TensorScatter", cache, update, np.array([0, -1]), mode="circular")
    refused("does not fit into a cache", "TensorScatter", cache, data(2, 4, 1), np.array([0, 0]))
    refused("axis 0 is the batch", "TensorScatter", cache, update, axis=0)
    refused("mode is 'ring'", "TensorScatter", cache, update, mode="ring")


@pytest.mark.parametrize("op", ["ScatterElements", "ScatterND", "TensorScatter"])
def test_exact_mode_scatters(op: str) -> None:
    inputs = [data(2, 2, 2), data(2, 1, 2)] if op == "TensorScatter" else [data(2), np.array([[0]]), data(1)]
    if op == "ScatterElements":
        inputs[1] = np.array([0])
    onemodel.Session(harness.model(op, inputs), mode="exact")
