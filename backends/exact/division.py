"""Remainders of floats in the exact namespace: IEEE 754 has them without rounding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onemodel.backends.exact.rounding import is_float

Array = Any


def remainder(a: Array, b: Array, /, *, xp: Any) -> Array:
    """What the division, rounded down, leaves over: exact, and for operands of different signs rounded once.

    C's fmod, which is exact on every machine, comes first; so this is computed on the host.
    """
    if not is_float(a.dtype, xp):
        return xp.remainder(a, b)
    rest = xp.from_host(np.asarray(np.fmod(xp.to_host(a), xp.to_host(b))))
    moved = xp.where((rest < 0) != (b < 0), rest + b, rest)
    return xp.where(rest == 0, xp.copysign(rest, b), moved)


FUNCTIONS: dict[str, Callable[..., Any]] = {"remainder": remainder}
"""The functions of this chapter."""
