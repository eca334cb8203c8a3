"""The interface of nvidia-cudnn-frontend and nvmath-python as a table, for tests where they are not installed.

``python -m tests.gpu.library_table`` writes the table anew. It needs both packages, but neither a driver nor a GPU.
"""

from __future__ import annotations

import importlib
import inspect
import json
from functools import cache
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_name("libraries_api.json")

CUDNN = [
    *("backend_version", "create_handle", "set_stream"),
    *(f"pygraph.{name}" for name in ("__init__", "tensor", "conv_fprop", "bias", "validate", "build_operation_graph")),
    *(f"pygraph.{name}" for name in ("create_execution_plans", "deselect_numeric_notes", "check_support")),
    "pygraph.deselect_workspace_greater_than",
    *(f"pygraph.{name}" for name in ("build_plans", "get_workspace_size", "execute")),
    *(f"graph_types.Tensor.{name}" for name in ("set_output", "set_data_type", "set_dim", "set_stride")),
]
NVMATH = [
    "linalg.advanced.matmul",
    *(
        f"linalg.advanced.Matmul.{name}"
        for name in ("__init__", "plan", "execute", "reset_operands", "release_operands", "free")
    ),
    "linalg.advanced.MatmulOptions.__init__",
]
MEMBERS = {
    "cudnn.data_type": ["FLOAT", "HALF", "BFLOAT16"],
    "cudnn.heur_mode": ["A", "FALLBACK"],
    "cudnn.numerical_note": [
        *("TENSOR_CORE", "DOWN_CONVERT_INPUTS", "REDUCED_PRECISION_REDUCTION", "NONDETERMINISTIC"),
    ],
    "nvmath.linalg.advanced.MatmulEpilog": ["BIAS", "RELU_BIAS", "GELU_BIAS"],
    "nvmath.linalg.advanced.MatmulComputeType": ["COMPUTE_32F", "COMPUTE_64F"],
}
"""Members of enumerations that OneModel names."""


@cache
def read_table() -> dict[str, list[str]]:
    """Parameters by the name of a function or method, with ``*`` and ``**`` where there are such."""
    table: dict[str, list[str]] = json.loads(TABLE.read_text(encoding="utf-8"))
    return table


def parameters(module: Any, name: str) -> list[str]:
    """The names of the parameters of a function or method of a module."""
    function = module
    for part in name.split("."):
        if inspect.ismodule(function) and not hasattr(function, part):
            importlib.import_module(f"{function.__name__}.{part}")
        function = getattr(function, part)
    try:
        signature = inspect.signature(function)
    except ValueError:  # a compiled function, whose first line of documentation is its signature
        text = (function.__doc__ or "").partition("(")[2].partition(")")[0]
        return [part.partition(":")[0].strip() for part in text.split(",") if part.strip()]
    marks: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return [marks.get(parameter.kind, "") + parameter.name for parameter in signature.parameters.values()]


def main() -> None:
    """Write the table."""
    import cudnn
    import nvmath

    table = {f"cudnn.{name}": parameters(cudnn, name) for name in CUDNN}
    # Overloads that take their parameters by name, told by the compiled class below.
    inner = cudnn._pybind_module.backend_graph
    table["cudnn.pygraph.conv_fprop"] = _overload(inner.conv_fprop, "pre_padding")
    table["cudnn.pygraph.bias"] = _overload(inner.bias, "bias")
    table |= {f"nvmath.{name}": parameters(nvmath, name) for name in NVMATH}
    TABLE.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


def _overload(function: Any, wanted: str) -> list[str]:
    """The parameters of the overload that has a wanted one."""
    for line in (function.__doc__ or "").splitlines():
        names = [part.partition(":")[0].strip() for part in line.partition("(")[2].split(",")]
        if wanted in names:
            return [name for name in names if name.isidentifier()]
    raise ValueError(f"no overload has {wanted}")


if __name__ == "__main__":
    main()
