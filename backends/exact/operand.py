"""One factor of a matrix product: its numbers in float64, and what is known about each of its lines.

A line is what one element of the product sums over: a row of the left factor, a column of the right one. What is known
is worked out when it is first asked for, so that a weight which is prepared once pays for it once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

from onemodel.backends.exact.rounding import exponent_of, leading_power, pieces, power_of_two, times_power

Array = Any

_BLOCK = 1 << 15
"""Elements that are looked at at a time, so that what is derived from them stays in the cache."""

_FRACTION = 2**52 - 1
_EXPONENT = 0x7FF0000000000000

_WIDE = -450
"""Powers of two below the largest number of a line; down to here products of two numbers do not underflow."""

_PER_LINE = {"norms", "exponents", "last_bits"}
"""What a part of an operand takes over from it."""


class Operand:
    """A stack of matrices as the factor of a product.

    Args:
        source: shape (stack, rows, columns), floats.
        axis: the one that is summed: 2 of a left factor, 1 of a right one.
        xp: the library's own namespace.
        dtype: that the numbers are of, where ``source`` has been widened to float64 already.
        norms: upper bounds of the lines' 2-norms, where they are known.
    """

    def __init__(self, source: Array, axis: int, xp: Any, *, dtype: Any = None, norms: Array = None) -> None:
        self.axis = axis
        self.xp = xp
        self.dtype = source.dtype if dtype is None else dtype
        self.is_float64 = self.dtype == xp.float64
        self.stack = source.shape[0]
        self.lines = source.shape[3 - axis]
        self.terms = source.shape[axis]
        self._source = source
        if norms is not None:
            self.norms = norms

    def part(self, stack: slice, lines: slice) -> Operand:
        """Some matrices of the stack, and some lines of them."""
        source: Array = self.__dict__.get("wide", self._source)
        index = (stack, lines, slice(None)) if self.axis == 2 else (stack, slice(None), lines)
        part = Operand(source[index], self.axis, self.xp, dtype=self.dtype)
        for name in _PER_LINE & self.__dict__.keys():
            setattr(part, name, self.__dict__[name][stack, lines])
        return part

    @cached_property
    def wide(self) -> Array:
        """The numbers in float64."""
        return self.xp.astype(self._source, self.xp.float64, copy=False)

    @property
    def transposed(self) -> Operand:
        """The same lines as those of the factor on the other side."""
        wide = self.xp.matrix_transpose(self.wide)
        return Operand(wide, 3 - self.axis, self.xp, dtype=self.dtype, norms=self.norms)

    @cached_property
    def norms(self) -> Array:
        """Upper bounds of the lines' 2-norms, shape (stack, lines); infinite or NaN where a number is not finite."""
        xp = self.xp
        if self.axis == 2:
            return xp.sqrt(xp.vecdot(self.wide, self.wide)) * (1 + 2.0**-20)
        squares = self._over_terms(lambda x: xp.sum(x * x, axis=1), lambda a, b: a + b)
        return xp.sqrt(squares) * (1 + 2.0**-20)

    @cached_property
    def is_finite(self) -> bool:
        """Whether no number is infinite or NaN."""
        xp = self.xp
        return bool(xp.all(xp.isfinite(self.wide if self.is_float64 else self.norms)))

    @cached_property
    def finite(self) -> Operand:
        """The same with 0 for what is infinite or NaN."""
        xp = self.xp
        return Operand(
            xp.where(xp.isfinite(self.wide), self.wide, xp.zeros_like(self.wide)), self.axis, xp, dtype=self.dtype
        )

    @cached_property
    def special(self) -> Array:
        """Which lines hold what is infinite or NaN."""
        return self.xp.any(~self.xp.isfinite(self.wide), axis=self.axis)

    @cached_property
    def exponents(self) -> Array:
        """For each line e with all numbers below 2**e; 0 for a line of zeros."""
        xp = self.xp
        largest = self._over_terms(lambda x: xp.max(xp.abs(x), axis=self.axis), xp.maximum)
        return xp.where(largest > 0, exponent_of(largest, xp), xp.zeros(largest.shape, dtype=xp.int64))

    @cached_property
    def last_bits(self) -> Array:
        """For each line p such that all numbers are multiples of 2**p; above all exponents for a line of zeros."""
        xp = self.xp

        def smallest(x: Array) -> Array:
            bits = xp.bitcast(x, xp.int64)
            fraction = (bits & _FRACTION) | (_FRACTION + 1)
            last = xp.astype(fraction & -fraction, xp.float64) * 2.0**-52 * leading_power(x, xp)
            return xp.min(xp.where(x == 0, xp.asarray(float("inf"), dtype=xp.float64), last), axis=self.axis)

        return exponent_of(self._over_terms(smallest, xp.minimum), xp) - 1

    @cached_property
    def spans(self) -> Array:
        """For each line the bits from its norm to the last bit of its numbers."""
        return exponent_of(self.norms, self.xp) - self.last_bits

    @cached_property
    def scaled(self) -> Operand:
        """The same with each line scaled by 2**-exponent, so that its largest number lies in [0.5, 1)."""
        exponents = self.xp.expand_dims(-self.exponents, axis=self.axis)
        return Operand(times_power(self.wide, exponents, self.xp), self.axis, self.xp, dtype=self.dtype)

    @cached_property
    def ranges_widely(self) -> Array:
        """The lines with numbers so small against the largest that products of scaled lines may underflow."""
        small = (self.xp.abs(self.scaled.wide) < 2.0**_WIDE) & (self.wide != 0)
        return self.xp.any(small, axis=self.axis)

    def slices(self, count: int, width: int) -> tuple[list[Array], Array | None]:
        """The numbers as ``count`` slices of ``width`` bits, from each line's exponent on, and what is left over.

        None is left over where the slices hold all.
        """
        xp = self.xp
        rest, slices = self.wide, []
        for number in range(1, count + 1):
            cut = xp.expand_dims(1.5 * power_of_two(self.exponents + (52 - width * number), xp), axis=self.axis)
            part = (rest + cut) - cut
            rest = rest - part
            slices.append(part)
        return slices, rest if bool(xp.any(rest != 0)) else None

    def take(self, stack: Array, lines: Array) -> Array:
        """The lines at these places as the rows of a matrix, in float64."""
        xp, source = self.xp, self._source
        if self.stack > 1:
            terms = xp.arange(self.terms, dtype=lines.dtype)[None, :]
            stack, lines = stack[:, None], lines[:, None]
            taken = source[stack, lines, terms] if self.axis == 2 else source[stack, terms, lines]
        elif self.axis == 2:
            taken = xp.take(source[0, ...], lines, axis=0)
        elif _is_transposed(source[0, ...]):
            taken = xp.take(xp.matrix_transpose(source[0, ...]), lines, axis=0)
        else:
            taken = xp.matrix_transpose(xp.take(source[0, ...], lines, axis=1))
        return xp.astype(taken, xp.float64, copy=False)

    def _over_terms(self, reduce: Callable[[Array], Array], combine: Callable[[Array, Array], Array]) -> Array:
        """A reduction along the summed axis, block by block; 0 where there is nothing to reduce."""
        if self.terms == 0:
            return self.xp.zeros((self.stack, self.lines), dtype=self.xp.float64)
        return functools.reduce(combine, map(reduce, self._blocks()))

    def _blocks(self) -> Iterator[Array]:
        step = max(_BLOCK * self.xp.block_scale // max(self.stack * self.lines, 1), 16)
        for terms in pieces(self.terms, step):
            yield self.wide[:, :, terms] if self.axis == 2 else self.wide[:, terms, :]


def _is_transposed(matrix: Array) -> bool:
    """Whether the columns lie one after the other in memory; a hint for speed, which the standard does not give."""
    flags = getattr(matrix, "flags", None)
    return flags is not None and bool(flags.f_contiguous and not flags.c_contiguous)
