"""CUDA kernels on the CPU: the shipped source, built by g++ with ``cuda_shim.h``; and CuPy's classes over that."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from tests.gpu.capture import launched

FLOATS = [np.dtype(t) for t in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)]
"""The floats that kernels take."""
SHIM = Path(__file__).with_name("cuda_shim.h")
FLAGS = ("-x c++ -std=c++17 -O1 -ffp-contract=off -fno-fast-math -fwrapv -fno-strict-aliasing -w -fPIC -shared").split()
"""Arithmetic as CUDA has it without contraction: each operation rounded once, integers wrap."""
EXTRA_FLAGS: list[str] = os.environ.get("ONEMODEL_SHIM_FLAGS", "").split()
"""More of them; the tests with sanitizers run in a process of their own with these."""

float32_forbidden = False
"""Whether kernels of float32 that CuPy compiles are refused: it flushes subnormal numbers in them."""
backwards = False
"""Whether the blocks of a grid run from the last to the first."""


@cache
def compiler() -> str | None:
    """g++, None where there is none."""
    return shutil.which("g++")


def _folder() -> Path:
    from tests.models.fetch import cache_folder

    folder = cache_folder() / "cpu-kernels"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@cache
def build(source: str) -> ctypes.PyDLL:
    """The shared library of a C++ source, kept in the user's cache folder under a hash of all that it depends on.

    Its kernels share threadIdx and the like, so that only one may run at a time: calls keep Python's lock.

    Raises:
        RuntimeError: it does not compile; with the compiler's words.
    """
    program = compiler()
    if program is None:
        raise RuntimeError("g++ is not there")
    state = hashlib.sha256(repr((FLAGS, EXTRA_FLAGS)).encode() + SHIM.read_bytes() + source.encode())
    library = _folder() / f"{state.hexdigest()[:24]}.so"
    if not library.exists():
        with tempfile.TemporaryDirectory(dir=library.parent) as folder:
            file, made = Path(folder, "kernels.cpp"), Path(folder, "kernels.so")
            file.write_text(source, encoding="utf-8")
            command = [program, *FLAGS, *EXTRA_FLAGS, "-include", str(SHIM), str(file), "-o", str(made)]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(f"g++ does not take it:\n{done.stderr[:6000]}\n{source}")
            made.replace(library)
    return ctypes.PyDLL(str(library))


def launch(
    function: Any, grid: Sequence[int], block: Sequence[int], args: Sequence[Any], shared: int, *, fibers: bool
) -> None:
    """Run a kernel: arrays go as pointers, typed scalars by value, as CuPy takes them."""
    kept: list[Any] = []
    pointers = []
    for value in args:
        if hasattr(value, "host"):
            kept.append(ctypes.c_void_p(value.used().ctypes.data))
            pointers.append(ctypes.addressof(kept[-1]))
        else:
            if not isinstance(value, np.generic):
                raise TypeError(f"a kernel got a {type(value).__name__}; pass arrays and NumPy scalars")
            kept.append(np.array(value))
            pointers.append(kept[-1].ctypes.data)
    sizes = [*grid, *[1] * (3 - len(grid)), *block, *[1] * (3 - len(block))]
    function(
        (ctypes.c_void_p * max(len(pointers), 1))(*pointers),
        (ctypes.c_uint * 6)(*sizes),
        ctypes.c_size_t(shared),
        int(fibers),
        int(backwards),
    )


def has_barriers(code: str, name: str) -> bool:
    """Whether a kernel of a source has barriers, its own or those of ``over_block``."""
    start = re.search(rf"__global__\s+void\s+{re.escape(name.partition('<')[0])}\(", code)
    if start is None:
        raise ValueError(f"the source has no kernel {name}")
    body = code[start.end() :].partition("__global__")[0]
    return "__syncthreads" in body or "over_block(" in body


class RawModule:
    """As ``cupy.RawModule``, for sources with ``name_expressions``."""

    keeps_subnormals = False

    def __init__(
        self,
        code: str | None = None,
        *,
        path: str | None = None,
        options: tuple[str, ...] = (),
        backend: str = "nvrtc",
        translate_cucomplex: bool = False,
        enable_cooperative_groups: bool = False,
        name_expressions: Sequence[str] | None = None,
        jitify: bool = False,
    ) -> None:
        if code is None or name_expressions is None:
            raise TypeError("the stand-in takes sources with name_expressions alone")
        self._names = list(name_expressions)
        launchers = "".join(f"SHIM_LAUNCHER(kernel{i}, {name})\n" for i, name in enumerate(self._names))
        self._code = code
        self._source = f"{code}\n{launchers}"

    def get_function(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(f"{name} is not among the name_expressions")
        if float32_forbidden and not self.keeps_subnormals and re.search(r"\b(float|bfloat16)\b", name):
            raise RuntimeError(f"CuPy compiles {name}, which takes subnormal numbers for 0")
        function = getattr(build(self._source), f"kernel{self._names.index(name)}")
        fibers = has_barriers(self._code, name)

        def call(grid: Sequence[int], block: Sequence[int], args: Sequence[Any], *, shared_mem: int = 0) -> None:
            launch(function, grid, block, args, shared_mem, fibers=fibers)

        return launched(call)


class Nvrtc:
    """As ``cupy.cuda.nvrtc``: what it compiles stays source, together with the names that are wanted."""

    NVRTCError = RuntimeError

    def __init__(self) -> None:
        self._programs: dict[int, dict[str, Any]] = {}

    def functions(self) -> dict[str, Any]:
        """The module's functions by name."""
        return {name: getattr(self, name) for name in dir(self) if name[0] != "_" and name != "functions"}

    @staticmethod
    def getVersion() -> tuple[int, int]:  # noqa: N802 - NVRTC's names
        return 13, 0

    @staticmethod
    def getSupportedArchs() -> tuple[int, ...]:  # noqa: N802
        return 80, 90, 100

    def createProgram(self, src: str, name: str, headers: Any, include_names: Any) -> int:  # noqa: N802
        number = max(self._programs, default=0) + 1
        self._programs[number] = {"source": src, "names": []}
        return number

    def addNameExpression(self, prog: int, name: str) -> None:  # noqa: N802
        self._programs[prog]["names"].append(name)

    def compileProgram(self, prog: int, options: Sequence[str]) -> None:  # noqa: N802
        """Nothing; a kernel of exact mode must be compiled with what keeps IEEE 754."""
        for name, value in {"ftz": "false", "fmad": "false", "prec-div": "true", "prec-sqrt": "true"}.items():
            given = [option for option in options if option.lstrip("-").startswith(f"{name}=")]
            if not given or not given[-1].endswith(f"={value}"):
                raise AssertionError(f"{options} do not end with -{name}={value}")

    def getCUBIN(self, prog: int) -> bytes:  # noqa: N802
        return json.dumps(self._programs[prog]).encode()

    def getPTX(self, prog: int) -> bytes:  # noqa: N802
        return self.getCUBIN(prog)

    def getLoweredName(self, prog: int, name: str) -> str:  # noqa: N802
        return name

    def getProgramLog(self, prog: int) -> str:  # noqa: N802
        return ""

    def destroyProgram(self, prog: int) -> None:  # noqa: N802
        del self._programs[prog]


class Module:
    """As ``cupy.cuda.function.Module``, for what the stand-in's NVRTC gives."""

    def load(self, cubin: bytes) -> None:
        made = json.loads(cubin)
        symbols = re.findall(r'extern "C" __global__ void (\w+)\(', made["source"])
        self._raw = RawModule(made["source"], name_expressions=(*made["names"], *symbols))
        self._raw.keeps_subnormals = True

    def get_function(self, name: str) -> Any:
        return self._raw.get_function(name)


_C_TYPES: Mapping[str, str] = {
    "bool": "bool",
    "float32": "float",
    "float64": "double",
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}


class ElementwiseKernel:
    """As ``cupy.ElementwiseKernel``, for parameters of plain types."""

    def __init__(
        self,
        in_params: str,
        out_params: str,
        operation: str,
        name: str = "kernel",
        reduce_dims: bool = True,
        preamble: str = "",
        no_return: bool = False,
        return_tuple: bool = False,
        **options: Any,
    ) -> None:
        self._inputs = [tuple(part.split()) for part in in_params.split(",")]
        self._outputs = [tuple(part.split()) for part in out_params.split(",")]
        if strange := [kind for kind, _ in (*self._inputs, *self._outputs) if kind not in _C_TYPES]:
            raise TypeError(f"the stand-in has no type {strange[0]!r}")
        declared = []
        for i, (kind, variable) in enumerate((*self._inputs, *self._outputs)):
            const = "const " if i < len(self._inputs) else ""
            declared.append(f"{const}{_C_TYPES[kind]}& {variable} = (({const}{_C_TYPES[kind]}*)p[{i}])[i];")
        self._source = (
            f'{preamble}\nextern "C" void {re.sub(r"[^0-9A-Za-z_]", "_", name)}(void** p, long long n) {{\n'
            f"for (long long i = 0; i < n; i++) {{ {' '.join(declared)}\n{operation}; }} }}\n"
        )
        self.name = name

    @launched
    def __call__(self, *args: Any, size: int | None = None) -> Any:
        from tests.gpu.device_array import ndarray

        if len(args) != len(self._inputs):
            raise TypeError(f"Wrong number of arguments for {self.name}")
        arrays = []
        for (kind, _), value in zip(self._inputs, args, strict=True):
            if not isinstance(value, (ndarray, np.generic, int, float)):
                raise TypeError(f"Unsupported type {type(value)}")
            host = value.host if isinstance(value, ndarray) else np.asarray(value)
            if isinstance(value, ndarray) and host.dtype != np.dtype(kind):
                raise TypeError(f"{self.name} got {host.dtype}, not {kind}")
            arrays.append(host.astype(kind))
        shape = np.broadcast_shapes(*(array.shape for array in arrays))
        arrays = [np.ascontiguousarray(np.broadcast_to(array, shape)) for array in arrays]
        results = [np.empty(shape, kind) for kind, _ in self._outputs]
        pointers = (ctypes.c_void_p * (len(arrays) + len(results)))(*(a.ctypes.data for a in (*arrays, *results)))
        function = getattr(build(self._source), re.sub(r"[^0-9A-Za-z_]", "_", self.name))
        function(pointers, ctypes.c_longlong(int(np.prod(shape))))
        packed = tuple(map(ndarray, results))
        return packed if len(packed) > 1 else packed[0]
