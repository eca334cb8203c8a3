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


def load() -> None:
    """Import the chapters, so that the tables are whole."""
    for name in NAMES:
        importlib.import_module(f"tests.oracle.{name}")
