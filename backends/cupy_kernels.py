"""CUDA kernels of OneModel's own in fast mode: functions of the namespace, and operators."""

from __future__ import annotations

from typing import Any

from onemodel.backends import cupy_attention, cupy_indices, cupy_nvmath, cupy_rows, cupy_windows
from onemodel.backends.base import Kernel, Namespace
from onemodel.backends.cupy_narrow import moving

FAST: dict[tuple[str, str], Kernel] = {
    **cupy_rows.KERNELS,
    **cupy_windows.KERNELS,
    **cupy_attention.KERNELS,
    **cupy_nvmath.KERNELS,
}
"""Kernels of operators, by domain and name."""


def members(generic: Namespace) -> dict[str, Any]:
    """Functions of the namespace; ``generic`` has those for what they do not take."""
    return {
        "softmax": cupy_rows.softmax(generic.softmax),
        "sum": cupy_rows.row_sums(generic.sum, mean=False),
        "mean": cupy_rows.row_sums(generic.mean, mean=True),
        "checked_indices": cupy_indices.checked_indices,
        "gather": moving(cupy_indices.gather, generic.gather),
        "scatter": moving(cupy_indices.scatter(generic.scatter), generic.scatter),
        "weighted_taps": cupy_indices.weighted_taps(generic.weighted_taps),
    }
