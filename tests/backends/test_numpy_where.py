"""NumPy's native ``where`` against NumPy's own."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from onemodel.backends import get_backend

COUNT = 40_000


def _array(dtype: Any) -> Any:
    bits = np.random.default_rng(0).integers(0, 1 << 62, COUNT).astype(f"u{np.dtype(dtype).itemsize}")
    return bits.view(dtype) if np.dtype(dtype) != bool else bits % 2 == 1


@pytest.mark.parametrize("mode", ["fast", "exact"])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint32, np.float64, np.float16, ml_dtypes.bfloat16, bool])
def test_the_same_bits(dtype: Any, mode: str) -> None:
    where: Any = get_backend("numpy").namespace(mode).where
    a, condition = _array(dtype), np.random.default_rng(1).integers(0, 2, COUNT) == 1
    b, zero = a[::-1].copy(), np.zeros((), dtype)
    shape = (100, 400)
    grid = condition.reshape(shape)
    for given in (
        (condition, a, b),
        (condition, a, zero),
        (condition, zero, b),
        (condition, zero, zero),
        (grid, a.reshape(shape), b.reshape(shape)),
        (grid, a.reshape(shape), b[:400]),
        (grid.T, a.reshape(shape).T, b.reshape(shape).T),
        (grid[:1, :], a.reshape(shape), b.reshape(shape)),
        (condition, a[::-1], b),
        (condition[:10], a[:10], b[:10]),
        (np.ones(math.prod(shape), bool), a, b),
    ):
        got, want = where(*given), np.where(*given)
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        assert got.tobytes() == want.tobytes()


def test_other_operands_are_numpy_s_own() -> None:
    where: Any = get_backend("numpy").namespace("fast").where
    x = np.arange(COUNT, dtype=np.float32)
    assert where(x > 5, x, np.zeros(COUNT)).dtype == np.float64
    assert where(x > 5, x, 0)[:7].tolist() == [0] * 6 + [6]
    assert where(True, x, -x)[3] == 3
