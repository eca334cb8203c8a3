"""A stand-in for the module ``cudnn`` of nvidia-cudnn-frontend over NumPy, as strict about its use as cuDNN is.

Signatures are those of ``libraries_api.json``. A graph is built in the order that cuDNN wants, executed with the
addresses of all of its tensors and no others, on the current stream.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from enum import Enum
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from itertools import product
from types import ModuleType
from typing import Any, Self

import ml_dtypes
import numpy as np

from tests.gpu import capture

data_type = Enum("data_type", "NOT_SET FLOAT HALF BFLOAT16")
heur_mode = Enum("heur_mode", "A B FALLBACK")
numerical_note = Enum(
    "numerical_note", "TENSOR_CORE DOWN_CONVERT_INPUTS REDUCED_PRECISION_REDUCTION NONDETERMINISTIC FFT WINOGRAD"
)
_DTYPES = {"FLOAT": np.float32, "HALF": np.float16, "BFLOAT16": ml_dtypes.bfloat16}


class cudnnGraphNotSupportedError(Exception):  # noqa: N801 - cuDNN's name
    """The graph is right, but cuDNN has no engine for it."""


class Handle:
    """A handle, and its stream."""

    def __init__(self) -> None:
        self.stream = 0


class Tensor:
    """A tensor of a graph."""

    def __init__(self, graph: pygraph, dim: Sequence[int], stride: Sequence[int], data_type: Any) -> None:
        self.graph, self.dim, self.stride, self.data_type = graph, list(dim), list(stride), data_type
        self.output = False

    def set_output(self, value: bool) -> Self:
        self.output = value
        return self

    def set_data_type(self, dtype: Any) -> Self:
        self.data_type = dtype
        return self

    def set_dim(self, dim: list[int]) -> Self:
        assert dim == self.dim, f"the output is {self.dim}, not {dim}"
        return self

    def set_stride(self, stride: list[int]) -> Self:
        self.stride = stride
        return self

    def array(self, pointer: int) -> np.ndarray[Any, Any]:
        """The memory at an address as this tensor."""
        dtype: np.dtype[Any] = np.dtype(_DTYPES[self.data_type.name])
        size = sum((n - 1) * step for n, step in zip(self.dim, self.stride, strict=True)) + 1
        memory: Any = (ctypes.c_char * (size * dtype.itemsize)).from_address(pointer)
        strides = [step * dtype.itemsize for step in self.stride]
        return np.ndarray(self.dim, dtype, memory, 0, strides)


_ORDER = ["validate", "build_operation_graph", "create_execution_plans", "check_support", "build_plans"]


class pygraph:  # noqa: N801 - cuDNN's name
    """A graph of operations."""

    refuse: Callable[[pygraph], str | None] = staticmethod(lambda graph: None)
    """Why cuDNN has no engine for a graph, for tests to set."""
    built = 0

    def __init__(
        self,
        name: str = "test_graph",
        io_data_type: Any = None,
        intermediate_data_type: Any = None,
        compute_data_type: Any = None,
        handle: Any = None,
    ) -> None:
        assert isinstance(handle, Handle)
        assert compute_data_type == intermediate_data_type == data_type.FLOAT
        self.io_data_type = io_data_type
        self.tensors: list[Tensor] = []
        self.steps: list[str] = []
        self.operations: list[tuple[str, Callable[..., Any], list[Tensor], Tensor]] = []
        self.unwanted: list[Any] = []

    def tensor(self, dim: Any, stride: Any = None, data_type: Any = None, name: str = "") -> Tensor:
        assert not self.steps
        assert len(dim) == len(stride) >= 4, "cuDNN's convolutions have two spatial axes or more"
        self.tensors.append(Tensor(self, dim, stride, data_type))
        return self.tensors[-1]

    def conv_fprop(
        self, image: Any, weight: Any, pre_padding: Any, post_padding: Any, stride: Any, dilation: Any
    ) -> Tensor:
        assert image.dim[1] % weight.dim[1] == 0
        assert weight.dim[0] % (image.dim[1] // weight.dim[1]) == 0
        axes = zip(image.dim[2:], weight.dim[2:], pre_padding, post_padding, stride, dilation, strict=True)
        sizes = [(n + before + after - (k - 1) * d - 1) // s + 1 for n, k, before, after, s, d in axes]

        def compute(x: Any, w: Any) -> Any:
            pads = [(0, 0), (0, 0), *zip(pre_padding, post_padding, strict=True)]
            x, w = np.pad(x.astype(np.float32), pads), w.astype(np.float32)
            groups = x.shape[1] // w.shape[1]
            result = np.zeros((x.shape[0], w.shape[0], *sizes), np.float32)
            for tap in product(*map(range, w.shape[2:])):
                cut = [slice(t * d, t * d + n * s, s) for t, d, n, s in zip(tap, dilation, sizes, stride, strict=True)]
                met = x[(slice(None), slice(None), *cut)].reshape(x.shape[0], groups, w.shape[1], -1)
                filters = w[(slice(None), slice(None), *tap)].reshape(groups, -1, w.shape[1])
                result += np.matmul(filters, met).reshape(result.shape)
            return result

        return self._add("conv", compute, [image, weight], [image.dim[0], weight.dim[0], *sizes])

    def bias(self, input: Any, bias: Any) -> Tensor:
        assert bias.dim == [1, input.dim[1], *[1] * (len(input.dim) - 2)]
        return self._add("bias", lambda x, b: x + b.astype(np.float32), [input, bias], input.dim)

    def _add(self, name: str, compute: Any, inputs: list[Tensor], dim: list[int]) -> Tensor:
        assert not self.steps
        assert all(tensor.graph is self for tensor in inputs)
        made = Tensor(self, dim, [], None)
        self.operations.append((name, compute, inputs, made))
        return made

    def _step(self, name: str) -> None:
        assert name == _ORDER[len(self.steps)], f"{name} comes after {self.steps}"
        self.steps.append(name)

    def validate(self) -> None:
        self._step("validate")
        (output,) = (made for *_, made in self.operations if made.output)
        assert output.stride
        assert output.data_type == self.io_data_type

    def build_operation_graph(self) -> None:
        self._step("build_operation_graph")

    def create_execution_plans(self, heuristics: Any = None) -> None:
        assert heuristics == [heur_mode.A, heur_mode.FALLBACK]
        self._step("create_execution_plans")

    def deselect_numeric_notes(self, notes: Any) -> Self:
        assert self.steps[-1] == "create_execution_plans"
        self.unwanted += notes
        return self

    def deselect_workspace_greater_than(self, workspace_limit: int) -> Self:
        assert self.steps[-1] == "create_execution_plans"
        assert workspace_limit >= 256
        return self

    def check_support(self) -> None:
        self._step("check_support")
        if why := pygraph.refuse(self):
            raise cudnnGraphNotSupportedError(why)

    def build_plans(self) -> None:
        self._step("build_plans")
        pygraph.built += 1

    def get_workspace_size(self) -> int:
        assert self.steps == _ORDER
        return 256

    def execute(self, tensor_dict: Any, workspace: Any = None, handle: Any = None) -> None:
        assert self.steps == _ORDER
        assert type(workspace) is int
        assert handle.stream == capture.current_stream().ptr
        outputs = [made for *_, made in self.operations if made.output]
        assert set(tensor_dict) == {*self.tensors, *outputs}
        assert all(type(pointer) is int for pointer in tensor_dict.values())

        def work() -> None:
            values: dict[Tensor, Any] = {t: t.array(tensor_dict[t]) for t in self.tensors}
            for _, compute, inputs, made in self.operations:
                values[made] = compute(*(values[tensor] for tensor in inputs))
            for tensor in outputs:
                place = tensor.array(tensor_dict[tensor])
                place[...] = values[tensor].astype(place.dtype)

        work()
        graph = capture.current_stream().capture
        if graph is not None:
            graph.add(work)


def set_stream(handle: Handle, stream: int) -> None:
    """Put a handle on a stream."""
    handle.stream = stream


def make() -> ModuleType:
    """The module."""
    module = module_from_spec(ModuleSpec("cudnn", None))
    module.__dict__.update(
        backend_version=lambda: 92800,
        cudnnGraphNotSupportedError=cudnnGraphNotSupportedError,
        create_handle=Handle,
        set_stream=set_stream,
        pygraph=pygraph,
        data_type=data_type,
        heur_mode=heur_mode,
        numerical_note=numerical_note,
    )
    return module
