"""Operators with prepared weights: which inputs may be prepared, and that the bits stay the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from onemodel.backends import get_backend
from onemodel.ops import registry
from tests.exact.rationals import same_bits

XP = get_backend("numpy").namespace("exact")


def _normal(*shape: int) -> Any:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


def _right(w: Any) -> Any:
    return XP.as_factor(w, "right")


def _left(w: Any) -> Any:
    return XP.as_factor(w, "left")


def _filters(groups: int) -> Callable[[Any], Any]:
    return lambda w: XP.as_factor(w, "left", groups)


CASES: dict[str, tuple[str, list[Any], dict[str, Any], int, Callable[[Any], Any]]] = {
    "MatMul B": ("MatMul", [_normal(3, 5, 6), _normal(6, 4)], {}, 1, _right),
    "MatMul B, one row": ("MatMul", [_normal(6), _normal(6, 4)], {}, 1, _right),
    "MatMul B of many matrices": ("MatMul", [_normal(3, 5, 6), _normal(3, 6, 4)], {}, 1, _right),
    "MatMul A": ("MatMul", [_normal(5, 6), _normal(6, 4)], {}, 0, _left),
    "MatMul A by a vector": ("MatMul", [_normal(5, 6), _normal(6)], {}, 0, _left),
    "MatMul A by many matrices": ("MatMul", [_normal(5, 6), _normal(3, 6, 4)], {}, 0, _left),
    "Gemm B": ("Gemm", [_normal(5, 6), _normal(6, 4), _normal(4)], {"alpha": 0.5, "beta": 2.0}, 1, _right),
    "Gemm A": ("Gemm", [_normal(5, 6), _normal(6, 4)], {"transB": 0}, 0, _left),
    "Conv W": ("Conv", [_normal(2, 3, 9), _normal(4, 3, 3), _normal(4)], {"pads": [1, 1]}, 1, _filters(1)),
    "Conv W, groups": ("Conv", [_normal(2, 4, 7, 6), _normal(8, 2, 3, 2)], {"group": 2}, 1, _filters(2)),
    "Conv W, depthwise": ("Conv", [_normal(1, 4, 7, 6), _normal(4, 1, 3, 3)], {"group": 4}, 1, _filters(4)),
    "CausalConvWithState weight": ("CausalConvWithState", [_normal(2, 3, 7), _normal(3, 1, 4)], {}, 1, _filters(3)),
}
"""Operator, inputs, attributes, which input is prepared, and how. No other input of an operator may be prepared."""


@pytest.mark.parametrize("name", CASES)
def test_the_same_bits(name: str) -> None:
    op, inputs, attributes, index, prepare = CASES[name]
    entry = registry.find("", op, 28)
    assert entry is not None
    prepared = list(inputs)
    prepared[index] = prepare(inputs[index])
    results = [entry.function(*values, **attributes, xp=XP) for values in (inputs, prepared)]
    for got, want in zip(*(result if isinstance(result, tuple) else (result,) for result in results), strict=True):
        same_bits(got, want)


def test_the_fast_namespaces_take_weights_as_they_are() -> None:
    w = _normal(6, 4)
    for backend in ("numpy", "strict"):
        xp: Any = get_backend(backend).namespace("fast")
        value = xp.from_host(w)
        assert xp.as_factor(value, "right") is value
