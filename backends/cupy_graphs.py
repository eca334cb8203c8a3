"""CUDA graphs: what a run queues on the device, captured once and launched as a whole for later runs.

A run is captured on a stream of its own, after one run there that compiles, uploads and allocates all that it needs.
Arrays of both come from a memory pool of the graph's own, so that what the graph reads and writes is nobody else's for
as long as the graph lives; the pool gives the same addresses again for what is freed, which is right since the work is
done in the same order each time. Capture is relaxed, CuPy's default, in which the driver would let the pool grow. What
is captured is looked through: copies from and to the host's memory would be done again at each launch, when that memory
holds something else, so a run that has some is not captured.

A launch copies the feeds into the captured inputs and the outputs out of the captured ones, on the caller's stream, and
waits there for the launch before it, whichever stream that was on.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import cupy

from onemodel.backends import cupy_libraries, cupy_run
from onemodel.backends.base import Captured, NotCapturable
from onemodel.backends.cupy_gemm import Products
from onemodel.backends.cupy_narrow import NarrowArray
from onemodel.backends.cupy_run import Check, Recorder

Run = Callable[[list[Any]], list[Any]]

_KERNEL, _MEMCPY, _MEMSET, _EMPTY = 0, 1, 2, 5
"""CUgraphNodeType."""
_HOST, _UNIFIED = 1, 4
"""CUmemorytype."""
_MEMORY_TYPE = 2
"""CU_POINTER_ATTRIBUTE_MEMORY_TYPE."""


_capturing = threading.Lock()
"""One capture at a time: making one waits for the whole device in between, which spoils another."""


class Graph(Captured):
    """A captured run."""

    def __init__(self, run: Run, inputs: Sequence[Any]) -> None:
        with _capturing:
            self._capture(run, inputs)

    def _capture(self, run: Run, inputs: Sequence[Any]) -> None:
        caller = cupy.cuda.get_current_stream()
        if caller.is_capturing():
            raise NotCapturable("the caller captures its own stream")
        stream = cupy.cuda.Stream(non_blocking=True)
        stream.wait_event(_mark(caller))
        self._lock = threading.Lock()
        self._pool = cupy.cuda.MemoryPool()
        with stream, cupy.cuda.using_allocator(self._pool.malloc):
            self._inputs = [None if x is None else x.copy() for x in inputs]
            self._kept = Recorder(Products(stream))
            try:
                with cupy_run.graph_recording(self._kept):
                    with cupy_run.running():
                        run(list(self._inputs))
                    self._kept.capturing = True
                    with _captured(stream) as graphs, cupy_run.running():
                        self._outputs = run(list(self._inputs))
                        self._checks = cupy_run.taken()
                (self._graph,) = graphs
                refuse_host_memory(self._graph)
            finally:
                self._last = _mark(stream)
                caller.wait_event(self._last)  # it may change its feeds again

    def replay(self, inputs: Sequence[Any]) -> list[Any]:
        stream = cupy.cuda.get_current_stream()
        if stream.is_capturing():
            raise NotCapturable("the caller captures its own stream")
        with self._lock:
            stream.wait_event(self._last)
            for mine, given in zip(self._inputs, inputs, strict=True):
                if mine is not None:
                    _bits(mine)[...] = _bits(given)
            self._graph.launch(stream)
            outputs = [_own(value) for value in self._outputs]
            for check in self._checks:
                values = None if check.values is None else check.values.copy()
                cupy_run.put_off(Check(check.wrong.copy(), check.error, check.text, values, check.node))
            self._last = _mark(stream)
        return outputs

    @property
    def nbytes(self) -> int:
        return int(self._pool.total_bytes())

    def wait(self) -> None:
        self._last.synchronize()


def _mark(stream: Any) -> Any:
    """An event behind all that is queued on a stream."""
    return stream.record(cupy.cuda.Event(disable_timing=True))


@contextmanager
def _captured(stream: Any) -> Iterator[list[Any]]:
    """What is queued on a stream goes to a graph, the one item of the list after the end."""
    graphs: list[Any] = []
    stream.begin_capture()
    try:
        yield graphs
    except BaseException:
        with suppress(RuntimeError):  # what has failed may have ended the capture
            stream.end_capture()
        raise
    graphs.append(stream.end_capture())


def _bits(x: Any) -> Any:
    return x.bits if isinstance(x, NarrowArray) else x


def _own(value: Any) -> Any:
    if isinstance(value, list):
        return [_own(item) for item in value]
    return value.copy() if hasattr(value, "copy") else value


def refuse_host_memory(graph: Any) -> None:
    """Raise NotCapturable where a graph does anything but run kernels, and set and copy memory on the device."""
    driver = cupy_libraries.driver()
    count = ctypes.c_size_t()
    _check(driver.cuGraphGetNodes(graph.graph, None, ctypes.byref(count)))
    nodes = (ctypes.c_void_p * max(count.value, 1))()
    _check(driver.cuGraphGetNodes(graph.graph, nodes, ctypes.byref(count)))
    for node in nodes[: count.value]:
        kind = ctypes.c_int()
        _check(driver.cuGraphNodeGetType(node, ctypes.byref(kind)))
        if kind.value == _MEMCPY:
            copy = cupy_libraries.Memcpy3D()
            _check(driver.cuGraphMemcpyNodeGetParams(node, ctypes.byref(copy)))
            for end in ("src", "dst"):
                if _at_host(driver, getattr(copy, f"{end}MemoryType"), getattr(copy, f"{end}Device")):
                    raise NotCapturable("CuPy copies from or to the host's memory in it")
        elif kind.value not in (_KERNEL, _MEMSET, _EMPTY):
            raise NotCapturable(f"it has a node of the driver's type {kind.value}")


def _at_host(driver: Any, kind: int, pointer: int | None) -> bool:
    """Whether one end of a copy is in the host's memory."""
    if kind == _UNIFIED:
        found = ctypes.c_uint()
        if driver.cuPointerGetAttribute(ctypes.byref(found), _MEMORY_TYPE, pointer or 0):
            return True  # memory that the driver does not know
        kind = found.value
    return kind == _HOST


def _check(status: int) -> None:
    if status:
        raise NotCapturable(f"the CUDA driver gives error {status} when asked what it has captured")
