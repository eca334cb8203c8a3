"""Correctly rounded values by MPFR, for what the faster comparison leaves open and for float64."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import gmpy2

PRECISION = 400
Real = Any
"""An MPFR number."""


def _sigmoid(x: Real) -> Real:
    return 1 / (1 + gmpy2.exp(-x))


def _mish(x: Real) -> Real:
    if x > 1000:
        return x
    e = gmpy2.exp(x)
    n = e * (e + 2)
    return x * (n / (n + 2))


def _gelu_tanh(x: Real) -> Real:
    rate = 2 * gmpy2.sqrt(2 / gmpy2.const_pi())
    return x * _sigmoid(rate * (x + gmpy2.mpfr("0.044715") * x * x * x))


def _softplus(x: Real) -> Real:
    return max(x, gmpy2.mpfr(0)) + gmpy2.log1p(gmpy2.exp(-abs(x)))


def _atan2(y: Real, x: Real) -> Real:
    if x > 0 and 0 < abs(y / x) < 2.0**-300:
        # y / x and a little less, so little that MPFR would need thousands of bits to show it.
        return (y / x) * (1 - gmpy2.mpfr(2) ** -350)
    return gmpy2.atan2(y, x)


FUNCTIONS: dict[str, Callable[..., Real]] = {
    "exp": gmpy2.exp,
    "exp2": gmpy2.exp2,
    "expm1": gmpy2.expm1,
    "cosh": gmpy2.cosh,
    "sinh": gmpy2.sinh,
    "sigmoid": _sigmoid,
    "silu": lambda x: x * _sigmoid(x),
    "mish": _mish,
    "gelu_tanh": _gelu_tanh,
    "log": gmpy2.log,
    "log2": gmpy2.log2,
    "log10": gmpy2.log10,
    "log1p": gmpy2.log1p,
    "asinh": gmpy2.asinh,
    "acosh": gmpy2.acosh,
    "atanh": gmpy2.atanh,
    "sin": gmpy2.sin,
    "cos": gmpy2.cos,
    "tan": gmpy2.tan,
    "atan": gmpy2.atan,
    "asin": gmpy2.asin,
    "acos": gmpy2.acos,
    "tanh": gmpy2.tanh,
    "erf": gmpy2.erf,
    "gelu": lambda x: x / 2 * gmpy2.erfc(-x / gmpy2.sqrt(gmpy2.mpfr(2))),
    "softplus": _softplus,
    "rsqrt": lambda x: 1 / gmpy2.sqrt(x),
    "pow": lambda x, y: x**y,
    "atan2": _atan2,
}
"""By name."""


def precise(bits: int = PRECISION) -> Any:
    """A context of so many bits, with exponents far beyond float64's."""
    return gmpy2.context(precision=bits, emin=-(1 << 40), emax=1 << 40)


def from_float(value: float) -> Real:
    """A float64 as an MPFR number."""
    return gmpy2.mpfr(value)


def value(name: str, *arguments: float) -> Real:
    """The function at these numbers, with exponents far beyond float64's.

    To ``PRECISION`` bits, and for a tiny number to so many that they show its square beside it.
    """
    tiny = any(0 < abs(argument) < 2.0**-300 for argument in arguments)
    with precise(1400 if tiny else PRECISION):
        return FUNCTIONS[name](*map(gmpy2.mpfr, arguments))


def rounded(number: Real, digits: int, least: int, most: int) -> float:
    """``number`` as the nearest of a type of floats, ties to even.

    Args:
        number: an MPFR number.
        digits: bits of the significand.
        least: exponent of the smallest positive number.
        most: exponent of the first power of two that is out of range.
    """
    if not gmpy2.is_finite(number) or number == 0:
        return float(number)
    significand, exponent = (int(part) for part in number.as_mantissa_exp())
    sign, significand = (-1 if significand < 0 else 1), abs(significand)
    if significand.bit_length() + exponent < least:
        return sign * 0.0
    shift = max(significand.bit_length() + exponent - digits, least) - exponent
    if shift > 0:
        quotient, rest = significand >> shift, significand & ((1 << shift) - 1)
        half = 1 << (shift - 1)
        significand = quotient + (rest > half or (rest == half and quotient & 1))
        exponent += shift
    if significand.bit_length() + exponent > most:
        return sign * float("inf")
    result = (
        float(significand) * 2.0**exponent
        if exponent > -1000
        else float(gmpy2.mpfr(significand) * gmpy2.mpfr(2) ** exponent)
    )
    return sign * result


FORMATS = {
    "float16": (11, -24, 16),
    "bfloat16": (8, -133, 128),
    "float32": (24, -149, 128),
    "float64": (53, -1074, 1024),
}
"""The arguments of ``rounded`` for each type."""


def number_of(bits: int) -> float:
    """The float32 with these bits."""
    result: float = struct.unpack("<f", struct.pack("<I", bits))[0]
    return result


def bits_of(number: float) -> int:
    """The bits of a number that is a float32."""
    result: int = struct.unpack("<I", struct.pack("<f", number))[0]
    return result
