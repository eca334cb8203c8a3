"""Arrays made of attributes and shapes alone."""

from __future__ import annotations

import math

from onemodel.ops.axes import integers, one_number
from onemodel.ops.element import tensor_type, type_of
from onemodel.ops.registry import operator

_CODES = {
    "value": None,
    "sparse_value": None,
    "value_float": 1,
    "value_floats": 1,
    "value_int": 7,
    "value_ints": 7,
    "value_string": 8,
    "value_strings": 8,
}
"""The element type of each attribute of Constant; None where the attribute is a tensor."""


def _constant_types(types, attributes):
    given = [name for name in _CODES if attributes[name] is not None]
    if len(given) != 1:
        return [None]
    code = _CODES[given[0]]
    return [type_of(attributes[given[0]]) if code is None else tensor_type(code)]


@operator("Constant", since=1, widen=False, types=_constant_types)
def constant(
    *,
    value=None,
    sparse_value=None,
    value_float=None,
    value_floats=None,
    value_int=None,
    value_ints=None,
    value_string=None,
    value_strings=None,
    xp,
):
    """The one attribute that is given, as an array; a sparse one is written out."""
    values = (value, sparse_value, value_float, value_floats, value_int, value_ints, value_string, value_strings)
    given = [(item, code) for item, code in zip(values, _CODES.values(), strict=True) if item is not None]
    if len(given) != 1:
        raise ValueError(f"{len(given)} of the value attributes are given; it must be exactly one")
    item, code = given[0]
    return xp.from_host(item) if code is None else xp.asarray(item, dtype=xp.onnx_dtype(code))


def _filled_types(types, attributes):
    return ["tensor(float)" if attributes["value"] is None else type_of(attributes["value"])]


@operator("ConstantOfShape", since=9, host=("input",), widen=False, types=_filled_types)
def constant_of_shape(input, /, *, value=None, xp):
    """An array of the shape ``input``, filled with ``value``, a tensor of one element; float32 zeros without it."""
    sizes = tuple(integers(input))
    if min(sizes, default=0) < 0:
        raise ValueError(f"shape {list(sizes)} has a negative size")
    if value is None:
        return xp.zeros(sizes, dtype=xp.float32)
    if math.prod(value.shape) != 1:
        raise ValueError(f"value of shape {value.shape} must have one element")
    item = value[(0,) * value.ndim]
    fill = bool(item) if value.dtype.kind == "b" else int(item) if value.dtype.kind in "iu" else float(item)
    dtype = xp.from_host(value).dtype
    if fill == 0 and math.copysign(1, fill) > 0:
        return xp.zeros(sizes, dtype=dtype)
    return xp.full(sizes, fill, dtype=dtype)


def _eye_types(types, attributes):
    return [types[0] if attributes["dtype"] is None else tensor_type(attributes["dtype"])]


@operator("EyeLike", since=9, metadata=True, widen=False, types=_eye_types)
def eye_like(input, /, *, dtype=None, k=0, xp):
    """A matrix of the input's shape with ones on the diagonal ``k``, in the input's type or ``dtype``."""
    if input.ndim != 2:
        raise ValueError(f"the input of shape {input.shape} must be a matrix")
    rows, columns = input.shape
    return xp.eye(rows, columns, k=k, dtype=input.dtype if dtype is None else xp.onnx_dtype(dtype))


@operator("Range", since=27, host=("start", "limit", "delta"), widen=False)
def range_(start, limit, delta, /, *, stash_type=1, xp):
    """start + i * delta up to ``limit``, which is left out; half types through float32 where ``stash_type`` is 1."""
    for x in (start, limit, delta):
        if math.prod(x.shape) != 1:
            raise ValueError(f"start, limit and delta must be scalars; one has shape {x.shape}")
    dtype = xp.from_host(start).dtype
    first, last, step = (x[(0,) * x.ndim] for x in (start, limit, delta))
    if start.dtype.kind in "iu":
        first, last, step = int(first), int(last), int(step)
        if step == 0:
            raise ValueError("delta is 0")
        count = max(-((first - last) // step), 0)
        return xp.astype(xp.arange(count, dtype=xp.int64) * step + first, dtype)
    inside = xp.float32 if stash_type == 1 and start.dtype.name in ("float16", "bfloat16") else dtype
    first, last, step = float(first), float(last), float(step)
    if step == 0 or not all(map(math.isfinite, (first, last, step))):
        raise ValueError(f"start {first}, limit {last} and delta {step} must be finite, and delta not 0")
    count = max(math.ceil((last - first) / step), 0)
    steps = xp.astype(xp.arange(count, dtype=xp.int64), inside)
    return xp.astype(steps * xp.asarray(step, dtype=inside) + xp.asarray(first, dtype=inside), dtype)


@operator("Range", since=11, host=("start", "limit", "delta"), widen=False)
def range_before_27(start, limit, delta, /, *, xp):
    """Before opset 27 there are no half types."""
    return range_(start, limit, delta, xp=xp)


@operator("OneHot", since=11, host=("depth",), widen=False)
def one_hot(indices, depth, values, /, *, axis=-1, xp):
    """``values[1]`` where the place along the new ``axis`` is the index, else ``values[0]``; negative ones wrap."""
    classes, count = _classes(indices, depth, xp)
    return _hot(xp.where(classes < 0, classes + count, classes), count, values, axis, xp)


@operator("OneHot", since=9, host=("depth",), widen=False)
def one_hot_before_11(indices, depth, values, /, *, axis=-1, xp):
    """Before opset 11 a negative index is out of range: its places are all ``values[0]``."""
    classes, count = _classes(indices, depth, xp)
    return _hot(classes, count, values, axis, xp)


def _classes(indices, depth, xp):
    """The indices as int64, and the number of classes."""
    count = one_number(depth, "depth", int)
    if count < 0:
        raise ValueError(f"depth {count} is negative")
    classes, nowhere = xp.convert(indices, 7), xp.asarray(count, dtype=xp.int64)
    if indices.dtype == xp.uint64:
        classes = xp.where(classes < 0, nowhere, classes)
    if xp.isdtype(indices.dtype, "real floating"):
        classes = xp.where(xp.isnan(indices), nowhere, classes)
    return classes, count


def _hot(classes, count, values, axis, xp):
    rank = classes.ndim + 1
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} is not in [{-rank}, {rank - 1}]")
    if values.shape != (2,):
        raise ValueError(f"values of shape {values.shape} must be [off_value, on_value]")
    axis = axis if axis >= 0 else axis + rank
    places = xp.reshape(xp.arange(count, dtype=xp.int64), (-1, *[1] * (rank - 1 - axis)))
    return xp.where(xp.expand_dims(classes, axis=axis) == places, values[1, ...], values[0, ...])
