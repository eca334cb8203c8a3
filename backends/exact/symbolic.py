"""Operators of elements as programs: a function written for arrays is run on symbols once, exact functions and all.

What comes out is one straight-line program: NumPy runs it block by block in buffers that stay in cache, and a GPU can
compile it into one kernel. The operations, and so the bits, are those of the function as written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from onemodel.backends.exact import elementary, powers
from onemodel.backends.exact.program import Operand, Program, Trace, Value, program_of

FLOATS = ("float32", "float64")

_LARGE = 1 << 15
"""Elements from which on passes through memory cost more than the steps of a program."""

_LONG = 8
"""Instructions, likewise."""


class Untraceable(Exception):
    """The function needs what programs do not have."""


class Symbol(Value):
    """A value that compares like an array."""

    def __eq__(self, other: Operand) -> Value:  # type: ignore[override]
        return self._with("equal", other, "bool")

    def __ne__(self, other: Operand) -> Value:  # type: ignore[override]
        return self._with("not_equal", other, "bool")

    __hash__ = None  # type: ignore[assignment]


class Symbols(Trace):
    """The namespace that a function is traced with: what programs can express of the exact namespace."""

    value = Symbol
    float32, float64 = FLOATS

    def __getattr__(self, name: str) -> Any:
        if name not in elementary.PROVEN and name not in powers.NAMES:
            raise Untraceable(name)
        return lambda *operands: self._inlined(name, *operands)

    def _inlined(self, name: str, *operands: Any) -> Value:
        dtypes = {operand.dtype if isinstance(operand, Value) else None for operand in operands}
        dtype = dtypes.pop()
        if dtypes or dtype not in FLOATS:
            raise Untraceable(f"{name} of {dtype} and {dtypes}")
        return self.embed(elementary.program(name, dtype), *operands)

    @staticmethod
    def constant(value: Any, like: Value) -> float | int | bool:
        """A number as ``like``'s dtype has it."""
        result: float | int | bool = np.asarray(value, like.dtype).item()
        return result

    @staticmethod
    def asarray(value: Any, dtype: str) -> float | int | bool:
        """A number as the dtype has it."""
        if not isinstance(value, (bool, int, float)):
            raise Untraceable("an array that is no number")
        result: float | int | bool = np.asarray(value, dtype).item()
        return result

    @staticmethod
    def isdtype(dtype: str, kind: str) -> bool:
        """For the kinds that operators ask for."""
        if kind not in ("integral", "signed integer", "unsigned integer", "real floating", "bool"):
            raise Untraceable(kind)
        return kind == ("real floating" if dtype in FLOATS else dtype)

    def isnan(self, x: Value) -> Value:
        """Where x is NaN."""
        return self.not_equal(x, x)

    def where(self, condition: Value, x: Operand, y: Operand) -> Value:
        """x where the condition holds, else y; one of them may be a number."""
        if isinstance(y, Value):
            return super().where(condition, x, y)
        if isinstance(x, Value):
            return super().where(self.logical_not(condition), y, x)
        raise Untraceable("where of two numbers")

    def maximum(self, x: Any, y: Any) -> Value:
        """The larger one of an array's element and a number; -0 lies below +0, NaN stays."""
        x, y = self._array_and_number(x, y)
        if y != 0:
            return super().maximum(x, y)
        less = x < 0.0 if math.copysign(1, y) < 0 else self.logical_not((x > 0.0) | self.isnan(x))
        return super().where(less, y, x)

    def minimum(self, x: Any, y: Any) -> Value:
        """The smaller one, in the same order."""
        x, y = self._array_and_number(x, y)
        if y != 0:
            return super().minimum(x, y)
        more = x > 0.0 if math.copysign(1, y) > 0 else self.logical_not((x < 0.0) | self.isnan(x))
        return super().where(more, y, x)

    @staticmethod
    def _array_and_number(x: Any, y: Any) -> tuple[Value, float]:
        x, y = (x, y) if isinstance(x, Value) else (y, x)
        if not isinstance(x, Value) or x.dtype not in FLOATS or isinstance(y, Value) or math.isnan(y):
            raise Untraceable("extremes of other than floats and a number")
        return x, y


def traced(function: Callable[..., Any], dtypes: Sequence[str], options: Mapping[str, Any]) -> Program | None:
    """The program of ``function(*arrays, **options, xp=xp)``; None where it cannot be one.

    Args:
        function: result i depends on elements i alone.
        dtypes: of its arrays: float32, float64 or bool.
        options: its attributes.
    """
    symbols = Symbols()
    values = [symbols.input(dtype) for dtype in dtypes]
    try:
        result = function(*values, **options, xp=symbols)
    except (Untraceable, TypeError, AttributeError, ValueError):
        return None
    return program_of(symbols, result) if isinstance(result, Value) else None


def fused(function: Callable[..., Any], options: Mapping[str, Any]) -> Callable[..., Any]:
    """``function`` with its options bound, ``xp`` included: large arrays of NumPy's go through a program.

    That is for functions of one array alone, with more than a few operations; of others NumPy's own loops are as good.
    """
    attributes = {name: value for name, value in options.items() if name != "xp"}
    programs: dict[str, Program | None] = {}

    def call(*arrays: Any) -> Any:
        if len(arrays) != 1 or not isinstance(arrays[0], np.ndarray) or arrays[0].size < _LARGE:
            return function(*arrays, **options)
        dtype = arrays[0].dtype.name
        if dtype not in programs:
            program = traced(function, [dtype], attributes) if dtype in FLOATS else None
            programs[dtype] = None if program is None or len(program.instructions) < _LONG else program
        program = programs[dtype]
        return function(*arrays, **options) if program is None else elementary.run(program, *arrays, xp=options["xp"])

    return call
