"""Slice, Pad, Gather and its kin, ReverseSequence, NonZero, Compress, Trilu."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import onemodel
from tests.ops import harness
from tests.ops.harness import arrays, check, like_onnxruntime, refused, run

DTYPES = [np.float32, np.float64, np.float16, np.int32, np.uint8, np.bool_, object, ml_dtypes.bfloat16]
MOST, LEAST = 2**31 - 1, -(2**31)


def ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, dtype=np.int64)


def data(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    """1, 2, 3 ... in ``shape``."""
    flat = np.arange(1, 1 + np.prod(shape))
    return (np.array([str(n) for n in flat], dtype=object) if dtype is object else flat.astype(dtype)).reshape(shape)


ELEMENT_MOVES: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("Slice", (data(5), ints(1), ints(3)), {}),
    ("Pad", (data(5), ints(1, 1)), {}),
    ("Pad", (data(5), ints(1, 1)), {"mode": "reflect"}),
    ("CenterCropPad", (data(5), ints(7)), {}),
    ("Gather", (data(5), ints(1)), {}),
    ("GatherElements", (data(5), ints(1)), {}),
    ("GatherND", (data(5), np.array([[1]])), {}),
    ("ReverseSequence", (data(2, 2), ints(1, 2)), {}),
    ("NonZero", (data(5),), {}),
    ("Compress", (data(5), np.array([True])), {}),
    ("Trilu", (data(2, 2),), {}),
]


@pytest.mark.parametrize(("op", "inputs", "options"), ELEMENT_MOVES)
def test_element_moves_run_in_exact_mode(op: str, inputs: Any, options: dict[str, Any]) -> None:
    onemodel.Session(harness.model(op, inputs, **options), mode="exact")


# Slice


@pytest.mark.parametrize(
    ("start", "end", "step", "want"),
    [
        (1, 4, 1, [2, 3, 4]),
        (0, MOST, 1, [1, 2, 3, 4, 5]),
        (-3, -1, 1, [3, 4]),
        (-100, 100, 2, [1, 3, 5]),
        (3, 1, 1, []),
        (5, 9, 1, []),
        (9, 12, 1, []),
        (-100, -200, -1, [1]),  # clamped to 0, unlike a Python slice
        (-1, LEAST, -1, [5, 4, 3, 2, 1]),
        (MOST, LEAST, -2, [5, 3, 1]),
        (3, 0, -1, [4, 3, 2]),
        (3, -5, -1, [4, 3, 2]),
        (3, -6, -1, [4, 3, 2, 1]),
        (1, 3, -1, []),
        (4, -100, -4, [5, 1]),
        (0, -(2**63), -1, [1]),
    ],
)
@pytest.mark.parametrize("index", [np.int64, np.int32])
def test_slice(start: int, end: int, step: int, want: list[int], index: Any) -> None:
    if index is np.int32:
        start, end = max(start, LEAST), max(end, LEAST)
    bounds = [np.array([x], index) for x in (start, end, 0, step)]
    check(np.array(want, np.float32), "Slice", data(5), *bounds)
    check(np.array(want, np.float32), "Slice", data(5), *bounds, opset=10)


@pytest.mark.parametrize("dtype", DTYPES)
def test_slice_of_several_axes(dtype: Any) -> None:
    x = data(3, 4, 5, dtype=dtype)
    check(x[1:, :, ::-2], "Slice", x, ints(1, -1), ints(9, -9), ints(0, -1), ints(1, -2))
    check(x[1:2, 0:3], "Slice", x, ints(1, 0), ints(2, 3))
    check(x[:, 1:], "Slice", x, ints(1), ints(9), ints(-2))


@pytest.mark.parametrize("size", [0, 1, 2, 5])
def test_slice_like_onnxruntime(size: int) -> None:
    x = data(size, 2)
    bounds = (-7, -5, -1, 0, 1, 4, 5, 9)
    combinations = list(itertools.product(bounds, bounds, (-2, -1, 1, 3)))
    for start, end, step in combinations[::17]:
        like_onnxruntime("Slice", x, ints(start), ints(end), ints(0), ints(step))


@pytest.mark.parametrize("opset", [6, 9])
def test_slice_by_attributes(opset: int) -> None:
    check(data(2, 4)[1:2, 0:3], "Slice", data(2, 4), starts=(1, 0), ends=(2, 3), axes=(0, 1), opset=opset)
    check(data(2, 4)[0:1, 1:], "Slice", data(2, 4), starts=(0, 1), ends=(-1, 1000), opset=opset)


def test_slice_refuses() -> None:
    refused("a step is 0", "Slice", data(5), ints(0), ints(3), ints(0), ints(0))
    refused("axis 1 is not one of 1 axes", "Slice", data(5), ints(0), ints(3), ints(1))
    refused("twice", "Slice", data(5, 5), ints(0, 0), ints(3, 3), ints(1, -1))
    refused("equally many", "Slice", data(5, 5), ints(0, 0), ints(3), error=onemodel.OneModelError)


# Pad


@pytest.mark.parametrize("dtype", DTYPES)
def test_pad_with_a_constant(dtype: Any) -> None:
    x = data(2, 3, dtype=dtype)
    blank = "" if dtype is object else 0
    want = np.full((4, 4), blank, x.dtype)
    want[1:3, 1:] = x
    check(want, "Pad", x, ints(1, 1, 1, 0))
    value = x[0, 1]
    want = np.full((2, 6), value, x.dtype)
    want[:, 2:5] = x
    check(want, "Pad", x, ints(0, 2, 0, 1), np.asarray(value, x.dtype))
    check(want, "Pad", x, ints(0, 2, 0, 1), np.asarray([value], x.dtype))
    check(want, "Pad", x, ints(2, 1), np.asarray(value, x.dtype), ints(-1))


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
@pytest.mark.parametrize("pads", [(1, 1), (0, 2), (4, 4), (5, 7), (13, 11)])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_pad_with_its_own_elements(size: int, pads: tuple[int, int], mode: Any) -> None:
    x = data(size)
    check(np.pad(x, [pads], mode=mode), "Pad", x, ints(*pads), mode=mode)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_pad_of_several_axes(mode: Any, dtype: Any) -> None:
    x = data(2, 3, 4, dtype=dtype)
    widths = [(1, 0), (2, 1), (0, 3)]
    want = np.pad(x, widths, mode=mode)
    check(want, "Pad", x, ints(1, 2, 0, 0, 1, 3), mode=mode)
    check(want, "Pad", x, ints(0, 2, 1, 3, 1, 0), None, np.array([-1, 1, 0]), mode=mode)


def test_pad_of_the_specification() -> None:
    x = np.array([[1.0, 1.2], [2.3, 3.4], [4.5, 5.7]], np.float32)
    want = [[3.4, 2.3, 3.4, 2.3], [5.7, 4.5, 5.7, 4.5], [1.2, 1.0, 1.2, 1.0]]
    check(np.array(want * 2, np.float32), "Pad", x, ints(2, 1, 1, 1), mode="wrap")
    want = [[1.0, 1.2, 1.0, 1.2], [2.3, 3.4, 2.3, 3.4], [4.5, 5.7, 4.5, 5.7]]
    check(np.array(want, np.float32), "Pad", x, ints(0, 2, 0, 0), mode="reflect", opset=11)


@pytest.mark.parametrize(
    ("pads", "mode", "want"),
    [
        ((-1, 3), "reflect", [2, 3, 4, 5, 4, 3, 2]),
        ((-1, 3), "wrap", [2, 3, 4, 5, 2, 3, 4]),
        ((2, -2), "edge", [1, 1, 1, 2, 3]),
        ((-1, 2), "constant", [2, 3, 4, 5, 0, 0]),
        ((-2, -1), "constant", [3, 4]),
        ((-3, -2), "constant", []),
        ((-6, 3), "constant", [0, 0]),
        ((3, -7), "constant", [0]),
    ],
)
def test_negative_pads_crop(pads: tuple[int, int], mode: str, want: list[int]) -> None:
    check(np.array(want, np.float32), "Pad", data(5), ints(*pads), mode=mode)
    if mode != "wrap":
        like_onnxruntime("Pad", data(5), ints(*pads), mode=mode, opset=18)


@pytest.mark.parametrize("opset", [6, 10])
def test_pad_by_attributes(opset: int) -> None:
    want = np.pad(data(2, 3), [(0, 1), (2, 0)], constant_values=1.5)
    check(want, "Pad", data(2, 3), pads=(0, 2, 1, 0), value=1.5, opset=opset)
    want = np.pad(data(2, 3), [(1, 1), (2, 0)], mode="reflect")
    check(want, "Pad", data(2, 3), pads=(1, 2, 1, 0), mode="reflect", opset=opset)
    check(data(2, 3)[1:], "Pad", data(2, 3), pads=(-1, 0, 0, 0), opset=opset)


def test_pad_of_nothing() -> None:
    check(np.zeros((2, 3), np.float32), "Pad", np.zeros((0, 3), np.float32), ints(1, 0, 1, 0))
    check(np.zeros((0, 5), np.float32), "Pad", np.zeros((0, 3), np.float32), ints(0, 1, 0, 1), mode="edge")
    check(np.float32(4), "Pad", np.float32(4), ints())
    refused("is empty", "Pad", np.zeros((0, 3), np.float32), ints(1, 0, 1, 0), mode="edge")


def test_pad_refuses() -> None:
    refused("must be 4 numbers", "Pad", data(2, 3), ints(1, 1), error=onemodel.OneModelError)
    refused("take more than the 3 elements", "Pad", data(3), ints(-2, -2))
    refused("mode is 'mirror'", "Pad", data(3), ints(1, 1), mode="mirror")
    refused("twice", "Pad", data(2, 3), ints(1, 1, 1, 1), None, ints(0, -2))


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.float16, np.bool_])
@pytest.mark.parametrize("shape", [(5, 4), (7, 2), (6, 5), (5, 0), (1, 9)])
def test_center_crop_pad(shape: tuple[int, int], dtype: Any) -> None:
    x = data(6, 4, dtype=dtype)
    rows, columns = shape
    top, left = max(6 - rows, 0) // 2, max(4 - columns, 0) // 2
    kept = x[top : top + rows, left : left + columns]
    up, west = (rows - len(kept)) // 2, (columns - kept.shape[1]) // 2
    want = np.zeros(shape, x.dtype)
    want[up : up + kept.shape[0], west : west + kept.shape[1]] = kept
    check(want, "CenterCropPad", x, ints(*shape))
    check(want.T, "CenterCropPad", x.T, ints(*shape), axes=(-1, 0))


def test_center_crop_pad_of_one_axis() -> None:
    check(data(2, 5)[:, 1:4], "CenterCropPad", data(2, 5), np.array([3], np.int32), axes=(1,))
    refused("must be 2 sizes", "CenterCropPad", data(2, 5), ints(3))


# Gather


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("indices", [1, [0, -1], [[0, 1], [-2, -1]], []])
def test_gather(indices: Any, axis: int, index: Any, dtype: Any) -> None:
    x = data(2, 3, 2, dtype=dtype)
    check(np.take(x, np.array(indices, int), axis), "Gather", x, np.array(indices, index), axis=axis)


def test_gather_of_one_string_is_an_array_of_strings() -> None:
    x = np.array(["a", "bc", ""], object)
    check(np.array("bc", object), "Gather", x, ints(1).reshape(()))


def test_gather_refuses() -> None:
    for index in (3, -4):
        refused(f"index {index} is out of", "Gather", data(3), ints(index))
        proto = harness.model("Gather", [data(3), ints(index)])
        with pytest.raises(onemodel.ExecutionError, match=f"index {index} is out of"):
            onemodel.Session(proto, backend="strict", mode="fast").run(None, {"x0": data(3), "x1": ints(index)})
    refused("axis 1 is not one of 1 axes", "Gather", data(3), ints(0), axis=1)


@pytest.mark.parametrize(("dtype", "opset"), [*((dtype, 13) for dtype in DTYPES), (np.float32, 11), (object, 11)])
def test_gather_elements(opset: int, dtype: Any) -> None:
    x = data(3, 3, dtype=dtype)
    indices = np.array([[1, 2, 0], [2, 0, 0]])
    check(x[indices, [[0, 1, 2]] * 2], "GatherElements", x, indices, opset=opset)
    check(x[[[0], [1]], [[2], [0]]], "GatherElements", x, np.array([[-1], [-3]]), axis=1, opset=opset)
    check(x[:0], "GatherElements", x, np.zeros((0, 3), np.int64), axis=-1, opset=opset)


def test_gather_elements_refuses() -> None:
    for index in (3, -4):
        refused(f"index {index} is out of range for 3 elements", "GatherElements", data(3), ints(index))
    refused("do not fit", "GatherElements", data(1, 3), np.zeros((2, 3), np.int64), axis=1)
    refused("do not fit", "GatherElements", data(3), np.zeros((1, 1), np.int64), error=onemodel.OneModelError)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("indices", "batch_dims", "want"),
    [
        ([[0, 0, 1], [1, 1, 0]], 0, lambda x: x[[0, 1], [0, 1], [1, 0]]),
        ([[1], [0], [-1]], 0, lambda x: x[[1, 0, 1]]),
        ([[[0, 1]], [[1, 0]]], 0, lambda x: x[[[0], [1]], [[1], [0]]]),
        ([[1], [0]], 1, lambda x: x[[0, 1], [1, 0]]),
        ([[[1, 0], [0, -1]], [[1, 1], [0, 0]]], 1, lambda x: x[[[0, 0], [1, 1]], [[1, 0], [1, 0]], [[0, 1], [1, 0]]]),
        ([[[1], [0]], [[0], [1]]], 2, lambda x: x[[[0, 0], [1, 1]], [[0, 1], [0, 1]], [[1, 0], [0, 1]]]),
        ([0], 0, lambda x: x[0]),
        (np.zeros((0, 2), int), 0, lambda x: np.zeros((0, 2), x.dtype)),
    ],
)
def test_gather_nd(indices: Any, batch_dims: int, want: Any, dtype: Any) -> None:
    x = data(2, 2, 2, dtype=dtype)
    check(want(x), "GatherND", x, np.array(indices), batch_dims=batch_dims)
    if batch_dims == 0 and dtype is not ml_dtypes.bfloat16:
        check(want(x), "GatherND", x, np.array(indices), opset=11)


def test_gather_nd_refuses() -> None:
    refused("index 2 is out of range for 2 elements", "GatherND", data(2, 3), np.array([[2, 0]]))
    refused("index -4 is out of range for 3 elements", "GatherND", data(2, 3), np.array([[0, -4]]))
    refused("index tuples of 3", "GatherND", data(2, 3), np.array([[0, 0, 0]]), error=onemodel.OneModelError)
    refused("batch_dims 1 does not fit", "GatherND", data(2, 3), np.array([[0]]), batch_dims=1)
    refused("batch_dims 2 does not fit", "GatherND", data(2, 3), np.array([[0], [0]]), batch_dims=2)


@pytest.mark.parametrize("dtype", DTYPES[:-1])
def test_reverse_sequence(dtype: Any) -> None:
    x = data(4, 4, dtype=dtype)
    want = x.copy()
    for i in range(4):
        want[: 4 - i, i] = x[: 4 - i, i][::-1]
    check(want, "ReverseSequence", x, ints(4, 3, 2, 1))
    check(want.T, "ReverseSequence", x.T, ints(4, 3, 2, 1), time_axis=1, batch_axis=0)


def test_reverse_sequence_of_more_axes() -> None:
    x = data(3, 2, 2)
    want = np.stack([x[:, 0], np.stack([x[1, 1], x[0, 1], x[2, 1]])], axis=1)
    check(want, "ReverseSequence", x, ints(0, 2))
    like_onnxruntime("ReverseSequence", x, ints(3, 1))
    refused("2 lengths from 0 to 3", "ReverseSequence", x, ints(0, 4))
    refused("2 lengths", "ReverseSequence", x, ints(1), error=onemodel.OneModelError)
    refused("must be 0 and 1", "ReverseSequence", x, ints(1, 1), time_axis=1)


# Selecting


@pytest.mark.parametrize("dtype", DTYPES)
def test_non_zero(dtype: Any) -> None:
    x = np.array([["", "a"], ["b", "c"]], object) if dtype is object else np.array([[0, 1], [1, 1]]).astype(dtype)
    check(np.array([[0, 1, 1], [1, 0, 1]]), "NonZero", x)
    check(np.zeros((1, 0), np.int64), "NonZero", x[0, :1])
    check(np.zeros((2, 0), np.int64), "NonZero", x[:0])
    check(np.zeros((0, 1), np.int64), "NonZero", np.asarray(x[1, 1], x.dtype))
    check(np.zeros((0, 0), np.int64), "NonZero", np.asarray(x[0, 0], x.dtype))


def test_nan_and_minus_zero() -> None:
    check(np.array([[1, 2]]), "NonZero", np.array([-0.0, np.nan, -np.inf], np.float32))


@pytest.mark.parametrize("dtype", DTYPES[:-1])
@pytest.mark.parametrize("opset", [9, 11, harness.LATEST])
def test_compress(opset: int, dtype: Any) -> None:
    x = data(3, 2, dtype=dtype)
    check(x[1:], "Compress", x, np.array([False, True, True]), axis=0, opset=opset)
    check(x[:, 1:], "Compress", x, np.array([False, True]), axis=1, opset=opset)
    check(x.ravel()[[1, 4]], "Compress", x, np.array([False, True, False, False, True]), opset=opset)
    check(x[1:2], "Compress", x, np.array([False, True]), axis=0, opset=opset)
    check(x[:0], "Compress", x, np.array([False]), axis=0, opset=opset)


def test_compress_refuses() -> None:
    check(data(2, 3)[:, :1], "Compress", data(2, 3), np.array([True]), axis=-1)
    refused("index 3 is out of range", "Compress", data(3), np.array([False, False, False, True]))
    refused("index 1 is out of range for 0 elements", "Compress", data(0, 2), np.array([False, True]), axis=0)
    refused("must have one axis", "Compress", data(3), np.array([[True]]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("k", [None, 0, 1, -1, 7, -7, 2**40])
def test_trilu(k: int | None, upper: int, dtype: Any) -> None:
    x = data(2, 3, 4, dtype=dtype)
    places = np.arange(4) - np.arange(3)[:, None]
    kept = places >= (k or 0) if upper else places <= (k or 0)
    want = np.where(kept, x, np.asarray("" if dtype is object else 0, x.dtype))
    check(want, "Trilu", x, None if k is None else np.array(k), upper=upper)


def test_trilu_keeps_nothing_of_nan() -> None:
    check(np.array([[1, 0], [2, 3]], np.float32), "Trilu", np.array([[1, np.nan], [2, 3]], np.float32), upper=0)
    refused("two axes at least", "Trilu", data(3), error=onemodel.OneModelError)


def test_like_onnxruntime() -> None:
    rng = np.random.default_rng(7)
    (x,) = arrays(rng, (3, 4, 5))
    like_onnxruntime("Pad", x, ints(1, 2, 3, 0, 1, 2), mode="reflect", opset=18)
    like_onnxruntime("Pad", x, ints(1, -1, 0, 0, 1, 2), np.array(7, np.float32), opset=18)
    like_onnxruntime("GatherElements", x, rng.integers(-4, 4, (2, 6, 5)), axis=1)
    like_onnxruntime("GatherND", x, rng.integers(-3, 3, (2, 3, 2)))
    like_onnxruntime("GatherND", x, rng.integers(-4, 4, (3, 2, 2)), batch_dims=1)
    like_onnxruntime("Trilu", x, np.array(-1), upper=1)
    assert run("Gather", x, rng.integers(0, 4, (2, 2)), axis=1).shape == (3, 2, 2, 5)
