"""The command: ``python -m tests.models.torch_exports``."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import torch
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench.light import OURS, RUNTIME, Timing
from tests.models.fetch import manifest
from tests.models.torch_exports import page, timing, wheels
from tests.models.torch_exports.cases import CASES, DYNAMO, LEGACY, TRACED, Case
from tests.models.torch_exports.compare import Result, results

EXPORTERS = (LEGACY, DYNAMO, TRACED)
HEADER = ("model", "exporter", "opsets", "nodes", "native", "generic", "ONNX Runtime", "s", "")


def opset_list(text: str) -> list[int]:
    """``9-13,18`` as numbers."""
    chosen: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        chosen += range(int(first), int(last or first) + 1)
    return chosen


def rows(made: Sequence[Result]) -> list[list[str]]:
    """The table: one row for the opsets in a row that gave the same; errors are those against torch."""

    def key(result: Result) -> tuple[object, ...]:
        errors = [f"{result.errors[name]:.0e}" if name in result.errors else "" for name in HEADER[4:7]]
        problem = f"[red]{escape(result.problem)}[/]" if result.problem else ""
        remark = " ".join(filter(None, (problem, escape(result.remark)))) or "[green]right[/]"
        return (result.case, result.exporter, str(result.nodes), *errors, remark)

    table = []
    for (case, exporter, nodes, *errors, remark), group in groupby(made, key):
        same = list(group)
        opsets = page.ranges(result.opset for result in same)
        seconds = f"{sum(result.seconds for result in same):.1f}"
        table.append([str(cell) for cell in (case, exporter, opsets, nodes, *errors, seconds, remark)])
    return table


def timing_rows(timings: Sequence[Timing], cases: Sequence[Case]) -> list[list[str]]:
    """Model, size, medians in milliseconds, their ratio, greatest error."""
    sizes = {case.name: case.large.size for case in cases if case.large}
    table = []
    for made in timings:
        ours, theirs = made.median(OURS) or 0.0, made.median(RUNTIME) or 0.0
        size = " x ".join(map(str, sizes[made.model]))
        cells = (f"{1000 * ours:.1f}", f"{1000 * theirs:.1f}", f"{ours / theirs:.1f}", f"{made.error:.0e}")
        table.append([made.model, size, *cells])
    return table


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 1 where anything was wrong."""
    parser = argparse.ArgumentParser("python -m tests.models.torch_exports", description=__doc__)
    parser.add_argument("--only", action="append", metavar="NAME", help="models whose name holds NAME")
    parser.add_argument("--opsets", type=opset_list, default=opset_list("9-23"), metavar="9-13,18", help="default: all")
    parser.add_argument("--exporters", nargs="+", default=EXPORTERS, choices=EXPORTERS, help="default: all")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the page; runs the packages' models too")
    parser.add_argument("--time", action="store_true", help="time models in common sizes instead")
    parser.add_argument("--runs", type=int, default=20, metavar="N", help="with --time: runs of each engine")
    options = parser.parse_args(arguments)
    chosen = [case for case in CASES if not options.only or any(part in case.name for part in options.only)]
    if not chosen:
        parser.error(f"no model's name holds {' or '.join(options.only)}; there are {', '.join(c.name for c in CASES)}")
    everything = (len(CASES), set(EXPORTERS), opset_list("9-23"))
    if options.page and (len(chosen), set(options.exporters), options.opsets) != everything:
        parser.error("the page is about all models; leave --only, --exporters and --opsets out")
    torch.set_num_threads(1)
    console = Console(width=None if sys.stdout.isatty() else 160)
    if options.time:
        _time(console, chosen, options.runs)
        return 0
    made = _run(console, chosen, options.exporters, options.opsets)
    wrong = sum(bool(result.problem) for result in made)
    if options.page and not wrong:
        errors = {name: wheels.greatest_error(model) for name, model in manifest().items()}
        options.page.write_text(page.text(made, errors), encoding="utf-8")
    return int(wrong > 0)


def _run(console: Console, cases: Sequence[Case], exporters: Sequence[str], opsets: Sequence[int]) -> list[Result]:
    start = time.perf_counter()
    made: list[Result] = []
    with Console(stderr=True).status("exporting") as status:
        for case in cases:
            for result in results(case, exporters, opsets):
                made.append(result)
                status.update(f"{case.name}, {result.exporter} at opset {result.opset}")
    table = Table(*HEADER, title="Errors against torch, as a part of the greatest magnitude")
    for row in rows(made):
        table.add_row(*row)
    console.print(table)
    wrong = sum(bool(result.problem) for result in made)
    console.print(f"{len(made)} exports, {wrong} wrong, {time.perf_counter() - start:.0f} s")
    return made


def _time(console: Console, cases: Sequence[Case], runs: int) -> None:
    header = ("model", "size", f"{OURS} ms", f"{RUNTIME} ms", "times ORT", "error")
    table = Table(*header, title=f"Medians of {runs} runs, one thread, exported at opset {timing.OPSET}")
    for row in timing_rows(list(timing.timings(cases, runs)), cases):
        table.add_row(*row)
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
