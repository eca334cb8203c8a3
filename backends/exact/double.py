"""Exact functions of float64: their register and the frame around each body.

The bodies compute in pairs of float64, to 90 bits and more, and round once. That is the correctly rounded result unless
the true one lies within 2**-90 of itself of a rounding boundary, which among 2**64 inputs is not expected; the program
is the definition, so that the bits are the same everywhere in any case.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from onemodel.backends.exact.double_double import Pair
from onemodel.backends.exact.functions import Symmetry, open_at_minus_infinity, table
from onemodel.backends.exact.program import Program, Trace, Value, trace

_MAGNITUDE = 0x7FFFFFFFFFFFFFFF

UNITS = {
    name: place
    for place, name in enumerate(
        ("ln2", "1/ln2", "1/ln10", "angle", "pi", "pi/2", "sqrt(1/2)", "gelu rate", "gelu cubic")
    )
}


def unit(name: str) -> Pair:
    """A number as a pair, see ``UNITS``."""
    column = table("double_units")[:, UNITS[name]].tolist()
    return column[0], column[1]


@dataclass(frozen=True)
class DoubleFunction:
    """A function of one float64 number.

    Attributes:
        name: in the namespace.
        body: ``body(x, xp)`` returns float64, rounded once.
        symmetry, low, high, gate: as for ``functions.Function``.
        identity: the function is x (1 + a), |a| < |x|: below 2**-60 the result is x.
    """

    name: str
    body: Callable[[Value, Trace], Value]
    symmetry: Symmetry
    low: float | None
    high: float | None
    gate: bool
    identity: bool

    @cache  # noqa: B019 (functions live as long as the module)
    def program(self) -> Program:
        """float64 to float64."""
        return trace(self._frame, ["float64"])

    def _frame(self, x: Value, xp: Trace) -> Value:
        bits = xp.bitcast(x, "int64")
        argument = xp.abs(x) if self.symmetry in ("even", "odd") else x
        if self.low is not None:
            argument = xp.maximum(argument, self.low)
        if self.high is not None:
            argument = xp.minimum(argument, self.high)
        result = self.body(argument, xp)
        if self.identity:
            result = xp.where(xp.abs(argument) < 2.0**-60, argument, result)
        result = xp.where(xp.not_equal(x, x), x, result)
        if self.gate:
            result = open_at_minus_infinity(result, x, xp)
        if self.symmetry not in ("odd", "sign"):
            return result
        magnitude = xp.bitcast(result, "int64")
        if self.symmetry == "sign":
            magnitude = magnitude & _MAGNITUDE
        return xp.bitcast(magnitude ^ (bits & ~_MAGNITUDE), "float64")


DOUBLE_FUNCTIONS: dict[str, DoubleFunction] = {}
"""By name."""


def double_function(
    symmetry: Symmetry = "none",
    *,
    low: float | None = None,
    high: float | None = None,
    gate: bool = False,
    identity: bool = False,
) -> Callable[[Callable[[Value, Trace], Value]], Callable[[Value, Trace], Value]]:
    """Enter a body under its own name."""

    def enter(body: Callable[[Value, Trace], Value]) -> Callable[[Value, Trace], Value]:
        DOUBLE_FUNCTIONS[body.__name__] = DoubleFunction(body.__name__, body, symmetry, low, high, gate, identity)
        return body

    return enter
