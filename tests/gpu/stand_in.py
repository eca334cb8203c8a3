"""A stand-in for the module ``cupy`` over NumPy, so that what OneModel does on a GPU can be tested without one.

``install.installed()`` puts it into ``sys.modules``; the real ``array_api_compat.cupy`` and OneModel's CuPy backend
then run on it. It is as strict as the GPU: calls must bind to the real CuPy's signatures (``cupy_api.json``), host
arrays do not mix with its own, types and loops that CuPy lacks raise, indices out of range wrap, and what computes or
compares float32 (bfloat16 too, which CuPy computes as float32) takes subnormal numbers for 0. What waits for the
device, and what might flush, can be refused, see ``device_rules``. CUDA kernels run on the CPU, see ``cpu_kernels``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from tests.gpu import cpu_kernels
from tests.gpu.api_table import read_table, signature
from tests.gpu.capture import current_stream, launched, refuse_cublas, uploading
from tests.gpu.device import cuda_modules
from tests.gpu.device_array import ndarray, pack, unpack
from tests.gpu.device_rules import BFLOAT16, cast, checked_dtype, flushed, read

_MOVING = frozenset(
    """
    array asarray ascontiguousarray atleast_1d atleast_2d atleast_3d broadcast_arrays broadcast_to concatenate copyto
    diagonal dstack empty empty_like expand_dims eye flip fliplr flipud full full_like hstack identity imag
    may_share_memory meshgrid moveaxis ndim ones ones_like permute_dims pad ravel real repeat reshape roll rollaxis
    shape size split squeeze stack swapaxes take take_along_axis tile transpose tril triu vstack where zeros zeros_like
    lib.stride_tricks.as_strided concat matrix_transpose unstack
    """.split()
)
"""Functions that move elements or make them, and look at none."""
_READING = frozenset("argwhere array_equal bincount compress extract flatnonzero histogram nonzero unique".split())
"""Functions whose results' shapes, or results, are read from the device."""
_CUBLAS = frozenset("dot einsum inner outer tensordot vdot".split())
_FROM_HOST = frozenset("array asarray ascontiguousarray".split())
_PLAIN = frozenset("broadcast_shapes can_cast isdtype issubdtype promote_types result_type".split())
"""Functions of dtypes and shapes, which CuPy takes from NumPy."""


def _ufunc(name: str, function: np.ufunc) -> Callable[..., Any]:
    inputs, outputs, loops = read_table()["ufuncs"][name]
    known = [tuple(map(_of_char, loop.replace("->", ""))) for loop in loops.split() if "V" not in loop]

    @cache
    def check(kinds: tuple[Any, ...]) -> None:
        """Raise unless some loop of CuPy's takes these dtypes, and gives what NumPy gives."""
        wanted = function.resolve_dtypes((*kinds, *[None] * outputs))[inputs:]
        for loop in known:
            taken = zip(kinds, loop, strict=False)
            if all(kind in (int, float, complex) or np.can_cast(kind, dtype) for kind, dtype in taken):
                if loop[inputs:] == wanted:
                    return
                if int not in kinds and float not in kinds:
                    break
        raise TypeError(f"ufunc {name!r} of {kinds} gives another type than NumPy's {wanted}, or none")

    def call(*args: Any, **options: Any) -> Any:
        if not inputs <= len(args) <= inputs + outputs:
            raise TypeError(f"Wrong number of arguments for {name!r}")
        if strange := set(options) - {"out", "dtype", "casting"}:
            raise TypeError(f"Wrong arguments {sorted(strange)}")
        arrays = flushed(unpack(args), name)
        check(tuple(_kind(value) for value in arrays[:inputs]))
        return pack(flushed(function(*arrays, **{key: unpack(value) for key, value in options.items()}), name))

    call.__name__ = name
    return launched(call)


def _of_char(char: str) -> np.dtype[Any]:
    """The dtype of a loop's letter; ml_dtypes' bfloat16 has one that NumPy does not look up."""
    return BFLOAT16 if char == BFLOAT16.char else np.dtype(char)


def _kind(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return value.dtype
    return np.dtype(bool) if isinstance(value, bool) else type(value)


def _function(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    special = _SPECIAL.get(name)
    host = name.rpartition(".")[2] in _FROM_HOST

    def call(*args: Any, **options: Any) -> Any:
        signature("functions", name).bind(*args, **options)
        if name in _READING:
            read(name)
        if name in _CUBLAS or name.startswith("linalg."):
            refuse_cublas()
        if special is not None:
            return special(*args, **options)
        arrays, named = unpack(args, host=host), {key: unpack(value, host=host) for key, value in options.items()}
        if name not in _MOVING and name not in _PLAIN:
            return pack(flushed(function(*flushed(arrays, name), **named), name))
        return pack(function(*arrays, **named))

    call.__name__ = name
    made = launched(call)
    made.__signature__ = signature("functions", name)  # type: ignore[attr-defined]
    return made


def _where(condition: Any, x: Any = None, y: Any = None) -> Any:
    if x is None:
        read("where")
        return pack(np.where(unpack(condition)))
    kinds = {value.dtype for value in (x, y) if isinstance(value, ndarray)}
    if len(kinds) > 1 or (len(kinds) == 1 and BFLOAT16 in kinds):
        x, y = (flushed(unpack(value), "where of two types") for value in (x, y))
    result = np.where(unpack(condition), unpack(x), unpack(y))
    return ndarray(result.astype(np.float32) if result.dtype == BFLOAT16 else np.asarray(result))


def _take(a: Any, indices: Any, axis: Any = None, out: Any = None) -> Any:
    return pack(np.take(unpack(a), unpack(indices), axis=axis, mode="wrap" if unpack(a).size else "raise"))


def _take_along_axis(a: Any, indices: Any, axis: Any) -> Any:
    size = a.shape[axis]
    return pack(np.take_along_axis(unpack(a), unpack(indices) % size if size else unpack(indices), axis))


def _repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    if isinstance(repeats, ndarray):
        raise TypeError("repeats must be integers on the host")
    return pack(np.repeat(unpack(a), repeats, axis))


def _sorting(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(a: Any, axis: int = -1, kind: str | None = None) -> Any:
        if a.dtype == BFLOAT16:
            raise TypeError("Sort is not supported for dtype bfloat16")
        if kind not in (None, "stable"):
            raise ValueError(f"kind {kind!r} is not supported")
        return pack(function(_ordered(unpack(a), function.__name__), axis=axis, kind="stable"))

    return call


def _ordered(array: np.ndarray[Any, Any], what: str) -> np.ndarray[Any, Any]:
    """Sorting is compiled with CuPy itself, and without flushing; exact mode does not rely on it."""
    if cpu_kernels.float32_forbidden:
        flushed(array, what)
    return array


def _asarray(a: Any, dtype: Any = None, order: Any = None, **options: Any) -> Any:
    if isinstance(a, ndarray):
        return a if dtype is None or a.dtype == np.dtype(dtype) else a.astype(dtype)
    return _array(a, dtype, **options)


def _concatenate(tup: Any, axis: Any = 0, *, out: Any = None, dtype: Any = None, casting: str = "same_kind") -> Any:
    if len(tup) > 8:  # CuPy makes a table of the arrays' addresses
        uploading()
    return pack(np.concatenate(unpack(tup), axis=axis))


def _stack(tup: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    if len(tup) > 8:
        uploading()
    return pack(np.stack(unpack(tup), axis=axis))


def _array(obj: Any, dtype: Any = None, copy: Any = True, order: Any = None, **options: Any) -> Any:
    if isinstance(obj, ndarray):
        if not copy and (dtype is None or obj.dtype == np.dtype(dtype)):
            return obj
        return ndarray(cast(obj.host, dtype or obj.host.dtype))
    if isinstance(obj, (list, tuple)) and any(isinstance(item, ndarray) for item in obj):
        return ndarray(np.stack([unpack(item) for item in obj]).astype(dtype or obj[0].dtype))
    made = np.array(obj, dtype=None if dtype is None else checked_dtype(dtype))
    if made.ndim:
        uploading()
    result = ndarray(made)
    if made.ndim and options.get("blocking"):
        current_stream().settle()
    return result


def _asnumpy(a: Any, stream: Any = None, order: str = "C", out: Any = None, *, blocking: bool = True) -> Any:
    return a.get() if isinstance(a, ndarray) else np.asarray(a)


def _full(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C") -> Any:
    return pack(np.full(shape, unpack(fill_value), None if dtype is None else checked_dtype(dtype)))


def _matmul(*args: Any, **options: Any) -> Any:
    a, b = (_ordered(x, "matmul") for x in unpack(args[:2]))  # cuBLAS flushes nothing either
    if a.dtype.kind in "fcV":
        refuse_cublas()
    if BFLOAT16 in (a.dtype, b.dtype):
        if max(a.ndim, b.ndim) > 2:
            raise TypeError("matmul has no loop for bfloat16 with more than two dimensions")
        return pack(np.matmul(a.astype(np.float32), b.astype(np.float32)).astype(BFLOAT16))
    if a.dtype == np.float16 and b.dtype == np.float16:
        return pack(np.matmul(a.astype(np.float32), b.astype(np.float32)).astype(np.float16))
    return pack(np.matmul(a, b))


_SPECIAL: Mapping[str, Callable[..., Any]] = {
    "where": _where,
    "take": _take,
    "take_along_axis": _take_along_axis,
    "repeat": _repeat,
    "sort": _sorting(np.sort),
    "argsort": _sorting(np.argsort),
    "asarray": _asarray,
    "array": _array,
    "concatenate": _concatenate,
    "stack": _stack,
    "full": _full,
    "matmul": _matmul,
}


@launched
def _as_strided(x: ndarray, shape: Any = None, strides: Any = None) -> ndarray:
    return ndarray(np.lib.stride_tricks.as_strided(x.host, shape, strides))


def from_dlpack(array: Any, *, device: Any = None, copy: Any = None) -> ndarray:
    """An array over the memory of one on the device."""
    if array.__dlpack_device__()[0] != 2:
        raise BufferError("only arrays on a CUDA device can be taken without a copy")
    if isinstance(array, ndarray):
        return ndarray(array.host.view())
    capsule = array.__dlpack__(stream=1)
    return ndarray(np.from_dlpack(SimpleNamespace(__dlpack__=lambda **_: capsule, __dlpack_device__=lambda: (1, 0))))


def _module(name: str, source: Any, prefix: str = "") -> ModuleType:
    module = ModuleType(name)
    module.__path__ = []
    table = read_table()
    for key in table["functions"]:
        part, _, short = key.rpartition(".")
        if part == prefix and hasattr(source, short):
            function = getattr(source, short)
            setattr(module, short, function if short in _PLAIN else _function(key, function))
    if not prefix:
        for key in table["ufuncs"]:
            if isinstance(getattr(np, key, None), np.ufunc):
                setattr(module, key, _ufunc(key, getattr(np, key)))
    return module


def make() -> dict[str, ModuleType]:
    """The modules, by name."""
    cupy = _module("cupy", np)
    cupy.__dict__.update(
        __version__=f"{read_table()['cupy']}+stand-in",
        ndarray=ndarray,
        asnumpy=_asnumpy,
        from_dlpack=from_dlpack,
        is_available=lambda: True,
        may_share_memory=lambda a, b: np.may_share_memory(a.host, b.host),
        result_type=lambda *args: np.result_type(*[a.dtype if isinstance(a, ndarray) else a for a in args]),
        RawModule=cpu_kernels.RawModule,
        ElementwiseKernel=cpu_kernels.ElementwiseKernel,
    )
    for name in "bool_ float16 float32 float64 complex64 complex128 dtype finfo iinfo generic number integer".split():
        setattr(cupy, name, getattr(np, name))
    for name in "signedinteger unsignedinteger inexact floating complexfloating intp newaxis e pi inf nan".split():
        setattr(cupy, name, getattr(np, name))
    for name in "int8 int16 int32 int64 uint8 uint16 uint32 uint64".split():
        setattr(cupy, name, getattr(np, name))
    modules = {"cupy": cupy}
    tricks = ModuleType("cupy.lib.stride_tricks")
    tricks.as_strided = _as_strided  # type: ignore[attr-defined]
    cupy.lib = SimpleNamespace(stride_tricks=tricks)  # type: ignore[attr-defined]
    for part in ("linalg", "fft"):
        modules[f"cupy.{part}"] = _module(f"cupy.{part}", getattr(np, part), part)
        setattr(cupy, part, modules[f"cupy.{part}"])
    modules.update(cuda_modules())
    cupy.cuda = modules["cupy.cuda"]  # type: ignore[attr-defined]
    return modules
