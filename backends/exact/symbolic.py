"""Operators of elements as programs: a function written for arrays is run on symbols once, exact functions and all.

What comes out is one straight-line program: NumPy runs it block by block in buffers that stay in cache, and a GPU can
compile it into one kernel. The operations, and so the bits, are those of the function as written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from onemodel.backends.exact import elementary, powers
from onemodel.backends.exact.blocks import BlockRunner
from onemodel.backends.exact.program import Operand, Program, Trace, Value, program_of
from onemodel.backends.fusion import Expression, Fusion

FLOATS = ("float32", "float64")

_CODES = {1: "float32", 9: "bool", 11: "float64"}
"""Element types by ONNX's codes."""

_LARGE = 1 << 15
"""Elements from which on a program is faster than functions one by one, by ``python -m bench.fusion``."""

_LONG = 4
"""Instructions of such a program."""

_HUGE = 1 << 22
"""Elements from which on that also holds for shorter programs, and for arrays that broadcast."""


class Untraceable(Exception):
    """The function needs what programs do not have."""


class Symbol(Value):
    """A value that compares like an array."""

    def __eq__(self, other: Operand) -> Value:  # type: ignore[override]
        return self._with("equal", other, "bool")

    def __ne__(self, other: Operand) -> Value:  # type: ignore[override]
        return self._with("not_equal", other, "bool")

    __hash__ = None  # type: ignore[assignment]


class Number(float):
    """A constant of one element, in place of an array."""

    shape = ()
    dtype: str

    def __new__(cls, value: float, dtype: str) -> Self:
        self = super().__new__(cls, value)
        self.dtype = dtype
        return self

    def _refuse(self, other: Any) -> Any:
        if isinstance(other, Value):
            return NotImplemented
        raise Untraceable("arithmetic of constants")

    __add__ = __sub__ = __mul__ = __truediv__ = __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _refuse
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
        dtypes = {operand.dtype if isinstance(operand, (Value, Number)) else None for operand in operands}
        dtype = dtypes.pop()
        like = next((operand for operand in operands if isinstance(operand, Value)), None)
        if dtypes or dtype not in FLOATS or like is None:
            raise Untraceable(f"{name} of {dtype} and {dtypes}")
        values = [operand if isinstance(operand, Value) else self._full(operand, like) for operand in operands]
        return self.embed(elementary.program(name, dtype), *values)

    def _full(self, number: float, like: Value) -> Value:
        """The number in each element, as a value."""
        bits = np.asarray(number, like.dtype).view("i8" if like.dtype == "float64" else "u4").item()
        kind = "int64" if like.dtype == "float64" else "uint32"
        return self.bitcast((self.bitcast(like, kind) & 0) | bits, like.dtype)

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
        """The larger one of each pair; -0 lies below +0, NaN stays."""
        x, y = self._floats(x, y)
        if isinstance(y, Value):
            larger, total = super().maximum(x, y), x + y
            return super().where(self.equal(larger, 0.0) & self.equal(total, 0.0), total, larger)
        if y != 0:
            return super().maximum(x, y)
        if math.copysign(1, y) > 0:
            return super().maximum(x, y) + 0.0  # whichever zero it is
        return super().where(x < 0.0, y, x)

    def minimum(self, x: Any, y: Any) -> Value:
        """The smaller one, in the same order."""
        x, y = self._floats(x, y)
        if isinstance(y, Value):
            smaller, total = super().minimum(x, y), -x - y
            return super().where(self.equal(smaller, 0.0) & self.equal(total, 0.0), -total, smaller)
        if y != 0:
            return super().minimum(x, y)
        more = x > 0.0 if math.copysign(1, y) > 0 else self.logical_not((x < 0.0) | self.isnan(x))
        return super().where(more, y, x)

    @staticmethod
    def _floats(x: Any, y: Any) -> tuple[Value, Any]:
        """Two operands of one float type, an array first; a number is a Python number."""
        x, y = (x, y) if isinstance(x, Value) else (y, x)
        if not isinstance(x, Value) or x.dtype not in FLOATS or getattr(y, "dtype", x.dtype) != x.dtype:
            raise Untraceable("extremes of other than floats of one type")
        if not isinstance(y, Value) and math.isnan(y):
            raise Untraceable("extremes of arrays and NaN")
        return x, y if isinstance(y, Value) else float(y)

    @staticmethod
    def reshape(x: Any, shape: tuple[int, ...]) -> Any:
        """Of a constant alone: arrays have no shape here."""
        if not isinstance(x, Number) or shape != ():
            raise Untraceable("reshape")
        return x

    def floor(self, x: Value) -> Value:
        """The greatest integer that is not above."""
        return self.emit("floor", x.dtype, x)

    def ceil(self, x: Value) -> Value:
        """The least integer that is not below."""
        return self.emit("ceil", x.dtype, x)

    def power(self, x: Any, y: Any) -> Value:
        """See ``extension.power``."""
        result: Value = self.pow(x, y)
        return result

    def add_all(self, arrays: Sequence[Any]) -> Value:
        """See ``extension.add_all``; of up to two arrays."""
        if len(arrays) > 2:
            raise Untraceable("a sum that is rounded once")
        result: Value = arrays[0] if len(arrays) == 1 else arrays[0] + arrays[1]
        return result

    def convert(self, x: Value, code: int, *, saturate: Any = True, round_mode: str = "up") -> Value:
        """See ``extension.convert``; between the types of programs that functions have."""
        dtype = _CODES.get(code)
        if dtype is None:
            raise Untraceable(f"a cast to the type {code}")
        if x.dtype == dtype:
            return x
        return self.not_equal(x, 0.0) if dtype == "bool" else self.astype(x, dtype)


def traced(function: Callable[..., Any], dtypes: Sequence[str], options: Mapping[str, Any]) -> Program | None:
    """The program of ``function(*arrays, **options, xp=xp)``; None where it cannot be one.

    Args:
        function: result i depends on elements i alone.
        dtypes: of its arrays: float32, float64 or bool.
        options: its attributes.
    """
    symbols = Symbols()
    values = [symbols.input(dtype) for dtype in dtypes]
    return _recorded(symbols, lambda: function(*values, **options, xp=symbols))


def traced_expression(expression: Expression) -> Program | None:
    """The program of an expression; None where it cannot be one."""
    if not {*expression.dtypes()} <= {*_CODES.values()}:
        return None
    symbols = Symbols()
    values: list[Any] = [symbols.input(dtype) for dtype in expression.inputs]

    def record() -> Any:
        for constant in expression.constants:
            if constant.dtype.name not in FLOATS:
                raise Untraceable("a truth value")
            values.append(Number(constant.item(), constant.dtype.name))
        for element in expression.elements:
            operands = [None if operand is None else values[operand] for operand in element.operands]
            result = element.function(*operands, **element.attributes, xp=symbols)
            if not isinstance(result, Value) or result.dtype != element.dtype:
                raise Untraceable("a result of another type")
            values.append(result)
        return values[-1]

    return _recorded(symbols, record)


def _recorded(symbols: Symbols, record: Callable[[], Any]) -> Program | None:
    try:
        result = record()
    except (Untraceable, TypeError, AttributeError, ValueError):
        return None
    return program_of(symbols, result) if isinstance(result, Value) else None


class ProgramFusion(Fusion):
    """Expressions in exact mode on NumPy: each becomes one program."""

    def takes(self, expression: Expression) -> bool:
        return traced_expression(expression) is not None

    def step(self, expression: Expression) -> Callable[..., Any]:
        runner: BlockRunner | None = None
        least: float = _LARGE

        def run(*arrays: Any) -> Any:
            nonlocal runner, least
            for array in arrays:  # the cheapest way to ask: small runs do so again and again
                if array.size >= least:
                    break
            else:
                return NotImplemented
            if runner is None:
                program = traced_expression(expression)
                if program is None:
                    least = math.inf
                    return NotImplemented
                least = _LARGE if len(program.instructions) >= _LONG else _HUGE
                runner = elementary.new_runner(program)
                return run(*arrays)
            size = max(array.size for array in arrays)
            if size < _HUGE and any(array.size not in (size, 1) for array in arrays):
                return NotImplemented
            shape = expression.shape_of(arrays)
            return NotImplemented if shape is None else runner(*arrays)

        return run


def fused(function: Callable[..., Any], options: Mapping[str, Any]) -> Callable[..., Any]:
    """``function`` with its options bound, ``xp`` included: large arrays of NumPy's go through a program.

    That is for functions of one array alone, with more than a few operations; of others NumPy's own loops are as good.
    """
    attributes = {name: value for name, value in options.items() if name != "xp"}
    runners: dict[str, BlockRunner | None] = {}

    def call(*arrays: Any) -> Any:
        if len(arrays) != 1 or not isinstance(arrays[0], np.ndarray) or arrays[0].size < _LARGE:
            return function(*arrays, **options)
        dtype = arrays[0].dtype.name
        if dtype not in runners:
            program = traced(function, [dtype], attributes) if dtype in FLOATS else None
            if program is not None and len(program.instructions) < _LONG:
                program = None
            runners[dtype] = None if program is None else elementary.new_runner(program)
        runner = runners[dtype]
        return function(*arrays, **options) if runner is None else runner(*arrays)

    return call
