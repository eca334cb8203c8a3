"""The library of exact mode on CuPy: the Array API on ``ExactArray``.

``exact_namespace`` builds the exact definitions on it, as it does on every library. What is not listed here raises, so
that nothing reaches a kernel of CuPy's that computes float32. Left to CuPy are moves of elements, integers, booleans;
sums, products and extremes of float64, whose bits ``-ftz`` does not touch, in kernels of one operation each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import array_api_compat.cupy as namespace
import cupy
import numpy as np

from onemodel.backends import (
    cupy_convert,
    cupy_exact_programs,
    cupy_fast,
    cupy_indices,
    cupy_run,
    get_backend,
    numpy_cast,
)
from onemodel.backends.base import STANDARD, Array, Namespace, numpy_dtype
from onemodel.backends.cupy_exact_array import (
    COMPUTING,
    ExactArray,
    bare,
    common_type,
    divide,
    held,
    is_whole,
    operand,
    refuse,
    to_host,
)
from onemodel.backends.cupy_exact_array import astype as cast
from onemodel.backends.cupy_exact_launch import FLOATS, keys_of, of_keys, operation, over_elements
from onemodel.backends.cupy_narrow import DTYPES, NarrowArray, narrowed, widened
from onemodel.backends.cupy_narrow import moving as of_bytes
from onemodel.backends.cupy_run import per_device, row_major

_library: Any = namespace
_FAST = cupy_fast.MEMBERS
_host = get_backend("numpy").namespace("exact")

_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def moving(name: str) -> Callable[..., Any]:
    """A function that moves elements, and looks at none of them."""
    function = _FAST.get(name) or getattr(_library, name)

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        return held(function(*map(bare, args), **{key: bare(value) for key, value in options.items()}))

    return call


def _joining(name: str) -> Callable[..., Any]:
    """A function that puts arrays together, which take their common type first."""
    function = moving(name)

    def call(arrays: Sequence[Any], /, **options: Any) -> Any:
        if len({array.dtype for array in arrays}) > 1:
            dtype = common_type(*arrays)
            arrays = [astype(array, dtype) for array in arrays]
        return function(list(arrays), **options)

    return call


def _triangle(name: str) -> Callable[..., Any]:
    """The standard's ``tril`` or ``triu``, of bits: CuPy selects bfloat16 as float32."""
    function = getattr(_library, name)

    def call(x: Any, /, **options: Any) -> Any:
        bits = row_major(bare(x))
        return ExactArray(function(bits.view(_BITS[x.dtype.itemsize]), **options).view(x.dtype))

    return call


# Making arrays


def from_host(array: np.ndarray[Any, Any]) -> Any:
    """A NumPy array on the device."""
    return held(cupy_convert.from_host(array))


def asarray(value: Any, /, *, dtype: Any = None, copy: bool | None = None, **_: Any) -> Any:
    """The standard's ``asarray``; numbers get their type on the host."""
    if isinstance(value, (ExactArray, NarrowArray)):
        return (
            value.copy() if copy and dtype in (None, value.dtype) else astype(value, dtype or value.dtype, copy=False)
        )
    if isinstance(value, (list, tuple)) and any(isinstance(item, ExactArray) for item in value):
        return _joining("stack")([asarray(item, dtype=dtype) for item in value])
    return from_host(np.asarray(value, dtype))


def full(shape: Any, value: Any, /, *, dtype: Any = None, **_: Any) -> Any:
    """The standard's ``full``, by the number's bits."""
    if isinstance(value, ExactArray):
        value = astype(value, dtype or value.dtype, copy=False)
        return ExactArray(_library.broadcast_to(value.array, shape).copy())
    if isinstance(value, NarrowArray) or (
        dtype is not None and (np.dtype(dtype) in DTYPES or np.dtype(dtype) == object)
    ):
        return _FAST["full"](shape, bare(value), dtype=dtype)
    number = np.asarray(value, dtype)
    if number.dtype.kind == "c" or number.dtype == bool:
        return ExactArray(cupy.full(shape, number.item(), dtype=number.dtype))
    flat = _BITS[number.dtype.itemsize]
    return ExactArray(cupy.full(shape, number.view(flat).item(), dtype=flat).view(number.dtype))


def full_like(x: Any, value: Any, /, *, dtype: Any = None, **_: Any) -> Any:
    """The standard's ``full_like``."""
    return full(x.shape, value, dtype=dtype or x.dtype)


def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, **_: Any) -> Any:
    """The standard's ``arange``; of floats NumPy's, as CuPy's adds and multiplies in one step."""
    arguments = (0, start, step) if stop is None else (start, stop, step)
    kind = np.result_type(*arguments) if dtype is None else np.dtype(dtype)
    if is_whole(kind):
        return ExactArray(cupy.arange(*arguments, dtype=kind))
    return from_host(np.arange(*arguments, dtype=kind))


# Types


def astype(x: Any, dtype: Any, /, *, copy: bool = True) -> Any:
    """The standard's ``astype``, narrow types included."""
    if isinstance(x, NarrowArray) or np.dtype(dtype) in DTYPES:
        return convert(x, cupy_convert.code_of(dtype), saturate=False)
    return cast(x, dtype, copy=copy)


def convert(x: Any, code: int, /, *, saturate: bool | str = True, round_mode: str = "up") -> Any:
    """See ``extension.convert``; every type of ONNX, each conversion rounded once, NaN by one payload."""
    target = numpy_dtype(code)
    if x.dtype == target:
        return x
    if isinstance(x, np.ndarray) or target.kind == "O" or "c" in (x.dtype.kind, target.kind):
        return from_host(numpy_cast.convert_exact(to_host(x), code, saturate=saturate, round_mode=round_mode))
    narrowing = target.kind in "fV" and target.itemsize <= x.dtype.itemsize
    if isinstance(x, NarrowArray):
        x = ExactArray(widened(x))
    if narrowing and x.dtype in FLOATS:
        x = where(COMPUTING["isnan"](x), float("nan"), x)
    if target not in DTYPES:
        return cast(x, target, copy=False)
    # float64 holds all numbers of the other floats, and CuPy compares it as it is.
    return narrowed(bare(x if is_whole(x.dtype) else cast(x, np.float64, copy=False)), code, saturate, round_mode)


def where(condition: Any, a: Any, b: Any, /) -> Any:
    """The standard's ``where``."""
    if any(isinstance(value, (NarrowArray, np.ndarray)) for value in (a, b)):
        return _FAST["where"](bare(condition), bare(a), bare(b))
    dtype = common_type(a, b)
    return held(_FAST["where"](condition.array, operand(a, dtype).array, operand(b, dtype).array))


def number_test(name: str) -> Callable[..., Any]:
    """isnan, isinf, isfinite, signbit: narrow types by their numbers, complex numbers by their parts."""

    def compute(x: Any, /) -> Any:
        if isinstance(x, NarrowArray):
            x = ExactArray(widened(x))
        if x.dtype.kind == "c":
            parts = compute(ExactArray(cupy_fast.split_complex(x.array)))
            return ExactArray(cupy.all(parts.array, axis=-1) if name == "isfinite" else cupy.any(parts.array, axis=-1))
        if is_whole(x.dtype):
            return ExactArray(x.array < 0) if name == "signbit" else COMPUTING[name](x)
        return ExactArray(operation(name, x.array, compares=True))

    return compute


def one_nan(x: Any, /) -> Any:
    """See ``extension.one_nan``; whether there is a NaN is not asked, which would wait for the device."""
    if isinstance(x, np.ndarray):
        return _host.one_nan(x)
    if x.dtype.kind == "c":
        return ExactArray(cupy_fast.join_complex(one_nan(ExactArray(cupy_fast.split_complex(x.array))).array))
    if not isinstance(x, NarrowArray):
        return where(number_test("isnan")(x), operand(np.nan, x.dtype), x) if x.dtype in FLOATS else x
    if x.dtype.name.startswith(("int", "uint", "float4", "float6")):
        return x
    return where(number_test("isnan")(x), asarray(np.nan, dtype=x.dtype), x)


def _of_floats(name: str) -> Callable[..., Any]:
    def compute(*arrays: Any) -> Any:
        dtype = common_type(*arrays)
        if dtype not in FLOATS:
            raise refuse(name, dtype)
        return ExactArray(operation(name, *(operand(value, dtype).array for value in arrays)))

    return compute


# Orders, by integers that are ordered like the numbers


def _comparable(x: ExactArray) -> Array:
    """What CuPy can order in the place of x."""
    return x.array if is_whole(x.dtype) else keys_of(x.array)


def argsort(x: Any, /, **options: Any) -> Any:
    """The standard's ``argsort``."""
    return ExactArray(_library.argsort(_comparable(x), **options))


def searchsorted(table: Any, x: Any, /, **options: Any) -> Any:
    """The standard's ``searchsorted``."""
    dtype = common_type(table, x)
    return ExactArray(_library.searchsorted(*(_comparable(operand(value, dtype)) for value in (table, x)), **options))


def argmax(x: Any, /, **options: Any) -> Any:
    """The standard's ``argmax``: the first of equal numbers, of NaN the first."""
    return ExactArray(_library.argmax(_comparable(x), **options))


def argmin(x: Any, /, **options: Any) -> Any:
    """The standard's ``argmin``: the first of equal numbers, of NaN the first."""
    if is_whole(x.dtype):
        return ExactArray(_library.argmin(x.array, **options))
    return argmax(COMPUTING["negative"](x), **options)


def max_(x: Any, /, **options: Any) -> Any:
    """The standard's ``max``; the largest of zeros is +0."""
    if is_whole(x.dtype) or x.dtype == np.float64:
        return ExactArray(_library.max(x.array, **options))
    return ExactArray(of_keys(_library.max(keys_of(x.array), **options), x.dtype))


def min_(x: Any, /, **options: Any) -> Any:
    """The standard's ``min``."""
    if is_whole(x.dtype) or x.dtype == np.float64:
        return ExactArray(_library.min(x.array, **options))
    return COMPUTING["negative"](max_(COMPUTING["negative"](x), **options))


def of_truth(name: str) -> Callable[..., Any]:
    """any, all and the like: a number is true where it is not 0."""
    function = _FAST.get(name) or getattr(_library, name)

    def compute(x: Any, /, **options: Any) -> Any:
        return held(function((x if is_whole(x.dtype) else COMPUTING["not_equal"](x, 0)).array, **options))

    return compute


# Sums and products of float64, of which only the size of the error is relied on


def sum_(x: Any, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """The standard's ``sum``."""
    if not is_whole(x.dtype) and (x.dtype != np.float64 or dtype not in (None, np.dtype(np.float64))):
        raise refuse("sum", x.dtype)
    return ExactArray(_library.sum(x.array, axis=axis, dtype=dtype, keepdims=keepdims))


def matmul(a: Any, b: Any, /) -> Any:
    """The standard's ``matmul``."""
    dtype = common_type(a, b)
    if not is_whole(dtype) and dtype != np.float64:
        raise refuse("matmul", dtype)
    return ExactArray(cupy.matmul(operand(a, dtype).array, operand(b, dtype).array))


def vecdot(a: Any, b: Any, /, *, axis: int = -1) -> Any:
    """The standard's ``vecdot`` along the last axis."""
    rows, columns = cupy.expand_dims(bare(a), -2), cupy.expand_dims(bare(b), -1)
    return ExactArray(matmul(held(rows), held(columns)).array[..., 0, 0])


def integer_matmul(a: Any, b: Any, a_zero: Any = None, b_zero: Any = None, /) -> Any:
    """See ``extension.integer_matmul``; in float64, which holds sums of any length: terms lie within 255**2."""

    def less(x: Any, zero: Any) -> Any:
        x = cast(x, np.float64)
        return x if zero is None else x - cast(zero, np.float64)

    return cast(cast(matmul(less(a, a_zero), less(b, b_zero)), np.int64), np.int32)


# Indices and parts


def gather(x: Any, indices: Any, axis: int, /) -> Any:
    """See ``extension.gather``."""
    return held(_gather(bare(x), bare(indices), axis))


_gather = of_bytes(cupy_indices.gather, _FAST["gather"])


def checked_indices(indices: Any, size: int, /) -> Any:
    """See ``extension.checked_indices``."""
    return ExactArray(cupy_indices.checked_indices(indices.array, size))


def refuse_(wrong: Any, error: type[Exception], text: str, values: Any = None, /) -> None:
    """See ``extension.refuse``."""
    cupy_run.refuse(bare(wrong), error, text, bare(values))


def _members() -> dict[str, Any]:
    members: dict[str, Any] = {
        name: moving(name)
        for name in """
            broadcast_arrays broadcast_to expand_dims eye flip imag matrix_transpose meshgrid moveaxis permute_dims real
            repeat reshape roll squeeze take take_along_axis tile unstack empty empty_like zeros zeros_like ones
            ones_like
        """.split()
    }
    members |= {name: _triangle(name) for name in ("tril", "triu")}
    members |= {name: _joining(name) for name in ("concat", "stack")}
    members |= COMPUTING
    members |= {name: number_test(name) for name in ("isnan", "isinf", "isfinite", "signbit")}
    members |= {name: _of_floats(name) for name in ("sqrt", "copysign", "reciprocal")}
    members |= {name: of_truth(name) for name in ("any", "all", "count_nonzero", "nonzero")}
    members |= {
        name: getattr(_library, name)
        for name in """
            bool complex64 complex128 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 e inf nan pi
            newaxis broadcast_shapes can_cast finfo iinfo
        """.split()
    }
    members |= {name: moving(name) for name in ("windows", "bitcast", "join_complex", "split_complex", "contiguous")}
    return members | {
        "asarray": asarray,
        "full": full,
        "full_like": full_like,
        "arange": arange,
        "astype": astype,
        "convert": convert,
        "where": where,
        "divide": divide,
        "argsort": argsort,
        "searchsorted": searchsorted,
        "argmax": argmax,
        "argmin": argmin,
        "max": max_,
        "min": min_,
        "clip": clip,
        "sum": sum_,
        "matmul": matmul,
        "vecdot": vecdot,
        "integer_matmul": integer_matmul,
        "gather": gather,
        "checked_indices": checked_indices,
        "refuse": refuse_,
        "item": lambda x: cupy_run.item(x.array),
        "as_index": lambda values: ExactArray(cupy_fast.as_index(values)),
        "pad": pad,
        "from_host": from_host,
        "to_host": to_host,
        "host_dtype": np.dtype,
        "onnx_dtype": numpy_dtype,
        "isdtype": cupy_fast.isdtype,
        "result_type": result_type,
        "block_scale": _SCALE,
        "table": per_device(lambda make, *arguments: ExactArray(cupy_run.shared(make(*arguments)))),
        "run_program": lambda program, *arrays: ExactArray(cupy_exact_programs.run(program, *map(bare, arrays))),
    }


def clip(x: Any, /, min: Any = None, max: Any = None) -> Any:
    """The standard's ``clip``."""
    x = x if min is None else COMPUTING["maximum"](x, min)
    return x if max is None else COMPUTING["minimum"](x, max)


def result_type(*values: Any) -> np.dtype[Any]:
    """The standard's ``result_type``."""
    return np.result_type(*[value.dtype if isinstance(value, (ExactArray, NarrowArray)) else value for value in values])


def pad(x: Any, widths: Sequence[tuple[int, int]], value: Any = 0, /) -> Any:
    """See ``extension.pad``."""
    if isinstance(x, np.ndarray):
        return _FAST["pad"](x, widths, value)
    if isinstance(x, ExactArray):
        value = operand(value, x.dtype)
    return held(_FAST["pad"](bare(x), widths, bare(value)))


def kernels(generic: Namespace) -> dict[str, Any]:
    """Functions of ``extension`` that are one kernel each; ``generic`` has those for what these do not take."""

    def scatter(x: Any, rows: Any, updates: Any, reduction: str, /) -> Any:
        if not isinstance(x, ExactArray):
            return generic.scatter(x, rows, updates, reduction)
        if x.dtype in FLOATS and x.dtype.itemsize == 2 and reduction != "none":
            wide = scatter(cast(x, np.float32), rows, cast(updates, np.float32), reduction)
            return cast(wide, x.dtype)
        return held(_scatter(x.array, bare(rows), bare(updates), reduction))

    def weighted_taps(x: Any, indices: Any, weights: Any, axis: int, /) -> Any:
        return held(_weighted_taps(bare(x), indices, weights, axis))

    def through(name: str) -> Callable[..., Any]:
        return lambda *args: bare(getattr(generic, name)(*map(held, args)))

    _scatter = cupy_indices.scatter(through("scatter"), over_elements)
    _weighted_taps = cupy_indices.weighted_taps(through("weighted_taps"), over_elements)
    return {"scatter": scatter, "weighted_taps": weighted_taps}


def _unlisted(name: str) -> Callable[..., Any]:
    def raise_(*_: Any, **__: Any) -> Any:
        raise TypeError(f"exact mode on CuPy has no {name}")

    return raise_


_SCALE = 128
"""A GPU wants millions of elements at a time: each part costs the launch of its kernels, and a wait."""

MEMBERS: dict[str, Any] = {name: _unlisted(name) for name in STANDARD} | _members()
"""The standard's functions and what CuPy brings of ``extension``'s."""
