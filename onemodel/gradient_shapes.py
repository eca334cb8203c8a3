"""Gradients of operators that only move elements."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import onnx_ir as ir

from onemodel.gradient_rules import Step, Tape, Thunk, onto, rule
from onemodel.ops.gradient import DOMAIN


@rule("Identity")
def _identity(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    return [lambda: g]


@rule("Reshape", "Flatten", "Squeeze", "Unsqueeze")
@rule("ReshapeLike", domain=DOMAIN)
def _reshape(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    return [lambda: tape.own("ReshapeLike", g, step.inputs[0])]


@rule("Transpose")
def _transpose(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    perm = step.value("perm", None)
    back = None if perm is None else [perm.index(i) for i in range(len(perm))]
    return [lambda: tape.op("Transpose", g, perm=back)]


@rule("Expand")
@rule("ExpandTo", domain=DOMAIN)
def _expand(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    return [lambda: onto(tape, g, step.inputs[0])]


@rule("SumTo", domain=DOMAIN)
def _sum_to(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    return [lambda: tape.own("ExpandTo", tape.own("ReshapeLike", g, step.inputs[1]), step.inputs[0])]


# Parts


@rule("Concat")
def _concat(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    axis = step.value("axis", 1)
    return [partial(tape.own, "Part", g, *step.inputs, axis=axis, index=i) for i in range(len(step.inputs))]


@rule("Part", domain=DOMAIN)
def _part(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    def first() -> str:
        parts = [_zero(tape, x) for x in step.inputs[1:]]
        parts[step.value("index", 0)] = g
        return tape.op("Concat", *parts, axis=step.value("axis", 0))

    return [first]


@rule("Split")
def _split(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    step.outputs = tuple(name or tape.name() for name in step.outputs)

    def first() -> str:
        parts = [tape.gradients.get(name) or _zero(tape, name) for name in step.outputs]
        return tape.op("Concat", *parts, axis=step.value("axis", 0))

    return [first]


def _zero(tape: Tape, x: str | None) -> str:
    return tape.own("FillLike", x, value=0.0)


# Where elements come from: the same operator moves the elements' numbers, from 1 on; 0 is put in by the operator.


@rule("CenterCropPad", "Compress", "DepthToSpace", "Gather", "GatherElements", "GatherND", "ReverseSequence", "Slice")
@rule("SpaceToDepth", "Tile", "Trilu")
def _moved(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    x, *others = step.inputs

    def first() -> str:
        places = tape.op(step.op_type, tape.own("Places", x), *others, **step.attributes)
        return tape.own("PutBack", g, places, x)

    return [first]


@rule("Pad")
def _pad(tape: Tape, step: Step, g: str) -> Iterable[Thunk | None]:
    x, pads, value, axes = (*step.inputs, None, None, None)[:4]

    def places() -> str:
        numbers = tape.own("Places", x)
        if tape.opset >= 11:
            return tape.op("Pad", numbers, pads, None, *[axes] if axes else [], **step.attributes)
        floats = tape.op("Cast", numbers, to=ir.DataType.DOUBLE.value)  # before opset 11 Pad takes no integers
        rest = {name: given for name, given in step.attributes.items() if name != "value"}
        return tape.op("Cast", tape.op("Pad", floats, **rest), to=ir.DataType.INT64.value)

    def third() -> str:
        inside = tape.op("Cast", places(), to=ir.DataType.BOOL.value)
        return onto(tape, tape.own("Keep", g, inside, negated=1), value)

    return [lambda: tape.own("PutBack", g, places(), x), None, third]


@rule("PutBack", domain=DOMAIN)
def _put_back(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    return [lambda: tape.own("Fetch", g, step.inputs[1])]


@rule("Fetch", domain=DOMAIN)
def _fetch(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    return [lambda: tape.own("PutBack", g, step.inputs[1], step.inputs[0])]
