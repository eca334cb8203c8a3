"""The cases that no runtime can pass under the suite's comparison, held against what they must be."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import onemodel
from tests.conformance.cases import load_cases
from tests.conformance.compare import compare_strictly
from tests.conformance.manifest import NAMESPACES, environment, preparer
from tests.conformance.report import UNREACHABLE

BERNOULLI = sorted(name for name in UNREACHABLE if name.startswith("test_bernoulli"))
TIMES = 4000


def test_they_are_seven() -> None:
    assert len(BERNOULLI) == 6
    assert set(UNREACHABLE) - set(BERNOULLI) == {"test_loop16_seq_none"}


@pytest.fixture(scope="module")
def chances() -> np.ndarray[Any, Any]:
    """The suite's chances, which are the same in all six cases."""
    given = [load_cases()[name].data_sets()[0].feeds["x"] for name in BERNOULLI]
    for other in given[1:]:
        np.testing.assert_allclose(other, given[0], rtol=1e-6)
    return np.asarray(given[0])


@pytest.mark.parametrize("namespace", NAMESPACES)
@pytest.mark.parametrize("name", BERNOULLI)
def test_bernoulli(name: str, namespace: str, chances: np.ndarray[Any, Any]) -> None:
    """Each chance drawn many times comes out as one as often as it says, within five standard deviations.

    ONNX's function body, which the expanded cases hold, has Greater(draw, chance): there it comes out as zero so often.
    """
    case = load_cases()[name]
    (data,) = case.data_sets()
    model = onnx.ModelProto.FromString(case.model.SerializeToString())
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        value.type.tensor_type.shape.dim.insert(0, onnx.TensorShapeProto.Dimension(dim_value=TIMES))
    feeds = {"x": np.tile(data.feeds["x"], (TIMES, 1))}
    with environment(namespace):
        (draws,) = onemodel.Session(model, seed=1, **NAMESPACES[namespace]).run(None, feeds)
    (expected,) = data.expected
    assert (draws.dtype, draws.shape) == (expected.dtype, (TIMES, *expected.shape))
    assert set(np.unique(draws)) == {0, 1}
    share = 1 - chances if name.endswith("_expanded") else chances
    assert np.all(np.abs(draws.mean(axis=0) - share) < 5 * np.sqrt(share * (1 - share) / TIMES))
    assert np.abs(np.corrcoef(draws.T) - np.eye(chances.size)).max() < 0.08


@pytest.mark.parametrize("name", BERNOULLI)
def test_a_seed_repeats_the_draws(name: str) -> None:
    case = load_cases()[name]
    feeds = case.data_sets()[0].feeds

    def draw(seed: int | None) -> bytes:
        session = onemodel.Session(case.model, mode="fast", seed=seed)
        return b"".join(session.run(None, feeds)[0].tobytes() for _ in range(20))

    assert draw(3) == draw(3)
    if "seed" in name:  # the node's own seed wins
        assert draw(3) == draw(4) == draw(None)
    else:
        assert draw(3) != draw(4)
        assert draw(None) != draw(None)


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_loop16_seq_none(namespace: str) -> None:
    """The suite's data are right: what raises is the suite's comparison of a sequence of unequal arrays."""
    case = load_cases()["test_loop16_seq_none"]
    (data,) = case.data_sets()
    want = [np.array(0, np.float32), *(np.arange(1, 1 + n, dtype=np.float32) for n in range(1, 6))]
    compare_strictly(data.expected, [want], 0, 0)
    fewer = {**data.feeds, "opt_seq": None, "trip_count": np.array(2)}
    with environment(namespace):
        run = preparer(namespace)(case.model)
        compare_strictly([want], run(data.feeds), 0, 0)
        compare_strictly([want[:3]], run(fewer), 0, 0)
