"""From resolved nodes to bound steps: kernels, attributes, widening, placement, liveness."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from onemodel import attributes as attribute_values
from onemodel import conversion, fusion
from onemodel import types as value_types
from onemodel.backends.base import Backend, Kernel, Namespace
from onemodel.backends.exact.symbolic import fused
from onemodel.backends.fusion import Element
from onemodel.drawing import Once, key_source
from onemodel.folding import frozen
from onemodel.frames import Frame, Node, Value
from onemodel.fusion import Group
from onemodel.ops.registry import Operator
from onemodel.placement import Placement, Slots, freeing, live, transfer_step
from onemodel.program import NOTHING, Body, Program, Step, Together


class Binder:
    """Makes programs of frames.

    Args:
        backend: where arrays live.
        host: the backend of what is computed on the host; the same one where arrays live there.
        mode: ``"exact"`` or ``"fast"``.
        native: whether the backend's own kernels may be used.
        seed: the session's seed.
        positions: of the nodes that draw random numbers, their place in the model.
    """

    def __init__(
        self,
        backend: Backend,
        host: Backend,
        mode: str,
        *,
        native: bool,
        seed: int | None,
        positions: Mapping[Node, int],
    ) -> None:
        self.backend = backend
        self.host = host
        self.mode = mode
        self.xp = backend.namespace(mode) if native else backend.generic_namespace(mode)
        self.host_xp = host.namespace(mode)
        self.kernels = backend.kernels(mode) if native else {}
        self.fusion = backend.fusion(mode) if native else None
        self.chains = backend.chains(mode) if native else {}
        self.native = native
        self.seed = seed
        self.positions = positions

    def bound(
        self, step: Node, xp: Namespace, backend: Backend, programs: Mapping[str, Program] | None = None
    ) -> Callable[..., Any]:
        """The function of a step with its attributes and namespace, widening included; a user's own is watched.

        Args:
            step: the node.
            xp, backend: where it runs.
            programs: of its subgraphs, by attribute.
        """
        call = self._call(step, xp, backend, programs or {})
        if step.entry.built_in:
            return call
        return partial(_watched, call, tuple(value.type if value else None for value in step.outputs), xp)

    def _call(self, step: Node, xp: Namespace, backend: Backend, programs: Mapping[str, Program]) -> Callable[..., Any]:
        entry = step.entry
        types = [None if value is None else value.type for value in step.inputs]
        kernel = self._native(entry, types) if backend is self.backend else None
        options = _attributes(step)
        if "xp" in entry.extras:
            options["xp"] = xp
        if "wanted" in entry.extras:
            options["wanted"] = tuple(value is not None for value in step.outputs)
        if "rng" in entry.extras:
            options["rng"] = key_source(options.get("seed"), self.seed, self.positions[step])
        if "once" in entry.extras:
            options["once"] = Once()
        if step.bodies:
            return _with_bodies(step, partial(entry.function, **options), programs)
        halves = [i for i, t in enumerate(types) if t in value_types.HALVES and not entry.reads_on_host(i)]
        narrow = [
            xp.onnx_dtype(value_types.code_of(value.type)) if value and value.type in value_types.HALVES else None
            for value in step.outputs
        ]

        def bind(function: Callable[..., Any], widen: bool) -> Callable[..., Any]:
            call: Callable[..., Any] = partial(function, **options) if options else function
            if entry.elementwise and self.mode == "exact" and function is entry.function:
                call = fused(function, options)
            return partial(_widened, call, frozenset(halves), tuple(narrow), xp) if widen and halves else call

        widen = entry.widen in (True, self.mode)
        if kernel is None:
            return bind(entry.function, widen)
        native = bind(kernel.function, widen and not kernel.halves)
        return partial(_tried, native, bind(entry.function, widen)) if kernel.partial else native

    def _native(self, entry: Operator, types: Sequence[str | None]) -> Kernel | None:
        """The backend's own kernel for this meaning and the dtype of the first input; None where it has none."""
        kernel = self.kernels.get(entry.key)
        if kernel is not None and not (entry.built_in and kernel.since == entry.since):
            kernel = None
        if kernel is None and self.native and entry.elementwise:
            kernel = self.backend.program(entry.function)
        if kernel is None or not types or not value_types.is_tensor(types[0]):
            return None
        return kernel if value_types.dtype_name(types[0]) in kernel.dtypes else None

    def _programs(self, node: Node) -> dict[str, Program]:
        """The programs of a node's subgraphs."""
        programs = {}
        for name, body in node.bodies.items():
            keys = [key.split(":")[1:] for key in node.entry.host if key.startswith(f"{name}:")]
            wanted = {int(key[0]) for key in keys if len(key) == 1}
            given = [body.frame.inputs[int(key[1])] for key in keys if len(key) == 2]
            programs[name] = self.finish(body.frame, wanted, fed=given)
        return programs

    def _factor(self, slots: Slots, node: Node, index: int, xp: Namespace) -> int | None:
        """The slot of a constant input that the namespace prepares for products; None for all others."""
        value, names = node.inputs[index], node.entry.inputs
        if xp.prepare is None or value is None or not value.is_constant or index >= len(names):
            return None
        factor = (node.entry.factors or {}).get(names[index])
        if factor is None or value.type not in ("tensor(float)", "tensor(double)"):
            return None
        told = factor(value.constant.shape, node.attributes)
        return None if told is None else slots.prepared(value, tuple(told), xp.prepare)

    # Nodes as steps

    def _step(
        self,
        node: Node,
        slots: Slots,
        placement: Placement,
        alone: Mapping[Node, Element],
        programs: Mapping[str, Program] | None = None,
    ) -> Step:
        """The step of one node, whose subgraphs have these programs; elements are bound already."""
        at_host = placement.runs_on_host(node)
        xp = self.host_xp if at_host else self.xp
        element = alone.get(node)
        call = element.call if element else self.bound(node, xp, self.host if at_host else self.backend, programs)
        where = [placement.reads_on_host(node, i) for i in range(len(node.inputs))]
        inputs = [self._factor(slots, node, i, xp) or slots.of(value, where[i]) for i, value in enumerate(node.inputs)]
        inputs += [slots.device(value) for value in node.captured]
        made = tuple(None if value is None else slots.of(value, at_host) for value in node.outputs)
        output = made[0] if len(made) == 1 and made[0] is not None else made
        return self.backend.bound(call, node.info), tuple(inputs), output, (), node.info

    def _groups(
        self, frame: Frame, nodes: Sequence[Node], placement: Placement
    ) -> tuple[dict[Node, Group], dict[Node, Element]]:
        """The nodes that the backend computes together, each with its group; and those that it could, as elements."""
        together = self.fusion
        kept = {*frame.outputs, *placement.to_host}
        alone: dict[Node, Element] = {}

        def on_device(node: Node) -> bool:
            reads = (placement.reads_on_host(node, i) for i in range(len(node.inputs)))
            return not placement.runs_on_host(node) and not any(reads)

        def may_merge(node: Node) -> bool:
            if together is None or not fusion.is_candidate(node) or not on_device(node):
                return False
            alone[node] = self._element(node)
            return together.accepts(fusion.expression_of([node], alone)[1])

        def merged(members: Collection[Node]) -> list[Group]:
            lists = fusion.neighbours(nodes, kept, lambda node: node in members and may_merge(node))
            return [self._merged(some, alone) for some in lists]

        groups: list[Group] = []
        others = dict.fromkeys(nodes)
        for meanings, line in fusion.lines(nodes, kept, self.chains, on_device):
            inputs, chain = fusion.chain_of(line, _attributes)
            call = self.chains[meanings](chain) if all(node in others for node in line) else None
            if call is not None:
                after = merged(line[1:])
                whole = len(after) == 1 and after[0].nodes == line[1:]
                groups.append(Group([line[0], *after] if whole else line, inputs, call))
                for node in line:
                    del others[node]
        groups += merged(others)
        return {node: group for group in groups for node in group.nodes}, alone

    def _merged(self, nodes: Sequence[Node], alone: Mapping[Node, Element]) -> Group:
        """Neighbouring elementwise nodes as one expression."""
        assert self.fusion is not None
        inputs, expression = fusion.expression_of(nodes, alone)
        return Group(nodes, inputs, self.fusion.step(expression))

    def _element(self, node: Node) -> Element:
        """A node as an element whose operands are yet to be numbered."""
        entry, made = node.entry, node.outputs[0]
        widens = entry.widen in (True, self.mode)
        dtype = value_types.dtype_name((made and made.type) or "")
        return Element(entry.function, _attributes(node), self.bound(node, self.xp, self.backend), (), widens, dtype)

    def _together(self, group: Group, slots: Slots, placement: Placement, alone: Mapping[Node, Element]) -> list[Step]:
        """The step that does the work of a group's nodes, and then their own."""
        steps: list[Step] = []
        for part in group.parts:
            if isinstance(part, Group):
                steps += self._together(part, slots, placement, alone)
            else:
                steps.append(self._step(part, slots, placement, alone))
        output = Together(slots.device(group.output), len(steps))
        inputs = tuple(map(slots.device, group.inputs))
        return [(self.backend.bound(group.call, group.info), inputs, output, (), group.info), *steps]

    # From frames to programs

    def finish(
        self, frame: Frame, host_outputs: Collection[int] = (), *, fed: Collection[Value] = (), main: bool = False
    ) -> Program:
        """Bind and place the steps of a frame, and free each slot after its last use.

        Args:
            frame: the graph body.
            host_outputs: positions of outputs that are read on the host.
            fed: inputs that the host has too: the run's feeds, or what an operator gives its subgraph so.
            main: the frame is the main graph.
        """
        nodes = live(frame)
        backend = self.backend
        placement = Placement(frame, nodes, host_outputs, fed=fed, main=main, backend=backend)
        slots = Slots(backend)
        steps: list[Step] = []
        bodies: list[Program] = []

        def transfer(name: str, value: Value) -> Step:
            ends = slots.device(value), slots.host(value)
            source, target = ends if name == "to_host" else ends[::-1]
            return transfer_step(name, backend, source, target, placement.reader(value))

        steps += [
            transfer("to_host", value)
            for value in (*frame.inputs, *(inner for _, inner in frame.captures))
            if value in placement.to_host and value not in placement.fed
        ]
        groups, alone = self._groups(frame, nodes, placement)
        for node in nodes:
            at_host = placement.runs_on_host(node)
            group = groups.get(node)
            if group is None:
                programs = self._programs(node)
                bodies += programs.values()
                steps.append(self._step(node, slots, placement, alone, programs))
            elif node is group.nodes[-1]:
                steps += self._together(group, slots, placement, alone)
            for value in node.outputs:
                if value is None:
                    continue
                if at_host and value in placement.to_device:
                    steps.append(transfer("to_device", value))
                if not at_host and value in placement.to_host:
                    steps.append(transfer("to_host", value))
        outputs = tuple(
            NOTHING if value is None else slots.of(value, i in host_outputs or value in placement.stays)
            for i, value in enumerate(frame.outputs)
        )
        return Program(
            backend,
            slots.template,
            freeing(steps, {*outputs, *slots.constant, NOTHING}),
            tuple(value.name for value in frame.inputs),
            tuple(slots.known(value, False) for value in frame.inputs),
            tuple(
                slots.known(value, True) if value in placement.fed and not backend.on_host else None
                for value in frame.inputs
            ),
            tuple(slots.device(inner) for _, inner in frame.captures),
            outputs,
            tuple(bodies),
        )


def _attributes(step: Node) -> dict[str, Any]:
    """The attributes of a node that are no subgraphs, as its function takes them."""
    return {
        name: attribute_values.as_float32(step.attributes.get(name, default))
        for name, default in step.entry.attributes.items()
        if name not in step.bodies
    }


def _with_bodies(step: Node, call: Callable[..., Any], programs: Mapping[str, Program]) -> Callable[..., Any]:
    """A step with subgraphs takes, after its own inputs, what they capture."""
    count = len(step.inputs)

    def run(*values: Any) -> Any:
        start = count
        subgraphs = {}
        for name, body in step.bodies.items():
            end = start + len(body.frame.captures)
            subgraphs[name] = Body(programs[name], values[start:end], body.types, body.shapes)
            start = end
        return call(*values[:count], **subgraphs)

    return run


def _tried(native: Callable[..., Any], generic: Callable[..., Any], /, *values: Any) -> Any:
    """What a native kernel gives, or the generic form where it takes no such values."""
    result = native(*values)
    return generic(*values) if result is NotImplemented else result


def _watched(call: Callable[..., Any], declared: Sequence[str | None], xp: Namespace, /, *values: Any) -> Any:
    """A user's operator: it cannot write into its inputs, and its results must be of the types that the plan has."""
    try:
        result = call(*map(frozen, values))
    except ValueError as error:
        if "read-only" not in str(error):
            raise
        raise ValueError(
            f"{error}: the values of a run are; make new arrays, so write x = x + 1, not x += 1"
        ) from error
    results = result if isinstance(result, tuple) else (result,)
    for number, (value, value_type) in enumerate(zip(results, declared, strict=False), 1):
        if value_type is None or not value_types.is_tensor(value_type):
            continue
        expected: Any = xp.onnx_dtype(value_types.code_of(value_type))
        if getattr(value, "dtype", None) != expected:
            if hasattr(value, "dtype"):
                came, remedy = f"an array of {value.dtype}", "give constants a dtype, or cast the result with xp.astype"
            else:
                came, remedy = conversion.what_is(value), "return an array, or a tuple with one for each output"
            raise TypeError(f"it gave {came} as output {number}, which is {value_type}: {remedy}")
    return result


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
