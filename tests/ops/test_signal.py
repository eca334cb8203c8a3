"""DFT, STFT, windows, MelWeightMatrix."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.ops.harness import check, like_onnxruntime, refused, run


def signal(*shape: int, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def pairs(z: Any) -> Any:
    """Complex numbers as float32 pairs."""
    return np.stack([z.real, z.imag], axis=-1).astype(np.float32)


class TestDFT:
    @pytest.mark.parametrize("length", [None, 5, 8, 12])
    @pytest.mark.parametrize("axis", [0, 1, -2, -3])
    def test_forward(self, length: int | None, axis: int) -> None:
        x = signal(3, 8, 6, 2)
        z = x[..., 0] + 1j * x[..., 1]
        at = axis % 4
        n = None if length is None else np.array(length)
        given = [x, n, np.array(axis)]
        check(pairs(np.fft.fft(z, n=length, axis=at)), "DFT", *given, rtol=1e-4, atol=1e-4)
        real = [x[..., :1], *given[1:]]
        check(pairs(np.fft.fft(x[..., 0], n=length, axis=at)), "DFT", *real, rtol=1e-4, atol=1e-4)
        check(pairs(np.fft.rfft(x[..., 0], n=length, axis=at)), "DFT", *real, onesided=1, rtol=1e-4, atol=1e-4)

    @pytest.mark.parametrize("length", [None, 5, 8, 12])
    def test_inverse_divides_by_the_length(self, length: int | None) -> None:
        x = signal(3, 8, 2)
        z = x[..., 0] + 1j * x[..., 1]
        n = None if length is None else np.array(length)
        options: dict[str, Any] = {"inverse": 1, "rtol": 1e-4, "atol": 1e-5}
        check(pairs(np.fft.ifft(z, n=length, axis=1)), "DFT", x, n, **options)
        real = np.fft.irfft(z, n=length, axis=1).astype(np.float32)[..., None]
        check(real, "DFT", x, n, onesided=1, **options)
        assert real.shape[1] == (length or 14)

    def test_there_and_back(self) -> None:
        x = signal(2, 9, 1)
        z = run("DFT", x, onesided=1)
        assert z.shape == (2, 5, 2)
        check(x, "DFT", z, np.array(9), inverse=1, onesided=1)

    def test_by_hand(self) -> None:
        x = np.array([[[1], [2], [3], [4]]], np.float32)
        check(np.array([[[10, 0], [-2, 2], [-2, 0], [-2, -2]]], np.float32), "DFT", x)

    def test_default_axes(self) -> None:
        """1 before opset 20, the last signal axis from then on."""
        x = signal(2, 4, 6, 1)
        for opset, axis in ((17, 1), (20, 2)):
            check(pairs(np.fft.fft(x[..., 0], axis=axis)), "DFT", x, opset=opset, rtol=1e-4, atol=1e-5)
        check(pairs(np.fft.fft(x[..., 0], n=3, axis=2)), "DFT", x, np.array(3), opset=17, axis=2, rtol=1e-4, atol=1e-5)
        check(pairs(np.fft.fft(x[..., 0], axis=2)), "DFT", x, opset=17, axis=-2, rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize("options", [{}, {"onesided": 1}, {"inverse": 1}])
    def test_like_onnxruntime(self, options: dict[str, int]) -> None:
        x = signal(2, 10, 1 if "onesided" in options else 2)
        like_onnxruntime("DFT", x, None, np.array(1), opset=20, rtol=1e-4, atol=1e-5, **options)

    def test_other_types(self) -> None:
        x = signal(2, 8, 1, dtype=np.float64)
        got = run("DFT", x, rtol=1e-12)
        np.testing.assert_allclose(got[..., 0] + 1j * got[..., 1], np.fft.fft(x[..., 0], axis=1), rtol=1e-12)
        for dtype in (np.float16, ml_dtypes.bfloat16):
            half = x.astype(dtype)
            want = run("DFT", half.astype(np.float32)).astype(dtype)
            np.testing.assert_array_equal(run("DFT", half), want)

    def test_wrong_inputs_are_refused(self) -> None:
        x = signal(2, 8, 2)
        refused("onesided is for real signals", "DFT", x, onesided=1)
        refused("the last axis of (2, 8, 3)", "DFT", signal(2, 8, 3))
        for axis in (2, -1, 3, -4):
            refused(f"axis {axis} is not one of the signal axes", "DFT", x, None, np.array(axis))
        refused("dft_length 0 must be 1 or more", "DFT", x, np.array(0))
        refused("dft_length of shape (2,)", "DFT", x, np.array([1, 2]))


class TestSTFT:
    @pytest.mark.parametrize("onesided", [0, 1])
    @pytest.mark.parametrize(("step", "length"), [(4, 8), (3, 7), (20, 5), (1, 16)])
    def test_like_onnxruntime(self, onesided: int, step: int, length: int) -> None:
        x = signal(2, 30, 1)
        window = np.hanning(length).astype(np.float32)
        options: dict[str, Any] = {"onesided": onesided, "opset": 17, "rtol": 1e-4, "atol": 1e-4}
        like_onnxruntime("STFT", x, np.array(step), window, np.array(length), **options)
        want = run("STFT", x, np.array(step), window, np.array(length), onesided=onesided)
        assert want.shape == (2, (30 - length) // step + 1, length // 2 + 1 if onesided else length, 2)
        check(want, "STFT", x, np.array(step), window, onesided=onesided)
        plain = run("STFT", x * 0 + x, np.array(step), None, np.array(length), onesided=onesided)
        check(plain, "STFT", x, np.array(step), np.ones(length, np.float32), onesided=onesided)

    def test_complex_signals(self) -> None:
        x = signal(1, 12, 2)
        z = x[..., 0] + 1j * x[..., 1]
        want = np.stack([np.fft.fft(z[:, i : i + 4]) for i in range(0, 9, 2)], axis=1)
        check(pairs(want), "STFT", x, np.array(2), None, np.array(4), onesided=0, rtol=1e-4, atol=1e-5)

    def test_defaults_and_two_dimensions(self) -> None:
        x = signal(1, 10, 1)
        check(pairs(np.fft.rfft(x[..., 0]))[:, None], "STFT", x, np.array(3), rtol=1e-4, atol=1e-5)
        check(run("STFT", x, np.array(3), None, np.array(4)), "STFT", x[..., 0], np.array(3), None, np.array(4))

    def test_a_signal_shorter_than_a_frame_has_no_frames(self) -> None:
        check(np.zeros((2, 0, 5, 2), np.float32), "STFT", signal(2, 6, 1), np.array(1), None, np.array(8))

    def test_wrong_inputs_are_refused(self) -> None:
        x = signal(2, 8, 1)
        refused("must be (batch, length, 1)", "STFT", signal(2, 8, 3), np.array(1))
        refused("frame_step 0 and frame_length 4", "STFT", x, np.array(0), None, np.array(4))
        refused("must have frame_length, that is 4", "STFT", x, np.array(1), np.ones(3, np.float32), np.array(4))
        refused("onesided is for real signals", "STFT", signal(2, 8, 2), np.array(1))


class TestWindows:
    @pytest.mark.parametrize(
        ("op", "factors"),
        [("HannWindow", (0.5, -0.5)), ("HammingWindow", (25 / 46, -21 / 46)), ("BlackmanWindow", (0.42, -0.5, 0.08))],
    )
    @pytest.mark.parametrize("periodic", [0, 1])
    @pytest.mark.parametrize("size", [2, 3, 10, 511])
    def test_formula(self, op: str, factors: tuple[float, ...], periodic: int, size: int) -> None:
        n = size if periodic else size - 1
        want = np.sum([f * np.cos(2 * np.pi * k * np.arange(size) / n) for k, f in enumerate(factors)], axis=0)
        check(want.astype(np.float32), op, np.array(size), periodic=periodic)
        check(want, op, np.array(size), periodic=periodic, output_datatype=11)
        half = run(op, np.array(size), periodic=periodic, output_datatype=10)
        np.testing.assert_allclose(half.astype(float), want, atol=1e-3)
        like_onnxruntime(op, np.array(size), periodic=periodic, opset=17)

    def test_short_ones_and_integers(self) -> None:
        for op in ("HannWindow", "HammingWindow", "BlackmanWindow"):
            check(np.ones(1, np.float32), op, np.array(1), periodic=0)
            check(np.ones(0, np.float32), op, np.array(0))
        check(np.array([0, 0, 1, 0], np.int32), "HannWindow", np.array(4), output_datatype=6)
        refused("size -1 must be", "HannWindow", np.array(-1))


class TestMelWeightMatrix:
    def matrix(self, bands: int, length: int, rate: int, low: float, high: float) -> Any:
        def mel(f: float) -> float:
            return 2595 * math.log10(1 + f / 700)

        steps = [mel(low) + i * (mel(high) - mel(low)) / (bands + 2) for i in range(bands + 2)]
        edges = [math.floor((length + 1) * 700 * (10 ** (m / 2595) - 1) / rate) for m in steps]
        result = np.zeros((length // 2 + 1, bands))
        for i, (a, b, c) in enumerate(zip(edges, edges[1:], edges[2:], strict=False)):
            for at in range(a, b):
                result[at, i] = (at - a) / (b - a)
            for at in range(b, c):
                result[at, i] = (c - at) / (c - b)
            result[b, i] = 1
        return result

    @pytest.mark.parametrize(
        "given",
        [(8, 16, 8192, 0, 4096), (5, 33, 8000, 100, 3800), (40, 512, 16000, 20, 7600), (80, 400, 16000, 0, 8000)],
    )
    def test_values(self, given: tuple[Any, ...]) -> None:
        inputs = [*map(np.array, given[:3]), *(np.array(f, np.float32) for f in given[3:])]
        want = self.matrix(*given)
        check(want.astype(np.float32), "MelWeightMatrix", *inputs)
        check(want, "MelWeightMatrix", *inputs, output_datatype=11)
        like_onnxruntime("MelWeightMatrix", *inputs, opset=17)
        whole = run("MelWeightMatrix", *inputs, output_datatype=6)
        np.testing.assert_array_equal(whole, want.astype(np.int32))

    def test_bands_beyond_the_spectrum_are_cut_off(self) -> None:
        inputs = [np.array(4), np.array(8), np.array(1000), np.array(0, np.float32), np.array(2000, np.float32)]
        got = run("MelWeightMatrix", *inputs)
        assert got.shape == (5, 4)
        assert not got[:, 3].any()

    def test_wrong_inputs_are_refused(self) -> None:
        inputs = [np.array(4), np.array(8), np.array(1000), np.array(300, np.float32), np.array(200, np.float32)]
        refused("must be positive and rise", "MelWeightMatrix", *inputs)
