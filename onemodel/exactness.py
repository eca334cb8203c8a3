"""Which functions of the namespace an operator may call, and so whether exact mode can run it."""

from __future__ import annotations

import dis
import types
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from typing import Any

from onemodel.backends import exact, extension
from onemodel.backends.base import STANDARD
from onemodel.ops.registry import Operator
from onemodel.outside import code_objects, looked_up, outside
from onemodel.types import code_of, dtype_of, inner, is_tensor

_NOT_OURS = frozenset({"numpy", "builtins", "math", "itertools", "functools", "onnx"})


@cache
def functions_used(function: Callable[..., Any]) -> frozenset[str]:
    """The names of all ``xp`` functions that ``function``, and the functions it calls, may use.

    Found by walking their code: each attribute that is read from a variable named ``xp``, the extension functions' own
    definitions included where exact mode has no others, and every function that the code reaches by a global name or a
    closure.
    """
    return frozenset(name for reached in _walked(function) for name in _xp_attributes(reached.__code__))


@cache
def _walked(function: Callable[..., Any]) -> tuple[types.FunctionType, ...]:
    """``function``, and all Python functions that it may come to call."""
    seen: dict[types.FunctionType, None] = {}
    todo: list[Any] = [function]
    while todo:
        current = todo.pop()
        while isinstance(current, partial) or hasattr(current, "__wrapped__"):
            current = current.func if isinstance(current, partial) else current.__wrapped__
        if not isinstance(current, types.FunctionType) or current in seen:
            continue
        seen[current] = None
        used = set(_xp_attributes(current.__code__))
        inside = used & extension.FUNCTIONS.keys() - exact.NATIVE - exact.TAKE_INTEGERS - exact.DEFINED.keys()
        todo += [extension.FUNCTIONS[name] for name in sorted(inside)]
        todo += _reached(current)
    return tuple(seen)


def _xp_attributes(code: types.CodeType) -> Iterator[str]:
    for part in code_objects(code):
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
    for _, value, attribute in looked_up(function):
        if isinstance(value, types.ModuleType) and attribute is not None:
            value = getattr(value, attribute, None)
        yield from _functions_in(value)
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
    strange = outside(entry, _walked(entry.function))
    if strange:
        return f"its code uses {', '.join(strange)}, of which exact mode knows nothing; use the functions of xp"
    value_types = list(value_types)
    used = functions_used(entry.function)
    verdicts = {name: exact.verdict(name) for name in used if name not in extension.FUNCTIONS}
    never = sorted(name for name, verdict in verdicts.items() if verdict == "never")
    if unknown := [name for name in never if name not in STANDARD]:
        return f"xp has no {', '.join(map(repr, unknown))}"
    if never:
        return f"{', '.join(never)}: no exact definition yet"
    integers = sorted(name for name, verdict in verdicts.items() if verdict == "integers")
    if integers and not _only_integers(value_types):
        return f"{', '.join(integers)}: exact on integers alone so far"
    defined = sorted(used & exact.COMPUTED)
    if defined and any("complex" in value_type for value_type in value_types if value_type):
        return f"{', '.join(defined)}: no exact definition for complex numbers"
    return None


_FOLDS = frozenset({"prod", "cumulative_sum", "cumulative_prod"})
_SUMS = frozenset({"conv", "matmul", "mean", "sum", "tensordot", "vecdot"})
_FUNCTIONS = frozenset(exact.elementary.FUNCTIONS)


def method(entry: Operator, value_types: Iterable[str | None]) -> str:
    """How exact mode computes an operator that it takes, on values of these types, in a few words."""
    given = list(value_types)
    if entry.metadata:
        return "reads shapes and types alone"
    if _only_integers(given):
        return "integers, truth values or text: exact by themselves"
    used = functions_used(entry.function)
    double = any(value_type in ("tensor(double)", None) for value_type in given)
    proven = frozenset() if double else exact.elementary.PROVEN
    kinds = (
        ("exact sum, rounded once", used & _SUMS),
        ("correctly rounded", used & proven),
        ("fixed program, measured", (used & _FUNCTIONS) - proven),
        ("-0 below +0, NaN kept", used & exact.extremes.FUNCTIONS.keys()),
        ("fixed order of rounded steps", used & _FOLDS),
    )
    parts = [f"{text}: {', '.join(sorted(names))}" for text, names in kinds if names]
    return "; ".join(parts) or "moves, comparisons, single IEEE 754 operations"
