"""Exact elementary functions: the same bits on every namespace, shapes, types, and the records of their proofs."""

from __future__ import annotations

import hashlib
import json
import math
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from onemodel.backends import get_backend
from onemodel.backends.exact import elementary, functions, powers
from onemodel.backends.exact.blocks import BLOCK

FOLDER = Path(__file__).parent
NAMES = sorted(elementary.PROVEN)
ZEROS_KEEP_SIGN = "asin asinh atan atanh erf expm1 gelu gelu_tanh log1p mish silu sin sinh tan tanh".split()


@pytest.fixture
def exact() -> Iterator[Any]:
    backend = get_backend("numpy")
    with backend.running():
        yield backend.namespace("exact")


def test_every_function_has_a_proof_of_its_present_program() -> None:
    proofs = json.loads((FOLDER / "proofs.json").read_text())
    assert set(proofs) >= elementary.PROVEN
    for name in elementary.PROVEN:
        proof = proofs[name]
        assert proof["program"] == functions.FUNCTIONS[name].program().digest(), f"{name} changed since its proof"
        assert proof["inputs"] == 1 << 32


def test_every_measurement_is_of_the_present_program() -> None:
    measures = json.loads((FOLDER / "measures.json").read_text())
    for name in NAMES:
        half, double = measures["halves"][name], measures["doubles"][name]
        assert half["program"] == functions.FUNCTIONS[name].wide_program().digest(), name
        assert double["program"] == elementary.program(name, "float64").digest(), name
        assert half["wrong"] == double["wrong"] == 0
    for name, outcome in measures["pairs"].items():
        function, dtype = name.split()
        dtype = dtype if dtype in ("float32", "float64") else "odd"
        assert outcome["program"] == elementary.program(function, dtype).digest(), name
        assert outcome["wrong"] == 0


def _digest(backend_name: str, count: int) -> str:
    """Of the results of all functions, for float32 and float64, NaN made one."""
    backend = get_backend(backend_name)
    xp = backend.namespace("exact")
    state = hashlib.sha256()
    random = np.random.default_rng(11)
    words = random.integers(0, 1 << 64, (2, count), dtype=np.uint64)
    steps = random.integers(-(1 << 24), 1 << 24, (2, count))
    single = np.concatenate([words.astype(np.uint32).view(np.float32), (steps * 2.0**-20).astype(np.float32)], axis=1)
    double = np.concatenate([words.view(np.float64), steps * 2.0**-21 + 2.0**-40], axis=1)
    with np.errstate(all="ignore"):
        for sides in (single, double):
            first, second = (backend.from_host(side) for side in sides)
            for name in NAMES + list(powers.NAMES):
                arguments = (first, second) if name in powers.NAMES else (first,)
                result = np.array(backend.to_host(getattr(xp, name)(*arguments)))
                result[np.isnan(result)] = np.nan
                state.update(result.tobytes())
    return state.hexdigest()


def test_namespaces_agree() -> None:
    assert _digest("numpy", 1500) == _digest("strict", 1500)


def test_the_bits_are_those_of_this_revision() -> None:
    assert _digest("numpy", 500) == "7d47e883d6235deda19a508ca2c520affb3f631fca98f0189c0080a2b5263e47"


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (2, 3, 4), (BLOCK - 1,), (BLOCK,), (2 * BLOCK + 5,)])
def test_shapes(shape: tuple[int, ...], exact: Any) -> None:
    count = math.prod(shape)
    flat = (np.arange(count) % 1000 / 128 - 3).astype(np.float32)
    results = exact.exp(flat.reshape(shape))
    assert results.shape == shape
    pieces = [exact.exp(flat[i : i + 1]) for i in range(0, count, 997)]
    assert results.reshape(-1)[::997].tolist() == [piece[0] for piece in pieces]
    assert exact.pow(flat.reshape(shape), np.float32(2)).shape == shape


def test_layouts(exact: Any) -> None:
    x = (np.arange(6 * BLOCK) % 777 / 64 - 4).astype(np.float32).reshape(3, -1)
    expected = exact.tanh(x)
    fixed = x.copy()
    fixed.flags.writeable = False
    assert np.array_equal(exact.tanh(fixed), expected)
    assert np.array_equal(exact.tanh(x.T), expected.T)
    assert np.array_equal(exact.tanh(x[:, ::-1]), expected[:, ::-1])
    assert np.array_equal(exact.tanh(np.asfortranarray(x)), expected)
    for dtype in (np.float16, ml_dtypes.bfloat16):
        half = x[:, :99].astype(dtype)
        assert np.array_equal(exact.tanh(half.T), exact.tanh(half).T)
    assert np.array_equal(x, fixed), "inputs are never written to"


def test_broadcasting_and_types_of_two(exact: Any) -> None:
    rows, columns = np.float32([[1], [2]]), np.float32([1, 2, 3])
    assert exact.pow(rows, columns).tolist() == [[1, 1, 1], [2, 4, 8]]
    assert exact.pow(columns, 2).tolist() == [1, 4, 9]
    assert exact.pow(columns, np.float64([2, 2, 2])).dtype == np.float64
    assert exact.pow(np.int64([2, 3]), np.int64([5, 2])).tolist() == [32, 9]
    assert exact.pow(np.float16([2, 3]), np.float16([5, 2])).dtype == np.float16
    assert exact.pow(
        ml_dtypes.bfloat16(3) * np.ones(2, ml_dtypes.bfloat16), np.ones(2, ml_dtypes.bfloat16)
    ).tolist() == [3, 3]


def test_only_floats(exact: Any) -> None:
    with pytest.raises(TypeError, match="exp takes floats of 16, 32 or 64 bits, not int64"):
        exact.exp(np.int64([1]))
    with pytest.raises(TypeError, match="atan2 takes floats of 16, 32 or 64 bits, not int64"):
        exact.atan2(np.int64([1]), np.int64([1]))


def test_threads_agree(exact: Any) -> None:
    x = (np.arange(5 * BLOCK) % 4001 / 256 - 8).astype(np.float32)
    expected = [getattr(exact, name)(x).tobytes() for name in ("exp", "erf", "log1p")]
    outcomes: list[bool] = []

    def work() -> None:
        for _ in range(4):
            results = [getattr(exact, name)(x).tobytes() for name in ("exp", "erf", "log1p")]
            outcomes.append(results == expected)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == [True] * 12


def test_ties_of_pow_go_to_even(exact: Any) -> None:
    # (2**12 + 1)**2 = 2**24 + 2**13 + 1 lies between two float32.
    assert exact.pow(np.float32([4097]), np.float32([2])).tolist() == [16785408]
    # (2**27 + 1)**2 = 2**54 + 2**28 + 1 lies a quarter of the way between two float64, 2**26 + 1 cubed nowhere special.
    assert exact.pow(np.float64([2.0**27 + 1]), np.float64([2])).tolist() == [2.0**54 + 2.0**28]
    assert exact.pow(np.float64([2.0**26 + 0.5]), np.float64([2])).tolist() == [(2**27 + 1) ** 2 // 4 + 0.0]


@pytest.mark.parametrize("name", NAMES)
def test_signed_zeros_and_nan(name: str, exact: Any) -> None:
    for dtype in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16):
        zeros = np.array([0.0, -0.0, np.nan, -np.nan], dtype)
        results = getattr(exact, name)(zeros).astype(np.float64)
        assert np.isnan(results[2:]).all()
        if name in ZEROS_KEEP_SIGN:
            assert np.signbit(results[:2]).tolist() == [False, True], dtype
            assert (results[:2] == 0).all()
