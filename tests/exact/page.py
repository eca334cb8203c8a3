"""Writes ``docs/exact-functions.md`` from the records of proofs and measurements.

python -m tests.exact.page
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.exact.measure import MEASURES
from tests.exact.prove import PROOFS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "exact-functions.md"

HEAD = """\
# Exact elementary functions

This page is generated from `tests/exact/proofs.json` and `tests/exact/measures.json` by `python -m tests.exact.page`.

## float32

Each function is a straight-line program in float64: `+ - * /`, square root, rounding to integer, operations on bits and
table look-ups, in a fixed order, rounded once to float32. `python -m tests.exact.prove NAME` runs it over all 2^32
inputs, compiled operation by operation (NumPy gives the same bits on a million random inputs), and compares the results
with glibc's double value; where that, with a margin of 2^-48 of itself, does not decide how to round, with the long
double value; where that does not (the *hard* inputs), with MPFR. *Exceptions* are inputs whose float64 value is on the
wrong side of a rounding boundary; their results are in a table beside the functions. Every one of these functions is
correctly rounded for every input. `gelu`, `gelu_tanh`, `silu` and `mish` are x times a function that is 0 at -infinity,
and are NaN there, as ONNX's formulas are.

"""

HALVES = """
float16 and bfloat16 results are rounded once from the same float64 value, without exceptions. All 65,536 inputs of both
types are right: {count} functions, compared by `python -m tests.exact.measure halves` with glibc's double value, and
with MPFR where that does not decide.

"""

DOUBLES = """\
## float64

These programs compute in pairs of float64. The program is the definition, so the bits are the same everywhere. That it
is correctly rounded is measured, against MPFR, by `python -m tests.exact.measure doubles`: the error of a correctly
rounded result is at most 0.5 units in the last place. A wrong one is to be expected where the true value lies within
about 2^-90 of itself of a rounding boundary, so for about one random input in 2^36. Some inputs lie there by their
form, such as numbers a few units from a power of two with exponents such as 0.5 and -1 (`Pow`), and numbers of few bits
near 0. There the last bits of a sum, or a further term of a series, decide. Of 60,000 such inputs one is left whose
result is one unit in the last place off, `Mish(-5 * 2^-55)`; it is the same on every machine.

"""

PAIRS = """
## Functions of two numbers

There is no proof over 2^64 inputs. float32 `pow` is computed to 2^-50 first; where that does not decide, and for all
other types and `atan2`, in pairs of float64, whose last bits are cut so that ties are seen as ties. Measured against
MPFR by `python -m tests.exact.measure pairs` on any bits, moderate numbers, ties and near ties, and all special values:

"""


FORMULAS = """
## Formulas

These activations are formulas of the functions above. With the default attributes Elu, Celu and Swish are the functions
themselves; Selu has three roundings. Measured against glibc's double value on every 61st of all float32 inputs, by
`python -m tests.exact.measure formulas`:

"""


def _table(heads: list[str], rows: list[list[Any]]) -> str:
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
    return "".join(
        "| " + " | ".join(f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in line) + " |\n"
        for line in lines
    )


def page() -> str:
    """The text."""
    proofs, measures = json.loads(PROOFS.read_text()), json.loads(MEASURES.read_text())
    single = [[f"`{n}`", p["inputs"], p["hard"], p["exceptions"], p["seconds"]] for n, p in sorted(proofs.items())]
    double = [[f"`{n}`", m["inputs"], m["wrong"], m["ulp"]] for n, m in sorted(measures["doubles"].items())]
    pairs = [
        [f"`{n.split()[0]}` {n.split()[1]}", m["inputs"], m["wrong"]] for n, m in sorted(measures["pairs"].items())
    ]
    formulas = [[f"`{n}`", m["inputs"], m["ulp"]] for n, m in sorted(measures["formulas"].items())]
    right = [name for name, measure in measures["halves"].items() if not measure["wrong"]]
    return (
        HEAD
        + _table(["function", "inputs", "hard", "exceptions", "seconds"], single)
        + HALVES.format(count=len(right))
        + DOUBLES
        + _table(["function", "inputs", "not correctly rounded", "largest error, ulp"], double)
        + PAIRS
        + _table(["function", "inputs", "not correctly rounded"], pairs)
        + FORMULAS
        + _table(["operator", "inputs", "largest error, ulp"], formulas)
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
