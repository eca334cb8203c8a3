"""Exact mode's programs as one CUDA kernel each: elementary functions, and whole elementwise operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import cupy
import numpy as np

from onemodel.backends.base import Array, Kernel
from onemodel.backends.cupy_exact_array import ExactArray
from onemodel.backends.cupy_exact_launch import loaded
from onemodel.backends.cupy_fusion import KernelFusion, placed
from onemodel.backends.cupy_launch import BLOCK, Launch, blocks_for, typed
from onemodel.backends.cupy_run import row_major
from onemodel.backends.exact.program import Program
from onemodel.backends.exact.source import cuda_source
from onemodel.backends.exact.symbolic import FLOATS, traced, traced_expression
from onemodel.backends.fusion import Expression


@cache
def _source(program: Program) -> str:
    return cuda_source(program, "program")


def run(program: Program, *arrays: Array) -> Array:
    """The result for arrays of one shape."""
    result = cupy.empty(arrays[0].shape, program.dtypes[-1])
    if result.size:
        kernel = loaded(_source(program), (), ("program",))["program"]
        arguments = (*map(row_major, arrays), result, result.size)
        kernel((blocks_for(result.size),), (BLOCK,), typed(arguments))
    return result


@cache
def _traced(function: Callable[..., Any], dtypes: tuple[str, ...], attributes: Any) -> Program | None:
    """None for what is a single step, which there is a kernel for."""
    program = traced(function, dtypes, dict(attributes))
    return None if program is None or len(program.instructions) < 2 else program


def _run(function: Callable[..., Any], /, *arrays: Any, xp: Any, **attributes: Any) -> Any:
    """The operator on arrays of one shape, and of one type but for booleans."""
    first = arrays[0]
    for x in arrays:
        if not isinstance(x, ExactArray) or x.shape != first.shape or x.dtype not in (first.dtype, np.dtype(bool)):
            return NotImplemented
    try:
        program = _traced(function, tuple(x.dtype.name for x in arrays), tuple(attributes.items()))
    except TypeError:  # an attribute that is a list
        return NotImplemented
    return NotImplemented if program is None else ExactArray(run(program, *(x.array for x in arrays)))


@cache
def kernel_of(function: Callable[..., Any]) -> Kernel:
    """See ``Backend.program``."""
    return Kernel(partial(_run, function), 0, FLOATS, partial=True)


class ExactFusion(KernelFusion):
    """Expressions in exact mode: each becomes one program, and that one kernel."""

    def takes(self, expression: Expression) -> bool:
        return traced_expression(expression) is not None

    def kernel(self, expression: Expression, kinds: Sequence[str]) -> Launch | None:
        program = traced_expression(expression)
        if program is None:
            return None
        places = [placed(i, kind) for i, kind in enumerate(kinds)]
        return loaded(cuda_source(program, "program", places), (), ("program",))["program"]

    def bare(self, array: Array) -> Array | None:
        return array.array if isinstance(array, ExactArray) else None

    def wrapped(self, array: Array) -> Array:
        return ExactArray(array)
