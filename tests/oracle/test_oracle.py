"""A fixed part of the oracle's cases, and what keeps its tables honest. All of it: ``python -m tests.oracle --all``."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pytest

import onemodel
from onemodel import coverage
from onemodel.ops import registry
from tests.ops import harness
from tests.oracle import chapters, known
from tests.oracle.check import check, differ
from tests.oracle.draw import ENTRIES, Case, case, histories
from tests.oracle.peer import ask

chapters.load()
SEEDS = 2

LEFT_OUT = {
    "ImageDecoder": "ONNX Runtime has no kernel; tests/ops/test_image.py has it",
    "CastMap": "takes maps; tests/ops/test_ml.py has it",
    "DictVectorizer": "takes maps; tests/ops/test_ml.py has it",
}
"""Operators without an entry, with the reason."""


@pytest.mark.parametrize(("op", "seed"), [(op, seed) for op in sorted(ENTRIES) for seed in range(SEEDS)])
def test_case(op: str, seed: int) -> None:
    result = check(case(op, seed))
    assert not result.wrong, f"{result.case}\n{result.message}"


ELSEWHERE = {("GroupNormalization", 18): "tests/ops/test_normalization.py has both meanings"}
"""Meanings that no case has, with the reason."""
MEANINGS = [
    (name, since)
    for (domain, name), entries in sorted(registry.table().items())
    if domain in ("", "ai.onnx.ml") and len(entries) > 1 and name in ENTRIES
    for since in sorted(entries)
]


@pytest.mark.parametrize(("op", "since"), [meaning for meaning in MEANINGS if meaning not in ELSEWHERE])
def test_every_meaning(op: str, since: int) -> None:
    """A case of each meaning of the operators that have had several."""
    cases = (case(op, seed) for seed in range(1000))
    of_it = (one for one in cases if meaning(one) == since)
    for one in islice(of_it, 1):
        result = check(one)
        assert not result.wrong, f"{result.case}\n{result.message}"


def test_every_meaning_is_drawn() -> None:
    drawn = {(op, meaning(case(op, seed))) for op in {op for op, _ in MEANINGS} for seed in range(300)}
    assert set(MEANINGS) - drawn == set(ELSEWHERE)


def meaning(one: Case) -> int:
    """The opset from which the operator has the meaning that a case has."""
    entry = registry.find(one.domain, one.op, one.opset)
    assert entry is not None
    return entry.since


EXACT = {row.name: row.exact for row in coverage.table() if row.domain in ("ai.onnx", "ai.onnx.ml")}


@pytest.mark.parametrize("op", sorted(ENTRIES))
def test_exact_mode_refuses_what_the_table_says_and_nothing_else(op: str) -> None:
    """``check`` compares exact mode where it takes a case; here is which cases it takes."""
    for seed in range(2):
        one = case(op, seed)
        refused = harness.exact_refuses(one.model)
        assert EXACT[op] != ("yes" if refused else "no"), str(one)


def test_every_registered_operator_is_drawn() -> None:
    names = {name for domain, name in registry.table() if domain in ("", "ai.onnx.ml")}
    assert names - set(ENTRIES) == set(LEFT_OUT) & names
    assert not set(LEFT_OUT) & set(ENTRIES)


def test_every_entry_is_an_operator_of_onnx() -> None:
    assert set(ENTRIES) <= set(histories())


def test_a_case_is_the_same_each_time() -> None:
    assert str(case("Conv", 5)) == str(case("Conv", 5))
    assert str(case("Conv", 5)) != str(case("Conv", 6))


def _cases_of(place: known.Place) -> Iterator[Case]:
    """Cases that belong to a place."""
    for seed in range(1500):
        for op in place.operators:
            one = case(op, seed)
            if known.find(one) is place:
                yield one


@pytest.mark.parametrize("place", known.PLACES, ids=lambda place: f"{place.operators[0]}: {place.why}")
def test_onnxruntime_is_wrong_where_the_table_says_so(place: known.Place) -> None:
    cases = list(islice(_cases_of(place), 1 if place.fatal else 300))
    assert cases, "no case is drawn there"
    if not place.fatal:
        assert any(differ(ask(one), place, one) for one in cases), "ONNX Runtime is right there; take the place out"


@pytest.mark.parametrize("place", known.EXACT, ids=lambda place: f"{place.operators[0]}: {place.why}")
def test_exact_mode_has_another_value_where_the_table_says_so(place: known.Place) -> None:
    cases = (one for seed in range(300) for one in (case(op, seed) for op in place.operators) if place.when(one))
    assert any(_apart(one) for one in cases), "exact mode and fast mode agree there; take the place out"


def _apart(one: Case) -> bool:
    feeds = {f"x{i}": value for i, value in enumerate(one.inputs)}
    fast = onemodel.Session(one.model, mode="fast").run(None, feeds)
    try:
        harness.same(fast, known.exact_values(one))
    except AssertionError:
        return True
    return False
