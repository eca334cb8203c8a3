"""What the README says is true: its Python runs, its first commands are those of CI, its links lead somewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(language: str) -> list[str]:
    """The README's code blocks in a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S)


PYTHON = blocks("python")


def test_readme_has_python_to_run() -> None:
    assert len(PYTHON) >= 2


@pytest.mark.parametrize("code", PYTHON, ids=range(len(PYTHON)))
def test_python_of_the_readme_runs(code: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_first_commands_install_and_test() -> None:
    commands = [block.strip() for block in blocks("sh")]
    assert commands[:2] == ["python -m pip install . && onemodel demo", 'python -m pip install ".[test]" && pytest']
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert [command for command in commands[:2] if command not in script] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_relative_links_lead_to_files(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []
