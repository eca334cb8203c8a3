"""The manifests themselves, and the tool that rewrites them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conformance import manifest, run
from tests.conformance.cases import load_cases
from tests.conformance.manifest import namespaces_with_manifest, read_manifest
from tests.conformance.worker import Result


@pytest.mark.parametrize("namespace", namespaces_with_manifest())
def test_manifest_is_sorted_and_unique(namespace: str) -> None:
    names = read_manifest(namespace)
    assert names == sorted(set(names))
    assert manifest.manifest_path(namespace).read_text(encoding="utf-8") == "".join(f"{name}\n" for name in names)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of manifests that holds one, and a suite run in which test_abs passes and test_acos fails."""

    def run_cases(names: list[str], *_: object, **__: object) -> list[Result]:
        return [Result(name, name == "test_abs", name == "test_abs", 0.0, "run", "ValueError", "no") for name in names]

    monkeypatch.setattr(manifest, "FOLDER", tmp_path)
    monkeypatch.setattr(run, "run_cases", run_cases)
    monkeypatch.setattr(run, "load_cases", lambda cached: load_cases())
    return tmp_path


def _run(*arguments: str) -> int:
    return run.main(["--only", "^test_(abs|acos)$", *arguments])


def test_update_adds_what_passes(folder: Path) -> None:
    manifest.write_manifest("numpy-fast", ["test_elu"])
    assert _run("--update") == 0
    assert read_manifest("numpy-fast") == ["test_abs", "test_elu"]


def test_update_refuses_to_remove(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest.write_manifest("numpy-fast", ["test_acos", "test_elu"])
    assert _run("--update") == 1
    assert read_manifest("numpy-fast") == ["test_acos", "test_elu"]
    assert "removal needs --allow-removal" in capsys.readouterr().out


def test_removal_on_demand(folder: Path) -> None:
    manifest.write_manifest("numpy-fast", ["test_acos", "test_elu"])
    assert _run("--update", "--allow-removal") == 0
    assert read_manifest("numpy-fast") == ["test_abs", "test_elu"]


def test_unknown_name_is_an_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest.write_manifest("numpy-fast", ["test_no_such_case"])
    assert _run() == 1
    assert "test_no_such_case" in capsys.readouterr().out


def test_failing_manifest_case_is_an_error(folder: Path) -> None:
    manifest.write_manifest("numpy-fast", ["test_acos"])
    assert _run() == 1


def test_json_holds_every_result(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "results.json"
    assert _run("--json", str(target)) == 0
    rows = {row["name"]: row for row in json.loads(target.read_text())["results"]}
    assert {name: (row["passed"], row["message"], row["operators"]) for name, row in rows.items()} == {
        "test_abs": (True, "no", ["Abs"]),
        "test_acos": (False, "no", ["Acos"]),
    }
