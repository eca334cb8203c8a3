"""Native kernels of NumPy in fast mode."""

from __future__ import annotations

from onemodel.backends.base import Kernel

FAST: dict[tuple[str, str], Kernel] = {}
