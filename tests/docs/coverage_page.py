"""Writes docs/ops-coverage.md: ``python -m tests.docs.coverage_page``."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from onnx import defs

from onemodel import coverage
from onemodel.gradient_rules import RULES, constant

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "ops-coverage.md"
SETTLED = ROOT / "docs" / "settled"

_GROUPS = {
    "floats": ("float16", "bfloat16", "float", "double"),
    "signed integers": ("int8", "int16", "int32", "int64"),
    "unsigned integers": ("uint8", "uint16", "uint32", "uint64"),
    "float8": ("float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz"),
    "small integers": ("int4", "uint4", "int2", "uint2"),
    "complex": ("complex64", "complex128"),
}
_DOMAINS = {"ai.onnx": "", "ai.onnx.ml": "ai.onnx.ml"}

_HEAD = """# Operator coverage

*Written by `python -m tests.docs.coverage_page`; a test keeps it current.*

For each operator that ONNX 1.23 defines: the schema versions that models of opset 6 on can have (of opset 1 on in other
domains), the opsets from which OneModel has a meaning of its own ("ONNX's body" where the operator runs through the
function body that ONNX gives), the element types of its inputs in the newest version, and whether exact mode runs it. A
version of the schema without a meaning beside it only widened the types.

"""
_GRADIENT = """
## Under Gradient

ai.onnx.preview.training::Gradient becomes nodes of the chain rule. It has rules for these operators: {rules}.

These do not vary with their inputs, so that no gradient goes through them: {constants}.

Any other on the way from a variable to the target is a `ModelError` that names it: {refused}.
"""
_COLUMNS = "| operator | versions | meanings since | types | exact |\n|---|---|---|---|---|\n"


def page() -> str:
    """The whole page."""
    parts = [_HEAD]
    rows = coverage.table()
    missing = [row for row in rows if row.runs == coverage.NOT_YET and row.deprecated is None]
    for domain in dict.fromkeys(row.domain for row in rows):
        parts.append(f"## {domain}\n\n{_COLUMNS}")
        parts += [_line(row) for row in rows if row.domain == domain and row not in missing]
        parts.append("\n")
    parts.append("## Not covered\n\n")
    parts += [f"- {row.domain}::{row.name}\n" for row in missing] or ["Nothing.\n"]
    parts.append(_gradient(rows))
    parts.append("\n## What was settled\n\nWhere the specification is silent, or peers differ from it.\n")
    parts += ["\n" + _settled(path) for path in sorted(SETTLED.glob("*.md"))]
    return "".join(parts)


def _gradient(rows: Iterable[coverage.Row]) -> str:
    """Which operators may lie between a variable and a target of Gradient."""
    named = {name: rule for (domain, name), rule in RULES.items() if domain == ""}
    names = [row.name if row.domain == "ai.onnx" else f"{row.domain}::{row.name}" for row in rows]
    return _GRADIENT.format(
        rules=", ".join(sorted(name for name, rule in named.items() if rule is not constant)),
        constants=", ".join(sorted(name for name, rule in named.items() if rule is constant)),
        refused=", ".join(name for name in names if name not in named and not name.endswith("::Gradient")),
    )


def _line(row: coverage.Row) -> str:
    schemas = _schemas(_DOMAINS.get(row.domain, row.domain), row)
    versions = ", ".join(str(schema.since_version) for schema in schemas)
    if row.deprecated is not None:
        versions += f" (until {row.deprecated - 1})"
    meanings = "ONNX's body" if row.runs == coverage.BODY else ", ".join(map(str, row.opsets))
    types = _types(schemas[-1]) if schemas else ""
    return f"| {row.name} | {versions} | {meanings} | {types} | {row.exact} |\n"


def _schemas(domain: str, row: coverage.Row) -> list[defs.OpSchema]:
    """The versions that a model may have, oldest first: deprecated ones too, if they only gave way to a later one."""
    named = [s for s in defs.get_all_schemas_with_history() if (s.domain, s.name) == (domain, row.name)]
    having = [schema for schema in named if not schema.deprecated or schema.since_version in row.opsets]
    every = sorted(having, key=lambda schema: schema.since_version)
    oldest = 6 if domain == "" else 1
    first = max((i for i, schema in enumerate(every) if schema.since_version <= oldest), default=0)
    return every[first:]


def _types(schema: defs.OpSchema) -> str:
    """The element types of all inputs (of the outputs where there are none), in groups where these are whole; maps."""
    allowed = {constraint.type_param_str: constraint.allowed_type_strs for constraint in schema.type_constraints}
    formals = schema.inputs or schema.outputs
    names = {text for formal in formals for text in allowed.get(formal.type_str, [formal.type_str])}
    elements = {match[0] for name in names if (match := re.search(r"map\(.*?\)|\w+(?=\)*$)", name))}
    found = []
    for group, members in _GROUPS.items():
        if elements.issuperset(members):
            found.append(group)
            elements.difference_update(members)
    return ", ".join(found + sorted(elements))


def _settled(path: Path) -> str:
    """A chapter's notes, its headings two levels down."""
    lines = path.read_text(encoding="utf-8").rstrip().split("\n")
    return "\n".join(f"##{line}" if line.startswith("#") else line for line in lines) + "\n"


def notes_by_operator(paths: Iterable[Path] | None = None) -> dict[str, list[str]]:
    """Operator name, ``?`` for any ending, to the notes that name it."""
    notes = defaultdict(list)
    for path in paths or sorted(SETTLED.glob("*.md")):
        for line in path.read_text(encoding="utf-8").split("\n"):
            if line.startswith("- **"):
                for name in line[4:].replace("\\*", "?").partition("**")[0].split(","):
                    notes[name.strip()].append(line)
    return dict(notes)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
