"""The conformance page says what the manifests say."""

from __future__ import annotations

from tests.conformance.cases import load_cases
from tests.conformance.manifest import read_manifest, read_peers
from tests.conformance.report import NOT_EXACT, PAGE, UNREACHABLE, render


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
