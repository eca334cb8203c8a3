"""Random numbers: the generator, the operators, and what fixes their draws."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

import onemodel
from onemodel.backends import get_backend
from tests.models_by_hand import constant, graph_model, node, subgraph
from tests.ops.harness import check, model, refused, run, run_model

FLOAT, DOUBLE, HALF, BFLOAT = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)
WORD = 2**32 - 1
STEP = {np.float16: 2**-10, ml_dtypes.bfloat16: 2**-7}  # one step of a half type: two modes may round apart


def philox(counter: list[int], key: list[int]) -> list[int]:
    """Philox 4x32-10 of one block, in Python's integers."""
    a, b, c, d = counter
    k, m = key
    for _ in range(10):
        x, y = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (y >> 32) ^ b ^ k, y & WORD, (x >> 32) ^ d ^ m, x & WORD
        k, m = (k + 0x9E3779B9) & WORD, (m + 0xBB67AE85) & WORD
    return [a, b, c, d]


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([WORD] * 4, [WORD] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
    ],
)
def test_the_check_gives_the_known_answers(counter: list[int], key: list[int], words: list[int]) -> None:
    assert philox(counter, key) == words


class TestRandomBits:
    @pytest.mark.parametrize("backend", ["numpy", "strict"])
    @pytest.mark.parametrize("key", [0, 1, 0xFFFFFFFF, 0xA4093822299F31D0, 2**64 - 1])
    def test_every_block_is_philox_of_its_position(self, backend: str, key: int) -> None:
        xp: Any = get_backend(backend).namespace("fast")
        bits = xp.random_bits(key, 41)
        want = [word for i in range(11) for word in philox([i, 0, 0, 0], [key & WORD, key >> 32])]
        assert bits.dtype == xp.uint32
        assert [int(word) for word in xp.to_host(bits)] == want[:41]

    def test_a_long_stream(self) -> None:
        key = 0x0123456789ABCDEF
        xp: Any = get_backend("numpy").namespace("fast")
        strict: Any = get_backend("strict").namespace("fast")
        bits = xp.random_bits(key, 70_001)
        for i in (0, 8191, 8192, 8193, 16_384, 17_499):
            want = philox([i, 0, 0, 0], [key & WORD, key >> 32])
            assert bits[4 * i : 4 * i + 4].tolist() == want
        assert bits[70_000] == philox([17_500, 0, 0, 0], [key & WORD, key >> 32])[0]
        assert np.array_equal(bits, strict.random_bits(key, 70_001))

    def test_no_numbers(self) -> None:
        xp: Any = get_backend("numpy").namespace("exact")
        assert xp.random_bits(3, 0).shape == (0,)

    def test_bits_are_balanced(self) -> None:
        xp: Any = get_backend("numpy").namespace("fast")
        bits = xp.random_bits(7, 100_000)
        ones = [int(np.sum(bits >> i & 1)) for i in range(32)]
        assert all(abs(count - 50_000) < 5 * math.sqrt(25_000) for count in ones)


def moments(values: Any, mean: float, deviation: float) -> None:
    wide = np.asarray(values, np.float64)
    error = deviation / math.sqrt(wide.size)
    assert abs(wide.mean() - mean) < 5 * error
    assert abs(wide.std() - deviation) < 5 * error


@pytest.mark.parametrize(
    ("code", "dtype"), [(FLOAT, np.float32), (DOUBLE, np.float64), (HALF, np.float16), (BFLOAT, ml_dtypes.bfloat16)]
)
class TestTypes:
    def test_uniform(self, code: int, dtype: Any) -> None:
        values = run("RandomUniform", shape=[200, 300], dtype=code, low=-1.0, high=3.0, seed=5.0)
        assert values.dtype == dtype
        assert values.shape == (200, 300)
        assert values.min() >= -1
        assert values.max() <= 3
        moments(values, 1.0, 4 / math.sqrt(12))

    def test_normal(self, code: int, dtype: Any) -> None:
        values = run(
            "RandomNormal", shape=[60_001], dtype=code, mean=2.0, scale=0.5, seed=5.0, rtol=STEP.get(dtype, 1e-5)
        )
        assert values.dtype == dtype
        assert values.shape == (60_001,)
        moments(values, 2.0, 0.5)
        standard = (values.astype(np.float64) - 2) / 0.5
        assert abs(np.mean(standard**3)) < 0.06
        assert abs(np.mean(standard**4) - 3) < 0.2
        assert abs(np.mean(np.abs(standard) < 1) - 0.6827) < 0.01

    def test_like_takes_shape_and_type(self, code: int, dtype: Any) -> None:
        given = np.zeros((2, 3), dtype)
        for op in ("RandomUniformLike", "RandomNormalLike"):
            values = run(op, given, seed=1.0, opset=22)
            assert (values.dtype, values.shape) == (dtype, (2, 3))
            assert np.array_equal(values, run(op.removesuffix("Like"), shape=[2, 3], dtype=code, seed=1.0))

    def test_like_takes_another_type(self, code: int, dtype: Any) -> None:
        for given in (np.zeros((4,), np.int64), np.array(["a", "b"], object), np.zeros((), np.float64)):
            for op in ("RandomUniformLike", "RandomNormalLike"):
                values = run(op, given, seed=1.0, dtype=code, opset=22)
                assert (values.dtype, values.shape) == (dtype, given.shape)

    def test_bernoulli(self, code: int, dtype: Any) -> None:
        chances = np.repeat(np.array([0, 0.25, 1], dtype), 40_000).reshape(3, -1)
        values = run("Bernoulli", chances, seed=2.0, opset=22)
        assert (values.dtype, values.shape) == (dtype, chances.shape)
        assert set(np.unique(values.astype(np.float32))) == {0, 1}
        assert not values[0].any()
        assert values[2].all()
        moments(values[1], 0.25, math.sqrt(0.25 * 0.75))


class TestBernoulli:
    @pytest.mark.parametrize("code", [TensorProto.BOOL, TensorProto.INT32, TensorProto.UINT8, DOUBLE, BFLOAT])
    def test_dtype(self, code: int) -> None:
        values = run("Bernoulli", np.full((100,), 0.5, np.float32), dtype=code, seed=1.0)
        assert values.dtype == helper.tensor_dtype_to_np_dtype(code)
        assert 20 < np.sum(values.astype(np.float32)) < 80

    def test_a_draw_may_be_zero_but_not_one(self) -> None:
        check(np.zeros((1000,), np.float32), "Bernoulli", np.zeros((1000,), np.float32), seed=3.0)
        check(np.ones((1000,), np.float32), "Bernoulli", np.ones((1000,), np.float32), seed=3.0)


class TestMultinomial:
    def draws(self, chances: list[list[float]], count: int, **options: Any) -> Any:
        with np.errstate(divide="ignore"):
            logs = np.log(np.array(chances, np.float32))
        return run("Multinomial", logs, sample_size=count, seed=9.0, **options)

    def test_frequencies(self) -> None:
        values = self.draws([[1, 2, 5], [0, 3, 1]], 40_000)
        assert (values.dtype, values.shape) == (np.int32, (2, 40_000))
        for row, chances in zip(values, ([1 / 8, 2 / 8, 5 / 8], [0, 0.75, 0.25]), strict=True):
            shares = np.bincount(row, minlength=3) / row.size
            assert np.allclose(shares, chances, atol=0.015)

    def test_dtype(self) -> None:
        assert self.draws([[1, 1]], 3, dtype=TensorProto.INT64).dtype == np.int64

    def test_an_impossible_class_is_never_drawn(self) -> None:
        assert set(self.draws([[0, 1, 0, 1, 0]], 5000)[0]) == {1, 3}

    def test_large_logs(self) -> None:
        values = run("Multinomial", np.array([[1000, 1000, -1000]], np.float64), sample_size=1000, seed=1.0)
        assert set(values[0]) == {0, 1}

    def test_half_types(self) -> None:
        values = run("Multinomial", np.zeros((2, 4), np.float16), sample_size=400, seed=1.0)
        assert (values.dtype, set(values.ravel())) == (np.int32, {0, 1, 2, 3})

    def test_no_rows(self) -> None:
        assert run("Multinomial", np.zeros((0, 4), np.float32), sample_size=7, seed=1.0).shape == (0, 7)

    @pytest.mark.parametrize(
        ("given", "options", "message"),
        [
            (np.zeros((3,), np.float32), {}, "must be a matrix"),
            (np.zeros((3, 0), np.float32), {}, "one column per class"),
            (np.zeros((1, 2), np.float32), {"sample_size": 0}, "sample_size is 0"),
            (np.zeros((1, 2), np.float32), {"dtype": FLOAT}, "neither int32"),
            (np.array([[0, np.nan]], np.float32), {}, "NaN"),
            (np.full((1, 2), -np.inf, np.float32), {}, "no class that is possible"),
        ],
    )
    def test_bad_input(self, given: Any, options: dict[str, Any], message: str) -> None:
        refused(message, "Multinomial", given, **options)


class TestSeeds:
    def session(self, seeds: list[float | None], **options: Any) -> onemodel.Session:
        nodes = [
            node("RandomUniform", [], [f"y{i}"], shape=[50], **({} if seed is None else {"seed": seed}))
            for i, seed in enumerate(seeds)
        ]
        options = {"mode": "fast", **options}
        return onemodel.Session(graph_model(nodes, [], [f"y{i}" for i in range(len(seeds))]), **options)

    def test_a_seeded_node_repeats_itself(self) -> None:
        session = self.session([3.5, 3.5, 4.0])
        first, second, other = session.run(None, {})
        assert np.array_equal(first, second)
        assert not np.array_equal(first, other)
        assert np.array_equal(session.run(None, {})[0], first)

    def test_unseeded_draws_differ_from_run_to_run(self) -> None:
        session = self.session([None, None])
        runs = [values for _ in range(3) for values in session.run(None, {})]
        assert len({values.tobytes() for values in runs}) == 6

    def test_a_session_with_a_seed_repeats_itself(self) -> None:
        first, second = self.session([None, None], seed=11).run(None, {})
        assert not np.array_equal(first, second)
        for options in ({}, {"backend": "strict"}, {"mode": "exact"}):
            session = self.session([None, None], seed=11, **options)
            for _ in range(2):
                assert np.array_equal(session.run(None, {}), [first, second])
        assert not np.array_equal(self.session([None, None], seed=12).run(None, {})[0], first)

    def test_the_node_s_seed_wins(self) -> None:
        assert np.array_equal(self.session([2.0], seed=1).run(None, {}), self.session([2.0]).run(None, {}))

    def test_each_call_of_a_function_draws_for_itself(self) -> None:
        body = helper.make_function(
            "own", "Draw", [], ["y"], [node("RandomUniform", [], ["y"], shape=[9])], [helper.make_opsetid("", 21)]
        )
        proto = graph_model(
            [node("Draw", [], ["a"], domain="own"), node("Draw", [], ["b"], domain="own")],
            [],
            ["a", "b"],
            functions=[body],
            domains={"own": 1},
        )
        a, b = onemodel.Session(proto, mode="fast", seed=1).run(None, {})
        assert not np.array_equal(a, b)

    def test_in_a_subgraph(self) -> None:
        branches = [subgraph([node("RandomUniform", [], ["z"], shape=[4], low=float(i))], ["z"]) for i in (0, 5)]
        proto = graph_model(
            [node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])],
            [],
            ["y"],
            initializers=[constant("c", np.array(False))],
        )
        values = onemodel.Session(proto, mode="fast", seed=1).run(None, {})[0]
        assert np.array_equal(values, onemodel.Session(proto, mode="fast", seed=1).run(None, {})[0])

    def test_exact_mode_refuses_draws_without_a_seed(self) -> None:
        with pytest.raises(onemodel.InexactOperatorError, match="without a seed"):
            self.session([None], mode="exact")
        assert self.session([1.0], mode="exact").run(None, {})[0].shape == (50,)

    @pytest.mark.parametrize("seed", [-1, 1.5, True, "1"])
    def test_a_bad_seed_of_the_session(self, seed: Any) -> None:
        with pytest.raises(onemodel.InputError, match="seed="):
            self.session([None], seed=seed)


class TestBadInput:
    def test_a_negative_size(self) -> None:
        refused("negative size", "RandomUniform", shape=[2, -1])
        refused("negative size", "RandomNormal", shape=[-3])

    def test_a_type_that_is_not_drawn(self) -> None:
        refused("dtype 7 is not float", "RandomUniformLike", np.zeros((2,), np.int64))
        refused("dtype 7 is not float", "RandomNormal", shape=[1], dtype=TensorProto.INT64)

    @pytest.mark.parametrize("op", ["RandomUniform", "RandomNormal"])
    def test_empty(self, op: str) -> None:
        assert run(op, shape=[3, 0], seed=1.0).shape == (3, 0)
        proto = model(op, [], shape=[1], seed=1.0)
        shape = next(attribute for attribute in proto.graph.node[0].attribute if attribute.name == "shape")
        del shape.ints[:]
        assert run_model(proto).shape == ()
