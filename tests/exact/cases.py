"""Operands that are hard to sum and to multiply, of every type of floats; drawn by seeded generators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.exact.rationals import DTYPES, FORMATS, Array

Pair = tuple[Array, Array]
_CASES: dict[str, Callable[[np.random.Generator, np.dtype[Any]], Pair]] = {}


def _case(function: Callable[[np.random.Generator, np.dtype[Any]], Pair]) -> None:
    _CASES[function.__name__.removeprefix("_")] = function


NAMES: list[str] = []
"""The kinds of operands."""


def operands(case: str, name: str) -> Pair:
    """A row-by-column pair of matrices of this kind and type."""
    rng = np.random.default_rng(sum(map(ord, case + name)))
    with np.errstate(all="ignore"):
        a, b = _CASES[case](rng, DTYPES[name])
        return a.astype(DTYPES[name]), b.astype(DTYPES[name])


def _normal(rng: np.random.Generator, *shape: int) -> Array:
    return rng.standard_normal(shape)


def _powers(rng: np.random.Generator, low: int, high: int, *shape: int) -> Array:
    return np.ldexp(1.0, rng.integers(low, high, shape))


def _limits(dtype: np.dtype[Any]) -> tuple[int, int, int]:
    return FORMATS[dtype.name]


@_case
def _random(rng: np.random.Generator, dtype: np.dtype[Any]) -> Pair:
    return _normal(rng, 9, 67), _normal(rng, 67, 11)


@_case
def _long(rng: np.random.Generator, dtype: np.dtype[Any]) -> Pair:
    return _normal(rng, 3, 1500), _normal(rng, 1500, 5)


@_case
def _one_row(rng: np.random.Generator, dtype: np.dtype[Any]) -> Pair:
    return _normal(rng, 1, 70), _normal(rng, 70, 60)


@_case
def _one_term(rng: np.random.Generator, dtype: np.dtype[Any]) -> Pair:
    _, least, most = _limits(dtype)
    return _normal(rng, 40, 1) * _powers(rng, least, most, 40, 1), _normal(rng, 1, 30) * _powers(
        rng, least, most, 1, 30
    )


@_case
def _two_terms(rng: np.random.Generator, dtype: np.dtype[Any]) -> Pair:
    return rng.integers(-64, 64, (30, 2)).astype(float), rng.integers(-64, 64, (2, 30)) * _powers(rng, -6, 6, 2, 30)


@_case
def _full_range(rng: np.random.Generator, dtype: np.dtype[Any]) -> Pair:
    _, least, most = _limits(dtype)
    half = most // 2 - 3
    return (
        _normal(rng, 8, 40) * _powers(rng, least, half, 8, 40),
        _normal(rng, 40, 9) * _powers(rng, least, half, 40, 9),
    )


@_case
def _subnormals_times_maxima(rng: np.random.Generator, dtype: np.dtype[Any]) -> Pair:
    bits, least, most = _limits(dtype)
    a = np.ldexp(rng.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), (7, 20)).astype(float), least)
    return a, np.ldexp(2.0 - 2.0 ** (1 - bits), most) * rng.choice([-1.0, 1.0], (20, 8))


@_case
def _subnormal_results(rng: np.random.Generator, dtype: np.dtype[Any]) -> Pair:
    _, least, _ = _limits(dtype)
    low = least // 2 - 3
    return _normal(rng, 9, 5) * _powers(rng, low, low + 9, 9, 5), _normal(rng, 5, 9) * _powers(rng, low, low + 9, 5, 9)


@_case
def _ten_levels_of_cancellation(rng: np.random.Generator, dtype: np.dtype[Any]) -> Pair:
    """Pairs of terms that cancel on ten levels, 43 bits apart where the type has the room, and one that is left."""
    _, least, most = _limits(dtype)
    step = min(43, (most - least) // 11)
    tops = [most - 2 - step * level for level in range(10)]
    a, b = [], []
    for top in tops:
        x, y = 1 + rng.random((6, 1)), 1 + rng.random((1, 6))
        a += [x * 2.0 ** (top // 2), -x * 2.0 ** (top // 2)]
        b += [y * 2.0 ** (top - top // 2 - 1)] * 2
    a.append(_normal(rng, 6, 1) * 2.0 ** (least // 3))
    b.append(_normal(rng, 1, 6) * 2.0 ** (least // 3))
    order = rng.permutation(len(a))
    return np.concatenate([a[i] for i in order], axis=1), np.concatenate([b[i] for i in order], axis=0)


@_case
def _ties(rng: np.random.Generator, dtype: np.dtype[Any]) -> Pair:
    """Odd and even significands plus half a last bit, and in some columns a little more or less."""
    bits, least, _ = _limits(dtype)
    whole = 2 ** (bits - 1) + rng.integers(0, 2 ** (bits - 1), (12, 1))
    tiny = 2.0 ** max(least // 2 + 2, -100)
    a = np.concatenate([whole, np.full((12, 1), 0.5), np.full((12, 1), tiny)], axis=1)
    b = np.stack([np.ones(12), rng.choice([-1.0, 1.0], 12), rng.choice([-tiny, 0.0, tiny], 12)])
    return a * rng.choice([-1.0, 1.0], (12, 1)), b


@_case
def _ties_and_what_is_far_below(rng: np.random.Generator, dtype: np.dtype[Any]) -> Pair:
    """Ties near the largest number that only a small one decides, which is lost where it is scaled with its row."""
    bits, least, most = _limits(dtype)
    left, right = bits // 2 + 1, bits - bits // 2 - 1
    a = 2 ** (left - 1) + rng.integers(2 ** (left - 2), 2 ** (left - 1), (12, 1)) | 1
    b = 2 ** (right - 1) + rng.integers(2 ** (right - 2), 2 ** (right - 1), (1, 12)) | 1
    top = 2.0 ** (most - bits - 1)
    rows = np.concatenate([a * top, np.full((12, 1), top), np.full((12, 1), 2.0 ** (least // 2))], axis=1)
    return rows, np.concatenate([b, np.full((1, 12), 0.5), rng.choice([-1.0, 0.0, 1.0], (1, 12))])


@_case
def _zero_sums_over_constants(rng: np.random.Generator, dtype: np.dtype[Any]) -> Pair:
    a = _normal(rng, 16, 60).astype(dtype).astype(float)
    a = np.concatenate([a, -a[:, rng.permutation(60)]], axis=1)
    return a, np.broadcast_to(_normal(rng, 1, 24), (120, 24))


@_case
def _few_bits(rng: np.random.Generator, dtype: np.dtype[Any]) -> Pair:
    """Numbers of 8 bits."""
    a, b = _normal(rng, 16, 200), _normal(rng, 200, 16)
    return a.astype(DTYPES["bfloat16"]).astype(float), b.astype(DTYPES["bfloat16"]).astype(float)


@_case
def _one_hot(rng: np.random.Generator, dtype: np.dtype[Any]) -> Pair:
    return np.eye(40)[rng.integers(0, 40, 12)], _normal(rng, 40, 12) * _powers(rng, -9, 9, 40, 12)


@_case
def _overflow(rng: np.random.Generator, dtype: np.dtype[Any]) -> Pair:
    """Sums on both sides of the largest number, some by way of intermediate sums beyond it."""
    bits, _, most = _limits(dtype)
    largest = 2.0 - 2.0 ** (1 - bits)
    a = rng.choice([1.0, -1.0], (12, 6)) * np.ldexp(1.0, most - 2)
    a[:, 0] = np.ldexp(largest, most - 1)
    b = rng.choice([0.0, 1.0, 2.0**-bits, 2.0 ** (1 - bits), 2.0, 3.0], (6, 20))
    b[0] = 2.0
    return a, b


@_case
def _infinite(rng: np.random.Generator, dtype: np.dtype[Any]) -> Pair:
    return _sprinkled(rng, [np.inf, -np.inf, 0.0, -0.0])


@_case
def _not_a_number(rng: np.random.Generator, dtype: np.dtype[Any]) -> Pair:
    return _sprinkled(rng, [np.nan, -np.nan, np.inf, 0.0])


def _sprinkled(rng: np.random.Generator, values: list[float]) -> Pair:
    a, b = _normal(rng, 25, 9), _normal(rng, 9, 25)
    for x in (a, b):
        where = np.asarray(rng.random(x.shape) < 0.04)
        x[where] = rng.choice(values, int(where.sum()))
    return a, b


@_case
def _signed_zeros(rng: np.random.Generator, dtype: np.dtype[Any]) -> Pair:
    return rng.choice([0.0, -0.0, 1.0], (9, 2)), rng.choice([0.0, -0.0, -1.0], (2, 9))


@_case
def _no_terms(rng: np.random.Generator, dtype: np.dtype[Any]) -> Pair:
    return np.zeros((3, 0)), np.zeros((0, 4))


@_case
def _no_rows(rng: np.random.Generator, dtype: np.dtype[Any]) -> Pair:
    return np.zeros((0, 3)), np.ones((3, 4))


NAMES += _CASES
