"""The registry, and operators of the user's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import onemodel
from onemodel.backends import get_backend
from tests.models_by_hand import graph_model, node

pytestmark = pytest.mark.usefixtures("registry_restored")


def _model(name: str, opset: int, **attributes: Any) -> Any:
    return graph_model(
        [node(name, ["x"], ["y"], domain="my.domain", **attributes)],
        [("x", "tensor(float)", None)],
        ["y"],
        domains={"my.domain": opset},
    )


def test_a_custom_operator_runs_at_its_versions() -> None:
    @onemodel.operator("Scale", domain="my.domain", since=1, types=("x",))
    def scale(x: Any, /, *, factor: float = 2.0, xp: Any) -> Any:
        return x * xp.constant(factor, x)

    @onemodel.operator("Scale", domain="my.domain", since=3, types=("x",))
    def scale_down(x: Any, /, *, factor: float = 2.0, xp: Any) -> Any:
        return x / xp.constant(factor, x)

    x = np.float32([1, 2])
    for opset, expected in [(1, 2 * x), (2, 2 * x), (3, x / 2), (9, x / 2)]:
        np.testing.assert_array_equal(onemodel.Session(_model("Scale", opset))(x=x)["y"], expected)
    np.testing.assert_array_equal(onemodel.Session(_model("Scale", 1, factor=5.0))(x=x)["y"], 5 * x)
    with pytest.raises(onemodel.ModelError, match=r"has the attribute 'shift', which .*scale does not take"):
        onemodel.Session(_model("Scale", 1, shift=1.0))


def test_an_operator_not_there_yet_at_the_models_opset() -> None:
    onemodel.operator("Late", domain="my.domain", since=5)(lambda x, /, *, xp: x)
    with pytest.raises(onemodel.UnsupportedOperatorError, match=r"my.domain::Late at opset 2\): known since opset 5"):
        onemodel.Session(_model("Late", 2))


def test_a_sessions_own_operator_not_there_yet_at_the_models_opset() -> None:
    later = onemodel.operator("Own", domain="my.domain", since=3, register=False)(lambda x, /, *, xp: x)
    with pytest.raises(onemodel.UnsupportedOperatorError, match=r"my.domain::Own at opset 2\): known since opset 3"):
        onemodel.Session(_model("Own", 2), operators=[later])


def test_a_duplicate_since_is_an_error_unless_overridden() -> None:
    onemodel.operator("Twice", domain="my.domain", since=1)(lambda x, /, *, xp: x)
    with pytest.raises(ValueError, match=r"my.domain::Twice since opset 1 is already .*override=True"):
        onemodel.operator("Twice", domain="my.domain", since=1)(lambda x, /, *, xp: x)
    onemodel.operator("Twice", domain="my.domain", since=1, override=True)(lambda x, /, *, xp: x + x)
    assert onemodel.Session(_model("Twice", 1), mode="fast")(x=np.float32([1]))["y"] == [2]


def test_an_operator_for_one_session_alone() -> None:
    @onemodel.operator("Mine", domain="my.domain", since=1, register=False)
    def mine(x: Any, /, *, xp: Any) -> Any:
        return -x

    assert onemodel.Session(_model("Mine", 1), operators=[mine])(x=np.float32([1]))["y"] == [-1]
    with pytest.raises(onemodel.UnsupportedOperatorError):
        onemodel.Session(_model("Mine", 1))


def test_a_sessions_own_operator_goes_before_onnxs() -> None:
    @onemodel.operator("Relu", since=14, register=False)
    def loud_relu(x: Any, /, *, xp: Any) -> Any:
        return x + x

    model = graph_model([node("Relu", ["x"], ["y"])], [("x", "tensor(float)", None)], ["y"])
    assert onemodel.Session(model, mode="fast", operators=[loud_relu])(x=np.float32([-1]))["y"] == [-2]
    assert onemodel.Session(model, mode="fast")(x=np.float32([-1]))["y"] == [0]


def test_a_sessions_own_operator_goes_before_a_native_kernel() -> None:
    @onemodel.operator("LeakyRelu", since=6, register=False)
    def loud_relu(x: Any, /, *, alpha: float = 0.01, xp: Any) -> Any:
        return x + x

    assert get_backend("numpy").kernels("fast")["", "LeakyRelu"].since == 6
    model = graph_model([node("LeakyRelu", ["x"], ["y"])], [("x", "tensor(float)", None)], ["y"])
    assert onemodel.Session(model, mode="fast", operators=[loud_relu])(x=np.float32([-1]))["y"] == [-2]


def test_what_is_not_an_operator() -> None:
    with pytest.raises(
        onemodel.InputError, match=r"operators holds .*<lambda>.*, which onemodel.operator has not made"
    ):
        onemodel.Session(_model("Mine", 1), operators=[lambda x, /: x])
    with pytest.raises(TypeError, match=r"parameter 'x' is neither positional-only .* nor keyword-only"):
        onemodel.operator("Bad", domain="my.domain", since=1)(lambda x, *, xp: x)
    with pytest.raises(ValueError, match=r"host=\['shape'\] of Bad names no parameter"):
        onemodel.operator("Bad", domain="my.domain", since=1, host=("shape",))(lambda x, /, *, xp: x)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"since": "1"}, TypeError, "since='1' of Bad is no opset version; it is an integer from 1 on"),
        ({"since": None}, TypeError, "since=None of Bad is no opset version"),
        ({"since": True}, TypeError, "since=True of Bad is no opset version"),
        ({"since": 1.5}, TypeError, "since=1.5 of Bad is no opset version"),
        ({"since": -1}, ValueError, "since=-1 of Bad is no opset version"),
        ({"since": 0}, ValueError, "since=0 of Bad is no opset version"),
        ({"widen": "slow"}, ValueError, "widen='slow' of Bad is neither True, False nor 'fast'"),
        ({"types": "x"}, TypeError, "types='x' of Bad is a text; it is a sequence with one entry per output"),
        ({"types": (1,)}, TypeError, r"types=\(1,\) of Bad is no sequence of texts"),
        ({"types": 1}, TypeError, "types=1 of Bad is no sequence of texts"),
        ({"types": ("z",)}, ValueError, r"types=\['z'\] of Bad names no input of"),
        (
            {"types": ("tensor(flaot)",)},
            ValueError,
            r"types=\['tensor\(flaot\)'\] of Bad is no ONNX type; one is 'tensor",
        ),
        ({"types": ("tensor(float",)}, ValueError, "is no ONNX type"),
        ({"types": ("x", "map(float)")}, ValueError, r"types=\['map\(float\)'\] of Bad is no ONNX type"),
        ({"types": ("list(tensor(float))",)}, ValueError, "is no ONNX type"),
        ({"host": "x"}, TypeError, "host='x' of Bad is a text; it is a sequence with one entry per input"),
        ({"host": (0,)}, TypeError, r"host=\(0,\) of Bad is no sequence of texts"),
        ({"elementwise": "yes"}, TypeError, "elementwise='yes' of Bad is neither True nor False"),
        ({"register": None}, TypeError, "register=None of Bad is neither True nor False"),
        ({"inexact": True}, TypeError, "inexact=True of Bad is no text; it says why"),
        ({"draws": True}, TypeError, "draws=True of Bad is no callable"),
        ({"domain": None}, TypeError, "domain=None of the operator 'Bad' is no text"),
    ],
)
def test_arguments_that_are_refused(options: Any, error: type[Exception], message: str) -> None:
    given = {"domain": "my.domain", "since": 1, **options}
    with pytest.raises(error, match=message) as caught:
        onemodel.operator("Bad", **given)(lambda x, /, *, xp: x)
    assert "\n" not in str(caught.value)
    with pytest.raises(onemodel.UnsupportedOperatorError):
        onemodel.Session(_model("Bad", 1))


@pytest.mark.parametrize(
    "value_type",
    ["tensor(float8e4m3fn)", "seq(tensor(string))", "optional(seq(tensor(int64)))", "map(int64,tensor(float))"],
)
def test_types_that_an_operator_may_have(value_type: str) -> None:
    own = onemodel.operator("Good", domain="my.domain", since=1, types=(value_type,), register=False)
    assert own(lambda x, /, *, xp: x).operators[0].types == (value_type,)  # type: ignore[attr-defined]
