"""Random numbers, drawn with the key that the plan fixes: see ``rng`` in ``operator``."""

from __future__ import annotations

import math

from onemodel.ops.registry import operator


@operator("RandomUniform", since=1, widen=False)
def randomuniform(*, dtype=1, high=1.0, low=0.0, seed=None, shape, rng, xp):
    """Draws from [low, high); rounding may reach ``high``."""
    draws = uniform(rng(), _sizes(shape), _computed_in(dtype, xp), xp)
    return xp.astype(draws * xp.constant(high - low, draws) + xp.constant(low, draws), xp.onnx_dtype(dtype))


@operator("RandomUniformLike", since=1, metadata=True, widen=False)
def random_uniform_like(input, /, *, dtype=None, high=1.0, low=0.0, seed=None, rng, xp):
    """Draws from [low, high) in the input's shape, and in its type where ``dtype`` gives none."""
    code = xp.onnx_code(input.dtype) if dtype is None else dtype
    return randomuniform(dtype=code, high=high, low=low, shape=input.shape, rng=rng, xp=xp)


@operator("RandomNormal", since=1, widen=False)
def random_normal(*, dtype=1, mean=0.0, scale=1.0, seed=None, shape, rng, xp):
    """Normal draws with this mean and standard deviation, by the method of Box and Muller."""
    sizes = _sizes(shape)
    count = math.prod(sizes)
    pairs = -(-count // 2)
    pair = uniform(rng(), (2, pairs), _computed_in(dtype, xp), xp)
    radius = xp.sqrt(xp.constant(-2, pair) * xp.log(xp.constant(1, pair) - pair[0, ...]))
    angle = xp.constant(2 * math.pi, pair) * pair[1, ...]
    draws = xp.reshape(xp.concat([radius * xp.cos(angle), radius * xp.sin(angle)])[:count], sizes)
    return xp.astype(draws * xp.constant(scale, draws) + xp.constant(mean, draws), xp.onnx_dtype(dtype))


@operator("RandomNormalLike", since=1, metadata=True, widen=False)
def random_normal_like(input, /, *, dtype=None, mean=0.0, scale=1.0, seed=None, rng, xp):
    """Normal draws in the input's shape, and in its type where ``dtype`` gives none."""
    code = xp.onnx_code(input.dtype) if dtype is None else dtype
    return random_normal(dtype=code, mean=mean, scale=scale, shape=input.shape, rng=rng, xp=xp)


@operator("Bernoulli", since=15)
def bernoulli(input, /, *, dtype=None, seed=None, rng, xp):
    """1 where a draw from [0, 1) is below the input, else 0."""
    drawn = uniform(rng(), input.shape, input.dtype, xp) < input
    return xp.astype(drawn, input.dtype if dtype is None else xp.onnx_dtype(dtype))


@operator("Multinomial", since=7)
def multinomial(input, /, *, dtype=6, sample_size=1, seed=None, rng, xp):
    """``sample_size`` classes for each row of unnormalised log-probabilities.

    A draw from [0, 1) picks the class where the running sum of the probabilities passes it.
    """
    if input.ndim != 2 or input.shape[1] == 0:
        raise ValueError(
            f"the input of shape {input.shape} must be a matrix of log-probabilities, one column per class"
        )
    if sample_size < 1:
        raise ValueError(f"sample_size is {sample_size}; it must be at least 1")
    if dtype not in (6, 7):
        raise ValueError(f"dtype {dtype} is neither int32 (6) nor int64 (7)")
    batch = input.shape[0]
    draws = uniform(rng(), (batch, sample_size), xp.float64, xp)
    rows = xp.astype(input, xp.float64)
    weights = xp.exp(rows - xp.max(rows, axis=1, keepdims=True))
    sums = xp.cumulative_sum(weights, axis=1)
    total = sums[:, -1]
    xp.refuse(~(total > 0), ValueError, "a row holds NaN, or no class that is possible")
    targets = draws * xp.expand_dims(total, axis=1)
    picked = []
    for row in range(batch):
        last = xp.searchsorted(sums[row, ...], xp.reshape(total[row], (1,)), side="left")
        found = xp.searchsorted(sums[row, ...], targets[row, ...], side="right")
        picked.append(xp.where(found > last, last, found))
    result = xp.stack(picked) if picked else xp.zeros((0, sample_size), dtype=xp.int64)
    return xp.astype(result, xp.onnx_dtype(dtype))


def _computed_in(code, xp):
    """The type to draw in for results with this ONNX type: float32 for the half types too."""
    if code not in (1, 10, 11, 16):
        raise TypeError(f"dtype {code} is not float (1), float16 (10), double (11) or bfloat16 (16)")
    return xp.float64 if code == 11 else xp.float32


def _sizes(shape):
    if min(shape, default=0) < 0:
        raise ValueError(f"shape {list(shape)} has a negative size")
    return tuple(shape)


def uniform(key, shape, dtype, xp):
    """Draws from [0, 1): multiples of 2**-24 in float32, of 2**-53 in float64."""
    count, shape = math.prod(shape), tuple(shape)
    if dtype == xp.float32:
        bits = xp.bitwise_right_shift(xp.random_bits(key, count), xp.asarray(8, dtype=xp.uint32))
        return xp.reshape(xp.astype(bits, dtype) * xp.asarray(2.0**-24, dtype=dtype), shape)
    words = xp.reshape(xp.astype(xp.random_bits(key, 2 * count), xp.uint64), (count, 2))
    high = xp.bitwise_right_shift(words[:, 0], xp.asarray(5, dtype=xp.uint64))
    low = xp.bitwise_right_shift(words[:, 1], xp.asarray(6, dtype=xp.uint64))
    bits = high * xp.asarray(2**26, dtype=xp.uint64) + low
    return xp.reshape(xp.astype(bits, dtype) * xp.asarray(2.0**-53, dtype=dtype), shape)
