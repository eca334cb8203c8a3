"""Models that load, and what they are refused for: one model, damaged in one way each."""

from __future__ import annotations

import io
import logging
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from google.protobuf.message import EncodeError  # type: ignore[import-untyped]
from onnx import AttributeProto, ModelProto, TensorProto, helper
from onnx.parser import parse_model

from onemodel import InputError, LimitError, Limits, ModelError, Session, loader
from onemodel.loader import domain_of, load, overridable
from onemodel.types import TYPE_KEY, of_value

SUITE = Path(onnx.__file__).parent / "backend" / "test" / "data"
MODELS = sorted(SUITE.glob("*/*.onnx")) + sorted(SUITE.glob("*/*/model.onnx"))
HEADER = '<ir_version: 8, opset_import: ["" : 13, "d" : 1]>\n'
BASE = "g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { z = Add(x, w) y = LeakyRelu <alpha = 0.5> (z) }"
CALL = "g (float[2] x) => (float[2] y) { y = d.f(x) }\n"
IF = "g (bool c, float[2] x) => (float[2] y) {{ y = If <then_branch = {}, else_branch = e () => (x) {{}}> (c) }}"


def model(text: str = BASE) -> ModelProto:
    return parse_model(HEADER + text)


def function(text: str, name: str = "f") -> str:
    return f'<domain: "d", opset_import: ["" : 13, "d" : 1]> {name} {text}\n'


def op_types(graph: ir.Graph | ir.Function) -> list[str]:
    return [node.op_type for node in graph]


def nested(depth: int) -> ModelProto:
    """An If in an If in an If ..., as no file could hold it."""
    proto = model("g (bool c) => (bool c) { }")
    graph = proto.graph
    for level in range(depth):
        node = graph.node.add(op_type="If", input=["c"], output=[f"y{level}"])
        graph = node.attribute.add(name="then_branch", type=AttributeProto.GRAPH).g
        graph.name = f"level {level}"
    return proto


# What comes in


def test_every_model_of_the_suite_loads_and_loads_again() -> None:
    assert len(MODELS) == 149
    for path in MODELS:
        data, folder, external = load(path).serialize()
        assert load(data, folder=folder, external_data=external).serialize() == (data, folder, external), path


@pytest.mark.parametrize("form", ["path", "text", "bytes", "bytearray", "memoryview", "file", "proto", "ir"])
def test_forms_of_a_model(form: str, tmp_path: Path) -> None:
    proto = model()
    data = proto.SerializeToString()
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    forms = {
        "path": path,
        "text": str(path),
        "bytes": data,
        "bytearray": bytearray(data),
        "memoryview": memoryview(data),
        "file": io.BytesIO(data),
        "proto": proto,
        "ir": ir.from_proto(proto),
    }
    loaded = load(forms[form])
    assert op_types(loaded.model.graph) == ["Add", "LeakyRelu"]
    assert loaded.opset_imports == {"": 13, "d": 1}
    assert loaded.serialize()[1:] == (None, {})
    weight = loaded.model.graph.initializers["w"].const_value
    assert weight is not None
    np.testing.assert_array_equal(weight.numpy(), np.array([1, 2], np.float32))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "of type NoneType; it must be a path, bytes"),
        (3.5, "of type float"),
        (io.StringIO("text"), "gives str; open it in binary mode"),
        ("no/such/model.onnx", "there is no file 'no/such/model.onnx'"),
        (".", "'.' is not a file"),
    ],
)
def test_what_is_no_model(given: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load(given)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"folder": 3}, "folder is of type int"),
        ({"folder": "no/such/folder"}, "is not a folder"),
        ({"external_data": [b""]}, "is of type list; it must map locations to bytes"),
        ({"external_data": {"w": "text"}}, "'w'.* is of type str; it must be bytes"),
        ({"external_data": {"w": np.zeros((4, 4))[:, 1]}}, "'w'.* contiguous"),
    ],
)
def test_arguments_that_do_not_fit(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load(model(), **options)


def test_a_proto_is_never_changed() -> None:
    proto = model("g (float[-1] x) => (y) { y = ai.onnx.Relu(z) z = Relu(x) }")
    proto.graph.node[0].domain = "ai.onnx"
    before = proto.SerializeToString(deterministic=True)
    loaded = load(proto)
    assert proto.SerializeToString(deterministic=True) == before
    proto.graph.node[0].op_type = "Gone"
    assert op_types(loaded.model.graph) == ["Relu", "Relu"]


# Bytes


def test_bytes_that_are_no_model() -> None:
    data = model().SerializeToString()
    for damaged, message in (
        (b"", "is empty"),
        (b"\xff\xff\xff", "is not an ONNX file"),
        (b"\x89PNG\r\n\x1a\n0000", "is not an ONNX file: it has neither an IR version nor a graph"),
        (data[:-3], "is cut short"),
        (b"\x08\x08", "has no graph"),
        (b"\x08\x08\x12\x02\xff\xfe", "ModelProto .* not UTF-8"),
    ):
        with pytest.raises(ModelError, match=message):
            load(damaged)


def test_an_onnx_ir_model_that_cannot_be_written() -> None:
    nameless = ir.from_proto(model())
    nameless.graph[0].outputs[0].name = None
    with pytest.raises(ModelError, match="onnx_ir model cannot be written as a proto"):
        load(nameless)


def test_more_than_two_gigabytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "large.onnx"
    with path.open("wb") as file:
        file.truncate(2**31)
    monkeypatch.setattr(Path, "read_bytes", lambda path: pytest.fail("the file was read"))
    with pytest.raises(ModelError, match=r"2147483648 bytes; .* weights as external data"):
        load(path)
    monkeypatch.setattr(loader, "_MAX_BYTES", 100)
    with pytest.raises(ModelError, match=r"has \d+ bytes; .* weights as external data"):
        load(model().SerializeToString())


def test_a_model_too_large_to_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    class Large:
        def SerializeToString(self, deterministic: bool) -> bytes:  # noqa: N802 - protobuf's name
            raise EncodeError("Failed to serialize proto")

    monkeypatch.setattr(loader, "_with_weights", lambda *_: Large())
    with pytest.raises(ModelError, match=r"cannot be written as bytes: .* as external data"):
        load(model()).serialize()


def test_an_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"x")

    def refuse(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(ModelError, match=r"cannot be read: .*Permission denied"):
        load(path)


@pytest.mark.parametrize("depth", [500, 200_000])
def test_deep_nesting_ends_in_an_error(depth: int) -> None:
    proto = nested(depth)
    with pytest.raises(ModelError, match="nest more than 100 deep"):
        load(proto)


def test_deep_nesting_in_a_file() -> None:
    with pytest.raises(ModelError, match="nests too deep"):
        load(nested(300).SerializeToString())


def test_the_limit_of_depth() -> None:
    assert load(nested(20)).model.graph.num_nodes() == 1
    with pytest.raises(LimitError, match=r"at least 5 deep; limits.depth is 4"):
        load(nested(20), limits=Limits(depth=4))


# One damage each


def attribute(proto: ModelProto) -> Any:
    return proto.graph.node[1].attribute[0]


def weight(proto: ModelProto) -> Any:
    return proto.graph.initializer[0]


DAMAGES: list[tuple[Callable[[ModelProto], object], str]] = [
    (lambda m: m.ClearField("ir_version"), "IR version 0; 3 to 14 are supported"),
    (lambda m: setattr(m, "ir_version", 2), "IR version 2; 3 to 14 .*: export it anew or set its ir_version"),
    (lambda m: setattr(m, "ir_version", 15), "IR version 15; 3 to 14 .*: export it anew or set its ir"),
    (lambda m: m.ClearField("opset_import"), "'ai.onnx', which is not among the opset imports of graph 'g'"),
    (lambda m: setattr(m.opset_import[0], "version", 29), "opset 29 of ai.onnx; 6 to 28 .*: export it for one of"),
    (lambda m: setattr(m.opset_import[0], "version", 0), "opset 0 of ai.onnx; 6 to 28 .* set its opset_import"),
    (lambda m: setattr(m.opset_import[0], "version", 5), "opset 5 .* 6 to 28 .* Add .* before 6; .* opset 6 or"),
    (lambda m: setattr(m.graph.node[0], "domain", "e"), "makes 'z' is of the domain 'e', which is not among"),
    (lambda m: setattr(m.graph.node[0], "op_type", ""), "has no operator"),
    (lambda m: m.graph.node[0].input.append("v"), "the Add node that makes 'z' reads 'v', which nothing defines"),
    (lambda m: m.graph.output.add(name="v"), "graph 'g' returns 'v', which nothing defines"),
    (lambda m: m.graph.output.add(), "graph 'g' has an output without a name"),
    (lambda m: m.graph.node[0].output.append("y"), "LeakyRelu node that makes 'y' makes 'y', which graph 'g' has"),
    (lambda m: m.graph.node[0].output.append("x"), "makes 'x', which graph 'g' has already"),
    (lambda m: m.graph.node[0].output.append("w"), "makes 'w', which graph 'g' has already"),
    (lambda m: m.graph.input.append(m.graph.input[0]), "inputs: the name 'x' is there twice"),
    (lambda m: m.graph.input.add(), "inputs: one has no name"),
    (lambda m: m.graph.initializer.append(weight(m)), "initializers: the name 'w' is there twice"),
    (lambda m: weight(m).ClearField("name"), "initializers: one has no name"),
    (lambda m: m.graph.node[0].input.append("y"), r"(Add|LeakyRelu) node .* needs its own output: .* cycle"),
    (lambda m: setattr(m.graph.input[0].type.tensor_type, "elem_type", 99), "value 'x' .* element type 99"),
    (lambda m: m.graph.input[0].metadata_props.add(key=TYPE_KEY, value="list(int)"), "'list.int.', which is not an"),
    (
        lambda m: m.graph.input[0].ClearField("type"),
        "input 'x' of graph 'g' has no type; an ONNX graph input needs one",
    ),
    (lambda m: m.graph.input[0].type.tensor_type.ClearField("elem_type"), "the input 'x' of graph 'g' has no type"),
    (
        lambda m: m.graph.input[0].type.sequence_type.elem_type.tensor_type.SetInParent(),
        "the input 'x' of graph 'g' has no type",
    ),
    # Attributes
    (lambda m: m.graph.node[1].attribute.append(attribute(m)), "attributes: the name 'alpha' is there twice"),
    (lambda m: attribute(m).ClearField("name"), "attributes: one has no name"),
    (lambda m: setattr(attribute(m), "type", 2), "attribute 'alpha' of .* is declared INT, but its value is FLOAT"),
    (lambda m: setattr(attribute(m), "i", 3), "attribute 'alpha' .* has more than one value: f, i"),
    (lambda m: m.graph.node[1].attribute.add(name="beta"), "attribute 'beta' .* has no value"),
    (lambda m: m.graph.node[1].attribute.add(name="t", type=4), "attribute 't' .* has no value"),
    (lambda m: m.graph.node[1].attribute.add(name="t", strings=[b"\xff"]), "attribute 't' .* not UTF-8"),
    (
        lambda m: m.graph.node[1].attribute.add(name="t", ref_attr_name="a"),
        "refers to attribute 'a' of a function, but",
    ),
    (
        lambda m: m.graph.node[1].attribute.append(
            helper.make_attribute("t", helper.make_map_type_proto(7, helper.make_tensor_type_proto(1, None)))
        ),
        r"attribute 't' .* is the type map\(int64,tensor\(float\)\), which no operator's",
    ),
    # Tensors
    (lambda m: weight(m).ClearField("data_type"), "initializer 'w' of graph 'g' has the element type 0, which ONNX"),
    (lambda m: setattr(weight(m), "data_type", 77), "has the element type 77"),
    (lambda m: setattr(weight(m), "data_type", 2), r"is uint8\[2\], which takes 2 entries of int32_data, .* holds 0"),
    (lambda m: weight(m).dims.append(-1), r"negative dim: \[2, -1\]"),
    (lambda m: weight(m).dims.append(2**62), r"dims too large for any memory: \[2, 4611686018427387904\]"),
    (lambda m: weight(m).dims.extend([0, 2**62]), "dims too large"),
    (lambda m: weight(m).dims.extend([1] * 64), "has 65 dims; at most 64"),
    (lambda m: weight(m).dims.append(1000), r"is float\[2, 1000\], which takes 2000 entries of float_data, .* 2"),
    (lambda m: setattr(weight(m), "raw_data", b"1234567"), "takes 8 bytes of raw_data, but it holds 7"),
    (lambda m: setattr(weight(m), "raw_data", b"12345678"), "stored in raw_data, but holds float_data too"),
    (lambda m: weight(m).int32_data.append(3), "stored in float_data, but holds int32_data too"),
    (lambda m: setattr(weight(m).segment, "begin", 1), "stored in segments"),
    (lambda m: weight(m).CopyFrom(TensorProto(name="w", dims=[1], data_type=8)), r"string\[1\], .* 1 entries"),
    (lambda m: weight(m).CopyFrom(TensorProto(name="w", dims=[1], data_type=8, string_data=[b"\xff"])), "not UTF-8"),
    (lambda m: weight(m).CopyFrom(TensorProto(name="w", dims=[1], data_type=9, raw_data=b"\2")), "neither 0 nor 1"),
    (lambda m: weight(m).CopyFrom(TensorProto(name="w", dims=[1], data_type=27, int32_data=[99])), "float6e2m3 must"),
]


@pytest.mark.parametrize(("damage", "message"), DAMAGES, ids=[message[:40] for _, message in DAMAGES])
def test_one_damage(damage: Callable[[ModelProto], object], message: str) -> None:
    proto = model()
    damage(proto)
    with pytest.raises(ModelError, match=message) as caught:
        load(proto)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        (function("(a) => (b) { b = Relu(a) }") * 2, "defines function d::f twice"),
        (function("(a) => (b) { b = Relu(c) }"), "reads 'c', which nothing defines"),
        (function("(a) => (b) { c = Relu(a) }"), "function d::f returns 'b', which nothing defines"),
        (function("(a, a) => (b) { b = Relu(a) }"), "function d::f, inputs: the name 'a' is there twice"),
        (
            function("(a) => (b) { b = d.g(a) }") + function("(a) => (b) { b = d.f(a) }", "g"),
            "d::f -> .*d::g -> .*d::f",
        ),
        (function("(a) => (b) { b = d.f(a) }"), "functions call themselves: function d::f -> function d::f"),
        (function("<k> (a) => (b) { b = Relu(a) }").replace('"" : 13, ', ""), "imports of function d::f"),
        (function("(a) => (b) { b = Relu(a) }").replace("13", "29"), "function d::f imports opset 29 of ai.onnx"),
        (function("<k, k> (a) => (b) { b = Relu(a) }"), "function d::f: the name 'k' is there twice"),
    ],
)
def test_a_damaged_function(functions: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        load(model(CALL + functions))


# Functions


def test_functions_count_as_often_as_they_are_called() -> None:
    text = CALL + function("(a) => (b) { c = d.f1(a) b = d.f1(c) }")
    for level in range(1, 20):
        text += function(f"(a) => (b) {{ c = d.f{level + 1}(a) b = d.f{level + 1}(c) }}", f"f{level}")
    text += function("(a) => (b) { b = Relu(a) }", "f20")
    with pytest.raises(LimitError, match=r"comes to 3145727 nodes .* limits.nodes is 1000000"):
        load(model(text))
    assert len(load(model(text), limits=Limits(nodes=4_000_000)).model.functions) == 21
    with pytest.raises(LimitError, match=r"limits.depth is 12"):
        load(model(text), limits=Limits(nodes=4_000_000, depth=12))


def test_references_to_attributes_in_functions() -> None:
    proto = model(CALL + function("<k> (a) => (b) { b = LeakyRelu <alpha : float = @k> (a) }"))
    loaded = load(proto)
    (body,) = loaded.model.functions.values()
    assert body[0].attributes["alpha"].ref_attr_name == "k"
    proto.functions[0].node[0].attribute[0].f = 1
    with pytest.raises(ModelError, match=r"attribute 'alpha' .* refers to attribute 'k', but has a value of its own"):
        load(proto)


# Order and scopes


def test_nodes_are_sorted_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    branch = "t () => (r) { r = Neg(q) q = Abs(late) }"
    text = (
        f"main (bool c, float[2] x) => (y) {{ y = If <then_branch = {branch}, else_branch = e () => (late) {{}}> (c) "
        "late = d.f(x) }\n" + function("(a) => (b) { b = Neg(c) c = Abs(a) }")
    )
    loaded = load(model(text))
    graph = loaded.model.graph
    assert op_types(graph) == ["f", "If"]
    assert op_types(graph[1].attributes["then_branch"].as_graph()) == ["Abs", "Neg"]
    assert [op_types(body) for body in loaded.model.functions.values()] == [["Abs", "Neg"]]
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("onemodel", logging.WARNING)
    assert "'main' is not topologically sorted" in record.getMessage()
    caplog.clear()
    load(loaded.serialize()[0])
    assert not caplog.records


def test_sorting_keeps_the_order_where_it_can() -> None:
    loaded = load(model("g (float[2] x) => (y) { a = Abs(x) y = Add(n, c) b = Neg(a) n = Exp(b) c = Cos(x) }"))
    assert op_types(loaded.model.graph) == ["Abs", "Neg", "Exp", "Cos", "Add"]


def test_time_grows_with_the_model_and_no_faster() -> None:
    count = 20_000
    proto = model("g (float[2] v0) => (v20000) { }")
    proto.graph.node.extend(
        helper.make_node("Abs", [f"v{index}"], [f"v{index + 1}"]) for index in reversed(range(count))
    )
    began = time.perf_counter()
    assert load(proto).model.graph.num_nodes() == count
    assert time.perf_counter() - began < 20  # about one; what is quadratic takes minutes


def test_a_cycle_through_a_subgraph() -> None:
    with pytest.raises(ModelError, match="the If node that makes 'y' needs its own output"):
        load(model(IF.format("t () => (r) { r = Relu(y) }")))


def test_scopes() -> None:
    shadowing = load(model(IF.format("t () => (x) { x = Relu(c) }")))
    inner = shadowing.model.graph[0].attributes["then_branch"].as_graph()
    assert inner.outputs[0].producer() is inner[0]
    with pytest.raises(ModelError, match="reads 'r', which nothing defines"):
        load(model(IF.format("t () => (r) { r = Relu(x) }").replace("(c) }", "(c) q = Relu(r) }")))


def test_outputs_may_be_inputs_initializers_or_missing() -> None:
    loaded = load(model('g (float[2] x) => (x, w) <float[1] w = {1}> { y, "" = Dropout(x, "", "") }'))
    assert [value.name for value in loaded.model.graph.outputs] == ["x", "w"]
    assert loaded.model.graph[0].inputs[1:] == (None, None)


# Domains, opsets, types


def test_one_name_for_the_domain_of_onnx() -> None:
    text = BASE.replace("Add", "ai.onnx.Add")
    loaded = load(parse_model(HEADER.replace('"" : 13', '"ai.onnx" : 13, "" : 14') + text))
    assert loaded.opset_imports == {"": 14, "d": 1} == loaded.model.opset_imports
    assert [domain_of(node) for node in loaded.model.graph] == ["", ""]


def test_an_import_that_is_only_implied(caplog: pytest.LogCaptureFixture) -> None:
    loaded = load(parse_model('<ir_version: 8, opset_import: ["d" : 1]>' + BASE))
    assert loaded.opset_imports == {"d": 1, "": 28}
    assert "opset 28 is taken" in caplog.text


def test_no_import_where_no_operator_needs_one() -> None:
    proto = model("g (float[2] x) => (x) { }")
    del proto.opset_import[:]
    assert load(proto).opset_imports == {}


def test_old_opsets_of_operators_that_stayed_the_same() -> None:
    loaded = load(parse_model('<ir_version: 3, opset_import: ["" : 1]> g (bool[2] x) => (bool[2] y) { y = Not(x) }'))
    assert loaded.opset_imports == {"": 1}


def test_an_untyped_input_has_its_initializers_type() -> None:
    proto = model()
    proto.graph.input.add(name="w")
    loaded = load(proto)
    assert overridable(loaded) == {"w"}
    assert of_value(loaded.model.graph.inputs[1]) == "tensor(float)"
    session = Session(proto, mode="fast")
    x = np.float32([-4, 4])
    np.testing.assert_array_equal(session(x=x)["y"], np.float32([-1.5, 6]))
    np.testing.assert_array_equal(session(x=x, w=x)["y"], np.float32([-4, 8]))
    with pytest.raises(InputError, match="'w'"):
        session(x=x, w=np.float64([1, 2]))


def test_inputs_of_subgraphs_need_no_type() -> None:
    body = "b (i, on, s) => (go, t) { go = Identity(on) t = Add(s, s) }"
    text = f'g (int64 n, float[2] x) => (float[2] y) {{ y = Loop <body = {body}> (n, "", x) }}'
    y = Session(model(text), mode="fast")(n=np.array(2), x=np.float32([1, 2]))["y"]
    np.testing.assert_array_equal(y, np.float32([4, 8]))


def test_missing_attribute_types_and_values_are_completed() -> None:
    proto = model()
    attribute(proto).ClearField("type")
    proto.graph.node[0].attribute.add(name="zero", type=AttributeProto.INT)
    first, second = load(proto).model.graph
    assert (second.attributes["alpha"].type, second.attributes["alpha"].value) == (ir.AttributeType.FLOAT, 0.5)
    assert first.attributes["zero"].value == 0


def test_types_that_onnx_ir_lacks_are_kept_as_metadata() -> None:
    proto = model()
    proto.graph.output[0].type.CopyFrom(
        helper.make_sequence_type_proto(helper.make_map_type_proto(7, helper.make_tensor_type_proto(1, None)))
    )
    loaded = load(load(proto).serialize()[0])
    assert loaded.model.graph.outputs[0].metadata_props[TYPE_KEY] == "seq(map(int64,tensor(float)))"


def test_negative_dims_of_values_are_unknown() -> None:
    proto = model()
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    shape = load(proto).model.graph.inputs[0].shape
    assert shape is not None
    assert shape.rank() == 1
    assert not shape.is_static()


def test_overridable_initializers() -> None:
    assert overridable(load(model())) == set()
    assert overridable(load(model(BASE.replace("(float[2] x)", "(float[2] x, float[2] w)")))) == {"w"}


def test_metadata_stays() -> None:
    proto = model()
    proto.producer_name, proto.domain, proto.doc_string, proto.model_version = "us", "org.us", "what", 7
    proto.metadata_props.add(key="author", value="me")
    for loaded in (load(proto), load(load(proto).serialize()[0])):
        found = loaded.model
        assert (found.producer_name, found.domain, found.doc_string, found.model_version) == ("us", "org.us", "what", 7)
        assert (found.graph.name, dict(found.metadata_props)) == ("g", {"author": "me"})


# Random damage


def test_random_damage_ends_in_an_error_or_a_model() -> None:
    draw = random.Random(20)
    originals = [path.read_bytes() for path in MODELS if path.stat().st_size < 20_000]
    outcomes = {"loaded": 0, "refused": 0}
    for _ in range(600):
        data = bytearray(draw.choice(originals))
        if draw.random() < 0.2:
            del data[draw.randrange(len(data)) :]
        for _ in range(draw.choice((1, 1, 2, 8)) if data else 0):
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        try:
            load(bytes(data))
            outcomes["loaded"] += 1
        except (ModelError, LimitError):
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 20
