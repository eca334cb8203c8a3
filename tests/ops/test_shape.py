"""Reshape, Squeeze, Transpose, Expand, Tile, Concat, Split and their kin."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import onemodel
from tests.ops import harness
from tests.ops.harness import arrays, check, like_onnxruntime, refused, run

DTYPES = [np.float32, np.float64, np.float16, np.int64, np.uint8, np.bool_, object, ml_dtypes.bfloat16]


def ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, dtype=np.int64)


def data(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    """0, 1, 2 ... in ``shape``."""
    flat = np.arange(np.prod(shape))
    return (np.array([str(n) for n in flat], dtype=object) if dtype is object else flat.astype(dtype)).reshape(shape)


ELEMENT_MOVES = [
    ("Identity", (data(2, 3),), {}),
    ("Reshape", (data(2, 3), ints(3, 2)), {}),
    ("Flatten", (data(2, 3, 2),), {}),
    ("Transpose", (data(2, 3),), {}),
    ("Squeeze", (data(2, 1),), {}),
    ("Unsqueeze", (data(2, 1), ints(0)), {}),
    ("DepthToSpace", (data(1, 4, 2, 2),), {"blocksize": 2}),
    ("SpaceToDepth", (data(1, 1, 4, 4),), {"blocksize": 2}),
    ("Expand", (data(2, 1), ints(2, 3)), {}),
    ("Tile", (data(2, 1), ints(2, 3)), {}),
    ("Concat", (data(2, 1), data(2, 2)), {"axis": 1}),
    ("Split", (data(4),), {"num_outputs": 2, "outputs": 2}),
]


@pytest.mark.parametrize(("op", "inputs", "options"), ELEMENT_MOVES, ids=[op for op, _, _ in ELEMENT_MOVES])
def test_element_moves_run_in_exact_mode(op: str, inputs: Any, options: dict[str, Any]) -> None:
    onemodel.Session(harness.model(op, inputs, **options), mode="exact")


# Shape, Size, Identity


@pytest.mark.parametrize("dtype", DTYPES)
def test_shape_and_size(dtype: Any) -> None:
    x = data(2, 3, 4, dtype=dtype)
    check(ints(2, 3, 4), "Shape", x)
    check(np.array(24), "Size", x)
    check(x, "Identity", x)
    check(ints(), "Shape", x[0, 0, 0:1].reshape(()))
    check(np.array(0), "Size", x[:0])


@pytest.mark.parametrize(
    ("start", "end", "want"),
    [(-1, None, [4]), (0, -1, [2, 3]), (1, 2, [3]), (-9, 9, [2, 3, 4]), (2, 1, []), (9, None, []), (0, -9, [])],
)
def test_part_of_the_shape(start: int, end: int | None, want: list[int]) -> None:
    check(ints(*want), "Shape", data(2, 3, 4), start=start, **({} if end is None else {"end": end}))


def test_sequences_pass_through() -> None:
    assert [x.tolist() for x in run("Identity", [data(2), data(3)])] == [[0, 1], [0, 1, 2]]


# Reshape, Flatten, Transpose


@pytest.mark.parametrize("opset", [6, 13, 14, 21, harness.LATEST])
@pytest.mark.parametrize(
    ("shape", "want"),
    [((4, 6), (4, 6)), ((0, -1), (2, 12)), ((-1,), (24,)), ((0, 0, 2, 2), (2, 3, 2, 2)), ((1, 24, 1), (1, 24, 1))],
)
def test_reshape(shape: tuple[int, ...], want: tuple[int, ...], opset: int) -> None:
    check(data(*want), "Reshape", data(2, 3, 4), ints(*shape), opset=opset)


def test_reshape_of_nothing() -> None:
    check(data(3, 0), "Reshape", data(0, 3), ints(3, 0), allowzero=1)
    check(data(0, 5), "Reshape", data(0, 3), ints(0, 5))
    check(data(0, 4), "Reshape", data(0, 3), ints(-1, 4))
    check(np.float32(5), "Reshape", np.array([5], np.float32), ints())
    check(np.array([[5]], np.float32), "Reshape", np.float32(5), ints(1, 1))


@pytest.mark.parametrize(
    ("x", "shape", "allowzero", "message"),
    [
        (data(2, 3), (4, 2), 0, "6 elements of shape (2, 3) do not fit into shape [4, 2]"),
        (data(2, 3), (-1, 4), 0, "do not fit"),
        (data(2, 3), (-1, -1), 0, "at most one of them -1"),
        (data(2, 3), (-2, 3), 0, "must be of sizes"),
        (data(2, 3), (2, 3, 0), 0, "keeps an axis"),
        (data(0, 3), (0, -1), 1, "do not fit"),
        (data(2, 3), (0, 3), 1, "do not fit"),
    ],
)
def test_reshape_refuses(x: Any, shape: tuple[int, ...], allowzero: int, message: str) -> None:
    refused(message, "Reshape", x, ints(*shape), allowzero=allowzero)


@pytest.mark.parametrize(
    ("axis", "want"), [(0, (1, 24)), (1, (2, 12)), (2, (6, 4)), (3, (24, 1)), (-1, (6, 4)), (-3, (1, 24))]
)
def test_flatten(axis: int, want: tuple[int, int]) -> None:
    check(data(*want), "Flatten", data(2, 3, 4), axis=axis)


def test_flatten_at_the_edges() -> None:
    check(data(1, 1), "Flatten", np.float32(0), axis=0)
    check(data(2, 12), "Flatten", data(2, 3, 4), opset=6)
    refused("axis 4 is not in [-3, 3]", "Flatten", data(2, 3, 4), axis=4)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("perm", [None, (1, 0, 2), (2, 0, 1)])
def test_transpose(perm: tuple[int, ...] | None, dtype: Any) -> None:
    x = data(2, 3, 4, dtype=dtype)
    check(np.transpose(x, perm), "Transpose", x, **({} if perm is None else {"perm": perm}))


@pytest.mark.parametrize("perm", [(0, 1), (0, 0, 1), (0, 1, 3), (0, 1, -1)])
def test_transpose_refuses(perm: tuple[int, ...]) -> None:
    refused("must name each of the 3 axes", "Transpose", data(2, 3, 4), perm=perm)


# Squeeze, Unsqueeze


@pytest.mark.parametrize("axes", [(0,), (0, 2), (-1,), (2, 0), ()])
def test_squeeze(axes: tuple[int, ...]) -> None:
    x = data(1, 3, 1)
    want = np.squeeze(x, axis=axes)
    check(want, "Squeeze", x, ints(*axes))
    if axes:
        check(want, "Squeeze", x, opset=11, axes=axes)


@pytest.mark.parametrize("opset", [6, 11, 13, harness.LATEST])
def test_squeeze_without_axes_drops_all_ones(opset: int) -> None:
    check(data(3), "Squeeze", data(1, 3, 1), opset=opset)
    check(data(3, 2), "Squeeze", data(3, 2), opset=opset)
    check(np.float32(0), "Squeeze", data(1, 1), opset=opset)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_a_scalar_is_one_axis(axis: int) -> None:
    check(np.expand_dims(data(2, 3), axis), "Unsqueeze", data(2, 3), np.array(axis))
    check(data(2, 3), "Squeeze", np.expand_dims(data(2, 3), axis), np.array(axis))


@pytest.mark.parametrize(
    ("axes", "want"),
    [((0, 4), (1, 3, 4, 5, 1)), ((4, 0), (1, 3, 4, 5, 1)), ((-1, 1), (3, 1, 4, 5, 1)), ((), (3, 4, 5))],
)
def test_unsqueeze(axes: tuple[int, ...], want: tuple[int, ...]) -> None:
    check(data(*want), "Unsqueeze", data(3, 4, 5), ints(*axes))
    if axes:
        check(data(*want), "Unsqueeze", data(3, 4, 5), opset=11, axes=axes)


def test_bad_axes_are_refused() -> None:
    refused("must have size 1", "Squeeze", data(2, 3), ints(0))
    refused("axis 2 is not one of 2 axes", "Squeeze", data(2, 1), ints(2))
    refused("twice", "Squeeze", data(1, 1), ints(0, -2))
    refused("axis 3 is not one of 3 axes", "Unsqueeze", data(2, 3), ints(3))
    refused("twice", "Unsqueeze", data(2, 3), ints(1, 1))
    refused("a scalar has none", "Squeeze", np.float32(1), ints(0))


# DepthToSpace, SpaceToDepth


def test_depth_to_space() -> None:
    x = data(1, 8, 1, 2)
    dcr = [[[[0, 4, 1, 5], [8, 12, 9, 13]], [[2, 6, 3, 7], [10, 14, 11, 15]]]]
    crd = [[[[0, 2, 1, 3], [4, 6, 5, 7]], [[8, 10, 9, 11], [12, 14, 13, 15]]]]
    check(np.array(dcr, np.float32), "DepthToSpace", x, blocksize=2)
    check(np.array(dcr, np.float32), "DepthToSpace", x, blocksize=2, opset=6)
    check(np.array(crd, np.float32), "DepthToSpace", x, blocksize=2, mode="CRD")


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
@pytest.mark.parametrize("shape", [(2, 3, 4, 6), (0, 1, 2, 2), (1, 1, 6, 2)])
def test_space_to_depth_is_the_reverse(shape: tuple[int, ...], mode: str) -> None:
    x = data(*shape)
    check(x, "DepthToSpace", run("SpaceToDepth", x, blocksize=2, mode=mode), blocksize=2, mode=mode)
    if mode == "DCR" and 0 not in shape:
        like_onnxruntime("SpaceToDepth", x, blocksize=2, opset=13)


def test_blocks_that_do_not_fit_are_refused() -> None:
    refused("3 channels cannot be divided", "DepthToSpace", data(1, 3, 2, 2), blocksize=2)
    refused("3 x 2 cannot be divided", "SpaceToDepth", data(1, 1, 3, 2), blocksize=2)
    refused("(N, C, H, W)", "SpaceToDepth", data(1, 3, 2), blocksize=2, error=onemodel.OneModelError)
    refused("mode is 'XYZ'", "DepthToSpace", data(1, 4, 2, 2), blocksize=2, mode="XYZ")


# Expand, Tile


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "target", "want"),
    [
        ((3, 1), (3, 4), (3, 4)),
        ((3, 1), (2, 1, 6), (2, 3, 6)),
        ((3, 4), (1,), (3, 4)),
        ((3, 4), (), (3, 4)),
        ((), (2, 2), (2, 2)),
        ((1, 2), (0, 2), (0, 2)),
        ((0, 1), (1, 3), (0, 3)),
    ],
)
def test_expand(shape: tuple[int, ...], target: tuple[int, ...], want: tuple[int, ...], dtype: Any) -> None:
    x = data(*shape, dtype=dtype)
    check(np.broadcast_to(x, want), "Expand", x, ints(*target))


def test_expand_refuses() -> None:
    refused("cannot be broadcast", "Expand", data(3, 2), ints(3, 4))
    refused("cannot be broadcast", "Expand", data(3, 1), ints(3, -1))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("repeats", [(1, 1), (2, 1), (2, 3), (0, 2)])
def test_tile(repeats: tuple[int, int], dtype: Any) -> None:
    x = data(2, 2, dtype=dtype)
    check(np.tile(x, repeats), "Tile", x, ints(*repeats))
    check(np.tile(x, repeats), "Tile", x, ints(*repeats), opset=13 if dtype is ml_dtypes.bfloat16 else 6)


def test_tile_at_the_edges() -> None:
    check(np.float32(3), "Tile", np.float32(3), ints())
    refused("must be 2 counts", "Tile", data(2, 2), ints(2))
    refused("must be 2 counts", "Tile", data(2, 2), ints(2, -1))


# Concat, Split


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [0, 1, -1, -2])
def test_concat(axis: int, dtype: Any) -> None:
    x, y = data(2, 2, dtype=dtype), data(2, 2, dtype=dtype)
    check(np.concatenate([x, y, x], axis), "Concat", x, y, x, axis=axis)
    check(x, "Concat", x, axis=axis)


def test_concat_of_nothing_and_of_other_shapes() -> None:
    check(data(2, 3), "Concat", data(0, 3), data(2, 3), axis=0)
    check(data(1, 3), "Concat", data(1, 3), data(1, 0), axis=1, opset=6)
    refused("must agree in every axis but 1", "Concat", data(2, 3), data(3, 3), axis=1)
    refused("must agree", "Concat", data(2, 3), data(2), axis=0)
    refused("axis 2 is not one of 2 axes", "Concat", data(2, 3), data(2, 3), axis=2)
    refused("a scalar has none", "Concat", np.float32(1), np.float32(2), axis=0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [0, -1])
def test_split_by_sizes(axis: int, dtype: Any) -> None:
    x = data(3, 3, dtype=dtype)
    want = np.split(x, [1, 1], axis)
    check(want, "Split", x, ints(1, 0, 2), axis=axis, outputs=3)
    check(want, "Split", x, ints(1, 0, 2), axis=axis, outputs=3, opset=13)
    if dtype is not ml_dtypes.bfloat16:
        check(want, "Split", x, axis=axis, split=(1, 0, 2), outputs=3, opset=11)


@pytest.mark.parametrize("opset", [6, 11, 13])
def test_split_evenly_before_opset_18(opset: int) -> None:
    check([data(2), data(2) + 2, data(2) + 4], "Split", data(6), outputs=3, opset=opset)
    refused("cannot be divided into 3 equal parts", "Split", data(7), outputs=3, opset=opset)


@pytest.mark.parametrize(
    ("length", "count", "sizes"), [(7, 3, (3, 3, 1)), (6, 3, (2, 2, 2)), (4, 3, (2, 2, 0)), (5, 1, (5,))]
)
def test_split_with_a_smaller_last_part(length: int, count: int, sizes: tuple[int, ...]) -> None:
    got = run("Split", data(length), num_outputs=count, outputs=count)
    got = got if count > 1 else [got]
    assert [len(part) for part in got] == list(sizes)
    np.testing.assert_array_equal(np.concatenate(got), data(length))


def test_split_refuses() -> None:
    refused("do not make 4 parts", "Split", data(5), num_outputs=4, outputs=4)
    refused("num_outputs is 3, but the node has 2", "Split", data(6), num_outputs=3, outputs=2)
    refused("only one of them", "Split", data(6), ints(3, 3), num_outputs=2, outputs=2)
    refused("add up to 6", "Split", data(6), ints(3, 2), outputs=2)
    refused("add up to 6", "Split", data(6), ints(7, -1), outputs=2)
    refused("2 sizes", "Split", data(6), ints(2, 2, 2), outputs=2)


def test_an_output_of_split_may_be_omitted() -> None:
    check(data(2) + 2, "Split", data(6), num_outputs=3, outputs=[False, True, False])


def test_like_onnxruntime() -> None:
    rng = np.random.default_rng(5)
    (x,) = arrays(rng, (2, 3, 4))
    like_onnxruntime("Transpose", x, perm=(2, 0, 1))
    like_onnxruntime("Expand", x, ints(5, 1, 1, 4))
    like_onnxruntime("Tile", x, ints(1, 2, 3))
    like_onnxruntime("Split", x, ints(1, 3), axis=-1, outputs=2)
    like_onnxruntime("Concat", x, x, axis=-2)
    like_onnxruntime("DepthToSpace", arrays(rng, (1, 12, 2, 3))[0], blocksize=2, mode="CRD")
