"""How each operator hands a gradient back from its output to its inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import onnx_ir as ir

from onemodel import attributes as attribute_values
from onemodel.ops.gradient import DOMAIN

Thunk = Callable[[], str]
Rule = Callable[["Tape", "Step", str], Iterable[Thunk | None]]
"""Gets the tape, the step and the name of its output's gradient; returns for each input what makes its gradient."""

RULES: dict[tuple[str, str], Rule] = {}


@dataclass
class Step:
    """A node as names: inputs may be None, outputs empty."""

    op_type: str
    domain: str
    inputs: tuple[str | None, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]  # ir.Attr by name
    overload: str = ""

    def value(self, name: str, default: Any) -> Any:
        """An attribute's value."""
        return attribute_values.python_value(self.attributes[name]) if name in self.attributes else default


@dataclass
class Tape:
    """Steps in order, and the names given so far."""

    opset: int
    prefix: str
    steps: list[Step] = field(default_factory=list)
    count: int = 0

    def op(self, op_type: str, *inputs: str | None, domain: str = "", **attributes: Any) -> str:
        """Add a step of one output; returns its name."""
        self.count += 1
        name = f"{self.prefix}{self.count}"
        attrs = {
            key: value if isinstance(value, ir.Attr) else ir.convenience.convert_attribute(key, value)
            for key, value in attributes.items()
            if value is not None
        }
        self.steps.append(Step(op_type, domain, inputs, (name,), attrs))
        return name

    def own(self, op_type: str, *inputs: str | None, **attributes: Any) -> str:
        """The same with an operator of ``onemodel.ops.gradient``."""
        return self.op(op_type, *inputs, domain=DOMAIN, **attributes)


def constant(tape: Tape, step: Step, g: str) -> Iterable[None]:
    """The rule of operators whose results do not change with small changes of their inputs."""
    return ()


for _name in (
    "ArgMax ArgMin Ceil Constant ConstantOfShape Equal Floor Greater GreaterOrEqual IsInf IsNaN Less LessOrEqual Not "
    "Round Shape Sign Size"
).split():
    RULES["", _name] = constant
for _name in ("FillLike", "Above"):
    RULES[DOMAIN, _name] = constant


def _rule(*names: str, domain: str = "") -> Callable[[Rule], Rule]:
    def enter(rule: Rule) -> Rule:
        for name in names:
            RULES[domain, name] = rule
        return rule

    return enter


def _onto(tape: Tape, g: str, x: str | None) -> str:
    """A gradient in the shape of ``x``, which may have been broadcast."""
    return tape.own("SumTo", g, x)


def _with_square(tape: Tape, operation: str, x: str | None) -> str:
    """1 and the square of ``x``, added or subtracted."""
    return tape.op(operation, _one(tape, x), tape.op("Mul", x, x))


def _one(tape: Tape, x: str | None) -> str:
    return tape.own("FillLike", x, value=1.0)


# Arithmetic


@_rule("Add", "Sum", "Mean")
def _add(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    if step.op_type == "Mean":
        g = tape.own("Scale", g, by=1 / len(step.inputs))
    return [partial(_onto, tape, g, x) for x in step.inputs]


@_rule("Sub")
def _sub(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    a, b = step.inputs
    return [lambda: _onto(tape, g, a), lambda: _onto(tape, tape.op("Neg", g), b)]


@_rule("Mul")
def _mul(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    a, b = step.inputs
    return [lambda: _onto(tape, tape.op("Mul", g, b), a), lambda: _onto(tape, tape.op("Mul", g, a), b)]


@_rule("Div")
def _div(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    a, b = step.inputs

    def second() -> str:
        return _onto(tape, tape.op("Neg", tape.op("Div", tape.op("Mul", g, step.outputs[0]), b)), b)

    return [lambda: _onto(tape, tape.op("Div", g, b), a), second]


@_rule("Pow")
def _pow(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    a, b = step.inputs

    def first() -> str:
        lower = tape.op("Pow", a, tape.op("Sub", b, _one(tape, b)))
        return _onto(tape, tape.op("Mul", g, tape.op("Mul", b, lower)), a)

    def second() -> str:
        return _onto(tape, tape.op("Mul", g, tape.op("Mul", step.outputs[0], tape.op("Log", a))), b)

    return [first, second]


# Functions of one element: the factor that the gradient takes


def _elementwise(name: str, factor: Callable[[Tape, str | None, str], str], *, divide: bool = False) -> None:
    """Enter a function whose gradient is g times (or over) ``factor`` of the tape, the input and the output."""

    def rule(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
        operation = "Div" if divide else "Mul"
        return [lambda: tape.op(operation, g, factor(tape, step.inputs[0], step.outputs[0]))]

    RULES["", name] = rule


_elementwise("Neg", lambda tape, x, y: tape.own("FillLike", x, value=-1.0))
_elementwise("Exp", lambda tape, x, y: y)
_elementwise("Log", lambda tape, x, y: x or "", divide=True)
_elementwise("Sqrt", lambda tape, x, y: tape.op("Add", y, y), divide=True)
_elementwise("Reciprocal", lambda tape, x, y: tape.op("Neg", tape.op("Mul", y, y)))
_elementwise("Tan", lambda tape, x, y: tape.op("Add", _one(tape, y), tape.op("Mul", y, y)))
_elementwise("Sinh", lambda tape, x, y: tape.op("Cosh", x))
_elementwise("Cosh", lambda tape, x, y: tape.op("Sinh", x))
_elementwise("Asin", lambda tape, x, y: tape.op("Sqrt", _with_square(tape, "Sub", x)), divide=True)
_elementwise("Acos", lambda tape, x, y: tape.op("Neg", tape.op("Sqrt", _with_square(tape, "Sub", x))), divide=True)
_elementwise("Atan", lambda tape, x, y: _with_square(tape, "Add", x), divide=True)
_elementwise("Asinh", lambda tape, x, y: tape.op("Sqrt", _with_square(tape, "Add", x)), divide=True)
_elementwise(
    "Acosh", lambda tape, x, y: tape.op("Sqrt", tape.op("Sub", tape.op("Mul", x, x), _one(tape, x))), divide=True
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
_elementwise("Tanh", lambda tape, x, y: tape.op("Sub", _one(tape, y), tape.op("Mul", y, y)))
_elementwise("Sigmoid", lambda tape, x, y: tape.op("Mul", y, tape.op("Sub", _one(tape, y), y)))
_elementwise("Softplus", lambda tape, x, y: tape.op("Sigmoid", x))
_elementwise("Relu", lambda tape, x, y: tape.own("Above", x))
_elementwise("Abs", lambda tape, x, y: tape.op("Sub", tape.own("Above", x), tape.own("Above", tape.op("Neg", x))))


@_rule("LeakyRelu")
def _leaky_relu(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    def first() -> str:
        rising = tape.own("Above", step.inputs[0])
        falling = tape.own("Scale", tape.op("Sub", _one(tape, g), rising), by=step.value("alpha", 0.01))
        return tape.op("Mul", g, tape.op("Add", rising, falling))

    return [first]


@_rule("Where")
def _where(tape: Tape, step: Step, g: str) -> Iterable[Thunk | None]:
    condition, a, b = step.inputs
    return [
        None,
        lambda: _onto(tape, tape.own("Keep", g, condition), a),
        lambda: _onto(tape, tape.own("Keep", g, condition, negated=1), b),
    ]


# Shapes


@_rule("Identity")
def _identity(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    return [lambda: g]


@_rule("Reshape", "Flatten", "Squeeze", "Unsqueeze")
@_rule("ReshapeLike", domain=DOMAIN)
def _reshape(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    return [lambda: tape.own("ReshapeLike", g, step.inputs[0])]


@_rule("Transpose")
def _transpose(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    perm = step.value("perm", None)
    back = None if perm is None else [perm.index(i) for i in range(len(perm))]
    return [lambda: tape.op("Transpose", g, perm=back)]


@_rule("Concat")
def _concat(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    axis = step.value("axis", 1)
    return [partial(tape.own, "Part", g, *step.inputs, axis=axis, index=i) for i in range(len(step.inputs))]


@_rule("Expand")
@_rule("ExpandTo", domain=DOMAIN)
def _expand(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    return [lambda: _onto(tape, g, step.inputs[0])]


@_rule("SumTo", domain=DOMAIN)
def _sum_to(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    return [lambda: tape.own("ExpandTo", tape.own("ReshapeLike", g, step.inputs[1]), step.inputs[0])]


# Sums


@_rule("ReduceSum", "ReduceMean")
def _reduce(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    axes = step.inputs[1] if len(step.inputs) > 1 else None
    options: dict[str, Any] = {key: step.attributes.get(key) for key in ("keepdims", "noop_with_empty_axes")}
    mean = int(step.op_type == "ReduceMean")
    along = step.attributes.get("axes")
    if along is not None:
        options["along"] = ir.Attr("along", along.type, along.value)
    return [lambda: tape.own("Spread", g, step.inputs[0], axes, mean=mean, **options)]


@_rule("Spread", domain=DOMAIN)
def _spread(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    options: dict[str, Any] = {key: step.attributes.get(key) for key in ("keepdims", "noop_with_empty_axes")}
    along = step.attributes.get("along")
    if along is not None:
        options["axes"] = ir.Attr("axes", along.type, along.value)
    name = "ReduceMean" if step.value("mean", 0) else "ReduceSum"
    return [lambda: tape.op(name, g, *[x for x in step.inputs[2:] if x], **options)]


def _sum_of_rows(tape: Tape, step: Step, x: str) -> str:
    rows = int(tape.opset < 13)
    return tape.own("SumAlong", x, axis=step.value("axis", 1 if rows else -1), rows=rows)


@_rule("SumAlong", domain=DOMAIN)
def _sum_along(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    return [lambda: tape.own("ExpandTo", g, step.inputs[0])]


@_rule("Softmax")
def _softmax(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    y = step.outputs[0]

    def first() -> str:
        shared = _sum_of_rows(tape, step, tape.op("Mul", g, y))
        return tape.op("Mul", y, tape.op("Sub", g, shared))

    return [first]


@_rule("LogSoftmax")
def _log_softmax(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    def first() -> str:
        shared = tape.op("Mul", tape.op("Exp", step.outputs[0]), _sum_of_rows(tape, step, g))
        return tape.op("Sub", g, shared)

    return [first]


# Products. Each gradient of a bilinear operator is one itself, and their gradients are among the same three.


@_rule("MatMul")
def _matmul(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    a, b = step.inputs
    return [lambda: tape.own("MatMulFirst", g, a, b), lambda: tape.own("MatMulSecond", g, a, b)]


@_rule("MatMulFirst", domain=DOMAIN)
def _matmul_first(tape: Tape, step: Step, g: str) -> Iterable[Thunk | None]:
    h, _, b = step.inputs
    return [lambda: tape.op("MatMul", g, b), None, lambda: tape.own("MatMulSecond", h, g, b)]


@_rule("MatMulSecond", domain=DOMAIN)
def _matmul_second(tape: Tape, step: Step, g: str) -> Iterable[Thunk | None]:
    h, a, _ = step.inputs
    return [lambda: tape.op("MatMul", a, g), lambda: tape.own("MatMulFirst", h, a, g), None]


@_rule("Gemm")
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
        lambda: _onto(tape, tape.own("Scale", g, by=step.value("beta", 1.0)), step.inputs[2]),
    ]


@_rule("Scale", domain=DOMAIN)
def _scale(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    return [lambda: tape.own("Scale", g, by=step.value("by", 1.0))]


@_rule("Keep", domain=DOMAIN)
def _keep(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    return [lambda: tape.own("Keep", g, step.inputs[1], negated=step.value("negated", 0))]


@_rule("Conv")
def _conv(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    x, w = step.inputs[:2]
    return [
        lambda: tape.own("ConvInput", g, w, x, **step.attributes),
        lambda: tape.own("ConvWeight", g, x, w, **step.attributes),
        lambda: tape.own("ChannelSum", g),
    ]


@_rule("ConvInput", domain=DOMAIN)
def _conv_input(tape: Tape, step: Step, g: str) -> Iterable[Thunk | None]:
    h, w, _ = step.inputs
    return [
        lambda: tape.op("Conv", g, w, **step.attributes),
        lambda: tape.own("ConvWeight", h, g, w, **step.attributes),
        None,
    ]


@_rule("ConvWeight", domain=DOMAIN)
def _conv_weight(tape: Tape, step: Step, g: str) -> Iterable[Thunk | None]:
    h, x, _ = step.inputs
    return [
        lambda: tape.op("Conv", x, g, **step.attributes),
        lambda: tape.own("ConvInput", h, g, x, **step.attributes),
        None,
    ]


@_rule("ChannelSum", domain=DOMAIN)
def _channel_sum(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    return [lambda: tape.own("ChannelSpread", g, step.inputs[0])]


@_rule("ChannelSpread", domain=DOMAIN)
def _channel_spread(tape: Tape, step: Step, g: str) -> Iterable[Thunk]:
    return [lambda: tape.own("ChannelSum", g)]
