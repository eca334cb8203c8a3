"""The CUDA source of programs, compiled for the CPU: the same bits as NumPy's blocks."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onemodel.backends.exact import elementary, powers
from onemodel.backends.exact.elementary import host_runner
from onemodel.backends.exact.program import Program, Trace, Value, trace
from onemodel.backends.exact.source import C_OPTIONS, cuda_source

COUNT = {"float32": 1 << 20, "float64": 1 << 15, "odd": 1 << 15}
"""Inputs of each function; programs of float64 take forty times as long."""

SHIM = """
#include <cmath>
#include <cstring>
struct Place { unsigned x; };
static Place gridDim, blockDim, blockIdx, threadIdx;
#define __global__
#define __device__
"""
"""What CUDA knows by itself. A kernel runs as one thread, which its loop over the grid allows."""

LAUNCHER = """
extern "C" void launch({arguments}, long long count)
{{ gridDim.x = blockDim.x = 1; blockIdx.x = threadIdx.x = 0; run({values}, count); }}
"""


def compiled(program: Program, folder: Path) -> Any:
    pointers = [f"void *p{i}" for i in range(len(program.inputs) + 1)]
    kinds = {"float32": "float", "float64": "double", "int64": "long long", "uint32": "unsigned int"}
    values = [f"({kinds[dtype]} *)p{i}" for i, dtype in enumerate([*program.inputs, program.dtypes[-1]])]
    launcher = LAUNCHER.format(arguments=", ".join(pointers), values=", ".join(values))
    path = folder / "kernel.cpp"
    path.write_text(SHIM + cuda_source(program, "run") + launcher)
    library = path.with_suffix(".so")
    warnings = ["-Wall", "-Werror", "-Wno-unused-function"]
    command = ["g++", "-O2", *C_OPTIONS, *warnings, "-shared", "-fPIC", "-o", str(library), str(path)]
    subprocess.run(command, check=True)
    launch = ctypes.CDLL(str(library)).launch
    launch.argtypes = [*[ctypes.c_void_p] * len(pointers), ctypes.c_int64]

    def call(*arrays: Any) -> Any:
        result = np.empty(arrays[0].size, program.dtypes[-1])
        launch(*(array.ctypes.data for array in arrays), result.ctypes.data, arrays[0].size)
        return result

    return call


def sample(dtype: str, count: int, seed: int) -> Any:
    """Half of all bits, half of ordinary size; the rare special values are there in full."""
    random = np.random.default_rng(seed)
    any_bits = random.integers(0, 1 << 63, count // 2, dtype=np.int64) * 2 + random.integers(0, 2, count // 2)
    special = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 5e-324, 1e-45, 2.0**-126, 2.0**-1022, 0.5, 1.5, 2.0]
    usual = random.integers(-(1 << 44), 1 << 44, count // 2 - len(special)) * 2.0**-41
    if dtype == "float32":
        any_bits = (any_bits >> 32).astype(np.int32)
    return np.concatenate([any_bits.view(dtype), usual.astype(dtype), np.array(special, dtype)])


def same(got: Any, want: Any) -> None:
    kind = f"u{got.dtype.itemsize}"
    assert ((got.view(kind) == want.view(kind)) | (np.isnan(got) & np.isnan(want))).all()


KINDS = [(name, "float32") for name in sorted({*elementary.PROVEN, *powers.NAMES})]
KINDS += [(name, "float64") for name in sorted({*elementary.PROVEN, *powers.NAMES})]
KINDS += [(name, "odd") for name in sorted(powers.NAMES)]


@pytest.mark.skipif(shutil.which("g++") is None, reason="the source is compiled for the CPU")
@pytest.mark.parametrize(("name", "kind"), KINDS, ids=lambda value: value)
def test_functions(name: str, kind: str, tmp_path: Path) -> None:
    program = elementary.program(name, kind)
    inputs = [np.roll(sample(dtype, COUNT[kind], i), 5 * i) for i, dtype in enumerate(program.inputs)]
    with np.errstate(all="ignore"):
        same(compiled(program, tmp_path)(*inputs), host_runner(program)(*inputs))


@pytest.mark.skipif(shutil.which("g++") is None, reason="the source is compiled for the CPU")
def test_every_operation(tmp_path: Path) -> None:
    table, places = np.array([-7, 3, 11, 2**62]), np.array([0.5, 2.0, 8.0])

    def body(x: Value, y: Value, k: Value, xp: Trace) -> Value:
        low, high = xp.minimum(x, y), xp.maximum(x, y)
        whole = xp.round(low) + xp.sqrt(xp.abs(high)) / -y
        index = (xp.take(table, k) << 3) ^ (k >> 2) | (k & 5)
        place = xp.searchsorted(places, x) - index
        chosen = xp.logical_not(x < y) & xp.not_equal(k, -(2**63)) | xp.equal(y, 2.0) & (x >= y)
        mended = xp.mend(chosen, whole, lambda a, b, xp: xp.where(a > b, np.inf, a * b), x, y)
        single = xp.round(xp.astype(mended, "float32")) * xp.sqrt(xp.abs(xp.astype(y, "float32")))
        return xp.astype(single, "float64") + xp.astype(xp.minimum(place, k), "float64")

    program = trace(body, ["float64", "float64", "int64"])
    x, y = sample("float64", 4096, 1), np.roll(sample("float64", 4096, 2), 3)
    k = np.concatenate([np.arange(-2048, 2046), [-(2**63), 2**63 - 1]])
    with np.errstate(all="ignore"):
        same(compiled(program, tmp_path)(x, y, k), host_runner(program)(x, y, k))


def test_a_table_holds_finite_numbers() -> None:
    program = trace(lambda k, xp: xp.take(np.array([1.0, np.inf]), k), ["int64"])
    with pytest.raises(ValueError, match="must hold finite numbers"):
        cuda_source(program, "run")
