"""What the command line prints with: consoles, tables, and text that is safe to show."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from onemodel import types

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

PREVIEW = 8
"""The most elements that are shown one by one."""


def console(*, errors: bool = False) -> Console:
    """A console on standard output, or on standard error.

    Names in models are shown as they are: square brackets are no markup. Where the output is no terminal, lines are not
    broken.
    """
    from rich.console import Console

    file = sys.stderr if errors else sys.stdout
    result = Console(file=file, markup=False, highlight=False, emoji=False)
    if not result.is_terminal and "COLUMNS" not in os.environ:
        result.width = 10_000
    return result


def safe(text: object, encoding: str = "utf-8") -> str:
    """Text without what could steer a terminal or what its encoding lacks; both are written as escapes."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in str(text))
    return shown.encode(encoding, "backslashreplace").decode(encoding)


def table(out: Console, title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table whose columns named with ``>`` in front are right-aligned; cells are never cut."""
    from rich import box
    from rich.table import Table

    result = Table(
        title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False
    )
    for column in columns:
        right = column.startswith(">")
        result.add_column(column.removeprefix(">"), justify="right" if right else "left", overflow="fold")
    for row in rows:
        result.add_row(*(safe(cell, out.encoding) for cell in row))
    return result


def duration(seconds: float) -> str:
    """A time with three digits and its unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"


def size(count: int) -> str:
    """A number of bytes with three digits and its unit."""
    value, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 999.5:
            break
        value, unit = value / 1000, larger
    return f"{value:.3g} {unit}"


def type_of(value: Any) -> str:
    """The ONNX type of a value that a run gave."""
    if value is None:
        return "empty optional"
    if isinstance(value, list):
        return f"seq({type_of(value[0]) if value else ''})"
    if isinstance(value, dict):
        text = any(isinstance(key, str) for key in value)
        return f"map({'string' if text else 'int64'},{types.of_dtype(np.asarray(list(value.values())).dtype)})"
    return types.of_dtype(np.asarray(value).dtype)


def shape_of(value: Any) -> str:
    """The shape of an array, or how many items a list or dict has."""
    if value is None:
        return "-"
    if isinstance(value, (list, dict)):
        return f"{len(value)} item{'s' * (len(value) != 1)}"
    return str(list(np.shape(value)))


def preview(value: Any) -> str:
    """A few elements one by one, or the range and mean of many."""
    if value is None:
        return "-"
    if isinstance(value, dict):
        shown = [f"{key!r}: {preview(item)}" for key, item in list(value.items())[:PREVIEW]]
        return f"{{{', '.join(shown)}{', ...' * (len(value) > PREVIEW)}}}"
    if isinstance(value, list):
        shown = [preview(item) if isinstance(item, (list, dict)) else f"[{preview(item)}]" for item in value[:2]]
        return f"[{', '.join(shown)}{', ...' * (len(value) > 2)}]"
    array = np.asarray(value)
    flat = array.ravel()
    if array.dtype.kind in "OUST":
        shown = [repr(str(item))[:40] for item in flat[:PREVIEW]]
        return ", ".join(shown) + ", ..." * (flat.size > PREVIEW)
    if array.dtype.kind == "b" and flat.size > PREVIEW:
        return f"{np.count_nonzero(flat)} of {flat.size} are true"
    if flat.size <= PREVIEW:
        return ", ".join(_number(item) for item in flat) or "no elements"
    if array.dtype.kind == "c":
        return f"mean {flat.mean():.6g}, magnitude {np.abs(flat).min():.6g} to {np.abs(flat).max():.6g}"
    if array.dtype.kind in "iu":
        return f"{flat.min()} to {flat.max()}, mean {flat.mean(dtype=np.float64):.6g}"
    numbers = flat.astype(np.float64)
    good = numbers[~np.isnan(numbers)]
    if not good.size:
        return f"all {numbers.size} are NaN"
    lost = f", {numbers.size - good.size} NaN" * (good.size < numbers.size)
    with np.errstate(all="ignore"):
        return f"{good.min():.6g} to {good.max():.6g}, mean {good.mean():.6g}{lost}"


def _number(item: Any) -> str:
    array = np.asarray(item)
    if array.dtype.kind in "iub":
        return str(array.item())
    return f"{array.astype(np.complex128 if array.dtype.kind == 'c' else np.float64).item():.6g}"
