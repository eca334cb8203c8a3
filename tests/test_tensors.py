"""Tensors in external data, from which nothing outside the folder is ever opened, and sparse tensors."""

from __future__ import annotations

import mmap
import os
import random
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.parser import parse_model

from onemodel import InputError, LimitError, Limits, ModelError, tensors
from onemodel.loader import LoadedModel, load

INSIDE = np.arange(1, 5, dtype=np.float32)
OUTSIDE = np.full(4, 13, np.float32)
TYPES = [dtype for dtype in ir.DataType if dtype not in (ir.DataType.UNDEFINED, ir.DataType.STRING)]


@pytest.fixture(params=["descriptors", "paths"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to open a file: by descriptors of folders, and by paths, as on Windows."""
    if request.param == "descriptors" and not tensors._HAS_DIR_FD:
        pytest.skip("this system has no descriptors of folders")
    monkeypatch.setattr(tensors, "_HAS_DIR_FD", request.param == "descriptors")


@pytest.fixture
def folder(tmp_path: Path, way: None) -> Path:
    """A folder with data.bin and sub/data.bin, beside a file that is none of its business."""
    inside = tmp_path / "inside"
    (inside / "sub").mkdir(parents=True)
    (inside / "data.bin").write_bytes(INSIDE.tobytes())
    (inside / "sub" / "data.bin").write_bytes(INSIDE.tobytes())
    (tmp_path / "data.bin").write_bytes(OUTSIDE.tobytes())
    return inside


def make_external(tensor: TensorProto, location: str, **entries: object) -> None:
    for name in ("raw_data", "float_data"):
        tensor.ClearField(name)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(value))


def model(location: str = "data.bin", **entries: object) -> ModelProto:
    proto = parse_model(
        '<ir_version: 8, opset_import: ["" : 13]> g (float[4] x) => (y) <float[4] w = {0, 0, 0, 0}> { y = Add(x, w) }'
    )
    make_external(proto.graph.initializer[0], location, **entries)
    return proto


def weight(loaded: LoadedModel) -> ir.TensorProtocol:
    tensor = loaded.model.graph.initializers["w"].const_value
    assert tensor is not None
    return tensor


def test_data_beside_a_model_that_comes_by_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "model.onnx"
    path.write_bytes(model().SerializeToString())
    monkeypatch.chdir(folder)
    for given in (path, "model.onnx"):
        loaded = load(given)
        np.testing.assert_array_equal(weight(loaded).numpy(), INSIDE)
    data, home, external_data = loaded.serialize()
    assert (home, external_data) == (str(folder), {})
    monkeypatch.chdir("/")
    np.testing.assert_array_equal(weight(load(data, folder=home)).numpy(), INSIDE)


def test_data_is_mapped_and_read_only(folder: Path) -> None:
    tensor = weight(load(model(), folder=folder))
    array = tensor.numpy()
    assert not array.flags.writeable
    assert tensor.meta["location"] == "data.bin"
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    assert isinstance(base.obj if isinstance(base, memoryview) else base, mmap.mmap)


@pytest.mark.parametrize(
    "data",
    [
        INSIDE.tobytes(),
        bytearray(INSIDE.tobytes()),
        memoryview(INSIDE.tobytes()),
        INSIDE,
        INSIDE.reshape(2, 2),
        INSIDE.view(ml_dtypes.bfloat16),
    ],
)
def test_data_from_a_mapping_goes_before_the_folder(data: Any, folder: Path) -> None:
    (folder / "data.bin").write_bytes(OUTSIDE.tobytes())
    loaded = load(model(), folder=folder, external_data={"data.bin": data})
    np.testing.assert_array_equal(weight(loaded).numpy(), INSIDE)
    assert not weight(loaded).numpy().flags.writeable
    again = loaded.serialize()
    assert again[1:] == (None, {"data.bin": INSIDE.tobytes()})
    np.testing.assert_array_equal(weight(load(again[0], external_data=again[2])).numpy(), INSIDE)


def test_a_mapping_may_use_any_name() -> None:
    loaded = load(model("/any/../name"), external_data={"/any/../name": INSIDE})
    np.testing.assert_array_equal(weight(loaded).numpy(), INSIDE)


def test_a_location_that_the_model_does_not_have(folder: Path) -> None:
    spare = {"data.bin": INSIDE, "wieghts.bin": INSIDE}
    message = "external_data has 'wieghts.bin', which no tensor of the model refers to; .* locations: 'data.bin'"
    for given in (spare, {"wieghts.bin": INSIDE}):
        with pytest.raises(InputError, match=message):
            load(model(), folder=folder, external_data=given)
    with pytest.raises(ModelError, match=r"at 'data.bin': pass .*; external_data has 'wieghts.bin' alone"):
        load(model(), external_data={"wieghts.bin": INSIDE})
    with pytest.raises(ModelError, match=r"at 'none.bin', which cannot .*; external_data has 'wieghts.bin' alone"):
        load(model("none.bin"), folder=folder, external_data={"wieghts.bin": INSIDE})
    inside = parse_model('<ir_version: 8, opset_import: ["" : 13]> g (float x) => (float y) { y = Neg(x) }')
    with pytest.raises(InputError, match=r"external_data has 'data.bin', .* the model's locations: none"):
        load(inside, external_data={"data.bin": INSIDE})


def test_data_that_nobody_gave(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(
        ModelError, match=r"'w' lies outside the model, at 'data.bin': pass folder= .* or external_data="
    ):
        load(model())


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("offset", [0, 3])
def test_every_element_type(dtype: ir.DataType, offset: int) -> None:
    source = np.arange(7 * 16, dtype=np.uint8) % (2 if dtype is ir.DataType.BOOL else 120)
    expected = helper.make_tensor("w", int(dtype), [7], bytes(source[: (7 * dtype.bitwidth + 7) // 8]), raw=True)
    if dtype.bitwidth == 6:
        expected.raw_data = bytes([*expected.raw_data[:-1], 0])
    data = b"?" * offset + expected.raw_data
    reference = ir.serde.deserialize_tensor(expected).numpy()
    proto = model("any", offset=offset, length=len(expected.raw_data))
    proto.graph.initializer[0].MergeFrom(TensorProto(data_type=int(dtype)))
    proto.graph.initializer[0].dims[:] = [7]
    tensor = weight(load(proto, external_data={"any": data}))
    assert tensor.dtype == dtype
    assert tensor.numpy().dtype == reference.dtype
    assert tensor.numpy().tobytes() == reference.tobytes()
    assert dtype.bitwidth < 8 or tensor.numpy().flags.aligned
    with pytest.raises(ModelError, match=rf"takes bytes {offset} to .*'any', which holds only {len(data) - 1}"):
        load(proto, external_data={"any": data[:-1]})


def test_tensors_everywhere(folder: Path) -> None:
    proto = parse_model("""<ir_version: 8, opset_import: ["" : 13, "d" : 1]>
        g (bool c) => (y) { y = If <then_branch = t () => (w) <float[4] w = {0, 0, 0, 0}> {},
                                    else_branch = e () => (v) { v = d.f () }> (c) }
        <domain: "d", opset_import: ["" : 13, "d" : 1]> f () => (v) { v = Constant <value = float[4] {0, 0, 0, 0}> () }
    """)
    branch = next(each.g for each in proto.graph.node[0].attribute if each.name == "then_branch")
    constant = proto.functions[0].node[0]
    constant.attribute.add(name="more").CopyFrom(helper.make_attribute("more", [constant.attribute[0].t] * 2))
    proto.functions[0].attribute_proto.append(constant.attribute[0])
    default = proto.functions[0].attribute_proto[0].t
    for tensor in (branch.initializer[0], default, constant.attribute[0].t, *constant.attribute[1].tensors):
        make_external(tensor, "data.bin")
    loaded = load(proto, folder=folder)
    inner = loaded.model.graph[0].attributes["then_branch"].as_graph().initializers["w"].const_value
    (body,) = loaded.model.functions.values()
    values = [
        inner,
        body.attributes["value"].as_tensor(),
        body[0].attributes["value"].as_tensor(),
        *body[0].attributes["more"].as_tensors(),
    ]
    for value in values:
        assert value is not None
        assert not isinstance(value, ir.ExternalTensor)
        np.testing.assert_array_equal(value.numpy(), INSIDE)


def test_sparse_values_may_be_external(folder: Path) -> None:
    proto = model()
    values = proto.graph.initializer.pop()
    sparse = proto.graph.sparse_initializer.add(dims=[6])
    sparse.values.CopyFrom(values)
    sparse.indices.CopyFrom(helper.make_tensor("i", TensorProto.INT64, [4], [0, 1, 3, 5]))
    np.testing.assert_array_equal(weight(load(proto, folder=folder)).numpy(), np.array([1, 2, 0, 3, 0, 4], np.float32))


def test_an_onnx_ir_model(folder: Path) -> None:
    np.testing.assert_array_equal(weight(load(ir.from_proto(model()), folder=folder)).numpy(), INSIDE)


def test_empty_tensors(folder: Path) -> None:
    (folder / "empty").touch()
    proto = model("empty")
    proto.graph.initializer[0].dims[:] = [2, 0]
    assert weight(load(proto, folder=folder)).numpy().shape == (2, 0)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"offset": -1}, "offset '-1', which is no number of bytes"),
        ({"offset": "9" * 40}, "offset '9999.*', which is no number"),
        ({"offset": "4 "}, "offset '4 ', which is no number"),
        ({"offset": 4}, "takes bytes 4 to 20 of 'data.bin', which holds only 16"),
        ({"offset": 2**62}, "which holds only 16"),
        ({"length": ""}, "length '', which is no number"),
        ({"length": 12}, r"is float\[4\], which takes 16 bytes of external data, but its length is given as 12"),
        ({"location": ""}, "external data without a location"),
    ],
)
def test_entries_that_do_not_fit(entries: Mapping[str, Any], message: str, folder: Path) -> None:
    with pytest.raises(ModelError, match=message):
        load(model(**{"location": "data.bin", **entries}), folder=folder)


def test_entries_that_mean_nothing_are_ignored(folder: Path) -> None:
    loaded = load(model(checksum="0" * 40, prepacked_0="x", basepath="/etc"), folder=folder)
    np.testing.assert_array_equal(weight(loaded).numpy(), INSIDE)


def test_what_cannot_be_external(folder: Path) -> None:
    proto = model()
    proto.graph.initializer[0].data_type = TensorProto.STRING
    with pytest.raises(ModelError, match="string tensor, which cannot lie in external data"):
        load(proto, folder=folder)
    proto.graph.initializer[0].data_type = TensorProto.BOOL
    with pytest.raises(ModelError, match="'w' holds a bool that is neither 0 nor 1"):
        load(proto, folder=folder)
    with pytest.raises(InputError, match=r"external_data\['data.bin'\] is of type int"):
        load(proto, external_data={"data.bin": 3})


# Where files may lie


@pytest.mark.parametrize("location", ["data.bin", "./data.bin", "sub/data.bin", "sub/../data.bin", "sub//data.bin"])
def test_locations_inside(location: str, folder: Path) -> None:
    np.testing.assert_array_equal(weight(load(model(location), folder=folder)).numpy(), INSIDE)


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("/etc/passwd", "relative path with forward slashes"),
        ("//etc/passwd", "relative path"),
        ("sub\\data.bin", "relative path with forward slashes"),
        ("..\\data.bin", "relative path"),
        ("C:data.bin", "relative path"),
        ("c:/data.bin", "relative path"),
        ("data.bin\0.txt", "relative path"),
        ("..", "names no file inside the folder"),
        (".", "names no file inside the folder"),
        ("sub/..", "names no file inside the folder"),
        ("../data.bin", "names no file inside the folder"),
        ("sub/../../data.bin", "names no file inside the folder"),
        ("../inside/data.bin", "names no file inside the folder"),
        ("sub", "not a regular file"),
        ("data.bin/data.bin", "Not a directory"),
        ("none.bin", "No such file or directory"),
        ("x" * 5000, "File name too long"),
        ("file-link", "it is a symbolic link|through a symbolic link"),
        ("folder-link/data.bin", "symbolic link|Not a directory"),
        ("inner-link/data.bin", "symbolic link|Not a directory"),
        ("hard-link", "it has 2 hard links"),
        ("pipe", "not a regular file"),
        ("socket", "not a regular file|No such device"),
    ],
)
def test_locations_that_are_refused(location: str, message: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outside = folder.parent
    (folder / "file-link").symlink_to(folder / "data.bin")
    (folder / "folder-link").symlink_to(outside)
    (folder / "inner-link").symlink_to(folder / "sub")
    (folder / "hard-link").hardlink_to(outside / "data.bin")
    os.mkfifo(folder / "pipe")
    monkeypatch.chdir(folder)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        with pytest.raises(ModelError, match=message) as caught:
            load(model(location), folder=folder)
    assert "'w'" in str(caught.value)
    assert "copy it there, or pass folder= (the folder it lies in) or external_data= (a mapping" in str(caught.value)


def test_a_folder_may_itself_be_a_link(folder: Path) -> None:
    link = folder.parent / "link"
    link.symlink_to(folder)
    np.testing.assert_array_equal(weight(load(model(), folder=link)).numpy(), INSIDE)


def test_a_file_replaced_at_the_moment_it_is_opened(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = os.open

    def swap(path: Any, flags: int, *args: Any, **options: Any) -> int:
        if Path(path).name == "data.bin":
            (folder / "data.bin").unlink()
            (folder / "data.bin").symlink_to(folder.parent / "data.bin")
        return original(path, flags, *args, **options)

    monkeypatch.setattr(os, "open", swap)
    with pytest.raises(ModelError, match=r"replaced while it was opened|it is a symbolic link"):
        load(model(), folder=folder)


def locations(count: int) -> Iterator[str]:
    draw = random.Random(5)
    pieces = [
        "..",
        ".",
        "",
        "sub",
        "data.bin",
        "up",
        "\\",
        "C:",
        "\0",
        "~",
        "$HOME",
        "é",
        "data.bin ",
        "sub\\..",
        "\u202e",
    ]
    for _ in range(count):
        yield draw.choice(("/", "", "")) + "/".join(draw.choices(pieces, k=draw.randrange(1, 6)))


def test_random_locations_never_leave_the_folder(folder: Path) -> None:
    (folder / "up").symlink_to(folder.parent)
    found = 0
    for location in locations(1500):
        try:
            array = weight(load(model(location), folder=folder)).numpy()
        except ModelError:
            continue
        found += 1
        np.testing.assert_array_equal(array, INSIDE)
    assert found > 10


# Sparse tensors


def sparse(proto: ModelProto, indices: Any, dims: tuple[int, ...]) -> None:
    proto.graph.ClearField("initializer")
    table = np.array(indices, np.int64)
    values = helper.make_tensor("w", TensorProto.FLOAT, [len(table)], range(1, len(table) + 1))
    proto.graph.sparse_initializer.append(
        helper.make_sparse_tensor(values, numpy_helper.from_array(table, "i"), list(dims))
    )


@pytest.mark.parametrize(
    ("indices", "dims", "message"),
    [
        ([0, 2], (2,), "sparse initializer 'w' of graph 'g' has an index outside its dims"),
        ([-1, 0], (2,), "has an index outside"),
        ([[0, 3]], (2, 3), "has an index outside"),
        ([1, 0], (2,), "indices that do not ascend"),
        ([[0, 1], [0, 1]], (2, 3), "indices that do not ascend"),
        ([[0, 1], [1, 1]], (6,), r"indices int64\[2, 2\]; for its 2 values they are int64\[2\] or"),
        ([0], (-2,), "negative dim"),
    ],
)
def test_damaged_sparse_tensors(indices: Any, dims: tuple[int, ...], message: str) -> None:
    proto = model()
    sparse(proto, indices, dims)
    with pytest.raises(ModelError, match=message):
        load(proto)


@pytest.mark.parametrize(("indices", "dims"), [([1, 5], (2, 3)), ([[0, 1], [1, 2]], (2, 3)), ([1, 5], (6,))])
def test_sparse_initializers_become_dense(indices: Any, dims: tuple[int, ...]) -> None:
    proto = model()
    sparse(proto, indices, dims)
    np.testing.assert_array_equal(weight(load(proto)).numpy(), np.array([0, 1, 0, 0, 0, 2], np.float32).reshape(dims))
    with pytest.raises(LimitError, match=r"float\[.*\] when made dense; Limits\(fold_bytes=...\) leaves 23 bytes"):
        load(proto, limits=Limits(fold_bytes=23))


def test_an_empty_and_a_string_sparse_tensor() -> None:
    proto = model()
    sparse(proto, [], (2, 0))
    assert weight(load(proto)).numpy().shape == (2, 0)
    proto.graph.sparse_initializer[0].CopyFrom(
        helper.make_sparse_tensor(
            TensorProto(name="w", data_type=TensorProto.STRING, dims=[1], string_data=[b"a"]),
            helper.make_tensor("i", TensorProto.INT64, [1], [1]),
            [3],
        )
    )
    assert weight(load(proto)).numpy().tolist() == [b"", b"a", b""]


def test_sparse_attributes_become_dense() -> None:
    proto = model()
    sparse(proto, [1], (2,))
    proto.graph.node.insert(
        0, helper.make_node("Constant", [], ["w"], sparse_value=proto.graph.sparse_initializer.pop())
    )
    (node, *_) = load(proto).model.graph
    assert node.attributes["sparse_value"].as_tensor().numpy().tolist() == [0, 1]


def test_sparse_values_are_a_list() -> None:
    proto = model()
    sparse(proto, [0, 1], (2,))
    proto.graph.sparse_initializer[0].values.dims[:] = [2, 1]
    with pytest.raises(ModelError, match=r"has values of shape \[2, 1\]; they are a list"):
        load(proto)
