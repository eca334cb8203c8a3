"""array-api-strict: the stand-in that proves that operators use the Array API standard only."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from onemodel.backends.base import Array, Backend, Namespace, NamespaceCache, Unavailable, build_namespace, numpy_dtype
from onemodel.backends.exact import exact_namespace

try:
    import array_api_strict as library
except ImportError as error:
    raise Unavailable(
        "backend 'strict' needs array-api-strict, which is not installed: pip install array-api-strict"
    ) from error

DTYPES = frozenset(
    "bool complex64 complex128 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()
)


class Lacking(Unavailable, TypeError):
    """An element type that the standard does not have."""


def _onnx_dtype(code: int) -> Any:
    name = numpy_dtype(code).name
    if name not in DTYPES:
        raise Lacking(f"array-api-strict carries only the standard's element types, not {name}")
    return getattr(library, name)


def _from_host(array: np.ndarray[Any, Any]) -> Array:
    if array.dtype == object:
        return array  # strings stay on the host
    if array.dtype.name not in DTYPES:
        raise Lacking(f"array-api-strict carries only the standard's element types, not {array.dtype.name}")
    return library.asarray(array, copy=True)


def _to_host(array: Array) -> np.ndarray[Any, Any]:
    return np.asarray(array)


class StrictBackend(Backend):
    """array-api-strict's arrays, fast by default."""

    name = "strict"
    default_mode = "fast"
    array_type = type(library.asarray(0))

    def __init__(self) -> None:
        library.set_array_api_strict_flags(api_version="2025.12")
        members = {
            "onnx_dtype": _onnx_dtype,
            "to_host": _to_host,
            "from_host": _from_host,
            "host_dtype": lambda dtype: np.dtype(str(dtype).rpartition(".")[2]),
        }
        self.namespace_of = NamespaceCache(
            fast=lambda: build_namespace("strict fast", library, members),
            exact=lambda: exact_namespace("strict exact", library, members),
        )

    def namespace(self, mode: str) -> Namespace:
        return self.namespace_of(mode)

    def from_host(self, array: np.ndarray[Any, Any]) -> Array:
        return _from_host(array)

    def to_host(self, array: Array) -> np.ndarray[Any, Any]:
        return _to_host(array)

    def of_number(self, value: Any) -> Array:
        return library.asarray(value)

    def running(self) -> AbstractContextManager[Any]:
        return np.errstate(all="ignore")
