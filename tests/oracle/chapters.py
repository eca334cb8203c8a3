"""All entries of the tables."""

from __future__ import annotations

import importlib

NAMES = (
    "activation",
    "attention",
    "control",
    "elementwise",
    "indexing",
    "layers",
    "ml",
    "places",
    "quantization",
    "reduction",
    "resize",
    "shape",
    "text",
)


def load(*, places: bool = True) -> None:
    """Import the chapters, so that the tables are whole; without the places, ONNX Runtime need not be there."""
    for name in NAMES if places else (name for name in NAMES if name != "places"):
        importlib.import_module(f"tests.oracle.{name}")
