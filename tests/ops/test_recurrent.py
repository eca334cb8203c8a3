"""RNN, GRU, LSTM."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.ops.harness import check, like_onnxruntime, refused, run

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
STEPS, BATCH, SIZE, HIDDEN = 5, 3, 2, 4


def layer(op: str, directions: int = 1, dtype: Any = np.float32, seed: int = 0) -> list[Any]:
    """X, W, R, B, sequence_lens, initial_h and for LSTM initial_c and P."""
    rng = np.random.default_rng(seed)
    rows = GATES[op] * HIDDEN
    shapes: list[tuple[int, ...]] = [(STEPS, BATCH, SIZE), (directions, rows, SIZE), (directions, rows, HIDDEN)]
    shapes += [(directions, 2 * rows), (directions, BATCH, HIDDEN)]
    shapes += [(directions, BATCH, HIDDEN), (directions, 3 * HIDDEN)] if op == "LSTM" else []
    arrays: list[Any] = [rng.standard_normal(shape).astype(dtype) for shape in shapes]
    return [*arrays[:4], np.array([3, 5, 1], np.int32), *arrays[4:]]


def outputs(op: str) -> int:
    return 3 if op == "LSTM" else 2


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
class TestLikeOnnxruntime:
    def directions(self, direction: str) -> int:
        return 2 if direction == "bidirectional" else 1

    def test_everything_given(self, op: str, direction: str) -> None:
        inputs = layer(op, self.directions(direction))
        like_onnxruntime(op, *inputs, outputs=outputs(op), hidden_size=HIDDEN, direction=direction, opset=14)

    def test_only_what_is_required(self, op: str, direction: str) -> None:
        inputs = layer(op, self.directions(direction))[:3]
        like_onnxruntime(op, *inputs, outputs=outputs(op), hidden_size=HIDDEN, direction=direction, opset=7)

    def test_clip(self, op: str, direction: str) -> None:
        inputs = layer(op, self.directions(direction))
        like_onnxruntime(op, *inputs, outputs=outputs(op), hidden_size=HIDDEN, direction=direction, clip=0.5, opset=14)

    def test_activations(self, op: str, direction: str) -> None:
        count = {"RNN": 1, "GRU": 2, "LSTM": 3}[op] * self.directions(direction)
        names = ["LeakyRelu", "HardSigmoid", "Elu", "Softsign", "ScaledTanh", "Sigmoid"][:count]
        like_onnxruntime(
            op,
            *layer(op, self.directions(direction)),
            outputs=outputs(op),
            hidden_size=HIDDEN,
            direction=direction,
            activations=names,
            activation_alpha=[0.1, 0.3, 0.7, 0.9],
            activation_beta=[0.4, 0.6],
            rtol=1e-4,
            opset=14,
        )


@pytest.mark.parametrize("options", [{"linear_before_reset": 1}, {"linear_before_reset": 1, "clip": 0.4}])
@pytest.mark.parametrize("count", [3, 4, 6])
def test_gru_linear_before_reset(options: dict[str, Any], count: int) -> None:
    like_onnxruntime("GRU", *layer("GRU")[:count], outputs=2, hidden_size=HIDDEN, opset=14, **options)


@pytest.mark.parametrize("peepholes", [False, True])
def test_lstm_input_forget(peepholes: bool) -> None:
    inputs = layer("LSTM")
    inputs[4] = None
    like_onnxruntime("LSTM", *inputs[: 7 + peepholes], outputs=3, hidden_size=HIDDEN, input_forget=1, opset=14)


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("Relu", {}, [0, 0.5, 2]),
        ("Tanh", {}, [math.tanh(-1.5), math.tanh(0.5), math.tanh(2)]),
        ("Sigmoid", {}, [1 / (1 + math.exp(1.5)), 1 / (1 + math.exp(-0.5)), 1 / (1 + math.exp(-2))]),
        ("Affine", {}, [-1.5, 0.5, 2]),
        ("Affine", {"activation_alpha": [2.0], "activation_beta": [1.0]}, [-2, 2, 5]),
        ("LeakyRelu", {}, [-0.015, 0.5, 2]),
        ("ThresholdedRelu", {}, [0, 0, 2]),
        ("ThresholdedRelu", {"activation_alpha": [0.5]}, [0, 0.5, 2]),
        (
            "ScaledTanh",
            {"activation_alpha": [2.0], "activation_beta": [0.5]},
            [2 * math.tanh(v / 2) for v in (-1.5, 0.5, 2)],
        ),
        ("HardSigmoid", {}, [0.2, 0.6, 0.9]),
        ("HardSigmoid", {"activation_alpha": [1.0]}, [0, 1, 1]),
        ("Elu", {}, [math.expm1(-1.5), 0.5, 2]),
        ("Softsign", {}, [-0.6, 1 / 3, 2 / 3]),
        ("Softplus", {}, [math.log1p(math.exp(v)) for v in (-1.5, 0.5, 2)]),
        ("tanh", {}, [math.tanh(-1.5), math.tanh(0.5), math.tanh(2)]),
    ],
)
def test_activation_functions(name: str, given: dict[str, Any], expected: list[float]) -> None:
    x = np.array([[[-1.5], [0.5], [2]]], np.float32)
    one, zero = np.ones((1, 1, 1), np.float32), np.zeros((1, 1, 1), np.float32)
    want = np.array(expected, np.float32).reshape(1, 3, 1)
    check(want, "RNN", x, one, zero, outputs=[False, True], hidden_size=1, activations=[name], opset=14, **given)


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_layout_1_puts_the_batch_first(op: str, direction: str) -> None:
    directions = 2 if direction == "bidirectional" else 1
    inputs = layer(op, directions)
    options = {"hidden_size": HIDDEN, "direction": direction, "outputs": outputs(op), "opset": 14}
    y, *states = run(op, *inputs, **options)
    turned = [inputs[0].swapaxes(0, 1), *inputs[1:5], *(a.swapaxes(0, 1) for a in inputs[5:7]), *inputs[7:]]
    check([y.transpose(2, 0, 1, 3), *(s.swapaxes(0, 1) for s in states)], op, *turned, layout=1, **options)


@pytest.mark.parametrize("op", GATES)
def test_lengths(op: str) -> None:
    """Past its end a sequence gives 0, its final state is its last valid one, reverse turns the valid part only."""
    inputs = layer(op, 2)
    options = {"hidden_size": HIDDEN, "direction": "bidirectional", "outputs": outputs(op)}
    got = run(op, *inputs, **options)
    for b, length in enumerate(inputs[4]):
        states = [a[:, b : b + 1, :] for a in inputs[5:7]]
        alone = run(op, inputs[0][:length, b : b + 1], *inputs[1:4], None, *states, *inputs[7:], **options)
        np.testing.assert_allclose(got[0][:length, :, b], alone[0][:, :, 0], rtol=1e-5, atol=1e-6)
        assert not got[0][length:, :, b].any()
        for ours, theirs in zip(got[1:], alone[1:], strict=True):
            np.testing.assert_allclose(ours[:, b], theirs[:, 0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("lengths", [[0, 5, 2], [0, 0, 0], [5, 5, 5]])
def test_empty_and_whole_sequences(op: str, lengths: list[int]) -> None:
    inputs = layer(op, 2)
    inputs[4] = np.array(lengths, np.int32)
    like_onnxruntime(op, *inputs, outputs=outputs(op), hidden_size=HIDDEN, direction="bidirectional", opset=14)


@pytest.mark.parametrize("op", GATES)
def test_no_steps_keep_the_initial_state(op: str) -> None:
    inputs = layer(op)
    inputs[0], inputs[4] = inputs[0][:0], None
    y, *states = run(op, *inputs, outputs=outputs(op), hidden_size=HIDDEN)
    assert y.shape == (0, 1, BATCH, HIDDEN)
    for state, first in zip(states, inputs[5:7], strict=True):
        np.testing.assert_array_equal(state, first)


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("opset", [6, 7, 22])
def test_each_output_can_be_left_out(op: str, opset: int) -> None:
    inputs = layer(op)
    whole = run(op, *inputs, outputs=outputs(op), hidden_size=HIDDEN, opset=opset)
    for i, want in enumerate(whole):
        only = [j == i for j in range(outputs(op))]
        options = {"output_sequence": int(i == 0)} if opset == 6 else {}
        check(want, op, *inputs, outputs=only, hidden_size=HIDDEN, opset=opset, **options)


@pytest.mark.parametrize("op", GATES)
def test_float16_is_computed_in_float32_and_float64_in_itself(op: str) -> None:
    halves = [a if a.dtype == np.int32 else a.astype(np.float16) for a in layer(op)]
    wide = [a if a.dtype == np.int32 else a.astype(np.float32) for a in halves]
    want = [a.astype(np.float16) for a in run(op, *wide, outputs=outputs(op), hidden_size=HIDDEN)]
    check(want, op, *halves, outputs=outputs(op), hidden_size=HIDDEN, rtol=1e-3, atol=1e-3)
    double = layer(op, dtype=np.float64)
    single = [a if a.dtype == np.int32 else a.astype(np.float32) for a in double]
    got = run(op, *double, outputs=outputs(op), hidden_size=HIDDEN, rtol=1e-12)
    for ours, theirs in zip(got, run(op, *single, outputs=outputs(op), hidden_size=HIDDEN), strict=True):
        assert ours.dtype == np.float64
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_lstm_by_hand() -> None:
    """One step: i, o, f, c of known sums, the peephole of o sees the new cell, and the clip leaves the cell alone."""
    x, zero = np.ones((1, 1, 1), np.float32), np.zeros((1, 4, 1), np.float32)
    w = np.array([1, 2, 3, 4], np.float32).reshape(1, 4, 1)
    h, c = np.zeros((1, 1, 1), np.float32), np.full((1, 1, 1), 5, np.float32)
    p = np.array([[0.1, 0.2, 0.3]], np.float32)

    def sigmoid(v: float) -> float:
        return 1 / (1 + math.exp(-v))

    for clip in (100.0, 0.5):
        bound = lambda v, clip=clip: min(max(v, -clip), clip)  # noqa: E731
        cell = sigmoid(bound(3 + 1.5)) * 5 + sigmoid(bound(1 + 0.5)) * math.tanh(bound(4))
        out = sigmoid(bound(2 + 0.2 * cell)) * math.tanh(cell)
        want = [np.full((1, 1, 1, 1), out), np.full((1, 1, 1), out), np.full((1, 1, 1), cell)]
        want = [a.astype(np.float32) for a in want]
        check(want, "LSTM", x, w, zero, None, None, h, c, p, outputs=3, hidden_size=1, clip=clip)


def test_nan_and_infinity_stay_in_their_row() -> None:
    inputs = layer("GRU")
    inputs[0][1, 0, 0], inputs[0][1, 1, 0] = np.nan, np.inf
    y, _ = run("GRU", *inputs[:4], outputs=2, hidden_size=HIDDEN)
    assert np.isnan(y[1:, 0, 0]).all()
    assert np.isfinite(y[:, 1:]).all()
    assert np.isfinite(y[0]).all()


@pytest.mark.parametrize(
    ("position", "value", "message"),
    [
        (0, np.zeros((5, 3), np.float32), "three dimensions"),
        (1, np.zeros((1, 16, 3), np.float32), "W has shape (1, 16, 3); X and R ask for (1, 16, 2)"),
        (2, np.zeros((1, 12, 4), np.float32), "R has shape"),
        (3, np.zeros((1, 16), np.float32), "B has shape"),
        (4, np.array([1, 2], np.int32), "sequence_lens has shape (2,)"),
        (4, np.array([1, 2, 6], np.int32), "must lie in 0 to 5"),
        (4, np.array([1, 2, -1], np.int32), "must lie in 0 to 5"),
        (5, np.zeros((3, 1, 4), np.float32), "initial_h has shape"),
        (6, np.zeros((1, 3, 5), np.float32), "initial_c has shape"),
        (7, np.zeros((1, 16), np.float32), "P has shape"),
    ],
)
def test_wrong_shapes_are_refused(position: int, value: Any, message: str) -> None:
    inputs = layer("LSTM")
    inputs[position] = value
    refused(message, "LSTM", *inputs, outputs=3, hidden_size=HIDDEN)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hidden_size": 3}, "hidden_size 3 is not"),
        ({"direction": "backward"}, "direction 'backward'"),
        ({"layout": 2}, "layout 2"),
        ({"activations": ["Tanh"]}, "must be 3, 3 for each direction"),
        ({"activations": ["Tanh", "Tanh", "Gelu"]}, "activation 'Gelu' is not one of"),
        ({"clip": -1.0}, "clip -1.0 must be above 0"),
    ],
)
def test_wrong_attributes_are_refused(options: dict[str, Any], message: str) -> None:
    refused(message, "LSTM", *layer("LSTM"), outputs=3, **{"hidden_size": HIDDEN, **options})
