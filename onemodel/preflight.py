"""What a model's proto must hold before anything reads it, and the one form that it is brought into."""

from __future__ import annotations

import heapq
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
    ValueInfoProto,
    defs,
)

from onemodel import types
from onemodel.config import Limits
from onemodel.errors import LimitError, ModelError
from onemodel.tensors import ExternalData, check_tensor, decode, dense

__all__ = ["plain_domain", "prepare"]

IR_VERSIONS = range(3, 15)
OPSETS = range(6, 29)
"""The opsets of ai.onnx. Below them a model may have operators that are the same in the lowest of these."""

_FunctionKey = tuple[str, str, str]
_Reads = dict[str, str]
"""Names that are read, each with who does what: ``"node 'n' (Relu) reads"``."""

_FIELDS = {
    AttributeProto.FLOAT: "f",
    AttributeProto.INT: "i",
    AttributeProto.STRING: "s",
    AttributeProto.TENSOR: "t",
    AttributeProto.GRAPH: "g",
    AttributeProto.SPARSE_TENSOR: "sparse_tensor",
    AttributeProto.TYPE_PROTO: "tp",
    AttributeProto.FLOATS: "floats",
    AttributeProto.INTS: "ints",
    AttributeProto.STRINGS: "strings",
    AttributeProto.TENSORS: "tensors",
    AttributeProto.GRAPHS: "graphs",
    AttributeProto.SPARSE_TENSORS: "sparse_tensors",
    AttributeProto.TYPE_PROTOS: "type_protos",
}
_TYPES = {name: number for number, name in _FIELDS.items()}
# An absent field means 0, "" or an empty list for these: writers of proto3 leave such values out.
_MAY_BE_ABSENT = frozenset(_FIELDS) - {
    AttributeProto.TENSOR,
    AttributeProto.GRAPH,
    AttributeProto.SPARSE_TENSOR,
    AttributeProto.TYPE_PROTO,
}


def plain_domain(domain: str) -> str:
    """A domain by its one name: ``"ai.onnx"`` is the same as ``""``."""
    return "" if domain == "ai.onnx" else domain


def prepare(proto: ModelProto, external: ExternalData, limits: Limits) -> dict[str, int]:
    """Check a model, and bring it into the form that the plan relies on.

    In that form domains are plain, every attribute has its type, every body is sorted, sparse tensors are dense,
    unknown dims of values are unset, and types that onnx_ir cannot hold are metadata (``types.TYPE_KEY``). A model in
    that form stays as it is.

    Args:
        proto: the model; changed in place.
        external: where its external data lies.
        limits: what it may cost.

    Returns:
        the opset imports of the main graph, domain to version.

    Raises:
        ModelError: the model is not valid ONNX.
        LimitError: it goes beyond a limit.
    """
    return _Preflight(proto, external, limits).run()


@dataclass
class _Body:
    """The main graph or a function, with all its subgraphs."""

    label: str
    imports: dict[str, int]
    is_function: bool = False
    implicit: bool = False
    """Whether ai.onnx may be imported without being named."""
    nodes: int = 0
    depth: int = 0
    calls: list[tuple[_FunctionKey, int]] = field(default_factory=list)
    """The functions that it calls, each with the depth of the calling node."""


class _Preflight:
    """One model's walk: every graph, node, attribute and tensor is seen once."""

    def __init__(self, proto: ModelProto, external: ExternalData, limits: Limits) -> None:
        self.proto = proto
        self.external = external
        self.limits = limits
        self.functions: dict[_FunctionKey, FunctionProto] = {}
        self.unsorted = False
        self.dense_bytes_left = limits.fold_bytes

    def run(self) -> dict[str, int]:
        if self.proto.ir_version not in IR_VERSIONS:
            raise ModelError(
                f"the model has IR version {self.proto.ir_version}; {_span(IR_VERSIONS)} are supported: export it anew "
                "or set its ir_version to one of these if it uses nothing newer"
            )
        if not self.proto.HasField("graph"):
            raise ModelError("the model has no graph; it is not an ONNX model")
        self._find_functions()
        imports = _imports(self.proto, "the model")
        main = _Body(f"graph {self.proto.graph.name!r}", imports, implicit=bool(imports))
        _refuse_undefined(self._graph(self.proto.graph, main, 0))
        self._input_types()
        bodies = {key: self._function(key, function) for key, function in self.functions.items()}
        self._check_cost(main, bodies)
        if self.unsorted:
            logging.getLogger("onemodel").warning(
                "the model's graph %r is not topologically sorted; its nodes were put in order", self.proto.graph.name
            )
        _write_imports(self.proto, main.imports)
        return main.imports

    # Functions

    def _find_functions(self) -> None:
        for function in self.proto.functions:
            function.domain = plain_domain(function.domain)
            key = (function.domain, function.name, function.overload)
            if key in self.functions:
                raise ModelError(f"the model defines {_function_label(key)} twice")
            self.functions[key] = function

    def _function(self, key: _FunctionKey, function: FunctionProto) -> _Body:
        label = _function_label(key)
        body = _Body(label, _imports(function, label), is_function=True)
        _refuse_doubles([*function.attribute, *(attribute.name for attribute in function.attribute_proto)], label)
        for attribute in function.attribute_proto:
            for graph in self._attribute(attribute, label, body):
                _refuse_undefined(self._graph(graph, body, 1))
        self._value_infos(function.value_info, label)
        _refuse_doubles(function.input, f"{label}, inputs")
        _refuse_undefined(self._nodes(function, function.input, function.output, body, 0))
        _write_imports(function, body.imports)
        return body

    def _check_cost(self, main: _Body, bodies: Mapping[_FunctionKey, _Body]) -> None:
        """Count what the model comes to with every function written out at each call."""
        costs: dict[_FunctionKey, tuple[int, int]] = {}
        chain: list[_FunctionKey] = []

        def of_function(key: _FunctionKey) -> tuple[int, int]:
            if key in chain:
                names = " -> ".join(map(_function_label, [*chain[chain.index(key) :], key]))
                raise ModelError(f"functions call themselves: {names}")
            if key not in costs:
                chain.append(key)
                costs[key] = of_body(bodies[key])
                chain.pop()
            return costs[key]

        def of_body(body: _Body) -> tuple[int, int]:
            self._refuse_depth(len(chain))
            nodes, depth = body.nodes, body.depth
            for key, level in body.calls:
                called = of_function(key)
                nodes, depth = nodes + called[0], max(depth, level + 1 + called[1])
            self._refuse_depth(depth)
            return nodes, depth

        for key in bodies:
            of_function(key)
        nodes, _ = of_body(main)
        if nodes > self.limits.nodes:
            raise LimitError(
                f"the model comes to {nodes} nodes with its functions written out; limits.nodes is {self.limits.nodes}"
            )

    def _refuse_depth(self, depth: int) -> None:
        if depth > self.limits.depth:
            raise LimitError(
                f"subgraphs and function calls nest at least {depth} deep; limits.depth is {self.limits.depth}"
            )

    # Graphs

    def _graph(self, graph: GraphProto, body: _Body, depth: int) -> _Reads:
        self._refuse_depth(depth)
        label = f"graph {graph.name!r}"
        for infos in (graph.input, graph.output, graph.value_info):
            self._value_infos(infos, label)
        for sparse in graph.sparse_initializer:
            name = f"sparse initializer {sparse.values.name!r} of {label}"
            graph.initializer.append(self._dense(sparse, name))
        del graph.sparse_initializer[:]
        for tensor in graph.initializer:
            check_tensor(tensor, f"initializer {tensor.name!r} of {label}")
        inputs = [info.name for info in graph.input]
        initializers = [tensor.name for tensor in graph.initializer]
        _refuse_doubles(inputs, f"{label}, inputs")
        _refuse_doubles(initializers, f"{label}, initializers")
        return self._nodes(graph, [*inputs, *initializers], [info.name for info in graph.output], body, depth)

    def _nodes(
        self, owner: GraphProto | FunctionProto, known: Iterable[str], outputs: Iterable[str], body: _Body, depth: int
    ) -> _Reads:
        """Check and sort the nodes of a graph or function; return the names that come from outside."""
        label = f"graph {owner.name!r}" if isinstance(owner, GraphProto) else body.label
        makers = dict.fromkeys(known, -1)
        for index, node in enumerate(owner.node):
            for name in filter(None, node.output):
                if name in makers:
                    raise ModelError(f"{_node_label(node)} makes {name!r}, which {label} has already; names are unique")
                makers[name] = index
        outside: _Reads = {}
        needs: list[list[int]] = []
        for node in owner.node:
            reads = self._node(node, body, depth)
            needs.append([makers[name] for name in reads if makers.get(name, -1) >= 0])
            outside |= {name: reader for name, reader in reads.items() if name not in makers}
        for name in outputs:
            if not name:
                raise ModelError(f"{label} has an output without a name")
            if name not in makers:
                outside[name] = f"{label} returns"
        if any(max(makes, default=-1) >= index for index, makes in enumerate(needs)):
            self.unsorted = True
            self._sort(owner, needs)
        body.nodes += len(needs)
        body.depth = max(body.depth, depth)
        return outside

    def _sort(self, owner: GraphProto | FunctionProto, needs: Sequence[Sequence[int]]) -> None:
        """Put nodes in topological order, else in the order that they have."""
        order = _topological(needs)
        if len(order) < len(needs):
            node = owner.node[_on_cycle(needs, set(range(len(needs))) - set(order))]
            raise ModelError(f"{_node_label(node)} needs its own output: the model's graph has a cycle")
        ranks = [0] * len(order)
        for rank, index in enumerate(order):
            ranks[index] = rank
        keys = iter(ranks)
        owner.node.sort(key=lambda node: next(keys))

    # Nodes

    def _node(self, node: NodeProto, body: _Body, depth: int) -> _Reads:
        """Check a node; return the names that it reads, its subgraphs' included."""
        label = _node_label(node)
        if not node.op_type:
            raise ModelError(f"{label} has no operator")
        node.domain = plain_domain(node.domain)
        self._check_import(node, body)
        key = (node.domain, node.op_type, node.overload)
        if key in self.functions:
            body.calls.append((key, depth))
        reads = dict.fromkeys(filter(None, node.input), f"{label} reads")
        if node.attribute:
            _refuse_doubles([attribute.name for attribute in node.attribute], f"{label}, attributes")
        for attribute in node.attribute:
            for graph in self._attribute(attribute, label, body):
                reads |= self._graph(graph, body, depth + 1)
        return reads

    def _check_import(self, node: NodeProto, body: _Body) -> None:
        version = body.imports.get(node.domain)
        if version is not None:
            if not node.domain and _changed_since(node.op_type, version):
                raise ModelError(
                    f"{body.label} imports opset {version} of ai.onnx, but {_span(OPSETS)} are supported, and "
                    f"{node.op_type} has changed before {OPSETS[0]}; convert the model with onnx.version_converter "
                    f"to opset {OPSETS[0]} or later"
                )
            return
        if node.domain or not body.implicit:
            raise ModelError(
                f"{_node_label(node)} is of the domain {node.domain or 'ai.onnx'!r}, "
                f"which is not among the opset imports of {body.label}"
            )
        # "All models implicitly import the default ONNX operator set", says the IR specification; not in which version.
        body.imports[""] = OPSETS[-1]
        logging.getLogger("onemodel").warning(
            "the model's graph %r has nodes of ai.onnx but no import of it; opset %d is taken, the newest, as ONNX "
            "Runtime does",
            self.proto.graph.name,
            OPSETS[-1],
        )

    # Attributes

    def _attribute(self, attribute: AttributeProto, owner: str, body: _Body) -> Sequence[GraphProto]:
        """Check an attribute, and complete its type; return the graphs that it holds."""
        label = f"attribute {attribute.name!r} of {owner}"
        if attribute.ref_attr_name and not body.is_function:
            raise ModelError(f"{label} refers to attribute {attribute.ref_attr_name!r} of a function, but lies in none")
        name = _filled_field(attribute, label)
        if attribute.ref_attr_name:
            if name:
                raise ModelError(f"{label} refers to attribute {attribute.ref_attr_name!r}, but has a value of its own")
            if attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
                raise ModelError(
                    f"{label} takes its subgraph from attribute {attribute.ref_attr_name!r} of the function, which is "
                    "not supported: write the subgraph into the function, or the function into the model's graph"
                )
            return ()
        if not name:
            return ()
        attribute.type = _TYPES[name]
        value = getattr(attribute, name)
        if name in ("t", "tensors"):
            for tensor in [value] if name == "t" else value:
                check_tensor(tensor, label)
        elif name in ("sparse_tensor", "sparse_tensors"):
            self._densify(attribute, name, label)
        elif name in ("tp", "type_protos"):
            for item in [value] if name == "tp" else value:
                if not types.fits_onnx_ir(item, label):
                    raise ModelError(f"{label} is the type {types.of_proto(item)}, which no operator's attribute takes")
        elif name == "strings":
            for text in value:
                decode(text, label)
        elif name in ("g", "graphs"):
            return [value] if name == "g" else list(value)
        return ()

    def _densify(self, attribute: AttributeProto, name: str, label: str) -> None:
        """Sparse tensors of an attribute become ordinary ones, under the attribute's own name."""
        if name == "sparse_tensor":
            attribute.t.CopyFrom(self._dense(attribute.sparse_tensor, label))
            attribute.type = AttributeProto.TENSOR
        else:
            attribute.tensors.extend(self._dense(each, label) for each in attribute.sparse_tensors)
            attribute.type = AttributeProto.TENSORS
        attribute.ClearField(name)

    def _dense(self, sparse: SparseTensorProto, label: str) -> TensorProto:
        """A sparse tensor made dense; all of the model's together take ``limits.fold_bytes`` at most."""
        tensor = dense(sparse, self.external, label, self.dense_bytes_left)
        self.dense_bytes_left = max(self.dense_bytes_left - tensor.ByteSize(), 0)
        return tensor

    # Types

    def _input_types(self) -> None:
        """Refuse inputs of the main graph without a type; those that are initializers too have the initializer's."""
        graph = self.proto.graph
        initializers = {tensor.name: tensor.data_type for tensor in graph.initializer}
        for info in graph.input:
            if types.of_proto(info.type) or any(entry.key == types.TYPE_KEY for entry in info.metadata_props):
                continue
            if info.name not in initializers:
                raise ModelError(
                    f"the input {info.name!r} of graph {graph.name!r} has no type; an ONNX graph input needs one: "
                    "declare its element type, of a tensor, sequence, optional or map"
                )
            info.type.tensor_type.elem_type = initializers[info.name]

    def _value_infos(self, infos: Iterable[ValueInfoProto], label: str) -> None:
        for info in infos:
            name = f"value {info.name!r} of {label}"
            for entry in info.metadata_props:
                if entry.key == types.TYPE_KEY:
                    types.check_name(entry.value, name)
            if not types.fits_onnx_ir(info.type, name):
                if known := types.of_proto(info.type):
                    info.metadata_props.add(key=types.TYPE_KEY, value=known)
                info.ClearField("type")


# Attributes, names, order


def _filled_field(attribute: AttributeProto, label: str) -> str | None:
    """The field that holds an attribute's value; None for a reference, and where an absent field is a value."""
    filled = [descriptor.name for descriptor, _ in attribute.ListFields() if descriptor.name in _TYPES]
    if len(filled) > 1:
        raise ModelError(f"{label} has more than one value: {', '.join(filled)}")
    declared = attribute.type
    if declared and filled and _TYPES[filled[0]] != declared:
        names = AttributeProto.AttributeType.Name
        raise ModelError(f"{label} is declared {names(declared)}, but its value is {names(_TYPES[filled[0]])}")
    if not filled and not attribute.ref_attr_name and declared not in _MAY_BE_ABSENT:
        raise ModelError(f"{label} has no value")
    return filled[0] if filled else None


def _refuse_doubles(names: Sequence[str], label: str) -> None:
    """Refuse a list of names that has one twice, or an empty one."""
    seen: set[str] = set()
    for name in names:
        if not name:
            raise ModelError(f"{label}: one has no name")
        if name in seen:
            raise ModelError(f"{label}: the name {name!r} is there twice")
        seen.add(name)


def _refuse_undefined(outside: _Reads) -> None:
    """Refuse what a body without surroundings takes from outside."""
    if outside:
        name, reader = next(iter(outside.items()))
        raise ModelError(f"{reader} {name!r}, which nothing defines")


def _topological(needs: Sequence[Sequence[int]]) -> list[int]:
    """Indices, each after those it needs, else the least first; without those on a cycle or behind one."""
    followers: list[list[int]] = [[] for _ in needs]
    for index, makes in enumerate(needs):
        for maker in makes:
            followers[maker].append(index)
    waiting = [len(makes) for makes in needs]
    ready = [index for index, count in enumerate(waiting) if not count]
    order = []
    while ready:
        index = heapq.heappop(ready)
        order.append(index)
        for follower in followers[index]:
            waiting[follower] -= 1
            if not waiting[follower]:
                heapq.heappush(ready, follower)
    return order


def _on_cycle(needs: Sequence[Sequence[int]], left: set[int]) -> int:
    """An index on a cycle: each of ``left`` needs another of them, so that going back ends in one."""
    index = min(left)
    seen: set[int] = set()
    while index not in seen:
        seen.add(index)
        index = next(maker for maker in needs[index] if maker in left)
    return index


# Imports and labels


def _imports(owner: ModelProto | FunctionProto, label: str) -> dict[str, int]:
    """Domain to version; of a domain that is there twice the specification takes the higher one."""
    imports: dict[str, int] = {}
    for entry in owner.opset_import:
        domain = plain_domain(entry.domain)
        if domain == "" and not 1 <= entry.version <= OPSETS[-1]:
            raise ModelError(
                f"{label} imports opset {entry.version} of ai.onnx; {_span(OPSETS)} are supported: export it for "
                "one of these, or set its opset_import if no operator of it is newer"
            )
        imports[domain] = max(entry.version, imports.get(domain, entry.version))
    return imports


def _changed_since(op_type: str, opset: int) -> bool:
    """Whether an operator of ai.onnx has a newer version in the lowest opset that is supported."""
    if opset >= OPSETS[0]:
        return False
    try:
        return defs.get_schema(op_type, OPSETS[0]).since_version > opset
    except defs.SchemaError:  # not an operator of ONNX at that time; whoever looks it up says so
        return False


def _write_imports(owner: ModelProto | FunctionProto, imports: Mapping[str, int]) -> None:
    del owner.opset_import[:]
    for domain, version in imports.items():
        owner.opset_import.add(domain=domain, version=version)


def _span(versions: range) -> str:
    return f"{versions[0]} to {versions[-1]}"


def _function_label(key: _FunctionKey) -> str:
    domain, name, overload = key
    return f"function {domain}::{name}{overload and ':'}{overload}"


def _node_label(node: NodeProto) -> str:
    if node.name:
        return f"node {node.name!r} ({node.op_type})"
    output = next(filter(None, node.output), None)
    return f"the {node.op_type or 'unnamed'} node" + (f" that makes {output!r}" if output else "")
