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


def test_maps_are_whole_and_replaced_versions_are_there() -> None:
    lines = coverage_page.page().splitlines()
    assert "| CastMap | 1 | 1 | map(int64, float), map(int64, string) | yes |" in lines
    assert "| GroupNormalization | 18, 21 | 18, 21 | floats | yes |" in lines
    assert any(line.startswith("| Upsample | 1, 7, 9 (until 9) |") for line in lines)
