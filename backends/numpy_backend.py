"""NumPy on the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

import array_api_compat.numpy as library
import numpy as np

from onemodel.backends import numpy_cast, numpy_fast, numpy_indexing, numpy_kernels, numpy_quantized, numpy_random
from onemodel.backends.base import HostBackend, Kernel, Namespace, NamespaceCache, build_namespace, numpy_dtype
from onemodel.backends.exact import exact_namespace
from onemodel.backends.exact.symbolic import ProgramFusion
from onemodel.backends.fusion import Fusion
from onemodel.backends.numpy_fusion import BlockFusion

LIBRARY: ModuleType = library

_OWN = """
    asarray empty empty_like full full_like matmul matrix_transpose nonzero ones ones_like permute_dims zeros zeros_like
""".split()
"""Functions that are the standard's in NumPy 2 itself, whose wrappers cost as much again on small arrays."""


def _members() -> dict[str, Any]:
    """Functions that are native in both modes: they move elements, and compute nothing."""
    return {
        **{name: getattr(np, name) for name in _OWN},
        "all": numpy_fast.truth_of(np.logical_and),
        "any": numpy_fast.truth_of(np.logical_or),
        "astype": lambda x, dtype, /, *, copy=True: x.astype(dtype, copy=copy),
        "onnx_dtype": numpy_dtype,
        "to_host": lambda x: x,
        "from_host": lambda x: x,
        "host_dtype": np.dtype,
        "contiguous": np.ascontiguousarray,
        "windows": numpy_fast.windows,
        "pad": numpy_fast.pad,
        "gather": numpy_fast.gather,
        "weighted_taps": numpy_fast.weighted_taps,
        "where": numpy_fast.where,
        "join_complex": numpy_fast.join_complex,
        "split_complex": numpy_fast.split_complex,
        "integer_matmul": numpy_quantized.integer_matmul,
        "quantize": numpy_quantized.quantize,
        "convert": numpy_cast.convert,
        "isdtype": numpy_cast.isdtype,
        "extend": numpy_indexing.extend,
        "scatter": numpy_indexing.scatter,
        "checked_indices": numpy_indexing.checked_indices,
        "random_bits": numpy_random.random_bits,
        "bitcast": lambda x, dtype: x.view(dtype),
    }


class NumpyBackend(HostBackend):
    """NumPy arrays on the CPU, exact by default."""

    name = "numpy"

    def __init__(self) -> None:
        self.namespace_of = NamespaceCache(
            fast=lambda: build_namespace("numpy fast", LIBRARY, _members() | numpy_fast.MEMBERS),
            exact=lambda: exact_namespace("numpy exact", LIBRARY, _members() | {"convert": numpy_cast.convert_exact}),
        )

        self._fusions: dict[str, Fusion] = {"exact": ProgramFusion(), "fast": BlockFusion()}

    def namespace(self, mode: str) -> Namespace:
        return self.namespace_of(mode)

    def kernels(self, mode: str) -> Mapping[tuple[str, str], Kernel]:
        return numpy_kernels.FAST if mode == "fast" else {}

    def fusion(self, mode: str) -> Fusion:
        return self._fusions[mode]
