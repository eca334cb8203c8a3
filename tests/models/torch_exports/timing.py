"""OneModel in fast mode and ONNX Runtime with its default optimisations, on exported models in common sizes."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import onnxruntime

import onemodel
from bench.light import OURS, RUNTIME, Timing
from tests.models.oracle import error
from tests.models.torch_exports.cases import LEGACY, Case, ready
from tests.models.torch_exports.export import Exporter

OPSET = 17


def timings(cases: Sequence[Case], runs: int) -> Iterator[Timing]:
    """Time each case that has a large form, one thread, runs interleaved after two that are not counted.

    Args:
        cases: the cases.
        runs: of each engine.
    """
    for case in cases:
        if case.large is not None:
            yield _time(case, runs)
            gc.collect()


def _time(case: Case, runs: int) -> Timing:
    large = case.large
    assert large is not None
    feeds = (large.feeds or case.feeds)(large.size, 0)
    whole = replace(case, outputs=large.outputs or case.outputs, dynamic={})
    model = Exporter(whole, LEGACY, ready(large.build), feeds).at(OPSET)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    runtime = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    session = onemodel.Session(model, mode="fast", threads=1)
    timing = Timing(case.name, {OURS: [], RUNTIME: []})
    for index in range(runs + 2):
        made = {}
        for name, run in ((OURS, session.run), (RUNTIME, runtime.run)):
            start = time.perf_counter()
            made[name] = run(None, feeds)
            if index >= 2:
                timing.seconds[name].append(time.perf_counter() - start)
    timing.error = max(error(ours, theirs) for ours, theirs in zip(made[OURS], made[RUNTIME], strict=True))
    return timing
