"""Cast and CastLike: every pair of element types, rounded once, and what does not fit."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

import onemodel
from tests.ops import harness
from tests.ops.harness import check, refused, run

NARROW = {
    "FLOAT16": np.float16,
    "BFLOAT16": ml_dtypes.bfloat16,
    "FLOAT8E4M3FN": ml_dtypes.float8_e4m3fn,
    "FLOAT8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "FLOAT8E5M2": ml_dtypes.float8_e5m2,
    "FLOAT8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "FLOAT4E2M1": ml_dtypes.float4_e2m1fn,
}
INTEGERS = ("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64")
SMALL = {"INT4": ml_dtypes.int4, "UINT4": ml_dtypes.uint4, "INT2": ml_dtypes.int2, "UINT2": ml_dtypes.uint2}


def dtype_of(name: str) -> np.dtype[Any]:
    return np.dtype(helper.tensor_dtype_to_np_dtype(getattr(TensorProto, name)))


def cast(x: Any, to: str, **options: Any) -> Any:
    return run("Cast", x, to=getattr(TensorProto, to), **options)


def texts(*values: str) -> np.ndarray[Any, Any]:
    return np.array(values, dtype=object)


def positive(dtype: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """All finite values from 0 up, and their codes, which have the same order."""
    width = 8 * np.dtype(dtype).itemsize
    top = 8 if dtype is ml_dtypes.float4_e2m1fn else 2 ** (width - 1)
    codes = np.arange(top, dtype=f"u{width // 8}")
    with np.errstate(invalid="ignore"):
        values = codes.view(dtype).astype(np.float64)
    return values[np.isfinite(values)], codes[np.isfinite(values)]


def bits(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return x.view(f"u{x.itemsize}")


# Rounded once


@pytest.mark.parametrize("to", NARROW)
@pytest.mark.parametrize("source", ["DOUBLE", "FLOAT"])
def test_ties_and_their_neighbours_round_once(to: str, source: str) -> None:
    values, codes = positive(NARROW[to])
    ties = ((values[1:] + values[:-1]) / 2).astype(dtype_of(source))
    exact = ties.astype(np.float64) == (values[1:] + values[:-1]) / 2
    ties, low, high = ties[exact], codes[:-1][exact], codes[1:][exact]
    even = np.where(low % 2 == 0, low, high)
    for x, want in (
        (ties, even),
        (np.nextafter(ties, dtype_of(source).type(np.inf)), high),
        (np.nextafter(ties, dtype_of(source).type(0)), low),
    ):
        np.testing.assert_array_equal(bits(cast(x, to)), want)
        sign = cast(-x, to).astype(np.float64)
        np.testing.assert_array_equal(sign, -want.view(NARROW[to]).astype(np.float64))


@pytest.mark.parametrize("source", ["INT64", "UINT64", "INT32", "UINT32"])
def test_integers_round_once_to_bfloat16(source: str) -> None:
    values, codes = positive(ml_dtypes.bfloat16)
    limit = np.iinfo(dtype_of(source)).max
    inside = (values[:-1] >= 512) & (values[1:] < float(limit))
    low, high = codes[:-1][inside], codes[1:][inside]
    ties = [(int(a) + int(b)) // 2 for a, b in zip(values[:-1][inside], values[1:][inside], strict=True)]
    for add, want in ((0, np.where(low % 2 == 0, low, high)), (1, high), (-1, low)):
        x = np.array([tie + add for tie in ties], dtype_of(source))
        np.testing.assert_array_equal(bits(cast(x, "BFLOAT16")), want)
    if source.startswith("I"):
        x = np.array([-tie - 1 for tie in ties], dtype_of(source))
        np.testing.assert_array_equal(bits(cast(x, "BFLOAT16")), high + 0x8000)


def test_text_rounds_once() -> None:
    above_a_tie = "1.000000059604644775390625000000000000000000000001"
    assert cast(texts(above_a_tie), "FLOAT") == np.float32(1 + 2**-23)
    assert cast(texts(above_a_tie[:-20]), "FLOAT") == np.float32(1)
    assert cast(texts("-" + above_a_tie), "FLOAT") == np.float32(-1 - 2**-23)
    assert cast(texts("1.00390625" + "0" * 30 + "1"), "BFLOAT16") == ml_dtypes.bfloat16(1.0078125)
    assert cast(texts("9007199254740993"), "DOUBLE") == 9007199254740992.0


def test_float64_overflows_to_infinity() -> None:
    x = np.array([1e39, -1e39, 3.4028235677973366e38, 3.4028235677973362e38])
    most = float(np.finfo(np.float32).max)
    np.testing.assert_array_equal(cast(x, "FLOAT"), np.array([np.inf, -np.inf, np.inf, most], np.float32))
    np.testing.assert_array_equal(cast(x, "BFLOAT16").astype(np.float64), [np.inf, -np.inf, np.inf, np.inf])
    np.testing.assert_array_equal(cast(np.array([65519.99, 65520.0]), "FLOAT16"), np.array([65504, np.inf], np.float16))


# To integers


@pytest.mark.parametrize("to", INTEGERS)
@pytest.mark.parametrize("source", ["FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16"])
def test_floats_truncate_and_saturate(source: str, to: str) -> None:
    limits = np.iinfo(dtype_of(to))
    low, high = int(limits.min), int(limits.max)
    with np.errstate(over="ignore"):
        x = np.array([1.75, -0.75, 100.0, np.nan, np.inf, -np.inf, 3e38, -3e38, -0.0]).astype(dtype_of(source))
    huge = x.astype(np.float64)[6:8]
    want = [1, 0, 100, 0, high, low, min(int(min(huge[0], 1e30)), high), max(int(max(huge[1], -1e30)), low), 0]
    got = cast(x, to)
    np.testing.assert_array_equal(got, np.array(want, dtype_of(to)))
    got = cast(x[:3], to)
    np.testing.assert_array_equal(got, np.array(want[:3], dtype_of(to)))


@pytest.mark.parametrize(("to", "bits_"), [("INT32", 31), ("UINT32", 32), ("INT64", 63), ("UINT64", 64)])
def test_the_ends_of_the_range(to: str, bits_: int) -> None:
    edge = np.float32(2.0**bits_)
    below = np.nextafter(edge, np.float32(0))
    limits = np.iinfo(dtype_of(to))
    x = np.array([edge, below, -edge, np.nextafter(-edge, np.float32(-np.inf)), -1.0], np.float32)
    low = int(limits.min)
    want = [int(limits.max), int(below), low, low, -1 if low else 0]
    np.testing.assert_array_equal(cast(x, to), np.array(want, dtype_of(to)))
    np.testing.assert_array_equal(
        cast(np.array([-(2.0**31) - 0.5, 2.0**31 - 0.5]), "INT32"), np.array([-(2**31), 2**31 - 1], np.int32)
    )


def test_integers_drop_their_higher_bits() -> None:
    np.testing.assert_array_equal(cast(np.array([200, -200, 2**15], np.int32), "INT8"), np.array([-56, 56, 0], np.int8))
    np.testing.assert_array_equal(cast(np.array([-1], np.int8), "UINT64"), np.array([2**64 - 1], np.uint64))
    np.testing.assert_array_equal(cast(np.array([2**40 + 5]), "UINT16"), np.array([5], np.uint16))


@pytest.mark.parametrize("source", ["FLOAT", "DOUBLE", "INT64", "INT8", "UINT8"])
@pytest.mark.parametrize("to", SMALL)
def test_small_integers_wrap(to: str, source: str) -> None:
    whole = np.arange(-20, 21) if source[0] != "U" else np.arange(40)
    low, high = int(ml_dtypes.iinfo(SMALL[to]).min), int(ml_dtypes.iinfo(SMALL[to]).max)
    want = (whole - low) % (high - low + 1) + low
    np.testing.assert_array_equal(cast(whole.astype(dtype_of(source)), to).astype(np.int64), want)
    back = cast(want.astype(SMALL[to]), source)
    np.testing.assert_array_equal(back, want.astype(dtype_of(source)))


def test_small_integers_of_odd_floats() -> None:
    x = np.array([1.9, -1.9, np.nan, np.inf, -np.inf, 1e30, 1000.5], np.float32)
    np.testing.assert_array_equal(cast(x, "INT4").astype(int), [1, -1, 0, 7, -8, 0, -8])
    np.testing.assert_array_equal(cast(x, "UINT4").astype(int), [1, 15, 0, 15, 0, 0, 8])


@pytest.mark.parametrize("to", ["BOOL"])
def test_any_number_but_zero_is_true(to: str) -> None:
    want = np.array([False, False, True, True, True])
    for source in ("FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16", "FLOAT8E5M2"):
        x = np.array([0.0, -0.0, np.nan, 0.5, -np.inf]).astype(dtype_of(source))
        np.testing.assert_array_equal(cast(x, to), want)
    np.testing.assert_array_equal(cast(np.array([0, 36, -1]), to), np.array([False, True, True]))
    np.testing.assert_array_equal(cast(np.array([0, 7, -8]).astype(ml_dtypes.int4), to), np.array([False, True, True]))


def test_from_booleans() -> None:
    x = np.array([True, False])
    for to in ("FLOAT", "INT64", "UINT8", "DOUBLE", "BFLOAT16", "FLOAT8E4M3FN", "INT4"):
        np.testing.assert_array_equal(cast(x, to).astype(np.float64), [1, 0])


# To 8-bit floats


SPECIAL = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1e6, -1e6, 465.0])
EIGHT = {
    # saturating, saturating before opset 24, not saturating
    "FLOAT8E4M3FN": (["00", "80", "7f", "7e", "fe", "7e", "fe", "7e"], None, "00 80 7f 7f ff 7f ff 7f"),
    "FLOAT8E4M3FNUZ": (
        ["00", "00", "80", "7f", "ff", "7f", "ff", "7f"],
        "00 00 80 80 80 7f ff 7f",
        "00 00 80 80 80 80 80 80",
    ),
    "FLOAT8E5M2": (["00", "80", "7e", "7b", "fb", "7b", "fb", "5f"], None, "00 80 7e 7c fc 7c fc 5f"),
    "FLOAT8E5M2FNUZ": (
        ["00", "00", "80", "7f", "ff", "7f", "ff", "63"],
        "00 00 80 80 80 7f ff 63",
        "00 00 80 80 80 80 80 63",
    ),
}


@pytest.mark.parametrize("to", EIGHT)
@pytest.mark.parametrize("source", ["FLOAT", "DOUBLE", "BFLOAT16"])
def test_the_tables_of_the_specification(to: str, source: str) -> None:
    now, before_24, unsaturated = EIGHT[to]
    x = SPECIAL.astype(dtype_of(source))
    size = 7 if source == "BFLOAT16" else 8  # 465 is not a bfloat16

    def codes(**options: Any) -> list[str]:
        return [f"{code:02x}" for code in bits(cast(x, to, **options))[:size]]

    assert codes() == now[:size]
    assert codes(opset=23) == (before_24.split() if before_24 else now)[:size]
    assert codes(saturate=0) == unsaturated.split()[:size]
    assert codes(saturate=0, opset=19) == unsaturated.split()[:size]


def test_just_above_the_greatest() -> None:
    np.testing.assert_array_equal(
        cast(np.array([448, 464, 465, 1000], np.float32), "FLOAT8E4M3FN").astype(np.float32), np.float32(448)
    )
    got = cast(np.array([464, 465], np.float32), "FLOAT8E4M3FN", saturate=0).astype(np.float32)
    np.testing.assert_array_equal(got, np.array([448, np.nan], np.float32))


@pytest.mark.parametrize("source", ["FLOAT", "DOUBLE"])
@pytest.mark.parametrize(
    ("mode", "saturate", "want"),
    [
        ("up", 1, [0, 0, 126, 127, 128, 128, 128, 254, 254, 255, 0]),
        ("down", 1, [0, 0, 126, 127, 127, 127, 127, 254, 254, 255, 0]),
        ("nearest", 1, [0, 0, 126, 127, 127, 128, 128, 254, 254, 255, 0]),
        ("nearest", 0, [255, 0, 126, 127, 127, 128, 128, 255, 255, 255, 255]),
        ("up", 0, [255, 0, 126, 127, 128, 128, 128, 255, 255, 255, 255]),
    ],
)
def test_powers_of_two(mode: str, saturate: int, want: list[int], source: str) -> None:
    x = [0.0, 2.0**-127, 0.5, 1.0, 1.25, 1.5, 1.75, 1.5 * 2.0**127, np.inf, np.nan, 2.0**-128]
    got = cast(np.array(x, dtype_of(source)), "FLOAT8E8M0", round_mode=mode, saturate=saturate)
    assert bits(got).tolist() == want


def test_powers_of_two_back() -> None:
    codes = np.arange(255, dtype=np.uint8).view(ml_dtypes.float8_e8m0fnu)
    np.testing.assert_array_equal(cast(codes, "FLOAT"), np.exp2(np.arange(-127.0, 128.0)).astype(np.float32))
    assert np.isnan(cast(np.array([255], np.uint8).view(ml_dtypes.float8_e8m0fnu), "DOUBLE"))
    refused("round_mode", "Cast", np.ones(1, np.float32), to=TensorProto.FLOAT8E8M0, round_mode="even")


@pytest.mark.parametrize("source", [*NARROW, *INTEGERS, *SMALL, "BOOL", "FLOAT", "DOUBLE", "FLOAT8E8M0"])
@pytest.mark.parametrize("to", [*NARROW, *INTEGERS, *SMALL, "BOOL", "FLOAT", "DOUBLE", "FLOAT8E8M0"])
def test_every_pair(source: str, to: str) -> None:
    x = np.array([[1, 0], [1, 1]]).astype(dtype_of(source))
    if source == "FLOAT8E8M0":
        x = np.array([[127, 0], [127, 127]], np.uint8).view(x.dtype)
    proto = harness.model("Cast", [x], to=getattr(TensorProto, to))
    (got,) = onemodel.Session(proto, mode="fast").run(None, {"x0": x})
    assert got.dtype == dtype_of(to)
    # float8e8m0 has no zero: 2^-127 stands for it, which is too small for most types.
    least, tiny = 2.0**-127, source == "FLOAT8E8M0"
    if to == "FLOAT8E8M0" or (tiny and to in ("FLOAT", "DOUBLE", "BFLOAT16")):
        zero = least
    else:
        zero = 1.0 if tiny and to == "BOOL" else 0.0
    want = np.array([[1, zero], [1, 1]])
    np.testing.assert_array_equal(got.astype(np.float64), want)


@pytest.mark.parametrize("source", ["FLOAT", "FLOAT16", "INT64", "BOOL", "INT4", "BFLOAT16", "DOUBLE"])
@pytest.mark.parametrize("to", ["FLOAT", "INT32", "FLOAT8E5M2", "FLOAT8E8M0", "INT4", "BFLOAT16", "STRING"])
def test_shapes(source: str, to: str) -> None:
    x = np.ones((2, 0), dtype_of(source))
    assert cast(x, to).shape == (2, 0)
    assert cast(np.asarray(1, dtype_of(source)), to).shape == ()


# Text


@pytest.mark.parametrize("to", ["FLOAT", "DOUBLE", "FLOAT16"])
def test_text_to_floats(to: str) -> None:
    x = texts("314.15926", "-1e-5", "1E8", "+INF", "inf", "-Inf", "NaN", "nan", " 7 ", "+5", ".5", "1e400")
    values = [314.15926, -1e-5, 1e8, np.inf, np.inf, -np.inf, np.nan, np.nan, 7, 5, 0.5, np.inf]
    with np.errstate(over="ignore"):
        want = np.array(values).astype(dtype_of(to))
    np.testing.assert_array_equal(cast(x, to), want)


def test_text_to_integers_and_booleans() -> None:
    x = texts("100.5", "-100.5", "9007199254740993", "1e3", "300", "nan")
    np.testing.assert_array_equal(cast(x, "INT64"), np.array([100, -100, 9007199254740993, 1000, 300, 0]))
    exact = texts("9007199254740993.0", "-900719925474099.3e1", "9" * 5000, "1e-400", "9" * 300 + "e-290")
    want = np.array([9007199254740993, -9007199254740993, 2**63 - 1, 0, 9999999999])
    np.testing.assert_array_equal(cast(exact, "INT64"), want)
    np.testing.assert_array_equal(cast(x[-3:], "UINT8"), np.array([255, 255, 0], np.uint8))
    np.testing.assert_array_equal(cast(texts("7", "9"), "INT4").astype(int), [7, -7])
    np.testing.assert_array_equal(
        cast(texts("1", "0", "True", "false", "2.5"), "BOOL"), np.array([True, False, True, False, True])
    )


@pytest.mark.parametrize(
    "text",
    ["Hello World!", "", ".", "1_000", "0x10", "1,5", "--1", "infinity", "-nan", "\N{FULLWIDTH DIGIT ONE}", "\xa01"],
)
@pytest.mark.parametrize("to", ["FLOAT", "INT32", "BOOL"])
def test_other_text_is_refused(text: str, to: str) -> None:
    refused(f"{text!r} is not a number", "Cast", texts(text), to=getattr(TensorProto, to))


@pytest.mark.parametrize("source", ["FLOAT", "DOUBLE"])
def test_floats_to_text(source: str) -> None:
    x = np.array([0.1, -2.5, 3, 1e-5, 1e20, 123456789, np.nan, np.inf, -np.inf, -0.0], dtype_of(source))
    want = ["0.1", "-2.5", "3", "0.00001", "100000000000000000000", "123456789", "NaN", "INF", "-INF", "-0"]
    if source == "FLOAT":
        want[5] = "123456790"
    check(texts(*want), "Cast", x, to=TensorProto.STRING)


@pytest.mark.parametrize("source", ["FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16"])
def test_text_reads_back_as_the_same_number(source: str) -> None:
    rng = np.random.default_rng(1)
    x = (rng.standard_normal(300) * 10.0 ** rng.integers(-4, 5, 300)).astype(dtype_of(source))
    np.testing.assert_array_equal(cast(cast(x, "STRING"), source), x)


def test_other_numbers_to_text() -> None:
    check(texts("-5", "9223372036854775807"), "Cast", np.array([-5, 2**63 - 1]), to=TensorProto.STRING)
    check(texts("1", "0"), "Cast", np.array([True, False]), to=TensorProto.STRING)
    check(texts("-8", "7"), "Cast", np.array([-8, 7]).astype(ml_dtypes.int4), to=TensorProto.STRING)
    check(np.array("1.5", object), "Cast", np.array(1.5, ml_dtypes.float8_e5m2), to=TensorProto.STRING)
    check(texts("a", "b"), "Cast", texts("a", "b"), to=TensorProto.STRING)


# CastLike, modes


@pytest.mark.parametrize("opset", [15, 19, 24, harness.LATEST])
def test_cast_like(opset: int) -> None:
    x = np.array([1.5, -2.5, 3e10], np.float32)
    check(np.array([1, -2, 2**31 - 1], np.int32), "CastLike", x, np.zeros((0, 2), np.int32), opset=opset)
    check(x.astype(np.float64), "CastLike", x, np.float64(0), opset=opset)
    if opset > 15:
        got = run("CastLike", np.array([np.inf], np.float32), np.zeros(1, ml_dtypes.float8_e4m3fnuz), opset=opset)
        assert bits(got)[0] == (0x7F if opset > 23 else 0x80)


@pytest.mark.parametrize("opset", [6, 9, 13, 19, 21, harness.LATEST])
def test_every_version_agrees_with_onnxruntime(opset: int) -> None:
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((3, 4)) * 50).astype(np.float32)
    for to in (TensorProto.DOUBLE, TensorProto.INT32, TensorProto.INT8, TensorProto.FLOAT16, TensorProto.BOOL):
        harness.like_onnxruntime("Cast", x, opset=min(opset, 21), to=to)


def test_exact_mode_runs_all_casts_and_gives_one_nan() -> None:
    strange = np.array([0xFFFFFFFF, 0x7FA00001], np.uint32).view(np.float32)
    proto = harness.model("Cast", [strange], to=TensorProto.FLOAT16)
    (got,) = onemodel.Session(proto, mode="exact").run(None, {"x0": strange})
    assert bits(got).tolist() == [0x7E00, 0x7E00]
    for source in ("FLOAT", "INT64", "STRING", "BFLOAT16"):
        for to in ("FLOAT", "INT64", "STRING", "BFLOAT16"):
            x = texts("1") if source == "STRING" else np.ones(1, dtype_of(source))
            onemodel.Session(harness.model("Cast", [x], to=getattr(TensorProto, to)), mode="exact")


def test_an_unknown_type_is_refused() -> None:
    refused("99 is not an element type of ONNX", "Cast", np.ones(1, np.float32), to=99)
