"""Attention and what transformers have around it."""

from __future__ import annotations

import math

from onemodel.ops.registry import operator

_FLOAT = 1
_HALVES = (10, 16)
_PRECISIONS = (1, 10, 11, 16)  # float, float16, double, bfloat16


@operator("Attention", since=23)
def attention(
    q,
    k,
    v,
    attn_mask=None,
    past_key=None,
    past_value=None,
    nonpad_kv_seqlen=None,
    /,
    *,
    is_causal=0,
    kv_num_heads=None,
    left_window_size=-1,
    q_num_heads=None,
    qk_matmul_output_mode=0,
    right_window_size=-1,
    scale=None,
    softcap=0.0,
    softmax_precision=None,
    wanted,
    xp,
):
    """softmax(scale Q K' + mask) V for each head; neighbouring query heads share a head of K and V where Q has more.

    Query i stands at position i + the number of keys before the queries. A query that may see no key gives zeros.
    """
    if not q.ndim == k.ndim == v.ndim or q.ndim not in (3, 4):
        raise ValueError(f"Q, K and V of shapes {q.shape}, {k.shape} and {v.shape} must all have 3 or 4 dimensions")
    joined = q.ndim == 3
    if joined:
        q, k, v = _heads("Q", q, q_num_heads, xp), _heads("K", k, kv_num_heads, xp), _heads("V", v, kv_num_heads, xp)
    if (past_key is None) != (past_value is None):
        raise ValueError("past_key and past_value must be given together")
    if past_key is not None and nonpad_kv_seqlen is not None:
        raise ValueError("nonpad_kv_seqlen and past_key exclude each other")
    _check_heads(q, k, v, past_key, past_value)
    if past_key is not None:
        k, v = xp.concat([past_key, k], axis=2), xp.concat([past_value, v], axis=2)
    present_key, present_value = k, v
    v = xp.convert(v, xp.onnx_code(q.dtype))
    if left_window_size < -1 or right_window_size < -1 or qk_matmul_output_mode not in (0, 1, 2, 3):
        raise ValueError(
            f"window sizes {left_window_size} and {right_window_size} must be -1 or more, "
            f"and qk_matmul_output_mode {qk_matmul_output_mode} 0, 1, 2 or 3"
        )
    window = (left_window_size, 0 if is_causal else right_window_size)
    past = 0 if past_key is None else past_key.shape[2]
    bias, allowed, hidden = _masks(q, k.shape[2], attn_mask, nonpad_kv_seqlen, past, window, xp)
    mode = qk_matmul_output_mode if len(wanted) > 3 and wanted[3] else None
    scale = 1 / math.sqrt(q.shape[3]) if scale is None else scale
    scores = _grouped(q * xp.constant(scale, q), xp.matrix_transpose(k), xp)
    shown = scores if mode == 0 else None
    scores = scores if softcap <= 0 else xp.tanh(scores / softcap) * softcap
    shown = scores if mode == 1 else shown
    scores = scores if bias is None else scores + bias
    scores = scores if allowed is None else xp.where(allowed, scores, xp.constant(-math.inf, scores))
    shown = scores if mode == 2 else shown
    weights = _softmax(scores, softmax_precision, xp)
    weights = weights if hidden is None else xp.where(hidden, xp.constant(0, weights), weights)
    shown = weights if mode == 3 else shown
    y = _grouped(weights, v, xp)
    if joined:
        y = xp.permute_dims(y, (0, 2, 1, 3))
        y = xp.reshape(y, (*y.shape[:2], y.shape[2] * y.shape[3]))
    return y, present_key, present_value, shown


def _heads(name, x, count, xp):
    """(batch, length, heads * size) as (batch, heads, length, size)."""
    if not count or count < 0 or x.shape[2] % count:
        raise ValueError(
            f"{name} of shape {x.shape} does not divide into {count} heads; the attributes must say how many"
        )
    return xp.permute_dims(xp.reshape(x, (*x.shape[:2], count, x.shape[2] // count)), (0, 2, 1, 3))


def _check_heads(q, k, v, past_key, past_value):
    known = [k.shape[:3] == v.shape[:3], q.shape[0] == k.shape[0], q.shape[3] == k.shape[3]]
    if not all(known) or k.shape[1] == 0 or q.shape[1] % k.shape[1]:
        raise ValueError(
            f"Q, K and V, as (batch, heads, length, size) of shapes {q.shape}, {k.shape} and {v.shape}, do not fit"
        )
    for name, past, now in (("past_key", past_key, k), ("past_value", past_value, v)):
        if past is not None and (past.ndim != 4 or (*past.shape[:2], past.shape[3]) != (*now.shape[:2], now.shape[3])):
            raise ValueError(f"{name} of shape {past.shape} does not continue {now.shape}")


def _grouped(a, b, xp):
    """a (batch, heads, m, k) times b (batch, fewer heads, k, n): neighbouring heads of a share one of b."""
    batch, heads, rows, size = a.shape
    if heads == b.shape[1]:
        return xp.matmul(a, b)
    product = xp.matmul(xp.reshape(a, (batch, b.shape[1], heads // b.shape[1] * rows, size)), b)
    return xp.reshape(product, (batch, heads, rows, b.shape[3]))


def _softmax(scores, precision, xp):
    if precision is None:
        return xp.softmax(scores, -1)
    if precision not in _PRECISIONS:
        raise ValueError(f"softmax_precision {precision} is no floating-point type")
    own = xp.onnx_code(scores.dtype)
    if precision not in _HALVES:
        return xp.convert(xp.softmax(xp.convert(scores, precision), -1), own)
    # Half types are computed in float32, and rounded before and after.
    weights = xp.softmax(xp.convert(xp.convert(scores, precision), _FLOAT), -1)
    return xp.convert(xp.convert(weights, precision), own)


def _masks(q, keys, mask, lengths, past, window, xp):
    """What is added to the scores, which of them count, and which rows have none that counts.

    Each is None where it changes nothing. The window's sides are -1 where they are open.
    """
    batch, queries, (left, right) = q.shape[0], q.shape[2], window
    bias = allowed = None
    if mask is not None:
        truth = xp.isdtype(mask.dtype, "bool")
        if not 0 < mask.ndim <= 4 or mask.shape[-1] > keys:
            raise ValueError(f"attn_mask of shape {mask.shape} must have 1 to 4 dimensions, the last for {keys} keys")
        mask = mask if truth else xp.convert(mask, xp.onnx_code(q.dtype))
        short = keys - mask.shape[-1]
        mask = xp.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, short)], False if truth else -math.inf)
        bias, allowed = (None, mask) if truth else (mask, None)
    at = xp.reshape(xp.arange(queries, dtype=xp.int64), (queries, 1))
    key = xp.reshape(xp.arange(keys, dtype=xp.int64), (1, keys))
    # Bounds of the queries' positions, so that a side of the window that hides nothing is left out.
    least, most = past, past + queries - 1
    if lengths is not None:
        if tuple(lengths.shape) != (batch,):
            raise ValueError(f"nonpad_kv_seqlen of shape {lengths.shape} must have {batch} elements")
        lengths = xp.reshape(xp.astype(lengths, xp.int64), (batch, 1, 1, 1))
        allowed = _both(allowed, key < lengths)
        at, least, most = at + (lengths - queries), -queries, keys
    else:
        at = at + past
    if right >= 0 and least + right < keys - 1:
        allowed = _both(allowed, key <= at + right)
    # With no more than a right side every query sees the first key.
    hides = mask is not None or lengths is not None
    if left >= 0 and most > left:
        allowed, hides = _both(allowed, key >= at - left), True
    if not hides:
        return None, allowed, None
    hidden = None if bias is None else bias == -math.inf
    if allowed is not None:
        hidden = ~allowed if hidden is None else hidden | ~allowed
    return bias, allowed, xp.all(hidden, axis=-1, keepdims=True)


def _both(a, b):
    return b if a is None else a & b


@operator("RotaryEmbedding", since=23)
def rotary_embedding(
    X, cos_cache, sin_cache, position_ids=None, /, *, interleaved=0, num_heads=None, rotary_embedding_dim=0, xp
):
    """Pairs of elements of each head turned by the angles of their position; what is past the rotary part stays.

    A pair is an element of the first half with that of the second, or two neighbours where ``interleaved``.
    """
    if X.ndim == 4:
        x, head_axis = X, 1
    elif X.ndim == 3:
        if not num_heads or X.shape[2] % num_heads:
            raise ValueError(f"X of shape {X.shape} does not divide into {num_heads} heads; num_heads must be given")
        x, head_axis = xp.reshape(X, (*X.shape[:2], num_heads, X.shape[2] // num_heads)), 2
    else:
        raise ValueError(f"X of shape {X.shape} must have 3 or 4 dimensions")
    size = rotary_embedding_dim or x.shape[3]
    if size % 2 or not 0 < size <= x.shape[3]:
        raise ValueError(f"the rotary part of {size} elements must be even and within a head's {x.shape[3]}")
    batch, length = x.shape[0], x.shape[3 - head_axis]
    angles = []
    for name, cache in (("cos_cache", cos_cache), ("sin_cache", sin_cache)):
        if position_ids is not None:
            if cache.ndim != 2:
                raise ValueError(f"{name} of shape {cache.shape} must have 2 dimensions where position_ids is given")
            cache = xp.gather(cache, position_ids, 0)
        if tuple(cache.shape) != (batch, length, size // 2):
            raise ValueError(f"{name} gives shape {tuple(cache.shape)}, not {(batch, length, size // 2)}")
        angles.append(xp.expand_dims(cache, axis=head_axis))
    cos, sin = angles
    turned, rest = x[..., :size], x[..., size:]
    if interleaved:
        a, b = turned[..., 0::2], turned[..., 1::2]
    else:
        a, b = turned[..., : size // 2], turned[..., size // 2 :]
    pair = cos * a - sin * b, sin * a + cos * b
    turned = xp.reshape(xp.stack(pair, axis=-1), turned.shape) if interleaved else xp.concat(list(pair), axis=-1)
    y = turned if size == x.shape[3] else xp.concat([turned, rest], axis=-1)
    return xp.reshape(y, X.shape)


@operator(
    "CausalConvWithState",
    since=27,
    factors={"weight": lambda shape, _: ("left", shape[0]) if len(shape) == 3 else None},
)
def causal_conv_with_state(input, weight, bias=None, past_state=None, /, *, activation="none", xp):
    """Each channel of (batch, channels, length) with its own filter (channels, 1, k) over itself and what was before.

    The state is the last k - 1 elements of what was before and the input; before the start there are zeros.
    """
    if activation not in ("none", "silu", "swish"):
        raise ValueError(f"activation {activation!r} must be none, silu or swish")
    fits = input.ndim == weight.ndim == 3 and weight.shape[:2] == (input.shape[1], 1) and weight.shape[2] > 0
    if not fits:
        raise ValueError(
            f"input and weight have shapes {input.shape} and {weight.shape}; they must be (batch, channels, length) "
            "and (channels, 1, k), k from 1 on"
        )
    batch, channels, length = input.shape
    before = weight.shape[2] - 1
    if past_state is None:
        past_state = xp.zeros((batch, channels, before), dtype=input.dtype)
    if tuple(past_state.shape) != (batch, channels, before):
        raise ValueError(f"past_state of shape {past_state.shape} must be {(batch, channels, before)}")
    whole = xp.concat([past_state, input], axis=2)
    y = xp.conv(whole, weight, (1,), (1,), channels)
    if bias is not None:
        if tuple(bias.shape) != (channels,):
            raise ValueError(f"bias of shape {bias.shape} must be {(channels,)}")
        y = y + xp.reshape(bias, (channels, 1))
    y = y if activation == "none" else xp.silu(y)
    return y, whole[:, :, length:]
