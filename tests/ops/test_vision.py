"""AffineGrid, GridSample, RoiAlign, MaxRoiPool, NonMaxSuppression."""

from __future__ import annotations

import itertools
import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.ops.harness import check, like_onnxruntime, refused, run


def f32(values: Any) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


class TestAffineGrid:
    @pytest.mark.parametrize("align_corners", [0, 1])
    @pytest.mark.parametrize("size", [(2, 3, 4, 5), (1, 1, 2, 3, 4)])
    def test_like_onnxruntime(self, align_corners: int, size: tuple[int, ...]) -> None:
        rank = len(size) - 2
        theta = np.random.default_rng(0).standard_normal((size[0], rank, rank + 1)).astype(np.float32)
        options = {"align_corners": align_corners, "opset": 20}
        like_onnxruntime("AffineGrid", theta, np.array(size), **options)
        check(
            run("AffineGrid", theta, np.array(size), **options).astype(np.float64),
            "AffineGrid",
            theta.astype(np.float64),
            np.array(size),
            **options,
        )

    def test_by_hand(self) -> None:
        turn = f32([[[0, -1, 0.5], [1, 0, 0]]])
        want = f32([[[[1, -0.5], [1, 0.5]], [[0, -0.5], [0, 0.5]]]])
        check(want, "AffineGrid", turn, np.array([1, 1, 2, 2]))
        check(
            f32([[[[1.5, -1], [1.5, 1]], [[-0.5, -1], [-0.5, 1]]]]),
            "AffineGrid",
            turn,
            np.array([1, 1, 2, 2]),
            align_corners=1,
        )

    def test_one_pixel_lies_in_the_middle(self) -> None:
        theta = f32([[[1, 2, 3], [4, 5, 6]]])
        for align_corners in (0, 1):
            check(f32([[[[3, 6]]]]), "AffineGrid", theta, np.array([1, 1, 1, 1]), align_corners=align_corners)

    def test_wrong_shapes_are_refused(self) -> None:
        refused(
            "must be of one 2-D or 3-D batch", "AffineGrid", np.zeros((2, 2, 3), np.float32), np.array([1, 1, 2, 2])
        )


def sampled(x: Any, grid: Any, mode: str, padding: str, align: int) -> Any:
    """GridSample by plain loops: every tap is padded on its own."""
    sizes = x.shape[2:]
    result = np.zeros((*x.shape[:2], *grid.shape[1:-1]))

    def tap(i: int, size: int) -> int | None:
        if padding == "zeros":
            return i if 0 <= i < size else None
        if padding == "border":
            return min(max(i, 0), size - 1)
        while not 0 <= i < size:
            if size == 1 and align:
                return 0
            i = (-i if align else -1 - i) if i < 0 else (2 * (size - 1) - i if align else 2 * size - 1 - i)
        return i

    def cubic(v: float) -> float:
        v, a = abs(v), -0.75
        if v <= 1:
            return ((a + 2) * v - (a + 3)) * v * v + 1
        return ((a * v - 5 * a) * v + 8 * a) * v - 4 * a if v < 2 else 0.0

    for n in range(x.shape[0]):
        for place in np.ndindex(*grid.shape[1:-1]):
            taps = []
            for size, at in zip(sizes, grid[(n, *place)][::-1].astype(float), strict=True):
                at = (at + 1) / 2 * (size - 1) if align else ((at + 1) * size - 1) / 2
                low = math.floor(at)
                if mode == "nearest":
                    taps.append([(tap(round(at), size), 1.0)])
                elif mode == "linear":
                    taps.append([(tap(low + k, size), 1 - abs(at - low - k)) for k in (0, 1)])
                else:
                    taps.append([(tap(low + k, size), cubic(at - low - k)) for k in (-1, 0, 1, 2)])
            for combination in itertools.product(*taps):
                index = tuple(i for i, _ in combination)
                if None not in index:
                    result[(n, slice(None), *place)] += (
                        math.prod(w for _, w in combination) * x[(n, slice(None), *index)]
                    )
    return result


class TestGridSample:
    @pytest.mark.parametrize("align_corners", [0, 1])
    @pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
    @pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
    @pytest.mark.parametrize("sizes", [(4, 5), (3, 4, 2), (6,), (1, 3)])
    def test_each_tap_is_padded_on_its_own(
        self, mode: str, padding: str, align_corners: int, sizes: tuple[int, ...]
    ) -> None:
        rng = np.random.default_rng(1)
        x = rng.standard_normal((2, 2, *sizes)).astype(np.float32)
        grid = (rng.standard_normal((2, *[3] * len(sizes), len(sizes))) * 1.5).astype(np.float32)
        want = sampled(x, grid, mode, padding, align_corners).astype(np.float32)
        options = {"mode": mode, "padding_mode": padding, "align_corners": align_corners}
        check(want, "GridSample", x, grid, rtol=1e-4, atol=1e-4, **options)

    @pytest.mark.parametrize("align_corners", [0, 1])
    @pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
    @pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
    def test_like_onnxruntime_before_opset_20(self, mode: str, padding: str, align_corners: int) -> None:
        rng = np.random.default_rng(2)
        x = rng.standard_normal((1, 3, 5, 4)).astype(np.float32)
        grid = rng.uniform(-0.75, 0.75, (1, 4, 6, 2)).astype(np.float32)
        options = {"mode": mode, "padding_mode": padding, "align_corners": align_corners}
        like_onnxruntime("GridSample", x, grid, rtol=1e-4, opset=16, **options)

    def test_nearest_rounds_half_to_even_and_takes_every_type(self) -> None:
        x = np.array([[[1, 2, 3, 4]]])
        grid = f32([[[-0.5], [0], [0.5], [1.5]]])
        for values in (x, x.astype(np.uint8), x > 2, x.astype(str).astype(object), x.astype(np.complex64)):
            outside = "" if values.dtype == object else 0
            want = np.array([[[values[0, 0, 0], values[0, 0, 2], values[0, 0, 2], outside]]], values.dtype)
            check(want, "GridSample", values, grid, mode="nearest")

    @pytest.mark.parametrize("dtype", [object, np.complex64, np.complex128])
    @pytest.mark.parametrize("mode", ["linear", "cubic"])
    def test_what_has_no_place_between_two_samples_is_refused(self, mode: str, dtype: Any) -> None:
        x = np.array([[["1", "2"]]], object).astype(dtype)
        refused(f"mode {mode} needs real numbers", "GridSample", x, f32([[[0.5]]]), mode=mode)

    def test_integers_are_cut_off_and_other_floats_are_rounded_once(self) -> None:
        x, grid = np.array([[[10, 11, 21]]]), f32([[[-0.25], [0.5]]])
        check(f32([[[10.75, 16]]]), "GridSample", x.astype(np.float32), grid, align_corners=1)
        check(np.array([[[10, 16]]], np.uint8), "GridSample", x.astype(np.uint8), grid, align_corners=1)
        exact = run("GridSample", x.astype(np.float64), grid)
        assert exact.dtype == np.float64
        for dtype in (np.float16, ml_dtypes.bfloat16):
            check(exact.astype(np.float32).astype(dtype), "GridSample", x.astype(dtype), grid, rtol=1e-2)

    def test_far_and_undefined_positions(self) -> None:
        x = f32([[[1, 2, np.inf, 4]]])
        grid = f32([[[1e30], [np.inf], [-np.inf], [np.nan], [-1.0]]])
        got = run("GridSample", x, grid, padding_mode="border", align_corners=1)[0, 0]
        np.testing.assert_array_equal(got, f32([4, 4, 1, np.nan, 1]))
        np.testing.assert_array_equal(run("GridSample", x, grid)[0, 0, :3], f32([0, 0, 0]))
        assert run("GridSample", x, grid, mode="nearest", padding_mode="border")[0, 0].tolist() == [4, 4, 1, 1, 1]

    def test_zeros_do_not_touch_what_is_beside_them(self) -> None:
        x = f32([[[np.inf, 1, 2, np.nan]]])
        got = run("GridSample", x, f32([[[0.0], [5.0]]]), padding_mode="zeros")
        np.testing.assert_array_equal(got, f32([[[1.5, 0]]]))

    def test_empty(self) -> None:
        assert run("GridSample", np.zeros((2, 3, 4), np.float32), np.zeros((2, 0, 1), np.float32)).shape == (2, 3, 0)
        assert run("GridSample", np.zeros((0, 3, 4), np.float32), np.zeros((0, 5, 1), np.float32)).shape == (0, 3, 5)
        check(
            np.zeros((1, 2, 3), np.float32),
            "GridSample",
            np.zeros((1, 2, 0), np.float32),
            np.zeros((1, 3, 1), np.float32),
        )

    @pytest.mark.parametrize(
        ("x", "grid", "options", "message"),
        [
            ((1, 1, 3, 3), (1, 2, 2, 3), {}, "grid of shape"),
            ((1, 1, 3, 3), (2, 2, 2, 2), {}, "grid of shape"),
            ((1, 1, 3, 3), (1, 2, 2), {}, "grid of shape"),
            ((1, 1, 0), (1, 2, 1), {"padding_mode": "border"}, "no samples"),
            ((1, 1, 3), (1, 2, 1), {"mode": "lanczos"}, "mode 'lanczos'"),
            ((1, 1, 3), (1, 2, 1), {"padding_mode": "wrap"}, "padding_mode 'wrap'"),
            ((1, 1, 3), (1, 2, 1), {"opset": 16}, "four dimensions"),
        ],
    )
    def test_wrong_inputs_are_refused(self, x: Any, grid: Any, options: dict[str, Any], message: str) -> None:
        refused(message, "GridSample", np.zeros(x, np.float32), np.zeros(grid, np.float32), **options)


class TestRoiAlign:
    x = np.random.default_rng(3).standard_normal((2, 3, 9, 11)).astype(np.float32)
    rois = f32([[0.5, 0.3, 7.2, 5.1], [-3, -2, 4, 3], [6, 6, 14, 13], [2, 2, 2.4, 2.2], [5, 5, 1, 1], [30, 30, 40, 40]])
    images = np.array([0, 1, 1, 0, 0, 1])

    @pytest.mark.parametrize("sampling_ratio", [0, 1, 3])
    @pytest.mark.parametrize("transform", ["half_pixel", "output_half_pixel"])
    @pytest.mark.parametrize("mode", ["avg", "max"])
    def test_like_onnxruntime(self, sampling_ratio: int, transform: str, mode: str) -> None:
        options = {"mode": mode, "sampling_ratio": sampling_ratio, "output_height": 3, "output_width": 2}
        options["spatial_scale"] = 0.5
        like_onnxruntime(
            "RoiAlign", self.x, self.rois, self.images, opset=16, coordinate_transformation_mode=transform, **options
        )
        if transform == "output_half_pixel":
            like_onnxruntime("RoiAlign", self.x, self.rois, self.images, opset=10, **options)

    def test_defaults(self) -> None:
        like_onnxruntime("RoiAlign", self.x, self.rois, self.images, opset=16)

    def test_by_hand(self) -> None:
        """One sample in the middle of its bin; in mode max each weighted neighbour competes alone."""
        x, image = f32([[[[1, 2], [3, 8]]]]), np.array([0])
        whole = f32([[0.5, 0.5, 1.5, 1.5]])
        check(f32([[[[3.5]]]]), "RoiAlign", x, whole, image)
        check(f32([[[[2]]]]), "RoiAlign", x, whole, image, mode="max")
        check(f32([[[[8]]]]), "RoiAlign", x, f32([[0.5, 0.5, 1.5, 1.5]]), image, opset=10, sampling_ratio=1)

    def test_samples_per_bin_by_default(self) -> None:
        """A region of 3 by 5 pixels in one bin: 3 by 5 samples, on the pixels themselves."""
        x = np.arange(99, dtype=np.float32).reshape(1, 1, 9, 11)
        got = run("RoiAlign", x, f32([[2, 1, 7, 4]]), np.array([0]))
        np.testing.assert_allclose(got[0, 0, 0, 0], x[0, 0, 1:4, 2:7].mean(), rtol=1e-6)

    def test_halves_and_empty(self) -> None:
        for dtype in (np.float16, ml_dtypes.bfloat16):
            want = run(
                "RoiAlign",
                self.x.astype(dtype).astype(np.float32),
                self.rois.astype(dtype).astype(np.float32),
                self.images,
            )
            check(want.astype(dtype), "RoiAlign", self.x.astype(dtype), self.rois.astype(dtype), self.images)
        got = run("RoiAlign", self.x, self.rois[:0], self.images[:0], output_height=2)
        assert got.shape == (0, 3, 2, 1)

    def test_wrong_inputs_are_refused(self) -> None:
        refused("must be (N, C, H, W)", "RoiAlign", self.x, self.rois[:, :3], self.images)
        refused("must be (N, C, H, W)", "RoiAlign", self.x, self.rois, self.images[:3])
        refused("must lie in 0 to 1", "RoiAlign", self.x, self.rois, self.images + 1)
        refused("mode 'sum'", "RoiAlign", self.x, self.rois, self.images, mode="sum")
        for options in ({"output_height": 0}, {"output_width": -1}, {"sampling_ratio": -1}):
            refused("must be 1 or more", "RoiAlign", self.x, self.rois, self.images, **options)
        for value in (np.nan, np.inf):
            refused("a region needs finite numbers", "RoiAlign", self.x, self.rois + f32(value), self.images)

    def test_without_channels(self) -> None:
        want = np.zeros((len(self.rois), 0, 2, 1), np.float32)
        check(want, "RoiAlign", self.x[:, :0], self.rois, self.images, output_height=2)


class TestMaxRoiPool:
    @pytest.mark.parametrize("scale", [1.0, 0.5, 0.3])
    @pytest.mark.parametrize("shape", [[2, 2], [3, 1], [1, 5]])
    def test_like_onnxruntime(self, scale: float, shape: list[int]) -> None:
        x = np.random.default_rng(4).standard_normal((2, 3, 8, 9)).astype(np.float32)
        rois = f32([[0, 0.5, 0.5, 5.5, 6.4], [1, -3, -3, 2, 2], [0, 6, 6, 3, 3], [1, 20, 20, 30, 30], [0, 0, 0, 8, 7]])
        like_onnxruntime("MaxRoiPool", x, rois, pooled_shape=shape, spatial_scale=scale, opset=12)

    def test_by_hand(self) -> None:
        """Rows 1 to 3 and columns 0 to 2 in two bins each that share their middle."""
        x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
        check(f32([[[[9, 10], [13, 14]]]]), "MaxRoiPool", x, f32([[0, 0, 1, 2, 3]]), pooled_shape=[2, 2])
        check(np.zeros((0, 1, 2, 2), np.float32), "MaxRoiPool", x, np.zeros((0, 5), np.float32), pooled_shape=[2, 2])
        assert np.isnan(run("MaxRoiPool", x * np.nan, f32([[0, 0, 0, 1, 1]]), pooled_shape=[1, 1])).all()

    def test_wrong_inputs_are_refused(self) -> None:
        x = np.zeros((1, 1, 4, 4), np.float32)
        refused("they must be", "MaxRoiPool", x, np.zeros((1, 4), np.float32), pooled_shape=[2, 2])
        refused("must lie in 0 to 0", "MaxRoiPool", x, f32([[1, 0, 0, 1, 1]]), pooled_shape=[2, 2])
        for region in ([np.nan, 0, 0, 1, 1], [0, 0, np.inf, 1, 1]):
            refused("a region needs finite numbers", "MaxRoiPool", x, f32([region]), pooled_shape=[2, 2])


class TestNonMaxSuppression:
    @pytest.mark.parametrize("center", [0, 1])
    @pytest.mark.parametrize("least", [None, 0.3])
    @pytest.mark.parametrize("limit", [0.0, 0.3, 0.7])
    def test_like_onnxruntime(self, center: int, least: float | None, limit: float) -> None:
        rng = np.random.default_rng(5)
        boxes = rng.uniform(0, 1, (2, 40, 4)).astype(np.float32)
        scores = rng.uniform(0, 1, (2, 3, 40)).astype(np.float32).round(1)
        inputs = [boxes, scores, np.array(7), f32([limit]), *([] if least is None else [f32([least])])]
        like_onnxruntime("NonMaxSuppression", *inputs, center_point_box=center, opset=11)

    def test_strictly_above_the_threshold_and_ties_to_the_lower_index(self) -> None:
        """Box 1 covers the half of boxes 0 and 2, which are equal."""
        boxes = f32([[[0, 0, 1, 1], [0, 0, 1, 0.5], [1, 1, 0, 0]]])
        scores = f32([[[0.9, 0.8, 0.9]]])
        for limit, want in ((0.5, [0, 1]), (0.49, [0]), (1.0, [0, 2, 1])):
            got = run("NonMaxSuppression", boxes, scores, np.array(9), f32(limit))
            assert got.tolist() == [[0, 0, i] for i in want]

    def test_order_is_batch_class_score(self) -> None:
        boxes = np.broadcast_to(f32([[0, 0, 1, 1], [0, 2, 1, 3]]), (2, 2, 4))
        scores = f32([[[0.1, 0.2], [0.4, 0.3]], [[0.5, 0.5], [0, 1]]])
        got = run("NonMaxSuppression", boxes, scores, np.array([9]))
        want = [[0, 0, 1], [0, 0, 0], [0, 1, 0], [0, 1, 1], [1, 0, 0], [1, 0, 1], [1, 1, 1], [1, 1, 0]]
        assert got.tolist() == want

    def test_nothing(self) -> None:
        boxes, scores = f32([[[0, 0, 1, 1]]]), f32([[[1]]])
        nothing = np.zeros((0, 3), np.int64)
        check(nothing, "NonMaxSuppression", boxes, scores)
        check(nothing, "NonMaxSuppression", boxes, scores, np.array(-1))
        check(nothing, "NonMaxSuppression", boxes, scores, np.array(1), f32(0.5), f32(1.0))
        check(nothing, "NonMaxSuppression", boxes[:, :0], scores[:, :, :0], np.array(1))

    def test_boxes_of_no_area_stay(self) -> None:
        boxes, scores = f32([[[0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 1, 1]]]), f32([[[3, 2, 1]]])
        assert run("NonMaxSuppression", boxes, scores, np.array(9)).tolist() == [[0, 0, 0], [0, 0, 1], [0, 0, 2]]

    def test_wrong_inputs_are_refused(self) -> None:
        boxes, scores = f32([[[0, 0, 1, 1]]]), f32([[[1]]])
        refused("must be (N, boxes, 4)", "NonMaxSuppression", boxes, scores[0], np.array(1))
        refused("must be (N, boxes, 4)", "NonMaxSuppression", boxes, f32([[[1, 2]]]), np.array(1))
        refused("iou_threshold 1.5 must lie in 0 to 1", "NonMaxSuppression", boxes, scores, np.array(1), f32(1.5))
