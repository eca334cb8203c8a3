"""What exact elementary functions are made of: their register, tables, exceptions, and the frame around each body.

A body takes float32 values and returns the function in float64, to about 2**-50 of its value, by single-rounding
operations in a fixed order. The frame takes the sign off and puts it back, rounds once, and replaces the few results
that the exhaustive proof found on the wrong side of a rounding boundary.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from onemodel.backends.exact.program import Program, Trace, Value, trace

Symmetry = Literal["none", "even", "odd", "sign"]

MAGIC = 6755399441055744.0
"""1.5 * 2**52: adding it rounds a float64 below 2**51 to an integer, which is then in the low bits of the sum."""

SIGN = 0x80000000
MAGNITUDE = 0x7FFFFFFF

_FEW = 8
"""Up to so many exceptions are compared one by one."""

_FOLDER = Path(__file__).parent


@cache
def _archive() -> dict[str, np.ndarray[Any, Any]]:
    with np.load(_FOLDER / "functions.npz") as file:
        return dict(file)


def table(name: str) -> np.ndarray[Any, Any]:
    """A table of ``functions.npz``; ``tests/exact/make_tables.py`` says what is in it."""
    return _archive()[name]


def numbers(name: str) -> list[float]:
    """The same as Python numbers."""
    result: list[float] = table(name).tolist()
    return result


@cache
def exceptions() -> dict[str, list[tuple[int, int]]]:
    """For each function the inputs that its program rounds wrongly, and the right results, as bits of float32."""
    listed: dict[str, list[tuple[int, int]]] = json.loads((_FOLDER / "exceptions.json").read_text(encoding="utf-8"))
    return listed


@dataclass(frozen=True)
class Function:
    """A function of one float32 number.

    Attributes:
        name: in the namespace.
        body: ``body(x, xp)`` returns float64.
        symmetry: ``"odd"`` and ``"even"`` bodies see |x|; ``"sign"`` results take the sign of x.
        low, high: limits of what the body sees; beyond them the result is the same. NaN passes.
        gate: the function is x times a gate, which is 0 at -infinity: NaN there, as any product of the two.
    """

    name: str
    body: Callable[[Value, Trace], Value]
    symmetry: Symmetry
    low: float | None
    high: float | None
    gate: bool

    @cache  # noqa: B019 (functions live as long as the module)
    def program(self) -> Program:
        """float32 to float32, correctly rounded."""
        return trace(lambda x, xp: self._frame(x, xp, rounded=True), ["float32"])

    @cache  # noqa: B019
    def wide_program(self) -> Program:
        """float32 to float64, before the rounding and without exceptions: what results of 16 bits are rounded from."""
        return trace(lambda x, xp: self._frame(x, xp, rounded=False), ["float32"])

    def _frame(self, x: Value, xp: Trace, *, rounded: bool) -> Value:
        bits = key = xp.bitcast(x, "uint32")
        argument = x
        if self.symmetry in ("even", "odd"):
            key = bits & MAGNITUDE
            argument = xp.bitcast(key, "float32")
        if self.low is not None:
            argument = xp.maximum(argument, self.low)
        if self.high is not None:
            argument = xp.minimum(argument, self.high)
        if self.gate:
            argument = open_at_minus_infinity(argument, x, xp)
        wide = self.body(argument, xp)
        signed = self.symmetry in ("odd", "sign")
        if not rounded:
            if not signed:
                return wide
            sign, magnitude = xp.astype(bits >> 31, "int64") << 63, xp.bitcast(wide, "int64")
            if self.symmetry == "sign":
                magnitude = magnitude & 0x7FFFFFFFFFFFFFFF
            return xp.bitcast(magnitude ^ sign, "float64")
        result = _except(self.name, key, xp.astype(wide, "float32"), xp)
        if not signed:
            return result
        magnitude = xp.bitcast(result, "uint32")
        if self.symmetry == "sign":
            magnitude = magnitude & MAGNITUDE
        return xp.bitcast(magnitude ^ (bits & SIGN), "float32")


FUNCTIONS: dict[str, Function] = {}
"""By name."""


def function(
    symmetry: Symmetry = "none", *, low: float | None = None, high: float | None = None, gate: bool = False
) -> Callable[[Callable[[Value, Trace], Value]], Callable[[Value, Trace], Value]]:
    """Enter a body under its own name."""

    def enter(body: Callable[[Value, Trace], Value]) -> Callable[[Value, Trace], Value]:
        FUNCTIONS[body.__name__] = Function(body.__name__, body, symmetry, low, high, gate)
        return body

    return enter


def open_at_minus_infinity(value: Value, x: Value, xp: Trace) -> Value:
    """``value``, NaN where x is -infinity: elsewhere -0 is added, which changes nothing."""
    return value + xp.minimum(x, -1.0) * 0.0


def _except(name: str, key: Value, result: Value, xp: Trace) -> Value:
    """``result`` with the exceptions of the function ``name`` put right."""
    listed = sorted(exceptions().get(name, []))
    if not listed:
        return result
    keys, bits = (np.array(column, np.uint32) for column in zip(*listed, strict=True))
    values = bits.view(np.float32)
    if len(listed) <= _FEW:
        for bad, good in zip(keys.tolist(), values.tolist(), strict=True):
            result = xp.where(xp.equal(key, bad), good, result)
        return result

    def look_up(key: Value, result: Value, xp: Trace) -> Value:
        place = xp.searchsorted(keys, key)
        return xp.where(xp.equal(xp.take(keys, place), key), xp.take(values, place), result)

    magnitudes = keys & np.uint32(MAGNITUDE)
    least, most = int(magnitudes.min()), int(magnitudes.max())
    return xp.mend(((key & MAGNITUDE) - least) <= most - least, result, look_up, key, result)


def polynomial(r: Value, coefficients: list[float]) -> Value:
    """The sum of ``coefficients[i] * r**i`` by Horner's rule."""
    result = r * coefficients[-1] + coefficients[-2]
    for coefficient in coefficients[-3::-1]:
        result = result * r + coefficient
    return result


def cell(a: Value, step: float, xp: Trace) -> tuple[Value, Value]:
    """The place k of ``a >= 0`` on a grid of ``step``, a power of two, and a - k * step."""
    shifted = a * (1 / step) + MAGIC
    return xp.bitcast(shifted, "int64") & 0xFFFF, a - (shifted - MAGIC) * step


def tabled(index: Value, r: Value, rows: np.ndarray[Any, Any], xp: Trace) -> Value:
    """A polynomial in r whose coefficients, ``rows[power]``, are looked up at ``index``."""
    result = xp.take(rows[-1], index)
    for row in rows[-2::-1]:
        result = result * r + xp.take(row, index)
    return result
