"""TopK and Unique."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.ops.harness import arrays, check, like_onnxruntime, refused, run

INF, NAN = np.inf, np.nan


def f32(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


def top(x: Any, k: int, axis: int, largest: bool) -> list[Any]:
    """By Python's stable sort, with NaN above everything."""
    rows = np.moveaxis(x, axis, -1)
    chosen = np.empty((*rows.shape[:-1], k), np.int64)
    for place in np.ndindex(*rows.shape[:-1]):
        keys = [(value != value, value) for value in rows[place].tolist()]
        chosen[place] = sorted(range(len(keys)), key=keys.__getitem__, reverse=largest)[:k]
    indices = np.moveaxis(chosen, -1, axis)
    return [np.take_along_axis(x, indices, axis), indices]


class TestTopK:
    @pytest.mark.parametrize("largest", [0, 1])
    @pytest.mark.parametrize("axis", [0, 1, -1])
    @pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "int64", "uint8", "uint64", "bfloat16"])
    def test_ties_take_the_lower_index(self, dtype: str, axis: int, largest: int) -> None:
        x = np.random.default_rng(0).integers(0, 5, (4, 6, 5)).astype(getattr(ml_dtypes, dtype, dtype))
        opset = 24 if dtype == "bfloat16" else 11
        check(
            top(x, 3, axis, bool(largest)), "TopK", x, np.array([3]), axis=axis, largest=largest, outputs=2, opset=opset
        )

    @pytest.mark.parametrize("largest", [0, 1])
    @pytest.mark.parametrize("dtype", ["float32", "int32", "uint8"])
    def test_few_of_many(self, dtype: str, largest: int) -> None:
        rng = np.random.default_rng(0)
        for x in (rng.permutation(600), rng.integers(0, 40, 600)):
            x = (x % 250).astype(dtype).reshape(2, 300)
            for k in (1, 5, 37):
                check(top(x, k, 1, bool(largest)), "TopK", x, np.array([k]), largest=largest, outputs=2)
        like_onnxruntime("TopK", x, np.array([7]), largest=largest, outputs=2)

    @pytest.mark.parametrize("largest", [0, 1])
    def test_nan_is_the_greatest(self, largest: int) -> None:
        x = f32(1, NAN, 3, 3, NAN, -INF, INF)
        check(top(x, 7, 0, bool(largest)), "TopK", x, np.array([7]), largest=largest, outputs=2)
        many = np.resize(x, 140)
        for k in (3, 15):
            check(top(many, k, 0, bool(largest)), "TopK", many, np.array([k]), largest=largest, outputs=2)
        mostly = np.full(64, NAN, np.float32)
        mostly[[5, 9]] = 1, 0
        check(top(mostly, 4, 0, bool(largest)), "TopK", mostly, np.array([4]), largest=largest, outputs=2)

    def test_signed_zeros_tie(self) -> None:
        check(np.array([0, 1]), "TopK", f32(-0.0, 0.0), np.array([2]), outputs=[False, True])

    def test_largest_integers_are_not_rounded(self) -> None:
        x = np.array([2**63 - 2, 2**63 - 1, -(2**63)])
        check([x[[1, 0]], np.array([1, 0])], "TopK", x, np.array([2]), outputs=2)

    def test_older_opsets(self) -> None:
        x = f32(1, 3, 2)
        right = [f32(3, 2), np.array([1, 2])]
        check(right, "TopK", x, k=2, outputs=2, opset=6)
        check(right, "TopK", x, np.array([2]), outputs=2, opset=10)

    def test_none_and_all(self) -> None:
        x = np.zeros((2, 3), np.float32)
        check([x[:, :0], np.zeros((2, 0), np.int64)], "TopK", x, np.array([0]), outputs=2)
        check([x, np.array([[0, 1, 2]] * 2)], "TopK", x, np.array([3]), outputs=2)
        check([x[:0], np.zeros((0, 3), np.int64)], "TopK", x[:0], np.array([3]), outputs=2)

    def test_refused(self) -> None:
        refused("has 2 elements", "TopK", f32(1, 2), np.array([3]), outputs=2)
        refused("K is", "TopK", f32(1, 2), np.array([-1]), outputs=2)
        refused("axis 1 is not one of 1 axes", "TopK", f32(1, 2), np.array([1]), axis=1, outputs=2)


class TestUnique:
    X = np.array([2, 1, 1, 3, 4, 3])

    @pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "uint64", "bool", "complex64"])
    def test_sorted(self, dtype: str) -> None:
        x = self.X.astype(dtype)
        y, *indices = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
        check([y, *indices], "Unique", x, outputs=4)

    def test_in_the_order_of_x(self) -> None:
        right = [np.array(v) for v in ([2, 1, 3, 4], [0, 1, 3, 4], [0, 1, 1, 2, 3, 2], [1, 2, 2, 1])]
        check(right, "Unique", self.X, sorted=0, outputs=4)
        check(right[0], "Unique", self.X, sorted=0)
        check(right[3], "Unique", self.X, sorted=0, outputs=[False, False, False, True])

    @pytest.mark.parametrize("axis", [None, 0, 1, 2, -1])
    @pytest.mark.parametrize("order", [0, 1])
    def test_slices(self, axis: int | None, order: int) -> None:
        x = np.random.default_rng(0).integers(0, 2, (4, 3, 4)).astype(np.float32)
        options = {} if axis is None else {"axis": axis}
        like_onnxruntime("Unique", x, sorted=order, outputs=4, **options)

    def test_slices_compare_element_by_element(self) -> None:
        x = np.array([[1, 0, 0], [0, 9, 9], [1, 0, 0], [0, 9, 8]])
        right = [np.array(v) for v in ([[0, 9, 8], [0, 9, 9], [1, 0, 0]], [3, 1, 0], [2, 1, 2, 0], [1, 1, 2])]
        check(right, "Unique", x, axis=0, outputs=4)

    def test_nan_equals_nothing_and_hides_nothing(self) -> None:
        right = [f32(1, 3, NAN, NAN), *(np.array(v) for v in ([2, 0, 1, 3], [1, 2, 0, 3, 0], [2, 1, 1, 1]))]
        check(right, "Unique", f32(3, NAN, 1, NAN, 1), outputs=4)
        rows = np.array([[1, NAN], [1, NAN], [1, 0]], np.float32)
        check(
            [rows[[2, 0, 1]], np.array([2, 0, 1]), np.array([1, 2, 0]), np.array([1, 1, 1])],
            "Unique",
            rows,
            axis=0,
            outputs=4,
        )

    def test_zeros_are_equal_and_the_first_stays(self) -> None:
        got = run("Unique", f32(1, -0.0, 0.0))
        assert np.signbit(got).tolist() == [True, False]

    def test_complex_numbers_sort_by_the_real_part_first(self) -> None:
        x = np.array([1 + 2j, 1 + 1j, 0 + 5j, 1 + 2j], np.complex64)
        right = [x[[2, 1, 0]], *(np.array(v) for v in ([2, 1, 0], [2, 1, 0, 2], [1, 1, 2]))]
        check(right, "Unique", x, outputs=4)

    def test_strings(self) -> None:
        x = np.array([["b", "a"], ["b", "ä"]], object)
        right = [np.array(["a", "b", "ä"], object), *(np.array(v) for v in ([1, 0, 3], [1, 0, 1, 2], [1, 2, 1]))]
        check(right, "Unique", x, outputs=4)
        check(np.array([["a", "b"], ["ä", "b"]], object), "Unique", x, axis=1)

    def test_empty_and_scalar(self) -> None:
        none = np.zeros(0, np.int64)
        for x in (np.zeros(0, np.float32), np.zeros((0, 3), np.float32)):
            check([x.reshape(-1), none, none, none], "Unique", x, outputs=4)
        check(
            [np.zeros((2, 0), np.float32), none, none, none], "Unique", np.zeros((2, 0), np.float32), axis=1, outputs=4
        )
        one = [f32(5), np.array([0]), np.array([0]), np.array([1])]
        check(one, "Unique", np.float32(5).reshape(()), outputs=4)
        check(
            [np.zeros((1, 0), np.float32), np.array([0]), np.array([0, 0, 0]), np.array([3])],
            "Unique",
            np.zeros((3, 0), np.float32),
            axis=0,
            outputs=4,
        )

    def test_many(self) -> None:
        x = arrays(np.random.default_rng(0), (50, 40), dtype=np.int64)[0]
        y, *indices = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
        check([y, indices[0], indices[1].reshape(-1), indices[2]], "Unique", x, outputs=4)

    def test_refused(self) -> None:
        refused("axis 2 is not one of 2 axes", "Unique", np.zeros((1, 1), np.float32), axis=2)
