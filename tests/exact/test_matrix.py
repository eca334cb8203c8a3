"""The quick part of the matrix agrees; and what a row that does not agree looks like."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.exact import matrix

ROWS = {f"{row.axis}: {row.setting}": row for row in matrix.rows()}


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.quick])
def test_quick_row(name: str, tmp_path: Path) -> None:
    outcome = matrix.run(ROWS[name], tmp_path, matrix.QUICK)
    assert outcome.problem == ""
    assert outcome.result is not None
    assert outcome.result["differences"] == []
    assert outcome.count("same") > 400
    wanted = ROWS[name].environment.get("OPENBLAS_CORETYPE")
    if wanted == "Haswell":
        assert wanted in outcome.result["where"]["blas"]
    if "NPY_DISABLE_CPU_FEATURES" in ROWS[name].environment:
        assert outcome.result["where"]["simd"] == []


def test_the_matrix_varies_what_it_should() -> None:
    axes = {row.axis for row in ROWS.values()}
    assert axes >= {"BLAS threads", "Python threads", "NumPy's SIMD", "hash seed", "array library", "NumPy"}
    assert "instruction set: AArch64, neoverse-n1" in ROWS
    for row in ROWS.values():
        assert set(row.environment) <= set(matrix.VARIED)


def test_the_oldest_numpy_is_the_bound_of_the_package() -> None:
    assert matrix.oldest_numpy() == "numpy==2.0.0"


def _outcome(*differences: dict[str, str], **counts: int) -> matrix.Outcome:
    where = {"numpy": "2.4.6", "blas": "Haswell", "simd": ["X86_V3"], "machine": "x86_64"}
    result = {"counts": counts, "differences": list(differences), "where": where}
    return matrix.Outcome(matrix.Row("axis", "setting"), result, 3.2)


def test_what_agrees() -> None:
    assert _outcome(same=3).agrees
    assert not _outcome().agrees, "nothing was compared"
    assert not _outcome({"name": "Exp", "problem": "outputs differ", "detail": ""}, same=3, different=1).agrees
    assert not matrix.Outcome(matrix.Row("axis", "setting"), None, 0, "no pip").agrees


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = {
        "nothing set": _outcome(same=9),
        "Haswell": _outcome({"name": "Exp", "problem": "outputs differ", "detail": ""}, same=8, different=1),
        "oldest": matrix.Outcome(matrix.Row("NumPy", "oldest"), None, 0, "no pip"),
    }
    monkeypatch.setattr(matrix, "rows", lambda: [matrix.Row("axis", setting) for setting in outcomes])
    monkeypatch.setattr(matrix, "run", lambda row, *_, **__: outcomes[row.setting])
    page, data = tmp_path / "page.md", tmp_path / "matrix.json"
    page.write_text(f"before\n{matrix.MARKER}old\n")
    monkeypatch.setattr(matrix, "PAGE", page)
    monkeypatch.setattr(matrix, "ROOT", tmp_path)
    assert matrix.main(["--json", str(data), "--update"]) == 1
    printed = capsys.readouterr().out
    assert "axis, setting: Exp: outputs differ" in printed
    assert "NumPy, oldest: could not run: no pip" in printed
    assert printed.endswith("1 of 3 rows agree with digests.json\n")
    assert "| axis | setting | 2.4.6 | Haswell | X86_V3 | 9 | 0 |  | 3 |" in page.read_text()
    assert "old\n" not in page.read_text()
    assert [row["counts"] for row in json.loads(data.read_text())[:2]] == [{"same": 9}, {"same": 8, "different": 1}]
    assert matrix.main(["nothing set"]) == 0
    with pytest.raises(SystemExit):
        matrix.main(["no such row"])
