"""What the code of a user's operator computes with besides its namespace, as far as reading the code can tell."""

from __future__ import annotations

import ast
import builtins
import dis
import inspect
import textwrap
import types
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import numpy as np

from onemodel.ops.registry import Operator

HARMLESS = frozenset(
    "builtins collections contextlib dataclasses enum fractions functools itertools math numbers onemodel string "
    "typing".split()
)
"""Top-level modules whose functions compute with no floats, or exactly; of ``math`` those in ``EXACT_MATH``."""

EXACT_MATH = frozenset(
    """
    ceil comb copysign e fabs factorial floor fma fmod frexp fsum gcd inf isclose isfinite isinf isnan isqrt lcm ldexp
    modf nan nextafter perm pi prod remainder sqrt tau trunc ulp
    """.split()
)
"""Names of ``math`` that give the same bits everywhere; the others are the C library's."""

_READABLE = frozenset({"shape", "ndim", "dtype", "device"})
_OPERATORS: dict[type[ast.operator], str] = {ast.MatMult: "@", ast.Pow: "**", ast.FloorDiv: "//", ast.Mod: "%"}
_NOT_ARRAYS = frozenset(
    """
    broadcast_shapes can_cast finfo host_dtype iinfo isdtype onnx_code onnx_dtype refuse_zero result_type
    sliding to_host
    """.split()
)
"""Functions of the namespace whose results are no arrays."""


def outside(entry: Operator, functions: Iterable[types.FunctionType]) -> list[str]:
    """What the ``functions`` of an operator of the user's use that is not the namespace's, in words, sorted.

    Seen are names of other libraries, global, imported or in closures, and operators and methods that arrays have by
    themselves. Not seen is what hides in classes, in C, or behind names that are made at run time.
    """
    found: set[str] = set()
    for function in functions:
        if (function.__module__ or "").partition(".")[0] == "onemodel":
            continue
        found.update(_names(function))
        arrays = {*entry.inputs, entry.variadic} - {*entry.host, None} if function is entry.function else set()
        found.update(_operations(function, arrays))
    return sorted(found)


# Names


def _names(function: types.FunctionType) -> Iterator[str]:
    for name, value, attribute in looked_up(function):
        yield from _strange(name, value, attribute)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield from _strange(name, cell.cell_contents, None)
        except ValueError:  # an empty cell
            continue
    for code in code_objects(function.__code__):
        module = ""
        for instruction in dis.get_instructions(code):
            if instruction.opname == "IMPORT_NAME":
                module = instruction.argval
                if module.partition(".")[0] not in HARMLESS:
                    yield module
            elif instruction.opname == "IMPORT_FROM" and module == "math" and instruction.argval not in EXACT_MATH:
                yield f"math.{instruction.argval}"
            elif instruction.opname == "BINARY_OP" and instruction.argrepr.startswith("@"):
                yield "@ of arrays"


def code_objects(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code object, and those of the functions within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from code_objects(constant)


def looked_up(function: types.FunctionType) -> Iterator[tuple[str, Any, str | None]]:
    """The global names that a function reads, what they are, and the attribute that is read from each at once."""
    for code in code_objects(function.__code__):
        instructions = [part for part in dis.get_instructions(code) if part.opname not in ("CACHE", "EXTENDED_ARG")]
        for instruction, following in zip(instructions, [*instructions[1:], None], strict=True):
            if instruction.opname != "LOAD_GLOBAL":
                continue
            name = instruction.argval
            value = function.__globals__.get(name, getattr(builtins, name, None))
            reads = following is not None and following.opname in ("LOAD_ATTR", "LOAD_METHOD")
            yield name, value, following.argval if reads and following is not None else None


def _strange(name: str, value: Any, attribute: str | None) -> Iterator[str]:
    """What of a global, and of its attribute, is outside."""
    if isinstance(value, types.ModuleType):
        root = value.__name__.partition(".")[0]
        if root == "math" and attribute not in (None, *EXACT_MATH):
            yield f"math.{attribute}"
        elif root not in HARMLESS:
            read = getattr(value, attribute, None) if attribute else None
            if not _harmless(read, root):
                yield value.__name__ + (f".{attribute}" if attribute else "")
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _strange(name, item, None)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strange(name, item, None)
    elif callable(value) and not isinstance(value, (type, types.FunctionType)):
        origin = getattr(value, "__module__", None) or type(value).__module__
        root = origin.partition(".")[0]
        if root == "math" and value.__name__ not in EXACT_MATH:
            yield f"math.{value.__name__}"
        elif root not in HARMLESS and not hasattr(value, "__wrapped__"):
            yield f"{origin}.{getattr(value, '__name__', name)}"
    elif isinstance(value, types.FunctionType) and value.__module__.partition(".")[0] == "numpy":
        yield f"{value.__module__}.{value.__name__}"


def _harmless(value: Any, root: str) -> bool:
    """Whether what is read of a module computes nothing, or is a Python function, which is walked like all others."""
    if isinstance(value, types.FunctionType):
        return root != "numpy"
    return isinstance(value, (int, float, str)) or (isinstance(value, type) and issubclass(value, np.generic))


# Operators and methods of arrays


def _operations(function: types.FunctionType, arrays: Collection[str | None]) -> Iterator[str]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return
    code = function.__code__
    arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.Lambda)) and _arguments(node) == arguments:
            yield from _Arrays({name for name in arrays if name}, node).wrong()
            return


def _arguments(node: ast.FunctionDef | ast.Lambda) -> tuple[str, ...]:
    given = node.args
    return tuple(argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs))


class _Arrays:
    """Which names of a function hold arrays: its inputs, and what is made from arrays and by the namespace."""

    def __init__(self, names: set[str], node: ast.FunctionDef | ast.Lambda) -> None:
        self.names = names
        self.node = node
        before = -1
        while before != len(self.names):
            before = len(self.names)
            for found in ast.walk(node):
                self._assigned(found)

    def _assigned(self, node: ast.AST) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                pairs = [(target, value) for target in targets]
            case ast.AnnAssign(target=target, value=value) if value is not None:
                pairs = [(target, value)]
            case ast.AugAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
                pairs = [(target, value)]
            case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
                pairs = [(target, value)]
            case _:
                return
        for target, value in pairs:
            if isinstance(target, ast.Name) and self.holds(value):
                self.names.add(target.id)

    def holds(self, node: ast.expr) -> bool:
        """Whether an expression gives an array, or a sequence of arrays."""
        match node:
            case ast.Name(id=name):
                return name in self.names
            case ast.Call(func=ast.Attribute(value=ast.Name(id="xp"), attr=name)):
                return name not in _NOT_ARRAYS
            case ast.BinOp(left=left, right=right):
                return self.holds(left) or self.holds(right)
            case ast.UnaryOp(operand=part) | ast.Subscript(value=part) | ast.Starred(value=part):
                return self.holds(part)
            case ast.Compare(left=left, comparators=others):
                return any(map(self.holds, (left, *others)))
            case ast.IfExp(body=body, orelse=other):
                return self.holds(body) or self.holds(other)
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                return any(map(self.holds, parts))
            case ast.ListComp(elt=part) | ast.GeneratorExp(elt=part):
                return self.holds(part)
        return False

    def wrong(self) -> Iterator[str]:
        """What is done to arrays without the namespace."""
        for node in ast.walk(self.node):
            match node:
                case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                    if self.holds(left) or self.holds(right):
                        yield f"{_OPERATORS[type(op)]} of arrays"
                case ast.AugAssign(target=target, op=op, value=value) if type(op) in _OPERATORS:
                    if self.holds(value) or (isinstance(target, ast.Name) and target.id in self.names):
                        yield f"{_OPERATORS[type(op)]} of arrays"
                case ast.Attribute(value=value, attr=name) if name not in _READABLE and self.holds(value):
                    if not isinstance(value, (ast.List, ast.Tuple)):
                        yield f".{name} of arrays"
                case ast.Call(func=ast.Name(id=name), args=args) if name in ("pow", "divmod", "float", "complex"):
                    if any(map(self.holds, args)):
                        yield f"{name}() of arrays"
