"""What merging neighbouring elementwise nodes gains on NumPy: ``python -m bench.fusion``.

Times of the nodes one by one as multiples of the time of one step, with one thread: medians of the thread's own time in
interleaved runs, as in ``bench.exact``. Where a step leaves the arrays to the nodes, for they are small, it is 1.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import onnx.parser
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

import onemodel
from bench.exact import interleaved
from onemodel.backends import get_backend
from onemodel.program import Program, Together

CHAINS = {
    "Gelu by Erf": "a = Div(x, root) b = Erf(a) c = Add(b, one) d = Mul(x, c) z = Mul(d, half)",
    "bias, Gelu by Erf": "w = Add(x, row) a = Div(w, root) b = Erf(a) c = Add(b, one) d = Mul(w, c) z = Mul(d, half)",
    "Gelu by Tanh": """
        a = Mul(x, x) b = Mul(x, a) c = Mul(b, cubic) d = Add(x, c) e = Mul(slope, d) f = Tanh(e) g = Add(f, one)
        h = Mul(x, g) z = Mul(h, half)""",
    "Mul, Add, Sigmoid": "a = Mul(x, half) b = Add(a, y) z = Sigmoid(b)",
    "Silu": "a = Sigmoid(x) z = Mul(x, a)",
    "HardSwish of an export": "a = Add(x, three) b = Clip(a, zero, six) c = Mul(x, b) z = Div(c, six)",
    "Add, Relu": "a = Add(x, y) z = Relu(a)",
    "Mul, Add": "a = Mul(x, y) z = Add(a, x)",
    "Mul, Add by rows": "a = Mul(x, row) z = Add(a, row)",
    "end of LayerNorm": """
        a = Add(column, epsilon) b = Sqrt(a) c = Sub(x, column) d = Div(c, b) e = Mul(d, row) z = Add(e, row)""",
    "two Sigmoids": "a = Sigmoid(x) b = Sigmoid(y) c = Mul(a, y) d = Add(c, b) z = Tanh(d)",
    "twelve of arithmetic": """
        a = Mul(x, y) b = Add(a, y) c = Sub(b, x) d = Mul(c, y) e = Add(d, x) f = Mul(e, e) g = Add(f, one) h = Sqrt(g)
        i = Div(x, h) j = Mul(i, half) k = Relu(j) z = Add(k, x)""",
}
NUMBERS = {"half": 0.5, "one": 1.0, "three": 3.0, "six": 6.0, "zero": 0.0, "root": 1.4142135, "epsilon": 1e-5}
NUMBERS |= {"cubic": 0.044715, "slope": 0.79788456}
LENGTH = 1024
"""Elements of a row."""


def programs(chain: str, mode: str) -> tuple[Program, Program]:
    """The nodes one by one, and merged."""
    constants = " ".join(f"{name} = Constant<value_float = {value}>()" for name, value in NUMBERS.items())
    inputs = f"float[N,{LENGTH}] x, float[N,{LENGTH}] y, float[{LENGTH}] row, float[N,1] column"
    head = '<ir_version: 8, opset_import: ["" : 17]>'
    model = onnx.parser.parse_model(f"{head} g ({inputs}) => (float[N,{LENGTH}] z) {{ {constants} {chain} }}")
    merged = onemodel.Session(model, mode=mode)._program(frozenset(), ())
    return replace(merged, steps=[step for step in merged.steps if not isinstance(step[2], Together)]), merged


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        "python -m bench.fusion", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="chains whose name holds it")
    parser.add_argument("--seconds", type=float, default=0.5, metavar="S", help="for each number")
    parser.add_argument("--rows", type=int, nargs="+", default=[4, 32, 128, 1024, 2048, 8192], metavar="N")
    parser.add_argument("--least", action="store_true", help="least times, not medians: for a busy machine")
    options = parser.parse_args(arguments)
    summary = min if options.least else statistics.median
    for mode in ("exact", "fast"):
        table = Table(
            "nodes", *(f"{rows * LENGTH:,}" for rows in options.rows), title=f"{mode}: times as fast, by elements"
        )
        with threadpool_limits(1), get_backend("numpy").running():
            for name, chain in CHAINS.items():
                if options.only not in name:
                    continue
                cells = []
                for rows in options.rows:
                    random = np.random.default_rng(rows)
                    shapes = (rows, LENGTH), (rows, LENGTH), (LENGTH,), (rows, 1)
                    x = [np.abs(random.standard_normal(shape)).astype(np.float32) for shape in shapes]
                    calls = [partial(program.run, x) for program in programs(chain, mode)]
                    alone, together = interleaved(calls, options.seconds, summary)
                    cells.append(f"{alone / together:.2f}")
                table.add_row(name, *cells)
        Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
