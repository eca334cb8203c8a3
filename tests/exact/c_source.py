"""C for a program, so that a proof over all inputs takes seconds: the same operations, compiled without contraction."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from onemodel.backends.exact.program import Constant, Instruction, Program

TYPES = {"float64": "double", "float32": "float", "int64": "int64_t", "uint32": "uint32_t", "bool": "uint8_t"}

FLAGS = ("-O3", "-march=native", "-ffp-contract=off", "-fno-trapping-math", "-fwrapv")
"""Contraction would fuse a product and a sum and so round once where the program rounds twice."""

HEAD = """
#include <math.h>
#include <stdint.h>
#include <string.h>
#define BLOCK 1024
static inline int64_t nearest_end(int64_t i, int64_t n) { return i < 0 ? 0 : i >= n ? n - 1 : i; }
#define SEARCH(name, type) \\
static inline int64_t name(const type *table, int64_t n, type x) \\
{ int64_t low = 0; while (n > 0) { int64_t half = n / 2; \\
  if (table[low + half] < x) { low += half + 1; n -= half + 1; } else n = half; } return low; }
SEARCH(search_uint32_t, uint32_t)
"""

_BINARY = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "bitwise_and": "&",
    "bitwise_or": "|",
    "bitwise_xor": "^",
    "bitwise_left_shift": "<<",
    "bitwise_right_shift": ">>",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "equal": "==",
    "not_equal": "!=",
}


def _number(array: np.ndarray[tuple[()], np.dtype[np.generic]]) -> str:
    value, dtype = array.item(), array.dtype.name
    if isinstance(value, float):
        special = {"inf": "INFINITY", "-inf": "-INFINITY", "nan": "NAN"}
        return special.get(repr(value), f"({TYPES[dtype]}){value.hex()}")
    return f"({TYPES[dtype]}){int(value)}{'ull' if int(value) >= 0 else 'll'}"


class Source:
    """The C functions of a program and of its parts."""

    def __init__(self, program: Program, name: str) -> None:
        self.text = [HEAD]
        self._tables: dict[bytes, str] = {}
        self._parts = 0
        self._block(program, name)

    def _table(self, constant: Constant) -> str:
        key = constant.array.dtype.str.encode() + constant.array.tobytes()
        if key not in self._tables:
            name = self._tables[key] = f"table{len(self._tables)}"
            values = ", ".join(_number(value) for value in constant.array.reshape(-1))
            self.text.append(f"static const {TYPES[constant.array.dtype.name]} {name}[] = {{{values}}};")
        return self._tables[key]

    def _operand(self, operand: int | Constant) -> str:
        return _number(operand.array) if isinstance(operand, Constant) else f"v{operand}"

    def _expression(self, instruction: Instruction, dtypes: list[str]) -> str:
        operation, kind = instruction.operation, TYPES[instruction.dtype]
        if operation in ("take", "searchsorted"):
            table, index = instruction.operands
            if isinstance(table, int) or isinstance(index, Constant):
                raise TypeError(f"{operation} takes a table and a value")
            size = len(table.array)
            if operation == "take":
                return f"{self._table(table)}[nearest_end(v{index}, {size})]"
            return f"search_{TYPES[dtypes[index]]}({self._table(table)}, {size}, v{index})"
        names = [self._operand(operand) for operand in instruction.operands]
        a, b, c = [*names, "", ""][:3]
        match operation:
            case "bitwise_left_shift":
                return f"({kind})((uint64_t){a} << {b})"
            case "astype":
                return f"({kind}){a}"
            case "negative":
                return f"-{a}"
            case "logical_not":
                return f"!{a}"
            case "abs":
                return f"{'fabs' if kind == 'double' else 'fabsf'}({a})"
            case "sqrt":
                return f"sqrt({a})"
            case "round":
                return f"nearbyint({a})"
            case "minimum":
                return f"{a} > {b} ? {b} : {a}"
            case "maximum":
                return f"{a} < {b} ? {b} : {a}"
            case "where":
                return f"{a} ? {b} : {c}"
            case _:
                return f"{a} {_BINARY[operation]} {b}"

    def _scalar(self, program: Program, name: str) -> None:
        """A function of one element."""
        lines = self._lines(program, range(len(program.instructions)), set())
        arguments = ", ".join(f"{TYPES[dtype]} v{i}" for i, dtype in enumerate(program.inputs))
        dtypes = program.dtypes
        body = "\n".join([*lines, f"return v{len(dtypes) - 1};"])
        self.text.append(f"static {TYPES[dtypes[-1]]} {name}({arguments})\n{{\n{body}\n}}")

    def _lines(self, program: Program, numbers: range, stored: set[int]) -> list[str]:
        dtypes, lines = program.dtypes, []
        for number in numbers:
            instruction, value = program.instructions[number], len(program.inputs) + number
            kind = TYPES[instruction.dtype]
            if instruction.operation == "bitcast":
                lines.append(f"{kind} v{value}; memcpy(&v{value}, &v{instruction.operands[0]}, sizeof v{value});")
            elif instruction.part is not None:
                condition, result, *inputs = map(self._operand, instruction.operands)
                part = self._part(instruction.part)
                lines.append(f"{kind} v{value} = {condition} ? {part}({', '.join(inputs)}) : {result};")
            else:
                lines.append(f"{kind} v{value} = {self._expression(instruction, dtypes)};")
            if value in stored:
                lines.append(f"s{value}[i] = v{value};")
        return lines

    def _part(self, program: Program) -> str:
        self._parts += 1
        name = f"part{self._parts}"
        self._scalar(program, name)
        return name

    def _block(self, program: Program, name: str) -> None:
        """A function of arrays: one loop for what lies between two mends, so that each can be vectorised."""
        dtypes, inputs, count = program.dtypes, len(program.inputs), len(program.instructions)
        mends = [number for number in range(count) if program.instructions[number].part is not None]
        edges = sorted({0, count, *mends, *(number + 1 for number in mends)})
        segments = [range(start, stop) for start, stop in pairwise(edges)]
        home = {inputs + number: place for place, segment in enumerate(segments) for number in segment}
        used: list[set[int]] = []
        for segment in segments:
            operands = {o for n in segment for o in program.instructions[n].operands if isinstance(o, int)}
            used.append(operands)
        needed = [{o for o in operands if home.get(o, place) != place} for place, operands in enumerate(used)]
        stored = set().union(*needed) | {len(dtypes) - 1}
        loops = []
        for place, segment in enumerate(segments):
            loads = [f"{TYPES[dtypes[o]]} v{o} = s{o}[i];" for o in sorted(needed[place])]
            loads += [f"{TYPES[dtypes[o]]} v{o} = x{o}[i];" for o in sorted(used[place]) if o < inputs]
            lines = self._lines(program, segment, stored)
            loops.append("for (int i = 0; i < BLOCK; i++) {\n" + "\n".join([*loads, *lines]) + "\n}")
        arrays = "\n".join(f"static {TYPES[dtypes[o]]} s{o}[BLOCK];" for o in sorted(stored))
        arguments = ", ".join(f"const {TYPES[dtype]} *x{i}" for i, dtype in enumerate(program.inputs))
        result = len(dtypes) - 1
        body = "\n".join([arrays, *loops, f"memcpy(out, s{result}, sizeof s{result});"])
        self.text.append(f"static void {name}_block({arguments}, {TYPES[dtypes[-1]]} *out)\n{{\n{body}\n}}")
        shift = ", ".join(f"x{i} + start" for i in range(inputs))
        self.text.append(
            f"void {name}({arguments}, {TYPES[dtypes[-1]]} *out, int64_t count)\n"
            f"{{ for (int64_t start = 0; start < count; start += BLOCK) {name}_block({shift}, out + start); }}"
        )

    def __str__(self) -> str:
        return "\n".join(self.text) + "\n"
