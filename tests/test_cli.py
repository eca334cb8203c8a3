"""The command line: what each command prints, what it writes, and how it fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import onemodel
from onemodel import demo
from onemodel.cli import main
from tests.command import PLAIN, fails, run, save

ROOT = Path(__file__).parents[1]


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    path = tmp_path / "digits.onnx"
    path.write_bytes(demo.model_bytes())
    return path


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "image.npy"
    images, labels = demo.held_out()
    np.save(path, demo.as_input(images[labels == 7][0]))
    return path


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """The sum of ``a`` with itself, and an int64 passed through."""
    return save(
        tmp_path / "pairs.onnx",
        [helper.make_node("Add", ["a", "a"], ["sum"]), helper.make_node("Identity", ["ids"], ["same"])],
        [("a", TensorProto.FLOAT, ["n", 3]), ("ids", TensorProto.INT64, ["n"])],
        [("sum", TensorProto.FLOAT, ["n", 3]), ("same", TensorProto.INT64, ["n"])],
    )


# Help and version


@pytest.mark.parametrize("command", ["demo", "run", "verify", "check", "info", "ops"])
def test_help_of_each_command_has_examples_that_parse(command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    before, examples = result.output.split("Examples:\n")
    assert "--traceback" in before
    lines = [line.strip() for line in examples.strip().splitlines()]
    assert lines
    for line in lines:
        words = line.partition(" |")[0].split()
        assert words[:2] == ["onemodel", command]
        # Parsing alone: it raises for an unknown option or a malformed value.
        main.commands[command].make_context(command, words[2:])


def test_help_lists_every_command() -> None:
    result = run("--help")
    assert result.exit_code == 0
    for command in ("demo", "run", "verify", "check", "info", "ops", "--version"):
        assert f"  {command} " in result.output


def test_version() -> None:
    assert run("--version").output == f"onemodel {onemodel.__version__}\n"


# demo


def test_demo_reads_the_digit() -> None:
    result = run("demo", "--digit", 3)
    assert result.exit_code == 0, result.output
    assert "The network reads 3 (" in result.output
    assert "The label is 3: right." in result.output
    assert "mode: exact   backend: numpy   time: " in result.output
    images, labels = demo.held_out()
    for line in demo.drawing(images[labels == 3][0]).splitlines():
        assert line in result.output
    rows = [
        line.split("%")[0].split()[-2:] for line in result.output.splitlines() if "%" in line and "reads" not in line
    ]
    assert [row[0] for row in rows] == [str(i) for i in range(10)]
    assert sum(float(row[1]) for row in rows) == pytest.approx(100, abs=0.1)


def test_demo_differs_from_digit_to_digit() -> None:
    outputs = {run("demo", "--digit", digit, "--sample", sample).output for digit in (1, 8) for sample in (0, 1)}
    assert len(outputs) == 4


def test_demo_in_plain_ascii_where_the_terminal_has_no_more() -> None:
    result = run("demo", charset="ascii")
    assert result.exit_code == 0, result.output
    assert result.output.isascii()
    assert "@@" in result.output
    assert "###" in result.output


@pytest.mark.parametrize(
    ("option", "value"), [("--digit", "10"), ("--sample", "2"), ("--mode", "quick"), ("--backend", "x")]
)
def test_demo_usage_errors(option: str, value: str) -> None:
    fails(run("demo", option, value), f"Invalid value for '{option}'", code=2)


# run


def test_run_on_a_file_gives_the_right_class(digits: Path, image: Path, tmp_path: Path) -> None:
    result = run("run", digits, "--mode", "fast", "-i", f"image={image}", "-o", tmp_path / "out.npz")
    assert result.exit_code == 0, result.output
    assert "[1, 1, 8, 8]" in result.output
    assert str(image) in result.output
    assert "probabilities" in result.output
    assert "mode: fast   backend: numpy" in result.output
    assert f"wrote {tmp_path / 'out.npz'}" in result.output
    with np.load(tmp_path / "out.npz") as content:
        assert content.files == ["probabilities"]
        assert content["probabilities"].argmax() == 7


def test_run_on_random_inputs_is_repeatable(digits: Path, tmp_path: Path) -> None:
    outputs = []
    for seed, name in ((1, "a.npz"), (1, "b.npz"), (2, "c.npz")):
        result = run(
            *("run", digits, "--mode", "fast", "-i", "random", "--set", "batch=4"),
            *("--seed", seed, "--threads", 1, "-o", tmp_path / name),
        )
        assert result.exit_code == 0, result.output
        assert f"random, seed {seed}" in result.output
        outputs.append(np.load(tmp_path / name)["probabilities"])
    assert outputs[0].shape == (4, 10)
    assert np.array_equal(outputs[0], outputs[1])
    assert not np.array_equal(outputs[0], outputs[2])


def test_run_reads_and_writes_npz(pairs: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", a=np.arange(6, dtype=np.float32).reshape(2, 3), numbers=np.array([5, 6]))
    result = run(
        *("run", pairs, "-i", tmp_path / "in.npz", "-i", f"ids={tmp_path / 'in.npz'}:numbers"),
        *("-o", tmp_path / "out.npz"),
    )
    assert result.exit_code == 0, result.output
    assert "0, 2, 4, 6, 8, 10" in result.output
    assert "5, 6" in result.output
    assert "mode: exact" in result.output
    with np.load(tmp_path / "out.npz") as content:
        assert content["sum"].tolist() == [[0, 2, 4], [6, 8, 10]]
        assert content["same"].tolist() == [5, 6]


def test_run_names_the_dimensions_that_it_chose(pairs: Path) -> None:
    result = run("run", pairs, "-i", "random")
    assert result.exit_code == 0, result.output
    assert result.output.count("random, seed 0, n = 1") == 2
    assert "n = 1" not in run("run", pairs, "-i", "random", "--set", "n=3").output


def test_run_keeps_small_types_and_strings(tmp_path: Path) -> None:
    types = {"half": TensorProto.BFLOAT16, "text": TensorProto.STRING}
    model = save(
        tmp_path / "m.onnx",
        [helper.make_node("Identity", [name], [f"{name}_out"]) for name in types],
        [(name, code, ["n"]) for name, code in types.items()],
        [(f"{name}_out", code, ["n"]) for name, code in types.items()],
    )
    half = np.array([1, 2.5, np.nan], ml_dtypes.bfloat16)
    arrays: dict[str, Any] = {"half:bfloat16": half.view(np.uint16), "text": np.array(["a", "", "Grüße"])}
    np.savez(tmp_path / "in.npz", **arrays)
    result = run("run", model, "-i", tmp_path / "in.npz", "-o", tmp_path / "out.npz")
    assert result.exit_code == 0, result.output
    assert "tensor(bfloat16)" in result.output
    assert "1, 2.5, nan" in result.output
    assert "'a', '', 'Grüße'" in result.output
    with np.load(tmp_path / "out.npz") as content:
        assert np.array_equal(content["half_out:bfloat16"], half.view(np.uint16))
        assert content["text_out"].tolist() == ["a", "", "Grüße"]


def test_run_feeds_initializers_by_name(tmp_path: Path) -> None:
    model = save(
        tmp_path / "m.onnx",
        [helper.make_node("Add", ["x", "w"], ["y"])],
        [("x", TensorProto.FLOAT, [1]), ("w", TensorProto.FLOAT, [1])],
        [("y", TensorProto.FLOAT, [1])],
        [numpy_helper.from_array(np.full(1, 10, np.float32), "w")],
    )
    np.savez(tmp_path / "in.npz", x=np.ones(1, np.float32), w=np.full(1, 100, np.float32))
    assert "11" in run("run", model, "-i", f"x={tmp_path / 'in.npz'}").output
    result = run("run", model, "-i", f"x={tmp_path / 'in.npz'}", "-i", f"w={tmp_path / 'in.npz'}")
    assert result.exit_code == 0, result.output
    assert "101" in result.output


def test_run_shows_ranges_of_large_outputs(pairs: Path, tmp_path: Path) -> None:
    a = np.full((300, 3), 1, np.float32)
    a[7] = [np.nan, -4, 5]
    np.savez(tmp_path / "in.npz", a=a, ids=np.arange(300))
    result = run("run", pairs, "-i", tmp_path / "in.npz")
    assert result.exit_code == 0, result.output
    assert f"-8 to 10, mean {np.nanmean(2 * a):.6g}, 1 NaN" in result.output
    assert "0 to 299, mean 149.5" in result.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "no value for 2 inputs, among them 'a'; give -i a=FILE.npy or -i a=random"),
        (["-i", "a=random"], "no value for input 'ids'"),
        (["-i", "a=random"], "a tensor(float) [n, 3]; ids tensor(int64) [n]"),
        (["-i", "b=random"], "the model has no input 'b'"),
        (["-i", "random", "--set", "m=2"], "the model has no symbolic dimension 'm'; it has 'n'"),
        (["-i", "a=missing.npy"], "missing.npy: No such file or directory"),
        (["-i", "random", "-i", "a=random:4"], "input 'a' expects 2 dimensions"),
        (["-i", "random", "-i", "a=random:4x5"], "input 'a' expects shape [n, 3]; got [4, 5]"),
        (["-i", "random", "-i", "ids=none"], "input 'ids' is tensor(int64), which cannot be none"),
    ],
)
def test_run_errors(pairs: Path, options: list[str], message: str) -> None:
    fails(run("run", pairs, *options), message)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-i", "a="], "'a=' lacks a value after '='"),
        (["-i", "random:3"], "has a shape but no input name"),
        (["--set", "n"], "'n' is not DIM=N"),
        (["--set", "n=-1"], "'n=-1' is not DIM=N"),
        (["--set", "n=²"], "is not DIM=N"),
        (["-o", "out.npy"], "'out.npy' does not end with .npz"),
        (["-o", "nowhere/out.npz"], "there is no folder 'nowhere'"),
        (["--threads", "0"], "Invalid value for '--threads'"),
        (["--seed", "-1"], "Invalid value for '--seed'"),
        (["--mode", "quick"], "Invalid value for '--mode'"),
    ],
)
def test_run_usage_errors(pairs: Path, options: list[str], message: str) -> None:
    fails(run("run", pairs, *options), message, code=2)


def test_run_without_a_model_is_a_usage_error() -> None:
    fails(run("run"), "Missing argument 'MODEL'", code=2)


def test_run_has_no_random_strings(tmp_path: Path) -> None:
    model = save(
        tmp_path / "m.onnx",
        [helper.make_node("Identity", ["x"], ["y"])],
        [("x", TensorProto.STRING, [1])],
        [("y", TensorProto.STRING, [1])],
    )
    fails(run("run", model, "-i", "random"), "input 'x' is tensor(string), for which there are no random values")


@pytest.mark.parametrize("command", ["run", "info"])
@pytest.mark.parametrize("content", [b"", b"not a model", b"\x08\x0a\x12\xff\xff\xff\xff"])
def test_broken_models(tmp_path: Path, command: str, content: bytes) -> None:
    (tmp_path / "broken.onnx").write_bytes(content)
    fails(run(command, tmp_path / "broken.onnx"), "broken.onnx")


@pytest.mark.parametrize("command", ["run", "info"])
def test_models_that_are_not_there(tmp_path: Path, command: str) -> None:
    fails(run(command, tmp_path / "none.onnx"), "none.onnx")
    fails(run(command, tmp_path), str(tmp_path))


def test_a_missing_backend_is_told(digits: Path) -> None:
    try:
        import cupy  # type: ignore[import-not-found,import-untyped,unused-ignore] # noqa: F401
    except ImportError:
        fails(run("run", digits, "-i", "random", "--backend", "cupy"), "cupy")
    else:
        pytest.skip("CuPy is installed")


def test_tracebacks_on_demand(digits: Path) -> None:
    for result in (
        run("run", digits, "--traceback"),
        run("--traceback", "run", digits),
        run("run", digits, ONEMODEL_TRACEBACK="1"),
    ):
        assert result.exit_code == 1
        assert isinstance(result.exception, onemodel.OneModelError)
    fails(run("run", digits, "--mode", "fast", ONEMODEL_TRACEBACK="0"), "no value for input 'image'")


def test_names_cannot_steer_the_terminal(tmp_path: Path) -> None:
    evil = "x\x1b[31m\u202e[bold]"
    model = save(
        tmp_path / "m.onnx",
        [helper.make_node("Identity", [evil], ["y"])],
        [(evil, TensorProto.FLOAT, ["a\x07", 2])],
        [("y", TensorProto.FLOAT, ["a", 2])],
        name="g\x1b]0;title\x07",
    )
    for result in (run("info", model), run("run", model, "-i", "random"), run("run", model)):
        assert "\x1b" not in result.output
        assert "\x07" not in result.output
        assert "\u202e" not in result.output
        assert "x\\x1b[31m\\u202e[bold]" in result.output


# The process


def start(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if name not in PLAIN}
    environment |= {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    return subprocess.Popen(
        [sys.executable, "-m", "onemodel", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env=environment,
        **options,
    )


def test_python_m_onemodel_is_the_command(tmp_path: Path) -> None:
    out, errors = (process := start("demo", "--digit", "7", cwd=tmp_path)).communicate(timeout=120)
    assert process.returncode == 0, errors
    assert errors == ""
    assert "The network reads 7" in out
    out, errors = (process := start("run", "none.onnx", cwd=tmp_path)).communicate(timeout=120)
    assert (process.returncode, out) == (1, "")
    assert errors.startswith("error: ")
    assert errors.count("\n") == 1
    out, errors = (process := start("runn")).communicate(timeout=120)
    assert process.returncode == 2
    assert errors.startswith("Usage: onemodel [OPTIONS]")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGPIPE")
@pytest.mark.parametrize("arguments", [("ops",), ("ops", "--json"), ("--help",)])
def test_a_closed_pipe_is_no_error(arguments: tuple[str, ...]) -> None:
    process = start(*arguments)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    process.wait(timeout=120)


def test_the_command_line_itself_imports_little() -> None:
    code = "import sys, onemodel; before = set(sys.modules); import onemodel.cli; print(*set(sys.modules) - before)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=120)
    added = {name.partition(".")[0] if not name.startswith("onemodel") else name for name in result.stdout.split()}
    assert "onemodel.cli" in added, result.stderr
    assert "rich" not in added
    assert {name for name in added if name.startswith("onemodel")} == {"onemodel.cli", "onemodel.cli_options"}
