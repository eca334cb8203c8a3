"""Which functions of the namespace an operator may call, and so whether exact mode can run it."""

from __future__ import annotations

import dis
import types
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from typing import Any

from onemodel.backends import exact, extension
from onemodel.ops.registry import Operator
from onemodel.types import code_of, dtype_of, inner, is_tensor

_NOT_OURS = frozenset({"numpy", "builtins", "math", "itertools", "functools", "onnx"})


@cache
def functions_used(function: Callable[..., Any]) -> frozenset[str]:
    """The names of all ``xp`` functions that ``function``, and the functions it calls, may use.

    Found by walking their code: each attribute that is read from a variable named ``xp``, the extension functions' own
    definitions included where exact mode has no others, and every function that the code reaches by a global name or a
    closure.
    """
    names: set[str] = set()
    seen: set[Any] = set()
    todo: list[Any] = [function]
    while todo:
        current = todo.pop()
        while isinstance(current, partial) or hasattr(current, "__wrapped__"):
            current = current.func if isinstance(current, partial) else current.__wrapped__
        if not isinstance(current, types.FunctionType) or current in seen:
            continue
        seen.add(current)
        used = set(_xp_attributes(current.__code__))
        names |= used
        inside = used & extension.FUNCTIONS.keys() - exact.NATIVE - exact.TAKE_INTEGERS - exact.DEFINED.keys()
        todo += [extension.FUNCTIONS[name] for name in inside]
        todo += _reached(current)
    return frozenset(names)


def _code_objects(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _code_objects(constant)


def _xp_attributes(code: types.CodeType) -> Iterator[str]:
    for part in _code_objects(code):
        previous: Any = None
        for instruction in dis.get_instructions(part):
            if instruction.opname in ("LOAD_ATTR", "LOAD_METHOD") and previous == "xp":
                yield instruction.argval
            if instruction.opname in ("CACHE", "EXTENDED_ARG"):
                continue
            # From 3.13 on one instruction may load two variables; the second is on top.
            loaded = instruction.argval
            previous = loaded[-1] if isinstance(loaded, tuple) and loaded else loaded


def _reached(function: types.FunctionType) -> Iterator[Any]:
    for part in _code_objects(function.__code__):
        for instruction in dis.get_instructions(part):
            if instruction.opname == "LOAD_GLOBAL":
                yield from _functions_in(function.__globals__.get(instruction.argval))
    for cell in function.__closure__ or ():
        try:
            yield from _functions_in(cell.cell_contents)
        except ValueError:
            continue
    yield from _functions_in(function.__defaults__)
    yield from _functions_in(function.__kwdefaults__)


def _functions_in(value: Any) -> Iterator[Any]:
    """The functions in a value: itself, or the items of a container that holds functions."""
    if isinstance(value, partial):
        yield value
    elif isinstance(value, types.FunctionType):
        if (value.__module__ or "").partition(".")[0] not in _NOT_OURS:
            yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _functions_in(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _functions_in(item)


def _only_integers(value_types: Iterable[str | None]) -> bool:
    """True where every type is known, and none holds floating-point or complex numbers."""
    for value_type in value_types:
        while value_type is not None and not is_tensor(value_type):
            value_type = None if value_type.startswith("map(") else inner(value_type)
        if value_type is None:
            return False
        if code_of(value_type) and dtype_of(value_type).kind not in "iubO" and "int" not in inner(value_type):
            return False
    return True


def refusal(entry: Operator, value_types: Iterable[str | None]) -> str | None:
    """Why exact mode refuses ``entry`` on values of these types; None where it runs."""
    if entry.inexact is not None:
        return entry.inexact
    verdicts = {name: exact.verdict(name) for name in functions_used(entry.function) if name not in extension.FUNCTIONS}
    never = sorted(name for name, verdict in verdicts.items() if verdict == "never")
    if never:
        return f"{', '.join(never)}: no exact definition yet"
    integers = sorted(name for name, verdict in verdicts.items() if verdict == "integers")
    if integers and not _only_integers(value_types):
        return f"{', '.join(integers)}: exact on integers alone so far"
    return None
