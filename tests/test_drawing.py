"""Keys of random draws, and results kept between runs."""

from __future__ import annotations

from typing import Any

import numpy as np

import onemodel
from onemodel.drawing import Once, key_source
from tests.models_by_hand import graph_model, node


class TestKeys:
    def test_a_seed_of_the_node_is_the_key(self) -> None:
        assert key_source(1.0, 5, 3)() == 0x3F800000
        assert key_source(0.0, None, 0)() == 0

    def test_seed_and_position_fix_the_key(self) -> None:
        keys = {key_source(None, seed, position)() for seed in range(10) for position in range(10)}
        assert len(keys) == 100
        assert key_source(None, 4, 2)() == key_source(None, 4, 2)()
        assert key_source(None, 1, 11)() != key_source(None, 11, 1)()

    def test_without_a_seed_every_key_is_new(self) -> None:
        draw = key_source(None, None, 0)
        assert len({draw() for _ in range(20)}) == 20


class TestOnce:
    def test_the_first_result_is_kept(self) -> None:
        once = Once()
        assert once(pow, 2, 5) == 32
        assert once(pow, 3, 3) == 32

    def test_a_node_prepares_its_attributes_once(self) -> None:
        calls: list[float] = []

        def prepare(by: float) -> float:
            calls.append(by)
            return 2 * by

        @onemodel.operator("Double", domain="own", since=1, types=("x",), register=False)
        def double(x: Any, /, *, by: float = 1.0, once: Any, xp: Any) -> Any:
            return x * xp.asarray(once(prepare, by), dtype=x.dtype)

        proto = graph_model(
            [node("Double", ["x"], ["y"], domain="own", by=3.0), node("Double", ["y"], ["z"], domain="own", by=5.0)],
            [("x", "tensor(float)", [2])],
            ["z"],
            domains={"own": 1},
        )
        session = onemodel.Session(proto, mode="fast", operators=[double])
        for _ in range(3):
            assert session.run(None, {"x": np.ones((2,), np.float32)})[0].tolist() == [60, 60]
        assert calls == [3, 5]
