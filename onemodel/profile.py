"""What a run does, node by node: how long each takes, and what moves between the host and the device."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from onemodel.backends.base import Backend, Choice, Transfer
from onemodel.graphs import GraphState
from onemodel.program import NodeInfo, Program


@dataclass(frozen=True)
class NodeTime:
    """One step of a run.

    Attributes:
        node: the node; of a value that moves, a step of its own named ``to_host`` or ``to_device``. Where several nodes
            ran as one step, its ``parts`` are these nodes.
        seconds: how long it took, the work on the device included.
    """

    node: NodeInfo
    seconds: float


@dataclass(frozen=True)
class Profile:
    """One run.

    Attributes:
        nodes: each step, in order; what a subgraph does counts for the node that has it.
        transfers: what moved between host and device within the run, in order. For those ``to_host`` the host waited.
            Feeds that go up and outputs that come down are not among them.
        choices: where a node can be computed in several ways, which one it took and why.
        graphs: what the session's other runs do; a profile itself replays no graph.
    """

    nodes: list[NodeTime]
    transfers: list[Transfer]
    choices: list[Choice] = field(default_factory=list)
    graphs: list[GraphState] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Of all steps together; more than a run takes on a device, which is waited for after each step here."""
        return sum(step.seconds for step in self.nodes)

    def __str__(self) -> str:
        lines = [f"{step.seconds * 1e3:9.3f} ms  {step.node}" for step in sorted(self.nodes, key=lambda s: -s.seconds)]
        lines += [f"{t.direction:>12}  {t.bytes} bytes by {t.what}, for {t.node}" for t in self.transfers]
        lines += [f"{c.node}: {c.text}" for c in self.choices]
        return "\n".join([*lines, *map(str, self.graphs)])


def timed(program: Program, backend: Backend, times: list[NodeTime]) -> Program:
    """``program`` with steps that note in ``times`` how long they took."""

    def timing(call: Callable[..., Any], node: NodeInfo) -> Callable[..., Any]:
        def run(*values: Any) -> Any:
            start = time.perf_counter()
            result = call(*values)
            backend.synchronize()
            if result is not NotImplemented:
                times.append(NodeTime(node, time.perf_counter() - start))
            return result

        return run

    steps = [(timing(call, info), inputs, output, free, info) for call, inputs, output, free, info in program.steps]
    return replace(program, steps=steps)
