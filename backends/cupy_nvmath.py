"""Products with their bias, and the Relu or Gelu after it, in one step by cuBLASLt, where nvmath-python is installed.

cuBLASLt adds a bias to the columns of a column-major result, so the transpose of the product is what is asked for. The
result is planned once for each shape and thread, with sums in float32, or float64 for float64, never in TF32. In a
CUDA graph cuBLAS is called by OneModel itself: nvmath waits for events of its own, which a capture does not allow.

cuBLASLt's Gelu is the formula with tanh, by nvmath's own tests of epilogues (tests/nvmath_tests/linalg/advanced/matmul/
test_epilog.py in https://github.com/NVIDIA/nvmath-python) and by PyTorch, which relies on it
(https://github.com/pytorch/pytorch/pull/104061); cuBLAS's documentation says no more than GELU.
"""

from __future__ import annotations

import importlib
import importlib.util
import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import cupy

from onemodel.backends.base import Array, Kernel
from onemodel.backends.cupy_run import chose, recorder, row_major
from onemodel.backends.fusion import Chain, Joined, Meanings

_COMPUTE = {"float16": "COMPUTE_32F", "float32": "COMPUTE_32F", "float64": "COMPUTE_64F"}
"""``MatmulComputeType`` for each element type; nvmath 1.0 has not been tried with CuPy's bfloat16."""
_EPILOGUES = {"BIAS": "its bias", "RELU_BIAS": "its bias and Relu", "GELU_BIAS": "its bias and Gelu"}
"""Members of ``MatmulEpilog``, in words."""
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
    """Plans by shapes, layouts, factor and epilogue; why there is none where nvmath does not take them."""

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
    return _with_epilogue(a, b, c, alpha, beta, transA, transB, "BIAS")


def _with_epilogue(
    a: Array, b: Array, c: Array | None, alpha: float, beta: float, turns_a: int, turns_b: int, epilogue: str
) -> Any:
    if c is None or beta == 0 or a.ndim != 2 or b.ndim != 2 or 0 in (*a.shape, *b.shape):
        return NotImplemented
    left, right = (b if turns_b else b.T), (a.T if not turns_a else a)
    columns = left.shape[0]
    if left.shape[1] != right.shape[0] or c.size != columns or c.shape not in ((columns,), (1, columns)):
        return NotImplemented
    if not a.dtype == b.dtype == c.dtype:
        return NotImplemented
    result = _product(left, right, cupy.reshape(c, (columns,)), float(alpha), float(beta), epilogue)
    if isinstance(result, str):
        chose(f"the product, then {_EPILOGUES[epilogue]}: {result}")
        return NotImplemented
    chose(f"with {_EPILOGUES[epilogue]}, by nvmath")
    return result


def _joined(epilogue: str, chain: Chain) -> Callable[..., Any] | None:
    """A Gemm, or a MatMul and the Add of a bias, with the activation after it.

    Weights and bias are known, so that what is not taken runs as if nvmath were not there.
    """
    _, weights, bias = chain.constants if len(chain.constants) == 3 else (None, None, None)
    if isinstance(_library(), str) or chain.dtypes[0] not in _COMPUTE or weights is None or bias is None:
        return None
    if weights.ndim != 2 or chain.attributes[-1].get("approximate", "tanh") != "tanh":
        return None
    alpha, beta, turns_a, turns_b = (
        chain.attributes[0].get(name, default)
        for name, default in (("alpha", 1.0), ("beta", 1.0), ("transA", 0), ("transB", 0))
    )
    columns = weights.shape[0 if turns_b else 1]
    if bias.shape not in ((columns,), (1, columns)):
        return None
    stacks = len(chain.attributes) == 3

    def run(a: Array, b: Array, c: Array) -> Any:
        if not stacks or a.ndim < 3 or 0 in a.shape:
            return _with_epilogue(a, b, c, alpha, beta, turns_a, turns_b, epilogue)
        rows = cupy.reshape(a, (-1, a.shape[-1]))
        result = _with_epilogue(rows, b, c, alpha, beta, turns_a, turns_b, epilogue)
        return result if result is NotImplemented else cupy.reshape(result, (*a.shape[:-1], columns))

    return run


def _product(left: Array, right: Array, bias: Array, alpha: float, beta: float, epilogue: str) -> Array | str:
    """The transpose of alpha left @ right + beta bias, through the activation, or why nvmath does not give it."""
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
    key = device, dtype, left.shape, left.strides, right.shape, right.strides, alpha, epilogue
    plan = _plans.made.get(key)
    if plan is None:
        options = {"compute_type": getattr(advanced.MatmulComputeType, _COMPUTE[dtype]), "device_id": device}
        try:
            plan = advanced.Matmul(left, right, alpha=alpha, options=options)
            plan.plan(epilog=getattr(advanced.MatmulEpilog, epilogue), epilog_inputs={"bias": bias})
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

CHAINS: dict[Meanings, Joined] = {
    (*product, activation): partial(_joined, epilogue)
    for product in ((("Gemm", 7),), (("MatMul", 1), ("Add", 7)))
    for activation, epilogue in ((("Relu", 6), "RELU_BIAS"), (("Gelu", 20), "GELU_BIAS"))
}
