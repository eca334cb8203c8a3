"""Straight-line programs of elementwise operations.

A function written on symbolic values is traced once into a list of instructions; a program knows dtypes, no shapes. Any
namespace runs it as written; NumPy runs it block by block in buffers that stay in cache (``blocks.py``). Both do the
same operations in the same order, so the bits are the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = Any


@dataclass(frozen=True, eq=False)
class Constant:
    """A number (0-d), or a table for ``take`` (1-d)."""

    array: np.ndarray[Any, Any]


@dataclass(frozen=True)
class Instruction:
    """One operation: the Array API's function of that name, ``bitcast``, or ``mend``.

    Attributes:
        operation: the name.
        dtype: of the result.
        operands: numbers of earlier values, or constants.
        part: of ``mend``, the program for the chosen elements.
    """

    operation: str
    dtype: str
    operands: tuple[int | Constant, ...]
    part: Program | None = None


class Value:
    """A symbolic array: a number in a trace, and a dtype."""

    def __init__(self, trace: Trace, number: int, dtype: str) -> None:
        self.trace = trace
        self.number = number
        self.dtype = dtype

    def _with(self, operation: str, other: Operand, dtype: str | None = None) -> Value:
        return self.trace.emit(operation, dtype or self.dtype, self, other)

    def _after(self, operation: str, other: Operand) -> Value:
        return self.trace.emit(operation, self.dtype, other, self)

    def __add__(self, other: Operand) -> Value:
        return self._with("add", other)

    def __radd__(self, other: Operand) -> Value:
        return self._after("add", other)

    def __sub__(self, other: Operand) -> Value:
        return self._with("subtract", other)

    def __rsub__(self, other: Operand) -> Value:
        return self._after("subtract", other)

    def __mul__(self, other: Operand) -> Value:
        return self._with("multiply", other)

    def __rmul__(self, other: Operand) -> Value:
        return self._after("multiply", other)

    def __truediv__(self, other: Operand) -> Value:
        return self._with("divide", other)

    def __rtruediv__(self, other: Operand) -> Value:
        return self._after("divide", other)

    def __neg__(self) -> Value:
        return self.trace.emit("negative", self.dtype, self)

    def __and__(self, other: Operand) -> Value:
        return self._with("bitwise_and", other)

    def __or__(self, other: Operand) -> Value:
        return self._with("bitwise_or", other)

    def __xor__(self, other: Operand) -> Value:
        return self._with("bitwise_xor", other)

    def __lshift__(self, other: Operand) -> Value:
        return self._with("bitwise_left_shift", other)

    def __rshift__(self, other: Operand) -> Value:
        return self._with("bitwise_right_shift", other)

    def __lt__(self, other: Operand) -> Value:
        return self._with("less", other, "bool")

    def __le__(self, other: Operand) -> Value:
        return self._with("less_equal", other, "bool")

    def __gt__(self, other: Operand) -> Value:
        return self._with("greater", other, "bool")

    def __ge__(self, other: Operand) -> Value:
        return self._with("greater_equal", other, "bool")

    def __invert__(self) -> Value:
        return self.trace.logical_not(self) if self.dtype == "bool" else self ^ -1

    def __bool__(self) -> bool:
        raise TypeError("a program has no branches: use where or mend")


Operand = Value | float | int


class Trace:
    """Records instructions; its methods are those of the Array API that programs may use, and two more."""

    value = Value
    """The class of its values."""

    def __init__(self) -> None:
        self.inputs: list[str] = []
        self.instructions: list[Instruction] = []
        self._known: dict[tuple[Any, ...], Value] = {}

    def input(self, dtype: str) -> Value:
        """An input; all of them come first."""
        self.inputs.append(dtype)
        return self.value(self, len(self.inputs) - 1, dtype)

    def emit(self, operation: str, dtype: str, *operands: Operand | Constant, part: Program | None = None) -> Value:
        """Append an instruction, or find the same one; Python numbers get the dtype of the values beside them."""
        common = next((value.dtype for value in operands if isinstance(value, Value) and value.dtype != "bool"), dtype)
        checked: list[int | Constant] = []
        for operand in operands:
            if isinstance(operand, Constant):
                checked.append(operand)
            elif isinstance(operand, Value):
                if operand.trace is not self:
                    raise ValueError(f"an operand of {operation} is of another trace; hand it to the part as an input")
                checked.append(operand.number)
            else:
                checked.append(Constant(np.asarray(operand, common)))
        key = (operation, dtype, part, *map(_identity, checked))
        if key not in self._known:
            self.instructions.append(Instruction(operation, dtype, tuple(checked), part))
            self._known[key] = self.value(self, len(self.inputs) + len(self.instructions) - 1, dtype)
        return self._known[key]

    def sqrt(self, x: Value) -> Value:
        """Square root."""
        return self.emit("sqrt", x.dtype, x)

    def abs(self, x: Value) -> Value:
        """Absolute value."""
        return self.emit("abs", x.dtype, x)

    def round(self, x: Value) -> Value:
        """The nearest integer, half to even."""
        return self.emit("round", x.dtype, x)

    def minimum(self, x: Value, y: Operand) -> Value:
        """The smaller one, NaN if there is one; never of zeros of both signs."""
        return self.emit("minimum", x.dtype, x, y)

    def maximum(self, x: Value, y: Operand) -> Value:
        """The larger one, NaN if there is one; never of zeros of both signs."""
        return self.emit("maximum", x.dtype, x, y)

    def equal(self, x: Value, y: Operand) -> Value:
        """x == y."""
        return self.emit("equal", "bool", x, y)

    def not_equal(self, x: Value, y: Operand) -> Value:
        """x != y."""
        return self.emit("not_equal", "bool", x, y)

    def logical_not(self, x: Value) -> Value:
        """Not x."""
        return self.emit("logical_not", "bool", x)

    def astype(self, x: Value, dtype: str) -> Value:
        """The same number in another dtype that holds it, or float64 rounded to float32."""
        return self.emit("astype", dtype, x)

    def bitcast(self, x: Value, dtype: str) -> Value:
        """The same bits read as another dtype of that width."""
        return self.emit("bitcast", dtype, x)

    def take(self, table: np.ndarray[Any, Any], index: Value) -> Value:
        """``table[index]``; an index out of range reads the nearest end."""
        return self.emit("take", table.dtype.name, Constant(np.ascontiguousarray(table)), index)

    def searchsorted(self, table: np.ndarray[Any, Any], x: Value) -> Value:
        """The place of x in a sorted table, from the left."""
        return self.emit("searchsorted", "int64", Constant(np.ascontiguousarray(table)), x)

    def where(self, condition: Value, x: Operand, y: Value) -> Value:
        """x where the condition holds, else y."""
        return self.emit("where", y.dtype, condition, x, y)

    def embed(self, program: Program, *inputs: Value) -> Value:
        """The result of another program for these inputs, its instructions written out here."""
        values = list(inputs)
        for instruction in program.instructions:
            operands = [values[operand] if isinstance(operand, int) else operand for operand in instruction.operands]
            values.append(self.emit(instruction.operation, instruction.dtype, *operands, part=instruction.part))
        return values[-1]

    def mend(self, condition: Value, result: Value, part: Callable[..., Value], *inputs: Value) -> Value:
        """``part(*inputs, xp)`` where the condition holds, else ``result``.

        For what is rare: on most namespaces only the chosen elements are computed.
        """
        program = trace(part, [value.dtype for value in inputs])
        return self.emit("mend", result.dtype, condition, result, *inputs, part=program)


@dataclass(frozen=True, eq=False)
class Program:
    """Instructions; value i is input i, then the results of the instructions follow. The last one is the result."""

    inputs: tuple[str, ...]
    instructions: tuple[Instruction, ...]

    @property
    def dtypes(self) -> list[str]:
        """Of all values."""
        return [*self.inputs, *(instruction.dtype for instruction in self.instructions)]

    def last_uses(self) -> list[int]:
        """For each value the number of the last instruction that reads it; the result is never done with."""
        uses = [-1] * len(self.dtypes)
        for number, instruction in enumerate(self.instructions):
            for operand in instruction.operands:
                if isinstance(operand, int):
                    uses[operand] = number
        uses[-1] = len(self.instructions)
        return uses

    def needed(self) -> set[int]:
        """The values that the result depends on."""
        found = {len(self.dtypes) - 1}
        for number in reversed(range(len(self.instructions))):
            if len(self.inputs) + number in found:
                found.update(operand for operand in self.instructions[number].operands if isinstance(operand, int))
        return found

    def digest(self) -> str:
        """A hash of all that the bits of results depend on."""
        state = hashlib.sha256(repr(self.inputs).encode())
        for instruction in self.instructions:
            state.update(f"{instruction.operation} {instruction.dtype}".encode())
            for operand in instruction.operands:
                if isinstance(operand, int):
                    state.update(b"%d" % operand)
                else:
                    state.update(operand.array.dtype.str.encode() + operand.array.tobytes())
            if instruction.part is not None:
                state.update(instruction.part.digest().encode())
        return state.hexdigest()

    def run(self, xp: Any, *arrays: Array) -> Array:
        """The result for 1-D arrays of one length, as written, in the namespace ``xp``."""
        last = self.last_uses()
        values: list[Any] = [*arrays, *[None] * len(self.instructions)]
        for number, instruction in enumerate(self.instructions):
            operands = [
                values[operand] if isinstance(operand, int) else _constant(operand, xp)
                for operand in instruction.operands
            ]
            values[len(arrays) + number] = _apply(instruction, operands, xp)
            for operand in instruction.operands:
                if isinstance(operand, int) and last[operand] == number:
                    values[operand] = None
        return values[-1]


def _identity(operand: int | Constant) -> Any:
    return operand if isinstance(operand, int) else (operand.array.dtype.str, operand.array.tobytes())


def trace(function: Callable[..., Value], dtypes: Sequence[str]) -> Program:
    """The program of ``function(*values, xp)``, for inputs of these dtypes."""
    recorder = Trace()
    inputs = [recorder.input(dtype) for dtype in dtypes]
    result = function(*inputs, recorder)
    if result.number != len(recorder.inputs) + len(recorder.instructions) - 1:
        raise ValueError("the result of a program must be its last instruction")
    return Program(tuple(recorder.inputs), tuple(recorder.instructions))


def program_of(recorder: Trace, result: Value) -> Program:
    """What a trace recorded, with ``result`` as its last instruction."""
    if result.number != len(recorder.inputs) + len(recorder.instructions) - 1 or not recorder.instructions:
        recorder.emit("bitcast", result.dtype, result)
    return Program(tuple(recorder.inputs), tuple(recorder.instructions))


def _constant(constant: Constant, xp: Any) -> Any:
    """A number as a Python number, a table as an array of the namespace, which keeps it."""
    if constant.array.ndim == 0:
        return constant.array.item()
    kept: dict[Constant, Any] = vars(xp).setdefault("_tables", {})
    if constant not in kept:
        kept[constant] = xp.asarray(constant.array)
    return kept[constant]


def _apply(instruction: Instruction, operands: list[Any], xp: Any) -> Array:
    operation = instruction.operation
    if operation in ("astype", "bitcast"):
        return getattr(xp, operation)(operands[0], getattr(xp, instruction.dtype))
    if operation == "where" and not hasattr(operands[1], "dtype"):
        operands[1] = xp.asarray(operands[1], dtype=operands[2].dtype)
    if operation == "mend":
        return _mend(instruction, operands, xp)
    if operation == "take":
        operands[1] = xp.clip(operands[1], 0, operands[0].shape[0] - 1)
    return getattr(xp, operation)(*operands)


def _mend(instruction: Instruction, operands: list[Any], xp: Any) -> Array:
    condition, result, *inputs = operands
    if instruction.part is None or not bool(xp.any(condition)):
        return result
    result = xp.asarray(result, copy=True)
    result[condition] = instruction.part.run(xp, *(value[condition] for value in inputs))
    return result
