"""Whether CuPy can compute here, asked step by step, so that the error says what is missing."""

from __future__ import annotations

import importlib

from onemodel.backends.base import Unavailable

EXTRAS = "pip install 'onemodel-runtime[cuda13]' for CUDA 13, 'onemodel-runtime[cuda12]' for CUDA 12"


def probe(device: int | None) -> int:
    """``device``, or else the current one, where CuPy and this GPU are there.

    Raises:
        Unavailable: with the words of the loader or the driver.
    """
    try:
        cupy = importlib.import_module("cupy")
    except ImportError as error:
        raise Unavailable(
            f"backend 'cupy' needs CuPy, which cannot be imported: {error}. Install it: {EXTRAS}"
        ) from error
    if not cupy.is_available():
        raise Unavailable(f"backend 'cupy' finds no GPU: {_driver(cupy)}. It needs an NVIDIA GPU and its driver")
    try:
        cupy.cuda.nvrtc.getVersion()
        importlib.import_module("cupy_backends.cuda.libs.cublas")
    except (RuntimeError, ImportError) as error:
        raise Unavailable(
            f"backend 'cupy' lacks a CUDA library: {_line(error)}. Install it with CuPy: {EXTRAS}"
        ) from error
    count = cupy.cuda.runtime.getDeviceCount()
    if device is not None and device >= count:
        there = "device 0" if count == 1 else f"devices 0 to {count - 1}"
        raise Unavailable(f"backend 'cupy' has no device {device}; there is {there}")
    return int(cupy.cuda.runtime.getDevice()) if device is None else device


def _driver(cupy: object) -> str:
    """What the driver says."""
    try:
        count = cupy.cuda.runtime.getDeviceCount()  # type: ignore[attr-defined]
    except RuntimeError as error:
        return _line(error)
    return f"the driver counts {count} devices"


def _line(error: Exception) -> str:
    """The error's text on one line."""
    return " ".join(str(error).split())
