"""Neighbouring elementwise operators as one CUDA kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import cupy
import numpy as np

from onemodel.backends.base import Array
from onemodel.backends.cupy_launch import BLOCK, Launch, blocks_for, typed
from onemodel.backends.cupy_programs import STORED, Symbol, Trace, compiled, kernel_text
from onemodel.backends.cupy_run import row_major
from onemodel.backends.fusion import Element, Expression, Fusion

_INDICES = {"all": "i", "one": "0", "trailing": "(unsigned)i % n{0}", "leading": "(unsigned)i / m{0}"}
_INDICES["middle"] = "(unsigned)i / m{0} % n{0}"
"""Where the element of input {0} lies that goes with element i, by how the input broadcasts."""

_MOST = 1 << 31
"""Elements up to which places of inputs that broadcast are computed in 32 bits, which is several times faster."""

_KEPT = 64
"""Combinations of shapes whose launches each step keeps."""


Plan = tuple[tuple[int, ...], Launch, list[tuple[np.uint32, ...]]]
"""The result's shape, the kernel, and for each array the numbers that the kernel takes besides."""


class KernelFusion(Fusion):
    """Writes an expression down as one kernel for each way in which its inputs broadcast."""

    def takes(self, expression: Expression) -> bool:
        return written(expression, ["all"] * len(expression.inputs)) is not None

    def kernel(self, expression: Expression, kinds: Sequence[str]) -> Launch | None:
        """The kernel for inputs that broadcast so."""
        text = written(expression, kinds)
        return None if text is None else compiled(text)

    def bare(self, array: Array) -> Array | None:
        """CuPy's array in one of the backend's."""
        return array if isinstance(array, cupy.ndarray) else None

    def wrapped(self, array: Array) -> Array:
        """The other way round."""
        return array

    def step(self, expression: Expression) -> Callable[..., Any]:
        dtype = np.dtype(expression.elements[-1].dtype)
        known: dict[Any, Plan | None] = {}

        def run(*arrays: Any) -> Any:
            inputs = [self.bare(array) for array in arrays]
            if any(array is None for array in inputs):
                return NotImplemented
            key = (cupy.cuda.runtime.getDevice(), *[(array.shape, array.dtype) for array in arrays])
            if key not in known:
                if len(known) >= _KEPT:
                    known.clear()
                known[key] = self._planned(expression, arrays)
            plan = known.get(key)
            if plan is None:
                return NotImplemented
            shape, launch, places = plan
            result = cupy.empty(shape, dtype)
            arguments: list[Any] = []
            for array, place in zip(inputs, places, strict=True):
                arguments += (row_major(array), *place)
            launch((blocks_for(result.size),), (BLOCK,), typed((*arguments, result, result.size)))
            return self.wrapped(result)

        return run

    def _planned(self, expression: Expression, arrays: Sequence[Array]) -> Plan | None:
        """How to launch the kernel for such arrays; None where it takes none."""
        shape = expression.shape_of(arrays)
        if shape is None or 0 in shape:
            return None
        found = [broadcasting(array.shape, shape) for array in arrays]
        kinds = [kind for kind, _ in found]
        if "other" in kinds or (math.prod(shape) >= _MOST and not {*kinds} <= {"all", "one"}):
            return None
        launch = self.kernel(expression, kinds)
        return None if launch is None else (shape, launch, [numbers for _, numbers in found])


def broadcasting(given: tuple[int, ...], shape: tuple[int, ...]) -> tuple[str, tuple[np.uint32, ...]]:
    """How an array broadcasts to a shape, a key of ``_INDICES``, and the numbers m and n in it; else ``"other"``."""
    sizes = (1,) * (len(shape) - len(given)) + given
    axes = [axis for axis, size in enumerate(sizes) if size != 1]
    if not axes:
        return ("all" if math.prod(shape) == 1 else "one"), ()
    first, stop = axes[0], axes[-1] + 1
    if sizes[first:stop] != shape[first:stop]:
        return "other", ()
    outer, inner = math.prod(shape[:first]), math.prod(shape[stop:])
    count = math.prod(given)
    if inner == 1:
        return ("all", ()) if outer == 1 else ("trailing", (np.uint32(count),))
    return ("leading", (np.uint32(inner),)) if outer == 1 else ("middle", (np.uint32(inner), np.uint32(count)))


def placed(number: int, kind: str) -> tuple[list[str], str]:
    """The parameters that an input of a kernel takes besides, and the place of its element that goes with element i."""
    index = _INDICES[kind]
    return [f"unsigned {name}{number}" for name in "mn" if f"{name}{{0}}" in index], index.format(number)


def written(expression: Expression, kinds: Sequence[str]) -> str | None:
    """The kernel ``program`` of an expression whose inputs broadcast so; None where it cannot be written down."""
    dtypes = [np.dtype(dtype) for dtype in expression.dtypes()]
    if any(dtype not in STORED for dtype in dtypes):
        return None
    trace = Trace()
    parameters = []
    values: list[Symbol] = []
    for i, (numbers, index) in enumerate(map(placed, range(len(kinds)), kinds)):
        parameters += [f"const {STORED[dtypes[i]]}* x{i}", *numbers]
        values.append(trace.loaded(f"x{i}[{index}]", dtypes[i]))
    try:
        values += [trace.number(constant.item(), constant.dtype) for constant in expression.constants]
        for element in expression.elements:
            values.append(_result(trace, element, values))
    except (AttributeError, TypeError):
        return None
    return kernel_text(trace, parameters, values[-1], dtypes[-1])


def _result(trace: Trace, element: Element, values: Sequence[Symbol]) -> Symbol:
    """What an operator makes of its operands; half types as float32 numbers, which are rounded where it ends."""
    operands = [None if number is None else values[number] for number in element.operands]
    if element.widens:
        operands = [_wide(operand) for operand in operands]
    result = element.function(*operands, **element.attributes, xp=trace)
    dtype = np.dtype(element.dtype)
    if not isinstance(result, Symbol):
        raise TypeError("a kernel makes one array")
    if dtype.itemsize == 2 and result.dtype == trace.float32:
        return trace.rounded(result, dtype)
    if result.dtype != dtype:
        raise TypeError("a result of another type")
    return Symbol(trace, result.name, dtype)


def _wide(operand: Symbol | None) -> Symbol | None:
    """A half as float32."""
    if operand is None or operand.dtype.itemsize != 2:
        return operand
    return Symbol(operand.trace, operand.name, operand.trace.float32, getattr(operand, "shape", None))
