"""Quantization: QuantizeLinear, DequantizeLinear and the products of quantized arrays."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import onemodel
from onemodel.backends import get_backend
from onemodel.ops import quantization
from tests.ops.harness import arrays, check, like_onnxruntime, refused, run

INF, NAN = np.inf, np.nan
UINT8, INT8, FLOAT16, BFLOAT16, INT4, UINT4, FLOAT8 = 2, 3, 10, 16, 22, 21, 17


def f32(values: Any) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


def quantize(x: Any, scale: Any, zero: Any = None, **options: Any) -> Any:
    return run("QuantizeLinear", f32(x), f32(scale), *([] if zero is None else [zero]), **options)


class TestQuantizeLinear:
    @pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16])
    @pytest.mark.parametrize("opset", [10, 13, 19, 21])
    def test_like_onnxruntime(self, dtype: Any, opset: int) -> None:
        if opset < 21 and np.dtype(dtype).itemsize == 2:
            pytest.skip("16 bits from opset 21 on")
        x = np.random.default_rng(0).standard_normal((3, 4, 2)).astype(np.float32) * 1000
        like_onnxruntime("QuantizeLinear", x, f32(3.7), np.array(11, dtype), opset=opset)
        if opset > 10:
            scale, zero = f32([1, 2.5, 7, 0.1]), np.arange(4).astype(dtype)
            like_onnxruntime("QuantizeLinear", x, scale, zero, opset=opset)
            like_onnxruntime("QuantizeLinear", x, scale[:3], zero[:3], opset=opset, axis=-3)

    def test_rounds_half_to_even_before_the_zero_point_and_saturates_after(self) -> None:
        x = [0.5, 1.5, 2.5, -0.5, -1.5, 1e30, -1e30, INF, -INF]
        want = [1, 3, 3, 1, -1, 127, -128, 127, -128]
        assert quantize(x, 1, np.array(1, np.int8)).tolist() == want
        assert quantize([254.5, 300, -1], 1).tolist() == [254, 255, 0]
        assert quantize([3, -3], 2, np.array(128, np.uint8)).tolist() == [130, 126]

    def test_nan_becomes_0(self) -> None:
        assert quantize([NAN, 1], 1, np.array(-5, np.int8)).tolist() == [0, -4]

    @pytest.mark.parametrize(
        ("dtype", "want"),
        [
            (ml_dtypes.int4, [-8, -3, 1, 7, 7]),
            (ml_dtypes.uint4, [0, 0, 1, 9, 15]),
            (ml_dtypes.int2, [-2, -2, 1, 1, 1]),
            (ml_dtypes.uint2, [0, 0, 1, 3, 3]),
        ],
    )
    def test_small_integers_saturate(self, dtype: Any, want: list[int]) -> None:
        got = quantize([-100, -4, 0, 7.6, 1e9], 1, np.array(1, dtype))
        assert got.dtype == dtype
        assert got.astype(int).tolist() == want

    @pytest.mark.parametrize(
        ("dtype", "most"),
        [
            (ml_dtypes.float8_e4m3fn, 448),
            (ml_dtypes.float8_e4m3fnuz, 240),
            (ml_dtypes.float8_e5m2, 57344),
            (ml_dtypes.float8_e5m2fnuz, 57344),
        ],
    )
    def test_float8(self, dtype: Any, most: float) -> None:
        x, zero = [1e6, -INF, 2.1, NAN, 0], np.array(0, dtype)
        got = quantize(x, 0.5, zero).astype(np.float32)
        np.testing.assert_array_equal(got, f32([most, -most, np.float32(dtype(4.2)), NAN, 0]))
        free = quantize(x, 0.5, zero, saturate=0).astype(np.float32)
        assert not np.isfinite(free[:2]).any()

    @pytest.mark.parametrize(("dtype", "code"), [(ml_dtypes.float4_e2m1fn, 23), (ml_dtypes.float6_e2m3fn, 27)])
    def test_floats_of_fewer_bits(self, dtype: Any, code: int) -> None:
        got = quantize([0.3, -1.26, 100, -0.0], 1, output_dtype=code)
        np.testing.assert_array_equal(
            got.astype(np.float32), f32([0.3, -1.26, 100, -0.0]).astype(dtype).astype(np.float32)
        )
        assert np.signbit(got[3].astype(np.float32))

    def test_output_type(self) -> None:
        assert quantize([1, 2], 1).dtype == np.uint8
        assert quantize([1, 2], 1, output_dtype=INT8).dtype == np.int8
        assert quantize([1, 2], 1, np.array(0, np.int16), output_dtype=5).dtype == np.int16
        with pytest.raises(onemodel.OneModelError, match="output_dtype 3 is not the zero point's type"):
            quantize([1, 2], 1, np.array(0, np.uint8), output_dtype=INT8)

    @pytest.mark.parametrize("size", [6, 5, 4])
    def test_blocks(self, size: int) -> None:
        x = np.arange(2 * size).reshape(2, size).astype(np.float32)
        scale, zero = f32([[1, 2], [3, 4]]), np.array([[0, 10], [20, 30]], np.uint8)
        whole = np.repeat(scale, 3, axis=1)[:, :size], np.repeat(zero, 3, axis=1)[:, :size]
        want = (np.rint(x / whole[0]) + whole[1]).astype(np.uint8)
        check(want, "QuantizeLinear", x, scale, zero, axis=1, block_size=3)
        check(want.T, "QuantizeLinear", x.T, scale.T, zero.T, axis=-2, block_size=3)
        back = (want.astype(np.float32) - whole[1]) * whole[0]
        check(back, "DequantizeLinear", want, scale, zero, axis=1, block_size=3)

    def test_precision(self) -> None:
        """72 / 1.1 is 65.478, and 65.5 in float16."""
        x, scale = np.array([72, 5], np.float16), np.array(1.1, np.float16)
        exact = x.astype(np.float32) / scale.astype(np.float32)
        halves = exact.astype(np.float16).astype(np.float32)
        options = {"output_dtype": 4}
        check(np.rint(halves).astype(np.uint16), "QuantizeLinear", x, scale, **options)
        check(np.rint(exact).astype(np.uint16), "QuantizeLinear", x, scale, precision=1, **options)
        assert (np.rint(halves) != np.rint(exact)).any()

    def test_integers_and_exponents(self) -> None:
        x = np.array([7, -9, 2**31 - 1], np.int32)
        check(np.array([2, -2, 127], np.int8), "QuantizeLinear", x, np.array(4, np.int32), np.array(0, np.int8))
        power = np.array(4, np.float32).astype(ml_dtypes.float8_e8m0fnu)
        check(np.array([2, -2], np.int8), "QuantizeLinear", f32([6, -10]), power, np.array(0, np.int8))
        check(f32([4]), "DequantizeLinear", np.array([1], np.int8), power, output_dtype=1)

    def test_empty_and_scalar(self) -> None:
        assert quantize(np.zeros((0, 3)), [1, 2, 3], np.zeros(3, np.uint8)).shape == (0, 3)
        check(np.array(3, np.uint8), "QuantizeLinear", f32(5.9), f32(2))
        check(np.array([3], np.uint8), "QuantizeLinear", f32([5.9]), f32([2]))

    def test_wrong_inputs_are_refused(self) -> None:
        x = np.zeros((2, 3), np.float32)
        refused("must be one number, or 3 for axis 1", "QuantizeLinear", x, f32([1, 2]))
        refused("axis 2 is not in [-2, 2)", "QuantizeLinear", x, f32([1, 2]), axis=2)
        refused("the zero point's shape", "QuantizeLinear", x, f32([1, 2, 3]), np.zeros(2, np.uint8))
        refused("does not fit blocks of 2", "QuantizeLinear", x, f32([[1], [2]]), block_size=2)
        refused("does not fit blocks of -1", "QuantizeLinear", x, f32([[1], [2]]), block_size=-1)

    def test_types_that_the_plan_refuses_are_refused_here_too(self) -> None:
        xp = get_backend("numpy").namespace("fast")
        with pytest.raises(ValueError, match="output_dtype 1 is no type to quantize to"):
            quantization.quantize_linear(f32([1]), f32(1), output_dtype=1, xp=xp)
        with pytest.raises(ValueError, match="output_dtype must be given"):
            quantization.dequantize_linear(np.zeros(1, np.int8), f32(4).astype(ml_dtypes.float8_e8m0fnu), xp=xp)


class TestDequantizeLinear:
    @pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.uint16, np.int32])
    def test_like_onnxruntime(self, dtype: Any) -> None:
        (x,) = arrays(np.random.default_rng(1), (3, 4, 2), dtype=dtype)
        zero = np.zeros(4, dtype) if dtype is np.int32 else np.arange(4).astype(dtype)
        like_onnxruntime("DequantizeLinear", x, f32(0.3), zero[1:2].reshape(()), opset=21)
        like_onnxruntime("DequantizeLinear", x, f32([1, 0.5, 0.1, 3]), zero, opset=21)
        like_onnxruntime("DequantizeLinear", x, f32(0.3), opset=21)

    def test_the_difference_does_not_wrap(self) -> None:
        check(f32([-510, 0]), "DequantizeLinear", np.array([0, 255], np.uint8), f32(2), np.array(255, np.uint8))
        check(f32([255, 0]), "DequantizeLinear", np.array([127, -128], np.int8), f32(1), np.array(-128, np.int8))

    @pytest.mark.parametrize("dtype", [ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.int2, ml_dtypes.float8_e4m3fn])
    def test_small_types(self, dtype: Any) -> None:
        x = np.array([1, 0, 1]).astype(dtype)
        check(f32([0, -0.5, 0]), "DequantizeLinear", x, f32(0.5), np.array(1).astype(dtype))

    @pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
    def test_the_scale_gives_the_type_and_the_product_is_rounded_once(self, dtype: Any) -> None:
        x, scale = np.array([-128, 3, 127], np.int8), np.array(0.1).astype(dtype)
        want = (x.astype(np.float64) * float(scale)).astype(np.float32).astype(dtype)
        check(want, "DequantizeLinear", x, scale)
        check(want.astype(np.float32), "DequantizeLinear", x, scale, output_dtype=1, rtol=1e-2)
        got = run("DequantizeLinear", x, scale, output_dtype=1)
        np.testing.assert_array_equal(got, x.astype(np.float32) * scale.astype(np.float32))

    def test_wrong_inputs_are_refused(self) -> None:
        x = np.zeros((2, 3), np.int8)
        refused("must be one number, or 3 for axis 1", "DequantizeLinear", x, f32([1, 2]))
        refused("the zero point's shape", "DequantizeLinear", x, f32([1, 2, 3]), np.zeros(2, np.int8))


class TestDynamicQuantizeLinear:
    @pytest.mark.parametrize(
        "x", [[0, 2, -3, -2.5, 1.34, 0.5], [-1, -2.1, -1.3, -2.5, -3.34, -4], [1, 2.1, 1.3], [0, 0], [7], []]
    )
    def test_like_onnxruntime(self, x: list[float]) -> None:
        like_onnxruntime("DynamicQuantizeLinear", f32(x), outputs=3, opset=11)

    def test_large(self) -> None:
        (x,) = arrays(np.random.default_rng(2), (50, 70))
        like_onnxruntime("DynamicQuantizeLinear", x, outputs=3, opset=11)


class TestMatMulInteger:
    @pytest.mark.parametrize("a", [np.uint8, np.int8])
    @pytest.mark.parametrize("b", [np.uint8, np.int8])
    @pytest.mark.parametrize("shapes", [((3, 5), (5, 4)), ((2, 3, 5), (5, 4)), ((2, 3, 5), (2, 5, 4)), ((5,), (5,))])
    def test_exact(self, a: Any, b: Any, shapes: Any) -> None:
        rng = np.random.default_rng(3)
        x, y = (
            rng.integers(np.iinfo(d).min, np.iinfo(d).max + 1, s).astype(d) for d, s in zip((a, b), shapes, strict=True)
        )
        p, q = np.array(7, a), np.array(3, b)
        wide = [x.astype(np.int32), y.astype(np.int32)]
        check(np.asarray(wide[0] @ wide[1]), "MatMulInteger", x, y)
        check(np.asarray((wide[0] - 7) @ (wide[1] - 3)), "MatMulInteger", x, y, p, q)
        check(np.asarray((wide[0] - 7) @ wide[1]), "MatMulInteger", x, y, p.reshape(1))
        check(np.asarray(wide[0] @ (wide[1] - 3)), "MatMulInteger", x, y, None, q)

    @pytest.mark.parametrize("terms", [257, 258, 259, 1000, 40000])
    def test_many_terms_of_the_greatest_size(self, terms: int) -> None:
        """Beyond 33025 products of -255 and 255 int32 wraps."""
        x, y = np.zeros((1, terms), np.uint8), np.full((terms, 2), 255, np.uint8)
        total = np.array([[-255 * 255 * terms] * 2], np.int64).astype(np.int32)
        check(total, "MatMulInteger", x, y, np.array(255, np.uint8), np.array(0, np.uint8))
        odd = np.full((1, terms), 255, np.uint8)
        odd[0, 0] = 254
        check(np.array([[255 * 255 * terms - 255] * 2], np.int64).astype(np.int32), "MatMulInteger", odd, y)

    def test_a_zero_point_per_row_and_per_column(self) -> None:
        rng = np.random.default_rng(4)
        x, y = rng.integers(0, 255, (2, 3, 5)).astype(np.uint8), rng.integers(-128, 127, (2, 5, 4)).astype(np.int8)
        p, q = np.array([1, 2, 3], np.uint8), np.array([-4, 5, 6, 7], np.int8)
        want = (x.astype(np.int32) - p[:, None]) @ (y.astype(np.int32) - q)
        check(want, "MatMulInteger", x, y, p, q)
        check(want, "MatMulInteger", x, y, np.broadcast_to(p[:, None], (2, 3, 1)), np.broadcast_to(q, (2, 1, 4)))
        check(want[0], "MatMulInteger", x[0], y[0], p, q)

    def test_empty(self) -> None:
        check(np.zeros((2, 3), np.int32), "MatMulInteger", np.zeros((2, 0), np.int8), np.zeros((0, 3), np.int8))
        check(np.zeros((0, 3), np.int32), "MatMulInteger", np.zeros((0, 4), np.int8), np.zeros((4, 3), np.int8))

    def test_wrong_shapes_are_refused(self) -> None:
        refused("do not multiply", "MatMulInteger", np.zeros((2, 3), np.int8), np.zeros((2, 3), np.int8))


@pytest.mark.parametrize("opset", [10, 21])
@pytest.mark.parametrize("shapes", [((3, 5), (5, 4)), ((2, 3, 5), (5, 4))])
def test_qlinear_matmul(opset: int, shapes: Any) -> None:
    rng = np.random.default_rng(5)
    for a, b, y in ((np.uint8, np.uint8, np.uint8), (np.uint8, np.int8, np.uint8), (np.int8, np.int8, np.int8)):
        left, right = (rng.integers(0, 127, s).astype(d) for d, s in zip((a, b), shapes, strict=True))
        pairs = [left, f32(0.03), np.array(60, a), right, f32(0.05), np.array(70, b), f32(0.09), np.array(10, y)]
        like_onnxruntime("QLinearMatMul", *pairs, opset=opset)
        pairs[4:6] = f32([0.01, 0.02, 0.03, 0.05]), np.array([1, 2, 3, 4], b)
        if b is np.int8:
            like_onnxruntime("QLinearMatMul", *pairs, opset=opset)


def test_qlinear_matmul_rounds_before_the_zero_point() -> None:
    """Sums 1, 3 and 5 times 1/2 are 0.5, 1.5 and 2.5: to 0, 2 and 2, then plus 1."""
    a, one, no = np.array([[1], [3], [5]], np.int8), f32(1), np.array(0, np.int8)
    got = run("QLinearMatMul", a, f32(0.5), no, np.array([[1]], np.int8), one, no, one, np.array(1, np.int8))
    assert got.tolist() == [[1], [3], [3]]
    rows = [f32([0.5, 1, 2]), np.array([0, 1, 2], np.int8)]
    got = run("QLinearMatMul", a, *rows, np.array([[1]], np.int8), one, no, one, np.array(1, np.int8))
    assert got.tolist() == [[1], [3], [7]]


@pytest.mark.parametrize("scales", [np.float16, ml_dtypes.bfloat16])
def test_qlinear_matmul_of_other_types(scales: Any) -> None:
    half, one = np.array(0.5).astype(scales), np.array(1).astype(scales)
    no = np.array(0, np.uint8)
    left, right = np.array([[2, 4]], np.uint8), np.array([[3], [5]], np.uint8)
    check(np.array([[13]], np.uint8), "QLinearMatMul", left, half, no, right, one, no, one, no)
    f8 = ml_dtypes.float8_e4m3fn
    low = [v.astype(f8) for v in (left, no, right)]
    got = run("QLinearMatMul", low[0], half, low[1], low[2], one, low[1], one, low[1])
    assert got.dtype == f8
    assert float(got[0, 0]) == float(f8(13))
    assert run("QLinearMatMul", low[0], half, low[1], low[2], one, low[1], one, no).tolist() == [[13]]


CONVOLUTIONS: list[dict[str, Any]] = [
    {},
    {"pads": [1, 2, 0, 1], "strides": [2, 1]},
    {"dilations": [2, 1], "auto_pad": "VALID"},
    {"auto_pad": "SAME_UPPER", "strides": [2, 2], "kernel_shape": [3, 2]},
]


@pytest.mark.parametrize("options", CONVOLUTIONS)
@pytest.mark.parametrize("group", [1, 2])
class TestConvolution:
    def inputs(self, group: int) -> tuple[Any, Any]:
        rng = np.random.default_rng(6)
        x = rng.integers(0, 256, (2, 4, 7, 6)).astype(np.uint8)
        return x, rng.integers(0, 256, (6, 4 // group, 3, 2)).astype(np.uint8)

    def test_conv_integer(self, options: dict[str, Any], group: int) -> None:
        x, w = self.inputs(group)
        like_onnxruntime("ConvInteger", x, w, np.array(130, np.uint8), np.array(120, np.uint8), group=group, **options)
        like_onnxruntime("ConvInteger", x, w, group=group, **options)

    def test_qlinear_conv(self, options: dict[str, Any], group: int) -> None:
        x, w = self.inputs(group)
        bias = np.arange(6).astype(np.int32) * 100
        pair = f32(0.02), np.array(130, np.uint8)
        out = f32(0.9), np.array(100, np.uint8)
        like_onnxruntime(
            "QLinearConv", x, *pair, w, f32(0.03), np.array(120, np.uint8), *out, bias, group=group, **options
        )
        signed = (w.astype(np.int32) - 128).astype(np.int8)
        scales = f32([0.01, 0.02, 0.03, 0.04, 0.05, 0.06])
        like_onnxruntime("QLinearConv", x, *pair, signed, scales, np.zeros(6, np.int8), *out, group=group, **options)


def test_conv_integer_with_a_zero_point_per_filter_in_one_and_three_dimensions() -> None:
    rng = np.random.default_rng(7)
    for spatial in ((5,), (3, 4, 3)):
        x, w = rng.integers(0, 256, (1, 2, *spatial)), rng.integers(0, 256, (3, 2, *[2] * len(spatial)))
        zero = np.array([1, 2, 250], np.uint8)
        moved = w - zero.reshape(3, *[1] * (w.ndim - 1)).astype(int)
        want = run("Conv", (x - 9).astype(np.float64), moved.astype(np.float64)).astype(np.int32)
        check(want, "ConvInteger", x.astype(np.uint8), w.astype(np.uint8), np.array(9, np.uint8), zero)


def test_wrong_convolutions_are_refused() -> None:
    x, w = np.zeros((1, 4, 5, 5), np.uint8), np.zeros((6, 2, 3, 3), np.uint8)
    refused("do not fit group 1", "ConvInteger", x, w)
    refused("same three or more dimensions", "ConvInteger", x, w[0], group=2)
    refused("w_zero_point of shape (2,) must be", "ConvInteger", x, w, None, np.zeros(2, np.uint8), group=2)
    refused("x_zero_point of shape (2,) must be one number", "ConvInteger", x, w, np.zeros(2, np.uint8), group=2)
    refused("kernel_shape [2, 2] is not that of w", "ConvInteger", x, w, group=2, kernel_shape=[2, 2])
    one, no = f32(1), np.array(0, np.uint8)
    refused("B of shape (5,)", "QLinearConv", x, one, no, w, one, no, one, no, np.zeros(5, np.int32), group=2)
