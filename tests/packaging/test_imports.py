"""Imports run one way: onemodel uses ops and backends, which know nothing of each other nor of the session."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ARRAY_LIBRARIES = {"array_api_compat", "array_api_strict", "cupy", "jax", "onnxruntime", "scipy", "torch"}


def imported(tree: ast.AST) -> set[str]:
    """The full names of all modules that a file imports, at whatever depth, with ``from a import b`` giving a.b."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno} imports relatively, which breaks across the mapped folders"
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
            if called in ("import_module", "__import__"):
                names.add(str(node.args[0].value))
    return names


def strays(names: set[str], own: str, forbidden: set[str]) -> list[str]:
    """Which of ``names`` are ours but outside the package ``own``, or of a forbidden library."""
    ours = {name for name in names if name.split(".")[0] in ("onemodel", "ops", "backends", "tests", "bench")}
    inside = {name for name in ours if f"{name}.".startswith(f"{own}.")}
    return sorted((ours - inside) | {name for name in names if name.split(".")[0] in forbidden})


def sources(root: Path, folder: str) -> list[Path]:
    found = sorted((root / folder).rglob("*.py"))
    assert len(found) > 1
    return found


@pytest.mark.parametrize(
    ("folder", "own", "forbidden"),
    [("ops", "onemodel.ops", ARRAY_LIBRARIES), ("backends", "onemodel.backends", {"onnxruntime"})],
)
def test_ops_and_backends_import_nothing_of_ours_but_themselves(
    root: Path, folder: str, own: str, forbidden: set[str]
) -> None:
    found = {
        file.relative_to(root).as_posix(): strays(imported(ast.parse(file.read_text(encoding="utf-8"))), own, forbidden)
        for file in sources(root, folder)
    }
    assert {file: names for file, names in found.items() if names} == {}


def test_engine_imports_no_array_library_by_name_and_nothing_of_tests(root: Path) -> None:
    found = {
        file.name: [
            name
            for name in imported(ast.parse(file.read_text(encoding="utf-8")))
            if name.split(".")[0] in {*(ARRAY_LIBRARIES - {"array_api_compat"}), "ops", "backends", "tests", "bench"}
        ]
        for file in sources(root, "onemodel")
    }
    assert {file: names for file, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "line",
    [
        "import onemodel",
        "import onemodel.session as s",
        "from onemodel import Session",
        "from onemodel import backends",
        "from onemodel.backends.extension import erf",
        "def f():\n    import onemodel.backends",
        "from importlib import import_module\nimport_module('onemodel.plan')",
        "import importlib\nimportlib.import_module('onemodel.backends')",
        "import ops",
        "import torch.nn",
        "from cupy import cuda",
    ],
)
def test_the_reader_sees_every_form_of_a_forbidden_import(line: str) -> None:
    assert strays(imported(ast.parse(line)), "onemodel.ops", ARRAY_LIBRARIES)


@pytest.mark.parametrize(
    "line",
    ["import numpy as np", "import onemodel.ops.registry", "from onemodel.ops import registry", "from math import pi"],
)
def test_the_reader_lets_allowed_imports_pass(line: str) -> None:
    assert strays(imported(ast.parse(line)), "onemodel.ops", ARRAY_LIBRARIES) == []
