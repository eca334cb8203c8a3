"""Exact sums of float64 numbers, rounded once: bits are split off from the top until nothing is left to decide.

The method is AccSum's (Rump, Ogita, Oishi, Accurate floating-point summation, 2008): adding and subtracting a large
power of two cuts all terms at the same bit, and the sum of the cut parts is exact in any order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import lshift, mul
from typing import Any

import numpy as np

from onemodel.backends.exact.rounding import UNIT, bracketed, distil, leading_power, pieces

Array = Any


_GATHERED = 1 << 20
"""Terms that wait at most."""

_BLOCK = 1 << 15
"""Terms that are summed at a time, so that they stay in the cache."""

_SOME = 16
"""Sums that are made at a time at least."""


class OpenSums:
    """Sums that float64 could not settle: they wait until there are many, and are then made exactly.

    Args:
        dtype: of the results.
        xp: the library's own namespace.
    """

    def __init__(self, dtype: Any, xp: Any) -> None:
        self.dtype, self.xp = dtype, xp
        self._terms: list[Array] = []
        self._waiting = 0
        self._sums: list[Array] = []
        self._targets: list[tuple[Sequence[tuple[Array, Array]], Array | None]] = []

    def expect(self, masks: Sequence[tuple[Array, Array]], order: Array | None = None) -> None:
        """Say where the next sums go: to where the masks are true, each with the array that it is for.

        Args:
            masks: pairs of mask and array.
            order: which of these places, counted through, each sum is for; None where they come in order.
        """
        self._targets.append((masks, order))

    def add(self, terms: Array) -> None:
        """Add sums, each a row of finite float64 terms."""
        if self._terms and self._terms[0].shape[1] != terms.shape[1]:
            self._sum_up()
        self._terms.append(terms)
        self._waiting += terms.shape[0] * terms.shape[1]
        if self._waiting >= _GATHERED:
            self._sum_up()

    def _sum_up(self) -> None:
        xp = self.xp
        terms = self._terms[0] if len(self._terms) == 1 else xp.concat(self._terms)
        for some in pieces(terms.shape[0], max(_BLOCK * xp.block_scale // terms.shape[1], _SOME)):
            part = terms[some, :]
            if part.shape[1] >= part.shape[0]:
                self._sums.append(exact_sums(part, 1, self.dtype, xp))
            else:
                self._sums.append(exact_sums(xp.contiguous(xp.matrix_transpose(part)), 0, self.dtype, xp))
        self._terms, self._waiting = [], 0

    def settle(self) -> None:
        """Write all of them."""
        if self._terms:
            self._sum_up()
        if not self._sums:
            return
        xp, start = self.xp, 0
        sums = self._sums[0] if len(self._sums) == 1 else xp.concat(self._sums)
        for masks, order in self._targets:
            counts = [int(xp.count_nonzero(mask)) for mask, _ in masks]
            values = sums[start : start + sum(counts)]
            start += sum(counts)
            if order is not None:
                values = xp.take(values, xp.argsort(order, stable=True))
            first = 0
            for (mask, out), count in zip(masks, counts, strict=True):
                out[mask] = values[first : first + count]
                first += count


def exact_sums(terms: Array, axis: int, dtype: Any, xp: Any) -> Array:
    """The sums of finite float64 ``terms`` along an axis, each rounded once to ``dtype``.

    Args:
        terms: two axes, neither of them empty.
        axis: the one that is summed.
        dtype: of the result, float64 or narrower.
    """
    count = terms.shape[axis]
    largest = xp.max(xp.abs(terms), axis=axis)
    too_large = largest * (2.0**-1000 * (count + 2)) > 2.0**20
    if dtype != xp.float64 or not bool(xp.any(too_large)):
        return _extracted(terms, axis, largest, [], dtype, xp)
    # The power of two would overflow.
    other = xp.nonzero(~too_large)[0]
    result = xp.zeros(largest.shape, dtype=dtype)
    if other.shape[0]:
        result[~too_large] = exact_sums(xp.take(terms, other, axis=1 - axis), axis, dtype, xp)
    result[too_large] = sums_by_integers(xp.take(terms, xp.nonzero(too_large)[0], axis=1 - axis), axis, xp)
    return result


def _extracted(terms: Array, axis: int, largest: Array, parts: Sequence[Array], dtype: Any, xp: Any) -> Array:
    """The sums of ``terms``, of which none is above ``largest``, and of ``parts``, which are exact sums already."""
    count = terms.shape[axis]
    top, terms = _split(terms, axis, largest, xp)
    parts = [*parts, xp.sum(top, axis=axis)]
    largest = xp.max(xp.abs(terms), axis=axis)
    total, rest = distil([xp.sum(terms, axis=axis), *parts], xp)
    bound = largest * (UNIT * (count + 2) ** 2)
    result, open_ones = bracketed(total, rest, bound, dtype, xp)
    if bool(xp.any(open_ones)):
        index = xp.nonzero(open_ones)[0]
        kept = [xp.take(values, index) for values in (largest, *parts)]
        result[open_ones] = _extracted(xp.take(terms, index, axis=1 - axis), axis, kept[0], kept[1:], dtype, xp)
    return result


def _split(terms: Array, axis: int, largest: Array, xp: Any) -> tuple[Array, Array]:
    """The upper bits of terms of which none is above ``largest``, whose sum is exact in any order; and the others."""
    room = 2.0 ** (terms.shape[axis] + 1).bit_length()
    # Twice the leading power is above the largest term. Sums below 2**-1022 are exact as they are.
    cut = leading_power(largest, xp) * (2 * room)
    cut = xp.expand_dims(xp.where(cut > 2.0**-1022, cut, xp.asarray(2.0**-1022, dtype=xp.float64)), axis=axis)
    top = (cut + terms) - cut
    return top, terms - top


def condensed(terms: Array, xp: Any) -> Array:
    """Fewer terms with the same exact sums, for rows of many finite ones; the same where the largest are too large."""
    parts = [xp.zeros((terms.shape[0],), dtype=xp.float64)]
    rest, largest = terms, xp.max(xp.abs(terms), axis=1)
    if bool(xp.any(largest > 2.0**900)):
        return terms
    while bool(xp.any(largest > 0)):
        top, rest = _split(rest, 1, largest, xp)
        parts.append(xp.sum(top, axis=1))
        largest = xp.max(xp.abs(rest), axis=1)
    return xp.stack(parts, axis=1)


def sums_by_integers(terms: Array, axis: int, xp: Any) -> Array:
    """Sums of float64 along an axis by Python's integers: for what float64 cannot scale, slow and always right."""
    whole, exponents = _integers(np.moveaxis(xp.to_host(terms), axis, 1))
    return xp.from_host(_rounded_sums(whole.tolist(), exponents))


def dots_by_integers(a: Array, b: Array, xp: Any) -> Array:
    """The same of the products of a and b, which are summed along their last axis."""
    (left, of_left), (right, of_right) = _integers(xp.to_host(a)), _integers(xp.to_host(b))
    products = (map(mul, *lines) for lines in zip(left.tolist(), right.tolist(), strict=True))
    return xp.from_host(_rounded_sums(products, of_left + of_right))


def _integers(x: Array) -> tuple[Array, Array]:
    """Integers and exponents of two that make float64 numbers up."""
    fractions, exponents = np.frexp(x)
    return (fractions * 2.0**53).astype(np.int64), exponents.astype(np.int64) - 53


def _rounded_sums(rows: Iterable[Iterable[int]], exponents: Array) -> Array:
    """The sum of each row's integers times their powers of two, rounded once."""
    least = exponents.min(axis=1, initial=0)
    shifts = (exponents - least[:, None]).tolist()
    totals = (sum(map(lshift, row, shift)) for row, shift in zip(rows, shifts, strict=True))
    return np.array(
        [_nearest_float(total, power) for total, power in zip(totals, least.tolist(), strict=True)], np.float64
    )


def _nearest_float(number: int, power: int) -> float:
    """The float64 nearest to number * 2**power, infinite beyond the largest; ``power`` is 0 or less."""
    try:
        # Python divides integers of any size with one rounding.
        return number / (1 << -power)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")
