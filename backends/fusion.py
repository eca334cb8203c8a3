"""Neighbouring operators that a backend may compute in one step: elementwise ones as one expression, and chains."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = Any
Block = tuple[int | slice, ...]
"""An index of each axis: integers first, then a slice; later axes are whole."""

_KEPT = 4096
"""Answers about operators that are kept: constants that differ make operators that differ."""


@dataclass(frozen=True)
class Element:
    """One operator of an expression.

    Attributes:
        function: the operator's own.
        attributes: its attributes, without ``xp``.
        call: the operator on arrays as the plan runs it alone.
        operands: numbers of values: the expression's inputs come first, then its constants, then its elements' results;
            None for an operand that is left out.
        widens: float16 and bfloat16 operands are widened to float32 before, and the result is rounded once.
        dtype: of the result, by NumPy's name.
    """

    function: Callable[..., Any]
    attributes: Mapping[str, Any]
    call: Callable[..., Any]
    operands: tuple[int | None, ...]
    widens: bool
    dtype: str


@dataclass(frozen=True)
class Expression:
    """Operators whose inner results nothing else reads; the last one's is the result.

    Attributes:
        inputs: the dtypes of the arrays, by NumPy's names.
        constants: NumPy arrays of one element, known when the plan is made.
        elements: in an order in which they can be computed.
    """

    inputs: tuple[str, ...]
    constants: tuple[np.ndarray[Any, Any], ...]
    elements: tuple[Element, ...]

    def dtypes(self) -> list[str]:
        """Of all values, by their numbers."""
        constants = (constant.dtype.name for constant in self.constants)
        return [*self.inputs, *constants, *(element.dtype for element in self.elements)]

    def shape_of(self, arrays: Sequence[Array]) -> tuple[int, ...] | None:
        """The result's shape; None where the arrays do not fit, or a constant has more axes than one of them."""
        if any(array.dtype != dtype for array, dtype in zip(arrays, self.inputs, strict=True)):
            return None
        shape: tuple[int, ...] = arrays[0].shape
        if any(array.shape != shape for array in arrays):
            try:
                shape = np.broadcast_shapes(*(array.shape for array in arrays))
            except ValueError:
                return None
        least = min(array.ndim for array in arrays)
        return None if any(constant.ndim > least for constant in self.constants) else shape


@dataclass(frozen=True)
class Chain:
    """Operators of which each reads the result of the one before, which nothing else reads.

    Attributes:
        attributes: of each operator, without ``xp``.
        dtypes: of the arrays that they read besides, in order, by NumPy's names.
        constants: these arrays as NumPy's where they are known when the plan is made; None for the others.
    """

    attributes: tuple[Mapping[str, Any], ...]
    dtypes: tuple[str, ...]
    constants: tuple[np.ndarray[Any, Any] | None, ...]


Meanings = tuple[tuple[str, int], ...]
"""Operators of ai.onnx, each by its name and the opset since which it has its meaning."""
Joined = Callable[[Chain], Callable[..., Any] | None]
"""A chain as a function of its arrays, which returns NotImplemented for those that it leaves to the operators one by
one; None where it takes no such chain."""


class Fusion(ABC):
    """How one backend in one mode computes expressions."""

    def __init__(self) -> None:
        self._known: dict[Any, bool] = {}

    def accepts(self, expression: Expression) -> bool:
        """``takes``, asked once for nodes that are alike."""
        (element,) = expression.elements
        constants = tuple((constant.dtype, constant.shape, constant.tobytes()) for constant in expression.constants)
        attributes = repr(sorted(element.attributes.items()))
        key = element.function, attributes, element.widens, element.operands, expression.inputs, constants
        if key not in self._known:
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[key] = self.takes(expression)
        return self._known[key]

    @abstractmethod
    def takes(self, expression: Expression) -> bool:
        """Whether an operator, given as an expression of one element, may be part of a step.

        It may where each element of the result depends on the operands' elements at the same place, all operands
        broadcast alike, and nothing is checked that only the operator by itself can name in an error.
        """

    @abstractmethod
    def step(self, expression: Expression) -> Callable[..., Array]:
        """The expression as a function of its inputs.

        It returns NotImplemented for arrays that had better go through the operators one by one.
        """


def blocks_of(shape: Sequence[int], most: int) -> Iterator[Block]:
    """Indices that cut an array of ``shape``, none of it 0, into contiguous blocks of about ``most`` elements."""
    axis, inner = len(shape), 1
    while axis and inner * shape[axis - 1] <= most:
        axis -= 1
        inner *= shape[axis]
    if axis == 0:
        yield ()
        return
    step = max(1, most // inner)
    for outer in np.ndindex(*shape[: axis - 1]):
        for start in range(0, shape[axis - 1], step):
            yield (*outer, slice(start, start + step))


def block_of(array: Array, block: Block, ndim: int) -> Array:
    """What an array, which broadcasts to ``ndim`` axes, has in a block."""
    index: list[int | slice] = []
    for size, place in zip(array.shape, block[ndim - array.ndim :], strict=False):
        index.append((0 if isinstance(place, int) else slice(None)) if size == 1 else place)
    return array[tuple(index)]


def flattened(arrays: Sequence[np.ndarray[Any, Any]], shape: Sequence[int]) -> list[np.ndarray[Any, Any]] | None:
    """The arrays with one axis, those of one element with none; None where one has another shape."""
    size = math.prod(shape)
    if any(array.size not in (size, 1) for array in arrays):
        return None
    return [array.reshape(()) if array.size == 1 else np.ascontiguousarray(array).reshape(-1) for array in arrays]
