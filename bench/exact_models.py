"""What exact mode costs on whole models: ``python -m bench.exact_models``.

Exact and fast mode run each model in turn, on one thread; the ratio is that of the medians of the thread's own time, so
that what else the machine does weighs little, and on both alike. *Weights* are the bytes that a session holds between
runs, *activations* the most that a run allocates. ``--operators`` says where the time goes.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import tracemalloc
import zlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import onnx

import onemodel
from onemodel.terminal import console, size, table
from tests.models import light
from tests.models.decoder import decoder
from tests.models.fetch import fetch, manifest
from tests.models.recipes import RECIPES

MODES = ("fast", "exact")
Feeds = Mapping[str, Any]


@dataclass(frozen=True)
class Cost:
    """What one mode takes for one model: seconds of each run, bytes held, the most bytes allocated in a run."""

    seconds: list[float]
    weights: int
    activations: int


def resnet50() -> tuple[onnx.ModelProto, Feeds]:
    """ResNet-50 on one image of 224 by 224."""
    model = light.with_fixed_weights(light.with_random_weights(light.load("resnet50")))
    return model, RECIPES["image"]([1, 3, 224, 224], 0, [light.input_name(model)])


def minilm(length: int) -> tuple[onnx.ModelProto, Feeds]:
    """MiniLM with three layers on one sentence."""
    model = onnx.load(fetch(manifest()["minilm_l3"]))
    return model, RECIPES["tokens"]([1, length], 0, [value.name for value in model.graph.input])


def step(past: int) -> tuple[onnx.ModelProto, Feeds]:
    """One step of a decoder of GPT-2's size (small, 124 million weights)."""

    def draw(name: str, shape: tuple[int, ...]) -> Any:
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        return rng.standard_normal(shape, np.float32) * np.float32(0.02) + np.float32(name.endswith("scale"))

    rng = np.random.default_rng(0)
    caches = {
        f"{kind}{i}": rng.standard_normal((1, 12, past, 64), np.float32) for i in range(12) for kind in ("key", "value")
    }
    return decoder(draw), {"ids": np.array([[464]]), "position": np.array([past]), **caches}


MODELS: Mapping[str, Callable[[], tuple[onnx.ModelProto, Feeds]]] = {
    "ResNet-50, 224 x 224": resnet50,
    "MiniLM L3, 1 x 16": partial(minilm, 16),
    "MiniLM L3, 1 x 128": partial(minilm, 128),
    "GPT-2 step, 128 past": partial(step, 128),
}


def measure(model: onnx.ModelProto, feeds: Feeds, seconds: float) -> dict[str, Cost]:
    """Run both modes in turn for about ``seconds``."""
    sessions = {mode: onemodel.Session(model, mode=mode, threads=1) for mode in MODES}
    times: dict[str, list[float]] = {mode: [] for mode in MODES}
    peaks = {}
    for mode, session in sessions.items():
        session.run(None, feeds)
        tracemalloc.start()
        session.run(None, feeds)
        peaks[mode] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times["exact"]) < 3:
        for mode, session in sessions.items():
            start = time.thread_time()
            session.run(None, feeds)
            times[mode].append(time.thread_time() - start)
    return {mode: Cost(times[mode], sum(sessions[mode].memory().values()), peaks[mode]) for mode in MODES}


def by_operator(model: onnx.ModelProto, feeds: Feeds, mode: str, runs: int) -> dict[str, float]:
    """Seconds of one run in each operator of the main graph: medians over ``runs``, summed over the nodes."""
    session = onemodel.Session(model, mode=mode, threads=1)
    session.run(None, feeds)
    profiles = [session.profile(feeds).nodes for _ in range(runs)]
    totals: dict[str, float] = defaultdict(float)
    for steps in zip(*profiles, strict=True):
        totals[steps[0].node.op_type] += statistics.median(step.seconds for step in steps)
    return totals


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        "python -m bench.exact_models", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="models whose name holds it")
    parser.add_argument("--seconds", type=float, default=10, metavar="S", help="for each model")
    parser.add_argument("--operators", action="store_true", help="the time of each operator, too")
    options = parser.parse_args(arguments)
    rows: list[list[str]] = []
    parts: list[list[str]] = []
    for name, make in MODELS.items():
        if options.only not in name:
            continue
        model, feeds = make()
        costs = measure(model, feeds, options.seconds)
        fast, exact = (costs[mode] for mode in MODES)
        one, other = (1e3 * statistics.median(cost.seconds) for cost in (fast, exact))
        row = [name, f"{one:.1f}", f"{other:.1f}", f"{other / one:.2f}"]
        row += [size(exact.weights), f"{exact.weights / fast.weights:.2f}"]
        rows.append([*row, size(exact.activations), f"{exact.activations / fast.activations:.2f}"])
        if options.operators:
            runs = max(3, min(len(exact.seconds), 30))
            fast_parts, exact_parts = (by_operator(model, feeds, mode, runs) for mode in MODES)
            for op, taken in sorted(exact_parts.items(), key=lambda part: -part[1])[:8]:
                before = fast_parts[op]
                ratio = f"{taken / before:.2f}" if before else ""
                parts.append([name, op, f"{1e3 * before:.2f}", f"{1e3 * taken:.2f}", ratio])
    out = console()
    head = ("model", ">fast, ms", ">exact, ms", ">ratio", ">weights", ">ratio", ">activations", ">ratio")
    out.print(table(out, "", head, rows))
    if parts:
        out.print()
        out.print(table(out, "", ("model", "operator", ">fast, ms", ">exact, ms", ">ratio"), parts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
