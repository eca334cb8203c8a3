"""Arithmetic, comparison, logic and bits."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

import onemodel
from onemodel import ExecutionError
from tests.ops.harness import arrays, check, like_onnxruntime, model, refused, run

INF, NAN = np.inf, np.nan
SHAPES = [((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((), (2, 3)), ((0, 3), (3,)), ((), ()), ((1,), (1,))]


def f32(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


def whole(*values: int, dtype: Any = np.int32) -> np.ndarray[Any, Any]:
    return np.array(values, dtype)


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "Pow", "Less", "Equal", "Max", "Min", "Mean"])
def test_broadcasting_as_in_numpy(op: str, shapes: Any) -> None:
    a, b = (np.asarray(np.abs(x) + 1) for x in arrays(np.random.default_rng(0), *shapes))
    like_onnxruntime(op, a, b)


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "Max", "Min", "Sum"])
@pytest.mark.parametrize("dtype", [np.float64, np.float16, ml_dtypes.bfloat16], ids=lambda t: np.dtype(t).name)
def test_float_types(op: str, dtype: Any) -> None:
    a, b = arrays(np.random.default_rng(1), (2, 3), (3,), dtype=dtype)
    wide = run(op, a.astype(np.float64), b.astype(np.float64))
    check(wide.astype(dtype), op, a, b, rtol=1e-2 if np.dtype(dtype).itemsize == 2 else 1e-12)


@pytest.mark.parametrize("name", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
class TestIntegers:
    def test_add_subtract_multiply_wrap(self, name: str) -> None:
        limits = np.iinfo(name)
        top = whole(limits.max, dtype=name)
        one, two = whole(1, dtype=name), whole(2, dtype=name)
        check(whole(limits.min, dtype=name), "Add", top, one)
        check(top, "Sub", whole(limits.min, dtype=name), one)
        check(whole(-2 if limits.min else limits.max - 1, dtype=name), "Mul", top, two)

    def test_divide_and_modulo(self, name: str) -> None:
        a, b = whole(8, 7, 0, dtype=name), whole(3, 7, 5, dtype=name)
        check(whole(2, 1, 0, dtype=name), "Div", a, b)
        for fmod in (0, 1):
            check(whole(2, 0, 0, dtype=name), "Mod", a, b, fmod=fmod)
            refused("integer division by zero", "Mod", a, whole(1, 0, 1, dtype=name), fmod=fmod)
        refused("integer division by zero", "Div", a, whole(1, 0, 1, dtype=name))

    def test_least_and_greatest_of_many(self, name: str) -> None:
        data = [whole(*values, dtype=name) for values in ((1, 9), (5, 5), (3, 0))]
        check(whole(5, 9, dtype=name), "Max", *data)
        check(whole(1, 0, dtype=name), "Min", *data)
        check(data[0], "Max", data[0])


def test_signed_division_truncates_and_wraps() -> None:
    check(whole(-2, 2, -2, 0), "Div", whole(8, -8, -8, 1), whole(-3, -3, 3, -5))
    for dtype in (np.int8, np.int32, np.int64):
        least = np.iinfo(dtype).min
        check(whole(least, dtype=dtype), "Div", whole(least, dtype=dtype), whole(-1, dtype=dtype))
        check(whole(0, dtype=dtype), "Mod", whole(least, dtype=dtype), whole(-1, dtype=dtype))
    check(whole(-715827882), "Div", whole(-(2**31)), whole(3))
    check(whole(-128, 127, dtype=np.int8), "Neg", whole(-128, -127, dtype=np.int8))
    check(whole(-128, 127, dtype=np.int8), "Abs", whole(-128, -127, dtype=np.int8))


def test_float_division_by_zero() -> None:
    check(f32(INF, -INF, NAN), "Div", f32(1, -1, 0), f32(0, 0, 0))
    check(f32(INF, -INF, 0.25), "Reciprocal", f32(0.0, -0.0, 4))


class TestMod:
    A, B = whole(-5, 5, -5, 5), whole(3, 3, -3, -3)

    def test_sign_of_the_divisor_or_of_the_dividend(self) -> None:
        check(whole(1, 2, -2, -1), "Mod", self.A, self.B)
        check(whole(-2, 2, -2, 2), "Mod", self.A, self.B, fmod=1)

    @pytest.mark.parametrize("opset", [10, 13, 28])
    def test_floats_with_fmod(self, opset: int) -> None:
        a, b = f32(5, -5.5, INF, 3, -3, 3, NAN, 1e30), f32(3, 2, 2, INF, INF, 0, 1, 3)
        rest = math.fmod(float(a[7]), 3)
        check(f32(2, -1.5, NAN, 3, -3, NAN, NAN, rest), "Mod", a, b, fmod=1, opset=opset)

    def test_floats_round_down_from_opset_28_on(self) -> None:
        a, b = f32(5, -5, 5.5, 5, -5, -INF, 1, NAN), f32(3, 3, -2, INF, INF, 2, 0, 1)
        check(f32(2, 1, -0.5, 5, INF, NAN, NAN, NAN), "Mod", a, b)
        assert np.signbit(run("Mod", f32(0, -0.0), f32(-2, 2))).tolist() == [True, False]
        refused("fmod=1 before opset 28", "Mod", f32(5), f32(3), opset=13)


class TestPow:
    @pytest.mark.parametrize("opset", [7, 12, 13, 15])
    @pytest.mark.parametrize("exponent", [2, 3, 0.5, -0.5, -1, 0, 2.5])
    def test_one_exponent(self, exponent: float, opset: int) -> None:
        x = np.abs(np.random.default_rng(0).standard_normal((3, 4)))
        for dtype in (np.float32, np.float64):
            for shape in ((), (1,), (1, 1)):
                y = np.full(shape, exponent, dtype)
                check(np.power(x.astype(dtype), y), "Pow", x.astype(dtype), y, opset=opset)

    def test_infinity_and_zero(self) -> None:
        x = f32(-INF, -0.0, 0.0, INF, -1, NAN)
        # On one exponent 0.5 NumPy's own power, so array-api-strict's, takes the square root; so many exponents.
        for exponent, right in ((0.5, f32(INF, 0, 0, INF, NAN, NAN)), (-0.5, f32(0, INF, INF, 0, NAN, NAN))):
            got = run("Pow", x, np.full_like(x, exponent))
            np.testing.assert_array_equal(got, right)
            assert not np.signbit(got[1])
        check(f32(1, 1, 1), "Pow", f32(NAN, 0, INF), f32(0, 0, 0))

    def test_square_root_of_infinity_by_one_exponent(self) -> None:
        x, y = f32(-INF, -0.0, 4, -4), np.float32(0.5).reshape(())
        for exponent, right in ((y, f32(INF, 0, 2, NAN)), (-y, f32(0, INF, 0.5, NAN))):
            session = onemodel.Session(model("Pow", (x, y)), mode="fast")
            got = session.run(None, {"x0": x, "x1": exponent})[0]
            np.testing.assert_array_equal(got, right)
            assert not np.signbit(got[1])

    @pytest.mark.parametrize(
        "dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float64"]
    )
    def test_exponents_of_every_type(self, dtype: str) -> None:
        y = np.array([2, 3, 0], dtype)
        check(f32(6.25, -8, 1), "Pow", f32(2.5, -2, 9), y, opset=15)
        check(whole(36, -8, 1), "Pow", whole(6, -2, 9), y, opset=15)
        check(whole(36, -8, 1, dtype=np.int64), "Pow", whole(6, -2, 9, dtype=np.int64), y, opset=15)

    def test_integers_are_exact_and_wrap(self) -> None:
        check(whole(3**39, dtype=np.int64), "Pow", whole(3, dtype=np.int64), whole(39, dtype=np.int64))
        check(whole(3**39, dtype=np.int64), "Pow", whole(3, dtype=np.int64), np.array([39.0]))
        check(whole(-(2**31), 3**21 % 2**32, -1, 10**9), "Pow", whole(2, 3, -1, 10), whole(31, 21, 5, 9))

    def test_negative_exponents_of_integers_truncate(self) -> None:
        check(whole(1, 1, -1, 0, 0), "Pow", whole(1, -1, -1, 2, -7), whole(-2, -2, -3, -1, -1))
        refused("division by zero", "Pow", whole(3, 0), whole(2, -1))
        refused("division by zero", "Pow", whole(3, 0), f32(2, -0.5))

    def test_fractional_exponents_of_integers_truncate_and_saturate(self) -> None:
        check(whole(2, 0, 0, 2**31 - 1, 2), "Pow", whole(4, 2, -8, 10, 8), f32(0.5, -1, 1 / 3, 9.5, 0.33333334))

    def test_the_result_has_the_base_type(self) -> None:
        check(f32(1.2332863), "Pow", f32(1.1), np.array([2.2]))
        check(f32(-1, 1), "Pow", f32(-1, -1), whole(2**24 + 1, 2**24 + 2))
        check(np.array([8, 1.732], np.float16), "Pow", np.array([2, 3], np.float16), np.array([3, 0.5]), rtol=1e-3)


class TestClip:
    X = f32(-INF, -2, -0.5, 0, 6, INF, NAN)

    @pytest.mark.parametrize("opset", [11, 12, 13])
    def test_limits(self, opset: int) -> None:
        low, high = np.float32(-1).reshape(()), np.float32(3).reshape(())
        check(f32(-1, -1, -0.5, 0, 3, 3, NAN), "Clip", self.X, low, high, opset=opset)
        check(f32(-1, -1, -0.5, 0, 6, INF, NAN), "Clip", self.X, low, opset=opset)
        check(f32(-INF, -2, -0.5, 0, 3, 3, NAN), "Clip", self.X, None, high, opset=opset)
        check(self.X, "Clip", self.X, opset=opset)

    def test_large_arrays(self) -> None:
        x = np.random.default_rng(0).standard_normal((3, 5000)).astype(np.float32)
        x[1, 7] = NAN
        check(np.clip(x, -1, 0.5), "Clip", x, f32(-1), f32(0.5))

    def test_the_greatest_wins(self) -> None:
        check(f32(1, 1, 1), "Clip", f32(-2, 0, 6), f32(2), f32(1))

    def test_integers(self) -> None:
        check(
            whole(2, 2, 3, dtype=np.uint8),
            "Clip",
            whole(0, 2, 9, dtype=np.uint8),
            *(np.uint8(n).reshape(()) for n in (2, 3)),
        )
        check(whole(-1, 2**40, dtype=np.int64), "Clip", whole(-5, 2**40, dtype=np.int64), np.int64(-1).reshape(()))

    def test_before_opset_11(self) -> None:
        check(f32(-1, -1, -0.5, 0, 3, 3, NAN), "Clip", self.X, min=-1.0, max=3.0, opset=6)
        largest = np.finfo(np.float32).max
        check(f32(-largest, -2, -0.5, 0, 6, largest, NAN), "Clip", self.X, opset=6)

    def test_a_limit_is_one_number(self) -> None:
        check(np.float32(5).reshape(()), "Clip", np.float32(5).reshape(()), f32(1))
        refused("min of shape (2,) must be a scalar", "Clip", f32(1, 2), f32(0, 1))


def test_extremes_propagate_nan() -> None:
    a, b = f32(NAN, 1, NAN, INF), f32(1, NAN, NAN, -INF)
    check(f32(NAN, NAN, NAN, INF), "Max", a, b)
    check(f32(NAN, NAN, NAN, -INF), "Min", a, b)
    many = np.resize(a, 6000)
    check(np.where(np.isnan(many), NAN, np.maximum(many, 2)).astype(np.float32), "Max", many, np.float32(2).reshape(()))
    check(np.where(np.isnan(many), NAN, np.minimum(many, 2)).astype(np.float32), "Min", np.float32(2).reshape(()), many)
    check(np.full(6000, NAN, np.float32), "Min", np.ones(6000, np.float32), np.float32(NAN).reshape(()))


def test_sums_of_many() -> None:
    a, b, c = f32(1, 2), f32(4), f32(5, 6)
    check(f32(10, 12), "Sum", a, b, c)
    check(f32(10 / 3, 4), "Mean", a, b, c)
    check(a, "Mean", a)


def test_signs_and_rounding() -> None:
    x = f32(-INF, -2.5, -0.5, -0.0, 0.5, 1.5, 2.5, INF, NAN)
    check(f32(-INF, -2, -0.0, -0.0, 0, 2, 2, INF, NAN), "Round", x)
    check(f32(-INF, -2, -0.0, -0.0, 1, 2, 3, INF, NAN), "Ceil", x)
    check(f32(-INF, -3, -1, -0.0, 0, 1, 2, INF, NAN), "Floor", x)
    check(f32(-1, -1, -1, 0, 1, 1, 1, 1, NAN), "Sign", x)
    for op, negative in (("Round", (2, 3)), ("Ceil", (2, 3)), ("Floor", (3,))):
        assert all(np.signbit(run(op, x)[i]) for i in negative)
    check(whole(0, 1, dtype=np.uint8), "Sign", whole(0, 200, dtype=np.uint8))
    check(whole(-1, 0, 1, dtype=np.int64), "Sign", whole(-(2**62), 0, 3, dtype=np.int64))
    check(f32(2, NAN, INF), "Sqrt", f32(4, -1, INF))


@pytest.mark.parametrize("op", ["Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "int64", "uint64", "bfloat16"])
def test_comparisons(op: str, dtype: str) -> None:
    a, b = ([1, 2, 3], [2, 2, 2]), ([[1], [2]])
    x, y = np.array(a[0], dtype), np.array(a[1], dtype)
    compare = getattr(np, {"LessOrEqual": "less_equal", "GreaterOrEqual": "greater_equal"}.get(op, op.lower()))
    check(compare(x, y), op, x, y)
    check(compare(x.astype(np.float64), np.array(b)), op, x, np.array(b, dtype))
    if dtype.startswith("float"):
        check(np.array([False, False, False]), op, np.array([NAN, 1, NAN], dtype), np.array([NAN, NAN, 1], dtype))


def test_equal_of_large_integers_strings_and_booleans() -> None:
    check(
        np.array([False, True]), "Equal", whole(2**53, 2**53, dtype=np.int64), whole(2**53 + 1, 2**53, dtype=np.int64)
    )
    check(np.array([True, False]), "Equal", np.array(["a", "ä"], object), np.array(["a"], object))
    check(np.array([True, False]), "Equal", np.array([True, False]), np.array([True]))


def test_where() -> None:
    condition = np.array([[True], [False]])
    check(f32(1, 2, 9, 9).reshape(2, 2), "Where", condition, f32(1, 2), f32(9))
    check(np.array(["a", "c"], object), "Where", condition[:, 0], np.array(["a", "b"], object), np.array(["c"], object))
    half = np.array([1, NAN], np.float16)
    check(np.array([[1, NAN], [7, 7]], np.float16), "Where", condition, half, np.array(7, np.float16))
    for dtype in (np.int64, np.uint8, np.float64, ml_dtypes.bfloat16, np.bool_):
        x, y = np.array([1, 0]).astype(dtype), np.array([0, 1]).astype(dtype)
        check(np.array([1, 1]).astype(dtype), "Where", np.array([True, False]), x, y)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "float8_e5m2"])
def test_nan_and_infinity(dtype: str) -> None:
    x = np.array([1, INF, -INF, NAN, 0]).astype(getattr(ml_dtypes, dtype, dtype))
    check(np.array([False, False, False, True, False]), "IsNaN", x)
    check(np.array([False, True, True, False, False]), "IsInf", x)
    check(np.array([False, True, False, False, False]), "IsInf", x, detect_negative=0)
    check(np.array([False, False, True, False, False]), "IsInf", x, detect_positive=0)
    check(np.array([False] * 5), "IsInf", x, detect_positive=0, detect_negative=0)


def test_float8_without_infinity() -> None:
    x = np.array([1, INF, -INF, NAN, 0]).astype(ml_dtypes.float8_e4m3fn)
    check(np.array([False, True, True, True, False]), "IsNaN", x)
    check(np.array([False] * 5), "IsInf", x)


def test_logic() -> None:
    a, b = np.array([True, True, False, False]), np.array([[True, False, True, False]])
    check(~a, "Not", a)
    check(a & b, "And", a, b)
    check(a | b, "Or", a, b)
    check(a ^ b, "Xor", a, b)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
class TestBits:
    def test_and_or_xor_not(self, dtype: str) -> None:
        a, b = np.array([12, 1, 0, 127], dtype), np.array([[10], [3]], dtype)
        check(a & b, "BitwiseAnd", a, b)
        check(a | b, "BitwiseOr", a, b)
        check(a ^ b, "BitwiseXor", a, b)
        check(~a, "BitwiseNot", a)

    def test_shift(self, dtype: str) -> None:
        bits = 8 * np.dtype(dtype).itemsize
        opset = 28 if dtype.startswith("i") else 11
        x, y = np.array([1, 64, 100, 3], dtype), np.array([bits - 1, 1, 3, bits], dtype)
        left = [((int(value) << int(shift)) & (2**bits - 1)) for value, shift in zip(x, y, strict=True)]
        check(np.array(left, f"uint{bits}").astype(dtype), "BitShift", x, y, direction="LEFT", opset=opset)
        check(np.array([0, 32, 12, 0], dtype), "BitShift", x, y, direction="RIGHT", opset=opset)
        refused("must be LEFT or RIGHT", "BitShift", x, y, direction="UP", opset=opset)


def test_shift_of_negative_numbers() -> None:
    x, y = whole(-1, -128, -64, 100, -1, dtype=np.int8), whole(7, 8, 1, -3, -1, dtype=np.int8)
    check(whole(-1, -1, -32, 0, -1, dtype=np.int8), "BitShift", x, y, direction="RIGHT")
    check(whole(-128, 0, -128, 0, 0, dtype=np.int8), "BitShift", x, y, direction="LEFT")


class TestBitCast:
    @pytest.mark.parametrize(
        ("given", "right"),
        [
            (f32(1, -0.0, NAN), whole(0x3F800000, -(2**31), 0x7FC00000)),
            (np.array(1.0), np.array(0x3FF0000000000000)),
            (whole(-1, 1, dtype=np.int8), whole(255, 1, dtype=np.uint8)),
            (np.array([1, 2], np.float16), np.array([0x3C00, 0x4000], np.uint16)),
            (np.array([0x3F80], np.uint16), np.array([1], ml_dtypes.bfloat16)),
            (np.array([True, False]), whole(1, 0, dtype=np.uint8)),
            (whole(7, 0, 128, dtype=np.uint8), np.array([True, False, True])),
            (np.array([1, 15, 8], ml_dtypes.uint4), np.array([1, -1, -8], ml_dtypes.int4)),
            (np.array([1, 6], ml_dtypes.float4_e2m1fn), np.array([2, 7], ml_dtypes.uint4)),
            (np.zeros((2, 0), np.float32), np.zeros((2, 0), np.uint32)),
        ],
        ids=lambda array: array.dtype.name,
    )
    def test_same_bits(self, given: Any, right: Any) -> None:
        check(right, "BitCast", given, to=onnx.helper.np_dtype_to_tensor_dtype(right.dtype))

    def test_a_boolean_from_any_byte_is_a_boolean(self) -> None:
        got = run("BitCast", whole(7, dtype=np.uint8), to=onnx.TensorProto.BOOL)
        assert got.view(np.uint8).tolist() == [1]

    @pytest.mark.parametrize("to", ["INT64", "INT16", "INT4"])
    def test_other_widths_are_refused(self, to: str) -> None:
        code = getattr(onnx.TensorProto, to)
        with pytest.raises(onemodel.OneModelError, match="bit"):
            run("BitCast", f32(1, 2), to=code)


class TestBeforeOpset7:
    A = np.arange(24, dtype=np.float32).reshape(2, 3, 4)

    @pytest.mark.parametrize(
        ("shape", "axis", "seen"),
        [
            ((4,), None, (1, 1, 4)),
            ((3, 4), None, (1, 3, 4)),
            ((2,), 0, (2, 1, 1)),
            ((3,), 1, (1, 3, 1)),
            ((2, 3), 0, (2, 3, 1)),
            ((3,), -2, (1, 3, 1)),
            ((), None, ()),
            ((1, 1), None, ()),
            ((1,), 2, ()),
        ],
    )
    def test_one_run_of_axes(self, shape: tuple[int, ...], axis: int | None, seen: tuple[int, ...]) -> None:
        b = np.arange(1, 1 + int(np.prod(shape)), dtype=np.float32).reshape(shape)
        options = {} if axis is None else {"axis": axis}
        spread = b.reshape(seen)
        for op, right in (("Add", self.A + spread), ("Sub", self.A - spread), ("Div", self.A / spread)):
            check(right, op, self.A, b, broadcast=1, opset=6, **options)
        check(np.less(self.A, spread), "Less", self.A, b, broadcast=1, opset=6, **options)
        check(self.A**spread, "Pow", self.A, b, broadcast=1, opset=6, **options)

    @pytest.mark.parametrize("op", ["And", "Or", "Xor"])
    def test_logic(self, op: str) -> None:
        a, b = np.array([[True, False], [False, False]]), np.array([True, False])
        function = getattr(np, f"logical_{op.lower()}")
        check(function(a, b[:, None]), op, a, b, axis=0, broadcast=1, opset=6)
        check(function(a, a), op, a, a, opset=6)

    def test_an_axis_of_size_1_spreads(self) -> None:
        """The official suite has it, although the specification says that it doesn't work yet."""
        a = f32(*range(6)).reshape(2, 3)
        for b in (f32(10, 20).reshape(2, 1), f32(1, 2, 3).reshape(1, 3)):
            check(a + b, "Add", a, b, axis=0, broadcast=1, opset=6)

    def test_without_the_attribute_shapes_agree(self) -> None:
        check(self.A * 2, "Add", self.A, self.A, opset=6)
        refused("broadcast is 0", "Add", self.A, f32(1, 2, 3, 4), opset=6)
        refused("is not found in", "Add", self.A, f32(1, 2, 3, 4), axis=0, broadcast=1, opset=6)
        refused("is not found in", "Equal", whole(1, 2), whole(1, 2, 3), broadcast=1, opset=6)

    @pytest.mark.parametrize("op", ["Sum", "Mean", "Max", "Min"])
    def test_variadic_operators_broadcast_from_opset_8_on(self, op: str) -> None:
        refused("broadcasting came with opset 8", op, f32(1, 2), f32(1), opset=6)
        assert run(op, f32(1, 2), f32(1), opset=8).shape == (2,)
        check(run(op, f32(1, 2), f32(3, 0)), op, f32(1, 2), f32(3, 0), opset=6)


@pytest.mark.parametrize("op", ["Add", "Pow", "Where", "BitShift"])
def test_shapes_that_do_not_broadcast(op: str) -> None:
    a, b = whole(1, 2), whole(1, 2, 3)
    if op == "Where":
        refused("", op, np.array([True, False]), a, b, error=ExecutionError)
    else:
        refused("", op, a, b, error=ExecutionError, **({"direction": "LEFT"} if op == "BitShift" else {}))


HALF, FLAG = np.array([1, NAN], np.float16), np.array([True, False])
EXACT: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("Where", [FLAG, HALF, HALF], {}),
    ("Where", [FLAG, f32(1, 2), f32(3, 4)], {}),
    ("Equal", [f32(1, NAN), f32(1, NAN)], {}),
    ("Less", [f32(1, 2), f32(2, 1)], {}),
    ("IsNaN", [f32(1, NAN)], {}),
    ("IsInf", [f32(1, INF)], {"detect_negative": 0}),
    ("BitCast", [f32(1, NAN)], {"to": onnx.TensorProto.INT32}),
    ("Not", [FLAG], {}),
    ("Add", [f32(1), f32(2)], {}),
    ("Div", [f32(1), f32(3)], {}),
    ("Sqrt", [f32(2)], {}),
    ("Round", [f32(2.5)], {}),
    ("LeakyRelu", [f32(-1)], {}),
    ("Shrink", [f32(-1)], {}),
    ("Hardmax", [f32(1, 2)], {}),
    ("ArgMax", [f32(1, 2)], {}),
    ("TopK", [f32(1, 2), np.array([1])], {"outputs": 2}),
    ("Unique", [f32(2, 1, 2)], {"outputs": 4}),
    ("Div", [whole(-7), whole(2)], {}),
    ("Mod", [whole(-7), whole(2)], {}),
    ("Pow", [whole(3), whole(5)], {}),
    ("Max", [whole(3), whole(5)], {}),
    ("Clip", [whole(3), np.int32(4).reshape(())], {}),
    ("ReduceSum", [whole(3, 4)], {}),
    ("ReduceL2", [whole(3, 4)], {}),
    ("ReduceMean", [whole(3, 4)], {}),
    ("CumSum", [whole(3, 4), np.array(0)], {}),
    ("BitShift", [whole(3), whole(1)], {"direction": "LEFT"}),
]


@pytest.mark.parametrize(("op", "inputs", "options"), EXACT, ids=[f"{case[0]}-{case[1][0].dtype}" for case in EXACT])
def test_exact_mode_runs_what_rounds_at_most_once(op: str, inputs: list[Any], options: dict[str, Any]) -> None:
    feeds = {f"x{i}": value for i, value in enumerate(inputs)}
    proto = model(op, inputs, **options)
    exact, fast = (onemodel.Session(proto, mode=mode).run(None, feeds) for mode in ("exact", "fast"))
    for got, want in zip(exact, fast, strict=True):
        np.testing.assert_array_equal(got, want)
