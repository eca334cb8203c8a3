"""Gradients of products and convolutions.

Each gradient of a bilinear operator is one itself, and their gradients are among the same three.
"""

from __future__ import annotations

from collections.abc import Iterable

from onemodel.gradient_rules import Step, Tape, Thunk, onto, rule
from onemodel.ops.gradient import DOMAIN


@rule("MatMul")
def _matmul(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    a, b = step.inputs
    return [lambda: tape.own("MatMulFirst", g, a, b), lambda: tape.own("MatMulSecond", g, a, b)]


@rule("MatMulFirst", domain=DOMAIN)
def _matmul_first(tape: Tape, step: Step, g: str) -> Iterable[Thunk | None]:
    h, _, b = step.inputs
    return [lambda: tape.op("MatMul", g, b), None, lambda: tape.own("MatMulSecond", h, g, b)]


@rule("MatMulSecond", domain=DOMAIN)
def _matmul_second(tape: Tape, step: Step, g: str) -> Iterable[Thunk | None]:
    h, a, _ = step.inputs
    return [lambda: tape.op("MatMul", a, g), lambda: tape.own("MatMulFirst", h, a, g), None]


@rule("Gemm")
def _gemm(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    a, b = step.inputs[:2]
    turned = [step.value(name, 0) for name in ("transA", "transB")]

    def product(name: str, turn: bool) -> str:
        first, second = (tape.op("Transpose", x) if t else x for x, t in zip((a, b), turned, strict=True))
        made = tape.own(name, tape.own("Scale", g, by=step.value("alpha", 1.0)), first, second)
        return tape.op("Transpose", made) if turn else made

    return [
        lambda: product("MatMulFirst", turned[0]),
        lambda: product("MatMulSecond", turned[1]),
        lambda: onto(tape, tape.own("Scale", g, by=step.value("beta", 1.0)), step.inputs[2]),
    ]


@rule("Conv")
def _conv(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    x, w = step.inputs[:2]
    return [
        lambda: tape.own("ConvInput", g, w, x, **step.attributes),
        lambda: tape.own("ConvWeight", g, x, w, **step.attributes),
        lambda: tape.own("ChannelSum", g),
    ]


@rule("ConvInput", domain=DOMAIN)
def _conv_input(tape: Tape, step: Step, g: str) -> Iterable[Thunk | None]:
    h, w, _ = step.inputs
    return [
        lambda: tape.op("Conv", g, w, **step.attributes),
        lambda: tape.own("ConvWeight", h, g, w, **step.attributes),
        None,
    ]


@rule("ConvWeight", domain=DOMAIN)
def _conv_weight(tape: Tape, step: Step, g: str) -> Iterable[Thunk | None]:
    h, x, _ = step.inputs
    return [
        lambda: tape.op("Conv", x, g, **step.attributes),
        lambda: tape.own("ConvInput", h, g, x, **step.attributes),
        None,
    ]


@rule("ChannelSum", domain=DOMAIN)
def _channel_sum(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    return [lambda: tape.own("ChannelSpread", g, step.inputs[0])]


@rule("ChannelSpread", domain=DOMAIN)
def _channel_spread(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    return [lambda: tape.own("ChannelSum", g)]
