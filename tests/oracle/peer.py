"""What ONNX Runtime says to a case."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidGraph, NotImplemented

from onemodel import types
from tests.oracle.draw import Case, bits, code, kind

Types = Mapping[np.dtype[Any], np.dtype[Any]]

LACKS = (
    "not supported in this build",
    "is not currently registered or supported",
    "data type is not supported",
    "does not support double yet",
    "Numpy_type",
    "No corresponding Numpy",
    ": Type Error:",
    "Unsupported value attribute datatype",
    "Failed to construct locale",
    "Subgraph must have the shape set for all outputs but _inlfunc",
)
"""Parts of its messages where it lacks a type or a locale, or cannot run a function body of ONNX."""

WIDE_FLOAT, WIDE_INTEGER, WIDE_UNSIGNED = np.dtype(np.float32), np.dtype(np.int8), np.dtype(np.uint8)


@dataclass(frozen=True)
class Answer:
    """What it gave.

    Attributes:
        values: the outputs; None where it gave none.
        missing: it has no kernel for this operator version and these types.
        refusal: what it said instead, on one line.
        stand_in: where it lacks the case's types: the types that stood in for them.
    """

    values: list[Any] | None = None
    missing: bool = False
    refusal: str = ""
    stand_in: Types | None = None

    def narrowed(self, like: list[Any]) -> list[Any]:
        """The values in the types of ``like``, where a type stood in for theirs."""
        assert self.values is not None
        return [_narrow(value, ours, self.stand_in or {}) for value, ours in zip(self.values, like, strict=True)]


def ask(case: Case) -> Answer:
    """Run the case on ONNX Runtime, where it must in wider types."""
    first = _answer(case, case.inputs)
    if not first.missing or case.input_types is not None:
        return first
    for table in _stand_ins(case):
        answer = _answer(case, [_cast(value, table) for value in case.inputs])
        if answer.values is not None:
            return Answer(answer.values, stand_in=table)
    return first


def _answer(case: Case, inputs: Any) -> Answer:
    try:
        return Answer(_run(case.with_inputs(inputs), {f"x{i}": x for i, x in enumerate(inputs) if x is not None}))
    except (NotImplemented, InvalidGraph) as error:
        return Answer(missing=True, refusal=_line(error))
    except Exception as error:  # noqa: BLE001 - it has a class of its own for each status
        return Answer(missing=any(part in str(error) for part in LACKS), refusal=_line(error))


def _run(model: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
    """Run a model; element types that the Python interface does not carry pass through Cast nodes."""
    before = [_widen_input(declared, feeds) for declared in model.graph.input if _carrier(_dtype(feeds[declared.name]))]
    nodes = [*before, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    session = _open(model)
    narrow = {out.name: types.dtype_of(out.type) for out in session.get_outputs() if types.is_tensor(out.type)}
    narrow = {name: dtype for name, dtype in narrow.items() if _carrier(dtype)}
    if narrow:
        for output in model.graph.output:
            if output.name in narrow:
                target = code(_carrier(narrow[output.name]))
                model.graph.node.append(helper.make_node("Cast", [output.name], [f"{output.name}_wide"], to=target))
                output.name += "_wide"
        session = _open(model)
    results = zip(session.get_outputs(), session.run(None, feeds), strict=True)
    widened = {f"{name}_wide": dtype for name, dtype in narrow.items()}
    return [value.astype(widened[out.name]) if out.name in widened else value for out, value in results]


def _open(model: onnx.ModelProto) -> Any:
    """A session with graph optimisations off and one thread."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _widen_input(declared: onnx.ValueInfoProto, feeds: dict[str, Any]) -> onnx.NodeProto:
    """Make an input wide, in place; returns the node that narrows it again."""
    name, value = declared.name, feeds.pop(declared.name)
    declared.name = f"{name}_wide"
    feeds[declared.name] = value.astype(_carrier(value.dtype))
    declared.type.tensor_type.elem_type = code(feeds[declared.name].dtype)
    exact = {"saturate": 0} if "float8" in value.dtype.name else {}
    return helper.make_node("Cast", [declared.name], [name], to=code(value.dtype), **exact)


def _dtype(value: Any) -> Any:
    return value.dtype if isinstance(value, np.ndarray) else np.dtype(object)


def _carrier(dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """The type that carries ``dtype`` in and out of Python; None where it does itself."""
    if dtype.kind in "biufcO" and dtype.isbuiltin == 1:
        return None
    return {"f": WIDE_FLOAT, "i": WIDE_INTEGER, "u": WIDE_UNSIGNED}[kind(dtype)]


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def _stand_ins(case: Case) -> Iterator[Types]:
    """Wider types to try, one table after the other."""
    present = {array.dtype for array in _arrays(case.inputs)}
    floats = {t: np.dtype(np.float32) for t in present if kind(t) == "f" and t != np.float32}
    small = {t: np.dtype(np.int32) for t in present if kind(t) in "iu" and bits(t) <= 16}
    large = any(array.dtype == np.uint64 and array.size and array.max() >= 2**63 for array in _arrays(case.inputs))
    whole = {} if large else {t: np.dtype(np.int64) for t in present if kind(t) in "iu" and t != np.int64}
    truth = {t: np.dtype(np.uint8) for t in present if kind(t) == "b"}
    for table in (floats, small, whole, truth, floats | small, floats | whole):
        if table and not set(table.values()) & present:
            yield table


def _arrays(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _arrays(value)
        elif value is not None:
            yield value


def _cast(value: Any, table: Types) -> Any:
    if isinstance(value, (list, tuple)):
        return [_cast(item, table) for item in value]
    return value if value is None else value.astype(table.get(value.dtype, value.dtype))


def _narrow(value: Any, like: Any, table: Types) -> Any:
    """``value`` in the type of ``like``, where ``table`` widened that."""
    if isinstance(value, list) and isinstance(like, list) and len(value) == len(like):
        return [_narrow(item, one, table) for item, one in zip(value, like, strict=True)]
    if isinstance(value, np.ndarray) and isinstance(like, np.ndarray) and table.get(like.dtype) == value.dtype:
        return value.astype(like.dtype)
    return value
