"""Operators of elements as programs: the bits of the operator as written, on NumPy and as CUDA source."""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onemodel
from onemodel.backends import get_backend
from onemodel.backends.exact import elementary
from onemodel.backends.exact.blocks import BlockRunner
from onemodel.backends.exact.elementary import host_runner
from onemodel.backends.exact.symbolic import FLOATS, Symbols, fused, traced, traced_expression
from onemodel.backends.fusion import Element, Expression
from onemodel.ops import registry
from tests.exact.test_source import compiled, same, sample
from tests.ops.harness import model

XP: Any = get_backend("numpy").namespace("exact")

UNTRACEABLE = {"IsInf", "Sign"}
"""Operators of one array that programs have no operations for; all are one primitive."""

ATTRIBUTES: dict[str, list[dict[str, Any]]] = {
    "Celu": [{"alpha": 1.5}],
    "Elu": [{"alpha": 0.3}],
    "Gelu": [{"approximate": "tanh"}],
    "HardSigmoid": [{"alpha": 0.3, "beta": 0.1}],
    "LeakyRelu": [{"alpha": -0.1}],
    "Shrink": [{"bias": 0.25, "lambd": 1.0}],
    "Swish": [{"alpha": 1.7}],
}
"""Attributes besides the defaults."""


def _entries() -> Iterator[tuple[str, dict[str, Any]]]:
    """Elementwise operators of one array of floats that need no attribute, with attributes."""
    for entry in registry.entries():
        latest = registry.find(entry.domain, entry.name, 28)
        needs = inspect.Parameter.empty in entry.attributes.values() or entry.required != 1 or entry.variadic
        if entry is not latest or not entry.elementwise or needs or entry.name in ("Not", "BitwiseNot"):
            continue
        for attributes in ({}, *ATTRIBUTES.get(entry.name, [])):
            yield entry.name, attributes


ENTRIES = list(_entries())


def _function(op: str) -> Any:
    return next(e.function for e in registry.entries() if e.name == op and e is registry.find(e.domain, op, 28))


@pytest.mark.parametrize(("op", "attributes"), ENTRIES, ids=str)
@pytest.mark.parametrize("dtype", FLOATS)
def test_the_bits_are_those_of_the_operator(op: str, attributes: dict[str, Any], dtype: str) -> None:
    function = _function(op)
    program = traced(function, [dtype], attributes)
    assert (program is None) == (op in UNTRACEABLE)
    if program is None:
        return
    x = sample(dtype, 4096, 5)
    with np.errstate(all="ignore"):
        want = function(x, **attributes, xp=XP)
        got = host_runner(program)(x).astype(want.dtype)
    if want.dtype == bool:
        assert np.array_equal(got, want)
    else:
        same(got, want)


@pytest.mark.skipif(shutil.which("g++") is None, reason="the source is compiled for the CPU")
@pytest.mark.parametrize("op", ["Celu", "Elu", "HardSwish", "LeakyRelu", "Relu", "Selu", "Shrink", "Swish"])
def test_as_cuda_source(op: str, tmp_path: Path) -> None:
    program = traced(_function(op), ["float32"], ATTRIBUTES.get(op, [{}])[0])
    assert program is not None
    x = sample("float32", 1 << 18, 6)
    with np.errstate(all="ignore"):
        same(compiled(program, tmp_path)(x), host_runner(program)(x))


@pytest.mark.parametrize("dtype", FLOATS)
def test_sessions_run_large_arrays_through_programs(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[Any] = []
    run = BlockRunner.__call__

    def watched(runner: BlockRunner, *arrays: Any) -> Any:
        runs.append(runner.program)
        return run(runner, *arrays)

    monkeypatch.setattr(BlockRunner, "__call__", watched)
    x = sample(dtype, 1 << 16, 7).reshape(256, 256)
    session = onemodel.Session(model("Selu", [x]), mode="exact")
    with np.errstate(all="ignore"):
        want = XP.one_nan(_function("Selu")(x, xp=XP))
    before = len(runs)
    got = session.run(None, {"x0": x})[0]
    same(got.reshape(-1), want.reshape(-1))
    assert [program.inputs for program in runs[before:]] == [(dtype,)]
    assert runs[-1] is not elementary.program("exp", dtype)
    assert session.run(None, {"x0": x[:3, :]})[0].tobytes() == got[:3, :].tobytes()


def test_what_cannot_be_traced_runs_as_written() -> None:
    def by_shape(x: Any, /, *, xp: Any) -> Any:
        return x + float(x.shape[0]) if x.ndim else x

    def by_branch(x: Any, /, *, xp: Any) -> Any:
        return x * 2.0 if bool(xp.any(x > 0)) else -x

    def by_tuple(x: Any, /, *, xp: Any) -> Any:
        return x * 2.0, x * 3.0

    x = np.linspace(-1, 1, 1 << 16, dtype=np.float32)
    for function in (by_shape, by_branch, by_tuple):
        assert traced(function, ["float32"], {}) is None
        assert np.array_equal(fused(function, {"xp": XP})(x), function(x, xp=XP))


def test_two_arrays_and_conditions() -> None:
    def body(a: Any, b: Any, /, *, low: float, xp: Any) -> Any:
        inside = (a == b) | ~(a >= low) & (b != a)
        return xp.where(inside, xp.atan2(a, b), xp.minimum(a, -0.0) + xp.maximum(low, b))

    program = traced(body, ["float64", "float64"], {"low": 0.0})
    assert program is not None
    a, b = sample("float64", 4096, 8), np.roll(sample("float64", 4096, 8), 5)
    b[::3] = a[::3]
    with np.errstate(all="ignore"):
        same(host_runner(program)(a, b), body(a, b, low=0.0, xp=XP))


SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", ["Max", "Min"])
def test_extremes_of_pairs_and_of_numbers(op: str, dtype: str) -> None:
    function = _function(op)
    a, b = (x.reshape(-1) for x in np.meshgrid(np.array(SPECIAL, dtype), np.array(SPECIAL, dtype)))
    program = traced(function, [dtype, dtype], {})
    assert program is not None
    with np.errstate(all="ignore"):
        same(host_runner(program)(a, b), function(a, b, xp=XP))
    for number in np.array(SPECIAL, dtype):
        element = Element(function, {}, function, (0, 1), True, dtype)
        program = traced_expression(Expression((dtype,), (np.array([number]),), (element,)))
        assert (program is None) == np.isnan(number)
        if program is not None:
            with np.errstate(all="ignore"):
                same(host_runner(program)(a), function(a, number.reshape(()), xp=XP))


@pytest.mark.parametrize("dtype", FLOATS)
def test_numbers_in_functions_of_two(dtype: str) -> None:
    x = np.abs(sample(dtype, 512, 9))
    for number in (2.0, -0.5, np.inf):
        element = Element(_function("Pow"), {}, _function("Pow"), (0, 1), True, dtype)
        program = traced_expression(Expression((dtype,), (np.array(number, dtype),), (element,)))
        assert program is not None
        with np.errstate(all="ignore"):
            same(host_runner(program)(x), _function("Pow")(x, np.array(number, dtype), xp=XP))


@pytest.mark.parametrize("shapes", [((4, 1), (1, 5)), ((2, 3, 400), (3, 1)), ((), (7,)), ((0, 3), (3,)), ((1,), ())])
def test_programs_broadcast(shapes: tuple[tuple[int, ...], ...]) -> None:
    program = traced(lambda a, b, /, *, xp: xp.exp(a) * b - a, ["float32", "float32"], {})
    assert program is not None
    random = np.random.default_rng(3)
    a, b = (random.standard_normal(shape).astype(np.float32) for shape in shapes)
    got = host_runner(program)(a, b)
    want = XP.exp(a) * b - a
    assert got.shape == want.shape
    same(got.reshape(-1), want.reshape(-1))


def test_numbers_are_those_of_the_dtype() -> None:
    x = Symbols().input("float32")
    assert Symbols.constant(0.1, x) == float(np.float32(0.1))
    assert Symbols.asarray(0.1, dtype="float32") == float(np.float32(0.1))
