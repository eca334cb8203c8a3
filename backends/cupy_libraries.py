"""CUDA's libraries by their C functions, where CuPy has none for what is wanted."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any, ClassVar

_INT, _LONG, _POINTER, _SIZE = ctypes.c_int, ctypes.c_longlong, ctypes.c_void_p, ctypes.c_size_t


@cache
def cublas() -> Any:
    """The cuBLAS that CuPy uses: it is loaded once in a process, wherever it is found.

    Raises:
        RuntimeError, OSError: it is not there.
    """
    from cuda.pathfinder import load_nvidia_dynamic_lib  # a dependency of CuPy's

    library = ctypes.CDLL(load_nvidia_dynamic_lib("cublas").abs_path)
    library.cublasSetWorkspace_v2.argtypes = (_POINTER, _POINTER, _SIZE)
    library.cublasGetVersion_v2.argtypes = (_POINTER, ctypes.POINTER(_INT))
    matrix = (_POINTER, _INT, _INT, _LONG)
    library.cublasGemmStridedBatchedEx.argtypes = (
        *(_POINTER, _INT, _INT, _INT, _INT, _INT, _POINTER, *matrix, *matrix, _POINTER, *matrix),
        *(_INT, _INT, _INT),
    )
    return library


@cache
def driver() -> Any:
    """The CUDA driver.

    Raises:
        OSError: it is not there.
    """
    library = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    library.cuGraphGetNodes.argtypes = (_POINTER, _POINTER, ctypes.POINTER(_SIZE))
    library.cuGraphNodeGetType.argtypes = (_POINTER, ctypes.POINTER(_INT))
    library.cuGraphMemcpyNodeGetParams.argtypes = (_POINTER, _POINTER)
    library.cuPointerGetAttribute.argtypes = (_POINTER, _INT, ctypes.c_uint64)
    return library


class Memcpy3D(ctypes.Structure):
    """CUDA_MEMCPY3D of the driver: what a copy in a graph copies."""

    _fields_: ClassVar[Any] = tuple(
        field
        for end in ("src", "dst")
        for field in (
            *((f"{end}{name}", _SIZE) for name in ("XInBytes", "Y", "Z", "LOD")),
            (f"{end}MemoryType", ctypes.c_uint),
            *((f"{end}{name}", _POINTER) for name in ("Host", "Device", "Array", "Reserved")),
            *((f"{end}{name}", _SIZE) for name in ("Pitch", "Height")),
        )
    ) + tuple((name, _SIZE) for name in ("WidthInBytes", "Height", "Depth"))
