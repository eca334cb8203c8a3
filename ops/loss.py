"""Losses of classifiers."""

from __future__ import annotations

import math

from onemodel.ops.activation import log_softmax
from onemodel.ops.registry import operator


@operator("NegativeLogLikelihoodLoss", since=12)
def negative_log_likelihood(input, target, weight=None, /, *, ignore_index=None, reduction="mean", xp):
    """-input at each sample's class, times its class's weight; the mean is taken over the sum of the weights.

    Samples of class ``ignore_index`` count nothing.
    """
    if input.ndim < 2 or target.shape != (input.shape[0], *input.shape[2:]):
        raise ValueError(f"target of shape {target.shape} does not give one class for each sample of {input.shape}")
    if reduction not in ("none", "sum", "mean"):
        raise ValueError(f"reduction {reduction!r} must be none, sum or mean")
    classes, weights = xp.astype(target, xp.int64, copy=False), None
    if ignore_index is not None:
        ignored = classes == ignore_index
        classes = xp.where(ignored, xp.constant(0, classes), classes)
    text = f"class {{}} is not in [0, {input.shape[1]}), and is not to be ignored"
    xp.refuse((classes < 0) | (classes >= input.shape[1]), IndexError, text, classes)
    loss = -xp.squeeze(xp.take_along_axis(input, xp.expand_dims(classes, axis=1), axis=1), axis=1)
    if weight is not None:
        if weight.shape != (input.shape[1],):
            raise ValueError(f"weight of shape {weight.shape} must be one number for each of {input.shape[1]} classes")
        weights = xp.gather(weight, classes, 0)
        loss = loss * weights
    if ignore_index is not None:
        weights = xp.ones_like(loss) if weights is None else weights
        loss, weights = (xp.where(ignored, xp.constant(0, loss), array) for array in (loss, weights))
    if reduction == "none":
        return loss
    total = xp.sum(loss)
    if reduction == "sum":
        return total
    return total / (xp.constant(math.prod(loss.shape), loss) if weights is None else xp.sum(weights))


@operator("SoftmaxCrossEntropyLoss", since=12)
def softmax_cross_entropy(scores, labels, weights=None, /, *, ignore_index=None, reduction="mean", xp):
    """NegativeLogLikelihoodLoss of the scores' LogSoftmax along axis 1, and that LogSoftmax."""
    if scores.ndim < 2:
        raise ValueError(f"scores of shape {scores.shape} need an axis of samples and one of classes")
    log_prob = log_softmax(scores, axis=1, xp=xp)
    options = {"ignore_index": ignore_index, "reduction": reduction}
    return negative_log_likelihood(log_prob, labels, weights, **options, xp=xp), log_prob
