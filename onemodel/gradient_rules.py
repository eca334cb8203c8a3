"""The table of how operators hand a gradient back from their outputs to their inputs, and what its rules write with.

The rules are in ``gradient_elementwise``, ``gradient_shapes``, ``gradient_reductions`` and ``gradient_products``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import onnx_ir as ir

from onemodel import attributes as attribute_values
from onemodel.ops.gradient import DOMAIN

Thunk = Callable[[], str]
Rule = Callable[["Tape", "Step", str], Iterable[Thunk | None]]
"""Gets the tape, the step and the name of its output's gradient; returns for each input what makes its gradient."""

RULES: dict[tuple[str, str], Rule] = {}
SEVERAL = {("", "Split")}
"""Operators of several outputs; their rules find the outputs' gradients on the tape."""


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
    gradients: dict[str, str] = field(default_factory=dict)  # by the name of the value

    def name(self) -> str:
        """A name that is free."""
        self.count += 1
        return f"{self.prefix}{self.count}"

    def op(self, op_type: str, *inputs: str | None, domain: str = "", **attributes: Any) -> str:
        """Add a step of one output; returns its name."""
        name = self.name()
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
    "And ArgMax ArgMin Ceil Constant ConstantOfShape Equal EyeLike Floor Greater GreaterOrEqual IsInf IsNaN Less "
    "LessOrEqual NonZero Not Or Round Shape Sign Size Xor"
).split():
    RULES["", _name] = constant
for _name in ("FillLike", "Above", "Same", "Places"):
    RULES[DOMAIN, _name] = constant


def rule(*names: str, domain: str = "") -> Callable[[Rule], Rule]:
    """A decorator that enters a rule for operators of one domain."""

    def enter(rule: Rule) -> Rule:
        for name in names:
            RULES[domain, name] = rule
        return rule

    return enter


def onto(tape: Tape, g: str, x: str | None) -> str:
    """A gradient in the shape of ``x``, which may have been broadcast."""
    return tape.own("SumTo", g, x)


def one(tape: Tape, x: str | None) -> str:
    """1 in the shape and type of ``x``."""
    return tape.own("FillLike", x, value=1.0)
