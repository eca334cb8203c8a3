"""Transformers on tokens: BERT, and decoders like GPT-2 and Llama with a cache of keys and values."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional


class BertLayer(nn.Module):
    """Attention written out, as most exported encoders have it; the normalisation comes last."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.joined = nn.Linear(width, width)
        self.norm1 = nn.LayerNorm(width, eps=1e-12)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.norm2 = nn.LayerNorm(width, eps=1e-12)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        """[N, L, width] and [N, 1, 1, L] -> [N, L, width]."""
        batch, length, width = x.shape
        query, key, value = (
            layer(x).view(batch, length, self.heads, width // self.heads).permute(0, 2, 1, 3)
            for layer in (self.query, self.key, self.value)
        )
        scores = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(width // self.heads)
        weights = torch.softmax(scores + bias, -1)
        y = torch.matmul(weights, value).permute(0, 2, 1, 3).reshape(batch, length, width)
        x = self.norm1(x + self.joined(y))
        return self.norm2(x + self.feed(x))


class Bert(nn.Module):
    """The encoder of Devlin et al. 2019, https://arxiv.org/abs/1810.04805."""

    def __init__(self, width: int, depth: int, heads: int, words: int, longest: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Embedding(longest, width)
        self.kinds = nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.layers = nn.ModuleList([BertLayer(width, heads) for _ in range(depth)])
        self.pooler = nn.Linear(width, width)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> tuple[Tensor, Tensor]:
        """int64 of [N, L] each -> [N, L, width] and [N, width]."""
        places = torch.arange(input_ids.shape[1]).unsqueeze(0)
        x = self.norm(self.words(input_ids) + self.places(places) + self.kinds(token_type_ids))
        bias = (1.0 - attention_mask[:, None, None, :].to(x.dtype)) * torch.finfo(x.dtype).min
        for layer in self.layers:
            x = layer(x, bias)
        return x, torch.tanh(self.pooler(x[:, 0]))


def visible(mask: Tensor, length: int) -> Tensor:
    """Which keys each of the last ``length`` positions may see: bool [N, L + P] -> [N, 1, L, L + P]."""
    total = mask.shape[1]
    keys = torch.arange(total)
    return (keys[None, :] <= keys[total - length :, None])[None, None] & mask[:, None, None, :].to(torch.bool)


class Gpt2Layer(nn.Module):
    """A block of GPT-2 that takes and gives keys and values."""

    def __init__(self, width: int, heads: int, fused: bool) -> None:
        super().__init__()
        self.heads, self.fused = heads, fused
        self.norm1 = nn.LayerNorm(width)
        self.three = nn.Linear(width, 3 * width)
        self.joined = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width))

    def forward(self, x: Tensor, seen: Tensor, past_key: Tensor, past_value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """[N, L, width] and two of [N, heads, P, width / heads] -> the same shapes, P grown by L."""
        batch, length, width = x.shape
        query, key, value = (
            part.reshape(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.three(self.norm1(x)).split(width, 2)
        )
        key, value = torch.cat([past_key, key], 2), torch.cat([past_value, value], 2)
        if self.fused:
            y = functional.scaled_dot_product_attention(query, key, value, seen)
        else:
            scores = torch.matmul(query, key.transpose(2, 3)) / math.sqrt(width // self.heads)
            y = torch.matmul(torch.softmax(torch.where(seen, scores, torch.full_like(scores, -1e9)), 3), value)
        x = x + self.joined(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.feed(self.norm2(x)), key, value


class Gpt2(nn.Module):
    """The decoder of Radford et al. 2019. ``fused`` leaves attention to torch's own function."""

    def __init__(self, width: int, depth: int, heads: int, words: int, longest: int, fused: bool) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Embedding(longest, width)
        self.layers = nn.ModuleList([Gpt2Layer(width, heads, fused) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, *past: Tensor) -> tuple[Tensor, ...]:
        """int64 [N, L] and [N, L + P], then per layer keys and values -> logits [N, L, words], keys, values."""
        length = input_ids.shape[1]
        places = (attention_mask.cumsum(1) - 1).clamp(min=0)[:, -length:]
        seen = visible(attention_mask, length)
        x = self.words(input_ids) + self.places(places)
        present: list[Tensor] = []
        for index, layer in enumerate(self.layers):
            x, key, value = layer(x, seen, past[2 * index], past[2 * index + 1])
            present += [key, value]
        return functional.linear(self.norm(x), self.words.weight), *present


class RmsNorm(nn.Module):
    """Root mean square normalisation, written out or as torch's own function."""

    def __init__(self, width: int, fused: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.fused = fused

    def forward(self, x: Tensor) -> Tensor:
        """[..., width] -> [..., width]."""
        if self.fused:
            return functional.rms_norm(x, (x.shape[-1],), self.weight, 1e-5)
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5))


def rotated(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotary position embedding of Su et al. 2021, https://arxiv.org/abs/2104.09864, halves turned together."""
    half = x.shape[-1] // 2
    return x * cosine + torch.cat([-x[..., half:], x[..., :half]], -1) * sine


class LlamaLayer(nn.Module):
    """Grouped-query attention with rotated queries and keys, and SwiGLU.

    ``form`` is ``"written"``, ``"torch"`` (its own function for attention), or ``"onnx"`` (RotaryEmbedding and
    Attention of opset 23, which keeps the cache itself).
    """

    def __init__(self, width: int, heads: int, groups: int, form: str) -> None:
        super().__init__()
        self.heads, self.groups, self.form = heads, groups, form
        self.size = width // heads
        self.norm1 = RmsNorm(width, fused=form != "written")
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, groups * self.size, bias=False)
        self.value = nn.Linear(width, groups * self.size, bias=False)
        self.joined = nn.Linear(width, width, bias=False)
        self.norm2 = RmsNorm(width, fused=form != "written")
        self.gate = nn.Linear(width, 3 * width, bias=False)
        self.up = nn.Linear(width, 3 * width, bias=False)
        self.down = nn.Linear(3 * width, width, bias=False)

    def forward(
        self,
        x: Tensor,
        angles: tuple[Tensor, Tensor],
        places: Tensor,
        seen: Tensor,
        past_key: Tensor,
        past_value: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """[N, L, width] and two of [N, groups, P, width / heads] -> the same shapes, P grown by L."""
        batch, length, width = x.shape
        y = self.norm1(x)
        query = self.query(y).view(batch, length, self.heads, self.size).transpose(1, 2)
        key = self.key(y).view(batch, length, self.groups, self.size).transpose(1, 2)
        value = self.value(y).view(batch, length, self.groups, self.size).transpose(1, 2)
        if self.form == "onnx":
            query, key = (torch.onnx.ops.rotary_embedding(part, *angles, places) for part in (query, key))
            y, key, value, _ = torch.onnx.ops.attention(query, key, value, seen, past_key, past_value)
        else:
            cosine, sine = (torch.cat([table[places]] * 2, -1).unsqueeze(1) for table in angles)
            query, key = rotated(query, cosine, sine), rotated(key, cosine, sine)
            key, value = torch.cat([past_key, key], 2), torch.cat([past_value, value], 2)
            y = self.attention(query, key, value, seen)
        x = x + self.joined(y.transpose(1, 2).reshape(batch, length, width))
        y = self.norm2(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y)), key, value

    def attention(self, query: Tensor, key: Tensor, value: Tensor, seen: Tensor) -> Tensor:
        """Each group of keys and values serves ``heads / groups`` queries."""
        if self.form == "torch":
            return functional.scaled_dot_product_attention(query, key, value, seen, enable_gqa=True)
        batch, _, total, size = key.shape
        key, value = (
            part.unsqueeze(2)
            .expand(batch, self.groups, self.heads // self.groups, total, size)
            .reshape(batch, self.heads, total, size)
            for part in (key, value)
        )
        scores = torch.matmul(query, key.transpose(2, 3)) / math.sqrt(size)
        return torch.matmul(torch.softmax(scores.masked_fill(~seen, -1e9), 3), value)


class Llama(nn.Module):
    """A decoder like Touvron et al. 2023, https://arxiv.org/abs/2307.09288; ``form`` as ``LlamaLayer`` takes it."""

    def __init__(self, width: int, depth: int, heads: int, groups: int, words: int, longest: int, form: str) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.layers = nn.ModuleList([LlamaLayer(width, heads, groups, form) for _ in range(depth)])
        self.norm = RmsNorm(width, fused=form != "written")
        self.logits = nn.Linear(width, words, bias=False)
        rates = 10000.0 ** (-torch.arange(0, width // heads, 2) / (width // heads))
        turns = torch.outer(torch.arange(longest), rates)
        self.register_buffer("cosine", turns.cos())
        self.register_buffer("sine", turns.sin())

    def forward(self, input_ids: Tensor, attention_mask: Tensor, *past: Tensor) -> tuple[Tensor, ...]:
        """int64 [N, L] and [N, L + P], then per layer keys and values -> logits [N, L, words], keys, values."""
        length = input_ids.shape[1]
        places = (attention_mask.cumsum(1) - 1).clamp(min=0)[:, -length:]
        seen = visible(attention_mask, length)
        x = self.words(input_ids)
        present: list[Tensor] = []
        for index, layer in enumerate(self.layers):
            angles = (self.cosine, self.sine)
            x, key, value = layer(x, angles, places, seen, past[2 * index], past[2 * index + 1])
            present += [key, value]
        return self.logits(self.norm(x)), *present
