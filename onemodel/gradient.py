"""Reverse-mode gradients: the operator Gradient as a graph of ordinary nodes.

The part of the graph between the variables and the target is copied, with the node's inputs in the variables' place,
and the nodes of the chain rule follow it. All of them have rules themselves, so that a target may be a gradient.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import onnx_ir as ir

from onemodel import attributes as attribute_values
from onemodel import gradient_elementwise, gradient_products, gradient_reductions, gradient_shapes  # noqa: F401
from onemodel.errors import ModelError
from onemodel.gradient_rules import RULES, SEVERAL, Step, Tape, constant
from onemodel.ops.gradient import DOMAIN
from onemodel.program import NodeInfo

TRAINING = "ai.onnx.preview.training"


def gradient_function(
    node: ir.Node, info: NodeInfo, opsets: Mapping[str, int], attributes: Mapping[str, ir.Attr] | None
) -> tuple[ir.Function, list[str]]:
    """A function that computes what a Gradient node computes.

    Args:
        node: the node, in its graph.
        info: how errors name it.
        opsets: the opset imports around it.
        attributes: of the function around it, for nodes that refer to them.

    Returns:
        the function, and the names of the values around the node that it takes after the node's own inputs.

    Raises:
        ModelError: the graph between the variables and the target cannot be differentiated.
    """
    tape, results, names, extra = _differentiated((node,), info, opsets.get("", 1), attributes, "<gradient>")
    values: dict[str, ir.Value] = {name: ir.Value(name=name) for name in (*names, *extra)}
    nodes = []
    for step in tape.steps:
        made = [values.setdefault(name, ir.Value(name=name)) if name else ir.Value(name="") for name in step.outputs]
        nodes.append(
            ir.Node(
                step.domain,
                step.op_type,
                [None if name is None else values[name] for name in step.inputs],
                list(step.attributes.values()),
                overload=step.overload,
                outputs=made,
            )
        )
    graph = ir.Graph(
        [values[name] for name in (*names, *extra)],
        [values[name] for name in results],
        nodes=nodes,
        opset_imports={**opsets, DOMAIN: 1},
        name=info.op_type,
    )
    return ir.Function(TRAINING, "Gradient", "", graph=graph, attributes=[]), extra


def _differentiated(
    around: tuple[ir.Node, ...],
    info: NodeInfo,
    opset: int,
    attributes: Mapping[str, ir.Attr] | None,
    prefix: str,
) -> tuple[Tape, list[str], list[str], list[str]]:
    """The steps of the last Gradient node, the names of the gradients, of the variables, and of what else they take.

    Args:
        around: the Gradient nodes whose target the last one is part of, and the last one.
    """
    node = around[-1]
    given = attribute_values.resolved(node, attributes)
    read = {name: attribute_values.python_value(attribute) for name, attribute in given.items()}
    xs, zs, y = list(read["xs"]), list(read.get("zs", ())), read["y"]
    names = [*xs, *zs]
    if len(node.inputs) != len(names) or len(node.outputs) > len(xs):
        raise ModelError(
            f"{info} has {len(node.inputs)} inputs and {len(node.outputs)} outputs; its {len(xs)} xs and {len(zs)} zs "
            f"need {len(names)} inputs and up to {len(xs)} outputs"
        )
    if opset < 7:
        raise ModelError(f"{info} stands in a model of opset {opset}; gradients need opset 7 or later")
    tape = Tape(opset, prefix)
    extra = _copy(tape, around, y, names, info, attributes)
    gradients = _backward(tape, y, set(xs), info)
    wanted = [bool(output.name) for output in node.outputs]
    results = [
        gradients.get(x) or tape.own("FillLike", x, value=0.0) if want else x
        for x, want in zip(xs, wanted, strict=False)
    ]
    return tape, results, names, extra


# The copy of the graph


def _copy(
    tape: Tape,
    around: tuple[ir.Node, ...],
    y: str,
    names: Sequence[str],
    info: NodeInfo,
    attributes: Mapping[str, ir.Attr] | None,
) -> list[str]:
    """Add the steps that make ``y`` of ``names``; returns what else they take."""
    graph = around[-1].graph
    assert graph is not None
    makers = {value.name: maker for maker in graph for value in maker.outputs if value.name}
    extra: dict[str, None] = {}
    done: set[ir.Node] = set()
    waiting: list[tuple[str, bool]] = [(y, False)]
    while waiting:
        name, ready = waiting.pop()
        if name in names:
            continue
        maker = makers.get(name)
        if maker is None:
            extra[name] = None
        elif maker in around:
            raise ModelError(f"{info}: its target {y!r} depends on its own outputs")
        elif ready and maker not in done:
            done.add(maker)
            _take(tape, (*around, maker), info, attributes, extra)
        elif maker not in done:
            waiting.append((name, True))
            waiting.extend((used, False) for used in _used(maker))
    return list(extra)


def _take(
    tape: Tape,
    around: tuple[ir.Node, ...],
    info: NodeInfo,
    attributes: Mapping[str, ir.Attr] | None,
    extra: dict[str, None],
) -> None:
    """Add the last node of ``around``; another Gradient is written out."""
    maker = around[-1]
    outputs = tuple(value.name or "" for value in maker.outputs)
    inputs = tuple(value.name if value is not None and value.name else None for value in maker.inputs)
    if (maker.domain, maker.op_type) != (TRAINING, "Gradient"):
        domain = "" if maker.domain == "ai.onnx" else maker.domain
        resolved = attribute_values.resolved(maker, attributes)
        tape.steps.append(Step(maker.op_type, domain, inputs, outputs, resolved, maker.overload))
        return
    tape.count += 1
    prefix = f"{tape.prefix}{tape.count}."
    inner, results, names, more = _differentiated(around, info, tape.opset, attributes, prefix)
    renamed = dict(zip(names, inputs, strict=True)) | {name: name for name in more}
    extra.update(dict.fromkeys(more))
    for step in inner.steps:
        if any(attribute.type == ir.AttributeType.GRAPH for attribute in step.attributes.values()):
            raise ModelError(f"{info}: a gradient of a gradient cannot hold a subgraph, as {step.op_type} does")
        made = [renamed.setdefault(name, f"{prefix}{name}") if name else "" for name in step.outputs]
        taken = tuple(None if name is None else renamed[name] for name in step.inputs)
        tape.steps.append(Step(step.op_type, step.domain, taken, tuple(map(str, made)), step.attributes, step.overload))
    for name, output in zip(results, outputs, strict=False):
        if output:
            tape.steps.append(Step("Identity", "", (renamed[name],), (output,), {}))


def _used(node: ir.Node) -> Iterator[str]:
    """The names that a node takes, its subgraphs included."""
    for value in node.inputs:
        if value is not None and value.name:
            yield value.name
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            graph = attribute.as_graph()
            inside = {value.name for value in (*graph.inputs, *graph.initializers.values())}
            for inner in graph:
                yield from (name for name in _used(inner) if name not in inside)
                inside |= {value.name for value in inner.outputs}
            yield from (value.name for value in graph.outputs if value.name and value.name not in inside)


# The chain rule


def _backward(tape: Tape, y: str, xs: set[str], info: NodeInfo) -> dict[str, str]:
    """Add the steps that make the gradient of ``y`` for each of ``xs`` that it depends on; returns their names."""
    varying = set(xs)
    forward = list(tape.steps)
    for step in forward:
        if varying.intersection(step.inputs):
            varying.update(step.outputs)
    gradients = tape.gradients
    if y in varying:
        gradients[y] = tape.own("FillLike", y, value=1.0)
    for step in reversed(forward):
        if not any(name in gradients for name in step.outputs) or not varying.intersection(step.inputs):
            continue
        key = step.domain, step.op_type
        rule = RULES.get(key)
        if rule is None or (key not in SEVERAL and any(name in gradients for name in step.outputs[1:])):
            domain = step.domain or "ai.onnx"
            raise ModelError(
                f"{info}: there is no rule for the gradient of {domain}::{step.op_type}"
                + (f"'s output {step.outputs[-1]!r}" if rule else f", which makes {step.outputs[0]!r}")
            )
        if rule is constant:
            continue
        parts = rule(tape, step, gradients.get(step.outputs[0], ""))
        for name, thunk in zip(step.inputs, parts, strict=False):
            if name is None or name not in varying or thunk is None:
                continue
            made = thunk()
            gradients[name] = tape.op("Add", gradients[name], made) if name in gradients else made
    return {name: gradients[name] for name in xs if name in gradients}
