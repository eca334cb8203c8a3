"""Neighbouring nodes as one step: which ones belong together, and what they come to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from onemodel import types as value_types
from onemodel.backends.fusion import Chain, Element, Expression, Meanings
from onemodel.frames import Node, Value
from onemodel.program import NodeInfo

_MOST = 32
"""Nodes of one step: kernels and programs stay short enough to be made in no time."""


@dataclass(frozen=True)
class Group:
    """Nodes that become one step, which gives the output of the last one.

    Attributes:
        parts: nodes and groups, in their order in the graph, which run where ``call`` returns NotImplemented.
        inputs: the values that the step takes.
        call: what it computes of them.
    """

    parts: Sequence[Node | Group]
    inputs: list[Value]
    call: Callable[..., Any]

    @cached_property
    def nodes(self) -> list[Node]:
        """In their order in the graph."""
        return [node for part in self.parts for node in (part.nodes if isinstance(part, Group) else [part])]

    @property
    def output(self) -> Value:
        value = self.nodes[-1].outputs[0]
        assert value is not None
        return value

    @property
    def info(self) -> NodeInfo:
        """The step as errors and listings name it."""
        parts = tuple(node.info for node in self.nodes)
        last = parts[-1]
        return NodeInfo(
            "", "+".join(part.op_type for part in parts), "", last.opset, last.outputs, last.path, "", parts
        )


def neighbours(
    nodes: Sequence[Node], kept: Collection[Value | None], may_merge: Callable[[Node], bool]
) -> list[list[Node]]:
    """Nodes that only feed one another, but for the last one of each list, in their order; lists of two or more.

    Args:
        nodes: of one frame, in order; those that may merge have one output.
        kept: values that someone besides the nodes reads.
    """
    readers = _readers(nodes, kept)
    group_of: dict[Node | None, list[Node]] = {}
    for node in reversed(nodes):
        if not may_merge(node):
            continue
        around = [group_of.get(reader) for reader in readers[node.outputs[0]]]  # type: ignore[index]
        first = around[0] if around else None
        if first is None or len(first) >= _MOST or any(group is not first for group in around):
            first = []
        first.append(node)
        group_of[node] = first
    groups = {id(group): group[::-1] for group in group_of.values() if len(group) > 1}
    return list(groups.values())


def lines(
    nodes: Sequence[Node], kept: Collection[Value | None], known: Collection[Meanings], may_join: Callable[[Node], bool]
) -> Iterator[tuple[Meanings, list[Node]]]:
    """Nodes of ``known`` meanings, in their order, each of which reads the result of the one before alone.

    Args:
        nodes, kept: as for ``neighbours``.
    """
    readers = _readers(nodes, kept) if known else {}
    for meanings in known:
        for node in nodes:
            line: list[Node] = []
            following: Node | None = node
            for meaning in meanings:
                if following is None or _meaning(following) != meaning or not may_join(following):
                    break
                line.append(following)
                after = readers[following.outputs[0]]  # type: ignore[index]
                following = after[0] if len(after) == 1 else None
            else:
                yield meanings, line


def _meaning(node: Node) -> tuple[str, int] | None:
    """The operator of ai.onnx, where it is OneModel's own and on tensors, with one output."""
    entry = node.entry
    return (entry.name, entry.since) if not entry.domain and entry.built_in and _makes_a_tensor(node) else None


def _makes_a_tensor(node: Node) -> bool:
    """Whether a node without subgraphs makes one tensor, of tensors that are not all constant."""
    return (
        not node.bodies
        and len(node.outputs) == 1
        and all(value is None or value_types.is_tensor(value.type) for value in node.inputs)
        and node.outputs[0] is not None
        and value_types.is_tensor(node.outputs[0].type)
        and not all(value.is_constant for value in node.needs)
    )


def _readers(nodes: Sequence[Node], kept: Collection[Value | None]) -> dict[Value, list[Node | None]]:
    """The nodes that read each value; None stands for someone else."""
    readers: dict[Value, list[Node | None]] = defaultdict(list)
    for value in kept:
        if value is not None:
            readers[value].append(None)
    for node in nodes:
        for value in node.needs:
            readers[value].append(node)
    return readers


def is_candidate(node: Node) -> bool:
    """Whether a node is an elementwise operator of OneModel's own on tensors, with one output."""
    entry = node.entry
    return entry.elementwise and entry.extras <= {"xp"} and entry.built_in and _makes_a_tensor(node)


def expression_of(nodes: Sequence[Node], alone: Mapping[Node, Element]) -> tuple[list[Value], Expression]:
    """What the nodes, in order, come to, and the values that it takes.

    Args:
        alone: each node as an element whose operands are yet to be numbered.
    """
    read = _read(nodes)
    constants = [value for value in read if value.is_constant and value.constant.size == 1]
    inputs = [value for value in read if value not in constants]
    numbers: dict[Value | None, int | None] = {value: i for i, value in enumerate([*inputs, *constants])}
    numbers[None] = None
    elements = []
    for node in nodes:
        elements.append(replace(alone[node], operands=tuple(numbers[value] for value in node.inputs)))
        numbers[node.outputs[0]] = len(inputs) + len(constants) + len(elements) - 1
    values = tuple(value.constant for value in constants)
    return inputs, Expression(_dtypes(inputs), values, tuple(elements))


def chain_of(nodes: Sequence[Node], attributes: Callable[[Node], Mapping[str, Any]]) -> tuple[list[Value], Chain]:
    """The nodes of one of ``lines`` for the backend, and the values that they read besides one another's."""
    inputs = _read(nodes)
    constants = tuple(value.constant if value.is_constant else None for value in inputs)
    return inputs, Chain(tuple(map(attributes, nodes)), _dtypes(inputs), constants)


def _read(nodes: Sequence[Node]) -> list[Value]:
    """The values that nodes read but do not make."""
    made = {node.outputs[0] for node in nodes}
    return list(dict.fromkeys(value for node in nodes for value in node.needs if value not in made))


def _dtypes(values: Sequence[Value]) -> tuple[str, ...]:
    return tuple(value_types.dtype_name(value.type or "") for value in values)
