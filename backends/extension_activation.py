"""Activation functions of one element: each is one function, because exact mode rounds it once.

The standard has none of them. They take float32 or float64.
"""

from __future__ import annotations

import math
from typing import Any

from onemodel.backends.extension_table import Array, extension


@extension
def sigmoid(x: Array, /, *, xp: Any) -> Array:
    """1 / (1 + exp(-x))."""
    # From x = 80 on it rounds to 1; exp(-x) would overflow far below 0, where the result is small but not 0.
    power = xp.exp(xp.minimum(x, xp.constant(80, x)))
    return power / (power + xp.constant(1, x))


@extension
def softplus(x: Array, /, *, xp: Any) -> Array:
    """log(1 + exp(x))."""
    return xp.maximum(x, xp.constant(0, x)) + xp.log1p(xp.exp(-xp.abs(x)))


@extension
def silu(x: Array, /, *, xp: Any) -> Array:
    """x / (1 + exp(-x))."""
    return x * xp.sigmoid(x)


@extension
def mish(x: Array, /, *, xp: Any) -> Array:
    """x tanh(log(1 + exp(x))).

    With e = exp(x) the factor is n / (n + 2) for n = e (e + 2); from x = 20 on it rounds to 1.
    """
    e = xp.exp(xp.minimum(x, xp.constant(20, x)))
    two = xp.constant(2, x)
    n = e * (e + two)
    return x * (n / (n + two))


@extension
def gelu(x: Array, /, *, xp: Any) -> Array:
    """x times the normal distribution's function of x."""
    return _weighted(x, xp.erf(x * xp.constant(math.sqrt(0.5), x)), xp)


@extension
def gelu_tanh(x: Array, /, *, xp: Any) -> Array:
    """x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x**3))): a formula near ``gelu``."""
    cubic = x + xp.constant(0.044715, x) * x * x * x
    return _weighted(x, xp.tanh(xp.constant(math.sqrt(2 / math.pi), x) * cubic), xp)


def _weighted(x: Array, weight: Array, xp: Any) -> Array:
    return xp.constant(0.5, x) * x * (xp.constant(1, x) + weight)
