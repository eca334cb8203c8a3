"""Which function gives an operator its meaning, from which opset on."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from onemodel.ops.element import is_type

Function = TypeVar("Function", bound=Callable[..., Any])
Types = Sequence[str] | Callable[[Sequence[str | None], Mapping[str, Any]], Sequence[str | None]]
Draws = Callable[[Sequence[Any], Mapping[str, Any]], bool]
Factor = Callable[[Sequence[int], Mapping[str, Any]], Sequence[Any] | None]
BodyTypes = Callable[[Sequence[str | None], Mapping[str, Any]], Sequence[str | None]]


@dataclass(frozen=True, eq=False)
class Operator:
    """One meaning of one operator: the function, and what the plan must know of it. See ``operator`` for the fields."""

    name: str
    domain: str
    since: int
    function: Callable[..., Any]
    host: tuple[str, ...] = ()
    metadata: bool = False
    elementwise: bool = False
    widen: bool | str = True
    inexact: str | None = None
    draws: Draws | None = None
    types: Types | None = None
    bodies: Mapping[str, BodyTypes] | None = None
    factors: Mapping[str, Factor] | None = None
    inputs: tuple[str, ...] = ()
    """Names of the positional inputs."""
    required: int = 0
    """How many of ``inputs`` have no default."""
    variadic: str | None = None
    """Name of the variadic input, the last one."""
    attributes: Mapping[str, Any] = None  # type: ignore[assignment]
    """Attribute name to default; ``inspect.Parameter.empty`` where it is required."""
    extras: frozenset[str] = frozenset()
    """Which of ``xp``, ``wanted``, ``rng`` and ``once`` the function takes."""

    def may_draw(self, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> bool:
        """Whether a node with these inputs (see ``draws``) and attributes may draw random numbers."""
        return "rng" in self.extras and (self.draws is None or self.draws(inputs, attributes))

    def reads_on_host(self, index: int) -> bool:
        """Whether input ``index`` is read as numbers on the host."""
        return (self.inputs[index] if index < len(self.inputs) else self.variadic) in self.host

    @property
    def key(self) -> tuple[str, str]:
        return self.domain, self.name

    @property
    def built_in(self) -> bool:
        """Whether the meaning is one of OneModel's own, not a user's."""
        return (self.function.__module__ or "").partition(".")[0] == "onemodel"


_TABLE: dict[tuple[str, str], dict[int, Operator]] = {}
_EXTRAS = frozenset({"xp", "wanted", "rng", "once"})


def operator(
    name: str,
    *,
    since: int,
    domain: str = "",
    host: Sequence[str] = (),
    metadata: bool = False,
    elementwise: bool = False,
    widen: bool | str = True,
    inexact: str | None = None,
    draws: Draws | None = None,
    types: Types | None = None,
    bodies: Mapping[str, BodyTypes] | None = None,
    factors: Mapping[str, Factor] | None = None,
    override: bool = False,
    register: bool = True,
) -> Callable[[Function], Function]:
    """Enter the decorated function as the meaning of an operator.

    The function takes the operator's inputs as positional-only parameters (a variadic one as ``*name``; optional ones
    default to ``None``), its attributes as keyword-only parameters under ONNX's names with the schema's defaults, and
    last ``xp``, the array namespace of the session: the Array API standard and the functions of
    ``onemodel.backends.extension``. It returns one array, or a tuple with one item per output. Graph attributes arrive
    as callables. It must not write into its inputs and should call nothing but ``xp``, so that it runs on every
    backend.

    Three more keyword-only parameters may stand before ``xp``. ``wanted``: a tuple that tells which outputs the node
    names. ``rng``: a callable without arguments that returns a key of 64 bits for ``xp.random_bits``; the node's
    ``seed``, else the session's, fixes it. ``once``: ``once(function, *arguments)`` calls a function of attributes and
    ``xp`` alone, and keeps its result for the node's later runs.

    Args:
        name: the operator's ``op_type``.
        since: the first opset version of its domain with this meaning. A node takes the meaning with the greatest
            ``since`` that is not above the model's opset.
        domain: the operator's domain; ``""`` is ai.onnx.
        host: inputs that are read as numbers (shapes, axes, counts ...). They arrive as NumPy arrays on the host.
            ``"body:0"`` names an output of the subgraph ``body`` in the same way, and ``"body:in:0"`` an input of it
            that the function gives as a NumPy array.
        metadata: the function reads only its inputs' shapes and dtypes, never a value.
        elementwise: element i of every output depends on the inputs' elements i alone.
        widen: ``False`` takes float16 and bfloat16 inputs as they are; else they arrive as float32, and outputs of a
            half type are rounded once at the end. ``"fast"`` does that in fast mode only: for one function, which exact
            mode rounds once to any type.
        inexact: why exact mode refuses the operator; ``None`` lets the ``xp`` functions that it uses decide.
        draws: for an operator with ``rng`` that does not always draw, a callable of the inputs (constants as NumPy
            arrays, None where omitted, ``...`` where only a run knows) and the attributes that says whether it may.
        types: the outputs' ONNX types, which the plan needs for what follows the node. A sequence names for each output
            an input with the same type (its first value's, if it is variadic), or an ONNX type (``"tensor(float)"``);
            a callable gets the inputs' types (None where unknown) and the attributes (for a subgraph the types of its
            outputs), and returns the types; it raises a ValueError for types that do not go together. Operators of
            ONNX leave it out: their schema tells.
        bodies: for each subgraph attribute, a callable of the inputs' types and the attributes that returns the types
            of the subgraph's inputs.
        factors: for inputs that are factors of products, a callable of the input's shape and the attributes that
            returns what ``xp.prepare`` takes after the array, or None. Where such an input is a constant of float32 or
            float64, and the namespace has ``prepare``, the function gets the prepared factor, which has a shape, and
            which ``matmul``, ``matrix_transpose`` and ``conv`` take.
        override: replace an entry of the same name, domain and ``since`` instead of raising.
        register: ``False`` keeps the operator out of the table; pass the function to ``SessionConfig(operators=[...])``
            for the sessions that shall use it.

    Returns:
        a decorator that returns its function unchanged but for the attribute ``operators``, the entries made of it.

    Raises:
        ValueError: an entry with this domain, name and ``since`` is there already, ``host`` or ``types`` names no
            parameter, ``types`` no ONNX type, ``since`` no opset version, or ``widen`` is not one of its three.
        TypeError: the function's signature cannot be an operator's, or an argument is of the wrong kind.
    """
    flags = {"metadata": metadata, "elementwise": elementwise, "override": override, "register": register}
    _check_kinds(name, domain, flags, inexact, draws)
    _check_list(name, "host", host, "input")
    if not callable(types) and types is not None:
        _check_list(name, "types", types, "output")
    if isinstance(since, bool) or not isinstance(since, int):
        raise TypeError(f"since={since!r} of {name} is no opset version; it is an integer from 1 on")
    if since < 1:
        raise ValueError(f"since={since} of {name} is no opset version; it is an integer from 1 on")
    if not isinstance(widen, bool) and widen != "fast":
        raise ValueError(f"widen={widen!r} of {name} is neither True, False nor 'fast'")

    def enter(function: Function) -> Function:
        entry = Operator(
            name,
            "" if domain == "ai.onnx" else domain,
            since,
            function,
            tuple(host),
            metadata,
            elementwise,
            widen,
            inexact,
            draws,
            types if types is None or callable(types) else tuple(types),
            bodies,
            factors,
            **_signature(function),
        )
        known = {*entry.inputs, entry.variadic, *entry.attributes}
        if strange := [given for given in host if given.partition(":")[0] not in known]:
            raise ValueError(f"host={strange} of {name} names no parameter of {function.__qualname__}")
        given = [] if types is None or callable(types) else types
        if strange := [text for text in given if "(" not in text and text not in (*entry.inputs, entry.variadic)]:
            raise ValueError(f"types={strange} of {name} names no input of {function.__qualname__}")
        if strange := [text for text in given if "(" in text and not is_type(text)]:
            raise ValueError(
                f"types={strange} of {name} is no ONNX type; one is 'tensor(float)' or 'seq(tensor(int64))'"
            )
        if register:
            versions = _TABLE.setdefault(entry.key, {})
            if since in versions and not override:
                raise ValueError(
                    f"{domain or 'ai.onnx'}::{name} since opset {since} is already "
                    f"{versions[since].function.__qualname__}; pass override=True to replace it"
                )
            versions[since] = entry
        function.operators = (*getattr(function, "operators", ()), entry)  # type: ignore[attr-defined]
        return function

    return enter


def _check_kinds(name: Any, domain: Any, flags: Mapping[str, Any], inexact: Any, draws: Any) -> None:
    """Refuse arguments of ``operator`` that are not of their kind."""
    for label, value in {"name": name, "domain": domain}.items():
        if not isinstance(value, str):
            raise TypeError(f"{label}={value!r} of the operator {name!r} is no text")
    for label, value in flags.items():
        if not isinstance(value, bool):
            raise TypeError(f"{label}={value!r} of {name} is neither True nor False")
    if inexact is not None and not isinstance(inexact, str):
        raise TypeError(f"inexact={inexact!r} of {name} is no text; it says why exact mode refuses the operator")
    if draws is not None and not callable(draws):
        raise TypeError(f"draws={draws!r} of {name} is no callable")


def _check_list(name: str, label: str, given: Any, per: str) -> None:
    """Refuse what is no sequence of texts."""
    if isinstance(given, str):
        raise TypeError(f"{label}={given!r} of {name} is a text; it is a sequence with one entry per {per}")
    if not isinstance(given, Sequence) or not all(isinstance(text, str) for text in given):
        raise TypeError(f"{label}={given!r} of {name} is no sequence of texts")


def _signature(function: Callable[..., Any]) -> dict[str, Any]:
    """The fields of an Operator that its function's signature tells."""
    inputs: list[str] = []
    required = 0
    variadic = None
    attributes: dict[str, Any] = {}
    extras = set()
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.POSITIONAL_ONLY:
            inputs.append(parameter.name)
            required += parameter.default is parameter.empty
        elif parameter.kind is parameter.VAR_POSITIONAL:
            variadic = parameter.name
        elif parameter.kind is parameter.KEYWORD_ONLY and parameter.name in _EXTRAS:
            extras.add(parameter.name)
        elif parameter.kind is parameter.KEYWORD_ONLY:
            attributes[parameter.name] = parameter.default
        else:
            raise TypeError(
                f"{function.__qualname__}: parameter {parameter.name!r} is neither positional-only (an input, before "
                "'/') nor keyword-only (an attribute, after '*')"
            )
    return {
        "inputs": tuple(inputs),
        "required": required,
        "variadic": variadic,
        "attributes": attributes,
        "extras": frozenset(extras),
    }


def select(versions: Mapping[int, Operator], opset: int) -> Operator | None:
    """The entry with the greatest ``since`` that is not above ``opset``; None where there is none."""
    since = max((version for version in versions if version <= opset), default=None)
    return None if since is None else versions[since]


@cache
def load_chapters() -> None:
    """Import every chapter of this package, so that the table is whole."""
    package = __name__.rpartition(".")[0]
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{module.name}")


def table() -> Mapping[tuple[str, str], Mapping[int, Operator]]:
    """All entries: (domain, name) to ``since`` to entry."""
    load_chapters()
    return _TABLE


def find(domain: str, name: str, opset: int) -> Operator | None:
    """The entry that gives ``domain::name`` its meaning at ``opset``; None where there is none."""
    return select(table().get((domain, name), {}), opset)


def entries() -> Iterator[Operator]:
    """Every entry, in the order of domain, name and ``since``."""
    for _, versions in sorted(table().items()):
        for _, entry in sorted(versions.items()):
            yield entry
