"""What operators need and the standard lacks: Fourier transforms of real and imaginary parts, and determinants.

Each is one function, because exact mode has a definition of its own in its place.
"""

from __future__ import annotations

from typing import Any

from onemodel.backends.extension_table import Array, extension


@extension
def fourier(x: Array, axis: int, length: int, inverse: bool, onesided: bool, /, *, xp: Any) -> Array:
    """The discrete Fourier transform along ``axis`` of ``length`` elements: x cut off, or with zeros after it.

    Args:
        x: float32 or float64; the last axis holds the real part, or both parts.
        axis: not the last one, counted from the front.
        length: the number of elements that are transformed.
        inverse: turn the other way, and divide by the length.
        onesided: give the first length // 2 + 1 frequencies of a real signal; of an inverse transform, take these and
            give a real signal.

    Returns:
        x's dtype, both parts on the last axis; the real part alone where the result is real.
    """
    if onesided and not inverse:
        return xp.split_complex(xp.fft.rfft(x[..., 0], n=length, axis=axis))
    signal = xp.join_complex(x if x.shape[-1] == 2 else xp.concat([x, xp.zeros_like(x)], axis=-1))
    if not inverse:
        return xp.split_complex(xp.fft.fft(signal, n=length, axis=axis))
    if not onesided:
        return xp.split_complex(xp.fft.ifft(signal, n=length, axis=axis))
    return xp.expand_dims(xp.fft.irfft(signal, n=length, axis=axis), axis=-1)


@extension
def determinant(x: Array, /, *, xp: Any) -> Array:
    """The determinant of each square matrix in the last two axes of ``x``, float32 or float64."""
    return xp.linalg.det(x)
