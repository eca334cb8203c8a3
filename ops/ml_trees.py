"""ai.onnx.ml: ensembles of decision trees."""

from __future__ import annotations

import math

from onemodel.ops.forest import planted, scores_of
from onemodel.ops.ml_linear import ML, classified, label_list, label_type, samples, transformed
from onemodel.ops.registry import operator

_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")


def _either(plain, tensor):
    """A float attribute or its tensor, as a list."""
    return [float(value) for value in (plain or () if tensor is None else tensor.reshape(-1))]


def _precise(x, *tensors, xp):
    """The samples as a matrix, in float64 where a parameter is."""
    x = samples(x, xp)
    wide = any(tensor is not None and tensor.dtype.name == "float64" for tensor in tensors)
    return xp.astype(x, xp.float64) if wide else x


def _listed(nodes, votes, targets, aggregate, xp):
    """A Forest from the older operators' attributes, where nodes are found by the numbers of their tree and node.

    Args:
        nodes: for each node its tree, number, mode, feature, threshold, true and false child, and what NaN does.
        votes: for each weight its tree, node, target and value.
    """
    votes = [column or () for column in votes]
    lengths = {len(column) for column in nodes}
    if len(lengths) > 1 or len({len(column) for column in votes}) > 1:
        raise ValueError("the lists with one item per node must be equally long, and so must those of the weights")
    trees, numbers, modes, features, thresholds, true, false, missing = nodes
    if strange := sorted(set(modes) - {*_MODES[:6], "LEAF"}):
        raise ValueError(f"nodes_modes holds {strange[0]!r}; it must be one of {', '.join(_MODES[:6])}, LEAF")
    keys = list(zip(trees, numbers, strict=True))
    branches = [i for i, mode in enumerate(modes) if mode != "LEAF"]
    inner = len(branches)
    ends = [i for i, mode in enumerate(modes) if mode == "LEAF"]
    place = {keys[i]: position for position, i in enumerate((*branches, *ends))}
    if len(place) < len(keys):
        raise ValueError("two nodes of one tree have the same number")

    def child(i, numbers):
        if (trees[i], numbers[i]) not in place:
            raise ValueError(f"node {keys[i][1]} of tree {keys[i][0]} has the child {numbers[i]}, which does not exist")
        return place[trees[i], numbers[i]]

    roots = {}
    for key in keys:
        roots.setdefault(key[0], place[key])
    weighted = []
    for tree, number, target, weight in zip(*votes, strict=True):
        if (tree, number) not in place:
            raise ValueError(f"a weight belongs to node {number} of tree {tree}, which does not exist")
        if place[tree, number] >= inner:
            weighted.append((place[tree, number] - inner, target, weight))
    codes = {mode: code for code, mode in enumerate(_MODES)}
    return planted(
        list(roots.values()),
        [features[i] for i in branches],
        [thresholds[i] for i in branches],
        [codes[modes[i]] for i in branches],
        [missing[i] == 1 for i in branches],
        [child(i, true) for i in branches],
        [child(i, false) for i in branches],
        (),
        len(ends),
        weighted,
        targets,
        aggregate,
        xp,
    )


@operator("TreeEnsembleRegressor", since=1, domain=ML)
def tree_ensemble_regressor(
    x,
    /,
    *,
    aggregate_function="SUM",
    base_values=None,
    base_values_as_tensor=None,
    n_targets=None,
    nodes_falsenodeids=None,
    nodes_featureids=None,
    nodes_hitrates=None,
    nodes_hitrates_as_tensor=None,
    nodes_missing_value_tracks_true=None,
    nodes_modes=None,
    nodes_nodeids=None,
    nodes_treeids=None,
    nodes_truenodeids=None,
    nodes_values=None,
    nodes_values_as_tensor=None,
    post_transform="NONE",
    target_ids=None,
    target_nodeids=None,
    target_treeids=None,
    target_weights=None,
    target_weights_as_tensor=None,
    once,
    xp,
):
    """For each target the sum (or mean, least, greatest) of its weights in the leaves, plus its base value."""
    if aggregate_function not in _AGGREGATES:
        raise ValueError(f"aggregate_function {aggregate_function!r} is not one of {', '.join(_AGGREGATES)}")
    targets = n_targets or max(target_ids or (), default=0) + 1

    def prepare(xp):
        nodes = _columns(
            nodes_treeids,
            nodes_nodeids,
            nodes_modes,
            nodes_featureids,
            _either(nodes_values, nodes_values_as_tensor),
            nodes_truenodeids,
            nodes_falsenodeids,
            nodes_missing_value_tracks_true,
        )
        votes = (target_treeids, target_nodeids, target_ids, _either(target_weights, target_weights_as_tensor))
        return _listed(nodes, votes, targets, aggregate_function, xp)

    x = _precise(x, nodes_values_as_tensor, target_weights_as_tensor, base_values_as_tensor, xp=xp)
    base = _either(base_values, base_values_as_tensor)
    scores = scores_of(once(prepare, xp), x, aggregate_function, base, targets, xp)
    return xp.astype(transformed(scores, post_transform, xp), xp.float32)


@operator(
    "TreeEnsembleClassifier",
    since=1,
    domain=ML,
    types=lambda types, attributes: (label_type(attributes, "classlabels_int64s"), "tensor(float)"),
)
def tree_ensemble_classifier(
    x,
    /,
    *,
    base_values=None,
    base_values_as_tensor=None,
    class_ids=None,
    class_nodeids=None,
    class_treeids=None,
    class_weights=None,
    class_weights_as_tensor=None,
    classlabels_int64s=None,
    classlabels_strings=None,
    nodes_falsenodeids=None,
    nodes_featureids=None,
    nodes_hitrates=None,
    nodes_hitrates_as_tensor=None,
    nodes_missing_value_tracks_true=None,
    nodes_modes=None,
    nodes_nodeids=None,
    nodes_treeids=None,
    nodes_truenodeids=None,
    nodes_values=None,
    nodes_values_as_tensor=None,
    post_transform="NONE",
    once,
    xp,
):
    """The label with the highest sum of leaf weights and base value, and these scores, transformed.

    Where all weights of two classes name one, they are the positive class's: its score s stands beside 1 - s, or beside
    -s where a weight is negative or a transform follows.
    """
    labels = label_list(classlabels_int64s, classlabels_strings)
    voted, classes = sorted(set(class_ids or ())), len(labels)
    single = classes == 2 and len(voted) == 1

    def prepare(xp):
        nodes = _columns(
            nodes_treeids,
            nodes_nodeids,
            nodes_modes,
            nodes_featureids,
            _either(nodes_values, nodes_values_as_tensor),
            nodes_truenodeids,
            nodes_falsenodeids,
            nodes_missing_value_tracks_true,
        )
        ids = [0] * len(class_ids) if single else class_ids
        weights = _either(class_weights, class_weights_as_tensor)
        forest = _listed(nodes, (class_treeids, class_nodeids, ids, weights), 1 if single else classes, "SUM", xp)
        return forest, min(weights, default=0) >= 0

    x = _precise(x, nodes_values_as_tensor, class_weights_as_tensor, base_values_as_tensor, xp=xp)
    forest, positive = once(prepare, xp)
    base = _either(base_values, base_values_as_tensor)
    if single and len(base) == 2:
        base = base[voted[0] : voted[0] + 1]
    scores = scores_of(forest, x, "SUM", base, 1 if single else classes, xp)
    return classified(scores, labels, post_transform, xp, of_probabilities=positive)


def _columns(trees, numbers, modes, features, thresholds, true, false, missing):
    """The attributes of nodes, with False for all where ``missing`` is not given."""
    columns = [tuple(column or ()) for column in (trees, numbers, modes, features, thresholds, true, false)]
    return (*columns, tuple(missing or [0] * len(columns[0])))


@operator("TreeEnsemble", since=5, domain=ML)
def tree_ensemble(
    x,
    /,
    *,
    aggregate_function=1,
    leaf_targetids,
    leaf_weights,
    membership_values=None,
    n_targets=None,
    nodes_falseleafs,
    nodes_falsenodeids,
    nodes_featureids,
    nodes_hitrates=None,
    nodes_missing_value_tracks_true=None,
    nodes_modes,
    nodes_splits,
    nodes_trueleafs,
    nodes_truenodeids,
    post_transform=0,
    tree_roots,
    once,
    xp,
):
    """For each target the sum (or mean, least, greatest) of its weights in the leaves, transformed."""
    if not (0 <= aggregate_function < len(_AGGREGATES) and 0 <= post_transform < len(_TRANSFORMS)):
        raise ValueError(
            f"aggregate_function {aggregate_function} must be 0 to 3, and post_transform {post_transform} 0 to 4"
        )
    if x.ndim != 2:
        raise ValueError(f"X of shape {x.shape} must be [samples, features]")
    targets = n_targets or max(leaf_targetids, default=0) + 1
    aggregate = _AGGREGATES[aggregate_function]

    def prepare(xp):
        modes = [int(mode) for mode in nodes_modes]
        lists = (nodes_featureids, nodes_splits, nodes_truenodeids, nodes_falsenodeids, nodes_trueleafs)
        lists = (*lists, nodes_falseleafs, nodes_missing_value_tracks_true or modes)
        if any(len(column) != len(modes) for column in lists) or len(leaf_targetids) != len(leaf_weights):
            raise ValueError("the lists with one item per node must be equally long, and so must those of the leaves")
        if not set(modes) <= set(range(len(_MODES))):
            raise ValueError(f"nodes_modes holds {max(modes)}; the modes are 0 to {len(_MODES) - 1}")
        children = [
            [child + len(modes) if leaf else child for child, leaf in zip(ids, leafs, strict=True)]
            for ids, leafs in ((nodes_truenodeids, nodes_trueleafs), (nodes_falsenodeids, nodes_falseleafs))
        ]
        known = [*tree_roots]
        for ids, leafs in ((nodes_truenodeids, nodes_trueleafs), (nodes_falsenodeids, nodes_falseleafs)):
            known += [child for child, leaf in zip(ids, leafs, strict=True) if not leaf]
        if any(not 0 <= node < len(modes) for node in known):
            raise ValueError(f"a root or child is node {max(known)}; there are {len(modes)}, numbered from 0")
        return planted(
            tree_roots,
            nodes_featureids,
            [float(value) for value in nodes_splits],
            modes,
            [bool(value) for value in nodes_missing_value_tracks_true or [0] * len(modes)],
            *children,
            _sets(membership_values, modes.count(6)),
            len(leaf_targetids),
            zip(range(len(leaf_targetids)), leaf_targetids, map(float, leaf_weights), strict=True),
            targets,
            aggregate,
            xp,
        )

    scores = scores_of(once(prepare, xp), x, aggregate, (), targets, xp)
    return transformed(scores, _TRANSFORMS[post_transform], xp)


def _sets(values, count):
    """The sets in ``values``, which NaN delimits."""
    sets = [[]]
    for value in () if values is None else map(float, values):
        if math.isnan(value):
            sets.append([])
        else:
            sets[-1].append(value)
    if not sets[-1]:
        sets.pop()
    if len(sets) != count:
        raise ValueError(f"membership_values holds {len(sets)} sets; {count} nodes have the mode BRANCH_MEMBER")
    return sets
