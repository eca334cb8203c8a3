"""Arithmetic, comparison, logic, bits, casts."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.oracle.draw import Case, Draw, bits, code, draws, kind


def operands(d: Draw, dtype: Any, count: int = 2, **options: Any) -> tuple[list[Any], dict[str, int]]:
    """Arrays that broadcast together: by NumPy's rules, before opset 7 by the attributes ``axis`` and ``broadcast``."""
    if not d.has("broadcast"):
        return [d.array(dtype, shape, **options) for shape in d.broadcast(count)], {}
    shape = d.shape(0, 4)
    start = d.integer(0, len(shape))
    stop = d.integer(start, len(shape))
    part = shape if d.chance(0.3) else shape[start:stop]
    whole = {"axis": start, "broadcast": 1} if part != shape else {"broadcast": d.pick(0, 1)}
    return [d.array(dtype, shape, **options), d.array(dtype, part, **options)], whole


@draws("Add", "Sub", "Mul", "And", "Or", "Xor", "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")
def two_operands(d: Draw) -> Case:
    (a, b), attributes = operands(d, d.dtype())
    return d.case(a, b, **attributes)


@draws("BitwiseAnd", "BitwiseOr", "BitwiseXor")
def bitwise(d: Draw) -> Case:
    (a, b), _ = operands(d, d.dtype())
    return d.case(a, b)


@draws("Div")
def division(d: Draw) -> Case:
    dtype = d.dtype()
    (a, b), attributes = operands(d, dtype)
    if kind(dtype) != "f":
        b[b == 0] = 3
    return d.case(a, b, **attributes)


@draws("Mod")
def modulo(d: Draw) -> Case:
    dtype = d.dtype()
    (a, b), _ = operands(d, dtype)
    if kind(dtype) != "f":
        b[b == 0] = 3
    truncates = kind(dtype) == "f" and d.opset < 28
    return d.case(a, b, fmod=1 if truncates else d.maybe(0, 1))


@draws("Pow")
def power(d: Draw) -> Case:
    base = d.dtype()
    exponent = d.dtype("T1") if d.opset >= 12 else base
    (x, y), attributes = operands(d, base, low=-40, high=40)
    if kind(base) != "f":
        x[x == 0] = 2
        y = d.rng.integers(0 if kind(exponent) == "u" else -1, 13, y.shape).astype(exponent)
    elif exponent != base:
        y = d.array(exponent, y.shape, "finite", low=-4, high=4)
    return d.case(x, y, rtol=1e-4, **attributes)


@draws("BitShift")
def bit_shift(d: Draw) -> Case:
    dtype = d.dtype()
    (x, y), _ = operands(d, dtype)
    return d.case(x, y % bits(dtype), direction=d.pick("LEFT", "RIGHT"))


@draws("Abs", "Neg", "Sign", "Ceil", "Floor", "Round", "Reciprocal", "Sqrt", "Not", "BitwiseNot", "Identity")
def one_operand(d: Draw) -> Case:
    x = d.array(d.dtype("V" if d.op == "Identity" and d.opset >= 14 else "T"), d.shape())
    return d.case((x / 2).astype(x.dtype) if d.op == "Round" else x)


@draws("IsNaN", "IsInf")
def tests_of_floats(d: Draw) -> Case:
    signs = {"detect_negative": d.maybe(0, 1), "detect_positive": d.maybe(0, 1)} if d.op == "IsInf" else {}
    return d.case(d.array(d.dtype("T1"), d.shape()), **signs)


@draws("Sum", "Mean", "Max", "Min")
def any_number(d: Draw) -> Case:
    dtype, count = d.dtype(), d.integer(1, 4)
    shapes = d.broadcast(count) if d.opset >= 8 else [d.shape()] * count
    return d.case(*(d.array(dtype, shape) for shape in shapes), zeros=d.op in ("Sum", "Mean"))


@draws("Where")
def where(d: Draw) -> Case:
    dtype = d.dtype()
    condition, x, y = d.broadcast(3)
    return d.case(d.array(bool, condition), d.array(dtype, x), d.array(dtype, y))


@draws("Clip")
def clip(d: Draw) -> Case:
    dtype = d.dtype()
    x = d.array(dtype, d.shape())
    if d.opset < 11:
        return d.case(x, min=d.maybe(d.real(-3, 0)), max=d.maybe(d.real(0, 4)), zeros=False)
    bounds = [d.maybe(d.array(dtype, (), "finite")) for _ in range(2)]
    return d.case(x, *bounds, zeros=False)


@draws("Cast")
def cast(d: Draw) -> Case:
    target = d.dtype("T2")
    saturate = d.maybe(0, 1) if "float8" in target.name else None
    return d.case(castable(d, d.dtype("T1"), target), to=code(target), saturate=saturate)


@draws("CastLike")
def cast_like(d: Draw) -> Case:
    target = d.dtype("T2")
    return d.case(castable(d, d.dtype("T1"), target), d.array(target, (2,), "finite"))


def castable(d: Draw, dtype: Any, target: Any) -> Any:
    """An array whose cast the text defines: numbers in strings, numbers above 0 for E8M0, few digits to print."""
    if kind(dtype) == "O":
        numbers = ("1", "2", "0", "17") if kind(np.dtype(target)) in "iub" else ("1.5", "-2", "1e3", "NaN", "-INF")
        return np.array([d.pick(*numbers) for _ in range(4)], object)
    x = d.array(dtype, d.shape(0, 4))
    if "e8m0" in np.dtype(target).name:
        x = np.where(x.astype(float) > 0, x, np.ones_like(x)).astype(dtype)
    if kind(np.dtype(target)) == "O" and kind(dtype) == "f":
        x = np.round(d.array(np.float32, x.shape, "sums") * 8).astype(dtype) / dtype.type(8)
    return x


@draws("BitCast")
def bit_cast(d: Draw) -> Case:
    whole = [t for t in d.allowed("T1") if kind(t) in "iuf" and bits(t) == t.itemsize * 8]
    dtype = d.pick(*whole)
    same = [t for t in d.allowed("T2") if kind(t) in "iuf" and bits(t) == t.itemsize * 8 == bits(dtype)]
    return d.case(d.array(dtype, d.shape()), to=code(d.pick(*same)))
