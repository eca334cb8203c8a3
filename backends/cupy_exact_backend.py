"""Exact mode on CuPy: the same bits as on NumPy."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import array_api_compat.cupy as library
import cupy
import numpy as np

from onemodel.backends import cupy_exact, cupy_exact_programs
from onemodel.backends.base import Array, Kernel, Namespace, NamespaceCache, Unavailable, build_namespace
from onemodel.backends.cupy_backend import CupyBackend
from onemodel.backends.cupy_exact_array import ExactArray, to_host
from onemodel.backends.cupy_gemm import cublas
from onemodel.backends.exact import exact_namespace

_EMULATION = "CUBLAS_EMULATE_DOUBLE_PRECISION"
_EMULATED_FIXEDPOINT = 8
"""cublasMath_t: CUBLAS_FP64_EMULATED_FIXEDPOINT_MATH."""


class ExactCupyBackend(CupyBackend):
    """CuPy's arrays on one GPU, computed with by kernels of OneModel's own; see ``cupy_exact_array``."""

    default_mode = "exact"
    array_type = ExactArray

    def __init__(self, device: int | None = None) -> None:
        super().__init__(device)
        self._namespaces = NamespaceCache(exact=self._made)
        self._fusions = {"exact": cupy_exact_programs.ExactFusion()}

    def _made(self) -> Namespace:
        with self._on_device():
            refuse_emulation()
            generic = build_namespace("cupy exact", library, cupy_exact.MEMBERS)
            members = cupy_exact.MEMBERS | cupy_exact.kernels(generic)
            namespace = exact_namespace("cupy exact", library, members)
        namespace.__dict__["one_nan"] = cupy_exact.one_nan
        return namespace

    def namespace(self, mode: str) -> Namespace:
        return self._namespaces(mode)

    def generic_namespace(self, mode: str) -> Namespace:
        return self._namespaces(mode)

    def program(self, function: Callable[..., Any]) -> Kernel | None:
        return cupy_exact_programs.kernel_of(function)

    def from_host(self, array: np.ndarray[Any, Any]) -> Array:
        with self._on_device():
            return cupy_exact.from_host(array)

    def to_host(self, array: Array) -> np.ndarray[Any, Any]:
        with self._on_device():
            return to_host(array)

    def of_number(self, value: Any) -> Array:
        return ExactArray(value) if isinstance(value, cupy.ndarray) else cupy_exact.asarray(value)

    def adopt(self, given: Any) -> Array | None:
        array = super().adopt(given)
        return None if array is None else ExactArray(array)

    def released(self, array: Array) -> Any:
        return array.array if isinstance(array, ExactArray) else array


def refuse_emulation() -> None:
    """Exact products rest on the error bound of float64 arithmetic, which cuBLAS's emulation of it does not promise.

    Raises:
        Unavailable: it is turned on, for the process or for CuPy's handle.
    """
    if os.environ.get(_EMULATION, "0") not in ("", "0"):
        problem = f"{_EMULATION} is set, so that it may emulate them: unset it"
    elif cublas().getMathMode(cupy.cuda.device.get_cublas_handle()) & _EMULATED_FIXEDPOINT:
        problem = "CuPy's handle is set to emulate them: set its math mode back"
    else:
        return
    raise Unavailable(
        f"exact mode on backend 'cupy' needs cuBLAS's float64 products, but {problem}, or use mode=\"fast\""
    )
