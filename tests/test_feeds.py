"""The command line's feeds: how they are written, and what values they come to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from onemodel import types
from onemodel.errors import InputError
from onemodel.feeds import Spec, draw, gather, parse


@dataclass
class Input:
    name: str
    type: str | None = "tensor(float)"
    shape: tuple[int | str | None, ...] | None = ("batch", 3)


IMAGE = Input("image", shape=("batch", 3, "size", None))
IDS = Input("ids", "tensor(int64)", ("batch", "length"))


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("random", Spec(None, "random")),
        ("x=random", Spec("x", "random")),
        ("x=random:1x3x224", Spec("x", "random", (1, 3, 224))),
        ("x=random:0", Spec("x", "random", (0,))),
        ("x=random:scalar", Spec("x", "random", ())),
        ("x=none", Spec("x", "none")),
        ("x=a.npy", Spec("x", "file", path=Path("a.npy"))),
        ("x=./random", Spec("x", "file", path=Path("random"))),
        ("x=a/b.npz", Spec("x", "file", path=Path("a/b.npz"))),
        ("x:0=a.npz:y:0", Spec("x:0", "file", path=Path("a.npz"), key="y:0")),
        ("x=C:/a.npz:y", Spec("x", "file", path=Path("C:/a.npz"), key="y")),
        ("x=a=b.npy", Spec("x", "file", path=Path("a=b.npy"))),
        ("a.npz", Spec(None, "file", path=Path("a.npz"))),
    ],
)
def test_specs_that_are_understood(text: str, spec: Spec) -> None:
    assert parse(text) == spec


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("=a.npy", "'=a.npy' lacks an input name before '='"),
        ("x=", "'x=' lacks a value after '='"),
        ("random:2x3", "has a shape but no input name; write NAME=random:2x3"),
        ("x=random:2,3", "the shape is numbers with x between, as in random:1x3x224x224"),
        ("x=random:-1x3", "the shape is numbers with x between"),
        ("x=random:", "the shape is numbers with x between"),
        ("x=a.npz:", "'x=a.npz:' has no key after ':'"),
        ("a.npy", "'a.npy' says no input; write NAME=a.npy"),
        ("a.npz:y", "'a.npz:y' says no input; write NAME=a.npz:y"),
        ("x", "'x' is no NAME=VALUE; write x=VALUE if it is an input. A value is FILE.npy, FILE.npz, FILE.npz:KEY, "),
    ],
)
def test_specs_that_are_not(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(text)


def test_random_shapes_come_from_the_model_and_from_set() -> None:
    feeds = gather([parse("random")], [IMAGE, IDS], sizes={"batch": 2, "size": 5}, seed=3)
    assert {name: feed.value.shape for name, feed in feeds.items()} == {"image": (2, 3, 5, 1), "ids": (2, 1)}
    assert feeds["image"].source == "random, seed 3, ? = 1"
    assert feeds["ids"].source == "random, seed 3, length = 1"
    assert feeds["image"].value.dtype == np.float32
    assert feeds["ids"].value.dtype == np.int64


def test_an_explicit_shape_goes_before_the_models() -> None:
    feeds = gather([parse("random"), parse("image=random:2x3x7x9")], [IMAGE, IDS])
    assert feeds["image"].value.shape == (2, 3, 7, 9)
    assert gather([parse("x=random:scalar")], [Input("x", shape=None)])["x"].value.shape == ()


def test_random_values_depend_on_seed_and_name_alone() -> None:
    alone = gather([parse("random")], [IMAGE], seed=1)["image"].value
    beside = gather([parse("ids=random:5x5"), parse("random")], [IDS, IMAGE], seed=1)["image"].value
    assert np.array_equal(alone, beside)
    assert not np.array_equal(alone, gather([parse("random")], [IMAGE], seed=2)["image"].value)
    assert not np.array_equal(draw("a", "tensor(float)", (9,), 0), draw("b", "tensor(float)", (9,), 0))


@pytest.mark.parametrize("kind", sorted(types._CODES.keys() - {"string"}))
@pytest.mark.parametrize("shape", [(), (500,), (0, 2)])
def test_random_values_of_every_type(kind: str, shape: tuple[int, ...]) -> None:
    value = draw("x", f"tensor({kind})", shape, 0)
    assert isinstance(value, np.ndarray)
    assert value.dtype == types.dtype_of(f"tensor({kind})")
    assert value.shape == shape
    if shape != (500,):
        return
    if kind == "bool":
        assert 200 < np.count_nonzero(value) < 300
    elif "int" in kind:
        most = 1 if "32" in kind or "64" in kind else {"int2": 1, "uint2": 3, "int4": 7}.get(kind, 9)
        assert sorted(set(value.astype(int).tolist())) == list(range(most + 1))
    else:
        numbers = value.astype(np.complex128)
        assert np.isfinite(numbers).all()
        assert len(set(numbers.tolist())) > 4
        assert (numbers.real < 0).any() == (kind != "float8e8m0")


@pytest.mark.parametrize("text", ["x=random:99999999999999999999x2", "x=random:" + "x".join(["1"] * 70)])
def test_shapes_that_no_array_has(text: str) -> None:
    with pytest.raises(InputError, match=r"input 'x' cannot be drawn: \d+ dimensions of \d+ elements"):
        gather([parse(text)], [Input("x", shape=None)])


@pytest.mark.parametrize("value_type", ["tensor(string)", "seq(tensor(float))", "map(int64,tensor(float))", None])
def test_types_without_random_values(value_type: str | None) -> None:
    with pytest.raises(
        InputError, match=r"input 'x' is .*, for which there are no random values; give a file: -i x=FILE"
    ):
        draw("x", value_type, (2,), 0)
    with pytest.raises(InputError, match=r"input 'x' is .*, for which there are no random values"):
        gather([parse("random")], [Input("x", value_type, None)])


def test_optional_inputs() -> None:
    target = Input("x", "optional(tensor(float))", (2,))
    assert gather([parse("x=none")], [target])["x"].value is None
    assert gather([parse("x=random:2")], [target])["x"].value.dtype == np.float32
    with pytest.raises(InputError, match=r"input 'image' is tensor\(float\), which cannot be none"):
        gather([parse("image=none")], [IMAGE])


def test_files_by_name_and_the_rest_random(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", ids=np.array([[1, 2]]), other=np.zeros(1))
    np.save(tmp_path / "b.npy", np.ones((1, 3, 2, 2), np.float32))
    feeds = gather([parse(str(tmp_path / "a.npz")), parse("random")], [IMAGE, IDS])
    assert feeds["ids"].value.tolist() == [[1, 2]]
    assert feeds["ids"].source == str(tmp_path / "a.npz")
    assert feeds["image"].source.startswith("random")
    feeds = gather([parse(f"image={tmp_path / 'b.npy'}"), parse(str(tmp_path / "a.npz"))], [IMAGE, IDS])
    assert feeds["image"].value.shape == (1, 3, 2, 2)
    feeds = gather([parse(f"ids={tmp_path / 'a.npz'}:other"), parse("image=random")], [IMAGE, IDS])
    assert feeds["ids"].value.tolist() == [0.0]


def test_initializers_are_fed_only_when_named() -> None:
    weight = Input("weight", shape=(2,))
    assert list(gather([parse("random")], [IDS], optional=[weight])) == ["ids"]
    assert list(gather([parse("random"), parse("weight=random")], [IDS], optional=[weight])) == ["weight", "ids"]


@pytest.mark.parametrize(
    ("texts", "sizes", "message"),
    [
        (
            ["ids=random"],
            {},
            (
                r"no value for input 'image'; give -i image=FILE.npy or -i image=random, or -i random for all. .*: "
                r"image tensor\(float\) \[batch, 3, size, \?\]; ids tensor\(int64\) \[batch, length\]"
            ),
        ),
        ([], {}, "no value for 2 inputs, among them 'image'; give -i image=FILE.npy"),
        (["pixels=random"], {}, r"the model has no input 'pixels'; its inputs: image tensor\(float\) .*; ids "),
        (["ids=random", "ids=random"], {}, "input 'ids' is given twice"),
        (["ids=5"], {}, "input 'ids': there is no file '5'. A value is FILE.npy, FILE.npz, FILE.npz:KEY, random, "),
        (["random"], {"width": 3}, "the model has no symbolic dimension 'width'; it has 'batch', 'length', 'size'"),
    ],
)
def test_feeds_that_do_not_fit_the_model(texts: list[str], sizes: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        gather([parse(text) for text in texts], [IMAGE, IDS], sizes=sizes)


def test_an_input_without_a_rank_needs_a_shape() -> None:
    with pytest.raises(InputError, match="input 'x' has no declared rank; give a shape: -i x=random:1x8"):
        gather([parse("random")], [Input("x", shape=None)])
    with pytest.raises(InputError, match="no symbolic dimension 'n'; it has none"):
        gather([], [Input("x", shape=None)], sizes={"n": 1})
