"""Attention, RotaryEmbedding, CausalConvWithState."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import onemodel
from tests.ops.harness import check, like_onnxruntime, model, refused, run

INF = math.inf
BATCH, HEADS, QUERIES, KEYS, SIZE, VALUE = 2, 4, 3, 5, 8, 6


def arrays(*shapes: tuple[int, ...], dtype: Any = np.float32) -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def inputs(kv_heads: int = HEADS, dtype: Any = np.float32) -> list[Any]:
    """Q, K and V of four dimensions."""
    return arrays(
        (BATCH, HEADS, QUERIES, SIZE), (BATCH, kv_heads, KEYS, SIZE), (BATCH, kv_heads, KEYS, VALUE), dtype=dtype
    )


def attended(q: Any, k: Any, v: Any, bias: Any = 0.0, scale: float | None = None, softcap: float = 0.0) -> Any:
    """The scores, with softcap, with bias, the weights and Y, in float64; ``bias`` broadcasts."""
    q, k, v = (a.astype(np.float64) for a in (q, k, v))
    k, v = (np.repeat(a, q.shape[1] // a.shape[1], axis=1) for a in (k, v))
    scores = q @ k.swapaxes(-1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    capped = np.tanh(scores / softcap) * softcap if softcap else scores
    biased = capped + bias
    most = biased.max(axis=-1, keepdims=True)
    weights = np.exp(biased - np.where(np.isinf(most), 0, most))
    total = weights.sum(axis=-1, keepdims=True)
    weights = weights / np.where(total == 0, 1, total)
    return [a.astype(np.float32) for a in (scores, capped, biased, weights, weights @ v)]


def causal(offset: Any = 0, queries: int = QUERIES, keys: int = KEYS) -> Any:
    """The bias of a causal mask; an array of offsets gives one per batch."""
    offset = np.asarray(offset).reshape(-1, 1, 1, 1)
    allowed = np.arange(keys) <= np.arange(queries)[:, None] + offset
    return np.where(allowed, 0, -INF)


class TestAttention:
    @pytest.mark.parametrize("kv_heads", [4, 2, 1])
    def test_neighbouring_query_heads_share_a_key_head(self, kv_heads: int) -> None:
        q, k, v = inputs(kv_heads)
        check(attended(q, k, v)[4], "Attention", q, k, v)
        like_onnxruntime("Attention", q, k, v, opset=23)

    @pytest.mark.parametrize("kv_heads", [4, 2])
    def test_three_dimensions(self, kv_heads: int) -> None:
        q, k, v = inputs(kv_heads)
        joined = [a.transpose(0, 2, 1, 3).reshape(BATCH, a.shape[2], -1) for a in (q, k, v)]
        want = attended(q, k, v)[4].transpose(0, 2, 1, 3).reshape(BATCH, QUERIES, HEADS * VALUE)
        y, key, value = run("Attention", *joined, outputs=3, q_num_heads=HEADS, kv_num_heads=kv_heads)
        np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(key, k)
        np.testing.assert_array_equal(value, v)

    @pytest.mark.parametrize(
        "shape", [(QUERIES, KEYS), (KEYS,), (HEADS, QUERIES, KEYS), (BATCH, 1, QUERIES, KEYS), (BATCH, HEADS, 1, KEYS)]
    )
    def test_masks_broadcast(self, shape: tuple[int, ...]) -> None:
        q, k, v = inputs()
        (mask,) = arrays(shape)
        check(attended(q, k, v, mask)[4], "Attention", q, k, v, mask)
        truth = mask > -0.5
        check(attended(q, k, v, np.where(truth, 0, -INF))[4], "Attention", q, k, v, truth)
        check(attended(q, k, v, np.where(truth, 0, -INF) + causal())[4], "Attention", q, k, v, truth, is_causal=1)
        check(attended(q, k, v, mask + causal())[4], "Attention", q, k, v, mask, is_causal=1)

    def test_a_short_mask_hides_the_rest(self) -> None:
        q, k, v = inputs()
        (mask,) = arrays((QUERIES, KEYS - 2))
        want = attended(q, k[:, :, :-2], v[:, :, :-2], mask)[4]
        check(want, "Attention", q, k, v, mask, opset=24)
        truth = np.ones((QUERIES, KEYS - 2), bool)
        check(attended(q, k[:, :, :-2], v[:, :, :-2])[4], "Attention", q, k, v, truth, opset=24)

    def test_a_hidden_query_gives_zeros(self) -> None:
        q, k, v = inputs()
        q[0, 0, 0, 0] = np.nan
        mask = np.ones((QUERIES, KEYS), bool)
        mask[0] = False
        y, _, _, weights = run("Attention", q, k, v, mask, outputs=4, qk_matmul_output_mode=3)
        assert not y[:, :, 0].any()
        assert not weights[:, :, 0].any()
        assert np.isfinite(y).all()
        bias = np.where(mask, 0, -INF).astype(np.float32)
        assert not run("Attention", np.nan_to_num(q), k, v, bias)[:, :, 0].any()

    def test_causal_counts_the_keys_before(self) -> None:
        q, k, v = inputs(2)
        past = [a[:, :, :2] for a in (k, v)]
        new = [a[:, :, 2:] for a in (k, v)]
        y, key, value = run("Attention", q, *new, None, *past, outputs=3, is_causal=1)
        np.testing.assert_allclose(y, attended(q, k, v, causal(2))[4], rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(key, k)
        np.testing.assert_array_equal(value, v)
        check(attended(q, k, v, causal())[4], "Attention", q, k, v, is_causal=1)
        step = q[:, :, :1]
        check(
            attended(step, k, v)[4],
            "Attention",
            step,
            k[:, :, 4:],
            v[:, :, 4:],
            None,
            k[:, :, :4],
            v[:, :, :4],
            is_causal=1,
        )

    def test_lengths_of_an_outer_cache(self) -> None:
        q, k, v = inputs()
        lengths = np.array([4, 2])
        padding = np.where(np.arange(KEYS) < lengths.reshape(-1, 1, 1, 1), 0, -INF)
        check(attended(q, k, v, padding)[4], "Attention", q, k, v, None, None, None, lengths)
        frontier = padding + causal(lengths - QUERIES)
        y = run("Attention", q, k, v, None, None, None, lengths, is_causal=1)
        np.testing.assert_allclose(y, attended(q, k, v, frontier)[4], rtol=1e-5, atol=1e-6)
        assert not y[1, :, 0].any()

    @pytest.mark.parametrize("left", [-1, 0, 1, 9])
    @pytest.mark.parametrize("right", [-1, 0, 2])
    @pytest.mark.parametrize("is_causal", [0, 1])
    def test_windows(self, left: int, right: int, is_causal: int) -> None:
        q, k, v = inputs()
        at, key = np.arange(QUERIES)[:, None], np.arange(KEYS)
        allowed = (key >= at - (left if left >= 0 else 99)) & (key <= at + (right if right >= 0 else 99))
        bias = np.where(allowed, 0, -INF) + (causal() if is_causal else 0)
        options = {"left_window_size": left, "right_window_size": right, "is_causal": is_causal}
        check(attended(q, k, v, bias)[4], "Attention", q, k, v, **options)

    @pytest.mark.parametrize("mode", [0, 1, 2, 3])
    def test_stages(self, mode: int) -> None:
        """0 the scores, 1 after softcap, 2 after the mask, 3 the weights; softcap comes before the mask."""
        q, k, v = inputs(2)
        (mask,) = arrays((QUERIES, KEYS))
        want = attended(q, k, v, mask + causal(), 0.7, 0.5)
        got = run(
            "Attention", q, k, v, mask, outputs=4, qk_matmul_output_mode=mode, softcap=0.5, scale=0.7, is_causal=1
        )
        np.testing.assert_allclose(got[3], want[mode], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(got[0], want[4], rtol=1e-5, atol=1e-6)

    @pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
    def test_halves_are_computed_in_float32(self, dtype: Any) -> None:
        q, k, v = inputs(dtype=dtype)
        want = attended(q, k, v)[4].astype(dtype)
        got = run("Attention", q, k, v)
        step = 2**-10 if dtype is np.float16 else 2**-7
        np.testing.assert_allclose(got.astype(float), want.astype(float), rtol=step)

    @pytest.mark.parametrize(("precision", "rtol"), [(1, 1e-6), (11, 1e-6), (10, 2e-3), (16, 2e-2)])
    def test_softmax_precision(self, precision: int, rtol: float) -> None:
        q, k, v = inputs()
        want = attended(q, k, v)[4]
        # array-api-strict has no half types to round to.
        proto = model("Attention", [q, k, v], softmax_precision=precision)
        got = onemodel.Session(proto, mode="fast").run(None, {"x0": q, "x1": k, "x2": v})[0]
        np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol)
        assert (np.abs(got - want).max() > 1e-5) == (precision in (10, 16))

    def test_other_types_of_values_and_no_keys(self) -> None:
        q, k, v = inputs()
        y, _, value = run("Attention", q, k, v.astype(np.float64), outputs=3)
        assert (y.dtype, value.dtype) == (np.float32, np.float64)
        np.testing.assert_allclose(y, attended(q, k, v)[4], rtol=1e-5, atol=1e-6)
        check(np.zeros((BATCH, HEADS, QUERIES, VALUE), np.float32), "Attention", q, k[:, :, :0], v[:, :, :0])

    def test_wrong_inputs_are_refused(self) -> None:
        q, k, v = inputs()
        refused("must all have 3 or 4 dimensions", "Attention", q[0, 0], k, v)
        refused("does not divide into 3 heads", "Attention", q[:, 0], k[:, 0], v[:, 0], q_num_heads=3, kv_num_heads=2)
        refused("do not fit", "Attention", q, k[:, :3], v[:, :3])
        refused("do not fit", "Attention", q, k[:, :, :2], v)
        refused("must be given together", "Attention", q, k, v, None, k)
        refused("exclude each other", "Attention", q, k, v, None, k, v, np.array([1, 2]))
        refused("does not continue", "Attention", q, k, v, None, k[:1], v)
        refused("the last for 5 keys", "Attention", q, k, v, np.zeros((3, 6), np.float32))
        refused("must have 2 elements", "Attention", q, k, v, None, None, None, np.array([1, 2, 3]))
        refused("qk_matmul_output_mode 4", "Attention", q, k, v, qk_matmul_output_mode=4)
        refused("window sizes -2 and -1", "Attention", q, k, v, left_window_size=-2)
        refused("softmax_precision 7", "Attention", q, k, v, softmax_precision=7)


class TestRotaryEmbedding:
    def turned(self, x: Any, angles: Any, size: int, interleaved: int) -> Any:
        """The array (batch, heads, length, size) by complex numbers; angles (batch, length, pairs)."""
        part = x[..., :size]
        a, b = (part[..., 0::2], part[..., 1::2]) if interleaved else np.split(part, 2, axis=-1)
        z = (a + 1j * b) * np.exp(1j * angles[:, None])
        pair = np.stack([z.real, z.imag], axis=-1).reshape(part.shape)
        both = pair if interleaved else np.concatenate([z.real, z.imag], axis=-1)
        return np.concatenate([both, x[..., size:]], axis=-1).astype(np.float32)

    @pytest.mark.parametrize("interleaved", [0, 1])
    @pytest.mark.parametrize("size", [0, 4])
    @pytest.mark.parametrize("ids", [False, True])
    def test_pairs_turn_and_the_tail_stays(self, interleaved: int, size: int, ids: bool) -> None:
        rng = np.random.default_rng(1)
        x, table = rng.standard_normal((2, 3, 5, 8)).astype(np.float32), rng.uniform(-3, 3, (11, (size or 8) // 2))
        positions = rng.integers(0, 11, (2, 5))
        angles = table[positions]
        caches = [f(table if ids else angles).astype(np.float32) for f in (np.cos, np.sin)]
        given = [*caches, positions] if ids else caches
        want = self.turned(x, angles, size or 8, interleaved)
        options = {"interleaved": interleaved, "rotary_embedding_dim": size}
        check(want, "RotaryEmbedding", x, *given, **options)
        joined = x.transpose(0, 2, 1, 3).reshape(2, 5, 24)
        want = want.transpose(0, 2, 1, 3).reshape(2, 5, 24)
        check(want, "RotaryEmbedding", joined, *given, num_heads=3, **options)

    def test_float16_is_rounded_once(self) -> None:
        x, cos, sin = arrays((1, 1, 4, 6), (1, 4, 3), (1, 4, 3), dtype=np.float16)
        want = run("RotaryEmbedding", *(a.astype(np.float32) for a in (x, cos, sin))).astype(np.float16)
        np.testing.assert_array_equal(run("RotaryEmbedding", x, cos, sin), want)

    def test_wrong_inputs_are_refused(self) -> None:
        x, cos, sin = arrays((1, 2, 4, 6), (1, 4, 3), (1, 4, 3))
        refused("num_heads must be given", "RotaryEmbedding", x[0], cos, sin)
        refused("must have 3 or 4 dimensions", "RotaryEmbedding", x[0, 0], cos, sin)
        refused("must be even and within", "RotaryEmbedding", x, cos, sin, rotary_embedding_dim=8)
        refused("must be even and within", "RotaryEmbedding", x, cos, sin, rotary_embedding_dim=3)
        refused(
            "cos_cache gives shape (1, 4, 3), not (1, 4, 2)", "RotaryEmbedding", x, cos, sin, rotary_embedding_dim=4
        )
        refused("index 4 is out of", "RotaryEmbedding", x, cos[0], sin[0], np.array([[0, 1, 2, 4]]))
        refused("must have 2 dimensions", "RotaryEmbedding", x, cos, sin, np.array([[0, 1, 2, 3]]))


class TestCausalConvWithState:
    @pytest.mark.parametrize("length", [1, 2, 6])
    @pytest.mark.parametrize("bias", [False, True])
    @pytest.mark.parametrize("past", [False, True])
    def test_by_plain_loops(self, length: int, bias: bool, past: bool) -> None:
        x, w, b, state = arrays((2, 3, length), (3, 1, 4), (3,), (2, 3, 3))
        before = state if past else np.zeros_like(state)
        whole = np.concatenate([before, x], axis=2)
        want = sum(w[:, 0, k, None] * whole[:, :, k : k + length] for k in range(4)) + (b[:, None] if bias else 0)
        given = [x, w, b if bias else None, state if past else None]
        while given[-1] is None:
            given.pop()
        check([want, whole[:, :, length:]], "CausalConvWithState", *given, outputs=2)
        silu = [want / (1 + np.exp(-want)), whole[:, :, length:]]
        check(silu, "CausalConvWithState", *given, outputs=2, activation="silu")
        check(silu, "CausalConvWithState", *given, outputs=2, activation="swish")

    def test_steps_are_one_run(self) -> None:
        x, w = arrays((1, 2, 6), (2, 1, 3))
        whole, last = run("CausalConvWithState", x, w, outputs=2)
        first, state = run("CausalConvWithState", x[:, :, :4], w, outputs=2)
        second, state = run("CausalConvWithState", x[:, :, 4:], w, None, state, outputs=2)
        np.testing.assert_array_equal(np.concatenate([first, second], axis=2), whole)
        np.testing.assert_array_equal(state, last)

    def test_wrong_inputs_are_refused(self) -> None:
        x, w, b, state = arrays((1, 2, 6), (2, 1, 3), (2,), (1, 2, 2))
        refused("they must be (batch, channels, length)", "CausalConvWithState", x, w[:1], outputs=2)
        refused("k from 1 on", "CausalConvWithState", x, w[:, :, :0], outputs=2)
        refused("bias of shape", "CausalConvWithState", x, w, b[:1], outputs=2)
        refused("past_state of shape", "CausalConvWithState", x, w, b, state[:, :, :1], outputs=2)
        refused("activation 'relu'", "CausalConvWithState", x, w, outputs=2, activation="relu")
