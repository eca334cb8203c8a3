"""Options of the command line: those that several commands have, and the checks of their values."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from onemodel.feeds import Spec


_OPTIONS = {
    'mode="fast"': "--mode fast",
    "Session(seed=...)": "--seed",
    "pass folder= (the folder it lies in) or external_data= (a mapping from location to bytes)": (
        "pass --folder (the folder it lies in)"
    ),
}
"""Options of the command line, by what messages call them, which speak of Session's arguments."""


def in_options(message: str) -> str:
    """A message that names the command line's options in place of Session's arguments."""
    for argument, option in _OPTIONS.items():
        message = message.replace(argument, option)
    return message


def sizes(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> dict[str, int]:
    found = {}
    for text in texts:
        name, _equals, number = text.rpartition("=")
        if not name or not (number.isascii() and number.isdecimal()):
            raise click.BadParameter(f"{text!r} is not DIM=N with a whole number N, as in batch=4")
        found[name] = int(number)
    return found


def specs(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> list[Spec]:
    if not texts:
        return []
    from onemodel.feeds import parse

    try:
        return [parse(text) for text in texts]
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def written(suffix: str, what: str) -> Callable[..., Path | None]:
    """A check of the path that ``what`` is written to."""

    def check(_: click.Context, __: click.Parameter, path: Path | None) -> Path | None:
        if path is not None and path.suffix != suffix:
            raise click.BadParameter(
                f"{str(path)!r} does not end with {suffix}, the only format that {what} are written in"
            )
        if path is not None and not path.parent.is_dir():
            raise click.BadParameter(f"there is no folder {str(path.parent)!r}")
        return path

    return check


def _operators(_: click.Context, __: click.Parameter, paths: tuple[Path, ...]) -> tuple[Path, ...]:
    """Run files that register operators."""
    for path in paths:
        try:
            runpy.run_path(str(path), run_name=path.stem)
        except Exception as error:
            raise click.BadParameter(f"{str(path)!r} cannot be run: {type(error).__name__}: {error}") from error
    return paths


_operators_option = click.option(
    "--operators",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    is_eager=True,
    callback=_operators,
    help="A Python file with operators of your own (@onemodel.operator); it is run. May be given several times.",
)
_folder_option = click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Where the model's external data lies.  [default: beside the model]",
)


def reads_model(function: Callable[..., None]) -> Callable[..., None]:
    """The options of every command that reads a model."""
    return _folder_option(_operators_option(function))
