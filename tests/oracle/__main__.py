"""The command: ``python -m tests.oracle``."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.table import Column, Table

from tests.oracle import chapters, known
from tests.oracle.check import STATUSES, Result, check
from tests.oracle.draw import ENTRIES, case

console = Console(soft_wrap=True, highlight=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases that were asked for; 1 where one is wrong."""
    parser = argparse.ArgumentParser("python -m tests.oracle", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="OPERATOR[-SEED]", help="an operator, or one case of it")
    parser.add_argument("--all", action="store_true", help="every operator")
    parser.add_argument("--count", type=int, default=24, help="cases of each operator (%(default)s)")
    parser.add_argument("--start", type=int, default=0, help="the first seed (%(default)s)")
    parser.add_argument("--show", type=int, default=5, help="wrong cases to print of each operator (%(default)s)")
    parser.add_argument("-v", action="store_true", help="print every case")
    parser.add_argument(
        "--places",
        action="store_true",
        help="list where ONNX Runtime is known wrong, and where exact mode has another value",
    )
    options = parser.parse_args(arguments)
    chapters.load()
    if options.places:
        for title, places in (("ONNX Runtime", known.PLACES), ("exact mode", known.EXACT)):
            for place in places:
                console.print(f"{title}, {', '.join(place.operators)}: {place.why}", markup=False)
        return 0
    names = sorted(ENTRIES) if options.all else options.cases
    if not names:
        parser.error("name operators, or pass --all")
    results: list[Result] = []
    for name in names:
        op, _, seed = name.partition("-")
        if op not in ENTRIES:
            parser.error(f"the oracle has no operator {op!r}")
        seeds = [int(seed)] if seed else range(options.start, options.start + options.count)
        shown = 0
        for number in seeds:
            result = check(case(op, number))
            results.append(result)
            shown += result.wrong
            if (result.wrong and shown <= options.show) or options.v or seed:
                console.print(f"{result.status}: {result.case}", markup=False)
                console.print("".join(f"    {line}\n" for line in result.message.splitlines()), markup=False, end="")
    _report(results)
    return int(any(result.wrong for result in results))


def _report(results: Sequence[Result]) -> None:
    """Counts per operator, and in all."""
    counts: dict[str, Counter[str]] = {}
    for result in results:
        counts.setdefault(result.case.op, Counter())[result.status] += 1
    table = Table(Column("operator", no_wrap=True, min_width=max(map(len, counts))), *STATUSES)
    for op, found in counts.items():
        table.add_row(op, *(str(found[status] or "") for status in STATUSES))
    whole = Counter(result.status for result in results)
    table.add_section()
    table.add_row("all", *(str(whole[status]) for status in STATUSES))
    console.print(table)
    compared = sum(whole[status] for status in STATUSES[:4])
    console.print(f"{len(results)} cases, {compared} compared with ONNX Runtime, {whole['WRONG']} wrong")


if __name__ == "__main__":
    sys.exit(main())
