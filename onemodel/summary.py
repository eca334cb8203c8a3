"""What ``onemodel info`` tells of a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx_ir as ir

from onemodel import loader, types
from onemodel.backends import get_backend
from onemodel.config import SessionConfig
from onemodel.errors import InexactOperatorError, UnsupportedOperatorError
from onemodel.ops import image, registry
from onemodel.plan import CheckedNode, Planner


@dataclass(frozen=True)
class Port:
    """An input or output of the model."""

    name: str
    type: str | None
    shape: tuple[int | str | None, ...] | None


@dataclass(frozen=True)
class Refusal:
    """Nodes of one operator that are refused for one reason.

    Attributes:
        operator: with its domain.
        opset: of the domain, as the node's graph or function imports it.
        count: how many nodes there are, with every function written out at each call.
        reason: why.
        first: name of the first node, and the functions and subgraphs that it is in.
    """

    operator: str
    opset: int
    count: int
    reason: str
    first: str


@dataclass(frozen=True)
class Summary:
    """A model in short.

    Attributes:
        opsets: opset by domain.
        inputs: those that every run must feed.
        overridable: how many initializers a run may feed.
        initializers: how many there are, those of subgraphs too.
        initializer_bytes: what they come to.
        external_bytes: how much of that lies outside the model's file.
        operators: domain, operator and number of nodes, subgraphs included and each function's body counted once.
        functions: the names of local functions.
    """

    graph: str
    producer: str
    ir_version: int
    opsets: dict[str, int]
    inputs: list[Port]
    outputs: list[Port]
    overridable: int
    initializers: int
    initializer_bytes: int
    external_bytes: int
    operators: list[tuple[str, str, int]]
    functions: list[str]


def summarize(loaded: loader.LoadedModel) -> Summary:
    """Sum up a loaded model."""
    model = loaded.model
    graph = model.graph
    graphs = [graph, *(function.graph for function in model.functions.values())]
    parts = [part for outer in graphs for part in (outer, *outer.subgraphs())]
    tensors = [v.const_value for part in parts for v in part.initializers.values() if v.const_value is not None]
    counts = Counter(
        (_domain(node.domain), node.op_type) for part in graphs for node in ir.traversal.RecursiveGraphIterator(part)
    )
    return Summary(
        graph=graph.name or "",
        producer=" ".join(part for part in (model.producer_name, model.producer_version) if part),
        ir_version=model.ir_version,
        opsets={_domain(domain): version for domain, version in loaded.opset_imports.items()},
        inputs=[_port(value) for value in graph.inputs if value.name not in graph.initializers],
        outputs=[_port(value) for value in graph.outputs],
        overridable=len(loader.overridable(loaded)),
        initializers=len(tensors),
        initializer_bytes=sum(tensor.nbytes for tensor in tensors),
        external_bytes=sum(tensor.nbytes for tensor in tensors if "location" in tensor.meta),
        operators=sorted((domain, name, count) for (domain, name), count in counts.items()),
        functions=[f"{_domain(f.domain)}::{f.name}" for f in model.functions.values()],
    )


def refusals(loaded: loader.LoadedModel, mode: str) -> list[Refusal]:
    """What a session on NumPy in ``mode`` refuses: unsupported operators, or in exact mode inexact ones.

    Raises:
        OneModelError: the model cannot be planned for another reason.
    """
    backend = get_backend("numpy", None)
    try:
        Planner(loaded.model, loaded.opset_imports, SessionConfig(), backend, mode).plan()
    except (UnsupportedOperatorError, InexactOperatorError) as error:
        return _grouped(error.nodes)
    return []


def uninstalled(summary: Summary) -> str | None:
    """What the model's operators need that is not installed, and how to install it; None where all is there."""
    decoders = registry.table()["", "ImageDecoder"].values()
    if ("ai.onnx", "ImageDecoder") in {(domain, name) for domain, name, _ in summary.operators} and any(
        entry.built_in for entry in decoders
    ):
        try:
            image.pillow()
        except ImportError as error:
            return str(error)
    return None


def checked(loaded: loader.LoadedModel, seed: int | None) -> list[CheckedNode]:
    """Every node of a model, and whether and how exact mode on NumPy computes it in a session of this seed."""
    config, backend = SessionConfig(seed=seed), get_backend("numpy", None)
    return Planner(loaded.model, loaded.opset_imports, config, backend, "exact").checked()


def load(path: Path, folder: Path | None) -> loader.LoadedModel:
    """The checked model at ``path``; its external data lies in the folder, or beside it."""
    return loader.load(path, folder=folder)


def _grouped(nodes: Sequence[Any]) -> list[Refusal]:
    groups: dict[tuple[str, int, str], list[Any]] = {}
    for node in nodes:
        groups.setdefault((f"{_domain(node.domain)}::{node.op_type}", node.opset, node.reason), []).append(node)
    return [
        Refusal(operator, opset, len(members), reason, place(members[0]))
        for (operator, opset, reason), members in sorted(groups.items())
    ]


def place(node: Any) -> str:
    """A node's name, or what it makes, and the functions and subgraphs that it is in."""
    name = node.name or ", ".join(filter(None, node.outputs))
    return " in ".join([name, *reversed(node.path)])


def _port(value: ir.Value) -> Port:
    return Port(value.name or "", types.of_value(value), types.shape_of(value))


def _domain(domain: str) -> str:
    return domain or "ai.onnx"
