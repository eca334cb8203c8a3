"""Axes and sizes as operators read them: attributes, or host inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

T = TypeVar("T", int, float, bool)


def numbers(values: Any, kind: Callable[[Any], T]) -> list[T]:
    """The numbers of an attribute or a host input, a list or one number; none where it is omitted.

    Raises:
        ValueError: they stand in more than one dimension.
    """
    if values is None:
        return []
    rank = getattr(values, "ndim", 1)
    if rank > 1:
        raise ValueError(f"an input of numbers has shape {values.shape}; it must be one-dimensional")
    return [kind(value) for value in values] if rank else [kind(values)]


def integers(values: Any) -> list[int]:
    """``numbers`` that are integers."""
    return numbers(values, int)


def one_number(values: Any, name: str, kind: Callable[[Any], T]) -> T:
    """The number of a host input that is a scalar or of shape (1,), or a Python number itself.

    Raises:
        ValueError: there are none or several, they stand in more than one dimension, or ``kind`` has no such number.
    """
    if getattr(values, "shape", ()) not in ((), (1,)):
        raise ValueError(f"{name} of shape {values.shape} must be one number")
    value = values[0] if getattr(values, "ndim", 0) else values
    try:
        return kind(value)
    except (OverflowError, ValueError):
        raise ValueError(f"{name} is {value}; it must be a finite number") from None


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
