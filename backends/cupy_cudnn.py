"""Convolution by cuDNN, where nvidia-cudnn-frontend is installed.

A plan is made for each shape, once, in the order in which cuDNN's graph interface wants it; what cuDNN does not take is
left to the caller, with cuDNN's words. Plans that round the inputs or the sums to fewer bits are not chosen: float32
stays float32, without TF32. Nor are those whose results differ from run to run.
"""

from __future__ import annotations

import importlib
import importlib.util
import threading
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import cupy
import numpy as np

from onemodel.backends.base import Array
from onemodel.backends.cupy_narrow import BFLOAT16
from onemodel.backends.cupy_run import kept, row_major
from onemodel.backends.sliding import Sliding

_TYPES = {np.dtype(np.float32): "FLOAT", np.dtype(np.float16): "HALF", BFLOAT16: "BFLOAT16"}
"""The element types, as ``cudnn.data_type`` names them."""


_WORKSPACE = 1 << 30
"""Bytes that a plan may work in."""


@dataclass(frozen=True)
class _Plan:
    """A built graph, what it takes and gives, by name, and the bytes that it works in."""

    graph: Any
    tensors: dict[str, Any]
    workspace: int


@cache
def _library() -> Any:
    """The module ``cudnn``, or why there is none."""
    if importlib.util.find_spec("cudnn") is None:
        return "nvidia-cudnn-frontend is not installed"
    try:
        cudnn = importlib.import_module("cudnn")
        cudnn.backend_version()
    except (ImportError, OSError, RuntimeError, AttributeError) as error:
        return f"cuDNN cannot be used: {error}"
    return cudnn


class _Handles(threading.local):
    """A handle for each device; a thread has its own, since a handle has one stream."""

    def __init__(self) -> None:
        self.made: dict[int, Any] = {}


_handles = _Handles()


def _handle(cudnn: Any, device: int) -> Any:
    """The handle of this thread, on the current stream."""
    if device not in _handles.made:
        _handles.made[device] = cudnn.create_handle()
    cudnn.set_stream(_handles.made[device], cupy.cuda.get_current_stream().ptr)
    return _handles.made[device]


def conv(x: Array, w: Array, b: Array | None, windows: Sliding) -> Array | str:
    """The convolution, its groups told by the filters' channels, or why cuDNN does not do it."""
    if x.dtype not in _TYPES or (b is not None and b.dtype != x.dtype):
        return f"cuDNN is asked for float32, float16 and bfloat16, not {x.dtype}"
    cudnn = _library()
    if isinstance(cudnn, str):
        return cudnn
    device = cupy.cuda.runtime.getDevice()
    plan = _planned(device, x.dtype, tuple(x.shape), tuple(w.shape), b is not None, windows)
    if isinstance(plan, str):
        if b is None:
            return plan
        result = conv(x, w, None, windows)  # a bias may be what it does not take
        return result if isinstance(result, str) else result + cupy.reshape(b, (w.shape[0], *[1] * (x.ndim - 2)))
    kept(plan)
    result = cupy.empty((x.shape[0], w.shape[0], *windows.positions), x.dtype)
    workspace = cupy.empty((max(plan.workspace, 1),), np.uint8)
    arrays = {"x": row_major(x), "w": row_major(w), "b": None if b is None else row_major(b), "y": result}
    pack = {plan.tensors[name]: array.data.ptr for name, array in arrays.items() if array is not None}
    plan.graph.execute(pack, workspace.data.ptr, handle=_handle(cudnn, device))
    return result


@lru_cache(maxsize=1024)
def _planned(
    device: int, dtype: Any, x: tuple[int, ...], w: tuple[int, ...], biased: bool, windows: Sliding
) -> _Plan | str:
    """A plan for arrays of these shapes; cuDNN's words where it has none."""
    cudnn = _library()
    graph, tensors = described(cudnn, _handle(cudnn, device), dtype, x, w, biased, windows)
    notes = cudnn.numerical_note
    unwanted = [notes.DOWN_CONVERT_INPUTS, notes.REDUCED_PRECISION_REDUCTION, notes.NONDETERMINISTIC]
    try:
        graph.validate()
        graph.build_operation_graph()
        graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
        # Tensor cores round float32 to TF32.
        graph.deselect_numeric_notes([*unwanted, notes.TENSOR_CORE] if dtype == np.float32 else unwanted)
        graph.deselect_workspace_greater_than(_WORKSPACE)
        graph.check_support()
        graph.build_plans()
    except (cudnn.cudnnGraphNotSupportedError, RuntimeError) as error:
        return f"cuDNN does not take it: {' '.join(str(error).split())}"
    return _Plan(graph, tensors, int(graph.get_workspace_size()))


def described(
    cudnn: Any, handle: Any, dtype: Any, x: tuple[int, ...], w: tuple[int, ...], biased: bool, windows: Sliding
) -> tuple[Any, dict[str, Any]]:
    """The convolution as a graph of cuDNN's, and its tensors by name."""
    kind = getattr(cudnn.data_type, _TYPES[dtype])
    missing = max(0, 2 - len(windows.sizes))  # cuDNN has no convolution over one axis

    def spatial(values: Any, filler: int) -> list[int]:
        return [filler] * missing + [int(value) for value in values]

    graph = cudnn.pygraph(
        name="conv",
        io_data_type=kind,
        intermediate_data_type=cudnn.data_type.FLOAT,
        compute_data_type=cudnn.data_type.FLOAT,
        handle=handle,
    )

    def tensor(name: str, shape: list[int]) -> Any:
        return graph.tensor(name=name, dim=shape, stride=_strides(shape), data_type=kind)

    out = [x[0], w[0], *spatial(windows.positions, 1)]
    tensors = {
        "x": tensor("x", [*x[:2], *spatial(x[2:], 1)]),
        "w": tensor("w", [*w[:2], *spatial(w[2:], 1)]),
    }
    y = graph.conv_fprop(
        image=tensors["x"],
        weight=tensors["w"],
        pre_padding=spatial((before for before, _ in windows.pads), 0),
        post_padding=spatial((after for _, after in windows.pads), 0),
        stride=spatial(windows.strides, 1),
        dilation=spatial(windows.dilations, 1),
    )
    if biased:
        tensors["b"] = tensor("b", [1, w[0], *[1] * len(out[2:])])
        y = graph.bias(input=y, bias=tensors["b"])
    y.set_output(True).set_data_type(kind).set_dim(out).set_stride(_strides(out))
    tensors["y"] = y
    return graph, tensors


def _strides(shape: list[int]) -> list[int]:
    """Of an array that lies row by row, in elements."""
    strides = [1]
    for size in shape[:0:-1]:
        strides.insert(0, strides[0] * size)
    return strides
