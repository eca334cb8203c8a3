"""Exact sums, means and products of elements against rationals."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from onemodel.backends import get_backend
from onemodel.backends.exact import extraction, rounding, sums
from tests.exact import cases
from tests.exact.rationals import DTYPES, FORMATS, narrow, rounded, same_bits, sum_of, sums_of

NUMPY = get_backend("numpy")
XP: Any = NUMPY.namespace("exact")
STRICT = get_backend("strict")
STRICT_XP: Any = STRICT.namespace("exact")


def _call(name: str, *args: Any, **options: Any) -> Any:
    with NUMPY.running():
        return getattr(XP, name)(*args, **options)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("case", cases.NAMES)
def test_every_kind_of_terms(case: str, name: str) -> None:
    """The terms are the products of the kind where the type holds them, and both factors as they are."""
    a, b = cases.operands(case, name)
    with np.errstate(all="ignore"):
        products = a[:, : b.shape[0]].astype(np.float64) * b.T[:1].astype(np.float64)
    for x in (a, b, narrow(products, name)):
        for axis in (0, 1, None):
            same_bits(np.asarray(_call("sum", x, axis=axis)), sums_of(x, axis))


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("axis", [None, (), 0, 1, -1, (0, 1), (0, 2), (1, 3), (0, 1, 2, 3)])
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (1, 1, 70, 3), (3, 0, 2, 1), (2, 70, 1, 2)])
def test_axes(shape: tuple[int, ...], axis: Any, name: str) -> None:
    x = np.random.default_rng(1).standard_normal(shape).astype(DTYPES[name])
    want = sums_of(x, axis) if axis != () else x
    same_bits(np.asarray(_call("sum", x, axis=axis)), want)
    kept = np.sum(x.astype(np.float64), axis=axis, keepdims=True).shape
    same_bits(np.asarray(_call("sum", x, axis=axis, keepdims=True)), want.reshape(kept))


@pytest.mark.parametrize("name", ["float32", "float64"])
@pytest.mark.parametrize("case", cases.NAMES)
def test_the_strict_namespace_gives_the_same_bits(case: str, name: str) -> None:
    for x in cases.operands(case, name):
        for function in ("sum", "prod", "cumulative_sum", "cumulative_prod"):
            with STRICT.running():
                got = STRICT.to_host(getattr(STRICT_XP, function)(STRICT.from_host(x), axis=1))
            same_bits(_canonical(got), _canonical(_call(function, x, axis=1)))


def _canonical(x: Any) -> Any:
    return np.where(np.isnan(x), np.asarray(np.nan, x.dtype), x)


@pytest.mark.parametrize("name", FORMATS)
def test_blocks_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(2).standard_normal((40, 150, 3)).astype(DTYPES[name])
    want = [np.asarray(_call("sum", x, axis=axis)) for axis in (0, 1, 2, (0, 1), None)]
    monkeypatch.setattr(sums, "_BLOCK", 50)
    for key, value in {"_BLOCK": 40, "_GATHERED": 90, "_SOME": 1}.items():
        monkeypatch.setattr(extraction, key, value)
    for axis, result in zip((0, 1, 2, (0, 1), None), want, strict=True):
        same_bits(np.asarray(_call("sum", x, axis=axis)), result)
    order = np.random.default_rng(3).permutation(150)
    same_bits(_call("sum", x[:, order], axis=1), want[1])
    same_bits(_call("sum", x[5:6], axis=1), want[1][5:6])


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("count", [32_769, 33_024])
def test_long_sums(count: int, name: str) -> None:
    """Of ordinary numbers, of ones that cancel but for the least, on a tie, and with the largest and infinite ones."""
    rng, half = np.random.default_rng(count), count // 2
    _, least, most = FORMATS[name]
    x = np.ldexp(rng.integers(-200, 200, (5, count)).astype(np.float64), rng.integers(-7, 1, (5, count)))
    x[1] = np.ldexp(x[1], rng.integers(max(least, -900) + 7, most - 9, count))
    x[1:4, half : 2 * half] = -x[1:4, :half]
    x[1:4, -1], x[2, -2] = 2.0**least, 0.0
    x[3, -2:] = 2.0 ** (most - 8), 2.0 ** (most - 8 - FORMATS[name][0])
    x[4, 5:9] = float(np.ldexp(1.0, most))
    x = narrow(x[:, rng.permutation(count)], name)
    want = sums_of(x, 1)
    with np.errstate(all="ignore"):
        same_bits(XP.sum(x, axis=1), want)
        same_bits(XP.sum(np.asfortranarray(x.T), axis=0), want)
        same_bits(XP.sum(np.ascontiguousarray(x.T), axis=0), want)
        x[2, 7] = np.inf
        assert XP.sum(x, axis=1)[2] == np.inf


def test_long_sums_take_little_memory() -> None:
    """A tie waits for a sum of its own."""
    x = np.full(1 << 21, 8, np.float32)
    x[0] = 9
    tracemalloc.start()
    try:
        assert XP.sum(x) == 2**24
        assert tracemalloc.get_traced_memory()[1] < x.nbytes / 2
    finally:
        tracemalloc.stop()


def test_sums_near_the_largest_float64() -> None:
    largest = float(np.finfo(np.float64).max)
    x = np.array(
        [
            [largest, largest, -largest, 2.0**-1074],
            [largest, 2.0**970, 0.0, 0.0],
            [largest, 2.0**969, 0.0, 0.0],
            [largest, -largest, 2.0**-1074, 2.0**-1074],
            [largest, largest, -largest, -largest],
            [-largest, -largest, 1.0, 1.0],
        ]
    )
    same_bits(_call("sum", x, axis=1), np.array([largest, np.inf, largest, 2.0**-1073, 0.0, -np.inf]))
    same_bits(_call("sum", np.ascontiguousarray(x.T), axis=0), _call("sum", x, axis=1))


def test_subnormal_sums() -> None:
    x = np.full((3, 5000), 2.0**-1074) * np.random.default_rng(4).integers(-(2**52), 2**52, (3, 5000))
    same_bits(_call("sum", x, axis=1), sums_of(x, 1))


def test_zeros_and_special_values() -> None:
    for dtype in DTYPES.values():
        x = np.array([[-0.0, -0.0], [0.0, -0.0], [np.inf, 1], [-np.inf, np.inf], [-np.nan, 1]]).astype(dtype)
        same_bits(_call("sum", x, axis=1), np.array([0.0, 0.0, np.inf, np.nan, np.nan]).astype(dtype))
        same_bits(_call("sum", x[:1, :1], axis=1), np.zeros(1, dtype))
        same_bits(_call("sum", np.zeros((2, 0), dtype), axis=1), np.zeros(2, dtype))


def test_other_types() -> None:
    assert _call("sum", np.array([200, 100], np.uint8), dtype=np.uint8) == 44
    assert _call("prod", np.array([2**31 - 1, 2], np.int32), dtype=np.int32) == -2
    assert _call("cumulative_sum", np.array([2**62, 2**62], np.int64)).tolist() == [2**62, -(2**63)]
    same_bits(_call("sum", np.array([1, 2**25 + 1]), dtype=np.float32), np.float32([2**25])[0:1].reshape(()))
    same_bits(np.asarray(_call("sum", np.float32([1, 2.0**-40]), dtype=np.float64)), np.float64(1 + 2.0**-40))
    with pytest.raises(TypeError, match="complex64 have no exact definition"):
        _call("sum", np.ones(2, np.complex64))
    with pytest.raises(TypeError, match="mean takes floats, not int64"):
        _call("mean", np.ones(2, np.int64))
    with pytest.raises(IndexError, match="axis 2 is out of range for 1 axes"):
        _call("sum", np.ones(2, np.float32), axis=2)


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from([np.float32, np.float64, np.float16]).flatmap(
        lambda dtype: arrays.arrays(dtype, arrays.array_shapes(min_dims=2, max_dims=2, max_side=9))
    )
)
def test_any_numbers(x: Any) -> None:
    same_bits(_call("sum", x, axis=0), sums_of(x, 0))


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(list(FORMATS)), st.data())
def test_sums_on_and_next_to_rounding_boundaries(name: str, data: st.DataObject) -> None:
    bits, least, _ = FORMATS[name]
    whole = float(data.draw(st.integers(2 ** (bits - 1), 2**bits - 1)))
    half = data.draw(st.sampled_from([-0.5, 0.5, 0.0]))
    tiny = data.draw(st.sampled_from([-1.0, 0.0, 1.0])) * 2.0 ** data.draw(st.integers(least, -1))
    pairs = [2.0 ** data.draw(st.integers(least, bits)) for _ in range(data.draw(st.integers(0, 4)))]
    terms = data.draw(st.permutations([whole, half, tiny, *pairs, *(-x for x in pairs)]))
    want = narrow(np.float64(sum_of([(term,) for term in terms], name)), name)
    x = narrow(np.array(terms), name)
    same_bits(np.asarray(_call("sum", x)), want)
    same_bits(_call("sum", np.tile(x[:, None], (1, 30)), axis=0), np.broadcast_to(want, 30))
    same_bits(_call("sum", np.tile(x, (3, 20)), axis=1), sums_of(np.tile(x, (3, 20)), 1))


@pytest.mark.parametrize("odd", [1, 2])
def test_short_sums_just_beyond_what_float64_holds(odd: int) -> None:
    """A tie and 2**-35, which float64 loses on the way, hidden in two terms of medium size."""
    terms = [2.0**23 + odd, 0.5, 2.0**-12 * (1 + 2.0**-23), -(2.0**-12)]
    for order in itertools.permutations(terms):
        for sign in (1, -1):
            x = np.float32(order) * np.float32(sign)
            same_bits(np.asarray(_call("sum", x)), np.float32(sign * (2**23 + odd + 1)))
            same_bits(_call("sum", np.tile(x, (5, 1)), axis=1), np.full(5, sign * (2**23 + odd + 1), np.float32))


def test_a_zero_is_positive_and_what_underflows_keeps_its_sign() -> None:
    own = NUMPY.namespace("fast")
    zero = np.zeros(3)
    for dtype in (np.float32, np.float64, np.float16):
        same_bits(rounding.rounded(-zero, -zero, dtype, own), np.zeros(3, dtype))
    small = np.array([-1e-60, 1e-60])
    same_bits(rounding.rounded(small, np.zeros(2), np.float32, own), np.float32([-0.0, 0.0]))


# Means, products, running sums


@pytest.mark.parametrize("name", FORMATS)
def test_a_mean_is_the_rounded_sum_over_the_count(name: str) -> None:
    x = np.random.default_rng(5).standard_normal((4, 7, 3)).astype(DTYPES[name])
    for axis, count in ((1, 7), ((0, 2), 12), (None, 84)):
        total = sums_of(x, axis)
        quotients = [rounded(Fraction(value) / count, name) for value in total.astype(np.float64).reshape(-1).tolist()]
        want = narrow(np.array(quotients, np.float64).reshape(total.shape), name)
        same_bits(np.asarray(_call("mean", x, axis=axis)), want)
    assert np.isnan(_call("mean", x[:0]))
    assert _call("mean", x, axis=1, keepdims=True).shape == (4, 1, 3)


def _folded(x: Any, step: Callable[[Any, Any], Any]) -> Any:
    values = list(x)
    while len(values) > 1:
        half = -(-len(values) // 2)
        values = [step(values[i], values[i + half]) if i + half < len(values) else values[i] for i in range(half)]
    return values[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 13])
def test_products_are_folded(count: int, dtype: Any) -> None:
    x = np.random.default_rng(count).standard_normal((count, 6)).astype(dtype)
    want = np.array([_folded(column, lambda a, b: a * b) for column in x.T], dtype)
    same_bits(_call("prod", x, axis=0), want)
    same_bits(_call("prod", np.ascontiguousarray(x.T), axis=1, keepdims=True), want[:, None])


def test_products_of_nothing_and_of_special_values() -> None:
    same_bits(_call("prod", np.zeros((2, 0), np.float32), axis=1), np.ones(2, np.float32))
    same_bits(np.asarray(_call("prod", np.float32([-0.0]))), np.float32(-0.0))
    same_bits(np.asarray(_call("prod", np.float32([3e38, 3e38, -1]))), np.float32(-np.inf))


@pytest.mark.parametrize(("function", "step"), [("cumulative_sum", "__add__"), ("cumulative_prod", "__mul__")])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_running_sums_and_products_go_from_the_left(function: str, step: str, dtype: Any) -> None:
    x = (np.random.default_rng(6).standard_normal((3, 200)) * 1.5).astype(dtype)
    want = x.copy()
    with np.errstate(all="ignore"):
        for i in range(1, 200):
            want[:, i] = getattr(want[:, i - 1], step)(x[:, i])
    same_bits(_call(function, x, axis=1), want)
    same_bits(_call(function, x.T, axis=0), want.T)
    same_bits(_call(function, x[0]), want[0])
    first = np.full((3, 1), 0 if function == "cumulative_sum" else 1, dtype)
    same_bits(_call(function, x, axis=-1, include_initial=True), np.concatenate([first, want], axis=1))


def test_running_sums_need_an_axis() -> None:
    with pytest.raises(ValueError, match="cumulative_sum of an array of 2 axes needs an axis"):
        _call("cumulative_sum", np.ones((2, 2), np.float32))
