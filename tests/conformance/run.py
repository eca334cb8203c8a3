"""Run the whole official suite in one namespace: ``python -m tests.conformance.run --namespace numpy-fast``.

Prints what passes by kind and by operator, and the failures grouped by cause. Useful options::

    --only REGEX -v        some cases, with the traceback of each failure
    --only REGEX --list    the names alone
    --update               add the passing cases to the namespace's manifest
    --json FILE            every case's result
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
from rich.console import Console
from rich.markup import escape
from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tests.conformance.cases import KINDS, Case, load_cases, subjects
from tests.conformance.manifest import (
    NAMESPACES,
    PEERS,
    STRICT_TYPES,
    manifest_path,
    read_manifest,
    write_manifest,
    write_peer,
)
from tests.conformance.worker import Result, run_cases

console = Console(soft_wrap=True, highlight=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns 1 where a case of the manifest fails or the manifest would lose a name, else 0."""
    options = _parser().parse_args(arguments)
    cases = load_cases(cached=True)
    names = _chosen(cases, options)
    if not names:
        console.print(f"No case matches; the suite has {len(cases)}.")
        return 2
    if options.list:
        console.print("\n".join(names), markup=False)
        return 0
    results = _run(names, options)
    failed = [results[name] for name in names if not results[name].passed]
    if options.verbose:
        for result in failed:
            console.rule(f"{result.name} · {result.stage}")
            console.print(result.trace or result.message, markup=False)
    if len(names) > 1:
        console.print(_table_by_kind(cases, results))
        if options.operators:
            console.print(_table_by_operator(cases, results))
        _print_groups(cases, failed, options.examples)
    _print_totals(cases, results, options.namespace)
    if options.json:
        _write_json(options.json, options.namespace, cases, results)
    return _settle_manifest(options, cases, results)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m tests.conformance.run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--namespace", "-n", default="numpy-fast", choices=[*NAMESPACES, *PEERS])
    parser.add_argument("--only", "-k", action="append", default=[], metavar="REGEX", help="cases whose name it finds")
    parser.add_argument(
        "--operator", "-o", action="append", default=[], metavar="NAME", help="cases with this operator"
    )
    parser.add_argument("--kind", action="append", default=[], choices=KINDS)
    parser.add_argument("--manifest", action="store_true", help="only the cases of the manifest")
    parser.add_argument("--missing", action="store_true", help="only the cases that are not in the manifest")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    parser.add_argument("--verbose", "-v", action="store_true", help="print the traceback of each failure")
    parser.add_argument("--operators", action="store_true", help="print the table by operator")
    parser.add_argument("--examples", type=int, default=4, metavar="N", help="case names per group of failures")
    parser.add_argument("--generic", action="store_true", help="without native kernels")
    parser.add_argument("--workers", "-w", type=int, default=1, metavar="N", help="processes at a time")
    parser.add_argument("--timeout", type=float, default=120, metavar="SECONDS", help="for one case")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every result")
    parser.add_argument("--update", action="store_true", help="rewrite the manifest with what passes")
    parser.add_argument("--allow-removal", action="store_true", help="let --update remove names that fail now")
    return parser


def _chosen(cases: Mapping[str, Case], options: argparse.Namespace) -> list[str]:
    patterns = [re.compile(pattern) for pattern in options.only]
    wanted = set(options.operator)
    listed = set(read_manifest(options.namespace)) if options.manifest or options.missing else set()
    return [
        name
        for name, case in cases.items()
        if (not patterns or any(pattern.search(name) for pattern in patterns))
        and (not options.kind or case.kind in options.kind)
        and (not wanted or wanted & subjects(cases, case))
        and (not options.manifest or name in listed)
        and (not options.missing or name not in listed)
    ]


def _run(names: Sequence[str], options: argparse.Namespace) -> dict[str, Result]:
    extra: dict[str, Any] = {"kernels": "generic"} if options.generic else {}
    results = {}
    columns = (TextColumn("{task.description}"), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(options.namespace, total=len(names))
        for result in run_cases(names, options.namespace, workers=options.workers, timeout=options.timeout, **extra):
            results[result.name] = result
            progress.advance(task)
    return results


def _table_by_kind(cases: Mapping[str, Case], results: Mapping[str, Result]) -> Table:
    table = Table("kind", "cases", "pass", "suite's comparison", "fail", title="By kind")
    for kind in (*KINDS, "all"):
        chosen = [result for name, result in results.items() if kind in (cases[name].kind, "all")]
        passed = sum(result.passed for result in chosen)
        by_suite = sum(result.passed_suite for result in chosen)
        if chosen:
            table.add_row(kind, str(len(chosen)), str(passed), str(by_suite), str(len(chosen) - passed))
    return table


def _table_by_operator(cases: Mapping[str, Case], results: Mapping[str, Result]) -> Table:
    """Node cases only: the other kinds hold many operators each."""
    passed: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for name, result in results.items():
        if cases[name].kind == "node":
            for operator in subjects(cases, cases[name]):
                total[operator] += 1
                passed[operator] += result.passed
    table = Table("operator", "cases", "pass", "fail", title="Node cases by operator")
    for operator in sorted(total):
        count = total[operator] - passed[operator]
        table.add_row(operator, str(total[operator]), str(passed[operator]), str(count or ""))
    return table


def _cause(result: Result) -> str:
    """A failure's text without what differs from case to case."""
    text = result.message.strip()
    lines = [line for line in text.splitlines() if line.strip()] or [""]
    first = " ".join(lines[:2]) if result.stage == "suite's comparison" else lines[0]
    first = re.sub(r"'[^']*'|\"[^\"]*\"", "'…'", first)
    first = re.sub(r"[-+]?\b\d[\d.,e+-]*", "#", first)
    return f"{result.stage} · {result.error}: {first[:200]}"


def _missing(result: Result) -> list[str]:
    """The operators that a refusal names."""
    names = {match.removeprefix("ai.onnx::") for match in re.findall(r"\(([\w.]*::\w+) at opset", result.message)}
    return sorted(names) or [result.message[:100]]


def _print_groups(cases: Mapping[str, Case], failed: Iterable[Result], examples: int) -> None:
    groups: dict[str, list[Result]] = defaultdict(list)
    failed = list(failed)
    for result in failed:
        if result.error != "UnsupportedOperatorError":
            groups[_cause(result)].append(result)
    missing = [_missing(result) for result in failed if result.error == "UnsupportedOperatorError"]
    if missing:
        alone = Counter(names[0] for names in missing if len(names) == 1)
        somewhere = Counter(name for names in missing for name in names)
        console.print(f"[bold]{len(missing)} cases lack operators[/] (operator: cases that lack it alone / at all)")
        ranked = sorted(somewhere, key=lambda name: (-alone[name], -somewhere[name], name))
        console.print(", ".join(f"{name} {alone[name]}/{somewhere[name]}" for name in ranked), markup=False)
    for cause, members in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        console.print(f"[bold]{len(members):4d}[/] {escape(cause)}")
        operators = Counter(operator for member in members for operator in subjects(cases, cases[member.name]))
        if len(operators) > 1:
            console.print("       in " + ", ".join(f"{name} {count}" for name, count in operators.most_common(8)))
        for member in members[:examples]:
            brief = " ".join(member.message.split())[:160]
            console.print(f"       {member.name}: {brief}", markup=False)


def _print_totals(cases: Mapping[str, Case], results: Mapping[str, Result], namespace: str) -> None:
    passed = sum(result.passed for result in results.values())
    console.print(f"[bold]{namespace}: {passed} of {len(results)} pass[/], {len(results) - passed} fail")
    if NAMESPACES.get(namespace, {}).get("backend") == "strict":
        inside = [result for name, result in results.items() if cases[name].element_types <= STRICT_TYPES]
        others = len(results) - len(inside)
        console.print(
            f"of the {len(inside)} whose inputs and outputs have the standard's element types "
            f"{sum(result.passed for result in inside)} pass; {others} have others"
        )
    slow = sorted(results.values(), key=lambda result: -result.seconds)[:3]
    console.print("slowest: " + ", ".join(f"{result.name} {result.seconds:.2f} s" for result in slow))


def _write_json(path: Path, namespace: str, cases: Mapping[str, Case], results: Mapping[str, Result]) -> None:
    rows = [
        {**result.as_dict(), "kind": cases[name].kind, "operators": sorted(subjects(cases, cases[name]))}
        for name, result in results.items()
    ]
    content = {"namespace": namespace, "onnx": onnx.__version__, "results": rows}
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")


def _settle_manifest(options: argparse.Namespace, cases: Mapping[str, Case], results: Mapping[str, Result]) -> int:
    """Compare with the manifest and, with --update, rewrite it; cases that did not run keep their place."""
    if options.namespace in PEERS:
        if options.update and len(results) == len(cases):
            passing = Counter(cases[name].kind for name, result in results.items() if result.passed_suite)
            write_peer(options.namespace, {kind: passing[kind] for kind in KINDS})
        return 0
    before = set(read_manifest(options.namespace))
    passed = {name for name, result in results.items() if result.passed}
    lost = sorted((before & set(results)) - passed | (before - set(cases)))
    new = sorted(passed - before)
    for name in lost:
        console.print(f"[red]in the manifest, but fails or is unknown:[/] {escape(name)}")
    if not options.update:
        if new and before:
            console.print(f"{len(new)} pass that are not in the manifest; --update adds them")
        return 1 if lost else 0
    if lost and not options.allow_removal:
        console.print(f"[red]{manifest_path(options.namespace).name} is unchanged:[/] removal needs --allow-removal")
        return 1
    write_manifest(options.namespace, (before | passed) - set(lost))
    console.print(f"{manifest_path(options.namespace).name}: {len(new)} added, {len(lost)} removed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
