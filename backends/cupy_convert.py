"""Casts between ONNX's element types on CuPy, with the results of NumPy's (``numpy_cast``)."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

from onemodel.backends import cupy_run, numpy_cast
from onemodel.backends.base import Array, numpy_dtype
from onemodel.backends.cupy_narrow import BFLOAT16, DTYPES, NarrowArray, bits_of, magnitude, narrowed, widened
from onemodel.backends.cupy_run import note, to_host

_FLOAT = 1


def from_host(array: np.ndarray[Any, Any]) -> Any:
    """A NumPy array on the device; texts stay on the host, narrow types become bytes."""
    if array.dtype == object:
        return array
    note("to_device", "from_host", array.nbytes)
    recorder = cupy_run.recorder()
    return _moved(array) if recorder is None else recorder.upload(array, _moved)


def _moved(array: np.ndarray[Any, Any]) -> Any:
    if array.dtype in DTYPES:
        return NarrowArray(cupy.asarray(bits_of(array)), array.dtype)
    return cupy.asarray(array)


def fetch(array: Any) -> np.ndarray[Any, Any]:
    """An array of the device, a narrow one too, as NumPy's."""
    if isinstance(array, NarrowArray):
        return to_host(array.bits).view(array.dtype)
    return to_host(array)


def onnx_dtype(code: int) -> np.dtype[Any]:
    """See ``extension.onnx_dtype``; the narrow types are ml_dtypes'."""
    return numpy_dtype(code)


def asarray(library: Any, value: Any, dtype: Any = None, **options: Any) -> Any:
    """The standard's ``asarray``, narrow types included."""
    if isinstance(value, NarrowArray):
        return value if dtype is None or value.dtype == dtype else convert(value, code_of(dtype))
    if isinstance(value, (np.ndarray, list, tuple)) or (dtype is not None and np.dtype(dtype) in DTYPES):
        return from_host(np.asarray(value, dtype))
    return library.asarray(value, dtype=dtype, **options)


def code_of(dtype: Any) -> int:
    """ONNX's element type code for a dtype."""
    from onnx.helper import np_dtype_to_tensor_dtype

    return int(np_dtype_to_tensor_dtype(np.dtype(dtype)))


def astype(x: Any, dtype: Any, /, *, copy: bool = True) -> Any:
    """The standard's ``astype``, narrow types included."""
    if isinstance(x, NarrowArray) or np.dtype(dtype) in DTYPES:
        return convert(x, code_of(dtype), saturate=False)
    return x.astype(dtype, copy=copy)


def convert(x: Any, code: int, /, *, saturate: bool | str = True, round_mode: str = "up") -> Any:
    """See ``extension.convert``; every type of ONNX, each conversion rounded once."""
    target = numpy_dtype(code)
    if x.dtype == target:
        return x
    if isinstance(x, np.ndarray) or target.kind == "O":
        return from_host(numpy_cast.convert(fetch(x), code, saturate=saturate, round_mode=round_mode))
    if isinstance(x, NarrowArray):
        x = widened(x)
    elif x.dtype == BFLOAT16 or (x.dtype == np.float16 and target.kind != "f"):
        x = x.astype(np.float32)
    if target in DTYPES:
        return narrowed(x, code, saturate, round_mode)
    if x.dtype == target:
        return x
    if target.kind == "b":
        # By bits: CuPy compares subnormal float32 numbers as 0.
        return magnitude(x) != 0 if x.dtype.kind == "f" else x != x.dtype.type(0)
    if target.kind in "iu" and x.dtype.kind == "f":
        return _integers(x, target)
    if target == BFLOAT16 or (target == np.float16 and x.dtype == np.float64):
        x = numpy_cast.odd_float32(x, cupy)
    return x.astype(target)


def _integers(x: Array, target: np.dtype[Any]) -> Array:
    """Floats truncated toward zero; beyond the range its nearest end, NaN 0."""
    limits = np.iinfo(target)
    low, above = x.dtype.type(limits.min), x.dtype.type(float(limits.max) + 1)
    # What the GPU makes of numbers out of range differs by type, so none is left there.
    inside = (x > low - x.dtype.type(1)) & (x < above) if limits.bits < 32 else (x >= low) & (x < above)
    result = cupy.where(inside, x, x.dtype.type(0)).astype(target)
    result = cupy.where(x >= above, target.type(limits.max), result)
    return cupy.where(~inside & (x < low), target.type(limits.min), result)
