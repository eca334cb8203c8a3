"""docs/ops-coverage.md says what the registry and the chapters' notes say."""

from __future__ import annotations

import fnmatch

from onnx import defs

from tests.docs import coverage_page


def test_the_page_is_current() -> None:
    assert coverage_page.PAGE.read_text(encoding="utf-8") == coverage_page.page(), (
        "write it again: python -m tests.docs.coverage_page"
    )


def test_notes_are_about_operators_of_onnx() -> None:
    names = {schema.name for schema in defs.get_all_schemas_with_history()} | {"Subgraphs"}
    strange = [name for name in coverage_page.notes_by_operator() if not fnmatch.filter(names, name.replace("?", "?*"))]
    assert strange == []
