"""Gemm with its bias in one step by cuBLASLt, where nvmath-python is installed.

cuBLASLt adds a bias to the columns of a column-major result, so the transpose of the product is what is asked for. The
result is planned once for each shape and thread, with sums in float32, or float64 for float64, never in TF32. In a
CUDA graph cuBLAS is called by OneModel itself: nvmath waits for events of its own, which a capture does not allow.
"""

from __future__ import annotations

import importlib
import importlib.util
import threading
from collections import OrderedDict
from functools import cache
from typing import Any

import cupy

from onemodel.backends.base import Array, Kernel
from onemodel.backends.cupy_run import chose, recorder, row_major

_COMPUTE = {"float16": "COMPUTE_32F", "float32": "COMPUTE_32F", "float64": "COMPUTE_64F"}
"""``MatmulComputeType`` for each element type; nvmath 1.0 has not been tried with CuPy's bfloat16."""
_MOST = 64
"""Plans that a thread keeps."""


@cache
def _library() -> Any:
    """The module ``nvmath.linalg.advanced``, or why there is none."""
    if importlib.util.find_spec("nvmath") is None:
        return "nvmath-python is not installed"
    try:
        return importlib.import_module("nvmath.linalg.advanced")
    except (ImportError, OSError, RuntimeError) as error:
        return f"nvmath cannot be used: {error}"


class _Plans(threading.local):
    """Plans by shapes, layouts and factor; why there is none where nvmath does not take them."""

    def __init__(self) -> None:
        self.made: OrderedDict[Any, Any] = OrderedDict()


_plans = _Plans()


def gemm(
    a: Array,
    b: Array,
    c: Array | None = None,
    /,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,  # noqa: N803 - ONNX's names
    transB: int = 0,  # noqa: N803
    xp: Any,
) -> Any:
    """Gemm with one element of C for each column."""
    if c is None or beta == 0 or a.ndim != 2 or b.ndim != 2 or 0 in (*a.shape, *b.shape):
        return NotImplemented
    left, right = (b if transB else b.T), (a.T if not transA else a)
    columns = left.shape[0]
    if left.shape[1] != right.shape[0] or c.size != columns or c.shape not in ((columns,), (1, columns)):
        return NotImplemented
    if not a.dtype == b.dtype == c.dtype:
        return NotImplemented
    result = _product(left, right, cupy.reshape(c, (columns,)), float(alpha), float(beta))
    if isinstance(result, str):
        chose(f"the product, then its bias: {result}")
        return NotImplemented
    chose("with its bias, by nvmath")
    return result


def _product(left: Array, right: Array, bias: Array, alpha: float, beta: float) -> Array | str:
    """The transpose of alpha left @ right + beta bias, or why nvmath does not give it."""
    dtype = left.dtype.name
    if dtype not in _COMPUTE:
        return f"nvmath is asked for {', '.join(_COMPUTE)}, not {dtype}"
    advanced = _library()
    if isinstance(advanced, str):
        return advanced
    if recorder() is not None:
        return "in a CUDA graph nvmath is not used"
    bias = row_major(bias if beta == 1 else bias * bias.dtype.type(beta))
    device = cupy.cuda.runtime.getDevice()
    key = device, dtype, left.shape, left.strides, right.shape, right.strides, alpha
    plan = _plans.made.get(key)
    if plan is None:
        options = {"compute_type": getattr(advanced.MatmulComputeType, _COMPUTE[dtype]), "device_id": device}
        try:
            plan = advanced.Matmul(left, right, alpha=alpha, options=options)
            plan.plan(epilog=advanced.MatmulEpilog.BIAS, epilog_inputs={"bias": bias})
        except (RuntimeError, ValueError, TypeError) as error:
            plan = f"nvmath does not take it: {' '.join(str(error).split())}"
        _plans.made[key] = plan
        if len(_plans.made) > _MOST:
            _, oldest = _plans.made.popitem(last=False)
            if not isinstance(oldest, str):
                oldest.free()
    elif not isinstance(plan, str):
        plan.reset_operands(a=left, b=right, epilog_inputs={"bias": bias})
    _plans.made.move_to_end(key)
    if isinstance(plan, str):
        return plan
    result = plan.execute()
    plan.release_operands()  # they are the caller's
    return result.T


KERNELS = {("", "Gemm"): Kernel(gemm, 7, tuple(_COMPUTE), halves=True, partial=True)}
