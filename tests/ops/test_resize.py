"""Resize and Upsample."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import onemodel
from tests.ops.harness import check, like_onnxruntime, model, refused, run

MODES = ["half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners", "half_pixel_symmetric"]
NEAREST = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]


def row(values: Any, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.array(values, dtype)


def scaled(x: Any, scales: Any, **options: Any) -> Any:
    return run("Resize", x, None, np.array(scales, np.float32), **options)


def sized(x: Any, sizes: Any, **options: Any) -> Any:
    return run("Resize", x, None, None, np.array(sizes), **options)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("sizes", [(1, 2, 10, 9), (1, 2, 3, 4), (1, 2, 1, 1), (1, 2, 7, 3)])
class TestLikeOnnxruntime:
    x = np.random.default_rng(0).standard_normal((1, 2, 5, 6)).astype(np.float32)

    @pytest.mark.parametrize("nearest", NEAREST)
    def test_nearest(self, mode: str, sizes: tuple[int, ...], nearest: str) -> None:
        if mode == "half_pixel_symmetric" and nearest in ("floor", "ceil"):
            pytest.skip("ONNX Runtime's float32 loses positions that are whole numbers")
        options = {"coordinate_transformation_mode": mode, "nearest_mode": nearest}
        like_onnxruntime("Resize", self.x, None, None, np.array(sizes), opset=19, **options)

    @pytest.mark.parametrize("antialias", [0, 1])
    def test_linear(self, mode: str, sizes: tuple[int, ...], antialias: int) -> None:
        options = {"coordinate_transformation_mode": mode, "mode": "linear", "antialias": antialias}
        like_onnxruntime("Resize", self.x, None, None, np.array(sizes), opset=19, **options)

    @pytest.mark.parametrize("exclude_outside", [0, 1])
    @pytest.mark.parametrize("antialias", [0, 1])
    def test_cubic(self, mode: str, sizes: tuple[int, ...], antialias: int, exclude_outside: int) -> None:
        options = {"antialias": antialias, "exclude_outside": exclude_outside, "cubic_coeff_a": -0.5, "mode": "cubic"}
        options["coordinate_transformation_mode"] = mode
        if mode == "pytorch_half_pixel" and sizes[-1] == 1 and antialias:
            pytest.skip("ONNX Runtime centres the filter at -0.5 there; the specification says 0")
        like_onnxruntime("Resize", self.x, None, None, np.array(sizes), opset=19, **options)


def test_antialias_by_hand() -> None:
    x = row(np.arange(1, 17)).reshape(1, 1, 4, 4)
    got = scaled(x, [1, 1, 0.5, 0.5], mode="linear", antialias=1)
    np.testing.assert_array_equal(got[0, 0], row([[4.125, 5.875], [11.125, 12.875]]))
    np.testing.assert_array_equal(
        scaled(x, [1, 1, 2, 2], mode="linear", antialias=1), scaled(x, [1, 1, 2, 2], mode="linear")
    )


def antialiased(x: Any, count: int, reach: int, weight: Any, exclude: bool) -> Any:
    """One axis by plain loops: weights in float64, rounded to float32, taps added from the left."""
    result, size = [], len(x)
    scale = count / size
    for i in range(count):
        at = ((2 * i + 1) * size - count) / (2 * count)
        weights: dict[int, float] = {}
        for j in range(math.floor(at - reach / scale), math.ceil(at + reach / scale) + 1):
            w = weight((j - at) * scale)
            if w and not (exclude and not 0 <= j < size):
                inside = min(max(j, 0), size - 1)
                weights[inside] = weights.get(inside, 0.0) + w
        whole = sum(weights.values())
        total = None
        for j, w in sorted(weights.items()):
            term = np.float32(x[j]) * np.float32(w / whole)
            total = term if total is None else np.float32(total + term)
        result.append(total)
    return row(result)


@pytest.mark.parametrize(("size", "count"), [(7, 3), (32, 5), (10, 9)])
@pytest.mark.parametrize("exclude", [False, True])
def test_antialias_has_one_order_of_operations_in_both_modes(size: int, count: int, exclude: bool) -> None:
    x = np.random.default_rng(1).standard_normal(size).astype(np.float32)

    def cubic(v: float) -> float:
        v, a = abs(v), -0.75
        if v <= 1:
            return ((a + 2) * v - (a + 3)) * v * v + 1
        return ((a * v - 5 * a) * v + 8 * a) * v - 4 * a if v < 2 else 0.0

    for mode, reach, weight in (("linear", 1, lambda v: max(1 - abs(v), 0.0)), ("cubic", 2, cubic)):
        want = antialiased(x, count, reach, weight, exclude)
        proto = model(
            "Resize", [x, None, None, np.array([count])], mode=mode, antialias=1, exclude_outside=int(exclude)
        )
        for options in ({"mode": "exact"}, {"mode": "fast"}, {"backend": "strict", "mode": "fast"}):
            got = onemodel.Session(proto, **options).run(None, {"x0": x, "x3": np.array([count])})[0]  # type: ignore[arg-type]
            np.testing.assert_array_equal(got, want)


def test_one_output_element() -> None:
    x = row([1, 2, 3, 4, 5])
    for mode, want in (("align_corners", 1), ("pytorch_half_pixel", 1), ("half_pixel", 3)):
        for kind in ("nearest", "linear", "cubic"):
            np.testing.assert_allclose(sized(x, [1], mode=kind, coordinate_transformation_mode=mode), [want], rtol=1e-6)


@pytest.mark.parametrize("size", [1, 3, 5, 6, 7, 10, 11, 13, 100, 1000])
def test_a_scale_that_means_a_whole_size_gives_it(size: int) -> None:
    for count in range(1, 3 * size, max(1, size // 7)):
        x = row(np.arange(size))
        assert scaled(x, [count / size]).shape == (count,)
        np.testing.assert_array_equal(scaled(x, [count / size]), sized(x, [count]))


def test_scales_are_off_in_float32_but_ties_hold() -> None:
    """4 / 0.8 is 5, though float32's 0.8 is a little more; 9 * 0.8 is cut off to 7."""
    got = scaled(row(np.arange(9)), [0.8], coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    np.testing.assert_array_equal(got, row([0, 1, 2, 3, 5, 6, 7]))


def test_defaults_round_half_down_and_an_axis_of_scale_1_is_untouched() -> None:
    x = row([[1, np.nan], [3, np.inf], [5, 6]])
    got = scaled(x, [1, 2])
    np.testing.assert_array_equal(got, np.repeat(x, 2, axis=1))
    np.testing.assert_array_equal(sized(row([1, 2, 3, 4, 5, 6]), [3]), row([1, 3, 5]))
    np.testing.assert_array_equal(sized(row([1, 2, 3, 4, 5, 6]), [3], nearest_mode="round_prefer_ceil"), row([2, 4, 6]))
    for kind in ("linear", "cubic"):
        np.testing.assert_array_equal(scaled(x[::2], [2, 1], mode=kind)[:, 0], scaled(x[::2, 0], [2], mode=kind))


def test_taps_of_no_weight_do_not_count() -> None:
    x = row([1, np.inf, 2, np.nan])
    got = sized(x, [7], mode="linear", coordinate_transformation_mode="align_corners")
    np.testing.assert_array_equal(got, row([1, np.inf, np.inf, np.inf, 2, np.nan, np.nan]))
    np.testing.assert_array_equal(np.signbit(scaled(row([-0.0, -0.0]), [2], mode="linear")), [True] * 4)


def test_align_corners_with_a_fractional_size_ends_at_that_size() -> None:
    """4 * 0.6 = 2.4: the second element lies at 3 / 1.4, as the suite has it; ONNX Runtime takes 3 / 1."""
    got = scaled(row([1, 2, 3, 4]), [0.6], mode="linear", coordinate_transformation_mode="align_corners")
    np.testing.assert_allclose(got, [1, 1 + 3 / 1.4], rtol=1e-6)


CROP: dict[str, Any] = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": -9.0}


class TestCrop:
    @pytest.mark.parametrize("kind", ["nearest", "linear", "cubic"])
    @pytest.mark.parametrize("roi", [[0.25, 0.2, 0.75, 0.8], [0.5, -0.1, 1.2, 0.6], [1, 1, 0, 0]])
    @pytest.mark.parametrize("sizes", [[3, 4], [1, 9], [4, 7]])
    def test_sizes(self, kind: str, roi: list[float], sizes: list[int]) -> None:
        x = np.random.default_rng(2).standard_normal((1, 1, 5, 6)).astype(np.float32)
        region = row([0, 0, *roi[:2], 1, 1, *roi[2:]])
        like_onnxruntime("Resize", x, region, None, np.array([1, 1, *sizes]), opset=13, mode=kind, **CROP)

    def test_scales_size_the_crop(self) -> None:
        x = row(np.arange(10))
        got = run("Resize", x, row([0.2, 0.8]), row([0.5]), mode="linear", **CROP)
        np.testing.assert_allclose(got, [1.8, 4.5, 7.2], rtol=1e-6)

    def test_axes_leave_the_others_whole(self) -> None:
        x = row(np.arange(12)).reshape(3, 4)
        got = run("Resize", x, row([0, 1.5]), None, np.array([3]), axes=[-1], mode="linear", **CROP)
        np.testing.assert_allclose(got, [[0, 2.25, -9], [4, 6.25, -9], [8, 10.25, -9]])


@pytest.mark.parametrize(
    ("policy", "sizes", "shape"),
    [
        ("not_larger", [7, 8], (6, 8)),
        ("not_smaller", [7, 8], (7, 9)),
        ("not_larger", [9, 2], (2, 2)),
        ("stretch", [7, 8], (7, 8)),
    ],
)
def test_keep_aspect_ratio(policy: str, sizes: list[int], shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(3).standard_normal((2, 3, 4)).astype(np.float32)
    for kind in ("nearest", "linear"):
        options = {"axes": [1, 2], "keep_aspect_ratio_policy": policy, "mode": kind}
        like_onnxruntime("Resize", x, None, None, np.array(sizes), opset=19, **options)
        assert sized(x, sizes, **options).shape == (2, *shape)


@pytest.mark.parametrize(
    "dtype", [np.uint8, np.int8, np.int32, np.int64, np.float64, bool, np.str_, ml_dtypes.bfloat16]
)
def test_nearest_takes_every_type(dtype: Any) -> None:
    x = np.array([1, 0, 3]).astype(dtype)
    x = x.astype(object) if dtype is np.str_ else x
    check(np.repeat(x, 2), "Resize", x, None, row([2]))


def test_integers_are_rounded_half_to_even_and_saturate() -> None:
    x = np.array([0, 255, 101, 50], np.uint8)
    assert scaled(x, [2], mode="linear").tolist() == [0, 64, 191, 216, 140, 88, 63, 50]
    assert scaled(np.array([0, 1, 2, 3], np.int32), [0.5], mode="linear").tolist() == [0, 2]
    steps = np.array([0, 0, 255, 255], np.uint8)
    assert scaled(steps, [2], mode="cubic").tolist() == [0, 0, 0, 58, 197, 255, 255, 255]
    assert scaled(np.array([-128, -128, 127, 127], np.int8), [2], mode="cubic").tolist()[2] == -128
    large = np.array([2**53, 2**53 - 2], np.int64)
    assert scaled(large, [2], mode="linear", nearest_mode="floor").tolist()[1:3] == [2**53, 2**53 - 2]


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_halves_are_computed_in_float32_and_rounded_once(dtype: Any) -> None:
    x = np.random.default_rng(4).standard_normal((3, 4)).astype(dtype)
    inside = np.float64 if dtype is np.float64 else np.float32
    for kind in ("linear", "cubic"):
        want = sized(x.astype(inside), [5, 7], mode=kind).astype(dtype)
        np.testing.assert_array_equal(sized(x, [5, 7], mode=kind), want)


def test_empty_arrays() -> None:
    assert scaled(np.zeros((0, 3), np.float32), [2, 2]).shape == (0, 6)
    assert scaled(np.zeros((2, 3), np.float32), [0.2, 2], mode="linear").shape == (0, 6)
    assert sized(np.zeros((2, 0), np.float32), [4, 0], mode="cubic").shape == (4, 0)
    refused("do not fit axes", "Resize", np.zeros((2, 0), np.float32), None, None, np.array([4, 1]))


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scale", [0.6, 0.4, 1.5, 2.0, 2.5])
def test_opset_10(mode: str, scale: float) -> None:
    x = np.random.default_rng(5).standard_normal((1, 1, 5, 7)).astype(np.float32)
    like_onnxruntime("Resize", x, row([1, 1, scale, scale]), opset=10, mode=mode)


def test_opset_10_rounds_up_where_it_shrinks() -> None:
    x = row([[1, 2, 3, 4], [5, 6, 7, 8]]).reshape(1, 1, 2, 4)
    check(row([1, 3]).reshape(1, 1, 1, 2), "Resize", x, row([1, 1, 0.6, 0.6]), opset=10)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scales", [(1, 1, 2, 3), (1, 1, 1.5, 1), (1, 1, 2.6, 1.3)])
def test_upsample(mode: str, scales: tuple[float, ...]) -> None:
    x = np.random.default_rng(6).standard_normal((1, 2, 4, 5)).astype(np.float32)
    like_onnxruntime("Upsample", x, row(scales), opset=9, mode=mode)
    like_onnxruntime("Upsample", x, opset=7, mode=mode, scales=[float(s) for s in scales])
    old = "bilinear" if mode == "linear" else mode
    got = run("Upsample", x, opset=6, mode=old, height_scale=float(scales[2]), width_scale=float(scales[3]))
    np.testing.assert_array_equal(got, run("Upsample", x, row(scales), opset=9, mode=mode))


@pytest.mark.parametrize("opset", [11, 13, 18, 19])
def test_every_version_and_empty_inputs(opset: int) -> None:
    x, nothing = row([1, 2, 3]), row([])
    check(row([1, 1, 2, 2, 3, 3]), "Resize", x, nothing, row([2]), opset=opset)
    check(row([1, 1, 2, 2, 3, 3]), "Resize", x, nothing, nothing, np.array([6]), opset=opset)


@pytest.mark.parametrize(
    ("inputs", "options", "message"),
    [
        ((None, row([2]), np.array([4])), {}, "one of scales and sizes must be given"),
        ((None, row([]), None), {}, "one of scales and sizes must be given"),
        ((None, row([2, 2]), None), {}, "2 scales or sizes are given for 1 axes"),
        ((None, row([0]), None), {}, "scales holds 0.0"),
        ((None, row([-1]), None), {}, "scales holds -1.0"),
        ((None, row([np.nan]), None), {}, "scales holds nan"),
        ((None, None, np.array([-2])), {}, "sizes [-2] do not fit"),
        ((None, row([2]), None), {"mode": "area"}, "mode 'area'"),
        ((None, row([2]), None), {"nearest_mode": "round"}, "nearest_mode 'round'"),
        (
            (None, row([2]), None),
            {"coordinate_transformation_mode": "center"},
            "coordinate_transformation_mode 'center'",
        ),
        ((None, None, np.array([2])), {"keep_aspect_ratio_policy": "crop"}, "keep_aspect_ratio_policy 'crop'"),
        ((None, row([2]), None), {"coordinate_transformation_mode": "tf_crop_and_resize"}, "roi of 0 numbers"),
        ((None, row([2]), None), {"axes": [1]}, "axes [1] must be"),
        ((None, row([2, 2]), None), {"axes": [0, -1]}, "axes [0, 0] must be"),
    ],
)
def test_wrong_inputs_are_refused(inputs: tuple[Any, ...], options: dict[str, Any], message: str) -> None:
    refused(message, "Resize", row([1, 2, 3]), *inputs, **options)


def test_other_wrong_inputs_are_refused() -> None:
    refused("must be at least 1", "Upsample", row([1, 2]), row([0.5]), opset=9)
    refused("mode linear needs real numbers", "Resize", np.array([True, False]), None, row([2]), mode="linear")
