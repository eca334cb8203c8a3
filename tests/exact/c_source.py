"""C for a program, so that a proof over all inputs takes seconds: the same operations, compiled without contraction."""

from __future__ import annotations

from itertools import pairwise

from onemodel.backends.exact.program import Program
from onemodel.backends.exact.source import C_OPTIONS, TYPES, Source

FLAGS = ("-O3", "-march=native", *C_OPTIONS)


def blocked(program: Program, name: str) -> str:
    """A C file with ``name(x0, ..., out, count)`` on arrays whose length is a multiple of 1,024.

    It has one loop for what lies between two mends, so that each can be vectorised.
    """
    source = Source()
    dtypes, inputs, count = program.dtypes, len(program.inputs), len(program.instructions)
    mends = [number for number in range(count) if program.instructions[number].part is not None]
    edges = sorted({0, count, *mends, *(number + 1 for number in mends)})
    segments = [range(start, stop) for start, stop in pairwise(edges)]
    home = {inputs + number: place for place, segment in enumerate(segments) for number in segment}
    used = [_operands(program, segment) for segment in segments]
    needed = [{o for o in operands if home.get(o, place) != place} for place, operands in enumerate(used)]
    stored = set().union(*needed) | {len(dtypes) - 1}
    loops = []
    for place, segment in enumerate(segments):
        lines = [f"const {TYPES[dtypes[o]]} v{o} = s{o}[i];" for o in sorted(needed[place])]
        lines += [f"const {TYPES[dtypes[o]]} v{o} = x{o}[i];" for o in sorted(used[place]) if o < inputs]
        lines += source.statements(program, segment)
        lines += [f"s{inputs + n}[i] = v{inputs + n};" for n in segment if inputs + n in stored]
        loops.append("for (int i = 0; i < BLOCK; i++) {\n" + "\n".join(lines) + "\n}")
    arrays = "\n".join(f"static {TYPES[dtypes[o]]} s{o}[BLOCK];" for o in sorted(stored))
    arguments = ", ".join(f"const {TYPES[dtype]} *x{i}" for i, dtype in enumerate(program.inputs))
    result = len(dtypes) - 1
    body = "\n".join([arrays, *loops, f"memcpy(out, s{result}, sizeof s{result});"])
    shift = ", ".join(f"x{i} + start" for i in range(inputs))
    return (
        f"#include <math.h>\n#include <string.h>\n#define BLOCK 1024\n{source}"
        f"static void {name}_block({arguments}, {TYPES[dtypes[-1]]} *out)\n{{\n{body}\n}}\n"
        f"void {name}({arguments}, {TYPES[dtypes[-1]]} *out, long long count)\n"
        f"{{ for (long long start = 0; start < count; start += BLOCK) {name}_block({shift}, out + start); }}\n"
    )


def _operands(program: Program, segment: range) -> set[int]:
    """The values that needed instructions of a segment read."""
    needed, first = program.needed(), len(program.inputs)
    instructions = [program.instructions[number] for number in segment if first + number in needed]
    return {operand for instruction in instructions for operand in instruction.operands if isinstance(operand, int)}
