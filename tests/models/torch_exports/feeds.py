"""Seeded inputs: each function takes a size and a seed, and returns feeds by name in the model's order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.models import recipes

Feeds = dict[str, Any]
Size = tuple[int, ...]


def image(size: Size, seed: int) -> Feeds:
    """A picture of ``size`` (N, 3, H, W)."""
    return recipes.image(size, seed, ["image"])


def image_and_grid(size: Size, seed: int) -> Feeds:
    """A picture, and a grid of ``size`` (N, C, H, W, H', W') that reaches beyond its edges."""
    grid = np.random.default_rng([seed, 1]).uniform(-1.3, 1.3, (size[0], *size[4:], 2))
    return {**image(size[:4], seed), "grid": grid.astype(np.float32)}


def sentences(size: Size, seed: int) -> Feeds:
    """Token ids of ``size`` (N, L), the later rows shorter, with two kinds of tokens."""
    feeds = recipes.tokens(size, seed, ["input_ids", "attention_mask", "token_type_ids"])
    kinds = (np.arange(size[1]) >= size[1] // 2) * feeds["attention_mask"]
    return {**feeds, "input_ids": feeds["input_ids"] % 500, "token_type_ids": kinds}


def cache_names(depth: int, prefix: str) -> list[str]:
    """Names of the keys and values of each layer."""
    return [f"{prefix}_{kind}_{index}" for index in range(depth) for kind in ("key", "value")]


def cached(size: Size, seed: int, *, depth: int, groups: int, head: int) -> Feeds:
    """The next tokens of ``size`` (N, L, P), and keys and values of the P tokens before; later rows began later."""
    batch, length, past = size
    rng = np.random.default_rng(seed)
    mask = np.ones((batch, length + past), dtype=np.int64)
    mask[1:, : past // 2] = 0
    feeds: Feeds = {"input_ids": rng.integers(0, 500, (batch, length)), "attention_mask": mask}
    for name in cache_names(depth, "past"):
        feeds[name] = rng.standard_normal((batch, groups, past, head), dtype=np.float32)
    return feeds


def sequences(size: Size, seed: int) -> Feeds:
    """Sequences and states for a ``Tagger`` of ``size`` (N, L, width, hidden)."""
    batch, length, width, hidden = size
    return _normal(seed, x=(batch, length, width), hidden=(4, batch, hidden))


def packed(size: Size, seed: int) -> Feeds:
    """Sequences of ``size`` (N, L, width), each of a smaller length than the one before."""
    return {**_normal(seed, x=size), "lengths": np.maximum(size[1] - 2 * np.arange(size[0]), 1)}


def rows_and_steps(size: Size, seed: int) -> Feeds:
    """Rows of ``size`` (N, width), and how often to go on: 3 or 4 times."""
    return {**_normal(seed, x=size), "steps": np.asarray(3 + seed % 2)}


def rows_of_either_sign(size: Size, seed: int) -> Feeds:
    """Rows of ``size`` (N, width), with a sum above 0 for even seeds and below it for odd ones."""
    x = 3 * _normal(seed, x=size)["x"]
    return {"x": x - np.mean(x) + np.float32(1 - 2 * (seed % 2))}


def steps_and_state(size: Size, seed: int) -> Feeds:
    """A sequence of ``size`` (L, N, width), and the state before it."""
    return _normal(seed, x=size, hidden=size[1:])


def _normal(seed: int, **shapes: Size) -> Feeds:
    rng = np.random.default_rng(seed)
    draw: Callable[..., Any] = rng.standard_normal
    return {name: draw(shape, dtype=np.float32) for name, shape in shapes.items()}
