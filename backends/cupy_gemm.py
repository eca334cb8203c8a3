"""Matrix products by cuBLAS: of float16 and bfloat16, added up in float32, and of all floats in a CUDA graph.

CuPy 14 multiplies stacks of float16 matrices in float32, has no product of stacks of bfloat16, and refuses to call
cuBLAS while a stream is captured (https://github.com/cupy/cupy/issues/6290), which cuBLAS itself allows.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

import array_api_compat.cupy as namespace
import cupy
import numpy as np

from onemodel.backends import cupy_libraries
from onemodel.backends.base import Array
from onemodel.backends.cupy_narrow import BFLOAT16
from onemodel.backends.cupy_run import per_device, recorder, row_major

_matmul: Callable[..., Array] = vars(namespace)["matmul"]

_HALVES = {np.dtype(np.float16): 2, BFLOAT16: 14}
"""cudaDataType_t: CUDA_R_16F and CUDA_R_16BF."""
_TYPES = {**_HALVES, np.dtype(np.float32): 0, np.dtype(np.float64): 1}
_COMPUTE_32F, _COMPUTE_64F = 68, 70
_DEFAULT = -1
_ONE = {compute: np.array(1, dtype) for compute, dtype in ((_COMPUTE_32F, np.float32), (_COMPUTE_64F, np.float64))}
_ZERO = {compute: np.zeros_like(one) for compute, one in _ONE.items()}
_WORKSPACE = 32 << 20
"""Bytes that cuBLAS may use in a graph; what NVIDIA advises from Hopper on."""


@cache
def cublas() -> ModuleType:
    """CuPy 14 has cuBLAS's functions here alone."""
    import importlib

    return importlib.import_module("cupy_backends.cuda.libs.cublas")


@per_device
def _handle_of_graphs() -> int:
    """A handle of cuBLAS, which stays: its own memory may be in what graphs have captured."""
    return int(cublas().create())


class Products:
    """cuBLAS by a handle of graphs' own on one stream, with a workspace, for products while the stream is captured.

    One at a time: the handle is one for all.

    Raises:
        RuntimeError, OSError: cuBLAS's own functions are not to be had.
    """

    def __init__(self, stream: Any) -> None:
        self._library = cupy_libraries.cublas()
        self._workspace = cupy.empty((_WORKSPACE,), np.uint8)
        self._handle = _handle_of_graphs()
        version = ctypes.c_int()
        self._check(self._library.cublasGetVersion_v2(self._handle, ctypes.byref(version)))
        if version.value != cublas().getVersion(self._handle):
            raise RuntimeError(f"two versions of cuBLAS are loaded, and CuPy does not use {version.value}")
        cublas().setStream(self._handle, stream.ptr)
        self._check(self._library.cublasSetWorkspace_v2(self._handle, self._workspace.data.ptr, _WORKSPACE))

    def __call__(self, _: int, *arguments: Any) -> None:
        """As CuPy's ``gemmStridedBatchedEx``, by this handle."""
        self._check(self._library.cublasGemmStridedBatchedEx(self._handle, *arguments))

    def _check(self, status: int) -> None:
        if status:
            raise RuntimeError(f"cuBLAS gives status {status}")


def matmul(a: Array, b: Array, /) -> Array:
    """The standard's ``matmul``."""
    types = _HALVES if recorder() is None else _TYPES
    if a.dtype not in types or b.dtype != a.dtype or 0 in (*a.shape, *b.shape):
        return _matmul(a, b)
    left = a if a.ndim > 1 else cupy.expand_dims(a, 0)
    right = b if b.ndim > 1 else cupy.expand_dims(b, 1)
    if left.shape[-1] != right.shape[-2]:
        raise ValueError(f"shapes {a.shape} and {b.shape} do not multiply")
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    if right.ndim == 2 and left.ndim > 2:
        rows = cupy.reshape(left, (math.prod(left.shape[:-1]), left.shape[-1]))
        product = cupy.reshape(_multiplied(rows[None], right[None], 1)[0], (*left.shape[:-1], right.shape[-1]))
    else:
        count = math.prod(batch)
        product = _multiplied(_stacked(left, batch), _stacked(right, batch), count)
        product = cupy.reshape(product, (*batch, left.shape[-2], right.shape[-1]))
    product = product if a.ndim > 1 else cupy.squeeze(product, -2)
    return product if b.ndim > 1 else cupy.squeeze(product, -1)


def add_product(a: Array, b: Array, onto: Array) -> None:
    """Add the products of two stacks of matrices to ``onto``, contiguous, and round each sum once."""
    batch = onto.shape[:-2]
    flat = cupy.reshape(onto, (math.prod(batch), *onto.shape[-2:]))
    _multiplied(_stacked(a, batch), _stacked(b, batch), len(flat), flat, add=True)


def product(a: Array, b: Array, into: Array) -> None:
    """Write the products of two stacks of as many matrices, views too, ``into`` a contiguous one.

    That one is of their type, or float32 where theirs is a half type.
    """
    _multiplied(a, b, len(a), into)


def _stacked(x: Array, batch: tuple[int, ...]) -> Array:
    """x as a stack of matrices: one for all, or one for each of the batch."""
    if math.prod(x.shape[:-2]) == 1:
        return cupy.reshape(x, (1, *x.shape[-2:]))
    if x.shape[:-2] != batch:
        x = cupy.broadcast_to(x, (*batch, *x.shape[-2:]))
    return x if x.ndim == 3 else cupy.reshape(x, (math.prod(batch), *x.shape[-2:]))


def _layout(x: Array) -> tuple[Array, int, int, int]:
    """A stack of matrices as cuBLAS reads it: the array, whether it is transposed, leading dimension, matrix step.

    cuBLAS counts columns first, so a matrix that lies row by row is read as its transpose.
    """
    size = x.dtype.itemsize
    count, rows, columns = x.shape
    outer, step, unit = (stride // size for stride in x.strides)
    outer = 0 if count == 1 else outer
    if (unit == 1 or columns == 1) and step >= columns and (outer > 0 or count == 1):
        return x, 0, max(step, columns) if rows > 1 else columns, outer
    if (step == 1 or rows == 1) and unit >= rows and (outer > 0 or count == 1):
        return x, 1, max(unit, rows) if columns > 1 else rows, outer
    x = row_major(x)
    return x, 0, columns, 0 if count == 1 else rows * columns


def _multiplied(a: Array, b: Array, count: int, into: Array | None = None, *, add: bool = False) -> Array:
    """The products of two stacks, each of ``count`` matrices or one, written ``into`` an array or added to it."""
    rows, terms, columns = a.shape[1], a.shape[2], b.shape[2]
    (a, a_turned, a_lead, a_step), (b, b_turned, b_lead, b_step) = _layout(a), _layout(b)
    result = cupy.empty((count, rows, columns), a.dtype) if into is None else into
    kind = _TYPES[a.dtype]
    compute = _COMPUTE_64F if a.dtype == np.float64 else _COMPUTE_32F
    # The transpose of the product is that of b, times that of a.
    arguments: tuple[Any, ...] = (
        cupy.cuda.device.get_cublas_handle(),
        b_turned,
        a_turned,
        columns,
        rows,
        terms,
        _ONE[compute].ctypes.data,
        b.data.ptr,
        kind,
        b_lead,
        b_step,
        a.data.ptr,
        kind,
        a_lead,
        a_step,
        (_ONE if add else _ZERO)[compute].ctypes.data,
        result.data.ptr,
        _TYPES[result.dtype],
        columns,
        rows * columns,
        count,
        compute,
        _DEFAULT,
    )
    recording = recorder()
    launch = cublas().gemmStridedBatchedEx if recording is None else recording.products
    launch(*arguments)
    return result
