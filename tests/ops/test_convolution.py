"""Convolution, transposed and deformable convolution, Col2Im."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import onemodel
from tests.ops.harness import arrays, check, like_onnxruntime, model, refused, run

RNG = np.random.default_rng(0)
Array = np.ndarray[Any, Any]


def row(values: Any, dtype: Any = np.float32) -> Array:
    """One sample of one channel with one spatial axis; also one filter."""
    return np.array([[values]], dtype)


def by_loops(x: Array, w: Array, pads: list[int], strides: list[int], dilations: list[int], group: int) -> Array:
    """Convolution by its definition, in float64."""
    rank = x.ndim - 2
    widths = [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)]
    x, w = np.pad(x.astype(np.float64), widths), w.astype(np.float64)
    reach = [d * (k - 1) + 1 for d, k in zip(dilations, w.shape[2:], strict=True)]
    sizes = [(n - r) // s + 1 for n, r, s in zip(x.shape[2:], reach, strides, strict=True)]
    y = np.zeros((len(x), len(w), *sizes))
    each = w.shape[1]
    for m, at in itertools.product(range(len(w)), itertools.product(*map(range, sizes))):
        first = m // (len(w) // group) * each
        index = (slice(i * s, i * s + r, d) for i, s, r, d in zip(at, strides, reach, dilations, strict=True))
        part = x[(slice(None), slice(first, first + each), *index)]
        y[(slice(None), m, *at)] = (part * w[m]).reshape(len(x), -1).sum(axis=1)
    return y


class TestConv:
    @pytest.mark.parametrize("rank", [1, 2, 3])
    @pytest.mark.parametrize(
        ("kernel", "stride", "dilation", "group", "pads"),
        [
            (1, 1, 1, 1, (0, 0)),
            (3, 1, 1, 1, (1, 1)),
            (3, 2, 1, 2, (0, 1)),
            (2, 1, 3, 1, (2, 0)),
            (3, 1, 1, 4, (1, 1)),
            (1, 3, 1, 2, (0, 0)),
            (2, 3, 2, 4, (1, 2)),
        ],
    )
    def test_by_its_definition(
        self, rank: int, kernel: int, stride: int, dilation: int, group: int, pads: tuple[int, int]
    ) -> None:
        sizes = (7, 5, 6)[:rank]
        x, w, b = arrays(RNG, (2, 4, *sizes), (8, 4 // group, *[kernel] * rank), (8,))
        options = {
            "pads": [pads[0]] * rank + [pads[1]] * rank,
            "strides": [stride] * rank,
            "dilations": [dilation] * rank,
            "group": group,
        }
        expected = by_loops(x, w, **options).astype(np.float32)  # type: ignore[arg-type]
        check(expected, "Conv", x, w, **options, atol=1e-5)
        check(expected + b.reshape(1, 8, *[1] * rank), "Conv", x, w, b, **options, atol=1e-5)

    @pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"])
    @pytest.mark.parametrize("stride", [1, 2, 3])
    def test_auto_pad_like_onnxruntime(self, auto_pad: str, stride: int) -> None:
        x, w = arrays(RNG, (1, 2, 7, 8), (3, 2, 2, 3))
        like_onnxruntime("Conv", x, w, auto_pad=auto_pad, strides=[stride, stride])

    def test_same_with_an_odd_pad(self) -> None:
        x, w = row([1, 2, 3, 4]), row([1, 10])
        check(row([21, 32, 43, 4]), "Conv", x, w, auto_pad="SAME_UPPER")
        check(row([10, 21, 32, 43]), "Conv", x, w, auto_pad="SAME_LOWER")

    def test_same_with_dilation(self) -> None:
        x, w = row([1, 2, 3, 4, 5]), row([1, 10])
        check(row([20, 31, 42, 53, 4]), "Conv", x, w, auto_pad="SAME_UPPER", dilations=[2])
        check(row([20, 42, 4]), "Conv", x, w, auto_pad="SAME_LOWER", dilations=[2], strides=[2])

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_types_and_opset_1(self, dtype: str) -> None:
        x, w = arrays(RNG, (1, 2, 5, 5), (2, 2, 3, 3), dtype=dtype)
        expected = by_loops(x, w, [0] * 4, [1, 1], [1, 1], 1).astype(dtype)
        check(expected, "Conv", x, w, kernel_shape=[3, 3], opset=6)

    def test_halves_are_rounded_once(self) -> None:
        # 1 + 2**-11 rounds to 1 in float16, so that adding the bias in float16 would give 1.
        x, w = row([1, 2**-11], np.float16), row([1, 1], np.float16)
        check(row([1 + 2**-10], np.float16), "Conv", x, w, np.array([2**-11], np.float16))
        x = row([256, 1, 1], ml_dtypes.bfloat16)
        check(row([258], ml_dtypes.bfloat16), "Conv", x, row([1, 1, 1], ml_dtypes.bfloat16))

    def test_empty_batch_and_no_channels(self) -> None:
        check(np.zeros((0, 3, 4), np.float32), "Conv", *arrays(RNG, (0, 2, 5), (3, 2, 2)))
        b = np.array([1, 2], np.float32)
        check(
            np.array([[[1] * 4, [2] * 4]], np.float32),
            "Conv",
            np.zeros((1, 0, 5), np.float32),
            np.zeros((2, 0, 2), np.float32),
            b,
        )

    def test_nan_stays_in_its_windows(self) -> None:
        check(row([np.nan, np.nan, 7, 9]), "Conv", row([1, np.nan, 3, 4, 5]), row([1, 1]))

    @pytest.mark.parametrize(
        ("shapes", "options", "message"),
        [
            (((1, 2, 5), (3, 1, 2)), {}, "2 channels do not fit"),
            (((1, 4, 5), (3, 2, 2)), {"group": 2}, "4 channels do not fit"),
            (((1, 2, 5), (3, 2, 2, 2)), {}, "the same rank"),
            (((1, 2), (3, 2)), {}, "the same rank"),
            (((1, 2, 5), (3, 2, 2), (2,)), {}, "B must have the shape (3,)"),
            (((1, 2, 5), (3, 2, 2)), {"kernel_shape": [3]}, "kernel_shape [3] is not that of W"),
            (((1, 2, 5), (3, 2, 2)), {"strides": [0]}, "strides [0]"),
            (((1, 2, 5), (3, 2, 2)), {"strides": [1, 1]}, "strides [1, 1] must be 1 numbers"),
            (((1, 2, 5), (3, 2, 2)), {"dilations": [0]}, "dilations [0]"),
            (((1, 2, 5), (3, 2, 2)), {"pads": [-1, 0]}, "pads [-1, 0]"),
            (((1, 2, 5), (3, 2, 2)), {"pads": [1, 0], "auto_pad": "SAME_UPPER"}, "exclude each other"),
            (((1, 2, 5), (3, 2, 2)), {"auto_pad": "SAME"}, "auto_pad 'SAME'"),
            (((1, 2, 5), (3, 2, 2)), {"dilations": [5]}, "reaches over 6 does not fit into 5 + 0 + 0 on axis 2"),
            (((1, 2, 5), (3, 2, 0)), {}, "kernel_shape [0]"),
        ],
    )
    def test_what_does_not_fit_is_refused(
        self, shapes: tuple[tuple[int, ...], ...], options: dict[str, Any], message: str
    ) -> None:
        refused(message, "Conv", *(np.ones(shape, np.float32) for shape in shapes), **options)


class TestConvTranspose:
    x, w = row([1, 2, 3]), row([1, 2, 4])

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({}, [1, 2, 6, 4, 11, 6, 12]),
            ({"auto_pad": "SAME_UPPER"}, [1, 2, 6, 4, 11, 6]),
            ({"auto_pad": "SAME_LOWER"}, [2, 6, 4, 11, 6, 12]),
            ({"output_shape": [6]}, [2, 6, 4, 11, 6, 12]),
            ({"output_shape": [6], "auto_pad": "SAME_UPPER"}, [1, 2, 6, 4, 11, 6]),
            ({"output_shape": [1, 1, 6]}, [2, 6, 4, 11, 6, 12]),
            ({"output_shape": [6], "output_padding": [1]}, [2, 6, 4, 11, 6, 12]),
            ({"output_shape": [8]}, [1, 2, 6, 4, 11, 6, 12, 0]),
            ({"output_padding": [1]}, [1, 2, 6, 4, 11, 6, 12, 0]),
            ({"pads": [1, 2]}, [2, 6, 4, 11]),
            ({"pads": [1, 1], "output_padding": [1]}, [2, 6, 4, 11, 6, 12]),
            ({"auto_pad": "VALID"}, [1, 2, 6, 4, 11, 6, 12]),
        ],
    )
    @pytest.mark.parametrize("opset", [6, 21])
    def test_pads(self, options: dict[str, Any], expected: list[float], opset: int) -> None:
        check(row(expected), "ConvTranspose", self.x, self.w, strides=[2], opset=opset, **options)

    def test_same_with_a_stride_beyond_the_kernel(self) -> None:
        # input * stride elements, and what the kernel does not reach is 0
        check(row([1, 0, 0, 2, 0, 0, 3, 0, 0]), "ConvTranspose", self.x, row([1]), strides=[3], auto_pad="SAME_UPPER")
        check(row([1, 0, 0, 2, 0, 0, 3, 0, 0]), "ConvTranspose", self.x, row([1]), strides=[3], output_shape=[9])

    def test_same_with_dilation(self) -> None:
        # The filter is 1 0 2 0 4 then.
        full = run("ConvTranspose", self.x, self.w, strides=[2], dilations=[2])
        np.testing.assert_array_equal(full, row([1, 0, 4, 0, 11, 0, 14, 0, 12]))
        check(full[..., 1:7], "ConvTranspose", self.x, self.w, strides=[2], dilations=[2], auto_pad="SAME_UPPER")
        check(full[..., 2:8], "ConvTranspose", self.x, self.w, strides=[2], dilations=[2], auto_pad="SAME_LOWER")

    @pytest.mark.parametrize("rank", [1, 2, 3])
    @pytest.mark.parametrize(
        ("kernel", "stride", "dilation", "group", "pads", "more"),
        [
            (1, 1, 1, 1, 0, 0),
            (3, 2, 1, 1, 1, 1),
            (2, 2, 1, 2, 0, 0),
            (3, 1, 2, 1, 2, 0),
            (2, 3, 2, 4, 1, 2),
            (3, 2, 2, 2, 1, 1),
            (4, 6, 4, 1, 0, 3),
            (1, 3, 1, 1, 0, 1),
        ],
    )
    def test_like_onnxruntime(
        self, rank: int, kernel: int, stride: int, dilation: int, group: int, pads: int, more: int
    ) -> None:
        x, w, b = arrays(RNG, (2, 4, *(4, 3, 5)[:rank]), (4, 2, *[kernel] * rank), (2 * group,))
        options = {
            "strides": [stride] * rank,
            "dilations": [dilation] * rank,
            "group": group,
            "pads": [pads] * 2 * rank,
            "output_padding": [more] * rank,
        }
        like_onnxruntime("ConvTranspose", x, w, b, atol=1e-5, **options)
        like_onnxruntime("ConvTranspose", x, w, atol=1e-5, opset=10, **options)

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_three_axes_add_in_the_order_of_the_input(self, dtype: str) -> None:
        x, w, b = arrays(RNG, (2, 4, 3, 2, 3), (4, 3, 2, 3, 2), (6,), dtype=dtype)
        stride, dilation, before = (2, 1, 3), (1, 2, 1), (1, 0, 1)
        sizes = [
            s * (n - 1) + d * (k - 1) + 1 for s, n, d, k in zip(stride, x.shape[2:], dilation, w.shape[2:], strict=True)
        ]
        y = np.zeros((2, 6, *sizes), dtype)
        for n, c, *at in np.ndindex(x.shape):
            for m, *tap in np.ndindex(w.shape[1:]):
                place = tuple(i * s + t * d for i, s, t, d in zip(at, stride, tap, dilation, strict=True))
                y[(n, c // 2 * 3 + m, *place)] += x[(n, c, *at)] * w[(c, m, *tap)]
        y = y[:, :, before[0] :, before[1] :, before[2] :] + b.reshape(1, 6, 1, 1, 1)
        options = {"strides": stride, "dilations": dilation, "group": 2, "pads": [*before, 0, 0, 0]}
        check(y, "ConvTranspose", x, w, b, rtol=0, atol=0, **options)

    def test_it_is_the_transpose_of_a_convolution(self) -> None:
        x, w, y = arrays(RNG, (1, 4, 9, 8), (6, 2, 3, 2), (1, 6, 5, 3), dtype=np.float64)
        options: dict[str, Any] = {"strides": [2, 3], "pads": [1, 0, 1, 0], "group": 2}
        forward = (run("Conv", x, w, **options) * y).sum()
        backward = (run("ConvTranspose", y, w, output_padding=[0, 0], **options) * x).sum()
        np.testing.assert_allclose(forward, backward, rtol=1e-12)

    def test_halves_and_empty_batches(self) -> None:
        check(row([1, 2, 1], np.float16), "ConvTranspose", row([1, 1], np.float16), row([1, 1], np.float16))
        check(
            row([1, 2, 1], ml_dtypes.bfloat16),
            "ConvTranspose",
            row([1, 1], ml_dtypes.bfloat16),
            row([1, 1], ml_dtypes.bfloat16),
        )
        check(np.zeros((0, 1, 5), np.float32), "ConvTranspose", np.zeros((0, 1, 3), np.float32), self.w)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"output_padding": [2]}, "output_padding [2] must be less"),
            ({"output_padding": [0, 0]}, "must have 1 numbers"),
            ({"output_shape": [1, 6]}, "must have 1 numbers"),
            ({"output_shape": [14]}, "is larger than 7 on axis 2 can become"),
            ({"output_shape": [0]}, "size on axis 2 is 0"),
            ({"pads": [4, 4]}, "size on axis 2 is -1"),
            ({"pads": [1, 1], "auto_pad": "SAME_LOWER"}, "exclude each other"),
            ({"kernel_shape": [2]}, "is not that of W"),
            ({"group": 2}, "does not fit W"),
            ({"group": 0}, "does not fit W"),
            ({"strides": [0]}, "strides [0]"),
        ],
    )
    def test_what_does_not_fit_is_refused(self, options: dict[str, Any], message: str) -> None:
        refused(message, "ConvTranspose", self.x, self.w, **{"strides": [2], **options})

    def test_wrong_bias_is_refused(self) -> None:
        refused("B must have the shape (1,)", "ConvTranspose", self.x, self.w, np.ones(2, np.float32))


class TestDeformConv:
    @pytest.mark.parametrize("rank", [1, 2, 3])
    def test_without_offsets_it_is_a_convolution(self, rank: int) -> None:
        x, w, b = arrays(RNG, (2, 4, *(5, 6, 4)[:rank]), (6, 2, *[2] * rank), (6,))
        options = {"group": 2, "pads": [1] * 2 * rank, "strides": [2] * rank, "dilations": [1] * rank}
        plain = run("Conv", x, w, b, **options)
        offset = np.zeros((2, 2 * 2**rank * rank, *plain.shape[2:]), np.float32)
        check(plain, "DeformConv", x, w, offset, b, offset_group=2, atol=1e-5, **options)

    @pytest.mark.parametrize("offset_group", [1, 2])
    def test_like_onnxruntime(self, offset_group: int) -> None:
        x, w, b = arrays(RNG, (2, 4, 6, 5), (2, 2, 3, 2), (2,))
        offset, mask = arrays(RNG, (2, offset_group * 12, 6, 6), (2, offset_group * 6, 6, 6))
        options = {"group": 2, "pads": [1, 1, 1, 1], "offset_group": offset_group}
        like_onnxruntime("DeformConv", x, w, offset, b, mask, atol=1e-5, **options)
        like_onnxruntime("DeformConv", x, w, offset, None, mask, atol=1e-5, **options)

    def test_between_and_beyond_the_elements(self) -> None:
        # One tap per window, moved half way, onto a neighbour, half over either edge, far out, by NaN, and a bit.
        x, w = row([10, 20, 30, 40, 50, 60, 70]), row([1])
        offset = row([0.5, 1, -2.5, 3.5, 99, np.nan, 0.25])
        check(row([15, 30, 5, 35, 0, 0, 52.5]), "DeformConv", x, w, offset)

    def test_what_lies_beyond_is_0_whatever_the_elements_are(self) -> None:
        x, w = row([np.inf, 20, 30, 40, 50, 60, 70]), row([1])
        offset = row([1.5, 1, 99, np.nan, 0.5, 1.5, 0.25])
        check(row([25, 30, 0, 0, 55, 35, 52.5]), "DeformConv", x, w, offset)

    @pytest.mark.parametrize("special", [np.nan, np.inf])
    def test_what_lies_outside_is_zero_whatever_stands_at_the_edge(self, special: float) -> None:
        # Far out on either side, by NaN, between the last two elements; then half over the edge instead.
        x, w, offset = row([special, 20, 30, 40]), row([1]), row([-9, 99, np.nan, -0.5])
        check(row([0, 0, 0, 35]), "DeformConv", x, w, offset)
        check(row([special / 2, 0, 0, 35]), "DeformConv", x, w, row([-0.5, 99, np.nan, -0.5]))

    @pytest.mark.parametrize(
        ("shapes", "options", "message"),
        [
            (((1, 2, 4, 4), (1, 2, 2, 2), (1, 4, 3, 3)), {}, "offset must have the shape (1, 8, 3, 3)"),
            (((1, 2, 4, 4), (1, 2, 2, 2), (1, 8, 2, 3)), {}, "offset must have the shape (1, 8, 3, 3)"),
            (((1, 2, 4, 4), (1, 1, 2, 2), (1, 8, 3, 3)), {}, "2 channels do not fit"),
            (((1, 2, 4, 4), (1, 2, 2, 2), (1, 24, 3, 3)), {"offset_group": 3}, "3 offset groups"),
        ],
    )
    def test_what_does_not_fit_is_refused(
        self, shapes: tuple[tuple[int, ...], ...], options: dict[str, Any], message: str
    ) -> None:
        refused(message, "DeformConv", *(np.ones(shape, np.float32) for shape in shapes), **options)

    def test_wrong_mask_is_refused(self) -> None:
        x, w, offset = (np.ones(shape, np.float32) for shape in ((1, 2, 4, 4), (1, 2, 2, 2), (1, 8, 3, 3)))
        refused("mask must have the shape (1, 4, 3, 3)", "DeformConv", x, w, offset, None, offset)


class TestCol2Im:
    @pytest.mark.parametrize(
        ("image", "block", "options"),
        [
            ((4, 5), (2, 3), {}),
            ((4, 5), (2, 2), {"strides": [2, 3]}),
            ((5, 6), (2, 2), {"dilations": [2, 3]}),
            ((4, 5), (3, 2), {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
            ((3, 4, 5), (2, 2, 3), {"strides": [1, 2, 1], "pads": [0, 1, 0, 0, 1, 2]}),
        ],
    )
    def test_like_onnxruntime(self, image: tuple[int, ...], block: tuple[int, ...], options: dict[str, Any]) -> None:
        ones = np.ones((1, 1, *image), np.float32)
        windows = run("Conv", ones, np.ones((1, 1, *block), np.float32), **options)
        (x,) = arrays(RNG, (2, 3 * int(np.prod(block)), windows.size))
        like_onnxruntime("Col2Im", x, np.array(image), np.array(block), **options)

    @pytest.mark.parametrize("dtype", ["int64", "uint8", "float16", "float64", "bool"])
    def test_types(self, dtype: str) -> None:
        x = np.array([[[1, 1, 0], [1, 0, 1]]]).astype(dtype)
        expected = [[[1, 2, 0, 1]]] if dtype != "bool" else [[[True, True, False, True]]]
        check(np.array([expected], dtype), "Col2Im", x, np.array([1, 4]), np.array([1, 2]))

    @pytest.mark.parametrize("mode", ["fast", "exact"])
    def test_strings_do_not_add_up(self, mode: str) -> None:
        x = np.full((1, 2, 3), "a", object)
        feeds = {"x0": x, "x1": np.array([1, 4]), "x2": np.array([1, 2])}
        session = onemodel.Session(model("Col2Im", list(feeds.values())), mode=mode)
        with pytest.raises(onemodel.ExecutionError, match=r"'node'.*Col2Im adds up .* no meaning for strings"):
            session.run(None, feeds)

    @pytest.mark.parametrize("shape", [(1, 2, 4), (1, 3, 3), (2, 3)])
    def test_wrong_shapes_are_refused(self, shape: tuple[int, ...]) -> None:
        refused(
            "must have the shape (N, C * 2, 3)",
            "Col2Im",
            np.ones(shape, np.float32),
            np.array([1, 4]),
            np.array([1, 2]),
        )
