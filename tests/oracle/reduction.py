"""Reductions, sorting, matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.oracle.draw import Case, Draw, draws, kind


@draws(
    "ReduceSum",
    "ReduceMean",
    "ReduceProd",
    "ReduceMax",
    "ReduceMin",
    "ReduceL1",
    "ReduceL2",
    "ReduceSumSquare",
    "ReduceLogSum",
    "ReduceLogSumExp",
)
def reduction(d: Draw) -> Case:
    dtype = d.dtype()
    wraps = d.op in ("ReduceSum", "ReduceProd", "ReduceL1", "ReduceSumSquare", "ReduceMax", "ReduceMin")
    floats = d.pick("any" if d.op in ("ReduceMax", "ReduceMin") else "sums", "finite")
    x = d.array(dtype, d.shape(), floats if kind(dtype) == "f" else d.pick("any", "finite") if wraps else "finite")
    if d.op == "ReduceLogSum":
        x = np.abs(x) if kind(dtype) == "f" else d.array(dtype, [max(size, 1) for size in x.shape], "finite", 1)
    if d.op in ("ReduceMean", "ReduceLogSumExp", "ReduceMax", "ReduceMin") and kind(dtype) != "f":
        # Of nothing there is no such integer, or the type's least or greatest, which wider types do not give.
        x = d.array(dtype, [max(size, 1) for size in x.shape], "any" if wraps else "finite")
    options: dict[str, Any] = {"keepdims": d.maybe(0, 1), "rtol": 1e-4, "atol": 1e-5, "zeros": False}
    axes: Any = d.maybe(d.axes(x.ndim), probability=0.8)
    if d.has("noop_with_empty_axes"):
        noop = d.maybe(0, 1)
        return d.case(x, None if axes is None else np.array(axes, np.int64), noop_with_empty_axes=noop, **options)
    return d.case(x, axes=axes or None, **options)


@draws("ArgMax", "ArgMin")
def arg(d: Draw) -> Case:
    shape = d.shape(1)
    axis = d.axis(len(shape))
    shape = tuple(max(size, 1) if i == axis % len(shape) else size for i, size in enumerate(shape))
    x = d.array(d.dtype(), shape, d.pick("any", "ties", "ties"))
    last = d.maybe(0, 1) if d.has("select_last_index") else None
    return d.case(x, axis=axis if axis else d.maybe(0), keepdims=d.maybe(0, 1), select_last_index=last)


@draws("CumSum", "CumProd")
def cumulative(d: Draw) -> Case:
    x = d.array(d.dtype(), d.shape(1, 4), "finite", -3, 3)
    axis = np.array(d.axis(x.ndim), d.dtype("T2"))
    return d.case(x, axis, rtol=1e-4, atol=1e-5, zeros=False, exclusive=d.maybe(0, 1), reverse=d.maybe(0, 1))


@draws("TopK")
def top_k(d: Draw) -> Case:
    x = d.array(d.dtype(), d.shape(1, 4, empty=d.opset >= 10), d.pick("finite", "ties"))
    axis = d.axis(x.ndim)
    k = d.integer(0 if d.opset >= 10 else 1, x.shape[axis]) if x.shape[axis] else 0
    given = None if axis == -1 and d.chance() else axis
    if d.opset < 10:
        return d.case(x, outputs=2, k=k, axis=given, zeros=False)
    largest = d.maybe(0, 1) if d.has("largest") else None
    return d.case(x, np.array([k], np.int64), outputs=2, axis=given, largest=largest, zeros=False)


@draws("Unique")
def unique(d: Draw) -> Case:
    x = d.array(d.dtype(), d.shape(0, 3, empty=False), d.pick("finite", "ties"))
    axis = d.maybe(d.axis(x.ndim)) if x.ndim else None
    outputs = [True, *(d.chance() for _ in range(3))]
    return d.case(x, outputs=outputs, axis=axis, sorted=d.maybe(0, 1), zeros=False)


@draws("MatMul")
def matrix_product(d: Draw) -> Case:
    a, b = product_shapes(d)
    dtype = d.dtype()
    return d.case(d.array(dtype, a, "finite"), d.array(dtype, b, "finite"), rtol=1e-4, atol=1e-4, zeros=False)


def product_shapes(d: Draw) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes of two arrays with a matrix product, vectors among them, the rest broadcast."""
    inner, (front, back) = d.size(), d.broadcast(2, 0, 2)
    a = (inner,) if d.chance(0.15) else (*front, d.size(), inner)
    b = (inner,) if d.chance(0.15) else (*back, inner, d.size())
    return a, b


@draws("Gemm")
def gemm(d: Draw) -> Case:
    dtype = d.dtype()
    rows, inner, columns = d.integers(1, 5, 3)
    transposed = [d.maybe(0, 1), d.maybe(0, 1)]
    a = (inner, rows) if transposed[0] else (rows, inner)
    b = (columns, inner) if transposed[1] else (inner, columns)
    c: Any = d.into((rows, columns)) if d.opset >= 7 else d.pick((rows, columns), (columns,))
    broadcast = {"broadcast": int(c != (rows, columns))} if d.opset < 7 else {}
    if d.opset >= 11 and d.chance(0.3):
        c = None
    return d.case(
        d.array(dtype, a, "finite"),
        d.array(dtype, b, "finite"),
        None if c is None else d.array(dtype, c, "finite"),
        rtol=1e-4,
        atol=1e-4,
        zeros=False,
        transA=transposed[0],
        transB=transposed[1],
        alpha=d.maybe(d.real(-2, 2)) if kind(dtype) == "f" else None,
        beta=d.maybe(d.real(-2, 2)) if kind(dtype) == "f" else None,
        **broadcast,
    )


EQUATIONS = (
    "ij->ji", "ii", "ii->i", "ij->", "ij,jk", "ij,jk->ik", "bij,bjk->bik", "i,j->ij", "...ii->...i", "...ij,...jk",
    "ij,ij,ij->i", "aB,Bc->ca", "i,i", "b...,b...->...b", "ijk,jil->kl", "abc,cd,de->abe", "...,...->...",
)  # fmt: skip


@draws("Einsum")
def einsum(d: Draw) -> Case:
    equation = d.pick(*EQUATIONS)
    sizes = {label: d.integer(1, 4) for label in "ijklabcdeB"}
    dtype, dots = d.dtype(), d.shape(0, 2, empty=False)
    arrays = []
    for term in equation.partition("->")[0].split(","):
        around = d.into(dots) if len(equation.split(",")) > 1 else dots
        front, found, back = term.partition("...")
        shape = [*(sizes[label] for label in front), *(around if found else ()), *(sizes[label] for label in back)]
        arrays.append(d.array(dtype, shape, "finite"))
    return d.case(*arrays, rtol=1e-4, atol=1e-4, zeros=False, equation=equation)


@draws("Det")
def determinant(d: Draw) -> Case:
    size = d.integer(1, 4)
    return d.case(d.array(d.dtype(), (*d.shape(0, 2), size, size), "finite"), rtol=1e-3, atol=1e-4, zeros=False)
