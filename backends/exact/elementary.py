"""The exact elementary functions of arrays: all shapes, and all types of floats.

``FUNCTIONS`` has them by name. Their ``xp`` is the library's own namespace, of which only single-rounding operations,
operations on bits and look-ups are called.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import ml_dtypes
import numpy as np

from onemodel.backends.exact import (  # noqa: F401 (each enters its functions)
    double_exponential,
    double_logarithmic,
    double_special,
    double_trigonometric,
    functions_exponential,
    functions_logarithmic,
    functions_special,
    functions_trigonometric,
    powers,
)
from onemodel.backends.exact.blocks import BlockRunner
from onemodel.backends.exact.double import DOUBLE_FUNCTIONS
from onemodel.backends.exact.functions import FUNCTIONS as SINGLE_FUNCTIONS
from onemodel.backends.exact.program import Program
from onemodel.backends.exact.rounding import name_of, narrow
from onemodel.backends.numpy_cast import odd_float32

Array = Any

_HALVES = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}

PROVEN = frozenset(
    """
    acos acosh asin asinh atan atanh cos cosh erf exp exp2 expm1 gelu gelu_tanh log log10 log1p log2 mish rsqrt sigmoid
    silu sin sinh softplus tan tanh
    """.split()
)
"""Functions of one number whose program for float32 ``tests/exact/prove.py`` has proven over all inputs."""


@cache
def program(name: str, dtype: str) -> Program:
    """The program of a function for ``float32`` or ``float64``; for functions of two numbers also ``odd``."""
    if name in powers.NAMES:
        return powers.program(name, dtype)
    return SINGLE_FUNCTIONS[name].program() if dtype == "float32" else DOUBLE_FUNCTIONS[name].program()


def run(program: Program, *arrays: Array, xp: Any) -> Array:
    """A program on arrays of one shape: block by block on NumPy, as one kernel on CuPy, else as written."""
    if isinstance(arrays[0], np.ndarray):
        return host_runner(program)(*arrays)
    shape = arrays[0].shape
    flat = [xp.reshape(array, (-1,)) for array in arrays]
    return xp.reshape(xp.run_program(program, *flat), shape)


def new_runner(program: Program) -> BlockRunner:
    """The program on NumPy."""
    return BlockRunner(program, _host_namespace())


host_runner = cache(new_runner)
"""The same for programs that live as long as the module."""


@cache
def _host_namespace() -> Any:
    import array_api_compat.numpy as library

    from onemodel.backends.base import Namespace

    names = """
        abs add any asarray astype bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor clip divide
        equal float32 float64 greater greater_equal int64 less less_equal logical_not maximum minimum multiply negative
        not_equal round searchsorted sqrt subtract take uint32 where
    """.split()
    members = {name: getattr(library, name) for name in names}
    return Namespace("numpy parts", members | {"bitcast": lambda x, dtype: x.view(dtype)})


def _of_one(name: str, x: Array, /, *, xp: Any) -> Array:
    """A function of one number."""
    dtype = name_of(xp.host_dtype(x.dtype))
    if dtype in _HALVES:
        return _looked_up(name, dtype, x, xp)
    if dtype not in ("float32", "float64"):
        raise TypeError(f"{name} takes floats of 16, 32 or 64 bits, not {dtype}")
    return run(program(name, dtype), xp.asarray(x), xp=xp)


def _looked_up(name: str, dtype: str, x: Array, xp: Any) -> Array:
    if isinstance(x, np.ndarray):
        return half_table(name, dtype).take(np.ascontiguousarray(x).view(np.uint16).reshape(x.shape))
    places = xp.astype(xp.bitcast(x, xp.uint16), xp.int64)
    return xp.reshape(xp.take(xp.table(half_table, name, dtype), xp.reshape(places, (-1,))), x.shape)


@cache
def half_table(name: str, dtype: str) -> np.ndarray[Any, Any]:
    """The results for all 65,536 numbers of 16 bits, each rounded once from the float64 value."""
    numbers = np.arange(1 << 16, dtype=np.uint16).view(_HALVES[dtype]).astype(np.float32)
    wide = host_runner(SINGLE_FUNCTIONS[name].wide_program())(numbers)
    wide[np.isnan(wide)] = np.nan
    with np.errstate(all="ignore"):
        return np.asarray(odd_float32(wide).astype(_HALVES[dtype]))


def _of_two(name: str, a: Array, b: Array, /, *, xp: Any) -> Array:
    """A function of two numbers, which are broadcast; integers are the library's own."""
    if not hasattr(b, "dtype"):
        b = xp.asarray(b, dtype=a.dtype)
    if not hasattr(a, "dtype"):
        a = xp.asarray(a, dtype=b.dtype)
    kind = xp.result_type(a, b)
    dtype = name_of(xp.host_dtype(kind))
    if name == "pow" and xp.host_dtype(kind).kind in "iu":
        return xp.pow(a, b)
    if dtype not in ("float32", "float64", *_HALVES):
        raise TypeError(f"{name} takes floats of 16, 32 or 64 bits, not {dtype}")
    common = xp.float64 if dtype in _HALVES else kind
    a, b = xp.broadcast_arrays(xp.astype(a, common), xp.astype(b, common))
    if dtype not in _HALVES:
        return run(program(name, dtype), a, b, xp=xp)
    return narrow(run(program(name, "odd"), a, b, xp=xp), kind, xp)


FUNCTIONS: dict[str, Callable[..., Array]] = {
    **{name: partial(_of_one, name) for name in sorted(PROVEN)},
    **{name: partial(_of_two, name) for name in powers.NAMES},
}
"""By name: of one array of floats, or of two; the keyword ``xp`` is the library's namespace."""
