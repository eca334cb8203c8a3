"""Recompute the digests under everything that may not change them: ``python -m tests.exact.matrix``.

Each row is a run of ``tests.exact.digests`` in a process of its own: with another BLAS kernel, SIMD level, number of
threads, C library, NumPy version, array library or instruction set. All must agree with ``digests.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onemodel.terminal import console as make_console
from onemodel.terminal import table
from tests.exact.digests import simd_features
from tests.models.fetch import cache_folder

if TYPE_CHECKING:
    from rich.console import Console

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "same-bits.md"
MARKER = "<!-- The rest is written by python -m tests.exact.matrix --fast --update -->\n"
VARIED = """
    OPENBLAS_CORETYPE OPENBLAS_NUM_THREADS OMP_NUM_THREADS MKL_NUM_THREADS NPY_DISABLE_CPU_FEATURES GLIBC_TUNABLES
    PYTHONHASHSEED QEMU_CPU
""".split()
"""Environment variables that each row starts without."""

REQUIREMENTS = (
    *("onnx==1.23.2", "onnx-ir", "ml_dtypes", "array-api-compat", "array-api-strict", "threadpoolctl"),
    *("rich", "click", "pytest"),
)
"""What an environment of the matrix needs beside NumPy."""


@dataclass(frozen=True)
class Row:
    """One way to run the digests.

    Attributes:
        axis: what it varies.
        setting: what it sets that to.
        environment: environment variables.
        python: makes the interpreter, given the folder for environments; None is the one that runs this.
        arguments: of ``tests.exact.digests``.
        quick: it belongs to what runs on every change.
    """

    axis: str
    setting: str
    environment: Mapping[str, str] = field(default_factory=dict)
    python: Callable[[Path], list[str]] | None = None
    arguments: Sequence[str] = ()
    quick: bool = True


@dataclass
class Outcome:
    """What a row gave.

    Attributes:
        row: the row.
        result: what ``tests.exact.digests --json`` printed; None where it could not run.
        seconds: how long it took.
        problem: why it could not run.
        fast: how many of the same cases gave other bits in fast mode than in the first row; None where not asked.
    """

    row: Row
    result: dict[str, Any] | None
    seconds: float
    problem: str = ""
    fast: int | None = None

    @property
    def agrees(self) -> bool:
        return self.result is not None and not self.result["differences"] and self.result["counts"].get("same", 0) > 0

    def count(self, word: str) -> int:
        return 0 if self.result is None else int(self.result["counts"].get(word, 0))


def oldest_numpy() -> str:
    """The oldest NumPy that ``pyproject.toml`` takes."""
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    (bound,) = [match[1] for text in needed if (match := re.match(r"numpy>=([\d.]+)", text))]
    return f"numpy=={bound}.0" if bound.count(".") == 1 else f"numpy=={bound}"


def _environment(name: str, numpy: str) -> Callable[[Path], list[str]]:
    """An environment with one NumPy, made once."""

    def make(folder: Path) -> list[str]:
        place = folder / name
        python = str(place / "bin" / "python")
        stamp = place / "requirements.txt"
        wanted = "\n".join((numpy, *REQUIREMENTS))
        if not stamp.exists() or stamp.read_text() != wanted:
            _quietly([sys.executable, "-m", "venv", "--clear", str(place)])
            _quietly([python, "-m", "pip", "install", "--quiet", "--upgrade", numpy, *REQUIREMENTS])
            stamp.write_text(wanted)
        return [python]

    return make


def _aarch64(folder: Path) -> list[str]:
    place = folder / "aarch64"
    _quietly(["bash", str(ROOT / "tests" / "exact" / "aarch64.sh"), str(place), "numpy", *REQUIREMENTS])
    return [str(place / "python")]


def _quietly(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()] or ["it says nothing"]
        raise RuntimeError(f"{' '.join(command[:4])}: {lines[-1]}")


def rows() -> list[Row]:
    """The whole matrix for this machine."""
    found = [Row("default", "nothing set")]
    x86 = platform.machine() in ("x86_64", "AMD64")
    found += [
        Row("BLAS kernel", core, {"OPENBLAS_CORETYPE": core}, quick=core in ("Haswell", "Prescott"))
        for core in ("SkylakeX", "Haswell", "Nehalem", "Prescott")
        if x86
    ]
    found += [
        Row("BLAS threads", str(count), {"OPENBLAS_NUM_THREADS": str(count)}, arguments=["--threads", str(count)])
        for count in (1, 2)
    ]
    found.append(Row("Python threads", "4, cases in another order", arguments=["--workers", "4"]))
    features = simd_features()
    found.append(Row("NumPy's SIMD", "all off", {"NPY_DISABLE_CPU_FEATURES": " ".join(features)}))
    high = [name for name in features if name.startswith(("AVX512", "X86_V4"))]
    if high and high != features:
        found.append(Row("NumPy's SIMD", "no AVX-512", {"NPY_DISABLE_CPU_FEATURES": " ".join(high)}, quick=False))
    if x86 and sys.platform == "linux":
        tunables = "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX512F"
        found.append(Row("C library", "without AVX2 and FMA", {"GLIBC_TUNABLES": tunables}))
        old = {"OPENBLAS_CORETYPE": "Prescott", "NPY_DISABLE_CPU_FEATURES": " ".join(features)}
        found.append(Row("all of x86-64", "as on its first machines", {**old, "GLIBC_TUNABLES": tunables}, quick=False))
    found += [Row("hash seed", seed, {"PYTHONHASHSEED": seed}, quick=seed == "1") for seed in ("0", "1")]
    # It lacks half of the types, so a quick run takes all that it has.
    found.append(Row("array library", "array-api-strict", arguments=["--backend", "strict", "--every", "1"]))
    found.append(Row("array library", "CuPy, or its stand-in", arguments=["--backend", "cupy"]))
    found.append(Row("NumPy", "oldest", python=_environment("oldest", oldest_numpy()), quick=False))
    found.append(Row("NumPy", "newest", python=_environment("newest", "numpy"), quick=False))
    for cpu in ("cortex-a72", "neoverse-n1"):
        found.append(Row("instruction set", f"AArch64, {cpu}", {"QEMU_CPU": cpu}, _aarch64, quick=False))
    return found


def run(row: Row, folder: Path, extra: Sequence[str] = (), *, fast: Mapping[str, str] | None = None) -> Outcome:
    """One row.

    Args:
        row: the row.
        folder: where environments are made and kept.
        extra: further arguments of ``tests.exact.digests``.
        fast: hashes of the first row's outputs in fast mode, to count those that differ here.
    """
    start = time.perf_counter()
    try:
        python = [sys.executable] if row.python is None else row.python(folder)
        counted = fast is not None and "--backend" not in row.arguments
        printed = _digests(row, python, [*extra, *row.arguments, "--json", *["--fast"] * counted])
        other = printed.pop("fast", {})
        changed = sum(fast[name] != digest for name, digest in other.items() if name in fast) if fast else None
    except RuntimeError as error:
        return Outcome(row, None, time.perf_counter() - start, str(error))
    return Outcome(row, printed, time.perf_counter() - start, fast=changed)


def fast_hashes(extra: Sequence[str] = ()) -> dict[str, str]:
    """The hashes of fast mode's outputs with nothing set."""
    hashes: dict[str, str] = _digests(Row("", ""), [sys.executable], [*extra, "--json", "--fast"])["fast"]
    return hashes


def _digests(row: Row, python: list[str], arguments: Sequence[str]) -> dict[str, Any]:
    environment = {name: value for name, value in os.environ.items() if name not in VARIED}
    environment |= {"PYTHONPATH": str(ROOT), "ONEMODEL_CACHE": str(cache_folder()), **row.environment}
    command = [*python, "-m", "tests.exact.digests", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no output"])[-1])
    outcome: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return outcome


def cells(outcome: Outcome) -> list[str]:
    """A row of the table."""
    row, result = outcome.row, outcome.result
    if result is None:
        return [row.axis, row.setting, "", "", "", "could not run", "", "", f"{outcome.seconds:.0f}"]
    where = result["where"]
    simd = where["simd"][-1] if where["simd"] else "baseline"
    return [
        row.axis,
        row.setting,
        where["numpy"],
        where["blas"],
        simd,
        str(outcome.count("same")),
        str(outcome.count("different")),
        "" if outcome.fast is None else str(outcome.fast),
        f"{outcome.seconds:.0f}",
    ]


HEAD = ("what is varied", "how", "NumPy", "BLAS kernel", "SIMD", ">same", ">different", ">in fast mode", ">s")


def page(outcomes: Sequence[Outcome]) -> str:
    """The documentation's page."""
    lines = [
        f"| {' | '.join(HEAD)} |".replace(">", ""),
        f"|{''.join('---:|' if '>' in name else '---|' for name in HEAD)}",
    ]
    lines += [f"| {' | '.join(cells(outcome))} |" for outcome in outcomes]
    before, marker, _ = PAGE.read_text().partition(MARKER)
    return f"{before}{marker}\n" + "\n".join(lines) + "\n"


def _report(console: Console, outcomes: Sequence[Outcome]) -> None:
    console.print(table(console, "", HEAD, map(cells, outcomes)))
    for outcome in outcomes:
        where = f"{outcome.row.axis}, {outcome.row.setting}"
        if outcome.problem:
            console.print(f"{where}: could not run: {outcome.problem}")
        for each in (outcome.result or {}).get("differences", [])[:20]:
            console.print(f"{where}: {each['name']}: {each['problem']} {each['detail']}".rstrip())
    agree = sum(outcome.agrees for outcome in outcomes)
    console.print(f"{agree} of {len(outcomes)} rows agree with digests.json")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 1 where a row differs or cannot run."""
    parser = argparse.ArgumentParser(
        "python -m tests.exact.matrix", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*", metavar="TEXT", help="only rows whose axis or setting holds it")
    parser.add_argument("--quick", action="store_true", help="what runs on every change: this environment, fewer cases")
    parser.add_argument("--fast", action="store_true", help="count the cases that differ in fast mode, for comparison")
    parser.add_argument("--environments", type=Path, default=cache_folder() / "matrix", metavar="FOLDER")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the outcome there")
    parser.add_argument("--update", action="store_true", help=f"write the table to {PAGE.relative_to(ROOT)}")
    options = parser.parse_args(arguments)
    console = make_console()
    chosen = [row for row in rows() if row.quick or not options.quick]
    if options.rows:
        chosen = [row for row in chosen if any(text in f"{row.axis} {row.setting}" for text in options.rows)]
        if not chosen:
            parser.error(f"no row holds {' or '.join(map(repr, options.rows))}")
    extra = QUICK if options.quick else ()
    outcomes = list(_outcomes(chosen, options.environments.absolute(), extra, options.fast, console))
    _report(console, outcomes)
    if options.json:
        options.json.write_text(json.dumps([_as_json(outcome) for outcome in outcomes], indent=1) + "\n")
    if options.update:
        PAGE.write_text(page(outcomes))
    return int(not all(outcome.agrees for outcome in outcomes))


QUICK = ("--every", "4", "--no-models")
"""What part of the cases a quick run takes."""


def _outcomes(
    chosen: Sequence[Row], folder: Path, extra: Sequence[str], fast: bool, console: Console
) -> Iterator[Outcome]:
    hashes = fast_hashes(extra) if fast else None
    for row in chosen:
        outcome = run(row, folder, extra, fast=hashes)
        found = outcome.problem or f"{outcome.count('same')} same, {outcome.count('different')} different"
        console.print(f"{row.axis}, {row.setting}: {found}")
        yield outcome


def _as_json(outcome: Outcome) -> dict[str, Any]:
    row = outcome.row
    known = {"axis": row.axis, "setting": row.setting, "environment": dict(row.environment)}
    return {**known, "seconds": round(outcome.seconds, 1), "problem": outcome.problem, "fast": outcome.fast} | (
        outcome.result or {}
    )


if __name__ == "__main__":
    sys.exit(main())
