"""Real models give the same bits in exact mode whether neighbouring nodes are merged or not."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import onemodel
from onemodel.backends.exact import symbolic
from tests.exact.digest_models import models
from tests.models.fetch import Unreachable, fetch, manifest
from tests.models.recipes import RECIPES

EXPECTED = {
    "magika_standard_v3_3": "Add+Mul+Mul+Mul+Add+Mul+Tanh+Add+Mul+Mul",
    "minilm_l3": "Add+Div+Erf+Add+Mul+Mul",
    "ppocrv2_cls": "Add+Clip+Mul+Div",
    "ppocrv4_det": "Mul+Add+Add+Clip+Mul+Div+Mul+Add",
    "ppocrv4_rec": "Add+Sqrt+Div+Mul+Add",
}
"""By model the operators of one of its merged steps."""


MADE = {"model decoder": "Add+Add"}
"""The same for models that are made here."""


def check(model: Any, feeds: Mapping[str, Any], expected: str) -> None:
    merged = onemodel.Session(model, mode="exact", threads=1)
    steps = [step.node for step in merged.profile(feeds).nodes]
    assert expected in [node.op_type for node in steps if node.parts]
    alone = onemodel.Session(model, mode="exact", threads=1, kernels="generic")
    for one, other in zip(merged.run(None, feeds), alone.run(None, feeds), strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


@pytest.fixture(autouse=True)
def small_arrays_too(monkeypatch: pytest.MonkeyPatch) -> None:
    for constant in ("_LARGE", "_LONG", "_HUGE"):
        monkeypatch.setattr(symbolic, constant, 2)


@pytest.mark.parametrize("name", MADE)
def test_models_made_here(name: str) -> None:
    (case,) = (case for case in models() if case.name == name)
    check(*case.make(), MADE[name])


@pytest.mark.network
@pytest.mark.parametrize("name", EXPECTED)
def test_fetched_models(name: str) -> None:
    model = manifest()[name]
    try:
        path = fetch(model)
    except Unreachable as problem:
        if os.environ.get("ONEMODEL_REQUIRE_MODELS"):
            raise
        pytest.skip(str(problem))
    inputs = [given.name for given in onemodel.Session(path, mode="exact").get_inputs()]
    check(path, RECIPES[model.recipe](model.sizes[0], 0, inputs), EXPECTED[name])
