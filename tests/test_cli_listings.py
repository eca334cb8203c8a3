"""``onemodel info`` and ``onemodel ops``: what they tell of models and of the operators."""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import onemodel
from onemodel import demo
from onemodel.ops import registry
from tests.command import fails, run, save

# info


def test_info_of_the_demo_model(tmp_path: Path) -> None:
    digits = tmp_path / "digits.onnx"
    digits.write_bytes(demo.model_bytes())
    result = run("info", digits)
    assert result.exit_code == 0, result.output
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert f"model: digits ({digits}, 25.3 kB)" in lines
    assert "producer: bench/train_digits.py 1" in lines
    assert "IR version: 10" in lines
    assert "opsets: ai.onnx 21" in lines
    assert any(line.startswith("initializers: 6, 24.4 kB") for line in lines)
    assert "image tensor(float) [batch, 1, 8, 8]" in lines
    assert "probabilities tensor(float) [batch, 10]" in lines
    histogram = {"Conv": 2, "Relu": 2, "MaxPool": 2, "Flatten": 1, "Gemm": 1, "Softmax": 1}
    for operator, count in histogram.items():
        assert f"ai.onnx {operator} {count}" in lines
    assert "operators without a definition" not in result.output


def test_info_tells_what_exact_mode_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @onemodel.operator("Fuzzy", domain="test.cli", since=1, inexact="it is fuzzy", register=False)
    def fuzzy(x: Any, /, *, xp: Any) -> Any:
        return x

    (entry,) = fuzzy.operators  # type: ignore[attr-defined]
    monkeypatch.setitem(registry._TABLE, entry.key, {1: entry})
    names = ["x", "a", "b"]
    model = save(
        tmp_path / "m.onnx",
        [helper.make_node("Fuzzy", [i], [o], f"node {i}", domain="test.cli") for i, o in pairwise(names)],
        [("x", TensorProto.FLOAT, [1])],
        [("b", TensorProto.FLOAT, [1])],
        opset_imports=[helper.make_opsetid("test.cli", 1), helper.make_opsetid("", 21)],
    )
    result = run("info", model)
    assert result.exit_code == 0, result.output
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert "refused by exact mode" in lines
    assert "test.cli::Fuzzy 1 2 it is fuzzy node x" in lines
    assert "The model runs with --mode fast." in lines
    result = run("run", model, "-i", "random")
    fails(result, "it is fuzzy")
    assert "--mode fast" in result.stderr


def test_info_tells_what_is_unsupported_in_subgraphs_and_functions(tmp_path: Path) -> None:
    branch = helper.make_graph(
        [helper.make_node("Strange", ["x"], ["t"], "inner", domain="other")],
        "branch",
        [],
        [helper.make_tensor_value_info("t", TensorProto.FLOAT, [1])],
        [numpy_helper.from_array(np.zeros(10, np.float32), "unused")],
    )
    function = helper.make_function(
        "local", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], [helper.make_opsetid("", 21)]
    )
    model = save(
        tmp_path / "m.onnx",
        [
            helper.make_node("If", ["c"], ["y"], "choose", then_branch=branch, else_branch=branch),
            helper.make_node("Twice", ["y"], ["z"], domain="local"),
        ],
        [("c", TensorProto.BOOL, []), ("x", TensorProto.FLOAT, [1])],
        [("z", TensorProto.FLOAT, [1])],
        opset_imports=[helper.make_opsetid(*item) for item in (("", 21), ("other", 3), ("local", 1))],
        functions=[function],
    )
    result = run("info", model)
    assert result.exit_code == 0, result.output
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert "functions: local::Twice" in lines
    assert "opsets: ai.onnx 21, other 3, local 1" in lines
    assert any(line.startswith("initializers: 2, 80 B") for line in lines)
    for row in ("other Strange 2", "local Twice 1", "ai.onnx Add 1", "ai.onnx If 1"):
        assert row in lines
    assert "operators without a definition" in lines
    assert any(line.startswith("other::Strange 3 2 not an ONNX operator inner") for line in lines)
    assert "The model does not run. See 'onemodel ops' for what does." in lines


def test_info_counts_external_data(tmp_path: Path) -> None:
    model = save(
        tmp_path / "m.onnx",
        [helper.make_node("Add", ["x", "w"], ["y"])],
        [("x", TensorProto.FLOAT, [None, 1000])],
        [("y", TensorProto.FLOAT, [None, 1000])],
        [numpy_helper.from_array(np.ones(1000, np.float32), "w")],
    )
    onnx.save(onnx.load(model), model, save_as_external_data=True, location="weights.bin", size_threshold=0)
    result = run("info", model)
    assert result.exit_code == 0, result.output
    assert "initializers: 1, 4 kB, 4 kB of it beside the file\n" in result.output
    assert "[?, 1000]" in result.output
    (tmp_path / "weights.bin").unlink()
    fails(run("info", model), "weights.bin")


def test_info_of_a_wrong_node_shows_the_model_and_fails(tmp_path: Path) -> None:
    model = save(
        tmp_path / "m.onnx",
        [helper.make_node("Relu", ["x"], ["y"], slope=0.5)],
        [("x", TensorProto.FLOAT, [1])],
        [("y", TensorProto.FLOAT, [1])],
    )
    result = run("info", model)
    assert result.exit_code == 1
    assert "IR version:   10" in result.stdout
    assert "'slope'" in result.stderr
    assert result.stderr.startswith("error: ")


def test_info_of_a_model_that_runs_exactly(tmp_path: Path) -> None:
    model = save(
        tmp_path / "m.onnx",
        [helper.make_node("Add", ["a", "a"], ["sum"])],
        [("a", TensorProto.FLOAT, ["n", 3])],
        [("sum", TensorProto.FLOAT, ["n", 3])],
    )
    result = run("info", model)
    assert result.exit_code == 0, result.output
    assert "The model runs in both modes, exact and fast." in result.output


def test_info_tells_that_pillow_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = save(
        tmp_path / "m.onnx",
        [helper.make_node("ImageDecoder", ["bytes"], ["pixels"])],
        [("bytes", TensorProto.UINT8, ["n"])],
        [("pixels", TensorProto.UINT8, [None, None, 3])],
    )
    assert run("info", model).output.endswith("The model runs with --mode fast.\n")
    monkeypatch.setitem(sys.modules, "PIL", None)
    lines = run("info", model).output.splitlines()
    assert lines[-2] == "The model runs with --mode fast."
    assert lines[-1].endswith("which is not installed: pip install 'onemodel-runtime[image]'.")


# check


def test_check_tells_how_each_node_is_computed(tmp_path: Path) -> None:
    digits = tmp_path / "digits.onnx"
    digits.write_bytes(demo.model_bytes())
    result = run("check", digits)
    assert result.exit_code == 0, result.output
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert "classes ai.onnx::Gemm 21 yes exact sum, rounded once: matmul" in lines
    assert "relu1 ai.onnx::Relu 21 yes -0 below +0, NaN kept: maximum" in lines
    assert "flatten ai.onnx::Flatten 21 yes moves, comparisons, single IEEE 754 operations" in lines
    softmax = "exact sum, rounded once: sum; correctly rounded: exp; -0 below +0, NaN kept: max"
    assert f"softmax ai.onnx::Softmax 21 yes {softmax}" in lines
    assert lines[-1] == "All 9 nodes are exact: the same bits on every machine."


def test_check_tells_what_hangs_on_the_type(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Exp", ["d"], ["e"], "of doubles"),
        helper.make_node("Exp", ["f"], ["g"], "of floats"),
        helper.make_node("ReduceSum", ["i"], ["s"], "of integers"),
        helper.make_node("Shape", ["d"], ["t"], "of no values"),
        helper.make_node("CumSum", ["f", "zero"], ["c"], "in order"),
    ]
    kinds = {"d": TensorProto.DOUBLE, "f": TensorProto.FLOAT, "i": TensorProto.INT64}
    model = save(
        tmp_path / "m.onnx",
        nodes,
        [(name, kind, [3]) for name, kind in kinds.items()],
        [
            (node.output[0], kinds.get(node.input[0], TensorProto.INT64), None)
            for node in nodes
            if node.op_type != "Shape"
        ],
        [numpy_helper.from_array(np.int64(0), "zero")],
    )
    result = run("check", model)
    assert result.exit_code == 0, result.output
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert "of doubles ai.onnx::Exp 21 yes fixed program, measured: exp" in lines
    assert "of floats ai.onnx::Exp 21 yes correctly rounded: exp" in lines
    assert "of integers ai.onnx::ReduceSum 21 yes integers, truth values or text: exact by themselves" in lines
    assert "of no values ai.onnx::Shape 21 yes reads shapes and types alone" in lines
    assert "in order ai.onnx::CumSum 21 yes fixed order of rounded steps: cumulative_sum" in lines


def test_check_tells_why_a_node_is_refused(tmp_path: Path) -> None:
    inside = helper.make_graph(
        [
            helper.make_node("RandomNormal", [], ["r"], "draw", shape=[1]),
            helper.make_node("Add", ["r", "x"], ["t"], "add"),
        ],
        "branch",
        [],
        [helper.make_tensor_value_info("t", TensorProto.FLOAT, [1])],
    )
    model = save(
        tmp_path / "m.onnx",
        [
            helper.make_node("If", ["c"], ["y"], "choose", then_branch=inside, else_branch=inside),
            helper.make_node("Strange", ["y"], ["z"], "odd", domain="other"),
        ],
        [("c", TensorProto.BOOL, []), ("x", TensorProto.FLOAT, [1])],
        [("z", TensorProto.FLOAT, [1])],
        opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("other", 1)],
    )
    result = run("check", model)
    assert result.exit_code == 1, result.output
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    (draw,) = [line for line in lines if line.startswith("draw in then_branch of If 'choose'")]
    assert "ai.onnx::RandomNormal 21 no " in draw
    assert "seed" in draw
    assert any(line.startswith("add in else_branch of If 'choose' ai.onnx::Add 21 yes") for line in lines)
    assert "odd other::Strange 1 no not an ONNX operator" in lines
    assert lines[-1] == "Exact mode refuses 3 of 6 nodes."
    assert result.stderr == ""


def test_check_and_info_name_the_seed_that_lets_a_node_draw(tmp_path: Path) -> None:
    model = save(
        tmp_path / "m.onnx",
        [helper.make_node("RandomNormal", [], ["y"], "draw", shape=[3])],
        [],
        [("y", TensorProto.FLOAT, [3])],
    )
    result = run("check", model)
    assert result.exit_code == 1
    assert "the node's attribute or --seed gives one" in result.output
    result = run("check", model, "--seed", 5)
    assert result.exit_code == 0, result.output
    assert "The node is exact" in result.output
    result = run("info", model)
    assert "the node's attribute or --seed gives one" in result.output
    assert result.output.endswith("The model runs with --mode fast, and in exact mode with --seed.\n")
    assert run("run", model, "--seed", 5).exit_code == 0


# ops


def test_ops_lists_every_operator_of_onnx() -> None:
    result = run("ops", "--json")
    assert result.exit_code == 0, result.output
    rows = {(row["domain"], row["name"]): row for row in json.loads(result.output)}
    for schema in onnx.defs.get_all_schemas_with_history():
        assert (schema.domain or "ai.onnx", schema.name) in rows
    add = rows["ai.onnx", "Add"]
    assert add == {
        "domain": "ai.onnx",
        "name": "Add",
        "opsets": [6, 7],
        "runs": "own entry",
        "exact": "yes",
        "deprecated": None,
    }
    assert rows["ai.onnx", "Upsample"]["deprecated"] == 10
    assert {row["runs"] for row in rows.values()} <= {"own entry", "ONNX function body", "nodes of the chain rule", "-"}
    assert {row["exact"] for row in rows.values()} <= {"yes", "no", "ints only", "-"}
    assert all((row["runs"] == "-") == (row["opsets"] == []) for row in rows.values())
    assert all((row["runs"] == "-") == (row["exact"] == "-") for row in rows.values())


def test_ops_filters() -> None:
    result = run("ops", "--filter", "POOL")
    assert result.exit_code == 0, result.output
    rows = [line for line in result.output.splitlines() if line.startswith("ai.onnx ")]
    assert rows
    assert all("pool" in row.lower() for row in rows)
    result = run("ops", "--domain", "ai.onnx.ml")
    assert "ai.onnx.ml" in result.output
    assert "MaxPool" not in result.output
    assert "LinearClassifier" in result.output
    fails(run("ops", "--domain", "nowhere"), "'nowhere' is none of", code=2)
    assert "0 of 0 operators run" in run("ops", "--filter", "nothing like this").output
