"""Losses of classifiers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ops.harness import arrays, check, like_onnxruntime, refused

INF, NAN = np.inf, np.nan
SHAPES = [(), (4,), (2, 3), (2, 1, 2)]


def samples(shape: tuple[int, ...], dtype: Any = np.float32) -> list[Any]:
    """Log-probabilities of 2 times ``shape`` samples in 5 classes, classes, weights."""
    rng = np.random.default_rng(0)
    x = arrays(rng, (2, 5, *shape), dtype=dtype)[0]
    return [x, rng.integers(0, 5, (2, *shape)), (rng.random(5) + 0.1).astype(dtype)]


def by_hand(x: Any, target: Any, weight: Any, ignore: int | None, reduction: str) -> np.ndarray[Any, Any]:
    loss, weights = np.zeros(target.shape), np.zeros(target.shape)
    for place in np.ndindex(*target.shape):
        c = int(target[place])
        if c != ignore:
            weights[place] = 1 if weight is None else weight[c]
            loss[place] = -x[(place[0], c, *place[1:])] * weights[place]
    total: Any = {"none": loss, "sum": loss.sum()}
    return np.asarray(total[reduction] if reduction in total else loss.sum() / weights.sum())


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
class TestLosses:
    @pytest.mark.parametrize("ignore", [None, 1, -7, 100])
    @pytest.mark.parametrize("weighted", [False, True])
    def test_negative_log_likelihood(self, shape: Any, reduction: str, weighted: bool, ignore: int | None) -> None:
        x, target, weight = samples(shape)
        options: dict[str, Any] = {"reduction": reduction}
        if ignore is not None:
            target.reshape(-1)[0] = ignore
            options["ignore_index"] = ignore
        inputs = [x, target, weight] if weighted else [x, target]
        right = by_hand(x, target, weight if weighted else None, ignore, reduction)
        check(right.astype(np.float32), "NegativeLogLikelihoodLoss", *inputs, opset=13, **options)

    @pytest.mark.parametrize("opset", [12, 13])
    def test_softmax_cross_entropy(self, shape: Any, reduction: str, opset: int) -> None:
        x, labels, weights = samples(shape)
        like_onnxruntime("SoftmaxCrossEntropyLoss", x, labels, weights, outputs=2, reduction=reduction, opset=opset)
        like_onnxruntime(
            "SoftmaxCrossEntropyLoss", x, labels.astype(np.int32), outputs=2, reduction=reduction, opset=opset
        )
        labels.reshape(-1)[0] = -1
        like_onnxruntime(
            "SoftmaxCrossEntropyLoss", x, labels, weights, reduction=reduction, ignore_index=-1, opset=opset
        )


def test_example_of_the_specification() -> None:
    x = np.array([[[1, 2], [2, 2], [3, 2]], [[0, 1], [2, 2], [1, 2]]], np.float32)
    target, weight = np.array([[2, 1], [0, 2]]), np.array([0.2, 0.3, 0.1], np.float32)
    op = "NegativeLogLikelihoodLoss"
    check(np.array([[-3, -2], [0, -2]], np.float32), op, x, target, reduction="none")
    check(np.array(-1.1, np.float32), op, x, target, weight, reduction="sum")
    check(np.array(-1.1 / 0.7, np.float32), op, x, target, weight)


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_types(dtype: str) -> None:
    x, target, weight = samples((3,), dtype)
    right = by_hand(x.astype(np.float64), target, weight.astype(np.float64), None, "mean").astype(dtype)
    check(right, "NegativeLogLikelihoodLoss", x, target, weight, rtol=2e-3 if dtype == "float16" else 1e-12)


def test_ignored_samples_count_nothing_whatever_they_hold() -> None:
    x = np.array([[-INF, 0], [1, 2]], np.float32)
    check(
        np.array([0, -2], np.float32),
        "NegativeLogLikelihoodLoss",
        x,
        np.array([0, 1]),
        reduction="none",
        ignore_index=0,
    )
    check(np.array(-2, np.float32), "NegativeLogLikelihoodLoss", x, np.array([0, 1]), ignore_index=0)
    check(np.array(NAN, np.float32), "NegativeLogLikelihoodLoss", x, np.array([0, 0]), ignore_index=0)


def test_large_scores_do_not_overflow() -> None:
    x = np.array([[1000, 0], [0, 1000]], np.float32)
    check(np.array([0, 1000], np.float32), "SoftmaxCrossEntropyLoss", x, np.array([0, 0]), reduction="none")


@pytest.mark.parametrize("op", ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"])
def test_refused(op: str) -> None:
    x, target, weight = samples((3,))
    for wrong in (5, -1):
        bad = target.copy()
        bad[0, 0] = wrong
        refused("is not in [0, 5)", op, x, bad)
    refused("does not give one class for each sample", op, x, target[:, :2])
    refused("must be one number for each of 5 classes", op, x, target, weight[:3])
    refused("must be none, sum or mean", op, x, target, reduction="most")
    refused("(5,)", op, x[0, :, 0], target[:1, 0])
