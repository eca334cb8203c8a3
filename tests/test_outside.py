"""Exact mode refuses operators of the user's whose code leaves the namespace, and says where it does."""

from __future__ import annotations

import math
from functools import partial
from math import exp
from typing import Any

import numpy as np
import numpy.linalg
import pytest
from numpy import tanh

import onemodel
from onemodel import exactness, operator
from onemodel.errors import InexactOperatorError
from tests.ops.harness import model

FLOAT = "tensor(float)"
SHIFTS = {"a": np.exp}
WEIGHT = np.eye(2, dtype=np.float32)


def _entry(function: Any, **options: Any) -> Any:
    return operator("Own", domain="test.outside", since=1, register=False, **options)(function).operators[-1]


def _helper(x: Any) -> Any:
    return numpy.linalg.norm(x)


def _powers(x: Any, xp: Any) -> Any:
    y = xp.abs(x)
    return y**0.5


def by_product(x: Any, /, *, xp: Any) -> Any:
    return x @ x


def by_module(x: Any, /, *, xp: Any) -> Any:
    return np.exp(x)


def by_name(x: Any, /, *, xp: Any) -> Any:
    return tanh(x)


def by_import(x: Any, /, *, xp: Any) -> Any:
    import numpy as library  # noqa: ICN001

    return library.exp(x)


def by_local_name(x: Any, /, *, alpha: float = 1.0, xp: Any) -> Any:
    from math import log

    return x * log(alpha)


def by_c_function(x: Any, /, *, alpha: float = 1.0, xp: Any) -> Any:
    return x * math.exp(alpha)


def by_c_function_of_its_own_name(x: Any, /, *, alpha: float = 1.0, xp: Any) -> Any:
    return x * exp(alpha)


def by_method(x: Any, /, *, xp: Any) -> Any:
    return xp.abs(x).sum() + x.mean()


def by_power(x: Any, /, *, xp: Any) -> Any:
    y = x + 1
    y **= 3
    return [part**2 for part in (x, y)]


def by_floor(x: Any, /, *, xp: Any) -> Any:
    rows = x[0, ...]
    return divmod(rows, 2)[0] + rows // 2 + rows % 2 + pow(rows, 2)


def by_number(x: Any, /, *, xp: Any) -> Any:
    return x * xp.asarray(float(x[0, 0]) ** 0.3 + float(x.shape[0]), dtype=x.dtype)


def by_helper(x: Any, /, *, xp: Any) -> Any:
    return _helper(x)


def by_helper_with_xp(x: Any, /, *, xp: Any) -> Any:
    return _powers(x, xp)


def by_table(x: Any, /, *, xp: Any) -> Any:
    return SHIFTS["a"](x)


def by_closure(x: Any, /, *, xp: Any) -> Any:
    return x


def _closure() -> Any:
    library = np

    def inner(x: Any, /, *, xp: Any) -> Any:
        return library.sin(x)

    return inner


OUTSIDE = [
    (by_product, "@ of arrays"),
    (by_module, "numpy.exp"),
    (by_name, "numpy.tanh"),
    (by_import, "numpy"),
    (by_local_name, "math.log"),
    (by_c_function, "math.exp"),
    (by_c_function_of_its_own_name, "math.exp"),
    (by_method, ".mean of arrays, .sum of arrays"),
    (by_power, "** of arrays"),
    (by_floor, "% of arrays, // of arrays, divmod() of arrays, pow() of arrays"),
    (by_number, "float() of arrays"),
    (by_helper, "numpy.linalg"),
    (by_helper_with_xp, "** of arrays"),
    (by_table, "numpy.exp"),
    (_closure(), "numpy"),
    (lambda x, /, *, xp: x**2, "** of arrays"),
]


@pytest.mark.parametrize(("function", "named"), OUTSIDE, ids=lambda value: getattr(value, "__name__", ""))
def test_what_leaves_the_namespace_is_named(function: Any, named: str) -> None:
    reason = exactness.refusal(_entry(function), [FLOAT])
    assert reason == f"its code uses {named}, of which exact mode knows nothing; use the functions of xp"


def within(x: Any, shape: Any = None, /, *, alpha: float = 2.0, groups: int = 2, xp: Any) -> Any:
    """Arithmetic on arrays, and anything on numbers: sizes, attributes and what is read on the host."""
    half, rest = divmod(x.shape[0], groups)
    size = math.prod(x.shape) // groups + groups**2 + half % 3 + rest
    factor = math.sqrt(alpha) * np.pi / size
    parts = [xp.exp(part) * factor for part in (x, -x)]
    if shape is not None:
        parts = [xp.reshape(part, tuple(int(n) for n in shape.reshape(-1))) for part in parts]
    return xp.concat(parts, axis=0) / np.float32(2)


def elementwise(x: Any, /, *, xp: Any) -> Any:
    return x * WEIGHT + xp.where(x > 0, x, -x)


@pytest.mark.parametrize("function", [within, elementwise, partial(within, groups=3), by_closure])
def test_what_stays_within_is_admitted(function: Any) -> None:
    host = {"host": ("shape",)} if function is not elementwise and function is not by_closure else {}
    if isinstance(function, partial):
        inner = function

        def function(x: Any, shape: Any = None, /, *, xp: Any) -> Any:
            return inner(x, shape, xp=xp)

    assert exactness.refusal(_entry(function, **host), [FLOAT]) is None


def test_code_without_source_is_read_as_far_as_it_goes() -> None:
    made: dict[str, Any] = {}
    exec("def f(x, /, *, xp):\n    return x @ x + (x ** 2)\n", made)
    reason = exactness.refusal(_entry(made["f"]), [FLOAT])
    assert reason is not None
    assert reason.startswith("its code uses @ of arrays, of which")


def test_a_session_refuses_by_name() -> None:
    own = operator("Own", domain="test.outside", since=1, register=False, types=("x",))(by_product)
    x = np.ones((2, 2), np.float32)
    proto = model("Own", [x], domain="test.outside", opset=1)
    with pytest.raises(InexactOperatorError, match=r"(?s)node 'node' \(test.outside::Own.*its code uses @"):
        onemodel.Session(proto, operators=[own], mode="exact")
    result = onemodel.Session(proto, operators=[own], mode="fast").run(None, {"x0": x})[0]
    assert result.tolist() == [[2, 2], [2, 2]]


def test_complex_numbers_are_refused_where_something_is_computed() -> None:
    z = np.ones((1, 4, 4), np.complex64)
    inputs = [z, np.array([4, 4]), np.array([2, 2])]
    with pytest.raises(InexactOperatorError, match=r"sum: no exact definition for complex numbers"):
        onemodel.Session(model("Col2Im", inputs), mode="exact")
    onemodel.Session(model("Transpose", [z]), mode="exact")
