"""Remainders against rationals."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from onemodel.backends import get_backend
from tests.exact.rationals import DTYPES, narrow, rounded, same_bits


def _want(a: float, b: float, name: str) -> float:
    if math.isnan(a) or math.isnan(b) or math.isinf(a) or b == 0:
        return math.nan
    if math.isinf(b):
        rest = Fraction(a)
        return b if rest and (rest < 0) != (b < 0) else math.copysign(a, b) if not rest else a
    x, y = Fraction(a), Fraction(b)
    rest = abs(x) % abs(y) * (1 if x > 0 else -1)
    if rest == 0:
        return math.copysign(0.0, b)
    return rounded(rest + y if (rest < 0) != (y < 0) else rest, name)


@pytest.mark.parametrize(
    ("path", "name"), [*(("numpy", name) for name in DTYPES), ("strict", "float32"), ("strict", "float64")]
)
def test_remainders(path: str, name: str) -> None:
    rng = np.random.default_rng(7)
    a = rng.standard_normal((40, 1)) * np.exp2(rng.integers(-12, 14, (40, 1)))
    b = rng.standard_normal((1, 40)) * np.exp2(rng.integers(-12, 14, (1, 40)))
    a[:5, 0] = b[0, :5] = [0.0, -0.0, math.nan, math.inf, -math.inf]
    x, y = a.astype(DTYPES[name]), b.astype(DTYPES[name])
    backend = get_backend(path)
    with backend.running():
        got: Any = backend.to_host(backend.namespace("exact").remainder(backend.from_host(x), backend.from_host(y)))
    values = [[_want(i, j, name) for j in y[0].astype(float).tolist()] for i in x[:, 0].astype(float).tolist()]
    got = np.where(np.isnan(got), np.asarray(np.nan, got.dtype), got)
    same_bits(got, narrow(np.array(values), name))


def test_integers_are_the_librarys_own() -> None:
    xp = get_backend("numpy").namespace("exact")
    assert xp.remainder(np.array([-7, 7]), np.array([3, -3])).tolist() == [2, -2]
