"""How many threads the BLAS below may use while sessions run."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import threadpoolctl

_lock = threading.Lock()
_libraries: list[Any] = []
"""The BLAS libraries that are loaded."""
_asked: list[int] = []
"""The counts that running sessions ask for; the setting belongs to the process, so the latest one holds."""
_before: list[tuple[Any, int]] = []
"""Each BLAS library, and the count that it had before the first of them."""


def look_up() -> None:
    """Find the BLAS libraries, for the runs to come: that takes longer than a small model runs."""
    found = threadpoolctl.ThreadpoolController().select(user_api="blas").lib_controllers
    with _lock:
        _libraries[:] = found


@contextmanager
def limited(count: int | None) -> Iterator[None]:
    """Let BLAS use ``count`` threads; the process's own setting comes back when the last session that asks has run.

    The libraries are those that ``look_up`` has found.

    Args:
        count: the number of threads; None leaves the setting alone.
    """
    if count is None:
        yield
        return
    with _lock:
        if not _asked:
            _before[:] = [(library, library.get_num_threads()) for library in _libraries]
        if count not in _asked[-1:]:
            _set(count)
        _asked.append(count)
    try:
        yield
    finally:
        with _lock:
            _asked.remove(count)
            _set(*_asked[-1:])


def _set(count: int | None = None) -> None:
    """Set all libraries to ``count``, or to what they had before."""
    for library, before in _before:
        # Some versions obey only the first thread that has set anything.
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)
        library.set_num_threads(count or before)
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)
