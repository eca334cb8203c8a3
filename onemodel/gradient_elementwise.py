"""Gradients of elementwise operators: arithmetic, functions of one element, choices and activations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial

from onemodel.gradient_rules import RULES, Step, Tape, Thunk, one, onto, rule
from onemodel.ops.gradient import DOMAIN

# Arithmetic


@rule("Add", "Sum", "Mean")
def _add(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    if step.op_type == "Mean":
        g = tape.own("Scale", g, by=1 / len(step.inputs))
    return [partial(onto, tape, g, x) for x in step.inputs]


@rule("Sub")
def _sub(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    a, b = step.inputs
    return [lambda: onto(tape, g, a), lambda: onto(tape, tape.op("Neg", g), b)]


@rule("Mul")
def _mul(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    a, b = step.inputs
    return [lambda: onto(tape, tape.op("Mul", g, b), a), lambda: onto(tape, tape.op("Mul", g, a), b)]


@rule("Div")
def _div(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    a, b = step.inputs

    def second() -> str:
        return onto(tape, tape.op("Neg", tape.op("Div", tape.op("Mul", g, step.outputs[0]), b)), b)

    return [lambda: onto(tape, tape.op("Div", g, b), a), second]


@rule("Pow")
def _pow(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    a, b = step.inputs

    def first() -> str:
        lower = tape.op("Pow", a, tape.op("Sub", b, one(tape, b)))
        return onto(tape, tape.op("Mul", g, tape.op("Mul", b, lower)), a)

    def second() -> str:
        return onto(tape, tape.op("Mul", g, tape.op("Mul", step.outputs[0], tape.op("Log", a))), b)

    return [first, second]


@rule("Mod")
def _mod(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    a, b = step.inputs

    def second() -> str:
        turns = tape.op("Div", tape.op("Sub", step.outputs[0], a), b)
        return onto(tape, tape.op("Mul", g, turns), b)

    return [lambda: onto(tape, g, a), second]


@rule("Over", domain=DOMAIN)
def _over(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    b = step.inputs[1]
    return [
        lambda: tape.own("Over", g, b),
        lambda: tape.op("Neg", tape.own("Over", tape.op("Mul", g, step.outputs[0]), b)),
    ]


@rule("Scale", domain=DOMAIN)
def _scale(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    return [lambda: tape.own("Scale", g, by=step.value("by", 1.0))]


@rule("Cast", "CastLike")
@rule("CastTo", domain=DOMAIN)
def _cast(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    return [lambda: tape.own("CastTo", g, step.inputs[0])]


# Functions of one element: the factor that the gradient takes


def _with_square(tape: Tape, operation: str, x: str | None) -> str:
    """1 and the square of ``x``, added or subtracted."""
    return tape.op(operation, one(tape, x), tape.op("Mul", x, x))


def sign(tape: Tape, x: str | None) -> str:
    """1, 0 or -1 as ``x`` is above, at or below 0."""
    return tape.op("Sub", tape.own("Above", x), tape.own("Above", tape.op("Neg", x)))


def _elementwise(name: str, factor: Callable[[Tape, str | None, str], str], *, divide: bool = False) -> None:
    """Enter a function whose gradient is g times (or over) ``factor`` of the tape, the input and the output."""

    def of_one(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
        operation = "Div" if divide else "Mul"
        return [lambda: tape.op(operation, g, factor(tape, step.inputs[0], step.outputs[0]))]

    RULES["", name] = of_one


_elementwise("Neg", lambda tape, x, y: tape.own("FillLike", x, value=-1.0))
_elementwise("Exp", lambda tape, x, y: y)
_elementwise("Log", lambda tape, x, y: x or "", divide=True)
_elementwise("Sqrt", lambda tape, x, y: tape.op("Add", y, y), divide=True)
_elementwise("Reciprocal", lambda tape, x, y: tape.op("Neg", tape.op("Mul", y, y)))
_elementwise("Tan", lambda tape, x, y: tape.op("Add", one(tape, y), tape.op("Mul", y, y)))
_elementwise("Sinh", lambda tape, x, y: tape.op("Cosh", x))
_elementwise("Cosh", lambda tape, x, y: tape.op("Sinh", x))
_elementwise("Asin", lambda tape, x, y: tape.op("Sqrt", _with_square(tape, "Sub", x)), divide=True)
_elementwise("Acos", lambda tape, x, y: tape.op("Neg", tape.op("Sqrt", _with_square(tape, "Sub", x))), divide=True)
_elementwise("Atan", lambda tape, x, y: _with_square(tape, "Add", x), divide=True)
_elementwise("Asinh", lambda tape, x, y: tape.op("Sqrt", _with_square(tape, "Add", x)), divide=True)
_elementwise(
    "Acosh", lambda tape, x, y: tape.op("Sqrt", tape.op("Sub", tape.op("Mul", x, x), one(tape, x))), divide=True
)
_elementwise("Atanh", lambda tape, x, y: _with_square(tape, "Sub", x), divide=True)
_elementwise(
    "Erf",
    lambda tape, x, y: tape.own(
        "Scale", tape.op("Exp", tape.op("Neg", tape.op("Mul", x, x))), by=2 / math.sqrt(math.pi)
    ),
)
_elementwise("Sin", lambda tape, x, y: tape.op("Cos", x))
_elementwise("Cos", lambda tape, x, y: tape.op("Neg", tape.op("Sin", x)))
_elementwise("Tanh", lambda tape, x, y: tape.op("Sub", one(tape, y), tape.op("Mul", y, y)))
_elementwise("Sigmoid", lambda tape, x, y: tape.op("Mul", y, tape.op("Sub", one(tape, y), y)))
_elementwise("Softplus", lambda tape, x, y: tape.op("Sigmoid", x))
_elementwise("Relu", lambda tape, x, y: tape.own("Above", x))
_elementwise("Abs", lambda tape, x, y: sign(tape, x))


# Choices


@rule("Where")
def _where(tape: Tape, step: Step, g: str) -> Iterable[Thunk | None]:
    condition, a, b = step.inputs
    return [
        None,
        lambda: onto(tape, tape.own("Keep", g, condition), a),
        lambda: onto(tape, tape.own("Keep", g, condition, negated=1), b),
    ]


@rule("Keep", domain=DOMAIN)
def _keep(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    return [lambda: tape.own("Keep", g, step.inputs[1], negated=step.value("negated", 0))]


@rule("Max", "Min")
def _extreme(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    y = step.outputs[0]
    same = [tape.own("Same", x, y) for x in step.inputs]
    shared = tape.op("Div", g, tape.op("Sum", *same))

    def part(x: str | None, mine: str) -> str:
        return onto(tape, tape.op("Mul", shared, mine), x)

    return [partial(part, x, mine) for x, mine in zip(step.inputs, same, strict=True)]


@rule("Clip")
def _clip(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    x, _, most = (*step.inputs, None, None)[:3]
    y = step.outputs[0]

    def limited() -> str:
        return tape.op("Sub", g, tape.op("Mul", g, tape.own("Same", x, y)))

    def greatest() -> str:
        return tape.op("Mul", limited(), tape.own("Same", most, y))

    return [
        lambda: tape.op("Mul", g, tape.own("Same", x, y)),
        lambda: onto(tape, tape.op("Sub", limited(), greatest()) if most else limited(), step.inputs[1]),
        lambda: onto(tape, greatest(), most),
    ]


# Activations


Factor = Callable[[Tape, Step, str | None], str]


def _activation(*names: str) -> Callable[[Factor], Factor]:
    """Enter functions whose gradient is g times a factor made of the tape, the step and the input."""

    def enter(factor: Factor) -> Factor:
        def of_one(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
            return [lambda: tape.op("Mul", g, factor(tape, step, step.inputs[0]))]

        rule(*names)(of_one)
        return factor

    return enter


def _bent(tape: Tape, x: str | None, below: str | None) -> str:
    """1 where ``x`` is above 0, else ``below``."""
    above = tape.own("Above", x)
    return tape.op("Add", above, tape.op("Mul", tape.op("Sub", one(tape, above), above), below))


def _low(tape: Tape, x: str | None) -> str:
    """``x`` where it is below 0, else 0."""
    return tape.op("Neg", tape.op("Relu", tape.op("Neg", x)))


def _plus(tape: Tape, x: str | None, number: float) -> str:
    """``x`` and a number."""
    return tape.op("Add", x, tape.own("FillLike", x, value=number))


def _rest_of_square(tape: Tape, y: str) -> str:
    """1 - y^2, the slope of tanh where it is y."""
    return tape.op("Sub", one(tape, y), tape.op("Mul", y, y))


@_activation("LeakyRelu")
def _leaky_relu(tape: Tape, step: Step, x: str | None) -> str:
    return _bent(tape, x, tape.own("FillLike", x, value=step.value("alpha", 0.01)))


@rule("PRelu")
def _parametric_relu(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    x, slope = step.inputs
    return [
        lambda: tape.op("Mul", g, _bent(tape, x, slope)),
        lambda: onto(tape, tape.op("Mul", g, _low(tape, x)), slope),
    ]


@_activation("ThresholdedRelu")
def _thresholded_relu(tape: Tape, step: Step, x: str | None) -> str:
    return tape.own("Above", _plus(tape, x, -step.value("alpha", 1.0)))


@_activation("Shrink")
def _shrink(tape: Tape, step: Step, x: str | None) -> str:
    return tape.own("Above", _plus(tape, tape.op("Abs", x), -step.value("lambd", 0.5)))


@_activation("Elu")
def _elu(tape: Tape, step: Step, x: str | None) -> str:
    return _bent(tape, x, tape.own("Scale", tape.op("Exp", _low(tape, x)), by=step.value("alpha", 1.0)))


@_activation("Selu")
def _selu(tape: Tape, step: Step, x: str | None) -> str:
    alpha = step.value("alpha", 1.67326319217681884765625)
    below = tape.own("Scale", tape.op("Exp", _low(tape, x)), by=alpha)
    return tape.own("Scale", _bent(tape, x, below), by=step.value("gamma", 1.05070102214813232421875))


@_activation("Celu")
def _celu(tape: Tape, step: Step, x: str | None) -> str:
    return _bent(tape, x, tape.op("Exp", tape.own("Scale", _low(tape, x), by=1 / step.value("alpha", 1.0))))


@_activation("HardSigmoid")
def _hard_sigmoid(tape: Tape, step: Step, x: str | None) -> str:
    return tape.own("Scale", _between(tape, step.outputs[0]), by=step.value("alpha", 0.2))


def _between(tape: Tape, y: str) -> str:
    """1 where ``y`` lies between 0 and 1, else 0."""
    return tape.op("Mul", tape.own("Above", y), tape.own("Above", tape.op("Sub", one(tape, y), y)))


@_activation("HardSwish")
def _hard_swish(tape: Tape, step: Step, x: str | None) -> str:
    gate = tape.op("HardSigmoid", x, alpha=1 / 6, beta=0.5)
    return tape.op("Add", gate, tape.op("Mul", tape.own("Scale", x, by=1 / 6), _between(tape, gate)))


@_activation("Softsign")
def _softsign(tape: Tape, step: Step, x: str | None) -> str:
    size = _plus(tape, tape.op("Abs", x), 1.0)
    return tape.op("Reciprocal", tape.op("Mul", size, size))


@_activation("Swish")
def _swish(tape: Tape, step: Step, x: str | None) -> str:
    inside = tape.own("Scale", x, by=step.value("alpha", 1.0))
    gate = tape.op("Sigmoid", inside)
    slope = tape.op("Mul", inside, tape.op("Sub", one(tape, gate), gate))
    return tape.op("Mul", gate, _plus(tape, slope, 1.0))


@_activation("Mish")
def _mish(tape: Tape, step: Step, x: str | None) -> str:
    gate = tape.op("Tanh", tape.op("Softplus", x))
    slope = tape.op("Mul", _rest_of_square(tape, gate), tape.op("Sigmoid", x))
    return tape.op("Add", gate, tape.op("Mul", x, slope))


@_activation("Gelu")
def _gelu(tape: Tape, step: Step, x: str | None) -> str:
    square = tape.op("Mul", x, x)
    if step.value("approximate", "none") == "tanh":
        root = math.sqrt(2 / math.pi)
        cubic = _plus(tape, tape.own("Scale", square, by=0.044715), 1.0)
        gate = tape.op("Tanh", tape.own("Scale", tape.op("Mul", x, cubic), by=root))
        inner = tape.own("Scale", _plus(tape, tape.own("Scale", square, by=3 * 0.044715), 1.0), by=root)
        slope = tape.op("Mul", _rest_of_square(tape, gate), inner)
    else:
        gate = tape.op("Erf", tape.own("Scale", x, by=math.sqrt(0.5)))
        slope = tape.own("Scale", tape.op("Exp", tape.own("Scale", square, by=-0.5)), by=math.sqrt(2 / math.pi))
    return tape.own("Scale", tape.op("Add", _plus(tape, gate, 1.0), tape.op("Mul", x, slope)), by=0.5)
