"""Time the light models of the onnx package: ``python -m bench.light``.

OneModel in fast mode, onnx's reference evaluator and ONNX Runtime with its default optimisations run each model in
turn, on one thread each, with seeded random weights and one image of 224 by 224. The table shows medians and ratios.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator
from rich.console import Console
from rich.table import Table

import onemodel
from tests.models import light, recipes
from tests.models.oracle import error

OURS, REFERENCE, RUNTIME = "OneModel", "onnx.reference", "ONNX Runtime"
Run = Callable[[], Any]


@dataclass
class Timing:
    """What one model took.

    Attributes:
        model: its name.
        seconds: engine to the time of each run.
        error: greatest difference between OneModel's and ONNX Runtime's logits, as a part of the greatest logit.
    """

    model: str
    seconds: dict[str, list[float]] = field(default_factory=dict)
    error: float = 0.0

    def median(self, engine: str) -> float | None:
        """Median in seconds; None where the engine did not run."""
        return statistics.median(self.seconds[engine]) if self.seconds.get(engine) else None


def measure(name: str, runs: int, reference_runs: int, kernels: str = "native") -> Timing:
    """Time one light model.

    Args:
        name: one of ``tests.models.light.NAMES``.
        runs: interleaved runs of OneModel and ONNX Runtime, after one that is not counted.
        reference_runs: runs of the reference evaluator; 0 leaves it out.
        kernels: as ``SessionConfig`` takes it.
    """
    model = light.with_fixed_weights(light.with_random_weights(light.load(name)))
    probes = light.logits(model) or [value.name for value in model.graph.output]
    feeds = recipes.image((1, 3, 224, 224), 0, [light.input_name(model)])
    runtime = _runtime(model)
    session = onemodel.Session(model, mode="fast", threads=1, kernels=kernels)
    engines: dict[str, Run] = {
        OURS: lambda: session.run(None, feeds),
        RUNTIME: lambda: runtime.run(None, feeds),
    }
    if reference_runs:
        evaluator = ReferenceEvaluator(model)
        engines[REFERENCE] = lambda: evaluator.run(None, feeds)
    timing = Timing(name, {engine: [] for engine in engines})
    timing.error = error(session.run(probes, feeds)[0], _runtime(model, probes).run(probes, feeds)[0])
    for engine in (OURS, RUNTIME):
        engines[engine]()
    for index in range(max(runs, reference_runs)):
        for engine, run in engines.items():
            if index < (reference_runs if engine == REFERENCE else runs):
                start = time.perf_counter()
                run()
                timing.seconds[engine].append(time.perf_counter() - start)
    return timing


def _runtime(model: onnx.ModelProto, probes: Sequence[str] = ()) -> onnxruntime.InferenceSession:
    declared = {value.name for value in model.graph.output}
    count = len(declared)
    model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in probes if name not in declared)
    data = model.SerializeToString()
    del model.graph.output[count:]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


HEADER = (
    "model",
    "OneModel ms",
    "ONNX Runtime ms",
    "reference ms",
    "times ORT",
    "times faster than reference",
    "error",
)


def rows(timings: Sequence[Timing]) -> list[list[str]]:
    """The table's rows, the last one for the sum of the medians."""
    table = [
        _row(timing.model, {engine: timing.median(engine) for engine in timing.seconds}, timing.error)
        for timing in timings
    ]
    if len(timings) > 1:
        sums: dict[str, float | None] = {}
        for engine in (OURS, RUNTIME, REFERENCE):
            medians = [timing.median(engine) for timing in timings]
            known = [median for median in medians if median is not None]
            sums[engine] = sum(known) if len(known) == len(medians) else None
        table.append(_row("total", sums, max(timing.error for timing in timings)))
    return table


def _row(name: str, medians: Mapping[str, float | None], off: float) -> list[str]:
    ours, runtime, reference = (medians.get(engine) for engine in (OURS, RUNTIME, REFERENCE))
    cells = [f"{1000 * value:.1f}" if value is not None else "" for value in (ours, runtime, reference)]
    ratios = [(ours, runtime), (reference, ours)]
    cells += [f"{one / other:.1f}" if one is not None and other else "" for one, other in ratios]
    return [name, *cells, f"{off:.0e}"]


def environment() -> dict[str, str]:
    """What the numbers hang on."""
    packages = ("numpy", "onnx", "onnxruntime")
    return {
        "machine": platform.machine(),
        "python": platform.python_version(),
        "onemodel": onemodel.__version__,
        **{package: metadata.version(package) for package in packages},
    }


def markdown(timings: Sequence[Timing]) -> str:
    """The table as Markdown, with the environment below it."""
    lines = [HEADER, ("---", *["---:"] * (len(HEADER) - 1)), *rows(timings)]
    table = "".join("| " + " | ".join(line) + " |\n" for line in lines)
    return (
        table + "\nMedians, one thread. " + ", ".join(f"{key} {value}" for key, value in environment().items()) + ".\n"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        "python -m bench.light", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(light.NAMES)}; all by default")
    parser.add_argument("--runs", type=int, default=10, metavar="N", help="of OneModel and ONNX Runtime")
    parser.add_argument(
        "--reference-runs", type=int, default=1, metavar="N", help="of the reference evaluator, which is slow"
    )
    parser.add_argument("--no-reference", action="store_true", help="leave the reference evaluator out")
    parser.add_argument("--generic", action="store_true", help="without OneModel's native kernels")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table as Markdown")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the time of every run")
    options = parser.parse_args(arguments)
    if unknown := set(options.models) - set(light.NAMES):
        parser.error(f"unknown models: {', '.join(sorted(unknown))}; there are {', '.join(light.NAMES)}")
    if options.runs < 1 or options.reference_runs < 1:
        parser.error("at least one run of each is needed; --no-reference leaves the reference evaluator out")
    timings = []
    console = Console(stderr=True)
    for name in options.models or light.NAMES:
        with console.status(name):
            reference_runs = 0 if options.no_reference else options.reference_runs
            timings.append(measure(name, options.runs, reference_runs, "generic" if options.generic else "native"))
        gc.collect()
    table = Table(*HEADER, title="Light models, one thread")
    for row in rows(timings):
        table.add_row(*row)
    Console(width=None if sys.stdout.isatty() else 120).print(table)
    if options.markdown:
        options.markdown.write_text(markdown(timings), encoding="utf-8")
    if options.json:
        content = {
            "environment": environment(),
            "models": [{"model": t.model, "seconds": t.seconds, "error": t.error} for t in timings],
        }
        options.json.write_text(json.dumps(content, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    np.seterr(all="ignore")  # the reference evaluator's own warnings
    sys.exit(main())
