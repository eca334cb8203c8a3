"""What correct rounding gives, in Python's rationals: the measure of exact sums and products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]

FORMATS = {
    "float64": (53, -1074, 1023),
    "float32": (24, -149, 127),
    "float16": (11, -24, 15),
    "bfloat16": (8, -133, 127),
}
"""For each type the bits of a significand, the exponent of its smallest number, and that of its largest."""
DTYPES = {name: np.dtype(getattr(np, name, None) or getattr(ml_dtypes, name)) for name in FORMATS}


def rounded(number: Fraction, name: str) -> float:
    """The number of the type ``name`` nearest to a rational one, half to even; a negative one keeps its sign."""
    if number == 0:
        return 0.0
    bits, least, most = FORMATS[name]
    size = abs(number)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    step = max(exponent - bits + 1, least)
    whole = round(size / Fraction(2) ** step)
    infinite = whole * Fraction(2) ** step >= Fraction(2) ** (most + 1)
    return math.copysign(math.inf if infinite else math.ldexp(whole, step), -1 if number < 0 else 1)


def sum_of(terms: Sequence[tuple[float, ...]], name: str) -> float:
    """The sum of products, rounded once; infinities and NaN by IEEE 754's rules, whatever the order."""
    infinite = set()
    total = Fraction(0)
    for factors in terms:
        if all(map(math.isfinite, factors)):
            total += math.prod(map(Fraction, factors))
        elif any(map(math.isnan, factors)) or 0 in factors:
            return math.nan
        else:
            infinite.add(math.prod(math.copysign(1, factor) for factor in factors))
    if infinite:
        return math.nan if len(infinite) == 2 else math.copysign(math.inf, infinite.pop())
    return rounded(total, name)


def product_of(a: Array, b: Array, name: str | None = None) -> Array:
    """The matrix product of two matrices."""
    name = name or a.dtype.name
    rows, columns = a.astype(np.float64).tolist(), b.astype(np.float64).T.tolist()
    values = [[sum_of(list(zip(row, column, strict=True)), name) for column in columns] for row in rows]
    return narrow(np.array(values, np.float64).reshape(len(rows), len(columns)), name)


def sums_of(x: Array, axis: int | tuple[int, ...] | None, name: str | None = None) -> Array:
    """The sums along the axes."""
    name = name or x.dtype.name
    axes = tuple(range(x.ndim)) if axis is None else tuple(np.atleast_1d(axis) % x.ndim)
    kept = [i for i in range(x.ndim) if i not in axes]
    shape = [x.shape[i] for i in kept]
    count = math.prod(x.shape[i] for i in axes)
    rows = x.astype(np.float64).transpose(*kept, *axes).reshape(math.prod(shape), count).tolist()
    return narrow(np.array([sum_of([(term,) for term in row], name) for row in rows], np.float64).reshape(shape), name)


def narrow(values: Array, name: str) -> Array:
    """Numbers that the type holds, of that type."""
    with np.errstate(all="ignore"):
        return values.astype(DTYPES[name])


def same_bits(got: Any, want: Array) -> None:
    """Assert the same type, shape and bits, with one NaN: positive, quiet, without payload."""
    got, want = np.asarray(got), np.asarray(want)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    want = np.where(np.isnan(want), np.asarray(np.nan, want.dtype), want)
    bits = f"u{want.itemsize}"
    differ = np.ascontiguousarray(got).view(bits) != np.ascontiguousarray(want).view(bits)
    if differ.any():
        first = tuple(int(place[0]) for place in np.nonzero(differ.reshape(want.shape)))
        raise AssertionError(
            f"{differ.sum()} of {want.size} differ, first at {first}: {got[first]!r}, not {want[first]!r}"
        )
