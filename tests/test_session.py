"""The session's face: questions, feeds, outputs, threads, pickling."""

from __future__ import annotations

import io
import logging
import pickle
import threading
from typing import Any

import numpy as np
import pytest

import onemodel
from onemodel import InputError, Session, SessionConfig
from tests.models_by_hand import constant, graph_model, node, value

FLOAT = "tensor(float)"


def affine(**options: Any) -> Session:
    """A model of y = sqrt(x) * w + b with w and b initializers, w one that a run may feed."""
    model = graph_model(
        [node("Sqrt", ["x"], ["root"]), node("Mul", ["root", "w"], ["scaled"]), node("Add", ["scaled", "b"], ["y"])],
        [("x", FLOAT, ["N", 2]), ("w", FLOAT, [2])],
        ["y"],
        initializers=[constant("w", np.float32([2, 3])), constant("b", np.float32([1, 1]))],
    )
    model.producer_name, model.doc_string, model.model_version = "by hand", "an affine map", 7
    return Session(model, SessionConfig(mode="fast"), **options)


X = np.float32([[1, 4], [9, 16]])
Y = np.float32([[3, 7], [7, 13]])


def test_run_and_call() -> None:
    session = affine()
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], Y)
    np.testing.assert_array_equal(session.run(["y"], {"x": X})[0], Y)
    np.testing.assert_array_equal(session(x=X)["y"], Y)


def test_intermediate_values_by_name_and_order() -> None:
    root, y, scaled, w = affine().run(["root", "y", "scaled", "w"], {"x": X})
    np.testing.assert_array_equal(root, np.sqrt(X))
    np.testing.assert_array_equal(y, Y)
    np.testing.assert_array_equal(scaled, Y - 1)
    np.testing.assert_array_equal(w, [2, 3])


def test_an_overridable_initializer_may_be_fed() -> None:
    session = affine()
    np.testing.assert_array_equal(session.run(None, {"x": X, "w": np.float32([0, 0])})[0], np.ones((2, 2)))
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], Y)
    assert [argument.name for argument in session.get_overridable_initializers()] == ["w"]


def test_feeds_find_their_inputs_whatever_the_order() -> None:
    """Old models list initializers before the data, and runs feed in any order."""
    model = graph_model(
        [node("Sub", ["x", "w"], ["d"]), node("Sub", ["d", "z"], ["y"])],
        [("w", FLOAT, [1]), ("x", FLOAT, [1]), ("v", FLOAT, [1]), ("z", FLOAT, [1])],
        ["y"],
        initializers=[constant("v", np.float32([0])), constant("w", np.float32([1]))],
    )
    session = Session(model)
    x, z, w = np.float32([10]), np.float32([2]), np.float32([5])
    assert session.run(None, {"z": z, "x": x}) == [7]
    assert session.run(None, {"z": z, "x": x, "w": w}) == [3]


def test_questions() -> None:
    session = affine()
    (x,) = session.get_inputs()
    assert (x.name, x.type, x.shape) == ("x", FLOAT, ("N", 2))
    assert [output.name for output in session.get_outputs()] == ["y"]
    meta = session.get_modelmeta()
    assert (meta.producer_name, meta.graph_name, meta.description, meta.version) == (
        "by hand",
        "by_hand",
        "an affine map",
        7,
    )
    assert (session.backend, session.mode) == ("numpy", "fast")
    assert session.memory()["constants"] == 16
    assert repr(session) == "<onemodel.Session of 'by_hand': numpy, fast>"


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ({}, "no feed for the input 'x'; the inputs are 'x'"),
        ({"z": X}, "the model has no input 'z'; its inputs are 'x'"),
        ({"x": X.astype(np.float64)}, "input 'x' expects tensor(float), dtype float32; got dtype float64"),
        ({"x": X[0]}, "input 'x' expects 2 dimensions [N, 2]; got 1, shape [2]"),
        ({"x": X[:, :1]}, "input 'x' expects shape [N, 2]; got [2, 1], which differs at axis 1: 1, not 2"),
        ({"x": [1.0]}, "input 'x' expects tensor(float); got a list: pass an array"),
        ({"x": None}, "input 'x' expects tensor(float); got None: pass an array"),
    ],
)
def test_bad_feeds(feeds: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        affine().run(None, feeds)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_bits_of_a_type_that_numpy_lacks_are_not_taken_for_numbers() -> None:
    model = graph_model([node("Identity", ["x"], ["y"])], [("x", "tensor(bfloat16)", [2])], ["y"])
    for bits in (np.zeros(2, np.uint16), np.zeros(2, "V2")):
        with pytest.raises(InputError, match=r"got dtype \w+: use view if these are its bits, or astype if they are"):
            Session(model, mode="fast").run(None, {"x": bits})
    for numbers in (np.zeros(2, np.uint8), np.zeros(2, np.float32)):
        with pytest.raises(InputError, match=r"got dtype \w+: use astype$"):
            Session(model, mode="fast").run(None, {"x": numbers})


def test_any_layout_and_byte_order() -> None:
    for x in (X.astype(">f4"), np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2], X[::-1][::-1], X.view(np.matrix)):
        np.testing.assert_array_equal(affine()(x=x)["y"], Y)
    with pytest.raises(InputError, match=r"input 'x' got a masked array, and ONNX knows no masks"):
        affine()(x=np.ma.masked_array(X, X > 2))


def test_bad_calls() -> None:
    session = affine()
    with pytest.raises(InputError, match=r"feeds is a list; it must be a mapping"):
        session.run(None, [X])  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"main graph has no value 'nothing'; its outputs are 'y'"):
        session.run(["nothing"], {"x": X})
    with pytest.raises(InputError, match=r"run_options must be None"):
        session.run(None, {"x": X}, object())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "quick"}, "mode='quick' is not known; it is one of 'exact', 'fast', None"),
        ({"backend": "tpu"}, "backend='tpu' is not known; it is one of 'numpy', 'cupy', 'strict'"),
        ({"threads": 0}, "threads=0 is not valid; it is None or a whole number from 1 on"),
        ({"thread": 1}, "Session has no option 'thread'; its options are backend, mode"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        affine(**options)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"device": 0}, "backend 'numpy' runs on the CPU and has no device 0"), ({"backend": "cupy"}, "backend 'cupy'")],
)
def test_a_backend_that_is_not_there(options: dict[str, Any], message: str) -> None:
    with pytest.raises(onemodel.BackendError, match=message):
        affine(**options)


def test_outputs_are_the_callers_own() -> None:
    """An output is never a view of a feed, a constant or another output."""
    model = graph_model(
        [node("Identity", ["x"], ["a"]), node("Identity", ["w"], ["b"]), node("Identity", ["a"], ["c"])],
        [("x", FLOAT, [2])],
        ["a", "b", "c", "w"],
        initializers=[constant("w", np.float32([2, 3]))],
    )
    session = Session(model)
    x = np.float32([1, 2])
    first = session.run(None, {"x": x})
    for output in first:
        output[...] = 0
    np.testing.assert_array_equal(x, [1, 2])
    for output, expected in zip(session.run(None, {"x": x}), ([1, 2], [2, 3], [1, 2], [2, 3]), strict=True):
        np.testing.assert_array_equal(output, expected)


def test_results_are_arrays() -> None:
    model = graph_model([node("Add", ["x", "x"], ["y"])], [("x", FLOAT, [])], ["y"])
    (y,) = Session(model).run(None, {"x": np.float32(1.5)})
    assert isinstance(y, np.ndarray)
    assert y.shape == ()


def test_feeds_by_dlpack_come_back_in_their_library() -> None:
    import array_api_strict as strict

    y = affine()(x=strict.asarray(X))["y"]
    assert isinstance(y, type(strict.asarray(0)))
    np.testing.assert_array_equal(np.asarray(y), Y)
    assert isinstance(affine(outputs="numpy")(x=strict.asarray(X))["y"], np.ndarray)


class _Buffer:
    """What offers ``__array__`` alone."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return X


class _Broken:
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        raise RuntimeError("it lies on another planet")


def test_feeds_by_array_protocol() -> None:
    np.testing.assert_array_equal(affine()(x=_Buffer())["y"], Y)
    with pytest.raises(InputError, match=r"input 'x': a _Broken cannot be read on the host, so pass a NumPy array: it"):
        affine()(x=_Broken())


@pytest.mark.parametrize("dtype", ["<U3", "S3", object])
def test_string_feeds(dtype: Any) -> None:
    model = graph_model([node("Identity", ["x"], ["y"])], [("x", "tensor(string)", [2])], ["y"])
    (y,) = Session(model).run(
        None, {"x": np.array(["ab", "ü"] if dtype != "S3" else [b"ab", "ü".encode()], dtype=dtype)}
    )
    assert y.tolist() == ["ab", "ü"]


def test_bad_string_feeds() -> None:
    session = Session(graph_model([node("Identity", ["x"], ["y"])], [("x", "tensor(string)", [2])], ["y"]))
    with pytest.raises(InputError, match=r"expects tensor\(string\), an array of str; got dtype int64"):
        session(x=np.array([1, 2]))
    with pytest.raises(InputError, match=r"expects tensor\(string\), an array of str; it holds a int"):
        session(x=np.array([1, "a"], dtype=object))


def test_sequence_and_optional_feeds() -> None:
    model = graph_model(
        [node("Identity", ["s"], ["t"]), node("Identity", ["o"], ["p"])],
        [("s", "seq(tensor(float))", None), ("o", "optional(tensor(float))", None)],
        ["t", "p"],
    )
    session = Session(model)
    t, p = session.run(None, {"s": [X, Y], "o": None})
    np.testing.assert_array_equal(t[1], Y)
    assert p is None
    with pytest.raises(InputError, match=r"input 's'\[1\] expects tensor\(float\), dtype float32; got dtype float64"):
        session.run(None, {"s": [X, Y.astype(float)], "o": None})
    with pytest.raises(InputError, match=r"input 's' expects seq\(tensor\(float\)\), a list; got a ndarray"):
        session.run(None, {"s": X, "o": None})


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_sessions_pickle(protocol: int) -> None:
    session = affine(kernels="generic", limits=onemodel.Limits(nodes=10))
    again = pickle.loads(pickle.dumps(session, protocol))
    np.testing.assert_array_equal(again(x=X)["y"], Y)
    assert again.config == session.config


def test_eight_threads_get_the_bits_of_one() -> None:
    model = graph_model(
        [node("MatMul", ["x", "w"], ["h"]), node("Tanh", ["h"], ["t"]), node("Softmax", ["t"], ["y"])],
        [("x", FLOAT, ["N", 64])],
        ["y"],
        initializers=[constant("w", np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32))],
    )
    session = Session(model, mode="fast")
    feeds = [np.random.default_rng(i).standard_normal((5, 64)).astype(np.float32) for i in range(8)]
    alone = [session(x=x)["y"].tobytes() for x in feeds]
    together: list[list[bytes]] = [[] for _ in feeds]

    def work(i: int) -> None:
        for _ in range(25):
            together[i].append(session(x=feeds[i])["y"].tobytes())

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [set(results) for results in together] == [{expected} for expected in alone]
    assert all(len(results) == 25 for results in together)


def test_the_thread_limit_holds_for_the_run_alone() -> None:
    import threadpoolctl

    seen = []

    def count(x: Any, /, *, xp: Any) -> Any:
        seen.append([pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"])
        return x

    onemodel.operator("Count", domain="test.threads", since=1, register=False)(count)
    model = graph_model([node("Count", ["x"], ["y"], domain="test.threads")], [("x", FLOAT, None)], ["y"])
    model.opset_import.append(onemodel_domain := __import__("onnx").helper.make_opsetid("test.threads", 1))
    assert onemodel_domain.version == 1
    before = [pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]
    Session(model, threads=1, operators=[count], mode="fast")(x=X)
    assert seen == [[1] * len(before)]
    after = [pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]
    assert after == before


def test_runs_do_not_look_for_libraries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    import threadpoolctl

    session = Session(graph_model([node("Neg", ["x"], ["y"])], [("x", FLOAT, None)], ["y"]), threads=1)
    monkeypatch.delattr(threadpoolctl, "ThreadpoolController")
    session(x=X)


def test_floating_point_warnings_are_off_within_a_run_alone() -> None:
    model = graph_model([node("Div", ["x", "y"], ["z"])], [("x", FLOAT, [1]), ("y", FLOAT, [1])], ["z"])
    z = Session(model)(x=np.float32([1]), y=np.float32([0]))["z"]
    assert np.isinf(z[0])
    with pytest.warns(RuntimeWarning):
        np.float32([1]) / np.float32([0])


def test_the_logger_is_silent_by_default(capfd: pytest.CaptureFixture[str]) -> None:
    logging.getLogger("onemodel").debug("heard by nobody")
    affine()(x=X)
    assert capfd.readouterr() == ("", "")


def test_slips_in_calling() -> None:
    with pytest.raises(InputError, match=r"config is a str; pass a SessionConfig, or single options by name"):
        Session(graph_model([node("Identity", ["x"], ["y"])], [("x", FLOAT, None)], ["y"]), "fast")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"output_names is the text 'y'; pass a list of names"):
        affine().run("y", {"x": X})
    model = graph_model([node("Identity", ["self"], ["y"])], [("self", FLOAT, None)], ["y"])
    assert Session(model)(self=np.float32([1]))["y"] == [1]


def test_an_output_of_another_type_than_declared() -> None:
    model = graph_model([node("Sqrt", ["x"], ["y"])], [("x", FLOAT, None)], [])
    model.graph.output.append(value("y", "tensor(int64)"))
    with pytest.raises(onemodel.ModelError, match=r"output 'y' is declared tensor\(int64\), but .* tensor\(float\)"):
        Session(model)


def test_an_initializer_may_be_fed_in_another_shape() -> None:
    model = graph_model(
        [node("Concat", ["x", "w"], ["y"], axis=0)],
        [("x", FLOAT, [1]), ("w", FLOAT, ["K"])],
        ["y"],
        initializers=[constant("w", np.float32([1, 2]))],
    )
    session = Session(model)
    assert [w.shape for w in session.get_overridable_initializers()] == [("K",)]
    np.testing.assert_array_equal(session(x=np.float32([5]))["y"], [5, 1, 2])
    np.testing.assert_array_equal(session(x=np.float32([5]), w=np.float32([7, 8, 9]))["y"], [5, 7, 8, 9])
    with pytest.raises(InputError, match=r"input 'w' expects 1 dimensions \[K\]; got 2"):
        session(x=np.float32([5]), w=np.float32([[7]]))


def test_the_thread_setting_comes_back_after_runs_side_by_side() -> None:
    import threadpoolctl

    def setting() -> list[int]:
        return [pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]

    model = graph_model([node("MatMul", ["x", "x"], ["y"])], [("x", FLOAT, [64, 64])], ["y"])
    sessions = [Session(model, mode="fast", threads=threads) for threads in (1, 2, 1)]
    feeds = {"x": np.ones((64, 64), np.float32)}

    def work(session: Session) -> None:
        for _ in range(50):
            session.run(None, feeds)

    before = setting()
    threads = [threading.Thread(target=work, args=(session,)) for session in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert setting() == before


def test_outputs_that_share_memory_are_parted() -> None:
    names = [f"y{i}" for i in range(50)]
    model = graph_model([node("Split", ["x"], names, axis=0, num_outputs=50)], [("x", FLOAT, [50])], [*names, "x"])
    x = np.arange(50, dtype=np.float32)
    outputs = Session(model).run(None, {"x": x})
    for output in outputs:
        output += 100
    np.testing.assert_array_equal(x, np.arange(50))
    np.testing.assert_array_equal(np.concatenate(outputs[:50]), outputs[50])
    np.testing.assert_array_equal(outputs[50], x + 100)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (5, r"output_names is 5; pass a list of names"),
        ([5], r"output_names is \[5\]; pass a list of names"),
        ([[]], r"output_names is \[\[\]\]; pass a list of names"),
    ],
)
def test_bad_output_names(names: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        affine().run(names, {"x": X})


def test_feeds_of_odd_names() -> None:
    with pytest.raises(InputError, match=r"the model has no input 5, 'z'; its inputs are 'x'"):
        affine().run(None, {5: X, "z": X, "x": X})  # type: ignore[dict-item]


def test_strings_that_are_none() -> None:
    session = Session(graph_model([node("Identity", ["x"], ["y"])], [("x", "tensor(string)", None)], ["y"]))
    assert session(x=np.array([b"\xc3\xa9"]))["y"] == ["é"]
    with pytest.raises(InputError, match=r"input 'x' expects tensor\(string\), whose bytes must be UTF-8"):
        session(x=np.array([b"\xff"]))
    with pytest.raises(InputError, match=r"input 'x' .* it holds a NoneType"):
        session(x=np.array(["a", None], np.dtypes.StringDType(na_object=None)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limits": 5}, r"limits=5 is not valid; it is a onemodel.Limits"),
        ({"limits": None}, r"limits=None is not valid"),
        ({"operators": 5}, r"operators=5 is not valid; it is a list of functions"),
    ],
)
def test_odd_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Session(graph_model([node("Identity", ["x"], ["y"])], [("x", FLOAT, None)], ["y"]), **options)


@pytest.mark.parametrize("value", [-1, "many", True, 1.5])
def test_odd_limits(value: Any) -> None:
    with pytest.raises(InputError, match=r"limits.nodes=.* is not valid; it is a whole number from 0 on"):
        onemodel.Limits(nodes=value)


def test_a_file_that_is_closed() -> None:
    file = io.BytesIO(b"")
    file.close()
    with pytest.raises(InputError, match="the file object cannot be read: I/O operation on closed file"):
        Session(file)


@pytest.mark.parametrize("mode", ["fast", "exact"])
def test_the_strict_backend_names_the_type_that_it_lacks(mode: Any) -> None:
    model = graph_model([node("Exp", ["x"], ["y"])], [("x", "tensor(float16)", None)], ["y"])
    with pytest.raises(onemodel.BackendError, match="carries only the standard's element types, not float16"):
        Session(model, backend="strict", mode=mode)
