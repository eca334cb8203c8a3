"""Recorded runs: what a run was made of and what it gave, so that another machine can do it again and compare."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onemodel import __version__, arrayfile
from onemodel.digest import EXACT_REVISION, digest_of
from onemodel.errors import InputError
from onemodel.session import Session
from onemodel.terminal import shape_of, type_of

FORMAT = 1
NOT_GIVEN, NOT_RECORDED = "not given", "not recorded"
"""What a comparison shows in place of a hash: a recorded file of operators is not given, something is not recorded."""

_EMPTY: Mapping[str, Any] = {"empty optional": None, "seq()": []}
"""Values that an ``.npz`` file has no key for, by the name of their type."""


@dataclass(frozen=True)
class Comparison:
    """One thing that a record holds, beside what is here.

    Attributes:
        what: ``"exact revision"``, ``"model"``, ``"operators 'own.py'"``, ``"external data 'w'"``, ``"input 'x'"``,
            ``"output 'y'"`` or ``"digest"``.
        recorded, here: both as text; a SHA-256, or type and shape.
    """

    what: str
    recorded: str
    here: str

    @property
    def same(self) -> bool:
        return self.recorded == self.here


def inputs_path(path: Path) -> Path:
    """Where the inputs of the record at ``path`` are kept: ``run.json`` has ``run.inputs.npz`` beside it."""
    return path.with_name(f"{path.stem}.inputs.npz")


def write(
    path: Path,
    model: Path,
    session: Session,
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    operators: Sequence[Path] = (),
) -> None:
    """Write the record of a run of an exact session, as JSON, and the inputs beside it.

    Args:
        path: the record.
        model: where the session's model lies; kept as a path from the record's folder.
        session: the session.
        inputs, outputs: values by name.
        operators: Python files that define operators of the model.

    Raises:
        InputError: the session is not exact, or an input cannot be kept in an ``.npz`` file.
        OSError: a file cannot be written.
    """
    if session.mode != "exact":
        raise InputError('the run is in mode="fast", whose bits hang on the machine; only exact runs are recorded')
    described = _described(inputs)
    if any(value["type"] not in _EMPTY for value in described.values()):
        arrayfile.write_npz(inputs_path(path), inputs)
    content = {
        "format": FORMAT,
        "exact_revision": EXACT_REVISION,
        "written_by": {
            "onemodel": __version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
            "machine": platform.machine(),
        },
        "model": {
            "path": _way(path.absolute().parent, model.absolute()),
            "sha256": _file_hash(model),
            "external_data": session.external_hashes(),
        },
        "operators": _operator_hashes(operators),
        "seed": session.config.seed,
        "inputs": described,
        "outputs": _described(outputs),
        "digest": session.digest(outputs),
    }
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def compare(
    path: Path,
    *,
    model: Path | None = None,
    folder: Path | None = None,
    backend: str = "numpy",
    threads: int | None = None,
    operators: Sequence[Path] = (),
) -> Iterator[Comparison]:
    """Hold a record against this machine; the run itself is done only where all before it is the same.

    Args:
        path: the record.
        model: the model, where it does not lie where the record says.
        folder: where its external data lies; by default beside it.
        backend, threads: how to run it now; neither changes a bit.
        operators: Python files that define operators of the model, and that have been run; their names do not count.

    Yields:
        revision, model, operators, external data, inputs, outputs and the digest of all outputs, in this order. Nothing
        follows a difference in one of the first five kinds, because the run would be another one.

    Raises:
        InputError: the file is no record, or the inputs beside it are gone.
        OneModelError: the model cannot be run here.
        OSError: a file cannot be read.
    """
    record = _read(path)
    here = path.parent / record["model"]["path"] if model is None else model
    if not here.exists():
        raise InputError(f"the model of {path} is not at {here}; pass --model, or model=")
    files = [(file.name, _file_hash(file)) for file in operators]
    for found in (
        Comparison("exact revision", str(record["exact_revision"]), str(EXACT_REVISION)),
        Comparison("model", record["model"]["sha256"], _file_hash(here)),
        *_compared_operators(record["operators"], files),
    ):
        yield found
        if not found.same:
            return
    session = Session(
        here, folder=folder, backend=backend, mode="exact", threads=threads, seed=record["seed"], outputs="numpy"
    )
    hashes = session.external_hashes()
    feeds = _feeds(path, record["inputs"])
    before = [
        Comparison(f"external data {name!r}", known, hashes.get(name, "not used"))
        for name, known in record["model"]["external_data"].items()
    ]
    described = _described(feeds)
    before += [
        Comparison(f"input {name!r}", _text(known), _text(described[name])) for name, known in record["inputs"].items()
    ]
    for found in before:
        yield found
        if not found.same:
            return
    names = [value.name for value in session.get_outputs()]
    made = dict(zip(names, session.run(None, feeds), strict=True))
    outputs = _described(made)
    for name in dict.fromkeys([*record["outputs"], *outputs]):
        known = record["outputs"].get(name)
        yield Comparison(
            f"output {name!r}",
            NOT_RECORDED if known is None else _text(known),
            _text(outputs[name]) if name in outputs else "not there",
        )
    yield Comparison("digest", record["digest"], session.digest(made))


def _operator_hashes(files: Sequence[Path]) -> dict[str, str]:
    """SHA-256 by name; by path where another file has the name."""
    found: dict[str, str] = {}
    for file in files:
        found[file.name if file.name not in found else file.as_posix()] = _file_hash(file)
    return found


def _compared_operators(recorded: Mapping[str, str], files: Sequence[tuple[str, str]]) -> Iterator[Comparison]:
    """Recorded files, found again by their content, beside those given, with their names; then those not recorded."""
    hashes, names = {content for _, content in files}, dict(files)
    for name, known in recorded.items():
        yield Comparison(f"operators {name!r}", known, known if known in hashes else names.get(name, NOT_GIVEN))
    for name, content in files:
        if content not in recorded.values():
            yield Comparison(f"operators {name!r}", NOT_RECORDED, content)


def _way(folder: Path, model: Path) -> str:
    """The path of a model from a folder; as it is where there is no such way, between drives of Windows."""
    try:
        return Path(os.path.relpath(model, folder)).as_posix()
    except ValueError:
        return model.as_posix()


def _described(values: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    return {
        name: {"type": type_of(value), "shape": shape_of(value), "sha256": digest_of({name: value})}
        for name, value in values.items()
    }


def _text(value: Mapping[str, str]) -> str:
    return f"{value['type']} {value['shape']} {value['sha256']}"


def _feeds(path: Path, inputs: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """The recorded inputs."""
    kept = inputs_path(path)
    if any(value["type"] not in _EMPTY for value in inputs.values()) and not kept.exists():
        raise InputError(f"the inputs of {path} are not there; they were written to {kept.name} beside it")
    return {
        name: _EMPTY[value["type"]] if value["type"] in _EMPTY else arrayfile.read(kept, name, value["type"])
        for name, value in inputs.items()
    }


def _read(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON, so no record that 'onemodel run --record' wrote") from error
    try:
        if record["format"] != FORMAT:
            raise InputError(f"{path} is a record of format {record['format']}; this version reads format {FORMAT}")
        texts = [record["model"]["path"], record["model"]["sha256"], record["digest"]]
        texts += [*record["operators"].values(), *record["model"]["external_data"].values()]
        texts += [
            text for value in record["inputs"].values() for text in (value["type"], value["shape"], value["sha256"])
        ]
        if not all(isinstance(text, str) and "\0" not in text for text in texts):
            raise TypeError("a text is none")
        int(record["exact_revision"])
        for value in (*record["inputs"].values(), *record["outputs"].values()):
            _text(value)
        record["seed"]
    except KeyError as error:
        raise InputError(f"{path} is no record that 'onemodel run --record' wrote: it lacks {error}") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path} is no record that 'onemodel run --record' wrote: its parts are of other kinds"
        ) from error
    return dict(record)


def _file_hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
