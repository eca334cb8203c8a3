"""The CuPy backend on a GPU: parity with the official suite, then speed: ``python -m bench.gpu --check --time``.

It needs nothing but what is installed, stops in the first second where something is missing, and ends within the
seconds it is given: what it did not come to is named in the results. ``--stand-in`` runs the checks without a GPU, on
the stand-in of ``tests.gpu``.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

Rows = list[dict[str, Any]]

_ALWAYS = ("array_api_compat", "click", "ml_dtypes", "numpy", "onnx", "onnx_ir", "rich", "threadpoolctl")


class Clock:
    """Seconds that are left."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        return self._end - time.monotonic()


def missing(options: argparse.Namespace) -> list[str]:
    """What the environment lacks for what is asked; names of modules, or the words of the backend."""
    wanted = [*_ALWAYS, *(() if options.stand_in else ("cupy",)), *(("torch",) if options.time else ())]
    absent = [name for name in wanted if importlib.util.find_spec(name) is None]
    if absent:
        return absent
    for module in ("onemodel", *(("tests.exact.digests", "tests.conformance.worker") if options.check else ())):
        try:
            importlib.import_module(module)
        except ImportError as error:  # what is there may lack something itself
            return [str(error)]
    if options.stand_in:
        return []
    from onemodel.backends import get_backend
    from onemodel.backends.base import Unavailable

    try:
        get_backend("cupy")
    except Unavailable as error:
        return [str(error)]
    return []


def guarded(what: str, rows: Callable[[], Iterable[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    """The rows of a part; an error is its last one, and must not cost the other parts."""
    try:
        yield from rows()
    except Exception:  # noqa: BLE001 - whatever it is, it is told
        yield {"what": what, "passed": False, "error": traceback.format_exc()[-2000:]}


def place(stand_in: bool) -> AbstractContextManager[Any]:
    """Where the checks run: on the real CuPy, or on its stand-in."""
    if not stand_in:
        return nullcontext()
    from tests.gpu.install import installed

    return installed()


# Checks


def serve_suite(connection: Connection, namespace: str, options: Mapping[str, Any]) -> None:
    """As ``tests.conformance.worker.serve_cases``, on the real CuPy unless ``stand_in``."""
    import warnings

    import numpy as np

    from tests.conformance.cases import load_cases
    from tests.conformance.manifest import preparer
    from tests.conformance.worker import answer

    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    settings = dict(options)
    with place(settings.pop("stand_in")):
        answer(connection, load_cases(cached=True), preparer(namespace, **settings))


def check_suite(clock: Clock, stand_in: bool, workers: int, only: int | None, kernels: str) -> dict[str, Any]:
    """The suite's manifest: every operator, with our own kernels or without."""
    from tests.conformance.manifest import read_manifest
    from tests.conformance.worker import run_cases

    names = read_manifest("cupy-fast")[:: max(1, 2000 // only) if only else 1]
    options = {"stand_in": stand_in, "kernels": kernels}
    passed, failed = 0, []
    for result in run_cases(names, "cupy-fast", workers=workers, timeout=60.0, serve=serve_suite, **options):
        passed += result.passed
        if not result.passed:
            failed.append({"case": result.name, "stage": result.stage, "message": result.message[:500]})
        if clock.left < 0:
            break
    done = passed + len(failed)
    return {"what": f"suite, {kernels} kernels", "passed": passed, "failed": failed, "not run": len(names) - done}


def check_networks(stand_in: bool, graphs: bool) -> Iterator[dict[str, Any]]:
    """Small networks beside NumPy, the transfers that they force, and with ``graphs`` their replays too."""
    import numpy as np

    import onemodel
    from tests.gpu import models

    made = {
        "convolutional network": models.convolutional(),
        "transformer": models.transformer(),
        "transformer, float16": models.transformer(half=True),
    }
    with place(stand_in):
        for name, (proto, feeds) in made.items():
            session = onemodel.Session(proto, backend="cupy", graphs=graphs)
            for _ in range(3 if graphs else 1):
                (got,) = session.run(None, feeds)
            (want,) = onemodel.Session(proto, backend="numpy", mode="fast").run(None, feeds)
            reads = [str(t.node) for t in session.profile(feeds).transfers if t.direction == "to_host"]
            tolerance = 2e-2 if want.dtype == np.float16 else 1e-4
            difference = float(np.max(np.abs(got.astype(np.float64) - want.astype(np.float64))))
            same = bool(np.allclose(got, want, rtol=tolerance, atol=tolerance))
            row = {"what": name, "passed": same and not reads, "largest difference": difference, "reads": reads}
            if graphs:
                row["graph"] = session.graphs()[0].reason or "replayed"
                row["passed"] = row["passed"] and row["graph"] == "replayed"
            yield row


def check_exact(clock: Clock, stand_in: bool, only: int | None) -> dict[str, Any]:
    """Exact mode's outputs beside the digests that NumPy's are kept with: the same bits."""
    from tests.exact import digests

    expected = digests.known()
    cases = [case for case in digests.every_case(models=False, names=expected) if case.name in expected]
    # Every Nth case first, and so on, so that what time leaves over is spread over the operators.
    order = [case for start in range(16) for case in cases[start::16]][:only]
    passed, failed = 0, []
    with place(stand_in):
        for case in order:
            _, differences = digests.compare([case], expected, backend="cupy")
            passed += not differences
            failed += [{"case": d.name, "stage": d.problem, "message": d.detail[:500]} for d in differences]
            if clock.left < 0:
                break
    return {"what": "exact digests", "passed": passed, "failed": failed, "not run": len(order) - passed - len(failed)}


# Times, by events on the device


def seconds_of(call: Callable[[], object], clock: Clock, runs: int = 20) -> float:
    """The median seconds of ``call`` on the device, after some that are not counted."""
    import cupy

    for _ in range(3):
        call()
    times = []
    for _ in range(runs):
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        call()
        end.record()
        end.synchronize()
        times.append(cupy.cuda.get_elapsed_time(start, end) / 1e3)
        if clock.left < 0:
            break
    return float(sorted(times)[len(times) // 2])


def limits(clock: Clock) -> dict[str, float]:
    """What the device can do: bytes per second of a large copy, and operations per second of large products."""
    import cupy

    big = cupy.zeros(1 << 28, dtype=cupy.float32)
    other = cupy.empty_like(big)
    found = {"copy": 2 * big.nbytes / seconds_of(lambda: cupy.copyto(other, big), clock)}
    size = 8192
    for name in ("float32", "float16"):
        from onemodel.backends import get_backend

        matmul: Callable[..., Any] = get_backend("cupy").namespace("fast").matmul
        a = cupy.ones((1, size, size), dtype=name)
        found[f"matmul {name}"] = 2 * size**3 / seconds_of(lambda a=a, f=matmul: f(a, a), clock, 5)  # type: ignore[misc]
    return found


def drawn(shape: Sequence[int], dtype: str = "float32") -> Any:
    """Normal numbers on the device, drawn by NumPy: CuPy would need cuRAND."""
    import cupy
    import numpy as np

    return cupy.asarray(np.random.default_rng(0).standard_normal(shape, np.float32).astype(dtype))


def time_operators(clock: Clock, bounds: Mapping[str, float]) -> Iterator[dict[str, Any]]:
    """Operators that are bound by memory, as a share of a copy; and products, as a share of the largest."""
    import cupy
    from onnx import helper

    import onemodel
    from tests.models_by_hand import graph_model

    rows, length = 8192, 4096
    for name in ("float32", "float16"):
        x = drawn((rows, length), name)
        scale = cupy.ones(length, dtype=name)
        for operator, inputs in (("Gelu", [x]), ("Softmax", [x]), ("LayerNormalization", [x, scale, scale])):
            feeds = {f"x{i}": value for i, value in enumerate(inputs)}
            kind = "tensor(float)" if name == "float32" else "tensor(float16)"
            node = helper.make_node(operator, list(feeds), ["y"])
            proto = graph_model([node], [(key, kind, None) for key in feeds], ["y"], opset=23)
            session = onemodel.Session(proto, backend="cupy", outputs="backend")
            taken = seconds_of(lambda s=session, f=feeds: s.run(None, f), clock)  # type: ignore[misc]
            share = 2 * x.nbytes / taken / bounds["copy"]
            yield {"what": f"{operator} {name} {rows} x {length}", "seconds": taken, "share of a copy": share}
    yield from time_choices(clock, bounds)


_CHOICES: Mapping[str, tuple[Sequence[tuple[int, ...]], Mapping[str, Any], int]] = {
    "Conv": ([(32, 256, 56, 56), (256, 256, 3, 3), (256,)], {"pads": [1, 1, 1, 1]}, 2 * 32 * 56**2 * 256**2 * 9),
    "Gemm": ([(4096, 4096), (4096, 4096), (4096,)], {}, 2 * 4096**3),
    "Attention": ([(4, 16, 4096, 64)] * 3, {"is_causal": 1}, 4 * 4 * 16 * 4096**2 * 64 // 2),
}
"""Shapes of the inputs, attributes, and operations."""


def time_choices(clock: Clock, bounds: Mapping[str, float]) -> Iterator[dict[str, Any]]:
    """Operators that optional libraries compute, by these and without; and attention to a long prompt."""
    from onnx import helper

    import onemodel
    from tests.models_by_hand import graph_model

    for name in ("float32", "float16"):
        kind = "tensor(float)" if name == "float32" else "tensor(float16)"
        for operator, (shapes, attributes, operations) in _CHOICES.items():
            feeds = {f"x{i}": drawn(shape, name) for i, shape in enumerate(shapes)}
            node = helper.make_node(operator, list(feeds), ["y"], **attributes)
            proto = graph_model([node], [(key, kind, None) for key in feeds], ["y"], opset=23)
            for kernels in ("native", "generic"):
                session = onemodel.Session(proto, backend="cupy", outputs="backend", kernels=kernels)
                way = "; ".join(choice.text for choice in session.profile(feeds).choices) or kernels
                taken = seconds_of(lambda s=session, f=feeds: s.run(None, f), clock, 5)  # type: ignore[misc]
                share = operations / taken / bounds[f"matmul {name}"]
                yield {"what": f"{operator} {name}", "way": way, "seconds": taken, "share of a matmul": share}
                if clock.left < 0:
                    return


def time_exact(clock: Clock, size: int = 4096) -> Iterator[dict[str, Any]]:
    """Operators in exact mode on matrices of that size, as a multiple of fast mode's time."""
    from onnx import helper

    import onemodel
    from tests.models_by_hand import graph_model

    square, channels = drawn((size, size)), size // 16
    cases: list[tuple[str, list[Any]]] = [
        ("MatMul", [square, drawn((size, size))]),
        ("Conv", [drawn((8, channels, 56, 56)), drawn((channels, channels, 3, 3))]),
        ("ReduceSum", [square]),
        ("Gelu", [square]),
        ("Softmax", [square]),
        ("Add", [square, square]),
    ]
    for operator, inputs in cases:
        feeds = {f"x{i}": value for i, value in enumerate(inputs)}
        node = helper.make_node(operator, list(feeds), ["y"])
        proto = graph_model([node], [(key, "tensor(float)", None) for key in feeds], ["y"], opset=23)
        seconds = {}
        for mode in ("exact", "fast"):
            session = onemodel.Session(proto, backend="cupy", mode=mode, outputs="backend")
            seconds[mode] = seconds_of(lambda s=session, f=feeds: s.run(None, f), clock, 5)  # type: ignore[misc]
        yield {
            "what": f"{operator} float32 {' x '.join(map(str, inputs[0].shape))}, exact",
            "seconds": seconds["exact"],
            "times fast": seconds["exact"] / seconds["fast"],
        }


def networks() -> dict[str, tuple[Callable[[], Any], Callable[[int], Mapping[str, Any]]]]:
    """Modules of torch by name, and feeds for a batch."""
    from tests.models.torch_exports import feeds, language, vision

    def decoding(batch: int) -> Mapping[str, Any]:
        return feeds.cached((batch, 1, 512), 0, depth=12, groups=12, head=64)

    return {
        "ResNet-50": (lambda: vision.ResNet50(64, 1000), lambda batch: feeds.image((batch, 3, 224, 224), 0)),
        "BERT base": (lambda: language.Bert(768, 12, 12, 500, 512), lambda batch: feeds.sentences((batch, 128), 0)),
        "ViT-B/16": (lambda: vision.ViT(768, 12, 12, 16, 14, 1000), lambda batch: feeds.image((batch, 3, 224, 224), 0)),
        "GPT-2 decode": (lambda: language.Gpt2(768, 12, 12, 500, 1024, fused=False), decoding),
    }


def time_network(name: str, batch: int, half: bool, clock: Clock, graphs: bool) -> dict[str, Any]:
    """One network beside torch in eager mode: seconds per run, and the largest relative difference."""
    import io

    import numpy as np
    import torch

    import onemodel
    from tests.models.torch_exports.cases import ready

    build, draw = networks()[name]
    module = ready(build).cuda()
    module = module.half() if half else module
    tensors = [torch.from_numpy(value.copy()).cuda() for value in draw(batch).values()]
    tensors = [x.half() if half and x.is_floating_point() else x for x in tensors]
    file, names = io.BytesIO(), [f"in{i}" for i in range(len(tensors))]
    torch.onnx.export(module, tuple(tensors), file, input_names=names, opset_version=17, dynamo=False)
    session = onemodel.Session(file.getvalue(), backend="cupy", outputs="backend")
    fed = dict(zip(names, tensors, strict=True))
    with torch.inference_mode():
        ours = session.run(None, fed)[0].get().astype(np.float64)
        made = module(*tensors)
        theirs = (made[0] if isinstance(made, tuple) else made).double().cpu().numpy()
        eager = seconds_of(lambda: module(*tensors), clock)
        own = seconds_of(lambda: session.run(None, fed), clock)
        replayed = _replays(file.getvalue(), fed, clock) if graphs else {}
    difference = float(np.max(np.abs(ours - theirs)) / np.max(np.abs(theirs)))
    kind = "float16" if half else "float32"
    row = {"what": f"{name} {kind} batch {batch}", "seconds": own, "torch": eager, "relative difference": difference}
    return row | replayed


def _replays(model: bytes, feeds: Mapping[str, Any], clock: Clock) -> dict[str, Any]:
    """Seconds of a run that replays a CUDA graph, or why there is none."""
    import onemodel

    session = onemodel.Session(model, backend="cupy", outputs="backend", graphs=True)
    taken = seconds_of(lambda: session.run(None, feeds), clock)
    reason = session.graphs()[0].reason
    return {"graph": reason[:200]} if reason else {"graph": taken}


def time_networks(clock: Clock, graphs: bool) -> Iterator[dict[str, Any]]:
    """Each network in both sizes and types, as long as there is time; with ``graphs`` replayed, too."""
    import torch

    stream = torch.cuda.current_stream()  # CuPy's events see torch's work where both use the default stream
    stream.synchronize()
    for name in networks():
        for batch in (1, 32):
            for half in (False, True):
                if clock.left < 15:
                    yield {"what": f"{name} batch {batch}", "not run": "no time left"}
                    continue
                try:
                    yield time_network(name, batch, half, clock, graphs)
                except Exception as error:  # noqa: BLE001 - one network that fails must not cost the others
                    yield {"what": f"{name} batch {batch}", "error": f"{type(error).__name__}: {error}"[:500]}


# The command


def write(folder: Path, results: Mapping[str, Any]) -> None:
    """``gpu.json`` and ``gpu.md`` in the folder, anew after each part, so that an early end leaves what is known."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "gpu.json").write_text(json.dumps(results, indent=1, default=str), encoding="utf-8")
    lines = ["# OneModel on a GPU", "", f"{results['device']}", ""]
    for part in ("checks", "limits", "operators", "networks"):
        rows: Any = results.get(part) or []
        if isinstance(rows, dict):
            rows = [{"what": name, "value": value} for name, value in rows.items()]
        if rows:
            keys = list(dict.fromkeys(key for row in rows for key in row))
            lines += [f"## {part.capitalize()}", "", _line(keys), _line(["---"] * len(keys))]
            lines += [_line([_cell(row.get(key, "")) for key in keys]) for row in rows]
            lines.append("")
    (folder / "gpu.md").write_text("\n".join(lines), encoding="utf-8")


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return str(len(value))
    return f"{value:.4g}" if isinstance(value, float) else str(value).replace("\n", " ")


def _device(stand_in: bool) -> str:
    if stand_in:
        return "The stand-in for CuPy over NumPy: no GPU."
    import cupy

    properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.runtime.getDevice())
    return f"{properties['name'].decode()}, CuPy {cupy.__version__}, CUDA {cupy.cuda.runtime.runtimeGetVersion()}"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 0 where all checks pass, 1 where one fails, 2 where something is missing."""
    parser = argparse.ArgumentParser("python -m bench.gpu", description=__doc__)
    parser.add_argument("--check", action="store_true", help="parity: the suite, exact digests, small networks")
    parser.add_argument("--time", action="store_true", help="speed, against torch and the device's own limits")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="for gpu.json and gpu.md")
    parser.add_argument("--graphs", action="store_true", help="check and time replays of CUDA graphs, too")
    parser.add_argument("--stand-in", action="store_true", help="the checks without a GPU")
    parser.add_argument("--seconds", type=float, default=340, metavar="N", help="for all of it")
    parser.add_argument("--workers", type=int, default=min(8, os.cpu_count() or 1), metavar="N", help="for the suite")
    parser.add_argument("--cases", type=int, metavar="N", help="about so many cases of the suite")
    options = parser.parse_args(arguments)
    if options.stand_in and options.time:
        parser.error("--time needs a GPU; the stand-in has nothing to time")
    if lacking := missing(options):
        sys.stderr.write(f"missing: {'; '.join(lacking)}\n")
        return 2
    clock = Clock(options.seconds)
    results: dict[str, Any] = {"device": _device(options.stand_in), "checks": [], "operators": [], "networks": []}
    checks: Rows = results["checks"]

    def measured() -> Iterator[dict[str, Any]]:
        results["limits"] = limits(clock)
        yield from time_operators(clock, results["limits"])

    def suites() -> Iterator[dict[str, Any]]:
        for kernels in ("native", "generic"):
            half = Clock(clock.left / (3 if options.time else 2))
            yield check_suite(half, options.stand_in, options.workers, options.cases, kernels)

    parts: list[tuple[str, str, Callable[[], Iterable[dict[str, Any]]]]] = []
    if options.check:
        parts += [
            ("checks", "networks", lambda: check_networks(options.stand_in, options.graphs)),
            ("checks", "exact", lambda: [check_exact(Clock(clock.left / 3), options.stand_in, options.cases)]),
            ("checks", "suite", suites),
        ]
    if options.time:
        parts += [
            ("operators", "operators", measured),
            ("operators", "exact mode", lambda: time_exact(clock)),
            ("networks", "networks", lambda: time_networks(clock, options.graphs)),
        ]
    for part, what, rows in parts:
        for row in guarded(what, rows):
            results[part].append(row)
            write(options.out, results)
    sys.stdout.write((options.out / "gpu.md").read_text(encoding="utf-8") if parts else "")
    return 1 if any(row.get("failed") or row["passed"] is False for row in checks) else 0


if __name__ == "__main__":
    sys.exit(main())
