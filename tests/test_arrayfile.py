"""Values of every ONNX type survive a round trip through .npz files; what cannot be kept is refused."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

from onemodel import types
from onemodel.arrayfile import read, read_all, write_npz
from onemodel.errors import InputError

SMALL_FLOATS = (
    "bfloat16 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz float8e8m0 float6e2m3 float6e3m2 float4e2m1"
)
PLAIN = "float double float16 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool complex64 complex128"


def same(a: Any, b: Any) -> bool:
    """The same dtype, shape and bits."""
    return bool(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())


@pytest.mark.parametrize("kind", PLAIN.split())
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_plain_arrays_keep_their_bits(tmp_path: Path, kind: str, shape: tuple[int, ...]) -> None:
    array = np.asarray(np.random.default_rng(0).integers(0, 100, shape)).astype(types.dtype_of(f"tensor({kind})"))
    write_npz(tmp_path / "a.npz", {"y": array})
    assert same(read(tmp_path / "a.npz", "y", f"tensor({kind})"), array)
    assert same(np.load(tmp_path / "a.npz")["y"], array)


@pytest.mark.parametrize("kind", SMALL_FLOATS.split())
def test_small_floats_keep_every_bit_pattern(tmp_path: Path, kind: str) -> None:
    dtype = types.dtype_of(f"tensor({kind})")
    bits = {"bfloat16": 16, "float6e2m3": 6, "float6e3m2": 6, "float4e2m1": 4}.get(kind, 8)
    array = np.arange(2**bits, dtype=f"u{dtype.itemsize}").reshape(4, -1).view(dtype)
    write_npz(tmp_path / "a.npz", {"y": array})
    stored = np.load(tmp_path / "a.npz")
    assert stored.files == [f"y:{kind}"]
    assert stored[f"y:{kind}"].dtype.kind == "u"
    assert same(stored[f"y:{kind}"].view(dtype), array)
    # The key tells the type; the model's own, where known, tells it for an array without a type.
    assert same(read(tmp_path / "a.npz", "y"), array)
    # As np.save writes most of these types; what it writes for float8_e5m2, "<f1", NumPy cannot read.
    np.save(tmp_path / "a.npy", array.view(f"V{dtype.itemsize}"))
    assert same(read(tmp_path / "a.npy", "y", f"tensor({kind})"), array)


@pytest.mark.parametrize(
    ("kind", "least", "most"), [("int4", -8, 7), ("uint4", 0, 15), ("int2", -2, 1), ("uint2", 0, 3)]
)
def test_small_integers_are_kept_as_numbers(tmp_path: Path, kind: str, least: int, most: int) -> None:
    numbers = np.arange(least, most + 1)
    array = numbers.astype(types.dtype_of(f"tensor({kind})"))
    write_npz(tmp_path / "a.npz", {"y": array})
    stored = np.load(tmp_path / "a.npz")[f"y:{kind}"]
    assert stored.tolist() == numbers.tolist()
    assert same(read(tmp_path / "a.npz", "y"), array)
    np.save(tmp_path / "a.npy", numbers)
    assert same(read(tmp_path / "a.npy", "y", f"tensor({kind})"), array)
    np.save(tmp_path / "a.npy", numbers + 1)
    with pytest.raises(InputError, match=f"a.npy has numbers outside of {kind}"):
        read(tmp_path / "a.npy", "y", f"tensor({kind})")


def test_strings_come_back_as_objects(tmp_path: Path) -> None:
    array = np.array([["a", ""], ["Grüße", "日本"]], object)
    write_npz(tmp_path / "a.npz", {"y": array})
    back = read(tmp_path / "a.npz", "y", "tensor(string)")
    assert back.dtype == object
    assert back.tolist() == array.tolist()
    assert all(type(text) is str for text in back.ravel())
    np.save(tmp_path / "a.npy", np.array([b"abc", "ü".encode()]))
    assert read(tmp_path / "a.npy", "y", "tensor(string)").tolist() == ["abc", "ü"]
    np.save(tmp_path / "a.npy", np.array([b"\xff"]))
    with pytest.raises(InputError, match="no UTF-8 text"):
        read(tmp_path / "a.npy", "y", "tensor(string)")


def test_a_string_that_ends_with_nul_is_refused_and_no_file_is_left(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'y' has a string that ends with NUL"):
        write_npz(tmp_path / "a.npz", {"y": np.array(["a\0"], object)})
    assert list(tmp_path.iterdir()) == []


def test_sequences_maps_and_empty_optionals(tmp_path: Path) -> None:
    values = {
        "s": [np.zeros((2, 3), np.float32), np.ones(1, np.float32)],
        "m": {"cat": np.float32(0.25), "dog": np.float32(0.75)},
        "z": [{1: np.float32(1)}, {2: np.float32(2), 3: np.float32(3)}],
        "o": None,
    }
    write_npz(tmp_path / "a.npz", values)
    assert np.load(tmp_path / "a.npz").files == [
        *("s[0]", "s[1]", "m.keys", "m.values", "z[0].keys", "z[0].values", "z[1].keys", "z[1].values")
    ]
    back = read_all(tmp_path / "a.npz", {"s": "seq(tensor(float))", "m": None, "z": None, "o": None})
    assert list(back) == ["s", "m", "z"]
    assert [item.shape for item in back["s"]] == [(2, 3), (1,)]
    assert back["m"] == values["m"]
    assert back["z"] == values["z"]
    assert back["m"]["cat"].dtype == np.float32


def test_names_that_numpy_savez_cannot_take(tmp_path: Path) -> None:
    names = ["file", "allow_pickle", "a/b", "Identity:0", "1", "x y"]
    write_npz(tmp_path / "a.npz", {name: np.full(1, i) for i, name in enumerate(names)})
    assert np.load(tmp_path / "a.npz").files == names
    assert [int(read(tmp_path / "a.npz", name)[0]) for name in names] == list(range(len(names)))


def test_two_values_under_one_key_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"two of the values to write come to the key 's\[0\]'"):
        write_npz(tmp_path / "a.npz", {"s": [np.zeros(1)], "s[0]": np.zeros(1)})


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    write_npz(tmp_path / "a.npz", {"y": np.zeros(1)})
    before = (tmp_path / "a.npz").read_bytes()
    with pytest.raises(InputError):
        write_npz(tmp_path / "a.npz", {"x": np.ones(1), "y": np.array(["\0"], object)})
    assert (tmp_path / "a.npz").read_bytes() == before
    with pytest.raises(OSError, match="missing") as caught:
        write_npz(tmp_path / "missing" / "a.npz", {"y": np.zeros(1)})
    assert caught.value.filename == str(tmp_path / "missing" / "a.npz")
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]


def test_one_array_needs_no_key_and_several_do(tmp_path: Path) -> None:
    np.savez(tmp_path / "one.npz", other=np.arange(3))
    assert read(tmp_path / "one.npz", "x").tolist() == [0, 1, 2]
    np.savez(tmp_path / "two.npz", a=np.arange(3), b=np.arange(4))
    assert read(tmp_path / "two.npz", "x", key="b").tolist() == [0, 1, 2, 3]
    with pytest.raises(InputError, match=r"two.npz has no array 'x'; it has 'a', 'b'"):
        read(tmp_path / "two.npz", "x")
    with pytest.raises(InputError, match=r"two.npz has no array 'c'; it has 'a', 'b'"):
        read(tmp_path / "two.npz", "x", key="c")
    with pytest.raises(InputError, match=r"two.npz has 'a', 'b', but nothing for the inputs 'x', 'y'"):
        read_all(tmp_path / "two.npz", {"x": None, "y": None})


def test_npy_files_have_no_keys(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(3))
    with pytest.raises(InputError, match=r"a.npy is an .npy file, which has no keys; leave out ':k'"):
        read(tmp_path / "a.npy", "x", key="k")
    with pytest.raises(InputError, match=r"a.npy is an .npy file, which has no names"):
        read_all(tmp_path / "a.npy", {"x": None})


def test_byte_order_becomes_native(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(3, dtype=">f4"))
    assert read(tmp_path / "a.npy", "x").dtype == np.dtype(np.float32)


def test_elements_without_a_type_need_the_models(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(3, types.dtype_of("tensor(bfloat16)")))
    with pytest.raises(InputError, match=r"a.npy has elements without a type \(\|V2\)"):
        read(tmp_path / "a.npy", "x", "tensor(float)")
    np.save(tmp_path / "a.npy", np.zeros(3, np.float32))
    with pytest.raises(
        InputError, match=r"a.npy has float32, which is not how bfloat16 is kept: uint16 of the same shape"
    ):
        read(tmp_path / "a.npy", "x", "tensor(bfloat16)")


@pytest.mark.parametrize("content", [b"", b"hello", b"1.0,2.0\n", b"\x89PNG\r\n\x1a\n", b"\x93NUM", b"\x80\x04K\x01."])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(InputError, match=r"a.npy is no .npy or .npz file; write one with numpy.save or numpy.savez$"):
        read(tmp_path / "a.npy", "x")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no pipes among files")
def test_a_pipe_is_read(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(5))
    os.mkfifo(tmp_path / "pipe")
    writer = Thread(target=lambda: (tmp_path / "pipe").write_bytes((tmp_path / "a.npy").read_bytes()))
    writer.start()
    np.testing.assert_array_equal(read(tmp_path / "pipe", "x"), np.arange(5))
    writer.join()


@pytest.mark.parametrize("content", [b"\x93NUMPY", b"\x93NUMPY\x01\x00\x10\x00garbage garbage", b"PK\x03\x04"])
def test_damaged_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(InputError, match=r"a.npy is no .npy or .npz file that can be read without pickle"):
        read(tmp_path / "a.npy", "x")


def test_truncated_files_are_refused(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", y=np.arange(1000))
    np.save(tmp_path / "a.npy", np.arange(1000))
    for path in (tmp_path / "a.npz", tmp_path / "a.npy"):
        whole = path.read_bytes()
        for length in range(0, len(whole), 97):
            path.write_bytes(whole[:length])
            with pytest.raises(InputError, match=r"is no .npy or .npz file"):
                read(path, "y")


def test_pickled_objects_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(InputError, match="without pickle"):
        read(tmp_path / "a.npy", "x", "tensor(string)")


def test_a_map_with_more_keys_than_values_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        for key, count in (("m.keys", 3), ("m.values", 2)):
            with archive.open(f"{key}.npy", "w") as member:
                np.lib.format.write_array(member, np.arange(count))
    with pytest.raises(InputError, match=r"\(3,\) keys and \(2,\) values for the map 'm'"):
        read(tmp_path / "a.npz", "m")
