"""The model and the digits that ``onemodel demo`` shows; ``bench/train_digits.py`` makes both."""

from __future__ import annotations

import io
import statistics
import time
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np

from onemodel.session import Session

Array = np.ndarray[Any, np.dtype[Any]]

INK = 16
"""The value of a black pixel; paper is 0."""
SAMPLES = 2
"""How many held-out digits of each class there are."""
TIMED_RUNS = 20


@dataclass(frozen=True)
class Reading:
    """What the model makes of a digit.

    Attributes:
        image: uint8 [8, 8], from 0 to 16.
        label: the right class.
        probabilities: float32 [10].
        seconds: the median time of a run, the first one left out.
        mode: the session's mode.
        backend: the session's backend.
    """

    image: Array
    label: int
    probabilities: Array
    seconds: float
    mode: str
    backend: str

    @property
    def answer(self) -> int:
        """The most probable class."""
        return int(self.probabilities.argmax())


def model_bytes() -> bytes:
    """The shipped model: ``image`` float32 [batch, 1, 8, 8] from 0 to 1 -> ``probabilities`` float32 [batch, 10]."""
    return files("onemodel").joinpath("data", "digits.onnx").read_bytes()


def held_out() -> tuple[Array, Array]:
    """Digits that the model was not trained on: images uint8 [20, 8, 8] from 0 to 16, and labels uint8 [20]."""
    with np.load(io.BytesIO(files("onemodel").joinpath("data", "digits.npz").read_bytes())) as content:
        return content["images"], content["labels"]


def as_input(image: Array) -> Array:
    """One image as the model takes it: float32 [1, 1, 8, 8] from 0 to 1."""
    return (image[None, None] / INK).astype(np.float32)


def read(digit: int, sample: int = 0, *, mode: str = "fast", backend: str = "numpy") -> Reading:
    """Run the model on one held-out digit.

    Args:
        digit: the class, 0 to 9.
        sample: which of that class, 0 or 1.
        mode: ``"fast"`` or ``"exact"``.
        backend: as ``SessionConfig`` takes it.

    Raises:
        OneModelError: whatever ``Session`` and its ``run`` raise.
    """
    images, labels = held_out()
    image = images[np.flatnonzero(labels == digit)[sample]]
    session = Session(model_bytes(), mode=mode, backend=backend, outputs="numpy")
    feeds = {"image": as_input(image)}
    (probabilities,) = session.run(None, feeds)
    times = []
    for _ in range(TIMED_RUNS):
        start = time.perf_counter()
        session.run(None, feeds)
        times.append(time.perf_counter() - start)
    return Reading(image, digit, probabilities[0], statistics.median(times), session.mode, session.backend)


def drawing(image: Array, *, unicode: bool = True) -> str:
    """An image as text: two characters a pixel, from blank (paper) to full (ink)."""
    ramp = " ░▒▓█" if unicode else " .:-=+*#%@"
    return "\n".join("".join(ramp[round(int(p) * (len(ramp) - 1) / INK)] * 2 for p in row) for row in image)


def bar(share: float, width: int, *, unicode: bool = True) -> str:
    """A bar of ``share`` (0 to 1) of ``width`` characters."""
    if not unicode:
        return "#" * round(share * width)
    whole, eighths = divmod(round(share * width * 8), 8)
    return "█" * whole + " ▏▎▍▌▋▊▉"[eighths].strip()
