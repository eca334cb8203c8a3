"""Normalization: elements scaled by statistics of those around them; and Dropout."""

from __future__ import annotations

import math

from onemodel.ops.axes import one_axis, one_number, some_axes
from onemodel.ops.random import uniform
from onemodel.ops.registry import operator


@operator("BatchNormalization", since=14)
def batch_normalization(
    x, scale, b, input_mean, input_var, /, *, epsilon=1e-5, momentum=0.9, training_mode=0, wanted, xp
):
    """(x - mean) * (scale / sqrt(variance + epsilon)) + b, per channel.

    In training the statistics are the batch's own, and the running ones, moved towards them, are the other outputs.
    """
    if not training_mode:
        if any(wanted[1:]):
            raise ValueError("running_mean and running_var are outputs of training_mode 1 only")
        return _normalized(x, scale, b, input_mean, input_var, epsilon, xp)
    return _trained(x, scale, b, input_mean, input_var, epsilon, momentum, xp)[:3]


@operator("BatchNormalization", since=9)
def batch_normalization_by_outputs(x, scale, b, mean, var, /, *, epsilon=1e-5, momentum=0.9, wanted, xp):
    """Before opset 14 asking for more than Y means training."""
    return batch_normalization_of_elements(
        x, scale, b, mean, var, epsilon=epsilon, momentum=momentum, wanted=wanted, xp=xp
    )


@operator("BatchNormalization", since=7)
def batch_normalization_of_elements(x, scale, b, mean, var, /, *, epsilon=1e-5, momentum=0.9, spatial=1, wanted, xp):
    """Before opset 9 ``spatial`` 0 means statistics of each element of a sample."""
    if not any(wanted[1:]):
        return _normalized(x, scale, b, mean, var, epsilon, xp, spatial)
    return _trained(x, scale, b, mean, var, epsilon, momentum, xp, spatial)


@operator("BatchNormalization", since=6)
def batch_normalization_by_flag(x, scale, b, mean, var, /, *, epsilon=1e-5, is_test=0, momentum=0.9, spatial=1, xp):
    """Before opset 7 ``is_test`` tells training from inference."""
    if is_test:
        return _normalized(x, scale, b, mean, var, epsilon, xp, spatial)
    return _trained(x, scale, b, mean, var, epsilon, momentum, xp, spatial)


def _statistics_shape(x, arrays, spatial):
    """The shape of scale, B, mean and var: one per channel, or one per element of a sample where ``spatial`` is 0."""
    if x.ndim == 0:
        raise ValueError("X is a scalar; it must have a batch axis")
    expected = x.shape[1:] if not spatial else x.shape[1:2] if x.ndim > 1 else (1,)
    if any(array.shape != expected for array in arrays):
        shapes = ", ".join(str(array.shape) for array in arrays)
        raise ValueError(
            f"scale, B, mean and var must have the shape {expected} for X of shape {x.shape}, not {shapes}"
        )
    return expected


def _normalized(x, scale, b, mean, var, epsilon, xp, spatial=1):
    """With given statistics."""
    expected = _statistics_shape(x, (scale, b, mean, var), spatial)
    dtype = xp.result_type(x, scale, b, mean, var)
    shape = (*[1] * (x.ndim > 1), *expected, *[1] * (max(x.ndim, 1) - 1 - len(expected)))
    wide, scale, b, mean, var = (xp.astype(array, dtype, copy=False) for array in (x, scale, b, mean, var))
    factor = scale / xp.sqrt(var + xp.constant(epsilon, var))
    y = xp.rescale(wide, *(xp.reshape(array, shape) for array in (mean, factor, b)))
    return xp.astype(y, x.dtype, copy=False)


def _trained(x, scale, b, mean, var, epsilon, momentum, xp, spatial=1):
    """Y by the batch's statistics, the running mean and variance moved towards them, and the statistics themselves."""
    shape = _statistics_shape(x, (scale, b, mean, var), spatial)
    axes = (0,) if x.ndim == 1 or not spatial else (0, *range(2, x.ndim))
    batch_mean = xp.mean(x, axis=axes, keepdims=True)
    off = x - batch_mean
    batch_var = xp.reshape(xp.mean(off * off, axis=axes), shape)
    batch_mean = xp.reshape(batch_mean, shape)
    y = _normalized(x, scale, b, batch_mean, batch_var, epsilon, xp, spatial)
    # momentum is a float32 number, and so is the rest that it leaves to 1.
    moved = [
        old * xp.constant(momentum, old) + xp.astype(new, old.dtype, copy=False) * xp.constant(1 - momentum, old)
        for old, new in ((mean, batch_mean), (var, batch_var))
    ]
    return y, *moved, batch_mean, batch_var


@operator("LRN", since=1)
def local_response_normalization(x, /, *, alpha=1e-4, beta=0.75, bias=1.0, size, xp):
    """x / (bias + alpha / size * sum of squares of ``size`` channels around it) ** beta; the odd one comes after."""
    if size < 1 or x.ndim < 2:
        raise ValueError(f"size must be 1 or more and X have channels; size is {size} and X's shape {x.shape}")
    widths = [(0, 0), ((size - 1) // 2, size // 2), *[(0, 0)] * (x.ndim - 2)]
    squares = xp.pad(x * x, widths)
    total = xp.sum(xp.stack([squares[:, i : i + x.shape[1], ...] for i in range(size)], axis=0), axis=0)
    return x / xp.pow(xp.constant(bias, x) + xp.constant(alpha / size, x) * total, xp.constant(beta, x))


@operator("LayerNormalization", since=17)
def layer_normalization(x, scale, b=None, /, *, axis=-1, epsilon=1e-5, stash_type=1, xp):
    """(x - mean) / sqrt(variance + epsilon) over the axes from ``axis`` on, times scale, plus b; mean; 1 / deviation.

    The statistics are of type ``stash_type``, and so is what they are computed from.
    """
    axes = _axes_from(x, axis)
    _refuse_larger(x, scale=scale, b=b)
    wide = _stashed(x, stash_type, xp)
    if wide.dtype == x.dtype:
        y, mean, inverse = xp.standardized(wide, axes, epsilon, scale, b)
    else:
        y, mean, inverse = xp.standardized(wide, axes, epsilon)
        y = xp.astype(y, x.dtype) * scale
        y = y if b is None else y + b
    stash = xp.onnx_dtype(stash_type)
    return y, xp.astype(mean, stash, copy=False), xp.astype(inverse, stash, copy=False)


def _refuse_larger(x, **factors):
    """Factors broadcast to X's shape, and X to none of theirs."""
    for name, factor in factors.items():
        if factor is None:
            continue
        sizes = x.shape[x.ndim - factor.ndim :] if factor.ndim <= x.ndim else ()
        if len(sizes) != factor.ndim or any(
            size not in (1, most) for size, most in zip(factor.shape, sizes, strict=True)
        ):
            raise ValueError(f"{name} of shape {factor.shape} does not broadcast to X's shape {x.shape}")


@operator("RMSNormalization", since=23)
def rms_normalization(x, scale, /, *, axis=-1, epsilon=1e-5, stash_type=1, xp):
    """x / sqrt(mean of squares + epsilon) over the axes from ``axis`` on, computed in ``stash_type``, times scale."""
    _refuse_larger(x, scale=scale)
    wide = _stashed(x, stash_type, xp)
    mean = xp.mean(wide * wide, axis=_axes_from(x, axis), keepdims=True)
    y = xp.astype(wide / xp.sqrt(mean + xp.constant(epsilon, wide)), x.dtype, copy=False)
    return xp.astype(y, scale.dtype, copy=False) * scale


@operator("GroupNormalization", since=21)
def group_normalization(x, scale, bias, /, *, epsilon=1e-5, num_groups, stash_type=1, xp):
    """(x - mean) / sqrt(variance + epsilon) per sample and group of channels; scale and bias are per channel."""
    y = _normalized_groups(x, num_groups, epsilon, stash_type, xp)
    return _scaled(xp.reshape(y, x.shape), scale, bias, (1, x.shape[1], *[1] * (x.ndim - 2)), xp)


@operator("GroupNormalization", since=18)
def group_normalization_with_group_scale(x, scale, bias, /, *, epsilon=1e-5, num_groups, xp):
    """Before opset 21 scale and bias are per group."""
    y = _normalized_groups(x, num_groups, epsilon, 1, xp)
    return xp.reshape(_scaled(y, scale, bias, (1, num_groups, 1), xp), x.shape)


def _normalized_groups(x, count, epsilon, stash_type, xp):
    """Shape (N, groups, elements of a group), with x's dtype."""
    if x.ndim < 2 or count < 1 or x.shape[1] % count:
        raise ValueError(f"the channels of X, whose shape is {x.shape}, do not divide into {count} groups")
    grouped = xp.reshape(x, (x.shape[0], count, math.prod(x.shape[1:]) // count))
    off, variance = _centred(_stashed(grouped, stash_type, xp), 2, xp)
    return xp.astype(off / xp.sqrt(variance + xp.constant(epsilon, off)), x.dtype, copy=False)


@operator("InstanceNormalization", since=6)
def instance_normalization(input, scale, b, /, *, epsilon=1e-5, xp):
    """(x - mean) / sqrt(variance + epsilon) per sample and channel, times scale, plus b."""
    if input.ndim < 3:
        raise ValueError(f"input must have batch, channels and spatial axes; its shape is {input.shape}")
    off, variance = _centred(input, tuple(range(2, input.ndim)), xp)
    y = off / xp.sqrt(variance + xp.constant(epsilon, off))
    return _scaled(y, scale, b, (1, input.shape[1], *[1] * (input.ndim - 2)), xp)


@operator("MeanVarianceNormalization", since=9)
def mean_variance_normalization(x, /, *, axes=(0, 2, 3), xp):
    """(x - mean) / deviation over ``axes``; 0 where the deviation is 0."""
    off, variance = _centred(x, tuple(some_axes(axes, x.ndim)), xp)
    return _ratio(off, xp.sqrt(variance), xp)


@operator("LpNormalization", since=1)
def lp_normalization(input, /, *, axis=-1, p=2, xp):
    """x over its 1-norm or 2-norm along ``axis``; 0 where the norm is 0."""
    if p not in (1, 2):
        raise ValueError(f"p must be 1 or 2, not {p}")
    axis = one_axis(axis, input.ndim)
    if p == 1:
        return _ratio(input, xp.sum(xp.abs(input), axis=axis, keepdims=True), xp)
    return _ratio(input, xp.sqrt(xp.sum(input * input, axis=axis, keepdims=True)), xp)


def _ratio(x, divisor, xp):
    """x / divisor; x, which is 0 there, where the divisor is 0."""
    return x / xp.where(divisor == 0, xp.constant(1, divisor), divisor)


def _scaled(x, scale, b, shape, xp):
    """x * scale + b with scale and b, 1-D, in ``shape``."""
    count = math.prod(shape)
    if scale.shape != (count,) or b.shape != (count,):
        raise ValueError(f"scale and bias must have the shape ({count},), not {scale.shape} and {b.shape}")
    return x * xp.reshape(scale, shape) + xp.reshape(b, shape)


def _centred(x, axes, xp):
    """x less its mean over ``axes``, and its variance: the mean square of that."""
    off = x - xp.mean(x, axis=axes, keepdims=True)
    return off, xp.mean(off * off, axis=axes, keepdims=True)


def _stashed(x, stash_type, xp):
    """x as ``stash_type`` has it, in a type to compute in: float32 for the types of 16 bits."""
    stash = xp.onnx_dtype(stash_type)
    x = xp.astype(x, stash, copy=False)
    return x if stash in (xp.float32, xp.float64) else xp.astype(x, xp.float32)


def _axes_from(x, axis):
    """All axes from ``axis`` on."""
    return tuple(range(one_axis(axis, x.ndim), x.ndim))


def _in_training(inputs, attributes):
    """Whether the input training_mode may be true."""
    mode = inputs[2] if len(inputs) > 2 else None
    return mode is ... or (mode is not None and bool(mode))


@operator("Dropout", since=12, host=("ratio", "training_mode"), widen=False, draws=_in_training)
def dropout(data, ratio=None, training_mode=None, /, *, seed=None, rng, xp):
    """data, in training with ``ratio`` of its elements set to 0 and the others over 1 - ratio; and what was kept."""
    ratio = 0.5 if ratio is None else one_number(ratio, "ratio", float)
    if not 0 <= ratio < 1:
        raise ValueError(f"ratio must lie in [0, 1), not be {ratio}")
    if training_mode is None or not one_number(training_mode, "training_mode", bool) or ratio == 0:
        return data, xp.ones(data.shape, dtype=xp.bool)
    return _dropped(data, ratio, seed, rng, xp)


@operator("Dropout", since=10, widen=False)
def dropout_at_inference(data, /, *, ratio=0.5, xp):
    """data as it is, and that all of it was kept."""
    return data, xp.ones(data.shape, dtype=xp.bool)


@operator("Dropout", since=7, widen=False)
def dropout_with_mask_of_data_type(data, /, *, ratio=0.5, xp):
    """Before opset 10 the mask has data's type."""
    return data, xp.ones(data.shape, dtype=data.dtype)


@operator("Dropout", since=6, widen=False, draws=lambda inputs, attributes: not attributes["is_test"])
def dropout_by_flag(data, /, *, is_test=0, ratio=0.5, rng, xp):
    """Before opset 7 ``is_test`` tells training from inference."""
    if is_test or ratio == 0:
        return data, xp.ones(data.shape, dtype=data.dtype)
    y, kept = _dropped(data, ratio, None, rng, xp)
    return y, xp.astype(kept, data.dtype)


def _dropped(data, ratio, seed, rng, xp):
    """Elements whose draw lies below ``ratio`` are dropped; draws come in the order of the elements.

    A seed is one of NumPy's legacy generator, as the official suite has it.
    """
    if seed is None:
        kept = uniform(rng(), data.shape, xp.float32, xp) >= ratio
    else:
        kept = xp.from_host(xp.legacy_uniform(seed, data.shape) >= ratio)
    wide = data if data.dtype in (xp.float32, xp.float64) else xp.astype(data, xp.float32)
    y = xp.where(kept, wide * xp.constant(1 / (1 - ratio), wide), xp.constant(0, wide))
    return xp.astype(y, data.dtype, copy=False), kept
