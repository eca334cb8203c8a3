"""Axes and sizes as operators read them: attributes, or host inputs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def integers(values: Any) -> list[int]:
    """The integers of an attribute or a host input, whatever its shape; none where it is omitted."""
    if values is None:
        return []
    if getattr(values, "ndim", 1) == 0:
        return [int(values)]
    return [*map(int, values)]


def one_axis(axis: int, rank: int) -> int:
    """``axis`` of ``rank`` axes, counted from the front.

    Raises:
        ValueError: there is no such axis.
    """
    if not -rank <= axis < rank:
        expected = f"it goes from {-rank} to {rank - 1}" if rank else "a scalar has none"
        raise ValueError(f"axis {axis} is not one of {rank} axes; {expected}")
    return axis if axis >= 0 else axis + rank


def some_axes(axes: Iterable[int], rank: int) -> list[int]:
    """``axes`` of ``rank`` axes, counted from the front, in the order given.

    Raises:
        ValueError: one of them is not there, or is named twice.
    """
    found = [one_axis(axis, rank) for axis in axes]
    if len(set(found)) != len(found):
        raise ValueError(f"axes {found} name an axis twice")
    return found
