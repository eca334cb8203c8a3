"""The suite's inverse transforms in exact mode, held against the values of the formula.

onnx computes a case's expected values when it is loaded, with the NumPy that is installed. Up to version 1.26 NumPy's
transforms of complex64 were made in double precision, as the data in the wheels of ONNX up to 1.16 still show; since
2.0 they are made in single precision, and their rounding errors are expected of everyone.
"""

from __future__ import annotations

import numpy as np
import pytest

import onemodel
from tests.conformance.cases import load_cases
from tests.conformance.compare import compare_as_suite, compare_strictly
from tests.conformance.report import NOISE


@pytest.mark.parametrize("name", NOISE)
def test_exact_mode_is_within_the_tolerance_of_the_formula(name: str) -> None:
    """The inverse transform of 10 n + c over n from 0 to 9 is 45 + c at 0, and -5 - 5 i cot(pi k / 10) at k."""
    case = load_cases()[name]
    (data,) = case.data_sets()
    x = data.feeds["x"]
    np.testing.assert_array_equal(x, np.stack([np.arange(100), np.zeros(100)], -1).reshape(1, 10, 10, 2))
    expected = np.full(x.shape, -5, np.float32)
    k = np.arange(1, 10)
    expected[0, 1:, :, 1] = (-5 * np.tan(np.pi / 2 - np.pi * k / 10))[:, None]
    expected[0, 0] = np.stack([45 + np.arange(10), np.zeros(10)], -1)
    made = onemodel.Session(case.model, mode="exact").run(None, data.feeds)
    compare_as_suite([expected], made, case.rtol, case.atol)
    compare_strictly([expected], made, case.rtol, case.atol)
    np.testing.assert_array_equal(made[0][0, 5, :, 1], 0)  # where NumPy 2 has 2e-7
