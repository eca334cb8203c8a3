"""Neighbouring elementwise operators on NumPy in fast mode: block by block, so that inner results stay in cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from onemodel.backends.fusion import Expression, Fusion, block_of, blocks_of, flattened

Array = np.ndarray[Any, Any]

LARGE = 1 << 22
"""Elements from which on blocks are faster than whole arrays, by ``python -m bench.fusion``."""

BLOCK = 1 << 18
"""Elements of a block: calls cost little beside the work on them, and what they make stays in the caches."""


class BlockFusion(Fusion):
    """Calls the operators as they are, on one block after the other."""

    def takes(self, expression: Expression) -> bool:
        """It tries the operator on ones, each array with an axis of its own: all must broadcast alike."""
        if any(np.dtype(dtype).kind not in "biufV" for dtype in expression.dtypes()):
            return False
        shapes = [(2,) + (1,) * axis for axis in range(len(expression.inputs))]
        arrays = [np.ones(shape, dtype) for shape, dtype in zip(shapes, expression.inputs, strict=True)]
        try:
            with np.errstate(all="ignore"):
                result = _computed(expression, _readers(expression), arrays)
        except Exception:  # noqa: BLE001 - an operator may refuse ones in any way
            return False
        return bool(result.shape == np.broadcast_shapes(*shapes)) and result.dtype.name == expression.elements[-1].dtype

    def step(self, expression: Expression) -> Callable[..., Any]:
        done = _readers(expression)
        dtype = np.dtype(expression.elements[-1].dtype)

        def run(*arrays: Any) -> Any:
            for array in arrays:  # the cheapest way to ask: small runs do so again and again
                if array.size >= LARGE:
                    break
            else:
                return NotImplemented
            shape = expression.shape_of(arrays)
            if shape is None or 0 in shape:
                return NotImplemented
            order = _memory_order(arrays, shape)
            if order is not None:
                wide = [array.reshape((1,) * (len(shape) - array.ndim) + array.shape) for array in arrays]
                turned = run(*(array.transpose(order) for array in wide))
                return turned if turned is NotImplemented else turned.transpose(np.argsort(order))
            result = np.empty(shape, dtype)
            flat = flattened(arrays, shape)
            target, inputs = (result, arrays) if flat is None else (result.reshape(-1), flat)
            for block in blocks_of(target.shape, BLOCK):
                target[block] = _computed(expression, done, [block_of(x, block, target.ndim) for x in inputs])
            return result

        return run


def _memory_order(arrays: Sequence[Array], shape: tuple[int, ...]) -> list[int] | None:
    """The axes in the order in which they lie in memory, which NumPy's own results keep; None where it is theirs."""
    whole = [array for array in arrays if array.shape == shape]
    if len(shape) < 2 or not whole or any(array.flags.c_contiguous for array in whole):
        return None
    order = sorted(range(len(shape)), key=lambda axis: -abs(whole[0].strides[axis]))
    return None if order == list(range(len(shape))) else order


def _readers(expression: Expression) -> list[list[int]]:
    """For each element the values that no later one reads."""
    last: dict[int, int] = {}
    for number, element in enumerate(expression.elements):
        last.update((operand, number) for operand in element.operands if operand is not None)
    return [[value for value, at in last.items() if at == number] for number in range(len(expression.elements))]


def _computed(expression: Expression, done: Sequence[Sequence[int]], arrays: Sequence[Array]) -> Array:
    """The operators one by one."""
    values: list[Any] = [*arrays, *(constant.reshape(()) for constant in expression.constants)]
    for element, over in zip(expression.elements, done, strict=True):
        result = element.call(*[None if operand is None else values[operand] for operand in element.operands])
        values.append(np.asarray(result))
        for value in over:
            values[value] = None
    last: Array = values[-1]
    return last
