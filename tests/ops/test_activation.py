"""Activation functions, of one element and of rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.ops.harness import arrays, check, like_onnxruntime, refused, run

INF, NAN = np.inf, np.nan
X = np.array([-100.0, -20.0, -5.5, -3.0, -1.0, -0.3, -1e-4, 0.0, 1e-4, 0.3, 1.0, 3.0, 5.5, 20.0, 100.0])


def f32(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def _gelu_tanh(x: float) -> float:
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


CASES: list[tuple[str, int, dict[str, Any], Callable[[float], float]]] = [
    ("Relu", 6, {}, lambda x: max(x, 0.0)),
    ("LeakyRelu", 6, {}, lambda x: x if x >= 0 else 0.01 * x),
    ("LeakyRelu", 16, {"alpha": -0.5}, lambda x: x if x >= 0 else -0.5 * x),
    ("LeakyRelu", 6, {"alpha": 1.5}, lambda x: x if x >= 0 else 1.5 * x),
    ("ThresholdedRelu", 10, {}, lambda x: x if x > 1 else 0.0),
    ("ThresholdedRelu", 10, {"alpha": -2.0}, lambda x: x if x > -2 else 0.0),
    ("Elu", 6, {}, lambda x: x if x >= 0 else math.expm1(x)),
    ("Elu", 6, {"alpha": 0.5}, lambda x: x if x >= 0 else 0.5 * math.expm1(x)),
    ("Selu", 6, {}, lambda x: 1.0507009873554805 * (x if x > 0 else 1.6732632423543772 * math.expm1(x))),
    ("Selu", 6, {"alpha": 2.0, "gamma": 0.5}, lambda x: 0.5 * (x if x > 0 else 2 * math.expm1(x))),
    ("Celu", 12, {}, lambda x: x if x > 0 else math.expm1(x)),
    ("Celu", 12, {"alpha": 2.0}, lambda x: max(0.0, x) + min(0.0, 2 * math.expm1(x / 2))),
    ("Gelu", 20, {}, lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2)))),
    ("Gelu", 20, {"approximate": "tanh"}, _gelu_tanh),
    ("Sigmoid", 6, {}, _sigmoid),
    ("Swish", 24, {}, lambda x: x * _sigmoid(x)),
    ("Swish", 24, {"alpha": 0.5}, lambda x: x * _sigmoid(0.5 * x)),
    ("HardSigmoid", 6, {}, lambda x: max(0.0, min(1.0, 0.2 * x + 0.5))),
    ("HardSigmoid", 6, {"alpha": 0.5, "beta": 0.25}, lambda x: max(0.0, min(1.0, 0.5 * x + 0.25))),
    ("HardSwish", 14, {}, lambda x: x * max(0.0, min(1.0, x / 6 + 0.5))),
    ("Mish", 18, {}, lambda x: x * math.tanh(math.log1p(math.exp(x)))),
    ("Softplus", 1, {}, lambda x: math.log1p(math.exp(x))),
    ("Softsign", 1, {}, lambda x: x / (1 + abs(x))),
    ("Shrink", 9, {}, lambda x: x if abs(x) > 0.5 else 0.0),
    ("Shrink", 9, {"bias": 1.5, "lambd": 1.0}, lambda x: x + 1.5 if x < -1 else x - 1.5 if x > 1 else 0.0),
]
IDS = [f"{name}{'-' if options else ''}{'-'.join(map(str, options.values()))}" for name, _, options, _ in CASES]


@pytest.mark.parametrize(("op", "since", "options", "formula"), CASES, ids=IDS)
class TestOfOneElement:
    def right(self, formula: Any, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.asarray(np.vectorize(formula, otypes=[np.float64])(x.astype(np.float64)))

    @pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
    def test_formula(self, op: str, since: int, options: Any, formula: Any, dtype: str) -> None:
        if op == "Celu" and dtype != "float32":
            since = 28
        x = X.astype(dtype)
        rtol = {"float32": 2e-6, "float64": 1e-7 if options or op in ("LeakyRelu", "HardSigmoid", "Selu") else 1e-13}
        check(
            self.right(formula, x).astype(dtype),
            op,
            x,
            opset=max(since, 6),
            rtol=rtol.get(dtype, 2e-3),
            atol=1e-7,
            **options,
        )

    def test_many_elements_shapes_and_nan(self, op: str, since: int, options: Any, formula: Any) -> None:
        x = arrays(np.random.default_rng(0), (5, 70, 80))[0]
        check(self.right(formula, x).astype(np.float32), op, x, opset=max(since, 6), rtol=3e-6, atol=3e-7, **options)
        for shape in ((), (0, 2), (1, 1, 3)):
            some = np.full(shape, 0.75, np.float32)
            check(self.right(formula, some).astype(np.float32), op, some, opset=max(since, 6), **options)
        if op not in ("ThresholdedRelu", "Shrink"):
            check(f32(NAN, NAN), op, f32(NAN, NAN), opset=max(since, 6), **options)

    def test_newest_opset(self, op: str, since: int, options: Any, formula: Any) -> None:
        check(self.right(formula, X).astype(np.float32), op, X.astype(np.float32), rtol=2e-6, atol=1e-7, **options)


@pytest.mark.parametrize(
    ("op", "given", "right"),
    [
        ("Relu", [-INF, INF], [0, INF]),
        ("Sigmoid", [-INF, INF, -100, 1000], [0, 1, 3.783506e-44, 1]),
        ("Elu", [-INF, INF], [-1, INF]),
        ("Softplus", [-INF, INF, 1000], [0, INF, 1000]),
        ("Mish", [INF, 1000], [INF, 1000]),
        ("Gelu", [INF, -1000], [INF, 0]),
        ("HardSigmoid", [-INF, INF], [0, 1]),
        ("HardSwish", [-1000, INF], [0, INF]),
        ("ThresholdedRelu", [NAN, INF, 1], [0, INF, 0]),
        ("Shrink", [NAN, -INF, 0.5], [0, -INF, 0]),
        ("LeakyRelu", [-INF, INF], [-INF, INF]),
    ],
)
def test_ends(op: str, given: list[float], right: list[float]) -> None:
    check(f32(*right), op, f32(*given), opset=22)


def test_sigmoid_far_below_zero_is_not_zero() -> None:
    check(f32(2.0611537e-09), "Sigmoid", f32(-20), rtol=1e-6, atol=0)
    x = np.linspace(-87, 30, 5000, dtype=np.float32)
    check((1 / (1 + np.exp(-x.astype(np.float64)))).astype(np.float32), "Sigmoid", x, rtol=5e-7, atol=0)


def test_elu_near_zero_keeps_its_digits() -> None:
    check(f32(-1e-6, -3e-5), "Elu", f32(-1e-6, -3.00004500045e-05), rtol=1e-6, atol=0)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_relu_of_integers(dtype: str) -> None:
    check(np.array([0, 0, 7], dtype), "Relu", np.array([-3, 0, 7], dtype), opset=14)


class TestShrinkOfIntegers:
    @pytest.mark.parametrize(
        ("bias", "lambd"), [(0.0, 0.5), (1.0, 1.0), (1.5, 1.5), (-2.5, 0.0), (1.0, -1.5), (3.5, 2.0)]
    )
    def test_like_onnxruntime(self, bias: float, lambd: float) -> None:
        x = np.arange(-6, 7)
        for dtype in (np.int8, np.int32, np.int64):
            like_onnxruntime("Shrink", x.astype(dtype), bias=bias, lambd=lambd)
        like_onnxruntime("Shrink", x[x > 5].astype(np.uint8), bias=bias, lambd=lambd)

    def test_large_integers_are_exact(self) -> None:
        x = np.array([2**62 + 1, -(2**62) - 1, 1])
        check(np.array([2**62, -(2**62), 0]), "Shrink", x, bias=1.0, lambd=1.0)

    def test_limits_beyond_the_type(self) -> None:
        x = np.array([0, 100, 255], np.uint8)
        check(np.zeros(3, np.uint8), "Shrink", x, lambd=1e9)
        check(np.array([1, 101, 0], np.uint8), "Shrink", x, lambd=-1e9, bias=1.0)
        check(np.array([253, 0], np.uint8), "Shrink", np.array([2, 1], np.uint8), bias=5.0, lambd=1.5)


class TestPRelu:
    @pytest.mark.parametrize("opset", [7, 9, 16])
    @pytest.mark.parametrize("shape", [(), (1,), (4,), (3, 1), (2, 3, 4), (2, 1, 1)])
    def test_broadcast_to_x(self, shape: tuple[int, ...], opset: int) -> None:
        x, slope = arrays(np.random.default_rng(0), (2, 3, 4), shape)
        check(np.where(x < 0, x * slope, x), "PRelu", x, slope, opset=opset)

    def test_x_is_not_broadcast(self) -> None:
        refused("slope of shape (2, 1)", "PRelu", f32(-1, -2)[None], f32(1, 2)[:, None])
        refused("slope of shape (2, 1)", "PRelu", np.array([[-1, -2]]), np.array([[1], [2]]))

    def test_infinite_slope_and_integers(self) -> None:
        check(f32(-INF, 2, INF), "PRelu", f32(-1, 2, INF), f32(INF))
        check(np.array([-6, 2]), "PRelu", np.array([-3, 2]), np.array([2]), opset=9)
        check(np.array([3, 2], np.uint32), "PRelu", np.array([3, 2], np.uint32), np.array([9], np.uint32), opset=9)

    def test_before_opset_7_one_slope_per_channel(self) -> None:
        x, slope = arrays(np.random.default_rng(0), (2, 3, 4), (3,))
        check(np.where(x < 0, x * slope[:, None], x), "PRelu", x, slope, opset=6)
        check(np.where(x < 0, x * slope[0], x), "PRelu", x, slope[:1], opset=6)
        refused("one per channel", "PRelu", x, f32(1, 2, 3, 4), opset=6)


def test_gelu_knows_two_formulas() -> None:
    refused("must be none or tanh", "Gelu", f32(1), approximate="fast")


class TestSwiGLU:
    def test_gate(self) -> None:
        a, b = arrays(np.random.default_rng(0), (3, 4), (3, 4), dtype=np.float64)
        check(a / (1 + np.exp(-a)) * b, "SwiGLU", a, b)
        check(a / (1 + np.exp(-2 * a)) * b, "SwiGLU", a, b, alpha=2.0)

    def test_one_shape(self) -> None:
        refused("must have one shape", "SwiGLU", f32(1, 2), f32(1))


def _first(found: np.ndarray[Any, Any], axis: int) -> np.ndarray[Any, Any]:
    return np.asarray(found & (np.cumsum(found, axis=axis) == 1))


ROWS: dict[str, Any] = {
    "Softmax": lambda x, axis: np.exp(x) / np.sum(np.exp(x), axis=axis, keepdims=True),
    "LogSoftmax": lambda x, axis: x - np.log(np.sum(np.exp(x), axis=axis, keepdims=True)),
    "Hardmax": lambda x, axis: _first(x == x.max(axis=axis, keepdims=True), axis),
}


@pytest.mark.parametrize("op", ROWS)
class TestOfRows:
    @pytest.mark.parametrize("axis", [-3, -1, 0, 1, 2])
    @pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
    def test_along_one_axis(self, op: str, axis: int, dtype: str) -> None:
        x = arrays(np.random.default_rng(0), (3, 4, 5), dtype=dtype)[0]
        right = ROWS[op](x.astype(np.float64), axis).astype(dtype)
        check(right, op, x, axis=axis, opset=13, rtol=2e-3 if dtype == "float16" else 1e-5)
        if dtype == "float32":
            like_onnxruntime(op, x, axis=axis, opset=13)

    @pytest.mark.parametrize("shape", [(300, 7), (100, 60, 3), (2, 70000), (1200, 65), (1, 1), (4, 1)])
    def test_many_rows_and_long_rows(self, op: str, shape: tuple[int, ...]) -> None:
        x = arrays(np.random.default_rng(0), shape)[0] * 3
        check(ROWS[op](x.astype(np.float64), -1).astype(np.float32), op, x, atol=2e-6, rtol=1e-5)

    @pytest.mark.parametrize("opset", [6, 11])
    @pytest.mark.parametrize("axis", [0, 1, 2, None])
    def test_before_opset_13_all_axes_from_axis_on_form_a_row(self, op: str, axis: int | None, opset: int) -> None:
        x = arrays(np.random.default_rng(0), (2, 3, 4), dtype=np.float64)[0]
        start = 1 if axis is None else axis
        rows = x.reshape(math.prod(x.shape[:start]), -1)
        right = ROWS[op](rows, 1).reshape(x.shape)
        options = {} if axis is None else {"axis": axis}
        check(right.astype(np.float64), op, x, opset=opset, **options)
        like_onnxruntime(op, x.astype(np.float32), opset=11, **options)

    def test_default_axes(self, op: str) -> None:
        x = arrays(np.random.default_rng(1), (2, 3, 4))[0]
        check(run(op, x, axis=-1), op, x)
        check(run(op, x, axis=1, opset=11), op, x, opset=11)

    @pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 0, 4)])
    def test_empty(self, op: str, shape: tuple[int, ...]) -> None:
        check(np.zeros(shape, np.float32), op, np.zeros(shape, np.float32))
        check(np.zeros(shape, np.float32), op, np.zeros(shape, np.float32), opset=11)

    def test_axes_that_are_not_there(self, op: str) -> None:
        refused("axis 2 is not one of 2 axes", op, f32(1, 2)[None], axis=2)
        refused("axis 1 is not one of 1 axes", op, f32(1, 2), opset=11)
        refused("a scalar has none", op, np.float32(1).reshape(()))


def test_softmax_of_large_and_infinite_numbers() -> None:
    check(f32(0, 0.5, 0.5), "Softmax", f32(-1e30, 1e30, 1e30))
    check(f32(0, 1), "Softmax", f32(-INF, 3))
    check(f32(NAN, NAN), "Softmax", f32(-INF, -INF))
    check(f32(NAN, NAN), "Softmax", f32(INF, 0))
    check(f32(NAN, NAN), "Softmax", f32(NAN, 0))
    check(f32(-2.126928, -INF, -0.12692805), "LogSoftmax", f32(1, -INF, 3))
    check(f32(-2000, 0), "LogSoftmax", f32(-1000, 1000))


def test_hardmax_takes_the_first_of_equals_and_nan() -> None:
    check(f32(0, 1, 0, 0), "Hardmax", f32(1, 3, 3, 2))
    check(f32(0, 1, 0, 0), "Hardmax", f32(1, NAN, 3, 3))


class TestSoftmaxOfHalves:
    def test_float16_is_rounded_after_each_step(self) -> None:
        x = np.array([[0.3, 1.7, -2.2, 5.5, 5.4], [-65504, 65504, 0, 1, 65504]], np.float16)
        with np.errstate(over="ignore"):
            power = np.exp(x - x.max(axis=1, keepdims=True))
        expected = power / power.sum(axis=1, keepdims=True)
        assert (power.dtype, expected.dtype) == (np.float16, np.float16)
        check(expected, "Softmax", x, rtol=0, atol=0)
        check(expected, "Softmax", x, opset=11, rtol=0, atol=0)
        check(np.zeros((2, 0), np.float16), "Softmax", np.zeros((2, 0), np.float16))

    def test_bfloat16_is_rounded_once(self) -> None:
        x = np.linspace(-1, 1, 500).astype(ml_dtypes.bfloat16).reshape(1, -1)
        power = np.exp(x.astype(np.float64))
        expected = (power / power.sum()).astype(ml_dtypes.bfloat16)
        check(expected, "Softmax", x, rtol=2**-8, atol=0)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("alpha", [INF, -INF, NAN])
@pytest.mark.parametrize("op", ["Elu", "Selu", "LeakyRelu"])
def test_an_infinite_alpha_touches_nothing_above_zero(op: str, alpha: float, dtype: str) -> None:
    x = np.array([-INF, -2.0, 0.0, 1.5, INF, NAN]).astype(dtype)
    below = -alpha if op != "LeakyRelu" else alpha * -2.0
    at_zero = NAN if op == "Selu" else 0.0
    want = np.array([-alpha, below, at_zero, 1.5, INF, NAN]).astype(dtype)
    check(want, op, x, alpha=alpha, **({"gamma": 1.0} if op == "Selu" else {}))


@pytest.mark.parametrize("slope", [INF, -INF, NAN])
def test_an_infinite_slope_touches_nothing_above_zero(slope: float) -> None:
    check(f32(-slope, 0, 1.5, INF), "PRelu", f32(-2, 0, 1.5, INF), f32(slope))
