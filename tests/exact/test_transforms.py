"""Fourier transforms and determinants in exact mode: against rationals, and against the formula in plain Python."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import onemodel
from onemodel.backends import get_backend
from onemodel.backends.exact import fourier, rounding
from onemodel.backends.exact.circle import circle
from tests.exact.rationals import rounded, same_bits, sum_of
from tests.ops.harness import model

NAMESPACES = ("numpy", "strict")


def _exact(backend: str) -> Any:
    return get_backend(backend).namespace("exact")


def _host(xp: Any, value: Any) -> Any:
    return np.asarray(xp.to_host(value))


def _integers(seed: int, *shape: int, dtype: Any = np.float32, span: int = 20) -> Any:
    """Whole numbers of 24 bits times powers of two."""
    random = np.random.default_rng(seed)
    return np.ldexp(random.integers(-(2**23), 2**23, shape), random.integers(-span, span, shape)).astype(dtype)


# The circle


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 8, 12, 18, 24, 100, 1023, 4096])
def test_the_circle_is_correctly_rounded(count: int) -> None:
    gmpy2 = pytest.importorskip("gmpy2", reason="MPFR is what results are compared with: pip install gmpy2")
    with gmpy2.context(precision=300):
        for i in range(0, count, max(count // 64, 1)):
            angle = 2 * gmpy2.const_pi() * i / count
            for function, values in zip((gmpy2.cos, gmpy2.sin), circle(count), strict=True):
                # What is 0 in truth comes out near 2**-300.
                want = float(function(angle)) if abs(function(angle)) > 2.0**-200 else 0.0
                assert values[i] == want, (i, function)


def test_the_circle_has_its_symmetries() -> None:
    cosine, sine = circle(360)
    assert cosine[60] == sine[30] == 0.5
    assert not np.signbit(cosine[[90, 270]]).any()
    assert np.array_equal(cosine[1:], cosine[:0:-1])
    assert np.array_equal(sine[1:], -sine[:0:-1])
    assert np.array_equal(np.roll(cosine, 90), sine)
    for i in (1, 89, 271):
        assert abs(Fraction(cosine[i]) ** 2 + Fraction(sine[i]) ** 2 - 1) < Fraction(1, 2**52)


# Fourier transforms


def _transform(x: Any, length: int, inverse: bool, onesided: bool) -> Any:
    """The definition, term by term, for x (length, parts)."""
    cosine, sine = circle(length)
    sign, name, real = 1 if inverse else -1, x.dtype.name, inverse and onesided
    results = []
    for k in range(length // 2 + 1 if onesided and not inverse else length):
        terms: tuple[list[Any], list[Any]] = ([], [])
        for t, parts in enumerate(x.tolist()[: length // 2 + 1 if real else length]):
            c, s = float(cosine[t * k % length]), sign * float(sine[t * k % length])
            if real and t * 2 % length:
                c, s = 2 * c, 2 * s
            terms[0].append((parts[0], c))
            terms[1].append((parts[0], s))
            if len(parts) == 2:
                terms[0].append((parts[1], -s))
                terms[1].append((parts[1], c))
        row = [sum_of(some, name) for some in terms[: 1 if real else 2]]
        results.append(row if not inverse else [float(x.dtype.type(value) / x.dtype.type(length)) for value in row])
    return np.array(results, x.dtype)


@pytest.mark.parametrize("backend", NAMESPACES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("size", "length", "parts", "inverse", "onesided"),
    [
        (7, 7, 1, False, False),
        (7, 7, 1, False, True),
        (8, 8, 2, False, False),
        (8, 5, 1, False, True),
        (5, 12, 2, False, False),
        (6, 6, 2, True, False),
        (6, 6, 1, True, False),
        (5, 8, 2, True, True),
        (4, 7, 2, True, True),
        (3, 9, 1, True, True),
        (1, 1, 2, True, True),
        (1, 1, 1, False, True),
    ],
)
def test_each_part_is_the_exact_sum(
    backend: str, dtype: Any, size: int, length: int, parts: int, inverse: bool, onesided: bool
) -> None:
    xp, x = _exact(backend), _integers(size, size, parts, dtype=dtype)
    with np.errstate(all="ignore"):
        got = _host(xp, xp.fourier(xp.from_host(x), 0, length, inverse, onesided))
    same_bits(got, _transform(x, length, inverse, onesided))


def test_blocks_of_frequencies_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    xp, x = _exact("numpy"), _integers(3, 2, 50, 3, 1)
    whole = xp.fourier(x, 1, 50, False, True)
    monkeypatch.setattr(fourier, "_BLOCK", 1000)
    same_bits(xp.fourier(x, 1, 50, False, True), whole)
    for i in range(2):
        for j in range(3):
            same_bits(xp.fourier(x[i, :, j, :], 0, 50, False, True), whole[i, :, j, :])


def _signals(length: int, parts: int) -> dict[str, Any]:
    """Kinds of three lines, shape (3, length, parts)."""
    at, shape = np.arange(length), (3, length, parts)
    random = np.random.default_rng(length)
    special, silent = _integers(4, *shape), np.full(shape, -0.0, np.float32)
    special[0, 5], special[2, 7], silent[1, 2] = np.inf, np.nan, 1e-45
    return {
        "all exponents": _integers(1, *shape, span=90),
        "normal": random.standard_normal(shape).astype(np.float32),
        "whole": random.integers(-9, 9, shape).astype(np.float32),
        "constant": np.full(shape, 0.1, np.float32),
        "tone": np.broadcast_to(np.sin(at * (math.tau * 5 / length))[:, None], shape).astype(np.float32),
        "short": _integers(2, 3, length // 3, parts),
        "special": special,
        "silent": silent,
    }


@pytest.mark.parametrize(
    ("backend", "length"),
    [("numpy", 64), ("numpy", 65), ("numpy", 122), ("numpy", 128), ("numpy", 134), ("strict", 90)],
)
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize(("inverse", "onesided"), [(False, False), (False, True), (True, False), (True, True)])
def test_fast_transforms_change_nothing(
    backend: str, length: int, parts: int, inverse: bool, onesided: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    xp, signals = _exact(backend), _signals(length, parts)

    def transformed() -> dict[str, Any]:
        with np.errstate(all="ignore"):
            some = {kind: xp.fourier(xp.from_host(x), 1, length, inverse, onesided) for kind, x in signals.items()}
        return {kind: _host(xp, rounding.one_nan(got, xp=xp)) for kind, got in some.items()}

    got = transformed()
    monkeypatch.setattr(fourier, "_SHORT", 1 << 30)
    for kind, want in transformed().items():
        same_bits(got[kind], want)


@pytest.mark.parametrize("length", [64, 120, 122])
def test_a_fast_transform_is_within_its_bound(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Moved as far as the bound allows it changes nothing, and it is much nearer by itself."""
    xp, x = _exact("numpy"), _integers(7, 40, length, 2)
    x[::2, 1:] *= np.float32(2.0**-30)
    want = xp.fourier(x, 1, length, False, False)
    own, random, errors = fourier._transformed, np.random.default_rng(1), []

    def moved(wide: Any, radices: tuple[int, ...], *options: Any) -> Any:
        total = own(wide, radices, *options)
        stages = sum((2 * p + 2) * math.sqrt(2 * p) + 5 for p in radices)
        bound = 2.0**-53 * stages * math.sqrt(length) * np.sqrt(np.sum(wide * wide, axis=(0, 1)))
        cosine, sine = circle(length)
        at = np.arange(length)[:, None] * np.arange(length) % length
        spectrum = np.stack(
            [wide[0].T @ cosine[at] + wide[1].T @ sine[at], wide[1].T @ cosine[at] - wide[0].T @ sine[at]]
        )
        errors.append(np.max(np.abs(spectrum.transpose(0, 2, 1) - total) / bound))
        return total + random.choice([-0.9, 0.9], total.shape) * bound

    monkeypatch.setattr(fourier, "_transformed", moved)
    for _ in range(5):
        same_bits(xp.fourier(x, 1, length, False, False), want)
    assert 0 < max(errors) < 0.1


def test_a_transform_of_ordinary_numbers_needs_few_products(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    own = fourier._products

    def counted(lines: Any, frequencies: Any, *options: Any) -> Any:
        asked.append(lines.shape[0] * frequencies.size)
        return own(lines, frequencies, *options)

    monkeypatch.setattr(fourier, "_products", counted)
    x = np.random.default_rng(2).standard_normal((1, 4096, 1)).astype(np.float32)
    same_bits(_exact("numpy").fourier(x, 1, 4096, False, False)[0, 99], _one_frequency(x[0, :, 0], 99))
    assert sum(asked) < 40


def _one_frequency(x: Any, k: int) -> Any:
    cosine, sine = circle(x.size)
    at = np.arange(x.size) * k % x.size
    return np.float32(
        [sum_of(list(zip(x.tolist(), part[at].tolist(), strict=True)), "float32") for part in (cosine, -sine)]
    )


def test_infinities_take_the_sign_of_their_factor() -> None:
    xp = _exact("numpy")
    x = np.float32([[1], [np.inf], [2]])
    with np.errstate(all="ignore"):
        got = xp.fourier(x, 0, 3, False, False)
    same_bits(got, np.float32([[np.inf, np.nan], [-np.inf, -np.inf], [-np.inf, np.inf]]))


def test_operators_use_it() -> None:
    x = _integers(5, 1, 12, 1)
    got = onemodel.Session(model("DFT", [x, None, np.array(1)]), mode="exact").run(None, {"x0": x, "x2": np.array(1)})
    same_bits(got[0][0], _transform(x[0], 12, False, False))
    frames = onemodel.Session(model("STFT", [x, np.array(4), None, np.array(6)]), mode="exact")
    got = frames.run(None, {"x0": x, "x1": np.array(4), "x3": np.array(6)})
    same_bits(got[0][0, 1], _transform(x[0, 4:10], 6, False, True))


# Determinants


def _determinant(x: Any) -> float:
    """The formula, element by element in float64."""
    rows = [[float(value) for value in row] for row in x.tolist()]
    sign, pivots = 1.0, []
    while rows:
        first = max(range(len(rows)), key=lambda i: abs(rows[i][0]))
        if first:
            rows[0], rows[first], sign = rows[first], rows[0], -sign
        pivot = rows[0][0]
        pivots.append(pivot)
        factors = [row[0] / pivot if pivot else 0.0 for row in rows[1:]]
        rows = [
            [value - factor * upper for value, upper in zip(row[1:], rows[0][1:], strict=True)]
            for row, factor in zip(rows[1:], factors, strict=True)
        ]
    while len(pivots) > 1:
        half = -(-len(pivots) // 2)
        pivots = [a * b for a, b in zip(pivots, pivots[half:], strict=False)] + pivots[len(pivots) - half : half]
    return math.prod(pivots) * sign + 0.0


@pytest.mark.parametrize("backend", NAMESPACES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1, 2, 3, 6, 11])
def test_determinants_follow_the_formula(backend: str, dtype: Any, size: int) -> None:
    xp, x = _exact(backend), _integers(size, 2, 3, size, size, dtype=dtype, span=2)
    with np.errstate(all="ignore"):
        got = _host(xp, xp.determinant(xp.from_host(x)))
    want = [[rounded(Fraction(_determinant(matrix)), dtype.__name__) for matrix in row] for row in x]
    same_bits(got, np.array(want, dtype))


def test_singular_and_empty_matrices() -> None:
    xp = _exact("numpy")
    x = np.float32([[[1, 2], [2, 4]], [[0, 5], [-0.0, 3]], [[2, 1], [4, 2]]])
    same_bits(xp.determinant(x), np.float32([0, 0, 0]))
    same_bits(xp.determinant(np.zeros((3, 0, 0), np.float32)), np.float32([1, 1, 1]))
    same_bits(xp.determinant(np.zeros((0, 4, 4), np.float32)), np.zeros(0, np.float32))
    with np.errstate(all="ignore"):
        same_bits(xp.determinant(np.float32([[1, np.nan], [2, 3]])), np.float32(np.nan))
    session = onemodel.Session(model("Det", [x]), mode="exact")
    same_bits(session.run(None, {"x0": x})[0], np.float32([0, 0, 0]))


@pytest.mark.parametrize("name", ["fourier", "determinant"])
def test_other_types_are_refused(name: str) -> None:
    arguments = (0, 4, False, False) if name == "fourier" else ()
    with pytest.raises(TypeError, match=f"{name} takes float32 or float64, not int64"):
        getattr(_exact("numpy"), name)(np.zeros((4, 4), np.int64), *arguments)


def test_a_transform_of_nothing_is_zero() -> None:
    xp = _exact("numpy")
    same_bits(xp.fourier(np.zeros((0, 2), np.float32), 0, 3, False, False), np.zeros((3, 2), np.float32))
    same_bits(xp.fourier(np.zeros((0, 4, 1), np.float32), 1, 4, False, True), np.zeros((0, 3, 2), np.float32))
