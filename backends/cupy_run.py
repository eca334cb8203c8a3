"""What a run on the device notes in its thread: the node at work, transfers, and checks that are put off."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any, TypeVar

import cupy
import numpy as np

from onemodel.backends.base import Array, Choice, NotCapturable, Pending, Refused, Transfer

Result = TypeVar("Result")


@dataclass(frozen=True)
class Check:
    """A check that is put off.

    Attributes:
        wrong: on the device, of one element: the position of the first wrong element, and beyond all where none is.
        error, text: what to raise.
        values: what the position counts in, if the text has a place for the wrong value.
        node: the node that the check is of.
    """

    wrong: Array
    error: type[Exception]
    text: str
    values: Array | None
    node: Any


NOWHERE = int(np.iinfo(np.int64).max)
"""The position where nothing is wrong."""


class Recorder:
    """Runs that are to become a CUDA graph: one to find out what they upload, then the one that is captured.

    A graph copies from the host's memory anew at each launch, so the second run takes the arrays of the first.

    Attributes:
        products: see ``cupy_gemm``: cuBLAS by a handle of the graph's own.
        kept: what the graph reads and others might let go.
    """

    def __init__(self, products: Any) -> None:
        self.products = products
        self.kept: list[Any] = [products]
        self.capturing = False
        self._uploads: list[tuple[np.ndarray[Any, Any], Any]] = []
        self._met = 0

    def upload(self, array: np.ndarray[Any, Any], move: Callable[[np.ndarray[Any, Any]], Any]) -> Any:
        """``move(array)``; in the run that is captured what the first run got for the same numbers."""
        if not self.capturing:
            self._uploads.append((array.copy(), move(array)))
            return self._uploads[-1][1]
        before, uploaded = self._uploads[self._met] if self._met < len(self._uploads) else (None, None)
        if before is None or not _same(before, array):
            raise NotCapturable(f"{_state.node} uploads other numbers in each run")
        self._met += 1
        return uploaded


def _same(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


class _State(threading.local):
    node: Any = None
    checks: list[Check] | None = None
    record: list[Transfer | Choice] | None = None
    recorder: Recorder | None = None


_state = _State()


class Checks(Pending):
    """The checks of one run, and an event behind the work that makes them."""

    def __init__(self, checks: list[Check]) -> None:
        self._checks = checks
        self._device = cupy.cuda.Device()
        self._event = cupy.cuda.Event(disable_timing=True)
        self._event.record()

    def done(self) -> bool:
        return bool(self._event.done)

    def settle(self) -> None:
        """Read the checks, from whatever device and stream is the current one."""
        with self._device:
            cupy.cuda.get_current_stream().wait_event(self._event)
            found = cupy.asnumpy(cupy.concatenate([check.wrong for check in self._checks]))
            for check, place in zip(self._checks, found.tolist(), strict=True):
                if place != NOWHERE:
                    values = () if check.values is None else (cupy.reshape(check.values, (-1,))[place].item(),)
                    raise Refused(check.node, check.error(check.text.format(*values)))


@contextmanager
def running() -> Iterator[None]:
    """A run of its own in this thread."""
    before = _state.node, _state.checks
    _state.node, _state.checks = None, []
    try:
        yield
    finally:
        _state.node, _state.checks = before


def pending() -> Checks | None:
    """The checks of the run at work; nobody reads those of a run that the caller captures."""
    return Checks(_state.checks) if _state.checks and not cupy.cuda.get_current_stream().is_capturing() else None


@contextmanager
def recording() -> Iterator[list[Transfer | Choice]]:
    """See ``Backend.recording``."""
    before, _state.record = _state.record, []
    try:
        yield _state.record
    finally:
        _state.record = before


@contextmanager
def graph_recording(recorder: Recorder) -> Iterator[None]:
    """This thread's runs are for a CUDA graph."""
    _state.recorder = recorder
    try:
        yield
    finally:
        _state.recorder = None


def recorder() -> Recorder | None:
    """That of the run at work, where it is for a CUDA graph."""
    return _state.recorder


def kept(arrays: Result) -> Result:
    """``arrays``, which a cache may let go, kept by the graph that is captured."""
    if _state.recorder is not None:
        _state.recorder.kept.append(arrays)
    return arrays


def taken() -> list[Check]:
    """The checks that the run at work has put off so far, which are then no longer its own."""
    checks, _state.checks = _state.checks or [], []
    return checks


def bound(call: Callable[..., Any], node: Any) -> Callable[..., Any]:
    """See ``Backend.bound``."""

    def run(*values: Any) -> Any:
        before, _state.node = _state.node, node
        try:
            return call(*values)
        finally:
            _state.node = before

    return run


def note(direction: str, what: str, size: int) -> None:
    """Enter a transfer where someone records them.

    Raises:
        NotCapturable: the run is for a CUDA graph, and the host would wait for the device.
    """
    if _state.recorder is not None and direction == "to_host":
        raise NotCapturable(f"{_state.node} waits for the device: {what}")
    if _state.record is not None:
        _state.record.append(Transfer(direction, what, size, _state.node))


def chose(text: str) -> None:
    """Enter how the node at work computes where someone records it."""
    if _state.record is not None:
        _state.record.append(Choice(_state.node, text))


def waits(what: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, which waits for the device, with a note of that."""

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        note("to_host", what, 8)
        return function(*args, **options)

    return call


def item(x: Array, /) -> Any:
    """See ``extension.item``."""
    note("to_host", "item", x.dtype.itemsize)
    return x.item()


def refuse(wrong: Array, error: type[Exception], text: str, values: Array | None = None, /) -> None:
    """See ``extension.refuse``: put off to the end of the run, and done at once outside of runs."""
    if wrong.size == 0:
        return
    flat = cupy.reshape(wrong, (-1,))
    place = cupy.where(cupy.any(flat), cupy.argmax(flat), np.int64(NOWHERE))
    put_off(Check(cupy.reshape(place, (1,)), error, text, values, _state.node))


def put_off(check: Check) -> None:
    """Enter a check for the end of the run."""
    if _state.checks is not None:
        _state.checks.append(check)
        return
    try:
        Checks([check]).settle()
    except Refused as refused:
        raise refused.error from None


def current_node() -> Any:
    """The node at work in this thread."""
    return _state.node


def per_device(function: Callable[..., Result]) -> Callable[..., Result]:
    """``function``, whose results lie on the current device, with its results kept for each device."""

    @cache
    def made(device: int, /, *args: Any) -> Result:
        return function(*args)

    @wraps(function)
    def call(*args: Any) -> Result:
        return made(cupy.cuda.runtime.getDevice(), *args)

    return call


def shared(array: np.ndarray[Any, Any]) -> Array:
    """A NumPy array on the device for a cache, from which runs on all streams take it: the upload is waited for."""
    # CuPy waits for none of zero dimensions, which it does not upload.
    return cupy.reshape(cupy.asarray(array.reshape(-1), blocking=True), array.shape)


def row_major(x: Array) -> Array:
    """x itself where it lies row by row in memory, else a copy that does; 0-d arrays stay 0-d."""
    return x if x.flags.c_contiguous else cupy.ascontiguousarray(x)


def to_host(array: Any) -> np.ndarray[Any, Any]:
    """An array as NumPy's; what is NumPy's stays."""
    if isinstance(array, np.ndarray):
        return array
    note("to_host", "to_host", array.nbytes)
    result: np.ndarray[Any, Any] = cupy.asnumpy(array)
    return result
