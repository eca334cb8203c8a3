"""Seeded inputs for the real models: each recipe takes a size of the manifest and a seed, and returns feeds by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Feeds = dict[str, Any]
Recipe = Callable[[Sequence[int], int, Sequence[str]], Feeds]


def image(size: Sequence[int], seed: int, names: Sequence[str]) -> Feeds:
    """float32 of shape ``size`` (N, C, H, W): coarse patches under fine noise, so that images differ deep down."""
    rng = np.random.default_rng(seed)
    *outer, height, width = size
    patches = rng.standard_normal((*outer, 7, 7), dtype=np.float32)
    rows, columns = np.arange(height) * 7 // height, np.arange(width) * 7 // width
    noise = rng.standard_normal(tuple(size), dtype=np.float32)
    return {names[0]: noise + 2 * patches[..., rows, :][..., columns]}


def page(size: Sequence[int], seed: int, names: Sequence[str]) -> Feeds:
    """float32 of shape ``size`` (N, 3, H, W): dark strokes in lines on white, normalised for the OCR models."""
    rng = np.random.default_rng(seed)
    paper = np.full(size, 1.9, dtype=np.float32)
    for sheet in paper:
        for line in range(8, size[2] - 20, 28):
            for column in range(6, size[3] - 14, 11):
                for _ in range(0 if rng.random() < 0.15 else 3):
                    top, left = line + rng.integers(0, 12), column + rng.integers(0, 8)
                    height, width = (rng.integers(5, 14), 2) if rng.random() < 0.5 else (2, rng.integers(4, 9))
                    sheet[:, top : top + height, left : left + width] = -1.7
    return {names[0]: paper + rng.normal(0.0, 0.03, paper.shape).astype(np.float32)}


def speech(size: Sequence[int], seed: int, names: Sequence[str]) -> Feeds:
    """A chunk of ``size`` (batch, samples, rate): harmonics of a gliding voice under noise, and the recurrent state."""
    batch, samples, rate = size
    rng = np.random.default_rng(seed)
    time = np.arange(samples) / rate
    pitch = rng.uniform(90, 250, (batch, 1)) * (1 + rng.uniform(-2, 2, (batch, 1)) * time)
    voice = sum(np.sin(2 * np.pi * k * pitch * time + rng.uniform(0, 6)) / k for k in range(1, 12))
    sound = 0.1 * voice * rng.uniform(0.1, 1.0, (batch, 1)) + 0.02 * rng.standard_normal((batch, samples))
    state = rng.standard_normal((2, batch, 128)) * 0.5
    feeds = {
        "input": sound.astype(np.float32),
        "state": state.astype(np.float32),
        "sr": np.asarray(rate, dtype=np.int64),
    }
    return {name: feeds[name] for name in names}


def tokens(size: Sequence[int], seed: int, names: Sequence[str]) -> Feeds:
    """int64 of shape ``size`` (batch, length): WordPiece ids with the later sentences ending early, and their masks."""
    batch, length = size
    rng = np.random.default_rng(seed)
    lengths = np.maximum(length - 3 * np.arange(batch), 3)
    mask = (np.arange(length) < lengths[:, None]).astype(np.int64)
    ids = rng.integers(1000, 30000, (batch, length))
    ids[:, 0] = 101
    ids[np.arange(batch), lengths - 1] = 102
    feeds = {"input_ids": ids * mask, "attention_mask": mask, "token_type_ids": np.zeros_like(mask)}
    return {name: feeds[name] for name in names}


def words(size: Sequence[int], seed: int, names: Sequence[str]) -> Feeds:
    """A sentence of ``size`` (length,) characters: int64 ids of shape (length, 1), and the length."""
    ids = np.random.default_rng(seed).integers(0, 50_000, (size[0], 1))
    feeds = {"token_ids": ids.astype(np.int64), "length": np.asarray([size[0]], dtype=np.int64)}
    return {name: feeds[name] for name in names}


def file_bytes(size: Sequence[int], seed: int, names: Sequence[str]) -> Feeds:
    """int32 of shape ``size`` (batch, 2048): the first and the last bytes of short texts, 256 where there is none."""
    batch, length = size
    rng = np.random.default_rng(seed)
    data = np.full((batch, length), 256, dtype=np.int32)
    for row in data:
        text = " ".join(rng.choice(_WORDS, 60)).encode()
        row[: len(text)] = list(text)
        row[length - len(text) :] = list(text)
    return {names[0]: data}


_WORDS = np.asarray(
    "import def return the and of in { } ( ) ; # // 0 1 x y = == <p> </p> <div> key: value, - * %".split()
)

RECIPES: Mapping[str, Recipe] = {
    function.__name__: function for function in (image, page, speech, tokens, words, file_bytes)
}
