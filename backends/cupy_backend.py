"""CuPy on an NVIDIA GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import array_api_compat.cupy as library
import cupy
import numpy as np

from onemodel.backends import cupy_convert, cupy_fast, cupy_graphs, cupy_kernels, cupy_nvmath, cupy_programs, cupy_run
from onemodel.backends.base import (
    Array,
    Backend,
    Captured,
    Choice,
    Kernel,
    Namespace,
    NamespaceCache,
    Pending,
    Transfer,
    build_namespace,
)
from onemodel.backends.cupy_fusion import KernelFusion
from onemodel.backends.cupy_narrow import NarrowArray
from onemodel.backends.fusion import Fusion, Joined, Meanings

_CUDA = (2, 13)
"""DLPack's kDLCUDA and kDLCUDAManaged."""


class CupyBackend(Backend):
    """CuPy's arrays on one GPU, fast by default.

    Work goes to the caller's current stream, and nothing waits for it but what brings values to the host.

    Args:
        device: the GPU's index; None is the one that is current when work is done.
    """

    name = "cupy"
    default_mode = "fast"
    has_graphs = True
    array_type = cupy.ndarray
    waiting = cupy_fast.WAITING
    host_operators = frozenset({("", "NonMaxSuppression")})

    def __init__(self, device: int | None = None) -> None:
        self._device = device
        self._exact: Backend | None = None
        self._fusions: dict[str, Fusion] = {"fast": KernelFusion()}
        self._generic = NamespaceCache(
            fast=lambda: build_namespace("cupy fast", library, cupy_fast.MEMBERS),
            exact=lambda: self.for_mode("exact").namespace("exact"),
        )
        self._namespaces = NamespaceCache(
            fast=lambda: build_namespace(
                "cupy fast", library, cupy_fast.MEMBERS | cupy_kernels.members(self._generic("fast"))
            ),
            exact=lambda: self.for_mode("exact").namespace("exact"),
        )

    def for_mode(self, mode: str) -> Backend:
        if mode != "exact":
            return self
        from onemodel.backends.cupy_exact_backend import ExactCupyBackend

        if self._exact is None:
            self._exact = ExactCupyBackend(self._device)
        return self._exact

    def namespace(self, mode: str) -> Namespace:
        return self._namespaces(mode)

    def generic_namespace(self, mode: str) -> Namespace:
        return self._generic(mode)

    def kernels(self, mode: str) -> Mapping[tuple[str, str], Kernel]:
        return cupy_kernels.FAST if mode == "fast" else {}

    def program(self, function: Callable[..., Any]) -> Kernel | None:
        return cupy_programs.kernel_of(function)

    def fusion(self, mode: str) -> Fusion | None:
        return self._fusions.get(mode)

    def chains(self, mode: str) -> Mapping[Meanings, Joined]:
        return cupy_nvmath.CHAINS if mode == "fast" else {}

    def from_host(self, array: np.ndarray[Any, Any]) -> Array:
        with self._on_device():
            return cupy_convert.from_host(array)

    def to_host(self, array: Array) -> np.ndarray[Any, Any]:
        with self._on_device():
            return cupy_convert.fetch(array)

    def normalise(self, value: Any) -> Any:
        return value if isinstance(value, NarrowArray) else super().normalise(value)

    def of_number(self, value: Any) -> Array:
        return cupy.asarray(value)

    @contextmanager
    def running(self) -> Iterator[None]:
        with self._on_device(), cupy_run.running(), np.errstate(all="ignore"):
            yield

    def holds(self, value_type: str) -> bool:
        return "string" not in value_type and "map(" not in value_type

    def adopt(self, given: Any) -> Array | None:
        if isinstance(given, cupy.ndarray):
            array = given
        elif hasattr(given, "__dlpack_device__") and given.__dlpack_device__()[0] in _CUDA:
            array = cupy.from_dlpack(given)
        else:
            return None
        with self._on_device():
            # A copy goes to the current device.
            return array if array.device == cupy.cuda.Device() else array.copy()

    def memory_of(self, array: Array) -> Any:
        return id(array) if isinstance(array, np.ndarray) else id(array.data.mem)

    def bound(self, call: Callable[..., Any], node: Any) -> Callable[..., Any]:
        return cupy_run.bound(call, node)

    def pending(self) -> Pending | None:
        return cupy_run.pending()

    def synchronize(self) -> None:
        with self._on_device():
            cupy.cuda.get_current_stream().synchronize()

    def recording(self) -> AbstractContextManager[list[Transfer | Choice]]:
        return cupy_run.recording()

    def capture(self, run: Callable[[list[Any]], list[Any]], inputs: Sequence[Any]) -> Captured:
        return cupy_graphs.Graph(run, inputs)

    def _on_device(self) -> Any:
        return cupy.cuda.Device(self._device)
