"""Attention and its like, transforms, windows."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.oracle.draw import Case, Draw, code, draws
from tests.oracle.layers import near
from tests.oracle.shape import ints


@draws("Attention")
def attention(d: Draw) -> Case:
    dtype, batch, groups = d.dtype("T1", among=("float32", "float16", "float64")), d.integer(1, 2), d.integer(1, 2)
    kv_heads = d.integer(1, 2)
    heads, queries, keys, size, values = kv_heads * groups, *d.integers(1, 4, 4)
    past = d.integer(0, 2) if d.chance(0.4) else None
    shapes: list[tuple[int, ...]] = [
        (batch, heads, queries, size),
        (batch, kv_heads, keys, size),
        (batch, kv_heads, keys, values),
    ]
    options: dict[str, Any] = {
        "is_causal": d.maybe(0, 1),
        "scale": d.maybe(d.real(0.1, 1)),
        "softcap": d.maybe(2.0, probability=0.3),
    }
    if d.chance(0.3):
        shapes = [(batch, n, h * s) for _, h, n, s in shapes]
        options |= {"q_num_heads": heads, "kv_num_heads": kv_heads}
    mask: Any = None
    total = keys + (past or 0)
    if d.chance():
        mask_type = d.pick(np.dtype(bool), dtype)
        mask = d.array(
            mask_type, d.pick((queries, total), (batch, 1, queries, total), (batch, heads, queries, total)), "finite"
        )
    cache = [None, None] if past is None else [(batch, kv_heads, past, size), (batch, kv_heads, past, values)]
    state = [None if shape is None else near(d, dtype, shape) for shape in cache]
    outputs: Any = 1 if past is None else 3
    if d.chance(0.3):
        options["qk_matmul_output_mode"] = d.maybe(0, 1, 3, 2 if past is None else 3)
        outputs = [True, past is not None, past is not None, True]
    return d.case(
        *(near(d, dtype, s) for s in shapes),
        mask,
        *state,
        outputs=outputs,
        rtol=2e-3,
        atol=2e-3,
        zeros=False,
        **options,
    )


@draws("RotaryEmbedding")
def rotary_embedding(d: Draw) -> Case:
    dtype, batch, heads, steps, half = d.dtype(), *d.integers(1, 3, 4)
    size = 2 * half
    part = d.maybe(2 * d.integer(1, half)) if d.chance(0.4) else None
    width = (part or size) // 2
    flat = d.chance(0.3)
    x = near(d, dtype, (batch, steps, heads * size) if flat else (batch, heads, steps, size))
    positions = d.maybe(ints(d.rng.integers(0, 4, (batch, steps))))
    table = (4, width) if positions is not None else (batch, steps, width)
    options = {"interleaved": d.maybe(0, 1), "rotary_embedding_dim": part, "num_heads": heads if flat or part else None}
    caches = (near(d, dtype, table) for _ in range(2))
    return d.case(x, *caches, positions, rtol=1e-3, atol=1e-3, zeros=False, **options)


@draws("CausalConvWithState")
def causal_conv(d: Draw) -> Case:
    dtype, batch, channels, steps, kernel = d.dtype(), *d.integers(1, 4, 4)
    x, w = near(d, dtype, (batch, channels, steps)), near(d, dtype, (channels, 1, kernel))
    bias = d.maybe(near(d, dtype, (channels,)))
    state = d.maybe(near(d, dtype, (batch, channels, kernel - 1)))
    activation = d.maybe("none", "silu")
    return d.case(x, w, bias, state, outputs=2, rtol=1e-3, atol=1e-3, zeros=False, activation=activation)


@draws("LinearAttention")
def linear_attention(d: Draw) -> Case:
    dtype = d.dtype(among=("float32", "float16"))
    batch, steps, heads, keys, values = d.integers(1, 3, 5)
    rule = d.maybe("linear", "gated", "delta", "gated_delta")
    q, k, v = (near(d, dtype, (batch, steps, heads * n)) for n in (keys, keys, values))
    decay = d.array(dtype, (batch, steps, heads), "between", -1, 0) if rule not in ("linear", "delta") else None
    beta = d.array(dtype, (batch, steps, heads), "between", 0, 1) if rule not in ("linear", "gated") else None
    state = d.maybe(near(d, np.float32, (batch, heads, keys, values)))
    options = {"q_num_heads": heads, "kv_num_heads": heads, "update_rule": rule, "scale": d.maybe(0.5)}
    return d.case(q, k, v, state, decay, beta, outputs=2, rtol=1e-2, atol=1e-2, zeros=False, **options)


@draws("DFT")
def dft(d: Draw) -> Case:
    dtype, rank = d.dtype("T1", among=("float32", "float64")), d.integer(1, 3)
    inverse, onesided = d.maybe(0, 1), 0
    parts = d.pick(1, 2)
    if parts == 1 and not inverse:
        onesided = d.pick(0, 1)
    x = near(d, dtype, (*d.integers(2, 5, rank), parts))
    axis = d.integer(0, rank - 1) if d.chance() and d.opset >= 20 else d.integer(-rank - 1, -2)
    length = d.maybe(ints(d.integer(2, 6)))
    options = {"inverse": inverse, "onesided": onesided or d.maybe(0), "rtol": 1e-3, "atol": 1e-4, "zeros": False}
    if d.opset < 20:
        return d.case(x, length, axis=axis % (rank + 1), **options)
    return d.case(x, length, ints(axis), **options)


@draws("STFT")
def stft(d: Draw) -> Case:
    dtype, batch, frame = d.dtype("T1", among=("float32", "float64")), d.integer(1, 2), d.integer(2, 6)
    signal = near(d, dtype, (batch, frame + d.integer(0, 8), 1))
    step = d.dtype("T2")
    window = near(d, dtype, (frame,))
    length = d.maybe(np.array(frame, step))
    one = d.maybe(0, 1)
    return d.case(
        signal, np.array(d.integer(1, 3), step), window, length, rtol=1e-3, atol=1e-4, zeros=False, onesided=one
    )


@draws("HannWindow", "HammingWindow", "BlackmanWindow")
def window(d: Draw) -> Case:
    size = np.array(d.integer(2, 9), d.dtype("T1"))
    dtype = d.maybe(code(d.dtype("T2", kinds="f")))
    return d.case(size, rtol=1e-4, atol=1e-6, zeros=False, periodic=d.maybe(0, 1), output_datatype=dtype)


@draws("MelWeightMatrix")
def mel_weights(d: Draw) -> Case:
    integers, reals = d.dtype("T1"), d.dtype("T2", among=("float32", "float64"))
    size, rate = d.pick(16, 32, 64), d.pick(8000, 16000)
    if integers.name in ("int8", "uint8"):
        integers = np.dtype(np.int32)
    whole = [np.array(v, integers) for v in (d.integer(2, 8), size, rate)]
    bounds = [np.array(v, reals) for v in (d.pick(0, 100), d.pick(0.5, 0.25) * rate)]
    return d.case(*whole, *bounds, rtol=1e-4, zeros=False)
