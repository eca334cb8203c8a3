"""Constant, ConstantOfShape, EyeLike, Range and OneHot."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import onemodel
from tests.ops import harness
from tests.ops.harness import check, like_onnxruntime, refused, run, run_model


def ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, dtype=np.int64)


def constant(opset: int = harness.LATEST, **attributes: Any) -> Any:
    """What a Constant with these attributes gives."""
    graph = helper.make_graph(
        [helper.make_node("Constant", [], ["y"], "node", **attributes)], "constant", [], [onnx.ValueInfoProto(name="y")]
    )
    return run_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10))


# Constant


@pytest.mark.parametrize("opset", [6, 9, 11, 12, 13, 19, 21, 23, 24, harness.LATEST])
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_, np.float16])
def test_constant_tensor(dtype: Any, opset: int) -> None:
    x = np.array([[1, 0], [1, 1]], dtype)
    harness.same(constant(opset, value=numpy_helper.from_array(x)), x)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.int4, ml_dtypes.float8_e4m3fn, ml_dtypes.uint2])
def test_constant_of_narrow_types(dtype: Any) -> None:
    x = np.array([[1, 0, 1]]).astype(dtype)
    harness.same(constant(value=numpy_helper.from_array(x)), x)


@pytest.mark.parametrize("opset", [12, harness.LATEST])
def test_constant_attributes(opset: int) -> None:
    harness.same(constant(opset, value_float=0.1), np.array(0.1, np.float32))
    harness.same(constant(opset, value_floats=[0.5, -2.0]), np.array([0.5, -2], np.float32))
    harness.same(constant(opset, value_int=-7), np.array(-7))
    harness.same(constant(opset, value_ints=[2**62, 1]), ints(2**62, 1))
    harness.same(constant(opset, value_string="ä"), np.array("ä", dtype=object))
    harness.same(constant(opset, value_strings=["a", ""]), np.array(["a", ""], dtype=object))


@pytest.mark.parametrize("opset", [11, harness.LATEST])
@pytest.mark.parametrize("places", [[1, 5], [[0, 1], [1, 2]]])
def test_constant_from_a_sparse_tensor(places: Any, opset: int) -> None:
    values = numpy_helper.from_array(np.array([3, 4], np.float32), "values")
    sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(np.array(places, np.int64), "indices"), [2, 3])
    harness.same(constant(opset, sparse_value=sparse), np.array([[0, 3, 0], [0, 0, 4]], np.float32))


def test_constant_takes_exactly_one_attribute() -> None:
    with pytest.raises(onemodel.OneModelError, match="2 of the value attributes"):
        constant(value_int=1, value_float=1.0)
    with pytest.raises(onemodel.OneModelError, match="0 of the value attributes"):
        constant()
    with pytest.raises(onemodel.ModelError, match="value_int"):
        constant(11, value_int=1)


# ConstantOfShape, EyeLike


@pytest.mark.parametrize("opset", [9, 20, 21, harness.LATEST])
@pytest.mark.parametrize("shape", [(2, 3), (), (0, 4), (1,)])
def test_constant_of_shape(shape: tuple[int, ...], opset: int) -> None:
    check(np.zeros(shape, np.float32), "ConstantOfShape", ints(*shape), opset=opset)
    for dtype, value in ((np.float32, 0.1), (np.int64, -(2**60)), (np.bool_, True), (np.uint8, 200), (np.float16, 0.1)):
        tensor = numpy_helper.from_array(np.array([value], dtype))
        check(np.full(shape, value, dtype), "ConstantOfShape", ints(*shape), opset=opset, value=tensor)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.int4, ml_dtypes.float8_e5m2, ml_dtypes.uint2])
def test_constant_of_shape_of_narrow_types(dtype: Any) -> None:
    x = np.array([3]).astype(dtype)
    check(np.full((2, 2), x[0], dtype), "ConstantOfShape", ints(2, 2), value=numpy_helper.from_array(x))


def test_constant_of_shape_refuses() -> None:
    refused("negative size", "ConstantOfShape", ints(2, -1))
    two = numpy_helper.from_array(np.zeros(2, np.float32))
    refused("must have one element", "ConstantOfShape", ints(2), value=two)


@pytest.mark.parametrize("opset", [9, 22])
@pytest.mark.parametrize("k", [0, 1, -1, 5, -5])
def test_eye_like(k: int, opset: int) -> None:
    x = np.zeros((2, 3), np.int32)
    check(np.eye(2, 3, k, np.int32), "EyeLike", x, k=k, opset=opset)
    check(np.eye(2, 3, k, np.float64), "EyeLike", x, k=k, dtype=TensorProto.DOUBLE, opset=opset)


def test_eye_like_takes_matrices_only() -> None:
    refused("must be a matrix", "EyeLike", np.zeros((2, 3, 1), np.float32), error=onemodel.OneModelError)


# Range


@pytest.mark.parametrize("opset", [11, 27])
@pytest.mark.parametrize(
    ("start", "limit", "delta", "want"),
    [
        (3, 9, 3, [3, 6]),
        (10, 4, -2, [10, 8, 6]),
        (0, 5, 2, [0, 2, 4]),
        (5, 0, 1, []),
        (0, 5, -1, []),
        (0, 0, 1, []),
        (-7, -3, 3, [-7, -4]),
        (4, -5, -4, [4, 0, -4]),
    ],
)
@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.int64, np.float32, np.float64])
def test_range(start: int, limit: int, delta: int, want: list[int], dtype: Any, opset: int) -> None:
    check(np.array(want, dtype), "Range", *(np.array(x, dtype) for x in (start, limit, delta)), opset=opset)


def test_range_of_many() -> None:
    got = run("Range", *(np.array(x, np.int16) for x in (-32768, 32767, 1)))
    np.testing.assert_array_equal(got, np.arange(-32768, 32767).astype(np.int16))
    got = run("Range", *(np.array(x, np.float32) for x in (0, 1, 0.1)))
    np.testing.assert_array_equal(got, np.arange(10).astype(np.float32) * np.float32(0.1))
    big = 2**53
    check(ints(big, big + 1, big + 2), "Range", np.array(big), np.array(big + 3), np.array(1))
    like_onnxruntime("Range", *(np.array(x, np.float32) for x in (0.5, 20, 0.7)))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_range_of_half_types(dtype: Any) -> None:
    first = 2048 if dtype is np.float16 else 256  # from here on only every second integer is in the type
    inputs = [np.array(x, dtype) for x in (first, first + 8, 1)]
    want = np.arange(first, first + 8, dtype=np.float32).astype(dtype)
    check(want, "Range", *inputs)
    step = np.array(0.1, dtype)
    got = run("Range", np.array(1, dtype), np.array(2, dtype), step)
    want = (np.arange(len(got), dtype=np.float32) * np.float32(step) + np.float32(1)).astype(dtype)
    np.testing.assert_array_equal(got, want)
    inside = run("Range", np.array(1, dtype), np.array(2, dtype), step, stash_type=0)
    count = np.arange(len(inside)).astype(dtype)
    np.testing.assert_array_equal(inside, (count * step + np.array(1, dtype)).astype(dtype))


def test_range_refuses() -> None:
    refused("delta is 0", "Range", np.array(1), np.array(5), np.array(0))
    refused("delta not 0", "Range", *(np.array(x, np.float32) for x in (1, 5, 0)))
    refused("must be finite", "Range", *(np.array(x, np.float32) for x in (1, np.inf, 1)))
    refused("must be scalars", "Range", ints(1, 2), np.array(5), np.array(1), error=onemodel.OneModelError)


# OneHot


def test_one_hot() -> None:
    values = np.array([2, 7], np.float32)
    want = np.array([[2, 7, 2], [2, 2, 7]], np.float32)
    check(want, "OneHot", ints(1, 2), np.array(3), values)
    check(want, "OneHot", ints(1, -1), np.array([3]), values)
    check(want.T, "OneHot", ints(1, 2), np.array(3), values, axis=0)
    check(want.T, "OneHot", ints(1, 2), np.array(3), values, axis=-2)
    check(want, "OneHot", np.array([1, 2], np.float32), np.array(3, np.float32), values)
    check(want, "OneHot", np.array([1.9, 2.9]), np.array(3.9), values)
    check(np.array([2, 7, 2], np.float32), "OneHot", np.array(1), np.array(3), values)


def test_one_hot_out_of_range_is_all_off() -> None:
    values = np.array([0, 1])
    want = np.array([[0, 0], [0, 0], [1, 0], [0, 1], [0, 0]])
    check(want, "OneHot", ints(-3, 2, -2, -1, 9), np.array(2), values)
    check(want, "OneHot", np.array([7, 2, 0, 1, 2**64 - 1], np.uint64), np.array(2), values)
    check(want, "OneHot", np.array([np.nan, np.inf, 0, 1, -np.inf]), np.array(2), values)
    before = np.array([[0, 0], [0, 0], [0, 0], [1, 0], [0, 1]])
    check(before, "OneHot", ints(-2, -1, 2, 0, 1), np.array(2), values, opset=9)


@pytest.mark.parametrize("dtype", [np.bool_, object, np.float16, np.int8, np.float64])
def test_one_hot_values(dtype: Any) -> None:
    values = np.array(["off", "on"], object) if dtype is object else np.array([0, 1], dtype)
    got = run("OneHot", np.array([[0, 1], [1, 0]]), np.array(2), values)
    np.testing.assert_array_equal(got, values[np.array([[[1, 0], [0, 1]], [[0, 1], [1, 0]]])])
    assert got.dtype == values.dtype


def test_one_hot_refuses() -> None:
    refused("[off_value, on_value]", "OneHot", ints(1), np.array(3), ints(1, 2, 3), error=onemodel.OneModelError)
    refused("axis 2 is not in [-2, 1]", "OneHot", ints(1), np.array(3), ints(0, 1), axis=2)
    refused("depth -1 is negative", "OneHot", ints(1), np.array(-1), ints(0, 1))
    for depth in (np.nan, np.inf):
        refused(f"depth is {depth}; it must be a finite number", "OneHot", ints(1), np.array(depth), ints(0, 1))
    refused(
        "depth of shape (2,) must be one number",
        "OneHot",
        ints(1),
        ints(3, 3),
        ints(0, 1),
        error=onemodel.OneModelError,
    )


@pytest.mark.parametrize("op", ["ConstantOfShape", "EyeLike", "Range", "OneHot"])
def test_exact_mode_makes_arrays(op: str) -> None:
    inputs: list[Any] = {
        "ConstantOfShape": [ints(2)],
        "EyeLike": [np.zeros((2, 2), np.float32)],
        "Range": [np.array(x, np.float32) for x in (0, 1, 1)],
        "OneHot": [np.ones(2, np.float32), np.array(2), np.ones(2, np.float32)],
    }[op]
    onemodel.Session(harness.model(op, inputs), mode="exact")
