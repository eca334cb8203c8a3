"""Functions of one number, activations, rows of probabilities and losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.oracle.draw import Case, Draw, draws


@draws("Sin", "Cos", "Tan", "Sinh", "Cosh", "Asinh", "Atan", "Exp", "Log", "Tanh", "Erf", "Softplus", "Softsign")
def function_of_one_number(d: Draw) -> Case:
    """Of numbers that float32 holds: near a pole the next one has quite another tangent."""
    x = d.array(d.dtype(), d.shape())
    return d.case(x.astype(np.float32).astype(x.dtype) if x.dtype == np.float64 else x, rtol=1e-4)


@draws("Sigmoid")
def sigmoid(d: Draw) -> Case:
    """With numbers far below 0, whose results are small and not 0."""
    x = d.array(d.dtype(), d.shape())
    return d.case(x if d.chance() else d.array(x.dtype, x.shape, "between", -40, 40), rtol=1e-4, atol=0.0)


@draws("Asin", "Acos", "Atanh")
def within_one(d: Draw) -> Case:
    return d.case(d.array(d.dtype(), d.shape(), "between", -1.05, 1.05), rtol=1e-4)


@draws("Acosh")
def from_one_on(d: Draw) -> Case:
    return d.case(d.array(d.dtype(), d.shape(), "between", 0.9, 9), rtol=1e-4)


@draws("Relu", "HardSwish", "Mish")
def activation(d: Draw) -> Case:
    return d.case(d.array(d.dtype(), d.shape()), rtol=1e-4, zeros=False)


@draws("Elu", "Selu", "Celu", "LeakyRelu", "ThresholdedRelu", "HardSigmoid", "Swish")
def with_parameters(d: Draw) -> Case:
    given = {"alpha": d.maybe(d.real(0.1, 2))}
    for name in {"gamma", "beta"} & set(d.schema.attributes):
        given[name] = d.maybe(d.real(-1, 2))
    return d.case(d.array(d.dtype(), d.shape()), rtol=1e-4, zeros=False, **given)


@draws("Shrink")
def shrink(d: Draw) -> Case:
    x = d.array(d.dtype(), d.shape())
    return d.case(x, bias=d.maybe(d.real(-1, 2)), lambd=d.maybe(d.real(0.1, 3)))


@draws("Gelu")
def gelu(d: Draw) -> Case:
    x = d.array(d.dtype(), d.shape())
    return d.case(x, rtol=1e-4, atol=1e-5, zeros=False, approximate=d.maybe("none", "tanh"))


@draws("SwiGLU")
def swiglu(d: Draw) -> Case:
    dtype, shape = d.dtype(), d.shape()
    return d.case(d.array(dtype, shape), d.array(dtype, shape), rtol=1e-4, zeros=False, alpha=d.maybe(d.real(0.2, 2)))


@draws("PRelu")
def prelu(d: Draw) -> Case:
    dtype = d.dtype()
    if d.opset >= 7:
        shape = d.shape()
        slope = d.into(shape)
    else:
        shape = (d.size(), max(d.size(), 1), *d.shape(1, 2))
        slope = d.pick((1,), shape[1:2])
    return d.case(d.array(dtype, shape), d.array(dtype, slope), zeros=False)


@draws("Softmax", "LogSoftmax", "Hardmax")
def rows(d: Draw) -> Case:
    x = d.array(d.dtype(), d.shape(1 if d.opset >= 13 else 2), d.pick("any", "finite", "ties"))
    return d.case(x, rtol=1e-4, atol=1e-5, axis=d.maybe(d.axis(x.ndim)))


@draws("Dropout")
def dropout(d: Draw) -> Case:
    """At inference; training draws numbers, so there only the shape and type are settled."""
    x = d.array(d.dtype(), d.shape())
    if d.opset < 12:
        tested = {"is_test": 1} if d.has("is_test") else {}
        return d.case(x, outputs=d.pick((True,), (True, True)) if d.opset > 6 else 1, ratio=d.maybe(0.0, 0.3), **tested)
    training = d.chance(0.2)
    ratio = d.array(d.dtype("T1", among=("float32", "float64", "float16")), (), "between", 0, 0.9)
    given = [ratio, np.array(training)] if training else [d.maybe(ratio), d.maybe(np.array(False))]
    return d.case(x, *given, outputs=d.pick((True,), (True, True)), free=training, seed=7)


@draws("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def loss(d: Draw) -> Case:
    dtype, classes = d.dtype(among=("float32", "float64", "float16")), d.integer(1, 4)
    batch, *rest = d.shape(1, 3, empty=False)
    scores = d.array(dtype, (batch, classes, *rest), "finite")
    targets = d.array(d.dtype("Tind"), (batch, *rest), "finite", 0, classes - 1)
    weights = d.maybe(d.array(dtype, (classes,), "between", 0.1, 2))
    ignored: Any = d.maybe(0, classes - 1, -1)
    if ignored == -1:
        targets = np.where(d.rng.random(targets.shape) < 0.3, -1, targets).astype(targets.dtype)
    both = d.op == "SoftmaxCrossEntropyLoss" and d.chance()
    return d.case(
        scores,
        targets,
        weights,
        outputs=1 + both,
        rtol=1e-4,
        atol=1e-5,
        zeros=False,
        reduction=d.maybe("none", "mean", "sum"),
        ignore_index=ignored,
    )
