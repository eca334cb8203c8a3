"""Constant factors of products, prepared once by the plan: the same bits, whatever side they stand on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onemodel import Session
from onemodel.backends.exact.products import Prepared
from tests.models_by_hand import constant, graph_model, node, subgraph

FLOAT, DOUBLE, BOOL = "tensor(float)", "tensor(double)", "tensor(bool)"
RNG = np.random.default_rng(7)


def numbers(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype(dtype)


CASES = [
    ("MatMul", (3, 4, 5), (5, 6), {}, 1),
    ("MatMul", (5,), (5, 6), {}, 1),
    ("MatMul", (2, 4, 6), (5, 4), {}, 0),
    ("MatMul", (3, 4, 5), (3, 5, 6), {}, 1),
    ("MatMul", (4, 5), (5,), {}, 1),
    ("Gemm", (4, 5), (5, 6), {}, 1),
    ("Gemm", (4, 5), (6, 5), {"transB": 1}, 1),
    ("Gemm", (5, 4), (6, 5), {"transA": 1, "transB": 1, "alpha": 0.5}, 1),
    ("Conv", (2, 4, 6, 6), (6, 2, 3, 3), {"group": 2, "pads": [1, 1, 1, 1]}, 1),
    ("Conv", (2, 4, 9), (6, 4, 3), {}, 1),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize(("op", "x_shape", "w_shape", "attributes", "place"), CASES)
def test_a_weight_gives_the_bits_of_a_feed(
    op: str, x_shape: tuple[int, ...], w_shape: tuple[int, ...], attributes: dict[str, Any], place: int, dtype: Any
) -> None:
    kind = {np.float32: FLOAT, np.float64: DOUBLE, np.float16: "tensor(float16)"}[dtype]
    names = ["x", "w"] if place else ["w", "x"]
    x, w = numbers(*x_shape, dtype=dtype), numbers(*w_shape, dtype=dtype)
    operator = node(op, names, ["y"], **attributes)
    fed = graph_model([operator], [("x", kind, None), ("w", kind, None)], ["y"])
    kept = graph_model([operator], [("x", kind, None)], ["y"], initializers=[constant("w", w)])
    expected, got = Session(fed)(x=x, w=w)["y"], Session(kept)(x=x)["y"]
    assert got.dtype == expected.dtype
    assert got.tobytes() == expected.tobytes()


def _prepared(session: Session) -> list[Any]:
    program = session._program(frozenset(), ())
    return [value for value in program.constants() if isinstance(value, Prepared)]


def test_a_weight_is_prepared_once_for_all_programs_and_counted() -> None:
    w = numbers(64, 64)
    model = graph_model(
        [
            node("MatMul", ["x", "w"], ["a"]),
            node("MatMul", ["a", "w"], ["b"]),
            node("Gemm", ["b", "w"], ["y"], transB=1),
        ],
        [("x", FLOAT, [1, 64])],
        ["y"],
        initializers=[constant("w", w)],
    )
    session = Session(model)
    session.run(["a", "b"], {"x": numbers(1, 64)})
    assert len({id(p) for p in _prepared(session)}) == 2, "one a side"
    assert session.memory() == {"constants": 2 * 3 * w.nbytes}
    assert not _prepared(Session(model, mode="fast"))


def test_a_weight_within_a_subgraph() -> None:
    w, x = numbers(5, 6), numbers(4, 5)
    branch = subgraph([node("MatMul", ["x", "w"], ["r"])], ["r"])
    model = graph_model(
        [node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)],
        [("x", FLOAT, None), ("c", BOOL, [])],
        ["y"],
        initializers=[constant("w", w)],
    )
    session = Session(model)
    assert len({id(p) for p in _prepared(session)}) == 1
    plain = graph_model([node("MatMul", ["x", "w"], ["y"])], [("x", FLOAT, None), ("w", FLOAT, None)], ["y"])
    assert session(x=x, c=np.array(True))["y"].tobytes() == Session(plain)(x=x, w=w)["y"].tobytes()
