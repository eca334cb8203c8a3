"""What a place where ONNX Runtime is known wrong is; ``places`` has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.oracle.draw import Case

Right = Callable[[Case, list[Any] | None], list[Any] | Case]


@dataclass(frozen=True)
class Place:
    """One kind of case.

    Attributes:
        why: what ONNX Runtime does, what is right, and by what.
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


def place(*operators: str, when: Callable[[Case], bool], why: str, fatal: bool = False) -> Callable[[Right], Right]:
    """Enter the decorated function as the right value of ``operators`` in the cases that ``when`` picks."""

    def enter(right: Right) -> Right:
        PLACES.append(Place(operators, why, when, right, fatal))
        return right

    return enter


def find(case: Case) -> Place | None:
    """The place that a case belongs to."""
    return next((place for place in PLACES if case.op in place.operators and place.when(case)), None)
