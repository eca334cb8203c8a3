"""The page of exact operators names every operator, once, and links from names to what there is."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from onemodel.ops import registry

PAGE = Path(__file__).resolve().parents[2] / "docs" / "exact-operators.md"


def _entries() -> list[str]:
    """The names that the page enters: those in the first cells of tables, in the list of moves, and refused ones."""
    text = PAGE.read_text(encoding="utf-8")
    moves = text.partition("## Moves")[2].partition("\n## ")[0]
    refused = text.partition("## Refused")[2]
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return [name for part in (moves, *cells, refused) for name in re.findall(r"`(\w+)`", part)]


def test_every_operator_is_on_the_page_once() -> None:
    counts = Counter(_entries())
    registered = {name for _, name in registry.table()}
    assert set(counts) == registered
    assert [name for name, count in counts.items() if count > 1] == []


def test_the_names_in_formulas_are_known() -> None:
    text = PAGE.read_text(encoding="utf-8")
    cells = [cell for line in text.splitlines() if line.startswith("| `") for cell in line.split("|")[2:]]
    named = {name for cell in cells for name in re.findall(r"`([A-Z]\w+)", cell)}
    assert named <= {name for _, name in registry.table()}
