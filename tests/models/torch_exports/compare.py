"""OneModel beside torch and ONNX Runtime on one exported model."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import torch
from onnx import AttributeProto
from torch import nn

import onemodel
from tests.models.oracle import Oracle, assert_close, error
from tests.models.torch_exports.cases import Case, ready
from tests.models.torch_exports.export import Exporter, ExportError, quiet, tensors
from tests.models.torch_exports.feeds import Feeds, Size

DISTINCT = 100
"""How many tolerances two inputs' outputs must lie apart."""
KERNELS = ("native", "generic")
Expected = dict[tuple[Size, int], list[np.ndarray[Any, Any]]]


@dataclass
class Result:
    """What came of one export.

    Attributes:
        case: name of the case.
        exporter: which exporter.
        opset: of the export.
        nodes: of the whole model, subgraphs and functions included.
        errors: greatest error of OneModel with each kind of kernels (``"native"``) and of ONNX Runtime
            (``"ONNX Runtime"``) against torch, and of OneModel against ONNX Runtime (``"native, ONNX Runtime"``).
        problem: what OneModel or the export did wrong; empty where nothing.
        remark: what ONNX Runtime cannot do.
        seconds: for all of it.
    """

    case: str
    exporter: str
    opset: int
    nodes: int = 0
    errors: dict[str, float] = field(default_factory=dict)
    problem: str = ""
    remark: str = ""
    seconds: float = 0.0

    def note(self, key: str, actual: Sequence[Any], expected: Sequence[Any]) -> None:
        """Keep the greatest error."""
        off = max(error(ours, theirs) for ours, theirs in zip(actual, expected, strict=True))
        self.errors[key] = max(self.errors.get(key, 0.0), off)


def results(case: Case, exporters: Sequence[str], opsets: Sequence[int]) -> Iterator[Result]:
    """Export a case with each exporter at each opset, and compare.

    Args:
        case: the case.
        exporters: the exporters to use.
        opsets: the opsets to use, of those that the case has.
    """
    module = ready(case.build)
    expected = expected_outputs(case, module)
    exporter: Exporter | None = None
    for kind, known in case.opsets.items():
        chosen = [opset for opset in known if opset in opsets]
        if kind not in exporters or not chosen:
            continue
        start = time.perf_counter()
        problem = ""
        exporter = exporter and exporter.shared(kind)
        try:
            exporter = exporter or Exporter(case, kind, module, case.feeds(case.sizes[0], 0))
        except ExportError as refusal:
            problem = f"the exporter refuses: {refusal}"
        for opset in chosen:
            result = Result(case.name, kind, opset, problem=problem)
            if exporter is not None:
                _fill(result, case, exporter, expected, newest=opset == known[-1])
            result.seconds = time.perf_counter() - start
            start = time.perf_counter()
            yield result


def expected_outputs(case: Case, module: nn.Module) -> Expected:
    """What torch gives for each size and two seeds."""
    expected: Expected = {}
    for size in case.sizes:
        for seed in (0, 1):
            with torch.no_grad(), quiet():
                made = module(*tensors(case.feeds(size, seed)))
            expected[size, seed] = [value.numpy() for value in (made if isinstance(made, tuple) else (made,))]
    return expected


def _fill(result: Result, case: Case, exporter: Exporter, expected: Expected, *, newest: bool) -> None:
    try:
        model = exporter.at(result.opset)
        names = [node.op_type for node in nodes(model)]
        result.nodes = len(names)
        if newest and (missing := set(case.holds.get(result.exporter, ())) - set(names)):
            result.problem = f"the export has no {', '.join(sorted(missing))}"
            return
        compare(result, case, model, expected)
    except ExportError as refusal:
        result.problem = f"the exporter refuses: {refusal}"
    except (onemodel.OneModelError, AssertionError) as wrong:
        result.problem = " ".join(f"{type(wrong).__name__}: {wrong}".split())


def compare(result: Result, case: Case, model: onnx.ModelProto, expected: Expected) -> None:
    """Run every size with two seeds; the outputs of these must differ, and agree with torch and ONNX Runtime.

    Raises:
        onemodel.OneModelError, AssertionError: OneModel refuses, or its outputs are wrong.
    """
    oracle = _oracle(result, model)
    sessions = {kernels: onemodel.Session(model, mode="fast", threads=1, kernels=kernels) for kernels in KERNELS}
    for size in case.sizes:
        apart = [error(one, other) for one, other in zip(*(expected[size, seed] for seed in (0, 1)), strict=True)]
        assert max(apart) > DISTINCT * case.tolerance, f"two inputs give nearly the same outputs: {apart}"
        for seed in (0, 1):
            feeds = case.feeds(size, seed)
            theirs = _run(oracle, result, feeds) if oracle else None
            ours = {kernels: session.run(case.outputs, feeds) for kernels, session in sessions.items()}
            for kernels, outputs in ours.items():
                result.note(kernels, outputs, expected[size, seed])
                if theirs is not None:
                    result.note(f"{kernels}, ONNX Runtime", outputs, theirs)
            if theirs is not None:
                result.note("ONNX Runtime", theirs, expected[size, seed])
            for kernels, outputs in ours.items():
                for oracle_name, right in (("torch", expected[size, seed]), ("ONNX Runtime", theirs)):
                    if right is not None:
                        labels = [f"{name} ({kernels}, {size}) against {oracle_name}" for name in case.outputs]
                        assert_close(outputs, right, labels, case.tolerance)


def _oracle(result: Result, model: onnx.ModelProto) -> Oracle | None:
    try:
        return Oracle(model)
    except Exception as refusal:  # noqa: BLE001 # its errors have no common base
        result.remark = f"ONNX Runtime refuses the model: {' '.join(str(refusal).split())}"[:300]
        return None


def _run(oracle: Oracle, result: Result, feeds: Feeds) -> list[Any] | None:
    try:
        return oracle.run({name: feeds[name] for name in oracle.input_names})
    except Exception as refusal:  # noqa: BLE001 # as above
        result.remark = f"ONNX Runtime fails: {' '.join(str(refusal).split())}"[:300]
        return None


def nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """All nodes, those of subgraphs and functions too."""
    for function in model.functions:
        yield from _inside(function.node)
    yield from _inside(model.graph.node)


def _inside(graph: Sequence[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in graph:
        yield node
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                yield from _inside(attribute.g.node)
