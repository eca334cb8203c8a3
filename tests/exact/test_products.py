"""Exact products against rationals: every kind of operand, every type, every namespace."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from onemodel.backends import get_backend
from onemodel.backends.base import Unavailable
from onemodel.backends.exact import extraction, operand, products
from onemodel.backends.exact.products import Prepared
from onemodel.backends.exact.trust import check_product
from tests.exact import cases
from tests.exact.rationals import DTYPES, FORMATS, narrow, product_of, rounded, same_bits, sum_of

NUMPY = get_backend("numpy")
XP: Any = NUMPY.namespace("exact")
MAX64 = float(np.finfo(np.float64).max)
STRICT = get_backend("strict")
STRICT_XP: Any = STRICT.namespace("exact")


def _matmul(a: Any, b: Any) -> Any:
    with NUMPY.running():
        return XP.matmul(a, b)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("case", cases.NAMES)
def test_every_kind_of_operands(case: str, name: str) -> None:
    a, b = cases.operands(case, name)
    want = product_of(a, b)
    same_bits(_matmul(a, b), want)
    same_bits(_matmul(np.asfortranarray(a), np.asfortranarray(b)), want)
    same_bits(_matmul(b.T, a.T), want.T)
    if a.shape[0]:
        same_bits(_matmul(a[0], b), want[0])
        same_bits(_matmul(a, b[:, 0]), want[:, 0])
        same_bits(np.asarray(_matmul(a[0], b[:, 0])), want[0, 0])


@pytest.mark.parametrize("name", ["float32", "float64"])
@pytest.mark.parametrize("case", cases.NAMES)
def test_the_strict_namespace_gives_the_same_bits(case: str, name: str) -> None:
    a, b = cases.operands(case, name)
    with STRICT.running():
        got = STRICT.to_host(STRICT_XP.matmul(STRICT.from_host(a), STRICT.from_host(b)))
    same_bits(got, _matmul(a, b))


@pytest.mark.parametrize("name", ["float32", "float64"])
@pytest.mark.parametrize("case", [case for case in cases.NAMES if case not in ("long", "no_rows")])
def test_tiles_chunks_and_blocks_change_nothing(case: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = cases.operands(case, name)
    want = _matmul(a, b)
    sizes = {
        "_CHUNK": 7,
        "_BLOCK": 16,
        "_TILE": 24,
        "_ROWS": 2,
        "_COLUMNS": 5,
        "_GATHERED": 50,
        "_PART": 90,
        "_LINES": 3,
    }
    for key, value in sizes.items():
        monkeypatch.setattr(products, key, value)
    for key, value in {"_BLOCK": 40, "_GATHERED": 90, "_SOME": 1}.items():
        monkeypatch.setattr(extraction, key, value)
    monkeypatch.setattr(operand, "_BLOCK", 16)
    for many in (0.0, 1e9):
        monkeypatch.setattr(products, "_MANY", many)
        same_bits(_matmul(a, b), want)


def test_products_of_float64_just_below_the_normal_numbers() -> None:
    """The first of two roundings would end at 2**-1022, which is no subnormal number any more."""
    for step in range(-9, 10):
        a, b = np.array([[2.0**-511, step * 2.0**-577]]), np.array([[2.0**-511], [2.0**-500]])
        same_bits(_matmul(a, b), product_of(a, b))
        same_bits(_matmul(-a, b), product_of(-a, b))


@pytest.mark.parametrize("power", [-300, -500, -512, -540, -700, -1000])
def test_small_terms_of_float64_that_cancel_beside_a_large_number(power: int) -> None:
    """The large number meets a zero, and decides alone which bits slices hold; squares of the others underflow."""
    rng = np.random.default_rng(-power)
    small = np.ldexp(rng.standard_normal((6, 8)), power)
    a = np.concatenate([np.ones((6, 1)), small, small[:, ::-1]], axis=1)
    b = rng.standard_normal((8, 5))
    b = np.concatenate([np.zeros((1, 5)), b, -b[::-1]])
    b[3] = np.nextafter(b[3], 2.0)
    for x, y in ((a, b), (b.T, a.T), (a[:, [0, 1, -1]], b[[0, 1, -1]])):
        same_bits(_matmul(x, y), product_of(x, y))


def test_threads_and_batches_change_nothing() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((300, 700)).astype(np.float32), rng.standard_normal((700, 310)).astype(np.float32)
    with threadpool_limits(1):
        want = _matmul(a, b)
    with threadpool_limits(2):
        same_bits(_matmul(a, b), want)
    for row in (0, 17, 299):
        same_bits(_matmul(a[row : row + 1], b), want[row : row + 1])
    same_bits(_matmul(a, b[:, 5:7]), want[:, 5:7])
    order = rng.permutation(700)
    same_bits(_matmul(a[:, order], b[order]), want)


@pytest.mark.parametrize("name", ["float32", "float64", "float16"])
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((2, 3, 4, 5), (5, 6)),
        ((4, 5), (2, 3, 5, 6)),
        ((2, 1, 4, 5), (3, 5, 6)),
        ((5,), (2, 5, 6)),
        ((2, 4, 5), (5,)),
        ((0, 4, 5), (5, 6)),
        ((2, 4, 0), (2, 0, 6)),
        ((40, 12, 8), (40, 8, 12)),
    ],
)
def test_stacks(left: tuple[int, ...], right: tuple[int, ...], name: str) -> None:
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal(shape).astype(DTYPES[name]) for shape in (left, right))
    want = np.zeros(np.matmul(np.zeros(left), np.zeros(right)).shape, DTYPES[name])
    rows = a if a.ndim > 1 else a[None]
    columns = b if b.ndim > 1 else b[:, None]
    batch = np.broadcast_shapes(rows.shape[:-2], columns.shape[:-2])
    rows, columns = (np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (rows, columns))
    whole = np.zeros((*batch, rows.shape[-2], columns.shape[-1]), DTYPES[name])
    for index in np.ndindex(*batch):
        whole[index] = product_of(rows[index], columns[index])
    same_bits(_matmul(a, b), whole.reshape(want.shape))


@pytest.mark.parametrize("name", ["float32", "float64"])
@pytest.mark.parametrize("case", ["infinite", "not_a_number", "ten_levels_of_cancellation"])
def test_stacks_of_special_values(case: str, name: str) -> None:
    a, b = cases.operands(case, name)
    want = product_of(a, b)
    same_bits(_matmul(np.stack([a, a[::-1]]), b), np.stack([want, want[::-1]]))
    same_bits(_matmul(np.stack([a, a[::-1]]), np.stack([b, b])), np.stack([want, want[::-1]]))
    same_bits(_matmul(a, np.stack([b, b[:, ::-1]])), np.stack([want, want[:, ::-1]]))


def test_shapes_that_do_not_multiply() -> None:
    with pytest.raises(ValueError, match=r"shapes \(2, 3\) and \(4, 5\) do not multiply"):
        _matmul(np.ones((2, 3), np.float32), np.ones((4, 5), np.float32))


def test_integers_wrap_and_complex_numbers_are_refused() -> None:
    a = np.array([[2**31 - 1, 3]], np.int32)
    wrapped = _matmul(a, a.T)
    assert wrapped.tolist() == [[((2**31 - 1) ** 2 + 9) % 2**32]]
    x = np.arange(2 * 3 * 5 * 4, dtype=np.int32).reshape(2, 3, 5, 4)
    with NUMPY.running():
        fast: Any = NUMPY.namespace("fast").conv(x, x[:, :, :2, :2], (1, 1), (1, 1))
        np.testing.assert_array_equal(XP.conv(x, x[:, :, :2, :2], (1, 1), (1, 1)), fast)
        assert XP.vecdot(a, a).tolist() == wrapped[0].tolist()
    with pytest.raises(TypeError, match="complex64 have no exact definition"):
        _matmul(a.astype(np.complex64), a.T.astype(np.complex64))


@pytest.mark.parametrize("name", ["float32", "float64", "bfloat16"])
def test_prepared_factors_give_the_same_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(8)
    a, b = rng.standard_normal((50, 90)).astype(DTYPES[name]), rng.standard_normal((90, 70)).astype(DTYPES[name])
    want = _matmul(a, b)
    right, left = XP.prepare(b, "right"), XP.prepare(a, "left")
    assert isinstance(right, Prepared)
    same_bits(_matmul(a, right), want)
    same_bits(_matmul(left, b), want)
    same_bits(_matmul(a[None], right), want[None])
    same_bits(_matmul(a[:3], right), want[:3])
    same_bits(_matmul(right, np.ones((70, 2), a.dtype)), product_of(b, np.ones((70, 2), a.dtype)))
    stack = XP.prepare(np.stack([b, b[::-1]]), "right")
    same_bits(_matmul(a, stack)[0], want)
    monkeypatch.setattr(products, "_TILE", 100)
    monkeypatch.setattr(products, "_ROWS", 8)
    monkeypatch.setattr(products, "_COLUMNS", 9)
    same_bits(_matmul(left, right), want)


def test_tensordot_refuses_axes_of_different_sizes() -> None:
    with pytest.raises(ValueError, match=r"axes \(1,\) and \(0,\) of shapes \(2, 3\) and \(4, 3\) are not of the same"):
        XP.tensordot(np.ones((2, 3), np.float32), np.ones((4, 3), np.float32), axes=1)


def test_tensordot_and_vecdot() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((3, 4, 5)).astype(np.float32), rng.standard_normal((5, 4, 2)).astype(np.float32)
    with NUMPY.running():
        got = XP.tensordot(a, b, axes=((1, 2), (1, 0)))
        same_bits(got, product_of(a.reshape(3, 20), b.transpose(1, 0, 2).reshape(20, 2)))
        assert XP.tensordot(a, b, axes=0).shape == (3, 4, 5, 5, 4, 2)
        pairs = XP.vecdot(a, a[:1, ::-1], axis=1)
    want = [
        [sum_of(list(zip(a[i, :, k].tolist(), a[0, ::-1, k].tolist(), strict=True)), "float32") for k in range(5)]
        for i in range(3)
    ]
    same_bits(pairs, np.float32(want))


# Next to rounding boundaries


@st.composite
def _near_a_boundary(draw: st.DrawFn) -> tuple[str, list[tuple[float, float]]]:
    """Terms whose sum is a tie of the type, or next to one, hidden among terms that cancel."""
    name = draw(st.sampled_from(list(FORMATS)))
    bits, least, most = FORMATS[name]
    exponent = draw(st.integers(-8, 8))
    whole = draw(st.integers(2 ** (bits - 1), 2**bits - 1))
    terms = [(float(whole), 2.0**exponent), (draw(st.sampled_from([-0.5, 0.0, 0.5, 1.0])), 2.0**exponent)]
    for _ in range(draw(st.integers(0, 2))):
        size = draw(st.integers(max(least // 2, -500), 0))
        terms.append((draw(st.sampled_from([-1.0, 1.0])) * 2.0**size, 2.0 ** draw(st.integers(least // 2, 0))))
    for _ in range(draw(st.integers(0, 3))):
        x = float(draw(st.integers(1, 2**bits - 1)))
        y = 2.0 ** draw(st.integers(least // 2, most - bits - 2 if most > 20 else 2))
        terms += [(x, y), (-x, y)]
    terms = [terms[i] for i in draw(st.permutations(range(len(terms))))]
    fits = [all(float(narrow(np.float64(f), name)) == f for f in term) for term in terms]
    return name, [term for term, fit in zip(terms, fits, strict=True) if fit]


@settings(max_examples=300, deadline=None)
@given(_near_a_boundary())
def test_results_on_and_next_to_rounding_boundaries(drawn: tuple[str, list[tuple[float, float]]]) -> None:
    name, terms = drawn
    a, b = (narrow(np.array(column, np.float64), name) for column in zip(*terms, strict=True))
    want = narrow(np.float64(sum_of(terms, name)), name)
    same_bits(np.asarray(_matmul(a, b)), want)
    many = np.tile(b[:, None], (1, 40))
    same_bits(_matmul(np.tile(a, (3, 1)), many), np.broadcast_to(want, (3, 40)))


# Convolution


@pytest.mark.parametrize("name", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize(
    ("shape", "filters", "strides", "dilations", "groups"),
    [
        ((2, 3, 7, 6), (4, 3, 3, 2), (1, 1), (1, 1), 1),
        ((1, 4, 9, 8), (4, 1, 3, 3), (2, 1), (1, 2), 4),
        ((2, 6, 5, 5), (4, 3, 1, 1), (1, 1), (1, 1), 2),
        ((1, 6, 5, 5), (4, 3, 1, 1), (2, 2), (1, 1), 2),
        ((2, 2, 11), (3, 2, 4), (3,), (2,), 1),
        ((1, 2, 4, 4, 4), (2, 2, 2, 2, 2), (1, 2, 1), (1, 1, 2), 1),
        ((1, 2, 2, 2), (3, 2, 3, 3), (1, 1), (1, 1), 1),
        ((0, 2, 5, 5), (3, 2, 3, 3), (1, 1), (1, 1), 1),
    ],
)
def test_convolutions(
    shape: tuple[int, ...],
    filters: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    groups: int,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(4)
    x, w = rng.standard_normal(shape).astype(DTYPES[name]), rng.standard_normal(filters).astype(DTYPES[name])
    want = _correlation(x, w, strides, dilations, groups)
    with NUMPY.running():
        same_bits(XP.conv(x, w, strides, dilations, groups), want)
        same_bits(XP.conv(x, XP.prepare(w, "left", groups), strides, dilations, groups), want)
        monkeypatch.setattr("onemodel.backends.exact.convolution._PATCHES", 40)
        same_bits(XP.conv(x, w, strides, dilations, groups), want)


def _correlation(x: Any, w: Any, strides: Any, dilations: Any, groups: int) -> Any:
    kernel = w.shape[2:]
    positions = tuple(
        max((size - d * (taps - 1) - 1) // s + 1, 0)
        for size, taps, s, d in zip(x.shape[2:], kernel, strides, dilations, strict=True)
    )
    result = np.zeros((x.shape[0], w.shape[0], *positions), x.dtype)
    channels = w.shape[1]
    for n, m in itertools.product(range(x.shape[0]), range(w.shape[0])):
        first = m // (w.shape[0] // groups) * channels
        for place in np.ndindex(*positions):
            index = tuple(
                slice(p * s, p * s + d * (taps - 1) + 1, d)
                for p, s, d, taps in zip(place, strides, dilations, kernel, strict=True)
            )
            patch = x[(n, slice(first, first + channels), *index)]
            result[(n, m, *place)] = product_of(patch.reshape(1, -1), w[m].reshape(-1, 1))[0, 0]
    return result


def test_zero_sum_filters_over_constant_patches_are_zero() -> None:
    rng = np.random.default_rng(6)
    w = rng.standard_normal((8, 16, 3, 3)).astype(np.float32)
    w[:, 8:] = -w[:, 7::-1]
    x = np.full((1, 16, 30, 30), 0.1, np.float32)
    with NUMPY.running():
        y = XP.conv(x, w, (1, 1), (1, 1))
    same_bits(y, np.zeros((1, 8, 28, 28), np.float32))


# What is taken on trust


def _move_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Move the library's product as far as its additions could have."""
    rng = np.random.default_rng(9)
    own = products._library_product

    def moved(a: Any, b: Any, xp: Any) -> Any:
        sizes = np.abs(a) @ np.abs(b)
        step = 2.0**-53 * (min(a.shape[2], products._CHUNK) - 1)
        return own(a, b, xp) + rng.choice([-0.999, 0.999], sizes.shape) * step * sizes

    monkeypatch.setattr(products, "_library_product", moved)
    monkeypatch.setattr(products, "_MANY", 1e9)


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("case", ["random", "long", "ties", "few_bits", "full_range", "two_terms"])
def test_any_product_within_the_bound_will_do(case: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = cases.operands(case, name)
    want = _matmul(a, b)
    _move_products(monkeypatch)
    for _ in range(20):
        same_bits(_matmul(a, b), want)


@pytest.mark.parametrize("shape", [(6, 4, 3, 3), (4, 1, 3, 3), (6, 4, 1, 1)])
def test_any_product_within_the_bound_will_do_for_convolutions(
    shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(10)
    x = rng.standard_normal((1, 4, 20, 20)).astype(DTYPES["bfloat16"]).astype(np.float32)
    w = rng.standard_normal(shape).astype(DTYPES["bfloat16"]).astype(np.float32)
    groups = 4 // shape[1]
    with NUMPY.running():
        want = XP.conv(x, w, (1, 1), (1, 1), groups)
        _move_products(monkeypatch)
        for _ in range(20):
            same_bits(XP.conv(x, w, (1, 1), (1, 1), groups), want)


class _Emulating:
    """A namespace whose float64 product is less than float64."""

    def __init__(self, bits: int) -> None:
        self._own, self._bits = NUMPY.namespace("fast"), bits

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def matmul(self, a: Any, b: Any) -> Any:
        step = 2.0 ** (self._bits - 53)
        rounded_b = b - np.fmod(b, step * np.exp2(np.floor(np.log2(np.abs(b)))))
        return a @ rounded_b


@pytest.mark.parametrize("bits", [8, 24])
def test_a_product_with_fewer_bits_is_found(bits: int) -> None:
    with pytest.raises(Unavailable, match="exact mode needs a float64 matrix product that adds up in float64"):
        check_product(_Emulating(bits))


def test_the_products_here_are_good_enough() -> None:
    for backend in (NUMPY, STRICT):
        check_product(backend.namespace("fast"))


@pytest.mark.parametrize(
    ("number", "name", "want"),
    [
        (Fraction(2**24 + 1), "float32", 2.0**24),
        (Fraction(2**24 + 3), "float32", 2.0**24 + 4),
        (Fraction(65519), "float16", 65504.0),
        (Fraction(65520), "float16", np.inf),
        (Fraction(-1, 2**150), "float32", -0.0),
        (Fraction(-3, 2**150), "float32", -(2.0**-148)),
    ],
)
def test_the_measure_itself(number: Fraction, name: str, want: float) -> None:
    same_bits(np.float64(rounded(number, name)), np.float64(want))


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([[MAX64, 0]], [[0], [MAX64]], 0),
        ([[MAX64, MAX64]], [[1e308], [-1e308]], 0),
        ([[MAX64, 2.0**-1074]], [[0], [2.0**1023]], 2.0**-51),
        ([[MAX64, MAX64, 1]], [[MAX64], [-MAX64], [3]], 3),
        ([[MAX64, 0]], [[MAX64], [MAX64]], np.inf),
        ([[-MAX64, 0]], [[MAX64], [MAX64]], -np.inf),
    ],
)
def test_lines_of_the_largest_float64(a: Any, b: Any, expected: float) -> None:
    for factors in ((np.array(a), np.array(b)), (np.array(b).T, np.array(a).T)):
        assert _matmul(*factors).tolist() == [[expected]]
