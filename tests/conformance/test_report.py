"""The conformance page says what the manifests say."""

from __future__ import annotations

from tests.conformance.cases import load_cases
from tests.conformance.manifest import STRICT_TYPES, read_manifest, read_peers
from tests.conformance.report import NOT_EXACT, PAGE, UNREACHABLE, left_out_of_strict, render


def test_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(load_cases()), "run python -m tests.conformance.report"


def test_suite_is_the_one_described() -> None:
    cases = load_cases()
    assert len(cases) == 2033
    assert set(UNREACHABLE) <= set(cases)
    assert {name: sum(counts.values()) for name, counts in read_peers().items()} == {
        "onnx.reference 1.23.2": 2014,
        "onnxruntime 1.32.0": 1697,
    }


def test_exact_mode_passes_what_fast_mode_passes_but_for_a_few() -> None:
    assert set(read_manifest("numpy-fast")) - set(read_manifest("numpy-exact")) == NOT_EXACT.keys()
    assert set(read_manifest("numpy-exact")) <= set(read_manifest("numpy-fast"))


def test_what_strict_leaves_out_has_a_reason() -> None:
    cases = load_cases()
    assert [name for name, types in left_out_of_strict(cases).items() if not types] == []
    within = {name for name in read_manifest("numpy-fast") if cases[name].element_types <= STRICT_TYPES}
    assert within <= set(read_manifest("strict-fast"))


def test_all_but_the_unreachable_pass() -> None:
    assert set(load_cases()) - set(read_manifest("numpy-fast")) == set(UNREACHABLE)
