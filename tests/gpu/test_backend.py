"""Sessions on CuPy, on its stand-in: errors, feeds, outputs, streams, what waits for the device."""

from __future__ import annotations

import pickle
import sys
import threading
import types
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper

import onemodel
from onemodel import conversion
from onemodel.backends import get_backend, made
from tests.gpu import capture, device_rules, models
from tests.models_by_hand import graph_model, subgraph
from tests.ops.harness import model


def _gather() -> onnx.ModelProto:
    return model("Gather", [np.ones((4, 2), np.float32), np.ones(3, np.int64)])


ROWS = np.arange(8, dtype=np.float32).reshape(4, 2)


class TestErrors:
    """One BackendError each, in the words of the loader or the driver, with what to install."""

    def refused(self, message: str, **options: Any) -> None:
        made.cache_clear()
        with pytest.raises(onemodel.BackendError, match=message) as raised:
            onemodel.Session(_gather(), backend="cupy", **options)
        assert "\n" not in str(raised.value)

    def test_no_cupy(self, cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "cupy", None)
        self.refused(r"cannot be imported: .* pip install 'onemodel-runtime\[cuda13\]' for CUDA 13")

    def test_no_driver(self, cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        def count() -> int:
            raise capture.CUDARuntimeError("cudaErrorInsufficientDriver: CUDA driver version is insufficient")

        monkeypatch.setattr(cupy, "is_available", lambda: False)
        monkeypatch.setattr(cupy.cuda.runtime, "getDeviceCount", count)
        self.refused("finds no GPU: cudaErrorInsufficientDriver: CUDA driver version is insufficient")

    def test_no_device(self, cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(cupy, "is_available", lambda: False)
        monkeypatch.setattr(cupy.cuda.runtime, "getDeviceCount", lambda: 0)
        self.refused("the driver counts 0 devices")

    def test_no_nvrtc(self, cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        def version() -> None:
            raise RuntimeError('Failure finding "libnvrtc.so"')

        monkeypatch.setattr(cupy.cuda.nvrtc, "getVersion", version)
        self.refused('lacks a CUDA library: Failure finding "libnvrtc.so"')

    def test_no_cublas(self, cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "cupy_backends.cuda.libs.cublas", None)
        self.refused("lacks a CUDA library: .*cublas")

    def test_no_such_index(self, cupy: Any) -> None:
        self.refused("has no device 7; there is devices 0 to 1", device=7)

    def test_emulated_products(self, cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CUBLAS_EMULATE_DOUBLE_PRECISION", "1")
        self.refused("CUBLAS_EMULATE_DOUBLE_PRECISION is set, so that it may emulate them: unset it", mode="exact")
        monkeypatch.setenv("CUBLAS_EMULATE_DOUBLE_PRECISION", "0")
        monkeypatch.setattr(sys.modules["cupy_backends.cuda.libs.cublas"], "getMathMode", lambda handle: 8)
        self.refused("CuPy's handle is set to emulate them", mode="exact")


class TestFeedsAndOutputs:
    def test_numpy_in_numpy_out(self, cupy: Any) -> None:
        session = onemodel.Session(_gather(), backend="cupy")
        assert (session.mode, session.get_providers()) == ("fast", ["cupy:fast"])
        (y,) = session.run(None, {"x0": ROWS, "x1": np.array([3, 0, -1])})
        assert isinstance(y, np.ndarray)
        np.testing.assert_array_equal(y, ROWS[[3, 0, -1]])

    def test_cupy_in_cupy_out_without_a_copy_or_a_read(self, cupy: Any) -> None:
        session = onemodel.Session(_gather(), backend="cupy")
        feeds = {"x0": cupy.asarray(ROWS), "x1": cupy.asarray(np.array([3, 0]))}
        adopted = session._backend.adopt(feeds["x0"])
        assert adopted is feeds["x0"]
        with device_rules.no_reads():
            (y,) = session.run(None, feeds)
        assert isinstance(y, cupy.ndarray)
        np.testing.assert_array_equal(y.get(), ROWS[[3, 0]])

    def test_outputs_as_the_config_says(self, cupy: Any) -> None:
        device_feeds = {"x0": cupy.asarray(ROWS), "x1": cupy.asarray(np.array([1]))}
        host_feeds = {"x0": ROWS, "x1": np.array([1])}
        for outputs, feeds, kind in (
            ("numpy", device_feeds, np.ndarray),
            ("backend", host_feeds, cupy.ndarray),
            ("feeds", {**host_feeds, "x1": device_feeds["x1"]}, cupy.ndarray),
        ):
            (y,) = onemodel.Session(_gather(), backend="cupy", outputs=outputs).run(None, feeds)
            assert isinstance(y, kind), outputs

    def test_anything_with_dlpack(self, cupy: Any) -> None:
        class Tensor:
            """A library's array on the device."""

            def __init__(self, array: np.ndarray[Any, Any]) -> None:
                self.array = array

            def __dlpack_device__(self) -> tuple[int, int]:
                return 2, 0

            def __dlpack__(self, *, stream: Any = None) -> Any:
                assert stream is not None
                return self.array.__dlpack__()

        session = onemodel.Session(_gather(), backend="cupy")
        given = ROWS.copy()
        (y,) = session.run(None, {"x0": Tensor(given), "x1": np.array([2])})
        np.testing.assert_array_equal(y.get() if isinstance(y, cupy.ndarray) else y, ROWS[[2]])
        adopted = session._backend.adopt(Tensor(given))
        assert adopted is not None
        assert np.shares_memory(adopted.host, given)

    def test_dtype_and_shape_of_device_feeds_are_checked(self, cupy: Any) -> None:
        session = onemodel.Session(_gather(), backend="cupy")
        with pytest.raises(onemodel.InputError, match="dtype int64; got dtype int32"):
            session.run(None, {"x0": cupy.asarray(ROWS), "x1": cupy.asarray(np.array([1], np.int32))})
        with pytest.raises(onemodel.InputError, match="expects 2 dimensions"):
            onemodel.Session(models.transformer()[0], backend="cupy").run(None, {"ids": cupy.asarray(np.array([1]))})

    def test_outputs_alias_neither_feeds_nor_weights_nor_each_other(self, cupy: Any) -> None:
        nodes = [
            helper.make_node("Identity", ["x"], ["a"]),
            helper.make_node("Reshape", ["w", "shape"], ["b"]),
            helper.make_node("Reshape", ["x", "shape"], ["c"]),
            helper.make_node("Identity", ["a"], ["d"]),
        ]
        weights = [helper.make_tensor("w", 1, [4], np.ones(4)), helper.make_tensor("shape", 7, [2], [2, 2])]
        graph = graph_model(nodes, [("x", "tensor(float)", [4])], ["a", "b", "c", "d"], initializers=weights)
        session = onemodel.Session(graph, backend="cupy")
        x = cupy.asarray(np.arange(4, dtype=np.float32))
        outputs = session.run(None, {"x": x})
        hosts = [x.host, *(output.host for output in outputs)]
        for i, one in enumerate(hosts):
            assert not any(np.shares_memory(one, other) for other in hosts[i + 1 :])
        outputs[1][...] = 7
        np.testing.assert_array_equal(session.run(["b"], {"x": x})[0].get(), np.ones((2, 2)))

    def test_texts_stay_on_the_host(self, cupy: Any) -> None:
        nodes = [
            helper.make_node("StringConcat", ["x", "x"], ["twice"]),
            helper.make_node("StringSplit", ["twice"], ["parts", "counts"], delimiter="b"),
            helper.make_node("Add", ["counts", "counts"], ["y"]),
        ]
        session = onemodel.Session(graph_model(nodes, [("x", "tensor(string)", None)], ["twice", "y"]), backend="cupy")
        twice, y = session.run(None, {"x": np.array(["ab", "c"], object)})
        assert (twice.tolist(), y.tolist()) == (["abab", "cc"], [6, 2])

    def test_weights_go_up_once(self, cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        from onemodel.backends import cupy_convert

        sizes: list[int] = []
        monkeypatch.setattr(cupy_convert, "note", lambda direction, what, size: sizes.append(size))
        proto, feeds = models.transformer()
        session = onemodel.Session(proto, backend="cupy")
        weights = sum(len(tensor.raw_data) for tensor in proto.graph.initializer)
        made = sum(sizes)
        assert 0.9 * weights < made <= weights + 64
        session.run(["x1"], feeds)
        session.run(None, feeds)
        assert sum(sizes) - made <= 2 * feeds["ids"].nbytes + 1024
        assert session.memory()["constants"] >= made

    def test_sessions_pickle(self, cupy: Any) -> None:
        session = pickle.loads(pickle.dumps(onemodel.Session(_gather(), backend="cupy", device=1)))
        assert session.config.device == 1
        (y,) = session.run(None, {"x0": ROWS, "x1": np.array([3])})
        np.testing.assert_array_equal(y, ROWS[[3]])


class TestReads:
    """Between feeds and outputs nothing waits for the device that the ONNX meaning does not force to."""

    @pytest.mark.parametrize("kernels", ["native", "generic"])
    @pytest.mark.parametrize("make", [models.convolutional, models.transformer, lambda: models.transformer(half=True)])
    def test_networks_read_nothing(self, cupy: Any, make: Any, kernels: Any) -> None:
        proto, feeds = make()
        session = onemodel.Session(proto, backend="cupy", outputs="backend", kernels=kernels)
        with device_rules.no_reads():
            outputs = session.run(None, feeds)
        (y,) = (output.get() for output in outputs)
        (expected,) = onemodel.Session(proto, mode="fast").run(None, feeds)
        tolerance = 2e-2 if expected.dtype == np.float16 else 1e-5
        np.testing.assert_allclose(y, expected, rtol=tolerance, atol=tolerance)
        assert [t for t in session.profile(feeds).transfers if t.direction == "to_host"] == []

    def test_profile_names_the_node_of_each_transfer(self, cupy: Any) -> None:
        nodes = [
            helper.make_node("NonZero", ["x"], ["places"], name="finder"),
            helper.make_node("ReduceSum", ["x"], ["total"], keepdims=0, name="adder"),
            helper.make_node("Cast", ["total"], ["count"], to=7, name="rounder"),
            helper.make_node("Unsqueeze", ["count", "axis"], ["size"], name="lifter"),
            helper.make_node("Expand", ["x", "size"], ["y"], name="spreader"),
        ]
        axis = helper.make_tensor("axis", 7, [1], [0])
        graph = graph_model(nodes, [("x", "tensor(float)", [1])], ["places", "y"], initializers=[axis])
        session = onemodel.Session(graph, backend="cupy")
        profile = session.profile({"x": cupy.asarray(np.array([3], np.float32))})
        told = {(t.direction, t.what, getattr(t.node, "name", t.node)) for t in profile.transfers}
        assert ("to_host", "nonzero", "finder") in told
        assert {name for direction, _, name in told if direction == "to_host"} <= {"finder", "spreader", "input 'x'"}
        assert len(told) >= 2
        assert "spreader" in str(profile) or "input 'x'" in str(profile)
        assert {step.node.op_type for step in profile.nodes} >= {"NonZero", "Expand", "ReduceSum"}
        assert profile.seconds > 0

    def test_numpy_sessions_have_profiles_too(self) -> None:
        proto, feeds = models.convolutional()
        profile = onemodel.Session(proto, mode="fast").profile(feeds)
        assert profile.transfers == []
        assert [step.node.op_type for step in profile.nodes][-1] == "Softmax"

    def test_loops_keep_their_values_on_the_device(self, cupy: Any) -> None:
        body = subgraph(
            [
                helper.make_node("Identity", ["going"], ["still"]),
                helper.make_node("Add", ["sum", "x"], ["more"]),
            ],
            ["still", "more"],
            [("i", "tensor(int64)", []), ("going", "tensor(bool)", []), ("sum", "tensor(float)", None)],
        )
        nodes = [helper.make_node("Loop", ["count", "", "x"], ["y"], body=body)]
        count = helper.make_tensor("count", 7, [], [3])
        graph = graph_model(nodes, [("x", "tensor(float)", [2])], ["y"], initializers=[count])
        session = onemodel.Session(graph, backend="cupy", outputs="backend")
        with device_rules.no_reads():
            (y,) = session.run(None, {"x": np.array([1, 2], np.float32)})
        np.testing.assert_array_equal(y.get(), [4, 8])


class TestChecks:
    """Wrong indices and divisors are errors that name their node, and cost no wait."""

    def test_outputs_on_the_host(self, cupy: Any) -> None:
        session = onemodel.Session(_gather(), backend="cupy")
        for wrong in (4, -5):
            with pytest.raises(
                onemodel.ExecutionError, match=rf"'node'.*IndexError: index {wrong} is out of range for 4"
            ):
                session.run(None, {"x0": ROWS, "x1": np.array([0, wrong])})
        session.run(None, {"x0": ROWS, "x1": np.array([0])})

    def test_outputs_on_the_device(self, cupy: Any) -> None:
        session = onemodel.Session(_gather(), backend="cupy")
        feeds = {"x0": cupy.asarray(ROWS), "x1": cupy.asarray(np.array([9]))}
        with device_rules.no_reads():
            session.run(None, feeds)
        with pytest.raises(onemodel.ExecutionError, match=r"'node'.*index 9 is out of range"):
            session.synchronize()
        session.synchronize()
        session.run(None, feeds)
        with pytest.raises(onemodel.ExecutionError, match="index 9 is out of range"):
            session.run(None, feeds)

    def test_division_by_zero(self, cupy: Any) -> None:
        session = onemodel.Session(model("Div", [np.ones(2, np.int32)] * 2), backend="cupy")
        with pytest.raises(onemodel.ExecutionError, match=r"'node'.*ZeroDivisionError: integer division by zero"):
            session.run(None, {"x0": np.array([1, 2], np.int32), "x1": np.array([1, 0], np.int32)})

    def test_inside_a_loop(self, cupy: Any) -> None:
        body = subgraph(
            [
                helper.make_node("Identity", ["going"], ["still"]),
                helper.make_node("Gather", ["x", "i"], ["row"], name="inner"),
            ],
            ["still", "row"],
            [("i", "tensor(int64)", []), ("going", "tensor(bool)", [])],
        )
        nodes = [helper.make_node("Loop", ["count", ""], ["y"], body=body, name="outer")]
        count = helper.make_tensor("count", 7, [], [5])
        graph = graph_model(nodes, [("x", "tensor(float)", [4, 2])], ["y"], initializers=[count])
        with pytest.raises(
            onemodel.ExecutionError, match=r"'inner'.* in body of Loop 'outer'.*index 4 is out of range"
        ):
            onemodel.Session(graph, backend="cupy").run(None, {"x": ROWS})


def test_every_narrow_type_keeps_its_bits(cupy: Any) -> None:
    from onemodel.backends import cupy_convert, cupy_narrow

    assert {dtype.name for dtype in cupy_narrow.DTYPES} >= {
        "float8_e4m3fn",
        "float8_e4m3fnuz",
        "float8_e5m2",
        "float8_e5m2fnuz",
        "float8_e8m0fnu",
        "float4_e2m1fn",
        "int4",
        "uint4",
        "int2",
        "uint2",
    }
    for dtype in cupy_narrow.DTYPES:
        values = np.arange(-3, 5, dtype=np.float32).astype(dtype).reshape(2, 4)
        array = cupy_convert.from_host(values)
        assert (array.dtype, array.shape, array.bits.dtype) == (dtype, (2, 4), np.uint8)
        np.testing.assert_array_equal(cupy_convert.fetch(array[1:]).view(np.uint8), values[1:].view(np.uint8))


@pytest.mark.parametrize("source", ["float32", "float64", "int64", "uint64", "int8", "bool", "float16", "bfloat16"])
def test_casts_to_narrow_types_are_numpys(cupy: Any, source: str) -> None:
    from onnx.helper import np_dtype_to_tensor_dtype

    from onemodel.backends import cupy_convert, cupy_narrow, numpy_cast
    from onemodel.backends.cupy_narrow import BFLOAT16

    draw = np.random.default_rng(3)
    dtype = BFLOAT16 if source == "bfloat16" else np.dtype(source)
    if dtype.kind in "iub":
        kind = np.dtype(np.uint8) if dtype.kind == "b" else dtype
        limits = np.iinfo(kind)
        values = draw.integers(limits.min, limits.max, 4000, kind, endpoint=True) >> draw.integers(
            0, limits.bits, 4000
        ).astype(kind)
        values = np.append(values, np.array([limits.min, limits.max, 0, 1], kind))
        values = values % 2 == 1 if dtype.kind == "b" else values
    else:
        unsigned = np.dtype(f"u{dtype.itemsize}")
        values = draw.integers(0, np.iinfo(unsigned).max, 20000, unsigned, endpoint=True).view(dtype)
        with np.errstate(all="ignore"):
            near = (
                (draw.standard_normal(20000) * np.exp2(draw.integers(-20, 20, 20000))).astype(np.float32).astype(dtype)
            )
        special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan], np.float32).astype(dtype)
        halves = (np.arange(-512, 512) / 32).astype(np.float32).astype(dtype)
        values = np.concatenate([values, near, special, halves])
    for narrow in sorted(cupy_narrow.DTYPES, key=str):
        code = int(np_dtype_to_tensor_dtype(narrow))
        saturating = [{"saturate": s} for s in (True, False, "finite")]
        rounding = [{"round_mode": mode, "saturate": s} for mode in ("up", "down", "nearest") for s in (True, False)]
        for options in rounding if narrow.name.startswith("float8_e8m0") else saturating:
            with np.errstate(all="ignore"):
                expected = numpy_cast.convert(values, code, **options)
                got = cupy_convert.fetch(cupy_convert.convert(cupy_convert.from_host(values), code, **options))
            assert got.dtype == narrow
            same = got.view(np.uint8) == expected.view(np.uint8)
            same |= np.isnan(got.astype(np.float32)) & np.isnan(expected.astype(np.float32))
            assert same.all(), (narrow, options, values[~same][:5], got[~same][:5], expected[~same][:5])


def test_device_of_a_session_is_current_while_it_runs(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    original = cupy.empty

    def empty(*args: Any) -> Any:
        seen.append(cupy.cuda.runtime.getDevice())
        return original(*args)

    monkeypatch.setattr(cupy, "empty", empty)
    session = onemodel.Session(_gather(), backend="cupy", device=1)
    session.run(None, {"x0": ROWS, "x1": np.array([1])})
    assert set(seen) == {1}
    assert cupy.cuda.runtime.getDevice() == 0


def test_sessions_stay_on_the_device_on_which_they_are_made(cupy: Any) -> None:
    """Threads begin on device 0."""
    with cupy.cuda.Device(1):
        session = onemodel.Session(models.transformer()[0], backend="cupy", outputs="backend")
        assert get_backend("cupy") is get_backend("cupy", 1)
    assert get_backend("cupy") is get_backend("cupy", 0)
    devices: list[int] = []

    def work() -> None:
        devices.extend(y.device.id for y in session.run(None, models.transformer()[1]))
        session.synchronize()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert devices == [1]


_CONSTANTS: dict[str, tuple[str, list[Any], dict[str, Any]]] = {
    "indices": ("CumSum", [ROWS, np.array(0)], {}),
    "taps": ("Resize", [ROWS[None, None], None, None, np.array([1, 1, 7, 3])], {"mode": "linear"}),
    "codes": ("Cast", [ROWS], {"to": onnx.TensorProto.FLOAT8E4M3FN}),
    "numbers": ("Cast", [ROWS.astype(ml_dtypes.float8_e5m2)], {"to": onnx.TensorProto.FLOAT}),
    "patterns": ("Cast", [ROWS], {"to": onnx.TensorProto.INT4}),
}
"""Operators that keep arrays on the device for later runs."""


@pytest.mark.parametrize("mode", ["fast", "exact"])
@pytest.mark.parametrize("what", _CONSTANTS)
def test_what_is_kept_is_there_for_all_streams(cupy: Any, what: str, mode: Any) -> None:
    operator, inputs, attributes = _CONSTANTS[what]
    session = onemodel.Session(model(operator, inputs, **attributes), backend="cupy", mode=mode, outputs="backend")
    feeds = {f"x{i}": value for i, value in enumerate(inputs) if value is not None}
    for _ in range(2):
        with cupy.cuda.Stream(non_blocking=True):
            session.run(None, feeds)


def test_outputs_are_exported_on_their_device(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """DLPack orders the consumer's stream behind that of the current device."""
    library = types.SimpleNamespace(__name__="elsewhere", from_dlpack=lambda array: array.__dlpack__() and array)
    monkeypatch.setattr(conversion, "library_of", lambda values: library)
    session = onemodel.Session(_gather(), backend="cupy", device=1)
    with cupy.cuda.Device(1):
        feeds = {"x0": cupy.asarray(ROWS), "x1": cupy.asarray(np.array([1]))}
    (y,) = session.run(None, feeds)
    assert y.device.id == 1


def test_weights_are_there_for_all_streams(cupy: Any) -> None:
    proto, feeds = models.convolutional()
    with cupy.cuda.Stream(non_blocking=True):
        session = onemodel.Session(proto, backend="cupy", outputs="backend")
    with cupy.cuda.Stream(non_blocking=True):
        session.run(None, feeds)


def test_checks_are_read_behind_the_stream_that_makes_them(cupy: Any) -> None:
    with cupy.cuda.Device(1):
        session = onemodel.Session(_gather(), backend="cupy", outputs="backend")
        with cupy.cuda.Stream(non_blocking=True):
            session.run(None, {"x0": ROWS, "x1": np.array([4, 0, 0])})
    with cupy.cuda.Stream(non_blocking=True), pytest.raises(onemodel.ExecutionError, match="index 4 is out of range"):
        session.synchronize()


def test_complex_numbers_lie_where_their_size_allows(cupy: Any) -> None:
    """An array from elsewhere may begin at any float."""
    xp = get_backend("cupy").namespace("fast")
    whole: Any = xp.from_host(np.arange(10, dtype=np.float32))
    start = 1 if whole.data.ptr % 8 == 0 else 2
    parts = xp.reshape(whole[start : start + 8], (4, 2))
    z = xp.join_complex(parts)
    assert z.data.ptr % 8 == 0
    np.testing.assert_array_equal(z.get(), [complex(i, i + 1) for i in range(start, start + 8, 2)])


@pytest.mark.parametrize("element", ["float32", "bfloat16"])
def test_scalars_keep_their_rank(cupy: Any, element: str) -> None:
    """Many functions of NumPy and CuPy make 1-D arrays of 0-d ones."""
    from onemodel.backends.cupy_narrow import BFLOAT16

    dtype = BFLOAT16 if element == "bfloat16" else np.dtype(element)
    xp = get_backend("cupy").namespace("fast")
    x: Any = xp.from_host(np.array(2, dtype))
    index = cupy.asarray(np.array(1))
    rows = xp.from_host(np.arange(8).reshape(4, 2).astype(dtype))
    assert xp.gather(rows, index, 0).shape == (2,)
    assert xp.checked_indices(index, 4).shape == ()
    assert xp.where(x > 1, x, x).shape == ()
    assert xp.contiguous(x).shape == ()
    assert xp.bitcast(x, np.dtype(f"i{dtype.itemsize}")).shape == ()
    with get_backend("cupy").running():
        assert all(xp.convert(x, code).shape == () for code in (1, 6, 10, 16, 17, 22, 23))
    relu = onemodel.Session(model("Gelu", [np.array(2, np.float32)]), backend="cupy")
    assert relu.run(None, {"x0": np.array(2, np.float32)})[0].shape == ()
