"""A stand-in for ``nvmath.linalg.advanced`` over the stand-in for CuPy, as strict about its use as nvmath is.

Signatures are those of ``libraries_api.json``.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from types import ModuleType
from typing import Any

import numpy as np

from tests.gpu import capture
from tests.gpu.device_array import ndarray
from tests.gpu.library_table import read_table

MatmulEpilog = Enum("MatmulEpilog", "DEFAULT BIAS RELU_BIAS GELU_BIAS")
MatmulComputeType = Enum("MatmulComputeType", "COMPUTE_32F COMPUTE_64F COMPUTE_32F_FAST_TF32")

ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "BIAS": lambda x: x,
    "RELU_BIAS": lambda x: np.maximum(x, 0),
    "GELU_BIAS": lambda x: (
        x / 2 * (1 + np.tanh(x.dtype.type(np.sqrt(2 / np.pi)) * (x + x.dtype.type(0.044715) * x**3)))
    ),
}

refusals: list[str] = []
"""What the next plans fail with, for tests to set."""
made: list[Matmul] = []


class Matmul:
    """A product that is planned once, and has operands until they are released."""

    def __init__(self, a: Any, b: Any, /, *, alpha: Any = None, options: Any = None) -> None:
        assert set(options) <= set(read_table()["nvmath.linalg.advanced.MatmulOptions.__init__"])
        double = a.dtype == np.float64
        assert options["compute_type"] is MatmulComputeType["COMPUTE_64F" if double else "COMPUTE_32F"]
        self.planned = self.freed = False
        self.alpha = alpha
        self.operands: tuple[Any, ...] | None = (a, b)
        self.layout = self._layout(a, b)
        made.append(self)

    @staticmethod
    def _layout(a: Any, b: Any) -> Any:
        for x in (a, b):
            assert isinstance(x, ndarray)
            assert x.flags.c_contiguous or x.flags.f_contiguous
        return a.dtype, a.shape, a.strides, b.dtype, b.shape, b.strides

    def plan(self, *, epilog: Any = None, epilog_inputs: Any = None) -> None:
        if refusals:
            raise RuntimeError(refusals.pop())
        self.activation = ACTIVATIONS[epilog.name]
        self._take(epilog_inputs)
        self.planned = True

    def _take(self, epilog_inputs: Any) -> None:
        assert self.operands is not None
        (self.bias,) = epilog_inputs.values()
        assert list(epilog_inputs) == ["bias"]
        assert self.bias.shape == (self.operands[0].shape[0],)
        assert self.bias.dtype == self.operands[0].dtype

    def reset_operands(self, *, a: Any = None, b: Any = None, epilog_inputs: Any = None) -> None:
        assert self._layout(a, b) == self.layout
        self.operands = (a, b)
        self._take(epilog_inputs)

    def execute(self) -> Any:
        assert self.planned
        assert not self.freed
        assert self.operands is not None
        assert capture.current_stream().capture is None, "an event from outside of the capture"
        wide = np.float64 if self.layout[0] == np.float64 else np.float32
        a, b, bias = (x.host.astype(wide) for x in (*self.operands, self.bias))
        product = self.activation(wide(self.alpha) * (a @ b) + bias[:, None])
        return ndarray(np.asfortranarray(product.astype(self.layout[0])))

    def release_operands(self) -> None:
        self.operands = self.bias = None

    def free(self) -> None:
        self.freed = True


def make() -> dict[str, ModuleType]:
    """The modules, by name."""
    names = ["nvmath", "nvmath.linalg", "nvmath.linalg.advanced"]
    modules = {name: module_from_spec(ModuleSpec(name, None, is_package=True)) for name in names}
    modules["nvmath.linalg.advanced"].__dict__.update(
        Matmul=Matmul, MatmulEpilog=MatmulEpilog, MatmulComputeType=MatmulComputeType
    )
    return modules
