"""ai.onnx.preview.training: one step of an optimizer."""

from __future__ import annotations

import math

from onemodel.ops.registry import operator

TRAINING = "ai.onnx.preview.training"


@operator("Adagrad", since=1, domain=TRAINING, host=("t",))
def adagrad(r, t, /, *inputs, decay_factor=0.0, epsilon=1e-6, norm_coefficient=0.0, xp):
    """Each tensor a step down its gradient, over the root of the sum of all squared gradients so far."""
    count = _count(t)
    tensors, states = [], []
    for x, gradient, squares in _grouped(inputs, 3):
        rate = _scalar(r, x, xp) / xp.constant(1 + count * decay_factor, x)
        slope = _regularized(x, gradient, norm_coefficient, xp)
        squares = squares + slope * slope
        tensors.append(x - rate * slope / (xp.sqrt(squares) + xp.constant(epsilon, x)))
        states.append(squares)
    return (*tensors, *states)


@operator("Adam", since=1, domain=TRAINING, host=("t",))
def adam(
    r,
    t,
    /,
    *inputs,
    alpha=0.9,
    beta=0.999,
    epsilon=1e-6,
    norm_coefficient=0.0,
    norm_coefficient_post=0.0,
    xp,
):
    """Each tensor a step down the running mean of its gradients, over the root of that of their squares."""
    count = _count(t)
    correction = 1.0
    if count > 0:
        decay = 1 - _power(alpha, count)
        if decay == 0:
            raise ValueError("alpha is 1, for which the corrected learning rate is not defined after the first update")
        correction = math.sqrt(1 - _power(beta, count)) / decay
    tensors, means, squares = [], [], []
    for x, gradient, mean, square in _grouped(inputs, 4):
        slope = _regularized(x, gradient, norm_coefficient, xp)
        means.append(xp.constant(alpha, x) * mean + xp.constant(1 - alpha, x) * slope)
        squares.append(xp.constant(beta, x) * square + xp.constant(1 - beta, x) * slope * slope)
        rate = _scalar(r, x, xp) * xp.constant(correction, x)
        step = rate * means[-1] / (xp.sqrt(squares[-1]) + xp.constant(epsilon, x))
        tensors.append(xp.constant(1 - norm_coefficient_post, x) * (x - step))
    return (*tensors, *means, *squares)


@operator("Momentum", since=1, domain=TRAINING, host=("t",))
def momentum(r, t, /, *inputs, alpha, beta, mode, norm_coefficient, xp):
    """Each tensor a step down its momentum, to which the gradient is added; ``nesterov`` looks one step ahead."""
    if mode not in ("standard", "nesterov"):
        raise ValueError(f"mode {mode!r} is not standard or nesterov")
    share = beta if _count(t) > 0 else 1.0
    tensors, momenta = [], []
    for x, gradient, velocity in _grouped(inputs, 3):
        slope = _regularized(x, gradient, norm_coefficient, xp)
        velocity = xp.constant(alpha, x) * velocity + xp.constant(share, x) * slope
        step = velocity if mode == "standard" else slope + xp.constant(alpha, x) * velocity
        tensors.append(x - _scalar(r, x, xp) * step)
        momenta.append(velocity)
    return (*tensors, *momenta)


def _grouped(inputs, size):
    """The inputs that belong together: each tensor with its gradient and its states."""
    if not inputs or len(inputs) % size:
        raise ValueError(f"there are {len(inputs)} tensors, gradients and states; there must be {size} for each tensor")
    count = len(inputs) // size
    groups = [inputs[i::count] for i in range(count)]
    for group in groups:
        if any(part.shape != group[0].shape or part.dtype != group[0].dtype for part in group):
            raise ValueError(
                f"a tensor, its gradient and its states must have one shape and type; their shapes are "
                f"{[part.shape for part in group]}"
            )
    return groups


def _regularized(x, gradient, coefficient, xp):
    return xp.constant(coefficient, x) * x + gradient


def _count(t):
    """The update count as a number."""
    if math.prod(t.shape) != 1:
        raise ValueError(f"T of shape {t.shape} must be a scalar")
    return int(t.reshape(-1)[0])


def _scalar(r, x, xp):
    """The learning rate in x's type."""
    if math.prod(r.shape) != 1:
        raise ValueError(f"R of shape {r.shape} must be a scalar")
    return xp.astype(xp.reshape(r, ()), x.dtype)


def _power(base, exponent):
    """base ** exponent by squaring: the same bits on every machine, which C's pow does not promise."""
    result = 1.0
    while exponent:
        if exponent % 2:
            result *= base
        base *= base
        exponent //= 2
    return result
