"""Arrays of exact mode on CuPy, and the operations that they are computed with.

A ``cupy.ndarray`` computes float32 with subnormal numbers flushed to 0, in its operators and in CuPy's functions. An
``ExactArray`` holds one and never lets it compute so: moves of elements, integers and booleans are CuPy's; every single
operation, comparison and conversion of floats is a kernel of OneModel's own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import array_api_compat.cupy as namespace
import cupy
import numpy as np

from onemodel.backends.base import Array
from onemodel.backends.cupy_convert import fetch
from onemodel.backends.cupy_exact_launch import FLOATS, converted, operation
from onemodel.backends.cupy_fast import split_complex
from onemodel.backends.cupy_run import note, shared

_library: Any = namespace


class ExactArray:
    """An array on the device.

    Attributes:
        array: its numbers; not to be computed with.
    """

    __slots__ = ("array",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, array: Array) -> None:
        self.array = array

    def __repr__(self) -> str:
        return f"<ExactArray {self.dtype}{list(self.shape)}>"

    @property
    def dtype(self) -> np.dtype[Any]:
        found: np.dtype[Any] = self.array.dtype
        return found

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    @property
    def ndim(self) -> int:
        return int(self.array.ndim)

    @property
    def size(self) -> int:
        return int(self.array.size)

    @property
    def nbytes(self) -> int:
        return int(self.array.nbytes)

    @property
    def flags(self) -> Any:
        return self.array.flags

    @property
    def data(self) -> Any:
        return self.array.data

    def copy(self) -> ExactArray:
        return ExactArray(self.array.copy())

    def astype(self, dtype: Any, *, copy: bool = True) -> Any:
        return astype(self, dtype, copy=copy)

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, key: Any) -> ExactArray:
        return ExactArray(self.array[bare(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        self.array[bare(key)] = operand(value, self.dtype).array

    def _read(self, what: str) -> Any:
        note("to_host", what, self.dtype.itemsize)
        return self.array.item()

    def __bool__(self) -> bool:
        return bool(self._read("bool"))

    def __int__(self) -> int:
        return int(self._read("int"))

    def __index__(self) -> int:
        return int(self._read("index"))

    def __float__(self) -> float:
        return float(self._read("float"))


def bare(value: Any) -> Any:
    """``value`` with CuPy's arrays in the place of these."""
    if isinstance(value, ExactArray):
        return value.array
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(map(bare, value))
    return value


def held(value: Any) -> Any:
    """The other way round."""
    if isinstance(value, cupy.ndarray):
        return ExactArray(value)
    return type(value)(map(held, value)) if type(value) in (list, tuple) else value


@lru_cache(maxsize=4096)
def _number(bits: bytes, dtype: np.dtype[Any], _device: int) -> ExactArray:
    return ExactArray(shared(np.frombuffer(bits, dtype).reshape(())))


def operand(value: Any, dtype: np.dtype[Any]) -> ExactArray:
    """An array or a Python number as an operand of that type, which nobody writes into."""
    if isinstance(value, ExactArray):
        return value if value.dtype == dtype else astype(value, dtype)
    return _number(np.asarray(value, dtype).tobytes(), dtype, cupy.cuda.runtime.getDevice())


def common_type(*values: Any) -> np.dtype[Any]:
    """The type that arrays and Python numbers are computed in together."""
    first = values[0]
    if all(isinstance(value, ExactArray) and value.dtype == first.dtype for value in values):
        found: np.dtype[Any] = first.dtype
        return found
    return np.result_type(*[value.dtype if isinstance(value, ExactArray) else value for value in values])


def is_whole(dtype: np.dtype[Any]) -> bool:
    """Whether the type is one of integers or booleans, which CuPy computes exactly."""
    return dtype.kind in "iub"


def refuse(name: str, dtype: Any) -> TypeError:
    return TypeError(f"exact mode on CuPy has no {name} of {dtype}")


def astype(x: Any, dtype: Any, *, copy: bool = True) -> Any:
    """x in another of CuPy's types, rounded once."""
    dtype = np.dtype(dtype)
    if x.dtype == dtype:
        return x.copy() if copy else x
    if is_whole(x.dtype) and is_whole(dtype):
        return ExactArray(x.array.astype(dtype))
    if "c" in (x.dtype.kind, dtype.kind):
        raise refuse(f"conversion to {dtype}", x.dtype)
    return ExactArray(converted(x.array, dtype))


def of_two(name: str, *, compares: bool = False) -> Callable[..., ExactArray]:
    """The standard's function of two arrays."""
    whole = getattr(_library, name)

    def compute(a: Any, b: Any, /) -> ExactArray:
        dtype = common_type(a, b)
        if is_whole(dtype):
            return ExactArray(whole(bare(a), bare(b)))
        left, right = operand(a, dtype).array, operand(b, dtype).array
        if dtype.kind == "c" and name in ("equal", "not_equal"):
            parts = operation(name, split_complex(left), split_complex(right), compares=True)
            return ExactArray((cupy.all if name == "equal" else cupy.any)(parts, axis=-1))
        if dtype not in FLOATS:
            raise refuse(name, dtype)
        return ExactArray(operation(name, left, right, compares=compares))

    compute.__name__ = name
    return compute


def of_one(name: str, *, compares: bool = False) -> Callable[..., ExactArray]:
    """The standard's function of one array."""
    whole = getattr(_library, name)

    def compute(x: Any, /) -> ExactArray:
        if is_whole(x.dtype):
            return ExactArray(whole(x.array))
        if x.dtype not in FLOATS:
            raise refuse(name, x.dtype)
        return ExactArray(operation(name, x.array, compares=compares))

    compute.__name__ = name
    return compute


def of_whole(name: str) -> Callable[..., Any]:
    """The standard's function of integers and booleans alone."""
    function = getattr(_library, name)

    def compute(*args: Any, **options: Any) -> Any:
        for value in args:
            if isinstance(value, ExactArray) and not is_whole(value.dtype):
                raise refuse(name, value.dtype)
        return held(function(*map(bare, args), **{key: bare(value) for key, value in options.items()}))

    compute.__name__ = name
    return compute


COMPUTING = {name: of_two(name) for name in "add subtract multiply maximum minimum".split()}
COMPUTING |= {
    name: of_two(name, compares=True) for name in "equal not_equal less less_equal greater greater_equal".split()
}
COMPUTING |= {name: of_one(name) for name in "negative abs ceil floor trunc round sign square positive".split()}
COMPUTING |= {name: of_one(name, compares=True) for name in "isnan isinf isfinite".split()}
COMPUTING |= {
    name: of_whole(name)
    for name in """
        bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift bitwise_invert logical_and
        logical_or logical_xor logical_not floor_divide remainder pow prod cumulative_sum cumulative_prod diff
    """.split()
}
"""Functions of the standard by name."""


def divide(a: Any, b: Any, /) -> ExactArray:
    """The standard's ``divide``."""
    dtype = common_type(a, b)
    if dtype not in FLOATS:
        raise refuse("divide", dtype)
    return ExactArray(operation("divide", operand(a, dtype).array, operand(b, dtype).array))


def to_host(x: Any) -> np.ndarray[Any, Any]:
    """An array of the device, a narrow one too, as NumPy's."""
    return fetch(x.array if isinstance(x, ExactArray) else x)


def _operators() -> None:
    """Python's operators are the functions above."""
    names = {"and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "lshift": "bitwise_left_shift"}
    names |= {"rshift": "bitwise_right_shift", "add": "add", "sub": "subtract", "mul": "multiply"}
    functions = {short: COMPUTING[name] for short, name in names.items()} | {"truediv": divide}
    functions |= {"floordiv": COMPUTING["floor_divide"]}
    for short, function in functions.items():
        setattr(ExactArray, f"__{short}__", lambda a, b, function=function: function(a, b))
        setattr(ExactArray, f"__r{short}__", lambda a, b, function=function: function(b, a))
    names = {"lt": "less", "le": "less_equal", "eq": "equal", "ne": "not_equal", "gt": "greater", "ge": "greater_equal"}
    for short, name in names.items():
        setattr(ExactArray, f"__{short}__", lambda a, b, function=COMPUTING[name]: function(a, b))
    for short, name in {"neg": "negative", "pos": "positive", "abs": "abs", "invert": "bitwise_invert"}.items():
        setattr(ExactArray, f"__{short}__", lambda a, function=COMPUTING[name]: function(a))


_operators()
