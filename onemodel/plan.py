"""From a model and a namespace to a list of bound steps: resolution, types, folding, placement, liveness."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import onnx
import onnx_ir as ir

from onemodel import attributes as attribute_values
from onemodel import exactness, gradient, inference
from onemodel import types as value_types
from onemodel.backends import get_backend
from onemodel.backends.base import Backend
from onemodel.binding import Binder
from onemodel.bodies import function_of
from onemodel.config import SessionConfig
from onemodel.drawing import UNSEEDED
from onemodel.errors import InexactOperatorError, LimitError, ModelError, UnsupportedOperatorError
from onemodel.folding import Folder, frozen
from onemodel.frames import Frame, Node, Scope, Subgraph, Value
from onemodel.ops import registry
from onemodel.ops.element import agree
from onemodel.ops.gradient import FUNCTIONS as GRADIENT_OPERATORS
from onemodel.ops.registry import Operator
from onemodel.placement import live
from onemodel.program import NodeInfo, Program, listing

_OWN_MEANING = "Give such an operator a meaning with @onemodel.operator(name, domain=..., since=...)."


@dataclass(frozen=True)
class _Context:
    """What holds around a node.

    Attributes:
        opsets: the opset imports.
        attributes: those of the function around it.
        path: the functions and subgraphs around it, outermost first.
        live: whether some output needs what is made here.
    """

    opsets: Mapping[str, int]
    attributes: Mapping[str, ir.Attr] | None = None
    path: tuple[str, ...] = ()
    live: bool = True


@dataclass(frozen=True)
class CheckedNode:
    """What exact mode says of one node.

    Attributes:
        info: the node; ``info.reason`` tells why it is refused and is empty where it is not.
        method: how it is computed; empty where it is refused.
    """

    info: NodeInfo
    method: str


class Planner:
    """Makes programs of one model for one configuration.

    Args:
        model: the checked, sorted model.
        opset_imports: opset of each domain; ``""`` is ai.onnx.
        config: the session's configuration.
        backend: the session's backend.
        mode: ``"exact"`` or ``"fast"``.
    """

    def __init__(
        self, model: ir.Model, opset_imports: Mapping[str, int], config: SessionConfig, backend: Backend, mode: str
    ) -> None:
        self.model = model
        newest = max(row[3] for row in onnx.helper.VERSION_TABLE)
        if opset_imports.get("ai.onnx.ml", 1) > newest:
            raise ModelError(
                f"the model imports opset {opset_imports['ai.onnx.ml']} of ai.onnx.ml; 1 to {newest} are supported: "
                "export it for one of these, or take a newer onnx"
            )
        self.opsets = opset_imports
        self.config = config
        self.backend = backend
        self.mode = mode
        self.host = backend if backend.on_host else get_backend("numpy")
        self.own: dict[tuple[str, str], dict[int, Operator]] = {}
        for function in (*config.operators, *GRADIENT_OPERATORS):
            for entry in function.operators:  # type: ignore[attr-defined]
                self.own.setdefault(entry.key, {})[entry.since] = entry
        self.functions = {_function_key(function): function for function in model.functions.values()}
        self.built: dict[frozenset[str], _Builder] = {}

    def plan(self, fed: Collection[str] = (), extra: Sequence[str] = ()) -> Program:
        """The program of the main graph.

        Args:
            fed: names of initializers that the run feeds, so that they are inputs.
            extra: names of values to return after the graph's outputs.

        Raises:
            UnsupportedOperatorError, InexactOperatorError: with all nodes that are refused.
            ModelError, LimitError: the model is wrong or too large.
        """
        key = frozenset(fed)
        if key not in self.built:
            self.built[key] = _Builder(self, key, extra)
        if not self.built[key].has(extra):
            return _Builder(self, key, extra).program(extra)
        return self.built[key].program(extra)

    def checked(self) -> list[CheckedNode]:
        """Every node of the main graph with what exact mode says of it; for a planner in exact mode.

        The nodes of subgraphs and of functions, written out at each call, are among them, and so are unsupported ones.

        Raises:
            ModelError, LimitError: the model is wrong or too large.
        """
        return _Builder(self, frozenset(), (), refuse=False).checked or []


class _Builder:
    """The main graph with all its nodes resolved, for one set of initializers that are fed.

    Args:
        planner: holds the model and the configuration.
        fed: names of initializers that are inputs.
        extra: names of values that are wanted besides the graph's outputs.
        refuse: False only looks at the nodes, and makes no program.
    """

    def __init__(self, planner: Planner, fed: frozenset[str], extra: Sequence[str], *, refuse: bool = True) -> None:
        self.planner = planner
        self.limits = planner.config.limits
        graph = planner.model.graph
        self.folder = Folder(planner.host, self.limits.fold_bytes)
        self.count = 0
        self.unsupported: list[NodeInfo] = []
        self.remedies: dict[str, None] = {}
        """What to do about them, a line each."""
        self.inexact: list[NodeInfo] = []
        self.checked: list[CheckedNode] | None = None if refuse else []
        """What exact mode says of each node; kept where that is asked for alone."""
        self.positions: dict[Node, int] = {}
        """Of the nodes that draw random numbers: their place in the model, functions written out."""
        self.binder = Binder(
            planner.backend,
            planner.host,
            planner.mode,
            native=planner.config.kernels == "native",
            seed=planner.config.seed,
            positions=self.positions,
        )
        self.reads: dict[ir.Node, set[str]] = {}
        self.frame = Frame()
        self.scope = Scope(self.frame)
        for value in graph.inputs:
            if value.name not in graph.initializers or value.name in fed:
                self._input(self.scope, value.name or "", value_types.of_value(value))
        for name, value in graph.initializers.items():
            if name in fed and name not in self.scope.names:
                self._input(self.scope, name, _initializer(value).type)
        self._graph(graph, self.scope, _Context(planner.opsets), extra)
        if refuse:
            self._refuse()
            self._forget(extra)

    def _forget(self, extra: Sequence[str]) -> None:
        """Let go of nodes and folded constants that nothing reads."""
        wanted = self.frame.outputs + [self.scope.find(name) for name in extra]
        self.frame.nodes = live(replace(self.frame, outputs=wanted))
        kept = {*wanted, *self.frame.inputs, *map(self.scope.names.get, self.planner.model.graph.initializers)}
        for node in self.frame.nodes:
            kept.update(node.inputs)
            kept.update(node.outputs)
        self.scope.names = {name: value for name, value in self.scope.names.items() if value in kept}

    def has(self, names: Sequence[str]) -> bool:
        """Whether the values are still known, so that ``program`` can return them."""
        return all(name in self.scope.names for name in names)

    def program(self, extra: Sequence[str]) -> Program:
        """The program that returns the graph's outputs, and then the values named ``extra``."""
        outputs = self.frame.outputs + [self.scope.find(name) for name in extra]
        return self.binder.finish(replace(self.frame, outputs=outputs), fed=self.frame.inputs, main=True)

    # Graphs and nodes

    def _input(self, scope: Scope, name: str, value_type: str | None) -> None:
        value = Value(name, value_type, scope.frame)
        scope.names[name] = value
        scope.frame.inputs.append(value)

    def _graph(self, graph: ir.Graph, scope: Scope, context: _Context, extra: Sequence[str] = ()) -> None:
        if len(context.path) > self.limits.depth:
            raise LimitError(
                f"subgraphs and functions nest deeper than {self.limits.depth} ({' / '.join(context.path[:3])} ...); "
                "Limits(depth=...) allows more"
            )
        for name, value in graph.initializers.items():
            if name not in scope.names:
                scope.names[name] = _initializer(value)
        needed = self._needed(graph, extra)
        dead = replace(context, live=False)
        for node in graph:
            self._node(node, scope, context if node in needed else dead)
        for value in graph.outputs:
            made = scope.find(value.name or "")
            _check_declared(made, value, "".join(f" in {part}" for part in reversed(context.path)))
            scope.frame.outputs.append(made)

    def _needed(self, graph: ir.Graph, extra: Sequence[str]) -> set[ir.Node]:
        """The nodes of a graph that its outputs, or the values named ``extra``, need."""
        names = {value.name for value in graph.outputs} | set(extra)
        needed = set()
        for node in reversed(graph):
            if any(value.name in names for value in node.outputs):
                needed.add(node)
                names |= self._reads(node)
        return needed

    def _reads(self, node: ir.Node) -> set[str]:
        """The names of the values that a node reads, in its subgraphs too."""
        if node not in self.reads:
            names = {value.name or "" for value in node.inputs if value is not None}
            for attribute in node.attributes.values():
                if attribute.type is ir.AttributeType.GRAPH and not attribute.is_ref():
                    graph = attribute.as_graph()
                    names.update(value.name or "" for value in graph.outputs)
                    names.update(*map(self._reads, graph))
            self.reads[node] = names
        return self.reads[node]

    def _node(self, node: ir.Node, scope: Scope, context: _Context) -> None:
        self.count += 1
        if self.count > self.limits.nodes:
            raise LimitError(
                f"the model comes to more than {self.limits.nodes} nodes with its functions written out; "
                "Limits(nodes=...) allows more"
            )
        domain = "" if node.domain == "ai.onnx" else node.domain
        opset = context.opsets.get(domain)
        outputs = tuple(value.name or "" for value in node.outputs)
        info = NodeInfo(node.name or "", node.op_type, domain, opset or 0, outputs, context.path)
        inputs = [None if value is None or not value.name else scope.find(value.name) for value in node.inputs]
        attributes = attribute_values.resolved(node, context.attributes)
        function = self.planner.functions.get((domain, node.op_type, node.overload))
        entry = registry.select(self.planner.own.get((domain, node.op_type), {}), opset or 1)
        if entry is None and function is not None:
            self._function(function, info, inputs, node, attributes, scope, context)
            return
        if opset is None:
            raise ModelError(f"{info}: the model imports no opset for the domain {domain or 'ai.onnx'!r}")
        schema = inference.schema_of(domain, node.op_type, opset)
        if entry is not None:
            # A session may bring back what ONNX has removed.
            schema = None if schema is None or schema.deprecated else schema
        else:
            entry = registry.find(domain, node.op_type, opset)
            if entry is not None and schema is not None and schema.deprecated and entry.since < schema.since_version:
                entry = None
        if schema is not None and (entry is not None or not schema.deprecated):
            inference.check_node(schema, info, attributes, inputs, len(outputs))
        elif entry is not None:
            inference.check_entry(entry, info, tuple(attributes), inputs)
        types = [None if value is None else value.type for value in inputs]
        if entry is None:
            if (domain, node.op_type) == (gradient.TRAINING, "Gradient"):
                slope, names = gradient.gradient_function(node, info, context.opsets, context.attributes)
                inputs += map(scope.find, names)
                self._function(slope, info, inputs, node, {}, scope, context)
                return
            body = None if schema is None else function_of(schema, opset, node, attributes, info, inputs)
            if body is None:
                self._unsupported(info, schema)
                self._bind_outputs(scope, node, [None] * len(outputs))
            else:
                self._function(body, info, inputs, node, attributes, scope, context)
            return
        self._entry(entry, schema, info, inputs, types, node, attributes, scope, context)

    def _entry(
        self,
        entry: Operator,
        schema: onnx.defs.OpSchema | None,
        info: NodeInfo,
        inputs: list[Value | None],
        types: list[str | None],
        node: ir.Node,
        attributes: Mapping[str, ir.Attr],
        scope: Scope,
        context: _Context,
    ) -> None:
        step = Node(
            entry,
            info,
            inputs,
            [],
            {name: attribute_values.python_value(attribute) for name, attribute in attributes.items()},
        )
        known: dict[str, Any] = {name: step.attributes.get(name, default) for name, default in entry.attributes.items()}
        for name, attribute in attributes.items():
            if attribute.type == ir.AttributeType.GRAPH:
                expected = (entry.bodies or {}).get(name)
                body = self._body(
                    attribute.as_graph(), expected(types, known) if expected else None, info, name, scope, context
                )
                step.bodies[name] = body
                step.attributes[name] = body
                known[name] = body.types
        bound = {} if schema is None else inference.check_types(schema, info, types)
        if entry.types is not None:
            inferred = inference.declared_types(entry, info, types, known, len(node.outputs))
        elif schema is not None:
            known_inputs = all(value is None or value.type is not None for value in inputs)
            inferred = inference.output_types(schema, node, attributes, info, types if known_inputs else None, bound)
        else:
            inferred = [None] * len(node.outputs)
        if "rng" in entry.extras:
            self.positions[step] = self.count
        if self.planner.mode == "exact":
            given = [t for t, value in zip(types, inputs, strict=True) if value] + inferred
            reason = exactness.refusal(entry, given)
            seeded = known.get("seed") is not None or self.planner.config.seed is not None
            if reason is None and not seeded and entry.may_draw([_known(value) for value in inputs], known):
                reason = UNSEEDED
            if reason is not None:
                self.inexact.append(replace(info, reason=reason))
            if self.checked is not None:
                how = "" if reason else exactness.method(entry, given)
                self.checked.append(CheckedNode(replace(info, reason=reason or ""), how))
        step.outputs = self._bind_outputs(scope, node, inferred)
        for made, output in zip(step.outputs if step.bodies else (), node.outputs, strict=False):
            _check_declared(made, output, f" of {info}")
        constant = all(value.is_constant for value in step.needs) and not step.bodies and "rng" not in entry.extras
        if constant and context.live and not self.inexact and not self.unsupported:
            call = self.binder.bound(step, self.binder.host_xp, self.planner.host)
            if self.folder.fold(step, call, schema, node, attributes):
                return
        scope.frame.nodes.append(step)

    def _bind_outputs(self, scope: Scope, node: ir.Node, types: Sequence[str | None]) -> list[Value | None]:
        made: list[Value | None] = []
        for value, value_type in zip(node.outputs, types, strict=True):
            made.append(Value(value.name, value_type, scope.frame) if value.name else None)
            if value.name:
                scope.names[value.name] = made[-1]
        return made

    def _body(
        self,
        graph: ir.Graph,
        types: Sequence[str | None] | None,
        info: NodeInfo,
        name: str,
        around: Scope,
        context: _Context,
    ) -> Subgraph:
        frame = Frame()
        scope = Scope(frame, around)
        if types is not None and len(types) != len(graph.inputs):
            raise ModelError(
                f"{info}: the subgraph {name!r} has {len(graph.inputs)} inputs; this node gives it {len(types)}"
            )
        for i, value in enumerate(graph.inputs):
            given, declared = types[i] if types else None, value_types.of_value(value)
            if not agree(given, declared):
                raise ModelError(
                    f"{info}: the input {value.name!r} of the subgraph {name!r} is declared {declared}, "
                    f"but gets {given}; give both the same type"
                )
            self._input(scope, value.name or "", given or declared)
        inside = (*context.path, f"{name} of {info.op_type} {info.name or info.outputs[0]!r}")
        self._graph(graph, scope, replace(context, path=inside))
        outputs = tuple(
            (value.type if value is not None else None) or value_types.of_value(declared)
            for value, declared in zip(frame.outputs, graph.outputs, strict=True)
        )
        return Subgraph(frame, outputs, tuple(value_types.shape_of(value) for value in graph.outputs))

    def _function(
        self,
        function: ir.Function,
        info: NodeInfo,
        inputs: list[Value | None],
        node: ir.Node,
        attributes: Mapping[str, ir.Attr],
        around: Scope,
        context: _Context,
    ) -> None:
        """Write the function's body out in place of the node, under the function's own opset imports."""
        if len(inputs) > len(function.inputs) or len(node.outputs) > len(function.outputs):
            raise ModelError(
                f"{info} has {len(inputs)} inputs and {len(node.outputs)} outputs; the function takes up to "
                f"{len(function.inputs)} and gives up to {len(function.outputs)}"
            )
        unknown = sorted(set(attributes) - set(function.attributes))
        if unknown:
            raise ModelError(
                f"{info} has the attribute {', '.join(map(repr, unknown))}, which the function does not have"
            )
        defaults = {name: attribute for name, attribute in function.attributes.items() if attribute.value is not None}
        scope = Scope(around.frame)
        for i, value in enumerate(function.inputs):
            scope.names[value.name or ""] = inputs[i] if i < len(inputs) else None
        opsets = {"" if domain == "ai.onnx" else domain: version for domain, version in function.opset_imports.items()}
        path = (*context.path, f"function {info.op_type}")
        inside = _Context(opsets, {**defaults, **attributes}, path, context.live)
        outputs, around.frame.outputs = around.frame.outputs, []
        self._graph(function.graph, scope, inside)
        made, around.frame.outputs = around.frame.outputs, outputs
        for value, result in zip(node.outputs, made, strict=False):
            if value.name:
                around.names[value.name] = result

    # Refusals

    def _unsupported(self, info: NodeInfo, schema: onnx.defs.OpSchema | None) -> None:
        key = (info.domain, info.op_type)
        versions = sorted({*registry.table().get(key, {}), *self.planner.own.get(key, {})})
        domain = info.domain or "ai.onnx"
        remedy = _OWN_MEANING
        if schema is not None and schema.deprecated:
            reason = f"ONNX removed it at opset {schema.since_version}"
            remedy = (
                f"{info.op_type} is in {domain} up to opset {schema.since_version - 1}: let the model import the opset "
                "that it was written for (model.opset_import), or use what ONNX has in its place."
            )
        elif versions:
            reason = f"known since opset {', '.join(map(str, versions))}"
            remedy = (
                f"{info.op_type} is in {domain} from opset {versions[0]} on: let the model import that or a later one "
                "(model.opset_import), or export it anew."
            )
        elif schema is not None:
            reason = "in ONNX, but not in this version of OneModel"
        else:
            reason = "not an ONNX operator"
        self.unsupported.append(replace(info, reason=reason))
        self.remedies[remedy] = None
        if self.checked is not None:
            self.checked.append(CheckedNode(self.unsupported[-1], ""))

    def _refuse(self) -> None:
        if self.unsupported:
            remedies = "\n".join(sorted(self.remedies, key=lambda text: text == _OWN_MEANING))
            raise UnsupportedOperatorError(
                f"{listing(self.unsupported, 'no definition')}\n{remedies}", self.unsupported
            )
        if self.inexact:
            raise InexactOperatorError(
                f'{listing(self.inexact, "no exact result")}\nThe session is exact; it runs with mode="fast"',
                self.inexact,
            )


def _check_declared(made: Value | None, output: ir.Value, where: str) -> None:
    """Refuse a type that the model declares for an output, and that its nodes do not make."""
    declared = value_types.of_value(output)
    if made is not None and not agree(made.type, declared):
        raise ModelError(f"the output {output.name!r}{where} is declared {declared}, but its node makes {made.type}")


def _known(value: Value | None) -> Any:
    """A constant, None for an omitted input, ``...`` for what only a run knows."""
    return None if value is None else value.constant if value.is_constant else ...


def _function_key(function: ir.Function) -> tuple[str, str, str]:
    return "" if function.domain == "ai.onnx" else function.domain, function.name, function.overload


def _initializer(value: ir.Value) -> Value:
    tensor = value.const_value
    if tensor is None:
        raise ModelError(f"the initializer {value.name!r} has no data")
    array = attribute_values.tensor_array(tensor)
    return Value(value.name or "", value_types.of_dtype(array.dtype), None, frozen(array), True)
