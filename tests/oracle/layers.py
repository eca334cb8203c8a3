"""Convolution, pooling, normalization, recurrent layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.oracle.draw import Case, Draw, draws
from tests.oracle.shape import ints


class Windows:
    """Spatial sizes and the attributes of a kernel that fits them."""

    def __init__(self, d: Draw, *, dilation: bool = True, most: int = 3) -> None:
        rank = d.pick(1, 2, 2, min(most, 3))
        self.kernel = d.integers(1, 3, rank)
        self.dilations: Any = d.maybe([d.pick(1, 1, 2) for _ in range(rank)]) if dilation else None
        reach = [(k - 1) * step + 1 for k, step in zip(self.kernel, self.dilations or [1] * rank, strict=True)]
        self.sizes = [d.integer(size, size + 3) for size in reach]
        self.strides = d.maybe(d.integers(1, 3, rank))
        self.auto_pad: Any = d.maybe("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER", probability=0.4)
        self.pads = (
            d.maybe([d.integer(0, k - 1) for k in self.kernel * 2]) if self.auto_pad in (None, "NOTSET") else None
        )

    @property
    def attributes(self) -> dict[str, Any]:
        names = ("strides", "dilations", "pads", "auto_pad")
        return {name: getattr(self, name) for name in names}


def near(d: Draw, dtype: Any, shape: Any) -> Any:
    """Finite numbers of moderate size, whose sums lie close in any order."""
    return d.array(dtype, shape, "between", -2, 2)


@draws("Conv")
def conv(d: Draw) -> Case:
    dtype, windows, group = d.dtype(), Windows(d), d.integer(1, 3)
    each, filters = d.integer(1, 2), group * d.integer(1, 2)
    x = near(d, dtype, (d.integer(1, 2), group * each, *windows.sizes))
    w = near(d, dtype, (filters, each, *windows.kernel))
    b = d.maybe(near(d, dtype, (filters,)))
    options = {"group": group if group > 1 else d.maybe(1), "kernel_shape": d.maybe(windows.kernel)}
    return d.case(x, w, b, rtol=1e-4, atol=1e-4, zeros=False, **options, **windows.attributes)


@draws("ConvTranspose")
def conv_transpose(d: Draw) -> Case:
    dtype, windows, group = d.dtype(), Windows(d), d.integer(1, 2)
    each, filters = d.integer(1, 2), d.integer(1, 2)
    x = near(d, dtype, (d.integer(1, 2), group * each, *windows.sizes))
    w = near(d, dtype, (group * each, filters, *windows.kernel))
    b = d.maybe(near(d, dtype, (group * filters,)))
    options = {"group": group if group > 1 else d.maybe(1), "kernel_shape": d.maybe(windows.kernel)}
    strides = windows.strides or [1] * len(windows.kernel)
    if windows.auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        strides = windows.strides = [min(stride, k) for stride, k in zip(strides, windows.kernel, strict=True)]
    if windows.auto_pad in (None, "NOTSET") and d.chance(0.3):
        options["output_padding"] = [d.integer(0, stride - 1) for stride in strides]
    return d.case(x, w, b, rtol=1e-4, atol=1e-4, zeros=False, **options, **windows.attributes)


@draws("ConvInteger")
def conv_integer(d: Draw) -> Case:
    windows, group = Windows(d), d.integer(1, 2)
    each, filters = d.integer(1, 2), group * d.integer(1, 2)
    x = d.array(d.dtype("T1"), (d.integer(1, 2), group * each, *windows.sizes))
    w = d.array(d.dtype("T2"), (filters, each, *windows.kernel))
    points = [d.maybe(d.array(a.dtype, (), "finite")) for a in (x, w)]
    return d.case(x, w, *points, group=group, kernel_shape=d.maybe(windows.kernel), **windows.attributes)


@draws("MaxPool", "AveragePool", "LpPool")
def pool(d: Draw) -> Case:
    windows = Windows(d, dilation=d.has("dilations"))
    x = near(d, d.dtype(), (d.integer(1, 2), d.integer(1, 3), *windows.sizes))
    options: dict[str, Any] = {"kernel_shape": windows.kernel, **windows.attributes}
    if d.has("ceil_mode"):
        options["ceil_mode"] = d.maybe(0, 1)
    if d.has("count_include_pad"):
        options["count_include_pad"] = d.maybe(0, 1)
    if d.has("storage_order"):
        options["storage_order"] = d.maybe(0, 1)
    if d.op == "LpPool":
        options["p"] = d.maybe(1, 2, 3)
    outputs = d.pick(1, 2) if d.op == "MaxPool" and d.opset >= 8 else 1
    return d.case(x, outputs=outputs, rtol=1e-4, atol=1e-5, zeros=False, **options)


@draws("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(d: Draw) -> Case:
    x = near(d, d.dtype(), (d.integer(1, 2), d.integer(1, 3), *d.shape(1, 3, empty=False)))
    return d.case(x, rtol=1e-4, zeros=False, p=d.maybe(1, 2, 3) if d.has("p") else None)


@draws("MaxUnpool")
def max_unpool(d: Draw) -> Case:
    rank = d.integer(1, 3)
    kernel, strides = d.integers(1, 3, rank), d.maybe(d.integers(1, 3, rank))
    sizes = d.integers(1, 3, rank)
    whole = [(n - 1) * s + k for n, k, s in zip(sizes, kernel, strides or [1] * rank, strict=True)]
    shape = (d.integer(1, 2), d.integer(1, 2), *sizes)
    count, image = int(np.prod(sizes)), int(np.prod(whole))
    if count > image:
        strides, whole, image = (
            kernel,
            [n * k for n, k in zip(sizes, kernel, strict=True)],
            int(np.prod(sizes) * np.prod(kernel)),
        )
    places = [plane * image + d.rng.permutation(image)[:count] for plane in range(shape[0] * shape[1])]
    index = np.concatenate(places).reshape(shape)
    return d.case(near(d, d.dtype("T1"), shape), ints(index), kernel_shape=kernel, strides=strides)


@draws("DeformConv")
def deform_conv(d: Draw) -> Case:
    group, offsets = d.integer(1, 2), d.integer(1, 2)
    kernel, out = d.integers(1, 3, 2), d.integers(1, 3, 2)
    dtype, each, filters = d.dtype(among=("float32", "float64")), offsets, group * d.integer(1, 2)
    batch, sizes = d.integer(1, 2), [n + k - 1 for n, k in zip(out, kernel, strict=True)]
    taps = offsets * kernel[0] * kernel[1]
    return d.case(
        near(d, dtype, (batch, group * each, *sizes)),
        near(d, dtype, (filters, each, *kernel)),
        near(d, dtype, (batch, 2 * taps, *out)),
        d.maybe(near(d, dtype, (filters,))),
        d.maybe(near(d, dtype, (batch, taps, *out))),
        rtol=1e-4,
        atol=1e-4,
        zeros=False,
        group=group,
        offset_group=offsets,
        kernel_shape=d.maybe(kernel),
        pads=[0, 0, 0, 0],
    )


@draws("Col2Im")
def col2im(d: Draw) -> Case:
    rank = d.integer(1, 3)
    block, out, strides = d.integers(1, 3, rank), d.integers(1, 3, rank), d.integers(1, 2, rank)
    dilations = d.integers(1, 2, rank)
    pads = [d.integer(0, 1) for _ in range(rank)] * 2
    zipped = zip(out, block, strides, dilations, pads, strict=False)
    image = [(n - 1) * s + (k - 1) * step + 1 - 2 * p for n, k, s, step, p in zipped]
    if min(image) < 1:
        pads, image = [0] * 2 * rank, [size + 2 * p for size, p in zip(image, pads, strict=False)]
    shape = (d.integer(1, 2), d.integer(1, 2) * int(np.prod(block)), int(np.prod(out)))
    x = d.array(d.dtype(kinds="iuf"), shape, "finite", -3, 3)
    options = {"strides": strides, "dilations": dilations, "pads": pads}
    return d.case(x, ints(image), ints(block), rtol=1e-4, atol=1e-5, zeros=False, **options)


@draws("BatchNormalization")
def batch_normalization(d: Draw) -> Case:
    dtype = d.dtype()
    statistics = d.dtype("T2") if d.opset >= 15 else d.dtype("U") if d.opset >= 14 else dtype
    scales = d.dtype("T1") if d.opset >= 15 else dtype
    shape = (d.integer(1, 3), channels := d.integer(1, 3), *d.shape(0, 3, empty=False))
    x, scale, bias, mean = (
        near(d, t, s) for t, s in ((dtype, shape), *((t, (channels,)) for t in (scales, scales, statistics)))
    )
    options = {"epsilon": d.maybe(1e-3), "momentum": d.maybe(0.5)}
    training = d.opset >= 14 and d.chance(0.3)
    if training:
        options["training_mode"] = 1
    if d.opset < 7:
        options["is_test"] = 1
    var = d.array(statistics, (channels,), "between", 0.1, 2)
    return d.case(x, scale, bias, mean, var, outputs=3 if training else 1, rtol=1e-3, atol=1e-3, zeros=False, **options)


@draws("InstanceNormalization", "GroupNormalization")
def instance_or_group(d: Draw) -> Case:
    dtype, groups = d.dtype(), d.integer(1, 2)
    channels = groups * d.integer(1, 2)
    x = near(d, dtype, (d.integer(1, 2), channels, *d.integers(2, 4, d.integer(1, 2))))
    per = groups if d.op == "GroupNormalization" and d.opset < 21 else channels
    number = groups if d.op == "GroupNormalization" else None
    scale, bias = (near(d, dtype, (per,)) for _ in range(2))
    options = {"epsilon": d.maybe(1e-3), "num_groups": number}
    return d.case(x, scale, bias, rtol=1e-3, atol=1e-3, zeros=False, **options)


@draws("LayerNormalization", "RMSNormalization")
def layer_normalization(d: Draw) -> Case:
    dtype = d.dtype()
    x = near(d, dtype, (*d.shape(0, 3, empty=False), d.integer(2, 4)))
    axis = d.axis(x.ndim)
    options = {"axis": axis if axis != -1 else d.maybe(-1), "epsilon": d.maybe(1e-3), "zeros": False}
    scale = near(d, dtype, d.pick(x.shape[axis:], x.shape[axis:], x.shape[-1:]))
    if d.op == "RMSNormalization":
        return d.case(x, scale, rtol=1e-3, atol=1e-3, **options)
    bias = d.maybe(near(d, dtype, scale.shape))
    return d.case(x, scale, bias, outputs=d.pick(1, 3), rtol=1e-3, atol=1e-3, **options)


@draws("LRN")
def local_response(d: Draw) -> Case:
    x = near(d, d.dtype(), (d.integer(1, 2), d.integer(1, 6), *d.shape(2, 2, empty=False)))
    given = {"alpha": d.maybe(0.5), "beta": d.maybe(0.3), "bias": d.maybe(2.0)}
    return d.case(x, rtol=1e-4, atol=1e-5, size=d.pick(1, 3, 5), **given)


@draws("LpNormalization")
def lp_normalization(d: Draw) -> Case:
    x = near(d, d.dtype(), d.shape(1, 4, empty=False))
    return d.case(x, rtol=1e-4, atol=1e-5, axis=d.maybe(d.axis(x.ndim)), p=d.maybe(1, 2))


@draws("MeanVarianceNormalization")
def mean_variance(d: Draw) -> Case:
    x = near(d, d.dtype(), (2, 3, *d.integers(2, 4, 2)))
    return d.case(x, rtol=1e-3, atol=1e-3, zeros=False, axes=d.maybe([0, 1, 2, 3], [2, 3], [1]))


GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
ACTIVATIONS = ("Tanh", "Sigmoid", "Relu", "LeakyRelu", "HardSigmoid", "Elu", "Softsign")
"""Without Softplus, of which ONNX Runtime makes infinity from 89 on; tests/ops/test_recurrent.py has it."""


@draws("RNN", "GRU", "LSTM")
def recurrent(d: Draw) -> Case:
    dtype = d.dtype(among=("float32", "float64", "float16"))
    steps, batch, size, hidden = d.integers(1, 4, 4)
    direction = d.maybe("forward", "reverse", "bidirectional")
    directions, rows = 2 if direction == "bidirectional" else 1, GATES[d.op] * hidden
    x, w, r = (near(d, dtype, s) for s in ((steps, batch, size), (directions, rows, size), (directions, rows, hidden)))
    lengths = d.maybe(np.array(d.integers(1, steps, batch), np.int32))
    optional = [near(d, dtype, (directions, 2 * rows)), lengths, near(d, dtype, (directions, batch, hidden))]
    if d.op == "LSTM":
        optional += [near(d, dtype, (directions, batch, hidden)), near(d, dtype, (directions, 3 * hidden))]
    optional = [d.maybe(value) for value in optional]
    options: dict[str, Any] = {"hidden_size": hidden, "direction": direction, "clip": d.maybe(0.7, probability=0.3)}
    if d.chance(0.4):
        count = {"RNN": 1, "GRU": 2, "LSTM": 3}[d.op] * directions
        options["activations"] = [d.pick(*ACTIVATIONS) for _ in range(count)]
    if d.op == "GRU":
        options["linear_before_reset"] = d.maybe(0, 1)
    if d.op == "LSTM":
        options["input_forget"] = d.maybe(0, 1)
    if d.has("layout") and d.chance(0.2):
        options["layout"] = 1
        first, x = 4 if d.op == "LSTM" else 3, np.moveaxis(x, 0, 1)
        states = [value if value is None else np.moveaxis(value, 0, 1) for value in optional[2:first]]
        optional = [*optional[:2], *states, *optional[first:]]
    outputs = [d.chance(0.8) for _ in range(3 if d.op == "LSTM" else 2)]
    if not any(outputs):
        outputs = [True]
    return d.case(x, w, r, *optional, outputs=outputs, rtol=1e-3, atol=1e-4, zeros=False, **options)
