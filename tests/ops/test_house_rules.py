"""What operators may do to arrays, read from their syntax trees."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import onemodel.ops
from onemodel.backends import extension
from onemodel.backends.base import STANDARD
from onemodel.outside import EXACT_MATH

OPS = Path(onemodel.ops.__file__).parent
CHAPTERS = sorted(path for path in OPS.glob("*.py") if path.name not in ("__init__.py", "registry.py"))
READABLE = {"shape", "ndim", "dtype"}
FORBIDDEN = {ast.MatMult: "@", ast.Pow: "**", ast.FloorDiv: "//", ast.Mod: "%"}
PROVIDED = {"to_host", "from_host", "host_dtype", "label"}
DTYPES_AND_NUMBERS = set(
    "bool complex64 complex128 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 e inf nan pi".split()
)
NOT_ARRAYS = {
    "finfo",
    "iinfo",
    "isdtype",
    "result_type",
    "can_cast",
    "broadcast_shapes",
    "onnx_dtype",
    "to_host",
    "sliding",
}


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    for found in ast.walk(tree):
        if isinstance(found, ast.FunctionDef):
            yield found


def _is_xp_call(expression: ast.expr) -> bool:
    """A call of an ``xp`` function that returns an array."""
    return (
        isinstance(expression, ast.Call)
        and isinstance(expression.func, ast.Attribute)
        and isinstance(expression.func.value, ast.Name)
        and expression.func.value.id == "xp"
        and expression.func.attr not in NOT_ARRAYS
        and not expression.func.attr.startswith(("unique_", "unstack", "nonzero", "broadcast_arrays", "meshgrid"))
    )


def _host_names(function: ast.FunctionDef) -> set[str]:
    names = set()
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call):
            for keyword in decorator.keywords:
                if keyword.arg == "host":
                    names |= set(ast.literal_eval(keyword.value))
    return names


def _array_names(function: ast.FunctionDef) -> set[str]:
    """Inputs of a decorated operator, and variables that only ever hold results of xp functions."""
    names: set[str] = set()
    if function.decorator_list:
        names = {argument.arg for argument in function.args.posonlyargs} - _host_names(function)
    for found in ast.walk(function):
        if isinstance(found, ast.Assign) and len(found.targets) == 1 and isinstance(found.targets[0], ast.Name):
            if _is_xp_call(found.value):
                names.add(found.targets[0].id)
            else:
                names.discard(found.targets[0].id)
    return names


def _wrong(tree: ast.Module) -> Iterator[str]:
    """What the functions of a chapter do to arrays and must not."""
    for function in _functions(tree):
        arrays = _array_names(function)

        def is_array(expression: ast.expr, arrays: set[str] = arrays) -> bool:
            return (isinstance(expression, ast.Name) and expression.id in arrays) or _is_xp_call(expression)

        for found in ast.walk(function):
            match found:
                case ast.BinOp(left, op, right) if type(op) in FORBIDDEN and (is_array(left) or is_array(right)):
                    yield f"line {found.lineno}: {FORBIDDEN[type(op)]} on an array; use the function of xp"
                case ast.Attribute(value, name) if is_array(value) and name not in READABLE:
                    yield f"line {found.lineno}: .{name} of an array; use the function of xp"
                case ast.Subscript(value, _, ast.Store()) if is_array(value):
                    yield f"line {found.lineno}: writes into an array"
                case ast.Call(ast.Name("abs" | "divmod" | "pow" as name), args) if any(map(is_array, args)):
                    yield f"line {found.lineno}: {name}() of an array; use the function of xp"


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_operators_keep_to_the_namespace(path: Path) -> None:
    assert list(_wrong(ast.parse(path.read_text(encoding="utf-8")))) == []


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_operators_use_names_that_every_namespace_has(path: Path) -> None:
    known = set(STANDARD) | set(extension.FUNCTIONS) | PROVIDED
    used = {
        found.attr
        for found in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(found, ast.Attribute) and isinstance(found.value, ast.Name) and found.value.id == "xp"
    }
    assert used <= known


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_operators_use_no_function_of_the_c_library(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    read = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and ast.unparse(n.value) == "math"}
    assert read <= EXACT_MATH
    assert not any(isinstance(n, ast.ImportFrom) and n.module == "math" for n in ast.walk(tree))


def test_the_rules_find_what_they_forbid() -> None:
    text = (
        '@operator("Bad", since=1)\n'
        "def bad(x, y, /, *, n=2, xp):\n"
        "    z = xp.exp(x)\n"
        "    z[0] = 1\n"
        "    return (z @ y) + y ** 2, y // n, x.sum(), abs(x), n // 2, n ** 2\n"
    )
    found = sorted(line.partition(";")[0] for line in _wrong(ast.parse(text)))
    assert found == [
        "line 4: writes into an array",
        "line 5: ** on an array",
        "line 5: .sum of an array",
        "line 5: // on an array",
        "line 5: @ on an array",
        "line 5: abs() of an array",
    ]
