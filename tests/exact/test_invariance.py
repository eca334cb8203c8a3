"""A row of a batch is the row alone; and neither chunks, threads nor another run change a bit."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

import onemodel
from onemodel import coverage
from onemodel.digest import digest_of
from onemodel.ops import registry
from tests.exact.batched import BATCH, BATCHED, EXEMPT, Rows
from tests.exact.digest_cases import PRODUCTS, DigestCase, drawn, wide
from tests.exact.digest_models import models
from tests.exact.digests import SEED, known
from tests.ops import harness

ELEMENTWISE = sorted(
    {name for (_, name), versions in registry.table().items() if versions[max(versions)].elementwise}
    & {name.partition(" ")[0] for name in known() if " drawn " in name}
)


@cache
def _session(name: str) -> onemodel.Session:
    """One session for all sizes of the batch: the models declare no shapes."""
    entry = BATCHED[name]
    inputs = [value.array if isinstance(value, Rows) else value for value in entry.inputs]
    return onemodel.Session(harness.model(name.split()[0], inputs, **entry.options), mode="exact")


def _run(name: str, index: Sequence[int]) -> list[Any]:
    """The outputs for some rows of the batch."""
    feeds = {
        f"x{i}": value.take(index) if isinstance(value, Rows) else value
        for i, value in enumerate(BATCHED[name].inputs)
        if value is not None
    }
    if name == "AffineGrid":
        feeds["x1"] = np.array([len(index), *feeds["x1"][0][1:]])
    return _session(name).run(None, feeds)


def _joined(name: str, parts: Sequence[list[Any]]) -> str:
    axes = BATCHED[name].axes
    return digest_of({str(i): np.concatenate([part[i] for part in parts], axis=axis) for i, axis in enumerate(axes)})


@pytest.mark.parametrize("name", BATCHED)
def test_a_row_of_a_batch_is_the_row_alone(name: str) -> None:
    rows = range(BATCH)
    whole = _run(name, rows)
    for output, axis in zip(whole, BATCHED[name].axes, strict=True):
        assert output.shape[axis] == BATCH
    want = _joined(name, [whole])
    assert _joined(name, [_run(name, [row]) for row in rows]) == want
    assert _joined(name, [_run(name, chunk) for chunk in ([0, 1], [2, 3, 4])]) == want, "chunks"
    assert _joined(name, [_run(name, [*rows] * 7)]) == _joined(name, [whole] * 7), "a larger batch"
    assert _joined(name, [_run(name, rows)]) == want, "another run"


@pytest.mark.parametrize("op", ELEMENTWISE)
def test_an_element_is_the_element_alone(op: str) -> None:
    """Of operators that say they are elementwise, on every drawn case: all types, broadcasting and scalars."""
    compared = 0
    for name in (name for name in known() if name.startswith(f"{op} drawn ")):
        model, feeds = drawn(name).make()
        if model.opset_import[0].domain == "" and model.opset_import[0].version < 7:
            continue  # an attribute says how to broadcast
        session = onemodel.Session(model, mode="exact", seed=SEED)
        (whole, *_) = session.run(None, feeds)
        for place in list(np.ndindex(whole.shape))[:: max(1, whole.size // 6)]:
            one = {key: _element(value, whole.shape, place) for key, value in feeds.items()}
            (result, *_) = session.run(None, one)
            assert digest_of({"": result.reshape(-1)}) == digest_of(
                {"": whole[tuple(slice(i, i + 1) for i in place)].reshape(-1)}
            ), (name, place)
            compared += 1
    assert compared or op in BATCHED


def _element(value: Any, shape: tuple[int, ...], place: tuple[int, ...]) -> Any:
    """What an element of the output comes from: limits, and what is there for its type, stay as they are."""
    if not isinstance(value, np.ndarray) or value.ndim == 0:
        return value
    try:
        spread = np.broadcast_to(value, shape)
    except ValueError:
        return value
    return spread[tuple(slice(i, i + 1) for i in place)].reshape((1,) * value.ndim)


def test_every_operator_has_a_batch_or_a_reason() -> None:
    taken = {row.name for row in coverage.table() if row.exact not in ("no", coverage.NOT_YET)}
    batched = {name.split()[0] for name in BATCHED} | set(ELEMENTWISE)
    assert not batched & set(EXEMPT)
    assert taken - batched == set(EXEMPT) & taken
    assert set(EXEMPT) <= taken


HEAVY = [case for case in wide() if case.op in {name.split()[0] for name in PRODUCTS} and "float32" in case.name]
WHOLE = [case for case in models() if case.name in ("model digits", "model decoder", "model quantised", "model lstm")]


def _outputs(case: DigestCase, **options: Any) -> str:
    model, feeds = case.make()
    session = onemodel.Session(model, mode="exact", seed=SEED, **options)
    return session.digest(session.run(None, feeds))


@pytest.mark.parametrize("case", HEAVY, ids=lambda case: case.name)
def test_threads_of_the_library(case: DigestCase) -> None:
    """Products large enough to be shared out are in ``test_threads_of_large_products``."""
    assert _outputs(case, threads=1) == _outputs(case, threads=2)


def test_threads_of_large_products() -> None:
    rng = np.random.default_rng(5)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((300, 700), (700, 200)))
    session = [onemodel.Session(harness.model("MatMul", [x, w]), mode="exact", threads=n) for n in (1, 2)]
    one, two = (each.digest(each.run(None, {"x0": x, "x1": w})) for each in session)
    assert one == two


@pytest.mark.parametrize("case", [*HEAVY[::5], *WHOLE], ids=lambda case: case.name)
def test_eight_threads_on_one_session(case: DigestCase) -> None:
    model, feeds = case.make()
    try:
        session = onemodel.Session(model, mode="exact", seed=SEED)
    except onemodel.InexactOperatorError:
        assert case.name not in known()
        return
    want = session.digest(session.run(None, feeds))
    run = partial(session.run, None, feeds)
    with ThreadPoolExecutor(8) as pool:
        lines = [future.result() for future in [pool.submit(lambda: session.digest(run())) for _ in range(16)]]
    assert lines == [want] * 16
