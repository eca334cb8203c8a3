"""Where the nodes of a frame run, which slots their values take, and when these are freed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from onemodel.backends.base import Backend
from onemodel.exactness import functions_used
from onemodel.frames import Frame, Node, Value
from onemodel.program import NOTHING, NodeInfo, Step, Together

_ON_DEVICE = ("on the device",)
"""The key under which a constant keeps its copy on the device."""


class Slots:
    """Numbers for values: one slot each, or one on the device and one on the host where these differ."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.template: list[Any] = [None]
        self.constant: set[int] = set()
        self._numbers: dict[tuple[Value, Any], int] = {}

    def of(self, value: Value | None, host: bool) -> int:
        if value is None:
            return NOTHING
        key = (value, host and not self.backend.on_host)
        if key not in self._numbers:
            self._numbers[key] = len(self.template)
            self.template.append(None)
            if value.is_constant:
                self.constant.add(self._numbers[key])
                self.template[-1] = value.constant if key[1] else self._uploaded(value)
        return self._numbers[key]

    def prepared(self, value: Value, told: tuple[Any, ...], prepare: Callable[..., Any]) -> int:
        """The slot of a constant that has been prepared as a factor of products."""
        key = (value, told)
        if key not in self._numbers:
            if told not in value.prepared:
                value.prepared[told] = prepare(self._uploaded(value), *told)
            self._numbers[key] = len(self.template)
            self.constant.add(self._numbers[key])
            self.template.append(value.prepared[told])
        return self._numbers[key]

    def _uploaded(self, value: Value) -> Any:
        """A constant as the backend's arrays; it goes up once, however many programs have it."""
        if self.backend.on_host:
            return value.constant
        if _ON_DEVICE not in value.prepared:
            value.prepared[_ON_DEVICE] = _uploaded(value.constant, self.backend)
        return value.prepared[_ON_DEVICE]

    def device(self, value: Value) -> int:
        return self.of(value, False)

    def host(self, value: Value) -> int:
        return self.of(value, True)

    def known(self, value: Value, host: bool) -> int | None:
        return self._numbers.get((value, host and not self.backend.on_host))


class Placement:
    """Which nodes run on the host, and which values move, where the backend's arrays are not NumPy's.

    A node runs on the host where one of its results is read there and all it needs is there already; also where it
    would have to wait for the device and needs shapes alone, or has values that the device cannot hold.

    Args:
        fed: inputs that the host has, too.
        main: the outputs are the model's, which may stay on the host.

    Attributes:
        to_host, to_device: values that move after they are made.
        stays: outputs that are made on the host, and stay there.
    """

    def __init__(
        self,
        frame: Frame,
        nodes: Sequence[Node],
        host_outputs: Collection[int],
        *,
        fed: Collection[Value],
        main: bool,
        backend: Backend,
    ) -> None:
        self.to_host: set[Value] = set()
        self.to_device: set[Value] = set()
        self.stays: set[Value] = set()
        self.fed = set(fed)
        self._at_host: set[Node] = set()
        self._readers: dict[Value, NodeInfo] = {}
        if backend.on_host:
            return
        there = _available(nodes, self.fed)
        of_shapes = _available(nodes, set())
        demanded = {frame.outputs[i] for i in host_outputs}
        for node in reversed(nodes):
            made = [value for value in node.outputs if value is not None]
            wanted_here = made and made[0] in there and any(value in demanded for value in made)
            spared = made and made[0] in of_shapes and _waits(node, backend)
            if wanted_here or spared or _only_on_host(node, backend):
                self._at_host.add(node)
            for i, value in enumerate(node.inputs):
                if value is not None and self.reads_on_host(node, i):
                    demanded.add(value)
                    self._readers[value] = node.info
        born = {value for node in self._at_host for value in node.outputs}
        outputs = {value for i, value in enumerate(frame.outputs) if i not in host_outputs and value is not None}
        self.stays = {value for value in outputs if main and value in born}
        wanted: set[Value | None] = {value for value in outputs if value not in self.stays}
        for node in nodes:
            wanted.update(value for i, value in enumerate(node.inputs) if not self.reads_on_host(node, i))
            wanted.update(node.captured)
        self.to_device = {value for value in born & wanted if value is not None}
        self.to_host = {value for value in demanded - born if value is not None and not value.is_constant}

    def reader(self, value: Value) -> NodeInfo | None:
        """The first node that reads a value on the host."""
        return self._readers.get(value)

    def runs_on_host(self, node: Node) -> bool:
        return node in self._at_host

    def reads_on_host(self, node: Node, index: int) -> bool:
        if node in self._at_host:
            return not node.entry.metadata
        return node.entry.reads_on_host(index)


def _available(nodes: Sequence[Node], first: Collection[Value]) -> set[Value]:
    """What the host can compute of constants, shapes and the values ``first``."""
    there = set(first)
    for node in nodes:
        if node.entry.metadata or (
            not node.bodies and all(value.is_constant or value in there for value in node.needs)
        ):
            there.update(value for value in node.outputs if value is not None)
    return there


def _only_on_host(node: Node, backend: Backend) -> bool:
    """Whether the device cannot run a node: it is too much of a reader, or some value cannot lie there."""
    if node.bodies:
        return False
    values = (value for value in (*node.inputs, *node.outputs) if value is not None)
    return node.entry.key in backend.host_operators or any(
        value.type is not None and not backend.holds(value.type) for value in values
    )


def _waits(node: Node, backend: Backend) -> bool:
    """Whether a node would wait for the device."""
    return not node.bodies and not functions_used(node.entry.function).isdisjoint(backend.waiting)


def live(frame: Frame) -> list[Node]:
    """The nodes that some output needs, in order."""
    needed = {value for value in frame.outputs if value is not None}
    nodes = []
    for node in reversed(frame.nodes):
        if any(value in needed for value in node.outputs):
            needed.update(node.needs)
            nodes.append(node)
    return nodes[::-1]


def freeing(steps: Sequence[Step], kept: Collection[int]) -> list[Step]:
    """The steps, each with the slots that nothing reads after it."""
    later = set(kept)
    result: list[Step] = []
    for call, inputs, output, _, info in reversed(steps):
        if isinstance(output, Together):
            done = {slot for step in result[-output.count :] for slot in step[3]}
            result.append((call, inputs, output, tuple(sorted(done)), info))
            continue
        made = [output] if isinstance(output, int) else [slot for slot in output if slot is not None]
        used = {*inputs, *made}
        result.append((call, inputs, output, tuple(sorted(used - later)), info))
        later |= used
    return result[::-1]


def transfer_step(name: str, backend: Backend, source: int, target: int, reader: NodeInfo | None) -> Step:
    """The step that moves a value ``"to_host"``, where ``reader`` reads it, or ``"to_device"``."""
    move = backend.to_host if name == "to_host" else backend.from_host

    def transfer(value: Any) -> Any:
        if isinstance(value, list):
            return [transfer(item) for item in value]
        return None if value is None else move(value)

    def store(value: Any) -> tuple[Any]:
        return (transfer(value),)

    info = NodeInfo(name, name, "onemodel", 1, (name,))
    return backend.bound(store, reader or info), (source,), (target,), (), info


def _uploaded(constant: Any, backend: Backend) -> Any:
    if isinstance(constant, list):
        return [_uploaded(item, backend) for item in constant]
    return backend.from_host(constant) if isinstance(constant, np.ndarray) else constant
