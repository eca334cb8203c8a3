"""The stand-in refuses what the real CuPy refuses, and lets go of ``sys.modules``."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from tests.gpu import device_rules, install
from tests.gpu.api_table import read_table, signature


def test_it_leaves_sys_modules_as_they_were() -> None:
    def present() -> dict[str, Any]:
        return {name: module for name, module in sys.modules.items() if "cupy" in name and "tests" not in name}

    before = present()
    with install.installed() as first:
        assert sys.modules["cupy"] is first
        from array_api_compat import cupy as library

        assert vars(library)["add"] is first.add
    assert present() == before
    with install.installed() as second:
        assert second is first
    assert present() == before


def test_every_signature_of_the_table_can_be_read() -> None:
    table = read_table()
    assert table["cupy"] >= "14"
    for kind in ("functions", "methods"):
        for name in table[kind]:
            signature(kind, name)
    assert len(table["functions"]) > 250
    assert len(table["ufuncs"]) > 100


def test_host_arrays_do_not_mix(cupy: Any) -> None:
    x = cupy.asarray(np.ones(3))
    with pytest.raises(TypeError, match="Implicit conversion to a NumPy array is not allowed"):
        np.asarray(x)
    with pytest.raises(TypeError, match="Unsupported type"):
        x + np.ones(3)
    with pytest.raises(TypeError, match="Unsupported type"):
        cupy.add(x, np.ones(3))
    with pytest.raises(TypeError, match="Unsupported dtype"):
        cupy.asarray(np.array(["text"], object))


def test_calls_must_bind_to_the_real_signatures(cupy: Any) -> None:
    x = cupy.asarray(np.ones((2, 3)))
    with pytest.raises(TypeError, match="unexpected keyword"):
        cupy.take(x, cupy.asarray(np.zeros(1, np.int64)), axis=0, mode="clip")
    with pytest.raises(TypeError, match="unexpected keyword"):
        x.astype(np.float32, device="cpu")
    with pytest.raises(TypeError, match="not supported for the input types"):
        cupy.bitwise_and(x, x)


def test_reads_are_noted_and_refused(cupy: Any) -> None:
    x = cupy.asarray(np.arange(3))
    device_rules.reads.clear()
    assert (int(x[1]), bool(cupy.any(x > 1)), x.get().tolist()) == (1, True, [0, 1, 2])
    assert len(cupy.nonzero(x)[0]) == 2
    assert device_rules.reads == ["int()", "bool()", "get()", "nonzero"]
    for forbidden in (lambda: int(x[1]), lambda: cupy.nonzero(x), lambda: x[x > 1], x.get, x.item):
        with device_rules.no_reads(), pytest.raises(RuntimeError, match="the host waits for the device"):
            forbidden()
    with device_rules.no_reads():
        assert cupy.where(x > 1, x, -x).shape == (3,)


def test_it_computes_as_the_device_does(cupy: Any) -> None:
    x = cupy.asarray(np.array([1e10, -1e10, np.nan, 300.0], np.float32))
    assert x.astype(np.int32).get().tolist() == [2**31 - 1, -(2**31), 0, 300]
    assert x.astype(np.int8).get().tolist() == [-1, 0, 0, 44]
    indices = cupy.asarray(np.array([5, -9]))
    assert cupy.take(cupy.asarray(np.arange(4)), indices).get().tolist() == [1, 3]
    twice = cupy.asarray(np.array([0, 0]))
    with pytest.raises(AssertionError, match="undefined"):
        x[twice] = cupy.asarray(np.zeros(2, np.float32))
    odd = np.array([1 + 2**-11 + 2**-40])
    assert cupy.asarray(odd).astype(np.float16).get() != odd.astype(np.float16)


def test_it_flushes_subnormal_numbers_as_the_device_does(cupy: Any) -> None:
    least = np.array([1e-45, -1e-39, 1.0], np.float32)
    x = cupy.asarray(least)
    assert (x + x).get().tolist() == [0, 0, 2]
    assert np.signbit((x * 1).get()).tolist() == [False, True, False]
    assert (x > 0).get().tolist() == [False, False, True]
    assert x.astype(np.float64).get().tolist() == [0, 0, 1]
    assert cupy.asarray(np.array([1e-40])).astype(np.float32).get().tolist() == [0]
    assert cupy.max(x[:2]).get().tolist() == 0
    assert cupy.any(x[:2]).get().tolist() is False
    assert cupy.negative(x.astype(np.complex64)).get()[0] == 0
    kept = cupy.where(x == 1, x, x[::-1][::-1])
    assert cupy.concatenate([kept, x])[:3].get().tolist() == least.tolist()
    wide = cupy.asarray(least.astype(np.float64))
    assert (wide * 1).get().tolist() == least.tolist()


def test_what_may_flush_is_refused(cupy: Any) -> None:
    x = cupy.asarray(np.ones((2, 3), np.float32))
    half = x.astype(np.float16)
    calls: list[Any] = [
        lambda: x + x,
        lambda: x > 0,
        lambda: -x,
        lambda: x.astype(np.float64),
        lambda: cupy.sum(x),
        lambda: cupy.argmax(x, axis=0),
        lambda: cupy.any(x),
        lambda: cupy.sort(x),
        lambda: cupy.searchsorted(x[0], x[1]),
        lambda: cupy.matmul(x, x.T),
        lambda: x.sum(),
        lambda: cupy.isnan(x),
    ]
    for call in calls:
        call()
        with device_rules.no_float32(), pytest.raises(RuntimeError, match="takes subnormal float32 numbers for 0"):
            call()
    with device_rules.no_float32():
        assert cupy.concatenate([x, x[:, ::-1]]).shape == (4, 3)
        assert (half + half).dtype == np.float16
        assert cupy.where(cupy.asarray(True), x, x).dtype == np.float32
