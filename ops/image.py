"""Decoding images, with Pillow."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from onemodel.ops.registry import operator

_FORMATS = ("BMP", "JPEG", "JPEG2000", "TIFF", "PNG", "WEBP", "PPM")
_MODES = {"RGB": "RGB", "BGR": "RGB", "Grayscale": "L"}


@operator(
    "ImageDecoder",
    since=20,
    host=("encoded_stream",),
    inexact="the pixels of lossy formats depend on the version of the decoding library",
)
def image_decoder(encoded_stream, /, *, pixel_format="RGB", xp):
    """The pixels of an image file, shape (height, width, channels); without pixels where it cannot be decoded."""
    if pixel_format not in _MODES:
        raise ValueError(f"pixel_format {pixel_format!r} is not RGB, BGR or Grayscale")
    if encoded_stream.ndim != 1:
        raise ValueError(f"encoded_stream of shape {encoded_stream.shape} must be one row of bytes")
    library = pillow()
    mode = _MODES[pixel_format]
    try:
        with library.open(io.BytesIO(encoded_stream.tobytes()), formats=_FORMATS) as image:
            pixels = _pixels(image, mode)
    except Exception:  # noqa: BLE001 - whatever the reason, the specification asks for an empty result
        return xp.zeros((0, 0, len(mode)), dtype=xp.uint8)
    pixels = pixels.reshape(*pixels.shape[:2], len(mode))
    return xp.from_host(np.ascontiguousarray(pixels[..., ::-1] if pixel_format == "BGR" else pixels))


def pillow() -> Any:
    """Pillow's ``Image``.

    Raises:
        ImportError: Pillow is not installed.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError(
            "ImageDecoder needs Pillow, which is not installed: pip install 'onemodel-runtime[image]'"
        ) from error
    return Image


def _pixels(image, mode):
    """The pixels of an opened image in a mode of 8 bits; of 16 bits the upper 8 are kept."""
    if image.mode.startswith("I;16"):
        grey = (np.asarray(image) >> 8).astype(np.uint8)
        return grey if mode == "L" else np.stack([grey] * 3, axis=2)
    return np.asarray(image.convert(mode))
