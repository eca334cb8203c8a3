"""How the command line writes values, numbers with units, and text from models."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from onemodel.terminal import console, duration, preview, safe, shape_of, size, table, type_of


@pytest.mark.parametrize(
    ("value", "type_", "shape", "text"),
    [
        (np.float32(1.5), "tensor(float)", "[]", "1.5"),
        (np.zeros((0, 3), np.float32), "tensor(float)", "[0, 3]", "no elements"),
        (np.array([2**62, -1]), "tensor(int64)", "[2]", "4611686018427387904, -1"),
        (np.array([True, False]), "tensor(bool)", "[2]", "True, False"),
        (np.arange(9) < 4, "tensor(bool)", "[9]", "4 of 9 are true"),
        (np.arange(9, dtype=np.uint8), "tensor(uint8)", "[9]", "0 to 8, mean 4"),
        (np.linspace(0, 1, 9), "tensor(double)", "[9]", "0 to 1, mean 0.5"),
        (np.array([np.nan] * 9), "tensor(double)", "[9]", "all 9 are NaN"),
        (np.array([np.nan, *range(9)]), "tensor(double)", "[10]", "0 to 8, mean 4, 1 NaN"),
        (np.array([-np.inf, *range(9)]), "tensor(double)", "[10]", "-inf to 8, mean -inf"),
        (np.array([-np.inf, np.inf, *range(9)]), "tensor(double)", "[11]", "-inf to inf, mean nan"),
        (np.array([3 + 4j]), "tensor(complex128)", "[1]", "3+4j"),
        (np.array([3 + 4j] * 9), "tensor(complex128)", "[9]", "mean 3+4j, magnitude 5 to 5"),
        (np.arange(3).astype(ml_dtypes.bfloat16), "tensor(bfloat16)", "[3]", "0, 1, 2"),
        (np.arange(9).astype(ml_dtypes.float8_e5m2), "tensor(float8e5m2)", "[9]", "0 to 8, mean 4"),
        (np.array([-8, 7]).astype(ml_dtypes.int4), "tensor(int4)", "[2]", "-8, 7"),
        (np.array(["a", "it's"], object), "tensor(string)", "[2]", "'a', \"it's\""),
        (np.array(["x"] * 9, object), "tensor(string)", "[9]", ", ".join(["'x'"] * 8) + ", ..."),
        (None, "empty optional", "-", "-"),
        ([], "seq()", "0 items", "[]"),
        (
            [np.ones(1, np.float32), np.zeros(1, np.float32), np.ones(2, np.float32)],
            "seq(tensor(float))",
            "3 items",
            "[[1], [0], ...]",
        ),
        ({"a": np.float32(0.5)}, "map(string,tensor(float))", "1 item", "{'a': 0.5}"),
        ([{1: np.float32(0.5), 2: np.float32(1)}], "seq(map(int64,tensor(float)))", "1 item", "[{1: 0.5, 2: 1}]"),
    ],
)
def test_values(value: Any, type_: str, shape: str, text: str) -> None:
    assert type_of(value) == type_
    assert shape_of(value) == shape
    assert preview(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(12.345, "12.3 s"), (1, "1 s"), (0.0123, "12.3 ms"), (1.234e-5, "12.3 us"), (0, "0 us")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (25267, "25.3 kB"), (999_600, "1 MB"), (4 * 10**9, "4 GB")],
)
def test_sizes(count: int, text: str) -> None:
    assert size(count) == text


def test_text_from_models_is_made_safe() -> None:
    assert safe("a\x1b[31m\n\u202eb\udcff") == "a\\x1b[31m\\n\\u202eb\\udcff"
    assert safe("Größe [batch] █") == "Größe [batch] █"
    assert safe("Größe █", "ascii") == "Gr\\xf6\\xdfe \\u2588"
    assert safe(17) == "17"


def test_tables_keep_brackets_and_long_cells(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    out = console()
    out.print(table(out, "title", ("name", ">number"), [["[bold]" + "x" * 300, 5], ["y", 123]]))
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "title"
    assert lines[3] == "[bold]" + "x" * 300 + " " * 8 + "5"
    assert lines[4].endswith(" 123")
    assert lines[4].startswith("y ")
