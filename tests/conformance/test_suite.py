"""Every case of every manifest must pass both comparisons, on native kernels and without them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import pytest

from onemodel.backends import get_backend
from tests.conformance.cases import Case, load_cases
from tests.conformance.check import check
from tests.conformance.manifest import NAMESPACES, environment, namespaces_with_manifest, preparer, read_manifest

LEAST = {"numpy-fast": 700, "strict-fast": 500, "cupy-fast": 2000}
"""Cases that a manifest must at least hold, so that none is lost by an empty file."""

PARAMETERS = [
    pytest.param(namespace, name, id=f"{namespace}-{name}")
    for namespace in namespaces_with_manifest()
    for name in read_manifest(namespace)
]


@pytest.fixture(scope="session")
def cases() -> Mapping[str, Case]:
    return load_cases()


def test_manifests_hold_enough() -> None:
    assert {namespace: len(read_manifest(namespace)) >= least for namespace, least in LEAST.items()} == dict.fromkeys(
        LEAST, True
    )


@cache
def native_operators(namespace: str) -> frozenset[str]:
    """The operators that have native kernels in a namespace."""
    settings = NAMESPACES[namespace]
    kernels = get_backend(settings["backend"]).kernels(settings["mode"])
    return frozenset(f"{domain}::{name}" if domain else name for domain, name in kernels)


@pytest.mark.parametrize(("namespace", "name"), PARAMETERS)
def test_suite(namespace: str, name: str, cases: Mapping[str, Case]) -> None:
    assert name in cases, f"the suite of this onnx has no case {name!r}"
    case = cases[name]
    with environment(namespace):
        check(case, preparer(namespace))
        if case.operators & native_operators(namespace):
            check(case, preparer(namespace, kernels="generic"))
