"""A thread that flushes subnormal numbers, or does not round to nearest, is refused."""

from __future__ import annotations

import ctypes
import platform
import sys
import threading
import timeit
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import onemodel
from onemodel.backends.exact.trust import check_arithmetic
from tests.ops.harness import model

# Where glibc's fenv_t has the register that fesetenv loads, and its bits: flush results, take operands for zero, and
# the two of the rounding direction.
LAYOUTS: dict[str, tuple[int, dict[str, int]]] = {
    "x86_64": (28, {"flush": 0x8000, "zero": 0x0040, "down": 0x2000, "up": 0x4000, "chop": 0x6000}),
    "aarch64": (0, {"flush": 1 << 24, "up": 1 << 22, "down": 2 << 22, "chop": 3 << 22}),
}
MACHINE = platform.machine()
CASES = sorted(LAYOUTS.get(MACHINE, (0, {}))[1])
MESSAGES = {
    "flush": "takes subnormal numbers for zero",
    "zero": "takes subnormal numbers for zero",
    "up": "rounds upward",
    "down": "rounds downward or toward zero",
    "chop": "rounds downward or toward zero",
}

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not CASES, reason="knows the floating-point registers of glibc on x86-64 and Arm alone"
)


@contextmanager
def arithmetic(bits: int) -> Iterator[None]:
    """With these bits of the thread's floating-point control register set."""
    library = ctypes.CDLL("libm.so.6")
    before, changed = ctypes.create_string_buffer(64), ctypes.create_string_buffer(64)
    library.fegetenv(before)
    library.fegetenv(changed)
    register = ctypes.c_uint32.from_buffer(changed, LAYOUTS[MACHINE][0])
    register.value |= bits
    library.fesetenv(changed)
    try:
        yield
    finally:
        library.fesetenv(before)


def _session() -> tuple[onemodel.Session, dict[str, Any]]:
    x = np.float32([1, 2])
    return onemodel.Session(model("Add", [x, x]), mode="exact"), {"x0": x, "x1": x}


@pytest.mark.parametrize("case", CASES)
def test_such_a_thread_is_refused_at_run(case: str) -> None:
    session, feeds = _session()
    with arithmetic(LAYOUTS[MACHINE][1][case]), pytest.raises(onemodel.BackendError) as caught:
        session.run(None, feeds)
    assert f"the floating-point unit of this thread {MESSAGES[case]}" in str(caught.value)
    assert 'or use mode="fast"' in str(caught.value)
    assert session.run(None, feeds)[0].tolist() == [2, 4]


@pytest.mark.parametrize("case", CASES)
def test_and_when_a_session_is_made(case: str) -> None:
    with arithmetic(LAYOUTS[MACHINE][1][case]), pytest.raises(onemodel.BackendError, match=MESSAGES[case]):
        _session()


def test_fast_mode_runs_there() -> None:
    session = onemodel.Session(model("Neg", [np.float32([1])]), mode="fast")
    with arithmetic(LAYOUTS[MACHINE][1]["flush"]):
        assert session.run(None, {"x0": np.float32([1])})[0].tolist() == [-1]


def test_a_new_thread_inherits_the_setting() -> None:
    session, feeds = _session()
    caught: list[BaseException] = []

    def work() -> None:
        try:
            session.run(None, feeds)
        except onemodel.BackendError as error:
            caught.append(error)

    with arithmetic(LAYOUTS[MACHINE][1]["flush"]):
        thread = threading.Thread(target=work)
        thread.start()
    thread.join()
    assert len(caught) == 1


def test_it_costs_less_than_a_microsecond() -> None:
    assert min(timeit.repeat(check_arithmetic, number=1000, repeat=20)) < 1e-6 * 1000
