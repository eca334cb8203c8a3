"""What a session adds to each node: ``python -m bench.overhead``.

A chain of nodes on one element costs almost nothing but the calls themselves. From a run of the chain go the cost of a
run of one node, which is fixed, and the cost of calling the operator's function as often from a plain loop.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import onnx
from onnx import TensorProto, helper
from rich.console import Console
from rich.table import Table

import onemodel
from onemodel.backends import get_backend
from onemodel.ops.registry import find

OPSET = 17


def chain(operator: str, length: int) -> onnx.ModelProto:
    """A model of ``length`` nodes of one operator in a row, on one float32 element."""
    names = [f"v{index}" for index in range(length + 1)]
    nodes = [helper.make_node(operator, [one], [other]) for one, other in pairwise(names)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in (names[0], names[-1])]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)


def least(call: Callable[[], object], repeats: int) -> float:
    """The least time of ``repeats`` calls, in microseconds: what the machine does meanwhile only adds."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return 1e6 * best


def measure(operator: str, length: int, repeats: int) -> dict[str, float]:
    """Microseconds: ``run``, fixed cost of a run; per node ``node``, ``function``, and ``overhead`` between them."""
    entry = find("", operator, OPSET)
    if entry is None:
        raise LookupError(f"OneModel has no {operator}")
    x = np.ones(1, dtype=np.float32)
    feeds = {"v0": x}
    long = onemodel.Session(chain(operator, length), mode="fast")
    short = onemodel.Session(chain(operator, 1), mode="fast")
    extras = {"xp": get_backend("numpy").namespace("fast")} if "xp" in entry.extras else {}
    function = entry.function

    def loop() -> None:
        value = x
        for _ in range(length):
            value = function(value, **extras)

    for call in (lambda: long.run(None, feeds), lambda: short.run(None, feeds), loop):
        least(call, 3)
    whole = least(lambda: long.run(None, feeds), repeats)
    fixed = least(lambda: short.run(None, feeds), repeats * 10)
    plain = least(loop, repeats) / length
    node = (whole - fixed) / (length - 1)
    return {"run": fixed, "node": node, "function": plain, "overhead": node - plain}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        "python -m bench.overhead", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "operators", nargs="*", default=["Identity", "Relu"], help="of one input; Identity and Relu by default"
    )
    parser.add_argument("--length", type=int, default=1000, metavar="N", help="nodes in the chain")
    parser.add_argument("--repeats", type=int, default=200, metavar="N", help="runs, of which the fastest counts")
    options = parser.parse_args(arguments)
    if options.length < 2 or options.repeats < 1:
        parser.error("a chain has at least two nodes, and at least one run is needed")
    table = Table("operator", "run of one node", "per node", "function alone", "overhead", title="Microseconds")
    for operator in options.operators:
        result = measure(operator, options.length, options.repeats)
        table.add_row(operator, *(f"{result[key]:.2f}" for key in ("run", "node", "function", "overhead")))
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
