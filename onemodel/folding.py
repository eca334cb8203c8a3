"""Results that are computed once, when the plan is made, and how many bytes and products they may take."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from onemodel import inference
from onemodel.backends.base import Backend
from onemodel.exactness import functions_used
from onemodel.frames import Node
from onemodel.types import dtype_of, is_tensor

logger = logging.getLogger("onemodel")

_MULTIPLY = frozenset({"conv", "integer_matmul", "matmul", "tensordot", "vecdot"})

_MOST_PRODUCTS = 1 << 33
"""Of numbers, that the result of one node may take: some seconds of an exact product of matrices."""

_FACTOR = 1 << 6
"""How many times as much a product of a Fourier transform costs, whose factors are made for it."""


class Folder:
    """Computes nodes on constants until their results take more memory than they may.

    Args:
        host: the backend that computes.
        allowed: how many bytes the results may take together.
    """

    def __init__(self, host: Backend, allowed: int) -> None:
        self.host = host
        self.left = allowed

    def fold(
        self,
        step: Node,
        call: Callable[..., Any],
        schema: onnx.defs.OpSchema | None,
        node: ir.Node,
        attributes: Mapping[str, ir.Attr],
    ) -> bool:
        """Compute a node whose needs are all constant; False leaves it to the runs."""
        values = [None if value is None else value.constant for value in step.inputs]
        expected = self._expected(step, values, schema, node, attributes)
        if expected > self.left:
            logger.debug("%s is left to the runs: its result would not fit Limits(fold_bytes=...)", step.info)
            return False
        if _products(step, values, expected) > _MOST_PRODUCTS:
            logger.debug("%s is left to the runs: its result takes too many products", step.info)
            return False
        try:
            with np.errstate(all="ignore"):
                result = call(*values)
        except Exception as error:  # noqa: BLE001
            # The run raises it again, with the node's name, unless it never comes here.
            logger.debug("%s cannot be folded: %s", step.info, error)
            return False
        results = [self.host.normalise(item) for item in (result if isinstance(result, tuple) else (result,))]
        size = sum(map(size_of, results))
        if size > self.left or len(results) < len(step.outputs):
            return False
        self.left -= size
        for value, item in zip(step.outputs, results, strict=False):
            if value is not None:
                value.constant, value.is_constant, value.frame = frozen(item), True, None
        return True

    def _expected(
        self,
        step: Node,
        values: Sequence[Any],
        schema: onnx.defs.OpSchema | None,
        node: ir.Node,
        attributes: Mapping[str, ir.Attr],
    ) -> float:
        """The bytes of the largest result, or a bound of them, before it is computed."""
        if step.entry.metadata:
            return 0
        shapes = [value.shape for value in values if isinstance(value, np.ndarray)]
        if step.entry.elementwise and len(shapes) == len(values):
            made = [dtype_of(value.type) for value in step.outputs if value and is_tensor(value.type)]
            texts = [value for value in values if value.dtype == object and value.size]
            if texts:
                return _broadcast(shapes) * (8 + sum(max(map(len, map(str, value.flat))) for value in texts))
            widest: int = max(dtype.itemsize for dtype in (*made, *(value.dtype for value in values)))
            return _broadcast(shapes) * widest
        types = [None if value is None else value.type for value in step.inputs]
        if schema is None:
            return sum(map(size_of, values))
        known = inference.predicted_bytes(schema, node, attributes, step.info, values, types)
        if known is not None:
            return known
        # Numbers that the operator reads as sizes may ask for anything.
        return math.inf if step.entry.host and not _moves_lists(values) else sum(map(size_of, values))


def _products(step: Node, values: Sequence[Any], expected: float) -> float:
    """About how many products the result takes, in an operator that multiplies and sums; 0 in others."""
    used = functions_used(step.entry.function)
    sizes = sorted((value.size for value in values if isinstance(value, np.ndarray)), reverse=True)
    made = expected / min((dtype_of(v.type).itemsize for v in step.outputs if v and is_tensor(v.type)), default=1)
    if "fourier" in used:
        return _FACTOR * max(sizes, default=0) * made
    if used & _MULTIPLY and len(sizes) > 1:
        # Rows, terms and columns: each is a side of two of the three.
        return math.sqrt(sizes[0] * sizes[1] * made)
    return 0


def _moves_lists(values: Sequence[Any]) -> bool:
    return any(isinstance(value, list) for value in values)


def _broadcast(shapes: Sequence[tuple[int, ...]]) -> int:
    """How many elements the arrays have once broadcast; 0 where they do not fit."""
    try:
        return math.prod(np.broadcast_shapes(*shapes))
    except ValueError:
        return 0


def size_of(value: Any) -> int:
    """The bytes of a constant; of strings, their characters."""
    if isinstance(value, list):
        return sum(map(size_of, value))
    if not isinstance(value, np.ndarray):
        return 0
    return int(value.nbytes) + (sum(map(len, value.flat)) if value.dtype == object else 0)


def frozen(value: Any) -> Any:
    """Constants are shared by all runs; read-only, so that outputs that alias them can be told."""
    if isinstance(value, list):
        return [frozen(item) for item in value]
    if isinstance(value, np.ndarray):
        view = value.view()
        view.flags.writeable = False
        return view
    return value
