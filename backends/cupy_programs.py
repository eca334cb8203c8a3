"""Elementwise operators as one CUDA kernel each.

The operator's function is called once with symbols in place of arrays, and a namespace that writes down what it does to
them as CUDA C++. What it cannot write down, such as a question for a shape, leaves the operator to CuPy, step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import cupy
import numpy as np

from onemodel.backends import extension
from onemodel.backends.base import Array, Kernel, numpy_dtype
from onemodel.backends.cupy_launch import BLOCK, NAMES, OPTIONS, TYPES, Launch, blocks_for, source, typed
from onemodel.backends.cupy_run import per_device, row_major

_UNARY = {"abs": "fabs", "exp": "exp", "expm1": "expm1", "log": "log", "log1p": "log1p", "sqrt": "sqrt"}
_UNARY |= {"sin": "sin", "cos": "cos", "tanh": "tanh", "erf": "erf", "floor": "floor", "ceil": "ceil", "trunc": "trunc"}
_UNARY |= {"round": "rint"}
_BINARY = {"maximum": "Largest()", "minimum": "Smallest()", "pow": "pow", "copysign": "copysign"}


STORED = TYPES | {np.dtype(np.bool_): "bool"}
"""The types of arrays that kernels take, and their names in C++."""

_ALIKE = object()
"""The shape of all arrays, where they have one; nothing else is known of it."""

_VARIABLES = {np.dtype(np.bool_): "bool", np.dtype(np.float64): "double"}
"""The C++ types of variables; half types and float32 are float."""


class Symbol:
    """A value of a kernel: a C++ variable.

    One of a half type can be moved and converted, but not computed with. Only arrays of one shape, and constants, have
    a ``shape``.
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, trace: Trace, name: str, dtype: np.dtype[Any], shape: object = None) -> None:
        self.trace = trace
        self.name = name
        self.dtype = dtype
        if shape is not None:
            self.shape = shape

    def _with(self, operator: str, other: Any, dtype: Any = None, *, swapped: bool = False) -> Symbol:
        operands = [self.trace.computed(self), self.trace.operand(other, self)]
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

    def __eq__(self, other: object) -> Symbol:  # type: ignore[override]
        return self._with("==", other, bool)

    def __ne__(self, other: object) -> Symbol:  # type: ignore[override]
        return self._with("!=", other, bool)

    def __and__(self, other: Any) -> Symbol:
        return self._with("&&", other)

    def __or__(self, other: Any) -> Symbol:
        return self._with("||", other)

    def __xor__(self, other: Any) -> Symbol:
        return self._with("!=", other, bool)

    def __neg__(self) -> Symbol:
        return self.trace.emit(f"-{self.trace.computed(self)}", self.dtype)

    def __invert__(self) -> Symbol:
        return self.trace.emit(f"!{self.name}", self.dtype)

    def __bool__(self) -> bool:
        raise TypeError("a kernel has no branches on the host")


class Trace:
    """The namespace that writes down what a function does to symbols.

    Args:
        shape: of its values; None where they have none.
    """

    label = "program"
    bool = np.dtype(np.bool_)
    float32 = np.dtype(np.float32)
    float64 = np.dtype(np.float64)

    def __init__(self, shape: object = None) -> None:
        self.shape = shape
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
        self.lines.append(f"const {_VARIABLES.get(dtype, 'float')} {name} = {expression};")
        return Symbol(self, name, dtype, self.shape)

    def loaded(self, source: str, dtype: np.dtype[Any]) -> Symbol:
        """An element of an array in memory, which is widened."""
        return self.emit(source if dtype == self.bool else f"widen({source})", dtype)

    def rounded(self, x: Symbol, dtype: np.dtype[Any]) -> Symbol:
        """The float32 number x rounded to a half type."""
        return self.emit(f"widen(narrow<{TYPES[dtype]}>({self.computed(x)}))", dtype)

    def computed(self, x: Symbol) -> str:
        """The name of a symbol that is computed with."""
        if x.dtype.itemsize == 2:
            raise TypeError("a kernel computes half types in float32")
        return x.name

    def operand(self, value: Any, like: Symbol) -> str:
        """A symbol's name, or a number with exactly its bits."""
        if isinstance(value, Symbol):
            if value.dtype != like.dtype:
                raise TypeError("a kernel's operands are of one type")
            return value.name
        if like.dtype == np.float64:
            return f"__longlong_as_double({np.float64(value).view(np.int64)}ll)"
        if like.dtype == self.bool:
            raise TypeError("numbers go with numbers")
        return f"__int_as_float({np.float32(value).view(np.int32)})"

    def number(self, value: Any, dtype: np.dtype[Any]) -> Symbol:
        """A constant array of one element, as a variable."""
        text = str(bool(value)).lower() if dtype == self.bool else self.operand(value, Symbol(self, "", dtype))
        return Symbol(self, self.emit(text, dtype).name, dtype, ())

    def asarray(self, value: Any, /, *, dtype: Any) -> Symbol:
        """A number as a variable."""
        return self.emit(self.operand(value, Symbol(self, "", np.dtype(dtype))), np.dtype(dtype))

    def reshape(self, x: Symbol, shape: tuple[int, ...], /) -> Symbol:
        """Of a constant alone."""
        if x.shape != () or shape != ():
            raise TypeError("a kernel's arrays are not reshaped")
        return x

    def convert(self, x: Symbol, code: int, /, *, saturate: Any = True, round_mode: str = "up") -> Symbol:
        """See ``extension.convert``; between the floats and truth values."""
        dtype = numpy_dtype(code)
        if dtype not in TYPES and dtype != self.bool:
            raise TypeError(f"a kernel has no {dtype}")
        if dtype == x.dtype:
            return x
        if dtype == self.bool:
            # By bits: subnormal float32 numbers compare as 0.
            value = x.name if x.dtype == np.float64 else f"(__float_as_uint({x.name}) << 1)"
            return self.emit(f"{value} != 0", dtype)
        if dtype.itemsize > 2:
            return self.emit(f"({_VARIABLES.get(dtype, 'float')}){x.name}", dtype)
        if x.dtype == np.float64:
            raise TypeError("a kernel rounds float64 to no half type")
        return self.rounded(self.emit(f"(float){x.name}", self.float32), dtype)

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
        return self.emit(f"{function}({self.computed(x)})", x.dtype)

    def _binary(self, function: str, x: Any, y: Any, /) -> Symbol:
        like = x if isinstance(x, Symbol) else y
        self.computed(like)
        return self.emit(f"{function}({self.operand(x, like)}, {self.operand(y, like)})", like.dtype)


def written(function: Callable[..., Any], count: int, dtype: np.dtype[Any], attributes: dict[str, Any]) -> str | None:
    """The kernel ``program`` of an operator's function for ``count`` arrays of one float type.

    None where the function cannot be written down, or is a single step, which CuPy has a kernel for.
    """
    wide = np.dtype(np.float64 if dtype == np.float64 else np.float32)
    trace = Trace(_ALIKE)
    symbols = [trace.emit(f"widen(x{i}[i])", wide) for i in range(count)]
    try:
        result = function(*symbols, **attributes, xp=trace)
    except (AttributeError, TypeError):
        return None
    steps = sum("(" in line or any(f" {sign} " in line for sign in "+-*/?") for line in trace.lines[count:])
    if not isinstance(result, Symbol) or result.dtype != wide or steps < 2:
        return None
    parameters = [f"const {TYPES[dtype]}* x{i}" for i in range(count)]
    return kernel_text(trace, parameters, result, dtype)


def kernel_text(trace: Trace, parameters: Sequence[str], result: Symbol, dtype: np.dtype[Any]) -> str:
    """The kernel ``program`` that does for each element i what a trace has written down."""
    kind = STORED[dtype]
    lines = "\n    ".join(trace.lines)
    value = result.name if dtype == trace.bool else f"narrow<{kind}>({result.name})"
    return (
        f"__global__ void program({', '.join([*parameters, f'{kind}* y', 'index_t count'])}) {{\n"
        "  for (index_t i = (index_t)blockIdx.x * blockDim.x + threadIdx.x; i < count;\n"
        "       i += (index_t)gridDim.x * blockDim.x) {\n"
        f"    {lines}\n    y[i] = {value};\n  }}\n}}\n"
    )


@per_device
def compiled(text: str) -> Launch:
    """The kernel ``program``."""
    module = cupy.RawModule(code=source("") + text, options=OPTIONS, name_expressions=("program",))
    launch: Launch = module.get_function("program")
    return launch


@per_device
def _compiled(function: Callable[..., Any], count: int, dtype: np.dtype[Any], attributes: Any) -> Any:
    text = written(function, count, dtype, dict(attributes))
    return None if text is None else compiled(text)


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
