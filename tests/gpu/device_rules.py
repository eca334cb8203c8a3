"""What is other on the device than on the host: what waits, what takes subnormal numbers for 0, and how casts go.

What would wait for the device is noted in ``reads``, and refused within ``no_reads()``; what might flush is refused
within ``no_float32()``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ml_dtypes
import numpy as np

from tests.gpu import cpu_kernels
from tests.gpu.capture import refuse_waits

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
KINDS = "?bhilqBHILQefdFD"

reads: list[str] = []
"""What has waited for the device, in order."""
_forbidden: list[bool] = [False]
_FLUSHED = frozenset(map(np.dtype, (np.float32, np.complex64, ml_dtypes.bfloat16)))
"""Types that CuPy's kernels compute in float32 where float32 can be subnormal: all but float16."""


def read(why: str) -> None:
    """Note that the host waits for the device.

    Raises:
        RuntimeError: inside ``no_reads()``.
    """
    refuse_waits()
    reads.append(why)
    if _forbidden[0]:
        raise RuntimeError(f"the host waits for the device: {why}")


@contextmanager
def no_reads() -> Iterator[None]:
    """Whatever waits for the device is an error inside."""
    _forbidden[0] = True
    try:
        yield
    finally:
        _forbidden[0] = False


@contextmanager
def no_float32() -> Iterator[None]:
    """Computing, comparing or converting float32 or bfloat16 in CuPy's own kernels is an error inside."""
    before = cpu_kernels.float32_forbidden
    cpu_kernels.float32_forbidden = True
    try:
        yield
    finally:
        cpu_kernels.float32_forbidden = before


def flushed(value: Any, what: str) -> Any:
    """NumPy's arrays in ``value`` as a kernel of CuPy's reads or writes them: subnormal float32 numbers are 0.

    Raises:
        RuntimeError: inside ``no_float32()``, for ``what``.
    """
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(flushed(item, what) for item in value)
    if not isinstance(value, (np.ndarray, np.generic)) or value.dtype not in _FLUSHED:
        return value
    if cpu_kernels.float32_forbidden:
        raise RuntimeError(f"CuPy's kernel for {what} takes subnormal {value.dtype} numbers for 0")
    if value.dtype == np.complex64:
        parts = np.array(value, copy=True).reshape(-1).view(np.float32)
        parts[...] = flushed(parts, what)
        return parts.view(np.complex64).reshape(value.shape)
    bits: Any = np.uint32 if value.dtype == np.float32 else np.uint16
    exponents = 0x7F800000 if value.dtype == np.float32 else 0x7F80
    words: Any = np.atleast_1d(np.ascontiguousarray(value)).view(bits)
    if (words & bits(exponents)).all():
        return value
    kept = np.where(words & bits(exponents), words, words & bits(1 << (8 * words.itemsize - 1)))
    return kept.view(value.dtype).reshape(value.shape)


def checked_dtype(dtype: Any) -> np.dtype[Any]:
    """A dtype that CuPy has; TypeError for others."""
    found: np.dtype[Any] = np.dtype(dtype)
    if found.char not in KINDS and found != BFLOAT16:
        raise TypeError(f"Unsupported dtype {found}")
    return found


def cast(array: np.ndarray[Any, Any], dtype: Any) -> np.ndarray[Any, Any]:
    """As the device casts: floats saturate to 32 or 64 bits, then drop bits; float64 goes to float16 by float32."""
    dtype = checked_dtype(dtype)
    if array.dtype != dtype and not _flushes_nothing(array.dtype, dtype):
        return np.asarray(flushed(_cast(flushed(array, f"a cast to {dtype}"), dtype), f"a cast from {array.dtype}"))
    return _cast(array, dtype)


def _flushes_nothing(source: np.dtype[Any], target: np.dtype[Any]) -> bool:
    """Whether a cast flushes nothing: integers are no subnormal numbers, and bfloat16 is the upper half of float32."""
    exact = source.kind in "biu" or {source, target} == {np.dtype(np.float32), BFLOAT16}
    return exact and not cpu_kernels.float32_forbidden


def _cast(array: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    if array.dtype == np.float64 and dtype.itemsize == 2 and dtype.kind in "fV":
        array = array.astype(np.float32)
    if array.dtype.kind not in "fV" or dtype.kind not in "iu":
        return array.astype(dtype)
    wide = np.dtype(f"{dtype.kind}{max(dtype.itemsize, 4)}")
    limits, values = np.iinfo(wide), np.nan_to_num(array.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf)
    whole = np.where((values >= float(limits.max)) | (values < float(limits.min)), 0, values).astype(wide)
    whole = np.where(values >= float(limits.max), limits.max, np.where(values < limits.min, limits.min, whole))
    return whole.astype(wide).astype(dtype)
