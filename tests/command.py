"""Helpers of the command line's tests: run a command, check how it fails, write a small model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
from click.testing import CliRunner, Result
from onnx import helper

from onemodel.cli import main

ValueInfo = tuple[str, int, Sequence[int | str | None] | None]

PLAIN: dict[str, str | None] = {
    "COLUMNS": None,
    "FORCE_COLOR": None,
    "TTY_COMPATIBLE": None,
    "ONEMODEL_TRACEBACK": None,
}
"""What could change how the terminal looks is not set."""


def run(*arguments: object, charset: str = "utf-8", **environment: str) -> Result:
    return CliRunner(charset=charset).invoke(main, [str(argument) for argument in arguments], env=PLAIN | environment)


def fails(result: Result, message: str, code: int = 1) -> None:
    """One ``error:`` line on standard error with ``message`` in it, nothing on standard output, no traceback."""
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    if code == 1:
        assert result.stderr.startswith("error: ")
    assert message in result.stderr, result.stderr


def save(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[ValueInfo],
    outputs: Sequence[ValueInfo],
    initializers: Sequence[onnx.TensorProto] = (),
    **options: Any,
) -> Path:
    graph = helper.make_graph(
        nodes,
        options.pop("name", "test"),
        [helper.make_tensor_value_info(*value) for value in inputs],
        [helper.make_tensor_value_info(*value) for value in outputs],
        initializers,
    )
    opsets = options.pop("opset_imports", [helper.make_opsetid("", 21)])
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10, **options), path)
    return path
