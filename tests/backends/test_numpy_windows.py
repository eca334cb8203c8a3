"""The native kernels of convolution and pooling on NumPy give what the generic forms give, whatever the blocks."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from onemodel.backends import extension_windows, get_backend, numpy_convolution, numpy_pooling

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(0)
xp = get_backend("numpy").namespace("fast")
BLOCKS = [1, 40, 300, 1 << 19]


def turned(x: Array) -> Array:
    """An equal array whose last axis is not the one that lies densely in memory."""
    order = (0, x.ndim - 1, *range(1, x.ndim - 1))
    return np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize(("rank", "sizes"), [(1, (9,)), (2, (6, 5)), (2, (3, 40)), (3, (4, 5, 6))])
@pytest.mark.parametrize("group", [1, 2, 4])
def test_convolution(
    monkeypatch: pytest.MonkeyPatch, block: int, rank: int, sizes: tuple[int, ...], group: int
) -> None:
    monkeypatch.setattr(numpy_convolution, "_BLOCK", block)
    for kernel, stride, dilation, batch in itertools.product((1, 2, 3), (1, 2), (1, 2), (0, 1, 3)):
        if dilation * (kernel - 1) >= min(sizes):
            continue
        x = RNG.standard_normal((batch, 4, *sizes))
        w = RNG.standard_normal((8, 4 // group, *[kernel] * rank))
        bias = RNG.standard_normal(8)
        arguments = (w, (stride,) * rank, (dilation,) * rank, group)
        expected = extension_windows.conv(x, *arguments, xp=xp)
        for given in (x, turned(x), x[:, ::-1][:, ::-1]):
            got = numpy_convolution.convolve(given, *arguments)
            np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)
            assert got.flags.c_contiguous
        with_bias = numpy_convolution.convolve(x, *arguments, bias)
        np.testing.assert_allclose(with_bias, expected + bias.reshape(8, *[1] * rank), rtol=1e-12, atol=1e-12)


def test_many_filters_of_narrow_images_take_the_other_way() -> None:
    x, w = RNG.standard_normal((2, 4, 6, 5)), RNG.standard_normal((80, 4, 3, 3))
    expected = extension_windows.conv(x, w, (1, 1), (1, 1), 1, xp=xp)
    np.testing.assert_allclose(numpy_convolution.convolve(x, w, (1, 1), (1, 1)), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize(
    "options",
    [
        {"kernel_shape": (3, 2)},
        {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)},
        {"kernel_shape": (2, 3), "dilations": (3, 2), "pads": (1, 2, 2, 1), "ceil_mode": 1, "strides": (2, 1)},
        {"kernel_shape": (2, 2), "dilations": (4, 4), "pads": (3, 3, 3, 3)},
        {"kernel_shape": (1, 1), "strides": (3, 2)},
    ],
)
def test_pooling(monkeypatch: pytest.MonkeyPatch, block: int, options: dict[str, Any]) -> None:
    monkeypatch.setattr(numpy_pooling, "_BLOCK", block)
    x = RNG.standard_normal((2, 3, 7, 6))
    windows: Any = xp.sliding(
        x.shape[2:],
        *(options.get(name) for name in ("kernel_shape", "strides", "dilations", "pads")),
        "NOTSET",
        options.get("ceil_mode", 0),
    )
    for given in (x, turned(x)):
        lowest = np.pad(x, [(0, 0), (0, 0), *windows.widths], constant_values=-np.inf)
        patches = xp.windows(lowest, windows.kernel, windows.strides, windows.dilations)
        largest = numpy_pooling.max_pool(given, **options, wanted=(True,), xp=xp)
        np.testing.assert_array_equal(largest, patches.max(axis=(-1, -2)))
        largest, index = numpy_pooling.max_pool(given, **options, wanted=(True, True), xp=xp)
        np.testing.assert_array_equal(largest, patches.max(axis=(-1, -2)))
        np.testing.assert_array_equal(x.reshape(-1)[index], largest)
        known = np.where(np.isinf(patches), np.nan, patches)
        mean = numpy_pooling.average_pool(given, **options, xp=xp)
        np.testing.assert_allclose(mean, np.nanmean(known, axis=(-1, -2)), rtol=1e-12)
