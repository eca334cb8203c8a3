"""OneModel behind ONNX's own backend interface."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.backend.test
import pytest
from onnx import TensorProto, helper, numpy_helper

import onemodel.onnx_backend
from onemodel import BackendError, InputError, ModelError
from onemodel.onnx_backend import make_backend
from tests.conformance.cases import load_cases

X = np.asarray([-1.5, 2.0], dtype=np.float32)
W = np.asarray([10.0, 20.0], dtype=np.float32)


def _model() -> onnx.ModelProto:
    """Return x + w, where the initializer w is listed as the first input, as models up to IR version 3 do."""
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("w", "x")]
    output = helper.make_tensor_value_info("0", TensorProto.FLOAT, [2])
    node = helper.make_node("Add", ["x", "w"], ["0"])
    graph = helper.make_graph([node], "sum", inputs, [output], [numpy_helper.from_array(W, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)


class TestModel:
    """prepare, run and run_model."""

    def test_positional_values_skip_initializers(self) -> None:
        (y,) = onemodel.onnx_backend.run_model(_model(), [X])
        assert y.tolist() == [8.5, 22.0]

    def test_values_for_every_input(self) -> None:
        (y,) = onemodel.onnx_backend.run_model(_model(), [2 * W, X])
        assert y.tolist() == [18.5, 42.0]

    def test_values_by_name(self) -> None:
        assert onemodel.onnx_backend.run_model(_model(), {"x": X})[0].tolist() == [8.5, 22.0]

    def test_single_array(self) -> None:
        assert onemodel.onnx_backend.run_model(_model(), X)[0].tolist() == [8.5, 22.0]

    def test_outputs_by_name(self) -> None:
        outputs = onemodel.onnx_backend.prepare(_model()).run([X])
        assert outputs["0"] is outputs[0]

    def test_too_many_values(self) -> None:
        with pytest.raises(InputError, match=r"3 input values came, the model has 2: \['w', 'x'\]"):
            onemodel.onnx_backend.run_model(_model(), [X, X, X])

    def test_unknown_keyword_of_run(self) -> None:
        with pytest.raises(InputError, match="takes no keyword 'speed'"):
            onemodel.onnx_backend.prepare(_model()).run([X], speed=2)

    def test_keywords_reach_the_session(self) -> None:
        prepared = onemodel.onnx_backend.prepare(_model(), kernels="generic", rtol=1e-3)
        assert prepared.session.config.kernels == "generic"

    def test_unknown_keyword(self) -> None:
        with pytest.raises(InputError, match="speed"):
            onemodel.onnx_backend.prepare(_model(), speed=2)

    def test_invalid_model(self) -> None:
        model = _model()
        model.graph.node[0].input[1] = "nothing"
        with pytest.raises(ModelError, match="nothing"):
            onemodel.onnx_backend.prepare(model)


class TestNode:
    """run_node."""

    def test_array(self) -> None:
        assert onemodel.onnx_backend.run_node(helper.make_node("Neg", ["x"], ["y"]), [X]).y.tolist() == [1.5, -2.0]

    def test_values_by_name(self) -> None:
        node = helper.make_node("Sub", ["a", "b"], ["y"])
        assert onemodel.onnx_backend.run_node(node, {"b": X, "a": W}).y.tolist() == [11.5, 18.0]

    def test_opset_version(self) -> None:
        node = helper.make_node("Add", ["x", "w"], ["y"], broadcast=1, axis=0)
        assert onemodel.onnx_backend.run_node(node, [X, W], opset_version=6).y.tolist() == [8.5, 22.0]
        with pytest.raises(ModelError, match="broadcast"):
            onemodel.onnx_backend.run_node(node, [X, W], opset_version=7)

    @pytest.mark.parametrize("inputs", [[X, np.float32(0.0)], [X, None, np.float32(0.0)]])
    def test_omitted_input(self, inputs: list[Any]) -> None:
        node = helper.make_node("Clip", ["x", "", "most"], ["y"])
        assert onemodel.onnx_backend.run_node(node, inputs, opset_version=13).y.tolist() == [-1.5, 0.0]

    def test_outputs_info(self) -> None:
        node = helper.make_node("Neg", ["x"], ["y"])
        info = [(np.dtype(np.float32), (2,))]
        assert onemodel.onnx_backend.run_node(node, [X], outputs_info=info).y.tolist() == [1.5, -2.0]

    def test_wrong_number_of_values(self) -> None:
        with pytest.raises(InputError, match="3 input values came, the Neg node has 1"):
            onemodel.onnx_backend.run_node(helper.make_node("Neg", ["x"], ["y"]), [X, X, X])

    def test_type_that_cannot_be_told(self) -> None:
        with pytest.raises(InputError, match="type of input 'x' cannot be told"):
            onemodel.onnx_backend.run_node(helper.make_node("SequenceLength", ["x"], ["y"]), [[]])


class TestDevices:
    """supports_device, and the devices of prepare."""

    def test_cpu(self) -> None:
        assert onemodel.onnx_backend.supports_device("CPU")

    @pytest.mark.parametrize("device", ["TPU", "CPU:x", "", "CUDA:99"])
    def test_others(self, device: str) -> None:
        assert not onemodel.onnx_backend.supports_device(device)
        with pytest.raises(BackendError):
            onemodel.onnx_backend.prepare(_model(), device)

    @pytest.mark.parametrize("backend", ["numpy", "strict"])
    def test_backend_has_its_own_devices(self, backend: str) -> None:
        made = make_backend(backend)
        assert made.supports_device("CPU")
        assert not made.supports_device("CUDA")
        with pytest.raises(BackendError, match="device 'CUDA' is not one of this backend's"):
            made.prepare(_model(), "CUDA")

    def test_each_namespace_is_its_own(self) -> None:
        session = make_backend("strict", "fast").prepare(_model()).session
        assert (session.backend, session.mode) == ("strict", "fast")
        assert make_backend("numpy", "exact").prepare(_model()).session.mode == "exact"
        assert make_backend("numpy", None).prepare(_model()).session.mode == "exact"

    def test_unknown_backend(self) -> None:
        with pytest.raises(InputError, match="backend='torch' is not known; it is one of 'numpy', 'strict', 'cupy'"):
            make_backend("torch")


def test_official_runner_drives_the_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One case of each kind through onnx's own runner, which keeps what it makes under ONNX_HOME."""
    monkeypatch.setenv("ONNX_HOME", str(tmp_path))
    load_cases()  # the runner would build the node cases with their warnings
    backend: Any = onemodel.onnx_backend
    runner = onnx.backend.test.BackendTest(backend, __name__)
    names = {
        "OnnxBackendNodeModelTest": "test_relu_cpu",
        "OnnxBackendSimpleModelTest": "test_shrink_cpu",
        "OnnxBackendPyTorchOperatorModelTest": "test_operator_view_cpu",
        "OnnxBackendPyTorchConvertedModelTest": "test_Linear_cpu",
        "OnnxBackendRealModelTest": "test_squeezenet_cpu",
    }
    cases = runner.test_cases
    assert {kind: hasattr(cases[kind], name) for kind, name in names.items()} == dict.fromkeys(names, True)
    for kind, name in names.items():
        cases[kind](name).debug()
