"""The arrays of the stand-in for CuPy, NumPy's inside."""

from __future__ import annotations

import operator
import sys
import weakref
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from tests.gpu.api_table import read_table, signature
from tests.gpu.capture import current_stream, launched
from tests.gpu.device import Device
from tests.gpu.device_rules import cast, checked_dtype, flushed, read

_MOVING_METHODS = frozenset(
    "copy fill flatten get item ravel repeat reshape squeeze swapaxes take tolist transpose view".split()
)
_ATTRIBUTES = frozenset("T base dtype flags imag itemsize mT nbytes ndim real shape size strides".split())


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
        return getattr(sys.modules["cupy"], function.__name__)(*args, **options)

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
