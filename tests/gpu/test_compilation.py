"""The CUDA kernels compiled for real GPUs with warnings as errors, where CuPy and NVRTC are, and with sanitizers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onemodel.ops import registry
from tests.gpu import cpu_kernels
from tests.gpu.cpu_kernels import FLOATS
from tests.gpu.test_kernels import SOURCES, programs

pytestmark = pytest.mark.skipif(cpu_kernels.compiler() is None, reason="g++, which builds the kernels, is not there")


def names_in(source: Path) -> list[str]:
    """Every kernel of a source for every type that it is launched for."""
    text = source.read_text(encoding="utf-8")
    floats = ["float", "double", "float16", "bfloat16"]
    found = []
    for parameters, name in re.findall(r"template <([^>]*)>\s*__global__\s+void\s+(\w+)\(", text):
        kinds = {
            "class T": floats if source.stem != "taps" else floats[:2],
            "class T, int AXES": [f"{t}, {axes}" for t in floats for axes in (2, 3)],
            "class T, class M": [f"{t}, {m}" for t in floats for m in (t, "bool")],
            "class I": ["int", "index_t"],
            "class E, class I": ["unsigned char, int", "unsigned short, index_t", "unsigned long long, index_t"],
            "class T, class F": [f"{t}, {f}" for t in ("float", "index_t") for f in ("Add", "Larger", "Replace")],
        }[parameters]
        found += [f"{name}<{kind}>" for kind in kinds]
    return found


def test_every_kernel_is_found() -> None:
    counts = {source.name: len(names_in(source)) for source in SOURCES}
    assert counts == {"attention.cu": 12, "indices.cu": 11, "rows.cu": 16, "taps.cu": 2, "windows.cu": 32}


def merged_kernels() -> list[str | None]:
    """Kernels of nodes together: all types, all ways in which inputs broadcast, choices, casts and numbers."""
    from onemodel.backends import cupy_fusion
    from onemodel.backends.fusion import Element, Expression

    def element(op: str, operands: tuple[int, ...], dtype: str, **attributes: Any) -> Element:
        entry = registry.find("", op, 21)
        assert entry is not None
        return Element(entry.function, attributes, entry.function, operands, entry.widen in (True, "fast"), dtype)

    texts = []
    for name, code in (("float32", 1), ("float64", 11), ("float16", 10), ("bfloat16", 16)):
        operators = [
            element("Add", (0, 1), name),
            element("Mul", (5, 2), name),
            element("Gelu", (6,), name, approximate="tanh"),
            element("Less", (7, 3), "bool"),
            element("Where", (8, 6, 7), name),
            element("Clip", (9, 4), name),
            element("Cast", (8,), "float32", to=1),
            element("Cast", (11,), name, to=code),
            element("Sub", (10, 12), name),
        ]
        constants = (np.array(0.1, np.dtype(name)),)
        kinds = ["all", "trailing", "leading", "middle"]
        texts.append(cupy_fusion.written(Expression((name,) * 4, constants, tuple(operators)), kinds))
        compared = (element("Less", (0, 1), "bool"), element("Or", (3, 2), "bool"))
        texts.append(cupy_fusion.written(Expression((name, name, "bool"), (), compared), ["all", "one", "all"]))
    return texts


COMPILE = """
import sys
from cupy.cuda import compiler
source, names, arch = sys.stdin.read(), tuple(sys.argv[2].split("|")), sys.argv[1]
program = compiler._NVRTCProgram(source, "kernels.cu", (), (), name_expressions=names, method="cubin")
options = ("-std=c++17", "--fmad=false", "-ftz=true", f"-arch=sm_{arch}", "--device-as-default-execution-space")
code, mapping = program.compile((*options, "-Werror", "all-warnings", "--ptxas-options=-warn-spills"))
print(len(code), len(mapping))
"""


NVRTC_PYTHON = os.environ.get("ONEMODEL_NVRTC_PYTHON", "")
"""A Python of another environment that has OneModel, CuPy and NVRTC; where one is named it must work."""
COMPILER = NVRTC_PYTHON or sys.executable


def nvrtc_missing() -> str:
    """Why kernels cannot be compiled for GPUs here; empty where they can."""
    code = "import cupy; print(cupy.cuda.nvrtc.getVersion())"
    done = subprocess.run([COMPILER, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 or not NVRTC_PYTHON, done.stderr[-3000:]
    return (
        ""
        if done.returncode == 0
        else "no CuPy with NVRTC: pip install cupy-cuda13x nvidia-cuda-nvrtc nvidia-cuda-runtime"
    )


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["80", "90", "100"])
def test_kernels_compile_for_gpus(arch: str, cupy: Any) -> None:
    if reason := nvrtc_missing():
        pytest.skip(reason)
    from onemodel.backends import cupy_programs

    texts = {source.read_text(encoding="utf-8"): names_in(source) for source in SOURCES}
    every = [
        cupy_programs.written(function, count, dtype, attributes)
        for dtype, (function, count, attributes) in product(FLOATS, programs().values())
    ]
    merged = merged_kernels()
    assert None not in merged
    every += merged
    written = [text.replace("void program(", f"void program{i}(") for i, text in enumerate(every) if text is not None]
    texts["".join(written)] = [re.findall(r"program\d+", text)[0] for text in written]
    common = SOURCES[0].with_name("common.cuh").read_text(encoding="utf-8")
    for text, names in texts.items():
        command = [COMPILER, "-c", COMPILE, arch, "|".join(names)]
        done = subprocess.run(command, input=common + text, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]
        assert int(done.stdout.split()[1]) == len(names)


def under_sanitizers(root: Path, file: str, chosen: str) -> None:
    """Run the tests of a file in a process of its own, whose kernels are built with sanitizers."""
    library = subprocess.run(["g++", "-print-file-name=libasan.so"], capture_output=True, text=True).stdout.strip()
    if not Path(library).is_absolute():
        pytest.skip("g++ has no libasan")
    environment = {
        **os.environ,
        "LD_PRELOAD": library,
        "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=0",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
        "ONEMODEL_SHIM_FLAGS": "-g -fsanitize=address,undefined -fno-sanitize-recover=undefined",
    }
    options = ["-q", "-x", "-p", "no:cacheprovider", "-m", "not slow", "-k", chosen]
    command = [sys.executable, "-m", "pytest", *options, file]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout[-3000:], done.stderr[-3000:])
    assert " passed" in done.stdout


@pytest.mark.slow
def test_kernels_are_clean_under_sanitizers(root: Path) -> None:
    under_sanitizers(root, "tests/gpu/test_kernels.py", "forwards")
