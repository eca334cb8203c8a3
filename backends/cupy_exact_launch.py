"""CUDA kernels that keep IEEE 754: OneModel's own compilation by NVRTC, and the launch of exact mode's operations.

CuPy appends ``-ftz=true`` to the options of every kernel that it compiles, and the last option wins: there subnormal
float32 numbers become 0. So what exact mode computes with float32, float16 and bfloat16 is compiled here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import cupy
import numpy as np
from cupy.cuda import function as cuda_function
from cupy.cuda import nvrtc

from onemodel.backends.base import Array
from onemodel.backends.cupy_launch import BLOCK, TYPES, Launch, blocks_for, source, typed
from onemodel.backends.cupy_narrow import BFLOAT16
from onemodel.backends.cupy_run import per_device, row_major
from onemodel.backends.exact.source import CUDA_OPTIONS

FLOATS = tuple(TYPES)
"""The types of floats; their widest is the one that CuPy's own kernels leave as it is."""

_INTEGERS = {
    "bool": "bool",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "index_t",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned",
    "uint64": "unsigned long long",
}


class Code:
    """What NVRTC made of a source.

    Attributes:
        code: a cubin, or PTX.
        names: each name expression's name in it.
    """

    def __init__(self, code: bytes, names: Mapping[str, str]) -> None:
        self.code = code
        self.names = names


def translate(text: str, names: Sequence[str], architecture: str, options: Sequence[str] = ()) -> Code:
    """Compile CUDA C++ for ``"sm_90"`` or the like, or into PTX for ``"compute_90"``.

    Args:
        text: the source.
        names: C++ expressions of the kernels that are wanted; those that are ``extern "C"`` need none.
        architecture: what it is compiled for.
        options: more of NVRTC's.

    Raises:
        RuntimeError: it does not compile; with the compiler's words.
    """
    program = nvrtc.createProgram(text, "exact.cu", (), ())
    try:
        for name in names:
            nvrtc.addNameExpression(program, name)
        wanted = ("-std=c++17", f"-arch={architecture}", "--device-as-default-execution-space", *options, *CUDA_OPTIONS)
        try:
            nvrtc.compileProgram(program, wanted)
        except nvrtc.NVRTCError as error:
            raise RuntimeError(f"NVRTC does not take a kernel: {nvrtc.getProgramLog(program)}") from error
        read = nvrtc.getPTX if architecture.startswith("compute") else nvrtc.getCUBIN
        return Code(read(program), {name: nvrtc.getLoweredName(program, name) for name in names})
    finally:
        nvrtc.destroyProgram(program)


def _architecture() -> str:
    """The device's, or PTX of the newest that NVRTC knows, which the driver compiles, for a newer device."""
    device, known = int(cupy.cuda.Device().compute_capability), nvrtc.getSupportedArchs()
    return f"sm_{device}" if device in known else f"compute_{max(known)}"


@per_device
def loaded(text: str, names: tuple[str, ...], symbols: tuple[str, ...] = ()) -> Mapping[str, Launch]:
    """The kernels of a source by name: template instances ``names``, and ``extern "C"`` ones, ``symbols``."""
    made = translate(text, names, _architecture())
    module = cuda_function.Module()
    module.load(made.code)
    found = {name: module.get_function(lowered) for name, lowered in made.names.items()}
    return found | {symbol: module.get_function(symbol) for symbol in symbols}


@cache
def operations_source() -> tuple[str, tuple[str, ...]]:
    """The source of the single operations, and the names of all its kernels."""
    text = source("exact.cu")
    names = [f"operate<{kind}, {result}>" for kind in TYPES.values() for result in (kind, "bool")]
    names += [f"{name}<{kind}>" for name in ("to_keys", "from_keys") for kind in TYPES.values()]
    names += [f"convert<{kind}>" for kind in ("float", "double", *_INTEGERS.values())]
    names += [f"convert_half<{kind}>" for kind in ("float16", "bfloat16")]
    return text, tuple(names)


@cache
def _numbers(name: str) -> Mapping[str, np.int32]:
    """The numbers of an enumeration in the source, by lower-case name."""
    found = re.search(rf"enum {name} \{{([^}}]*)\}}", operations_source()[0])
    assert found is not None
    return {word.strip().lower(): np.int32(i) for i, word in enumerate(found[1].split(","))}


def _launch(name: str, count: int, arguments: Sequence[Any]) -> None:
    if count:
        loaded(*operations_source())[name]((blocks_for(count),), (BLOCK,), typed(arguments))


def over_elements(file: str, name: str, count: int, arguments: Sequence[Any]) -> None:
    """As ``cupy_launch.over_elements``, for a kernel that keeps IEEE 754."""
    if count:
        loaded(source(file), (name,))[name]((blocks_for(count),), (BLOCK,), typed(arguments))


def _placed(x: Array, shape: tuple[int, ...]) -> tuple[Array, int, int]:
    """An operand of a result of that shape: in one piece, and how its elements are found; see ``place``."""
    whole = math.prod(shape)
    if x.size == whole:
        return row_major(x), 1, 0
    own = (1,) * (len(shape) - x.ndim) + x.shape
    kept = [axis for axis, size in enumerate(own) if size > 1]
    first, last = (kept[0], kept[-1] + 1) if kept else (0, 0)
    if own[first:last] == shape[first:last]:
        return row_major(x), math.prod(shape[last:]) if kept else 1, x.size
    return row_major(cupy.broadcast_to(x, shape)), 1, 0


def operation(name: str, a: Array, b: Array | None = None, *, compares: bool = False) -> Array:
    """A single operation on arrays of one type of floats, which are broadcast."""
    shape = a.shape if b is None else np.broadcast_shapes(a.shape, b.shape)
    result = cupy.empty(shape, np.bool_ if compares else a.dtype)
    left = _placed(a, shape)
    right: tuple[Any, int, int] = (None, 1, 1) if b is None else _placed(b, shape)
    kind = TYPES[a.dtype]
    kernel = f"operate<{kind}, {'bool' if compares else kind}>"
    _launch(kernel, result.size, (_numbers("Operation")[name], *left, *right, result, result.size))
    return result


def converted(x: Array, dtype: np.dtype[Any]) -> Array:
    """x in another type, rounded once; as integers truncated, saturated, and 0 for NaN.

    Args:
        x: floats, or integers where ``dtype`` is one of floats.
        dtype: one of CuPy's, but no complex one.
    """
    result = cupy.empty(x.shape, dtype)
    kind = TYPES.get(x.dtype) or _INTEGERS[x.dtype.name]
    kernel = f"convert{'_half' if x.dtype in (np.float16, BFLOAT16) else ''}<{kind}>"
    _launch(kernel, x.size, (row_major(x), _numbers("Type")[dtype.name], result, x.size))
    return result


def keys_of(x: Array) -> Array:
    """Integers in the order of the floats x: the two zeros are one, every NaN is the same and the last."""
    result = cupy.empty(x.shape, np.int64 if x.dtype == np.float64 else np.int32)
    _launch(f"to_keys<{TYPES[x.dtype]}>", x.size, (row_major(x), result, x.size))
    return result


def of_keys(keys: Array, dtype: np.dtype[Any]) -> Array:
    """The numbers of keys; zeros are +0."""
    result = cupy.empty(keys.shape, dtype)
    _launch(f"from_keys<{TYPES[dtype]}>", keys.size, (row_major(keys), result, keys.size))
    return result
