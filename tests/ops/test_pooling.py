"""Pooling: by the greatest, the mean, a norm; over windows and over whole channels; and MaxUnpool."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.ops.harness import arrays, check, like_onnxruntime, refused, run

RNG = np.random.default_rng(0)
NAN, INF = float("nan"), float("inf")
Array = np.ndarray[Any, Any]

WINDOWS: list[dict[str, Any]] = [
    {"kernel_shape": [2, 3]},
    {"kernel_shape": [3, 2], "strides": [2, 1]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    {"kernel_shape": [3, 3], "pads": [0, 2, 1, 0]},
    {"kernel_shape": [2, 2], "strides": [3, 2], "ceil_mode": 1},
    {"kernel_shape": [3, 3], "strides": [2, 3], "pads": [1, 1, 1, 1], "ceil_mode": 1},
    {"kernel_shape": [2, 2], "dilations": [2, 3], "strides": [1, 2]},
    {"kernel_shape": [2, 3], "dilations": [3, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1, "strides": [2, 2]},
    {"kernel_shape": [3, 2], "auto_pad": "SAME_UPPER", "strides": [2, 2]},
    {"kernel_shape": [3, 2], "auto_pad": "SAME_LOWER", "strides": [2, 2]},
    {"kernel_shape": [3, 2], "auto_pad": "VALID", "strides": [2, 2]},
    {"kernel_shape": [1, 1], "strides": [2, 2]},
    {"kernel_shape": [7, 6]},
]


def row(values: Any, dtype: Any = np.float32) -> Array:
    """One sample of one channel with one spatial axis."""
    return np.array([[values]], dtype)


class TestMaxPool:
    @pytest.mark.parametrize("options", WINDOWS)
    @pytest.mark.parametrize("storage_order", [0, 1])
    def test_like_onnxruntime(self, options: dict[str, Any], storage_order: int) -> None:
        (x,) = arrays(RNG, (2, 3, 7, 6), dtype=np.int8)  # so that there are ties
        like_onnxruntime("MaxPool", x.astype(np.float32), **options)
        like_onnxruntime("MaxPool", x.astype(np.float32), outputs=2, storage_order=storage_order, **options)

    @pytest.mark.parametrize("rank", [1, 3])
    def test_other_ranks(self, rank: int) -> None:
        (x,) = arrays(RNG, (2, 2, *(6, 5, 7)[:rank]))
        options = {"kernel_shape": (3, 2, 2)[:rank], "strides": (2, 1, 3)[:rank], "pads": [1] * 2 * rank}
        like_onnxruntime("MaxPool", x, outputs=2, **options)

    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.uint8, ml_dtypes.bfloat16])
    def test_types(self, dtype: Any) -> None:
        x = row([3, 1, 2, 9, 4], dtype)
        expected = [row([3, 9, 9], dtype), row([0, 3, 3], np.int64)]
        check(expected, "MaxPool", x, kernel_shape=[3], strides=[2], pads=[1, 1], outputs=2)

    @pytest.mark.parametrize("dtype", [np.int8, np.uint8])
    def test_padding_never_wins(self, dtype: Any) -> None:
        least = np.iinfo(dtype).min
        expected = [row([least] * 3, dtype), row([0, 0, 1], np.int64)]
        check(expected, "MaxPool", row([least] * 2, dtype), kernel_shape=[2], pads=[1, 1], outputs=2)
        expected = [row([-INF] * 3), row([0, 0, 1], np.int64)]
        check(expected, "MaxPool", row([-INF, -INF]), kernel_shape=[2], pads=[1, 1], outputs=2)

    def test_nan_is_the_largest(self) -> None:
        x = row([1, NAN, 2, 3, NAN, NAN])
        expected = [row([NAN, NAN, 3, NAN, NAN]), row([1, 1, 3, 4, 4], np.int64)]
        check(expected, "MaxPool", x, kernel_shape=[2], outputs=2)
        check(expected[0], "MaxPool", x, kernel_shape=[2])

    def test_the_first_of_equals_in_rows(self) -> None:
        x = np.array([[[[0, 5, 1], [5, 5, 5], [1, 5, 5]]]], np.float32)
        expected = [np.full((1, 1, 2, 2), 5, np.float32), np.array([[[[1, 1], [3, 4]]]])]
        check(expected, "MaxPool", x, kernel_shape=[2, 2], outputs=2)
        # With storage_order 1 the index counts down the columns; which element is the first stays the same.
        expected[1] = np.array([[[[3, 3], [1, 4]]]])
        check(expected, "MaxPool", x, kernel_shape=[2, 2], storage_order=1, outputs=2)

    def test_indices_count_over_the_whole_batch(self) -> None:
        x = np.array([[[1, 2], [4, 3]], [[5, 6], [8, 7]]], np.float32)
        expected = [np.array([[[2], [4]], [[6], [8]]], np.float32), np.array([[[1], [2]], [[5], [6]]])]
        check(expected, "MaxPool", x, kernel_shape=[2], outputs=2)

    @pytest.mark.parametrize("opset", [10, 21, 22])
    def test_windows_that_start_in_the_padding_after_are_dropped(self, opset: int) -> None:
        options: dict[str, Any] = {"kernel_shape": [2], "strides": [2], "ceil_mode": 1, "opset": opset}
        check(row([1, 3, 5]), "MaxPool", row([1, 2, 3, 4, 5]), pads=[1, 1], **options)
        check(row([2, 4, 5]), "MaxPool", row([1, 2, 3, 4, 5]), **options)
        check(row([1]), "MaxPool", row([1]), **options)

    def test_valid_has_a_formula_without_ceil_mode(self) -> None:
        options: dict[str, Any] = {"kernel_shape": [2], "strides": [2], "ceil_mode": 1, "auto_pad": "VALID"}
        check(row([2, 4]), "MaxPool", row([1, 2, 3, 4, 5]), **options)

    def test_old_opsets_and_empty_batches(self) -> None:
        check(row([2, 3]), "MaxPool", row([1, 2, 3]), kernel_shape=[2], opset=6)
        check([row([2, 3]), row([1, 2], np.int64)], "MaxPool", row([1, 2, 3]), kernel_shape=[2], opset=8, outputs=2)
        empty = np.zeros((0, 2, 3), np.float32)
        check(
            [np.zeros((0, 2, 2), np.float32), np.zeros((0, 2, 2), np.int64)],
            "MaxPool",
            empty,
            kernel_shape=[2],
            outputs=2,
        )

    @pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
    @pytest.mark.parametrize(
        ("shape", "options", "message"),
        [
            ((1, 5), {"kernel_shape": [2]}, "kernel_shape [2] must be 0 numbers from 1 on, one per spatial axis"),
            ((1, 1, 5), {"kernel_shape": [2, 2]}, "kernel_shape [2, 2] must be 1 numbers"),
            ((1, 1, 5), {"kernel_shape": [0]}, "kernel_shape [0]"),
            ((1, 1, 5), {"kernel_shape": [6]}, "reaches over 6 does not fit into 5 + 0 + 0 on axis 2"),
            ((1, 1, 5), {"kernel_shape": [2], "strides": [0]}, "strides [0]"),
            ((1, 1, 5), {"kernel_shape": [2], "dilations": [5]}, "reaches over 6"),
            ((1, 1, 5), {"kernel_shape": [2], "pads": [1]}, "pads [1] must be 2 numbers"),
            ((1, 1, 5), {"kernel_shape": [2], "pads": [0, -1]}, "pads [0, -1]"),
            ((1, 1, 0), {"kernel_shape": [1]}, "does not fit into 0"),
        ],
    )
    def test_what_does_not_fit_is_refused(
        self, op: str, shape: tuple[int, ...], options: dict[str, Any], message: str
    ) -> None:
        refused(message, op, np.ones(shape, np.float32), **options)

    @pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
    def test_windows_of_padding_alone_are_refused(self, op: str) -> None:
        refused("padding alone", op, row([1, 2, 3]), kernel_shape=[2], pads=[2, 0])


class TestAveragePool:
    @pytest.mark.parametrize("options", WINDOWS)
    @pytest.mark.parametrize("include", [0, 1])
    def test_like_onnxruntime(self, options: dict[str, Any], include: int) -> None:
        (x,) = arrays(RNG, (2, 3, 7, 6))
        like_onnxruntime("AveragePool", x, count_include_pad=include, **options)

    @pytest.mark.parametrize("rank", [1, 3])
    def test_other_ranks(self, rank: int) -> None:
        (x,) = arrays(RNG, (2, 2, *(6, 5, 7)[:rank]))
        options = {"kernel_shape": (3, 2, 2)[:rank], "strides": (2, 1, 3)[:rank], "pads": [1] * 2 * rank}
        like_onnxruntime("AveragePool", x, opset=11, **options)

    def test_padding_counts_on_request_but_never_what_lies_beyond(self) -> None:
        options: dict[str, Any] = {"kernel_shape": [3], "strides": [3], "pads": [1, 1], "ceil_mode": 1}
        x = row([1, 2, 3, 4, 5, 6])
        # The last window sees 6, the padding after it, and one place beyond.
        check(row([1, 4, 3]), "AveragePool", x, count_include_pad=1, **options)
        check(row([1.5, 4, 6]), "AveragePool", x, **options)
        check(
            row([0.5, 1.5, 1]), "AveragePool", row([1, 2]), kernel_shape=[2], pads=[1, 1], count_include_pad=1, opset=7
        )
        check(row([0, 0.5, 1]), "AveragePool", row([1, 1]), kernel_shape=[2], pads=[2, 0], count_include_pad=1)

    @pytest.mark.parametrize("dtype", ["float64", "float16", ml_dtypes.bfloat16])
    def test_types(self, dtype: Any) -> None:
        # Summed in float16, the ones would be lost beside 2048.
        large = 256 if dtype is ml_dtypes.bfloat16 else 2048
        check(row([large / 4 + 1], dtype), "AveragePool", row([large, 1, 1, 2], dtype), kernel_shape=[4])

    def test_nan_stays_in_its_windows_and_opset_6(self) -> None:
        check(row([1.5, NAN, NAN, 3.5]), "AveragePool", row([1, 2, NAN, 3, 4]), kernel_shape=[2], opset=6)

    def test_empty_batch(self) -> None:
        check(np.zeros((0, 2, 2), np.float32), "AveragePool", np.zeros((0, 2, 3), np.float32), kernel_shape=[2])


class TestLpPool:
    @pytest.mark.parametrize("options", WINDOWS)
    @pytest.mark.parametrize("p", [1, 2, 3])
    def test_like_onnxruntime(self, options: dict[str, Any], p: int) -> None:
        (x,) = arrays(RNG, (2, 3, 7, 6))
        like_onnxruntime("LpPool", x, p=p, **options)

    def test_values(self) -> None:
        check(row([5, 4]), "LpPool", row([3, -4, 0]), kernel_shape=[2], opset=6)
        check(row([7, 4]), "LpPool", row([3, -4, 0]), kernel_shape=[2], p=1, opset=11)
        check(row([3, 5, 4, 0]), "LpPool", row([3, -4, 0]), kernel_shape=[2], pads=[1, 1], opset=17)
        check(row([91 ** (1 / 3)]), "LpPool", row([3, -4, 0]), kernel_shape=[3], p=3)
        check(row([5, 0], np.float16), "LpPool", row([3, 4, 0], np.float16), kernel_shape=[2], strides=[2], ceil_mode=1)

    def test_of_channels(self) -> None:
        (x,) = arrays(RNG, (2, 3, 4, 5))
        for p in (1, 2, 3):
            like_onnxruntime("GlobalLpPool", x, p=p, opset=6)
        check(row([5]), "GlobalLpPool", row([3, -4]))

    @pytest.mark.parametrize("op", ["LpPool", "GlobalLpPool"])
    def test_p_below_1_is_refused(self, op: str) -> None:
        options = {"kernel_shape": [2]} if op == "LpPool" else {}
        refused("p must be 1 or more, not 0", op, row([1, 2]), p=0, **options)


class TestOfChannels:
    @pytest.mark.parametrize("shape", [(2, 3, 4), (2, 3, 4, 5), (1, 2, 3, 4, 5), (2, 3, 1, 1), (0, 3, 4)])
    def test_like_onnxruntime(self, shape: tuple[int, ...]) -> None:
        (x,) = arrays(RNG, shape)
        like_onnxruntime("GlobalAveragePool", x)
        like_onnxruntime("GlobalMaxPool", x, opset=6)

    def test_nan(self) -> None:
        check(row([NAN]), "GlobalMaxPool", row([1, NAN, 2]))
        check(row([NAN]), "GlobalAveragePool", row([1, NAN, 2]))

    @pytest.mark.parametrize("dtype", ["float16", ml_dtypes.bfloat16, "float64"])
    def test_types(self, dtype: Any) -> None:
        large = 256 if dtype is ml_dtypes.bfloat16 else 2048
        check(row([large / 4 + 1], dtype), "GlobalAveragePool", row([large, 1, 1, 2], dtype))
        check(row([large], dtype), "GlobalMaxPool", row([large, 1, 1, 2], dtype))

    @pytest.mark.parametrize("op", ["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"])
    @pytest.mark.parametrize("shape", [(2, 3), (2,), (2, 3, 0)])
    def test_without_spatial_axes_they_are_refused(self, op: str, shape: tuple[int, ...]) -> None:
        refused("spatial axes", op, np.ones(shape, np.float32))


class TestMaxUnpool:
    def test_places(self) -> None:
        x, indices = row([5, 6]), row([1, 2], np.int64)
        check(row([0, 5, 6, 0]), "MaxUnpool", x, indices, kernel_shape=[2], strides=[2])
        check(row([0, 5, 6]), "MaxUnpool", x, indices, kernel_shape=[2], opset=9)
        check(row([0, 5, 6]), "MaxUnpool", x, indices, kernel_shape=[3], strides=[2], pads=[1, 1])

    def test_output_shape_moves_rows(self) -> None:
        x, indices = np.array([[[[5, 6]]]], np.float32), np.array([[[[1, 6]]]])
        implied = np.array([[[[0, 5, 0, 0], [0, 0, 6, 0]]]], np.float32)
        check(implied, "MaxUnpool", x, indices, kernel_shape=[2, 2], strides=[2, 2])
        larger = np.array([[[[0, 5, 0, 0, 0], [0, 0, 6, 0, 0], [0] * 5]]], np.float32)
        options = {"kernel_shape": [2, 2], "strides": [2, 2]}
        check(larger, "MaxUnpool", x, indices, np.array([1, 1, 3, 5]), **options)
        smaller = np.array([[[[0, 5, 0], [0, 0, 6]]]], np.float32)
        check(smaller, "MaxUnpool", x, indices, np.array([1, 1, 2, 3]), **options)

    def test_indices_count_over_the_whole_batch(self) -> None:
        (x,) = arrays(RNG, (2, 3, 4, 6))
        pooled, indices = run("MaxPool", x, kernel_shape=[2, 3], strides=[2, 3], outputs=2)
        expected = np.where(np.isin(np.arange(x.size).reshape(x.shape), indices), x, 0)
        check(expected, "MaxUnpool", pooled, indices, kernel_shape=[2, 3], strides=[2, 3])

    def test_the_last_of_equal_indices_stays(self) -> None:
        check(row([0, 6, 0, 0]), "MaxUnpool", row([5, 6]), row([1, 1], np.int64), kernel_shape=[2], strides=[2])

    @pytest.mark.parametrize("dtype", ["float16", "float64", ml_dtypes.bfloat16])
    def test_types_and_empty_batches(self, dtype: Any) -> None:
        x = row([5, 6], dtype)
        check(row([0, 5, 6, 0], dtype), "MaxUnpool", x, row([1, 2], np.int64), kernel_shape=[2], strides=[2])
        check(
            np.zeros((0, 1, 4), dtype), "MaxUnpool", x[:0], np.zeros((0, 1, 2), np.int64), kernel_shape=[2], strides=[2]
        )

    @pytest.mark.parametrize(
        ("indices", "shape", "options", "message"),
        [
            ([1, 4], None, {}, "not one of the 4"),
            ([-1, 2], None, {}, "not one of the 4"),
            ([1, 3], [1, 1, 3], {}, "lies outside of output_shape [1, 1, 3]"),
            ([1, 4], [1, 1, 6], {}, "not one of the 4"),
            ([1, 2], [1, 4], {}, "must have 3 sizes"),
            ([1, 2, 3], None, {}, "indices of shape (1, 1, 3) do not fit"),
            ([1, 2], None, {"strides": [2, 2]}, "do not fit"),
            ([1, 2], None, {"pads": [2, 2]}, "imply an output of shape [1, 1, 0]"),
        ],
    )
    def test_what_lies_outside_is_refused(
        self, indices: list[int], shape: list[int] | None, options: dict[str, Any], message: str
    ) -> None:
        given = [] if shape is None else [np.array(shape)]
        options = {"kernel_shape": [2], "strides": [2], **options}
        refused(message, "MaxUnpool", row([5, 6]), row(indices, np.int64), *given, **options)
