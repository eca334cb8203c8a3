"""Crashes and hangs of a case are recorded, and the other cases go on."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any

import pytest

from tests.conformance.worker import Result, run_cases


def _serve(connection: Connection, namespace: str, options: Mapping[str, Any]) -> None:
    connection.send(None)
    while True:
        name = connection.recv()
        if name == "crash":
            os._exit(3)
        if name == "hang":
            time.sleep(1000)
        connection.send(Result(name, True, True, 0.0))


def _broken(connection: Connection, namespace: str, options: Mapping[str, Any]) -> None:
    os._exit(1)


def test_crash_and_hang_are_results() -> None:
    names = ["one", "crash", "two", "hang", "three"]
    results = {result.name: result for result in run_cases(names, "numpy-fast", timeout=1.0, serve=_serve)}
    assert list(results) == names
    assert [name for name, result in results.items() if result.passed] == ["one", "two", "three"]
    assert (results["crash"].stage, results["hang"].stage) == ("crash", "timeout")
    assert "exit code 3" in results["crash"].message
    assert "no end within 1 seconds" in results["hang"].message


def test_workers_share_the_cases() -> None:
    names = [f"case{index}" for index in range(20)]
    assert sorted(result.name for result in run_cases(names, "numpy-fast", workers=2, serve=_serve)) == sorted(names)


def test_worker_that_cannot_start_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="before its first case"):
        list(run_cases(["one"], "numpy-fast", serve=_broken))
