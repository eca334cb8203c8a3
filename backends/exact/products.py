"""Matrix products in the exact namespace: of each element the exact sum of the exact products, rounded once.

The library's float64 product comes first. Its error is bounded whatever the order of its additions (Higham, Accuracy
and stability of numerical algorithms, 2002, section 3.1), and where all numbers within the bound round to one, that is
the result. The few others are settled by the last bits of the operands, by products of slices that are exact, and in
the end by exact sums of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import product as pairs_of
from typing import Any, NamedTuple

from onemodel.backends.exact.extraction import OpenSums, dots_by_integers
from onemodel.backends.exact.operand import Operand
from onemodel.backends.exact.rounding import (
    UNIT,
    bracketed,
    certified,
    distil,
    narrow,
    pieces,
    rounded,
    times_power,
    two_product,
)
from onemodel.backends.exact.sums import must_round

Array = Any

_CHUNK = 384
"""Terms that are added up by one product of the library's; the bound grows with this and with the number of chunks."""

_BLOCK = 1 << 15
"""Elements that are certified at a time, so that they stay in the cache."""

_TILE = 1 << 17
"""Elements of the product that are made at a time."""

_ROWS = 1024
"""Rows that are made at a time at least: BLAS arranges the right factor anew for each time."""

_COLUMNS = 2048
"""Columns that a tile has at most."""

_PART = 1 << 21
"""Elements of a factor that are converted at a time: larger arrays cost much, as their memory comes anew each time."""

_LINES = 256
"""Lines of a factor that are converted at a time at least."""

_GATHERED = 1 << 20
"""Terms that are gathered at a time for sums of their own."""

_MANY = 1.0
"""Unsettled elements for each line, from which on looking at the lines costs less than sums of their own."""

_SHARE = 0.01
"""Unsettled elements of all, beyond those, from which on making all anew costs less."""

_FEW_PRODUCTS = 9
"""Products of slices that are tried at once; beyond them two slices of each factor and the rest come first."""

_MOST_PRODUCTS = 24
"""Products of slices that cost less than sums of their own for all elements."""

_MARGIN = 1 + 2.0**-10
"""For the roundings of the bounds themselves."""


class _OpenTile(NamedTuple):
    """A part of a product with open elements: its first matrix, row and column, where they are, and where they go."""

    start: tuple[int, int, int]
    is_open: Array
    out: Array


def _gather(a: Operand, b: Operand, tiles: Sequence[_OpenTile], sums: OpenSums) -> None:
    """Hand over the terms of all elements of the product of a and b that are open in these tiles."""
    xp = a.xp
    places = [
        [place + first for place, first in zip(_places(tile.is_open, xp), tile.start, strict=True)] for tile in tiles
    ]
    stack, row, column = (xp.concat(parts) for parts in zip(*places, strict=True))
    # Neighbouring columns share what is read from memory.
    order = xp.argsort(column, stable=True)
    sums.expect([(tile.is_open, tile.out) for tile in tiles], order)
    for some in pieces(order.shape[0], max(_GATHERED // a.terms, 1)):
        index = order[some]
        matrices = xp.take(stack, index)
        left, right = a.take(matrices, xp.take(row, index)), b.take(matrices, xp.take(column, index))
        sums.add(xp.concat(two_product(left, right), axis=1) if a.is_float64 else left * right)


def matrix_product(a: Operand, b: Operand, out: Array, sums: OpenSums) -> None:
    """Write the product of two stacks of matrices, of which one may be a single matrix, into ``out``.

    Args:
        a, b: the factors.
        out: shape (stack, rows, columns), zeros. Parts of it are written by way of slices of it, which must be views.
        sums: gets what is open in the end.
    """
    stack, rows, columns = out.shape
    if 0 in (stack, rows, columns, a.terms):
        return
    tile_size, most_columns = _TILE * a.xp.block_scale, _COLUMNS * a.xp.block_scale
    if stack * rows * columns <= tile_size and columns <= most_columns:
        is_open = _tile(a, b, out)
        if is_open is not None:
            _gather(a, b, [_OpenTile((0, 0, 0), is_open, out)], sums)
        return
    longest = max(_PART * a.xp.block_scale // a.terms, _LINES)
    width = min(columns, most_columns, longest)
    height = min(rows, max(tile_size // width, _ROWS), longest)
    depth = max(tile_size // (height * width), 1)
    tiles: list[_OpenTile] = []
    for matrices in pieces(stack, depth):
        a_matrices, b_matrices = (matrices if operand.stack > 1 else slice(0, 1) for operand in (a, b))
        bands = list(pieces(rows, height))
        upper = [a.part(a_matrices, band) for band in bands]
        for across in pieces(columns, width):
            right = b.part(b_matrices, across)
            for band, left in zip(bands, upper, strict=True):
                tile = out[matrices, band, across]
                is_open = _tile(left, right, tile)
                if is_open is not None:
                    tiles.append(_OpenTile((matrices.start, band.start, across.start), is_open, tile))
    if tiles:
        _gather(a, b, tiles, sums)


def _tile(a: Operand, b: Operand, out: Array) -> Array | None:
    """Write the product; return where it is not settled, None where all is."""
    if not (a.is_finite and b.is_finite):
        return _with_special_values(a, b, out)
    if a.is_float64:
        return _tile_of_float64(a, b, out)
    return _tile_of_float32(a, b, out)


def _tile_of_float32(a: Operand, b: Operand, out: Array) -> Array | None:
    """Products of float32 and narrower numbers, which float64 holds."""
    xp = a.xp
    total = _library_product(a.wide, b.wide, xp)
    is_open = _certify(total, a, b, out)
    if is_open is None:
        return None
    lines = out.shape[0] * (out.shape[1] + out.shape[2])
    if int(xp.count_nonzero(is_open)) > _MANY * lines:
        # A sum below 2**53 of its last bit is exact in any order.
        inexact = a.spans[:, :, None] + b.spans[:, None, :] > 53
        settled = is_open & ~inexact
        out[settled] = narrow(total[settled] + 0.0, out.dtype, xp)
        is_open = is_open & inexact
        many = _MANY * (lines + _SHARE * math.prod(out.shape))
        for most in (_FEW_PRODUCTS, _MOST_PRODUCTS):
            if is_open is not None and int(xp.count_nonzero(is_open)) > many:
                is_open = _by_slices(a, b, *_plan_slices(a, b, most), out)
    return is_open


def _library_product(a: Array, b: Array, xp: Any) -> Array:
    """The library's float64 product, chunk by chunk along the summed axis."""
    terms = a.shape[2]
    if terms <= _CHUNK:
        return xp.matmul(a, b)
    step = -(-terms // -(-terms // _CHUNK))
    first, *others = pieces(terms, step)
    total = xp.matmul(a[:, :, first], b[:, first, :])
    for some in others:
        total += xp.matmul(a[:, :, some], b[:, some, :])
    return total


def _certify(total: Array, a: Operand, b: Operand, out: Array) -> Array | None:
    """Write the rounded product; return where it is not sure, None where all is."""
    xp, terms = a.xp, a.terms
    factor = UNIT * _MARGIN * (min(terms, _CHUNK) + -(-terms // _CHUNK) + 2)
    left, right = (a.norms * factor)[:, :, None], b.norms[:, None, :]
    stack, rows, columns = out.shape
    is_open = None
    for band in pieces(rows, max(_BLOCK * xp.block_scale // (stack * columns), 1)):
        result, open_ones = certified(total[:, band, :], left[:, band, :] * right, out.dtype, xp)
        out[:, band, :] = result
        if bool(xp.any(open_ones)):
            is_open = xp.zeros(out.shape, dtype=xp.bool) if is_open is None else is_open
            is_open[:, band, :] = open_ones
    return is_open


def _plan_slices(a: Operand, b: Operand, most: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """For each factor how many slices of how many bits: as few as hold all bits, else two and the rest.

    Args:
        most: products of slices.
    """
    xp = a.xp
    room = 53 - (a.terms - 1).bit_length()
    a_bits, b_bits = (max(int(xp.max(operand.exponents - operand.last_bits)), 1) for operand in (a, b))
    plans = []
    for count in range(1, most + 1):
        width = -(-a_bits // count)
        if width < room:
            others = -(-b_bits // (room - width))
            plans.append((count * others, (count, width), (others, -(-b_bits // others))))
    products, *plan = min(plans, default=(most + 1, (0, 0), (0, 0)))
    return (plan[0], plan[1]) if products <= most else ((2, room // 2), (2, room // 2))


def _by_slices(
    a: Operand, b: Operand, a_plan: tuple[int, int], b_plan: tuple[int, int], out: Array, extra: Array | None = None
) -> Array | None:
    """Write the product, made from exact products of slices; return where it is not settled, None where all is.

    Args:
        a_plan, b_plan: the number of slices and their bits.
        extra: an error of the factors themselves.
    """
    xp = a.xp
    (a_slices, a_rest), (b_slices, b_rest) = a.slices(*a_plan), b.slices(*b_plan)
    parts = [xp.matmul(x, y) for x, y in pairs_of(a_slices, b_slices)]
    a_size, b_size = xp.zeros_like(a.norms), xp.zeros_like(b.norms)
    if b_rest is not None:
        parts.append(xp.matmul(a.wide if a_rest is None else a.wide - a_rest, b_rest))
        b_size = Operand(b_rest, 1, xp).norms
    if a_rest is not None:
        parts.append(xp.matmul(a_rest, b.wide))
        a_size = Operand(a_rest, 2, xp).norms
    is_exact = a_rest is None and b_rest is None and extra is None
    factor = UNIT * _MARGIN * (a.terms + 4)
    stack, rows, columns = out.shape
    is_open = None if is_exact else xp.empty(out.shape, dtype=xp.bool)
    for band in pieces(rows, max(_BLOCK * xp.block_scale // (stack * columns), 1)):
        total, rest = distil([part[:, band, :] for part in parts], xp)
        if is_open is None:
            out[:, band, :] = rounded(total, rest, out.dtype, xp)
            continue
        left, left_rest = ((x[:, band] * factor)[:, :, None] for x in (a.norms + a_size, a_size))
        bound = left * b_size[:, None, :] + left_rest * b.norms[:, None, :]
        bound = bound if extra is None else bound + extra[:, band, :]
        out[:, band, :], is_open[:, band, :] = bracketed(total, rest, bound, out.dtype, xp)
    return is_open


def _tile_of_float64(a: Operand, b: Operand, out: Array) -> Array | None:
    """Products of float64 need 106 bits: always by slices, of lines that are scaled to 1."""
    xp = a.xp
    width = (53 - (a.terms - 1).bit_length()) // 2
    widely = a.ranges_widely[:, :, None] | b.ranges_widely[:, None, :]
    # What underflows, in scaling, in products, and in the norms of slices' rests, is below that.
    extra = xp.astype(widely, xp.float64) * (2.0**-500 * a.terms)
    some_widely = bool(xp.any(widely))
    is_open = _by_slices(a.scaled, b.scaled, (2, width), (2, width), out, extra if some_widely else None)
    if is_open is None:
        is_open = xp.zeros(out.shape, dtype=xp.bool)
    else:
        sums = OpenSums(out.dtype, xp)
        _gather(a.scaled, b.scaled, [_OpenTile((0, 0, 0), is_open & ~widely, out)], sums)
        sums.settle()
    exponents = a.exponents[:, :, None] + b.exponents[:, None, :]
    result = times_power(out, exponents, xp) + 0.0
    # Of results that are subnormal, or rounded up from there, the bits that fell off were rounded before.
    open_ones = (is_open & widely) | ((xp.abs(result) <= 2.0**-1022) & (out != 0))
    out[...] = result
    if bool(xp.any(open_ones)):
        stack, row, column = _places(open_ones, xp)
        out[open_ones] = dots_by_integers(a.take(stack, row), b.take(stack, column), xp)
    return None


def _places(mask: Array, xp: Any) -> tuple[Array, Array, Array]:
    """Where the mask is true: the numbers of matrix, row and column."""
    _, rows, columns = mask.shape
    place = xp.nonzero(xp.reshape(mask, (-1,)))[0]
    row = place // columns
    stack = row // rows
    return stack, row - stack * rows, place - row * columns


def _with_special_values(a: Operand, b: Operand, out: Array) -> Array | None:
    """The product of operands with infinities and NaN: their lines are made apart."""
    xp = a.xp
    is_open = _tile(a.finite, b.finite, out)
    if out.shape[0] > 1:
        value, special = _special_values(a.wide, b.wide, xp)
        out[special] = xp.astype(value[special], out.dtype)
        return None if is_open is None else is_open & ~special
    for operand, axis in ((a, 1), (b, 2)):
        lines = xp.reshape(operand.special, (-1,))
        index = xp.nonzero(lines)[0]
        if index.shape[0] == 0:
            continue
        some = xp.take(operand.wide, index, axis=axis)
        value, special = _special_values(*((some, b.wide) if operand is a else (a.wide, some)), xp)
        # Spread over all lines, so that one mask says what is written.
        place = xp.cumulative_sum(xp.astype(lines, xp.int64)) - 1
        place = xp.where(lines, place, xp.zeros_like(place))
        here = xp.reshape(lines, tuple(-1 if i == axis else 1 for i in range(3)))
        special = here & xp.take(special, place, axis=axis)
        out[special] = xp.astype(xp.take(value, place, axis=axis)[special], out.dtype)
        is_open = None if is_open is None else is_open & ~special
    return is_open


def _special_values(a: Array, b: Array, xp: Any) -> tuple[Array, Array]:
    """What is infinite or NaN in the product, and where; by products of zeros and ones."""
    a_nan, b_nan = xp.isnan(a), xp.isnan(b)
    wrong = xp.any(a_nan, axis=2, keepdims=True) | xp.any(b_nan, axis=1, keepdims=True)
    a_infinite, b_infinite = (xp.astype(xp.isinf(x), xp.float64) for x in (a, b))
    a_sign, b_sign = (xp.where(nan, xp.zeros_like(x), xp.sign(x)) for nan, x in ((a_nan, a), (b_nan, b)))
    # The infinite terms by sign: their number, and how many more are positive. Nothing counts a term twice.
    number = xp.matmul(a_infinite, xp.abs(b_sign)) + xp.matmul(xp.abs(a_sign) - a_infinite, b_infinite)
    excess = xp.matmul(a_infinite * a_sign, b_sign) + xp.matmul(a_sign - a_infinite * a_sign, b_infinite * b_sign)
    invalid = xp.matmul(a_infinite, 1 - xp.abs(b_sign)) + xp.matmul(1 - xp.abs(a_sign), b_infinite)
    wrong = wrong | (invalid > 0) | (xp.abs(excess) < number)
    infinity = xp.where(excess > 0, xp.ones_like(excess), -xp.ones_like(excess)) * float("inf")
    return xp.where(wrong, xp.full_like(excess, float("nan")), infinity), wrong | (number > 0)


class Prepared:
    """A constant factor of products with what exact products need of it, made once: float64 numbers and norms.

    It stands in for its array in ``matmul`` (either side) and ``conv`` (the filters).

    Args:
        array: at least two axes.
        side: ``"left"`` or ``"right"``; filters of a convolution are ``"left"``.
        groups: of the convolution.
    """

    def __init__(self, array: Array, side: str, groups: int = 1, *, xp: Any) -> None:
        self.array = array
        self.shape, self.ndim, self.dtype = array.shape, array.ndim, array.dtype
        if side == "left" and array.ndim > 2:
            array = xp.reshape(array, (groups, array.shape[0] // groups, math.prod(array.shape[1:])))
        matrices = xp.reshape(array, (math.prod(array.shape[:-2]), *array.shape[-2:]))
        self.operand = Operand(matrices, 2 if side == "left" else 1, xp)
        _ = self.operand.wide, self.operand.is_finite

    @property
    def nbytes(self) -> int:
        """The bytes of the array and of its float64 numbers."""
        return int(self.array.nbytes + self.operand.wide.nbytes)

    @cached_property
    def mT(self) -> Prepared:  # noqa: N802 - the standard's name
        """The transpose of a matrix, for the other side."""
        turned: Prepared = object.__new__(Prepared)
        turned.array = self.operand.xp.matrix_transpose(self.array)
        turned.shape, turned.ndim, turned.dtype = turned.array.shape, self.ndim, self.dtype
        turned.operand = self.operand.transposed
        return turned


def matmul(a: Any, b: Any, /, *, xp: Any) -> Array:
    """The matrix product over the last two axes; each element is the exact sum, rounded once."""
    dtype = a.dtype if a.dtype == b.dtype else xp.result_type(a.dtype, b.dtype)
    if not must_round(dtype, xp):
        return xp.matmul(a, b)
    a, b = (x.array if isinstance(x, Prepared) and x.ndim > 2 else x for x in (a, b))
    if a.ndim == 0 or b.ndim == 0 or a.shape[-1] != b.shape[-2:][0]:
        raise ValueError(f"shapes {a.shape} and {b.shape} do not multiply")
    rows, columns = a.shape[-2:-1], b.shape[-1:] if b.ndim > 1 else ()
    terms = a.shape[-1]
    if b.ndim <= 2:
        left = _operand(a, (1, math.prod(a.shape[:-1]), terms), 2, dtype, xp)
        right = _operand(b, (1, terms, math.prod(columns)), 1, dtype, xp)
        return xp.reshape(_product(left, right, dtype), (*a.shape[:-1], *columns))
    batch = b.shape[:-2] if a.ndim <= 2 else tuple(xp.broadcast_shapes(a.shape[:-2], b.shape[:-2]))
    if a.ndim > 2:
        a = a if a.shape[:-2] == batch else xp.broadcast_to(a, (*batch, *a.shape[-2:]))
    b = b if b.shape[:-2] == batch else xp.broadcast_to(b, (*batch, *b.shape[-2:]))
    stack = math.prod(batch)
    left = _operand(a, (1 if a.ndim <= 2 else stack, math.prod(rows), terms), 2, dtype, xp)
    right = _operand(b, (stack, terms, math.prod(columns)), 1, dtype, xp)
    return xp.reshape(_product(left, right, dtype), (*batch, *rows, *columns))


def _product(a: Operand, b: Operand, dtype: Any) -> Array:
    out = a.xp.zeros((a.stack if b.stack == 1 else b.stack, a.lines, b.lines), dtype=dtype)
    sums = OpenSums(dtype, a.xp)
    matrix_product(a, b, out, sums)
    sums.settle()
    return out


def _operand(x: Any, shape: tuple[int, int, int], axis: int, dtype: Any, xp: Any) -> Operand:
    if isinstance(x, Prepared):
        operand = x.operand
        if operand.axis == axis and operand.dtype == dtype and operand.stack == shape[0]:
            return operand
        x = x.array
    x = x if x.dtype == dtype else xp.astype(x, dtype)
    return Operand(xp.reshape(x, shape), axis, xp)


def tensordot(a: Array, b: Array, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2, xp: Any) -> Array:
    """The sums of products over pairs of axes, each exact and rounded once."""
    if isinstance(axes, int):
        of_a, of_b = tuple(range(a.ndim - axes, a.ndim)), tuple(range(axes))
    else:
        of_a, of_b = (tuple(i % x.ndim for i in some) for some, x in zip(axes, (a, b), strict=True))
    if [a.shape[i] for i in of_a] != [b.shape[i] for i in of_b]:
        raise ValueError(f"axes {of_a} and {of_b} of shapes {a.shape} and {b.shape} are not of the same sizes")
    rest_a, rest_b = ([i for i in range(x.ndim) if i not in some] for x, some in ((a, of_a), (b, of_b)))
    shape = (*(a.shape[i] for i in rest_a), *(b.shape[i] for i in rest_b))
    terms = math.prod(a.shape[i] for i in of_a)
    rows, columns = math.prod(a.shape[i] for i in rest_a), math.prod(b.shape[i] for i in rest_b)
    left = xp.reshape(xp.permute_dims(a, (*rest_a, *of_a)), (rows, terms))
    right = xp.reshape(xp.permute_dims(b, (*of_b, *rest_b)), (terms, columns))
    return xp.reshape(matmul(left, right, xp=xp), shape)


def vecdot(a: Array, b: Array, /, *, axis: int = -1, xp: Any) -> Array:
    """The sums of products along an axis, each exact and rounded once."""
    dtype = xp.result_type(a.dtype, b.dtype)
    if not must_round(dtype, xp):
        return xp.vecdot(a, b, axis=axis)
    a, b = (xp.moveaxis(x, axis, -1) for x in xp.broadcast_arrays(a, b))
    product = matmul(xp.expand_dims(a, axis=-2), xp.expand_dims(b, axis=-1), xp=xp)
    return xp.reshape(product, a.shape[:-1])


def matrix_transpose(x: Any, /, *, xp: Any) -> Any:
    """The last two axes exchanged."""
    return x.mT if isinstance(x, Prepared) else xp.matrix_transpose(x)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    function.__name__: function for function in (matmul, matrix_transpose, tensordot, vecdot)
}
"""The functions of this chapter."""
