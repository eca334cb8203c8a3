"""The stand-in as a fixture."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.gpu import cpu_kernels, device_rules, install


@pytest.fixture
def cupy() -> Iterator[Any]:
    """The stand-in for CuPy, installed for the length of a test."""
    with install.installed() as module:
        device_rules.reads.clear()
        yield module


@pytest.fixture(params=cpu_kernels.FLOATS, ids=str)
def dtype(request: pytest.FixtureRequest) -> Any:
    return request.param
