"""C for programs: the same operations in the same order, for C compilers and for CUDA's.

A compiler must round each operation by itself: without contraction of products and sums, without flushing subnormal
numbers, with IEEE 754's division and square root (``CUDA_OPTIONS``, ``C_OPTIONS``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onemodel.backends.exact.program import Constant, Instruction, Program

TYPES = {
    "float64": "double",
    "float32": "float",
    "int64": "long long",
    "uint32": "unsigned int",
    "bool": "unsigned char",
}
"""The C type of each dtype that programs have; all of these have the same width wherever CUDA runs."""

CUDA_OPTIONS = ("-fmad=false", "-ftz=false", "-prec-div=true", "-prec-sqrt=true")
"""What CUDA's compiler needs. The last of contradicting options wins, so nothing may be appended that undoes them."""

C_OPTIONS = ("-ffp-contract=off", "-fno-trapping-math", "-fwrapv")
"""What gcc and g++ need."""

CUDA_QUALIFIER = "static __device__"

_BINARY = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "bitwise_and": "&",
    "bitwise_or": "|",
    "bitwise_xor": "^",
    "bitwise_right_shift": ">>",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "equal": "==",
    "not_equal": "!=",
}

_SAME_WIDTH = {"float64": "int64", "int64": "float64", "float32": "uint32", "uint32": "float32"}
_UNSIGNED = {"float64": np.uint64, "float32": np.uint32}

_FUNCTIONS = {
    ("abs", "float64"): "fabs",
    ("abs", "float32"): "fabsf",
    ("sqrt", "float64"): "sqrt",
    ("sqrt", "float32"): "sqrtf",
    ("ceil", "float64"): "ceil",
    ("ceil", "float32"): "ceilf",
    ("floor", "float64"): "floor",
    ("floor", "float32"): "floorf",
    ("round", "float64"): "rint",
    ("round", "float32"): "rintf",
}


class Source:
    """The text of one module: functions of one element, and the tables that they share.

    Args:
        qualifier: of functions and tables: ``"static"`` for C, ``CUDA_QUALIFIER`` for CUDA.
    """

    def __init__(self, qualifier: str = "static") -> None:
        self.qualifier = qualifier
        self.text: list[str] = []
        self._tables: dict[bytes, str] = {}
        self._helpers: set[str] = set()
        self._parts = 0

    def __str__(self) -> str:
        return "\n".join(self.text) + "\n"

    def scalar(self, program: Program, name: str) -> None:
        """Add a function of one element, ``name``, with one argument for each input."""
        lines = self.statements(program, range(len(program.instructions)))
        dtypes = program.dtypes
        arguments = ", ".join(f"{TYPES[dtype]} v{i}" for i, dtype in enumerate(program.inputs))
        body = "\n".join([*lines, f"return v{len(dtypes) - 1};"])
        self.text.append(f"{self.qualifier} {TYPES[dtypes[-1]]} {name}({arguments})\n{{\n{body}\n}}")

    def kernel(self, program: Program, name: str, places: Sequence[tuple[Sequence[str], str]] = ()) -> None:
        """Add a CUDA kernel ``name(x0, ..., out, count)`` on arrays of ``count`` elements, for any grid of one axis.

        Args:
            places: for each input the parameters that follow it, and where its element lies that goes with element
                ``i``; by default all lie at ``i``.
        """
        self.scalar(program, f"{name}_of_one")
        places = places or [((), "i")] * len(program.inputs)
        parameters: list[str] = []
        for i, (dtype, (more, _)) in enumerate(zip(program.inputs, places, strict=True)):
            parameters += [f"const {TYPES[dtype]} *x{i}", *more]
        parameters += [f"{TYPES[program.dtypes[-1]]} *out", "long long count"]
        values = ", ".join(f"x{i}[{index}]" for i, (_, index) in enumerate(places))
        self.text.append(
            f'extern "C" __global__ void {name}({", ".join(parameters)})\n{{\n'
            "const long long step = (long long)gridDim.x * blockDim.x;\n"
            "for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)\n"
            f"out[i] = {name}_of_one({values});\n}}"
        )

    def statements(self, program: Program, numbers: range) -> list[str]:
        """The declarations of the values that these instructions make, ``v0`` and on; parts come before."""
        dtypes, needed, lines = program.dtypes, program.needed(), []
        for number in numbers:
            instruction, value = program.instructions[number], len(program.inputs) + number
            if value not in needed:
                continue
            expression = self._expression(instruction, dtypes)
            lines.append(f"const {TYPES[instruction.dtype]} v{value} = {expression};")
        return lines

    def _helper(self, name: str, text: str) -> str:
        """``name``, after the function ``text`` has been added, once."""
        if name not in self._helpers:
            self._helpers.add(name)
            self.text.append(f"{self.qualifier} inline {text}")
        return name

    def _bits_as(self, dtype: str) -> str:
        name, source = f"bits_as_{dtype}", TYPES[_SAME_WIDTH[dtype]]
        body = f"{{ {TYPES[dtype]} y; memcpy(&y, &x, sizeof y); return y; }}"
        return self._helper(name, f"{TYPES[dtype]} {name}({source} x)\n{body}")

    def _expression(self, instruction: Instruction, dtypes: list[str]) -> str:
        operation, dtype = instruction.operation, instruction.dtype
        if operation in ("take", "searchsorted"):
            return self._look_up(instruction, dtypes)
        names = [self._operand(operand) for operand in instruction.operands]
        a, b, c = [*names, "", ""][:3]
        if instruction.part is not None:
            self._parts += 1
            part = f"part_{self._parts}"
            self.scalar(instruction.part, part)
            return f"{a} ? {part}({', '.join(names[2:])}) : {b}"
        match operation:
            case "astype":
                return f"({TYPES[dtype]}){a}"
            case "bitcast":
                same = isinstance(instruction.operands[0], int) and dtypes[instruction.operands[0]] == dtype
                return a if same else f"{self._bits_as(dtype)}({a})"
            case "bitwise_left_shift" if dtype == "int64":
                return f"(long long)((unsigned long long){a} << {b})"
            case "bitwise_left_shift":
                return f"{a} << {b}"
            case "negative":
                return f"-{a}"
            case "logical_not":
                return f"!{a}"
            case "minimum" | "maximum":
                sign = ">" if operation == "minimum" else "<"
                return f"{a} {sign} {b}{self._or_nan(instruction, b)} ? {b} : {a}"
            case "where":
                return f"{a} ? {b} : {c}"
            case "abs" | "ceil" | "floor" | "round" | "sqrt":
                return f"{_FUNCTIONS[operation, dtype]}({a})"
            case _:
                return f"{a} {_BINARY[operation]} {b}"

    @staticmethod
    def _or_nan(instruction: Instruction, name: str) -> str:
        """That the second operand is NaN, where it can be."""
        can_be = instruction.dtype.startswith("float") and isinstance(instruction.operands[1], int)
        return f" || {name} != {name}" if can_be else ""

    def _look_up(self, instruction: Instruction, dtypes: list[str]) -> str:
        table, index = instruction.operands
        if not isinstance(table, Constant) or not isinstance(index, int):
            raise TypeError(f"{instruction.operation} takes a table and a value")
        name, size = self._table(table), len(table.array)
        if instruction.operation == "take":
            text = "long long nearest_end(long long i, long long n)\n{ return i < 0 ? 0 : i >= n ? n - 1 : i; }"
            return f"{name}[{self._helper('nearest_end', text)}(v{index}, {size})]"
        return f"{self._search(dtypes[index])}({name}, {size}, v{index})"

    def _search(self, dtype: str) -> str:
        """The name of the function that finds a place in a sorted table, from the left."""
        name, kind = f"search_{dtype}", TYPES[dtype]
        return self._helper(
            name,
            f"long long {name}(const {kind} *table, long long n, {kind} x)\n"
            "{\nlong long low = 0;\nwhile (n > 0) {\nconst long long half = n / 2;\n"
            "if (table[low + half] < x) { low += half + 1; n -= half + 1; } else n = half;\n}\nreturn low;\n}",
        )

    def _table(self, constant: Constant) -> str:
        key = constant.array.dtype.str.encode() + constant.array.tobytes()
        if key not in self._tables:
            if constant.array.dtype.kind == "f" and not np.isfinite(constant.array).all():
                raise ValueError("a table of a program must hold finite numbers")
            name = self._tables[key] = f"table_{len(self._tables)}"
            values = ", ".join(_number(value) for value in constant.array.reshape(-1))
            self.text.append(f"{self.qualifier} const {TYPES[constant.array.dtype.name]} {name}[] = {{{values}}};")
        return self._tables[key]

    def _operand(self, operand: int | Constant) -> str:
        if not isinstance(operand, Constant):
            return f"v{operand}"
        value, dtype = operand.array, operand.array.dtype.name
        if dtype not in _UNSIGNED or np.isfinite(value):
            return _number(value)
        bits = value.view(_UNSIGNED[dtype]).item()
        return f"{self._bits_as(dtype)}({bits:#x}{'ull' if dtype == 'float64' else 'u'})"


def _number(value: np.ndarray[tuple[()], np.dtype[np.generic]] | np.generic) -> str:
    """A finite number, exactly."""
    dtype, item = value.dtype.name, value.item()
    if isinstance(item, float):
        return f"{item.hex()}{'f' if dtype == 'float32' else ''}"
    if dtype == "int64":
        return f"{item}ll" if item > -(2**63) else "(-0x7fffffffffffffffll - 1)"
    return f"{int(item)}{'u' if dtype == 'uint32' else ''}"


def cuda_source(program: Program, name: str, places: Sequence[tuple[Sequence[str], str]] = ()) -> str:
    """CUDA C++ with the kernel ``name`` of a program, see ``Source.kernel``; to be compiled with ``CUDA_OPTIONS``."""
    source = Source(CUDA_QUALIFIER)
    source.kernel(program, name, places)
    return str(source)
