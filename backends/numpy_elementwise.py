"""Elementwise functions and rows on NumPy in fast mode: fewer passes through memory, in blocks that stay in cache."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import array_api_compat.numpy as library
import numpy as np

from onemodel.backends.base import Kernel, build_namespace, numpy_dtype
from onemodel.backends.numpy_reduction import row_sums, sum_

Array = np.ndarray[Any, Any]

BLOCK = 16384
"""Elements at a time; a handful of float32 buffers of this length stay in the second-level cache."""

_SMALL = 2048
"""Below so many elements a plain call is faster than a cleverer one."""

_SHORT = 48
"""Rows up to this length are slower one by one than all at once, column by column."""

_generic = build_namespace("numpy generic", library, {"onnx_dtype": numpy_dtype, "host_dtype": np.dtype})
_FLOATS = ("float32", "float64")


def _blocks(x: Array, result: Array) -> Iterator[tuple[Array, Array]]:
    """Matching pieces of ``x`` and ``result``, which is contiguous, to read from and to write to."""
    source, target = np.ascontiguousarray(x).reshape(-1), result.reshape(-1)
    for start in range(0, source.size, BLOCK):
        yield source[start : start + BLOCK], target[start : start + BLOCK]


def maximum(a: Any, b: Any, /) -> Array:
    """The standard's ``maximum``: NumPy's is several times slower than its ``clip`` where one operand is one number."""
    return _limited(a, b, np.maximum, lambda x, limit: x.clip(limit, np.inf))


def minimum(a: Any, b: Any, /) -> Array:
    """The standard's ``minimum``, see ``maximum``."""
    return _limited(a, b, np.minimum, lambda x, limit: x.clip(-np.inf, limit))


def _limited(a: Any, b: Any, plain: Callable[[Any, Any], Array], clip: Callable[[Array, Array], Array]) -> Array:
    for x, limit in ((a, b), (b, a)):
        if getattr(x, "size", 0) >= _SMALL and x.dtype.name in _FLOATS and getattr(limit, "ndim", 1) == 0:
            return clip(x, limit)
    return plain(a, b)


_ERF = (
    1.1283792743668695,
    0.10276905521739955,
    -0.0001918293089364568,
    -0.000619786161335221,
    8.763793398808368e-05,
    -5.668576708703098e-06,
    1.4185797928252345e-07,
)
"""Minimax polynomial p for atanh(erf(x)) = x p(x**2) on [0, 4], by Lawson's iteration in 34 digits.

The weight was the error that it leaves in erf, 9.5e-8 of its value. From 4 on it only grows.
"""
_ERF_COEFFICIENTS = [np.asarray(value, np.float32) for value in _ERF]
_ERF_REACH = np.asarray(4.5, np.float32)
_HALF, _ONE, _ROOT_HALF = (np.asarray(value, np.float32) for value in (0.5, 1, np.sqrt(0.5)))


def _erf_of_block(x: Array, result: Array, square: Array) -> None:
    """erf(x) = tanh(x p(x**2)) in float32, to 4 units in the last place; ``result`` and ``square`` are written."""
    x = np.clip(x, -_ERF_REACH, _ERF_REACH)
    np.multiply(x, x, out=square)
    np.multiply(square, _ERF_COEFFICIENTS[-1], out=result)
    for coefficient in _ERF_COEFFICIENTS[-2:0:-1]:
        result += coefficient
        result *= square
    result += _ERF_COEFFICIENTS[0]
    result *= x
    np.tanh(result, out=result)


def erf(x: Array, /) -> Array:
    """See ``extension.erf``; float32 has a faster formula."""
    if x.dtype != np.float32:
        return np.asarray(_generic.erf(x))
    result, square = np.empty(x.shape, x.dtype), np.empty(min(x.size, BLOCK), x.dtype)
    for source, target in _blocks(x, result):
        _erf_of_block(source, target, square[: source.size])
    return result


def gelu(x: Array, /) -> Array:
    """See ``extension.gelu``; float32 block by block."""
    if x.dtype != np.float32:
        return np.asarray(_generic.gelu(x))
    result, scaled, square = _buffers(x)
    for source, target in _blocks(x, result):
        argument = np.multiply(source, _ROOT_HALF, out=scaled[: source.size])
        _erf_of_block(argument, target, square[: source.size])
        _weight(source, target)
    return result


def gelu_tanh(x: Array, /) -> Array:
    """See ``extension.gelu_tanh``; block by block."""
    if x.dtype.name not in _FLOATS:
        return np.asarray(_generic.gelu_tanh(x))
    cubic, slope = (np.asarray(value, x.dtype) for value in (0.044715, np.sqrt(2 / np.pi)))
    result, square, _ = _buffers(x)
    for source, target in _blocks(x, result):
        argument = np.multiply(source, source, out=square[: source.size])
        argument *= cubic
        argument += 1
        argument *= slope
        argument *= source
        np.tanh(argument, out=target)
        _weight(source, target)
    return result


def _weight(x: Array, target: Array) -> None:
    """target = x / 2 (target + 1)."""
    target += 1
    target *= x
    target *= _HALF


def mish(x: Array, /) -> Array:
    """See ``extension.mish``; block by block."""
    if x.dtype.name not in _FLOATS:
        return np.asarray(_generic.mish(x))
    result, powers, products = _buffers(x)
    most = np.asarray(20, x.dtype)
    for source, target in _blocks(x, result):
        power, product = powers[: source.size], products[: source.size]
        np.exp(np.minimum(source, most, out=power), out=power)
        np.multiply(power, np.add(power, 2, out=product), out=product)
        np.add(product, 2, out=power)
        np.multiply(np.divide(product, power, out=product), source, out=target)
    return result


def _buffers(x: Array) -> tuple[Array, Array, Array]:
    """The result for x, and two blocks to compute in."""
    return (np.empty(x.shape, x.dtype), *np.empty((2, min(x.size, BLOCK)), x.dtype))


def softmax(x: Array, axis: int, /) -> Array:
    """See ``extension.softmax``; in place, by blocks of rows, or along columns where rows are short."""
    if 0 in x.shape or x.dtype.name not in _FLOATS:
        return np.asarray(_generic.softmax(x, axis))
    result = np.empty(x.shape, x.dtype)
    if axis not in (-1, x.ndim - 1):
        np.subtract(x, np.maximum.reduce(x, axis=axis, keepdims=True), out=result)
        np.exp(result, out=result)
        result /= sum_(result, axis=axis, keepdims=True)
        return result
    length = x.shape[-1]
    source, target = np.ascontiguousarray(x).reshape(-1, length), result.reshape(-1, length)
    if length <= _SHORT <= source.shape[0]:
        columns = source.T.copy()
        columns -= np.maximum.reduce(columns, axis=0)
        np.exp(columns, out=columns)
        columns /= np.add.reduce(columns, axis=0)
        target[...] = columns.T
        return result
    step = max(4 * BLOCK // length, 1)
    for start in range(0, source.shape[0], step):
        rows, exponentials = source[start : start + step], target[start : start + step]
        np.subtract(rows, np.maximum.reduce(rows, axis=1, keepdims=True), out=exponentials)
        np.exp(exponentials, out=exponentials)
        exponentials /= row_sums(exponentials)[:, None]
    return result


def power(x: Array, y: Array, /) -> Array:
    """See ``extension.power``; squares, cubes, square roots and their reciprocals of floats need no logarithm."""
    exponent = y.item() if x.dtype.name in _FLOATS and y.size == 1 and y.ndim <= x.ndim else None
    if exponent == 2:
        return np.multiply(x, x)
    if exponent == 3:
        cube = np.asarray(np.multiply(x, x))
        return np.asarray(np.multiply(cube, x, out=cube))
    if exponent in (0.5, -0.5):
        # The power of -infinity is infinite, that of -0 is +0; NumPy's own power gives the square root's NaN and -0.
        root = np.asarray(np.sqrt(x))
        root += 0
        if x.size and np.isneginf(np.fmin.reduce(x, axis=None)):
            root = np.where(np.isneginf(x), np.asarray(np.inf, x.dtype), root)
        return root if exponent > 0 else np.divide(1, root, out=root)
    return np.asarray(_generic.power(x, y))


def _leaky_relu(x: Array, /, *, alpha: float = 0.01, xp: Any) -> Array:
    """LeakyRelu: the greater of x and alpha x, or the sum of both sides; a choice by a mask costs ten times as much."""
    slope = np.asarray(alpha, x.dtype)
    return np.maximum(x, np.multiply(x, slope)) if 0 < alpha <= 1 else _two_sided(x, slope)


def _parametric_relu(x: Array, slope: Array, /, *, xp: Any) -> Array:
    """PRelu: the sum of both sides."""
    if np.broadcast_shapes(x.shape, slope.shape) != x.shape:
        raise ValueError(f"slope of shape {slope.shape} cannot be broadcast to x's shape {x.shape}")
    return _two_sided(x, slope)


def _two_sided(x: Array, slope: Array) -> Array:
    if not np.isfinite(slope).all():  # times the 0 of the other side it would be NaN
        return np.where(x < 0, x * slope, x)
    below = np.asarray(x.clip(-np.inf, 0))
    below *= slope
    below += x.clip(0, np.inf)
    return below


def _elu(x: Array, /, *, alpha: float = 1.0, xp: Any) -> Array:
    """Elu: the sum of both sides."""
    if not math.isfinite(alpha):  # times the 0 of the other side it would be NaN
        return np.where(x < 0, np.asarray(alpha, x.dtype) * np.expm1(x), x)
    below = np.asarray(x.clip(-np.inf, 0))
    np.expm1(below, out=below)
    below *= np.asarray(alpha, x.dtype)
    below += x.clip(0, np.inf)
    return below


def _selu(
    x: Array, /, *, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875, xp: Any
) -> Array:
    """Selu: gamma Elu, but for an infinite ``alpha``, which makes NaN of 0."""
    result = _elu(x, alpha=alpha, xp=xp)
    if not math.isfinite(alpha):
        result[x == 0] = np.nan
    result *= np.asarray(gamma, x.dtype)
    return result


def _hard_sigmoid(x: Array, /, *, alpha: float = 0.2, beta: float = 0.5, xp: Any) -> Array:
    """HardSigmoid in one buffer."""
    result = np.asarray(np.multiply(x, np.asarray(alpha, x.dtype)))
    result += np.asarray(beta, x.dtype)
    return np.asarray(result.clip(0, 1, out=result))


def _hard_swish(x: Array, /, *, xp: Any) -> Array:
    """HardSwish in one buffer."""
    result = _hard_sigmoid(x, alpha=1 / 6, beta=0.5, xp=xp)
    result *= x
    return result


MEMBERS: dict[str, Any] = {
    function.__name__: function for function in (erf, gelu, gelu_tanh, mish, softmax, maximum, minimum, power)
}
"""Functions of the namespace."""

KERNELS = {
    ("", "LeakyRelu"): Kernel(_leaky_relu, 6, _FLOATS),
    ("", "PRelu"): Kernel(_parametric_relu, 7, _FLOATS),
    ("", "Elu"): Kernel(_elu, 6, _FLOATS),
    ("", "Selu"): Kernel(_selu, 6, _FLOATS),
    ("", "HardSigmoid"): Kernel(_hard_sigmoid, 6, _FLOATS),
    ("", "HardSwish"): Kernel(_hard_swish, 14, _FLOATS),
}
"""Kernels of operators."""
