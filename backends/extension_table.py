"""The table of the functions that operators need and the Array API standard lacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Array = Any
"""An array of whichever library the namespace is of."""

FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""Name to generic definition, which takes the namespace as ``xp``."""


def extension(function: Callable[..., Any]) -> Callable[..., Any]:
    """Enter a function in the table, under its own name."""
    FUNCTIONS[function.__name__] = function
    return function
