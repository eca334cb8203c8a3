"""Cases run in other processes, so that one that crashes or hangs is recorded and the others go on."""

from __future__ import annotations

import multiprocessing
import os
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np

from tests.conformance.cases import Case, load_cases
from tests.conformance.check import CaseFailure, check
from tests.conformance.manifest import Prepare, environment, preparer

Serve = Callable[[Connection, str, Mapping[str, Any]], None]
_THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Result:
    """How one case went.

    Attributes:
        name: the case.
        passed: both comparisons agreed.
        passed_suite: the suite's own comparison agreed.
        stage: where it failed; ``"crash"`` and ``"timeout"`` when its process ended or was ended.
        error: class of the error.
        message: its text.
        trace: its traceback.
        seconds: how long it took.
    """

    name: str
    passed: bool
    passed_suite: bool
    seconds: float
    stage: str = ""
    error: str = ""
    message: str = ""
    trace: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def run_cases(
    names: Sequence[str],
    namespace: str,
    *,
    workers: int = 1,
    timeout: float = 120.0,
    serve: Serve | None = None,
    **options: Any,
) -> Iterator[Result]:
    """Run cases in worker processes and yield each result as it comes.

    Args:
        names: the cases.
        namespace: where to run them.
        workers: processes at a time, one BLAS thread each.
        timeout: seconds that one case may take.
        serve: what each process runs; see ``serve_cases``, the default.
        **options: more options for ``make_backend``.
    """
    for variable in _THREAD_VARIABLES:
        os.environ.setdefault(variable, "1")
    waiting = list(reversed(names))
    crew = [_Worker(serve or serve_cases, namespace, options) for _ in range(min(workers, len(names)))]
    try:
        while waiting or any(worker.case for worker in crew):
            for worker in crew:
                if waiting and not worker.case:
                    worker.start(waiting.pop())
            busy = [worker for worker in crew if worker.case]
            wait([worker.connection for worker in busy], timeout=0.5)
            for worker in busy:
                if (result := worker.poll(timeout)) is not None:
                    yield result
    finally:
        for worker in crew:
            worker.stop()


class _Worker:
    """One process and the case that it runs; a new process takes over after a crash."""

    def __init__(self, serve: Serve, namespace: str, options: Mapping[str, Any]) -> None:
        self._serve = serve
        self._arguments = (namespace, dict(options))
        self.case = ""
        self._begin()

    def _begin(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=self._serve, args=(theirs, *self._arguments), daemon=True)
        self._process.start()
        theirs.close()
        self._started = 0.0
        self._ready = False

    def start(self, case: str) -> None:
        self.case = case
        self.connection.send(case)
        self._started = time.perf_counter()

    def poll(self, timeout: float) -> Result | None:
        """The case's result, when there is one."""
        elapsed = time.perf_counter() - self._started
        try:
            if self.connection.poll():
                answer: Result | None = self.connection.recv()
                if answer is None:  # the process is up: the clock of its first case starts now
                    self._ready = True
                    self._started = time.perf_counter()
                    return None
                self.case = ""
                return answer
        except (EOFError, ConnectionResetError):
            self._process.join(10)
            if not self._ready:
                raise RuntimeError("a worker process ended before its first case; its error stands above") from None
            return self._lost("crash", f"the process ended with exit code {self._process.exitcode}", elapsed)
        if self._ready and elapsed > timeout:
            return self._lost("timeout", f"no end within {timeout:g} seconds", elapsed)
        return None

    def _lost(self, stage: str, message: str, elapsed: float) -> Result:
        result = Result(self.case, False, False, elapsed, stage, stage.capitalize(), message)
        self.stop()
        self.case = ""
        self._begin()
        return result

    def stop(self) -> None:
        self._process.kill()
        self._process.join(10)
        self.connection.close()


def serve_cases(connection: Connection, namespace: str, options: Mapping[str, Any]) -> None:
    """Send None when ready; then take a case's name and send its Result, until the other end closes."""
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    cases = load_cases(cached=True)
    with environment(namespace):
        answer(connection, cases, preparer(namespace, **options))


def answer(connection: Connection, cases: Mapping[str, Case], prepare: Prepare) -> None:
    """Send None; then take a case's name and send its Result, until the other end closes."""
    connection.send(None)
    while True:
        try:
            name = connection.recv()
        except EOFError:
            return
        start = time.perf_counter()
        try:
            check(cases[name], prepare)
        except CaseFailure as failure:
            cause = failure.__cause__
            connection.send(
                Result(
                    name,
                    False,
                    failure.stage == "strict comparison",
                    time.perf_counter() - start,
                    failure.stage,
                    type(cause).__name__,
                    str(cause),
                    "".join(traceback.format_exception(cause)),
                )
            )
        else:
            connection.send(Result(name, True, True, time.perf_counter() - start))
