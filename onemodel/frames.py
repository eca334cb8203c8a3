"""A model while its plan is made: values, resolved nodes, and the graph bodies that hold them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from onemodel.errors import ModelError
from onemodel.ops.registry import Operator
from onemodel.program import NodeInfo


@dataclass(eq=False)
class Value:
    """What the plan knows of one value of the model."""

    name: str
    type: str | None = None
    frame: Frame | None = None
    """The graph body that makes it; None for constants, which belong to all."""
    constant: Any = None
    """On the host: a NumPy array, or a list of them."""
    is_constant: bool = False
    prepared: dict[Any, Any] = field(default_factory=dict)
    """The constant as a factor of products, by what ``xp.prepare`` was told."""


@dataclass(eq=False)
class Node:
    """One node, resolved but not yet bound to a namespace."""

    entry: Operator
    info: NodeInfo
    inputs: list[Value | None]
    outputs: list[Value | None]
    attributes: dict[str, Any]
    bodies: dict[str, Subgraph] = field(default_factory=dict)

    @property
    def captured(self) -> list[Value]:
        return [outer for body in self.bodies.values() for outer, _ in body.frame.captures]

    @property
    def needs(self) -> list[Value]:
        return [value for value in self.inputs if value is not None] + self.captured


@dataclass(eq=False)
class Frame:
    """One graph body while it is built; functions are written out into the frame of their caller."""

    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value | None] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    captures: list[tuple[Value, Value]] = field(default_factory=list)

    def capture(self, outer: Value) -> Value:
        for known, inner in self.captures:
            if known is outer:
                return inner
        inner = Value(outer.name, outer.type, self)
        self.captures.append((outer, inner))
        return inner


@dataclass(eq=False)
class Subgraph:
    """A subgraph attribute: its frame, and what its outputs are."""

    frame: Frame
    types: tuple[str | None, ...]
    shapes: tuple[tuple[int | str | None, ...] | None, ...]


class Scope:
    """Names of values; a subgraph's scope sees the one around it, a function's does not."""

    def __init__(self, frame: Frame, around: Scope | None = None) -> None:
        self.frame = frame
        self.around = around
        self.names: dict[str, Value | None] = {}

    def find(self, name: str) -> Value | None:
        if name in self.names:
            return self.names[name]
        if self.around is None:
            raise ModelError(f"the value {name!r} is used but nothing makes it")
        value = self.around.find(name)
        if value is not None and not value.is_constant and value.frame is not self.frame:
            value = self.frame.capture(value)
        self.names[name] = value
        return value
