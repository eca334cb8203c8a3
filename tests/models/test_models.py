"""Real models give ONNX Runtime's numbers.

``ONEMODEL_REQUIRE_MODELS=1`` makes a model that cannot be fetched a failure instead of a skip.
"""

from __future__ import annotations

import os
from typing import Any

import onnx
import pytest

import onemodel
from tests.models import light
from tests.models.fetch import Model, Unreachable, fetch, manifest
from tests.models.oracle import Oracle, assert_close, error
from tests.models.recipes import RECIPES

LARGE = ("bvlc_alexnet", "vgg19", "zfnet512")
"""Light models with over 200 MB of weights; nearly all of their time goes into making and moving these."""
LIGHT = [f"light_{name}" for name in light.NAMES]
FETCHED = [name for name in manifest() if name not in LIGHT]
DISTINCT = 100
"""How many tolerances two inputs' outputs must lie apart, for a model whose output says something."""


def _load(model: Model) -> onnx.ModelProto:
    try:
        return onnx.load(fetch(model))
    except Unreachable as problem:
        if os.environ.get("ONEMODEL_REQUIRE_MODELS"):
            raise
        pytest.skip(str(problem))


def _compare(model: Model, proto: onnx.ModelProto, probes: list[str], **options: Any) -> None:
    """Run a model on every size, with two seeds each, beside ONNX Runtime."""
    oracle = Oracle(proto, probes)
    session = onemodel.Session(proto, mode="fast", threads=1, **options)
    for size in model.sizes:
        last = []
        for seed in (0, 1):
            state: dict[str, Any] = {}
            for step in range(model.steps):
                feeds = {**RECIPES[model.recipe](size, 1000 * seed + step, oracle.input_names), **state}
                expected = oracle.run(feeds)
                assert_close(session.run(oracle.output_names, feeds), expected, oracle.output_names, model.tolerance)
                by_name = dict(zip(oracle.output_names, expected, strict=True))
                state = {target: by_name[source] for source, target in model.carry.items()}
            last.append(expected)
        differences = [error(one, other) for one, other in zip(*last, strict=True)]
        assert max(differences) > DISTINCT * model.tolerance, f"two inputs give nearly the same outputs: {differences}"


@pytest.mark.network
@pytest.mark.parametrize("kernels", ["native", "generic"])
@pytest.mark.parametrize("name", FETCHED)
def test_model(name: str, kernels: str) -> None:
    model = manifest()[name]
    _compare(model, _load(model), list(model.probes), kernels=kernels)


@pytest.mark.parametrize(
    "name", [pytest.param(f"light_{name}", marks=[pytest.mark.slow] if name in LARGE else []) for name in light.NAMES]
)
def test_light_model_with_random_weights(name: str) -> None:
    model = manifest()[name]
    proto = light.with_random_weights(_load(model))
    _compare(model, proto, light.logits(proto))


@pytest.mark.parametrize("name", LIGHT)
def test_light_model_as_shipped(name: str) -> None:
    """All classes get nearly the same score, so this one shows only that the file as it is runs."""
    model = manifest()[name]
    proto = _load(model)
    oracle = Oracle(proto)
    feeds = RECIPES[model.recipe](model.sizes[0], 0, [light.input_name(proto)])
    outputs = onemodel.Session(fetch(model), mode="fast", threads=1).run(None, feeds)
    assert_close(outputs, oracle.run(feeds), oracle.output_names, 1e-3)
