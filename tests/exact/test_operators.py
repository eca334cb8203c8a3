"""Operators on exact sums, products and extremes: admitted in sessions, the same bits on every namespace and batch."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

import onemodel
from onemodel.backends import get_backend
from onemodel.backends.exact.elementary import half_table
from tests.exact import cases
from tests.exact.rationals import DTYPES, product_of, same_bits, sums_of
from tests.ops.harness import model


def _normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng([*shape, seed]).standard_normal(shape).astype(np.float32)


def _holed(*shape: int) -> Any:
    """Normal numbers with zeros of both signs, infinities and NaN."""
    x = _normal(*shape)
    x.reshape(-1)[::7] = np.resize([0.0, -0.0, np.nan, np.inf, -np.inf, -0.0, 1e-42], x.reshape(-1)[::7].shape)
    return x


CASES: dict[str, tuple[str, list[Any], dict[str, Any], bool]] = {
    "MatMul": ("MatMul", [_normal(5, 30), _normal(30, 7)], {}, True),
    "MatMul of stacks": ("MatMul", [_normal(4, 3, 5, 8), _normal(3, 8, 6)], {}, True),
    "MatMul with special values": ("MatMul", [_holed(5, 30), _normal(30, 7)], {}, True),
    "Gemm": ("Gemm", [_normal(5, 9), _normal(7, 9), _normal(7)], {"transB": 1, "alpha": 0.3, "beta": 1.7}, True),
    "Conv": ("Conv", [_normal(2, 3, 9, 8), _normal(4, 3, 3, 3), _normal(4)], {"pads": [1, 1, 1, 1]}, True),
    "Conv depthwise": ("Conv", [_normal(2, 4, 9, 8), _normal(4, 1, 3, 3)], {"group": 4, "strides": [2, 2]}, True),
    "ConvTranspose": ("ConvTranspose", [_normal(2, 3, 4, 4), _normal(3, 2, 3, 3)], {"strides": [2, 2]}, True),
    "Einsum": ("Einsum", [_normal(4, 3, 5), _normal(5, 4)], {"equation": "bij,jb->bi"}, False),
    "ReduceSum": ("ReduceSum", [_normal(4, 6, 5), np.array([1])], {}, True),
    "ReduceSum with special values": ("ReduceSum", [_holed(4, 6, 5), np.array([1])], {}, True),
    "ReduceMean": ("ReduceMean", [_normal(4, 6, 5), np.array([2])], {"keepdims": 0}, True),
    "ReduceProd": ("ReduceProd", [_normal(4, 6, 5), np.array([1, 2])], {}, True),
    "ReduceMax": ("ReduceMax", [_holed(4, 6, 5), np.array([1])], {}, True),
    "ReduceMin": ("ReduceMin", [_holed(4, 6, 5), np.array([1])], {}, True),
    "ReduceL2": ("ReduceL2", [_normal(4, 6, 5), np.array([1])], {}, True),
    "ReduceSumSquare": ("ReduceSumSquare", [_normal(4, 6, 5), np.array([1])], {}, True),
    "CumSum": ("CumSum", [_normal(4, 50), np.array(1)], {}, True),
    "CumSum reversed": ("CumSum", [_normal(4, 50), np.array(1)], {"exclusive": 1, "reverse": 1}, True),
    "AveragePool": ("AveragePool", [_normal(2, 3, 9, 8)], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}, True),
    "MaxPool": ("MaxPool", [_holed(2, 3, 9, 8)], {"kernel_shape": [3, 3], "strides": [2, 2]}, True),
    "GlobalAveragePool": ("GlobalAveragePool", [_normal(2, 3, 9, 8)], {}, True),
    "GlobalMaxPool": ("GlobalMaxPool", [_holed(2, 3, 9, 8)], {}, True),
    "Relu": ("Relu", [_holed(4, 30)], {}, True),
    "Clip": ("Clip", [_holed(4, 30), np.float32(-0.0), np.float32(0.75)], {}, True),
    "Max": ("Max", [_holed(4, 30), -_holed(4, 30), _normal(1, 30)], {}, False),
    "Min": ("Min", [_holed(4, 30), -_holed(4, 30), _normal(1, 30)], {}, False),
    "Mod": ("Mod", [_normal(4, 30), _normal(4, 30, seed=1)], {"fmod": 1}, False),
    "BatchNormalization": (
        "BatchNormalization",
        [_normal(2, 3, 5), _normal(3), _normal(3), _normal(3), abs(_normal(3))],
        {},
        True,
    ),
    "LayerNormalization": ("LayerNormalization", [_normal(4, 30), _normal(30), _normal(30)], {}, True),
}


def _run(name: str, inputs: list[Any], backend: str = "numpy", **options: Any) -> Any:
    op, _, attributes, _ = CASES[name]
    session = onemodel.Session(model(op, inputs, **attributes), backend=backend, mode="exact", **options)
    feeds = {f"x{i}": value for i, value in enumerate(inputs)}
    result = session.run(None, feeds)[0]
    return np.where(np.isnan(result), np.float32(np.nan), result)


@pytest.mark.parametrize("name", CASES)
def test_the_strict_namespace_gives_the_same_bits(name: str) -> None:
    same_bits(_run(name, CASES[name][1], "strict"), _run(name, CASES[name][1]))


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case[3]])
def test_a_row_of_a_batch_is_the_row_alone(name: str) -> None:
    """And in a larger batch, where memory, blocks and the library's kernels differ."""
    x, *others = CASES[name][1]
    want = _run(name, [x, *others])
    for row in range(x.shape[0]):
        same_bits(_run(name, [x[row : row + 1], *others]), want[row : row + 1])
    same_bits(_run(name, [np.concatenate([x] * 9), *others]), np.concatenate([want] * 9))


def test_threads_change_nothing() -> None:
    x, w = _normal(300, 400), _normal(400, 200)
    proto = model("MatMul", [x, w])
    results = [
        onemodel.Session(proto, mode="exact", threads=threads).run(None, {"x0": x, "x1": w})[0] for threads in (1, 2)
    ]
    same_bits(results[0], results[1])
    places = [(0, 0), (17, 5), (299, 199)]
    for i, j in places:
        same_bits(results[0][i : i + 1, j : j + 1], product_of(x[i : i + 1], w[:, j : j + 1]))


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_halves_are_summed_as_they_are(name: str) -> None:
    """One rounding, not one to float32 and another one."""
    a, b = cases.operands("ties", name)
    session = onemodel.Session(model("MatMul", [a, b]), mode="exact")
    same_bits(session.run(None, {"x0": a, "x1": b})[0], product_of(a, b))


def test_exact_is_there_on_every_backend_here() -> None:
    assert {get_backend(name).namespace("exact").label for name in ("numpy", "strict")} == {
        "numpy exact",
        "strict exact",
    }


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_sum_is_one_sum(dtype: str, count: int) -> None:
    """Of terms that cancel in part, with broadcasting; of one or two terms it is plain."""
    kind = DTYPES[dtype]
    terms = [(_normal(4, 1 if i == 1 else 6, seed=i) * 2.0 ** (8 - i)).astype(kind) for i in range(count)]
    terms[-1] = (terms[-1] - terms[0]).astype(kind)
    got = onemodel.Session(model("Sum", terms), mode="exact").run(None, {f"x{i}": x for i, x in enumerate(terms)})[0]
    if count < 3:
        same_bits(got, sum(terms[1:], terms[0]))
    else:
        same_bits(got, sums_of(np.stack(np.broadcast_arrays(*terms)), 0))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_mean_is_the_sum_over_the_count(dtype: str) -> None:
    kind = DTYPES[dtype]
    terms = [_normal(40, seed=i).astype(kind) for i in range(5)]
    got = onemodel.Session(model("Mean", terms), mode="exact").run(None, {f"x{i}": x for i, x in enumerate(terms)})[0]
    total = sums_of(np.stack(terms).astype(np.float32), 0)
    same_bits(got, (total / np.float32(5)).astype(kind))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_einsum_of_two_is_one_sum(dtype: str) -> None:
    a, b = cases.operands("ties", dtype)
    for equation, want in (("ij,jk->ik", product_of(a, b)), ("ij->i", sums_of(a, 1))):
        inputs = [a, b][: 1 + ("," in equation)]
        session = onemodel.Session(model("Einsum", inputs, equation=equation), mode="exact")
        same_bits(session.run(None, {f"x{i}": x for i, x in enumerate(inputs)})[0], want)


def test_einsum_of_three_halves_is_rounded_once_to_the_half_type() -> None:
    a, b, c = ((_normal(5, 5, seed=i) * 3).astype(np.float16) for i in range(3))
    inputs = {"x0": a, "x1": b, "x2": c}
    session = onemodel.Session(model("Einsum", [a, b, c], equation="ij,jk,kl->il"), mode="exact")
    first = product_of(a, b, "float32")
    same_bits(session.run(None, inputs)[0], product_of(first, c.astype(np.float32)).astype(np.float16))


OF_ONE = {
    "Exp": "exp", "Log": "log", "Sin": "sin", "Tanh": "tanh", "Erf": "erf", "Sigmoid": "sigmoid",
    "Softplus": "softplus", "Gelu": "gelu", "Mish": "mish", "Acosh": "acosh",
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("op", OF_ONE)
def test_functions_of_halves_are_rounded_once(op: str, dtype: str) -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(DTYPES[dtype])
    same_bits(onemodel.Session(model(op, [x]), mode="exact").run(None, {"x0": x})[0], half_table(OF_ONE[op], dtype))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_powers_of_halves_are_rounded_once(dtype: str) -> None:
    pytest.importorskip("gmpy2", reason="MPFR is what results are compared with: pip install gmpy2")
    from tests.exact import measure

    x, y = abs(_normal(500)).astype(DTYPES[dtype]), (3 * _normal(500, seed=1)).astype(DTYPES[dtype])
    got = onemodel.Session(model("Pow", [x, y]), mode="exact").run(None, {"x0": x, "x1": y})[0]
    for a, b, result in zip(x.tolist(), y.tolist(), got.tolist(), strict=True):
        assert not measure.differ(result, measure.right("pow", dtype, a, b)), (a, b, result)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_outputs_have_one_nan(dtype: str) -> None:
    kind = DTYPES[dtype]
    x = np.array([1, -0.0, 0, 0]).astype(kind)
    bits = x.view(f"u{x.itemsize}")
    bits[2:] = np.array([np.nan, -np.nan]).astype(kind).view(bits.dtype) | bits.dtype.type(3)
    want = np.array([1, -0.0, np.nan, np.nan]).astype(kind)
    for op in ("Identity", "Abs", "Neg"):
        got = onemodel.Session(model(op, [x]), mode="exact").run(None, {"x0": x})[0]
        same_bits(got[2:], want[2:])
    kept = onemodel.Session(model("Identity", [x]), mode="fast").run(None, {"x0": x})[0]
    assert kept.view(bits.dtype).tolist() == bits.tolist()
    code = onnx.helper.np_dtype_to_tensor_dtype(bits.dtype)
    got = onemodel.Session(model("BitCast", [x], to=code), mode="exact").run(None, {"x0": x})[0]
    assert got.tolist() == want.view(bits.dtype).tolist()


@pytest.mark.parametrize("source", ["e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu"])
@pytest.mark.parametrize("target", ["float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"])
def test_casts_to_types_without_nan_have_one(source: str, target: str) -> None:
    """What takes the place of NaN has a sign, which must not be that of the NaN."""
    x = np.arange(256, dtype=np.uint8).view(getattr(ml_dtypes, f"float8_{source}"))
    code = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(getattr(ml_dtypes, target)))
    got, want = (
        onemodel.Session(model("Cast", [values], opset=28, to=code), mode="exact").run(None, {"x0": values})[0]
        for values in (x[np.isnan(x)], np.float32([np.nan]))
    )
    assert {*got.view(np.uint8).tolist()} == {*want.view(np.uint8).tolist()}


def test_complex_outputs_and_sequences_have_one_nan() -> None:
    z = np.array([complex(-np.nan, 2.0), complex(1.0, -np.nan)], np.complex64)
    got = onemodel.Session(model("Identity", [z]), mode="exact").run(None, {"x0": z})[0]
    same_bits(got.view(np.float32), np.float32([np.nan, 2, 1, np.nan]))
    x = np.float32([-np.nan, 1])
    session = onemodel.Session(model("SequenceConstruct", [x, x]), mode="exact")
    for part in session.run(None, {"x0": x, "x1": x})[0]:
        same_bits(part, np.float32([np.nan, 1]))


FIXED = {
    "ConvTranspose": ([_normal(2, 4, 3, 4, 2), _normal(4, 3, 2, 3, 2), _normal(6)], {"group": 2, "strides": [2, 1, 2]}),
    "ConvTranspose dilated": (
        [_holed(1, 3, 3, 3, 3), _normal(3, 2, 2, 2, 2)],
        {"dilations": [1, 2, 2], "pads": [0, 1, 1, 1, 0, 0], "strides": [1, 3, 2], "output_padding": [0, 1, 0]},
    ),
    "Resize linear": ([_normal(2, 3, 9, 8), None, np.float32([1, 1, 0.6, 0.3])], {"antialias": 1, "mode": "linear"}),
    "Resize cubic": (
        [_holed(1, 2, 12, 11), None, None, np.array([1, 2, 5, 20])],
        {"antialias": 1, "mode": "cubic", "exclude_outside": 1},
    ),
}
"""Operators whose order of operations is fixed, so that it is the same in both modes."""


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FIXED)
def test_fixed_orders_give_the_same_bits_in_both_modes(name: str, dtype: str) -> None:
    inputs, attributes = FIXED[name]
    inputs = [inputs[0].astype(dtype), *inputs[1:]]
    if name.startswith("Conv"):
        inputs = [value.astype(dtype) for value in inputs]
    proto = model(name.split()[0], inputs, **attributes)
    feeds = {f"x{i}": value for i, value in enumerate(inputs) if value is not None}
    results = [
        onemodel.Session(proto, **options).run(None, feeds)[0]
        for options in (
            {"mode": "exact"},
            {"mode": "fast"},
            {"mode": "fast", "kernels": "generic"},
            {"backend": "strict", "mode": "fast"},
        )
    ]
    for result in results[1:]:
        same_bits(np.where(np.isnan(result), result.dtype.type(np.nan), result), results[0])


@pytest.mark.parametrize("op", ["Gelu", "Mish", "Swish"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_activations_multiply_minus_infinity_by_zero_as_in_fast_mode(op: str, dtype: str) -> None:
    x = np.asarray([-np.inf, np.inf, np.finfo(dtype).min, -0.0, 0.0], dtype)
    (y,) = onemodel.Session(model(op, [x], opset=24), mode="exact").run(None, {"x0": x})
    same_bits(y, np.asarray([np.nan, np.inf, -0.0, -0.0, 0.0], dtype))
