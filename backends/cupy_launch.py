"""CUDA kernels of OneModel's own: their sources, compiled once per kernel and element type, and their launch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import resources
from typing import Any

import cupy
import ml_dtypes
import numpy as np

from onemodel.backends.cupy_run import per_device

Launch = Callable[..., None]
"""A kernel: called with the grid, the block, the arguments, and ``shared_mem=`` bytes."""

BLOCK = 256
"""Threads of a block: ``BLOCK`` of cuda/common.cuh."""
_MOST_BLOCKS = 65535

TYPES = {
    np.dtype(np.float32): "float",
    np.dtype(np.float64): "double",
    np.dtype(np.float16): "float16",
    np.dtype(ml_dtypes.bfloat16): "bfloat16",
}
"""The floats that kernels take, and their names in cuda/common.cuh."""
NAMES = tuple(dtype.name for dtype in TYPES)

OPTIONS = ("-std=c++17", "--fmad=false")
"""Products and sums are rounded one by one, as on the CPU; CuPy adds -ftz=true."""


@cache
def source(file: str) -> str:
    """The text of a source in ``cuda/``, with what all of them share before it; that alone for no file."""
    folder = resources.files("onemodel.backends") / "cuda"
    common = (folder / "common.cuh").read_text("utf-8")
    return common + (folder / file).read_text("utf-8") if file else common


@per_device
def kernel(file: str, name: str) -> Launch:
    """The kernel ``name``, a C++ expression such as ``softmax<float>``; compiled at its first use."""
    module = cupy.RawModule(code=source(file), options=OPTIONS, name_expressions=(name,))
    launch: Launch = module.get_function(name)
    return launch


def over_elements(file: str, name: str, count: int, arguments: Sequence[Any]) -> None:
    """Launch a kernel whose threads share ``count`` elements."""
    if count:
        kernel(file, name)((blocks_for(count),), (BLOCK,), typed(arguments))


def blocks_for(count: int) -> int:
    """Blocks whose threads share ``count`` elements."""
    return min(-(-count // BLOCK), _MOST_BLOCKS)


def over_rows(file: str, name: str, rows: int, length: int, arguments: Sequence[Any]) -> None:
    """Launch a kernel with a block for each row, of as many threads as the row is long, up to ``BLOCK``."""
    if rows:
        kernel(file, name)((min(rows, _MOST_BLOCKS),), (threads_for(length),), typed(arguments))


def threads_for(length: int) -> int:
    """A power of two from 32 on that covers ``length`` elements, at most ``BLOCK``."""
    return min(max(32, 1 << max(length - 1, 1).bit_length()), BLOCK)


def typed(arguments: Sequence[Any]) -> tuple[Any, ...]:
    """Arguments as kernels take them: Python integers as index_t, None as a null pointer."""
    return tuple(np.int64(a) if isinstance(a, int) else np.uint64(0) if a is None else a for a in arguments)


def wide(dtype: np.dtype[Any]) -> type[np.floating[Any]]:
    """The type that sums of a float type are made in."""
    return np.float64 if dtype == np.float64 else np.float32
