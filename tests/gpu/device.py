"""The stand-in's ``cupy.cuda``: devices, streams, events, and the libraries that the backend asks for."""

from __future__ import annotations

import ctypes
import threading
from types import ModuleType
from typing import Any, Self

import ml_dtypes
import numpy as np

from tests.gpu.capture import CUDARuntimeError
from tests.gpu.cpu_kernels import Module, Nvrtc

COUNT = 2
"""Devices that the stand-in has."""


class _Current(threading.local):
    """The current device of each thread, 0 at first."""

    id = 0


_current = _Current()


class Device:
    """A device, and a context in which it is the current one."""

    def __init__(self, device: int | Device | None = None) -> None:
        self.id: int = _current.id if device is None else device.id if isinstance(device, Device) else int(device)
        self._before: list[int] = []

    def __enter__(self) -> Self:
        if self.id >= COUNT:
            raise CUDARuntimeError("cudaErrorInvalidDevice: invalid device ordinal")
        self._before.append(_current.id)
        _current.id = self.id
        return self

    def __exit__(self, *_: object) -> None:
        _current.id = self._before.pop()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and self.id == other.id

    def __hash__(self) -> int:
        return self.id

    def synchronize(self) -> None:
        """All work is done already."""

    @property
    def compute_capability(self) -> str:
        return "90"


_TYPES = {0: np.dtype(np.float32), 1: np.dtype(np.float64), 2: np.dtype(np.float16), 14: np.dtype(ml_dtypes.bfloat16)}
"""cudaDataType_t: CUDA_R_32F, CUDA_R_64F, CUDA_R_16F, CUDA_R_16BF."""


def _matrix(pointer: int, dtype: np.dtype[Any], rows: int, columns: int, lead: int) -> np.ndarray[Any, Any]:
    """The column-major matrix at ``pointer``."""
    size = (columns - 1) * lead + rows
    buffer: Any = (ctypes.c_char * (size * dtype.itemsize)).from_address(pointer)
    flat = np.frombuffer(buffer, dtype)
    strides = (dtype.itemsize, lead * dtype.itemsize)
    return np.lib.stride_tricks.as_strided(flat, (rows, columns), strides)


def gemm_strided_batched_ex(
    handle: int,
    transa: int,
    transb: int,
    m: int,
    n: int,
    k: int,
    alpha: int,
    A: int,  # noqa: N803 - cuBLAS's names
    Atype: int,  # noqa: N803
    lda: int,
    strideA: int,  # noqa: N803
    B: int,  # noqa: N803
    Btype: int,  # noqa: N803
    ldb: int,
    strideB: int,  # noqa: N803
    beta: int,
    C: int,  # noqa: N803
    Ctype: int,  # noqa: N803
    ldc: int,
    strideC: int,  # noqa: N803
    batchCount: int,  # noqa: N803
    computeType: int,  # noqa: N803
    algo: int,
) -> None:
    """CuBLAS's function, with float32 accumulation; the parameters are those of cupy_backends.cuda.libs.cublas."""
    a_type, b_type, c_type = _TYPES[Atype], _TYPES[Btype], _TYPES[Ctype]
    wide = {68: np.float32, 70: np.float64}[computeType]  # CUBLAS_COMPUTE_32F and CUBLAS_COMPUTE_64F
    if (a_type == np.float64) != (wide is np.float64):
        raise ValueError(f"computeType {computeType} does not go with {a_type}")
    number: Any = ctypes.c_float if wide is np.float32 else ctypes.c_double
    scale, keep = (number.from_address(pointer).value for pointer in (alpha, beta))
    for i in range(batchCount):
        a = _matrix(A + i * strideA * a_type.itemsize, a_type, *((k, m) if transa else (m, k)), lda)
        b = _matrix(B + i * strideB * b_type.itemsize, b_type, *((n, k) if transb else (k, n)), ldb)
        c = _matrix(C + i * strideC * c_type.itemsize, c_type, m, n, ldc)
        product = (a.T if transa else a).astype(wide) @ (b.T if transb else b).astype(wide)
        c[...] = (scale * product + (keep * c.astype(wide) if keep else 0)).astype(c_type)


def _refused_in_capture(*arguments: Any) -> None:
    from tests.gpu import capture

    capture.refuse_cublas()
    gemm_strided_batched_ex(*arguments)


def cuda_modules() -> dict[str, ModuleType]:
    """``cupy.cuda`` and the parts of ``cupy_backends`` that OneModel uses, by name."""
    from tests.gpu import capture

    modules = {}
    for name in (
        "cupy.cuda",
        "cupy.cuda.device",
        "cupy.cuda.runtime",
        "cupy.cuda.nvrtc",
        "cupy.cuda.function",
        "cupy_backends",
        "cupy_backends.cuda",
        "cupy_backends.cuda.libs",
        "cupy_backends.cuda.libs.cublas",
    ):
        modules[name] = ModuleType(name)
        modules[name].__path__ = []
    cuda = modules["cupy.cuda"]
    cuda.__dict__.update(
        Device=Device,
        Stream=capture.Stream,
        Event=capture.Event,
        Graph=capture.Graph,
        MemoryPool=capture.MemoryPool,
        using_allocator=capture.using_allocator,
        device=modules["cupy.cuda.device"],
        runtime=modules["cupy.cuda.runtime"],
        nvrtc=modules["cupy.cuda.nvrtc"],
        function=modules["cupy.cuda.function"],
        get_current_stream=capture.current_stream,
        get_elapsed_time=lambda start, end: 0.0,
        get_cublas_handle=lambda: 1,
    )
    modules["cupy.cuda.device"].__dict__.update(Device=Device, get_cublas_handle=lambda: 1)
    modules["cupy.cuda.runtime"].__dict__.update(
        CUDARuntimeError=CUDARuntimeError,
        getDeviceCount=lambda: COUNT,
        getDevice=lambda: _current.id,
        runtimeGetVersion=lambda: 13000,
        getDeviceProperties=lambda index: {"name": b"stand-in"},
    )
    modules["cupy.cuda.nvrtc"].__dict__.update(Nvrtc().functions())
    modules["cupy.cuda.function"].__dict__["Module"] = Module
    modules["cupy_backends.cuda.libs.cublas"].__dict__.update(
        gemmStridedBatchedEx=_refused_in_capture,
        getMathMode=lambda handle: 0,
        create=lambda: 2,
        getVersion=lambda handle: 130000,
        setStream=lambda handle, stream: capture.refuse_cublas(),
    )
    return modules
