"""Bad input to every operator: always an error of OneModel that names the node, never another one, never garbage.

Good cases come from the oracle's entries; each is spoiled in every way that its schema tells. A spoilt case must be
refused where ONNX's own inference refuses it, or where the rule that spoilt it leaves no other way. The rest may have a
meaning; then all paths must agree on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import defs, helper, numpy_helper
from onnx.shape_inference import InferenceError, infer_node_outputs

import onemodel
from onemodel import types
from onemodel.ops import registry
from tests.ops import harness
from tests.oracle import chapters
from tests.oracle.draw import ENTRIES, Case, case, describe

chapters.load()
SEEDS = range(3)
OPERATORS = sorted(name for domain, name in registry.table() if domain in ("", "ai.onnx.ml") and name in ENTRIES)
Kind = defs.OpSchema.AttrType
Spoilt = Iterator[tuple[str, Case]]


# Ways to spoil a case that leave no meaning


def missing_inputs(good: Case, schema: defs.OpSchema) -> Spoilt:
    """An input that is required is left out."""
    for i, formal in enumerate(schema.inputs):
        if formal.option == defs.OpSchema.FormalParameterOption.Single and i < len(good.inputs):
            yield f"no {formal.name}", with_input(good, i, None)


def too_many(good: Case, schema: defs.OpSchema) -> Spoilt:
    """One input or output more than there are."""
    if schema.max_input < 100 and good.input_types is None:
        left_out = [None] * (schema.max_input - len(good.inputs))
        yield "too many inputs", replace(good, inputs=(*good.inputs, *left_out, np.zeros(1, np.float32)))
    if schema.max_output < 100:
        yield "too many outputs", replace(good, outputs=(True,) * (schema.max_output + 1))


def foreign_types(good: Case, schema: defs.OpSchema) -> Spoilt:
    """An input has an element type that this version does not take, or not beside the others."""
    allowed = {constraint.type_param_str: constraint.allowed_type_strs for constraint in schema.type_constraints}
    for i, value in arrays(good):
        formal = schema.inputs[min(i, len(schema.inputs) - 1)]
        for dtype in map(np.dtype, ("float32", "int64", "bool", "object", "complex64")):
            if types.of_dtype(dtype) not in allowed.get(formal.type_str, [formal.type_str]):
                wrong = np.full(value.shape, "a", object) if dtype.kind == "O" else np.ones(value.shape, dtype)
                yield f"{formal.name} of {dtype}", with_input(good, i, wrong)


def unknown_attribute(good: Case, schema: defs.OpSchema) -> Spoilt:
    """An attribute that the operator does not have."""
    yield "an unknown attribute", with_attribute(good, "unknown", 1)


def missing_attributes(good: Case, schema: defs.OpSchema) -> Spoilt:
    """An attribute that is required is left out."""
    for name, attribute in schema.attributes.items():
        if attribute.required:
            yield f"no {name}", replace(good, attributes={k: v for k, v in good.attributes.items() if k != name})


def attributes_of_another_kind(good: Case, schema: defs.OpSchema) -> Spoilt:
    """A string for a number, a number for a list, and so on."""
    for name, attribute in schema.attributes.items():
        for kind, wrong in (
            (Kind.STRING, "text"),
            (Kind.INT, 1),
            (Kind.FLOAT, 1.5),
            (Kind.INTS, [1, 2]),
            (Kind.STRINGS, ["a", "b"]),
        ):
            if kind != attribute.type:
                yield f"{name}={wrong!r}", with_attribute(good, name, wrong)


FREE_TEXT = {"value_string", "default_string", "delimiter", "pattern", "locale"}
"""Attributes for which any text is a value."""


def words_that_are_none(good: Case, schema: defs.OpSchema) -> Spoilt:
    """A word that is not among those that an attribute may have."""
    for name, attribute in schema.attributes.items():
        if attribute.type == Kind.STRING and name not in FREE_TEXT:
            yield f"{name}='nonsense'", with_attribute(good, name, "nonsense")


ALIGNED = {"QuantizeLinear", "DequantizeLinear"}
"""Their axis says where the second input lies, as in broadcasting before opset 7; one element lies everywhere."""


def axes_out_of_range(good: Case, schema: defs.OpSchema) -> Spoilt:
    """An axis that no array here has, as an attribute or an input."""
    if (good.op in ALIGNED or "broadcast" in schema.attributes) and good.inputs[1].size == 1:
        return
    if good.attributes.get("broadcast") == 0:
        return
    for name, attribute in schema.attributes.items():
        if "axis" in name or name in ("axes", "scan_input_axes", "scan_output_axes"):
            for axis in (99, -99):
                yield f"{name}={axis}", with_attribute(good, name, axis if attribute.type == Kind.INT else [axis])
    for i, value in arrays(good):
        formal = schema.inputs[min(i, len(schema.inputs) - 1)]
        if formal.name in ("axis", "axes") and value.size:
            for axis in (99, -99):
                yield f"{formal.name}={axis}", with_input(good, i, np.full(value.shape, axis, value.dtype))


INDICES = {"indices", "position", "batch_indices", "target", "labels", "write_indices", "position_ids", "I"}
INDICES |= {"sequence_lens"}
OUT_OF_RANGE_HAS_A_MEANING = {"OneHot"}
"""Of an index out of range it makes a row of the off value."""


def indices_out_of_range(good: Case, schema: defs.OpSchema) -> Spoilt:
    """An index that nothing has."""
    for i, value in arrays(good):
        formal = schema.inputs[min(i, len(schema.inputs) - 1)]
        if formal.name not in INDICES or good.op in OUT_OF_RANGE_HAS_A_MEANING or value.size == 0:
            continue
        for index in (99_999, -99_999):
            if np.can_cast(np.min_scalar_type(index), value.dtype) and index != good.attributes.get("ignore_index"):
                wrong = value.copy()
                wrong.flat[-1] = index
                yield f"{formal.name} holds {index}", with_input(good, i, wrong)


SIZES = {"kernel_shape", "strides", "dilations", "group", "offset_group", "blocksize", "num_groups", "num_outputs"}
SIZES |= {"output_height", "output_width", "pooled_shape", "hidden_size", "q_num_heads", "kv_num_heads"}


def sizes_below_one(good: Case, schema: defs.OpSchema) -> Spoilt:
    """A stride, group, block ... of 0 or less."""
    for name in SIZES & set(good.attributes):
        for size in (0, -1):
            given = good.attributes[name]
            yield f"{name}={size}", with_attribute(good, name, size if isinstance(given, int) else [size] * len(given))


def lists_of_another_length(good: Case, schema: defs.OpSchema) -> Spoilt:
    """One number too many for the spatial axes or the rank."""
    for name in {"kernel_shape", "strides", "dilations", "pads", "perm", "output_padding"} & set(good.attributes):
        yield f"{name} too long", with_attribute(good, name, [*good.attributes[name], 1])


def element_types_that_are_none(good: Case, schema: defs.OpSchema) -> Spoilt:
    """A code that is no element type."""
    for name in {"to", "dtype", "output_dtype", "output_datatype", "softmax_precision", "precision"}:
        if name in schema.attributes:
            yield f"{name}=9999", with_attribute(good, name, 9999)


SHAPES = {"shape", "repeats", "K", "depth", "size", "image_shape", "block_shape", "sizes", "dft_length"}


def sizes_that_cannot_be(good: Case, schema: defs.OpSchema) -> Spoilt:
    """A negative size, and one that no memory holds."""
    for i, value in arrays(good):
        formal = schema.inputs[min(i, len(schema.inputs) - 1)]
        if formal.name in SHAPES and value.size and value.dtype == np.int64:
            for size in (-5, 2**61):
                yield f"{formal.name}={size}", with_input(good, i, np.full(value.shape, size, np.int64))


NEVER = (
    missing_inputs,
    too_many,
    foreign_types,
    unknown_attribute,
    missing_attributes,
    attributes_of_another_kind,
    words_that_are_none,
    axes_out_of_range,
    indices_out_of_range,
    sizes_below_one,
    lists_of_another_length,
    element_types_that_are_none,
    sizes_that_cannot_be,
)


# Ways to spoil a case that may leave a meaning


def other_ranks(good: Case, schema: defs.OpSchema) -> Spoilt:
    """An input with two axes more, and one with none."""
    for i, value in arrays(good):
        yield f"input {i} with two axes more", with_input(good, i, value.reshape(1, 1, *value.shape))
        if value.size and value.ndim:
            yield f"input {i} as a scalar", with_input(good, i, np.asarray(value.reshape(-1)[0], value.dtype))
            yield f"input {i} as one row", with_input(good, i, value.reshape(-1))


def other_sizes(good: Case, schema: defs.OpSchema) -> Spoilt:
    """An input with one axis longer by two, and with one that is empty."""
    for i, value in arrays(good):
        for axis in range(value.ndim):
            if value.shape[axis]:
                longer = np.concatenate([value] + [np.take(value, [0], axis)] * 2, axis)
                yield f"input {i} longer at axis {axis}", with_input(good, i, longer)
            yield f"input {i} empty at axis {axis}", with_input(good, i, np.take(value, np.zeros(0, int), axis))


def odd_numbers(good: Case, schema: defs.OpSchema) -> Spoilt:
    """Numbers far from the usual: NaN, infinities, the least integer, in inputs and attributes."""
    for i, value in arrays(good):
        if value.dtype.kind == "f" and value.size:
            for number in (np.nan, np.inf, -np.inf):
                yield f"input {i} all {number}", with_input(good, i, np.full(value.shape, number, value.dtype))
        if value.dtype.kind == "i" and value.size:
            for number in (np.iinfo(value.dtype).min, -1, 0, 7):
                yield f"input {i} all {number}", with_input(good, i, np.full(value.shape, number, value.dtype))
    for name, given in good.attributes.items():
        if isinstance(given, int) and name not in SIZES:
            for number in (-1, 7):
                yield f"{name}={number}", with_attribute(good, name, number)
        if isinstance(given, float):
            for real in (0.0, -1.0):
                yield f"{name}={real}", with_attribute(good, name, real)
        if isinstance(given, list) and given and isinstance(given[0], int):
            for number in (-1, 0, 5):
                yield f"{name} of {number}", with_attribute(good, name, [number] * len(given))
            if len(given) > 1:
                yield f"{name} too short", with_attribute(good, name, given[:-1])


MAYBE = (other_ranks, other_sizes, odd_numbers)

SETTLED = {
    "Einsum": "Ellipsis for input",  # ellipses of different rank broadcast, as the text says
    "OneHot": "Indices tensor must have rank >= 1",  # a scalar gives one axis
    "BlackmanWindow": "size input must be greater than 0",  # a window of no elements is empty
    "HammingWindow": "size input must be greater than 0",
    "HannWindow": "size input must be greater than 0",
    "TreeEnsembleClassifier": "expected to have rank 2 but has rank 1",  # a vector is one sample
    "TreeEnsembleRegressor": "expected to have rank 2 but has rank 1",
}
"""What ONNX's inference refuses, and here has a meaning."""


# What they have in common


def with_input(good: Case, i: int, value: Any) -> Case:
    inputs = [*good.inputs[:i], value, *good.inputs[i + 1 :]]
    return replace(good, inputs=tuple(inputs))


def with_attribute(good: Case, name: str, value: Any) -> Case:
    return replace(good, attributes={**good.attributes, name: value})


def arrays(good: Case) -> Iterator[tuple[int, Any]]:
    """The inputs that are arrays, with their places; optionals are none."""
    for i, value in enumerate(good.inputs):
        if isinstance(value, np.ndarray) and good.input_types is None:
            yield i, value


def outcome(spoilt: Case, options: Mapping[str, Any]) -> list[Any] | onemodel.OneModelError:
    """The outputs, or the error."""
    feeds = {f"x{i}": read_only(value) for i, value in enumerate(spoilt.inputs) if value is not None}
    try:
        return onemodel.Session(spoilt.model, **options).run(None, feeds)
    except onemodel.OneModelError as error:
        return error


def read_only(value: Any) -> Any:
    if isinstance(value, list):
        return [read_only(item) for item in value]
    copy = value.copy()
    copy.flags.writeable = False
    return copy


def inference_refuses(spoilt: Case, schema: defs.OpSchema) -> str:
    """Why ONNX's own inference refuses the node on these shapes and values; empty where it does not.

    Of nodes with subgraphs it says nothing: it compares with what their bodies declare.
    """
    if any(attribute.type == Kind.GRAPH for attribute in schema.attributes.values()):
        return ""
    names = [f"i{i}" if value is not None else "" for i, value in enumerate(spoilt.inputs)]
    made = [f"o{i}" if want else "" for i, want in enumerate(spoilt.outputs)]
    node = helper.make_node(spoilt.op, names, made, domain=spoilt.domain, **spoilt.attributes)
    known, data = {}, {}
    for i, value in arrays(spoilt):
        known[names[i]] = types.to_proto(types.of_dtype(value.dtype), value.shape)
        if value.dtype == np.int64:
            data[names[i]] = numpy_helper.from_array(value)
    try:
        infer_node_outputs(schema, node, known, data, opset_imports=[helper.make_opsetid(spoilt.domain, spoilt.opset)])
    except InferenceError as error:
        reason = " ".join(str(error).split())
        return "" if SETTLED.get(spoilt.op, "\n") in reason else reason
    except (RuntimeError, ValueError, TypeError, IndexError, KeyError, onnx.checker.ValidationError):
        return ""
    return ""


OF_PYTHON = (
    "can be converted to Python scalars",
    "iteration over a 0-d array",
    "values to unpack",
    "object has no attribute",
    "object is not",
    "truth value of",
)
"""Parts of messages that do not say what is wrong with the input."""

PATHS = ({"mode": "fast"}, {"mode": "fast", "kernels": "generic"}, {"mode": "exact"})


def verdict(good: Case, spoilt: Case, schema: defs.OpSchema, never: bool) -> str:
    """What is wrong with how the spoilt case went; empty where nothing is.

    A number in an array of one element and another rank may still be that number, and a scalar a list of one, if the
    result says so.
    """
    try:
        results = [outcome(spoilt, options) for options in PATHS]
    except Exception as error:  # noqa: BLE001 - that is what must not happen
        return f"raises {type(error).__name__}: {error}"
    if isinstance(results[-1], onemodel.InexactOperatorError):
        results.pop()
    errors = [result for result in results if isinstance(result, onemodel.OneModelError)]
    if errors and any("'node'" not in str(error) for error in errors):
        return f"the error does not name the node: {errors[0]}"
    if foreign := [str(error) for error in errors if any(text in str(error) for text in OF_PYTHON)]:
        return f"the error speaks of Python's or NumPy's ways: {foreign[0]}"
    if len(errors) == len(results):
        return ""
    if errors:
        return f"one path refuses it ({errors[0]}), another does not"
    if never:
        return f"is not refused; gives {' '.join(map(describe, results[0]))}"
    if reason := inference_refuses(spoilt, schema):
        rows = [x.reshape(1) if isinstance(x, np.ndarray) and not x.ndim else x for x in spoilt.inputs]
        meant = [outcome(other, PATHS[0]) for other in (good, replace(spoilt, inputs=tuple(rows)))]
        if not any(same(results[0], other) for other in meant):
            return f"is not refused; ONNX says {reason}"
    fast, generic, *exact = results
    if not same(generic, fast) or not all(same(result, fast, finite=True) for result in exact):
        return f"paths differ: {results}"
    return ""


def same(one: Any, other: Any, *, finite: bool = False) -> bool:
    """Whether two runs gave the same; ``finite`` looks only at numbers that are finite in both.

    Infinite parameters make NaN or not by the order of operations, which fast mode may change.
    """
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(same(a, b, finite=finite) for a, b in zip(one, other, strict=True))
    if isinstance(one, dict):
        return str(one) == str(other)  # NaN equals NaN there
    if finite and isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and one.dtype.kind == "f":
        if one.shape != other.shape:
            return False
        both = np.isfinite(one) & np.isfinite(other)
        one, other = np.where(both, one, 0).astype(one.dtype), np.where(both, other, 0).astype(other.dtype)
    try:
        harness.same(one, other, rtol=1e-3, atol=1e-3)
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize("op", OPERATORS)
def test_bad_input(op: str) -> None:
    wrong = []
    for seed in SEEDS:
        good = case(op, seed)
        schema = defs.get_schema(op, good.opset, good.domain)
        for ways, never in ((NEVER, True), (MAYBE, False)):
            for way in ways:
                for what, spoilt in way(good, schema):
                    if message := verdict(good, spoilt, schema, never):
                        wrong.append(f"{what}: {' '.join(message[:400].split())}\n    {str(spoilt)[:300]}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("way", [*NEVER, *MAYBE], ids=lambda way: way.__name__)
def test_every_way_spoils_something(way: Callable[[Case, defs.OpSchema], Spoilt]) -> None:
    for op in OPERATORS:
        good = case(op, 0)
        if next(way(good, defs.get_schema(op, good.opset, good.domain)), None) is not None:
            return
    pytest.fail("no case is spoilt so")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (lambda *_: [np.zeros(2)], "is not refused"),
        (lambda *_: onemodel.ExecutionError("a node"), "does not name the node"),
        (lambda *_: 1 / 0, "raises ZeroDivisionError"),
        (lambda *_: onemodel.ExecutionError("'node': too many values to unpack"), "speaks of Python's"),
    ],
)
def test_the_verdict_finds_what_is_wrong(monkeypatch: pytest.MonkeyPatch, given: Any, expected: str) -> None:
    monkeypatch.setattr("tests.ops.test_bad_input.outcome", given)
    good = case("Softmax", 0)
    assert expected in verdict(good, with_attribute(good, "axis", 99), defs.get_schema("Softmax", good.opset), True)
