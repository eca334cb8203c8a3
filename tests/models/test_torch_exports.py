"""A few of torch's exports, where torch is installed; the command runs all of them. And the page that it writes."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.models.fetch import manifest

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None or importlib.util.find_spec("onnxscript") is None,
    reason='torch or onnxscript is not installed; pip install -e ".[torch]"',
)
SMALL = [
    ("LSTM", "torchscript", 9),
    ("scripted while and if", "torchscript", 13),
    ("scan", "dynamo, not optimised", 18),
    ("Llama, opset 23", "dynamo", 23),
]


def test_page_lists_the_models_of_packages(root: Path) -> None:
    page = (root / "docs" / "models.md").read_text(encoding="utf-8")
    for name, model in manifest().items():
        assert f"| {name} | {model.package} {model.version} | {model.licence} |" in page


@needs_torch
def test_page_lists_the_exports(root: Path) -> None:
    from tests.models.torch_exports.cases import CASES
    from tests.models.torch_exports.page import ranges

    page = (root / "docs" / "models.md").read_text(encoding="utf-8")
    for case in CASES:
        for exporter, opsets in case.opsets.items():
            assert f"| {case.name} | {exporter} | {ranges(opsets)} |" in page


@needs_torch
@pytest.mark.slow
@pytest.mark.parametrize(("name", "exporter", "opset"), SMALL)
def test_export(name: str, exporter: str, opset: int) -> None:
    from tests.models.torch_exports.cases import CASES
    from tests.models.torch_exports.compare import results

    (case,) = (case for case in CASES if case.name == name)
    (result,) = results(case, [exporter], [opset])
    assert (result.problem, result.remark) == ("", "")
    assert set(result.errors) == {
        "native",
        "generic",
        "ONNX Runtime",
        "native, ONNX Runtime",
        "generic, ONNX Runtime",
    }


@needs_torch
def test_other_weights_are_found() -> None:
    """The comparison fails for a model that is not the one that torch ran, and for inputs that change nothing."""
    from dataclasses import replace

    from tests.models.torch_exports.cases import CASES, LEGACY, ready
    from tests.models.torch_exports.compare import Result, compare, expected_outputs
    from tests.models.torch_exports.export import Exporter

    (case,) = (case for case in CASES if case.name == "scripted if")
    right, other = ready(case.build, seed=0), ready(case.build, seed=1)
    model = Exporter(case, LEGACY, other, case.feeds(case.sizes[0], 0)).at(17)
    result = Result(case.name, LEGACY, 17)
    compare(result, case, model, expected_outputs(case, other))
    with pytest.raises(AssertionError, match=r"y \(native, \(2, 6\)\) against torch: error"):
        compare(result, case, model, expected_outputs(case, right))
    same = replace(case, feeds=lambda size, seed: case.feeds(size, 0))
    with pytest.raises(AssertionError, match="two inputs give nearly the same outputs"):
        compare(result, same, model, expected_outputs(same, other))


@needs_torch
def test_an_export_that_lacks_its_operator_is_a_problem() -> None:
    from dataclasses import replace

    from tests.models.torch_exports.cases import CASES, LEGACY
    from tests.models.torch_exports.compare import results

    (case,) = (case for case in CASES if case.name == "GRU")
    (result,) = results(replace(case, holds={LEGACY: ["GRU", "Scan", "Loop"]}), [LEGACY], [20])
    assert result.problem == "the export has no Loop, Scan"


@needs_torch
def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    from tests.models.torch_exports import __main__ as command

    assert command.opset_list("9-11,13") == [9, 10, 11, 13]
    assert command.main(["--only", "scripted if", "--opsets", "16-23"]) == 0
    table = capsys.readouterr().out
    assert "16-20" in table
    assert "5 exports, 0 wrong" in table
    with pytest.raises(SystemExit):
        command.main(["--only", "VGG"])
    assert "no model's name holds VGG; there are ResNet-50," in capsys.readouterr().err
    with pytest.raises(SystemExit):
        command.main(["--only", "scripted if", "--page", "models.md"])
    assert "leave --only, --exporters and --opsets out" in capsys.readouterr().err
