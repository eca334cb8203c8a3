"""RNN, GRU and LSTM: one layer, one or both directions."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

from onemodel.ops.registry import operator

# Activation functions of x, alpha and beta


def _relu(x, alpha, beta, xp):
    return xp.maximum(x, xp.constant(0, x))


def _tanh(x, alpha, beta, xp):
    return xp.tanh(x)


def _sigmoid(x, alpha, beta, xp):
    return xp.sigmoid(x)


def _affine(x, alpha, beta, xp):
    return x * alpha + beta


def _leaky_relu(x, alpha, beta, xp):
    return xp.where(x < 0, x * alpha, x)


def _thresholded_relu(x, alpha, beta, xp):
    return xp.where(x < alpha, xp.constant(0, x), x)


def _scaled_tanh(x, alpha, beta, xp):
    return xp.tanh(x * beta) * alpha


def _hard_sigmoid(x, alpha, beta, xp):
    return xp.clip(x * alpha + beta, 0.0, 1.0)


def _elu(x, alpha, beta, xp):
    return xp.where(x < 0, xp.expm1(x) * alpha, x)


def _softsign(x, alpha, beta, xp):
    return x / (xp.abs(x) + 1.0)


def _softplus(x, alpha, beta, xp):
    return xp.softplus(x)


# Name in lower case to the function and the defaults of those parameters that it takes.
_ACTIVATIONS = {
    "relu": (_relu, None, None),
    "tanh": (_tanh, None, None),
    "sigmoid": (_sigmoid, None, None),
    "affine": (_affine, 1.0, 0.0),
    "leakyrelu": (_leaky_relu, 0.01, None),
    "thresholdedrelu": (_thresholded_relu, 1.0, None),
    "scaledtanh": (_scaled_tanh, 1.0, 1.0),
    "hardsigmoid": (_hard_sigmoid, 0.2, 0.5),
    "elu": (_elu, 1.0, None),
    "softsign": (_softsign, None, None),
    "softplus": (_softplus, None, None),
}


def _activations(names, alphas, betas, clips, directions, xp):
    """For each direction its activations as functions of one array, which is clipped first where ``clips`` says so.

    The given alphas and betas go in turn to the activations that take one.
    """
    count = len(clips)
    if len(names) != count * directions:
        raise ValueError(f"activations {list(names)} must be {count * directions}, {count} for each direction")
    if any(clip is not None and not clip > 0 for clip in clips):
        raise ValueError(f"clip {clips[0]} must be above 0")
    alphas, betas = iter(alphas or ()), iter(betas or ())
    made = []
    for name, clip in zip(names, clips * directions, strict=True):
        if name.lower() not in _ACTIVATIONS:
            raise ValueError(f"activation {name!r} is not one of {', '.join(_ACTIVATIONS)}")
        function, alpha, beta = _ACTIVATIONS[name.lower()]
        alpha = alpha if alpha is None else next(alphas, alpha)
        beta = beta if beta is None else next(betas, beta)
        made.append(_bound(function, alpha, beta, clip, xp))
    return [made[i : i + count] for i in range(0, len(made), count)]


def _bound(function, alpha, beta, clip, xp):
    if clip is None:
        return lambda x: function(x, alpha, beta, xp)
    return lambda x: function(xp.clip(x, -clip, clip), alpha, beta, xp)


# The walk over the sequence


class _Layer(NamedTuple):
    """One node's X with time as its first axis and the batch as its second, and what its shapes say."""

    x: Any
    steps: int
    batch: int
    hidden: int
    backward: tuple[bool, ...]
    lengths: list[int] | None
    layout: int


def _layer(gates, x, w, r, b, lengths, direction, hidden_size, layout, xp):
    """The layer, after a check of all shapes."""
    if direction not in ("forward", "reverse", "bidirectional"):
        raise ValueError(f"direction {direction!r} must be forward, reverse or bidirectional")
    if layout not in (0, 1):
        raise ValueError(f"layout {layout} must be 0 or 1")
    if x.ndim != 3 or w.ndim != 3 or r.ndim != 3:
        raise ValueError(f"X, W and R of shapes {x.shape}, {w.shape} and {r.shape} must have three dimensions")
    x = xp.permute_dims(x, (1, 0, 2)) if layout else x
    steps, batch, size = x.shape
    hidden = r.shape[2]
    backward = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}[direction]
    if hidden_size is not None and hidden_size != hidden:
        raise ValueError(f"hidden_size {hidden_size} is not the last size of R's shape {r.shape}")
    _expect("W", w, (len(backward), gates * hidden, size))
    _expect("R", r, (len(backward), gates * hidden, hidden))
    if b is not None:
        _expect("B", b, (len(backward), 2 * gates * hidden))
    if lengths is not None:
        _expect("sequence_lens", lengths, (batch,))
        lengths = [int(n) for n in lengths]
        if any(n < 0 or n > steps for n in lengths):
            raise ValueError(f"sequence_lens {lengths} must lie in 0 to {steps}, the length of X")
        if all(n == steps for n in lengths):
            lengths = None
    return _Layer(x, steps, batch, hidden, backward, lengths, layout)


def _expect(name, array, shape):
    if tuple(array.shape) != shape:
        raise ValueError(f"{name} has shape {tuple(array.shape)}; X and R ask for {shape}")


def _initial(layer, name, state, xp):
    """The initial states, one (batch, hidden) for each direction."""
    directions = len(layer.backward)
    if state is None:
        return [xp.zeros((layer.batch, layer.hidden), dtype=layer.x.dtype)] * directions
    if layer.layout:
        _expect(name, state, (layer.batch, directions, layer.hidden))
        return [state[:, d, :] for d in range(directions)]
    _expect(name, state, (directions, layer.batch, layer.hidden))
    return [state[d, ...] for d in range(directions)]


def _projected(layer, w, bias, xp):
    """X times one direction's weights ``w``, all steps in one product, plus ``bias``: (steps, batch, rows of w)."""
    rows = xp.reshape(layer.x, (layer.steps * layer.batch, layer.x.shape[2]))
    product = xp.matmul(rows, xp.matrix_transpose(w))
    product = product if bias is None else product + bias
    return xp.reshape(product, (layer.steps, layer.batch, w.shape[0]))


def _turned(layer, r, xp):
    """One direction's recurrent weights ``r`` transposed, fit for a product of the batch's few rows in every step."""
    turned = xp.matrix_transpose(r)
    turned = xp.contiguous(turned) if layer.steps > 1 and layer.batch > 2 else turned
    return xp.as_factor(turned, "right") if layer.steps > 1 else turned


def _run(layer, cells, states, wanted, xp):
    """Y and the final states: ``cells[d]`` gives a direction's next states from a step's number and the last ones.

    Past the end of a sequence outputs are 0 and states stay; the final states of an empty one are 0.
    """
    walks = [
        _walk(layer, cell, state, backward, wanted[0], xp)
        for cell, state, backward in zip(cells, zip(*states, strict=True), layer.backward, strict=True)
    ]
    y = None
    if wanted[0]:
        y = xp.stack([outputs for outputs, _ in walks], axis=1)
        y = xp.permute_dims(y, (2, 0, 1, 3)) if layer.layout else y
    finals = zip(*(state for _, state in walks), strict=True)
    return y, *[xp.stack(list(parts), axis=layer.layout) for parts in finals]


def _walk(layer, cell, state, backward, wanted, xp):
    """One direction: its outputs (steps, batch, hidden), or None where not wanted, and its final states."""
    longest = layer.steps if layer.lengths is None else max(layer.lengths, default=0)
    shortest = layer.steps if layer.lengths is None else min(layer.lengths, default=0)
    zeros = xp.zeros((layer.batch, layer.hidden), dtype=layer.x.dtype)
    outputs = [zeros] * layer.steps if wanted else None
    lengths = None if layer.lengths is None else xp.expand_dims(xp.as_index(layer.lengths), axis=1)
    for t in reversed(range(longest)) if backward else range(longest):
        following = cell(t, *state)
        if t >= shortest:
            inside = lengths > t
            following = [xp.where(inside, new, old) for new, old in zip(following, state, strict=True)]
        state = following
        if wanted:
            outputs[t] = state[0] if t < shortest else xp.where(inside, state[0], zeros)
    if lengths is not None and shortest == 0:
        state = [xp.where(lengths > 0, part, zeros) for part in state]
    if not wanted:
        return None, state
    return xp.stack(outputs, axis=0) if outputs else xp.zeros((0, *zeros.shape), dtype=zeros.dtype), state


def _halves(b, d, middle):
    """The W part and the R part of one direction's bias, None where there is none."""
    return (None, None) if b is None else (b[d, :middle], b[d, middle:])


# LSTM


@operator("LSTM", since=7, host=("sequence_lens",))
def lstm(
    X,
    W,
    R,
    B=None,
    sequence_lens=None,
    initial_h=None,
    initial_c=None,
    P=None,
    /,
    *,
    activation_alpha=None,
    activation_beta=None,
    activations=None,
    clip=None,
    direction="forward",
    hidden_size=None,
    input_forget=0,
    layout=0,
    wanted,
    xp,
):
    """Gates i, o, f of X, the last output and (through ``P``) the cell; C = f C + i g(...), H = o h(C).

    The output gate's peephole sees the new cell; ``input_forget`` sets f to 1 - i.
    """
    layer = _layer(4, X, W, R, B, sequence_lens, direction, hidden_size, layout, xp)
    if P is not None:
        _expect("P", P, (len(layer.backward), 3 * layer.hidden))
    names = ("Sigmoid", "Tanh", "Tanh") * len(layer.backward) if activations is None else activations
    # The clip bounds the sums that enter the gates, not the cell.
    clips = (clip, clip, None)
    functions = _activations(names, activation_alpha, activation_beta, clips, len(layer.backward), xp)
    cells = [_lstm_cell(layer, d, W, R, B, P, functions[d], input_forget, xp) for d in range(len(layer.backward))]
    states = _initial(layer, "initial_h", initial_h, xp), _initial(layer, "initial_c", initial_c, xp)
    return _run(layer, cells, states, wanted, xp)


def _lstm_cell(layer, d, W, R, B, P, functions, input_forget, xp):
    n = layer.hidden
    f, g, h = functions
    w_bias, r_bias = _halves(B, d, 4 * n)
    projected = _projected(layer, W[d, ...], None if B is None else w_bias + r_bias, xp)
    recurrent = _turned(layer, R[d, ...], xp)
    peep_i, peep_o, peep_f = (None, None, None) if P is None else (P[d, :n], P[d, n : 2 * n], P[d, 2 * n :])

    def cell(t, output, memory):
        gates = projected[t, ...] + xp.matmul(output, recurrent)
        if P is None:
            iof = f(gates[:, : 3 * n])
            i, o, forget = iof[:, :n], iof[:, n : 2 * n], iof[:, 2 * n :]
        else:
            i = f(gates[:, :n] + memory * peep_i)
            forget = f(gates[:, 2 * n : 3 * n] + memory * peep_f)
        if input_forget:
            forget = xp.constant(1, i) - i
        memory = forget * memory + i * g(gates[:, 3 * n :])
        if P is not None:
            o = f(gates[:, n : 2 * n] + memory * peep_o)
        return o * h(memory), memory

    return cell


# GRU


@operator("GRU", since=7, host=("sequence_lens",))
def gru(
    X,
    W,
    R,
    B=None,
    sequence_lens=None,
    initial_h=None,
    /,
    *,
    activation_alpha=None,
    activation_beta=None,
    activations=None,
    clip=None,
    direction="forward",
    hidden_size=None,
    layout=0,
    linear_before_reset=0,
    wanted,
    xp,
):
    """Gates z (update) and r (reset); H = (1 - z) g(...) + z H.

    ``linear_before_reset`` multiplies r with the recurrent product and its bias, not with H before the product.
    """
    layer = _layer(3, X, W, R, B, sequence_lens, direction, hidden_size, layout, xp)
    names = ("Sigmoid", "Tanh") * len(layer.backward) if activations is None else activations
    functions = _activations(names, activation_alpha, activation_beta, (clip, clip), len(layer.backward), xp)
    cells = [_gru_cell(layer, d, W, R, B, functions[d], linear_before_reset, xp) for d in range(len(layer.backward))]
    return _run(layer, cells, (_initial(layer, "initial_h", initial_h, xp),), wanted, xp)


def _gru_cell(layer, d, W, R, B, functions, linear_before_reset, xp):
    n = layer.hidden
    f, g = functions
    w_bias, r_bias = _halves(B, d, 3 * n)
    bias = hidden_bias = None
    if B is not None:
        hidden_bias = r_bias[2 * n :]
        hidden = w_bias[2 * n :] if linear_before_reset else w_bias[2 * n :] + hidden_bias
        bias = xp.concat([w_bias[: 2 * n] + r_bias[: 2 * n], hidden])
    projected = _projected(layer, W[d, ...], bias, xp)
    if linear_before_reset:
        whole = _turned(layer, R[d, ...], xp)
    else:
        gate_part, hidden_part = _turned(layer, R[d, : 2 * n, :], xp), _turned(layer, R[d, 2 * n :, :], xp)

    def cell(t, output):
        step = projected[t, ...]
        if linear_before_reset:
            product = xp.matmul(output, whole)
            zr = f(step[:, : 2 * n] + product[:, : 2 * n])
            inner = product[:, 2 * n :] if hidden_bias is None else product[:, 2 * n :] + hidden_bias
            candidate = g(step[:, 2 * n :] + zr[:, n:] * inner)
        else:
            zr = f(step[:, : 2 * n] + xp.matmul(output, gate_part))
            candidate = g(step[:, 2 * n :] + xp.matmul(zr[:, n:] * output, hidden_part))
        z = zr[:, :n]
        return ((xp.constant(1, z) - z) * candidate + z * output,)

    return cell


# RNN


@operator("RNN", since=7, host=("sequence_lens",))
def rnn(
    X,
    W,
    R,
    B=None,
    sequence_lens=None,
    initial_h=None,
    /,
    *,
    activation_alpha=None,
    activation_beta=None,
    activations=("Tanh", "Tanh"),
    clip=None,
    direction="forward",
    hidden_size=None,
    layout=0,
    wanted,
    xp,
):
    """H = f(X W + H R + both biases)."""
    layer = _layer(1, X, W, R, B, sequence_lens, direction, hidden_size, layout, xp)
    directions = len(layer.backward)
    # The default names two activations for one direction too.
    names = activations[:1] if directions == 1 and len(activations) == 2 else activations
    functions = _activations(names, activation_alpha, activation_beta, (clip,), directions, xp)
    cells = [_rnn_cell(layer, d, W, R, B, functions[d][0], xp) for d in range(len(layer.backward))]
    return _run(layer, cells, (_initial(layer, "initial_h", initial_h, xp),), wanted, xp)


def _rnn_cell(layer, d, W, R, B, f, xp):
    w_bias, r_bias = _halves(B, d, layer.hidden)
    projected = _projected(layer, W[d, ...], None if B is None else w_bias + r_bias, xp)
    recurrent = _turned(layer, R[d, ...], xp)
    return lambda t, output: (f(projected[t, ...] + xp.matmul(output, recurrent)),)


# Before opset 7


def _with_output_sequence(function):
    """The same with ``output_sequence``, of which 0 allows Y to be left out; the node's outputs say that anyway."""

    def old(*inputs, output_sequence, **options):
        return function(*inputs, **options)

    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    added = inspect.Parameter("output_sequence", inspect.Parameter.KEYWORD_ONLY, default=0)
    old.__signature__ = signature.replace(parameters=[*parameters, added])
    old.__doc__ = function.__doc__
    return old


operator("LSTM", since=1, host=("sequence_lens",))(_with_output_sequence(lstm))
operator("GRU", since=3, host=("sequence_lens",))(_with_output_sequence(gru))
operator("RNN", since=1, host=("sequence_lens",))(_with_output_sequence(rnn))
