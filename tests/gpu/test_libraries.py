"""cuDNN and nvmath on stand-ins for their modules: what they are asked, and what happens where they decline."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

import onemodel
from tests.gpu import cpu_kernels, cudnn_stand_in, library_table, nvmath_stand_in
from tests.ops.harness import model

pytestmark = pytest.mark.skipif(cpu_kernels.compiler() is None, reason="g++, which builds the kernels, is not there")

KINDS = [np.dtype(t) for t in (np.float32, np.float16, ml_dtypes.bfloat16)]


@pytest.fixture
def cudnn(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    from onemodel.backends import cupy_cudnn

    def forget() -> None:
        cupy_cudnn._library.cache_clear()
        cupy_cudnn._planned.cache_clear()
        cupy_cudnn._handles.made.clear()

    module = cudnn_stand_in.make()
    monkeypatch.setitem(sys.modules, "cudnn", module)
    monkeypatch.setattr(cudnn_stand_in.pygraph, "built", 0)
    forget()
    yield module
    forget()


def session_of(proto: Any, **options: Any) -> onemodel.Session:
    return onemodel.Session(proto, backend="cupy", **options)


def choices(session: onemodel.Session, feeds: Any) -> list[str]:
    return [choice.text for choice in session.profile(feeds).choices]


def drawn(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


CONVOLUTIONS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 9, 8), (4, 3, 3, 3), {"pads": [1, 0, 1, 2], "strides": [2, 1]}),
    ((2, 4, 9, 8), (6, 2, 3, 2), {"dilations": [2, 3], "group": 2}),
    ((2, 3, 11), (4, 3, 3), {"pads": [2, 0]}),
    ((1, 2, 5, 6, 7), (3, 2, 2, 3, 2), {"strides": [1, 2, 3], "pads": [1, 0, 2, 0, 1, 0]}),
    ((2, 3, 8, 8), (4, 3, 3, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    ((2, 3, 5, 5), (4, 3, 1, 1), {}),
]


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("dtype", KINDS, ids=str)
@pytest.mark.parametrize(("x", "w", "attributes"), CONVOLUTIONS, ids=str)
def test_convolutions_by_cudnn(cudnn: Any, x: Any, w: Any, attributes: Any, dtype: Any, biased: bool) -> None:
    inputs = [drawn(*x, dtype=dtype), drawn(*w, dtype=dtype, seed=1), drawn(w[0], dtype=dtype, seed=2)]
    inputs = inputs if biased else inputs[:2]
    proto = model("Conv", inputs, **attributes)
    feeds = {f"x{i}": value for i, value in enumerate(inputs)}
    session = session_of(proto)
    for _ in range(2):
        (y,) = session.run(None, feeds)
    assert cudnn.pygraph.built == 1
    assert choices(session, feeds) == ["by cuDNN"]
    (want,) = onemodel.Session(proto, mode="fast").run(None, feeds)
    assert (y.dtype, y.shape) == (want.dtype, want.shape)
    tolerance = 2e-2 if dtype.itemsize == 2 else 1e-5
    np.testing.assert_allclose(y.astype(np.float32), want.astype(np.float32), rtol=tolerance, atol=tolerance)


def test_float32_keeps_its_bits(cudnn: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(cudnn.pygraph, "refuse", staticmethod(lambda graph: seen.append(graph.unwanted)))
    notes = cudnn.numerical_note
    for dtype in KINDS:
        inputs = [drawn(1, 2, 4, 4, dtype=dtype), drawn(3, 2, 3, 3, dtype=dtype)]
        session_of(model("Conv", inputs)).run(None, {f"x{i}": value for i, value in enumerate(inputs)})
    lossy = [notes.DOWN_CONVERT_INPUTS, notes.REDUCED_PRECISION_REDUCTION, notes.NONDETERMINISTIC]
    assert seen == [[*lossy, notes.TENSOR_CORE], lossy, lossy]


def test_what_cudnn_declines_goes_by_columns_and_is_told(cudnn: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = [drawn(2, 3, 9, 8), drawn(4, 3, 3, 3, seed=1), drawn(4, seed=2)]
    proto = model("Conv", inputs)
    feeds = {f"x{i}": value for i, value in enumerate(inputs)}
    (want,) = onemodel.Session(proto, mode="fast").run(None, feeds)

    def biases(graph: Any) -> str | None:
        return "no engine for bias" if graph.operations[-1][0] == "bias" else None

    for refuse, told in (
        (biases, "by cuDNN"),
        (lambda graph: "No engine\n for it", "by columns and a product: cuDNN does not take it: No engine for it"),
    ):
        monkeypatch.setattr(cudnn.pygraph, "refuse", staticmethod(refuse))
        from onemodel.backends import cupy_cudnn

        cupy_cudnn._planned.cache_clear()
        session = session_of(proto)
        assert choices(session, feeds) == [told]
        assert told in str(session.profile(feeds))
        np.testing.assert_allclose(session.run(None, feeds)[0], want, rtol=1e-5, atol=1e-5)


def test_without_cudnn(cupy: Any, cudnn: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from onemodel.backends import cupy_cudnn

    inputs = [drawn(2, 3, 9, 8), drawn(4, 3, 3, 3, seed=1)]
    feeds = {f"x{i}": value for i, value in enumerate(inputs)}
    wide = {name: value.astype(np.float64) for name, value in feeds.items()}
    told = choices(session_of(model("Conv", list(wide.values()))), wide)
    assert told == ["by columns and a product: cuDNN is asked for float32, float16 and bfloat16, not float64"]

    def lost() -> int:
        raise RuntimeError("Unable to find symbol cudnnGetVersion")

    monkeypatch.setattr(cudnn, "backend_version", lost)
    cupy_cudnn._library.cache_clear()
    reason = "cuDNN cannot be used: Unable to find symbol cudnnGetVersion"
    assert choices(session_of(model("Conv", inputs)), feeds) == [f"by columns and a product: {reason}"]
    monkeypatch.delitem(sys.modules, "cudnn")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    cupy_cudnn._library.cache_clear()
    told = choices(session_of(model("Conv", inputs)), feeds)
    assert told == ["by columns and a product: nvidia-cudnn-frontend is not installed"]


def test_cudnn_runs_in_graphs_and_on_the_callers_stream(cupy: Any, cudnn: Any) -> None:
    inputs = [drawn(2, 3, 9, 8), drawn(4, 3, 3, 3, seed=1), drawn(4, seed=2)]
    proto = model("Conv", inputs)
    session = session_of(proto, graphs=True)
    for run in range(4):
        feeds = {f"x{i}": value * np.float32(run + 1) for i, value in enumerate(inputs)}
        with cupy.cuda.Stream():
            (y,) = session.run(None, feeds)
        (want,) = onemodel.Session(proto, mode="fast").run(None, feeds)
        np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-4)
    assert session.graphs()[0].replays == 3
    assert cudnn.pygraph.built == 1


@pytest.fixture
def nvmath(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    from onemodel.backends import cupy_nvmath

    def forget() -> None:
        cupy_nvmath._library.cache_clear()
        cupy_nvmath._plans.made.clear()

    for name, module in nvmath_stand_in.make().items():
        monkeypatch.setitem(sys.modules, name, module)
    nvmath_stand_in.made.clear()
    nvmath_stand_in.refusals.clear()
    forget()
    yield nvmath_stand_in
    forget()


def gemm_of(dtype: Any, turned: tuple[int, int], bias: tuple[int, ...]) -> tuple[list[Any], dict[str, int]]:
    a, b = drawn(5, 7, dtype=dtype), drawn(7, 6, dtype=dtype, seed=1)
    inputs = [a.T.copy() if turned[0] else a, b.T.copy() if turned[1] else b, drawn(*bias, dtype=dtype, seed=2)]
    return inputs, {"transA": turned[0], "transB": turned[1]}


@pytest.mark.parametrize("factors", [{}, {"alpha": 0.5, "beta": 2.0}], ids=str)
@pytest.mark.parametrize("bias", [(6,), (1, 6)], ids=str)
@pytest.mark.parametrize("turned", [(0, 0), (0, 1), (1, 0), (1, 1)], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64], ids=lambda t: t.__name__)
def test_gemm_with_its_bias(nvmath: Any, dtype: Any, turned: Any, bias: Any, factors: Any) -> None:
    inputs, attributes = gemm_of(dtype, turned, bias)
    proto = model("Gemm", inputs, **attributes, **factors)
    session, plain = session_of(proto), onemodel.Session(proto, mode="fast")
    for run in range(3):
        feeds = {f"x{i}": value * dtype(run + 1) for i, value in enumerate(inputs)}
        (y,), (want,) = session.run(None, feeds), plain.run(None, feeds)
        assert (y.dtype, y.shape) == (want.dtype, want.shape)
        tolerance = {2: 2e-2, 4: 1e-5, 8: 1e-13}[y.itemsize]
        np.testing.assert_allclose(y, want, rtol=tolerance, atol=tolerance)
    assert choices(session, feeds) == ["with its bias, by nvmath"]
    assert len(nvmath.made) == 1
    assert nvmath.made[0].operands is None


def test_other_gemms_go_to_cublas(nvmath: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from onemodel.backends import cupy_nvmath

    def told(inputs: Any, **options: Any) -> list[str]:
        proto, feeds = model("Gemm", inputs), {f"x{i}": value for i, value in enumerate(inputs)}
        session = session_of(proto, **options)
        for _ in range(3):
            (y,), (want,) = session.run(None, feeds), onemodel.Session(proto, mode="fast").run(None, feeds)
            np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-5)
        if options.get("graphs"):
            assert session.graphs()[0].replays == 2
        return choices(session, feeds)

    inputs, _ = gemm_of(np.float32, (0, 0), (6,))
    assert told(inputs[:2]) == []
    assert told([*inputs[:2], drawn(5, 6)]) == []
    assert told([*inputs[:2], drawn(5, 1)]) == []
    assert told(inputs, kernels="generic") == []
    assert told(inputs, graphs=True) == ["with its bias, by nvmath"]  # a profile replays no graph
    nvmath.refusals.append("no\n algorithm")
    cupy_nvmath._plans.made.clear()
    assert told(inputs) == ["the product, then its bias: nvmath does not take it: no algorithm"]
    cupy_nvmath._library.cache_clear()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert told(inputs) == ["the product, then its bias: nvmath-python is not installed"]


def test_few_plans_are_kept(nvmath: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from onemodel.backends import cupy_nvmath

    monkeypatch.setattr(cupy_nvmath, "_MOST", 2)
    inputs, _ = gemm_of(np.float32, (0, 0), (6,))
    session = session_of(model("Gemm", inputs))
    for rows in (1, 2, 3, 2, 1):
        session.run(None, {"x0": drawn(rows, 7), "x1": inputs[1], "x2": inputs[2]})
    assert [plan.freed for plan in nvmath.made] == [True, False, True, False]


DENSE = {
    "Gemm": "h = Gemm(x, w, b)",
    "Gemm, turned": "h = Gemm<alpha = 0.5, beta = 2.0, transA = 1, transB = 1>(x, w, b)",
    "MatMul": "p = MatMul(x, w) h = Add(p, b)",
    "MatMul, bias first": "p = MatMul(x, w) h = Add(b, p)",
}
ACTIVATIONS = {"Relu": "z = Relu(h)", "Gelu": 'z = Gelu<approximate = "tanh">(h)'}


def dense(
    product: str, after: str, *, x: tuple[int, ...] = (5, 7), bias: tuple[int, ...] = (6,), dtype: Any = np.float32
) -> tuple[Any, dict[str, Any]]:
    """A model of a dense layer, its weights known, and its feeds."""
    turned = "turned" in product
    kind = {2: "float16", 4: "float", 8: "double"}[np.dtype(dtype).itemsize]
    text = f'<ir_version: 10, opset_import: ["" : 21]> g ({kind} x) => ({kind} z) {{ {DENSE[product]} {after} }}'
    proto = onnx.parser.parse_model(text)
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.ClearField("shape")
    weights = {"w": drawn(*((6, 7) if turned else (7, 6)), dtype=dtype, seed=1), "b": drawn(*bias, dtype=dtype, seed=2)}
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(value, name) for name, value in weights.items())
    return proto, {"x": drawn(*(x[::-1] if turned else x), dtype=dtype)}


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64], ids=lambda t: t.__name__)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("product", DENSE)
def test_products_with_bias_and_activation(nvmath: Any, product: str, activation: str, dtype: Any) -> None:
    proto, feeds = dense(product, ACTIVATIONS[activation], bias=(1, 6), dtype=dtype)
    session, plain = session_of(proto), onemodel.Session(proto, mode="fast")
    for run in range(3):
        given = {"x": feeds["x"] * dtype(run - 1)}
        (z,), (want,) = session.run(None, given), plain.run(None, given)
        assert (z.dtype, z.shape) == (want.dtype, want.shape)
        tolerance = {2: 2e-2, 4: 1e-5, 8: 1e-13}[z.itemsize]
        np.testing.assert_allclose(z, want, rtol=tolerance, atol=tolerance)
    profile = session.profile(feeds)
    operators = ("Gemm+" if product.startswith("Gemm") else "MatMul+Add+") + activation
    assert [step.node.op_type for step in profile.nodes] == [operators]
    (choice,) = profile.choices
    assert choice.text == f"with its bias and {activation}, by nvmath"
    assert [part.op_type for part in choice.node.parts] == operators.split("+")
    assert len(nvmath.made) == 1
    assert nvmath.made[0].operands is None


def test_stacks_of_rows_with_bias_and_activation(nvmath: Any) -> None:
    proto, feeds = dense("MatMul", ACTIVATIONS["Gelu"], x=(2, 3, 7))
    session = session_of(proto)
    (want,) = onemodel.Session(proto, mode="fast").run(None, feeds)
    np.testing.assert_allclose(session.run(None, feeds)[0], want, rtol=1e-5, atol=1e-5)
    assert choices(session, feeds) == ["with its bias and Gelu, by nvmath"]


@pytest.mark.parametrize(
    ("product", "after", "shapes"),
    [
        ("MatMul", "z = Gelu(h)", {}),
        ("MatMul", "r = Relu(h) z = Add(r, h)", {}),
        ("MatMul", "r = Relu(p) z = Add(r, h)", {}),
        ("MatMul", "z = Sigmoid(h)", {}),
        ("MatMul", "z = Relu(h)", {"bias": (5, 6)}),
        ("MatMul", "z = Relu(h)", {"bias": (1,)}),
        ("MatMul", "z = Relu(h)", {"bias": (1, 1, 6)}),
        ("Gemm", "z = Relu(h)", {"bias": (5, 1)}),
    ],
)
def test_what_is_no_epilogue(nvmath: Any, product: str, after: str, shapes: Any) -> None:
    proto, feeds = dense(product, after, **shapes)
    session = session_of(proto)
    (want,) = onemodel.Session(proto, mode="fast").run(None, feeds)
    np.testing.assert_allclose(session.run(None, feeds)[0], want, rtol=1e-5, atol=1e-5)
    names = [step.node.op_type for step in session.profile(feeds).nodes]
    assert names[0] == product
    assert choices(session, feeds) == []


def test_a_users_activation_is_no_epilogue(nvmath: Any) -> None:
    @onemodel.operator("Relu", since=6, register=False)
    def loud_relu(x: Any, /, *, xp: Any) -> Any:
        return x + x

    proto, feeds = dense("Gemm", "z = Relu(h)")
    z, h = session_of(proto, operators=[loud_relu]).run(["z", "h"], feeds)
    np.testing.assert_array_equal(session_of(proto, operators=[loud_relu]).run(None, feeds)[0], z)
    np.testing.assert_array_equal(z, h + h)


def test_a_value_that_is_asked_for_is_no_epilogue(nvmath: Any) -> None:
    proto, feeds = dense("Gemm", "z = Relu(h)")
    session = session_of(proto)
    z, h = session.run(["z", "h"], feeds)
    np.testing.assert_array_equal(z, np.maximum(h, 0))
    want = onemodel.Session(proto, mode="fast").run(["h"], feeds)[0]
    np.testing.assert_allclose(h, want, rtol=1e-5, atol=1e-5)


def test_epilogues_that_are_declined(nvmath: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The nodes run as if nvmath were not there: the elementwise ones merged."""
    proto, feeds = dense("MatMul", "z = Relu(h)")
    (want,) = onemodel.Session(proto, mode="fast").run(None, feeds)

    def ran(session: onemodel.Session, given: Any = feeds) -> list[str]:
        return [step.node.op_type for step in session.profile(given).nodes]

    nvmath.refusals.append("no algorithm")
    session = session_of(proto)
    assert choices(session, feeds) == ["the product, then its bias and Relu: nvmath does not take it: no algorithm"]
    assert ran(session) == ["MatMul", "Add+Relu"]
    np.testing.assert_allclose(session.run(None, feeds)[0], want, rtol=1e-5, atol=1e-5)
    row = {"x": feeds["x"][0]}
    assert ran(session, row) == ["MatMul", "Add+Relu"]
    np.testing.assert_allclose(session.run(None, row)[0], want[0], rtol=1e-5, atol=1e-5)
    with pytest.raises(onemodel.ExecutionError, match=r"node .*ai.onnx::MatMul.* failed"):
        session.run(None, {"x": drawn(5, 8)})
    graphs = session_of(proto, graphs=True)
    for _ in range(3):
        np.testing.assert_allclose(graphs.run(None, feeds)[0], want, rtol=1e-5, atol=1e-5)
    assert graphs.graphs()[0].replays == 2
    for options in ({"mode": "exact"}, {"kernels": "generic"}):
        assert "MatMul" in ran(session_of(proto, **options))[0]
        assert choices(session_of(proto, **options), feeds) == []
    from onemodel.backends import cupy_nvmath

    cupy_nvmath._library.cache_clear()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert ran(session_of(proto)) == ["MatMul", "Add+Relu"]
    assert choices(session_of(proto), feeds) == []


STAND_INS = {"cudnn": cudnn_stand_in, "nvmath": nvmath_stand_in}


def test_stand_ins_take_only_what_the_libraries_take() -> None:
    checked = 0
    for name, found in library_table.read_table().items():
        package, _, path = name.partition(".")
        function: Any = STAND_INS[package]
        for part in path.replace("graph_types.", "").replace("linalg.advanced.", "").split("."):
            function = getattr(function, part, None) if function is not None else None
        if function is None:
            continue
        checked += 1
        own = [p.name for p in inspect.signature(function).parameters.values()]
        assert set(own) <= set(found), name
        named = [p for p in found if p in own and p != "self"]
        assert [p for p in own if p != "self"][:1] == named[:1], name
    assert checked >= 15


def test_the_table_is_that_of_the_libraries(cupy: Any) -> None:
    missing = [name for name in ("cudnn", "nvmath") if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}; pip install nvidia-cudnn-frontend nvmath-python")
    from importlib import import_module

    for name, found in library_table.read_table().items():
        package, _, path = name.partition(".")
        if path not in ("pygraph.conv_fprop", "pygraph.bias"):  # told by the compiled class
            assert library_table.parameters(import_module(package), path) == found, name
    for name, members in library_table.MEMBERS.items():
        module, _, kind = name.rpartition(".")
        enumeration = getattr(import_module(module), kind)
        assert all(hasattr(enumeration, member) for member in members), name
    from onemodel.backends import cupy_cudnn
    from onemodel.backends.sliding import slide

    windows = slide((9, 8), (3, 3), None, None, (1, 0, 1, 2), "NOTSET", 0)
    for dtype in KINDS:
        _, tensors = cupy_cudnn.described(
            import_module("cudnn"), None, dtype, (2, 4, 9, 8), (6, 2, 3, 3), True, windows
        )
        assert (tensors["y"].get_dim(), tensors["y"].get_stride()) == ([2, 6, 9, 8], [432, 72, 8, 1])
