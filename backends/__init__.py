"""Where numbers are computed: one array namespace per backend and mode."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onemodel.backends.base import Backend

NAMES = ("numpy", "cupy", "strict")


def get_backend(name: str, device: int | None = None) -> Backend:
    """The backend ``name`` on ``device``, or else on the one that is current now.

    Raises:
        Unavailable: its library or device is not there.
    """
    if name == "cupy":
        from onemodel.backends.cupy_probe import probe

        device = probe(device)
    return made(name, device)


@cache
def made(name: str, device: int | None) -> Backend:
    """See ``get_backend``."""
    from onemodel.backends.base import Unavailable

    if name == "cupy":
        from onemodel.backends.cupy_backend import CupyBackend

        return CupyBackend(device)
    if device is not None:
        raise Unavailable(f"backend {name!r} runs on the CPU and has no device {device}; leave device out")
    if name == "numpy":
        from onemodel.backends.numpy_backend import NumpyBackend

        return NumpyBackend()
    if name == "strict":
        from onemodel.backends.strict_backend import StrictBackend

        return StrictBackend()
    raise Unavailable(f"backend {name!r} is not known; the backends are {', '.join(map(repr, NAMES))}")
