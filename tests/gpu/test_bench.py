"""``python -m bench.gpu`` without a GPU: its checks on the stand-in, and what it says where something is missing."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench import gpu
from tests.gpu import cpu_kernels


@pytest.mark.slow
@pytest.mark.skipif(cpu_kernels.compiler() is None, reason="g++, which builds the kernels, is not there")
def test_checks_run_on_the_stand_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        gpu.main(["--check", "--stand-in", "--graphs", "--out", str(tmp_path), "--cases", "20", "--workers", "1"]) == 0
    )
    results = json.loads((tmp_path / "gpu.json").read_text(encoding="utf-8"))
    assert [row["what"] for row in results["checks"]] == [
        "convolutional network",
        "transformer",
        "transformer, float16",
        "exact digests",
        "suite, native kernels",
        "suite, generic kernels",
    ]
    assert all(row["passed"] for row in results["checks"])
    assert [row.get("graph") for row in results["checks"]] == ["replayed"] * 3 + [None] * 3
    assert "| suite, native kernels |" in capsys.readouterr().out


def test_it_says_at_once_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in ("cupy", "torch") else found(name))
    assert gpu.main(["--check", "--time", "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err == "missing: cupy; torch\n"
    assert list(tmp_path.iterdir()) == []


ABSENT = """
import sys

for name in ("pytest", "hypothesis", "array_api_strict", "onnxruntime"):
    sys.modules[name] = None
from bench import gpu

row = gpu.check_exact(gpu.Clock(60), True, 3)
assert row["passed"] == 3, row
"""


@pytest.mark.skipif(cpu_kernels.compiler() is None, reason="g++, which builds the kernels, is not there")
def test_checks_need_no_tools_of_the_tests(root: Path) -> None:
    done = subprocess.run([sys.executable, "-c", ABSENT], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


def test_the_stand_in_is_not_timed(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        gpu.main(["--time", "--stand-in", "--out", str(tmp_path)])


def test_it_says_what_a_package_lacks_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "tests.exact.digests", None)
    assert gpu.main(["--check", "--stand-in", "--out", str(tmp_path)]) == 2
    assert "tests.exact.digests" in capsys.readouterr().err


def test_a_part_that_fails_costs_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("cudaErrorIllegalAddress")

    monkeypatch.setattr(gpu, "check_networks", fail)
    monkeypatch.setattr(gpu, "check_exact", fail)
    monkeypatch.setattr(gpu, "check_suite", lambda *_: {"what": "suite", "passed": 1, "failed": [], "not run": 0})
    assert gpu.main(["--check", "--stand-in", "--out", str(tmp_path)]) == 1
    rows = json.loads((tmp_path / "gpu.json").read_text(encoding="utf-8"))["checks"]
    assert [row["what"] for row in rows] == ["networks", "exact", "suite", "suite"]
    assert all("cudaErrorIllegalAddress" in row["error"] for row in rows[:2])
