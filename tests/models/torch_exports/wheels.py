"""The models of ``manifest.toml``, for the page: their greatest error against ONNX Runtime."""

from __future__ import annotations

import itertools
from typing import Any

import onnx

import onemodel
from tests.models import light
from tests.models.fetch import Model, fetch
from tests.models.oracle import Oracle, assert_close, error
from tests.models.recipes import RECIPES


def greatest_error(model: Model) -> tuple[int, float]:
    """The opset of a model, and its greatest error on every size with two seeds; the light ones get random weights.

    Raises:
        Unreachable: the package index cannot be reached.
        AssertionError: OneModel is wrong.
    """
    proto = onnx.load(fetch(model))
    probes = list(model.probes)
    if model.name.startswith("light_"):
        proto = light.with_random_weights(proto)
        probes = light.logits(proto)
    oracle = Oracle(proto, probes)
    session = onemodel.Session(proto, mode="fast", threads=1)
    greatest = 0.0
    for size, seed in itertools.product(model.sizes, (0, 1)):
        state: dict[str, Any] = {}
        for step in range(model.steps):
            feeds = {**RECIPES[model.recipe](size, 1000 * seed + step, oracle.input_names), **state}
            theirs = oracle.run(feeds)
            ours = session.run(oracle.output_names, feeds)
            assert_close(ours, theirs, oracle.output_names, model.tolerance)
            greatest = max(greatest, *(error(one, other) for one, other in zip(ours, theirs, strict=True)))
            by_name = dict(zip(oracle.output_names, theirs, strict=True))
            state = {target: by_name[source] for source, target in model.carry.items()}
    opset = max((entry.version for entry in proto.opset_import if entry.domain == ""), default=1)
    return opset, greatest
