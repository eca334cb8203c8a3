"""ai.onnx.ml: ensembles of decision trees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from sklearn import datasets, ensemble

import onemodel
from tests.ops.harness import model, same
from tests.ops.ml_harness import Ml, floats

ML = Ml(opset=3)
ml, gives, like_onnxruntime, refused = ML.run, ML.gives, ML.like_onnxruntime, ML.refused
MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]
HOLDS = [np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal]
TRANSFORMS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"]


def forest(rng: np.random.Generator, trees: int, depth: int, modes: Sequence[str], targets: int) -> dict[str, Any]:
    """Random trees of different depths; splits are multiples of 1/4, and leaves weigh for one or two targets."""
    nodes: dict[str, list[Any]] = {
        f"nodes_{name}": []
        for name in "treeids nodeids modes featureids values truenodeids falsenodeids missing_value_tracks_true".split()
    }
    votes: dict[str, list[Any]] = {f"target_{name}": [] for name in ("treeids", "nodeids", "ids", "weights")}

    def grow(tree: int, left: int) -> int:
        number = nodes["nodes_treeids"].count(tree)
        inner = left > 0 and rng.random() < 0.8
        row = [tree, number, "LEAF", 0, 0.0, 0, 0, 0]
        if inner:
            row[2:5] = [str(rng.choice(modes)), int(rng.integers(3)), float(rng.integers(-4, 5)) / 4]
            row[7] = int(rng.integers(2))
        for column, item in zip(nodes.values(), row, strict=True):
            column.append(item)
        place = len(nodes["nodes_treeids"]) - 1
        if inner:
            nodes["nodes_truenodeids"][place] = grow(tree, left - 1)
            nodes["nodes_falsenodeids"][place] = grow(tree, left - 1)
        else:
            for target in rng.permutation(targets)[: rng.integers(1, 3)].tolist():
                vote = (tree, number, target, float(np.float32(rng.standard_normal())))
                for column, item in zip(votes.values(), vote, strict=True):
                    column.append(item)
        return number

    for tree in range(trees):
        grow(tree, depth)
    return {**nodes, **votes}


def walked(attributes: Mapping[str, Any], x: NDArray[Any], targets: int, aggregate: str) -> NDArray[Any]:
    """What the trees say, sample by sample and node by node."""
    keys = list(zip(attributes["nodes_treeids"], attributes["nodes_nodeids"], strict=True))
    votes = [attributes[f"target_{name}"] for name in ("treeids", "nodeids", "ids", "weights")]
    trees = sorted(set(attributes["nodes_treeids"]))
    result = np.zeros((len(x), targets))
    for sample, row in enumerate(x):
        found: list[list[float]] = [[] for _ in range(targets)]
        for tree in trees:
            i = keys.index((tree, 0))
            while attributes["nodes_modes"][i] != "LEAF":
                value = row[attributes["nodes_featureids"][i]]
                taken = HOLDS[MODES.index(attributes["nodes_modes"][i])](value, attributes["nodes_values"][i])
                if np.isnan(value):
                    taken = attributes["nodes_missing_value_tracks_true"][i]
                children = attributes["nodes_truenodeids" if taken else "nodes_falsenodeids"]
                i = keys.index((tree, children[i]))
            for owner, number, target, weight in zip(*votes, strict=True):
                if (owner, number) == keys[i]:
                    found[target].append(weight)
        reduce: Any = {"MIN": min, "MAX": max}.get(aggregate, sum)
        result[sample] = [reduce(some) if some else 0 for some in found]
    return result / len(trees) if aggregate == "AVERAGE" else result


def samples(rng: np.random.Generator, count: int) -> NDArray[np.float32]:
    """Multiples of 1/4, so that some equal a split, and some NaN."""
    x = (rng.integers(-5, 6, (count, 3)) / 4).astype(np.float32)
    x[rng.random(x.shape) < 0.1] = np.nan
    return x


class TestRandomForests:
    @pytest.mark.parametrize("modes", [[mode] for mode in MODES] + [MODES], ids=[*MODES, "all"])
    def test_every_comparison(self, modes: list[str]) -> None:
        rng = np.random.default_rng(len(modes))
        trees = forest(rng, 5, 5, modes, 2)
        x = samples(rng, 40)
        want = walked(trees, x, 2, "SUM").astype(np.float32)
        gives(want, "TreeEnsembleRegressor", x, n_targets=2, **trees)

    @pytest.mark.parametrize("targets", [1, 3])
    @pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
    def test_every_aggregate(self, aggregate: str, targets: int) -> None:
        rng = np.random.default_rng(targets)
        trees = forest(rng, 4, 4, MODES, targets)
        x = samples(rng, 30)
        want = walked(trees, x, targets, aggregate)
        options: dict[str, Any] = {"n_targets": targets, "aggregate_function": aggregate}
        gives(want.astype(np.float32), "TreeEnsembleRegressor", x, **options, **trees)
        base = np.arange(1, targets + 1)
        gives(
            (want + base).astype(np.float32),
            "TreeEnsembleRegressor",
            x,
            base_values=base.astype(float).tolist(),
            **options,
            **trees,
        )

    def test_like_onnxruntime(self) -> None:
        rng = np.random.default_rng(3)
        trees = forest(rng, 20, 6, ["BRANCH_LEQ"], 1)
        like_onnxruntime("TreeEnsembleRegressor", samples(rng, 50), n_targets=1, opset=1, **trees)

    def test_more_samples_than_one_part_holds(self) -> None:
        rng = np.random.default_rng(4)
        trees = forest(rng, 300, 2, ["BRANCH_LT"], 1)
        x = samples(rng, 1000)
        whole = ml("TreeEnsembleRegressor", x, n_targets=1, atol=1e-4, **trees)
        for start, stop in ((0, 1), (777, 801), (990, 1000)):
            part = ml("TreeEnsembleRegressor", x[start:stop], n_targets=1, atol=1e-4, **trees)
            same(whole[start:stop], part, atol=1e-4)

    def test_no_samples(self) -> None:
        trees = forest(np.random.default_rng(5), 2, 2, MODES, 2)
        gives(np.zeros((0, 2), np.float32), "TreeEnsembleRegressor", np.zeros((0, 3), np.float32), n_targets=2, **trees)


def stump(**changes: Any) -> dict[str, Any]:
    """One tree: x[0] <= 0.5 goes to node 1, else to node 2."""
    return {
        "nodes_treeids": [0, 0, 0],
        "nodes_nodeids": [0, 1, 2],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_featureids": [0, 0, 0],
        "nodes_values": [0.5, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        **changes,
    }


def regression(ids: Sequence[int], weights: Sequence[float], nodes: Sequence[int], **changes: Any) -> dict[str, Any]:
    votes = {
        "target_treeids": [0] * len(ids),
        "target_nodeids": nodes,
        "target_ids": ids,
        "target_weights": weights,
        "n_targets": max(ids) + 1,
    }
    return stump(**votes) | changes


def double(values: Sequence[float]) -> onnx.TensorProto:
    return onnx.numpy_helper.from_array(np.array(values, np.float64))


SIDES = floats([0], [1])


class TestTreeEnsembleRegressor:
    @pytest.mark.parametrize("dtype", [np.float64, np.int32, np.int64])
    def test_types(self, dtype: Any) -> None:
        gives(
            floats([0.25], [0.5]),
            "TreeEnsembleRegressor",
            SIDES.astype(dtype),
            **regression([0, 0], [0.25, 0.5], [1, 2]),
        )

    def test_integers_are_not_rounded_before_they_are_compared(self) -> None:
        options = regression([0, 0], [1.0, 2.0], [1, 2], nodes_values=[16777216.0, 0.0, 0.0])
        gives(floats([1], [2]), "TreeEnsembleRegressor", np.array([[16777216], [16777217]]), **options)

    def test_double_parameters(self) -> None:
        options = regression([0, 0], [], [1, 2])
        del options["nodes_values"], options["target_weights"]
        split = 0.1
        options |= {
            "nodes_values_as_tensor": double([split, 0, 0]),
            "target_weights_as_tensor": double([1.0, 2.0**-40]),
            "base_values_as_tensor": double([1.0]),
            "nodes_hitrates_as_tensor": double([1.0, 1.0, 1.0]),
        }
        x = np.array([[split], [np.nextafter(split, 1)]])
        gives(floats([2], [1]), "TreeEnsembleRegressor", x, **options)

    def test_a_vector_is_one_sample(self) -> None:
        like_onnxruntime("TreeEnsembleRegressor", floats(0), opset=1, **regression([0, 0], [0.25, 0.5], [1, 2]))

    @pytest.mark.parametrize("name", TRANSFORMS)
    def test_transforms(self, name: str) -> None:
        options = regression([0, 1, 0, 1], [0.25, 0.5, 0.125, 0.75], [1, 1, 2, 2], post_transform=name)
        like_onnxruntime("TreeEnsembleRegressor", SIDES, opset=1, **options)

    def test_one_target_is_transformed_too(self) -> None:
        options = regression([0, 0], [0.25, 0.5], [1, 2], post_transform="LOGISTIC")
        gives(1 / (1 + np.exp(-floats([0.25], [0.5]))), "TreeEnsembleRegressor", SIDES, **options)

    @pytest.mark.parametrize(("aggregate", "left"), [("SUM", 0.75), ("AVERAGE", 0.75), ("MIN", 0.25), ("MAX", 0.5)])
    def test_two_weights_of_a_leaf_for_one_target(self, aggregate: str, left: float) -> None:
        options = regression([0, 0, 0], [0.25, 0.5, 1.0], [1, 1, 2], aggregate_function=aggregate)
        gives(floats([left], [1]), "TreeEnsembleRegressor", SIDES, **options)

    def test_base_values_of_targets_without_weights(self) -> None:
        options = regression([0, 1, 0], [0.25, 0.5, 1.0], [1, 1, 2], n_targets=3, base_values=[1.0, 2.0, 3.0])
        for aggregate in ("SUM", "AVERAGE", "MIN", "MAX"):
            gives(
                floats([1.25, 2.5, 3], [2, 2, 3]),
                "TreeEnsembleRegressor",
                SIDES,
                aggregate_function=aggregate,
                **options,
            )

    def test_one_base_value_for_all_targets(self) -> None:
        options = regression([0, 1], [0.25, 0.5], [1, 2], base_values=[1.0])
        gives(floats([1.25, 1], [1, 1.5]), "TreeEnsembleRegressor", SIDES, **options)

    def test_a_leaf_without_a_weight(self) -> None:
        like_onnxruntime("TreeEnsembleRegressor", SIDES, opset=1, **regression([0], [0.25], [1]))

    def test_a_weight_of_an_inner_node_is_left_out(self) -> None:
        gives(floats([1], [2]), "TreeEnsembleRegressor", SIDES, **regression([0, 0, 0], [9.0, 1.0, 2.0], [0, 1, 2]))

    def test_a_tree_of_one_leaf(self) -> None:
        leaf = {name: [values[-1]] for name, values in stump(nodes_nodeids=[0, 1, 0]).items()}
        votes = {"target_treeids": [0], "target_nodeids": [0], "target_ids": [0], "target_weights": [0.5]}
        gives(floats([0.5], [0.5]), "TreeEnsembleRegressor", SIDES, n_targets=1, **leaf, **votes)

    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("tracks", [None, 0, 1])
    def test_nan(self, mode: str, tracks: int | None) -> None:
        options = regression([0, 0], [1.0, 2.0], [1, 2], nodes_modes=[mode, "LEAF", "LEAF"])
        if tracks is not None:
            options["nodes_missing_value_tracks_true"] = [tracks, 0, 0]
        gives(floats([1 if tracks else 2]), "TreeEnsembleRegressor", floats([np.nan]), **options)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"nodes_truenodeids": [3, 0, 0]}, "has the child 3, which does not exist"),
            ({"nodes_truenodeids": [0, 0, 0]}, "is below itself"),
            ({"nodes_nodeids": [0, 1, 1]}, "the same number"),
            ({"nodes_modes": ["BRANCH_LE", "LEAF", "LEAF"]}, "BRANCH_LE"),
            ({"nodes_values": [0.5]}, "equally long"),
            ({"nodes_featureids": [1, 0, 0]}, "X has 1 features; the trees look at 2"),
            ({"nodes_featureids": [-1, 0, 0]}, "no feature may be negative"),
            ({"n_targets": 2, "target_ids": [0, 2]}, "for target or class 2; there are 2"),
            ({"target_nodeids": [1, 9]}, "node 9 of tree 0, which does not exist"),
            ({"aggregate_function": "MEAN"}, "'MEAN' is not one of"),
            ({"n_targets": 3, "base_values": [1.0, 2.0]}, "2 base values for 3"),
        ],
    )
    def test_bad_input(self, changes: dict[str, Any], message: str) -> None:
        refused(message, "TreeEnsembleRegressor", SIDES, **regression([0, 0], [1.0, 2.0], [1, 2], **changes))

    def test_no_trees(self) -> None:
        refused("at least one tree", "TreeEnsembleRegressor", SIDES, n_targets=1)

    def test_trees_are_read_once(self) -> None:
        trees = forest(np.random.default_rng(6), 50, 8, ["BRANCH_LEQ"], 1)
        x = samples(np.random.default_rng(7), 4)
        session = onemodel.Session(model("TreeEnsembleRegressor", [x], n_targets=1, **ML.options, **trees), mode="fast")
        assert np.array_equal(session.run(None, {"x0": x})[0], session.run(None, {"x0": x})[0])


def votes(ids: Sequence[int], weights: Sequence[float], labels: Sequence[Any], **changes: Any) -> dict[str, Any]:
    """A stump's classes: as many ids for the left leaf as for the right one."""
    half = len(ids) // 2
    attributes = {
        "class_treeids": [0] * len(ids),
        "class_nodeids": [1] * half + [2] * half,
        "class_ids": list(ids),
        "class_weights": list(weights),
        "classlabels_strings" if isinstance(labels[0], str) else "classlabels_int64s": list(labels),
    }
    return stump(**attributes) | changes


def logistic(x: Any) -> Any:
    return (1 / (1 + np.exp(-np.asarray(x, np.float64)))).astype(np.float32)


class TestTreeEnsembleClassifier:
    @pytest.mark.parametrize("name", TRANSFORMS)
    @pytest.mark.parametrize("labels", [["a", "b", "c"], [7, 8, 9]], ids=["strings", "ints"])
    def test_three_classes(self, name: str, labels: list[Any]) -> None:
        options = votes([0, 1, 2, 0, 1, 2], [0.25, 0.5, 0.125, 0.5, 0.125, 0.75], labels, post_transform=name)
        like_onnxruntime("TreeEnsembleClassifier", SIDES, outputs=2, opset=1, **options)

    def test_base_values(self) -> None:
        options = votes(
            [0, 1, 2, 0, 1, 2], [0.25, 0.5, 0.125, 0.5, 0.125, 0.75], [7, 8, 9], base_values=[1.0, 2.0, 3.0]
        )
        like_onnxruntime("TreeEnsembleClassifier", SIDES, outputs=2, opset=1, **options)

    def test_two_classes_with_weights_for_both(self) -> None:
        options = votes([0, 1, 0, 1], [0.25, 0.75, 0.5, 0.125], [5, 6])
        gives(
            [np.array([6, 5]), floats([0.25, 0.75], [0.5, 0.125])],
            "TreeEnsembleClassifier",
            SIDES,
            outputs=2,
            **options,
        )

    @pytest.mark.parametrize("base", [None, [0.125]])
    @pytest.mark.parametrize("weights", [[0.25, 0.75], [-0.25, 0.5]], ids=["positive", "mixed"])
    @pytest.mark.parametrize("labels", [["no", "yes"], [5, 6]], ids=["strings", "ints"])
    def test_one_weight_for_two_classes(
        self, labels: list[Any], weights: list[float], base: list[float] | None
    ) -> None:
        options = votes([0, 0], weights, labels, **({} if base is None else {"base_values": base}))
        like_onnxruntime("TreeEnsembleClassifier", SIDES, outputs=2, opset=1, **options)

    @pytest.mark.parametrize("class_id", [0, 1])
    def test_one_weight_counts_for_the_second_class_whichever_it_names(self, class_id: int) -> None:
        options = votes([class_id] * 2, [0.25, 0.75], [5, 6])
        want = [np.array([5, 6]), floats([0.75, 0.25], [0.25, 0.75])]
        gives(want, "TreeEnsembleClassifier", SIDES, outputs=2, **options)
        base = [0.125, 0.125]
        base[class_id] = 0.5
        got = ml("TreeEnsembleClassifier", SIDES, outputs=2, base_values=base, **options)
        same(got, [np.array([6, 6]), floats([0.25, 0.75], [-0.25, 1.25])])

    @pytest.mark.parametrize("weights", [[0.25, 0.75], [-0.25, 0.5]], ids=["positive", "mixed"])
    def test_transforms_of_one_weight(self, weights: list[float]) -> None:
        sides = np.array([[-weight, weight] for weight in weights])
        labels = np.array([6 if weight > 0 else 5 for weight in weights])
        options = votes([0, 0], weights, [5, 6])
        gives(
            [labels, logistic(sides)], "TreeEnsembleClassifier", SIDES, outputs=2, post_transform="LOGISTIC", **options
        )
        shares = (np.exp(sides) / np.exp(sides).sum(axis=1, keepdims=True)).astype(np.float32)
        gives([labels, shares], "TreeEnsembleClassifier", SIDES, outputs=2, post_transform="SOFTMAX", **options)

    def test_one_class(self) -> None:
        options = votes([0, 0], [-0.25, 0.5], [1])
        like_onnxruntime("TreeEnsembleClassifier", SIDES, outputs=2, opset=1, **options)

    def test_class_weights_in_double(self) -> None:
        options = votes([0, 1, 0, 1], [], [5, 6])
        del options["class_weights"]
        options["class_weights_as_tensor"] = double([1.0, 1.0 + 2.0**-40, 1.0, 1.0])
        assert ml("TreeEnsembleClassifier", SIDES, outputs=2, **options)[0].tolist() == [6, 5]

    @pytest.mark.parametrize("dtype", [np.float64, np.int32, np.int64])
    def test_types(self, dtype: Any) -> None:
        options = votes([0, 1, 2, 0, 1, 2], [0.25, 0.5, 0.125, 0.5, 0.125, 0.75], ["a", "b", "c"])
        like_onnxruntime("TreeEnsembleClassifier", SIDES.astype(dtype), outputs=2, opset=1, **options)

    def test_without_labels(self) -> None:
        options = votes([0, 0], [0.25, 0.5], [1])
        del options["classlabels_int64s"]
        refused("only one", "TreeEnsembleClassifier", SIDES, outputs=2, **options)

    def test_onnx_removed_it(self) -> None:
        proto = model(
            "TreeEnsembleClassifier", [SIDES], outputs=2, domain="ai.onnx.ml", opset=5, **votes([0, 0], [1.0, 2.0], [1])
        )
        with pytest.raises(onemodel.UnsupportedOperatorError, match="removed it at opset 5"):
            onemodel.Session(proto, mode="fast")


class TestLikeScikitLearn:
    def test_random_forest(self) -> None:
        x, y = datasets.load_iris(return_X_y=True)
        trees = ensemble.RandomForestClassifier(25, random_state=0).fit(x, y)
        nodes: dict[str, list[Any]] = {f"nodes_{name}": [] for name in ("treeids", "nodeids", "modes", "featureids")}
        nodes |= {f"nodes_{name}": [] for name in ("values", "truenodeids", "falsenodeids")}
        leaves: dict[str, list[Any]] = {f"class_{name}": [] for name in ("treeids", "nodeids", "ids", "weights")}
        for number, one in enumerate(tree.tree_ for tree in trees.estimators_):
            for i in range(one.node_count):
                leaf = one.children_left[i] < 0
                children = (0, 0) if leaf else (int(one.children_left[i]), int(one.children_right[i]))
                split = max(int(one.feature[i]), 0), float(one.threshold[i])
                row = (number, i, "LEAF" if leaf else "BRANCH_LEQ", *split, *children)
                for column, item in zip(nodes.values(), row, strict=True):
                    column.append(item)
                for c, share in enumerate(one.value[i, 0]):
                    if leaf:
                        for column, item in zip(leaves.values(), (number, i, c, float(share) / 25), strict=True):
                            column.append(item)
        thresholds = double(nodes.pop("nodes_values"))
        got = ml(
            "TreeEnsembleClassifier",
            x,
            outputs=2,
            classlabels_int64s=[0, 1, 2],
            nodes_values_as_tensor=thresholds,
            **nodes,
            **leaves,
        )
        assert np.array_equal(got[0], trees.predict(x))
        np.testing.assert_allclose(got[1], trees.predict_proba(x), atol=1e-6)


def tensor(values: Sequence[float], dtype: Any) -> onnx.TensorProto:
    return onnx.numpy_helper.from_array(np.array(values, dtype))


def ensemble_of(dtype: Any, **changes: Any) -> dict[str, Any]:
    """x[0] <= 0.5 ? leaf 0 : (x[1] in {1, 3} ? leaf 1 : leaf 2), and a tree that is leaf 3."""
    attributes = {
        "nodes_featureids": [0, 1, 0],
        "nodes_modes": tensor([0, 6, 0], np.uint8),
        "nodes_splits": tensor([0.5, 0, 0], dtype),
        "nodes_truenodeids": [0, 1, 3],
        "nodes_trueleafs": [1, 1, 1],
        "nodes_falsenodeids": [1, 2, 3],
        "nodes_falseleafs": [0, 1, 1],
        "leaf_targetids": [0, 1, 0, 1],
        "leaf_weights": tensor([0.25, 0.5, 0.75, 2], dtype),
        "membership_values": tensor([3, 1, np.nan], dtype),
        "tree_roots": [0, 2],
        "n_targets": 2,
    }
    return attributes | changes


class TestTreeEnsemble:
    X = ([0, 9], [1, 1], [1, 3], [1, 2], [1, np.nan], [np.nan, 3])
    WANT = ([0.25, 2], [0, 2.5], [0, 2.5], [0.75, 2], [0.75, 2], [0, 2.5])

    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
    def test_types(self, dtype: Any) -> None:
        gives(np.array(self.WANT, dtype), "TreeEnsemble", np.array(self.X, dtype), opset=5, **ensemble_of(dtype))

    @pytest.mark.parametrize(
        ("code", "want"),
        [(0, [0.375, 1.25]), (1, [0.75, 2.5]), (2, [0.75, 0.5]), (3, [0.75, 2])],
    )
    def test_aggregates(self, code: int, want: list[float]) -> None:
        options = ensemble_of(
            np.float32, leaf_targetids=[0, 1, 1, 1], leaf_weights=tensor([0.75, 0.5, 0.75, 2], np.float32)
        )
        got = ml("TreeEnsemble", floats([0, 0], [1, 1]), opset=5, aggregate_function=code, **options)
        assert got[0, 0] == want[0]
        assert got[1, 1] == want[1]

    @pytest.mark.parametrize(("code", "name"), list(enumerate(TRANSFORMS)))
    def test_transforms(self, code: int, name: str) -> None:
        options = ensemble_of(np.float32, leaf_weights=tensor([0.25, 0.5, 0.75, 0.125], np.float32))
        x = np.array(self.X, np.float32)
        scores = ml("TreeEnsemble", x, opset=5, **options)
        eye = np.eye(2).ravel().tolist()
        want = ml("LinearRegressor", scores, coefficients=eye, targets=2, post_transform=name)
        gives(want, "TreeEnsemble", x, opset=5, post_transform=code, **options)

    def test_nan_may_count_as_true(self) -> None:
        options = ensemble_of(np.float32, nodes_missing_value_tracks_true=[0, 1, 0])
        gives(floats([0, 2.5]), "TreeEnsemble", floats([1, np.nan]), opset=5, **options)

    def test_sets_belong_to_nodes_in_their_order(self) -> None:
        """The second member node stands above the first one; 0 is a value like any other."""
        options = ensemble_of(
            np.float32,
            nodes_featureids=[0, 0],
            nodes_modes=tensor([6, 6], np.uint8),
            nodes_splits=tensor([0, 0], np.float32),
            nodes_truenodeids=[0, 0],
            nodes_trueleafs=[1, 0],
            nodes_falsenodeids=[1, 2],
            nodes_falseleafs=[1, 1],
            leaf_targetids=[0, 0, 0],
            leaf_weights=tensor([1, 2, 3], np.float32),
            membership_values=tensor([0, np.nan, 5, 0, np.nan], np.float32),
            tree_roots=[1],
            n_targets=1,
        )
        gives(floats([1], [2], [3]), "TreeEnsemble", floats([0], [5], [7]), opset=5, **options)

    @pytest.mark.parametrize("mode", range(6))
    def test_modes(self, mode: int) -> None:
        options = ensemble_of(np.float32, nodes_modes=tensor([mode, 6, 0], np.uint8))
        x = floats([0.25, 1], [0.5, 1], [0.75, 1])
        want = [[0.25, 2] if HOLDS[mode](value, 0.5) else [0, 2.5] for value in (0.25, 0.5, 0.75)]
        gives(floats(*want), "TreeEnsemble", x, opset=5, **options)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"membership_values": tensor([1], np.float32), "nodes_modes": tensor([0, 0, 0], np.uint8)}, "1 sets; 0"),
            ({"nodes_modes": tensor([0, 7, 0], np.uint8)}, "nodes_modes holds 7"),
            ({"tree_roots": [3]}, "is node 3; there are 3"),
            ({"nodes_falsenodeids": [5, 2, 3]}, "is node 5; there are 3"),
            ({"nodes_truenodeids": [0, 9, 3]}, "a child that does not exist"),
            ({"nodes_trueleafs": [1, 1]}, "equally long"),
            ({"leaf_targetids": [0, 1, 0, 5]}, "target or class 5"),
            ({"aggregate_function": 4}, "aggregate_function 4"),
            ({"post_transform": 5}, "post_transform 5"),
        ],
    )
    def test_bad_input(self, changes: dict[str, Any], message: str) -> None:
        x = np.array(self.X, np.float32)
        refused(message, "TreeEnsemble", x, opset=5, **ensemble_of(np.float32, **changes))

    def test_a_vector(self) -> None:
        refused("must be [samples, features]", "TreeEnsemble", floats(1, 2), opset=5, **ensemble_of(np.float32))
