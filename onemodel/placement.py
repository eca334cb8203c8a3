"""Where the nodes of a frame run, which slots their values take, and when these are freed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from onemodel.backends.base import Backend
from onemodel.frames import Frame, Node, Value
from onemodel.program import NOTHING, NodeInfo, Step


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
                self.template[-1] = value.constant if key[1] else _uploaded(value.constant, self.backend)
        return self._numbers[key]

    def prepared(self, value: Value, told: tuple[Any, ...], prepare: Callable[..., Any]) -> int:
        """The slot of a constant that has been prepared as a factor of products."""
        key = (value, told)
        if key not in self._numbers:
            if told not in value.prepared:
                value.prepared[told] = prepare(_uploaded(value.constant, self.backend), *told)
            self._numbers[key] = len(self.template)
            self.constant.add(self._numbers[key])
            self.template.append(value.prepared[told])
        return self._numbers[key]

    def device(self, value: Value) -> int:
        return self.of(value, False)

    def host(self, value: Value) -> int:
        return self.of(value, True)

    def known(self, value: Value, host: bool) -> int | None:
        return self._numbers.get((value, host and not self.backend.on_host))


class Placement:
    """Which nodes run on the host, and which values move, where the backend's arrays are not NumPy's.

    A node runs on the host where one of its results is read there and all it needs is there already.
    """

    def __init__(
        self, frame: Frame, nodes: Sequence[Node], host_outputs: Collection[int], *, fed: bool, everywhere: bool
    ) -> None:
        self.to_host: set[Value] = set()
        self.to_device: set[Value] = set()
        self.fed: set[Value] = set(frame.inputs) if fed else set()
        self._at_host: set[Node] = set()
        if everywhere:
            return
        there = set(self.fed)
        for node in nodes:
            if node.entry.metadata or (
                not node.bodies and all(value.is_constant or value in there for value in node.needs)
            ):
                there.update(value for value in node.outputs if value is not None)
        demanded = {frame.outputs[i] for i in host_outputs}
        for node in reversed(nodes):
            made = [value for value in node.outputs if value is not None]
            if made and made[0] in there and any(value in demanded for value in made):
                self._at_host.add(node)
            demanded.update(value for i, value in enumerate(node.inputs) if self.reads_on_host(node, i))
        born = {value for node in self._at_host for value in node.outputs}
        wanted: set[Value | None] = {value for i, value in enumerate(frame.outputs) if i not in host_outputs}
        for node in nodes:
            wanted.update(value for i, value in enumerate(node.inputs) if not self.reads_on_host(node, i))
            wanted.update(node.captured)
        self.to_device = {value for value in born & wanted if value is not None}
        self.to_host = {value for value in demanded - born if value is not None and not value.is_constant}

    def runs_on_host(self, node: Node) -> bool:
        return node in self._at_host

    def reads_on_host(self, node: Node, index: int) -> bool:
        if node in self._at_host:
            return not node.entry.metadata
        return node.entry.reads_on_host(index)


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
        made = [output] if isinstance(output, int) else [slot for slot in output if slot is not None]
        used = {*inputs, *made}
        result.append((call, inputs, output, tuple(sorted(used - later)), info))
        later |= used
    return result[::-1]


def transfer_step(move: Callable[[Any], Any], source: int, target: int, name: str) -> Step:
    def transfer(value: Any) -> Any:
        if isinstance(value, list):
            return [transfer(item) for item in value]
        return None if value is None else move(value)

    def store(value: Any) -> tuple[Any]:
        return (transfer(value),)

    return store, (source,), (target,), (), NodeInfo(name, name, "onemodel", 1, (name,))


def _uploaded(constant: Any, backend: Backend) -> Any:
    if isinstance(constant, list):
        return [_uploaded(item, backend) for item in constant]
    return constant if constant is None else backend.from_host(constant)
