"""Proves exact functions correctly rounded over all 2**32 float32 inputs.

    python -m tests.exact.prove exp log ...       (--all for every function; --exceptions to list what is wrong)

The program of a function is compiled as it is, operation by operation (``c_source.py``; gcc on x86-64, no contraction);
a million random inputs must give the same bits on NumPy, the form that sessions run.

Each result is compared with glibc's double value (``reference.c``) wherever that, with a margin of 2**-48 of itself on
both sides, rounds to one float32; the error of glibc's vector functions is below 4 units in the last place, 2**-50.
Where it does not, the long double value decides with a margin of 2**-54, and where that does not, MPFR with 400 bits.
Odd and even functions must mirror for negative inputs what they give for positive ones. The outcome goes to
``proofs.json`` with a hash of the program, so that a test sees when a function has changed since its proof.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onemodel.backends.exact import functions
from onemodel.backends.exact.elementary import host_runner
from onemodel.backends.exact.program import Program
from tests.exact import references
from tests.exact.c_source import FLAGS, blocked

FOLDER = Path(__file__).parent
PROOFS = FOLDER / "proofs.json"
EXCEPTIONS = Path(functions.__file__).with_name("exceptions.json")
CHUNK = 1 << 22
ROOM = 1 << 16
SIGN = 1 << 31
MOST = 256
"""Exceptions that a function may have."""

NAMES = (
    "exp exp2 expm1 cosh sinh sigmoid silu mish gelu_tanh log log2 log10 log1p asinh acosh atanh "
    "sin cos tan atan asin acos tanh erf gelu softplus rsqrt"
).split()
"""In the order of reference.c."""

MARGINS = {"gelu_tanh": (2.0**-43, 2.0**-52), "gelu": (2.0**-43, 2.0**-53)}
"""Where rounding the argument of exp or erfc costs more than the 2**-48 and 2**-54 of the others."""


def _library(folder: str, name: str, *sources: tuple[Path, Sequence[str]]) -> Any:
    """C files, each compiled with its own flags, as a library."""
    objects = []
    for path, flags in sources:
        objects.append(f"{folder}/{name}-{path.stem}.o")
        subprocess.run(["gcc", *flags, "-fPIC", "-c", "-o", objects[-1], str(path)], check=True)
    # Linked without -ffast-math, which would make the process flush subnormals.
    subprocess.run(["gcc", "-shared", "-o", f"{folder}/{name}.so", *objects, "-lmvec", "-lm"], check=True)
    return ctypes.CDLL(f"{folder}/{name}.so")


def _reference(folder: str) -> Any:
    vector = ["-O3", "-march=native", "-ffast-math"]
    files = (FOLDER / "reference.c", ["-O3", "-march=native"]), (FOLDER / "reference_values.c", vector)
    return _library(folder, "reference", *files)


def reference(folder: str) -> Any:
    """The function ``compare`` of reference.c."""
    compare = _reference(folder).compare
    pointer = ctypes.c_void_p
    compare.argtypes = [ctypes.c_int, ctypes.c_uint32, ctypes.c_int64, pointer, ctypes.c_double, ctypes.c_double]
    compare.argtypes += [pointer, pointer, ctypes.c_int64, pointer]
    compare.restype = None
    return compare


def reference_values(folder: str) -> Callable[[str, Any], Any]:
    """The function ``values`` of reference_values.c, for float32 arrays whose length is a multiple of 1,024."""
    values = _reference(folder).values
    values.argtypes, values.restype = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p], None

    def call(name: str, x: Any) -> Any:
        result = np.empty(x.size)
        for start in range(0, x.size, 1024):
            values(NAMES.index(name), x[start:].ctypes.data, result[start:].ctypes.data)
        return result

    return call


Run = Callable[[Any], Any]


def compiled_program(program: Program, folder: str) -> Run:
    """A program of one float32 input, on arrays whose length is a multiple of 1,024."""
    name = f"program-{program.digest()[:16]}"
    path = Path(folder) / f"{name}.c"
    path.write_text(blocked(program, "run"))
    run = _library(folder, name, (path, FLAGS)).run
    run.argtypes, run.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64], None

    def call(x: Any) -> Any:
        result = np.empty_like(x)
        run(x.ctypes.data, result.ctypes.data, x.size)
        return result

    return call


def same(a: Any, b: Any) -> Any:
    """Where the bits of float32 agree, or both are NaN."""
    return (a.view(np.uint32) == b.view(np.uint32)) | (np.isnan(a) & np.isnan(b))


def right_bits(name: str, bits: int) -> int:
    """The bits of the correctly rounded result, by MPFR."""
    number = references.number_of(bits)
    return references.bits_of(references.rounded(references.value(name, number), *references.FORMATS["float32"]))


def every_chunk() -> Iterator[int]:
    """All chunks, each negative one after its positive one."""
    for begin in range(0, SIGN, CHUNK):
        yield begin
        yield begin | SIGN


def prove(name: str, compare: Any, run: Run, chunks: Iterable[int]) -> dict[str, Any]:
    """Compare the results of ``run`` for the inputs whose bits begin at ``chunks``, ``CHUNK`` each."""
    symmetry = functions.FUNCTIONS[name].symmetry
    flipped, positive = np.uint32(SIGN if symmetry == "odd" else 0), None
    unmirrored: list[int] = []
    hard, wrong = np.empty(ROOM, np.uint32), np.empty(ROOM, np.uint32)
    totals = np.zeros(2, np.int64)
    inputs = 0
    for begin in chunks:
        bits = np.arange(begin, begin + CHUNK, dtype=np.uint32)
        results = run(bits.view(np.float32))
        inputs += CHUNK
        if begin >= SIGN and positive is not None and symmetry in ("odd", "even"):
            unmirrored += bits[~same((positive.view(np.uint32) ^ flipped).view(np.float32), results)].tolist()
            continue
        positive = results
        compare(
            NAMES.index(name), begin, CHUNK, results.ctypes.data, *MARGINS.get(name, (2.0**-48, 2.0**-54)),
            hard.ctypes.data, wrong.ctypes.data, ROOM, totals.ctypes.data,
        )  # fmt: skip
    if totals.max() > ROOM:
        raise SystemExit(f"{name}: {totals[0]} hard and {totals[1]} wrong results are more than {ROOM}")
    cases = hard[: totals[0]]
    results = run(np.resize(cases, -(-max(cases.size, 1) // 1024) * 1024).view(np.float32)).view(np.uint32).tolist()
    bad = unmirrored + wrong[: totals[1]].tolist()
    bad += [case for case, result in zip(cases.tolist(), results, strict=False) if result != right_bits(name, case)]
    return {"inputs": inputs, "hard": int(totals[0]), "wrong": sorted(bad)}


def prove_all(name: str, compare: Any, folder: str) -> dict[str, Any]:
    """The proof for all inputs."""
    begun = time.perf_counter()
    function = functions.FUNCTIONS[name]
    run = compiled_program(function.program(), folder)
    sample = np.random.default_rng(0).integers(0, 1 << 32, 1 << 20, dtype=np.uint64).astype(np.uint32).view(np.float32)
    if not same(run(sample), host_runner(function.program())(sample)).all():
        raise SystemExit(f"{name}: NumPy and the compiled program differ")
    outcome = prove(name, compare, run, every_chunk())
    mirrored = 2 if function.symmetry in ("odd", "even") else 1
    return {
        "program": function.program().digest(),
        "inputs": outcome["inputs"],
        "hard": outcome["hard"] * mirrored,
        "exceptions": len(functions.exceptions().get(name, [])) * mirrored,
        "seconds": round(time.perf_counter() - begun),
        "wrong": outcome["wrong"],
    }


def main() -> int:
    """Prove the functions named on the command line; 1 where a result is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*NAMES, []], metavar="NAME")
    parser.add_argument("--all", action="store_true")
    parser.add_argument(
        "--exceptions", action="store_true", help="add what is wrong to exceptions.json; then prove again"
    )
    options = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        compare = reference(folder)
        for name in NAMES if options.all else options.names:
            outcome = prove_all(name, compare, folder)
            wrong = outcome.pop("wrong")
            print(name, json.dumps(outcome), f"wrong {len(wrong)}", flush=True)
            for bits in wrong[:100]:
                print(f"  {bits:#x} {references.number_of(bits)!r}: right is {right_bits(name, bits):#x}", flush=True)
            proofs = json.loads(PROOFS.read_text()) if PROOFS.exists() else {}
            if wrong:
                failed = True
                proofs.pop(name, None)
                if options.exceptions and len(wrong) <= MOST:
                    add_exceptions(name, wrong)
            else:
                proofs[name] = outcome
            PROOFS.write_text(json.dumps(dict(sorted(proofs.items())), indent=1) + "\n")
    return int(failed)


def add_exceptions(name: str, wrong: list[int]) -> None:
    """Enter what is wrong, odd and even functions by their positive inputs, in exceptions.json."""
    listed = json.loads(EXCEPTIONS.read_text())
    entries = dict(listed.get(name, []))
    mirrored = functions.FUNCTIONS[name].symmetry in ("odd", "even")
    entries |= {bits: right_bits(name, bits) for bits in wrong if not (mirrored and bits >= SIGN)}
    listed[name] = sorted(entries.items())
    EXCEPTIONS.write_text(json.dumps(listed) + "\n")


if __name__ == "__main__":
    sys.exit(main())
