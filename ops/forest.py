"""Decision trees as arrays, and the walk of many samples through many trees at once, level by level.

Inner nodes come first, then leaves; a leaf is its own child.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

CHUNK = 1 << 17
"""Steps of trees and samples that are walked together, so that the arrays stay in cache."""


@dataclass(frozen=True)
class Forest:
    """The trees of one operator as arrays, one element per node or leaf.

    Attributes:
        roots: the first node of each tree, deepest tree first.
        widths: for each level how many trees, from the first on, go so deep.
        features: for each node the column that it looks at; so are ``thresholds`` (float64), ``missing`` (whether NaN
            counts as true; None where it never does) and ``sets`` (which row of ``members``; None without sets).
        accepts: whether a node is true where the value is below, at and above the threshold: one array for each of the
            three, or a bool where all nodes agree.
        children: for each node the child where it is false, then the one where it is true.
        members: the values of all sets, sorted, and for each set which of them it has.
        inner: the number of inner nodes; leaf i is node inner + i.
        weights: shape (leaves, targets), float64; ``voted`` tells where a leaf has a weight at all.
        columns: the features that samples must have.
    """

    roots: Any
    widths: tuple[int, ...]
    features: Any
    thresholds: Any
    missing: Any
    sets: Any
    accepts: tuple[Any, Any, Any]
    children: Any
    members: tuple[Any, Any] | None
    inner: int
    weights: tuple[Any, ...]
    voted: Any
    columns: int


def planted(roots, features, thresholds, modes, missing, true, false, sets, leaves, votes, targets, aggregate, xp):
    """A Forest from lists; ``true`` and ``false`` are node numbers, leaves after all inner nodes.

    Args:
        sets: for each node of mode 6, in order, its values.
        leaves: how many there are.
        votes: leaf, target and weight of each weight.
    """
    if not roots or min(features, default=0) < 0:
        raise ValueError("there must be at least one tree, and no feature may be negative")
    inner, count = len(modes), len(modes) + leaves
    heights = _heights(true, false, inner, count)
    roots = sorted(roots, key=lambda root: -heights[root])
    widths = tuple(sum(heights[root] > level for root in roots) for level in range(heights[roots[0]]))
    rows = [-1] * count
    values = []
    for node in range(inner):
        if modes[node] == 6:
            rows[node] = len(values)
            values.append(sets[len(values)])
    everything = sorted({value for some in values for value in some})
    held = [[value in some for value in everything] for some in map(set, values)]
    weights, voted = _totals(votes, leaves, targets, aggregate)

    def array(items, dtype, shape=(-1,)):
        return xp.reshape(xp.asarray(items, dtype=dtype), shape)

    pairs = [node for both in zip(false, true, strict=True) for node in both]
    pairs += [leaf for leaf in range(inner, count) for _ in range(2)]
    return Forest(
        array(roots, xp.int64),
        widths,
        array([*features, *[0] * leaves], xp.int64),
        array([*thresholds, *[0.0] * leaves], xp.float64),
        array([*map(bool, missing), *[False] * leaves], xp.bool) if any(missing) else None,
        array(rows, xp.int64) if values else None,
        tuple(_accepted(modes, some, leaves, xp) for some in ((0, 1, 5), (0, 2, 4), (2, 3, 5))),
        array(pairs, xp.int64),
        (array(everything, xp.float64), array([x for row in held for x in row], xp.bool)) if everything else None,
        inner,
        array(weights, xp.float64, (leaves, targets)),
        array(voted, xp.bool, (leaves, targets)),
        max(features, default=-1) + 1,
    )


def _totals(votes, leaves, targets, aggregate):
    """The weight of each leaf for each target, and whether it has one, as flat lists."""
    weights, voted = [0.0] * (leaves * targets), [False] * (leaves * targets)
    several = {}
    for leaf, target, weight in votes:
        if not 0 <= target < targets:
            raise ValueError(f"a leaf has a weight for target or class {target}; there are {targets}")
        place = leaf * targets + target
        if voted[place]:
            several.setdefault(place, [weights[place]]).append(weight)
        weights[place], voted[place] = weight, True
    reduce = {"MIN": min, "MAX": max}.get(aggregate, math.fsum)
    for place, some in several.items():
        weights[place] = reduce(some)
    return weights, voted


def _accepted(modes, accepting, leaves, xp):
    """For each node whether its mode is among ``accepting``; one bool where all inner nodes agree."""
    found = [mode in accepting for mode in modes]
    if all(found) or not any(found):
        return any(found)
    return xp.asarray([*found, *[False] * leaves], dtype=xp.bool)


def _heights(true, false, inner, count):
    """The number of steps from each node down to its furthest leaf."""
    heights = [-1] * inner + [0] * (count - inner)
    for start in range(inner):
        path = [start] if heights[start] < 0 else []
        while path:
            node = path[-1]
            if not (0 <= true[node] < count and 0 <= false[node] < count):
                raise ValueError(f"node {node} has a child that does not exist")
            heights[node] = -2  # on the way down
            below = [child for child in (true[node], false[node]) if heights[child] < 0]
            if any(heights[child] == -2 for child in below):
                raise ValueError(f"node {node} is below itself")
            if below:
                path.extend(below[:1])
                continue
            heights[node] = 1 + max(heights[true[node]], heights[false[node]])
            path.pop()
    return heights


def _leaves(forest, x, xp):
    """The leaf that each sample comes to in each tree: shape (trees, samples). ``x`` is (features, samples)."""
    count = x.shape[1]
    flat = xp.reshape(x, (-1,))
    nodes = xp.repeat(xp.expand_dims(forest.roots, axis=1), count, axis=1)
    place = xp.arange(count, dtype=xp.int64)
    thresholds = xp.astype(forest.thresholds, x.dtype, copy=False)
    for width in forest.widths:
        active = xp.reshape(nodes[:width, ...], (-1,))
        column = xp.reshape(xp.take(forest.features, active), (width, count))
        value = xp.take(flat, xp.reshape(column * count + place, (-1,)))
        taken = _taken(forest, active, value, xp.take(thresholds, active), xp)
        steps = xp.take(forest.children, active * 2 + xp.astype(taken, xp.int64))
        stepped = xp.reshape(steps, (width, count))
        nodes = stepped if width == nodes.shape[0] else xp.concat([stepped, nodes[width:, ...]])
    return nodes - forest.inner


def _taken(forest, nodes, value, threshold, xp):
    """Whether each node holds for its value."""
    below, at, above = forest.accepts
    match (below, at, above):
        case (True, True, False):
            taken = value <= threshold
        case (False, True, True):
            taken = value >= threshold
        case _:
            taken = xp.zeros(nodes.shape, dtype=xp.bool)
            for accepts, holds in ((below, value < threshold), (at, value == threshold), (above, value > threshold)):
                if accepts is not False:
                    taken = taken | (holds if accepts is True else holds & xp.take(accepts, nodes))
    if forest.sets is not None:
        taken = taken | _is_member(forest, nodes, value, xp)
    if forest.missing is not None:
        taken = taken | (xp.isnan(value) & xp.take(forest.missing, nodes))
    return taken


def _is_member(forest, nodes, value, xp):
    """Whether the node has a set, and the value is in it."""
    row = xp.take(forest.sets, nodes)
    if forest.members is None:
        return xp.zeros(nodes.shape, dtype=xp.bool)
    values, held = forest.members
    values = xp.astype(values, value.dtype, copy=False)
    size = values.shape[0]
    known = xp.where(xp.isnan(value), xp.constant(0, value), value)
    place = xp.searchsorted(values, known)
    place = xp.where(place < size, place, size - 1)
    found = (row >= 0) & (xp.take(values, place) == value)
    return found & xp.take(held, xp.where(found, row * size + place, 0))


def scores_of(forest, x, aggregate, base, targets, xp):
    """Each target's aggregated leaf weights, plus the base values: shape (samples, targets)."""
    if x.shape[1] < forest.columns:
        raise ValueError(f"X has {x.shape[1]} features; the trees look at {forest.columns}")
    if base and len(base) not in (1, targets):
        raise ValueError(f"there are {len(base)} base values for {targets} targets or classes")
    trees = forest.roots.shape[0]
    weights = xp.astype(forest.weights, x.dtype, copy=False)
    rows = max(64, CHUNK // max(trees * targets, 1))
    parts = []
    for start in range(0, max(x.shape[0], 1), rows):
        leaves = _leaves(forest, xp.matrix_transpose(x[start : min(start + rows, x.shape[0]), ...]), xp)
        shape = (*leaves.shape, targets)
        leaves = xp.reshape(leaves, (-1,))
        found = xp.reshape(xp.take(weights, leaves, axis=0), shape)
        if aggregate in ("SUM", "AVERAGE"):
            parts.append(xp.sum(found, axis=0))
            continue
        voted = xp.reshape(xp.take(forest.voted, leaves, axis=0), shape)
        extreme, none = (xp.min, math.inf) if aggregate == "MIN" else (xp.max, -math.inf)
        best = extreme(xp.where(voted, found, xp.constant(none, found)), axis=0)
        parts.append(xp.where(xp.any(voted, axis=0), best, xp.constant(0, best)))
    scores = xp.concat(parts)
    if aggregate == "AVERAGE":
        scores = scores / xp.constant(trees, scores)
    return scores + xp.asarray(base, dtype=x.dtype) if base else scores
