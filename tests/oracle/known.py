"""What a place is where ONNX Runtime is known wrong, or where exact mode has another value; ``places`` has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.oracle.draw import Case

Right = Callable[[Case, list[Any] | None], list[Any] | Case]


@dataclass(frozen=True)
class Place:
    """One kind of case.

    Attributes:
        why: what ONNX Runtime, or exact mode, does, what is right, and by what.
        when: whether a case is of this kind.
        right: the right outputs of such a case, or another case that means the same and that ONNX Runtime has right; it
            gets ONNX Runtime's outputs, None where it gave none.
        fatal: ONNX Runtime must not be asked, since the process would die.
    """

    operators: tuple[str, ...]
    why: str
    when: Callable[[Case], bool]
    right: Right
    fatal: bool = False


PLACES: list[Place] = []
"""Where ONNX Runtime is wrong."""
EXACT: list[Place] = []
"""Where exact mode by its definition gives another value than fast mode and ONNX Runtime."""


def place(*operators: str, when: Callable[[Case], bool], why: str, fatal: bool = False) -> Callable[[Right], Right]:
    """Enter the decorated function as the right value of ``operators`` in the cases that ``when`` picks."""

    def enter(right: Right) -> Right:
        PLACES.append(Place(operators, why, when, right, fatal))
        return right

    return enter


def exact(
    *operators: str, when: Callable[[Case], bool], why: str
) -> Callable[[Callable[[Case], list[Any]]], Callable[[Case], list[Any]]]:
    """Enter the decorated function as what exact mode gives of ``operators`` in the cases that ``when`` picks."""

    def enter(right: Callable[[Case], list[Any]]) -> Callable[[Case], list[Any]]:
        EXACT.append(Place(operators, why, when, lambda case, theirs: right(case)))
        return right

    return enter


def find(case: Case, places: Sequence[Place] = PLACES) -> Place | None:
    """The place that a case belongs to."""
    return next((place for place in places if case.op in place.operators and place.when(case)), None)


def exact_values(case: Case) -> list[Any] | None:
    """What exact mode gives of a case that belongs to ``EXACT``."""
    found = find(case, EXACT)
    if found is None:
        return None
    with np.errstate(all="ignore"):
        right = found.right(case, None)
    assert isinstance(right, list)
    return right
