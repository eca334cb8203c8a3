"""Exact mode's bits are those that ``digests.json`` keeps; and what the file must hold."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path

import onnx
import pytest

import onemodel
from onemodel import coverage
from tests.exact import digests
from tests.exact.digest_cases import DigestCase, drawn, wide
from tests.exact.digest_models import FETCHED, models
from tests.exact.patterns import FLOATS
from tests.models.fetch import Unreachable

KNOWN = digests.known()
CASES: dict[str, list[DigestCase]] = defaultdict(list)
for _case in (*wide(), *(drawn(name) for name in KNOWN if " drawn " in name)):
    CASES[_case.op].append(_case)
MODELS = {case.name.partition(" ")[2]: case for case in models()}
UPDATE = "if exact mode's bits shall change, raise EXACT_REVISION; then run python -m tests.exact.digests --update"


@pytest.mark.parametrize("op", sorted(CASES))
def test_operator(op: str) -> None:
    counts, differences = digests.compare(CASES[op], KNOWN)
    assert not differences, f"{differences}\n{UPDATE}"
    assert sum(counts.values()) == len(CASES[op])


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.network if n in FETCHED else []) for n in MODELS])
def test_model(name: str) -> None:
    case = MODELS[name]
    try:
        made, outputs = digests.compute(case)
    except Unreachable as problem:
        if os.environ.get("ONEMODEL_REQUIRE_MODELS"):
            raise
        pytest.skip(str(problem))
    except onemodel.InexactOperatorError:
        assert case.name not in KNOWN
        return
    assert (made, outputs) == KNOWN[case.name], UPDATE


def test_the_file_is_of_this_revision() -> None:
    assert json.loads(digests.FILE.read_text())["exact_revision"] == onemodel.EXACT_REVISION


def test_every_operator_that_exact_mode_takes_is_there() -> None:
    taken = {row.name for row in coverage.table() if row.exact not in ("no", coverage.NOT_YET)}
    assert taken <= {name.partition(" ")[0] for name in KNOWN}, UPDATE
    assert set(KNOWN) <= {case.name for cases in CASES.values() for case in cases} | {c.name for c in MODELS.values()}


def test_float_heavy_operators_have_every_float_type() -> None:
    for op in ("Exp", "MatMul", "Conv", "Softmax", "ReduceSum", "LayerNormalization", "Pow", "Div"):
        for name in FLOATS:
            assert any(case.startswith(f"{op} {name}") for case in KNOWN), (op, name)


def test_casts_have_every_type_of_numbers() -> None:
    casts = [name.split() for name in KNOWN if name.startswith("Cast ") and " to " in name]
    spelled = {"float": "float32", "double": "float64"}
    kinds = {name.lower() for name in onnx.TensorProto.DataType.keys()}  # noqa: SIM118 (it is no mapping)
    numbers = kinds - {"undefined", "string", "complex64", "complex128"}
    assert {spelled.get(name, name) for name in numbers} <= {word for cast in casts for word in cast[1::2]}


def test_a_difference_is_told_from_another_case() -> None:
    case = wide()[0]
    made, outputs = KNOWN[case.name]

    def problem(expected: digests.Digests) -> str:
        _, (difference,) = digests.compare([case], expected)
        assert difference.name == case.name
        return difference.problem

    assert digests.compare([case], {case.name: (made, outputs)}) == ({"same": 1}, [])
    assert problem({case.name: (made, "0" * 64)}) == "outputs differ"
    assert problem({case.name: ("0" * 16, outputs)}) == "case differs"
    assert problem({}) == "not in the file"


def test_the_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert digests.main(["Neg float", "--no-models"]) == 0
    assert capsys.readouterr().out.startswith("3 same, in ")
    name = "Neg float32"
    monkeypatch.setattr(digests, "known", lambda: KNOWN | {name: (KNOWN[name][0], "0" * 64)})
    assert digests.main(["Neg float", "--no-models"]) == 1
    assert capsys.readouterr().out.startswith("Neg float32: outputs differ\n1 different, 2 same, in ")


def test_the_update_says_what_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [case for case in wide() if case.op == "Neg"]
    path = tmp_path / "digests.json"
    monkeypatch.setattr(digests, "FILE", path)
    monkeypatch.setattr(digests, "every_case", lambda: cases)
    assert digests.update() == f"{len(cases)} cases: {len(cases)} new, 0 gone, 0 recast"
    assert digests.known() == {case.name: KNOWN[case.name] for case in cases}
    path.write_text(path.read_text().replace(KNOWN["Neg float32"][1], "0" * 64))
    assert digests.update().endswith("outputs of 1 changed, so raise EXACT_REVISION: Neg float32")
