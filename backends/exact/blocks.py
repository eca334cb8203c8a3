"""Programs on NumPy: block by block, every operation into a buffer that stays in cache."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from onemodel.backends.exact.program import Constant, Instruction, Program

Array = np.ndarray[Any, Any]

BLOCK = 16384
"""Elements at a time: a handful of float64 buffers of this length stay in the second-level cache."""

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
Step = tuple[Callable[..., Any], tuple[Any, ...]]


def _buffer(place: Place) -> Array:
    """The buffer of this thread at ``place``; all programs share them."""
    kept: dict[Place, Array] = vars(_storage).setdefault("buffers", {})
    if place not in kept:
        kept[place] = np.empty(BLOCK * place[0], np.uint8)
    return kept[place]


class BlockRunner:
    """Runs one program on NumPy arrays. Threads may share it."""

    def __init__(self, program: Program, host: Any) -> None:
        """``host`` is NumPy's namespace, in which the parts of ``mend`` run."""
        self.program = program
        self._host = host
        self._places = _allocate(program)
        self._bound = threading.local()

    def __call__(self, *arrays: Array) -> Array:
        """The result for contiguous 1-D arrays of one length."""
        size = arrays[0].size
        result = np.empty(size, self.program.dtypes[-1])
        with np.errstate(all="ignore"):
            for start in range(0, size, BLOCK):
                stop = min(start + BLOCK, size)
                inputs, steps, output = self._bind(stop - start)
                for target, array in zip(inputs, arrays, strict=True):
                    target[...] = array[start:stop]
                for function, arguments in steps:
                    function(*arguments)
                result[start:stop] = output
        return result

    def _bind(self, size: int) -> tuple[list[Array], list[Step], Array]:
        """The steps with their arguments, for a block of ``size`` elements."""
        kept: OrderedDict[int, tuple[list[Array], list[Step], Array]]
        kept = vars(self._bound).setdefault("steps", OrderedDict())
        if size in kept:
            kept.move_to_end(size)
            return kept[size]
        dtypes = self.program.dtypes
        values = [
            _buffer(place)[: size * place[0]].view(dtype) for place, dtype in zip(self._places, dtypes, strict=True)
        ]
        count, needed = len(self.program.inputs), self.program.needed()
        steps = []
        for number, instruction in enumerate(self.program.instructions):
            if instruction.operation != "bitcast" and count + number in needed:
                steps.append(self._step(instruction, values, values[count + number]))
        kept[size] = values[:count], steps, values[-1]
        if len(kept) > _KEPT:
            kept.popitem(last=False)
        return kept[size]

    def _step(self, instruction: Instruction, values: list[Array], target: Array) -> Step:
        operands = [
            operand.array if isinstance(operand, Constant) else values[operand] for operand in instruction.operands
        ]
        match instruction.operation:
            case "astype":
                return np.copyto, (target, operands[0], "unsafe")
            case "take":
                return operands[0].take, (operands[1], None, target, "clip")
            case "searchsorted":
                return _search, (target, *operands)
            case "where":
                return _select, (target, *operands)
            case "mend":
                return self._mend, (instruction.part, target, *operands)
            case "minimum" | "maximum" as name:
                # As a third positional argument NumPy deprecates it here.
                return partial(getattr(np, name), out=target), tuple(operands)
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
    mask, change = (_buffer((width, place))[: target.size * width].view(f"i{width}") for place in _SPARE)
    x, y, bits = x.view(mask.dtype), y.view(mask.dtype), target.view(mask.dtype)
    np.copyto(mask, condition.view(np.int8))
    np.negative(mask, out=mask)
    np.bitwise_xor(x, y, out=change)
    np.bitwise_and(change, mask, out=change)
    np.bitwise_xor(change, y, out=bits)


def _search(target: Array, table: Array, x: Array) -> None:
    target[...] = np.searchsorted(table, x)


def _allocate(program: Program) -> list[Place]:
    """A buffer for each value, used again as soon as nothing reads it any more."""
    dtypes, last, count = program.dtypes, program.last_uses(), len(program.inputs)
    root = list(range(len(dtypes)))
    for number, instruction in enumerate(program.instructions):
        if instruction.operation == "bitcast" and isinstance(instruction.operands[0], int):
            root[count + number] = root[instruction.operands[0]]
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

    places = [fresh(dtype) for dtype in program.inputs]
    for number, instruction in enumerate(program.instructions):
        value = count + number
        if root[value] != value:
            places.append(places[root[value]])
            continue
        dying = {
            root[operand]
            for operand in instruction.operands
            if isinstance(operand, int) and last[root[operand]] == number
        }
        place: Place | None = None
        for index in _IN_PLACE.get(instruction.operation, range(len(instruction.operands))):
            operand = instruction.operands[index]
            if not isinstance(operand, int) or root[operand] not in dying:
                continue
            if places[operand][0] == np.dtype(instruction.dtype).itemsize:
                place = places[operand]
                dying.discard(root[operand])
                break
        places.append(place or fresh(instruction.dtype))
        for done in dying:
            free.setdefault(places[done][0], []).append(places[done][1])
    return places
