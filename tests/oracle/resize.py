"""Resize, Upsample, and what else reads an image between its pixels."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.oracle.draw import Case, Draw, draws
from tests.oracle.layers import near
from tests.oracle.shape import ints


@draws("Upsample")
def upsample(d: Draw) -> Case:
    shape = (1, d.integer(1, 2), d.integer(1, 4), d.integer(1, 4))
    scales = [1.0, 1.0, float(d.pick(1, 2, 3, 1.5)), float(d.pick(1, 2, 2.5))]
    mode = d.maybe("nearest", "linear")
    x = d.array(d.dtype(kinds="f" if mode == "linear" else ""), shape, "finite")
    if d.opset < 7:
        return d.case(x, mode="bilinear" if mode == "linear" else mode, height_scale=scales[2], width_scale=scales[3])
    if d.opset < 9:
        return d.case(x, mode=mode, scales=scales, rtol=1e-4, atol=1e-5, zeros=False)
    return d.case(x, np.array(scales, np.float32), mode=mode, rtol=1e-4, atol=1e-5, zeros=False)


@draws("Resize")
def resize(d: Draw) -> Case:
    """Scales of align_corners give whole sizes: of others the suite has other values than ONNX Runtime."""
    x = near(
        d, d.dtype("T1" if d.opset >= 11 else "T", kinds="f"), (1, d.integer(1, 2), d.integer(2, 5), d.integer(2, 5))
    )
    mode = d.maybe("nearest", "linear", "cubic" if d.opset >= 11 else "linear")
    target = [*x.shape[:2], *(d.integer(1, 2 * size + 1) for size in x.shape[2:])]
    scales = np.array([1, 1, *(d.pick(0.5, 1, 2, 3, 1.5) for _ in range(2))], np.float32)
    if d.opset < 11:
        return d.case(x, scales, mode=mode, rtol=1e-4, atol=1e-5)
    options: dict[str, Any] = {
        "mode": mode,
        "nearest_mode": d.maybe("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
    }
    options["coordinate_transformation_mode"] = d.maybe(
        "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"
    )
    if mode == "cubic":
        options |= {"cubic_coeff_a": d.maybe(-0.5), "exclude_outside": d.maybe(0, 1)}
    if d.opset >= 18 and mode in ("linear", "cubic"):
        options["antialias"] = d.maybe(0, 1)
    roi = np.zeros(0, np.float32) if d.opset < 13 else None
    if d.chance():
        scales_given = np.zeros(0, np.float32) if d.opset < 13 else None
        return d.case(x, roi, scales_given, ints(target), rtol=1e-4, atol=1e-4, zeros=False, **options)
    if options["coordinate_transformation_mode"] == "align_corners":
        scales = np.array([1, 1, d.pick(1, 2, 3), d.pick(1, 2, 3)], np.float32)
    return d.case(x, roi, scales, rtol=1e-4, atol=1e-4, zeros=False, **options)


@draws("GridSample")
def grid_sample(d: Draw) -> Case:
    volume = d.opset >= 20 and d.chance(0.3)
    rank = 3 if volume else 2
    x = near(
        d, d.dtype("T1", among=("float32", "float64")), (d.integer(1, 2), d.integer(1, 2), *d.integers(2, 4, rank))
    )
    grid = d.array(
        x.dtype if d.opset < 22 else np.float32, (x.shape[0], *d.integers(1, 4, rank), rank), "between", -1.3, 1.3
    )
    modes = ("linear", "nearest", "cubic") if d.opset >= 20 else ("bilinear", "nearest", "bicubic")
    mode = d.maybe(*(modes[:2] if volume else modes))
    padding = d.maybe("zeros", "border", "reflection")
    return d.case(
        x, grid, rtol=1e-3, atol=1e-3, zeros=False, mode=mode, padding_mode=padding, align_corners=d.maybe(0, 1)
    )


@draws("AffineGrid")
def affine_grid(d: Draw) -> Case:
    rank, batch = d.integer(2, 3), d.integer(1, 2)
    theta = near(d, d.dtype("T1", among=("float32", "float64")), (batch, rank, rank + 1))
    size = ints([batch, d.integer(1, 3), *d.integers(2, 4, rank)])
    return d.case(theta, size, rtol=1e-4, atol=1e-5, zeros=False, align_corners=d.maybe(0, 1))


def regions(d: Draw, count: int, size: int) -> Any:
    """Corners x1, y1, x2, y2 of boxes in an image."""
    low, extent = d.rng.uniform(0, size / 2, (count, 2)), d.rng.uniform(1, size, (count, 2))
    return np.concatenate([low, low + extent], axis=1)


@draws("RoiAlign")
def roi_align(d: Draw) -> Case:
    dtype, count, batch = d.dtype("T1"), d.integer(1, 3), d.integer(1, 2)
    x = near(d, dtype, (batch, d.integer(1, 2), 6, 7))
    batches = ints(d.integers(0, batch - 1, count))
    options: dict[str, Any] = {
        "mode": d.maybe("avg"),
        "sampling_ratio": d.maybe(0, 1, 2),
        "spatial_scale": d.maybe(0.5, 1.0),
    }
    if d.has("coordinate_transformation_mode"):
        options["coordinate_transformation_mode"] = d.maybe("half_pixel", "output_half_pixel")
    options |= {"output_height": d.maybe(1, 2, 3), "output_width": d.maybe(1, 2, 3)}
    return d.case(x, regions(d, count, 6).astype(dtype), batches, rtol=1e-3, atol=1e-4, zeros=False, **options)


@draws("MaxRoiPool")
def max_roi_pool(d: Draw) -> Case:
    dtype, count, batch = d.dtype(), d.integer(1, 3), d.integer(1, 2)
    x = near(d, dtype, (batch, d.integer(1, 2), 6, 7))
    rois = np.concatenate([d.rng.integers(0, batch, (count, 1)), np.round(regions(d, count, 6))], axis=1)
    return d.case(x, rois.astype(dtype), pooled_shape=d.integers(1, 3, 2), spatial_scale=d.maybe(0.5, 1.0), zeros=False)


@draws("NonMaxSuppression")
def non_max_suppression(d: Draw) -> Case:
    batch, count, classes = d.integer(1, 2), d.integer(1, 6), d.integer(1, 2)
    boxes = np.stack([regions(d, count, 4) for _ in range(batch)]).astype(np.float32)
    scores = d.array(np.float32, (batch, classes, count), d.pick("ties", "between"), 0, 1)
    most = d.maybe(ints(d.integer(0, 4)), probability=0.9)
    bounds = [d.maybe(np.array(d.real(low, 1), np.float32)) for low in (0, -1)]
    return d.case(boxes, scores, most, *bounds, center_point_box=d.maybe(0, 1))
