"""Functions that are smooth between two simple ends: tables of polynomials on an even grid."""

from __future__ import annotations

from onemodel.backends.exact.functions import cell, function, table, tabled
from onemodel.backends.exact.functions_exponential import NUDGE
from onemodel.backends.exact.program import Trace, Value


def _on_grid(x: Value, name: str, step: float, xp: Trace) -> Value:
    index, r = cell(xp.astype(x, "float64"), step, xp)
    return tabled(index, r, table(name), xp)


@function("odd", high=9.0625)
def tanh(x: Value, xp: Trace) -> Value:
    """Hyperbolic tangent."""
    return _on_grid(x, "tanh", 1 / 64, xp)


@function("odd", high=4.0)
def erf(x: Value, xp: Trace) -> Value:
    """Error function."""
    return _on_grid(x, "erf", 1 / 64, xp)


@function("sign", gate=True)
def gelu(x: Value, xp: Trace) -> Value:
    """x Phi(x) = max(x, 0) - |x| Phi(-|x|), with the normal distribution's function Phi."""
    above = xp.astype(xp.maximum(x, 0.0), "float64")
    return (above + _on_grid(xp.minimum(xp.abs(x), 14.5), "gelu", 1 / 128, xp)) + NUDGE


@function()
def softplus(x: Value, xp: Trace) -> Value:
    """log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|))."""
    above = xp.astype(xp.maximum(x, 0.0), "float64")
    return above + _on_grid(xp.minimum(xp.abs(x), 104.5), "softplus", 1 / 32, xp)


@function()
def rsqrt(x: Value, xp: Trace) -> Value:
    """1 / sqrt(x)."""
    return 1.0 / xp.sqrt(xp.astype(x, "float64"))
