"""Properties of shape operators: drawn cases against the definition of each output element, one index at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.ops.harness import check, run

Array = NDArray[Any]
DTYPES = ("float32", "int64", "uint8", "bool", "object")
EXTREMES = (-(2**63), -(2**31), 2**31 - 1, 2**63 - 1)

drawn = settings(derandomize=True, database=None, deadline=None, max_examples=50)
sizes = st.integers(0, 4)
shapes = st.lists(sizes, max_size=3).map(tuple)


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


def filled(shape: Sequence[int], dtype: str = "int64") -> Array:
    """The numbers 0, 1, 2 ... in an array, or what they are in another type."""
    numbers = np.arange(math.prod(shape)).reshape(tuple(shape))
    if dtype == "object":
        return np.array([str(number) for number in numbers.flat], object).reshape(numbers.shape)
    return np.asarray(numbers % 2 == 1 if dtype == "bool" else numbers.astype(dtype))


@st.composite
def arrays(draw: st.DrawFn, least: int = 0, low: int = 0) -> Array:
    """Arrays of ``least`` to 3 axes, of ``low`` to 4 elements each."""
    shape = draw(st.lists(st.integers(low, 4), min_size=least, max_size=3))
    return filled(shape, draw(st.sampled_from(DTYPES)))


def made(shape: Sequence[int], like: Array, element: Callable[[tuple[int, ...]], Any]) -> Array:
    """An array whose element at each index is ``element(index)``."""
    result = np.empty(tuple(shape), like.dtype)
    for index in np.ndindex(result.shape):
        result[index] = element(index)
    return result


# Slice and Pad


def slice_positions(size: int, start: int, end: int, step: int) -> list[int]:
    """The positions that a slice takes of an axis: the text of Slice 13, in unbounded integers."""
    start, end = (start + size if start < 0 else start), (end + size if end < 0 else end)
    if step > 0:
        return list(range(min(max(start, 0), size), min(max(end, 0), size), step))
    return list(range(min(max(start, 0), size - 1), min(max(end, -1), size - 1), step))


@drawn
@given(arrays(least=1), st.data())
def test_slice(x: Array, data: st.DataObject) -> None:
    bound = st.integers(-7, 7) | st.sampled_from(EXTREMES)
    axes = data.draw(st.permutations(range(x.ndim)))[: data.draw(st.integers(1, x.ndim))]
    rows = [(data.draw(bound), data.draw(bound), data.draw(st.sampled_from((1, 2, 3, -1, -2, 2**62)))) for _ in axes]
    taken = [list(range(size)) for size in x.shape]
    for axis, row in zip(axes, rows, strict=True):
        taken[axis] = slice_positions(x.shape[axis], *row)
    want = made([len(t) for t in taken], x, lambda i: x[tuple(t[n] for t, n in zip(taken, i, strict=True))])
    starts, ends, steps = (ints(*column) for column in zip(*rows, strict=True))
    named = ints(*(axis - x.ndim if data.draw(st.booleans()) else axis for axis in axes))
    check(want, "Slice", x, starts, ends, named, steps)


def pad_source(at: int, size: int, before: int, after: int, mode: str) -> int | None:
    """The position that an element of a padded axis is read from; None where it is the constant."""
    cropped, left = max(-before, 0), size + min(before, 0) + min(after, 0)
    place = at - max(before, 0)
    if not 0 <= place < left:
        if mode == "constant":
            return None
        if mode == "edge":
            place = min(max(place, 0), left - 1)
        elif mode == "wrap":
            place %= left
        else:
            period = max(2 * (left - 1), 1)
            place = min(place % period, period - place % period) if left > 1 else 0
    return place + cropped


@drawn
@given(arrays(least=1, low=1), st.sampled_from(("constant", "edge", "reflect", "wrap")), st.data())
def test_pad(x: Array, mode: str, data: st.DataObject) -> None:
    axes = sorted(data.draw(st.sets(st.integers(0, x.ndim - 1), min_size=1)))
    pads = {axis: (data.draw(st.integers(-2, 6)), data.draw(st.integers(-2, 6))) for axis in axes}
    least = 0 if mode == "constant" else 1
    assume(all(x.shape[axis] + min(b, 0) + min(e, 0) >= least for axis, (b, e) in pads.items()))
    fill = filled((9,), "object" if x.dtype == object else x.dtype.name)[7:8].reshape(())
    whole = [pads.get(axis, (0, 0)) for axis in range(x.ndim)]

    def element(index: tuple[int, ...]) -> Any:
        source = [pad_source(at, n, *pad, mode) for at, n, pad in zip(index, x.shape, whole, strict=True)]
        return fill[()] if None in source else x[tuple(source)]

    want = made([n + b + e for n, (b, e) in zip(x.shape, whole, strict=True)], x, element)
    amounts = ints(*(pads[axis][0] for axis in axes), *(pads[axis][1] for axis in axes))
    check(want, "Pad", x, amounts, fill if mode == "constant" else None, ints(*axes), mode=mode)


# The same elements in another shape or order


@drawn
@given(st.lists(st.sampled_from((1, 2, 3, 4)), max_size=4), st.booleans(), st.data())
def test_reshape(factors: list[int], scalar: bool, data: st.DataObject) -> None:
    """Both shapes are products of runs of the same factors."""

    def runs() -> list[int]:
        cuts = sorted(data.draw(st.lists(st.integers(0, len(factors)), max_size=3)))
        return [math.prod(factors[a:b]) for a, b in zip([0, *cuts], [*cuts, len(factors)], strict=True)]

    x, target = filled(runs(), data.draw(st.sampled_from(DTYPES))), runs()
    asked = [0 if i < x.ndim and n == x.shape[i] and data.draw(st.booleans()) else n for i, n in enumerate(target)]
    if data.draw(st.booleans()):
        asked[data.draw(st.integers(0, len(asked) - 1))] = -1
    flat = list(x.flat)
    strides = [math.prod(target[i + 1 :]) for i in range(len(target))]
    want = made(target, x, lambda index: flat[sum(i * s for i, s in zip(index, strides, strict=True))])
    check(want, "Reshape", x, ints(*asked))


@drawn
@given(arrays(), st.data())
def test_transpose(x: Array, data: st.DataObject) -> None:
    perm = data.draw(st.permutations(range(x.ndim)))
    want = made([x.shape[p] for p in perm], x, lambda i: x[tuple(i[perm.index(axis)] for axis in range(x.ndim))])
    check(want, "Transpose", x, **({"perm": perm} if perm else {}))


@drawn
@given(arrays(), st.data())
def test_expand(x: Array, data: st.DataObject) -> None:
    rank = data.draw(st.integers(0, 4))
    own = [1] * max(rank - x.ndim, 0) + list(x.shape)
    asked = [data.draw(sizes) if n == 1 else data.draw(st.sampled_from((1, n))) for n in own][len(own) - rank :]
    both = [1] * (len(own) - len(asked)) + asked
    shape = [other if n == 1 else n for n, other in zip(own, both, strict=True)]
    skipped = len(shape) - x.ndim

    def element(index: tuple[int, ...]) -> Any:
        return x[tuple(0 if n == 1 else i for i, n in zip(index[skipped:], x.shape, strict=True))]

    check(made(shape, x, element), "Expand", x, ints(*asked))


@drawn
@given(arrays(), st.data())
def test_tile(x: Array, data: st.DataObject) -> None:
    repeats = [data.draw(st.integers(0, 3)) for _ in x.shape]
    shape = [n * count for n, count in zip(x.shape, repeats, strict=True)]
    want = made(shape, x, lambda index: x[tuple(i % n for i, n in zip(index, x.shape, strict=True))])
    check(want, "Tile", x, ints(*repeats))


@drawn
@given(arrays(least=1), st.data())
def test_split_and_concat(x: Array, data: st.DataObject) -> None:
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    length = x.shape[axis]
    cuts = sorted(data.draw(st.lists(st.integers(0, length), max_size=3)))
    ends = list(zip([0, *cuts], [*cuts, length], strict=True))
    at = axis % x.ndim

    def part(start: int, end: int) -> Array:
        shape = [end - start if i == at else n for i, n in enumerate(x.shape)]
        return made(shape, x, lambda index: x[(*index[:at], index[at] + start, *index[at + 1 :])])

    parts = [part(start, end) for start, end in ends]
    lengths = ints(*(end - start for start, end in ends))
    check(parts if len(parts) > 1 else parts[0], "Split", x, lengths, axis=axis, outputs=len(parts))
    check(x, "Concat", *parts, axis=axis)


# Gather


def some(data: st.DataObject, shape: Sequence[int], size: int) -> Array:
    """Indices for an axis of ``size`` elements, from the front or the end."""
    count = math.prod(shape)
    values = data.draw(st.lists(st.integers(-size, size - 1), min_size=count, max_size=count)) if count else []
    return np.array(values, np.int64).reshape(tuple(shape))


@drawn
@given(arrays(least=1, low=1), shapes, st.data())
def test_gather(x: Array, shape: tuple[int, ...], data: st.DataObject) -> None:
    axis = data.draw(st.integers(0, x.ndim - 1))
    indices = some(data, shape, x.shape[axis])
    end = axis + len(shape)
    want = made(
        [*x.shape[:axis], *shape, *x.shape[axis + 1 :]], x, lambda i: x[(*i[:axis], indices[i[axis:end]], *i[end:])]
    )
    check(want, "Gather", x, indices, axis=axis - x.ndim if data.draw(st.booleans()) else axis)


@drawn
@given(arrays(least=1, low=1), st.data())
def test_gather_elements(x: Array, data: st.DataObject) -> None:
    axis = data.draw(st.integers(0, x.ndim - 1))
    shape = [data.draw(st.integers(0, 5 if i == axis else n)) for i, n in enumerate(x.shape)]
    indices = some(data, shape, x.shape[axis])
    want = made(shape, x, lambda i: x[(*i[:axis], indices[i], *i[axis + 1 :])])
    check(want, "GatherElements", x, indices, axis=axis)


@drawn
@given(arrays(least=1, low=1), st.lists(st.integers(0, 3), max_size=2), st.data())
def test_gather_nd(x: Array, middle: list[int], data: st.DataObject) -> None:
    batch = data.draw(st.integers(0, x.ndim - 1))
    depth = data.draw(st.integers(1, x.ndim - batch))
    lead = [*x.shape[:batch], *middle]
    indices = np.stack([some(data, lead, x.shape[batch + i]) for i in range(depth)], -1)
    rank = len(lead)
    want = made([*lead, *x.shape[batch + depth :]], x, lambda i: x[(*i[:batch], *indices[i[:rank]], *i[rank:])])
    check(want, "GatherND", x, indices, batch_dims=batch)


# Scatter

REDUCTIONS: dict[str, Callable[[int, int], int]] = {
    "none": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "max": max,
    "min": min,
}


def scattered(x: Array, updates: Iterable[tuple[tuple[int, ...], Any]], reduction: str) -> Array:
    result = x.copy()
    for place, value in updates:
        result[place] = REDUCTIONS[reduction](result[place], value)
    return result


@drawn
@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.sampled_from([*REDUCTIONS]), st.data())
def test_scatter_elements(shape: list[int], reduction: str, data: st.DataObject) -> None:
    x = filled(shape) - 5
    axis = data.draw(st.integers(0, x.ndim - 1))
    indices = some(data, [data.draw(st.integers(0, n)) for n in shape], shape[axis])
    updates = filled(indices.shape) * 3 - 7
    pairs = [((*i[:axis], indices[i], *i[axis + 1 :]), updates[i]) for i in np.ndindex(indices.shape)]
    check(scattered(x, pairs, reduction), "ScatterElements", x, indices, updates, axis=axis, reduction=reduction)


@drawn
@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), shapes, st.sampled_from([*REDUCTIONS]), st.data())
def test_scatter_nd(shape: list[int], lead: tuple[int, ...], reduction: str, data: st.DataObject) -> None:
    x = filled(shape) - 5
    depth = data.draw(st.integers(1, x.ndim))
    indices = np.stack([some(data, lead, shape[i]) for i in range(depth)], -1)
    updates = filled([*lead, *shape[depth:]]) * 3 - 7
    rank = len(lead)
    pairs = [((*indices[i[:rank]], *i[rank:]), updates[i]) for i in np.ndindex(updates.shape)]
    check(scattered(x, pairs, reduction), "ScatterND", x, indices, updates, reduction=reduction)


# Einsum


@drawn
@given(st.lists(st.text("ijK", max_size=3), min_size=1, max_size=3), st.booleans(), st.data())
def test_einsum(terms: list[str], implicit: bool, data: st.DataObject) -> None:
    """The sum over all values of all labels, label by label."""
    labels = sorted({label for term in terms for label in term})
    size = {label: data.draw(st.integers(0, 3)) for label in labels}
    joined = "".join(terms)
    if implicit:
        output = "".join(label for label in labels if joined.count(label) == 1)
    else:
        chosen = data.draw(st.sets(st.sampled_from(labels))) if labels else set()
        output = "".join(data.draw(st.permutations(sorted(chosen))))
    operands = [filled([size[label] for label in term]) * (i + 1) - 4 for i, term in enumerate(terms)]
    want = np.zeros([size[label] for label in output], np.int64)
    for values in np.ndindex(*(size[label] for label in labels)):
        at = dict(zip(labels, values, strict=True))
        factors = [int(x[tuple(at[c] for c in term)]) for x, term in zip(operands, terms, strict=True)]
        want[tuple(at[c] for c in output)] += math.prod(factors)
    check(want, "Einsum", *operands, equation=",".join(terms) + ("" if implicit else f"->{output}"))


# Resize

COORDINATES: dict[str, Callable[[int, int, int], Fraction]] = {
    "asymmetric": lambda i, n, m: Fraction(i * n, m),
    "half_pixel": lambda i, n, m: Fraction((2 * i + 1) * n, 2 * m) - Fraction(1, 2),
    "pytorch_half_pixel": lambda i, n, m: Fraction((2 * i + 1) * n, 2 * m) - Fraction(1, 2) if m > 1 else Fraction(0),
    "align_corners": lambda i, n, m: Fraction(i * (n - 1), m - 1) if m > 1 else Fraction(0),
}
NEAREST: dict[str, Callable[[Fraction], int]] = {
    "round_prefer_floor": lambda at: math.ceil(at - Fraction(1, 2)),
    "round_prefer_ceil": lambda at: math.floor(at + Fraction(1, 2)),
    "floor": math.floor,
    "ceil": math.ceil,
}


@drawn
@given(
    st.lists(st.tuples(st.integers(1, 7), st.integers(1, 15)), min_size=1, max_size=2),
    st.sampled_from([*COORDINATES]),
    st.sampled_from([*NEAREST]),
)
def test_resize_to_sizes(lengths: list[tuple[int, int]], coordinates: str, nearest: str) -> None:
    """Positions as fractions, so that none is off by a rounding."""
    x = filled([n for n, _ in lengths], "float32")

    def source(i: int, n: int, m: int) -> int:
        at = NEAREST[nearest](COORDINATES[coordinates](i, n, m)) if n != m else i
        return min(max(at, 0), n - 1)

    want = made(
        [m for _, m in lengths],
        x,
        lambda index: x[tuple(source(i, *two) for i, two in zip(index, lengths, strict=True))],
    )
    options = {"coordinate_transformation_mode": coordinates, "nearest_mode": nearest}
    check(want, "Resize", x, None, None, ints(*want.shape), **options)


@drawn
@given(st.integers(1, 60), st.integers(1, 200), st.sampled_from((13, 18, 19)))
def test_resize_by_a_scale_that_is_a_rounded_ratio(before: int, after: int, opset: int) -> None:
    scale = np.array([after / before], np.float32)
    assert run("Resize", filled([before], "float32"), None, scale, opset=opset).shape == (after,)


@drawn
@given(st.integers(1, 60), st.floats(0.0625, 6, width=32))
def test_resize_by_any_scale(size: int, scale: float) -> None:
    product = size * Fraction(scale)
    assume(abs(product - round(product)) > Fraction(1, 1000) and product > 1)
    got = run("Resize", filled([size], "float32"), None, np.array([scale], np.float32))
    assert got.shape == (math.floor(product),)


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
@drawn
@given(lengths=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 20)), min_size=1, max_size=3))
def test_resize_keeps_the_aspect_ratio(policy: str, lengths: list[tuple[int, int]]) -> None:
    choose = min if policy == "not_larger" else max
    scale = choose(Fraction(m, n) for n, m in lengths)
    want = tuple(math.floor(scale * n + Fraction(1, 2)) for n, _ in lengths)
    x = filled([n for n, _ in lengths], "float32")
    got = run("Resize", x, None, None, ints(*(m for _, m in lengths)), keep_aspect_ratio_policy=policy)
    assert got.shape == want
