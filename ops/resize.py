"""Resize and Upsample: one axis after the other, the last one first."""

from __future__ import annotations

import math
from functools import lru_cache

from onemodel.ops.axes import numbers
from onemodel.ops.registry import operator

_NEAREST = {
    "round_prefer_floor": lambda x: math.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: math.floor(x + 0.5),
    "floor": math.floor,
    "ceil": math.ceil,
}

# Sizes and scales; a scale is a fraction (p, q), so that ties and whole sizes are not lost to rounding


def _from_scale(size, scale, part):
    """The output size of an axis, of which ``part`` is cropped, and its scale.

    A scale within float32's error of one that gives a whole size means that one.
    """
    if not 0 < scale < math.inf:
        raise ValueError(f"scales holds {scale}; every scale must be a number above 0")
    p, q = scale.as_integer_ratio()
    if part != 1:
        product = size * part * scale
        if product < 0:
            raise ValueError(f"roi ends before it starts, by {part}; with scales no size follows from that")
        whole = round(product)
        return (whole if abs(product - whole) <= whole * 2.0**-23 else math.floor(product)), (p, q)
    whole = (2 * size * p + q) // (2 * q)
    if whole and abs(size * p - whole * q) << 23 <= whole * q:
        return whole, (whole, size)
    return size * p // q, (p, q)


def _from_sizes(shape, sizes, policy):
    """The output sizes and scales of the axes that ``sizes`` names, under the aspect ratio's policy."""
    if any(size < 0 for size in sizes) or any(not n and size for n, size in zip(shape, sizes, strict=True)):
        raise ValueError(f"sizes {sizes} do not fit axes of sizes {list(shape)}")
    if policy == "stretch" or 0 in shape:
        return [(size, (size, n)) for n, size in zip(shape, sizes, strict=True)]
    choose = min if policy == "not_larger" else max
    size, n = choose(zip(sizes, shape, strict=True), key=lambda pair: pair[0] / pair[1])
    return [((2 * size * length + n) // (2 * n), (size, n)) for length in shape]


# Where an output position lies in the input


def _coordinates(mode, size, count, scale, roi):
    """The positions in an axis of ``size`` elements of the ``count`` elements that it becomes, as floats."""
    p, q = scale
    if mode == "half_pixel" or (mode == "pytorch_half_pixel" and count > 1):
        return [((2 * i + 1) * q - p) / (2 * p) for i in range(count)]
    if mode == "pytorch_half_pixel":
        return [0.0] * count
    if mode == "half_pixel_symmetric":
        offset = size * p - count * q - p
        return [(offset + (2 * i + 1) * q) / (2 * p) for i in range(count)]
    if mode == "asymmetric":
        return [i * q / p for i in range(count)]
    if mode == "tf_half_pixel_for_nn":
        return [(2 * i + 1) * q / (2 * p) for i in range(count)]
    if mode == "align_corners":
        # The last position is the unrounded output size's, as the suite has it, not the whole one's.
        return [i * (size - 1) * q / (size * p - q) if i else 0.0 for i in range(count)]
    if mode == "tf_crop_and_resize":
        start, end = roi
        if count == 1:
            return [0.5 * (start + end) * (size - 1)]
        return [start * (size - 1) + i * (end - start) * (size - 1) / (count - 1) for i in range(count)]
    raise ValueError(f"coordinate_transformation_mode {mode!r} is not one of ONNX's")


def _snapped(x):
    """x, or the half or whole number within float32's error of it: a scale such as 0.8 is a little off in float32."""
    half = round(2 * x) / 2
    return half if abs(x - half) <= 2.0**-22 * max(abs(x), 1.0) else x


# Weights


def _triangle(x, a):
    return max(1 - abs(x), 0.0)


def _cubic(x, a):
    x = abs(x)
    if x <= 1:
        return ((a + 2) * x - (a + 3)) * x * x + 1
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a if x < 2 else 0.0


@lru_cache(maxsize=64)
def _taps(kind, mode, size, count, scale, roi, antialias, exclude_outside, a):
    """The taps of an axis as ``xp.weighted_taps`` takes them: positions and weights, one list of each per tap.

    A tap outside the axis reads the sample at its edge, whose weight it adds to.
    """
    weight_at, reach = (_triangle, 1) if kind == "linear" else (_cubic, 2)
    p, q = scale
    shrink = p / q if antialias and p < q else 1.0
    reach = reach / shrink
    rows = []
    for x in _coordinates(mode, size, count, scale, roi):
        weights: dict[int, float] = {}
        total = 0.0
        for i in range(math.floor(x - reach) + 1, math.ceil(x + reach)):
            weight = weight_at((i - x) * shrink, a)
            if exclude_outside and not 0 <= i < size:
                continue
            total += weight
            inside = min(max(i, 0), size - 1)
            weights[inside] = weights.get(inside, 0.0) + weight
        if antialias or exclude_outside:
            weights = {i: weight / total for i, weight in weights.items()} if total else {}
        rows.append([pair for pair in weights.items() if pair[1]] or [(min(max(round(x), 0), size - 1), 1.0)])
    taps = range(max(map(len, rows)))
    rows = [row + [(None, 0.0)] * (len(taps) - len(row)) for row in rows]
    return [[row[k][0] for row in rows] for k in taps], [[row[k][1] for row in rows] for k in taps]


# Operators


def _resized(x, plans, kind, mode, nearest, xp, *, antialias=0, exclude_outside=0, a=-0.75, extrapolation=0.0):
    """x with each axis i made what ``plans[i] = (count, scale, roi)`` says; None leaves an axis as it is."""
    if kind not in ("nearest", "linear", "cubic"):
        raise ValueError(f"mode {kind!r} must be nearest, linear or cubic")
    changing = [axis for axis in reversed(range(x.ndim)) if plans[axis] is not None]
    if not changing:
        return x
    shape = [size if plan is None else plan[0] for size, plan in zip(x.shape, plans, strict=True)]
    if 0 in shape:
        return xp.zeros(tuple(shape), dtype=x.dtype)
    if math.prod(shape) >= 2**40:
        raise ValueError(f"a result of shape {shape} is more than memory holds")
    code, sizes = xp.onnx_code(x.dtype), x.shape
    if kind == "nearest":
        for axis in changing:
            count, scale, roi = plans[axis]
            size = x.shape[axis]
            positions = _coordinates(mode, size, count, scale, roi)
            indices = xp.as_index(min(max(nearest(_snapped(at), scale), 0), size - 1) for at in positions)
            x = xp.take(x, indices, axis=axis)
    else:
        if code not in _INSIDE:
            raise TypeError(f"mode {kind} needs real numbers, not {x.dtype}")
        x = xp.convert(x, _INSIDE[code])
        for axis in changing:
            taps = _taps(kind, mode, x.shape[axis], *plans[axis], antialias, exclude_outside, a)
            x = xp.weighted_taps(x, *taps, axis)
        x = xp.convert(x if code in _FLOATS else xp.round(x), code)
    return _extrapolated(x, plans, sizes, extrapolation, xp) if mode == "tf_crop_and_resize" else x


_FLOATS = (1, 10, 11, 16)
# ONNX's codes of the types that mean something to a mean: float32 for float32, float16, bfloat16 and small integers,
# float64 for float64 and the others.
_INSIDE = {1: 1, 10: 1, 16: 1, 2: 1, 3: 1, 4: 1, 5: 1, 11: 11, 6: 11, 7: 11, 12: 11, 13: 11}


def _extrapolated(x, plans, sizes, value, xp):
    """x with ``value`` wherever one of the coordinates lay outside the input."""
    for axis, plan in enumerate(plans):
        if plan is None:
            continue
        count, scale, roi = plan
        positions = _coordinates("tf_crop_and_resize", sizes[axis], count, scale, roi)
        outside = [not 0 <= at <= sizes[axis] - 1 for at in positions]
        if any(outside):
            mask = xp.reshape(xp.asarray(outside, dtype=xp.bool), (count, *[1] * (x.ndim - axis - 1)))
            x = xp.where(mask, xp.constant(value, x), x)
    return x


def _numbers(values):
    """A host input as Python numbers; None where it is omitted or empty."""
    return numbers(values, lambda number: number.item()) or None


@operator("Resize", since=11, host=("roi", "scales", "sizes"), widen=False)
def resize(
    X,
    roi=None,
    scales=None,
    sizes=None,
    /,
    *,
    antialias=0,
    axes=None,
    coordinate_transformation_mode="half_pixel",
    cubic_coeff_a=-0.75,
    exclude_outside=0,
    extrapolation_value=0.0,
    keep_aspect_ratio_policy="stretch",
    mode="nearest",
    nearest_mode="round_prefer_floor",
    xp,
):
    """Each element a weighted mean of its neighbours in X, axis by axis: the nearest, or by a triangle or a cubic.

    Integers are rounded half to even and saturate.
    """
    axes = list(range(X.ndim)) if axes is None else [axis + X.ndim if axis < 0 else axis for axis in axes]
    if any(not 0 <= axis < X.ndim for axis in axes) or len(set(axes)) != len(axes):
        raise ValueError(f"axes {axes} must be different axes of {X.ndim}")
    scales, sizes, roi = _numbers(scales), _numbers(sizes), _numbers(roi)
    if (scales is None) == (sizes is None):
        raise ValueError("one of scales and sizes must be given, and not both")
    if len(scales or sizes) != len(axes):
        raise ValueError(f"{len(scales or sizes)} scales or sizes are given for {len(axes)} axes")
    if keep_aspect_ratio_policy not in ("stretch", "not_larger", "not_smaller"):
        raise ValueError(
            f"keep_aspect_ratio_policy {keep_aspect_ratio_policy!r} must be stretch, not_larger or not_smaller"
        )
    if nearest_mode not in _NEAREST:
        raise ValueError(f"nearest_mode {nearest_mode!r} must be one of {', '.join(_NEAREST)}")
    crop = coordinate_transformation_mode == "tf_crop_and_resize"
    if crop and len(roi or ()) != 2 * len(axes):
        raise ValueError(f"roi of {len(roi or ())} numbers must hold a start and an end for each of {len(axes)} axes")
    lengths = [X.shape[axis] for axis in axes]
    if sizes is not None:
        made = _from_sizes(lengths, sizes, keep_aspect_ratio_policy)
    else:
        parts = [roi[len(axes) + i] - roi[i] if crop else 1 for i in range(len(axes))]
        made = [_from_scale(n, scale, part) for n, scale, part in zip(lengths, scales, parts, strict=True)]
    plans = [None] * X.ndim
    for i, (axis, (count, scale)) in enumerate(zip(axes, made, strict=True)):
        part = (roi[i], roi[len(axes) + i]) if crop else None
        if scale[0] != scale[1] or count != X.shape[axis] or part not in (None, (0, 1)):
            plans[axis] = (count, scale, part)
    round_to = _NEAREST[nearest_mode]
    return _resized(
        X,
        plans,
        mode,
        coordinate_transformation_mode,
        lambda at, _: round_to(at),
        xp,
        antialias=antialias,
        exclude_outside=exclude_outside,
        a=cubic_coeff_a,
        extrapolation=extrapolation_value,
    )


@operator("Resize", since=10, host=("scales",), widen=False)
def resize_at_opset_10(X, scales, /, *, mode="nearest", xp):
    """Position i reads i / scale; nearest rounds it down where the axis grows, up where it shrinks."""
    return _asymmetric(X, numbers(scales, float), mode, xp)


def _asymmetric(x, scales, mode, xp):
    if len(scales) != x.ndim:
        raise ValueError(f"{len(scales)} scales are given for {x.ndim} axes")
    if mode not in ("nearest", "linear", "bilinear"):
        raise ValueError(f"mode {mode!r} must be nearest or linear")
    made = [_from_scale(n, scale, 1) for n, scale in zip(x.shape, scales, strict=True)]
    plans = [None if scale[0] == scale[1] else (count, scale, None) for count, scale in made]
    kind = "nearest" if mode == "nearest" else "linear"
    return _resized(x, plans, kind, "asymmetric", _down_or_up, xp)


def _down_or_up(at, scale):
    return math.ceil(at) if scale[0] < scale[1] else math.floor(at)


@operator("Upsample", since=9, host=("scales",), widen=False)
def upsample(X, scales, /, *, mode="nearest", xp):
    """Resize of opset 10 with scales of at least 1."""
    scales = numbers(scales, float)
    if not all(scale >= 1 for scale in scales):
        raise ValueError(f"scales {scales} must be at least 1; Resize makes arrays smaller")
    return _asymmetric(X, scales, mode, xp)


@operator("Upsample", since=7, widen=False)
def upsample_before_opset_9(X, /, *, mode="nearest", scales, xp):
    """The scales are an attribute."""
    return upsample(X, scales, mode=mode, xp=xp)


@operator("Upsample", since=1, widen=False)
def upsample_before_opset_7(X, /, *, height_scale, mode="nearest", width_scale, xp):
    """X has four dimensions; the last two grow."""
    return upsample(X, (1.0, 1.0, height_scale, width_scale), mode=mode, xp=xp)
