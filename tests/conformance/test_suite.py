"""Every case of every manifest must pass both comparisons, on native kernels and without them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import array_api_strict
import pytest

from onemodel.backends import get_backend
from tests.conformance.cases import Case, load_cases, subjects
from tests.conformance.check import CaseFailure, check
from tests.conformance.manifest import (
    DATA_DEPENDENT,
    NAMESPACES,
    STRICTEST_FLAGS,
    environment,
    namespaces_with_manifest,
    preparer,
    read_manifest,
)

LEAST = {"numpy-fast": 700, "strict-fast": 500, "cupy-fast": 2000, "cupy-exact": 2000}
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


def flags(namespace: str, operators: frozenset[str]) -> AbstractContextManager[Any]:
    """array-api-strict's strictest flags, where no operator's meaning depends on what they refuse."""
    if namespace != "strict-fast" or operators & set(DATA_DEPENDENT):
        return nullcontext()
    return array_api_strict.ArrayAPIStrictFlags(**STRICTEST_FLAGS)


@pytest.mark.parametrize(("namespace", "name"), PARAMETERS)
def test_suite(namespace: str, name: str, cases: Mapping[str, Case]) -> None:
    assert name in cases, f"the suite of this onnx has no case {name!r}"
    case = cases[name]
    prepare = preparer(namespace)
    with environment(namespace):
        with flags(namespace, case.operators | subjects(cases, case)):
            check(case, prepare)
        if case.operators & native_operators(namespace):
            check(case, preparer(namespace, kernels="generic"))


@pytest.mark.parametrize("operator", DATA_DEPENDENT)
def test_data_dependent_operators_need_what_the_strictest_flags_refuse(
    operator: str, cases: Mapping[str, Case]
) -> None:
    prepare = preparer("strict-fast")
    names = [name for name in read_manifest("strict-fast") if operator in subjects(cases, cases[name])]
    assert names
    with array_api_strict.ArrayAPIStrictFlags(**STRICTEST_FLAGS):
        for name in names:
            with pytest.raises(CaseFailure, match="has been disabled"):
                check(cases[name], prepare)
