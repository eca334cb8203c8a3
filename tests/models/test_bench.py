"""The measurements run, and their tables hold what they say. How fast anything is, no test asserts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import exact_models, fusion, light, overhead
from tests.exact.digest_models import models


def test_light(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, data = tmp_path / "light.md", tmp_path / "light.json"
    arguments = ["squeezenet", "--runs", "2", "--no-reference", "--markdown", str(page), "--json", str(data)]
    assert light.main(arguments) == 0
    assert "squeezenet" in capsys.readouterr().out
    name, ours, runtime, reference, ratio, speedup, error = page.read_text().splitlines()[2].strip("| ").split(" | ")
    assert (name, reference.strip(), speedup.strip()) == ("squeezenet", "", "")
    assert float(ratio) == pytest.approx(float(ours) / float(runtime), rel=0.1)
    assert float(error) < 1e-5
    (model,) = json.loads(data.read_text())["models"]
    assert {engine: len(seconds) for engine, seconds in model["seconds"].items()} == {"OneModel": 2, "ONNX Runtime": 2}


def test_light_total() -> None:
    timings = [
        light.Timing("a", {light.OURS: [1.0, 3.0, 2.0], light.RUNTIME: [1.0], light.REFERENCE: [40.0]}, 1e-7),
        light.Timing("b", {light.OURS: [4.0], light.RUNTIME: [2.0], light.REFERENCE: [20.0]}, 1e-6),
    ]
    assert light.rows(timings) == [
        ["a", "2000.0", "1000.0", "40000.0", "2.0", "20.0", "1e-07"],
        ["b", "4000.0", "2000.0", "20000.0", "2.0", "5.0", "1e-06"],
        ["total", "6000.0", "3000.0", "60000.0", "2.0", "10.0", "1e-06"],
    ]


def test_light_unknown_model(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        light.main(["resnet51"])
    assert "unknown models: resnet51" in capsys.readouterr().err


def test_overhead(capsys: pytest.CaptureFixture[str]) -> None:
    assert overhead.main(["Identity", "Relu", "--length", "5", "--repeats", "2"]) == 0
    table = capsys.readouterr().out
    assert "Identity" in table
    assert "Relu" in table
    result = overhead.measure("Neg", 50, 5)
    assert result["overhead"] == pytest.approx(result["node"] - result["function"])
    assert result["run"] > 0


def test_overhead_of_unknown_operator() -> None:
    with pytest.raises(LookupError, match="OneModel has no Nothing"):
        overhead.measure("Nothing", 5, 1)


def test_exact_models(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    small = {case.name: case.make for case in models() if case.name in ("model decoder", "model digits")}
    monkeypatch.setattr(exact_models, "MODELS", small)
    assert exact_models.main(["--seconds", "0.1", "--operators", "--only", "decoder"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    name, kind, fast, exact, ratio, *_ = next(line for line in lines if line[:2] == ["model", "decoder"])
    assert (name, kind) == ("model", "decoder")
    assert float(ratio) == pytest.approx(float(exact) / float(fast), rel=0.1)
    assert any(line[2:3] == ["MatMul"] for line in lines)
    assert not any("digits" in line for line in lines)


def test_fusion(capsys: pytest.CaptureFixture[str]) -> None:
    assert fusion.main(["--only", "Silu", "--seconds", "0.01", "--rows", "4", "32"]) == 0
    lines = [line.replace("│", " ").split() for line in capsys.readouterr().out.splitlines()]
    ratios = [[float(cell) for cell in line[1:]] for line in lines if line[:1] == ["Silu"]]
    assert [len(row) for row in ratios] == [2, 2]
    alone, together = fusion.programs(fusion.CHAINS["Silu"], "exact")
    assert len(together.steps) == len(alone.steps) + 1
