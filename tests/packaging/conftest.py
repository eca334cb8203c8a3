"""The wheel and the sdist, built once per run from clean copies, and an environment that has the wheel installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE_FOLDERS = ("onemodel", "ops", "backends")
OTHER_FOLDERS = (".ci", "bench", "docs", "tests")
FILES = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "MANIFEST.in",
    "NOTICE",
    "README.md",
    "pyproject.toml",
)
PROBES = (
    "onemodel/data/probe.bin",
    "ops/probe.json",
    "ops/probe.npz",
    "backends/probe.cu",
    "backends/probe.cuh",
    "backends/cuda/probe.cu",
    "backends/probe.json",
    "backends/exact/probe.cu",
    "backends/exact/probe.json",
    "backends/exact/probe.npz",
)
"""One file of each kind that must travel as package data, added to the copies that wheels are built from."""


@dataclass(frozen=True)
class Installed:
    """A virtual environment in which the wheel is installed."""

    folder: Path
    """Root of the environment."""
    elsewhere: Path
    """An empty working directory."""

    @property
    def scripts(self) -> Path:
        return self.folder / ("Scripts" if os.name == "nt" else "bin")

    def run(self, program: str, *arguments: str) -> str:
        """Standard output of a program of the environment, run from ``elsewhere``; a failure shows what it printed."""
        return checked([str(self.scripts / program), *arguments], self.elsewhere)


def checked(command: list[str], folder: Path) -> str:
    """Standard output of ``command``, run in ``folder`` without the caller's search path."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8", stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def built(kind: str, source: Path, target: Path) -> Path:
    """The wheel or the sdist of the tree ``source``, built into ``target`` by this environment's setuptools."""
    target.mkdir()
    code = f"import sys; from setuptools import build_meta; build_meta.build_{kind}(sys.argv[1])"
    checked([sys.executable, "-c", code, str(target)], source)
    (archive,) = target.iterdir()
    return archive


def clean_copy(root: Path, target: Path) -> Path:
    """A copy of what makes the distribution, without build leftovers and caches, with the probe files added."""
    ignore = shutil.ignore_patterns("__pycache__", "*.py[cod]", "_build", ".*_cache", ".DS_Store")
    target.mkdir()
    for name in (*PACKAGE_FOLDERS, *OTHER_FOLDERS):
        shutil.copytree(root / name, target / name, ignore=ignore)
    for name in FILES:
        shutil.copy2(root / name, target / name)
    for name in PROBES:
        (target / name).write_bytes(b"{}")
    return target


@pytest.fixture(scope="session")
def source(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean copy that nothing is built in."""
    return clean_copy(root, tmp_path_factory.mktemp("source") / "tree")


@pytest.fixture(scope="session")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of a clean copy."""
    folder = tmp_path_factory.mktemp("wheel")
    return built("wheel", clean_copy(root, folder / "tree"), folder / "dist")


@pytest.fixture(scope="session")
def sdist(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist of a clean copy."""
    folder = tmp_path_factory.mktemp("sdist")
    return built("sdist", clean_copy(root, folder / "tree"), folder / "dist")


@pytest.fixture(scope="session")
def wheel_of_sdist(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that the unpacked sdist builds."""
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "tree", filter="data")
    (tree,) = (folder / "tree").iterdir()
    return built("wheel", tree, folder / "dist")


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """An environment with the wheel, which sees this environment's other packages behind its own."""
    folder = tmp_path_factory.mktemp("installed")
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    environment = Installed(folder / "venv", elsewhere)
    venv.create(environment.folder, with_pip=True)
    environment.run("python", "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", str(wheel))
    own = environment.run("python", "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])").strip()
    ours = dict.fromkeys(sysconfig.get_paths()[name] for name in ("purelib", "platlib"))
    (Path(own) / "dependencies.pth").write_text("\n".join(ours), encoding="utf-8")
    return environment
