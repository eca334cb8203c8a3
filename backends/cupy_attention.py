"""Attention on CuPy where few queries meet many keys, as when a language model writes: each is read once."""

from __future__ import annotations

import math
from typing import Any

import cupy
import numpy as np

from onemodel.backends import cupy_launch
from onemodel.backends.base import Array, Kernel
from onemodel.backends.cupy_launch import TYPES, kernel, threads_for, typed, wide
from onemodel.backends.cupy_run import row_major

_FEW = 4
"""Queries of a head up to which the kernel is used; more are left to cuBLAS."""
_SHARED = 40 * 1024
"""Bytes of shared memory for the scores, within what every GPU grants."""


def attention(
    q: Array,
    k: Array,
    v: Array,
    attn_mask: Array | None = None,
    past_key: Array | None = None,
    past_value: Array | None = None,
    nonpad_kv_seqlen: Array | None = None,
    /,
    *,
    is_causal: int = 0,
    kv_num_heads: int | None = None,
    left_window_size: int = -1,
    q_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0,
    right_window_size: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
    wanted: Any,
    xp: Any,
) -> Any:
    """Attention of at most a few queries, without soft cap, windows or padding lengths."""
    plain = left_window_size == right_window_size == -1 and not softcap and softmax_precision is None
    if not plain or nonpad_kv_seqlen is not None or any(wanted[3:]) or (past_key is None) != (past_value is None):
        return NotImplemented
    joined = q.ndim == k.ndim == v.ndim == 3
    if joined:
        if not (q_num_heads and kv_num_heads) or q.shape[2] % q_num_heads or k.shape[2] % kv_num_heads:
            return NotImplemented
        if v.shape[2] % kv_num_heads:
            return NotImplemented
        q, k, v = _heads(q, q_num_heads), _heads(k, kv_num_heads), _heads(v, kv_num_heads)
    if past_key is not None and past_value is not None and past_key.ndim == past_value.ndim == k.ndim == v.ndim == 4:
        fits = past_key.shape[:2] == k.shape[:2] and past_value.shape[:2] == v.shape[:2]
        fits = fits and past_key.shape[3] == k.shape[3] and past_value.shape[3] == v.shape[3]
        if not fits or past_key.dtype != k.dtype or past_value.dtype != v.dtype:
            return NotImplemented
        past = past_key.shape[2]
        k, v = cupy.concatenate([past_key, k], axis=2), cupy.concatenate([past_value, v], axis=2)
    else:
        past = 0
        if past_key is not None:
            return NotImplemented
    if not _fits(q, k, v, attn_mask):
        return NotImplemented
    batch, heads, queries, size = q.shape
    keys, width = k.shape[2], v.shape[3]
    bias, strides = None, [0, 0, 0]
    if attn_mask is not None:
        bias = cupy.broadcast_to(attn_mask, (batch, heads, queries, keys))
        if bias.strides[3] != bias.itemsize:
            bias = row_major(bias)
        strides = [stride // bias.itemsize for stride in bias.strides[:3]]
    q, k, v = (row_major(x) for x in (q, k, v))
    y, kind = cupy.empty((batch, heads, queries, width), q.dtype), wide(q.dtype)
    factor = kind(1 / math.sqrt(size) if scale is None else scale)
    sizes = (heads, k.shape[1], queries, keys, size, width)
    arguments = (q, k, v, bias, y, *sizes, factor, *strides, past if is_causal else -1)
    shared = keys * np.dtype(kind).itemsize
    launch = kernel("attention.cu", f"attention<{TYPES[q.dtype]}>")
    launch((batch * heads * queries,), (threads_for(max(keys, width)),), typed(arguments), shared_mem=shared)
    if joined:
        y = cupy.reshape(cupy.transpose(y, (0, 2, 1, 3)), (batch, queries, heads * width))
    return y, k, v, None


def _heads(x: Array, count: int) -> Array:
    """(batch, length, heads * size) as (batch, heads, length, size)."""
    return cupy.transpose(cupy.reshape(x, (*x.shape[:2], count, x.shape[2] // count)), (0, 2, 1, 3))


def _fits(q: Array, k: Array, v: Array, mask: Array | None) -> bool:
    """Whether the kernel takes these arrays; what is wrong with others the generic form says."""
    if not q.ndim == k.ndim == v.ndim == 4 or k.shape[:3] != v.shape[:3] or q.dtype != k.dtype or q.dtype != v.dtype:
        return False
    if q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3] or not k.shape[1] or q.shape[1] % k.shape[1]:
        return False
    few = q.shape[2] <= _FEW and 0 not in (*q.shape, *k.shape, *v.shape)
    if mask is None:
        return few and k.shape[2] * np.dtype(wide(q.dtype)).itemsize <= _SHARED
    wanted = (k.shape[2], q.shape[2], q.shape[1], q.shape[0])
    broadcasts = mask.ndim and all(n in (1, most) for n, most in zip(mask.shape[::-1], wanted, strict=False))
    whole = broadcasts and mask.ndim <= 4 and mask.shape[-1] == k.shape[2] and mask.dtype == q.dtype
    return bool(few and whole and k.shape[2] * np.dtype(wide(q.dtype)).itemsize <= _SHARED)


KERNELS = {("", "Attention"): Kernel(attention, 23, cupy_launch.NAMES, halves=True, partial=True)}
