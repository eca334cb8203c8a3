"""The harness for ai.onnx.ml: the same checks, at an opset of that domain."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.ops import harness


class Ml:
    """Checks of operators of ai.onnx.ml.

    Args:
        opset: of ai.onnx.ml, where a call names no other.
    """

    def __init__(self, opset: int) -> None:
        self.options: dict[str, Any] = {"domain": "ai.onnx.ml", "opset": opset}

    def run(self, op: str, *inputs: Any, **options: Any) -> Any:
        return harness.run(op, *inputs, **(self.options | options))

    def gives(self, expected: Any, op: str, *inputs: Any, **options: Any) -> None:
        harness.check(expected, op, *inputs, **(self.options | options))

    def like_onnxruntime(self, op: str, *inputs: Any, **options: Any) -> None:
        harness.like_onnxruntime(op, *inputs, **(self.options | options))

    def refused(self, message: str, op: str, *inputs: Any, **options: Any) -> None:
        harness.refused(message, op, *inputs, **(self.options | options))


def floats(*values: Any) -> NDArray[np.float32]:
    return np.array(values, np.float32)


def words(*values: Any) -> NDArray[Any]:
    return np.array(values, dtype=object)
