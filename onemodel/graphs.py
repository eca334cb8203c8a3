"""Runs that are repeated: what a session captures of them, and for which feeds."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onemodel.backends.base import Backend, Captured, NotCapturable
from onemodel.drawing import fresh_keys
from onemodel.errors import ExecutionError
from onemodel.program import Program

Execute = Callable[[list[Any]], list[Any]]

_MOST = 8
"""Signatures that are kept, those used last."""
_LARGEST = 4096
"""Bytes of a feed that is read on the host and so is part of the signature."""


@dataclass
class GraphState:
    """What a session does for feeds of one signature.

    Attributes:
        feeds: the signature in words.
        runs: how often it came.
        replays: how many of these runs were replays of the graph.
        reason: why there is no graph; empty where there is one, or where the feeds have come but once.
        bytes: device memory that the graph keeps.
    """

    feeds: str
    runs: int = 0
    replays: int = 0
    reason: str = ""
    bytes: int = 0

    def __str__(self) -> str:
        if self.reason:
            return f"no CUDA graph for {self.feeds}: {self.reason}"
        if not self.bytes:
            return f"no CUDA graph yet for {self.feeds}: these feeds came once"
        return f"CUDA graph for {self.feeds}: {self.replays} of {self.runs} runs, {self.bytes} bytes"


class _Entry:
    """A signature's graph, if there is one, and the program, which its key names by identity."""

    def __init__(self, program: Program, feeds: str) -> None:
        self.program = program
        self.state = GraphState(feeds)
        self.captured: Captured | None = None


class Graphs:
    """The graphs of a session."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._lock = threading.Lock()
        self._capturing = threading.Lock()
        self._entries: OrderedDict[Any, _Entry] = OrderedDict()

    def run(self, program: Program, inputs: Sequence[Any], arrays: Sequence[Any], execute: Execute) -> list[Any]:
        """The results of a program: by its graph, or by ``execute``.

        A run is captured when its feeds come the second time: before, nobody knows that they repeat, and kernels and
        caches are not there yet.

        Args:
            inputs: what the steps read on the device.
            arrays: what they read on the host.
            execute: runs the steps on such inputs.
        """
        entry = self._entry(program, inputs, arrays)
        if entry.captured is None and entry.state.runs > 1 and not entry.state.reason:
            with self._capturing:
                if entry.captured is None and not entry.state.reason:
                    self._capture(entry, inputs, execute)
        if entry.captured is None:
            return execute(list(inputs))
        try:
            results = entry.captured.replay(inputs)
        except NotCapturable:  # the caller captures this run
            return execute(list(inputs))
        with self._lock:
            entry.state.replays += 1
        return results

    def states(self) -> list[GraphState]:
        """What there is for each signature, the one used last at the end."""
        with self._lock:
            return [GraphState(**vars(entry.state)) for entry in self._entries.values()]

    def _entry(self, program: Program, inputs: Sequence[Any], arrays: Sequence[Any]) -> _Entry:
        key: list[Any] = [id(program)]
        reasons: list[str] = []
        for name, device, host in zip(program.names, inputs, arrays, strict=True):
            if host is not None and (not isinstance(host, np.ndarray) or host.dtype.hasobject):
                reasons.append(f"input {name!r} is no tensor of numbers")
            elif host is not None and host.nbytes > _LARGEST:
                reasons.append(f"input {name!r} is read on the host, and has {host.nbytes} bytes, more than {_LARGEST}")
            elif device is not None and (not hasattr(device, "shape") or isinstance(device, np.ndarray)):
                reasons.append(f"input {name!r} is no tensor of numbers")
            known = device if host is None else host
            if not reasons and known is not None:
                key.append((name, known.dtype.str, known.dtype.name, known.shape))
                key.append(None if host is None else host.tobytes())
        with self._lock:
            entry = self._entries.get(tuple(key))
            if entry is None:
                entry = self._entries[tuple(key)] = _Entry(program, _signature(program, inputs, arrays))
                entry.state.reason = "; ".join(reasons)
                if len(self._entries) > _MOST:
                    self._entries.popitem(last=False)
            self._entries.move_to_end(tuple(key))
            entry.state.runs += 1
        return entry

    def _capture(self, entry: _Entry, inputs: Sequence[Any], execute: Execute) -> None:
        before = fresh_keys()
        try:
            captured = self._backend.capture(execute, inputs)
        except NotCapturable as error:
            entry.state.reason = str(error)
        except ExecutionError as error:
            cause = error.__cause__
            entry.state.reason = str(cause if isinstance(cause, NotCapturable) else error)
        except (RuntimeError, MemoryError, OSError, ImportError) as error:
            entry.state.reason = f"{type(error).__name__}: {error}"
        else:
            if fresh_keys() != before:
                entry.state.reason = "it draws random numbers without a seed"
                captured.wait()
            else:
                entry.captured, entry.state.bytes = captured, captured.nbytes


def _signature(program: Program, inputs: Sequence[Any], arrays: Sequence[Any]) -> str:
    """The feeds in words."""
    parts = []
    for name, device, host in zip(program.names, inputs, arrays, strict=True):
        value = device if host is None else host
        if hasattr(value, "dtype"):
            parts.append(f"{name} {value.dtype}{list(value.shape)}{'' if host is None else ' of these values'}")
        elif value is not None:
            parts.append(f"{name} {type(value).__name__}")
    return ", ".join(parts) or "no feeds"
