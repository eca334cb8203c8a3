"""The command ``onemodel``. What costs time to import is imported inside the commands."""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from onemodel import __version__
from onemodel.cli_options import in_options, reads_model, sizes, specs, written
from onemodel.errors import OneModelError

if TYPE_CHECKING:
    from rich.console import Console

    from onemodel.feeds import Spec
    from onemodel.summary import Refusal

_TRACEBACK = "onemodel.traceback"
_MODES = click.Choice(["exact", "fast"])
_BACKENDS = click.Choice(["numpy", "cupy", "strict"])
_MODEL = click.Path(path_type=Path)


class Group(click.Group):
    """A group that shows OneModel's and the system's errors as one line and exits with 1."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (OneModelError, OSError, MemoryError) as error:
            broken_pipe = isinstance(error, OSError) and error.errno == errno.EPIPE
            if broken_pipe or ctx.meta.get(_TRACEBACK) or os.environ.get("ONEMODEL_TRACEBACK", "0") not in ("", "0"):
                raise
            _show_error(error)
            ctx.exit(1)


def _show_error(error: BaseException) -> None:
    from rich.text import Text

    from onemodel.terminal import console, safe

    if isinstance(error, MemoryError):
        message = f"out of memory: {error}" if str(error) else "out of memory"
    elif isinstance(error, OSError) and error.strerror:
        message = f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
    else:
        message = in_options(str(error))
    out = console(errors=True)
    for line in f"error: {message}".splitlines():
        out.print(Text(safe(line, out.encoding), style="red"), soft_wrap=True)


def _remember_traceback(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        ctx.meta[_TRACEBACK] = True


def _command(summary: str, *examples: str) -> Callable[[Callable[..., None]], click.Command]:
    """A command of ``main``: its line in the list of commands, and examples for its help."""
    epilog = "\b\nExamples:\n" + "\n".join(f"  {example}" for example in examples)

    def enter(function: Callable[..., None]) -> click.Command:
        command = main.command(short_help=summary, epilog=epilog)(function)
        command.params.append(
            click.Option(
                ["--traceback"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=_remember_traceback,
                help="Show where an error came from (also: ONEMODEL_TRACEBACK=1).",
            )
        )
        return command

    return enter


@contextmanager
def _busy(text: str) -> Iterator[None]:
    """A spinner on standard error, where that is a terminal."""
    from onemodel.terminal import console

    out = console(errors=True)
    if not out.is_terminal or not out.encoding.startswith("utf"):
        yield
        return
    with out.status(text):
        yield


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="onemodel", message="%(prog)s %(version)s")
@click.option("--traceback", is_flag=True, is_eager=True, expose_value=False, callback=_remember_traceback, hidden=True)
def main() -> None:
    """Run ONNX models, exact or fast."""


@_command(
    "Read a hand-written digit.",
    "onemodel demo",
    "onemodel demo --digit 7",
    "onemodel demo --digit 3 --sample 1 --backend strict",
)
@click.option("--digit", type=click.IntRange(0, 9), default=7, show_default=True, help="Which digit to read.")
@click.option(
    "--sample", type=click.IntRange(0, 1), default=0, show_default=True, help="Which of the two held-out ones."
)
@click.option("--mode", type=_MODES, default="exact", show_default=True, help="The arithmetic.")
@click.option("--backend", type=_BACKENDS, default="numpy", show_default=True, help="What computes.")
def demo(digit: int, sample: int, mode: str, backend: str) -> None:
    """Read a hand-written digit with the small network that comes with OneModel.

    The digit is one of those that the network was not trained on.
    """
    from onemodel.demo import read
    from onemodel.terminal import console

    _show_reading(console(), read(digit, sample, mode=mode, backend=backend))


def _show_reading(out: Console, reading: Any) -> None:
    from rich.panel import Panel
    from rich.table import Table

    from onemodel.demo import bar, drawing
    from onemodel.terminal import duration

    unicode = out.encoding.startswith("utf")
    classes = Table(box=None, pad_edge=False, show_header=True)
    classes.add_column("class", justify="right")
    classes.add_column("probability", justify="right")
    classes.add_column("")
    for index, probability in enumerate(reading.probabilities.tolist()):
        style = "bold green" if index == reading.answer else ""
        classes.add_row(str(index), f"{probability:.2%}", bar(probability, 30, unicode=unicode), style=style)
    picture = Panel.fit(drawing(reading.image, unicode=unicode), title="held out", padding=(0, 1))
    sides = Table.grid(padding=(0, 3))
    sides.add_row(picture, classes)
    out.print(sides)
    verdict = "right" if reading.answer == reading.label else "wrong"
    sure = f"{reading.probabilities[reading.answer]:.2%}"
    out.print(f"The network reads {reading.answer} ({sure}). The label is {reading.label}: {verdict}.")
    out.print(f"mode: {reading.mode}   backend: {reading.backend}   time: {duration(reading.seconds)} a run")


@_command(
    "Run a model once.",
    "onemodel run model.onnx -i random --mode fast",
    "onemodel run model.onnx -i image=photo.npy -o out.npz",
    "onemodel run model.onnx -i ids=inputs.npz:tokens -i mask=random:1x16",
    "onemodel run model.onnx -i inputs.npz --mode fast --threads 4",
    "onemodel run model.onnx -i random --set batch=8 --set length=128",
    "onemodel run model.onnx -i inputs.npz --digest",
    "onemodel run model.onnx -i inputs.npz --record run.json",
)
@click.argument("model", type=_MODEL)
@click.option(
    "-i",
    "--input",
    "specs",
    multiple=True,
    metavar="SPEC",
    callback=specs,
    help="The value of an input: NAME=FILE.npy, NAME=FILE.npz[:KEY], NAME=random[:2x3], or NAME=none for an empty "
    "optional. FILE.npz alone gives every input that has a key of its name, and 'random' alone all that are left. "
    "Random floats are standard normal, 32 and 64 bit integers 0 or 1, smaller ones 0 to 9.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    callback=written(".npz", "outputs"),
    help="Write all outputs to this .npz file.",
)
@click.option("--backend", type=_BACKENDS, default="numpy", show_default=True, help="What computes.")
@click.option("--mode", type=_MODES, help="The arithmetic.  [default: exact on numpy, fast elsewhere]")
@click.option(
    "--seed",
    type=click.IntRange(0),
    help="Seed of the random inputs, and of nodes that draw without one of their own.  [default: 0 for the inputs]",
)
@click.option("--threads", type=click.IntRange(1), help="Threads of the BLAS library.")
@click.option(
    "--set",
    "sizes",
    multiple=True,
    metavar="DIM=N",
    callback=sizes,
    help="Size of a symbolic dimension in random inputs. Those not set are 1.",
)
@click.option(
    "--digest", is_flag=True, help="Print one line alone, which is the same wherever the outputs are, bit for bit."
)
@click.option(
    "--record",
    type=click.Path(path_type=Path),
    callback=written(".json", "records"),
    help="Write what 'onemodel verify' needs to this .json file, and the inputs beside it. For exact runs.",
)
@reads_model
def run(
    model: Path,
    specs: list[Spec],
    output: Path | None,
    backend: str,
    mode: str | None,
    seed: int | None,
    threads: int | None,
    sizes: dict[str, int],
    digest: bool,
    record: Path | None,
    folder: Path | None,
    operators: tuple[Path, ...],
) -> None:
    """Run MODEL once and show its outputs."""
    from onemodel.arrayfile import write_npz
    from onemodel.feeds import gather
    from onemodel.record import inputs_path, write
    from onemodel.session import Session
    from onemodel.terminal import console, duration, preview, shape_of, size, table, type_of

    written = [path for path in (output, record, None if record is None else inputs_path(record)) if path is not None]
    if len({path.resolve() for path in (model, *written)}) <= len(written):
        names = ", ".join(map(str, (model, *written)))
        raise click.UsageError(f"one of these files would be written over another: {names}; give other names")
    start = time.perf_counter()
    with _busy("loading the model"):
        session = Session(model, folder=folder, backend=backend, mode=mode, threads=threads, seed=seed, outputs="numpy")
    loaded = time.perf_counter()
    optional = session.get_overridable_initializers()
    feeds = gather(specs, session.get_inputs(), optional=optional, sizes=sizes, seed=seed or 0)
    values = {name: feed.value for name, feed in feeds.items()}
    with _busy("running the model"):
        began = time.perf_counter()
        results = session.run(None, values)
        ended = time.perf_counter()

    outputs = dict(zip((value.name for value in session.get_outputs()), results, strict=True))
    if output is not None:
        write_npz(output, outputs)
    if record is not None:
        write(record, model, session, values, outputs, operators)
    if digest:
        click.echo(session.digest(outputs))
        return
    out = console()
    rows = [[name, type_of(feed.value), shape_of(feed.value), feed.source] for name, feed in feeds.items()]
    if rows:
        out.print(table(out, "inputs", ("name", "type", "shape", "from"), rows))
        out.print()
    rows = [[name, type_of(value), shape_of(value), preview(value)] for name, value in outputs.items()]
    out.print(table(out, "outputs", ("name", "type", "shape", "values"), rows))
    out.print()
    out.print(
        f"mode: {session.mode}   backend: {session.backend}   "
        f"time: {duration(ended - began)} for the run, {duration(loaded - start)} to load"
    )
    for path in written:
        if path.exists():
            out.print(f"wrote {path} ({size(path.stat().st_size)})")


@_command(
    "Run a recorded run again and compare.",
    "onemodel verify run.json",
    "onemodel verify run.json --model elsewhere/model.onnx --threads 1",
)
@click.argument("record", type=click.Path(path_type=Path))
@click.option("--model", type=_MODEL, help="The model, where it does not lie where RECORD says.")
@click.option("--backend", type=_BACKENDS, default="numpy", show_default=True, help="What computes.")
@click.option("--threads", type=click.IntRange(1), help="Threads of the BLAS library.")
@reads_model
def verify(
    record: Path,
    model: Path | None,
    backend: str,
    threads: int | None,
    folder: Path | None,
    operators: tuple[Path, ...],
) -> None:
    """Do again the run that 'onemodel run --record' has written to RECORD, and say what differs first.

    The exact revision comes first, then the model, its external data, the inputs, and last the outputs. The exit code
    is 1 where something differs.
    """
    from onemodel.record import NOT_GIVEN, NOT_RECORDED, compare
    from onemodel.terminal import console, safe, table

    with _busy("running the model"):
        found = list(compare(record, model=model, folder=folder, backend=backend, threads=threads, operators=operators))
    out = console()
    rows = [[part.what, "same" if part.same else "differs", *_short(part.recorded, part.here)] for part in found]
    out.print(table(out, "", ("what", "", "recorded", "here"), rows))
    out.print()
    different = [part for part in found if not part.same]
    if not different:
        out.print("The same, bit for bit.")
        return
    first, hint = different[0].what, ""
    if first == "exact revision":
        hint = "; outputs of two revisions may differ, so record the run anew or verify with the version that wrote it"
    elif not first.startswith("output") and first != "digest":
        hint = "; nothing was run"
    if first.startswith("operators"):
        if different[0].here == NOT_GIVEN:
            hint += "; pass the file with --operators"
        elif different[0].recorded == NOT_RECORDED:
            hint += "; the recorded run had no such file, so verify without it"
    out.print(safe(f"Differs first: {first}{hint}.", out.encoding))
    click.get_current_context().exit(1)


def _short(*texts: str) -> Sequence[str]:
    """Texts with each hash by its first digits; whole where different ones would look the same."""
    short = [re.sub("([0-9a-f]{16})[0-9a-f]{48}", r"\1", text) for text in texts]
    return short if len(set(short)) == len(set(texts)) else texts


@_command("Say how exact mode computes each node.", "onemodel check model.onnx", "onemodel check model.onnx --seed 5")
@click.argument("model", type=_MODEL)
@click.option("--seed", type=click.IntRange(0), help="Seed of nodes that draw without one of their own, as run's.")
@reads_model
def check(model: Path, seed: int | None, folder: Path | None, operators: tuple[Path, ...]) -> None:
    """Say of each node of MODEL whether exact mode computes it, and how or why not.

    Nodes of subgraphs and of functions are listed too. The exit code is 1 where a node is refused.
    """
    from onemodel.summary import checked, load, place
    from onemodel.terminal import console, table

    out = console()
    with _busy("planning"):
        nodes = checked(load(model, folder), seed)
    rows = [
        [
            place(node.info),
            f"{node.info.domain or 'ai.onnx'}::{node.info.op_type}",
            node.info.opset,
            "no" if node.info.reason else "yes",
            in_options(node.info.reason) or node.method,
        ]
        for node in nodes
    ]
    out.print(table(out, "", ("node", "operator", ">opset", "exact", "how, or why not"), rows))
    refused = sum(bool(node.info.reason) for node in nodes)
    out.print()
    if refused:
        out.print(f"Exact mode refuses {refused} of {len(nodes)} nodes.")
        click.get_current_context().exit(1)
    those = "The node is" if len(nodes) == 1 else f"All {len(nodes)} nodes are"
    out.print(f"{those} exact: the same bits on every machine.")


@_command("Show what a model needs.", "onemodel info model.onnx")
@click.argument("model", type=_MODEL)
@reads_model
def info(model: Path, folder: Path | None, operators: tuple[Path, ...]) -> None:
    """Show the inputs, outputs and operators of MODEL, and what OneModel cannot run of it."""
    from onemodel.drawing import UNSEEDED
    from onemodel.summary import load, refusals, summarize, uninstalled
    from onemodel.terminal import console

    out = console()
    with _busy("loading the model"):
        loaded = load(model, folder)
        summary = summarize(loaded)
    _show_summary(out, model, summary)
    with _busy("planning"):
        fast = refusals(loaded, "fast")
        exact = [] if fast else refusals(loaded, "exact")
    out.print()
    if fast:
        _show_refusals(out, "operators without a definition", fast)
        out.print("The model does not run. See 'onemodel ops' for what does.")
    elif exact:
        _show_refusals(out, "refused by exact mode", exact)
        seeded = all(refusal.reason == UNSEEDED for refusal in exact)
        out.print(f"The model runs with --mode fast{', and in exact mode with --seed' * seeded}.")
    else:
        out.print("The model runs in both modes, exact and fast.")
    if not fast and (missing := uninstalled(summary)):
        out.print(f"{missing}.")


def _show_summary(out: Console, path: Path, summary: Any) -> None:
    from onemodel.feeds import shape_text
    from onemodel.terminal import safe, size, table

    opsets = ", ".join(f"{domain} {version}" for domain, version in summary.opsets.items())
    external = f", {size(summary.external_bytes)} of it beside the file" if summary.external_bytes else ""
    overridable = f", {summary.overridable} may be fed" if summary.overridable else ""
    for label, text in (
        ("model", f"{summary.graph or 'without a name'} ({path}, {size(path.stat().st_size)})"),
        ("producer", summary.producer or "not told"),
        ("IR version", str(summary.ir_version)),
        ("opsets", opsets),
        ("initializers", f"{summary.initializers}, {size(summary.initializer_bytes)}{external}{overridable}"),
        ("functions", ", ".join(summary.functions)),
    ):
        if text:
            out.print(safe(f"{label + ':':<14}{text}", out.encoding))
    for title, ports in (("inputs", summary.inputs), ("outputs", summary.outputs)):
        out.print()
        rows = [[port.name, port.type or "unknown", shape_text(port.shape)] for port in ports]
        out.print(table(out, title, ("name", "type", "shape"), rows))
    out.print()
    out.print(table(out, "operators", ("domain", "operator", ">nodes"), summary.operators))


def _show_refusals(out: Console, title: str, found: list[Refusal]) -> None:
    from onemodel.terminal import table

    rows = [[part.operator, part.opset, part.count, in_options(part.reason), part.first] for part in found]
    out.print(table(out, title, ("operator", ">opset", ">nodes", "reason", "first node"), rows))
    out.print()


@_command(
    "List the operators.",
    "onemodel ops",
    "onemodel ops --filter pool",
    "onemodel ops --domain ai.onnx.ml",
    "onemodel ops --json | jq -r '.[] | select(.exact == \"yes\").name'",
)
@click.option("--domain", help="Only the operators of this domain, such as ai.onnx.ml.")
@click.option("--filter", "text", default="", help="Only the operators with this in their name; case does not count.")
@click.option("--json", "as_json", is_flag=True, help="Print the table as JSON.")
def ops(domain: str | None, text: str, as_json: bool) -> None:
    """List every operator of ONNX: whether it runs, since which opsets, and whether exact mode takes it."""
    import json
    from dataclasses import asdict

    from onemodel import coverage
    from onemodel.terminal import console, table

    rows = list(coverage.table())
    domains = dict.fromkeys(row.domain for row in rows)
    if domain is not None and domain not in domains:
        raise click.BadParameter(f"{domain!r} is none of {', '.join(domains)}", param_hint="--domain")
    rows = [r for r in rows if domain in (None, r.domain) and text.lower() in r.name.lower()]
    if as_json:
        click.echo(json.dumps([asdict(row) for row in rows], indent=1))
        return
    out = console()
    cells = [
        [
            row.domain,
            row.name,
            ", ".join(map(str, row.opsets)) or "-",
            row.runs + (f" (deprecated at opset {row.deprecated})" if row.deprecated else ""),
            row.exact,
        ]
        for row in rows
    ]
    out.print(table(out, "", ("domain", "operator", "opsets", "runs by", "exact"), cells))
    running = sum(row.runs != coverage.NOT_YET for row in rows)
    exact = sum(row.exact == "yes" for row in rows)
    out.print()
    out.print(f"{running} of {len(rows)} operators run, {exact} of them in exact mode on every type.")
