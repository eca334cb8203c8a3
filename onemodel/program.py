"""What a plan comes to: a list of bound steps over numbered slots, and the loop that runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from onemodel.backends.base import Backend
from onemodel.errors import ExecutionError, OneModelError


@dataclass(frozen=True)
class NodeInfo:
    """A node as errors and listings name it."""

    name: str
    op_type: str
    domain: str
    opset: int
    outputs: tuple[str, ...]
    path: tuple[str, ...] = ()
    """The functions and subgraphs around the node, outermost first."""
    reason: str = ""
    """Why the node is refused, in listings of refused nodes."""
    parts: tuple[NodeInfo, ...] = ()
    """The nodes of a step that several nodes have become."""

    @property
    def operator(self) -> str:
        return f"{self.domain or 'ai.onnx'}::{self.op_type} at opset {self.opset}"

    def __str__(self) -> str:
        if self.parts:
            return f"{len(self.parts)} nodes in one step: {', '.join(map(str, self.parts))}"
        name = repr(self.name) if self.name else f"that makes {', '.join(map(repr, filter(None, self.outputs)))}"
        inside = "".join(f" in {part}" for part in reversed(self.path))
        return f"node {name} ({self.operator}){inside}"


def listing(nodes: Iterable[NodeInfo], problem: str) -> str:
    """What is wrong with how many nodes, and a line for each with its reason."""
    nodes = list(nodes)
    lines = "".join(f"\n  {node}: {node.reason}" for node in nodes)
    return f"{len(nodes)} node{'s have' if len(nodes) > 1 else ' has'} {problem}:{lines}"


@dataclass(frozen=True)
class Together:
    """The output of a step that does the work of the steps after it, unless it returns NotImplemented.

    Attributes:
        slot: of the last one's output.
        count: of the steps.
    """

    slot: int
    count: int


Step = tuple[Callable[..., Any], tuple[int, ...], int | tuple[int | None, ...] | Together, tuple[int, ...], NodeInfo]
"""The bound function, its input slots, its output slot or slots, the slots to free afterwards, and the node."""

NOTHING = 0
"""The slot of an omitted input: always None."""


@dataclass(frozen=True)
class Program:
    """A graph ready to run.

    Attributes:
        template: the slots as a run begins, constants in place.
        names: name of each input.
        inputs: for each input its slot, None where nothing reads it.
        host_inputs: the same for the inputs that are read on the host, where the backend's arrays are elsewhere.
        captures: slots of the values that a subgraph takes from around it.
        outputs: slot of each output.
        bodies: the programs of the subgraphs within it.
    """

    backend: Backend
    template: list[Any]
    steps: list[Step]
    names: tuple[str, ...]
    inputs: tuple[int | None, ...]
    host_inputs: tuple[int | None, ...]
    captures: tuple[int, ...]
    outputs: tuple[int, ...]
    bodies: tuple[Program, ...] = ()

    def run(self, inputs: Sequence[Any], captured: Sequence[Any] = ()) -> list[Any]:
        """The outputs for ``inputs``: arrays of the backend or, where ``host_inputs`` has a slot, NumPy's.

        All state is local: any number of threads may run it at once.
        """
        slots = self.template.copy()
        for slot, value in zip(self.inputs, inputs, strict=True):
            if slot is not None:
                moves = value.__class__ is np.ndarray and not self.backend.on_host
                slots[slot] = self.backend.from_host(value) if moves else value
        for slot, value in zip(self.host_inputs, inputs, strict=True):
            if slot is not None:
                slots[slot] = value
        for slot, value in zip(self.captures, captured, strict=True):
            slots[slot] = value
        self.execute(slots)
        return [slots[slot] for slot in self.outputs]

    def constants(self) -> Iterator[Any]:
        """The arrays that the program holds between runs, those of its subgraphs too."""
        held = list(self.template)
        while held:
            value = held.pop()
            if isinstance(value, list):
                held += value
            elif hasattr(value, "nbytes"):
                yield value
        for program in self.bodies:
            yield from program.constants()

    @cached_property
    def constant_memory(self) -> frozenset[Any]:
        """What tells arrays that may share memory with ``constants``; see ``Backend.memory_of``."""
        return frozenset(map(self.backend.memory_of, self.constants()))

    def execute(self, slots: list[Any]) -> None:
        """Run all steps on ``slots``."""
        array_type = self.backend.array_type
        normalise = self.backend.normalise
        step: Step | None = None
        try:
            steps = iter(self.steps)
            for step in steps:
                call, inputs, output, free, _ = step
                result = call(*[slots[slot] for slot in inputs])
                if result.__class__ is array_type and output.__class__ is int:
                    slots[output] = result
                elif output.__class__ is int:
                    slots[output] = normalise(result[0] if result.__class__ is tuple else result)
                elif output.__class__ is Together:
                    if result is NotImplemented:
                        continue
                    slots[output.slot] = result
                    for _ in range(output.count):
                        next(steps)
                else:
                    results = result if result.__class__ is tuple else (result,)
                    if len(results) < len(output):  # type: ignore[arg-type]
                        raise ValueError(f"it gave {len(results)} results for {len(output)} outputs")  # type: ignore[arg-type]
                    for slot, value in zip(output, results):  # type: ignore[arg-type]  # noqa: B905
                        if slot is not None:
                            slots[slot] = normalise(value)
                for slot in free:
                    slots[slot] = None
        except OneModelError:
            raise
        except Exception as error:
            assert step is not None
            values = ", ".join(_describe(slots[slot]) for slot in step[1])
            if isinstance(step[2], Together):
                # The node that fails by itself names itself; where none does, it is the step of them all.
                first = self.steps.index(step) + 1
                replace(self, steps=self.steps[first : first + step[2].count]).execute(slots)
            raise ExecutionError(f"{step[4]} failed on ({values}): {type(error).__name__}: {error}") from error


def _describe(value: Any) -> str:
    """The shape and dtype of a value, for error texts."""
    if value is None:
        return "nothing"
    if isinstance(value, list):
        return f"sequence of {len(value)}"
    if hasattr(value, "shape"):
        return f"{value.dtype}{list(value.shape)}"
    return type(value).__name__


class Body:
    """A subgraph as an operator calls it: positional arrays in, a tuple of arrays out.

    Attributes:
        types: the ONNX type of each output, None where unknown.
        shapes: the shape that the model declares for each output, None where it declares none.
    """

    __slots__ = ("_captured", "_program", "shapes", "types")

    def __init__(
        self,
        program: Program,
        captured: Sequence[Any],
        types: Sequence[str | None],
        shapes: Sequence[tuple[int | str | None, ...] | None],
    ) -> None:
        self._program = program
        self._captured = captured
        self.types = types
        self.shapes = shapes

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        normalise = self._program.backend.normalise
        return tuple(self._program.run([normalise(value) for value in inputs], self._captured))
