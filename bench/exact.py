"""What exact products cost: ``python -m bench.exact``.

Ratios to the library's own float32 product (for convolutions, to fast mode's kernel), with one thread: medians of the
thread's own time in interleaved calls, so that what else the machine does weighs little, and on both alike.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from onemodel.backends import get_backend
from onemodel.backends.numpy_convolution import convolve

Array = np.ndarray[Any, Any]
Call = Callable[[], object]

BACKEND = get_backend("numpy")
XP: Any = BACKEND.namespace("exact")


def interleaved(calls: Sequence[Call], seconds: float, summary: Callable[[list[float]], float]) -> list[float]:
    """The median, or what else sums it up, of the seconds of each call; the calls take turns for about ``seconds``."""
    for call in calls:
        call()
    times: list[list[float]] = [[] for _ in calls]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 3:
        for call, taken in zip(calls, times, strict=True):
            start = time.thread_time()
            call()
            taken.append(time.thread_time() - start)
    return [summary(taken) for taken in times]


def normal(*shape: int) -> Array:
    """Seeded normal numbers."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def products() -> dict[str, tuple[Array, Array]]:
    """Ordinary products, by what they are for."""
    sizes = [(512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (128, 768, 768), (128, 768, 3072)]
    sizes += [(128, 3072, 768), (1, 4096, 4096), (1, 768, 3072), (3136, 576, 64), (12544, 147, 64), (1, 64, 256)]
    return {f"{m} x {k} x {n}": (normal(m, k), normal(k, n)) for m, k, n in sizes}


def hard_products(size: int) -> dict[str, tuple[Array, Array]]:
    """Products whose float64 sums leave much open."""
    rng = np.random.default_rng(1)
    half = normal(size, size // 2)
    zero_sums = np.concatenate([half, -half[:, rng.permutation(size // 2)]], axis=1)
    constant = np.broadcast_to(normal(1, size), (size, size)).copy()
    few_bits = [normal(size, size + i).astype(ml_dtypes.bfloat16).astype(np.float32)[:, :size] for i in (1, 2)]
    one_hot = np.eye(size, dtype=np.float32)[rng.integers(0, size, size)]
    whole = rng.integers(-(2**11), 2**11, (2, size, size)).astype(np.float32)
    # Halves on top of odd numbers of 24 bits, among terms that cancel.
    ties = np.concatenate(
        [np.full((size, 1), 2.0**23 + 1), np.full((size, 1), 0.5), half[:, 1:], -half[:, 1:]], axis=1, dtype=np.float32
    )
    paired = np.concatenate([np.ones((2, size)), *[normal(size // 2 - 1, size)] * 2], dtype=np.float32)
    wide = half * np.exp2(rng.integers(-30, 30, half.shape)).astype(np.float32)
    wide_zero_sums = np.concatenate([wide, -wide[:, rng.permutation(size // 2)]], axis=1)
    spread = normal(size, size) * np.exp2(rng.integers(-30, 30, (size, size))).astype(np.float32)
    nan = normal(size, size)
    nan[rng.integers(0, size, 9), rng.integers(0, size, 9)] = np.nan
    infinite = normal(size, size)
    infinite[rng.integers(0, size, 9), rng.integers(0, size, 9)] = np.inf
    return {
        "zero sums over constants": (zero_sums, constant),
        "numbers of 8 bits": (few_bits[0], few_bits[1]),
        "one-hot rows": (one_hot, normal(size, size)),
        "whole numbers": (whole[0], whole[1]),
        "all ties": (np.trunc(ties * 2) / 2, np.trunc(paired * 64) / 64),
        "all ties, among terms that cancel": (ties, paired),
        "zero sums, exponents over 2**60": (wide_zero_sums, constant),
        "exponents over 2**60": (spread, normal(size, size)),
        "a few NaN": (nan, normal(size, size)),
        "a few infinities": (infinite, normal(size, size)),
    }


def convolutions() -> dict[str, tuple[Array, Array, tuple[int, int], int]]:
    """Convolutions of image models: input, filters, strides, groups."""
    return {
        "3x3, 64 channels, 56 x 56": (normal(1, 64, 58, 58), normal(64, 64, 3, 3), (1, 1), 1),
        "3x3, 256 channels, 14 x 14": (normal(1, 256, 16, 16), normal(256, 256, 3, 3), (1, 1), 1),
        "1x1, 256 to 64 channels, 56 x 56": (normal(1, 256, 56, 56), normal(64, 256, 1, 1), (1, 1), 1),
        "1x1, 64 to 256 channels, 56 x 56 (K = 64)": (normal(1, 64, 56, 56), normal(256, 64, 1, 1), (1, 1), 1),
        "7x7 / 2, 3 channels, 224 x 224 (K = 147)": (normal(1, 3, 230, 230), normal(64, 3, 7, 7), (2, 2), 1),
        "3x3 / 2, 3 channels, 224 x 224 (K = 27)": (normal(1, 3, 225, 225), normal(32, 3, 3, 3), (2, 2), 1),
        "3x3 depthwise, 144 channels, 56 x 56 (K = 9)": (normal(1, 144, 58, 58), normal(144, 1, 3, 3), (1, 1), 144),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        "python -m bench.exact", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="rows whose name holds it")
    parser.add_argument("--seconds", type=float, default=3, metavar="S", help="for each row")
    parser.add_argument("--size", type=int, default=1024, metavar="N", help="of the hard products")
    parser.add_argument("--least", action="store_true", help="least times, not medians: for a busy machine")
    options = parser.parse_args(arguments)
    summary: Callable[[list[float]], float] = min if options.least else statistics.median
    table = Table(
        "product", "float32, ms", "float64", "exact", "prepared", title="Times the float32 product, one thread"
    )
    with threadpool_limits(1), BACKEND.running():
        for name, (a, b) in {**products(), **hard_products(options.size)}.items():
            if options.only not in name:
                continue
            wide, ready = (a.astype(np.float64), b.astype(np.float64)), XP.prepare(b, "right")
            calls: list[Call] = [
                partial(np.matmul, a, b),
                partial(np.matmul, *wide),
                partial(XP.matmul, a, b),
                partial(XP.matmul, a, ready),
            ]
            base, *others = interleaved(calls, options.seconds, summary)
            table.add_row(name, f"{1e3 * base:.2f}", *(f"{value / base:.2f}" for value in others))
        for name, (x, w, strides, groups) in convolutions().items():
            if options.only not in name:
                continue
            ones = (1, 1)
            prepared = XP.prepare(w, "left", groups)
            calls = [
                partial(convolve, x, w, strides, ones, groups),
                partial(XP.conv, x, w, strides, ones, groups),
                partial(XP.conv, x, prepared, strides, ones, groups),
            ]
            base, exact, ready = interleaved(calls, options.seconds, summary)
            table.add_row(name, f"{1e3 * base:.2f}", "", f"{exact / base:.2f}", f"{ready / base:.2f}")
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
