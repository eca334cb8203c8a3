"""Recompute the digests of exact mode's outputs and compare them: ``python -m tests.exact.digests``.

``digests.json`` holds for each case two hashes: of the case itself (the model and its inputs), and SHA-256 of the
outputs, as ``Session.digest`` takes it. So a difference in the outputs is told from a case that has become another one.
Where outputs differ and the case does not, exact mode's bits have changed: raise ``onemodel.EXACT_REVISION``.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import platform
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import threadpoolctl
from rich.console import Console

import onemodel
from onemodel.digest import digest_of
from tests.exact.digest_cases import DigestCase, drawn, drawn_names, operators, wide
from tests.exact.patterns import Patterns
from tests.gpu.install import where_cupy_is
from tests.models.fetch import Unreachable
from tests.ops import harness

FILE = Path(__file__).with_name("digests.json")
SEED = 7
"""Of the sessions: operators that draw random numbers need one."""

Digests = dict[str, tuple[str, str]]


class NotCarried(Exception):
    """A case whose element types array-api-strict does not have."""


@dataclass(frozen=True)
class Difference:
    """A case that is not what ``digests.json`` says.

    Attributes:
        name: of the case.
        problem: ``"outputs differ"``, ``"case differs"``, ``"not in the file"``, ``"raises"``.
        detail: more of it.
    """

    name: str
    problem: str
    detail: str = ""


def known() -> Digests:
    """What ``digests.json`` holds."""
    return {name: (case, outputs) for name, (case, outputs) in json.loads(FILE.read_text())["cases"].items()}


def every_case(*, models: bool = True, names: Iterable[str] | None = None) -> list[DigestCase]:
    """All cases; ``names`` are those of the file, so that drawn ones need not be looked for."""
    found = list(wide())
    if names is None:
        names = [name for op in operators() for name in drawn_names(op)]
    found += [drawn(name) for name in names if " drawn " in name]
    if models:
        from tests.exact.digest_models import models as whole

        found += whole()
    return found


def compute(case: DigestCase, *, mode: str = "exact", **options: Any) -> tuple[str, str]:
    """The two hashes of a case.

    Raises:
        OneModelError: it cannot be run.
        NotCarried: it has element types that array-api-strict does not have.
        Unreachable: its model cannot be fetched.
    """
    model, feeds = case.make()
    strict = options.get("backend") == "strict"
    if strict and not harness.standard(list(feeds.values())):
        raise NotCarried(case.name)
    made = hashlib.sha256(model.SerializeToString(deterministic=True))
    made.update(digest_of(feeds).encode())
    try:
        session = onemodel.Session(model, mode=mode, seed=SEED, outputs="numpy", **options)
        results = session.run(None, feeds)
    except (onemodel.OneModelError, TypeError) as error:
        if strict and "array-api-strict carries only the standard's element types" in str(error):
            raise NotCarried(case.name) from error
        raise
    names = [value.name for value in session.get_outputs()]
    return made.hexdigest()[:16], digest_of(dict(zip(names, results, strict=True)))


def compare(
    cases: Sequence[DigestCase], expected: Digests, workers: int = 1, **options: Any
) -> tuple[Counter[str], list[Difference]]:
    """Run cases and hold them against the file; returns counts of what became of them, and the differences.

    Args:
        cases: what to run.
        expected: what the file holds.
        workers: threads that share the cases; more than one take them in another order.
        options: of the sessions.
    """
    check = partial(_check, expected=expected, **options)
    if workers > 1:
        cases = [cases[i] for i in Patterns(workers).permutation(len(cases))]
        with ThreadPoolExecutor(workers) as pool:
            found = list(pool.map(check, cases))
    else:
        found = list(map(check, cases))
    differences = sorted((each for each in found if isinstance(each, Difference)), key=lambda each: each.name)
    return Counter("different" if isinstance(each, Difference) else each for each in found), differences


def _check(case: DigestCase, expected: Digests, **options: Any) -> str | Difference:
    try:
        made, outputs = compute(case, **options)
    except Unreachable:
        return "not fetched"
    except NotCarried:
        return "not carried"
    except onemodel.OneModelError as error:
        return "refused" if case.name not in expected else Difference(case.name, "raises", str(error))
    if case.name not in expected:
        return Difference(case.name, "not in the file")
    if made != expected[case.name][0]:
        return Difference(case.name, "case differs", "the model or its inputs are others than in the file")
    return "same" if outputs == expected[case.name][1] else Difference(case.name, "outputs differ")


def update() -> str:
    """Compute all cases and write the file; says what changed."""
    old = known() if FILE.exists() else {}
    new: Digests = {}
    for case in every_case():
        try:
            new[case.name] = compute(case)
        except onemodel.InexactOperatorError:
            continue
        except onemodel.OneModelError:
            if " drawn " not in case.name:  # some draws are wrong on purpose
                raise
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(new[name])}" for name in sorted(new))
    FILE.write_text(f'{{\n "exact_revision": {onemodel.EXACT_REVISION},\n "cases": {{\n{lines}\n }}\n}}\n')
    both = new.keys() & old.keys()
    changed = sorted(name for name in both if new[name][1] != old[name][1] and new[name][0] == old[name][0])
    recast = sum(new[name][0] != old[name][0] for name in both)
    text = f"{len(new)} cases: {len(new.keys() - old.keys())} new, {len(old.keys() - new.keys())} gone, {recast} recast"
    if changed:
        text += f"; outputs of {len(changed)} changed, so raise EXACT_REVISION: {', '.join(changed[:20])}"
    return text


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 1 where a digest differs."""
    parser = argparse.ArgumentParser(
        "python -m tests.exact.digests", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="TEXT", help="only cases whose name begins so")
    parser.add_argument("--update", action="store_true", help="write the file")
    parser.add_argument("--no-models", action="store_true", help="leave the whole models out")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="every Nth case alone")
    parser.add_argument("--backend", default="numpy", help="cupy runs on its stand-in where there is no GPU")
    parser.add_argument("--threads", type=int, metavar="N", help="BLAS threads of the sessions")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="threads that run cases, in another order")
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON, for the matrix")
    parser.add_argument("--fast", action="store_true", help="and with --json the hashes of fast mode's outputs")
    options = parser.parse_args(arguments)
    console = Console(highlight=False, markup=False, soft_wrap=True)
    if options.update:
        console.print(update())
        return 0
    start = time.perf_counter()
    expected = known()
    cases = every_case(models=not options.no_models, names=expected)
    if options.names:
        cases = [case for case in cases if case.name.startswith(tuple(options.names))]
    cases = cases[:: options.every]
    sessions = {"backend": options.backend, "threads": options.threads}
    with where_cupy_is() if options.backend == "cupy" else nullcontext():
        counts, differences = compare(cases, expected, options.workers, **sessions)
    if options.json:
        found = {"counts": counts, "differences": [vars(each) for each in differences], "where": where()}
        print(json.dumps(found | ({"fast": dict(_fast(cases))} if options.fast else {})))
        return 0
    for each in differences:
        console.print(f"{each.name}: {each.problem}{f': {each.detail}' if each.detail else ''}")
    parts = ", ".join(f"{count} {word}" for word, count in sorted(counts.items()))
    console.print(f"{parts or 'nothing'}, in {time.perf_counter() - start:.0f} s")
    return int(bool(differences))


def _fast(cases: Iterable[DigestCase]) -> Iterator[tuple[str, str]]:
    for case in cases:
        with suppress(onemodel.OneModelError, Unreachable):
            yield case.name, compute(case, mode="fast")[1]


def where() -> dict[str, Any]:
    """What the numbers were computed with."""
    blas = {info.get("architecture") or info["internal_api"] for info in threadpoolctl.threadpool_info()}
    return {
        "machine": platform.machine(),
        "numpy": np.__version__,
        "blas": ", ".join(sorted(blas)),
        "simd": simd_features(),
    }


def simd_features() -> list[str]:
    """Instruction sets beyond its baseline that NumPy has code for and this machine has, and that are not off."""
    core: Any = importlib.import_module("numpy._core._multiarray_umath")
    return [name for name in core.__cpu_dispatch__ if core.__cpu_features__[name]]


if __name__ == "__main__":
    sys.exit(main())
