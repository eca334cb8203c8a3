"""What all tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from onemodel.ops import registry


def _registered() -> dict[tuple[str, str], dict[int, registry.Operator]]:
    return {key: dict(versions) for key, versions in registry.table().items()}


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the repository."""
    return Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def _registry_stays() -> Iterator[None]:
    """Fails a test that leaves the registry of operators other than it was, which other tests read."""
    before = _registered()
    yield
    changed = sorted(key for key, versions in _registered().items() if versions != before.pop(key, None))
    assert not changed + sorted(before), "a test leaves the registry changed; it takes the fixture registry_restored"


@pytest.fixture
def registry_restored(_registry_stays: None) -> Iterator[None]:
    """Undoes what a test enters into the registry of operators, or takes out of it."""
    before = _registered()
    yield
    registry._TABLE.clear()
    registry._TABLE.update(before)
