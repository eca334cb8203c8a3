"""Reductions along axes, the places of extremes, running sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ops.harness import arrays, check, like_onnxruntime, refused, run

INF, NAN = np.inf, np.nan
REDUCTIONS: dict[str, Any] = {
    "ReduceSum": np.sum,
    "ReduceMean": np.mean,
    "ReduceProd": np.prod,
    "ReduceMax": np.max,
    "ReduceMin": np.min,
    "ReduceL1": lambda x, **options: np.sum(np.abs(x), **options),
    "ReduceL2": lambda x, **options: np.sqrt(np.sum(x * x, **options)),
    "ReduceSumSquare": lambda x, **options: np.sum(x * x, **options),
    "ReduceLogSum": lambda x, **options: np.log(np.sum(x, **options)),
    "ReduceLogSumExp": lambda x, **options: np.log(np.sum(np.exp(x), **options)),
}
ELEMENT: dict[str, Any] = {
    "ReduceL1": np.abs,
    "ReduceL2": np.abs,
    "ReduceSumSquare": np.square,
    "ReduceLogSum": np.log,
}
"""What is left of a reduction that reduces nothing."""
AXES = [(1,), (-1,), (2, 0), (0, 1, 2)]


def f32(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


def since(op: str) -> int:
    """The first opset with ``axes`` as an input."""
    return 13 if op == "ReduceSum" else 18


@pytest.mark.parametrize("op", REDUCTIONS)
class TestReductions:
    @pytest.mark.parametrize("keepdims", [0, 1])
    @pytest.mark.parametrize("axes", AXES, ids=str)
    def test_axes_as_an_input_or_as_an_attribute(self, op: str, axes: tuple[int, ...], keepdims: int) -> None:
        x = np.abs(arrays(np.random.default_rng(0), (2, 3, 4))[0])
        right = np.asarray(REDUCTIONS[op](x.astype(np.float64), axis=axes, keepdims=bool(keepdims))).astype(np.float32)
        check(right, op, x, np.array(axes), keepdims=keepdims)
        check(right, op, x, axes=axes, keepdims=keepdims, opset=since(op) - 1)

    def test_where_axes_became_an_input(self, op: str) -> None:
        x = f32(2, 3)[None]
        right = np.asarray(REDUCTIONS[op](x, axis=0))
        check(right, op, x, np.array([0]), keepdims=0, opset=since(op))
        check(right, op, x, axes=(0,), keepdims=0, opset=6)

    @pytest.mark.parametrize("dtype", ["float64", "float16", "int32", "int64", "uint32", "uint64"])
    def test_types(self, op: str, dtype: str) -> None:
        x = np.array([[1, 5, 2], [4, 0, 3]], dtype)
        right = (
            np.trunc(REDUCTIONS[op](x.astype(np.float64), axis=1))
            if np.dtype(dtype).kind in "iu"
            else REDUCTIONS[op](x, axis=1)
        )
        check(
            right.astype(dtype), op, x, np.array([1]), keepdims=0, opset=18, rtol=2e-3 if dtype == "float16" else 1e-6
        )

    def test_all_axes_where_none_is_given(self, op: str) -> None:
        x = np.abs(arrays(np.random.default_rng(0), (2, 3))[0])
        right = np.asarray(REDUCTIONS[op](x, keepdims=True))
        none = np.zeros(0, np.int64)
        check(right, op, x)
        check(right, op, x, none)
        check(right.reshape(()), op, x, none, keepdims=0)
        check(right, op, x, opset=11)
        check(np.asarray(REDUCTIONS[op](x[0, 0])), op, x[0, 0].reshape(()))

    def test_noop_with_empty_axes_leaves_the_map(self, op: str) -> None:
        x = np.abs(arrays(np.random.default_rng(0), (2, 3))[0])
        right = ELEMENT.get(op, lambda value: value)(x)
        check(right, op, x, noop_with_empty_axes=1)
        check(right, op, x, np.zeros(0, np.int64), noop_with_empty_axes=1, keepdims=0)
        check(np.asarray(REDUCTIONS[op](x, axis=0)), op, x, np.array([0]), noop_with_empty_axes=1, keepdims=0)

    def test_of_nothing(self, op: str) -> None:
        right = {"ReduceMean": NAN, "ReduceProd": 1, "ReduceMax": -INF, "ReduceMin": INF}
        right |= {"ReduceLogSum": -INF, "ReduceLogSumExp": -INF}
        want = np.full((2, 1), right.get(op, 0), np.float32)
        check(want, op, np.zeros((2, 0), np.float32), np.array([1]))
        check(want[:, 0], op, np.zeros((2, 0, 3), np.float32), np.array([1, 2]), keepdims=0)
        check(np.zeros((1, 0), np.float32), op, np.zeros((2, 0), np.float32), np.array([0]))

    def test_size_one_axes(self, op: str) -> None:
        like_onnxruntime(op, f32(2, 3)[:, None], np.array([1]), opset=18)

    def test_nan(self, op: str) -> None:
        check(f32(NAN, NAN), op, np.array([[1, NAN, 3], [NAN, 2, 1]], np.float32), np.array([1]), keepdims=0)

    def test_wrong_axes(self, op: str) -> None:
        x = np.zeros((2, 3), np.float32)
        refused("axis 2 is not one of 2 axes", op, x, np.array([2]))
        refused("axis -3 is not one of 2 axes", op, x, axes=(-3,), opset=11)
        refused("name an axis twice", op, x, np.array([0, -2]))


class TestIntegers:
    def test_sums_are_exact_and_wrap(self) -> None:
        check(np.array(2**53 + 1), "ReduceSum", np.array([2**53 + 1, 0]), keepdims=0)
        check(np.array(-(2**31), np.int32), "ReduceSum", np.array([2**31 - 1, 1], np.int32), keepdims=0)
        check(np.array(4, np.uint32), "ReduceSum", np.array([2**32 - 1, 5], np.uint32), keepdims=0)
        check(np.array(2**64 - 2, np.uint64), "ReduceSum", np.array([2**63, 2**63 - 2], np.uint64), keepdims=0)

    def test_products_and_squares_wrap(self) -> None:
        check(np.array(3**39), "ReduceProd", np.full(39, 3), keepdims=0)
        check(np.array(10**10 % 2**32, np.uint32), "ReduceSumSquare", np.array([10**5], np.uint32), keepdims=0)

    def test_means_truncate_toward_zero(self) -> None:
        check(
            np.array([-2, 2, 0], np.int32),
            "ReduceMean",
            np.array([[-3, -2], [3, 2], [-1, 0]], np.int32),
            np.array([1]),
            keepdims=0,
        )
        check(np.array(2**31 - 1, np.int32), "ReduceMean", np.full(3, 2**31 - 1, np.int32), keepdims=0)
        refused("division by zero", "ReduceMean", np.zeros((2, 0), np.int32), np.array([1]))

    def test_norms_are_whole_roots(self) -> None:
        check(np.array(7, np.int32), "ReduceL2", np.array([3, -4, 5], np.int32), keepdims=0)
        check(np.array(100_000, np.int32), "ReduceL2", np.array([-100_000], np.int32), keepdims=0)
        check(np.array(2**31 - 1), "ReduceL2", np.array([2**31 - 1]), keepdims=0)
        root = 3_037_000_499
        check(np.array(root), "ReduceL2", np.array([root]), keepdims=0)
        check(np.array(7, np.int64), "ReduceL1", np.array([3, -4]), keepdims=0)

    def test_logarithms_truncate_and_saturate(self) -> None:
        check(np.array(1, np.int32), "ReduceLogSum", np.array([3, 4], np.int32), keepdims=0, opset=18)
        check(np.array(-(2**31), np.int32), "ReduceLogSum", np.array([0], np.int32), keepdims=0, opset=18)
        beyond = np.array([1, 4294967295, 7, 4294967294], np.uint32)
        check(np.array(22, np.uint32), "ReduceLogSum", beyond, keepdims=0, opset=18)
        check(np.array(4, np.int32), "ReduceLogSumExp", np.array([3, 4], np.int32), keepdims=0, opset=18)
        check(np.array(1000, np.int64), "ReduceLogSumExp", np.array([1000, 3]), keepdims=0, opset=18)

    @pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
    def test_extremes(self, dtype: str) -> None:
        x, limits = np.array([[3, 7], [9, 1]], dtype), np.iinfo(dtype)
        check(np.array([7, 9], dtype), "ReduceMax", x, np.array([1]), keepdims=0)
        check(np.array([3, 1], dtype), "ReduceMin", x, np.array([0]), keepdims=0)
        nothing = np.zeros((1, 0), dtype)
        check(np.array([limits.min], dtype), "ReduceMax", nothing, np.array([1]), keepdims=0)
        check(np.array([limits.max], dtype), "ReduceMin", nothing, np.array([1]), keepdims=0)


def test_extremes_of_booleans() -> None:
    x = np.array([[True, False], [False, False]])
    check(np.array([True, False]), "ReduceMax", x, np.array([1]), keepdims=0)
    check(np.array([False, False]), "ReduceMin", x, np.array([1]), keepdims=0)
    check(np.array([[False], [False]]), "ReduceMax", np.zeros((2, 0), bool), np.array([1]))
    check(np.array([[True], [True]]), "ReduceMin", np.zeros((2, 0), bool), np.array([1]))


def test_log_sum_exp_does_not_overflow() -> None:
    check(
        f32(1000.6931, -999.30685, INF, -INF),
        "ReduceLogSumExp",
        np.array([[1000, 1000], [-1000, -1000], [INF, 0], [-INF, -INF]], np.float32),
        np.array([1]),
        keepdims=0,
    )


def test_half_sums_round_once() -> None:
    x = np.ones(4096, np.float16)
    check(np.array(4096, np.float16), "ReduceSum", x, keepdims=0)
    check(np.array(1, np.float16), "ReduceMean", x, keepdims=0)


def test_long_sums_keep_their_digits_in_any_layout() -> None:
    ones = np.ones((300_000, 2), np.float32) / 3
    exact = ones.astype(np.float64).sum(axis=0)
    for x in (ones, np.asfortranarray(ones)):
        np.testing.assert_allclose(run("ReduceSum", x, np.array([0]), keepdims=0, rtol=1e-2), exact, rtol=1e-6)
        for axes in ([0, 1], [1]):
            got = run("ReduceSum", x, np.array(axes), keepdims=0, rtol=1e-2)
            np.testing.assert_allclose(got, x.sum(axis=tuple(axes), dtype=np.float64), rtol=1e-6)
        np.testing.assert_allclose(run("Softmax", x, axis=0, rtol=1e-2), x * 0 + 1 / len(x), rtol=1e-6)


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
class TestPlaces:
    def test_nothing_of_nothing(self, op: str) -> None:
        check(np.zeros((0, 1, 3), np.int64), op, np.zeros((0, 0, 3), np.float32), axis=1)
        check(np.zeros((0, 3), np.int64), op, np.zeros((0, 0, 3), np.float32), axis=1, keepdims=0)
        refused("axis 1 of shape (2, 0, 3) is empty", op, np.zeros((2, 0, 3), np.float32), axis=1)

    @pytest.mark.parametrize("keepdims", [0, 1])
    @pytest.mark.parametrize("axis", [0, 1, -1])
    @pytest.mark.parametrize("dtype", ["float32", "int8", "uint64", "float16"])
    def test_first_and_last(self, op: str, axis: int, keepdims: int, dtype: str) -> None:
        x = arrays(np.random.default_rng(3), (4, 6, 5), dtype=dtype)[0].round()
        find = np.argmax if op == "ArgMax" else np.argmin
        first = find(x, axis=axis, keepdims=bool(keepdims))
        last = x.shape[axis] - 1 - find(np.flip(x, axis), axis=axis, keepdims=bool(keepdims))
        assert (first != last).any()
        check(first, op, x, axis=axis, keepdims=keepdims)
        check(last, op, x, axis=axis, keepdims=keepdims, select_last_index=1)
        check(first, op, x, axis=axis, keepdims=keepdims, opset=11)

    def test_the_first_nan_wins(self, op: str) -> None:
        check(np.array([1]), op, f32(1, NAN, 3, NAN))
        check(np.array([3]), op, f32(1, NAN, 3, NAN), select_last_index=1)

    def test_refused(self, op: str) -> None:
        refused("is empty", op, np.zeros((0, 3), np.float32))
        refused("axis 1 is not one of 1 axes", op, f32(1), axis=1)
        check(np.zeros((0, 1), np.int64), op, np.zeros((0, 3), np.float32), axis=1)


RUNNING: dict[str, Any] = {"CumSum": (np.cumsum, 0), "CumProd": (np.cumprod, 1)}


@pytest.mark.parametrize("op", RUNNING)
class TestRunning:
    @pytest.mark.parametrize("reverse", [0, 1])
    @pytest.mark.parametrize("exclusive", [0, 1])
    @pytest.mark.parametrize("axis", [0, 1, -1])
    @pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint64", "float16"])
    def test_exclusive_and_reverse(self, op: str, dtype: str, axis: int, exclusive: int, reverse: int) -> None:
        function, start = RUNNING[op]
        x = arrays(np.random.default_rng(0), (3, 4), dtype=dtype)[0]
        right = np.flip(x, axis) if reverse else x
        if exclusive:
            count = right.shape[axis]
            right = np.concatenate(
                [np.full_like(np.take(right, [0], axis), start), np.take(right, range(count - 1), axis)], axis
            )
        right = function(right.astype(np.float32 if dtype == "float16" else dtype), axis=axis).astype(dtype)
        right = np.flip(right, axis) if reverse else right
        check(
            right,
            op,
            x,
            np.array(axis),
            exclusive=exclusive,
            reverse=reverse,
            rtol=1e-2 if dtype == "float16" else 1e-5,
        )

    def test_axis(self, op: str) -> None:
        x = np.array([1, 2, 3], np.int32)
        right = RUNNING[op][0](x).astype(np.int32)
        check(right, op, x, np.array([0]))
        check(right, op, x, np.array(-1, np.int32))
        check(np.zeros((0,), np.int32), op, x[:0], np.array(0), exclusive=1)
        refused("axis 1 is not one of 1 axes", op, x, np.array(1))
        refused("2 numbers, not one", op, x, np.array([0, 0]))

    def test_integers_wrap(self, op: str) -> None:
        x = np.array([2**31 - 1, 2], np.int32)
        check(np.array([2**31 - 1, -(2**31) + 1 if op == "CumSum" else -2], np.int32), op, x, np.array(0))


def test_running_sum_at_opset_11() -> None:
    check(f32(5, 3, 0), "CumSum", f32(1, 2, 3), np.array(0), exclusive=1, reverse=1, opset=11)
