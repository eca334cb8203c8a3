"""Elementary functions: against Python's math, which rounds to float64's last place."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.ops.harness import check, like_onnxruntime, run

INF, NAN = np.inf, np.nan
LINE = [-30.0, -9.5, -3.2, -1.0, -0.75, -1e-3, -1e-9, 0.0, 1e-9, 1e-3, 0.5, 1.0, 1.5, 2.0, 4.0, 10.0, 33.3]
UNIT = [-1.0, -0.999, -0.5, -1e-5, 0.0, 1e-9, 0.25, 0.75, 0.999, 1.0]
ABOVE_ONE = [1.0, 1.0001, 1.5, 2.0, 10.0, 1e5, 1e30]
POSITIVE = [1e-30, 1e-3, 0.5, 0.999, 1.0, 1.001, 2.0, 1e5, 1e30]
FUNCTIONS: list[tuple[str, int, Callable[[float], float], list[float]]] = [
    ("Exp", 6, math.exp, LINE),
    ("Log", 6, math.log, POSITIVE),
    ("Erf", 9, math.erf, LINE),
    ("Sin", 7, math.sin, LINE),
    ("Cos", 7, math.cos, LINE),
    ("Tan", 7, math.tan, LINE),
    ("Asin", 7, math.asin, UNIT),
    ("Acos", 7, math.acos, UNIT),
    ("Atan", 7, math.atan, LINE),
    ("Sinh", 9, math.sinh, LINE),
    ("Cosh", 9, math.cosh, LINE),
    ("Tanh", 6, math.tanh, LINE),
    ("Asinh", 9, math.asinh, LINE),
    ("Acosh", 9, math.acosh, ABOVE_ONE),
    ("Atanh", 9, math.atanh, UNIT[1:-1]),
]


@pytest.mark.parametrize(("op", "opset", "function", "values"), FUNCTIONS, ids=[case[0] for case in FUNCTIONS])
class TestValues:
    @pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
    def test_against_math(self, op: str, opset: int, function: Any, values: list[float], dtype: str) -> None:
        if dtype in ("float16", "bfloat16"):
            values = [v for v in values if 1e-3 <= abs(v) <= (0.75 if op == "Atanh" else 10)]
        x = np.array(values).astype(getattr(ml_dtypes, dtype, dtype))
        right = np.vectorize(function, otypes=[np.float64])(x.astype(np.float64)).astype(x.dtype)
        rtol = {"float32": 2e-6, "float64": 1e-14, "float16": 1e-3, "bfloat16": 1e-2}[dtype]
        newest = 22 if dtype == "bfloat16" and op not in ("Exp", "Log", "Erf", "Tanh") else 13
        check(right, op, x, rtol=rtol, atol=1e-7, opset=max(opset, newest if dtype == "bfloat16" else opset))

    def test_shapes(self, op: str, opset: int, function: Any, values: list[float]) -> None:
        for shape in ((), (0, 3), (2, 1, 2)):
            x = np.full(shape, values[-2], np.float32)
            like_onnxruntime(op, x, opset=max(opset, 13))

    def test_nan(self, op: str, opset: int, function: Any, values: list[float]) -> None:
        check(np.array([NAN], np.float32), op, np.array([NAN], np.float32), opset=opset)


@pytest.mark.parametrize(
    ("op", "given", "right"),
    [
        ("Exp", [-INF, INF, 89, -104], [0, INF, INF, 0]),
        ("Log", [0, -1, INF], [-INF, NAN, INF]),
        ("Erf", [-INF, INF, 5, -5], [-1, 1, 1, -1]),
        ("Sin", [INF], [NAN]),
        ("Tan", [-INF], [NAN]),
        ("Asin", [2], [NAN]),
        ("Acos", [-1.5], [NAN]),
        ("Atan", [-INF, INF], [-math.pi / 2, math.pi / 2]),
        ("Sinh", [-INF, 100], [-INF, INF]),
        ("Tanh", [-INF, INF, 20], [-1, 1, 1]),
        ("Asinh", [-INF, -1e20], [-INF, -46.744849]),
        ("Acosh", [0.5, INF], [NAN, INF]),
        ("Atanh", [-1, 1, 2], [-INF, INF, NAN]),
    ],
)
def test_ends(op: str, given: list[float], right: list[float]) -> None:
    check(np.array(right, np.float32), op, np.array(given, np.float32))


def test_large_angles() -> None:
    x = np.array([1e5, 3.2e7, 1e22])
    check(np.array([math.sin(v) for v in x]), "Sin", x, rtol=1e-12, atol=0)


class TestErf:
    X = np.concatenate([np.linspace(-6.5, 6.5, 40001), np.logspace(-300, 0, 2000), -np.logspace(-40, 1, 2000)])

    def test_float64_to_the_last_places(self) -> None:
        right = np.array([math.erf(v) for v in self.X])
        check(right, "Erf", self.X, rtol=5e-16, atol=0)

    def test_float32(self) -> None:
        x = self.X[np.abs(self.X) > 1e-37].astype(np.float32)
        right = np.array([math.erf(v) for v in x.astype(np.float64)])
        got = run("Erf", x, rtol=3e-7, atol=0)
        assert np.max(np.abs(got - right) / np.spacing(np.abs(right).astype(np.float32))) < 4
        assert np.max(np.abs(got)) == 1

    def test_signed_zero_and_small_numbers(self) -> None:
        x = np.array([-0.0, 0.0, 1e-40, -1e-40], np.float32)
        got = run("Erf", x)
        assert np.signbit(got).tolist() == [True, False, False, True]
        np.testing.assert_allclose(got, x * 1.1283792, rtol=1e-4)

    def test_integers_at_opset_9(self) -> None:
        check(np.array([0, 0, 1, -1]), "Erf", np.array([1, -5, 6, -7]), opset=9)
        check(np.array([0, 0, 1], np.uint8), "Erf", np.array([0, 1, 200], np.uint8), opset=9)

    def test_many_elements_not_contiguous(self) -> None:
        x = np.random.default_rng(0).standard_normal((150, 300)).astype(np.float32)
        right = np.vectorize(math.erf)(x.astype(np.float64)).astype(np.float32)
        check(right, "Erf", x, rtol=3e-7, atol=0)
