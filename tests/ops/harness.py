"""Run one operator on every path that there is, and check that they agree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest import mock

import numpy as np
import onnx
from onnx import helper

import onemodel
from onemodel import exactness, types
from onemodel.backends import get_backend
from onemodel.backends.base import Namespace
from onemodel.backends.numpy_backend import NumpyBackend
from onemodel.ops import registry
from tests.gpu.install import installed, kernels_here

LATEST = onnx.defs.onnx_opset_version()
PATHS: Mapping[str, Mapping[str, Any]] = {
    "numpy fast": {"mode": "fast"},
    "numpy fast, generic kernels": {"mode": "fast", "kernels": "generic"},
    "array-api-strict": {"backend": "strict", "mode": "fast"},
    "cupy on its stand-in": {"backend": "cupy", "mode": "fast", "kernels": kernels_here()},
    "numpy exact": {"mode": "exact"},
}


@contextmanager
def session_on(path: str, proto: onnx.ModelProto) -> Iterator[onemodel.Session]:
    """A session of a model on one of ``PATHS``; CuPy's stand-in is there within the context alone."""
    with installed() if PATHS[path].get("backend") == "cupy" else nullcontext():
        yield onemodel.Session(proto, **PATHS[path])


def model(
    op: str,
    inputs: Sequence[Any],
    *,
    opset: int = LATEST,
    domain: str = "",
    outputs: int | Sequence[bool] = 1,
    input_types: Sequence[str | None] | None = None,
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one node. None among the inputs is an omitted one; ``outputs`` counts them, or says which to give."""
    wanted = [True] * outputs if isinstance(outputs, int) else list(outputs)
    names = ["" if value is None else f"x{i}" for i, value in enumerate(inputs)]
    given = [None] * len(inputs) if input_types is None else list(input_types)
    graph = helper.make_graph(
        [
            helper.make_node(
                op,
                names,
                [f"y{i}" if want else "" for i, want in enumerate(wanted)],
                "node",
                domain=domain,
                **attributes,
            )
        ],
        "one_node",
        [
            helper.make_value_info(name, types.to_proto(given[i] or _type(value)))
            for i, (name, value) in enumerate(zip(names, inputs, strict=True))
            if name
        ],
        [onnx.ValueInfoProto(name=f"y{i}") for i, want in enumerate(wanted) if want],
    )
    imports = [helper.make_opsetid(domain, opset)] if domain else [helper.make_opsetid("", opset)]
    if domain:
        imports.append(helper.make_opsetid("", LATEST))
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def run(op: str, *inputs: Any, rtol: float = 1e-5, atol: float = 1e-6, **options: Any) -> Any:
    """What ``op`` gives on NumPy fast, after every other path has given the same.

    Integers, booleans and strings must be equal, floats within ``rtol`` and ``atol``, dtypes and shapes the same. A
    path is left out only where it has a reason: array-api-strict lacks the element type, exact mode refuses the
    operator by name.

    Args:
        op: the operator.
        inputs: arrays, lists of arrays, or None for an omitted input. They are read-only while the operator runs.
        rtol, atol: how far two paths may lie apart.
        options: see ``model``; the rest are attributes.

    Returns:
        the output, or a list where ``outputs`` is more than one.
    """
    return run_model(model(op, inputs, **options), *inputs, rtol=rtol, atol=atol)


def run_model(
    proto: onnx.ModelProto, *inputs: Any, rtol: float = 1e-5, atol: float = 1e-6, exact: list[Any] | None = None
) -> Any:
    """``run`` for a whole model with the inputs ``x0``, ``x1`` ...; ``exact``: what exact mode gives instead."""
    feeds = {f"x{i}": _read_only(value) for i, value in enumerate(inputs) if value is not None}
    results: dict[str, list[Any]] = {}
    for path in PATHS:
        if path == "array-api-strict" and not standard([*feeds.values(), *results["numpy fast"]]):
            continue
        if path == "numpy exact" and exact_refuses(proto):
            continue
        with session_on(path, proto) as session:
            results[path] = session.run(None, feeds)
        expected = exact if path == "numpy exact" and exact is not None else results["numpy fast"]
        assert len(results[path]) == len(expected)
        for got, want in zip(results[path], expected, strict=True):
            same(got, want, rtol=rtol, atol=atol, what=path)
    _check_recorded(proto, feeds)
    outputs = results["numpy fast"]
    return outputs[0] if len(outputs) == 1 else outputs


def check(expected: Any, op: str, *inputs: Any, rtol: float = 1e-5, atol: float = 1e-6, **options: Any) -> None:
    """Assert that ``op`` gives ``expected`` (an array, or a list of one per output) on every path."""
    same(run(op, *inputs, rtol=rtol, atol=atol, **options), expected, rtol=rtol, atol=atol, what=op)


def same(got: Any, want: Any, *, rtol: float = 1e-5, atol: float = 1e-6, what: str = "") -> None:
    """Assert equality: of lists item by item, dtype and shape always, values by the dtype."""
    if isinstance(want, (list, tuple)):
        assert isinstance(got, list), f"{what}: {got} instead of {want}"
        assert len(got) == len(want), f"{what}: {got} instead of {want}"
        for a, b in zip(got, want, strict=True):
            same(a, b, rtol=rtol, atol=atol, what=what)
        return
    if want is None or isinstance(want, dict):
        assert got == want, f"{what}: {got} instead of {want}"
        return
    assert isinstance(got, np.ndarray), f"{what}: {type(got).__name__} instead of an array"
    assert (got.dtype, got.shape) == (want.dtype, want.shape), (
        f"{what}: {got.dtype}{got.shape}, not {want.dtype}{want.shape}"
    )
    if got.dtype == object or got.dtype.kind in "iub":
        np.testing.assert_array_equal(got, want, err_msg=what)
    else:
        wide = np.complex128 if got.dtype.kind == "c" else np.float64
        np.testing.assert_allclose(got.astype(wide), want.astype(wide), rtol=rtol, atol=atol, err_msg=what)


def onnxruntime_gives(proto: onnx.ModelProto, *inputs: Any) -> Any:
    """What ONNX Runtime gives for the same model, graph optimisations off, one thread."""
    import onnxruntime  # here, because what draws cases also runs where there is none

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    outputs = session.run(None, {f"x{i}": value for i, value in enumerate(inputs) if value is not None})
    return outputs[0] if len(outputs) == 1 else outputs


def like_onnxruntime(
    op: str, *inputs: Any, rtol: float = 1e-5, atol: float = 1e-6, opset: int = 21, **options: Any
) -> None:
    """Assert that ``op`` gives ONNX Runtime's result on every path."""
    want = onnxruntime_gives(model(op, inputs, opset=opset, **options), *inputs)
    check(want, op, *inputs, rtol=rtol, atol=atol, opset=opset, **options)


def refused(
    message: str, op: str, *inputs: Any, error: type[Exception] = onemodel.ExecutionError, **options: Any
) -> None:
    """Assert that ``op`` raises ``error`` with ``message`` (a part of the text) on NumPy fast, naming the node."""
    proto = model(op, inputs, **options)
    feeds = {f"x{i}": value for i, value in enumerate(inputs) if value is not None}
    import pytest

    with pytest.raises(error) as raised:
        onemodel.Session(proto, mode="fast").run(None, feeds)
    assert message in str(raised.value)
    assert "'node'" in str(raised.value)


def arrays(rng: np.random.Generator, *shapes: tuple[int, ...], dtype: Any = np.float32) -> list[np.ndarray[Any, Any]]:
    """Seeded arrays: standard normal floats, integers from -9 to 9 (0 to 9 unsigned), random booleans."""
    dtype = np.dtype(dtype)
    make: Callable[[tuple[int, ...]], Any] = rng.standard_normal
    if dtype.kind == "b":
        make = lambda shape: rng.integers(0, 2, shape)  # noqa: E731
    elif dtype.kind in "iu":
        make = lambda shape: rng.integers(-9 if dtype.kind == "i" else 0, 10, shape)  # noqa: E731
    return [np.asarray(make(shape)).astype(dtype) for shape in shapes]


class _Recorder:
    """A namespace that notes which of its functions operators ask for."""

    def __init__(self, namespace: Namespace, asked: set[str]) -> None:
        self._namespace = namespace
        self._asked = asked

    def __getattr__(self, name: str) -> Any:
        self._asked.add(name)
        return getattr(self._namespace, name)


def _check_recorded(proto: onnx.ModelProto, feeds: Mapping[str, Any]) -> None:
    """The functions that the operators ask for are among those that walking their code finds."""
    fast = get_backend("numpy").namespace("fast")
    asked: set[str] = set()
    with mock.patch.object(NumpyBackend, "namespace", return_value=_Recorder(fast, asked)):
        onemodel.Session(proto, mode="fast", kernels="generic").run(None, feeds)
    found: set[str] = {"astype", "float32", "onnx_dtype", "prepare"}  # the plan's own, for half types and weights
    for node in _nodes(proto.graph):
        imports = {entry.domain: entry.version for entry in proto.opset_import}
        entry = registry.find(node.domain, node.op_type, imports[node.domain])
        if entry is None:
            return  # a function body: its nodes are not here
        found |= exactness.functions_used(entry.function)
    assert asked <= found, f"{sorted(asked - found)} are used, but walking the code does not find them"


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _nodes(attribute.g)


def exact_refuses(proto: onnx.ModelProto) -> bool:
    """Whether exact mode refuses the model, by its name and with the way on."""
    try:
        onemodel.Session(proto, mode="exact")
    except onemodel.InexactOperatorError as error:
        if not str(error).endswith('mode="fast"'):
            raise
        return True
    return False


def _type(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"seq({_type(value[0])})"
    return types.of_dtype(value.dtype)


def _read_only(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_read_only(item) for item in value]
    copy = np.array(value)
    copy.flags.writeable = False
    return copy


def standard(values: Any) -> bool:
    """Whether array-api-strict has the element types of all arrays in ``values``."""
    if isinstance(values, (list, tuple)):
        return all(map(standard, values))
    from onemodel.backends.strict_backend import DTYPES

    return values is None or (hasattr(values, "dtype") and values.dtype.name in DTYPES)
