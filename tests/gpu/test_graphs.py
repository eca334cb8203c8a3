"""Sessions that replay CUDA graphs, on the stand-in: the same results, in memory of the right owner and order."""

from __future__ import annotations

import gc
import pickle
import re
import threading
from typing import Any

import numpy as np
import pytest
from onnx import helper

import onemodel
from onemodel import graphs
from tests.conformance.cases import load_cases
from tests.conformance.manifest import read_manifest
from tests.gpu import device_rules, install, models
from tests.gpu.api_table import read_table
from tests.models_by_hand import graph_model
from tests.ops.harness import model

pytestmark = pytest.mark.usefixtures("cupy")


def session_of(proto: Any, **options: Any) -> onemodel.Session:
    return onemodel.Session(proto, backend="cupy", graphs=True, kernels=install.kernels_here(), **options)


def gather() -> onemodel.Session:
    return session_of(model("Gather", [np.ones((4, 2), np.float32), np.ones(3, np.int64)]), outputs="backend")


def rows(start: int = 0) -> Any:
    return np.arange(start, start + 8, dtype=np.float32).reshape(4, 2)


@pytest.mark.parametrize("make", [models.convolutional, models.transformer, lambda: models.transformer(half=True)])
def test_networks_replay(cupy: Any, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cupy.cuda.Event, "done", False)  # what is done would be read by the next run
    proto, feeds = make()
    session = session_of(proto, outputs="backend")
    plain = onemodel.Session(proto, mode="fast")
    kept = []
    for run in range(5):
        fed = {name: (x + x.dtype.type(run)) % x.dtype.type(models.VOCABULARY) for name, x in feeds.items()}
        with device_rules.no_reads():
            (y,) = session.run(None, fed)
        kept.append((y, plain.run(None, fed)[0]))
    for y, expected in kept:  # each output is its own, whatever ran later
        tolerance = 2e-2 if expected.dtype == np.float16 else 1e-5
        np.testing.assert_allclose(y.get(), expected, rtol=tolerance, atol=tolerance)
    (state,) = session.graphs()
    assert (state.runs, state.replays, state.reason) == (5, 4, "")
    assert session.memory()["graphs"] == state.bytes > 0
    assert "4 of 5 runs" in str(session.profile(feeds))


def test_each_shape_has_its_graph_and_the_oldest_goes() -> None:
    proto, _ = models.transformer()
    session = session_of(proto)
    for _ in range(3):
        for length in (3, 5):
            session.run(None, {"ids": np.zeros((1, length), np.int64)})
    assert [(s.feeds, s.replays) for s in session.graphs()] == [("ids int64[1, 3]", 2), ("ids int64[1, 5]", 2)]
    for length in range(6, 6 + graphs._MOST):
        session.run(None, {"ids": np.zeros((1, length), np.int64)})
    assert [s.replays for s in session.graphs()] == [0] * graphs._MOST
    assert "came once" in str(session.graphs()[0])


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes", "reason"),
    [
        ("NonZero", [rows()], {}, r"node 'node' .* waits for the device: nonzero"),
        ("RandomNormalLike", [rows()], {}, "it draws random numbers without a seed"),
        ("StringConcat", [np.array(["a"], object)] * 2, {}, "input 'x0' is no tensor of numbers"),
        ("Reshape", [rows(), np.array([1, 1, 1, 2, 2, 2])], {}, "is read on the host, and has 48 bytes, more than 40"),
        ("Det", [np.eye(3, dtype=np.float32)], {}, "calling cuBLAS API during stream capture"),
    ],
)
def test_what_cannot_be_captured_runs_as_ever(
    operator: str, inputs: Any, attributes: Any, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graphs, "_LARGEST", 40)
    session = session_of(model(operator, inputs, **attributes))
    feeds = {f"x{i}": x for i, x in enumerate(inputs)}
    first, *others = [session.run(None, feeds)[0] for _ in range(3)]
    (state,) = session.graphs()
    assert state.replays == 0
    assert re.search(reason, state.reason), state.reason
    assert str(state) == f"no CUDA graph for {state.feeds}: {state.reason}"
    if operator == "RandomNormalLike":
        assert not any((other == first).all() for other in others)
    else:
        assert all(np.array_equal(other, first) for other in others)


def test_values_read_on_the_host_are_part_of_the_signature() -> None:
    session = session_of(model("Reshape", [np.ones(6, np.float32), np.array([2, 3])]))
    for _ in range(3):
        for shape in ((2, 3), (3, 2), (1, 6)):
            (y,) = session.run(None, {"x0": np.arange(6, dtype=np.float32), "x1": np.array(shape)[:2]})
            assert y.shape == shape
    assert [s.replays for s in session.graphs()] == [2, 2, 2]


def test_seeded_draws_repeat() -> None:
    session = session_of(model("RandomNormalLike", [rows()]), seed=3)
    drawn = [session.run(None, {"x0": rows()})[0] for _ in range(4)]
    assert all(np.array_equal(y, drawn[0]) for y in drawn)


def test_checks_of_a_replay_are_its_own(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cupy.cuda.Event, "done", False)
    session = gather()
    for indices in ([0, 1, 2], [3, 2, 1], [0, 0, 0]):
        session.run(None, {"x0": rows(), "x1": np.array(indices)})
    with device_rules.no_reads():
        session.run(None, {"x0": rows(), "x1": np.array([0, 9, -7])})
        (y,) = session.run(None, {"x0": rows(), "x1": np.array([1, 1, 1])})
    with pytest.raises(onemodel.ExecutionError, match=r"'node'.*index 9 is out of range"):
        session.synchronize()
    session.synchronize()
    assert session.graphs()[0].replays == 4
    np.testing.assert_array_equal(y.get(), rows()[[1, 1, 1]])


def test_feeds_on_the_device_stay_as_they_are(cupy: Any) -> None:
    session = gather()
    feeds = {"x0": cupy.asarray(rows()), "x1": cupy.asarray(np.array([3, 0, 1]))}
    outputs = [session.run(None, feeds)[0] for _ in range(4)]
    feeds["x0"][...] = 7
    for y in outputs:
        np.testing.assert_array_equal(y.get(), rows()[[3, 0, 1]])
        y[...] = -1
    np.testing.assert_array_equal(feeds["x0"].get(), np.full((4, 2), 7))
    np.testing.assert_array_equal(session.run(None, feeds)[0].get(), np.full((3, 2), 7))


def test_launches_wait_for_one_another(cupy: Any) -> None:
    session = gather()
    feeds = {"x0": rows(), "x1": np.array([3, 0, 1])}
    streams = [cupy.cuda.Stream(), cupy.cuda.Stream(non_blocking=True)]
    for stream in (streams[0], *streams, *streams):
        with stream:
            session.run(None, feeds)
    (entry,) = session._graphs._entries.values()  # type: ignore[union-attr]
    graph: Any = entry.captured
    assert graph._last.stream is streams[1]
    assert streams[0].waited[-1].stream is streams[1]
    assert streams[1].waited[-1].stream is streams[0]
    assert not any(stream.is_capturing() for stream in streams)


def test_runs_that_the_caller_captures_are_not_replayed(cupy: Any) -> None:
    session = session_of(model("Neg", [rows()]), outputs="backend")
    feeds = {"x0": cupy.asarray(rows(), blocking=True)}
    for _ in range(3):
        session.run(None, feeds)
    stream, pool = cupy.cuda.Stream(non_blocking=True), cupy.cuda.MemoryPool()
    with stream, cupy.cuda.using_allocator(pool.malloc):
        stream.begin_capture()
        (y,) = session.run(None, feeds)
        graph = stream.end_capture()
    assert session.graphs()[0].replays == 2
    with stream:
        feeds["x0"][...] = 5
        graph.launch()
        np.testing.assert_array_equal(y.get(), np.full((4, 2), -5))


def test_checks_of_a_run_that_the_caller_captures_are_left(cupy: Any) -> None:
    """CUDA answers no questions about an event that is recorded in a capture."""
    session = onemodel.Session(model("Gather", [rows(), np.zeros(1, np.int64)]), backend="cupy", outputs="backend")
    feeds = {"x0": cupy.asarray(rows(), blocking=True), "x1": cupy.asarray(np.array([3]), blocking=True)}
    stream, pool = cupy.cuda.Stream(non_blocking=True), cupy.cuda.MemoryPool()
    with stream, cupy.cuda.using_allocator(pool.malloc):
        stream.begin_capture()
        session.run(None, feeds)
        stream.end_capture()
    (y,) = session.run(None, feeds)
    np.testing.assert_array_equal(y.get(), rows()[[3]])


def test_threads_share_a_graph(cupy: Any) -> None:
    proto, feeds = models.convolutional()
    session = session_of(proto)
    plain = onemodel.Session(proto, mode="fast")
    wrong: list[Any] = []

    def work(number: int) -> None:
        fed = {"x": feeds["x"] * np.float32(number + 1)}
        (expected,) = plain.run(None, fed)
        for _ in range(4):
            (y,) = session.run(None, fed)
            if not np.allclose(y, expected, atol=1e-5):
                wrong.append(number)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == []
    assert session.graphs()[0].replays >= 8


def resized() -> Any:
    """A model whose step reads tables of a cache of the backend."""
    node = helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="linear")
    scales = helper.make_tensor("scales", 1, [4], [1, 1, 2, 2])
    return graph_model([node], [("x", "tensor(float)", [1, 1, 3, 3])], ["y"], initializers=[scales])


def test_what_caches_let_go_stays_with_the_graph(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from onemodel.backends import cupy_fast, cupy_indices, cupy_run

    def forget() -> None:
        cupy_indices._taps.cache_clear()
        cupy_fast._uploaded.cache_clear()
        gc.collect()

    x = np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3)
    session = session_of(resized())
    outputs = [session.run(None, {"x": x})[0] for _ in range(3)]
    forget()
    outputs += session.run(None, {"x": x})
    assert all(np.array_equal(y, outputs[0]) for y in outputs)
    if install.kernels_here() != "native":
        return
    # The stand-in would tell.
    for module in (cupy_run, cupy_indices):
        monkeypatch.setattr(module, "kept", lambda arrays: arrays)
    session = session_of(resized())
    for _ in range(3):
        session.run(None, {"x": x})
    entry = list(session._graphs._entries.values())[-1]  # type: ignore[union-attr]
    entry.captured._pool.memory.clear()  # type: ignore[union-attr]
    forget()
    with pytest.raises(AssertionError, match="memory that was let go"):
        session.run(None, {"x": x})


def test_many_arrays_are_joined_without_an_upload(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = [np.full((2, 1), i, np.float32) for i in range(20)]
    feeds = {f"x{i}": x for i, x in enumerate(inputs)}
    from onemodel.backends import cupy_fast

    for operator, replays in (("Concat", 2), ("Concat", 0)):
        session = session_of(model(operator, inputs, axis=1))
        for _ in range(3):
            (y,) = session.run(None, feeds)
            np.testing.assert_array_equal(y, np.concatenate(inputs, axis=1))
        (state,) = session.graphs()
        assert state.replays == replays
        assert state.reason == ("" if replays else "CuPy copies from or to the host's memory in it")
        monkeypatch.setattr(cupy_fast, "_JOINED", 99)


def test_the_driver_is_asked_for_each_node(monkeypatch: pytest.MonkeyPatch) -> None:
    from onemodel.backends import cupy_graphs, cupy_libraries
    from tests.gpu.capture import Driver, Graph

    class Telling(Driver):
        memory, failing = (2, 2), 0

        @classmethod
        def cuGraphMemcpyNodeGetParams(cls, node: int, copy: Any) -> int:  # noqa: N802
            copy._obj.srcMemoryType, copy._obj.dstMemoryType = cls.memory
            return cls.failing

        @staticmethod
        def cuPointerGetAttribute(found: Any, attribute: int, pointer: int) -> int:  # noqa: N802
            assert attribute == 2
            found._obj.value = 1
            return 0

    monkeypatch.setattr(cupy_libraries, "driver", Telling)
    graph = Graph()
    for kind in (0, 1, 2, 5):
        graph.add(lambda: None, kind)
    cupy_graphs.refuse_host_memory(graph)
    for memory in ((1, 2), (2, 1), (4, 2), (2, 4)):
        monkeypatch.setattr(Telling, "memory", memory)
        with pytest.raises(onemodel.backends.base.NotCapturable, match="host's memory"):
            cupy_graphs.refuse_host_memory(graph)
    monkeypatch.setattr(Telling, "failing", 1)
    with pytest.raises(onemodel.backends.base.NotCapturable, match="error 1"):
        cupy_graphs.refuse_host_memory(graph)
    graph.add(lambda: None, 3)
    monkeypatch.setattr(Telling, "memory", (2, 2))
    monkeypatch.setattr(Telling, "failing", 0)
    with pytest.raises(onemodel.backends.base.NotCapturable, match="type 3"):
        cupy_graphs.refuse_host_memory(graph)


def test_the_drivers_structure_lies_as_cuda_h_has_it() -> None:
    import ctypes

    from onemodel.backends.cupy_libraries import Memcpy3D

    places = {"srcMemoryType": 32, "srcHost": 40, "srcDevice": 48, "srcPitch": 72, "dstMemoryType": 120}
    places |= {"dstDevice": 136, "WidthInBytes": 176}
    assert {name: getattr(Memcpy3D, name).offset for name in places} == places
    assert ctypes.sizeof(Memcpy3D) == 200


def test_two_versions_of_cublas_are_told(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib

    monkeypatch.setattr(importlib.import_module("cupy_backends.cuda.libs.cublas"), "getVersion", lambda handle: 120000)
    session = session_of(model("MatMul", [rows(), rows().T.copy()]))
    results = [session.run(None, {"x0": rows(), "x1": rows().T.copy()})[0] for _ in range(3)]
    assert all(np.array_equal(y, rows() @ rows().T) for y in results)
    reason = "RuntimeError: two versions of cuBLAS are loaded, and CuPy does not use 130000"
    assert session.graphs()[0].reason == reason


def test_graphs_are_for_cupy_in_fast_mode() -> None:
    proto = model("Relu", [rows()])
    for options in ({}, {"mode": "fast"}, {"backend": "strict"}):
        with pytest.raises(
            onemodel.InputError, match="graphs=True is for backend 'cupy' in fast mode; this session is"
        ):
            onemodel.Session(proto, graphs=True, **options)
    with pytest.raises(onemodel.InputError, match="graphs='yes' is not valid"):
        onemodel.SessionConfig(graphs="yes")  # type: ignore[arg-type]
    assert onemodel.Session(proto).graphs() == []


def test_sessions_with_graphs_pickle() -> None:
    session = session_of(model("Relu", [rows()]))
    for _ in range(3):
        session.run(None, {"x0": rows(-4)})
    again = pickle.loads(pickle.dumps(session))
    assert again.graphs() == []
    np.testing.assert_array_equal(again.run(None, {"x0": rows(-4)})[0], np.maximum(rows(-4), 0))


def test_the_stand_in_has_cupys_signatures(cupy: Any) -> None:
    import inspect

    for name, parameters in read_table()["cuda"].items():
        function = cupy.cuda
        for part in name.split("."):
            function = getattr(function, part)
        found = list(inspect.signature(function).parameters)
        assert [p for p in found if p != "self"] == [p for p in parameters if p != "self"], name


def test_the_stand_in_refuses_what_a_capture_refuses(cupy: Any) -> None:
    x = cupy.asarray(rows(), blocking=True)
    with pytest.raises(RuntimeError, match="cudaErrorStreamCaptureUnsupported"):
        cupy.cuda.Stream().begin_capture()
    for forbidden in (lambda: int(x[0, 0]), x.get, lambda: cupy.cuda.get_current_stream().synchronize()):
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            stream.begin_capture()
            with pytest.raises(RuntimeError, match="not permitted when stream is capturing"):
                forbidden()
            with pytest.raises(RuntimeError, match="cudaErrorStreamCaptureInvalidated"):
                stream.end_capture()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        with pytest.raises(NotImplementedError, match="cuBLAS"):
            cupy.matmul(x, x.T)
        y = x + x
        graph = stream.end_capture()
        x[...] = 1
        graph.launch()
        np.testing.assert_array_equal(y.get(), np.full((4, 2), 2))
    del y
    gc.collect()
    with pytest.raises(AssertionError, match="memory that was let go"):
        graph.launch()


def same(one: Any, other: Any) -> bool:
    """Equal values up to what cuBLAS may round otherwise."""
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if not hasattr(one, "dtype") or one.dtype.kind == "O":
        return bool(np.all(one == other))
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return False
    bits = [np.atleast_1d(x).view(np.uint8) for x in (one, other)]
    numbers = [x.astype(complex) for x in (one, other)]
    close = np.allclose(numbers[0], numbers[1], rtol=1e-4, atol=1e-5, equal_nan=True)
    return np.array_equal(*bits) or close


@pytest.mark.slow
def test_replays_of_the_official_suite_are_runs() -> None:
    cases = load_cases(cached=True)
    captured = 0
    for name in read_manifest("cupy-fast")[::7]:
        session = session_of(cases[name].model)
        feeds = dict(cases[name].data_sets()[0].feeds)
        first, *others = [session.run(None, feeds) for _ in range(3)]
        state = session.graphs()[-1]
        captured += state.replays == 2
        if state.reason != "it draws random numbers without a seed":
            assert all(same(first, other) for other in others), name
    assert captured > 250
