"""What exact mode takes on trust, put to the test.

Once per process the error of the library's float64 product; at the start of each run how the calling thread rounds.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from onemodel.backends.base import Unavailable

_SHAPES = ((1, 300, 70), (70, 300, 1), (131, 517, 67), (3, 5, 2), (16, 64, 16))
"""Rows, terms and columns: what BLAS has kernels of its own for."""

_SAMPLES = 6
"""Elements of each product that are compared."""


def check_arithmetic(
    least: float = 2.0**-1074, one: float = 1.0, quarter: float = 2.0**-54, most: float = 2.0**-53 + 2.0**-54
) -> None:
    """Check that the calling thread keeps subnormal numbers and rounds to nearest, in one product and two sums.

    These are settings of each thread (MXCSR on x86-64, FPCR on Arm). Libraries compiled with -ffast-math, audio and
    game engines change them, and a new thread inherits them from the one that starts it.

    Args:
        least, one, quarter, most: the operands; parameters, because Python computes what is constant once and for all.

    Raises:
        Unavailable: it does not; the text says what it does instead.
    """
    if least * one == 0:  # where subnormal operands count as zero, so does the other side
        problem = "takes subnormal numbers for zero"
    elif one + quarter != one:
        problem = "rounds upward, not to nearest"
    elif one + most == one:
        problem = "rounds downward or toward zero, not to nearest"
    else:
        return
    raise Unavailable(
        f"exact mode needs IEEE 754 arithmetic, but the floating-point unit of this thread {problem}. A library in "
        "this process has changed that setting (-ffast-math does when it is loaded; a new thread inherits it): set the "
        'default again, run in another thread, or use mode="fast"'
    )


def check_product(xp: Any) -> None:
    """Compare elements of float64 products with exact rationals, on rows and columns of very different size.

    Raises:
        Unavailable: an element is further from the exact one than any order of correctly rounded additions puts it.
    """
    for seed, (rows, terms, columns) in enumerate(_SHAPES):
        (a, a_scale), (b, b_scale) = _lines(seed, rows, terms), _lines(seed + 99, columns, terms)
        left, right = a * np.exp2(a_scale)[:, None], (b * np.exp2(b_scale)[:, None]).T
        for x, y in ((left, right), (np.asfortranarray(left), np.ascontiguousarray(right))):
            product = xp.to_host(xp.matmul(xp.from_host(x), xp.from_host(y)))
            for sample in range(_SAMPLES):
                row, column = sample * 37 % rows, sample * 53 % columns
                got = float(product[row, column]) * 2.0 ** -float(a_scale[row] + b_scale[column])
                _compare(a[row].tolist(), b[column].tolist(), got, xp.label)


def _lines(seed: int, lines: int, terms: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Whole numbers of 52 bits and both signs, and for each line a power of two that scales it; by integers alone."""
    places = np.arange(lines * terms, dtype=np.uint64) + np.uint64(seed << 32)
    bits = places * np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (bits >> np.uint64(11)).astype(np.int64) - 2**52
    return numbers.reshape(lines, terms), -11.0 * (np.arange(lines) % 40)


def _compare(row: list[int], column: list[int], got: float, label: str) -> None:
    """Raise where ``got`` is not near enough to the product of whole numbers."""
    products = [x * y for x, y in zip(row, column, strict=True)]
    error = abs(Fraction(got) - sum(products)) if math.isfinite(got) else math.inf
    bound = Fraction((len(products) + 1) * sum(map(abs, products)), 2**53)
    if error > bound:
        raise Unavailable(
            f"exact mode needs a float64 matrix product that adds up in float64; the {label} namespace has one that is "
            f"{float(error / bound):.3g} times as far off. Turn the emulation or reduction of float64 precision in its "
            'BLAS off, or use mode="fast"'
        )
