"""What the two comparisons accept and refuse."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.conformance.compare import compare_as_suite, compare_strictly

RTOL, ATOL = 1e-3, 1e-7
NAN, INF = float("nan"), float("inf")


def _float(*values: float) -> np.ndarray[Any, Any]:
    return np.asarray(values, dtype=np.float32)


def _narrow(dtype: Any, *values: float) -> np.ndarray[Any, Any]:
    return np.asarray(values, dtype=np.float32).astype(dtype)


REFUSED = {
    "integer off by one": (np.asarray([10_000]), np.asarray([10_001]), "expected np.int64\\(10000\\)"),
    "int64 beyond double": (np.asarray([2**53]), np.asarray([2**53 + 1]), "1 of 1 values"),
    "bool": (np.asarray([True]), np.asarray([False]), "values differ"),
    "string": (np.asarray(["a"], dtype=object), np.asarray(["b"], dtype=object), "values differ"),
    "bytes for strings": (np.asarray(["a"], dtype=object), np.asarray([b"a"], dtype=object), "expected strings"),
    "dtype": (_float(1), _float(1).astype(np.float64), "expected dtype float32, got float64"),
    "shape": (_float(1), _float(1).reshape(1, 1), "expected shape \\(1,\\), got \\(1, 1\\)"),
    "scalar": (np.asarray(1.0), np.float64(1.0), "expected a NumPy array"),
    "short sequence": ([_float(1), _float(2)], [_float(1)], "expected 2 items, got 1"),
    "long sequence": ([_float(1)], [_float(1), _float(2)], "expected 1 items, got 2"),
    "sequence item": ([_float(1)], [_float(2)], "outputs\\[0\\]: 1 of 1"),
    "array for sequence": ([_float(1)], _float(1), "expected a sequence"),
    "value for None": (None, _float(1), "expected None"),
    "None for value": (_float(1), None, "got None"),
    "missing NaN": (_float(NAN), _float(1), "values differ"),
    "NaN": (_float(1), _float(NAN), "values differ"),
    "sign of infinity": (_float(INF), _float(-INF), "values differ"),
    "infinity for a number": (_float(3e38), _float(INF), "values differ"),
    "beyond rtol": (_float(1), _float(1.0011), "rtol 0.001"),
    "beyond atol": (_float(0), _float(2e-7), "atol 1e-07"),
    "bfloat16 two units": (_narrow(ml_dtypes.bfloat16, 1), _narrow(ml_dtypes.bfloat16, 1.015625), "rtol 0.0078125"),
    "float8 one unit": (_narrow(ml_dtypes.float8_e4m3fn, 448), _narrow(ml_dtypes.float8_e4m3fn, 416), "values differ"),
    "float8 NaN": (_narrow(ml_dtypes.float8_e5m2, NAN), _narrow(ml_dtypes.float8_e5m2, 1), "values differ"),
    "int4": (_narrow(ml_dtypes.int4, 3), _narrow(ml_dtypes.int4, 4), "values differ"),
}

ACCEPTED = {
    "equal": (_float(1, NAN, INF, -INF), _float(1, NAN, INF, -INF)),
    "within rtol": (_float(1), _float(1.0009)),
    "sign of zero": (_float(0.0), _float(-0.0)),
    "empty": (np.zeros((0, 3)), np.zeros((0, 3))),
    "strings": (np.asarray(["a", ""], dtype=object), np.asarray(["a", ""], dtype=object)),
    "None": ([None], [None]),
    "nested": ([[_float(1)], []], [[_float(1)], []]),
    "bfloat16 one unit": (_narrow(ml_dtypes.bfloat16, 1), _narrow(ml_dtypes.bfloat16, 1.0078125)),
    "float8 NaN": (_narrow(ml_dtypes.float8_e5m2, NAN, 2), _narrow(ml_dtypes.float8_e5m2, NAN, 2)),
    "complex": (np.asarray([1 + 1j]), np.asarray([1.0001 + 1j])),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    expected, actual, message = REFUSED[name]
    with pytest.raises(AssertionError, match=message):
        compare_strictly(expected, actual, RTOL, ATOL)


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name: str) -> None:
    expected, actual = ACCEPTED[name]
    compare_strictly(expected, actual, RTOL, ATOL)


def test_bfloat16_rounded_on_the_way() -> None:
    one, two, three = (_narrow(ml_dtypes.bfloat16, value) for value in (1, 1.015625, 1.0234375))
    compare_strictly(one, two, RTOL, ATOL, bfloat16_units=2)
    with pytest.raises(AssertionError, match=r"rtol 0\.015625"):
        compare_strictly(one, three, RTOL, ATOL, bfloat16_units=2)


def test_suite_is_laxer() -> None:
    """The reasons for a second comparison: the suite's lets a short sequence and an inexact integer pass."""
    compare_as_suite([[_float(1), _float(2)]], [[_float(1)]], RTOL, ATOL)
    compare_as_suite([np.asarray([10_000])], [np.asarray([10_001])], RTOL, ATOL)


def test_suite_refuses_a_wrong_float() -> None:
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        compare_as_suite([_float(1)], [_float(1.01)], RTOL, ATOL)
