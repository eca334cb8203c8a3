"""What exact elementary functions cost: ``python -m bench.functions [NAME ...]``.

Nanoseconds of processor time per element of a float32 array, with one thread: the fastest of many short calls, and the
median of calls on a million elements.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from onemodel.backends import get_backend
from onemodel.backends.exact import elementary, powers
from onemodel.backends.exact.blocks import BLOCK

AIMS = {"exp": 12, "sigmoid": 12, "erf": 15, "tanh": 22}
"""Nanoseconds that a million elements should take at most."""


def inputs(name: str, count: int) -> list[Any]:
    """Numbers around 0, or from the domain."""
    random = np.random.default_rng(0)
    x = (random.standard_normal(count) * 2).astype(np.float32)
    if name in ("log", "log2", "log10", "rsqrt", "pow"):
        x = np.abs(x) + np.float32(0.01)
    if name == "acosh":
        x = np.abs(x) + np.float32(1)
    if name in ("asin", "acos", "atanh", "log1p"):
        x = (random.random(count) * 1.98 - 0.99).astype(np.float32)
    return [x, random.permutation(x)] if name in powers.NAMES else [x]


def seconds(name: str, count: int, span: float) -> list[float]:
    """How long each call took that fitted into ``span`` seconds."""
    function = getattr(get_backend("numpy").namespace("exact"), name)
    arguments = inputs(name, count)
    function(*arguments)
    times: list[float] = []
    end = time.perf_counter() + span
    while time.perf_counter() < end or len(times) < 3:
        start = time.thread_time()
        function(*arguments)
        times.append(time.thread_time() - start)
    return times


def main(arguments: list[str]) -> int:
    """Print the table; 1 where an aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each function and size")
    options = parser.parse_args(arguments)
    table = Table("function", f"{BLOCK:,} elements, ns", "1,000,000 elements, ns", "aim")
    missed = False
    for name in options.names or sorted(elementary.FUNCTIONS):
        short = min(seconds(name, BLOCK, options.seconds)) / BLOCK * 1e9
        long = statistics.median(seconds(name, 1_000_000, options.seconds)) / 1e6 * 1e9
        missed |= long > AIMS.get(name, float("inf"))
        table.add_row(name, f"{short:.1f}", f"{long:.1f}", str(AIMS.get(name, "")))
    Console().print(table)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
