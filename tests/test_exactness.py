"""Which functions an operator may call, found by walking its code; and what exact mode makes of them."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from onemodel import exactness, operator
from onemodel.backends import exact, extension, get_backend
from onemodel.backends.base import STANDARD
from onemodel.exactness import functions_used

FLOAT, INT = "tensor(float)", "tensor(int64)"


def _helper(x: Any, xp: Any) -> Any:
    return xp.log(x)


def _entry(function: Any) -> Any:
    return operator("Walked", domain="test.walk", since=1, register=False)(function).operators[-1]


def test_direct_nested_and_called() -> None:
    def walked(x: Any, y: Any, /, *, xp: Any) -> Any:
        def inner(z: Any) -> Any:
            return xp.cos(z)

        parts = [xp.sin(part) for part in (x, y)]
        return _helper(inner(parts[0]), xp), (lambda: xp.tan(x))(), xp.float32

    assert functions_used(walked) == {"cos", "sin", "log", "tan", "float32"}


def test_through_closures_defaults_partials_and_tables() -> None:
    def make(function: Any) -> Any:
        def walked(x: Any, /, *, xp: Any, also: Any = _helper) -> Any:
            return function(x, xp), also(x, xp)

        return walked

    assert functions_used(make(lambda x, xp: xp.exp(x))) == {"exp", "log"}
    assert functions_used(partial(make(_helper), also=None)) == {"log"}
    table = {"a": _helper}

    def by_table(x: Any, /, *, xp: Any) -> Any:
        return table["a"](x, xp)

    assert functions_used(by_table) == {"log"}


def test_extension_functions_count_with_what_they_call() -> None:
    def walked(x: Any, /, *, xp: Any) -> Any:
        return xp.softmax(xp.windows(x, (2,), (1,), (1,)), 1), xp.fourier(x, 0, 4, False, False)

    used = functions_used(walked)
    assert {"softmax", "exp", "sum", "windows", "fourier"} <= used
    assert "stack" not in used, "windows is native on every backend with an exact mode"
    assert "fft" not in used, "exact mode has a definition of its own in place of fourier's"


@pytest.mark.parametrize(
    ("function", "types", "reason"),
    [
        (lambda x, /, *, xp: xp.sqrt(x), [FLOAT], None),
        (lambda x, /, *, xp: xp.conv(xp.max(x), xp.mean(x), (1,), (1,)), [FLOAT], None),
        (lambda x, /, *, xp: xp.floor_divide(x, x), [FLOAT], "floor_divide: exact on integers alone so far"),
        (lambda x, /, *, xp: xp.floor_divide(x, x), [INT], None),
        (lambda x, /, *, xp: xp.floor_divide(x, x), [None], "floor_divide: exact on integers alone so far"),
        (lambda x, /, *, xp: xp.floor_divide(x, x), ["seq(tensor(int8))", "tensor(bool)"], None),
        (
            lambda x, /, *, xp: xp.floor_divide(x, x),
            ["seq(tensor(double))"],
            "floor_divide: exact on integers alone so far",
        ),
        (lambda x, /, *, xp: xp.std(xp.floor_divide(x, x)), [INT], "std: no exact definition yet"),
        (lambda x, /, *, xp: xp.trunc_divide(x, x), [FLOAT], None),
    ],
)
def test_refusals(function: Any, types: list[str | None], reason: str | None) -> None:
    assert exactness.refusal(_entry(function), types) == reason


def test_every_function_of_the_standard_has_one_verdict() -> None:
    assert set(STANDARD) >= exact.ALWAYS
    assert set(STANDARD) >= exact.ON_INTEGERS
    assert not exact.ALWAYS & exact.ON_INTEGERS
    assert not exact.DEFINED.keys() & (exact.ALWAYS | exact.ON_INTEGERS)
    assert set(extension.FUNCTIONS) >= exact.TAKE_INTEGERS


def test_the_exact_namespace_refuses_at_run_time_too() -> None:
    xp = get_backend("numpy").namespace("exact")
    x = np.float32([1, 2])
    assert xp.floor_divide(np.array([3]), np.array([2])) == 1
    with pytest.raises(TypeError, match="floor_divide of float32 has no exact definition yet"):
        xp.floor_divide(x, x)
    with pytest.raises(TypeError, match="std has no exact definition yet"):
        xp.std(x)
    with pytest.raises(AttributeError, match=r"the numpy exact namespace has no 'einsum_path'"):
        _ = xp.einsum_path
