"""The patterns: fixed values, ranges, and that different seeds differ."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest

from tests.exact.patterns import FLOATS, Patterns, bits, scaled


def test_the_words_are_those_of_splitmix64() -> None:
    """The first ones of seed 1234567, as the generator's authors publish them for their C code."""
    patterns = Patterns()
    patterns._place = 1234567
    assert patterns.words(3).tolist() == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_streams() -> None:
    one, same, other = Patterns(1, 2), Patterns(1, 2), Patterns(2, 1)
    first = one.words(5).tolist() + one.words(3).tolist()
    assert same.words(8).tolist() == first
    assert not set(other.words(8).tolist()) & set(first)


@pytest.mark.parametrize("size", [None, 7, (), (2, 3), [4], (0, 2)])
def test_sizes(size: Any) -> None:
    patterns = Patterns(3)
    for values in (patterns.integers(5, size=size), patterns.random(size), patterns.standard_normal(size)):
        assert np.shape(values) == (() if size is None else np.empty(size).shape)


def test_ranges() -> None:
    patterns = Patterns(4)
    assert set(patterns.integers(-2, 3, 200).tolist()) == {-2, -1, 0, 1, 2}
    assert {int(patterns.integers(2)) for _ in range(40)} == {0, 1}
    values = patterns.standard_normal(4000)
    assert abs(values.mean()) < 0.1
    assert 0.9 < values.std() < 1.4
    assert 2.5 < abs(values).max() <= 4
    assert sorted(patterns.permutation(20).tolist()) == list(range(20))
    assert sorted(patterns.permutation([5, 7]).tolist()) == [5, 7]
    drawn = patterns.choice(["a", "b", "c"], 3000, p=[0.7, 0.0, 0.3])
    assert 1900 < (drawn == "a").sum() < 2300
    assert set(drawn) == {"a", "c"}
    with pytest.raises(ValueError, match="no integers from 3 to below 3"):
        patterns.integers(3, 3)


@pytest.mark.parametrize("name", FLOATS)
def test_floats(name: str) -> None:
    dtype = FLOATS[name]
    with np.errstate(invalid="ignore"):
        wide = bits(dtype, (4000,), 5).astype(np.float64)
    assert np.isnan(wide).any() or name == "float64"
    assert (np.signbit(wide).sum() > 1500) & (np.abs(wide[np.isfinite(wide)]).max() > 1e4)
    values = scaled(dtype, (2000,), 6, spread=4, most=3).astype(np.float64)
    assert np.abs(values).max() < 8
    assert np.isfinite(values).all()
    assert len(np.unique(values)) > 400


def test_the_bits_never_change() -> None:
    state = hashlib.sha256()
    for dtype in FLOATS.values():
        for values in (bits(dtype, (9,), 1), scaled(dtype, (9,), 2, spread=8), Patterns(3).normal(1, 0.5, 9)):
            state.update(values.tobytes())
    assert state.hexdigest() == "fcdf5e1306846d7ba40bd5c80debd2d27ddd812539b28b4fe4cceddc5708845e"
