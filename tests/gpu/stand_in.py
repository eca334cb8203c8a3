"""A stand-in for the module ``cupy`` over NumPy, so that what OneModel does on a GPU can be tested without one.

``install.installed()`` puts it into ``sys.modules``; the real ``array_api_compat.cupy`` and OneModel's CuPy backend
then run on it. It is as strict as the GPU: calls must bind to the real CuPy's signatures (``cupy_api.json``), host
arrays do not mix with its own, types and loops that CuPy lacks raise, indices out of range wrap, and what computes or
compares float32 (bfloat16 too, which CuPy computes as float32) takes subnormal numbers for 0. What would wait for the
device is noted in ``reads``, and refused within ``no_reads()``; what might flush is refused
within ``no_float32()``.
CUDA kernels run on the CPU, see ``cpu_kernels``.
"""

from __future__ import annotations

import operator
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import ml_dtypes
import numpy as np

from tests.gpu import cpu_kernels
from tests.gpu.api_table import read_table, signature
from tests.gpu.capture import current_stream, launched, refuse_cublas, refuse_waits, uploading
from tests.gpu.device import Device, cuda_modules

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
KINDS = "?bhilqBHILQefdFD"

reads: list[str] = []
"""What has waited for the device, in order."""
_forbidden: list[bool] = [False]
_float32_forbidden: list[bool] = [False]

_FLUSHED = frozenset(map(np.dtype, (np.float32, np.complex64, ml_dtypes.bfloat16)))
"""Types that CuPy's kernels compute in float32 where float32 can be subnormal: all but float16."""
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
_MOVING_METHODS = frozenset(
    "copy fill flatten get item ravel repeat reshape squeeze swapaxes take tolist transpose view".split()
)

_READING = frozenset("argwhere array_equal bincount compress extract flatnonzero histogram nonzero unique".split())
"""Functions whose results' shapes, or results, are read from the device."""
_CUBLAS = frozenset("dot einsum inner outer tensordot vdot".split())
_FROM_HOST = frozenset("array asarray ascontiguousarray".split())
_PLAIN = frozenset("broadcast_shapes can_cast isdtype issubdtype promote_types result_type".split())
"""Functions of dtypes and shapes, which CuPy takes from NumPy."""
_ATTRIBUTES = frozenset("T base dtype flags imag itemsize mT nbytes ndim real shape size strides".split())


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
    before = _float32_forbidden[0]
    _float32_forbidden[0] = cpu_kernels.float32_forbidden = True
    try:
        yield
    finally:
        _float32_forbidden[0] = cpu_kernels.float32_forbidden = before


def flushed(value: Any, what: str) -> Any:
    """NumPy's arrays in ``value`` as a kernel of CuPy's reads or writes them: subnormal float32 numbers are 0.

    Raises:
        RuntimeError: inside ``no_float32()``, for ``what``.
    """
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(flushed(item, what) for item in value)
    if not isinstance(value, (np.ndarray, np.generic)) or value.dtype not in _FLUSHED:
        return value
    if _float32_forbidden[0]:
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


class Memory(SimpleNamespace):
    """Where an array lies: ``ptr``, and ``mem``, which all views of one allocation share."""


class ndarray:  # noqa: N801 - CuPy's name
    """An array on the device."""

    __hash__ = None  # type: ignore[assignment]
    __array_priority__ = 100
    _made: ClassVar[dict[int, tuple[Any, Any]]] = {}
    """For each allocation, by identity, the piece of work that made it."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        checked_dtype(array.dtype)
        self.host = array
        self.device = Device()
        owner = self.data.mem
        known, _ = self._made.get(id(owner), (None, None))
        if known is None or known() is not owner:  # else a view, which is no work
            self.queue()

    def queue(self) -> None:
        """Note that the current stream makes it."""
        owner = self.data.mem
        key = id(owner)
        entries = self._made
        entries[key] = weakref.ref(owner, lambda _: entries.pop(key, None)), current_stream().queue()

    def used(self) -> np.ndarray[Any, Any]:
        """What it holds, for work on the current device and stream.

        Raises:
            AssertionError: it lies on another device, or is made on another stream, which nothing has waited for.
        """
        if self.device != Device():
            raise AssertionError(f"an array of device {self.device.id} is used while {Device().id} is current")
        if not current_stream().sees(self._made[id(self.data.mem)][1]):
            raise AssertionError("an array is used on a stream that has not waited for the one on which it is made")
        return self.host

    @property
    def data(self) -> Memory:
        owner: Any = self.host
        while isinstance(base := getattr(owner, "base", None), np.ndarray) or hasattr(base, "base"):
            owner = base
        return Memory(ptr=self.host.ctypes.data, mem=owner)

    @property
    def flat(self) -> Any:
        raise TypeError("flat is not part of the stand-in")

    @property
    def __cuda_array_interface__(self) -> Mapping[str, Any]:
        return self.host.__array_interface__

    def __getattr__(self, name: str) -> Any:
        if name in _ATTRIBUTES:
            return pack(getattr(self.host, name))
        if name.startswith("_") or name not in read_table()["methods"]:
            raise AttributeError(f"cupy.ndarray has no attribute {name!r}")
        return lambda *args, **options: _method(self, name, args, options)

    @property
    def __array__(self) -> Any:
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct a NumPy array "
            "explicitly."
        )

    def __array_ufunc__(self, function: np.ufunc, method: str, *args: Any, **options: Any) -> Any:
        if method != "__call__" or function.__name__ not in read_table()["ufuncs"]:
            return NotImplemented
        return _ufunc(function.__name__, function)(*args, **options)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return sys.modules["cupy"]

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self, *, stream: Any = None, **options: Any) -> Any:
        return self.used().__dlpack__()

    def __len__(self) -> int:
        return len(self.host)

    @launched
    def __getitem__(self, key: Any) -> Any:
        if any(_is_mask(part) for part in _parts(key)):
            read("a boolean mask")
        return pack(self.used()[_wrapped(key, self.host.shape)])

    @launched
    def __setitem__(self, key: Any, value: Any) -> None:
        if any(_is_mask(part) for part in _parts(key)) and getattr(value, "ndim", 0):
            read("assignment by a boolean mask")
        for part in _parts(key):
            if isinstance(part, ndarray) and not _is_mask(part) and np.unique(part.host).size != part.host.size:
                raise AssertionError("which of several values assigned to one place stays is undefined on the device")
        given = unpack(value)
        if isinstance(given, np.ndarray) and given.dtype != self.host.dtype:
            given = cast(given, self.host.dtype)
        self.host[_wrapped(key, self.host.shape)] = given
        self.queue()

    def __bool__(self) -> bool:
        return bool(self._read("bool"))

    def __int__(self) -> int:
        return int(self._read("int"))

    def __index__(self) -> int:
        return operator.index(self._read("index"))

    def __float__(self) -> float:
        return float(self._read("float"))

    def __complex__(self) -> complex:
        return complex(self._read("complex"))

    def _read(self, why: str) -> Any:
        read(f"{why}()")
        self.used()
        current_stream().settle()
        return self.host.item() if self.host.size == 1 else bool(self.host)


def _operators() -> None:
    """Python's operators are CuPy's ufuncs."""
    names = {"and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "lshift": "left_shift"}
    names |= {"rshift": "right_shift", "truediv": "true_divide", "floordiv": "floor_divide", "mod": "remainder"}
    names |= {"add": "add", "sub": "subtract", "mul": "multiply", "pow": "power", "matmul": "matmul"}
    for short, name in names.items():
        setattr(ndarray, f"__{short}__", lambda a, b, name=name: getattr(sys.modules["cupy"], name)(a, b))
        setattr(ndarray, f"__r{short}__", lambda a, b, name=name: getattr(sys.modules["cupy"], name)(b, a))
    names = {"lt": "less", "le": "less_equal", "eq": "equal", "ne": "not_equal", "gt": "greater", "ge": "greater_equal"}
    for short, name in names.items():
        setattr(ndarray, f"__{short}__", lambda a, b, name=name: getattr(sys.modules["cupy"], name)(a, b))
    for short, name in {"neg": "negative", "pos": "positive", "abs": "absolute", "invert": "invert"}.items():
        setattr(ndarray, f"__{short}__", lambda a, name=name: getattr(sys.modules["cupy"], name)(a))


_operators()


def unpack(value: Any, *, host: bool = False) -> Any:
    """The NumPy arrays inside the stand-in's; TypeError for those of the host, as CuPy has it."""
    if isinstance(value, ndarray):
        return value.used()
    if isinstance(value, np.ndarray) and not host:
        raise TypeError(f"Unsupported type {type(value)}")
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(unpack(item, host=host) for item in value)
    return value


def pack(value: Any) -> Any:
    """NumPy's results as the stand-in's; CuPy knows no scalars of its own."""
    if isinstance(value, (np.ndarray, np.generic)):
        return ndarray(np.asarray(value))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(pack, value))
    return type(value)(map(pack, value)) if isinstance(value, (list, tuple)) else value


def _parts(key: Any) -> tuple[Any, ...]:
    return key if isinstance(key, tuple) else (key,)


def _is_mask(part: Any) -> bool:
    return isinstance(part, ndarray) and part.host.dtype == bool


def _wrapped(key: Any, shape: tuple[int, ...]) -> Any:
    """Index arrays out of range wrap on the device, without a word."""
    parts = [unpack(part) for part in _parts(key)]
    axis = 0
    for place, part in enumerate(parts):
        if part is Ellipsis:
            axis = len(shape) - sum(other is not None for other in parts[place + 1 :])
        elif isinstance(part, np.ndarray) and part.dtype == bool:
            axis += part.ndim
        elif part is not None:
            if isinstance(part, np.ndarray) and shape[axis]:
                parts[place] = part % shape[axis]
            axis += 1
    return tuple(parts) if isinstance(key, tuple) else parts[0]


def cast(array: np.ndarray[Any, Any], dtype: Any) -> np.ndarray[Any, Any]:
    """As the device casts: floats saturate to 32 or 64 bits, then drop bits; float64 goes to float16 by float32."""
    dtype = checked_dtype(dtype)
    if array.dtype != dtype and not _flushes_nothing(array.dtype, dtype):
        return np.asarray(flushed(_cast(flushed(array, f"a cast to {dtype}"), dtype), f"a cast from {array.dtype}"))
    return _cast(array, dtype)


def _flushes_nothing(source: np.dtype[Any], target: np.dtype[Any]) -> bool:
    """Whether a cast flushes nothing: integers are no subnormal numbers, and bfloat16 is the upper half of float32."""
    exact = source.kind in "biu" or {source, target} == {np.dtype(np.float32), BFLOAT16}
    return exact and not _float32_forbidden[0]


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


@launched
def _method(array: ndarray, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    signature("methods", name).bind(array, *args, **options)
    same = name == "astype" and not options.get("copy", True) and array.host.dtype == np.dtype(args[0])
    if name not in ("copy", "get") and not same:
        array.used()
    if name in ("get", "item", "tolist", "nonzero"):
        read(f"{name}()")
        current_stream().settle()
    if name == "get":
        return array.host.copy()
    if name == "astype":
        dtype = checked_dtype(args[0] if args else options["dtype"])
        if not options.get("copy", True) and array.host.dtype == dtype:
            return array
        return ndarray(cast(array.host, dtype))
    if name == "copy":
        return ndarray(array.host.copy())
    if name == "view":
        return ndarray(array.host.view(*args, **options))
    host = array.host if name in _MOVING_METHODS else flushed(array.host, name)
    result = getattr(host, name)(*unpack(args), **{key: unpack(value) for key, value in options.items()})
    return result if name in ("item", "tolist") else pack(result)


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
    if _float32_forbidden[0]:
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
