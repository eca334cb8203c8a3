"""The cases of the official suite as one uniform kind of thing: a model, feeds by name and expected outputs."""

from __future__ import annotations

import pickle
import re
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

KINDS = ("node", "simple", "pytorch-operator", "pytorch-converted", "real")
_EXPANDED = re.compile(r"_expanded(_ver\d+)?$")


@dataclass(frozen=True)
class DataSet:
    """One set of feeds by name and the outputs expected for it, in the graph's order."""

    feeds: Mapping[str, Any]
    expected: Sequence[Any]


@dataclass(frozen=True)
class Case:
    """One case of the suite.

    Attributes:
        name: the suite's name without a device, ``"test_abs"``.
        kind: one of ``KINDS``.
        rtol, atol: the suite's tolerances for the case.
        source: the suite's own description.
    """

    name: str
    kind: str
    rtol: float
    atol: float
    source: TestCase

    @property
    def expanded(self) -> bool:
        """True where a node case runs through the operator's function body."""
        return self.kind == "node" and _EXPANDED.search(self.name) is not None

    @property
    def composite(self) -> bool:
        """True for a node case of an operator with a function body: its values are rounded many times on the way."""
        if self.kind != "node" or self.expanded:
            return self.expanded
        imports = {entry.domain: entry.version for entry in self.model.opset_import}
        (node,) = self.model.graph.node
        schema: Any = onnx.defs.get_schema(node.op_type, imports[node.domain], node.domain)
        return bool(schema.has_function or schema.has_context_dependent_function)

    @property
    def direct_name(self) -> str:
        """The name of the case that runs the same node as one operator."""
        return _EXPANDED.sub("", self.name) if self.expanded else self.name

    @cached_property
    def model(self) -> onnx.ModelProto:
        if self.source.model is not None:
            return self.source.model
        return onnx.load(self._light_path() if self.source.url else Path(self._folder(), "model.onnx"))

    def data_sets(self) -> list[DataSet]:
        """The case's data; for the light models the data that the suite's runner makes."""
        if self.source.data_sets is not None:
            pairs = [(list(inputs), list(outputs)) for inputs, outputs in self.source.data_sets]
        elif self.source.url:
            pairs = [self._light_data()]
        else:
            folders = sorted(Path(self._folder()).glob("test_data_set*"))
            pairs = [(self._read(folder, "input"), self._read(folder, "output")) for folder in folders]
        if not pairs:
            raise ValueError(f"{self.name} has no data set")
        return [DataSet(self._by_name(inputs), [_array(output) for output in outputs]) for inputs, outputs in pairs]

    @property
    def element_types(self) -> frozenset[str]:
        """The element types of the graph's inputs and outputs, as ONNX names them: ``"float"``, ``"bfloat16"``."""
        graph = self.model.graph
        return frozenset(_element_type(value.type) for value in (*graph.input, *graph.output))

    @property
    def operators(self) -> frozenset[str]:
        """The operators of the model and its subgraphs, with their domain where that is not ai.onnx."""
        found: set[str] = set()
        _collect(self.model.graph.node, found)
        for function in self.model.functions:
            _collect(function.node, found)
        return frozenset(found)

    @property
    def subjects(self) -> frozenset[str]:
        """The operators that the case is there for: of a direct node case its node's, else all of the model."""
        if self.kind == "node" and not self.expanded:
            return frozenset(_qualified(node) for node in self.model.graph.node)
        return self.operators

    def _by_name(self, inputs: Sequence[Any]) -> dict[str, Any]:
        """Data sets hold values for the inputs that no initializer gives, or for all inputs, in the graph's order."""
        initializers = {tensor.name for tensor in self.model.graph.initializer}
        names = [value.name for value in self.model.graph.input]
        required = [name for name in names if name not in initializers]
        names = required if len(inputs) == len(required) else names
        if len(inputs) != len(names):
            raise ValueError(f"{self.name} has {len(inputs)} input values for the inputs {names}")
        return {name: _array(value) for name, value in zip(names, inputs, strict=True)}

    def _folder(self) -> str:
        if self.source.model_dir is None:
            raise ValueError(f"{self.name} has neither a model nor a folder")
        return self.source.model_dir

    def _light_path(self) -> Path:
        """The light models lie inside the onnx package; their url is relative to the folder that holds it."""
        return Path(onnx.__file__).parents[1] / str(self.source.url)

    def _light_data(self) -> tuple[list[Any], list[Any]]:
        graph = self.model.graph
        initializers = {tensor.name for tensor in graph.initializer}
        inputs = [Runner.generate_dummy_data(value) for value in graph.input if value.name not in initializers]
        prefix = self._light_path().with_suffix("")
        outputs = [_load(Path(f"{prefix}_output_{index}.pb"), value.type) for index, value in enumerate(graph.output)]
        return inputs, outputs

    def _read(self, folder: Path, prefix: str) -> list[Any]:
        declared = self.model.graph.input if prefix == "input" else self.model.graph.output
        count = len(list(folder.glob(f"{prefix}_*.pb")))
        return [_load(folder / f"{prefix}_{index}.pb", declared[index].type) for index in range(count)]


@cache
def load_cases(cached: bool = False) -> Mapping[str, Case]:
    """Every case of the suite by name, in the order of ``KINDS`` and then by name.

    Building the node cases takes some ten seconds. With ``cached`` they are kept in the user's cache folder, under the
    versions of onnx and NumPy; tests build them afresh.
    """
    cases = {}
    for kind in KINDS:
        sources = (_cached_node_cases if cached else _node_cases)() if kind == "node" else load_model_tests(kind=kind)
        for source in sorted(sources, key=lambda source: source.name):
            if source.name in cases:
                raise ValueError(f"the suite has two cases named {source.name}")
            cases[source.name] = Case(source.name, kind, source.rtol, source.atol, source)
    return cases


def _node_cases() -> list[TestCase]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # the suite's own arithmetic overflows on purpose
        return load_model_tests(kind="node")


def _cached_node_cases() -> list[TestCase]:
    from tests.models.fetch import cache_folder

    path = cache_folder() / "suite" / f"node-onnx{onnx.__version__}-numpy{np.__version__}.pickle"
    if path.exists():
        kept: list[TestCase] = pickle.loads(path.read_bytes())
        return kept
    made = _node_cases()
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        pickle.dump(made, file)
    Path(file.name).replace(path)
    return made


def _array(value: Any) -> Any:
    """A value of a data set as OneModel's value types: arrays, lists of them, or None."""
    if value is None:
        return None
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, (list, tuple)):
        return [_array(item) for item in value]
    return np.asarray(value)


def _load(path: Path, declared: onnx.TypeProto) -> Any:
    data = path.read_bytes()
    if declared.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if declared.HasField("optional_type"):
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def _element_type(declared: onnx.TypeProto) -> str:
    while not declared.HasField("tensor_type"):
        kind = declared.WhichOneof("value")
        if kind not in ("sequence_type", "optional_type"):
            return str(kind)
        declared = getattr(declared, kind).elem_type
    return str(onnx.TensorProto.DataType.Name(declared.tensor_type.elem_type)).lower()


def _qualified(node: onnx.NodeProto) -> str:
    return str(node.op_type) if node.domain in ("", "ai.onnx") else f"{node.domain}::{node.op_type}"


def _collect(nodes: Sequence[onnx.NodeProto], found: set[str]) -> None:
    for node in nodes:
        found.add(_qualified(node))
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                _collect(graph.node, found)


def subjects(cases: Mapping[str, Case], case: Case) -> frozenset[str]:
    """The operators that a case is there for; of an expanded node case the operator that was expanded."""
    return cases[case.direct_name].subjects
