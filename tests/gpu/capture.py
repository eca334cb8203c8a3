"""The stand-in's streams and CUDA graphs.

Work is done at once, and while a stream captures it is also noted, to be done again at each launch. A graph knows
memory by address, as CUDA's do: it keeps none alive, and a launch that would use memory that was let go is an error.
What a pool has given stays for as long as the pool does.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, ClassVar, Self

import numpy as np


class CUDARuntimeError(RuntimeError):
    """As CuPy raises it."""


_UNSUPPORTED = "cudaErrorStreamCaptureUnsupported: operation not permitted when stream is capturing"
KERNEL, MEMCPY = 0, 1
"""CUgraphNodeType."""


class _State(threading.local):
    def __init__(self) -> None:
        self.streams: list[Stream] = []
        self.pool: MemoryPool | None = None
        self.busy = False


_state = _State()


class Event:
    """A point in a stream's work."""

    def __init__(self, block: bool = False, disable_timing: bool = False, interprocess: bool = False) -> None:
        self.stream: Stream | None = None
        self.behind: dict[Stream, int] = {}
        self.captured = False

    def record(self, stream: Stream | None = None) -> None:
        self.stream = stream or current_stream()
        self.captured = self.stream.capture is not None
        self.behind = {**self.stream.behind, self.stream: self.stream.queued}

    @property
    def done(self) -> bool:
        self._refuse_captured()
        return True

    def _refuse_captured(self) -> None:
        if self.captured:
            raise CUDARuntimeError("cudaErrorCapturedEvent: operation not permitted on an event of a capturing stream")

    def synchronize(self) -> None:
        """All work is done already."""
        self._refuse_captured()
        refuse_waits()
        for stream, number in self.behind.items():
            stream.done = max(stream.done, number)


class Stream:
    """A stream, and a context in which it is the current one.

    Attributes:
        queued, done: how much work it has got, and how much of it the host knows to be done.
        behind: how much of other streams' work it has waited for.
    """

    null: Stream

    def __init__(
        self, null: bool = False, non_blocking: bool = False, ptds: bool = False, priority: int | None = None
    ) -> None:
        self.ptr = 0 if null else id(self)
        self.non_blocking = non_blocking
        self.waited: list[Event] = []
        self.capture: Graph | None = None
        self.invalid = False
        self.queued = self.done = 0
        self.behind: dict[Stream, int] = {}

    def __enter__(self) -> Self:
        _state.streams.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _state.streams.pop()

    def synchronize(self) -> None:
        from tests.gpu.device_rules import read

        read("stream.synchronize()")
        self.settle()

    def settle(self) -> None:
        """The host has waited for it."""
        event = Event()
        event.record(self)
        event.synchronize()

    def queue(self) -> tuple[Stream, int]:
        """A piece of work, as ``sees`` takes it."""
        self.queued += 1
        return self, self.queued

    def sees(self, work: tuple[Stream, int]) -> bool:
        """Whether what it gets from now on comes after some work."""
        stream, number = work
        legacy = Stream.null in (self, stream) and not (self.non_blocking or stream.non_blocking)
        return stream is self or legacy or number <= max(stream.done, self.behind.get(stream, 0))

    def record(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        self.waited.append(event)
        for stream, number in event.behind.items():
            self.behind[stream] = max(self.behind.get(stream, 0), number)

    def is_capturing(self) -> bool:
        return self.capture is not None

    def begin_capture(self, mode: int | None = None) -> None:
        if not self.non_blocking:
            raise CUDARuntimeError(_UNSUPPORTED)
        self.capture, self.invalid = Graph(), False

    def end_capture(self) -> Graph:
        graph, self.capture = self.capture, None
        if graph is None or self.invalid:
            raise CUDARuntimeError("cudaErrorStreamCaptureInvalidated: operation failed due to a previous error")
        return graph


Stream.null = Stream(null=True)


def current_stream() -> Stream:
    return _state.streams[-1] if _state.streams else Stream.null


def refuse_waits() -> None:
    """Whatever waits for a stream that captures spoils what it captures."""
    stream = current_stream()
    if stream.capture is not None:
        stream.invalid = True
        raise CUDARuntimeError(_UNSUPPORTED)


def refuse_cublas() -> None:
    """CuPy does not call cuBLAS while the current stream captures."""
    if current_stream().capture is not None:
        raise NotImplementedError("calling cuBLAS API during stream capture is currently unsupported")


class MemoryPool:
    """Memory that stays with the pool."""

    def __init__(self, allocator: Any = None) -> None:
        self.memory: list[np.ndarray[Any, Any]] = []

    def malloc(self, size: int) -> Any:
        raise TypeError("the stand-in asks no allocator; it is for using_allocator")

    def total_bytes(self) -> int:
        return sum(array.nbytes for array in self.memory)


@contextmanager
def using_allocator(allocator: Any = None) -> Iterator[None]:
    before, _state.pool = _state.pool, allocator.__self__
    try:
        yield
    finally:
        _state.pool = before


class Pointer:
    """Where an array lies, and nothing that would keep it there."""

    def __init__(self, array: Any) -> None:
        owner = array.data.mem
        self._owner = weakref.ref(owner)
        self._size = owner.nbytes
        self._start = owner.ctypes.data
        self._layout = array.host.shape, array.host.dtype
        self._offset, self._strides = array.host.ctypes.data - self._start, array.host.strides

    def array(self) -> Any:
        from tests.gpu.device_array import ndarray

        if self._owner() is None:
            raise AssertionError("a graph uses memory that was let go")
        if not self._size:
            return ndarray(np.empty(*self._layout))
        memory: Any = (ctypes.c_char * self._size).from_address(self._start)
        return ndarray(np.ndarray(*self._layout, memory, self._offset, self._strides))


def _changed(value: Any, kind: type, change: Callable[[Any], Any]) -> Any:
    """A value with ``change`` done to all of a kind in it."""
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, (list, tuple)):
        parts = [_changed(item, kind, change) for item in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return {key: _changed(item, kind, change) for key, item in value.items()} if isinstance(value, dict) else value


def _arrays(value: Any) -> list[Any]:
    from tests.gpu.device_array import ndarray

    found: list[Any] = []
    _changed(value, ndarray, found.append)
    return found


class Graph:
    """Captured work."""

    _numbers = itertools.count(1)
    _all: ClassVar[weakref.WeakValueDictionary[int, Graph]] = weakref.WeakValueDictionary()

    def __init__(self) -> None:
        self.graph = next(Graph._numbers)
        self.nodes: list[int] = []
        self._work: list[Callable[[], None]] = []
        Graph._all[self.graph] = self

    def add(self, work: Callable[[], None], kind: int = KERNEL) -> None:
        """Note work."""
        self.nodes.append(kind)
        self._work.append(work)

    def launch(self, stream: Stream | None = None) -> None:
        """Do all work again."""
        for work in self._work:
            work()

    def upload(self, stream: Stream | None = None) -> None:
        """Nothing to do."""


def launched(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, which queues work on the device: noted where the current stream captures."""

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        graph = current_stream().capture
        if _state.busy or (graph is None and _state.pool is None):
            return function(*args, **options)
        _state.busy = True
        try:
            result = function(*args, **options)
        finally:
            _state.busy = False
        given = {id(array.data.mem) for array in _arrays((args, options))}
        made = [array.data.mem for array in _arrays(result) if id(array.data.mem) not in given]
        if _state.pool is not None:
            _state.pool.memory += made
        if graph is not None:
            graph.add(_again(function, args, options, result))
        return result

    return call


def _again(function: Callable[..., Any], args: Any, options: Any, result: Any) -> Callable[[], None]:
    from tests.gpu.device_array import ndarray

    args, options = _changed(args, ndarray, Pointer), _changed(options, ndarray, Pointer)
    results = [Pointer(array) for array in _arrays(result)]

    def again() -> None:
        made = function(*_changed(args, Pointer, Pointer.array), **_changed(options, Pointer, Pointer.array))
        for place, array in zip(results, _arrays(made), strict=True):
            place.array().host[...] = array.host

    return again


def uploading() -> None:
    """A copy from the host's memory, which a graph would do again when something else is there."""
    graph = current_stream().capture
    if graph is not None:

        def again() -> None:
            raise AssertionError("a graph copies from the host's memory again")

        graph.add(again, MEMCPY)


class Driver:
    """The functions of the CUDA driver that look into a graph."""

    @staticmethod
    def cuGraphGetNodes(handle: int, nodes: Any, count: Any) -> int:  # noqa: N802 - the driver's name
        found = Graph._all[handle].nodes
        count._obj.value = len(found)
        if nodes is not None:
            nodes[: len(found)] = [(handle << 20) + i for i in range(len(found))]
        return 0

    @staticmethod
    def cuGraphNodeGetType(node: int, kind: Any) -> int:  # noqa: N802
        kind._obj.value = Graph._all[node >> 20].nodes[node & 0xFFFFF]
        return 0

    @staticmethod
    def cuGraphMemcpyNodeGetParams(node: int, copy: Any) -> int:  # noqa: N802
        copy._obj.srcMemoryType, copy._obj.dstMemoryType = 1, 2  # host, device
        return 0


class Cublas:
    """Functions of cuBLAS itself, which may be captured."""

    @staticmethod
    def cublasGetVersion_v2(handle: int, version: Any) -> int:  # noqa: N802
        version._obj.value = 130000
        return 0

    @staticmethod
    def cublasSetWorkspace_v2(handle: int, pointer: int, size: int) -> int:  # noqa: N802
        return 0

    @staticmethod
    def cublasGemmStridedBatchedEx(*arguments: Any) -> int:  # noqa: N802
        from tests.gpu.device import gemm_strided_batched_ex

        # alpha and beta are read when the function is called
        values = [ctypes.string_at(arguments[i], 8 if arguments[-2] == 70 else 4) for i in (6, 15)]

        def work() -> None:
            kept = [ctypes.create_string_buffer(value) for value in values]
            alpha, beta = map(ctypes.addressof, kept)
            changed = list(arguments)
            changed[6], changed[15] = alpha, beta
            gemm_strided_batched_ex(*changed)

        work()
        graph = current_stream().capture
        if graph is not None:
            graph.add(work)
        return 0
