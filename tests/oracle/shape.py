"""Operators that move elements by their places: shapes, slices, pads, blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.oracle.draw import Case, Draw, code, draws, tensor


def ints(values: Any) -> Any:
    """int64, as shapes and axes are."""
    return np.array(values, np.int64)


@draws("Shape")
def shape(d: Draw) -> Case:
    x = d.array(d.dtype(), d.shape())
    span = {"start": d.maybe(d.integer(-6, 6)), "end": d.maybe(d.integer(-6, 6))} if d.has("start") else {}
    return d.case(x, **span)


@draws("Size")
def size(d: Draw) -> Case:
    return d.case(d.array(d.dtype(), d.shape()))


@draws("Flatten")
def flatten(d: Draw) -> Case:
    x = d.array(d.dtype(), d.shape(1))
    axis = d.axis(x.ndim, end=True)
    return d.case(x, axis=d.maybe(axis if d.opset >= 11 else axis % (x.ndim + 1)))


@draws("Reshape")
def reshape(d: Draw) -> Case:
    x = d.array(d.dtype(), d.shape(0, 4))
    sizes = list(map(int, d.rng.permutation(x.shape))) if d.chance() else [x.size]
    if d.chance():
        sizes.insert(d.integer(0, len(sizes)), 1)
    zero = d.maybe(0, 1) if d.has("allowzero") else None
    if not zero:
        sizes = [0 if i < x.ndim and x.shape[i] == n and d.chance(0.3) else n for i, n in enumerate(sizes)]
        if any(n == 0 and (i >= x.ndim or x.shape[i]) for i, n in enumerate(sizes)) and x.size == 0:
            sizes = list(x.shape)
    if sizes and d.chance() and x.size:
        sizes[d.integer(0, len(sizes) - 1)] = -1
    return d.case(x, ints(sizes), allowzero=zero)


@draws("Transpose")
def transpose(d: Draw) -> Case:
    x = d.array(d.dtype(), d.shape())
    perm = [int(axis) for axis in d.rng.permutation(x.ndim)]
    return d.case(x, perm=d.maybe(perm) if perm else None)


@draws("Squeeze")
def squeeze(d: Draw) -> Case:
    x = d.array(d.dtype(), d.shape())
    axes = [axis for axis, size in enumerate(x.shape) if size == 1 and d.chance(0.7)]
    axes = [axis - x.ndim if d.opset >= 11 and d.chance(0.4) else axis for axis in axes]
    if d.opset >= 13:
        return d.case(x, d.maybe(ints(axes)))
    return d.case(x, axes=d.maybe(axes) if axes else None)


@draws("Unsqueeze")
def unsqueeze(d: Draw) -> Case:
    x = d.array(d.dtype(), d.shape(0, 4))
    count = d.integer(1, 2)
    axes = d.axes(x.ndim + count, count, count, negative=d.opset >= 11)
    return d.case(x, ints(axes)) if d.opset >= 13 else d.case(x, axes=axes)


@draws("Expand")
def expand(d: Draw) -> Case:
    x, target = d.broadcast(2)
    return d.case(d.array(d.dtype(), x), ints(target))


@draws("Tile")
def tile(d: Draw) -> Case:
    x = d.array(d.dtype(), d.shape(0, 4))
    return d.case(x, ints(d.integers(0 if d.chance(0.1) else 1, 3, x.ndim)))


@draws("Concat")
def concat(d: Draw) -> Case:
    dtype, shape = d.dtype(), d.shape(1)
    axis = d.axis(len(shape)) if d.opset >= 11 else d.integer(0, len(shape) - 1)
    parts = []
    for _ in range(d.integer(1, 4)):
        sizes = list(shape)
        sizes[axis] = d.size()
        parts.append(d.array(dtype, sizes))
    return d.case(*parts, axis=axis)


def parts_of(d: Draw, size: int, count: int) -> list[int]:
    """``count`` sizes that add up to ``size``."""
    cuts = sorted(d.integers(0, size, count - 1))
    return [stop - start for start, stop in zip([0, *cuts], [*cuts, size], strict=True)]


@draws("Split")
def split(d: Draw) -> Case:
    shape = list(d.shape(1, 4))
    axis = d.axis(len(shape)) if d.opset >= 11 else d.integer(0, len(shape) - 1)
    count = d.integer(1, 3)
    options: dict[str, Any] = {"outputs": count, "axis": axis if axis else d.maybe(0)}
    if d.chance():
        sizes = parts_of(d, shape[axis], count)
        x = d.array(d.dtype(), shape)
        return d.case(x, ints(sizes), **options) if d.opset >= 13 else d.case(x, split=sizes, **options)
    if d.opset < 18:
        shape[axis] = count * d.integer(1, 2)
        return d.case(d.array(d.dtype(), shape), **options)
    shape[axis] = count * d.integer(1, 2) - (d.integer(0, 1) if count > 1 else 0)
    return d.case(d.array(d.dtype(), shape), num_outputs=count, **options)


@draws("Slice")
def slices(d: Draw) -> Case:
    x = d.array(d.dtype(), d.shape(1))
    axes: Any = d.axes(x.ndim, 1, negative=d.opset >= 11)
    starts, ends = ([d.integer(-7, 7) for _ in axes] for _ in range(2))
    ends = [d.pick(end, 2**31 - 1, -(2**31)) if d.chance(0.3) else end for end in ends]
    if d.chance(0.3):
        axes, starts, ends = None, starts[: x.ndim], ends[: x.ndim]
    if d.opset < 10:
        return d.case(x, starts=starts, ends=ends, axes=axes)
    indices = d.dtype("Tind")
    steps = d.maybe([d.pick(1, 2, -1, -2, 3, 100, -100) for _ in starts])
    return d.case(x, *(None if v is None else np.array(v, indices) for v in (starts, ends, axes, steps)))


@draws("Pad")
def pad(d: Draw) -> Case:
    modes = [d.pick("constant", "reflect", "edge"), "wrap"]
    mode = modes[d.opset >= 19 and d.chance(0.2)]
    x = d.array(d.dtype(), d.shape(1, 4, empty=False))
    axes = d.axes(x.ndim, 1) if d.opset >= 18 and d.chance() else list(range(x.ndim))
    most = [x.shape[axis] - d.integer(0, 1) if mode == "reflect" else 3 for axis in axes]
    before, after = ([d.integer(0, size) for size in most] for _ in range(2))
    if mode == "constant" and d.chance(0.3):
        before = [-d.integer(0, x.shape[axis] // 2) for axis in axes]
    given = d.maybe(mode) if mode == "constant" else mode
    if d.opset < 11:
        value = d.maybe(d.real(-2, 2)) if mode == "constant" else None
        return d.case(x, pads=[*before, *after], mode=given, value=value)
    value = d.maybe(d.array(x.dtype, (), "finite")) if mode == "constant" else None
    named = np.array(axes, d.dtype("Tind")) if axes != list(range(x.ndim)) else None
    return d.case(x, ints([*before, *after]), value, named, mode=given)


@draws("DepthToSpace", "SpaceToDepth")
def blocks(d: Draw) -> Case:
    block, (batch, channels, height, width) = d.integer(1, 3), (d.integer(1, 3) for _ in range(4))
    mode = d.maybe("DCR", "CRD") if d.has("mode") else None
    if d.op == "DepthToSpace":
        shape = (batch, channels * block * block, height, width)
    else:
        shape = (batch, channels, height * block, width * block)
    return d.case(d.array(d.dtype(), shape), blocksize=block, mode=mode)


@draws("ReverseSequence")
def reverse_sequence(d: Draw) -> Case:
    time = d.integer(0, 1)
    x = d.array(d.dtype(), (d.integer(1, 5), d.integer(1, 5), *d.shape(0, 2)))
    lengths = ints(d.integers(1, x.shape[time], x.shape[1 - time]))
    return d.case(x, lengths, time_axis=time if time else d.maybe(0), batch_axis=1 - time if time else d.maybe(1))


@draws("CenterCropPad")
def center_crop_pad(d: Draw) -> Case:
    x = d.array(d.dtype(), d.shape(1, 4, empty=False))
    axes: Any = d.axes(x.ndim, 1)
    target = np.array(d.integers(1, 6, len(axes)), d.dtype("Tind"))
    if len(axes) == x.ndim and d.chance():
        axes = None
    return d.case(x, target, axes=axes)


@draws("Trilu")
def trilu(d: Draw) -> Case:
    x = d.array(d.dtype(), d.shape(2))
    return d.case(x, d.maybe(ints(d.integer(-4, 4))), upper=d.maybe(0, 1))


@draws("EyeLike")
def eye_like(d: Draw) -> Case:
    x = d.array(d.dtype("T1"), d.shape(2, 2))
    dtype = d.dtype("T2")
    return d.case(x, k=d.maybe(d.integer(-3, 3)), dtype=d.maybe(code(dtype)))


@draws("ConstantOfShape")
def constant_of_shape(d: Draw) -> Case:
    value = d.array(d.dtype("T2"), (1,))
    return d.case(ints(d.shape()), value=d.maybe(tensor(value)))


@draws("Constant")
def constant(d: Draw) -> Case:
    options: list[dict[str, Any]] = [{"value": tensor(d.array(d.dtype(), d.shape()))}]
    if d.opset >= 12:
        options += [{"value_float": d.real(-2, 2)}, {"value_floats": [d.real(-2, 2) for _ in range(3)]}]
        options += [{"value_int": d.integer(-9, 9)}, {"value_ints": d.integers(-9, 9, 3)}]
        options += [{"value_string": "word"}, {"value_strings": ["a", "b"]}]
    return d.case(**d.pick(*options))


@draws("Range")
def arithmetic_sequence(d: Draw) -> Case:
    dtype = d.dtype()
    step = d.pick(1, 2, 3, -1, -2)
    start, limit = d.integers(-9, 9, 2)
    scale = d.pick(1, 0.5) if np.issubdtype(dtype, np.floating) else 1
    return d.case(*(np.array(v * scale, dtype) for v in (start, limit, step)))
