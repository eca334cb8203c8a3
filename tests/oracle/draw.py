"""How to draw a random case of one operator: the tools that the chapters' entries use, and the table that they fill."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import defs, helper

from onemodel import types
from tests.ops import harness

Array = np.ndarray[Any, Any]
Entry = Callable[["Draw"], "Case"]

ENTRIES: dict[str, Entry] = {}
"""Operator to the function that draws a case of it; ai.onnx and ai.onnx.ml have no name in common."""

OLDEST = {"": 6, "ai.onnx.ml": 1}
"""By domain the first opset to draw."""
COMMON = ("float32", "float64", "float16", "int32", "int64", "uint8", "bool")
WORDS = ("", "a", "b", "abc", "Zürich", "-1.5", "new line\n", "日本")

SPECIALS = (np.nan, np.inf, -np.inf)
LARGE = tuple(map(float, np.array([1e30, -1e30, 1e-30], np.float32)))


def draws(*operators: str) -> Callable[[Entry], Entry]:
    """Enter the decorated function as the way to draw a case of each of ``operators``."""

    def enter(function: Entry) -> Entry:
        for name in operators:
            assert name not in ENTRIES, f"{name} has two entries"
            ENTRIES[name] = function
        return function

    return enter


@dataclass(frozen=True)
class Case:
    """One node with its inputs.

    Attributes:
        inputs: arrays, lists of arrays, None for an omitted one.
        outputs: for each output whether the node names it.
        rtol, atol: how far from the peer; None takes those of the element type.
        zeros: compare the signs of zeros.
        free: nothing but the dtype and shape of the outputs is settled.
        domain: of the operator; ``opset`` is this domain's.
    """

    op: str
    seed: int
    opset: int
    inputs: tuple[Any, ...]
    attributes: Mapping[str, Any]
    outputs: tuple[bool, ...] = (True,)
    input_types: tuple[str | None, ...] | None = None
    rtol: float | None = None
    atol: float | None = None
    zeros: bool = True
    free: bool = False
    domain: str = ""

    @property
    def name(self) -> str:
        return f"{self.op}-{self.seed}"

    @property
    def model(self) -> onnx.ModelProto:
        return self.with_inputs(self.inputs)

    def with_inputs(self, inputs: Sequence[Any], input_types: Sequence[str | None] | None = None) -> onnx.ModelProto:
        """The model for other inputs of the same structure."""
        return harness.model(
            self.op,
            inputs,
            opset=self.opset,
            domain=self.domain,
            outputs=self.outputs,
            input_types=input_types or self.input_types,
            **self.attributes,
        )

    def __str__(self) -> str:
        given = ", ".join([*map(describe, self.inputs), *(f"{k}={brief(v)}" for k, v in self.attributes.items())])
        return f"{self.name}: {self.op}({given}) at opset {self.opset}"


def describe(value: Any) -> str:
    """The dtype and shape of a value, and small values whole."""
    if value is None:
        return "-"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(describe, value))}]"
    text = f"{value.dtype}{list(value.shape)}"
    return f"{text}={brief(value.tolist())}" if value.size <= 6 else text


def brief(value: Any) -> str:
    if isinstance(value, onnx.GraphProto):
        return f"<{' '.join(node.op_type for node in value.node)}>"
    if isinstance(value, onnx.TensorProto):
        return describe(onnx.numpy_helper.to_array(value))
    return repr(value) if isinstance(value, str) else " ".join(str(value).split())


def versions(op: str) -> list[tuple[int, int]]:
    """The spans of opsets, both ends included, in which one version of ``op`` holds, from the oldest opset on."""
    domain, starts = histories()[op]
    oldest, latest = OLDEST[domain], harness.LATEST if domain == "" else LATEST_ML
    spans = []
    for (start, deprecated), (following, _) in zip(starts, [*starts[1:], (latest + 1, False)], strict=True):
        if not deprecated and following > oldest:
            spans.append((max(start, oldest), following - 1))
    return spans


LATEST_ML = 5


@cache
def histories() -> Mapping[str, tuple[str, list[tuple[int, bool]]]]:
    """By operator its domain, and the opset at which each version begins, with whether that removes it."""
    found: dict[str, tuple[str, list[tuple[int, bool]]]] = {}
    for schema in defs.get_all_schemas_with_history():
        if schema.domain in OLDEST:
            found.setdefault(schema.name, (schema.domain, []))[1].append((schema.since_version, schema.deprecated))
    return {name: (domain, sorted(starts)) for name, (domain, starts) in found.items()}


def case(op: str, seed: int) -> Case:
    """The case of ``op`` with number ``seed``; one after the other they take its versions in turn, the latest first."""
    spans = versions(op)[::-1]
    rng = np.random.default_rng([zlib.crc32(op.encode()), seed])
    first, last = spans[seed % len(spans)]
    return ENTRIES[op](Draw(op, seed, int(rng.integers(first, last + 1)), rng))


@dataclass
class Draw:
    """The choices of one case; every method takes them from ``rng``."""

    op: str
    seed: int
    opset: int
    rng: np.random.Generator
    domain: str = field(init=False)
    schema: defs.OpSchema = field(init=False)

    def __post_init__(self) -> None:
        self.domain = histories()[self.op][0]
        self.schema = defs.get_schema(self.op, self.opset, self.domain)

    # Numbers and choices

    def chance(self, probability: float = 0.5) -> bool:
        return bool(self.rng.random() < probability)

    def integer(self, low: int, high: int) -> int:
        """From ``low`` to ``high``, both included."""
        return int(self.rng.integers(low, high + 1))

    def integers(self, low: int, high: int, count: int) -> list[int]:
        return [self.integer(low, high) for _ in range(count)]

    def pick(self, *options: Any) -> Any:
        return options[self.integer(0, len(options) - 1)]

    def maybe(self, *options: Any, probability: float = 0.6) -> Any:
        """One of ``options``, or None: an attribute or input that is left out."""
        return self.pick(*options) if self.chance(probability) else None

    def real(self, low: float, high: float) -> float:
        """A number that float32 holds."""
        return float(np.float32(self.rng.uniform(low, high)))

    def has(self, name: str) -> bool:
        """Whether this version has the attribute or input ``name``."""
        return name in self.schema.attributes or any(formal.name == name for formal in self.schema.inputs)

    # Types

    def allowed(self, variable: str = "T") -> list[np.dtype[Any]]:
        """The element types that this version takes for a type variable."""
        for constraint in self.schema.type_constraints:
            if constraint.type_param_str == variable:
                return [types.dtype_of(text) for text in sorted(constraint.allowed_type_strs) if types.is_tensor(text)]
        raise LookupError(f"{self.op} has no type variable {variable}")

    def dtype(self, variable: str = "T", kinds: str = "", among: Sequence[Any] = ()) -> np.dtype[Any]:
        """An element type that this version takes; float32 often, the exotic ones seldom.

        Args:
            variable: the schema's type variable.
            kinds: NumPy kinds to keep (``"f"`` holds bfloat16 and the other small floats too); empty keeps all.
            among: names of types to keep; empty keeps all.
        """
        known = self.allowed(variable)
        options = [t for t in known if (not kinds or kind(t) in kinds) and (not among or t.name in among)]
        weights = np.array([_weight(option) for option in options])
        return options[int(self.rng.choice(len(options), p=weights / weights.sum()))]

    # Shapes

    def size(self) -> int:
        """Of one axis: small, at times 1, seldom 0."""
        return int(self.rng.choice([0, 1, 2, 3, 4, 5], p=[0.04, 0.16, 0.2, 0.25, 0.2, 0.15]))

    def shape(self, least: int = 0, most: int = 5, *, empty: bool = True) -> tuple[int, ...]:
        """``least`` to ``most`` axes; at times two, one of them longer than the blocks in which kernels work."""
        if least <= 2 <= most and self.chance(0.03):
            long = (self.integer(1, 3), 20_000)
            return long if self.chance() else long[::-1]
        sizes = (self.size() for _ in range(self.integer(least, most)))
        return tuple(size if empty else max(size, 1) for size in sizes)

    def broadcast(self, count: int, least: int = 0, most: int = 5) -> list[tuple[int, ...]]:
        """``count`` shapes that broadcast together."""
        whole = self.shape(least, most)
        return [self.into(whole) if self.chance(0.7) else whole for _ in range(count)]

    def into(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """A shape that broadcasts to ``shape``: axes missing in front, axes of size 1."""
        part = shape[self.integer(0, len(shape)) if self.chance(0.4) else 0 :]
        return tuple(1 if self.chance(0.3) else size for size in part)

    def axis(self, rank: int, *, end: bool = False) -> int:
        """An axis of ``rank``, counted from either end; ``end`` allows one past the last."""
        axis = self.integer(0, rank - 1 + end)
        return axis - rank if self.chance(0.4) and axis < rank else axis

    def axes(self, rank: int, least: int = 0, most: int | None = None, *, negative: bool = True) -> list[int]:
        """Different axes, in any order."""
        count = self.integer(least, rank if most is None else min(most, rank))
        chosen = self.rng.permutation(rank)[:count]
        return [int(a) - rank if negative and self.chance(0.4) else int(a) for a in chosen]

    # Values

    def array(self, dtype: Any, shape: Sequence[int], values: str = "any", low: float = -9, high: float = 9) -> Array:
        """An array.

        Args:
            dtype: its element type.
            shape: its shape.
            values: ``"any"``: at times with NaN, infinities, signed zeros, extremes; ``"sums"``: with no number so
                large that a sum loses others; ``"finite"``: without all that; ``"ties"``: few different whole numbers.
            low, high: bounds of whole numbers, both included; floats lie between them too where ``values`` is
                ``"between"``.
        """
        dtype, shape = np.dtype(dtype), tuple(shape)
        letter = kind(dtype)
        if letter == "O":
            return np.array([self.pick(*WORDS) for _ in range(int(np.prod(shape)))], object).reshape(shape)
        if letter == "b":
            return self.rng.integers(0, 2, shape).astype(bool)
        if letter in "iu":
            return self._integers(dtype, shape, values, int(low), int(high))
        if letter == "c":
            result = np.empty(shape, dtype)
            result.real, result.imag = (self._floats(result.real.dtype, shape, values, low, high) for _ in range(2))
            return result
        return self._floats(dtype, shape, values, low, high)

    def _integers(self, dtype: np.dtype[Any], shape: tuple[int, ...], values: str, low: int, high: int) -> Array:
        info = integer_range(dtype)
        if values == "ties":
            low, high = -2, 2
        result = self.rng.integers(max(low, info[0]), min(high, info[1]) + 1, shape).astype(dtype)
        if values == "any" and self.chance(0.25):
            extremes = np.array([info[0], info[0] + 1, info[1] - 1, info[1]], object).astype(dtype)
            chosen = self.rng.choice(4, shape)
            result = np.where(
                self.rng.random(shape) < 0.4, extremes.view(_bits(dtype))[chosen], result.view(_bits(dtype))
            ).view(dtype)
        return np.asarray(result)

    def _floats(self, dtype: np.dtype[Any], shape: tuple[int, ...], values: str, low: float, high: float) -> Array:
        if values == "between":
            return np.asarray(self.rng.uniform(low, high, shape)).astype(dtype)
        if values == "ties":
            return np.asarray(self.rng.integers(-2, 3, shape)).astype(dtype)
        result = np.asarray(self.rng.standard_normal(shape) * self.pick(1, 1, 3))
        if self.chance(0.3):
            result = np.round(result)
        if self.chance(0.3):
            result = np.where(self.rng.random(shape) < 0.3, self.rng.choice([0.0, -0.0], shape), result)
        if values in ("any", "sums") and self.chance(0.3):
            specials = [*SPECIALS, *LARGE] if dtype.itemsize > 2 and values == "any" else SPECIALS
            result = np.where(self.rng.random(shape) < 0.25, self.rng.choice(specials, shape), result)
        return np.asarray(result).astype(dtype)

    # Cases

    def case(self, *inputs: Any, outputs: int | Sequence[bool] = 1, **options: Any) -> Case:
        """The case with these inputs; options that are not Case's fields are attributes, None leaves one out."""
        fields = {
            name: options.pop(name) for name in ("input_types", "rtol", "atol", "zeros", "free") if name in options
        }
        while inputs and inputs[-1] is None:
            inputs = inputs[:-1]
        inputs = tuple(np.asarray(value) if isinstance(value, np.generic) else value for value in inputs)
        attributes = {name: value for name, value in options.items() if value is not None}
        wanted = (True,) * outputs if isinstance(outputs, int) else tuple(outputs)
        if "input_types" in fields:
            fields["input_types"] = tuple(fields["input_types"])
        return Case(self.op, self.seed, self.opset, inputs, attributes, wanted, domain=self.domain, **fields)


def _weight(dtype: np.dtype[Any]) -> float:
    """How often an element type is drawn."""
    if dtype.name == "float32":
        return 6.0
    small = kind(dtype) in "fiu" and bits(dtype) <= (8 if kind(dtype) == "f" else 4)
    return 1.0 if dtype.name in COMMON else 0.1 if small else 0.5


def kind(dtype: np.dtype[Any]) -> str:
    """NumPy's letter for the kind of element, with the types of ml_dtypes among their likes."""
    name = dtype.name
    if "float" in name and "complex" not in name:
        return "f"
    if "int" in name:
        return "u" if name.startswith("u") else "i"
    return dtype.kind


def bits(dtype: np.dtype[Any]) -> int:
    """How many bits an element of a number type has."""
    return int("".join(letter for letter in dtype.name.partition("_")[0] if letter.isdigit()))


def integer_range(dtype: np.dtype[Any]) -> tuple[int, int]:
    """The least and the greatest number of an integer type."""
    if kind(dtype) == "u":
        return 0, 2 ** bits(dtype) - 1
    return -(2 ** (bits(dtype) - 1)), 2 ** (bits(dtype) - 1) - 1


def _bits(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(f"u{dtype.itemsize}")


def tensor(value: Any) -> onnx.TensorProto:
    """An array as an attribute."""
    return onnx.numpy_helper.from_array(np.asarray(value))


def code(dtype: Any) -> int:
    """ONNX's element type code."""
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
