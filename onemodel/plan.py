"""From a model and a namespace to a list of bound steps: resolution, types, folding, placement, liveness."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from onemodel import attributes as attribute_values
from onemodel import exactness, gradient, inference
from onemodel import types as value_types
from onemodel.backends import get_backend
from onemodel.backends.base import Backend, Namespace
from onemodel.bodies import function_of
from onemodel.config import SessionConfig
from onemodel.drawing import UNSEEDED, Once, key_source
from onemodel.errors import InexactOperatorError, LimitError, ModelError, UnsupportedOperatorError
from onemodel.frames import Frame, Node, Scope, Subgraph, Value
from onemodel.ops import registry
from onemodel.ops.gradient import FUNCTIONS as GRADIENT_OPERATORS
from onemodel.ops.registry import Operator
from onemodel.placement import Placement, Slots, freeing, live, transfer_step
from onemodel.program import NOTHING, Body, NodeInfo, Program, Step, listing

logger = logging.getLogger("onemodel")


@dataclass(frozen=True)
class _Context:
    """What holds around a node: opset imports, the function's attributes, and the way to it."""

    opsets: Mapping[str, int]
    attributes: Mapping[str, ir.Attr] | None = None
    path: tuple[str, ...] = ()


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
                f"the model imports opset {opset_imports['ai.onnx.ml']} of ai.onnx.ml; 1 to {newest} are supported"
            )
        self.opsets = opset_imports
        self.config = config
        self.backend = backend
        self.mode = mode
        self.xp = backend.namespace(mode)
        host = backend if backend.on_host else get_backend("numpy")
        self.host_xp = host.namespace(mode)
        self.host = host
        self.kernels = backend.kernels(mode) if config.kernels == "native" else {}
        self.own: dict[tuple[str, str], dict[int, Operator]] = {}
        for function in (*config.operators, *GRADIENT_OPERATORS):
            for entry in function.operators:  # type: ignore[attr-defined]
                self.own.setdefault(entry.key, {})[entry.since] = entry
        self.functions = {_function_key(function): function for function in model.functions.values()}

    def plan(self, fed: Collection[str] = (), extra: Sequence[str] = ()) -> Program:
        """The program of the main graph.

        Args:
            fed: names of initializers that the run feeds, so that they are inputs.
            extra: names of values to return after the graph's outputs.

        Raises:
            UnsupportedOperatorError, InexactOperatorError: with all nodes that are refused.
            ModelError, LimitError: the model is wrong or too large.
        """
        return _Builder(self).main(frozenset(fed), tuple(extra))


class _Builder:
    """Builds one program; holds what grows on the way."""

    def __init__(self, planner: Planner) -> None:
        self.planner = planner
        self.limits = planner.config.limits
        self.count = 0
        self.unsupported: list[NodeInfo] = []
        self.inexact: list[NodeInfo] = []
        self.positions: dict[Node, int] = {}
        """Of the nodes that draw random numbers: their place in the model, functions written out."""

    # Graphs and nodes

    def main(self, fed: frozenset[str], extra: tuple[str, ...]) -> Program:
        graph = self.planner.model.graph
        frame = Frame()
        scope = Scope(frame)
        for value in graph.inputs:
            if value.name not in graph.initializers or value.name in fed:
                self._input(scope, value.name or "", value_types.of_value(value))
        for name, value in graph.initializers.items():
            if name in fed and name not in scope.names:
                self._input(scope, name, _initializer(value).type)
        self._graph(graph, scope, _Context(self.planner.opsets))
        for made, declared in zip(frame.outputs, graph.outputs, strict=True):
            _check_declared(made, declared)
        for name in extra:
            frame.outputs.append(scope.find(name))
        self._refuse()
        return self.finish(frame, fed=True)

    def _input(self, scope: Scope, name: str, value_type: str | None) -> None:
        value = Value(name, value_type, scope.frame)
        scope.names[name] = value
        scope.frame.inputs.append(value)

    def _graph(self, graph: ir.Graph, scope: Scope, context: _Context) -> None:
        if len(context.path) > self.limits.depth:
            raise LimitError(
                f"subgraphs and functions nest deeper than {self.limits.depth} ({' / '.join(context.path[:3])} ...); "
                "Limits(depth=...) allows more"
            )
        for name, value in graph.initializers.items():
            if name not in scope.names:
                scope.names[name] = _initializer(value)
        for node in graph:
            self._node(node, scope, context)
        for value in graph.outputs:
            scope.frame.outputs.append(scope.find(value.name or ""))

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
            inference.check_node(schema, node, info, attributes)
        elif entry is not None:
            inference.check_entry(entry, node, info, tuple(attributes))
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
            inferred = inference.declared_types(entry, types, known, len(node.outputs))
        elif schema is not None:
            known_inputs = all(value is None or value.type is not None for value in inputs)
            inferred = inference.output_types(schema, node, attributes, info, types if known_inputs else None, bound)
        else:
            inferred = [None] * len(node.outputs)
        if "rng" in entry.extras:
            self.positions[step] = self.count
        if self.planner.mode == "exact":
            reason = exactness.refusal(entry, [t for t, value in zip(types, inputs, strict=True) if value] + inferred)
            seeded = known.get("seed") is not None or self.planner.config.seed is not None
            if reason is None and not seeded and entry.may_draw([_known(value) for value in inputs], known):
                reason = UNSEEDED
            if reason is not None:
                self.inexact.append(replace(info, reason=reason))
        step.outputs = self._bind_outputs(scope, node, inferred)
        if not self._fold(step, schema, node, attributes, types):
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
            self._input(scope, value.name or "", (types[i] if types else None) or value_types.of_value(value))
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
        inside = _Context(opsets, {**defaults, **attributes}, (*context.path, f"function {info.op_type}"))
        outputs, around.frame.outputs = around.frame.outputs, []
        self._graph(function.graph, scope, inside)
        made, around.frame.outputs = around.frame.outputs, outputs
        for value, result in zip(node.outputs, made, strict=False):
            if value.name:
                around.names[value.name] = result

    # Refusals

    def _unsupported(self, info: NodeInfo, schema: onnx.defs.OpSchema | None) -> None:
        versions = sorted(registry.table().get((info.domain, info.op_type), {}))
        if schema is not None and schema.deprecated:
            reason = f"ONNX removed it at opset {schema.since_version}"
        elif versions:
            reason = f"known since opset {', '.join(map(str, versions))}"
        elif schema is not None:
            reason = "in ONNX, but not in this version of OneModel"
        else:
            reason = "not an ONNX operator"
        self.unsupported.append(replace(info, reason=reason))

    def _refuse(self) -> None:
        if self.unsupported:
            raise UnsupportedOperatorError(
                f"{listing(self.unsupported, 'no definition')}\n"
                "Give such an operator a meaning with @onemodel.operator(name, domain=..., since=...).",
                self.unsupported,
            )
        if self.inexact:
            raise InexactOperatorError(
                f'{listing(self.inexact, "no exact result")}\nThe session is exact; it runs with mode="fast"',
                self.inexact,
            )

    # Folding

    def _fold(
        self,
        step: Node,
        schema: onnx.defs.OpSchema | None,
        node: ir.Node,
        attributes: Mapping[str, ir.Attr],
        types: Sequence[str | None],
    ) -> bool:
        """Compute the node now where all it needs is constant; False leaves it to the runs."""
        if (
            step.bodies
            or "rng" in step.entry.extras
            or any(not value.is_constant for value in step.needs)
            or self.inexact
            or self.unsupported
        ):
            return False
        values = [None if value is None else value.constant for value in step.inputs]
        if step.entry.host and schema is not None:
            size = inference.predicted_bytes(schema, node, attributes, step.info, values, types)
            if size is not None and size > self.limits.fold_bytes:
                return False
        call = self._bound(step, self.planner.host_xp, self.planner.host)
        try:
            with np.errstate(all="ignore"):
                result = call(*values)
        except Exception as error:  # noqa: BLE001
            # The run raises it again, with the node's name, unless it never comes here.
            logger.debug("%s cannot be folded: %s", step.info, error)
            return False
        results = [self.planner.host.normalise(item) for item in (result if isinstance(result, tuple) else (result,))]
        if any(_bytes(item) > self.limits.fold_bytes for item in results):
            return False
        for value, item in zip(step.outputs, results, strict=False):
            if value is not None:
                value.constant, value.is_constant, value.frame = _frozen(item), True, None
        return True

    # Binding

    def _bound(self, step: Node, xp: Namespace, backend: Backend) -> Callable[..., Any]:
        """The function of a step with its attributes and namespace, widening included."""
        entry = step.entry
        function = entry.function
        types = [None if value is None else value.type for value in step.inputs]
        if backend is self.planner.backend:
            function = self._native(entry, types) or function
        options = {
            name: attribute_values.as_float32(step.attributes.get(name, default))
            for name, default in entry.attributes.items()
            if name not in step.bodies
        }
        if "xp" in entry.extras:
            options["xp"] = xp
        if "wanted" in entry.extras:
            options["wanted"] = tuple(value is not None for value in step.outputs)
        if "rng" in entry.extras:
            options["rng"] = key_source(options.get("seed"), self.planner.config.seed, self.positions[step])
        if "once" in entry.extras:
            options["once"] = Once()
        call: Callable[..., Any] = partial(function, **options) if options else function
        if step.bodies:
            return self._with_bodies(step, call)
        halves = [i for i, t in enumerate(types) if t in value_types.HALVES and not entry.reads_on_host(i)]
        narrow = [
            xp.onnx_dtype(value_types.code_of(value.type)) if value and value.type in value_types.HALVES else None
            for value in step.outputs
        ]
        if entry.widen and halves:
            call = partial(_widened, call, frozenset(halves), tuple(narrow), xp)
        return call

    def _native(self, entry: Operator, types: Sequence[str | None]) -> Callable[..., Any] | None:
        """The backend's own kernel for this meaning and the dtype of the first input; None where it has none."""
        kernel = self.planner.kernels.get(entry.key)
        if kernel is None or kernel.since != entry.since or not types or not value_types.is_tensor(types[0]):
            return None
        return kernel.function if value_types.dtype_of(types[0]).name in kernel.dtypes else None

    def _with_bodies(self, step: Node, call: Callable[..., Any]) -> Callable[..., Any]:
        """A step with subgraphs takes, after its own inputs, what they capture."""
        parts = []
        for name, body in step.bodies.items():
            wanted = {int(key.partition(":")[2]) for key in step.entry.host if key.startswith(f"{name}:")}
            parts.append((name, self.finish(body.frame, wanted), len(body.frame.captures), body))
        count = len(step.inputs)

        def run(*values: Any) -> Any:
            start = count
            subgraphs = {}
            for name, program, captures, body in parts:
                subgraphs[name] = Body(program, values[start : start + captures], body.types, body.shapes)
                start += captures
            return call(*values[:count], **subgraphs)

        return run

    # From frames to programs

    def finish(self, frame: Frame, host_outputs: Collection[int] = (), *, fed: bool = False) -> Program:
        """Bind and place the steps of a frame, and free each slot after its last use.

        Args:
            frame: the graph body.
            host_outputs: positions of outputs that are read on the host.
            fed: the inputs are the run's feeds, which the host has too.
        """
        nodes = live(frame)
        placement = Placement(frame, nodes, host_outputs, fed=fed, everywhere=self.planner.backend.on_host)
        slots = Slots(self.planner.backend)
        steps: list[Step] = []
        backend = self.planner.backend
        steps += [
            transfer_step(backend.to_host, slots.device(value), slots.host(value), "to_host")
            for value in (*frame.inputs, *(inner for _, inner in frame.captures))
            if value in placement.to_host and value not in placement.fed
        ]
        for node in nodes:
            at_host = placement.runs_on_host(node)
            xp = self.planner.host_xp if at_host else self.planner.xp
            call = self._bound(node, xp, self.planner.host if at_host else backend)
            where = [placement.reads_on_host(node, i) for i in range(len(node.inputs))]
            inputs = [slots.of(value, host) for value, host in zip(node.inputs, where, strict=True)]
            inputs += [slots.device(value) for value in node.captured]
            made = tuple(None if value is None else slots.of(value, at_host) for value in node.outputs)
            output = made[0] if len(made) == 1 and made[0] is not None else made
            steps.append((call, tuple(inputs), output, (), node.info))
            for value in node.outputs:
                if value is None:
                    continue
                if at_host and value in placement.to_device:
                    steps.append(transfer_step(backend.from_host, slots.host(value), slots.device(value), "to_device"))
                if not at_host and value in placement.to_host:
                    steps.append(transfer_step(backend.to_host, slots.device(value), slots.host(value), "to_host"))
        outputs = tuple(
            NOTHING if value is None else slots.of(value, i in host_outputs) for i, value in enumerate(frame.outputs)
        )
        return Program(
            backend,
            slots.template,
            freeing(steps, {*outputs, *slots.constant, NOTHING}),
            tuple(value.name for value in frame.inputs),
            tuple(slots.known(value, False) for value in frame.inputs),
            tuple(slots.known(value, True) if not backend.on_host else None for value in frame.inputs),
            tuple(slots.device(inner) for _, inner in frame.captures),
            outputs,
        )


def _check_declared(made: Value | None, output: ir.Value) -> None:
    """Refuse a tensor type that the model declares for an output, and that its nodes do not make."""
    declared = value_types.of_value(output)
    tensors = made is not None and value_types.is_tensor(made.type) and value_types.is_tensor(declared)
    if made is not None and tensors and made.type != declared:
        raise ModelError(f"the output {output.name!r} is declared {declared}, but its node makes {made.type}")


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
    return Value(value.name or "", value_types.of_dtype(array.dtype), None, _frozen(array), True)


def _frozen(value: Any) -> Any:
    """Constants are shared by all runs; read-only, so that outputs that alias them can be told."""
    if isinstance(value, list):
        return [_frozen(item) for item in value]
    if isinstance(value, np.ndarray):
        view = value.view()
        view.flags.writeable = False
        return view
    return value


def _bytes(value: Any) -> int:
    if isinstance(value, list):
        return sum(map(_bytes, value))
    return int(value.nbytes) if isinstance(value, np.ndarray) else 0


def _widened(
    call: Callable[..., Any], halves: Collection[int], narrow: Sequence[Any], xp: Namespace, /, *values: Any
) -> Any:
    """float16 and bfloat16 in float32, and rounded once at the end."""
    result = call(*[xp.astype(v, xp.float32) if i in halves and v is not None else v for i, v in enumerate(values)])
    if isinstance(result, tuple):
        return tuple(
            value if dtype is None or value is None else xp.astype(value, dtype)
            for value, dtype in zip(result, (*narrow, *[None] * len(result)), strict=False)
        )
    return result if narrow[0] is None else xp.astype(result, narrow[0])
