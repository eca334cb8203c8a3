"""Image operators: sampling on grids, regions of interest, suppression of boxes."""

from __future__ import annotations

import itertools
import math

from onemodel.ops.axes import integers, one_number
from onemodel.ops.registry import operator

_FLOAT, _INT32, _INT64, _DOUBLE, _STRING = 1, 6, 7, 11, 8
_WIDE = (_INT32, _INT64, _DOUBLE, 12, 13)
# Positions further out are as far as this one: float32 still tells neighbours apart there.
_FAR = 2.0**22


def _inside_type(code):
    """The type in which arrays of the type ``code`` are averaged."""
    return _DOUBLE if code in _WIDE else _FLOAT


# Grids


@operator("AffineGrid", since=20, host=("size",))
def affine_grid(theta, size, /, *, align_corners=0, xp):
    """The positions (x, y) or (x, y, z) of an image of ``size`` (N, C, [D,] H, W), moved by the matrices ``theta``."""
    sizes = integers(size)
    spatial = sizes[2:]
    rank = len(spatial)
    if rank not in (2, 3) or tuple(theta.shape) != (sizes[0], rank, rank + 1):
        raise ValueError(f"theta of shape {theta.shape} and size {sizes} must be of one 2-D or 3-D batch")
    moved = xp.reshape(theta[:, :, rank], (theta.shape[0], *[1] * rank, rank))
    total = None
    for i, count in enumerate(reversed(spatial)):
        steps = xp.asarray(_steps(count, align_corners), dtype=theta.dtype)
        column = xp.reshape(theta[:, :, i], (theta.shape[0], *[1] * rank, rank))
        term = column * xp.reshape(steps, (count, *[1] * (i + 1)))
        total = term if total is None else total + term
    return xp.broadcast_to(total + moved, (theta.shape[0], *spatial, rank))


def _steps(count, align_corners):
    """``count`` pixel centres from -1 to 1, where these are the outer centres or the outer edges; one alone is at 0."""
    if align_corners:
        return [2 * i / (count - 1) - 1 if count > 1 else 0.0 for i in range(count)]
    return [(2 * i + 1) / count - 1 for i in range(count)]


@operator("GridSample", since=20, widen=False)
def grid_sample(X, grid, /, *, align_corners=0, mode="linear", padding_mode="zeros", xp):
    """X (N, C, *spatial) at the positions ``grid`` (N, *output, axes), which name the last axis first.

    The padding decides for each tap outside X on its own: zero, the sample at the edge, or the one that it reflects to.
    """
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    if mode not in ("nearest", "linear", "cubic") or padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(f"mode {mode!r} or padding_mode {padding_mode!r} is not one of ONNX's")
    spatial = tuple(X.shape[2:])
    if not spatial or grid.ndim != X.ndim or grid.shape[0] != X.shape[0] or grid.shape[-1] != len(spatial):
        raise ValueError(f"grid of shape {grid.shape} must be (N, *output, {len(spatial)}) for X of shape {X.shape}")
    result_shape = (X.shape[0], X.shape[1], *grid.shape[1:-1])
    if 0 in result_shape:
        return xp.zeros(result_shape, dtype=X.dtype)
    if 0 in spatial and padding_mode != "zeros":
        raise ValueError(f"X of shape {X.shape} has no samples to pad with")
    code = xp.onnx_code(X.dtype)
    if mode != "nearest" and (code == _STRING or xp.isdtype(X.dtype, "complex floating")):
        raise TypeError(f"mode {mode} needs real numbers, not {X.dtype}")
    inside = max(_inside_type(code), _inside_type(xp.onnx_code(grid.dtype)))
    grid = xp.convert(grid, inside)
    flat = xp.reshape(X, (*X.shape[:2], math.prod(spatial)))
    if mode != "nearest":
        flat = xp.convert(flat, inside)
    if padding_mode == "zeros":
        nothing = [""] if code == _STRING else [0]
        empty = xp.broadcast_to(xp.asarray(nothing, dtype=flat.dtype), (*X.shape[:2], 1))
        flat = xp.concat([flat, empty], axis=2)
    images = []
    for n in range(X.shape[0]):
        total = None
        for index, weight in _taps(grid[n, ...], spatial, align_corners, mode, padding_mode, xp):
            values = xp.take(flat[n, ...], xp.reshape(index, (-1,)), axis=1)
            term = values if weight is None else values * xp.reshape(weight, (-1,))
            total = term if total is None else total + term
        images.append(xp.reshape(total, result_shape[1:]))
    y = xp.stack(images, axis=0)
    return y if mode == "nearest" else xp.convert(y, code)


@operator("GridSample", since=16, widen=False)
def grid_sample_before_opset_20(X, grid, /, *, align_corners=0, mode="bilinear", padding_mode="zeros", xp):
    """Two spatial axes; the modes have other names."""
    if X.ndim != 4:
        raise ValueError(f"X of shape {X.shape} must have four dimensions before opset 20")
    return grid_sample(X, grid, align_corners=align_corners, mode=mode, padding_mode=padding_mode, xp=xp)


def _taps(positions, spatial, align_corners, mode, padding_mode, xp):
    """For each tap of the kernel where in the flattened image it reads, and its weight; the last axis runs fastest."""
    axes = []
    for axis, size in enumerate(spatial):
        at = positions[..., len(spatial) - 1 - axis]
        at = (at + 1) / 2 * (size - 1) if align_corners else ((at + 1) * size - 1) / 2
        at = xp.where(at > _FAR, xp.constant(_FAR, at), xp.where(at < -_FAR, xp.constant(-_FAR, at), at))
        first = xp.round(at) if mode == "nearest" else xp.floor(at)
        weights = _weights(at - first, mode)
        axes.append(
            [
                (*_padded(first + offset, size, align_corners, padding_mode, xp), weight)
                for offset, weight in weights.items()
            ]
        )
    total = math.prod(spatial)
    for combination in itertools.product(*axes):
        index, valid, weight = None, None, None
        for size, (part, inside, factor) in zip(spatial, combination, strict=True):
            index = part if index is None else index * size + part
            valid = inside if valid is None else valid & inside if inside is not None else valid
            weight = factor if weight is None else weight * factor
        yield index if valid is None else xp.where(valid, index, xp.constant(total, index)), weight


def _weights(rest, mode):
    """Offset from the first tap to the weight there, for the part ``rest`` of a step that a position lies beyond it."""
    if mode == "nearest":
        return {0: None}
    if mode == "linear":
        return {0: 1 - rest, 1: rest}
    a = -0.75
    near = [((a + 2) * x - (a + 3)) * x * x + 1 for x in (rest, 1 - rest)]
    far = [((a * x - 5 * a) * x + 8 * a) * x - 4 * a for x in (rest + 1, 2 - rest)]
    return {-1: far[0], 0: near[0], 1: near[1], 2: far[1]}


def _padded(at, size, align_corners, padding_mode, xp):
    """Whole positions as indices into an axis, and which of them are valid, or None where the padding makes all so."""
    zero = xp.constant(0, at)
    if padding_mode == "zeros":
        valid = (at >= 0) & (at <= size - 1)
        return xp.astype(xp.where(valid, at, zero), xp.int64), valid
    if padding_mode == "reflection":
        period = 2 * (size - 1) if align_corners else 2 * size
        if period == 0:
            at = at * 0
        else:
            at = at - xp.floor(at / period) * period
            at = xp.where(at > size - 1, period - (0 if align_corners else 1) - at, at)
    at = xp.where(at > size - 1, xp.constant(size - 1, at), at)
    # Of a NaN neither holds: it reads the first sample.
    return xp.astype(xp.where(at >= 0, at, zero), xp.int64), None


# Regions of interest


@operator("RoiAlign", since=16, host=("rois", "batch_indices"), widen=False)
def roi_align(
    x,
    rois,
    batch_indices,
    /,
    *,
    coordinate_transformation_mode="half_pixel",
    mode="avg",
    output_height=1,
    output_width=1,
    sampling_ratio=0,
    spatial_scale=1.0,
    xp,
):
    """For each region (x1, y1, x2, y2) of an image of x (N, C, H, W) a grid of bins, each the mean of its samples.

    A sample is the weighted sum of its four neighbours; mode max takes the greatest of all weighted neighbours instead.
    """
    if coordinate_transformation_mode not in ("half_pixel", "output_half_pixel") or mode not in ("avg", "max"):
        raise ValueError(
            f"coordinate_transformation_mode {coordinate_transformation_mode!r} or mode {mode!r} is not one of ONNX's"
        )
    if output_height < 1 or output_width < 1 or sampling_ratio < 0:
        raise ValueError(
            f"output_height {output_height} and output_width {output_width} must be 1 or more, and sampling_ratio "
            f"{sampling_ratio} 0 or more"
        )
    regions, images = _regions(x, rois, batch_indices)
    bins, code = (output_height, output_width), xp.onnx_code(x.dtype)
    x = xp.convert(x, _inside_type(code))
    half = coordinate_transformation_mode == "half_pixel"
    # Regions with equally many samples per bin are computed together.
    groups: dict[tuple[int, int], list[int]] = {}
    spans = []
    for i, region in enumerate(regions):
        x1, y1, x2, y2 = (value * spatial_scale - (0.5 if half else 0.0) for value in region)
        sizes = (y2 - y1, x2 - x1) if half else (max(y2 - y1, 1.0), max(x2 - x1, 1.0))
        spans.append(((y1, sizes[0]), (x1, sizes[1])))
        samples = tuple(sampling_ratio or max(math.ceil(n / b), 0) for n, b in zip(sizes, bins, strict=True))
        groups.setdefault(samples, []).append(i)
    pooled, order = [], []
    for samples, members in groups.items():
        # At most some million elements at a time.
        step = max(2**22 // max(x.shape[1] * math.prod(bins), 1), 1)
        for start in range(0, len(members), step):
            part = members[start : start + step]
            order += part
            pooled.append(_pooled(x, [images[i] for i in part], [spans[i] for i in part], bins, samples, mode, xp))
    if not pooled:
        return xp.convert(xp.zeros((0, x.shape[1], *bins), dtype=x.dtype), code)
    places = sorted(range(len(order)), key=order.__getitem__)
    return xp.convert(xp.take(xp.concat(pooled, axis=0), xp.as_index(places), axis=0), code)


def _regions(x, rois, batch_indices):
    """The regions and the images that they lie in, as Python numbers."""
    if x.ndim != 4 or rois.ndim != 2 or rois.shape[1] != 4 or tuple(batch_indices.shape) != (rois.shape[0],):
        raise ValueError(
            f"X, rois and batch_indices have shapes {x.shape}, {rois.shape} and {batch_indices.shape}; "
            "they must be (N, C, H, W), (number, 4) and (number,)"
        )
    return _corners(rois), _images(x, batch_indices)


def _corners(rois):
    """The rows of the host input ``rois`` as Python numbers."""
    rows = [[float(value) for value in row] for row in rois]
    for row in rows:
        if not all(map(math.isfinite, row)):
            raise ValueError(f"rois hold {row}; a region needs finite numbers")
    return rows


def _images(x, indices):
    images = [int(i) for i in indices]
    if any(not 0 <= i < x.shape[0] for i in images):
        raise IndexError(f"batch indices {sorted(set(images))} must lie in 0 to {x.shape[0] - 1}")
    return images


@operator("RoiAlign", since=10, host=("rois", "batch_indices"), widen=False)
def roi_align_before_opset_16(
    X, rois, batch_indices, /, *, mode="avg", output_height=1, output_width=1, sampling_ratio=0, spatial_scale=1.0, xp
):
    """Regions are not moved by half a pixel, and are at least one pixel large."""
    return roi_align(
        X,
        rois,
        batch_indices,
        coordinate_transformation_mode="output_half_pixel",
        mode=mode,
        output_height=output_height,
        output_width=output_width,
        sampling_ratio=sampling_ratio,
        spatial_scale=spatial_scale,
        xp=xp,
    )


def _pooled(x, images, spans, bins, samples, mode, xp):
    """The bins (regions, C, *bins) of regions that have ``samples`` per bin, sample after sample."""
    channels, sizes = x.shape[1], tuple(x.shape[2:])
    count = len(images)
    total = xp.zeros((channels, count, *bins), dtype=x.dtype)
    if 0 in samples or 0 in sizes:
        return xp.permute_dims(total, (1, 0, 2, 3))
    flat = xp.reshape(xp.permute_dims(x, (1, 0, 2, 3)), (channels, x.shape[0] * math.prod(sizes)))
    base = xp.reshape(xp.as_index([i * math.prod(sizes) for i in images]), (count, 1, 1))
    axes = [[_neighbours(spans, axis, k, bins, samples, sizes, x, xp) for k in range(samples[axis])] for axis in (0, 1)]
    first = True
    for (top, bottom, row_rest, row_valid), (left, right, column_rest, column_valid) in itertools.product(*axes):
        row_rest, row_valid, top, bottom = (xp.expand_dims(a, axis=2) for a in (row_rest, row_valid, top, bottom))
        column_rest, column_valid, left, right = (
            xp.expand_dims(a, axis=1) for a in (column_rest, column_valid, left, right)
        )
        terms = []
        for row, row_weight in ((top, 1 - row_rest), (bottom, row_rest)):
            for column, column_weight in ((left, 1 - column_rest), (right, column_rest)):
                index = base + row * sizes[1] + column
                values = xp.reshape(xp.take(flat, xp.reshape(index, (-1,)), axis=1), total.shape)
                terms.append(values * (row_weight * column_weight))
        valid, nothing = row_valid & column_valid, xp.constant(0, x)
        if mode == "avg":
            sample = terms[0] + terms[1] + terms[2] + terms[3]
            total = total + xp.where(valid, sample, nothing)
            continue
        for term in terms:
            term = xp.where(valid, term, nothing)
            total = term if first else _larger(total, term, xp)
            first = False
    if mode == "avg":
        total = total / math.prod(samples)
    return xp.permute_dims(total, (1, 0, 2, 3))


def _neighbours(spans, axis, k, bins, samples, sizes, x, xp):
    """Sample k of each bin along an axis: both neighbours, the rest beyond the first, whether it lies in the image."""
    starts = xp.asarray([span[axis][0] for span in spans], dtype=xp.float64)
    widths = xp.asarray([span[axis][1] / bins[axis] for span in spans], dtype=xp.float64)
    steps = xp.asarray([i + (k + 0.5) / samples[axis] for i in range(bins[axis])], dtype=xp.float64)
    at = xp.expand_dims(starts, axis=1) + xp.expand_dims(widths, axis=1) * xp.expand_dims(steps, axis=0)
    last = sizes[axis] - 1
    valid = (at >= -1.0) & (at <= sizes[axis])
    at = xp.where(valid & (at > 0), at, xp.constant(0, at))
    low = xp.floor(at)
    low = xp.where(low > last, xp.constant(last, low), low)
    rest = xp.where(low >= last, xp.constant(0, at), at - low)
    low = xp.astype(low, xp.int64)
    return low, xp.where(low < last, low + 1, low), xp.astype(rest, x.dtype), valid


def _larger(a, b, xp):
    """The larger of two arrays' elements; NaN wins."""
    return xp.where((b > a) | (b != b), b, a)


def _smaller(a, b, xp):
    return xp.where((b < a) | (b != b), b, a)


@operator("MaxRoiPool", since=1, host=("rois",))
def max_roi_pool(X, rois, /, *, pooled_shape, spatial_scale=1.0, xp):
    """For each region (image, x1, y1, x2, y2), rounded to whole pixels, the greatest element of each of its bins."""
    if X.ndim != 4 or rois.ndim != 2 or rois.shape[1] != 5 or len(pooled_shape) != 2 or min(pooled_shape) < 1:
        raise ValueError(
            f"X, rois and pooled_shape are {X.shape}, {rois.shape} and {list(pooled_shape)}; "
            "they must be (N, C, H, W), (number, 5) and two sizes"
        )
    regions = _corners(rois)
    pooled = []
    for image, region in zip(_images(X, [row[0] for row in regions]), regions, strict=True):
        x1, y1, x2, y2 = (_round_away(value * spatial_scale) for value in region[1:])
        part = X[image, ...]
        for axis, (start, end) in ((1, (y1, y2)), (2, (x1, x2))):
            part = _maxima(part, axis, start, max(end - start + 1, 1), pooled_shape[axis - 1], xp)
        pooled.append(part)
    return xp.stack(pooled, axis=0) if pooled else xp.zeros((0, X.shape[1], *pooled_shape), dtype=X.dtype)


def _round_away(x):
    """The nearest whole number, of two the one further from 0."""
    return int(math.copysign(math.floor(abs(x) + 0.5), x))


def _maxima(x, axis, start, length, count, xp):
    """The maxima of ``count`` overlapping bins of a run of x's axis; 0 where a bin lies outside."""
    size = x.shape[axis]
    parts = []
    for i in range(count):
        low = min(max(start + i * length // count, 0), size)
        high = min(max(start - (-(i + 1) * length // count), 0), size)
        index = (slice(None),) * axis + (slice(low, high), ...)
        shape = (*x.shape[:axis], *x.shape[axis + 1 :])
        parts.append(xp.max(x[index], axis=axis) if low < high else xp.zeros(shape, dtype=x.dtype))
    return xp.stack(parts, axis=axis)


# Boxes


@operator("NonMaxSuppression", since=10, host=("max_output_boxes_per_class", "iou_threshold", "score_threshold"))
def non_max_suppression(
    boxes,
    scores,
    max_output_boxes_per_class=None,
    iou_threshold=None,
    score_threshold=None,
    /,
    *,
    center_point_box=0,
    xp,
):
    """The (batch, class, box) indices that remain, best score first, when boxes that overlap a better one too much go.

    A box goes where intersection / union is above the threshold; of equal scores the lower index is first.
    """
    if boxes.ndim != 3 or scores.ndim != 3 or boxes.shape[2] != 4 or scores.shape[0::2] != boxes.shape[:2]:
        raise ValueError(
            f"boxes and scores have shapes {boxes.shape} and {scores.shape}; "
            "they must be (N, boxes, 4) and (N, classes, boxes)"
        )
    most, limit = int(_number(max_output_boxes_per_class) or 0), _number(iou_threshold) or 0.0
    least = _number(score_threshold)
    if not 0 <= limit <= 1:
        raise ValueError(f"iou_threshold {limit} must lie in 0 to 1")
    chosen = []
    for n, c in itertools.product(range(scores.shape[0]), range(scores.shape[1])) if most > 0 else ():
        found = _suppressed(boxes[n, ...], scores[n, c, :], most, limit, least, center_point_box, xp)
        chosen += [(n, c, box) for box in found]
    return xp.reshape(xp.as_index(itertools.chain.from_iterable(chosen)), (len(chosen), 3))


def _number(value):
    """A host input of at most one element as a Python number; None where there is none."""
    if value is None or 0 in value.shape:
        return None
    return one_number(value, "a limit or threshold", float)


def _suppressed(boxes, scores, most, limit, least, center_point_box, xp):
    """The indices of one class's boxes that remain, as Python numbers."""
    order = xp.argsort(-scores, stable=True)
    if least is not None:
        above = xp.take(scores > least, order)
        order = order[above]
    sides = _sides(xp.take(boxes, order, axis=0), center_point_box, xp)
    found = []
    while order.shape[0] and len(found) < most:
        found.append(xp.item(order[0]))
        best, others = sides[:, :1], sides[:, 1:]
        overlap = _smaller(best[2:4, :], others[2:4, :], xp) - _larger(best[:2, :], others[:2, :], xp)
        height, width = overlap[0, :], overlap[1, :]
        common = height * width
        union = best[4, :] + others[4, :] - common
        real = (height > 0) & (width > 0) & (best[4, :] > 0) & (others[4, :] > 0) & (union > 0)
        gone = real & (common / union > limit)
        order, sides = order[1:], others
        if xp.item(xp.any(gone)):
            kept = xp.nonzero(~gone)[0]
            order, sides = xp.take(order, kept), xp.take(sides, kept, axis=1)
    return found


def _sides(boxes, center_point_box, xp):
    """Boxes as an array (5, number): the lesser y and x, the greater ones, the area."""
    a, b, c, d = (boxes[:, i] for i in range(4))
    if center_point_box:
        half_width, half_height = c / 2, d / 2
        low, high = (b - half_height, a - half_width), (b + half_height, a + half_width)
    else:
        low, high = (_smaller(a, c, xp), _smaller(b, d, xp)), (_larger(a, c, xp), _larger(b, d, xp))
    area = (high[0] - low[0]) * (high[1] - low[1])
    return xp.stack([*low, *high, area], axis=0)
