"""Neighbouring elementwise nodes as one step: which ones belong together, and what they come to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from onemodel import types as value_types
from onemodel.backends.fusion import Element, Expression
from onemodel.frames import Node, Value
from onemodel.program import NodeInfo

_MOST = 32
"""Nodes of one step: kernels and programs stay short enough to be made in no time."""


@dataclass(frozen=True)
class Group:
    """Nodes that become one step, which gives the output of the last one.

    Attributes:
        nodes: in their order in the graph.
        inputs: the values that the step takes.
        expression: what it computes of them.
    """

    nodes: list[Node]
    inputs: list[Value]
    expression: Expression

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
    readers: dict[Value, list[Node | None]] = defaultdict(list)
    for value in kept:
        if value is not None:
            readers[value].append(None)
    for node in nodes:
        for value in node.needs:
            readers[value].append(node)
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


def is_candidate(node: Node) -> bool:
    """Whether a node is an elementwise operator of OneModel's own on tensors, with one output."""
    return (
        node.entry.elementwise
        and not node.bodies
        and node.entry.extras <= {"xp"}
        and node.entry.built_in
        and len(node.outputs) == 1
        and all(value is None or value_types.is_tensor(value.type) for value in node.inputs)
        and node.outputs[0] is not None
        and value_types.is_tensor(node.outputs[0].type)
        and not all(value.is_constant for value in node.needs)
    )


def group_of(nodes: Sequence[Node], alone: Mapping[Node, Element]) -> Group:
    """The nodes, in order, as a group.

    Args:
        alone: each node as an element whose operands are yet to be numbered.
    """
    made = {node.outputs[0] for node in nodes}
    read = dict.fromkeys(value for node in nodes for value in node.needs if value not in made)
    constants = [value for value in read if value.is_constant and value.constant.size == 1]
    inputs = [value for value in read if value not in constants]
    numbers: dict[Value | None, int | None] = {value: i for i, value in enumerate([*inputs, *constants])}
    numbers[None] = None
    elements = []
    for node in nodes:
        elements.append(replace(alone[node], operands=tuple(numbers[value] for value in node.inputs)))
        numbers[node.outputs[0]] = len(inputs) + len(constants) + len(elements) - 1
    dtypes = tuple(value_types.dtype_of(value.type or "").name for value in inputs)
    return Group(list(nodes), inputs, Expression(dtypes, tuple(value.constant for value in constants), tuple(elements)))
