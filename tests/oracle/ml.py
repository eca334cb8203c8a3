"""ai.onnx.ml: features, linear models, support vectors, trees."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.oracle.draw import Case, Draw, draws, tensor
from tests.oracle.layers import near
from tests.oracle.shape import ints

NUMBERS = ("float32", "float64", "int64", "int32")


def samples(d: Draw, variable: str = "T", features: int | None = None) -> Any:
    """Rows of features."""
    dtype = d.dtype(variable, among=NUMBERS)
    shape = (d.integer(1, 4), features or d.integer(1, 4))
    return near(d, dtype, shape) if dtype.kind == "f" else d.array(dtype, shape, "finite")


def reals(d: Draw, count: int) -> list[float]:
    return [d.real(-2, 2) for _ in range(count)]


@draws("ArrayFeatureExtractor")
def array_feature_extractor(d: Draw) -> Case:
    x = d.array(d.dtype(), (d.integer(1, 3), d.integer(1, 4)))
    return d.case(x, ints(d.integers(0, x.shape[1] - 1, d.integer(1, 4))))


@draws("Binarizer")
def binarizer(d: Draw) -> Case:
    return d.case(samples(d), threshold=d.maybe(d.real(-1, 1)))


@draws("FeatureVectorizer")
def feature_vectorizer(d: Draw) -> Case:
    dtype, rows = d.dtype("T1"), d.integer(1, 3)
    arrays = [d.array(dtype, (rows, d.integer(1, 3)), "finite") for _ in range(d.integer(1, 3))]
    return d.case(*arrays, inputdimensions=[array.shape[1] for array in arrays])


@draws("Imputer")
def imputer(d: Draw) -> Case:
    x = samples(d)
    count = d.pick(1, x.shape[1])
    if x.dtype.kind == "f":
        x = np.where(d.rng.random(x.shape) < 0.3, np.nan, x).astype(x.dtype)
        return d.case(x, imputed_value_floats=reals(d, count), replaced_value_float=float("nan"))
    return d.case(x, imputed_value_int64s=d.integers(-9, 9, count), replaced_value_int64=int(x.flat[0]))


@draws("Normalizer")
def normalizer(d: Draw) -> Case:
    x = samples(d)
    return d.case(np.abs(x) + x.dtype.type(1), norm=d.maybe("MAX", "L1", "L2"))


@draws("Scaler")
def scaler(d: Draw) -> Case:
    x = samples(d)
    count = d.pick(1, x.shape[1])
    return d.case(x, offset=reals(d, count), scale=reals(d, count), rtol=1e-4)


@draws("OneHotEncoder")
def one_hot_encoder(d: Draw) -> Case:
    words = d.chance()
    x = np.array([d.pick("a", "b", "c") for _ in range(3)], object) if words else ints(d.integers(0, 3, 3))
    cats = {"cats_strings": ["a", "b", "c"]} if words else {"cats_int64s": [0, 1, 2, 3]}
    return d.case(x, zeros=d.maybe(1), **cats)


@draws("CategoryMapper")
def category_mapper(d: Draw) -> Case:
    x = np.array([d.pick("a", "b", "?") for _ in range(3)], object) if d.chance() else ints(d.integers(0, 4, 3))
    default = {"default_int64": d.maybe(7), "default_string": d.maybe("none")}
    return d.case(x, cats_int64s=[1, 2, 3], cats_strings=["a", "b", "c"], **default)


@draws("LabelEncoder")
def label_encoder(d: Draw) -> Case:
    words = np.array([d.pick("a", "b", "?") for _ in range(3)], object)
    if d.opset == 1:
        return d.case(words if d.chance() else ints(d.integers(0, 3, 3)), classes_strings=["a", "b", "c"])
    named = {"strings": ["a", "b"], "int64s": [1, 2], "floats": [0.5, 1.5]}
    some = {"strings": words, "int64s": ints(d.integers(0, 3, 3)), "floats": near(d, np.float32, (3,))}
    some["floats"][:2] = named["floats"]
    keys, values = d.pick(*named), d.pick(*named)
    return d.case(some[keys], **{f"keys_{keys}": named[keys], f"values_{values}": named[values]})


@draws("LinearRegressor")
def linear_regressor(d: Draw) -> Case:
    x, targets = samples(d), d.integer(1, 3)
    transform = d.maybe("NONE", "SOFTMAX", "LOGISTIC") if targets > 1 else None
    options = {"coefficients": reals(d, targets * x.shape[1]), "intercepts": d.maybe(reals(d, targets))}
    return d.case(x, targets=targets, post_transform=transform, rtol=1e-4, atol=1e-5, zeros=False, **options)


@draws("LinearClassifier")
def linear_classifier(d: Draw) -> Case:
    x, classes = samples(d, "T1"), d.integer(3, 4)
    labels = (
        {"classlabels_ints": list(range(classes))} if d.chance() else {"classlabels_strings": list("abcd")[:classes]}
    )
    options = {"coefficients": reals(d, classes * x.shape[1]), "intercepts": reals(d, classes)}
    transform = d.maybe("NONE", "SOFTMAX", "LOGISTIC")
    return d.case(x, outputs=2, post_transform=transform, rtol=1e-4, atol=1e-5, zeros=False, **options, **labels)


@draws("SVMRegressor")
def svm_regressor(d: Draw) -> Case:
    x, supports = samples(d), d.integer(1, 3)
    options: dict[str, Any] = {"coefficients": reals(d, supports), "support_vectors": reals(d, supports * x.shape[1])}
    options |= {"n_supports": supports, "rho": reals(d, 1), "kernel_params": [0.3, 0.5, 2.0]}
    kernel = d.maybe("LINEAR", "RBF", "POLY", "SIGMOID")
    return d.case(x, kernel_type=kernel, rtol=1e-3, atol=1e-3, zeros=False, **options)


@draws("SVMClassifier")
def svm_classifier(d: Draw) -> Case:
    x, classes = samples(d, "T1"), 3
    supports = d.integers(1, 2, classes)
    whole = sum(supports)
    options: dict[str, Any] = {"support_vectors": reals(d, whole * x.shape[1]), "vectors_per_class": supports}
    options |= {"coefficients": reals(d, whole * (classes - 1)), "rho": reals(d, classes * (classes - 1) // 2)}
    options |= {"kernel_type": d.maybe("LINEAR", "RBF"), "kernel_params": [0.3, 0.5, 2.0]}
    return d.case(x, outputs=2, classlabels_ints=[0, 1, 2], rtol=1e-3, atol=1e-3, zeros=False, **options)


def stumps(d: Draw, features: int, targets: int, prefix: str) -> dict[str, Any]:
    """Trees of one split and two leaves, which weigh for one target each.

    Weights are above 0: of the classes without any, ONNX Runtime takes none as the label, though their score is 0.
    """
    trees = d.integer(1, 3)
    mode = d.pick("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT")
    nodes = {
        "treeids": [tree for tree in range(trees) for _ in range(3)],
        "nodeids": [0, 1, 2] * trees,
        "featureids": [number for _ in range(trees) for number in (d.integer(0, features - 1), 0, 0)],
        "modes": [mode, "LEAF", "LEAF"] * trees,
        "values": [number for _ in range(trees) for number in (d.real(-1, 1), 0.0, 0.0)],
        "truenodeids": [1, 0, 0] * trees,
        "falsenodeids": [2, 0, 0] * trees,
    }
    leaves = {
        "treeids": [tree for tree in range(trees) for _ in range(2)],
        "nodeids": [1, 2] * trees,
        "ids": d.integers(0, targets - 1, 2 * trees),
        "weights": [d.real(0.1, 2) for _ in range(2 * trees)],
    }
    return {f"nodes_{k}": v for k, v in nodes.items()} | {f"{prefix}_{k}": v for k, v in leaves.items()}


@draws("TreeEnsembleRegressor")
def tree_regressor(d: Draw) -> Case:
    x, targets = samples(d), d.integer(2, 3)
    options = stumps(d, x.shape[1], targets, "target")
    aggregate = d.maybe("SUM", "AVERAGE")
    return d.case(x, n_targets=targets, aggregate_function=aggregate, rtol=1e-4, zeros=False, **options)


@draws("TreeEnsembleClassifier")
def tree_classifier(d: Draw) -> Case:
    x = samples(d, "T1")
    options = stumps(d, x.shape[1], 3, "class")
    transform = d.maybe("NONE", "SOFTMAX", "LOGISTIC")
    labels = {"classlabels_int64s": [0, 1, 2]} if d.chance() else {"classlabels_strings": ["a", "b", "c"]}
    return d.case(x, outputs=2, post_transform=transform, rtol=1e-4, atol=1e-5, zeros=False, **options, **labels)


@draws("TreeEnsemble")
def tree_ensemble(d: Draw) -> Case:
    """One tree of one split."""
    dtype = d.dtype(among=("float32", "float64"))
    x = near(d, dtype, (d.integer(1, 4), d.integer(1, 3)))
    return d.case(
        x,
        n_targets=2,
        tree_roots=[0],
        nodes_featureids=[d.integer(0, x.shape[1] - 1)],
        nodes_modes=tensor(np.array([d.integer(0, 5)], np.uint8)),
        nodes_splits=tensor(near(d, dtype, (1,))),
        nodes_truenodeids=[0],
        nodes_trueleafs=[1],
        nodes_falsenodeids=[1],
        nodes_falseleafs=[1],
        leaf_targetids=d.integers(0, 1, 2),
        leaf_weights=tensor(near(d, dtype, (2,))),
        aggregate_function=d.maybe(0, 1, 2, 3),
        zeros=False,
    )


@draws("ZipMap")
def zip_map(d: Draw) -> Case:
    x = near(d, np.float32, (d.integer(1, 3), 2))
    return d.case(x, **d.pick({"classlabels_int64s": [4, 2]}, {"classlabels_strings": ["x", "y"]}))
