"""Normalization and Dropout."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

import onemodel
from tests.ops.harness import arrays, check, exact_refuses, like_onnxruntime, model, refused, run

RNG = np.random.default_rng(0)
Array = np.ndarray[Any, Any]


def f32(values: Any) -> Array:
    return np.array(values, np.float32)


def statistics(rng: np.random.Generator, *shape: int) -> list[Array]:
    """Scale, offset, mean and a positive variance."""
    scale, b, mean = arrays(rng, shape, shape, shape)
    return [scale, b, mean, rng.uniform(0.5, 2, shape).astype(np.float32)]


class TestBatchNormalization:
    @pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4), (2, 3, 4, 5), (1, 3, 2, 2, 2), (0, 3, 4), (2, 3, 0)])
    @pytest.mark.parametrize("opset", [7, 9, 14, 15])
    def test_inference_like_onnxruntime(self, shape: tuple[int, ...], opset: int) -> None:
        (x,) = arrays(RNG, shape)
        like_onnxruntime("BatchNormalization", x, *statistics(RNG, 3), opset=opset, epsilon=0.125)

    @pytest.mark.parametrize("opset", [9, 13, 15])
    def test_inference_uses_the_running_statistics_alone(self, opset: int) -> None:
        x = f32([[[1, 3], [5, 5]]])
        values = [f32([2, 1]), f32([1, 0]), f32([1, 3]), f32([3, 0])]
        check(f32([[[1, 3], [2, 2]]]), "BatchNormalization", x, *values, epsilon=1.0, opset=opset)

    def test_one_axis_is_the_batch_of_one_channel(self) -> None:
        values = [f32([2]), f32([1]), f32([1]), f32([3])]
        check(f32([1, 3]), "BatchNormalization", f32([1, 3]), *values, epsilon=1.0)
        expected = [f32([-1 / np.sqrt(2) * 2 + 1, 1 / np.sqrt(2) * 2 + 1]), f32([1.1]), f32([2.8])]
        check(expected, "BatchNormalization", f32([1, 3]), *values, epsilon=1.0, training_mode=1, outputs=3)

    def test_training_outputs(self) -> None:
        x = f32([[[1, 3], [0, 0]], [[5, 7], [0, 4]]])  # means 4 and 1, variances 5 and 3
        values = [f32([2, 1]), f32([0, 1]), f32([8, 0]), f32([1, 1])]
        y = (x - f32([4, 1]).reshape(1, 2, 1)) / np.sqrt(f32([6, 4])).reshape(1, 2, 1)
        y = y * f32([2, 1]).reshape(1, 2, 1) + f32([0, 1]).reshape(1, 2, 1)
        moved = [f32([7, 0.25]), f32([2, 1.5])]
        options: dict[str, Any] = {"epsilon": 1.0, "momentum": 0.75}
        check([y, *moved], "BatchNormalization", x, *values, training_mode=1, outputs=3, **options)
        check([y, *moved], "BatchNormalization", x, *values, training_mode=1, outputs=3, opset=14, **options)
        check(y, "BatchNormalization", x, *values, training_mode=1, **options)
        old = [y, *moved, f32([4, 1]), f32([5, 3])]
        check(old, "BatchNormalization", x, *values, outputs=5, opset=9, **options)
        check(old, "BatchNormalization", x, *values, outputs=5, opset=7, **options)
        check(old, "BatchNormalization", x, *values, outputs=5, opset=6, **options)

    def test_opset_6_tells_by_is_test(self) -> None:
        x = f32([[[1, 3]]])
        values = [f32([2]), f32([1]), f32([1]), f32([3])]
        check(f32([[[1, 3]]]), "BatchNormalization", x, *values, epsilon=1.0, is_test=1, opset=6)
        half = 2 / np.sqrt(2)
        check(f32([[[1 - half, 1 + half]]]), "BatchNormalization", x, *values, epsilon=1.0, opset=6)

    @pytest.mark.parametrize("opset", [6, 7])
    def test_before_9_without_spatial_each_element_has_its_own(self, opset: int) -> None:
        (x,) = arrays(RNG, (4, 2, 3))
        scale, b, mean, var = statistics(RNG, 2, 3)
        options = {"is_test": 1} if opset == 6 else {}
        expected = (x - mean) / np.sqrt(var + np.float32(1e-5)) * scale + b
        check(expected, "BatchNormalization", x, scale, b, mean, var, spatial=0, opset=opset, **options)
        y, new_mean, *_ = run("BatchNormalization", x, scale, b, mean, var, spatial=0, opset=opset, outputs=5)
        np.testing.assert_allclose(new_mean, mean * 0.9 + x.mean(axis=0) * 0.1, rtol=1e-5, atol=1e-6)
        normal = (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + 1e-5)
        np.testing.assert_allclose(y, normal * scale + b, rtol=1e-4, atol=1e-5)

    def test_mixed_types(self) -> None:
        x = np.array([[[1, 3], [5, 5]]], np.float16)
        values = [f32([2, 1]), f32([1, 0]), np.array([1.0, 3]), np.array([3.0, 0])]
        check(np.array([[[1, 3], [2, 2]]], np.float16), "BatchNormalization", x, *values, epsilon=1.0)
        y, mean, var = run("BatchNormalization", x, *values, epsilon=1.0, training_mode=1, outputs=3)
        assert (y.dtype, mean.dtype, var.dtype) == (np.float16, np.float64, np.float64)

    def test_float16_statistics_do_not_overflow(self) -> None:
        x = np.array([[[30000, -30000]]], np.float16)
        ones = [np.ones(1, np.float16)] * 4
        check(np.array([[[2, 0]]], np.float16), "BatchNormalization", x, *ones, training_mode=1, opset=15)

    @pytest.mark.parametrize(
        ("shape", "channels", "options"),
        [
            ((2, 3, 4), 2, {}),
            ((2, 3, 4), 2, {"training_mode": 1, "outputs": 3}),
            ((2,), 2, {}),
            ((2, 3, 4), 3, {"spatial": 0, "opset": 7}),
            ((2, 3, 4), 3, {"spatial": 0, "opset": 7, "outputs": 5}),
        ],
    )
    def test_wrong_statistics_are_refused(self, shape: tuple[int, ...], channels: int, options: dict[str, Any]) -> None:
        refused(
            "must have the shape",
            "BatchNormalization",
            np.ones(shape, np.float32),
            *statistics(RNG, channels),
            **options,
        )

    @pytest.mark.parametrize("options", [{}, {"training_mode": 1, "outputs": 3}, {"spatial": 0, "opset": 7}])
    def test_a_scalar_is_refused(self, options: dict[str, Any]) -> None:
        refused("X is a scalar", "BatchNormalization", f32(1), *statistics(RNG, 1), **options)

    def test_outputs_of_training_need_training_mode(self) -> None:
        refused("training_mode 1 only", "BatchNormalization", f32([[[1]]]), *statistics(RNG, 1), outputs=3)


class TestLocalResponseNormalization:
    @pytest.mark.parametrize("shape", [(2, 7, 3, 4), (1, 3, 5), (2, 1, 2, 2), (1, 6, 2, 2, 2), (0, 3, 2, 2)])
    @pytest.mark.parametrize(("size", "beta"), [(1, 0.75), (3, 0.5), (5, 0.75), (9, 2.0)])
    def test_by_its_definition(self, shape: tuple[int, ...], size: int, beta: float) -> None:
        (x,) = arrays(RNG, shape)
        squares = np.pad(x.astype(np.float64) ** 2, [(0, 0), (size // 2, size // 2), *[(0, 0)] * (len(shape) - 2)])
        total = sum(squares[:, i : i + shape[1]] for i in range(size))
        expected = (x / (0.5 + 2.0 / size * total) ** beta).astype(np.float32)
        check(expected, "LRN", x, size=size, alpha=2.0, beta=beta, bias=0.5)
        check(expected, "LRN", x, size=size, alpha=2.0, beta=beta, bias=0.5, opset=6)

    def test_of_an_even_size_the_odd_one_comes_after(self) -> None:
        x = f32([1, 2, 3]).reshape(1, 3, 1)
        expected = f32([1 / 2.5, 2 / 6.5, 3 / 4.5]).reshape(1, 3, 1)
        check(expected, "LRN", x, size=2, alpha=1.0, beta=1.0, bias=0.0)

    def test_defaults_like_onnxruntime(self) -> None:
        like_onnxruntime("LRN", *arrays(RNG, (1, 8, 3, 3)), size=5)

    @pytest.mark.parametrize("dtype", ["float64", "float16", ml_dtypes.bfloat16])
    def test_types(self, dtype: Any) -> None:
        x = np.array([[[3], [4]]], dtype)
        check(np.array([[[3 / 25], [4 / 25]]], dtype), "LRN", x, size=3, alpha=3.0, beta=1.0, bias=0.0)

    def test_nan_reaches_its_neighbours(self) -> None:
        x = f32([1, 1, np.nan, 1, 1]).reshape(1, 5, 1)
        got = run("LRN", x, size=3)
        np.testing.assert_array_equal(np.isnan(got[0, :, 0]), [False, True, True, True, False])

    def test_what_does_not_fit_is_refused(self) -> None:
        refused("size must be 1 or more", "LRN", np.ones((1, 2, 3), np.float32), size=0)
        refused("size must be 1 or more", "LRN", f32([1]), size=1)


class TestLayerNormalization:
    @pytest.mark.parametrize("axis", [-1, 0, 1, 2, -3])
    def test_like_onnxruntime(self, axis: int) -> None:
        x, scale, b = arrays(RNG, (2, 3, 4), (2, 3, 4)[axis:], (2, 3, 4)[axis:])
        like_onnxruntime("LayerNormalization", x, scale, b, axis=axis, epsilon=0.125, outputs=3)
        like_onnxruntime("LayerNormalization", x, scale, axis=axis)

    def test_two_passes(self) -> None:
        # The mean of squares less the square of the mean is no number at all here.
        x = f32([[10000, 10001, 10002, 10003]])
        expected = f32([[-1.3416354, -0.4472118, 0.4472118, 1.3416354]])
        want = [expected, f32([[10001.5]]), f32([[0.8944236]])]
        check(want, "LayerNormalization", x, np.ones(4, np.float32), outputs=3)

    def test_scale_and_b_broadcast(self) -> None:
        x, scale, b = arrays(RNG, (2, 3, 4), (3, 1), (1,))
        like_onnxruntime("LayerNormalization", x, np.broadcast_to(scale, (3, 4)).copy(), axis=1)
        plain = run("LayerNormalization", x, np.ones(4, np.float32), axis=-1)
        check(plain * scale + b, "LayerNormalization", x, scale, b)

    def test_float16_is_computed_in_float32(self) -> None:
        x = np.array([[60000, -60000, 0, 0]], np.float16)
        one = np.ones(4, np.float16)
        y, mean, inverse = run("LayerNormalization", x, one, outputs=3)
        np.testing.assert_array_equal(y, np.array([[1.414, -1.414, 0, 0]], np.float16))
        assert (y.dtype, mean.dtype, inverse.dtype) == (np.float16, np.float32, np.float32)
        np.testing.assert_allclose(inverse, [[1 / np.sqrt(18e8)]], rtol=1e-5)

    def test_stash_type_is_what_the_first_stage_has(self) -> None:
        # As float32 the elements are equal, as bfloat16 those of float32 are.
        x = np.array([[1, 1 + 1e-12]])
        check(np.zeros((1, 2)), "LayerNormalization", x, np.ones(2), epsilon=1e-30)
        x32 = f32([[256, 256.5]])
        y, mean, inverse = run("LayerNormalization", x32, np.ones(2, np.float32), stash_type=16, outputs=3)
        np.testing.assert_array_equal(y, [[0, 0]])
        assert (y.dtype, mean.dtype, inverse.dtype) == (np.float32, ml_dtypes.bfloat16, ml_dtypes.bfloat16)

    def test_empty_batch(self) -> None:
        check(np.zeros((0, 3), np.float32), "LayerNormalization", np.zeros((0, 3), np.float32), np.ones(3, np.float32))

    @pytest.mark.parametrize("op", ["LayerNormalization", "RMSNormalization"])
    def test_wrong_axis_is_refused(self, op: str) -> None:
        refused("axis 2 is not one of 2 axes", op, np.ones((2, 3), np.float32), np.ones(3, np.float32), axis=2)

    @pytest.mark.parametrize("shape", [(4, 2, 3), (5, 1, 3), (2, 4), (1, 1, 1)])
    def test_scale_and_b_do_not_make_x_larger(self, shape: tuple[int, ...]) -> None:
        x, factor, fits = np.ones((2, 3), np.float32), np.ones(shape, np.float32), np.ones(3, np.float32)
        message = f"of shape {shape} does not broadcast to X's shape (2, 3)"
        refused(f"scale {message}", "LayerNormalization", x, factor)
        refused(f"b {message}", "LayerNormalization", x, fits, factor)
        refused(f"scale {message}", "RMSNormalization", x, factor)


class TestRmsNormalization:
    @pytest.mark.parametrize("axis", [-1, 0, 1])
    def test_by_its_definition(self, axis: int) -> None:
        x, scale = arrays(RNG, (2, 3, 4), (2, 3, 4)[axis:])
        axes = tuple(range(axis % 3, 3))
        root = np.sqrt((x.astype(np.float64) ** 2).mean(axis=axes, keepdims=True) + 0.125)
        check((x / root * scale).astype(np.float32), "RMSNormalization", x, scale, axis=axis, epsilon=0.125)

    def test_types(self) -> None:
        x = np.array([[60000, 60000]], np.float16)
        check(np.array([[1, 2]], np.float16), "RMSNormalization", x, np.array([1, 2], np.float16))
        check(np.array([[1.0, 2]]), "RMSNormalization", f32([[3, 3]]), np.array([1.0, 2]), epsilon=1e-30)


class TestInstanceNormalization:
    @pytest.mark.parametrize("shape", [(2, 3, 4), (2, 3, 4, 5), (1, 3, 2, 2, 2), (0, 3, 2)])
    @pytest.mark.parametrize("opset", [6, 22])
    def test_by_its_definition(self, shape: tuple[int, ...], opset: int) -> None:
        x, scale, b = arrays(RNG, shape, (3,), (3,))
        axes, each = tuple(range(2, len(shape))), (3, *[1] * (len(shape) - 2))
        wide = x.astype(np.float64)
        off = wide - wide.mean(axis=axes, keepdims=True)
        y = off / np.sqrt(off.var(axis=axes, keepdims=True) + 0.125) * scale.reshape(each) + b.reshape(each)
        check(y.astype(np.float32), "InstanceNormalization", x, scale, b, epsilon=0.125, opset=opset)

    def test_bfloat16(self) -> None:
        x, one = np.array([[[1, 3]]], ml_dtypes.bfloat16), np.ones(1, ml_dtypes.bfloat16)
        check(np.array([[[5e-6, 2]]], ml_dtypes.bfloat16), "InstanceNormalization", x, one, one, atol=1e-7)

    def test_what_does_not_fit_is_refused(self) -> None:
        refused("spatial axes", "InstanceNormalization", f32([[1, 2]]), f32([1, 1]), f32([1, 1]))
        refused("must have the shape (1,)", "InstanceNormalization", f32([[[1, 2]]]), f32([1, 1]), f32([1, 1]))


class TestGroupNormalization:
    x = np.arange(1, 9, dtype=np.float32).reshape(1, 4, 2)
    normal = f32([-1.3416355, -0.4472118, 0.4472118, 1.3416355] * 2).reshape(1, 4, 2)

    def test_scale_per_channel_from_21(self) -> None:
        scale, bias = f32([1, 2, 3, 4]), f32([0, 1, 2, 3])
        expected = self.normal * scale.reshape(4, 1) + bias.reshape(4, 1)
        check(expected, "GroupNormalization", self.x, scale, bias, num_groups=2, opset=21)

    @pytest.mark.parametrize("opset", [18, 20])
    def test_scale_per_group_before_21(self, opset: int) -> None:
        expected = self.normal * f32([1, 1, 2, 2]).reshape(4, 1) + f32([3, 3, 4, 4]).reshape(4, 1)
        got = onemodel.Session(
            model("GroupNormalization", [self.x, f32([1, 2]), f32([3, 4])], num_groups=2, opset=opset), mode="fast"
        ).run(None, {"x0": self.x, "x1": f32([1, 2]), "x2": f32([3, 4])})
        np.testing.assert_allclose(got[0], expected, rtol=1e-5)

    @pytest.mark.parametrize("groups", [1, 2, 6])
    def test_like_onnxruntime(self, groups: int) -> None:
        x, scale, bias = arrays(RNG, (2, 6, 3, 4), (6,), (6,))
        like_onnxruntime("GroupNormalization", x, scale, bias, num_groups=groups, opset=21)

    def test_stash_type(self) -> None:
        x, one = np.array([[[1.0, 1 + 1e-12]]]), np.ones(1)
        check(np.zeros((1, 1, 2)), "GroupNormalization", x, one, np.zeros(1), num_groups=1, epsilon=1e-30)
        x, one = np.array([[[60000, -60000]]], np.float16), np.ones(1, np.float16)
        check(np.array([[[2, 0]]], np.float16), "GroupNormalization", x, one, one, num_groups=1)

    @pytest.mark.parametrize(
        ("groups", "count", "message"),
        [(3, 4, "do not divide into 3 groups"), (0, 4, "do not divide"), (2, 2, "must have the shape (4,)")],
    )
    def test_what_does_not_fit_is_refused(self, groups: int, count: int, message: str) -> None:
        ones = np.ones(count, np.float32)
        refused(message, "GroupNormalization", self.x, ones, ones, num_groups=groups)


class TestOfNorms:
    @pytest.mark.parametrize("p", [1, 2])
    @pytest.mark.parametrize("axis", [-1, 0, 1])
    def test_like_onnxruntime(self, p: int, axis: int) -> None:
        like_onnxruntime("LpNormalization", *arrays(RNG, (2, 3, 4)), p=p, axis=axis, opset=6)

    @pytest.mark.parametrize("p", [1, 2])
    def test_a_zero_norm_gives_zeros(self, p: int) -> None:
        check(f32([[0, 0], [0, 1]]), "LpNormalization", f32([[0, 0], [0, 2]]), p=p)

    def test_types_and_errors(self) -> None:
        check(np.array([0.6, 0.8], ml_dtypes.bfloat16), "LpNormalization", np.array([3, 4], ml_dtypes.bfloat16))
        # The sum of squares is beyond float16.
        check(np.array([0.6, -0.8], np.float16), "LpNormalization", np.array([3000, -4000], np.float16))
        refused("p must be 1 or 2, not 3", "LpNormalization", f32([1]), p=3)
        refused("axis 1 is not one of 1 axes", "LpNormalization", f32([1]), axis=1)

    def test_mean_and_variance_like_onnxruntime(self) -> None:
        (x,) = arrays(RNG, (2, 3, 4, 5))
        like_onnxruntime("MeanVarianceNormalization", x, opset=13)
        like_onnxruntime("MeanVarianceNormalization", x, opset=9, axes=[0, 1, 2, 3])

    def test_other_axes(self) -> None:
        x = f32([[1, 3], [2, 6]])
        check(f32([[-1, 1], [-1, 1]]), "MeanVarianceNormalization", x, axes=[-1])
        check(f32([[-1, -1], [1, 1]]), "MeanVarianceNormalization", x, axes=[0])
        refused("axis 2 is not one of 2 axes", "MeanVarianceNormalization", x)

    def test_a_zero_deviation_gives_zeros(self) -> None:
        x = np.full((1, 2, 1, 3), 7, np.float32)
        check(np.zeros_like(x), "MeanVarianceNormalization", x)
        tiny = f32([1, 3]).reshape(1, 1, 1, 2) * np.float32(1e-15)
        check(f32([-1, 1]).reshape(1, 1, 1, 2), "MeanVarianceNormalization", tiny)


class TestDropout:
    x = np.arange(1, 101, dtype=np.float32).reshape(4, 25)

    def test_inference_keeps_all(self) -> None:
        kept = np.ones(self.x.shape, np.bool)
        check([self.x, kept], "Dropout", self.x, outputs=2)
        check([self.x, kept], "Dropout", self.x, np.float32(0.9).reshape(()), np.array(False), outputs=2, opset=12)
        check([self.x, kept], "Dropout", self.x, np.float32(0).reshape(()), np.array(True), outputs=2, seed=1)
        check([self.x, kept], "Dropout", self.x, ratio=0.9, outputs=2, opset=10)
        check([self.x, np.ones_like(self.x)], "Dropout", self.x, ratio=0.9, outputs=2, opset=7)
        check([self.x, np.ones_like(self.x)], "Dropout", self.x, is_test=1, outputs=2, opset=6)

    @pytest.mark.parametrize("dtype", [np.float16, np.float64, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
    def test_types(self, dtype: Any) -> None:
        x = np.array([1, 2, 0.5, -4] * 8, dtype)
        check(x, "Dropout", x)
        kept = np.random.RandomState(7).uniform(0, 1, 32) >= 0.5
        expected = np.where(kept, x.astype(np.float32) * 2, 0).astype(dtype)
        check([expected, kept], "Dropout", x, np.array(0.5), np.array(True), seed=7, outputs=2)

    @pytest.mark.parametrize("ratio", [None, 0.25])
    def test_training_draws_from_the_legacy_generator(self, ratio: float | None) -> None:
        kept = np.random.RandomState(3).uniform(0, 1, self.x.shape) >= (ratio or 0.5)
        expected = np.where(kept, self.x / np.float32(1 - (ratio or 0.5)), 0).astype(np.float32)
        given = None if ratio is None else np.float32(ratio).reshape(())
        check([expected, kept], "Dropout", self.x, given, np.array(True), seed=3, outputs=2, opset=12)

    def test_what_is_dropped_is_zero_also_of_nan(self) -> None:
        x = f32([np.nan, np.inf] * 20)
        y, kept = run("Dropout", x, None, np.array(True), seed=0, outputs=2)
        np.testing.assert_array_equal(y, np.where(kept, x, 0))
        assert 0 < kept.sum() < 40

    @pytest.mark.parametrize("opset", [6, 12])
    def test_training_without_a_seed_draws_anew(self, opset: int) -> None:
        x = np.ones((100, 100), np.float32)
        inputs = (x,) if opset == 6 else (x, np.array(0.5, np.float32), np.array(True))
        proto = model("Dropout", inputs, opset=opset)
        feeds = {f"x{i}": value for i, value in enumerate(inputs)}

        def twice(**options: Any) -> list[Any]:
            session = onemodel.Session(proto, mode="fast", **options)
            return [session.run(None, feeds)[0] for _ in range(2)]

        first, second = twice()
        assert (first != second).any()
        assert set(np.unique(first)) == {0, 2}
        assert 0.45 < (first == 0).mean() < 0.55
        first, second = twice(seed=1)
        np.testing.assert_array_equal(first, second)

    def test_exact_mode_refuses_what_may_draw_without_a_seed(self) -> None:
        ratio, on, off = np.array(0.5, np.float32), np.array(True), np.array(False)
        for inputs, refused_by_exact in [((self.x,), False), ((self.x, ratio), False), ((self.x, ratio, on), True)]:
            assert exact_refuses(model("Dropout", inputs)) is refused_by_exact
        proto = model("Dropout", (self.x, ratio, off))
        del proto.graph.input[2]
        for constant, refused_by_exact in [(off, False), (on, True)]:
            proto.graph.initializer.append(onnx.numpy_helper.from_array(constant, "x2"))
            assert exact_refuses(proto) is refused_by_exact
            del proto.graph.initializer[:]
        onemodel.Session(model("Dropout", (self.x, ratio, on)), mode="exact", seed=1)

    @pytest.mark.parametrize("ratio", [1.0, -0.5, float("nan")])
    def test_wrong_ratio_is_refused(self, ratio: float) -> None:
        refused("ratio must lie in [0, 1)", "Dropout", self.x, np.array(ratio), np.array(True))
