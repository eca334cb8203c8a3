"""Attention on CuPy.

Few queries, as when a language model writes a token at a time, take one kernel that reads each key and value once. More
of them take cuBLAS: a product for the scores, one kernel for scale, cap, mask, window and softmax, a product with the
values. A tile of queries at a time, so that the scores take bounded memory however long the prompt is, and keys that no
query of a tile may see are left out. cuBLAS rather than a kernel that keeps the scores on chip, since kernels here do
without tensor cores, which make its products of half types many times faster than what the scores' way through memory
costs; products of float16 and bfloat16 are added up in float32, which the scores stay in until they are weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import cupy
import numpy as np

from onemodel.backends import cupy_gemm, cupy_launch
from onemodel.backends.base import Array, Kernel
from onemodel.backends.cupy_launch import TYPES, kernel, over_rows, threads_for, typed, wide
from onemodel.backends.cupy_run import row_major

_FILE = "attention.cu"
_FEW = 4
"""Queries of a head up to which the kernel for few is used."""
_SHARED = 40 * 1024
"""Bytes of shared memory for its scores, within what every GPU grants."""
_SCORES = 1 << 28
"""Bytes of scores, and of weights beside them, at a time."""


@dataclass(frozen=True)
class _Rules:
    """Which keys a query sees, and what is done to its scores.

    Attributes:
        mask: broadcast to (batch, heads, queries, keys): added, or truth values.
        lengths: keys of each sample, int64; None where all count.
        past: position of the first query; with ``lengths`` the last query stands at the last key.
        left, right: how far a query sees from its position; negative where all the way.
    """

    mask: Array | None
    lengths: Array | None
    past: int
    left: int
    right: int
    scale: float
    softcap: float

    def mask_strides(self) -> list[int]:
        """Elements from a sample, head and query of the mask to the next."""
        return [0, 0, 0] if self.mask is None else [s // self.mask.itemsize for s in self.mask.strides[:3]]


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
    """Attention with softmax in the type of the sums, whose scores nobody asks for."""
    valid = min(left_window_size, right_window_size) >= -1 and qk_matmul_output_mode in (0, 1, 2, 3)
    if not valid or softmax_precision is not None or any(wanted[3:]) or (past_key is None) != (past_value is None):
        return NotImplemented
    if nonpad_kv_seqlen is not None and (past_key is not None or nonpad_kv_seqlen.shape != q.shape[:1]):
        return NotImplemented
    joined = q.ndim == k.ndim == v.ndim == 3
    if joined:
        if not (q_num_heads and kv_num_heads) or q.shape[2] % q_num_heads or k.shape[2] % kv_num_heads:
            return NotImplemented
        if v.shape[2] % kv_num_heads:
            return NotImplemented
        q, k, v = _heads(q, q_num_heads), _heads(k, kv_num_heads), _heads(v, kv_num_heads)
    past = 0
    if past_key is not None and past_value is not None:
        if not past_key.ndim == past_value.ndim == k.ndim == v.ndim == 4:
            return NotImplemented
        fits = past_key.shape[:2] == k.shape[:2] and past_value.shape[:2] == v.shape[:2]
        fits = fits and past_key.shape[3] == k.shape[3] and past_value.shape[3] == v.shape[3]
        if not fits or past_key.dtype != k.dtype or past_value.dtype != v.dtype:
            return NotImplemented
        past = past_key.shape[2]
        k, v = cupy.concatenate([past_key, k], axis=2), cupy.concatenate([past_value, v], axis=2)
    if not _fits(q, k, v, attn_mask):
        return NotImplemented
    if attn_mask is not None:
        attn_mask = cupy.broadcast_to(attn_mask, (*q.shape[:3], k.shape[2]))
        if attn_mask.strides[3] != attn_mask.itemsize:
            attn_mask = row_major(attn_mask)
    lengths = None if nonpad_kv_seqlen is None else row_major(nonpad_kv_seqlen.astype(np.int64, copy=False))
    factor = 1 / math.sqrt(q.shape[3]) if scale is None else scale
    right = 0 if is_causal else right_window_size
    rules = _Rules(attn_mask, lengths, past, left_window_size, right, factor, max(softcap, 0.0))
    q, k, v = (row_major(x) for x in (q, k, v))
    y = (_of_few if _few(q, k, rules) else _tiled)(q, k, v, rules)
    if joined:
        y = cupy.reshape(cupy.transpose(y, (0, 2, 1, 3)), (q.shape[0], q.shape[2], -1))
    return y, k, v, None


def _heads(x: Array, count: int) -> Array:
    """(batch, length, heads * size) as (batch, heads, length, size)."""
    return cupy.transpose(cupy.reshape(x, (*x.shape[:2], count, x.shape[2] // count)), (0, 2, 1, 3))


def _fits(q: Array, k: Array, v: Array, mask: Array | None) -> bool:
    """Whether the kernels take these arrays; what is wrong with others the generic form says."""
    if not q.ndim == k.ndim == v.ndim == 4 or k.shape[:3] != v.shape[:3] or q.dtype != k.dtype or q.dtype != v.dtype:
        return False
    if q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3] or not k.shape[1] or q.shape[1] % k.shape[1]:
        return False
    if 0 in (*q.shape, *k.shape, *v.shape):
        return False
    if mask is None:
        return True
    wanted = (k.shape[2], q.shape[2], q.shape[1], q.shape[0])
    broadcasts = 0 < mask.ndim <= 4 and all(n in (1, most) for n, most in zip(mask.shape[::-1], wanted, strict=False))
    return bool(broadcasts and mask.shape[-1] == k.shape[2] and mask.dtype in (q.dtype, np.dtype(bool)))


def _few(q: Array, k: Array, rules: _Rules) -> bool:
    """Whether the kernel for few queries takes them."""
    added = rules.mask is None or rules.mask.dtype == q.dtype
    plain = rules.lengths is None and rules.left < 0 and rules.right <= 0 and not rules.softcap
    return bool(q.shape[2] <= _FEW and added and plain and k.shape[2] * np.dtype(wide(q.dtype)).itemsize <= _SHARED)


def _of_few(q: Array, k: Array, v: Array, rules: _Rules) -> Array:
    """A block to each query of each head."""
    (batch, heads, queries, size), keys, width = q.shape, k.shape[2], v.shape[3]
    y, kind = cupy.empty((batch, heads, queries, width), q.dtype), wide(q.dtype)
    sizes = (heads, k.shape[1], queries, keys, size, width)
    causal_past = rules.past if rules.right == 0 else -1
    arguments = (q, k, v, rules.mask, y, *sizes, kind(rules.scale), *rules.mask_strides(), causal_past)
    launch = kernel(_FILE, f"attention<{TYPES[q.dtype]}>")
    shared = keys * np.dtype(kind).itemsize
    launch((batch * heads * queries,), (threads_for(max(keys, width)),), typed(arguments), shared_mem=shared)
    return y


def _tiled(q: Array, k: Array, v: Array, rules: _Rules) -> Array:
    """By cuBLAS, some rows of scores at a time: of several groups of heads that share keys, or a part of one."""
    (batch, heads, queries, size), (_, shared, keys, _), width = q.shape, k.shape, v.shape[3]
    groups, ratio = batch * shared, heads // shared
    rows = ratio * queries
    q, k, v = (
        cupy.reshape(q, (groups, rows, size)),
        cupy.reshape(k, (groups, keys, size)),
        cupy.reshape(v, (groups, keys, width)),
    )
    y, kind = cupy.empty((groups, rows, width), q.dtype), wide(q.dtype)
    half = q.dtype.itemsize == 2
    most = max(1, _SCORES // (keys * np.dtype(kind).itemsize))
    together, tile = max(1, most // rows), min(rows, most)
    masked = "bool" if rules.mask is not None and rules.mask.dtype == bool else TYPES[q.dtype]
    for group in range(0, groups, together):
        end = min(group + together, groups)
        for row in range(0, rows, tile):
            last = min(row + tile, rows)
            seen = _seen(rules, row, last, queries, keys)
            scores = cupy.empty((end - group, last - row, seen), kind)
            turned = cupy.transpose(k[group:end, :seen], (0, 2, 1))
            cupy_gemm.product(q[group:end, row:last], turned, scores)
            weights = cupy.empty(scores.shape, q.dtype) if half else scores
            places = (last - row, group, row, shared, ratio, queries, seen)
            rest = (kind(rules.scale), kind(rules.softcap), *rules.mask_strides(), rules.past, rules.left, rules.right)
            count = scores.size // seen
            arguments = (scores, weights, rules.mask, rules.lengths, count, *places, *rest)
            over_rows(_FILE, f"attention_weights<{TYPES[q.dtype]}, {masked}>", count, seen, arguments)
            part = y[group:end, row:last]
            into = part if part.flags.c_contiguous else cupy.empty(part.shape, y.dtype)
            cupy_gemm.product(weights, v[group:end, :seen], into)
            if into is not part:
                part[...] = into
    return cupy.reshape(y, (batch, heads, queries, width))


def _seen(rules: _Rules, row: int, last: int, queries: int, keys: int) -> int:
    """Keys up to the last one that a query of these rows of a group may see."""
    if rules.lengths is not None or rules.right < 0:
        return keys
    query = (last - 1) % queries if row // queries == (last - 1) // queries else queries - 1
    return max(1, min(keys, rules.past + query + rules.right + 1))


KERNELS = {("", "Attention"): Kernel(attention, 23, cupy_launch.NAMES, halves=True, partial=True)}
