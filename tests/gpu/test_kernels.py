"""The CUDA kernels on the CPU, against models of them in NumPy: the same bits, whichever order the blocks run in."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onemodel import backends
from onemodel.ops import registry
from tests.gpu import cpu_kernels
from tests.gpu.cpu_kernels import FLOATS

pytestmark = pytest.mark.skipif(cpu_kernels.compiler() is None, reason="g++, which builds the kernels, is not there")

Array = np.ndarray[Any, Any]
SOURCES = sorted(path for path in (Path(backends.__file__).parent / "cuda").glob("*.cu") if path.stem != "exact")
"""Fast mode's; exact.cu has tests of its own."""
BLOCK = 256


@pytest.fixture(params=[False, True], ids=["forwards", "backwards"], autouse=True)
def order(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test once with the blocks in order, and once backwards."""
    monkeypatch.setattr(cpu_kernels, "backwards", request.param)


@pytest.fixture
def xp(cupy: Any) -> Any:
    from onemodel.backends import get_backend

    return get_backend("cupy").namespace("fast")


def drawn(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def wide(x: Array) -> Array:
    return x if x.dtype == np.float64 else x.astype(np.float32)


def equal(got: Any, want: Array) -> None:
    """The same dtype, shape and bits."""
    found = got.get()
    assert (found.dtype, found.shape) == (want.dtype, want.shape)
    np.testing.assert_array_equal(found.view(f"u{found.itemsize}"), want.view(f"u{want.itemsize}"))


def block_sum(rows: Array) -> Array:
    """The sum of each row as a block adds it up: each thread its elements, then pairs of threads."""
    threads = min(max(32, 1 << max(rows.shape[1] - 1, 1).bit_length()), BLOCK)
    parts = np.zeros((len(rows), threads), rows.dtype)
    for start in range(0, rows.shape[1], threads):
        part = rows[:, start : start + threads]
        parts[:, : part.shape[1]] += part
    while threads > 1:
        threads //= 2
        parts = parts[:, :threads] + parts[:, threads : 2 * threads]
    return np.asarray(parts)


def kernels(name: str) -> Any:
    from onemodel.backends import cupy_kernels

    return cupy_kernels.FAST["", name].function


@pytest.mark.parametrize("length", [1, 31, 33, 300, 1025])
def test_rows(cupy: Any, xp: Any, dtype: Any, length: int) -> None:
    x, scale, offset = (drawn(*shape, dtype=dtype) for shape in ((7, length), (length,), (length,)))
    rows = wide(x)
    count, epsilon = rows.dtype.type(length), rows.dtype.type(1e-5)
    device = [cupy.asarray(array) for array in (x, scale, offset)]
    if dtype.itemsize == 2:
        equal(xp.sum(device[0], axis=-1), block_sum(rows)[:, 0].astype(dtype))
        equal(xp.mean(device[0], axis=1, keepdims=True), (block_sum(rows) / count).astype(dtype))
    mean = block_sum(rows) / count
    inverse = rows.dtype.type(1) / np.sqrt(block_sum((rows - mean) * (rows - mean)) / count + epsilon)
    y, means, inverses = kernels("LayerNormalization")(*device, stash_type=11 if dtype == np.float64 else 1, xp=xp)
    equal(means, mean)
    equal(inverses, inverse)
    equal(y, ((rows - mean) * inverse * wide(scale) + wide(offset)).astype(dtype))
    y = kernels("RMSNormalization")(*device[:2], stash_type=11 if dtype == np.float64 else 1, xp=xp)
    equal(y, (rows / np.sqrt(block_sum(rows * rows) / count + epsilon) * wide(scale)).astype(dtype))
    soft = wide(xp.softmax(device[0], -1).get())
    weights = np.exp(rows.astype(np.float64) - rows.max(axis=1, keepdims=True))
    tolerance = {2: 8e-3, 4: 3e-7, 8: 1e-15}[dtype.itemsize]
    np.testing.assert_allclose(soft, weights / weights.sum(axis=1, keepdims=True), rtol=tolerance, atol=tolerance)


def test_softmax_keeps_nan_to_its_row(cupy: Any, xp: Any) -> None:
    x = drawn(3, 40)
    x[1, 7] = np.nan
    y = xp.softmax(cupy.asarray(x), 1).get()
    assert np.isnan(y).all(axis=1).tolist() == [False, True, False]
    assert not np.isnan(y[[0, 2]]).any()


WINDOWS = [
    {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]},
    {"kernel_shape": [2, 3], "strides": [2, 1], "pads": [0, 2, 1, 0]},
    {"kernel_shape": [3, 2], "dilations": [2, 3], "strides": [1, 2]},
    {"kernel_shape": [1, 1]},
    {"kernel_shape": [3, 3], "auto_pad": "SAME_LOWER", "strides": [2, 2]},
    {"kernel_shape": [3], "pads": [0, 2], "strides": [2]},
    {"kernel_shape": [2, 3, 2], "pads": [1, 0, 1, 0, 2, 1], "strides": [1, 2, 3]},
    {"kernel_shape": [2, 2, 3], "dilations": [2, 1, 3], "strides": [2, 1, 1], "pads": [0, 1, 2, 1, 0, 3]},
]


def taps(x: Array, windows: Any, fill: float) -> Iterator[tuple[Array, Array]]:
    """For each tap, rows first: the elements it meets, one per window, and whether it lies on the input."""
    first = [
        np.arange(positions) * stride - before
        for positions, stride, (before, _) in zip(windows.positions, windows.strides, windows.pads, strict=True)
    ]
    sizes = x.shape[2:]
    for tap in product(*map(range, windows.kernel)):
        places = [start + i * step for start, i, step in zip(first, tap, windows.dilations, strict=True)]
        inside = [(place >= 0) & (place < size) for place, size in zip(places, sizes, strict=True)]
        everywhere = np.ix_(*(place.clip(0, size - 1) for place, size in zip(places, sizes, strict=True)))
        on_input = np.all(np.meshgrid(*inside, indexing="ij"), axis=0)
        yield np.where(on_input, x[(slice(None), slice(None), *everywhere)], np.asarray(fill, x.dtype)), on_input


@pytest.mark.parametrize("options", WINDOWS, ids=str)
def test_windows(cupy: Any, xp: Any, dtype: Any, options: Any) -> None:
    x = drawn(2, 4, *(9, 7, 8)[: len(options["kernel_shape"])], dtype=dtype)
    rows = wide(x)
    attributes = {name: options.get(name) for name in ("strides", "dilations", "pads")}
    padding = options.get("auto_pad", "NOTSET")
    windows = xp.sliding(x.shape[2:], options["kernel_shape"], *attributes.values(), padding)
    found = list(taps(rows, windows, 0))
    device = cupy.asarray(x)
    if "dilations" not in options:
        largest = partial(kernels("MaxPool"), wanted=(True,), xp=xp)(device, **options)
        equal(largest, np.max([met for met, _ in taps(rows, windows, -math.inf)], axis=0).astype(dtype))
        total = np.zeros_like(found[0][0])
        for met, _ in found:
            total = total + met
        count = np.sum([inside for _, inside in found], axis=0).astype(rows.dtype)
        equal(kernels("AveragePool")(device, **options, xp=xp), (total / count).astype(dtype))
        everything = rows.dtype.type(len(found))
        got = kernels("AveragePool")(device, **options, count_include_pad=1, xp=xp)
        equal(got, (total / everything).astype(dtype))
    filters, bias = drawn(8, 1, *options["kernel_shape"], dtype=dtype, seed=1), drawn(8, dtype=dtype, seed=2)
    sums: Any = 0
    for (met, _), weights in zip(found, wide(filters).reshape(8, -1).T, strict=True):
        sums = sums + np.repeat(met, 2, axis=1) * weights.reshape(-1, *[1] * len(windows.kernel))
    operands = [cupy.asarray(array) for array in (filters, bias)]
    got = kernels("Conv")(device, *operands, **options, group=4, xp=xp)
    equal(got, (sums + wide(bias).reshape(-1, *[1] * len(windows.kernel))).astype(dtype))
    from onemodel.backends import cupy_windows

    columns = cupy_windows._columns(device, windows)
    want = np.stack([met for met, _ in found], axis=2).astype(dtype)
    equal(columns, want.reshape(columns.shape))


def test_convolution_by_columns(cupy: Any, xp: Any, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from onemodel.backends import cupy_windows

    monkeypatch.setattr(cupy_windows, "_COLUMNS", 4000)  # so that the batch is convolved in parts
    x, w, b = drawn(3, 6, 8, 5, dtype=dtype), drawn(4, 3, 3, 2, dtype=dtype, seed=1), drawn(4, dtype=dtype, seed=2)
    got = kernels("Conv")(*(cupy.asarray(a) for a in (x, w, b)), group=2, pads=[1, 0, 1, 1], strides=[1, 2], xp=xp)
    from onemodel.backends import get_backend

    host = get_backend("numpy").namespace("fast")
    padded = np.pad(wide(x), ((0, 0), (0, 0), (1, 1), (0, 1)))
    want = host.conv(padded, wide(w), (1, 2), (1, 1), 2) + wide(b)[:, None, None]
    tolerance = {2: 2e-2, 4: 1e-5, 8: 1e-13}[dtype.itemsize]
    np.testing.assert_allclose(wide(got.get()), want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_gather(cupy: Any, xp: Any, kind: Any) -> None:
    draw = np.random.default_rng(0)
    for element, axis in product((np.uint8, np.float16, np.float32, np.int64), (0, 1, 2)):
        x = (draw.standard_normal((4, 5, 6)) * 9).astype(element)
        indices = draw.integers(-x.shape[axis], x.shape[axis], (3, 2)).astype(kind)
        got = xp.gather(cupy.asarray(x), cupy.asarray(indices), axis)
        equal(got, np.take(x, indices, axis=axis))
        places = xp.checked_indices(cupy.asarray(indices), x.shape[axis])
        equal(places, indices.astype(np.int64) % x.shape[axis])
    wrong = cupy.asarray(np.array([1, 9, -7], kind))
    for call in (partial(xp.checked_indices, wrong, 4), partial(xp.gather, cupy.asarray(np.ones((4, 2))), wrong, 0)):
        with pytest.raises(IndexError, match="index 9 is out of range for 4 elements"):
            call()


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_scatter(cupy: Any, xp: Any, dtype: Any, reduction: str) -> None:
    from onemodel.backends import numpy_indexing

    draw = np.random.default_rng(1)
    x, updates = drawn(6, 9, dtype=dtype), drawn(40, 9, dtype=dtype, seed=2)
    updates[::7, ::2] = np.array([np.nan, -0.0, 0.0, np.inf, -np.inf])
    x[2] = 0
    rows = draw.integers(0, 5, 40)
    with np.errstate(all="ignore"):
        want = numpy_indexing.scatter(x, rows, updates, reduction)
        got = xp.scatter(*(cupy.asarray(a) for a in (x, rows, updates)), reduction).get()
    same = got.view(f"u{got.itemsize}") == want.view(f"u{want.itemsize}")
    assert (same | (np.isnan(wide(got)) & np.isnan(wide(want)))).all()


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_weighted_taps(cupy: Any, xp: Any, kind: Any) -> None:
    from onemodel.backends import get_backend

    x = drawn(3, 7, 4, dtype=kind)
    places = [[0, 1, 6, 3, 2], [1, None, 5, 2, None], [None, None, 4, 1, 0]]
    weights = [[0.3, 1.0, 0.1, 0.7, 0.9], [0.7, 0.0, 0.2, 0.1, 0.0], [0.0, 0.0, 0.7, 0.2, 0.1]]
    want: Array = get_backend("numpy").namespace("fast").weighted_taps(x, places, weights, 1)
    equal(xp.weighted_taps(cupy.asarray(x), places, weights, 1), want)


@pytest.mark.parametrize(("heads", "shared"), [(4, 4), (4, 2)])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("causal", [0, 1])
def test_attention(cupy: Any, xp: Any, dtype: Any, heads: int, shared: int, masked: bool, causal: int) -> None:
    q, past_k, past_v = drawn(2, heads, 2, 8, dtype=dtype), drawn(2, shared, 40, 8, seed=3), drawn(2, shared, 40, 6)
    k, v = drawn(2, shared, 2, 8, dtype=dtype, seed=1), drawn(2, shared, 2, 6, dtype=dtype, seed=2)
    past_k, past_v = past_k.astype(dtype), past_v.astype(dtype)
    mask = drawn(1, heads, 1, 42, dtype=dtype, seed=4) if masked else None
    if mask is not None:
        mask[:, 0] = -np.inf
    inputs = [None if a is None else cupy.asarray(a) for a in (q, k, v, mask, past_k, past_v)]
    y, present_k, _, _ = kernels("Attention")(*inputs, is_causal=causal, wanted=(True, True, True), xp=xp)
    whole_k, whole_v = np.concatenate([past_k, k], axis=2), np.concatenate([past_v, v], axis=2)
    equal(present_k, whole_k)
    repeated = (np.repeat(a, heads // shared, axis=1).astype(np.float64) for a in (whole_k, whole_v))
    keys, values = repeated
    scores = q.astype(np.float64) @ keys.swapaxes(2, 3) / math.sqrt(8)
    if mask is not None:
        scores = scores + mask.astype(np.float64)
    if causal:
        scores = np.where(np.arange(42) <= np.arange(2)[:, None] + 40, scores, -np.inf)
    with np.errstate(invalid="ignore"):
        weights = np.nan_to_num(np.exp(scores - scores.max(axis=-1, keepdims=True)))
        want = np.nan_to_num(weights / weights.sum(axis=-1, keepdims=True)) @ values
    tolerance = {2: 2e-2, 4: 1e-5, 8: 1e-13}[dtype.itemsize]
    np.testing.assert_allclose(y.get().astype(np.float64), want, rtol=tolerance, atol=tolerance)


ATTENTION = [
    ({}, "plain", "hidden"),
    ({"is_causal": 1}, "past", "added"),
    ({"is_causal": 1, "left_window_size": 5, "softcap": 2.0}, "past", "hidden"),
    ({"left_window_size": 3, "right_window_size": 2}, "lengths", "added"),
    ({"is_causal": 1, "scale": 0.3}, "lengths", None),
    ({"q_num_heads": 4, "kv_num_heads": 2, "is_causal": 1}, "joined", None),
]


@pytest.mark.parametrize("rows", [3, 40, 1000])
@pytest.mark.parametrize(("attributes", "kind", "masked"), ATTENTION, ids=str)
def test_attention_of_many_queries(
    cupy: Any, xp: Any, dtype: Any, attributes: Any, kind: str, masked: Any, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from onemodel.backends import cupy_attention, get_backend
    from onemodel.ops.attention import attention

    keys = 26 if kind == "past" else 19
    # So many rows of scores at a time: parts of a head, of heads that share keys, and several of these.
    monkeypatch.setattr(cupy_attention, "_SCORES", rows * keys * wide(np.zeros(1, dtype)).itemsize)
    q, k, v = drawn(2, 4, 19, 8, dtype=dtype), drawn(2, 2, 19, 8, dtype=dtype, seed=1), drawn(2, 2, 19, 6, seed=2)
    inputs: list[Any] = [q, k, v.astype(dtype), None, None, None, None]
    if kind == "joined":
        inputs[:3] = (x.swapaxes(1, 2).reshape(2, 19, -1) for x in inputs[:3])
    if masked:
        mask = drawn(2, 1, 19, keys, dtype=dtype, seed=3)
        mask[:, :, 4], mask[1, :, :, 3] = -np.inf, -np.inf
        inputs[3] = mask if masked == "added" else mask > -0.5
    if kind == "past":
        inputs[4], inputs[5] = drawn(2, 2, 7, 8, seed=4).astype(dtype), drawn(2, 2, 7, 6, seed=5).astype(dtype)
    if kind == "lengths":
        inputs[6] = np.array([19, 11])
    options = {"wanted": (True, True, True), **attributes}
    device = [None if x is None else cupy.asarray(x) for x in inputs]
    got = kernels("Attention")(*device, **options, xp=xp)
    wider = [x if x is None or x.dtype.kind in "bi" else wide(x) for x in inputs]
    with np.errstate(all="ignore"):
        want = attention(*wider, **options, xp=get_backend("numpy").namespace("fast"))
    tolerance = {2: 2e-2, 4: 1e-5, 8: 1e-13}[dtype.itemsize]
    for one, other in zip(got[:3], want[:3], strict=True):
        assert (one.dtype, one.shape) == (dtype, other.shape)
        np.testing.assert_allclose(wide(one.get()), other, rtol=tolerance, atol=tolerance)


def test_products_of_half_types(cupy: Any, xp: Any) -> None:
    for dtype, (a_shape, b_shape) in product(
        FLOATS[2:],
        [((5, 3), (3, 4)), ((2, 5, 3), (3, 4)), ((2, 1, 5, 3), (7, 3, 4)), ((3,), (2, 3, 4)), ((2, 5, 3), (3,))],
    ):
        a, b = drawn(*a_shape, dtype=dtype), drawn(*b_shape, dtype=dtype, seed=1)
        got = xp.matmul(cupy.asarray(a), cupy.asarray(b))
        np.testing.assert_allclose(wide(got.get()), wide(a) @ wide(b), rtol=1e-2, atol=1e-2)
        assert got.dtype == dtype
        if a.ndim > 2 and b.ndim > 2:
            turned = cupy.asarray(np.ascontiguousarray(b.swapaxes(-1, -2)))
            again = xp.matmul(cupy.asarray(a), xp.matrix_transpose(turned))
            np.testing.assert_array_equal(wide(again.get()), wide(got.get()))


def programs() -> dict[str, tuple[Any, int, dict[str, Any]]]:
    """The elementwise operators with their inputs and attributes at the defaults."""
    found = {}
    for entry in registry.entries():
        if entry.elementwise and entry.name != "Mod":
            defaults = {name: value for name, value in entry.attributes.items() if value is not inspect.Parameter.empty}
            found[f"{entry.name}-{entry.since}"] = entry.function, max(entry.required, 1), defaults
    return found


def test_elementwise_operators_become_one_kernel(cupy: Any, xp: Any, dtype: Any) -> None:
    from onemodel.backends import cupy_programs, get_backend

    generic = get_backend("numpy").namespace("fast")
    written = []
    for name, (function, count, attributes) in programs().items():
        if cupy_programs.written(function, count, dtype, attributes) is None:
            continue
        written.append(name.partition("-")[0])
        arrays = [drawn(3, 401, dtype=dtype, seed=i) * 3 for i in range(count)]
        arrays[0][0, :4] = np.array([np.inf, -np.inf, np.nan, -0.0])
        got = cupy_programs.kernel_of(function).function(*map(cupy.asarray, arrays), **attributes, xp=xp)
        assert got.dtype == dtype
        with np.errstate(all="ignore"):
            want = function(*map(wide, arrays), **attributes, xp=generic)
        tolerance = {2: 1e-2, 4: 2e-6, 8: 1e-14}[dtype.itemsize]
        np.testing.assert_allclose(wide(got.get()), want, rtol=tolerance, atol=tolerance, err_msg=name)
    assert set(written) >= {
        "Gelu",
        "Mish",
        "Elu",
        "HardSwish",
        "Softplus",
        "Sigmoid",
        "Swish",
        "SwiGLU",
        "PRelu",
        "Selu",
    }
    shaped = cupy.asarray(drawn(3, 4, dtype=dtype)), cupy.asarray(drawn(4, dtype=dtype))
    assert cupy_programs.kernel_of(programs()["PRelu-7"][0]).function(*shaped, xp=xp) is NotImplemented
