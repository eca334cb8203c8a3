"""Feeds from the command line: ``name=file.npz:key``, ``name=random:1x3x224x224``."""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from onemodel import arrayfile, types
from onemodel.errors import InputError

Shape = Sequence[int | str | None]

_MOST_ELEMENTS = 2**40
_VALUES = "A value is FILE.npy, FILE.npz, FILE.npz:KEY, random, random:2x3 or none"
_RANDOM = re.compile(r"random(?::(?P<dims>scalar|\d+(?:x\d+)*))?")


class Input(Protocol):
    """What a session tells of an input."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str | None: ...
    @property
    def shape(self) -> Shape | None: ...


@dataclass(frozen=True)
class Spec:
    """One ``-i`` option.

    Attributes:
        name: the input; None stands for all inputs that no other option names.
        source: ``"random"``, ``"none"`` or ``"file"``.
        dims: the shape after ``random:``.
        path: the file.
        key: the key in the file.
    """

    name: str | None
    source: str
    dims: tuple[int, ...] | None = None
    path: Path = Path()
    key: str | None = None


@dataclass(frozen=True)
class Feed:
    """The value of one input, and where it comes from."""

    value: Any
    source: str


def parse(text: str) -> Spec:
    """Read an ``-i`` option: ``NAME=FILE[:KEY]``, ``NAME=random[:SHAPE]``, ``NAME=none``, ``FILE.npz`` or ``random``.

    Raises:
        ValueError: the text is none of these.
    """
    name, equals, value = text.partition("=")
    if not equals:
        name, value = "", text
    elif not name or not value:
        raise ValueError(f"{text!r} lacks {'a value after' if name else 'an input name before'} '='")
    if value == "none" and equals:
        return Spec(name, "none")
    if match := _RANDOM.fullmatch(value):
        dims = match["dims"]
        if dims is None:
            return Spec(name or None, "random")
        if not equals:
            raise ValueError(f"{text!r} has a shape but no input name; write NAME={value}")
        return Spec(name, "random", () if dims == "scalar" else tuple(map(int, dims.split("x"))))
    if value.startswith("random:"):
        raise ValueError(f"{text!r}: the shape is numbers with x between, as in random:1x3x224x224, or random:scalar")
    file, dot, key = value.partition(".npz:")
    if dot and not key:
        raise ValueError(f"{text!r} has no key after ':'")
    path = Path(file + ".npz" if dot else value)
    if not equals and (dot or path.suffix != ".npz"):
        if dot or path.suffix == ".npy":
            raise ValueError(f"{text!r} says no input; write NAME={text}")
        raise ValueError(f"{text!r} is no NAME=VALUE; write {text}=VALUE if it is an input. {_VALUES}")
    return Spec(name or None, "file", path=path, key=key if dot else None)


def gather(
    specs: Iterable[Spec],
    inputs: Sequence[Input],
    *,
    optional: Sequence[Input] = (),
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
) -> dict[str, Feed]:
    """The value of every input.

    Args:
        specs: the options.
        inputs: the inputs that must be fed.
        optional: initializers that may be fed.
        sizes: sizes of symbolic dimensions for random values; those not named are 1.
        seed: of the random values. Each input draws from its own stream, so that one does not change another.

    Raises:
        InputError: an input has no value or two, a name or dimension is not the model's, or a value cannot be had.
        OSError: a file cannot be read.
    """
    sizes = sizes or {}
    known = {value.name: value for value in (*inputs, *optional)}
    symbols = {dim for value in known.values() for dim in value.shape or () if isinstance(dim, str)}
    if strange := [name for name in sizes if name not in symbols]:
        names = ", ".join(map(repr, sorted(symbols))) or "none"
        raise InputError(f"the model has no symbolic dimension {strange[0]!r}; it has {names}")
    feeds: dict[str, Feed] = {}
    specs = list(specs)
    for spec in specs:
        if spec.name is None:
            continue
        if spec.name not in known:
            raise InputError(f"the model has no input {spec.name!r}; its inputs: {listing((*inputs, *optional))}")
        if spec.name in feeds:
            raise InputError(f"input {spec.name!r} is given twice")
        feeds[spec.name] = _one(spec, known[spec.name], sizes, seed)
    for spec in specs:
        rest = {name: value for name, value in known.items() if name not in feeds}
        if spec.name is None and spec.source == "file" and rest:
            found = arrayfile.read_all(spec.path, {name: value.type for name, value in rest.items()})
            feeds |= {name: Feed(value, str(spec.path)) for name, value in found.items()}
    if any(spec.name is None and spec.source == "random" for spec in specs):
        feeds |= {i.name: _one(Spec(i.name, "random"), i, sizes, seed) for i in inputs if i.name not in feeds}
    if missing := [value for value in inputs if value.name not in feeds]:
        first = missing[0].name
        raise InputError(
            f"no value for {'input' if len(missing) == 1 else f'{len(missing)} inputs, among them'} {first!r}; give "
            f"-i {first}=FILE.npy or -i {first}=random, or -i random for all. The model's inputs: {listing(inputs)}"
        )
    return feeds


def listing(inputs: Iterable[Input]) -> str:
    """Inputs with types and shapes, in one line."""
    return "; ".join(f"{i.name} {i.type or 'of unknown type'} {shape_text(i.shape)}" for i in inputs) or "none"


def shape_text(shape: Shape | None) -> str:
    """``[batch, 1, 8, 8]``; ``?`` stands for what the model leaves open."""
    return "of any shape" if shape is None else f"[{', '.join('?' if d is None else str(d) for d in shape)}]"


def _one(spec: Spec, target: Input, sizes: Mapping[str, int], seed: int) -> Feed:
    if spec.source == "file":
        if spec.path.suffix not in (".npy", ".npz") and not spec.path.exists():
            raise InputError(f"input {spec.name!r}: there is no file {str(spec.path)!r}. {_VALUES}")
        key = "" if spec.key is None else f":{spec.key}"
        return Feed(arrayfile.read(spec.path, target.name, target.type, spec.key), f"{spec.path}{key}")
    if spec.source == "none":
        if target.type is not None and not target.type.startswith("optional("):
            raise InputError(f"input {target.name!r} is {target.type}, which cannot be none; only an optional can")
        return Feed(None, "none")
    _drawable(target.name, target.type)
    shape, chosen = (spec.dims, []) if spec.dims is not None else _choose(target, sizes)
    value = draw(target.name, target.type, shape, seed)
    return Feed(value, f"random, seed {seed}" + "".join(f", {name} = 1" for name in chosen))


def _choose(target: Input, sizes: Mapping[str, int]) -> tuple[tuple[int, ...], list[str]]:
    """A shape for an input, and the symbolic dimensions that nobody gave a size."""
    if target.shape is None:
        raise InputError(f"input {target.name!r} has no declared rank; give a shape: -i {target.name}=random:1x8")
    chosen = [str(d) if d else "?" for d in target.shape if not isinstance(d, int) and (d is None or d not in sizes)]
    shape = tuple(d if isinstance(d, int) else 1 if d is None else sizes.get(d, 1) for d in target.shape)
    return shape, list(dict.fromkeys(chosen))


def _drawable(name: str, value_type: str | None) -> str:
    """The tensor type to draw for an input."""
    if value_type is not None and value_type.startswith("optional("):
        value_type = types.inner(value_type)
    if value_type is None or not types.is_tensor(value_type) or value_type == "tensor(string)":
        raise InputError(
            f"input {name!r} is {value_type or 'of unknown type'}, for which there are no random values; "
            f"give a file: -i {name}=FILE.npz"
        )
    return value_type


def draw(name: str, value_type: str | None, shape: Sequence[int], seed: int) -> Any:
    """A random array: floats are standard normal, indices and masks (32 and 64 bits) 0 or 1, small integers 0 to 9.

    Args:
        name: the input's name, which picks the stream.
        value_type: an ONNX tensor type of numbers.
        shape: the shape.
        seed: a number from 0 on.

    Raises:
        InputError: the type holds no numbers.
    """
    value_type = _drawable(name, value_type)
    if len(shape) > 64 or math.prod(shape) > _MOST_ELEMENTS:
        raise InputError(f"input {name!r} cannot be drawn: {len(shape)} dimensions of {math.prod(shape)} elements")
    random = np.random.default_rng([seed, zlib.crc32(name.encode("utf-8", "surrogatepass"))])
    dtype, kind = types.dtype_of(value_type), types.inner(value_type)
    if kind == "bool":
        return random.integers(0, 2, shape).astype(dtype)
    if "int" in kind:
        bits = int(kind.partition("int")[2])
        largest = min(2 ** (bits - (kind[0] == "i")) - 1, 9) if bits < 32 else 1
        return random.integers(0, largest + 1, shape).astype(dtype)
    values = np.asarray(random.standard_normal(shape))
    if kind.startswith("complex"):
        return np.asarray(values + 1j * random.standard_normal(shape)).astype(dtype)
    # float8e8m0 has neither sign nor zero.
    return np.asarray(np.abs(values) if kind == "float8e8m0" else values).astype(dtype)
