"""Every element type of ONNX in and out through ``Session.run``: tensors, sequences, optionals and maps of them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, defs, helper, numpy_helper

import onemodel
from onemodel import types
from tests.models_by_hand import graph_model, node

CODES = {name: code for name, code in TensorProto.DataType.items() if name != "UNDEFINED"}
BITS = {"INT4": 4, "UINT4": 4, "FLOAT4E2M1": 4, "INT2": 2, "UINT2": 2, "FLOAT6E2M3": 6, "FLOAT6E3M2": 6, "BOOL": 1}
NOT_NUMPYS_OWN = {
    "BFLOAT16": ml_dtypes.bfloat16,
    "FLOAT8E4M3FN": ml_dtypes.float8_e4m3fn,
    "FLOAT8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "FLOAT8E5M2": ml_dtypes.float8_e5m2,
    "FLOAT8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "FLOAT8E8M0": ml_dtypes.float8_e8m0fnu,
    "FLOAT6E2M3": ml_dtypes.float6_e2m3fn,
    "FLOAT6E3M2": ml_dtypes.float6_e3m2fn,
    "FLOAT4E2M1": ml_dtypes.float4_e2m1fn,
    "INT4": ml_dtypes.int4,
    "UINT4": ml_dtypes.uint4,
    "INT2": ml_dtypes.int2,
    "UINT2": ml_dtypes.uint2,
}
IDENTITY = set(defs.get_schema("Identity", 25, "").type_constraints[0].allowed_type_strs)
OPTIONS: list[dict[str, Any]] = [{"mode": "fast"}, {"mode": "fast", "kernels": "generic"}, {"mode": "exact"}]


def some(name: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray[Any, Any]:
    """An array of random bits, NaN and infinities among them."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(CODES[name]))
    if name == "STRING":
        return np.array([f"é{n}" for n in rng.integers(0, 99, shape).flat], object).reshape(shape)
    if name in ("INT4", "INT2"):
        return rng.integers(-(2 ** (BITS[name] - 1)), 2 ** (BITS[name] - 1), shape).astype(dtype)
    width = BITS.get(name, 8 * dtype.itemsize)
    if width < 8:
        return rng.integers(0, 2**width, shape, np.uint8).view(dtype)
    return np.frombuffer(rng.bytes(dtype.itemsize * int(np.prod(shape))), dtype).reshape(shape)


def equal(got: Any, want: Any) -> None:
    if want is None or isinstance(want, list):
        assert type(got) is type(want)
        for a, b in zip(got or [], want or [], strict=True):
            equal(a, b)
        return
    assert isinstance(got, np.ndarray)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    assert got.tolist() == want.tolist() if got.dtype == object else got.tobytes() == want.tobytes()


def one_nan(value: Any) -> Any:
    """``value`` with one NaN, positive and without payload, as exact mode gives it."""
    if isinstance(value, list):
        return [one_nan(item) for item in value]
    if value is None or value.dtype == object or value.dtype.kind in "biu" or "int" in value.dtype.name:
        return value
    if value.dtype.kind == "c":
        return one_nan(value.view(value.real.dtype)).view(value.dtype) if value.ndim else value
    with np.errstate(invalid="ignore"):
        return np.where(np.isnan(value.astype(np.float64)), np.asarray(np.nan, value.dtype), value).astype(value.dtype)


def passes(value_type: str, values: list[Any], nodes: list[onnx.NodeProto] | None = None) -> None:
    """The nodes, or Identity, give each of ``values`` back, bit by bit; NaN in exact mode as its one NaN."""
    nodes = nodes or [node("Identity", ["x"], ["y"])]
    model = graph_model(nodes, [("x", value_type, None)], ["y"], opset=28)
    for options in OPTIONS:
        session = onemodel.Session(model, **options)
        assert session.get_inputs()[0].type == value_type
        for value in values:
            equal(session.run(None, {"x": value})[0], one_nan(value) if session.mode == "exact" else value)


@pytest.mark.parametrize("name", CODES)
def test_tensors(name: str) -> None:
    values = [some(name, shape) for shape in ((2, 3), (), (0, 4), (33,))]
    if name in NOT_NUMPYS_OWN:
        assert {value.dtype for value in values} == {np.dtype(NOT_NUMPYS_OWN[name])}
    value_type = types.of_dtype(values[0].dtype)
    same = [node("Cast", ["x"], ["y"], to=CODES[name])]  # Identity has no floats of 6 bits
    passes(value_type, values, None if value_type in IDENTITY else same)


@pytest.mark.parametrize("name", CODES)
def test_initializers(name: str) -> None:
    value = some(name, (3, 5))
    tensor = numpy_helper.from_array(value, "w")
    model = graph_model([], [], ["w"], initializers=[tensor], opset=28)
    for options in OPTIONS:
        session = onemodel.Session(model, **options)
        equal(session.run(None, {})[0], one_nan(value) if session.mode == "exact" else value)


@pytest.mark.parametrize("name", CODES)
def test_sequences_and_optionals(name: str) -> None:
    one, two = some(name, (2, 3)), some(name, (4,), seed=1)
    tensor = types.of_dtype(one.dtype)
    tested = 0
    for value_type, values in {
        f"seq({tensor})": [[one, two], [], [some(name, ())]],
        f"optional({tensor})": [one, None],
        f"optional(seq({tensor}))": [[one, two], None, []],
    }.items():
        if value_type in IDENTITY:
            passes(value_type, values)
            tested += 1
    assert tested == (0 if name in NOT_NUMPYS_OWN else 3), "ONNX has these in sequences and optionals now: test them"


@pytest.mark.parametrize("name", sorted(set(CODES) - set(NOT_NUMPYS_OWN)))
def test_sequences_that_nodes_make_and_take(name: str) -> None:
    one, two = some(name, (2, 3)), some(name, (4,), seed=1)
    tensor = types.of_dtype(one.dtype)
    model = graph_model(
        [
            node("SequenceConstruct", ["a", "b"], ["s"]),
            node("SequenceAt", ["s", "place"], ["y"]),
            node("Optional", ["a"], ["o"]),
            node("OptionalGetElement", ["o"], ["z"]),
        ],
        [("a", tensor, None), ("b", tensor, None)],
        ["s", "y", "o", "z"],
        initializers=[numpy_helper.from_array(np.array(-1), "place")],
        opset=28,
    )
    for options in OPTIONS:
        session = onemodel.Session(model, **options)
        got = session.run(None, {"a": one, "b": two})
        for value, want in zip(got, [[one, two], two, one, one], strict=True):
            equal(value, one_nan(want) if session.mode == "exact" else want)


def test_every_type_is_tested() -> None:
    assert len(CODES) == 28


ML = "ai.onnx.ml"


@pytest.mark.parametrize(
    ("value_type", "given", "vocabulary", "want"),
    [
        ("map(int64,tensor(float))", {2: 1.5, 7: -2.0}, {"int64_vocabulary": [7, 3, 2]}, [-2.0, 0, 1.5]),
        ("map(string,tensor(double))", {"b": 1.5}, {"string_vocabulary": ["a", "b"]}, [0, 1.5]),
        ("map(string,tensor(int64))", {"b": 2**60}, {"string_vocabulary": ["a", "b"]}, [0, 2**60]),
        ("map(int64,tensor(string))", {1: "x"}, {"int64_vocabulary": [1, 2]}, ["x", ""]),
    ],
)
def test_maps_go_in(value_type: str, given: Any, vocabulary: Any, want: Any) -> None:
    model = graph_model(
        [node("DictVectorizer", ["x"], ["y"], domain=ML, **vocabulary)],
        [("x", value_type, None)],
        ["y"],
        domains={ML: 1},
    )
    for options in OPTIONS:
        assert onemodel.Session(model, **options).run(None, {"x": given})[0].tolist() == want


@pytest.mark.parametrize("labels", [{"classlabels_int64s": [5, 6]}, {"classlabels_strings": ["a", "b"]}])
def test_sequences_of_maps_come_out(labels: Any) -> None:
    model = graph_model(
        [node("ZipMap", ["x"], ["y"], domain=ML, **labels)], [("x", "tensor(float)", [None, 2])], ["y"], domains={ML: 1}
    )
    (keys,) = labels.values()
    x = np.array([[0.25, 0.75], [1, 0]], np.float32)
    for options in OPTIONS:
        (rows,) = onemodel.Session(model, **options).run(None, {"x": x})
        assert rows == [dict(zip(keys, map(np.float32, row), strict=True)) for row in x]
        assert all(type(value) is np.float32 for row in rows for value in row.values())
