"""What operators get from a plan beside arrays and attributes: keys of random draws, and results kept between runs."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import numpy as np

UNSEEDED = "draws random numbers without a seed; the node's attribute or Session(seed=...) gives one"
"""Why exact mode refuses a node that draws without a seed."""


def key_source(seed: float | None, session_seed: int | None, position: int) -> Callable[[], int]:
    """A callable that returns the key, 64 bits, of a node's next random draw.

    Args:
        seed: the node's own seed; the key is the bits of its float32 value.
        session_seed: where the node has none: the key is a digest of this and ``position``. None too: each call
            returns fresh bits of the operating system.
        position: the node's place in the model.
    """
    if seed is not None:
        return _Fixed(int(np.float32(seed).view(np.uint32)))
    if session_seed is not None:
        digest = blake2b(f"{session_seed} {position}".encode(), digest_size=8).digest()
        return _Fixed(int.from_bytes(digest, "little"))
    return _fresh


class _Drawn(threading.local):
    count = 0


_drawn = _Drawn()


def fresh_keys() -> int:
    """How many keys this thread has drawn without a seed."""
    return _drawn.count


def _fresh() -> int:
    _drawn.count += 1
    return secrets.randbits(64)


class _Fixed:
    """Returns one key at every call."""

    def __init__(self, key: int) -> None:
        self.key = key

    def __call__(self) -> int:
        return self.key


class Once:
    """Keeps the result of one function of constant arguments; threads may call it at the same time."""

    def __init__(self) -> None:
        self._results: list[Any] = []

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> Any:
        if not self._results:
            self._results.append(function(*arguments))
        return self._results[0]
