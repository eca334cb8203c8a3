"""Extremes: -0 below +0, NaN from NaN; and orders, in which equal ones keep theirs."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from onemodel.backends import get_backend
from onemodel.backends.exact.rounding import one_nan
from tests.exact.rationals import DTYPES, same_bits

VALUES = [math.nan, -math.inf, -1.5, -1e-7, -0.0, 0.0, 1e-7, 1.5, math.inf]
PATHS = ["numpy", "strict"]


def _call(path: str, name: str, *args: Any, **options: Any) -> Any:
    backend = get_backend(path)
    with backend.running():
        args = tuple(backend.from_host(arg) if isinstance(arg, np.ndarray) else arg for arg in args)
        result = getattr(backend.namespace("exact"), name)(*args, **options)
    return tuple(map(backend.to_host, result)) if isinstance(result, tuple) else backend.to_host(result)


def _types(path: str) -> list[str]:
    return [name for name in DTYPES if path == "numpy" or name in ("float32", "float64")]


def _key(x: float) -> tuple[float, float]:
    return x, math.copysign(1, x)


def _largest(values: Any) -> float:
    return math.nan if any(map(math.isnan, values)) else max(values, key=_key)


def _smallest(values: Any) -> float:
    return math.nan if any(map(math.isnan, values)) else min(values, key=_key)


def _canonical(x: Any) -> Any:
    return np.where(np.isnan(x), np.asarray(np.nan, x.dtype), x)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("name", "measure"), [("maximum", _largest), ("minimum", _smallest)])
def test_pairs(path: str, name: str, measure: Any) -> None:
    pairs = list(itertools.product(VALUES, VALUES))
    for dtype in map(DTYPES.get, _types(path)):
        a, b = (np.array(column).astype(dtype) for column in zip(*pairs, strict=True))
        want = np.array([measure(pair) for pair in pairs]).astype(dtype)
        same_bits(_canonical(_call(path, name, a, b)), want)
        for value in VALUES:
            limit = np.array(value).astype(dtype)
            want = np.array([measure((x, value)) for x in VALUES]).astype(dtype)
            x = np.array(VALUES).astype(dtype)
            same_bits(_canonical(_call(path, name, x, limit)), want)
            same_bits(_canonical(_call(path, name, limit, x)), want)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("name", "measure"), [("max", _largest), ("min", _smallest)])
def test_along_axes(path: str, name: str, measure: Any) -> None:
    triples = np.array(list(itertools.product(VALUES, repeat=3)))
    want = np.array([measure(triple) for triple in triples.tolist()])
    for dtype in map(DTYPES.get, _types(path)):
        x = triples.astype(dtype)
        same_bits(_canonical(_call(path, name, x, axis=1)), want.astype(dtype))
        same_bits(_canonical(_call(path, name, np.ascontiguousarray(x.T), axis=0)), want.astype(dtype))
        same_bits(_canonical(_call(path, name, x, axis=1, keepdims=True)), want.astype(dtype)[:, None])
        numbers = np.array([value for value in VALUES if not math.isnan(value)]).astype(dtype)
        same_bits(_call(path, name, numbers), np.array(measure(numbers.tolist())).astype(dtype))


@pytest.mark.parametrize("path", PATHS)
def test_clip(path: str) -> None:
    for dtype in map(DTYPES.get, _types(path)):
        x = np.array(VALUES).astype(dtype)
        for low, high in itertools.product(VALUES, VALUES):
            limits = [np.array(value).astype(dtype) for value in (low, high)]
            want = np.array([_smallest((_largest((value, low)), high)) for value in VALUES]).astype(dtype)
            same_bits(_canonical(_call(path, "clip", x, *limits)), want)
    some = np.array([-2, -0.0, 3], np.float32)
    same_bits(_call(path, "clip", some, 0.0, 1.0), np.float32([0, 0, 1]))
    same_bits(_call(path, "clip", some, max=0.0), np.float32([-2, -0.0, 0]))
    same_bits(_call(path, "clip", some), some)


@pytest.mark.parametrize("path", PATHS)
def test_integers_and_booleans_are_the_librarys_own(path: str) -> None:
    x = np.array([3, -7, 0], np.int8)
    assert _call(path, "maximum", x, np.array(1, np.int8)).tolist() == [3, 1, 1]
    assert _call(path, "minimum", x, np.array(1, np.int8)).tolist() == [1, -7, 0]
    assert (int(_call(path, "max", x)), int(_call(path, "min", x))) == (3, -7)
    assert _call(path, "clip", x, -1, 2).tolist() == [2, -1, 0]
    assert _call(path, "maximum", 1, x).tolist() == [3, 1, 1]
    assert _call(path, "sort", x).tolist() == [-7, 0, 3]


@pytest.mark.parametrize("path", PATHS)
def test_sort_keeps_the_order_of_zeros(path: str) -> None:
    x = np.float32([0.0, math.nan, -0.0, 2, 0.0, -1, -0.0])
    same_bits(_call(path, "sort", x), np.float32([-1, 0.0, -0.0, 0.0, -0.0, 2, math.nan]))
    same_bits(_call(path, "sort", x, descending=True)[-5:], np.float32([0.0, -0.0, 0.0, -0.0, -1]))


@pytest.mark.parametrize("path", PATHS)
def test_unique(path: str) -> None:
    x = np.float32([[3, -0.0, math.nan], [0.0, 3, math.nan]])
    values, indices, inverse, counts = _call(path, "unique_all", x)
    same_bits(values, np.float32([-0.0, 3, math.nan, math.nan]))
    assert indices.tolist() == [1, 0, 2, 5]
    assert inverse.tolist() == [[1, 0, 2], [0, 1, 3]]
    assert counts.tolist() == [2, 2, 1, 1]
    same_bits(_call(path, "unique_values", x), values)
    assert [part.tolist() for part in _call(path, "unique_counts", x)[1:]] == [[2, 2, 1, 1]]
    assert [part.tolist() for part in _call(path, "unique_inverse", x)[1:]] == [[[1, 0, 2], [0, 1, 3]]]
    assert [part.tolist() for part in _call(path, "unique_all", x[:0])] == [[], [], [], []]


def test_one_nan() -> None:
    own = get_backend("numpy").namespace("fast")
    for dtype in DTYPES.values():
        x = np.array([-math.nan, 1, -0.0]).astype(dtype)
        bits = x.view(f"u{x.itemsize}").copy()
        bits[0] |= 5
        same_bits(one_nan(bits.view(dtype), xp=own), np.array([math.nan, 1, -0.0]).astype(dtype))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("limit", [0.0, -0.0, 1.0, math.nan])
@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_one_number_is_as_good_as_many(name: str, limit: float, path: str) -> None:
    own = get_backend("numpy").namespace("fast")
    x = np.float32([0.0, -0.0, 1, -1, np.nan, np.inf, -np.inf, 1e-45])
    many, one = np.full(x.shape, limit, np.float32), np.asarray(limit, np.float32)
    want = one_nan(np.asarray(_call(path, name, x, many)), xp=own)
    for pair in ((x, one), (one, x), (many, x)):
        same_bits(one_nan(np.asarray(_call(path, name, *pair)), xp=own), want)
