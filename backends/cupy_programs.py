"""Elementwise operators as one CUDA kernel each.

The operator's function is called once with symbols in place of arrays, and a namespace that writes down what it does to
them as CUDA C++. What it cannot write down, such as a question for a shape, leaves the operator to CuPy, step by step.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import cupy
import numpy as np

from onemodel.backends import extension
from onemodel.backends.base import Array, Kernel
from onemodel.backends.cupy_launch import BLOCK, NAMES, OPTIONS, TYPES, blocks_for, source, typed
from onemodel.backends.cupy_run import per_device, row_major

_UNARY = {"abs": "fabs", "exp": "exp", "expm1": "expm1", "log": "log", "log1p": "log1p", "sqrt": "sqrt"}
_UNARY |= {"sin": "sin", "cos": "cos", "tanh": "tanh", "erf": "erf", "floor": "floor", "ceil": "ceil", "trunc": "trunc"}
_UNARY |= {"round": "rint"}
_BINARY = {"maximum": "Largest()", "minimum": "Smallest()", "pow": "pow", "copysign": "copysign"}


class Symbol:
    """A value of a kernel: a C++ variable."""

    shape = object()
    """All arrays have one shape; nothing is known of it but that."""

    def __init__(self, trace: Trace, name: str, dtype: np.dtype[Any]) -> None:
        self.trace = trace
        self.name = name
        self.dtype = dtype

    def _with(self, operator: str, other: Any, dtype: Any = None, *, swapped: bool = False) -> Symbol:
        operands = [self.name, self.trace.operand(other, self)]
        left, right = operands[::-1] if swapped else operands
        return self.trace.emit(f"{left} {operator} {right}", self.dtype if dtype is None else np.dtype(dtype))

    def __add__(self, other: Any) -> Symbol:
        return self._with("+", other)

    def __radd__(self, other: Any) -> Symbol:
        return self._with("+", other, swapped=True)

    def __sub__(self, other: Any) -> Symbol:
        return self._with("-", other)

    def __rsub__(self, other: Any) -> Symbol:
        return self._with("-", other, swapped=True)

    def __mul__(self, other: Any) -> Symbol:
        return self._with("*", other)

    def __rmul__(self, other: Any) -> Symbol:
        return self._with("*", other, swapped=True)

    def __truediv__(self, other: Any) -> Symbol:
        return self._with("/", other)

    def __rtruediv__(self, other: Any) -> Symbol:
        return self._with("/", other, swapped=True)

    def __lt__(self, other: Any) -> Symbol:
        return self._with("<", other, bool)

    def __le__(self, other: Any) -> Symbol:
        return self._with("<=", other, bool)

    def __gt__(self, other: Any) -> Symbol:
        return self._with(">", other, bool)

    def __ge__(self, other: Any) -> Symbol:
        return self._with(">=", other, bool)

    def __and__(self, other: Any) -> Symbol:
        return self._with("&&", other)

    def __or__(self, other: Any) -> Symbol:
        return self._with("||", other)

    def __neg__(self) -> Symbol:
        return self.trace.emit(f"-{self.name}", self.dtype)

    def __invert__(self) -> Symbol:
        return self.trace.emit(f"!{self.name}", self.dtype)

    def __bool__(self) -> bool:
        raise TypeError("a kernel has no branches on the host")


class Trace:
    """The namespace that writes down what a function does to symbols of one float type."""

    label = "program"
    bool = np.dtype(np.bool_)

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype
        self.lines: list[str] = []
        for name, function in _UNARY.items():
            setattr(self, name, partial(self._unary, function))
        for name, function in _BINARY.items():
            setattr(self, name, partial(self._binary, function))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Extension functions, which are written in the others."""
        if name not in extension.FUNCTIONS:
            raise AttributeError(f"a kernel has no {name!r}")
        return partial(extension.FUNCTIONS[name], xp=self)

    def emit(self, expression: str, dtype: np.dtype[Any]) -> Symbol:
        """A new variable."""
        name = f"v{len(self.lines)}"
        kind = "bool" if dtype.kind == "b" else "W"
        self.lines.append(f"const {kind} {name} = {expression};")
        return Symbol(self, name, dtype)

    def operand(self, value: Any, like: Symbol) -> str:
        """A symbol's name, or a number with exactly its bits."""
        if isinstance(value, Symbol):
            if value.dtype != like.dtype:
                raise TypeError("a kernel's operands are of one type")
            return value.name
        if like.dtype != self.dtype:
            raise TypeError("numbers go with numbers")
        if self.dtype == np.float64:
            return f"__longlong_as_double({np.float64(value).view(np.int64)}ll)"
        return f"__int_as_float({np.float32(value).view(np.int32)})"

    def asarray(self, value: Any, /, *, dtype: Any) -> Symbol:
        """A number as a variable."""
        return self.emit(self.operand(value, Symbol(self, "", np.dtype(dtype))), np.dtype(dtype))

    def where(self, condition: Symbol, x: Any, y: Any, /) -> Symbol:
        """The standard's ``where``."""
        like = x if isinstance(x, Symbol) else y
        return self.emit(f"{condition.name} ? {self.operand(x, like)} : {self.operand(y, like)}", like.dtype)

    def isdtype(self, dtype: Any, kind: Any) -> Any:
        """The standard's ``isdtype``."""
        return np.isdtype(dtype, kind)

    def isnan(self, x: Symbol, /) -> Symbol:
        """The standard's ``isnan``."""
        return self.emit(f"{x.name} != {x.name}", self.bool)

    def square(self, x: Symbol, /) -> Symbol:
        """The standard's ``square``."""
        return x * x

    def _unary(self, function: str, x: Symbol, /) -> Symbol:
        return self.emit(f"{function}({self.operand(x, x)})", x.dtype)

    def _binary(self, function: str, x: Any, y: Any, /) -> Symbol:
        like = x if isinstance(x, Symbol) else y
        return self.emit(f"{function}({self.operand(x, like)}, {self.operand(y, like)})", like.dtype)


def written(function: Callable[..., Any], count: int, dtype: np.dtype[Any], attributes: dict[str, Any]) -> str | None:
    """The kernel ``program`` of an operator's function for ``count`` arrays of one float type.

    None where the function cannot be written down, or is a single step, which CuPy has a kernel for.
    """
    wide = np.dtype(np.float64 if dtype == np.float64 else np.float32)
    trace = Trace(wide)
    symbols = [trace.emit(f"widen(x{i}[i])", wide) for i in range(count)]
    try:
        result = function(*symbols, **attributes, xp=trace)
    except (AttributeError, TypeError):
        return None
    steps = sum("(" in line or any(f" {sign} " in line for sign in "+-*/?") for line in trace.lines[count:])
    if not isinstance(result, Symbol) or result.dtype != wide or steps < 2:
        return None
    parameters = "".join(f"const {TYPES[dtype]}* x{i}, " for i in range(count))
    lines = "\n    ".join(trace.lines)
    return (
        f"__global__ void program({parameters}{TYPES[dtype]}* y, index_t count) {{\n"
        f"  typedef {'double' if wide == np.float64 else 'float'} W;\n"
        "  for (index_t i = (index_t)blockIdx.x * blockDim.x + threadIdx.x; i < count;\n"
        "       i += (index_t)gridDim.x * blockDim.x) {\n"
        f"    {lines}\n    y[i] = narrow<{TYPES[dtype]}>({result.name});\n  }}\n}}\n"
    )


@per_device
def _compiled(function: Callable[..., Any], count: int, dtype: np.dtype[Any], attributes: Any) -> Any:
    text = written(function, count, dtype, dict(attributes))
    if text is None:
        return None
    code = source("") + text
    return cupy.RawModule(code=code, options=OPTIONS, name_expressions=("program",)).get_function("program")


def _run(function: Callable[..., Any], /, *arrays: Array, xp: Any, **attributes: Any) -> Any:
    """The operator on arrays of one shape and float type."""
    first = arrays[0]
    if any(getattr(x, "shape", None) != first.shape or x.dtype != first.dtype for x in arrays) or first.size == 0:
        return NotImplemented
    try:
        launch = _compiled(function, len(arrays), first.dtype, tuple(attributes.items()))
    except TypeError:  # an attribute that is a list
        return NotImplemented
    if launch is None:
        return NotImplemented
    arrays = tuple(map(row_major, arrays))
    result = cupy.empty(first.shape, first.dtype)
    launch((blocks_for(result.size),), (BLOCK,), typed((*arrays, result, result.size)))
    return result


@cache
def kernel_of(function: Callable[..., Any]) -> Kernel:
    """See ``Backend.program``."""
    return Kernel(partial(_run, function), 0, NAMES, halves=True, partial=True)
