"""``Session.digest``: its bytes, spelled out by hand, and that nothing but the values enters it."""

from __future__ import annotations

import hashlib
import struct
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import onemodel
from onemodel.digest import EXACT_REVISION, digest_of
from tests.ops.harness import model

EVERY_FLOAT = [
    *(np.float16, np.float32, np.float64, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz),
    *(ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz, ml_dtypes.float8_e8m0fnu),
]


def _number(value: int) -> bytes:
    return struct.pack("<Q", value)


def _text(text: str) -> bytes:
    return _number(len(text.encode())) + text.encode()


def _tensor(kind: str, shape: tuple[int, ...], data: bytes) -> bytes:
    return _text(f"tensor({kind})") + _number(len(shape)) + b"".join(map(_number, shape)) + data


def _sha(*values: tuple[str, bytes]) -> str:
    start = _text("onemodel") + _number(EXACT_REVISION) + _number(len(values))
    return hashlib.sha256(start + b"".join(_text(name) + value for name, value in values)).hexdigest()


NAN = b"\0\0\xc0\x7f"
VALUES: dict[str, tuple[Any, bytes]] = {
    "float32": (np.float32([[1.5], [-0.0]]), _tensor("float", (2, 1), struct.pack("<ff", 1.5, -0.0))),
    "no elements": (np.zeros((3, 0)), _tensor("double", (3, 0), b"")),
    "no dimensions": (np.array(7, np.int16), _tensor("int16", (), b"\7\0")),
    "every NaN": (
        np.uint32([0x7F800001, 0xFFC00000, 0xFFFFFFFF]).view(np.float32),
        _tensor("float", (3,), 3 * NAN),
    ),
    "complex": (
        np.array([complex(1, np.nan)], np.complex64),
        _tensor("complex64", (1,), struct.pack("<f", 1) + NAN),
    ),
    "bool": (np.array([True, False]), _tensor("bool", (2,), b"\1\0")),
    "int4": (np.array([-8, 7], ml_dtypes.int4), _tensor("int4", (2,), b"\xf8\7")),
    "uint2": (np.array([3, 0], ml_dtypes.uint2), _tensor("uint2", (2,), b"\3\0")),
    "float4": (np.array([-6.0, 0.5], ml_dtypes.float4_e2m1fn), _tensor("float4e2m1", (2,), b"\x0f\1")),
    "bfloat16": (np.array([1, np.nan], ml_dtypes.bfloat16), _tensor("bfloat16", (2,), b"\x80\x3f\xc0\x7f")),
    "text": (np.array(["ü", ""], object), _tensor("string", (2,), _text("ü") + _text(""))),
    "sequence": ([np.uint8([1]), None], _text("seq") + _number(2) + _tensor("uint8", (1,), b"\1") + _text("none")),
    "map": (
        {2: np.float32(0.5), -1: np.float32(1)},
        _text("map")
        + _number(2)
        + _tensor("int64", (), struct.pack("<q", -1))
        + _tensor("float", (), struct.pack("<f", 1))
        + _tensor("int64", (), struct.pack("<q", 2))
        + _tensor("float", (), struct.pack("<f", 0.5)),
    ),
    "empty optional": (None, _text("none")),
}


@pytest.mark.parametrize("name", VALUES)
def test_bytes(name: str) -> None:
    value, data = VALUES[name]
    assert digest_of({"y": value}) == _sha(("y", data))


def test_names_are_sorted() -> None:
    one, two = np.uint8(1), np.uint8(2)
    first, second = _tensor("uint8", (), b"\1"), _tensor("uint8", (), b"\2")
    assert digest_of({"b": two, "a": one}) == _sha(("a", first), ("b", second)) != _sha(("b", first), ("a", second))


@pytest.mark.parametrize("dtype", EVERY_FLOAT)
def test_every_nan_of_a_type_is_one_and_no_number_is_another(dtype: Any) -> None:
    width = np.dtype(dtype).itemsize * 8
    patterns = np.arange(0, 1 << min(width, 16), 1 if width == 8 else 7, dtype=np.uint64) << max(width - 16, 0)
    values = patterns.astype(f"u{width // 8}").view(dtype)
    digests = [digest_of({"": value}) for value in values]
    with np.errstate(invalid="ignore"):
        nan = np.isnan(values)
    assert nan.any()
    assert len({digest for digest, wrong in zip(digests, nan, strict=True) if wrong}) == 1
    assert len(set(digests)) == (~nan).sum() + 1
    assert digest_of({"": np.array(np.nan, dtype)}) == digests[int(np.argmax(nan))]


def test_layout_and_byte_order_do_not_count() -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    want = digest_of({"y": x})
    assert digest_of({"y": np.asfortranarray(x)}) == want
    assert digest_of({"y": np.stack([x, x], -1)[..., 0]}) == want
    assert digest_of({"y": x.astype(">f4")}) == want
    assert digest_of({"y": x.reshape(2, 12)}) != want
    assert digest_of({"y": x.astype(np.float64)}) != want
    assert digest_of({"z": x}) != want


def _session(**options: Any) -> onemodel.Session:
    x = np.zeros(3, np.float32)
    return onemodel.Session(model("Split", [x], outputs=3, num_outputs=3), **options)


def test_session() -> None:
    session, x = _session(), np.float32([1, 2, 3])
    outputs = session.run(None, {"x0": x})
    line = session.digest(outputs)
    assert line == f"exact-{onemodel.EXACT_REVISION}:{digest_of(dict(zip(('y0', 'y1', 'y2'), outputs, strict=True)))}"
    assert session.digest(session(x0=x)) == session.digest(dict(reversed(session(x0=x).items()))) == line
    assert _session(mode="fast").digest(outputs) == line.replace("exact", "fast")
    strict = _session(backend="strict", mode="exact", outputs="backend")
    assert strict.digest(strict.run(None, {"x0": x})) == strict.digest(outputs) == line
    assert session.digest(session.run(None, {"x0": -x})) != line


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ([], "digest takes the 3 outputs as run(None, ...) returns them, or values by name; got 0 of them"),
        (np.zeros(3), "values by name; got a ndarray"),
        ("abc", "values by name; got a str"),
        ({"y0": 1.5}, "the value 'y0' expects an array; got a float"),
    ],
)
def test_what_is_no_output(outputs: Any, message: str) -> None:
    with pytest.raises(onemodel.InputError) as caught:
        _session().digest(outputs)
    assert message in str(caught.value)
