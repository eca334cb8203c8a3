"""Linear algebra: matrix products, determinants."""

from __future__ import annotations

import math
from collections import Counter

from onemodel.ops.registry import operator


def _factor(side, shape):
    """A weight; stacks of matrices are not prepared."""
    return (side,) if len(shape) == 2 else None


@operator(
    "MatMul",
    since=1,
    widen=False,
    factors={"a": lambda shape, _: _factor("left", shape), "b": lambda shape, _: _factor("right", shape)},
)
def matmul(a, b, /, *, xp):
    """The matrix product over the last two axes, the others broadcast; 1-D ones are a row, or a column."""
    inner = (a.shape[-1:], b.shape[-2:][:1])
    if a.ndim == 0 or b.ndim == 0 or inner[0] != inner[1]:
        raise ValueError(
            f"shapes {a.shape} and {b.shape} do not multiply: the last axis of A must be the last but one of B"
        )
    return xp.matmul(a, b)


@operator(
    "Gemm", since=7, factors={"b": lambda shape, given: _factor("left" if given.get("transB") else "right", shape)}
)
def gemm(a, b, c=None, /, *, alpha=1.0, beta=1.0, transA=0, transB=0, xp):
    """alpha * A * B + beta * C, with A and B transposed on request.

    C broadcasts to the product, and is not read where beta is 0.
    """
    if a.ndim != 2 or b.ndim != 2:
        raise ValueError(f"A and B must be matrices, not of shapes {a.shape} and {b.shape}")
    a = xp.matrix_transpose(a) if transA else a
    b = xp.matrix_transpose(b) if transB else b
    if a.shape[1] != b.shape[0]:
        raise ValueError(f"A' of shape {a.shape} and B' of shape {b.shape} do not multiply")
    product = _scaled(xp.matmul(a, b), alpha, xp)
    if c is None or beta == 0:
        return product
    shape = product.shape
    if c.ndim > 2 or any(size not in (1, whole) for size, whole in zip(c.shape[::-1], shape[::-1], strict=False)):
        raise ValueError(f"C of shape {c.shape} does not broadcast to {shape}")
    return product + _scaled(c, beta, xp)


@operator("Gemm", since=6)
def gemm_with_broadcast(a, b, c, /, *, alpha=1.0, beta=1.0, broadcast=0, transA=0, transB=0, xp):
    """Before opset 7 C broadcasts on request only."""
    shape = (a.shape[1 if transA else 0], b.shape[0 if transB else 1]) if a.ndim == b.ndim == 2 else c.shape
    if not broadcast and c.shape != shape:
        raise ValueError(f"C has shape {c.shape}, not {shape}, and broadcast is 0")
    return gemm(a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB, xp=xp)


def _scaled(x, factor, xp):
    """factor * x; integers take whole factors only."""
    if factor == 1:
        return x
    if xp.isdtype(x.dtype, "integral") and factor != int(factor):
        raise ValueError(f"alpha and beta must be whole numbers for {x.dtype} matrices, not {factor}")
    return x * xp.constant(int(factor) if xp.isdtype(x.dtype, "integral") else factor, x)


@operator("Det", since=11)
def determinant(x, /, *, xp):
    """The determinant of each matrix in the last two axes."""
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ValueError(f"X must hold square matrices; its shape is {x.shape}")
    return xp.determinant(x)


_FLOAT, _HALVES = 1, (10, 16)


@operator("Einsum", since=12, widen=False)
def einsum(*inputs, equation, xp):
    """Products of the operands' elements, summed over labels that the output lacks: 'ij,jk->ik' multiplies matrices.

    A label repeated in one operand is its diagonal; upper and lower case differ. '...' stands for further axes, which
    broadcast. Without '->' the output has the axes of '...' and then, sorted, the labels that occur once.
    """
    code = xp.onnx_code(inputs[0].dtype)
    if len(inputs) > 2 and code in _HALVES:
        # Of several roundings only the last one is to the half type.
        wide = [xp.convert(array, _FLOAT) for array in inputs]
        return xp.convert(einsum(*wide, equation=equation, xp=xp), code)
    terms, output = _labelled(equation, [array.ndim for array in inputs])
    operands = [(term, _diagonals(array, term, xp)) for term, array in zip(terms, inputs, strict=True)]
    operands = [(tuple(dict.fromkeys(term)), array) for term, array in operands]
    sizes = _label_sizes(operands, equation)
    labels, result = operands[0]
    if len(operands) == 1:
        result = _summed(result, labels, output, xp)
        labels = tuple(label for label in labels if label in output)
    for position, (others, array) in enumerate(operands[1:], 2):
        later = {label for term, _ in operands[position:] for label in term} | set(output)
        labels, result = _contracted((labels, result), (others, array), later, xp)
    # Labels of size 1 in one operand take the size that they have in the others.
    order = tuple(labels.index(label) for label in output)
    return xp.broadcast_to(xp.permute_dims(result, order), tuple(sizes[label] for label in output))


def _labelled(equation, ranks):
    """The labels of each operand's axes and of the output's; the axes of '...' are numbers, 1 the last of them."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise ValueError(f"equation {equation!r} has {len(terms)} operands; {len(ranks)} are given")
    widest = 0
    split = []
    for text in [*terms, right]:
        before, dots, after = text.partition("...")
        if not all(label.isascii() and label.isalpha() for label in before + after):
            raise ValueError(f"equation {equation!r} may hold letters, commas, '->' and one '...' per operand")
        split.append((before, dots, after))
    found = []
    for (before, dots, after), rank in zip(split, ranks, strict=False):
        spare = rank - len(before) - len(after)
        if spare < 0 or (spare and not dots):
            raise ValueError(f"'{before}{dots}{after}' in equation {equation!r} does not label {rank} axes")
        widest = max(widest, spare)
        found.append((*before, *range(spare, 0, -1), *after))
    every = tuple(range(widest, 0, -1))
    if arrow:
        before, dots, after = split[-1]
        output = (*before, *(every if dots else ()), *after)
    else:
        counts = Counter(label for term in found for label in term if isinstance(label, str))
        output = (*every, *sorted(label for label, count in counts.items() if count == 1))
    known = {label for term in found for label in term} | set(every)
    if len(set(output)) < len(output) or not known.issuperset(output):
        raise ValueError(f"the output of equation {equation!r} repeats a label, or has one that no operand has")
    return found, output


def _diagonals(x, labels, xp):
    """x with one axis for each label; of a repeated label the diagonal, where its first axis was."""
    for label, count in Counter(labels).items():
        for _ in range(count - 1):
            first = labels.index(label)
            second = labels.index(label, first + 1)
            size = x.shape[first]
            if x.shape[second] != size:
                raise ValueError(
                    f"label {label!r} stands for axes of sizes {size} and {x.shape[second]} in one operand"
                )
            rest = [axis for axis in range(x.ndim) if axis not in (first, second)]
            x = xp.permute_dims(x, (first, second, *rest))
            x = xp.reshape(x, (size * size, *x.shape[2:]))[slice(None, None, size + 1), ...]
            x = xp.moveaxis(x, 0, first)
            labels = labels[:second] + labels[second + 1 :]
    return x


def _label_sizes(operands, equation):
    """The size that each label stands for; an axis of size 1 fits any."""
    sizes = {}
    for labels, array in operands:
        for label, size in zip(labels, array.shape, strict=True):
            if sizes.setdefault(label, size) == 1:
                sizes[label] = size
            elif size not in (1, sizes[label]):
                raise ValueError(f"label {label!r} of equation {equation!r} stands for sizes {sizes[label]} and {size}")
    return sizes


def _summed(x, labels, kept, xp):
    """The sum over the axes whose label is not in ``kept``."""
    axes = tuple(axis for axis, label in enumerate(labels) if label not in kept)
    return xp.sum(x, axis=axes, dtype=x.dtype) if axes else x


def _contracted(one, other, kept, xp):
    """The product of two labelled arrays, summed over the labels not in ``kept``: one stack of matrix products.

    One, because exact mode rounds each of its sums once.
    """
    labels = tuple(dict.fromkeys(one[0] + other[0]))
    a, b = (_aligned(array, term, labels, xp) for term, array in (one, other))
    sizes = [n if m == 1 else m for n, m in zip(a.shape, b.shape, strict=True)]
    inner = [i for i, label in enumerate(labels) if label not in kept]
    if not inner:
        return labels, a * b
    outer = [i for i in range(len(labels)) if i not in inner]
    rows = [i for i in outer if a.shape[i] != b.shape[i] == 1]
    columns = [i for i in outer if b.shape[i] != a.shape[i] == 1]
    batch = [i for i in outer if a.shape[i] == b.shape[i]]
    a, b = (
        xp.broadcast_to(x, tuple(sizes[i] if i in inner else x.shape[i] for i in range(len(labels)))) for x in (a, b)
    )
    product = xp.matmul(_grouped(a, (batch, rows, inner), xp), _grouped(b, (batch, inner, columns), xp))
    order = (*batch, *rows, *columns)
    return tuple(labels[i] for i in order), xp.reshape(product, tuple(sizes[i] for i in order))


def _grouped(x, groups, xp):
    """x with one axis for each group of axes; those in no group have size 1."""
    order = [i for group in groups for i in group]
    order += [i for i in range(x.ndim) if i not in order]
    shape = tuple(math.prod(x.shape[i] for i in group) for group in groups)
    return xp.reshape(xp.permute_dims(x, tuple(order)), shape)


def _aligned(x, labels, every, xp):
    """x with one axis for each label in ``every``, in that order, of size 1 where it has none."""
    present = [label for label in every if label in labels]
    x = xp.permute_dims(x, tuple(labels.index(label) for label in present))
    return xp.reshape(x, tuple(x.shape[present.index(label)] if label in present else 1 for label in every))
