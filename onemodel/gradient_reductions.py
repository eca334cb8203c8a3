"""Gradients of reductions, running sums and softmax."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import onnx_ir as ir

from onemodel.gradient_elementwise import sign
from onemodel.gradient_rules import Step, Tape, Thunk, rule
from onemodel.ops.gradient import DOMAIN

# Reductions: Spread brings what is reduced back to the shape before, SumOver reduces along the same axes.


def _along(step: Step) -> tuple[str | None, dict[str, Any]]:
    """The input that holds a reduction's axes, and the attributes that Spread and SumOver take of it."""
    options = {key: step.attributes.get(key) for key in ("keepdims", "noop_with_empty_axes")}
    along = step.attributes.get("axes")
    if along is not None:
        options["along"] = ir.Attr("along", along.type, along.value)
    return step.inputs[1] if len(step.inputs) > 1 else None, options


def _spread(tape: Tape, step: Step, g: str, mean: int = 0) -> str:
    axes, options = _along(step)
    return tape.own("Spread", g, step.inputs[0], axes, mean=mean, **options)


def _sum_over(tape: Tape, step: Step, x: str | None) -> str:
    axes, options = _along(step)
    return tape.own("SumOver", x, axes, **options)


@rule("ReduceSum", "ReduceMean")
def _reduce(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    return [lambda: _spread(tape, step, g, mean=int(step.op_type == "ReduceMean"))]


@rule("Spread", domain=DOMAIN)
def _spread_back(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    return [lambda: tape.own("SumOver", g, step.inputs[2], **step.attributes)]


@rule("SumOver", domain=DOMAIN)
def _sum_over_back(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    return [lambda: tape.own("Spread", g, step.inputs[0], step.inputs[1], **step.attributes)]


@rule("ReduceMax", "ReduceMin")
def _reduce_extreme(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    def first() -> str:
        same = tape.own("Same", step.inputs[0], _spread(tape, step, step.outputs[0]))
        shared = tape.op("Div", g, _sum_over(tape, step, same))
        return tape.op("Mul", _spread(tape, step, shared), same)

    return [first]


@rule("ReduceProd")
def _reduce_prod(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    def first() -> str:
        axes, options = _along(step)
        del options["keepdims"]
        slope = tape.own("ReduceProdSlope", step.inputs[0], axes, **options)
        return tape.op("Mul", _spread(tape, step, g), slope)

    return [first]


@rule("ReduceL1")
def _reduce_l1(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    return [lambda: tape.op("Mul", _spread(tape, step, g), sign(tape, step.inputs[0]))]


@rule("ReduceL2")
def _reduce_l2(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    y = step.outputs[0]
    return [lambda: tape.op("Mul", _spread(tape, step, tape.own("Over", g, y)), step.inputs[0])]


@rule("ReduceSumSquare")
def _reduce_sum_square(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    return [lambda: tape.op("Mul", _spread(tape, step, tape.own("Scale", g, by=2.0)), step.inputs[0])]


@rule("ReduceLogSum")
def _reduce_log_sum(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    return [lambda: _spread(tape, step, tape.op("Div", g, _sum_over(tape, step, step.inputs[0])))]


@rule("ReduceLogSumExp")
def _reduce_log_sum_exp(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    def first() -> str:
        below = tape.op("Sub", step.inputs[0], _spread(tape, step, step.outputs[0]))
        return tape.op("Mul", _spread(tape, step, g), tape.op("Exp", below))

    return [first]


@rule("CumSum")
def _cum_sum(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    options = {"exclusive": step.value("exclusive", 0), "reverse": 1 - step.value("reverse", 0)}
    return [lambda: tape.op("CumSum", g, step.inputs[1], **options)]


# Softmax


def _sum_of_rows(tape: Tape, step: Step, x: str) -> str:
    rows = int(tape.opset < 13)
    return tape.own("SumAlong", x, axis=step.value("axis", 1 if rows else -1), rows=rows)


@rule("SumAlong", domain=DOMAIN)
def _sum_along(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    return [lambda: tape.own("ExpandTo", g, step.inputs[0])]


@rule("Softmax")
def _softmax(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    y = step.outputs[0]

    def first() -> str:
        shared = _sum_of_rows(tape, step, tape.op("Mul", g, y))
        return tape.op("Mul", y, tape.op("Sub", g, shared))

    return [first]


@rule("LogSoftmax")
def _log_softmax(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    def first() -> str:
        shared = tape.op("Mul", tape.op("Exp", step.outputs[0]), _sum_of_rows(tape, step, g))
        return tape.op("Sub", g, shared)

    return [first]
