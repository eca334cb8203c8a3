"""Programs: tracing, and blocks on NumPy against the same program as written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onemodel.backends import get_backend
from onemodel.backends.exact import double_double as dd
from onemodel.backends.exact.blocks import BLOCK, BlockRunner
from onemodel.backends.exact.elementary import host_runner
from onemodel.backends.exact.program import Program, Trace, Value, trace

TABLE = np.arange(64, dtype=np.float64) ** 2 - 7


def _on_numpy(program: Program, *arrays: Any) -> Any:
    return host_runner(program)(*arrays)


def _as_written(program: Program, *arrays: Any) -> Any:
    with np.errstate(all="ignore"):
        return program.run(get_backend("numpy").namespace("fast"), *arrays)


def test_the_same_operation_is_done_once() -> None:
    program = trace(lambda x, xp: (x * 2.0 + 1.0) / (x * 2.0 - 1.0), ["float64"])
    assert [step.operation for step in program.instructions] == ["multiply", "add", "subtract", "divide"]


def test_mistakes_are_refused() -> None:
    def branches(x: Value, xp: Trace) -> Value:
        return x if x < 1.0 else -x

    with pytest.raises(TypeError, match="a program has no branches"):
        trace(branches, ["float64"])

    def leaks(x: Value, xp: Trace) -> Value:
        return xp.mend(x < 1.0, x + 1.0, lambda y, xp: y * x, x)

    with pytest.raises(ValueError, match="of another trace; hand it to the part as an input"):
        trace(leaks, ["float64"])
    with pytest.raises(ValueError, match="must be its last instruction"):
        trace(lambda x, xp: (x + 1.0, x + 2.0)[0], ["float64"])


def test_a_digest_sees_every_change() -> None:
    def program(factor: float, table: Any, step: int) -> str:
        def body(x: Value, xp: Trace) -> Value:
            index = xp.bitcast(x, "int64") & 31
            return xp.mend(x < 1.0, xp.take(table, index) * factor, lambda y, xp: y + float(step), x)

        return trace(body, ["float64"]).digest()

    other = TABLE.copy()
    other[63] += 1
    digests = {program(2.0, TABLE, 1), program(3.0, TABLE, 1), program(2.0, other, 1), program(2.0, TABLE, 2)}
    assert len(digests) == 4
    assert program(2.0, TABLE, 1) in digests


_OPERATIONS = ("add", "subtract", "multiply", "divide", "where", "mend", "take", "bits", "narrow", "minimum", "sqrt")


def _random_body(choices: list[tuple[int, int, int]]) -> Any:
    """A body that applies the chosen operations to earlier values."""

    def body(x: Value, y: Value, xp: Trace) -> Value:
        values = [x, y]
        for choice, first, second in choices:
            a, b = values[first % len(values)], values[second % len(values)]
            match _OPERATIONS[choice]:
                case "add":
                    c = a + b
                case "subtract":
                    c = a - b * 0.5
                case "multiply":
                    c = a * b
                case "divide":
                    c = a / (b + 3.0)
                case "where":
                    c = xp.where(a < b, a, b * 1.5)
                case "mend":
                    c = xp.mend(a > b, a + 0.25, lambda p, q, xp: p * q - 1.0, a, b)
                case "take":
                    c = xp.take(TABLE, (xp.bitcast(a, "int64") >> 50) & 63) + b
                case "bits":
                    c = xp.bitcast((xp.bitcast(a, "int64") & -4096) ^ (xp.bitcast(b, "int64") & 4095), "float64")
                case "narrow":
                    c = xp.astype(xp.astype(a, "float32"), "float64") - b
                case "minimum":
                    c = xp.maximum(xp.minimum(a, 100.0), -100.0) + b
                case _:
                    c = xp.sqrt(xp.abs(a)) - b
            values.append(c)
        total = values[-1]
        for value in values[:-1]:
            total = total + value
        return total * 0.125

    return body


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10), st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=25))
def test_blocks_give_the_bits_of_the_program_as_written(choices: list[tuple[int, int, int]]) -> None:
    program = trace(_random_body(choices), ["float64", "float64"])
    random = np.random.default_rng(1)
    x, y = random.integers(-(1 << 20), 1 << 20, (2, 500)) * 2.0**-16
    before = x.copy()
    blocks, written = _on_numpy(program, x, y), _as_written(program, x, y)
    assert np.array_equal(x, before)
    assert np.array_equal(blocks, written, equal_nan=True)


@pytest.mark.parametrize("size", [1, 7, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 11])
def test_block_sizes(size: int) -> None:
    program = trace(_random_body([(i % 11, i * 7, i * 3) for i in range(22)]), ["float64", "float64"])
    x = np.arange(size) % 1013 / 64 - 5
    y = np.arange(size) % 517 / 32 - 4
    assert np.array_equal(_on_numpy(program, x, y), _as_written(program, x, y), equal_nan=True)


def test_many_lengths_do_not_pile_up() -> None:
    runner = BlockRunner(trace(lambda x, xp: x * 2.0, ["float64"]), None)
    for size in range(1, 40):
        assert runner(np.ones(size)).tolist() == [2.0] * size
    assert len(vars(runner._bound)["steps"]) <= 8


def _rounded(high: float, low: float, exponent: int) -> float:
    def body(a: Value, b: Value, e: Value, xp: Trace) -> Value:
        return dd.rounded((a, b), e, xp)

    program = trace(body, ["float64", "float64", "int64"])
    return float(_on_numpy(program, np.array([high]), np.array([low]), np.array([exponent]))[0])


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_pairs_are_rounded_once_among_subnormals(sign: float) -> None:
    unit = 5e-324
    for high, low, expected in [
        (1.5, 0.0, 2 * unit),  # a tie goes to even
        (2.5, 0.0, 2 * unit),
        (2.5, 2.0**-60, 3 * unit),  # what is beyond the tie decides
        (2.5, -(2.0**-60), 2 * unit),
        (1.5, -(2.0**-90), unit),
        (0.5, 0.0, 0.0),
        (0.5, 2.0**-80, unit),
        (2.0**52 - 0.5, 0.0, 2.0**52 * unit),  # up to the first normal number
        (2.0**52 - 0.5, -(2.0**-60), (2.0**52 - 1) * unit),
        (2.0**53 + 2.0, 1.0, (2.0**53 + 4) * unit),  # normal, and a tie again
    ]:
        result = _rounded(sign * high, sign * low, -1074)
        assert result == sign * expected, (high, low)
        assert np.signbit(result) == (sign < 0)


def test_pairs_overflow() -> None:
    assert _rounded(1.0, 0.0, 1024) == np.inf
    assert _rounded(1.0, -(2.0**-54), 1023) == 2.0**1023


@settings(max_examples=200, deadline=None)
@given(*[st.integers(-(1 << 53), 1 << 53)] * 2, *[st.integers(-40, 40)] * 2)
def test_products_and_sums_lose_nothing(a: int, b: int, p: int, q: int) -> None:
    from fractions import Fraction

    x, y = np.array([float(a) * 2.0**p]), np.array([float(b) * 2.0**q])

    def part(operation: Any, place: int) -> Fraction:
        program = trace(lambda x, y, xp: operation(x, y, xp)[place] * 1.0, ["float64", "float64"])
        return Fraction(float(_on_numpy(program, x, y)[0]))

    exact = Fraction(float(x[0])) * Fraction(float(y[0]))
    assert part(dd.two_product, 0) + part(dd.two_product, 1) == exact
    total = Fraction(float(x[0])) + Fraction(float(y[0]))
    assert part(lambda x, y, xp: dd.two_sum(x, y), 0) + part(lambda x, y, xp: dd.two_sum(x, y), 1) == total
