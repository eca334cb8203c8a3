"""What operators need and the standard lacks: integer division, powers, erf, softmax and the like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onemodel.backends.extension_table import Array, extension


@extension
def trunc_divide(a: Array, b: Array, /, *, xp: Any) -> Array:
    """Quotient of two integer arrays, truncated toward zero and wrapped to the dtype.

    The standard's ``floor_divide`` rounds down, and leaves division by zero open.

    Raises:
        ZeroDivisionError: an element of ``b`` is 0.
    """
    xp.refuse_zero(b)
    if not xp.isdtype(b.dtype, "signed integer"):
        return xp.floor_divide(a, b)
    overflow = b == -1
    safe = xp.where(overflow, xp.constant(1, b), b)
    quotient = xp.floor_divide(a, safe)
    rest = a - quotient * safe
    quotient = xp.where((rest != 0) & ((a < 0) != (safe < 0)), quotient + xp.constant(1, a), quotient)
    return xp.where(overflow, -a, quotient)


@extension
def refuse_zero(b: Array, /, *, xp: Any) -> None:
    """Raise ZeroDivisionError where an integer divisor is 0: the standard leaves that open, some libraries die."""
    xp.refuse(b == 0, ZeroDivisionError, "integer division by zero: a divisor holds a 0")


@extension
def trunc_remainder(a: Array, b: Array, /, *, xp: Any) -> Array:
    """What the division of two float arrays, truncated toward zero, leaves over: C's fmod, exact, with a's sign.

    The standard's ``remainder`` rounds the quotient down.
    """
    return xp.copysign(xp.remainder(xp.abs(a), xp.abs(b)), a)


@extension
def power(x: Array, y: Array, /, *, xp: Any) -> Array:
    """``x`` to the power ``y`` in x's dtype, whatever real dtype y has.

    The standard's ``pow`` leaves operands of different kinds, and negative exponents of integers, open.

    Args:
        x: floats or integers. Integers are exact and wrap; for a negative exponent 1 / x**n truncates to zero.
        y: a broadcastable shape. An integer x to a fractional power is computed in float64, truncated and saturated.

    Raises:
        ZeroDivisionError: an integer 0 meets a negative exponent.
    """
    if not xp.isdtype(x.dtype, "integral"):
        if x.dtype == y.dtype:
            return xp.pow(x, y)
        narrow = xp.isdtype(y.dtype, "integral") and xp.iinfo(y.dtype).bits <= 16
        common = x.dtype if narrow else xp.float64
        return xp.convert(xp.pow(xp.astype(x, common), xp.astype(y, common)), xp.onnx_code(x.dtype))
    if not xp.isdtype(y.dtype, "unsigned integer"):
        xp.refuse_zero(xp.where(y < 0, x, xp.constant(1, x)))
    if xp.isdtype(y.dtype, "integral"):
        return _integer_power(x, y, xp)
    y = xp.astype(y, xp.float64)
    whole = (y == xp.trunc(y)) & (xp.abs(y) <= 2.0**53)
    exact = _integer_power(x, xp.astype(xp.where(whole, y, xp.constant(0, y)), xp.int64), xp)
    return xp.where(whole, exact, xp.convert(xp.pow(xp.astype(x, xp.float64), y), xp.onnx_code(x.dtype)))


def _integer_power(x: Array, y: Array, xp: Any) -> Array:
    """Modulo 2**64, then narrowed: every product of whole numbers is right in the bits that are kept."""
    base = xp.astype(x, xp.uint64)
    if xp.isdtype(y.dtype, "unsigned integer"):
        return xp.astype(xp.pow(base, xp.astype(y, xp.uint64)), x.dtype)
    negative = y < 0
    result = xp.astype(xp.pow(base, xp.astype(xp.where(negative, xp.constant(0, y), y), xp.uint64)), x.dtype)
    one, zero = xp.constant(1, x), xp.constant(0, x)
    odd = xp.bitwise_and(y, xp.constant(1, y)) == 1
    inverse = xp.where(x == 1, one, zero)
    if xp.isdtype(x.dtype, "signed integer"):
        inverse = xp.where(x == -1, xp.where(odd, -one, one), inverse)
    return xp.where(negative, inverse, result)


_ERF_NEAR = (
    1.1283791670955126,
    -0.3761263890318355,
    0.11283791670945252,
    -0.026866170643276073,
    0.005223977607422502,
    -0.0008548325989661416,
    0.00012055295319730584,
    -1.492474465356765e-05,
    1.6447517609499445e-06,
    -1.6209175731923008e-07,
    1.3722976770798816e-08,
    -7.801191888341914e-10,
)


_ERF_FAR = (
    0.13699945762506138,
    -0.2590680487601718,
    0.21871967891826444,
    -0.16425781669725584,
    0.10896317739905655,
    -0.0631078156451756,
    0.03129905649727299,
    -0.012843945821463029,
    0.004060264846088955,
    -0.000799128938689536,
    -2.1789584224479274e-05,
    7.893783741617954e-05,
    -2.239748416636892e-05,
    -1.1260751302139333e-06,
    4.2976663618776225e-06,
    6.867470823783915e-07,
)


@extension
def erf(x: Array, /, *, xp: Any) -> Array:
    """The error function of float32 or float64; the standard has none.

    Computed in float64, to 3e-16 relative: below 1 as x p(x**2), above as 1 - exp(-x**2) q((x - 4) / (x + 4)), which is
    1 from 6 on. p and q are minimax polynomials (relative errors 7e-18 on [0, 1], 2e-17 on [1, 6]) that Remez's
    algorithm gave for erf(sqrt(t)) / sqrt(t) and exp(x**2) erfc(x) in 60 digits.
    """
    wide = xp.astype(x, xp.float64, copy=False)
    size = xp.abs(wide)
    size = xp.where(size > 6, xp.constant(6, size), size)
    square = size * size
    near = size * _polynomial(square, _ERF_NEAR)
    far = 1 - xp.exp(-square) * _polynomial((size - 4) / (size + 4), _ERF_FAR)
    return xp.astype(xp.copysign(xp.where(size < 1, near, far), wide), x.dtype, copy=False)


def _polynomial(x: Array, coefficients: Sequence[float]) -> Array:
    """The sum of ``coefficients[i] * x**i`` by Horner's rule."""
    result = x * coefficients[-1] + coefficients[-2]
    for coefficient in coefficients[-3::-1]:
        result = result * x + coefficient
    return result


@extension
def softmax(x: Array, axis: int, /, *, xp: Any) -> Array:
    """exp(x) over its sum along ``axis``, the largest term taken out first so that nothing overflows.

    One function, because it is the heart of attention; the standard has none.
    """
    if 0 in x.shape:
        return x
    weights = xp.exp(x - xp.max(x, axis=axis, keepdims=True))
    return weights / xp.sum(weights, axis=axis, keepdims=True)


@extension
def add_all(arrays: Sequence[Array], /, *, xp: Any) -> Array:
    """The sum of arrays that broadcast together: one function, because exact mode rounds it once."""
    total = arrays[0]
    if len(arrays) < 3 or xp.host_dtype(total.dtype).name not in ("float16", "bfloat16"):
        for array in arrays[1:]:
            total = total + array
        return total
    wide = [xp.astype(array, xp.float32) for array in arrays]
    return xp.astype(xp.add_all(wide), total.dtype)


@extension
def rsqrt(x: Array, /, *, xp: Any) -> Array:
    """1 / sqrt(x) of floats: one function, because exact mode rounds it once; the standard has none."""
    return xp.constant(1, x) / xp.sqrt(x)


@extension
def exp2(x: Array, /, *, xp: Any) -> Array:
    """2 to the power x of floats; the standard has none."""
    return xp.pow(xp.constant(2, x), x)


@extension
def quantize(x: Array, scale: Array, zero: Array | None, code: int, /, *, xp: Any) -> Array:
    """x / scale rounded half to even, plus ``zero``, saturated to the 8 or 16-bit integer type of ONNX's ``code``.

    One function, because it is all that a quantized model does between two products: a backend can do it in one pass.

    Args:
        x, scale, zero: of one type of floats; scale and zero broadcast against x.
    """
    whole = xp.round(x / scale)
    return xp.convert(whole if zero is None else whole + zero, code)
