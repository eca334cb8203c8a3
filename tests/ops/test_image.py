"""Decoding images."""

from __future__ import annotations

import io
import sys
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import onemodel
from tests.ops.harness import check, model, refused, run, same

RNG = np.random.default_rng(0)
COLOURS = RNG.integers(0, 256, (5, 7, 3), np.uint8)
GREY = RNG.integers(0, 256, (5, 7), np.uint8)


def encoded(pixels: NDArray[Any] | Image.Image, kind: str, **options: Any) -> NDArray[np.uint8]:
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
    file = io.BytesIO()
    image.save(file, kind, **options)
    return np.frombuffer(file.getvalue(), np.uint8)


LOSSLESS: dict[str, dict[str, Any]] = {
    "BMP": {},
    "PNG": {},
    "TIFF": {},
    "PPM": {},
    "WEBP": {"lossless": True},
    "JPEG2000": {"irreversible": False},
}


@pytest.mark.parametrize("kind", LOSSLESS)
class TestLossless:
    def test_rgb(self, kind: str) -> None:
        check(COLOURS, "ImageDecoder", encoded(COLOURS, kind, **LOSSLESS[kind]))

    def test_bgr(self, kind: str) -> None:
        check(COLOURS[..., ::-1].copy(), "ImageDecoder", encoded(COLOURS, kind, **LOSSLESS[kind]), pixel_format="BGR")

    def test_grey_has_one_channel(self, kind: str) -> None:
        if kind == "WEBP":  # it has no grey images
            return
        data = encoded(GREY, kind, **LOSSLESS[kind])
        check(GREY[..., None], "ImageDecoder", data, pixel_format="Grayscale")
        check(np.stack([GREY] * 3, axis=2), "ImageDecoder", data)


def test_jpeg_is_near() -> None:
    smooth = np.add.outer(np.arange(16) * 8, np.arange(24) * 4).astype(np.uint8)
    pixels = np.stack([smooth, smooth // 2, 255 - smooth], axis=2)
    got = run("ImageDecoder", encoded(pixels, "JPEG", quality=95))
    assert np.abs(got.astype(int) - pixels).max() < 12


def test_colours_become_grey_by_their_luma() -> None:
    got = run("ImageDecoder", encoded(COLOURS, "PNG"), pixel_format="Grayscale")
    luma = COLOURS @ np.array([0.299, 0.587, 0.114])
    assert np.abs(got[..., 0] - luma).max() < 1


def test_transparency_is_left_out() -> None:
    pixels = np.concatenate([COLOURS, np.full((5, 7, 1), 255, np.uint8)], axis=2)
    check(COLOURS, "ImageDecoder", encoded(pixels, "PNG"))


def test_palettes_and_bits() -> None:
    palette = Image.fromarray(COLOURS).quantize(16)
    check(np.asarray(palette.convert("RGB")), "ImageDecoder", encoded(palette, "PNG"))
    bits = GREY > 100
    check((bits * np.uint8(255))[..., None], "ImageDecoder", encoded(bits, "PNG"), pixel_format="Grayscale")


def test_the_upper_half_of_16_bits() -> None:
    data = encoded(GREY.astype(np.uint16) * 256 + 17, "PNG")
    check(GREY[..., None], "ImageDecoder", data, pixel_format="Grayscale")
    check(np.stack([GREY] * 3, axis=2), "ImageDecoder", data)


@pytest.mark.parametrize(
    "data",
    [
        np.zeros((0,), np.uint8),
        np.frombuffer(b"no image at all", np.uint8),
        encoded(COLOURS, "PNG")[:60],
        encoded(GREY, "GIF"),
    ],
    ids=["nothing", "text", "cut off", "another format"],
)
def test_what_cannot_be_decoded_is_empty(data: NDArray[np.uint8]) -> None:
    same(run("ImageDecoder", data), np.zeros((0, 0, 3), np.uint8))
    same(run("ImageDecoder", data, pixel_format="Grayscale"), np.zeros((0, 0, 1), np.uint8))


def test_bad_input() -> None:
    refused("'CMYK' is not", "ImageDecoder", encoded(GREY, "PNG"), pixel_format="CMYK")
    refused("one row of bytes", "ImageDecoder", np.zeros((1, 2), np.uint8))


def test_pillow_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encoded(GREY, "PNG")
    monkeypatch.setitem(sys.modules, "PIL", None)
    refused("pip install 'onemodel-runtime[image]'", "ImageDecoder", data)


def test_exact_mode_refuses_it() -> None:
    with pytest.raises(onemodel.InexactOperatorError, match="lossy formats"):
        onemodel.Session(model("ImageDecoder", [np.zeros((3,), np.uint8)]), mode="exact")
