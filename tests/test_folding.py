"""What is computed once when a session is made, what it may cost, and what the session keeps of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest

import onemodel
from onemodel import LimitError, Limits, Session
from onemodel.folding import size_of
from tests.models_by_hand import constant, graph_model, node, subgraph

FLOAT, BOOL = "tensor(float)", "tensor(bool)"
DOMAIN = "test.folding"
X = np.float32([1, 2, 3])
KIB = 1024


@pytest.fixture
def calls() -> list[tuple[int, ...]]:
    return []


@pytest.fixture
def count(calls: list[tuple[int, ...]]) -> Any:
    """An operator that returns its input and notes its shape."""

    def operator(x: Any, /, *, xp: Any) -> Any:
        calls.append(x.shape)
        return x

    return onemodel.operator("Count", domain=DOMAIN, since=1, register=False, types=("x",))(operator)


def model(nodes: Sequence[onnx.NodeProto], outputs: Sequence[str], **initializers: Any) -> onnx.ModelProto:
    tensors = [constant(name, np.asarray(array)) for name, array in initializers.items()]
    return graph_model(nodes, [("x", FLOAT, None)], outputs, initializers=tensors, domains={DOMAIN: 1})


def counted(value: str, made: str) -> onnx.NodeProto:
    return node("Count", [value], [made], domain=DOMAIN)


@pytest.mark.parametrize(
    "nodes",
    [
        [node("Unsqueeze", ["a", "axis"], ["column"]), node("Mul", ["a", "column"], ["huge"])],
        [node("OneHot", ["indices", "depth", "values"], ["huge"])],
        [node("Tile", ["a", "repeats"], ["huge"])],
        [node("Unsqueeze", ["a", "axis"], ["column"]), node("MatMul", ["column", "row"], ["huge"])],
        [node("Pad", ["a", "pads"], ["huge"])],
        [node("CastLike", ["bytes", "double"], ["huge"])],
        [node("GatherND", ["a", "zeros"], ["huge"])],
    ],
    ids=lambda nodes: nodes[-1].op_type,
)
def test_a_huge_result_is_not_computed(nodes: list[onnx.NodeProto], count: Any, calls: list[tuple[int, ...]]) -> None:
    made = model(
        [*nodes, counted("huge", "seen"), node("Shape", ["seen"], ["y"])],
        ["y"],
        a=np.zeros(300, np.float32),
        row=np.zeros((1, 300), np.float32),
        axis=[1],
        indices=np.zeros(300, np.int64),
        depth=np.array(300),
        values=np.zeros(2, np.float32),
        repeats=[300],
        pads=[90_000, 0],
        bytes=np.zeros(50_000, np.int8),
        double=np.zeros(1),
        zeros=np.zeros((90_000, 1), np.int64),
    )
    session = Session(made, mode="fast", operators=[count], limits=Limits(fold_bytes=80 * KIB))
    assert calls == []
    session(x=X)
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("nodes", "size", "folded"),
    [
        ([node("DFT", ["signal"], ["made"])], 60_000, False),
        ([node("DFT", ["signal"], ["made"])], 60, True),
        ([node("STFT", ["signal", "step"], ["made"])], 60_000, False),
        ([node("MatMul", ["a", "a"], ["made"])], 3000, False),
        ([node("Gemm", ["a", "a"], ["made"])], 30, True),
    ],
)
def test_what_takes_many_products_is_left_to_the_runs(
    nodes: list[onnx.NodeProto], size: int, folded: bool, count: Any, calls: list[tuple[int, ...]]
) -> None:
    data = {
        "signal": np.broadcast_to(np.float32(0.1), (1, size, 1)),
        "a": np.broadcast_to(np.float32(0.1), (size, size)),
        "step": np.array(size),
    }
    given = {name: array for name, array in data.items() if name in nodes[0].input}
    Session(model([*nodes, counted("made", "y")], ["y"], **given), operators=[count])
    assert bool(calls) == folded


def test_what_no_output_needs_is_not_computed(count: Any, calls: list[tuple[int, ...]]) -> None:
    branch = subgraph([counted("w", "unread"), counted("w", "read")], ["read"])
    made = model(
        [
            counted("w", "dead"),
            counted("w", "live"),
            node("If", ["yes"], ["z"], then_branch=branch, else_branch=branch),
            node("Add", ["live", "z"], ["y"]),
        ],
        ["y"],
        w=X,
        yes=np.array(True),
    )
    session = Session(made, mode="fast", operators=[count])
    assert len(calls) == 3, "live, and read in both branches"
    np.testing.assert_array_equal(session.run(["dead"], {"x": X})[0], X)


def test_results_share_one_budget() -> None:
    nodes = [node("Tile", ["w", "repeats"], [f"v{i}"]) for i in range(8)]
    made = model([*nodes, node("Concat", [f"v{i}" for i in range(8)], ["y"], axis=0)], ["y"], w=X, repeats=[1000])
    session = Session(made, mode="fast", limits=Limits(fold_bytes=5 * 12_000 + 100))
    assert session.memory()["constants"] <= 5 * 12_000 + 100
    np.testing.assert_array_equal(session(x=X)["y"], np.tile(X, 8000))


def test_strings_cost_their_characters() -> None:
    nodes = [node("StringConcat", [f"s{i}", f"s{i}"], [f"s{i + 1}"]) for i in range(30)]
    made = graph_model(nodes, [], ["s4"], initializers=[onnx.numpy_helper.from_array(np.array("ab", object), "s0")])
    assert size_of(Session(made).run(None, {})[0]) == 8 + 32
    made = graph_model(
        nodes[:20], [], ["s20"], initializers=[onnx.numpy_helper.from_array(np.array("ab", object), "s0")]
    )
    assert Session(made, limits=Limits(fold_bytes=4 * KIB)).memory()["constants"] <= 4 * KIB


def test_broadcast_strings_are_not_even_computed() -> None:
    column, row = np.full((100, 1), "a" * 100, object), np.full((1, 100), "b" * 100, object)
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in (("c", column), ("r", row))]
    made = graph_model([node("StringConcat", ["c", "r"], ["y"])], [], ["y"], initializers=tensors)
    assert size_of(Session(made).run(None, {})[0]) == 10_000 * 208
    assert Session(made, limits=Limits(fold_bytes=10_000 * 200)).memory()["constants"] < 2000


def test_sparse_tensors_share_one_budget() -> None:
    made = model([node("Add", ["x", "s0"], ["y"])], ["y"])
    for i in range(5):
        values = constant(f"s{i}", np.float32([1]))
        made.graph.sparse_initializer.append(
            onnx.helper.make_sparse_tensor(values, constant(f"i{i}", np.array([0])), [1000])
        )
    Session(made, mode="fast", limits=Limits(fold_bytes=24_000))
    with pytest.raises(LimitError, match=r"'s2' .* is float\[1000\] when made dense; Limits\(fold_bytes=...\) leaves"):
        Session(made, mode="fast", limits=Limits(fold_bytes=10_000))


def test_wanted_values_share_the_constants() -> None:
    nodes = [node("Neg", ["w"], ["v"]), node("Add", ["x", "v"], ["a"]), node("Mul", ["a", "v"], ["y"])]
    session = Session(model(nodes, ["y"], w=np.float32([1, 2, 3])), mode="fast")
    before = session.memory()
    a, _ = session.run(["a", "y"], {"x": X})
    np.testing.assert_array_equal(a, [0, 0, 0])
    np.testing.assert_array_equal(session.run(["v"], {"x": X})[0], -X)
    assert session.memory() == before == {"constants": 12}


def test_a_folded_value_can_be_asked_for_later() -> None:
    nodes = [node("Neg", ["w"], ["v"]), node("Neg", ["v"], ["u"]), node("Add", ["x", "u"], ["y"])]
    session = Session(model(nodes, ["y"], w=X), mode="fast")
    assert session.memory()["constants"] == 12, "v is not kept"
    np.testing.assert_array_equal(session.run(["v"], {"x": X})[0], -X)
    np.testing.assert_array_equal(session.run(["w", "u"], {"x": X}), [X, X])


def test_memory_counts_what_subgraphs_hold() -> None:
    branch = subgraph([node("Add", ["x", "k"], ["r"])], ["r"], initializers=[constant("k", X)])
    other = subgraph([node("Identity", ["x"], ["r"])], ["r"])
    made = graph_model(
        [node("If", ["c"], ["y"], then_branch=branch, else_branch=other)], [("x", FLOAT, None), ("c", BOOL, [])], ["y"]
    )
    assert Session(made, mode="fast").memory() == {"constants": 12}


def test_memory_counts_the_subgraphs_of_users_operators() -> None:
    def twice(x: Any, /, *, body: Any, xp: Any) -> Any:
        return body(*body(x))[0]

    operator = onemodel.operator("Twice", domain=DOMAIN, since=1, register=False, types=("x",))(twice)
    body = subgraph(
        [node("Add", ["a", "k"], ["r"])], ["r"], inputs=[("a", FLOAT, None)], initializers=[constant("k", X)]
    )
    session = Session(model([node("Twice", ["x"], ["y"], domain=DOMAIN, body=body)], ["y"]), operators=[operator])
    np.testing.assert_array_equal(session(x=X)["y"], 3 * X)
    assert session.memory() == {"constants": 12}


def test_a_session_keeps_few_programs() -> None:
    nodes = [node("Neg", [f"v{i}" if i else "x"], [f"v{i + 1}"]) for i in range(200)]
    session = Session(model(nodes, ["v200"]), mode="fast")
    for i in range(1, 200):
        np.testing.assert_array_equal(session.run([f"v{i}"], {"x": X})[0], X * (-1) ** i)
    assert len(session._programs) <= 64
