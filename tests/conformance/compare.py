"""Two comparisons of a case's outputs: the suite's own, and a stricter one.

The suite's accepts a sequence that is too short and integers that are off by a thousandth. The stricter one asks for:

- as many outputs and sequence items as expected, None exactly where None is expected;
- NumPy arrays, never scalars, of the expected shape and dtype;
- equal integers, booleans and strings, and equal values of the types of 8 bits and below;
- NaN and each infinity exactly where expected;
- floats within the suite's tolerances for the case; for bfloat16 one unit in the last place (2**-7), or two where
  the operator has a function body, through which values are rounded many times.

Neither tells 0.0 from -0.0: several definitions in the suite leave the sign of a zero to the order of their operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx.backend.test.runner import Runner

BFLOAT16_ULP = 2.0**-7


def compare_as_suite(expected: Sequence[Any], actual: Sequence[Any], rtol: float, atol: float) -> None:
    """The suite's own comparison, by onnx's own code. Raises AssertionError."""
    Runner.assert_similar_outputs(expected, actual, rtol, atol)


def compare_strictly(
    expected: Any, actual: Any, rtol: float, atol: float, where: str = "outputs", bfloat16_units: int = 1
) -> None:
    """The stricter comparison of this module's docstring.

    Args:
        expected: what the suite expects: an array, a sequence of such, or None.
        actual: what came.
        rtol: the case's tolerance, as a part of the value expected.
        atol: the case's absolute tolerance.
        where: what the message calls the value.
        bfloat16_units: units in the last place that are allowed to bfloat16.

    Raises:
        AssertionError: they differ.
    """
    if expected is None or actual is None:
        if expected is not actual:
            raise AssertionError(f"{where}: expected {_brief(expected)}, got {_brief(actual)}")
    elif isinstance(expected, (list, tuple)):
        if not isinstance(actual, (list, tuple)):
            raise AssertionError(f"{where}: expected a sequence, got {_brief(actual)}")
        if len(expected) != len(actual):
            raise AssertionError(f"{where}: expected {len(expected)} items, got {len(actual)}")
        for index, (one, other) in enumerate(zip(expected, actual, strict=True)):
            compare_strictly(one, other, rtol, atol, f"{where}[{index}]", bfloat16_units)
    else:
        expected = np.asarray(expected)
        if expected.dtype.name == "bfloat16":
            rtol = max(rtol, bfloat16_units * BFLOAT16_ULP)
        _compare_arrays(expected, actual, rtol, atol, where)


def _compare_arrays(expected: np.ndarray[Any, Any], actual: Any, rtol: float, atol: float, where: str) -> None:
    if not isinstance(actual, np.ndarray):
        raise AssertionError(f"{where}: expected a NumPy array, got {_brief(actual)}")
    if actual.dtype != expected.dtype:
        raise AssertionError(f"{where}: expected dtype {expected.dtype}, got {actual.dtype}")
    if actual.shape != expected.shape:
        raise AssertionError(f"{where}: expected shape {expected.shape}, got {actual.shape}")
    if expected.dtype == object:
        if odd := {type(item).__name__ for item in actual.flat if type(item) is not str}:
            raise AssertionError(f"{where}: expected strings, got {sorted(odd)}")
        wrong = np.asarray(expected != actual, dtype=bool)
    elif expected.dtype.kind in "biu":
        wrong = np.asarray(expected != actual)
    elif expected.dtype.itemsize == 1:  # of ml_dtypes: float32 holds all of their values
        one, other = expected.astype(np.float32), actual.astype(np.float32)
        wrong = (one != other) & ~(np.isnan(one) & np.isnan(other))
    else:
        wrong = _float_mismatches(expected, actual, rtol, atol)
    if wrong.any():
        count = int(np.count_nonzero(wrong))
        index = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise AssertionError(
            f"{where}: {count} of {wrong.size} values differ, at index {index} expected {expected[index]!r}, "
            f"got {actual[index]!r} (dtype {expected.dtype}, rtol {rtol:g}, atol {atol:g})"
        )


def _float_mismatches(expected: Any, actual: Any, rtol: float, atol: float) -> np.ndarray[Any, np.dtype[np.bool_]]:
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    one, other = expected.astype(wide), actual.astype(wide)
    finite = np.isfinite(one) & np.isfinite(other)
    with np.errstate(invalid="ignore"):
        near = np.abs(one - other) <= atol + rtol * np.abs(one)
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    return np.asarray(~np.where(finite, near, same))


def _brief(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, (list, tuple)):
        return f"a {type(value).__name__} of {len(value)}"
    shape = getattr(value, "shape", None)
    return f"a {type(value).__name__}" + (f" of shape {shape}" if shape is not None else "")
