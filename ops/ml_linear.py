"""ai.onnx.ml: linear models and support vector machines, and the transforms of their scores."""

from __future__ import annotations

import math

from onemodel.ops.registry import operator
from onemodel.ops.text import chosen

ML = "ai.onnx.ml"
CHUNK = 1 << 20
"""Elements of the largest intermediate array."""


def samples(x, xp):
    """``x`` as a matrix of samples, one a row: float32 stays, all other numbers become float64."""
    if x.ndim not in (1, 2):
        raise ValueError(f"X of shape {x.shape} must be [samples, features], or [features] for one sample")
    x = x if x.dtype == xp.float32 else xp.astype(x, xp.float64)
    return xp.reshape(x, (1, -1)) if x.ndim == 1 else x


def label_list(integers, strings):
    """The class labels that a classifier has: those of one of the two attributes."""
    if bool(integers) == bool(strings):
        raise ValueError("one, and only one, of the two attributes with class labels must be given")
    return integers or strings


def label_type(attributes, integers):
    """The type of a classifier's first output: int64 where the attribute ``integers`` is given."""
    return "tensor(int64)" if attributes[integers] else "tensor(string)"


def transformed(scores, name, xp):
    """The scores of each row after the transform ``name``."""
    if name == "NONE":
        return scores
    if name == "LOGISTIC":
        return xp.sigmoid(scores)
    if name == "SOFTMAX":
        return xp.softmax(scores, 1)
    if name == "SOFTMAX_ZERO":
        return _softmax_zero(scores, xp)
    if name == "PROBIT":
        return _probit(scores, xp)
    raise ValueError(f"post_transform {name!r} is not NONE, LOGISTIC, SOFTMAX, SOFTMAX_ZERO or PROBIT")


def _softmax_zero(scores, xp):
    """Softmax of the scores beyond 1e-7; the others are scaled with them, so that 0 stays 0."""
    if 0 in scores.shape:
        return scores
    zero = xp.constant(0, scores)
    far = xp.abs(scores) > xp.constant(1e-7, scores)
    greatest = xp.max(xp.where(far, scores, xp.constant(-math.inf, scores)), axis=1, keepdims=True)
    weights = xp.where(far, xp.exp(scores - greatest), zero)
    total = xp.sum(weights, axis=1, keepdims=True)
    weights = xp.where(far, weights, scores * xp.exp(xp.where(greatest > 0, -greatest, zero)))
    return weights / xp.where(total > 0, total, xp.constant(1, scores))


def _probit(scores, xp):
    """The normal quantile, by Winitzki's approximation of the inverse error function with a = 0.147."""
    centred = scores * xp.constant(2, scores) - xp.constant(1, scores)
    logarithm = xp.log((xp.constant(1, scores) - centred) * (xp.constant(1, scores) + centred))
    half = xp.constant(2 / (math.pi * 0.147), scores) + logarithm * xp.constant(0.5, scores)
    root = xp.sqrt(half * half - logarithm * xp.constant(1 / 0.147, scores))
    size = xp.sqrt(root - half) * xp.constant(math.sqrt(2), scores)
    return xp.where(centred < 0, -size, size)


def two_columns(scores, name, of_probabilities, xp):
    """Scores of the negative and the positive class from one column: -s and s, or 1 - s and s for probabilities."""
    if name == "PROBIT" or (name == "NONE" and of_probabilities):
        return xp.concat([xp.constant(1, scores) - scores, scores], axis=1)
    return xp.concat([-scores, scores], axis=1)


def classified(scores, labels, name, xp, of_probabilities=False):
    """Labels and transformed scores of a classifier; one column of scores with two labels is the positive class's."""
    if scores.shape[1] == 1 and len(labels) == 2:
        scores = two_columns(scores, name, of_probabilities, xp)
    if len(labels) < scores.shape[1]:
        raise ValueError(f"there are {scores.shape[1]} scores for {len(labels)} class labels")
    if scores.shape[1] == 1:
        other = "0" if isinstance(labels[0], str) else 0
        best = chosen((other, labels[0]), xp.astype(scores[:, 0] > 0, xp.int64), xp)
    else:
        best = chosen(labels, xp.argmax(scores, axis=1), xp)
    return best, xp.astype(transformed(scores, name, xp), xp.float32)


def _weighted(x, coefficients, intercepts, count, xp):
    """Each sample's product with ``count`` rows of coefficients, plus the intercepts."""
    if count * x.shape[1] != len(coefficients):
        raise ValueError(
            f"{len(coefficients)} coefficients are not {count} for each of the {x.shape[1]} features of the samples"
        )
    weights = xp.reshape(xp.asarray(coefficients, dtype=x.dtype), (count, x.shape[1]))
    scores = xp.matmul(x, xp.matrix_transpose(weights))
    if not intercepts:
        return scores
    if len(intercepts) != count:
        raise ValueError(f"there are {len(intercepts)} intercepts for {count} scores")
    return scores + xp.asarray(intercepts, dtype=x.dtype)


@operator(
    "LinearClassifier",
    since=1,
    domain=ML,
    types=lambda types, attributes: (label_type(attributes, "classlabels_ints"), "tensor(float)"),
)
def linear_classifier(
    x,
    /,
    *,
    classlabels_ints=None,
    classlabels_strings=None,
    coefficients,
    intercepts=None,
    multi_class=0,
    post_transform="NONE",
    xp,
):
    """The label with the highest score, and the scores: products with each class's coefficients, transformed."""
    labels = label_list(classlabels_ints, classlabels_strings)
    x = samples(x, xp)
    count = len(intercepts) if intercepts else len(coefficients) // x.shape[1] if x.shape[1] else 0
    return classified(_weighted(x, coefficients, intercepts, count, xp), labels, post_transform, xp)


@operator("LinearRegressor", since=1, domain=ML)
def linear_regressor(x, /, *, coefficients=None, intercepts=None, post_transform="NONE", targets=1, xp):
    """The products with each target's coefficients, plus the intercepts, transformed."""
    scores = _weighted(samples(x, xp), coefficients or (), intercepts, targets, xp)
    return xp.astype(transformed(scores, post_transform, xp), xp.float32)


# Support vector machines


def _kernel(x, vectors, kind, parameters, xp):
    """The kernel of each sample with each support vector."""
    gamma, constant, degree = (xp.constant(value, x) for value in parameters or (0.0, 0.0, 0.0))
    if kind == "RBF":
        rows = max(1, CHUNK // max(math.prod(vectors.shape), 1))
        parts = []
        for start in range(0, max(x.shape[0], 1), rows):
            part = x[start : min(start + rows, x.shape[0]), ...]
            difference = xp.expand_dims(part, axis=1) - xp.expand_dims(vectors, axis=0)
            parts.append(xp.sum(difference * difference, axis=2))
        return xp.exp(-gamma * xp.concat(parts))
    product = xp.matmul(x, xp.matrix_transpose(vectors))
    if kind == "LINEAR":
        return product
    if kind == "POLY":
        return xp.pow(gamma * product + constant, degree)
    if kind == "SIGMOID":
        return xp.tanh(gamma * product + constant)
    raise ValueError(f"kernel_type {kind!r} is not LINEAR, POLY, RBF or SIGMOID")


def _vectors(x, support_vectors, count, xp):
    if count * x.shape[1] != len(support_vectors or ()):
        raise ValueError(
            f"{len(support_vectors or ())} numbers in support_vectors are not {count} vectors of the samples' "
            f"{x.shape[1]} features"
        )
    return xp.reshape(xp.asarray(support_vectors, dtype=x.dtype), (count, x.shape[1]))


@operator("SVMRegressor", since=1, domain=ML)
def svm_regressor(
    x,
    /,
    *,
    coefficients=None,
    kernel_params=None,
    kernel_type="LINEAR",
    n_supports=0,
    one_class=0,
    post_transform="NONE",
    rho=None,
    support_vectors=None,
    xp,
):
    """The weighted sum of the kernels with the support vectors, plus ``rho``; without vectors, a linear model.

    With ``one_class`` 1 where that is above 0, else -1.
    """
    x = samples(x, xp)
    if n_supports > 0:
        x = _kernel(x, _vectors(x, support_vectors, n_supports, xp), kernel_type, kernel_params, xp)
    score = _weighted(x, coefficients or (), rho[:1] if rho else None, 1, xp)
    if one_class:
        one = xp.asarray(1, dtype=xp.float32)
        return xp.where(score > 0, one, -one)
    return xp.astype(transformed(score, post_transform, xp), xp.float32)


def _duels(coefficients, counts, xp):
    """For each pair of classes i < j the weight of every support vector: shape (vectors, pairs).

    The vectors of class i have their weights against class j in row j - 1 of the coefficients, those of j in row i.
    """
    classes, total = len(counts), sum(counts)
    if len(coefficients) != (classes - 1) * total:
        raise ValueError(
            f"{len(coefficients)} coefficients are not {classes - 1} for each of the {total} support vectors"
        )
    columns = []
    for i in range(classes):
        for j in range(i + 1, classes):
            column = [0.0] * total
            for own, row in ((i, j - 1), (j, i)):
                start = sum(counts[:own])
                stop = start + counts[own]
                column[start:stop] = coefficients[row * total + start : row * total + stop]
            columns.append(column)
    return xp.matrix_transpose(xp.reshape(xp.asarray(columns, dtype=xp.float64), (len(columns), total)))


def _votes(won, classes, xp):
    """How many duels each class wins; ``won`` tells for each pair i < j whether i does."""
    pairs = [(i, j) for i in range(classes) for j in range(i + 1, classes)]
    first = xp.asarray([[c == i for c in range(classes)] for i, _ in pairs], dtype=xp.bool)
    second = xp.asarray([[c == j for c in range(classes)] for _, j in pairs], dtype=xp.bool)
    gained = xp.where(xp.expand_dims(won, axis=2), first, second)
    return xp.sum(xp.astype(gained, xp.int64), axis=1)


def _coupled(pairwise, classes, xp):
    """Probabilities of the classes from those of all pairs i < j, each sample on its own.

    The second method of Wu, Lin and Weng, Probability estimates for multi-class classification by pairwise coupling
    (2004), as LIBSVM runs it: until no class is off by more than 0.005 / classes, but 100 rounds at most.
    """
    rows, one = pairwise.shape[0], xp.constant(1, pairwise)
    column = {}
    for i in range(classes):
        for j in range(i + 1, classes):
            probability = pairwise[:, len(column) // 2]
            column[i, j], column[j, i] = probability, one - probability
    matrix = {
        (t, u): -column[u, t] * column[t, u]
        if t != u
        else sum((column[j, t] * column[j, t] for j in range(classes) if j != t), xp.constant(0, pairwise))
        for t in range(classes)
        for u in range(classes)
    }
    coupling = xp.stack([xp.stack([matrix[t, u] for u in range(classes)], axis=1) for t in range(classes)], axis=1)
    result = xp.full((rows, classes), 1 / classes, dtype=pairwise.dtype)
    for _ in range(max(100, classes)):
        product = xp.sum(coupling * xp.expand_dims(result, axis=1), axis=2)
        energy = xp.sum(result * product, axis=1, keepdims=True)
        going = xp.any(xp.abs(product - energy) >= xp.constant(0.005 / classes, result), axis=1, keepdims=True)
        if not xp.item(xp.any(going)):
            break
        better = result
        for t in range(classes):
            own = coupling[:, t, t : t + 1]
            step = (energy - product[:, t : t + 1]) / own
            shift = one + step
            chosen_one = xp.arange(classes, dtype=xp.int64) == t
            better = xp.where(chosen_one, better + step, better) / shift
            energy = (energy + step * (step * own + xp.constant(2, own) * product[:, t : t + 1])) / shift / shift
            product = (product + step * coupling[:, t, ...]) / shift
        result = xp.where(going, better, result)
    return result


@operator(
    "SVMClassifier",
    since=1,
    domain=ML,
    types=lambda types, attributes: (label_type(attributes, "classlabels_ints"), "tensor(float)"),
)
def svm_classifier(
    x,
    /,
    *,
    classlabels_ints=None,
    classlabels_strings=None,
    coefficients=None,
    kernel_params=None,
    kernel_type="LINEAR",
    post_transform="NONE",
    prob_a=None,
    prob_b=None,
    rho=None,
    support_vectors=None,
    vectors_per_class=None,
    once,
    xp,
):
    """The label that wins the most duels between two classes, and probabilities, or the duels' scores.

    Without support vectors a linear model with one row of coefficients for each class.
    """
    labels = label_list(classlabels_ints, classlabels_strings)
    classes, x = len(labels), samples(x, xp)
    counts, rho = vectors_per_class or (), rho or ()
    if sum(counts) == 0:
        scores = _weighted(x, coefficients or (), rho[:1] * classes, classes, xp)
        best = chosen(labels, xp.argmax(scores, axis=1), xp)
        return best, xp.astype(transformed(scores, post_transform, xp), xp.float32)
    pairs = classes * (classes - 1) // 2
    if len(counts) != classes or len(rho) != pairs or len(prob_a or ()) != len(prob_b or ()):
        raise ValueError(
            f"{classes} classes need {classes} numbers in vectors_per_class and {pairs} in rho, and as many in prob_a "
            f"as in prob_b; there are {len(counts)}, {len(rho)}, {len(prob_a or ())} and {len(prob_b or ())}"
        )
    kernels = _kernel(x, _vectors(x, support_vectors, sum(counts), xp), kernel_type, kernel_params, xp)
    duels = xp.astype(once(_duels, coefficients or (), counts, xp), x.dtype)
    scores = xp.matmul(kernels, duels) + xp.asarray(rho, dtype=x.dtype)
    best = chosen(labels, xp.argmax(_votes(scores > 0, classes, xp), axis=1), xp)
    if prob_a:
        if len(prob_a) != pairs:
            raise ValueError(f"{classes} classes need {pairs} numbers in prob_a; there are {len(prob_a)}")
        sides = xp.sigmoid(-(scores * xp.asarray(prob_a, dtype=x.dtype) + xp.asarray(prob_b, dtype=x.dtype)))
        least, most = xp.constant(1e-7, x), xp.constant(1 - 1e-7, x)
        scores = _coupled(xp.where(sides < least, least, xp.where(sides > most, most, sides)), classes, xp)
    elif classes == 2:
        scores = two_columns(scores, post_transform, False, xp)
    return best, xp.astype(transformed(scores, post_transform, xp), xp.float32)
