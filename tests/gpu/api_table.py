"""The interface of the real CuPy as a table, so that tests can hold calls against it where CuPy is not installed.

``python -m tests.gpu.api_table`` writes the table anew. It needs CuPy, but neither a driver nor a GPU.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

TABLE = Path(__file__).with_name("cupy_api.json")
_PARTS = ("", "linalg", "fft")


@cache
def read_table() -> Mapping[str, Any]:
    """The table.

    Its keys: ``cupy``, the version; ``functions``, name to parameters, with ``linalg.`` and ``fft.`` before the names
    of those modules; ``ufuncs``, name to inputs, outputs and loops; ``methods`` of arrays, name to parameters;
    ``cuda``, functions and methods of ``cupy.cuda`` to the names of their parameters.
    """
    table: Mapping[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return table


@cache
def signature(kind: str, name: str) -> inspect.Signature:
    """The signature of a function or method of the table."""
    function = eval(f"lambda {read_table()[kind][name]}: None", {})
    return inspect.signature(function)


def _parameters(function: Any) -> str | None:
    """The parameters of a function without annotations and with every default None; None where they cannot be told."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError):
        return _documented(function)
    plain = [
        parameter.replace(
            annotation=inspect.Parameter.empty,
            default=parameter.default if parameter.default is inspect.Parameter.empty else None,
        )
        for parameter in parameters
    ]
    return str(inspect.Signature(plain))[1:-1]


def _documented(function: Any) -> str | None:
    """Compiled functions tell their parameters in the first line of their docstring, with C types."""
    match = re.match(r"[\w.]+\((.*?)\)(?: ->|\n|$)", function.__doc__ or "", re.S)
    if match is None:
        return None
    names = []
    for text in filter(None, (part.strip() for part in match[1].split(","))):
        name, equals, _ = text.partition("=")
        name = name.split()[-1] if not name.startswith("*") else name
        names.append(f"{name}=None" if equals else name)
    return ", ".join(names)


def _functions(cupy: Any) -> Iterator[tuple[str, str]]:
    for part in _PARTS:
        theirs, ours = (getattr(module, part) if part else module for module in (cupy, np))
        for name in sorted(set(dir(theirs)) & {*dir(ours), *dir(np.linalg)}):
            function = getattr(theirs, name)
            if name.startswith("_") or isinstance(function, (type, cupy.ufunc)) or not callable(function):
                continue
            if (parameters := _parameters(function)) is not None:
                yield f"{part}.{name}" if part else name, parameters


def _ufuncs(cupy: Any) -> Iterator[tuple[str, list[Any]]]:
    for name in sorted(vars(cupy)):
        function = getattr(cupy, name)
        if isinstance(function, cupy.ufunc) and not name.startswith("_"):
            yield name, [function.nin, function.nout, " ".join(function.types)]


def _methods(cupy: Any) -> Iterator[tuple[str, str]]:
    for name in sorted(dir(cupy.ndarray)):
        function = getattr(cupy.ndarray, name)
        if not name.startswith("_") and callable(function) and (parameters := _parameters(function)) is not None:
            yield name, parameters


def _cuda(cupy: Any) -> Iterator[tuple[str, list[str]]]:
    """What streams, events, graphs and pools are asked for."""
    for name in (
        *("Stream.__init__", "Stream.begin_capture", "Stream.end_capture", "Stream.is_capturing", "Stream.record"),
        *("Stream.synchronize", "Stream.wait_event", "Event.__init__", "Event.record", "Event.synchronize"),
        *("Graph.launch", "Graph.upload", "MemoryPool.malloc", "MemoryPool.total_bytes", "using_allocator"),
    ):
        function = cupy.cuda
        for part in name.split("."):
            function = getattr(function, part)
        found = _documented(function) if name.endswith("__init__") or "Graph" in name else _parameters(function)
        yield name, [part.partition("=")[0].strip() for part in (found or "").split(",") if part.strip()]


def main() -> None:
    """Write the table."""
    import cupy

    table = {
        "cupy": cupy.__version__,
        "functions": dict(_functions(cupy)),
        "ufuncs": dict(_ufuncs(cupy)),
        "methods": dict(_methods(cupy)),
        "cuda": dict(_cuda(cupy)),
    }
    TABLE.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
