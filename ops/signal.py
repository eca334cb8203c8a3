"""Signals: Fourier transforms, windows, the mel scale."""

from __future__ import annotations

import math

from onemodel.ops.registry import operator


@operator("DFT", since=20, host=("dft_length", "axis"))
def dft(input, dft_length=None, axis=None, /, *, inverse=0, onesided=0, xp):
    """The discrete Fourier transform along an axis; the last axis holds the real part, or both parts.

    ``onesided`` keeps or takes the first half of the frequencies of a real signal; the inverse divides by the length.
    """
    axis = -2 if axis is None else _number("axis", axis)
    parts = input.shape[-1] if input.ndim > 1 else 0
    if parts not in (1, 2):
        raise ValueError(f"the last axis of {input.shape} must hold the real part, or the real and the imaginary part")
    if not -input.ndim <= axis < input.ndim or axis % input.ndim == input.ndim - 1:
        raise ValueError(f"axis {axis} is not one of the signal axes of {input.shape}")
    axis %= input.ndim
    size = input.shape[axis]
    length = 2 * (size - 1) if inverse and onesided else size
    length = length if dft_length is None else _number("dft_length", dft_length)
    if length < 1:
        raise ValueError(f"dft_length {length} must be 1 or more")
    if onesided and not inverse and parts == 2:
        raise ValueError("onesided is for real signals; this one has imaginary parts")
    return xp.fourier(input, axis, length, bool(inverse), bool(onesided))


@operator("DFT", since=17, host=("dft_length",))
def dft_before_opset_20(input, dft_length=None, /, *, axis=1, inverse=0, onesided=0, xp):
    """The axis is an attribute, by default the one after the batch."""
    return dft(input, dft_length, axis, inverse=inverse, onesided=onesided, xp=xp)


def _number(name, value, kind=int):
    """A host input of one element, or a Python number, as a number of ``kind``."""
    if isinstance(value, int):
        return value
    if math.prod(value.shape) != 1:
        raise ValueError(f"{name} of shape {value.shape} must be one number")
    while value.ndim:
        value = value[0]
    return kind(value)


@operator("STFT", since=17, host=("frame_step", "frame_length"))
def stft(signal, frame_step, window=None, frame_length=None, /, *, onesided=1, xp):
    """The Fourier transforms (batch, frames, frequencies, 2) of the frames of ``signal`` times the window.

    The signal is (batch, length, 1) or (batch, length, 2); (batch, length) is taken for real.
    """
    signal = xp.expand_dims(signal, axis=2) if signal.ndim == 2 else signal
    if signal.ndim != 3 or signal.shape[2] not in (1, 2):
        raise ValueError(f"signal of shape {signal.shape} must be (batch, length, 1) or (batch, length, 2)")
    step, size = _number("frame_step", frame_step), signal.shape[1]
    length = size if window is None else window.shape[0]
    length = length if frame_length is None else _number("frame_length", frame_length)
    if step < 1 or length < 1:
        raise ValueError(f"frame_step {step} and frame_length {length} must be 1 or more")
    if window is not None and tuple(window.shape) != (length,):
        raise ValueError(f"window of shape {window.shape} must have frame_length, that is {length} elements")
    frames = xp.windows(xp.permute_dims(signal, (0, 2, 1)), (length,), (step,), (1,))
    frames = frames if window is None else frames * window
    frames = xp.permute_dims(frames, (0, 2, 3, 1))
    if 0 in frames.shape:
        return xp.zeros((*frames.shape[:2], length // 2 + 1 if onesided else length, 2), dtype=signal.dtype)
    return dft(frames, None, 2, onesided=onesided, xp=xp)


# Windows


def _cosines(size, periodic, output_datatype, factors, xp):
    """The sum of factors[k] cos(2 pi k i / n) for i below ``size``, in float64; n is the size, or one less."""
    size = _number("size", size)
    if size < 0:
        raise ValueError(f"size {size} must be 0 or more")
    period = size if periodic else size - 1
    if period < 1:
        return xp.convert(xp.ones((max(size, 0),), dtype=xp.float64), output_datatype)
    total = xp.full((size,), factors[0], dtype=xp.float64)
    for k, factor in enumerate(factors[1:], start=1):
        # Whole turns are left out, so that the angles are as exact as they can be.
        angles = xp.asarray([2 * math.pi * (k * i % period) / period for i in range(size)], dtype=xp.float64)
        total = total + xp.cos(angles) * factor
    return xp.convert(total, output_datatype)


@operator("HannWindow", since=17, host=("size",))
def hann_window(size, /, *, output_datatype=1, periodic=1, xp):
    """0.5 - 0.5 cos(2 pi i / n)."""
    return _cosines(size, periodic, output_datatype, (0.5, -0.5), xp)


@operator("HammingWindow", since=17, host=("size",))
def hamming_window(size, /, *, output_datatype=1, periodic=1, xp):
    """25 / 46 - 21 / 46 cos(2 pi i / n)."""
    return _cosines(size, periodic, output_datatype, (25 / 46, -21 / 46), xp)


@operator("BlackmanWindow", since=17, host=("size",))
def blackman_window(size, /, *, output_datatype=1, periodic=1, xp):
    """0.42 - 0.5 cos(2 pi i / n) + 0.08 cos(4 pi i / n)."""
    return _cosines(size, periodic, output_datatype, (0.42, -0.5, 0.08), xp)


@operator(
    "MelWeightMatrix",
    since=17,
    host=("num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz"),
)
def mel_weight_matrix(
    num_mel_bins, dft_length, sample_rate, lower_edge_hertz, upper_edge_hertz, /, *, output_datatype=1, xp
):
    """Triangles of height 1 over the frequencies of a one-sided transform, evenly spaced on the mel scale.

    Column i rises from edge i to edge i + 1 and falls to edge i + 2. Edge i is i / (num_mel_bins + 2) of the way from
    the lower to the upper frequency in mel, 2595 log10(1 + f / 700), rounded down to a frequency of the transform.
    """
    bands = _number("num_mel_bins", num_mel_bins)
    length, rate = _number("dft_length", dft_length), _number("sample_rate", sample_rate)
    low, high = (
        _number("lower_edge_hertz", lower_edge_hertz, float),
        _number("upper_edge_hertz", upper_edge_hertz, float),
    )
    if bands < 0 or length < 1 or rate < 1 or not 0 <= low <= high < math.inf:
        raise ValueError(
            f"num_mel_bins {bands}, dft_length {length}, sample_rate {rate} and the edges {low} and {high} "
            "must be positive and rise"
        )
    if (length // 2 + 1) * bands >= 2**40:
        raise ValueError(f"a table of {length // 2 + 1} by {bands} weights is more than memory holds")
    edges = _mel_edges(bands, low, high, xp)
    edges = xp.floor(edges * (length + 1.0) / float(rate))
    start, peak, end = (xp.expand_dims(edges[i : i + bands], axis=0) for i in range(3))
    at = xp.reshape(xp.arange(length // 2 + 1, dtype=xp.float64), (-1, 1))
    zero, one = xp.constant(0, at), xp.constant(1, at)
    rise, fall = (xp.where(step > 0, step, one) for step in (peak - start, end - peak))
    table = xp.where((at > peak) & (at < end), (end - at) / fall, zero)
    table = xp.where((at >= start) & (at < peak), (at - start) / rise, table)
    return xp.convert(xp.where(at == peak, one, table), output_datatype)


def _mel_edges(bands, low, high, xp):
    """The lower frequency, and ``bands`` + 1 between the two, evenly spaced on the mel scale, in hertz and float64."""
    first = xp.asarray([low], dtype=xp.float64)
    ends = xp.log10(xp.asarray([1 + low / 700, 1 + high / 700], dtype=xp.float64)) * 2595.0
    steps = xp.arange(1, bands + 2, dtype=xp.float64)
    mel = ends[:1] + steps * (ends[1:] - ends[:1]) / (bands + 2.0)
    return xp.concat([first, (xp.pow(xp.full_like(mel, 10.0), mel / 2595.0) - 1.0) * 700.0])
