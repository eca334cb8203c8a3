"""Write ``docs/conformance.md`` from the manifests and the suite's cases: ``python -m tests.conformance.report``."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

import onnx

from tests.conformance.cases import KINDS, Case, load_cases, subjects
from tests.conformance.manifest import (
    DATA_DEPENDENT,
    STRICT_TYPES,
    namespaces_with_manifest,
    read_manifest,
    read_peers,
)

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"

UNREACHABLE = {
    **dict.fromkeys(
        (
            "test_bernoulli",
            "test_bernoulli_double",
            "test_bernoulli_double_expanded",
            "test_bernoulli_expanded",
            "test_bernoulli_seed",
            "test_bernoulli_seed_expanded",
        ),
        "compares random draws, which ONNX leaves open",
    ),
    "test_loop16_seq_none": "the suite's own comparison raises an error",
}
"""Cases that no runtime can pass honestly, and why; ``test_unreachable`` runs them."""

NOISE = ("test_dft_inverse", "test_dft_inverse_opset19")
"""Cases whose expected values hold the rounding errors of the NumPy that is installed."""

NOT_EXACT = {
    **dict.fromkeys(
        NOISE,
        "onnx computes the expected values with the NumPy that is installed, and NumPy 2 leaves rounding errors up to "
        "2e-6 where the result is 0. On values made in double precision, as NumPy 1 made those in the wheels of ONNX "
        "up to 1.16, exact mode passes and fast mode fails (`tests/conformance/test_inverse_transforms.py`)",
    ),
    **dict.fromkeys(
        (
            "test_image_decoder_decode_bmp_rgb",
            "test_image_decoder_decode_jpeg2k_rgb",
            "test_image_decoder_decode_jpeg_bgr",
            "test_image_decoder_decode_jpeg_grayscale",
            "test_image_decoder_decode_jpeg_rgb",
            "test_image_decoder_decode_png_rgb",
            "test_image_decoder_decode_pnm_rgb",
            "test_image_decoder_decode_tiff_rgb",
            "test_image_decoder_decode_webp_rgb",
        ),
        "refused: the pixels of lossy formats depend on the version of the decoding library",
    ),
}
"""Cases that pass in fast mode and not in exact mode, and why."""

INTRODUCTION = """\
# Conformance

OneModel runs the official ONNX backend suite, as onnx {version} ships it: {count} cases. This page counts what passes.
A test keeps it current; `python -m tests.conformance.report` writes it.

A case passes where both of these comparisons agree with the expected outputs:

- the suite's own, with the case's tolerances;
- a stricter one: integers, booleans, strings and types of 8 bits and below are equal; sequences are as long as
  expected; `None` stands where expected; shapes and dtypes are equal; NaN and infinities stand where expected. It does
  not tell 0.0 from -0.0.

The cases that pass are listed by name in `tests/conformance/manifest-*.txt`, one list for each namespace. Each listed
case is a test, and none of them may be skipped. The namespaces:
"""

NAMESPACE_NOTES = {
    "numpy-fast": "NumPy in fast mode",
    "numpy-exact": "NumPy in exact mode",
    "strict-fast": "array-api-strict in fast mode, which has nothing but the Array API standard",
    "cupy-fast": "CuPy in fast mode, on a stand-in for CuPy over NumPy (`tests/gpu`), not on a GPU",
    "cupy-exact": "CuPy in exact mode, on the same stand-in",
}

UNREACHABLE_NOTE = """\
`tests/conformance/test_unreachable.py` has assertions of its own for them: the share of ones, that a seed repeats the
draws, and the sequence. `tests/ops/test_random.py` has the moments of all draws.
"""

STRICT = """\
## What array-api-strict leaves out

The cases that pass on NumPy in fast mode and are not in array-api-strict's manifest, each with its reason. A test keeps
the table complete.
"""

STRICT_FLAGS = """\
All others also run with array-api-strict's strictest flags, without boolean indexing and without shapes that depend on
values, but for those of {operators}, whose meaning depends on them.
"""

OPERATORS = """\
## By operator

Node cases only: each runs one operator, directly or (`_expanded`) through its function body. The other kinds are whole
graphs.
"""

PEERS = """\
The peers were run by the same tool, with plain NumPy arrays in and out; for them the suite's own comparison counts
alone.
"""

OUTRO = """\
## Run it yourself

    pytest tests/conformance
    python -m tests.conformance.run --namespace numpy-fast                  # all cases, and why some fail
    python -m tests.conformance.run --namespace numpy-fast --only test_lstm -v
    python -m tests.conformance.run --namespace onnxruntime                 # a peer
"""


def render(cases: Mapping[str, Case]) -> str:
    """The page's text."""
    manifests = {namespace: frozenset(read_manifest(namespace)) for namespace in namespaces_with_manifest()}
    parts = [
        INTRODUCTION.format(version=onnx.__version__, count=len(cases)),
        "".join(f"- `{namespace}`: {NAMESPACE_NOTES[namespace]}\n" for namespace in manifests),
        "## By kind\n",
        _by_kind(cases, manifests),
        PEERS,
        _strict_note(cases, manifests),
        f"{len(cases) - len(UNREACHABLE)} cases are within reach. The others:\n",
        "".join(f"- `{name}`: {reason}\n" for name, reason in UNREACHABLE.items()),
        UNREACHABLE_NOTE,
        "Of the cases that pass in fast mode exact mode does not pass:\n",
        "".join(f"- `{name}`: {reason}\n" for name, reason in NOT_EXACT.items()),
        *([STRICT, _left_out_table(cases), _strict_flags()] if "strict-fast" in manifests else []),
        OPERATORS,
        _by_operator(cases, manifests),
        OUTRO,
    ]
    return "\n".join(part for part in parts if part)


def _by_kind(cases: Mapping[str, Case], manifests: Mapping[str, Collection[str]]) -> str:
    peers = read_peers()
    rows = []
    for kind, belongs in _groups():
        names = [name for name, case in cases.items() if belongs(case)]
        counts = [sum(name in manifest for name in names) for manifest in manifests.values()]
        theirs = [sum(counts.values()) if kind == "all" else counts.get(kind, "") for counts in peers.values()]
        rows.append([kind, len(names), *counts, *theirs])
    return _table(["kind", "cases", *manifests, *peers], rows)


def _groups() -> list[tuple[str, Callable[[Case], bool]]]:
    def of(kind: str) -> Callable[[Case], bool]:
        return lambda case: case.kind == kind

    return [*((kind, of(kind)) for kind in KINDS), ("all", lambda case: True)]


def _strict_note(cases: Mapping[str, Case], manifests: Mapping[str, Collection[str]]) -> str:
    if "strict-fast" not in manifests:
        return ""
    inside = [name for name, case in cases.items() if case.element_types <= STRICT_TYPES]
    passed = sum(name in manifests["strict-fast"] for name in inside)
    return (
        f"array-api-strict has the standard's element types alone. {len(inside)} cases have no other at their inputs\n"
        f"and outputs; of these {passed} pass on it.\n"
    )


def left_out_of_strict(cases: Mapping[str, Case]) -> dict[str, frozenset[str]]:
    """The cases of NumPy's manifest that array-api-strict's lacks, and the element types that it lacks for each."""
    names = set(read_manifest("numpy-fast")) - set(read_manifest("strict-fast"))
    return {name: cases[name].element_types - STRICT_TYPES for name in sorted(names)}


def _left_out_table(cases: Mapping[str, Case]) -> str:
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, missing in left_out_of_strict(cases).items():
        groups.setdefault(tuple(sorted(missing)), []).append(name)
    rows = []
    for types, names in sorted(groups.items()):
        reason = f"the standard has no {' and no '.join(types)}" if types else "none"
        rows.append([reason, len(names), ", ".join(f"`{name.removeprefix('test_')}`" for name in names)])
    return _table(["reason", "cases", "names, without `test_`"], rows)


def _strict_flags() -> str:
    return STRICT_FLAGS.format(operators=", ".join(DATA_DEPENDENT[:-1]) + f" and {DATA_DEPENDENT[-1]}")


def _by_operator(cases: Mapping[str, Case], manifests: Mapping[str, Collection[str]]) -> str:
    total: Counter[str] = Counter()
    passed: dict[str, Counter[str]] = {namespace: Counter() for namespace in manifests}
    for name, case in cases.items():
        if case.kind == "node":
            for operator in subjects(cases, case):
                total[operator] += 1
                for namespace, manifest in manifests.items():
                    passed[namespace][operator] += name in manifest
    rows = [
        [operator, total[operator], *(passed[namespace][operator] for namespace in manifests)] for operator in total
    ]
    return _table(["operator", "cases", *manifests], sorted(rows, key=lambda row: (":" in str(row[0]), str(row[0]))))


def _table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "".join("| " + " | ".join(map(str, line)) + " |\n" for line in lines)


if __name__ == "__main__":
    PAGE.write_text(render(load_cases(cached=True)), encoding="utf-8")
    sys.stdout.write(f"{PAGE.relative_to(Path.cwd()) if PAGE.is_relative_to(Path.cwd()) else PAGE} is written\n")
