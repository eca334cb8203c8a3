"""ONNX Runtime as the oracle, and the comparison with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime


class Oracle:
    """A model in ONNX Runtime without graph optimisations, on one thread.

    Args:
        model: the model.
        probes: values inside the graph that ``run`` returns after the outputs.
    """

    def __init__(self, model: onnx.ModelProto, probes: Sequence[str] = ()) -> None:
        declared = len(model.graph.output)
        model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in probes)
        data = model.SerializeToString()
        del model.graph.output[declared:]
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        providers = ["CPUExecutionProvider"]
        self._session = onnxruntime.InferenceSession(data, options, providers=providers)
        self.input_names = [value.name for value in self._session.get_inputs()]
        self.output_names = [value.name for value in self._session.get_outputs()]

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        """The outputs, then the probes."""
        return list(self._session.run(None, dict(feeds)))


def error(actual: Any, expected: Any) -> float:
    """The greatest difference as a part of the greatest magnitude expected; 0 where both are equal everywhere."""
    wide = np.asarray(expected, dtype=np.float64)
    difference = float(np.max(np.abs(np.asarray(actual, dtype=np.float64) - wide), initial=0.0))
    return difference / float(np.max(np.abs(wide), initial=np.finfo(np.float64).tiny)) if difference else 0.0


def assert_close(actual: Sequence[Any], expected: Sequence[Any], names: Sequence[str], tolerance: float) -> None:
    """Shapes and dtypes are equal, integers too, floats finite and within ``tolerance`` of the output's scale."""
    assert len(actual) == len(expected) == len(names)
    for name, ours, theirs in zip(names, actual, expected, strict=True):
        assert isinstance(ours, np.ndarray), f"{name}: got a {type(ours).__name__}"
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype), name
        assert np.isfinite(theirs).all(), f"{name}: the recipe gives values that are not finite"
        limit = tolerance if ours.dtype.kind == "f" else 0.0
        off = error(ours, theirs)
        assert off <= limit, f"{name}: error {off:.1e} of the greatest value, allowed is {limit:.1e}"
