"""Programs on NumPy: block by block, every operation into a buffer that stays in cache."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from onemodel.backends.exact.program import Constant, Instruction, Program
from onemodel.backends.fusion import block_of, blocks_of, flattened

Array = np.ndarray[Any, Any]

BLOCK = 16384
"""Elements at a time: a handful of float64 buffers of this length stay in the second-level cache."""

_ROOM = 1 << 20
"""Bytes of that cache."""

_MOST = 8 * BLOCK
"""Elements of the longest blocks; those of programs of few buffers, where calls weigh more than memory."""

_KEPT = 8
"""Lengths of a last, shorter block whose bound steps each program keeps."""

_IN_PLACE = {"where": (2,), "mend": (1,), "take": (), "astype": (), "searchsorted": ()}
"""Operands whose buffer the result may take, by operation; all where an operation is not named."""

_NAMES = {
    "abs": "absolute",
    "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift",
    "round": "rint",
}

_SPARE = (-1, -2)
"""Numbers of buffers that hold no value."""

_storage = threading.local()

Place = tuple[int, int]
"""Bytes per element, and the number of a buffer among those of that width."""
_INPUT: Place = (0, 0)
_RESULT: Place = (0, 1)
"""Places of values that lie in the arrays that the caller gives and gets."""

Step = tuple[Callable[..., Any], tuple[Any, ...], tuple[tuple[int, int], ...]]
"""The function, its arguments, and which of them are a block of the caller's: their places and the values' numbers."""


def _buffer(place: Place, size: int) -> Array:
    """``size`` elements of this thread's buffer at ``place``, as bytes; all programs share them."""
    kept: dict[Place, Array] = vars(_storage).setdefault("buffers", {})
    if place not in kept or len(kept[place]) < size * place[0]:
        kept[place] = np.empty(max(size, BLOCK) * place[0], np.uint8)
    return kept[place][: size * place[0]]


class BlockRunner:
    """Runs one program on NumPy arrays. Threads may share it."""

    def __init__(self, program: Program, host: Any) -> None:
        """``host`` is NumPy's namespace, in which the parts of ``mend`` run."""
        self.program = program
        self._host = host
        self._dtypes = [np.dtype(dtype) for dtype in program.dtypes]
        self._root = _roots(program)
        self._places = _allocate(program, self._root)
        self.block = _length(self._places)
        self._outer = [value for value, place in enumerate(self._places) if place in (_INPUT, _RESULT)]
        self._bound = threading.local()

    def __call__(self, *arrays: Array) -> Array:
        """The result for arrays that broadcast together, none of them empty."""
        first, *others = arrays
        alike = all(array.shape == first.shape for array in others)
        shape = first.shape if alike else np.broadcast_shapes(*(array.shape for array in arrays))
        result = np.empty(shape, self._dtypes[-1])
        if result.size == 0:
            return result
        flat = flattened(arrays, shape)
        with np.errstate(all="ignore"):
            if flat is not None and result.size <= self.block:
                self._run([x if x.ndim else np.broadcast_to(x, (result.size,)) for x in flat], result.reshape(-1))
                return result
            target, arrays = (result, arrays) if flat is None else (result.reshape(-1), tuple(flat))
            for block in blocks_of(target.shape, self.block):
                output = target[block]
                self._run([_spread(block_of(x, block, target.ndim), output.shape) for x in arrays], output.reshape(-1))
        return result

    def _run(self, inputs: list[Array], output: Array) -> None:
        """One block, of 1-D arrays."""
        blocks = self._blocks(inputs, output)
        if self._places[-1] == _INPUT:
            output[...] = blocks[len(self._places) - 1]
        for function, arguments, places in self._bind(output.size):
            if places:
                filled = list(arguments)
                for place, value in places:
                    filled[place] = blocks[value]
                function(*filled)
            else:
                function(*arguments)

    def _blocks(self, inputs: list[Array], result: Array) -> dict[int, Array]:
        """A block of the caller's arrays, by the numbers of the values that lie in it."""
        blocks: dict[int, Array] = {}
        for value in self._outer:
            block = result if self._places[value] == _RESULT else inputs[self._root[value]]
            dtype = self._dtypes[value]
            blocks[value] = block if block.dtype == dtype else block.view(dtype)
        return blocks

    def _bind(self, size: int) -> list[Step]:
        """The steps with their arguments, for a block of ``size`` elements."""
        kept: OrderedDict[int, list[Step]] = vars(self._bound).setdefault("steps", OrderedDict())
        if size in kept:
            kept.move_to_end(size)
            return kept[size]
        outer = set(self._outer)
        values = [
            value if value in outer else _buffer(place, size).view(dtype)
            for value, (place, dtype) in enumerate(zip(self._places, self._dtypes, strict=True))
        ]
        count, needed = len(self.program.inputs), self.program.needed()
        steps: list[Step] = []
        for number, instruction in enumerate(self.program.instructions):
            if instruction.operation != "bitcast" and count + number in needed:
                function, arguments = self._step(instruction, values, values[count + number])
                places = tuple((place, value) for place, value in enumerate(arguments) if type(value) is int)
                steps.append((function, arguments, places))
        kept[size] = steps
        if len(kept) > _KEPT:
            kept.popitem(last=False)
        return steps

    def _step(self, instruction: Instruction, values: list[Any], target: Any) -> tuple[Callable[..., Any], Any]:
        """A function and its arguments: arrays, or numbers of the values that lie in the caller's."""
        operands = [
            operand.array if isinstance(operand, Constant) else values[operand] for operand in instruction.operands
        ]
        match instruction.operation:
            case "take":
                table, index = operands
                return table.take, (index, None, target, "clip")
            case "searchsorted":
                return _search, (target, *operands)
            case "where":
                return _select, (target, *operands)
            case "mend":
                return self._mend, (instruction.part, target, *operands)
            case "astype":
                return np.copyto, (target, *operands, "unsafe")
            case "minimum":
                return _smaller, (target, *operands)
            case "maximum":
                return _larger, (target, *operands)
            case name:
                return getattr(np, _NAMES.get(name, name)), (*operands, target)

    def _mend(self, part: Program, target: Array, condition: Array, result: Array, *inputs: Array) -> None:
        if target is not result:
            np.copyto(target, result)
        chosen = np.flatnonzero(condition)
        if chosen.size == condition.size:
            target[...] = part.run(self._host, *inputs)
        elif chosen.size:
            target[chosen] = part.run(self._host, *(value[chosen] for value in inputs))


def _select(target: Array, condition: Array, x: Array, y: Array) -> None:
    """By masks, which do not care how often the condition turns, where there is anything to choose."""
    if not condition.any():
        if target is not y:
            np.copyto(target, y)
        return
    width = target.itemsize
    if width == 1:
        np.copyto(target, np.where(condition, x, y))
        return
    mask, change = (_buffer((width, place), target.size).view(f"i{width}") for place in _SPARE)
    x, y, bits = x.view(mask.dtype), y.view(mask.dtype), target.view(mask.dtype)
    np.copyto(mask, condition.view(np.int8))
    np.negative(mask, out=mask)
    np.bitwise_xor(x, y, out=change)
    np.bitwise_and(change, mask, out=change)
    np.bitwise_xor(change, y, out=bits)


def _spread(array: Array, shape: tuple[int, ...]) -> Array:
    """An array broadcast to a shape, with one axis: a copy only where it must be."""
    if array.ndim == 0:
        return np.broadcast_to(array, (math.prod(shape),))
    return (array if array.shape == shape else np.broadcast_to(array, shape)).reshape(-1)


def _search(target: Array, table: Array, x: Array) -> None:
    target[...] = np.searchsorted(table, x)


def _smaller(target: Array, x: Array, y: Array) -> None:
    np.minimum(x, y, out=target)  # as a third positional argument NumPy deprecates it here


def _larger(target: Array, x: Array, y: Array) -> None:
    np.maximum(x, y, out=target)


def _length(places: Sequence[Place]) -> int:
    """How many elements a block has: ``BLOCK``, or more where the buffers are few."""
    width = max(1, sum(place[0] for place in set(places)))
    return max(BLOCK, min(_MOST, 1 << (_ROOM // width).bit_length() - 1))


def _roots(program: Program) -> list[int]:
    """For each value the one whose memory it shows: itself, but for bitcasts."""
    root = list(range(len(program.dtypes)))
    for number, instruction in enumerate(program.instructions):
        if instruction.operation == "bitcast" and isinstance(instruction.operands[0], int):
            root[len(program.inputs) + number] = root[instruction.operands[0]]
    return root


def _allocate(program: Program, root: Sequence[int]) -> list[Place]:
    """A buffer for each value, used again as soon as nothing reads it any more."""
    dtypes, last, count = program.dtypes, program.last_uses(), len(program.inputs)
    for value in range(len(dtypes)):
        last[root[value]] = max(last[root[value]], last[value])
    free: dict[int, list[int]] = {}
    made: dict[int, int] = {}

    def fresh(dtype: str) -> Place:
        width = np.dtype(dtype).itemsize
        spare = free.setdefault(width, [])
        if spare:
            return width, spare.pop()
        made[width] = made.get(width, 0) + 1
        return width, made[width] - 1

    places = [_INPUT] * count
    for number, instruction in enumerate(program.instructions):
        value = count + number
        if root[value] != value:
            places.append(places[root[value]])
            continue
        dying = {
            root[operand]
            for operand in instruction.operands
            if isinstance(operand, int) and last[root[operand]] == number and root[operand] >= count
        }
        place = _RESULT if value == root[-1] else None
        for index in _IN_PLACE.get(instruction.operation, range(len(instruction.operands))):
            operand = instruction.operands[index]
            if place is not None or not isinstance(operand, int) or root[operand] not in dying:
                continue
            if places[operand][0] == np.dtype(instruction.dtype).itemsize:
                place = places[operand]
                dying.discard(root[operand])
        places.append(place or fresh(instruction.dtype))
        for done in dying:
            free.setdefault(places[done][0], []).append(places[done][1])
    return places
