"""``onemodel run --digest`` and ``--record``, ``onemodel verify``: what agrees, and what is said to differ first."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import onemodel
from onemodel import digest
from onemodel.types import to_proto
from tests.command import fails, run, save
from tests.models_by_hand import graph_model, node


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """A product with a weight in external data, its exponential, and an int64 passed through."""
    path = save(
        tmp_path / "net.onnx",
        [
            helper.make_node("MatMul", ["x", "w"], ["p"]),
            helper.make_node("Exp", ["p"], ["e"]),
            helper.make_node("Identity", ["ids"], ["same"]),
        ],
        [("x", TensorProto.FLOAT, ["n", 8]), ("ids", TensorProto.INT64, ["n"])],
        [("e", TensorProto.FLOAT, ["n", 4]), ("same", TensorProto.INT64, ["n"])],
        [numpy_helper.from_array(np.arange(32, dtype=np.float32).reshape(8, 4) / 64, "w")],
    )
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    return path


@pytest.fixture
def record(net: Path, tmp_path: Path) -> Path:
    path = tmp_path / "run.json"
    result = run("run", net, "-i", "random", "--record", path)
    assert result.exit_code == 0, result.output
    assert f"wrote {path} (" in result.output
    assert f"wrote {tmp_path / 'run.inputs.npz'} (" in result.output
    return path


def _change(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def _rows(output: str) -> list[list[str]]:
    """What was compared, and ``same`` or ``differs``."""
    lines = [line.split("  ") for line in output.splitlines() if " same " in line or " differs " in line]
    return [[part.strip() for part in line if part.strip()][:2] for line in lines]


def test_digest_is_one_line(net: Path) -> None:
    result = run("run", net, "-i", "random", "--digest")
    assert result.exit_code == 0
    assert result.stderr == ""
    (line,) = result.stdout.splitlines()
    assert line.startswith(f"exact-{onemodel.EXACT_REVISION}:")
    assert run("run", net, "-i", "random", "--digest", "--threads", 2).stdout.splitlines() == [line]
    assert run("run", net, "-i", "random", "--digest", "--backend", "strict", "--mode", "exact").stdout == line + "\n"
    assert run("run", net, "-i", "random", "--digest", "--seed", 1).stdout != line + "\n"
    assert run("run", net, "-i", "random", "--digest", "--mode", "fast").stdout.startswith("fast-1:")


def test_a_record_says_what_was_run(net: Path, record: Path) -> None:
    content = json.loads(record.read_text())
    assert content["exact_revision"] == onemodel.EXACT_REVISION
    assert content["written_by"]["onemodel"] == onemodel.__version__
    assert content["model"]["path"] == "net.onnx"
    assert set(content["model"]["external_data"]) == {"weights.bin"}
    assert content["inputs"]["x"]["type"] == "tensor(float)"
    assert content["outputs"]["e"]["shape"] == "[1, 4]"
    assert content["digest"] + "\n" == run("run", net, "-i", "random", "--digest").stdout


def test_verify_what_is_the_same(record: Path) -> None:
    for options in ([], ["--threads", "1"], ["--backend", "strict"]):
        result = run("verify", record, *options)
        assert result.exit_code == 0, result.output
        assert _rows(result.output) == [
            [what, "same"]
            for what in (
                "exact revision",
                "model",
                "external data 'weights.bin'",
                "input 'x'",
                "input 'ids'",
                "output 'e'",
                "output 'same'",
                "digest",
            )
        ]
        assert result.output.endswith("The same, bit for bit.\n")


def test_verify_elsewhere(net: Path, record: Path, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    for path in (record, tmp_path / "run.inputs.npz"):
        path.rename(there / path.name)
    fails(run("verify", there / "run.json"), "net.onnx; pass --model")
    result = run("verify", there / "run.json", "--model", net)
    assert result.exit_code == 0, result.output


def test_external_data_in_another_folder(net: Path, record: Path, tmp_path: Path) -> None:
    line = run("run", net, "-i", "random", "--digest").stdout
    elsewhere = tmp_path / "weights"
    elsewhere.mkdir()
    (tmp_path / "weights.bin").rename(elsewhere / "weights.bin")
    commands = (["run", net, "-i", "random", "--digest"], ["verify", record], ["check", net], ["info", net])
    for command in commands:
        fails(run(*command), "copy it there, or pass --folder (the folder it lies in)\n")
        assert run(*command, "--folder", elsewhere).exit_code == 0
    assert run(*commands[0], "--folder", elsewhere).stdout == line
    fails(run(*commands[0], "--folder", tmp_path / "none"), "does not exist", code=2)


def _differs(record: Path, what: str, message: str) -> None:
    result = run("verify", record)
    assert result.exit_code == 1, result.output
    rows = _rows(result.output)
    first = next(row for row in rows if row[1] == "differs")
    assert first[0] == what
    assert message in result.output
    if not what.startswith("output"):
        assert rows[-1] == first, "nothing is compared after it"


def test_the_revision_differs_first(record: Path, net: Path) -> None:
    _change(record, lambda content: content.update(exact_revision=0))
    net.write_bytes(b"another")
    _differs(record, "exact revision", "Differs first: exact revision; outputs of two revisions may differ")


def test_another_revision_here(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onemodel.record.EXACT_REVISION", digest.EXACT_REVISION + 1)
    _differs(record, "exact revision", "Differs first: exact revision")


def test_the_model_differs_before_its_inputs(record: Path, net: Path, tmp_path: Path) -> None:
    proto = onnx.load(net, load_external_data=False)
    proto.doc_string = "changed"
    onnx.save(proto, net)
    np.savez(tmp_path / "run.inputs.npz", x=np.zeros((1, 8), np.float32), ids=np.zeros(1, np.int64))
    _differs(record, "model", "Differs first: model; nothing was run.")


def test_external_data_differs(record: Path, tmp_path: Path) -> None:
    weights = tmp_path / "weights.bin"
    data = weights.read_bytes()
    weights.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    _differs(record, "external data 'weights.bin'", "Differs first: external data 'weights.bin'; nothing was run.")


def test_an_input_differs(record: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.inputs.npz"
    arrays = dict(np.load(path))
    arrays["ids"] = arrays["ids"] + 1
    np.savez(path, **arrays)
    _differs(record, "input 'ids'", "Differs first: input 'ids'; nothing was run.")


def test_an_output_differs(record: Path) -> None:
    _change(record, lambda content: content["outputs"]["e"].update(sha256="0" * 64))
    _differs(record, "output 'e'", "Differs first: output 'e'.")
    _change(record, lambda content: content["outputs"].update(extra=content["outputs"]["e"]))
    assert ["output 'extra'", "differs"] in _rows(run("verify", record).output)


def test_an_output_is_gone_from_the_record(record: Path) -> None:
    _change(record, lambda content: content["outputs"].pop("e"))
    _differs(record, "output 'e'", "Differs first: output 'e'.")


def test_the_digest_differs(record: Path) -> None:
    _change(record, lambda content: content.update(digest="exact-1:" + "0" * 64))
    _differs(record, "digest", "Differs first: digest.")


def test_hashes_that_differ_look_different(record: Path) -> None:
    known = json.loads(record.read_text())["digest"]
    (row,) = [line for line in run("verify", record).output.splitlines() if line.startswith("digest")]
    assert row.split() == ["digest", "same", known[:24], known[:24]]
    edited = known[:-1] + ("1" if known[-1] == "0" else "0")
    _change(record, lambda content: content.update(digest=edited))
    (row,) = [line for line in run("verify", record).output.splitlines() if line.startswith("digest")]
    assert row.split() == ["digest", "differs", edited, known]


def test_the_seed_is_recorded(tmp_path: Path) -> None:
    model, path = tmp_path / "draw.onnx", tmp_path / "run.json"
    onnx.save(graph_model([node("RandomNormal", [], ["y"], shape=[4])], [], ["y"]), model)
    fails(run("run", model, "--record", path), "draws random numbers without a seed; the node's attribute or --seed")
    assert run("run", model, "--seed", 3, "--record", path).exit_code == 0
    assert json.loads(path.read_text())["seed"] == 3
    assert run("verify", path).exit_code == 0
    _change(path, lambda content: content.update(seed=4))
    _differs(path, "output 'y'", "Differs first: output 'y'.")


OWN = """
import onemodel

@onemodel.operator("Twice", domain="test.record", since=1, types=("x",), override=True)
def twice(x, /, *, xp):
    return x + x
"""


@pytest.mark.usefixtures("registry_restored")
def test_operators_of_ones_own(tmp_path: Path) -> None:
    model, own, path = tmp_path / "own.onnx", tmp_path / "own.py", tmp_path / "run.json"
    own.write_text(OWN)
    twice = node("Twice", ["x"], ["y"], domain="test.record")
    onnx.save(graph_model([twice], [("x", "tensor(float)", [2])], ["y"], domains={"test.record": 1}), model)
    for command in (["check", model], ["info", model]):
        assert run(*command, "--operators", own).exit_code == 0
    result = run("run", model, "-i", "random", "--operators", own, "--record", path)
    assert result.exit_code == 0, result.output
    assert ["operators 'own.py'", "same"] in _rows(run("verify", path, "--operators", own).output)
    _differs(path, "operators 'own.py'", "operators 'own.py'; nothing was run; pass the file with --operators.")
    copy, more = tmp_path / "copy.py", tmp_path / "more.py"
    copy.write_text(OWN)
    more.write_text(OWN.replace("x + x", "x * 3"))
    assert ["operators 'own.py'", "same"] in _rows(run("verify", path, "--operators", copy).output)
    result = run("verify", path, "--operators", own, "--operators", more)
    assert result.exit_code == 1
    assert _rows(result.output)[-2:] == [["operators 'own.py'", "same"], ["operators 'more.py'", "differs"]]
    assert (
        "operators 'more.py'; nothing was run; the recorded run had no such file, so verify without it."
        in result.output
    )
    own.write_text(OWN + "\n")
    result = run("verify", path, "--operators", own)
    assert result.exit_code == 1
    assert result.output.endswith("Differs first: operators 'own.py'; nothing was run.\n")
    own.write_text(OWN + "1 / 0\n")
    fails(run("check", model, "--operators", own), "own.py' cannot be run: ZeroDivisionError", code=2)


@pytest.mark.usefixtures("registry_restored")
def test_operators_in_two_files_of_one_name(tmp_path: Path) -> None:
    model, path = tmp_path / "own.onnx", tmp_path / "run.json"
    options: list[object] = []
    for folder, name in (("a", "Twice"), ("b", "Again")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "own.py").write_text(OWN.replace("Twice", name))
        options += ["--operators", tmp_path / folder / "own.py"]
    nodes = [node("Twice", ["x"], ["y"], domain="test.record"), node("Again", ["y"], ["z"], domain="test.record")]
    onnx.save(graph_model(nodes, [("x", "tensor(float)", [2])], ["z"], domains={"test.record": 1}), model)
    assert run("run", model, "-i", "random", *options, "--record", path).exit_code == 0
    assert len(json.loads(path.read_text())["operators"]) == 2
    assert run("verify", path, *options).exit_code == 0
    assert run("verify", path, *options[:2]).exit_code == 1


def test_a_fast_run_is_not_recorded(net: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    fails(run("run", net, "-i", "random", "--mode", "fast", "--record", path), "only exact runs are recorded")
    assert not path.exists()
    assert not (tmp_path / "run.inputs.npz").exists()


def test_nothing_is_written_over_the_model_or_the_inputs(net: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.json"
    model.write_bytes(net.read_bytes())
    for output, record in (("run.inputs.npz", "run.json"), ("out.npz", "model.json")):
        result = run("run", model, "-i", "random", "-o", tmp_path / output, "--record", tmp_path / record)
        fails(result, "one of these files would be written over another: ", code=2)
        assert not list(tmp_path.glob("*.npz"))
        assert not (tmp_path / "run.json").exists()
        assert model.read_bytes() == net.read_bytes()


def test_a_record_is_json(net: Path, tmp_path: Path) -> None:
    fails(run("run", net, "-i", "random", "--record", "run.txt"), "does not end with .json", code=2)
    fails(run("run", net, "-i", "random", "--record", tmp_path / "no" / "run.json"), "there is no folder", code=2)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "run.json is not JSON, so no record that 'onemodel run --record' wrote"),
        ("\x08\ud800", "run.json is not JSON"),
        ("[]", "run.json is no record that 'onemodel run --record' wrote: its parts are of other kinds"),
        ("{}", "run.json is no record that 'onemodel run --record' wrote: it lacks 'format'"),
        ('{"format": 1}', "it lacks 'model'"),
        ('{"format": 1, "exact_revision": 1, "model": 3}', "its parts are of other kinds"),
    ],
)
def test_what_is_no_record(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(content.encode("utf-8", "surrogatepass"))
    fails(run("verify", path), message)


def test_a_record_of_a_later_format(record: Path) -> None:
    _change(record, lambda content: content.update(format=2))
    fails(run("verify", record), "run.json is a record of format 2; this version reads format 1")


def test_hashes_that_are_no_text(record: Path) -> None:
    _change(record, lambda content: content["model"].update(external_data={"w.bin": 1}))
    fails(run("verify", record), "its parts are of other kinds")


def test_inputs_that_are_gone(record: Path, tmp_path: Path) -> None:
    (tmp_path / "run.inputs.npz").unlink()
    fails(run("verify", record), "they were written to run.inputs.npz beside it")


def test_values_that_an_npz_has_no_type_or_key_for(tmp_path: Path) -> None:
    """bfloat16, text, a sequence, an empty optional, and no input at all."""
    kinds = {
        "half": "tensor(bfloat16)",
        "text": "tensor(string)",
        "items": "seq(tensor(float))",
        "maybe": "optional(tensor(float))",
    }
    nodes = [
        *(helper.make_node("Identity", [name], [f"{name}_out"]) for name in kinds if name != "maybe"),
        helper.make_node("OptionalHasElement", ["maybe"], ["there"]),
    ]
    graph = helper.make_graph(
        nodes,
        "kinds",
        [helper.make_value_info(name, to_proto(kind)) for name, kind in kinds.items()],
        [onnx.ValueInfoProto(name=node.output[0]) for node in nodes],
    )
    model, inputs, record = tmp_path / "kinds.onnx", tmp_path / "in.npz", tmp_path / "run.json"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), model)
    half = np.array([1.5, -2], ml_dtypes.bfloat16).view(np.uint16)
    arrays = {
        "half:bfloat16": half,
        "text": np.array(["ü", ""]),
        "items[0]": np.float32([1]),
        "items[1]": np.float32([]),
    }
    np.savez(inputs, **arrays)
    result = run("run", model, "-i", inputs, "-i", "maybe=none", "--record", record)
    assert result.exit_code == 0, result.output
    result = run("verify", record)
    assert result.exit_code == 0, result.output
    assert len(_rows(result.output)) == 11


def test_a_model_without_inputs(tmp_path: Path) -> None:
    model = save(
        tmp_path / "constant.onnx",
        [helper.make_node("Constant", [], ["y"], value_float=1.5)],
        [],
        [("y", TensorProto.FLOAT, [])],
    )
    result = run("run", model, "--record", tmp_path / "run.json")
    assert result.exit_code == 0, result.output
    assert not (tmp_path / "run.inputs.npz").exists()
    assert run("verify", tmp_path / "run.json").exit_code == 0
