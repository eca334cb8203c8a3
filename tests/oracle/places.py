"""Places where ONNX Runtime 1.32 is known wrong or exact mode has another value, and what is right there."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from onemodel import types
from tests.oracle.draw import Case, bits, code, integer_range, kind
from tests.oracle.known import exact, place
from tests.oracle.peer import ask


def _negative_zeros(case: Case) -> bool:
    return any(kind(x.dtype) == "f" and bool(np.any((x == 0) & np.signbit(x))) for x in case.inputs)


@place("Where", when=_negative_zeros, why="it adds two masked arrays, so -0 becomes 0; elements move as they are")
def _where(case: Case, theirs: list[Any] | None) -> list[Any]:
    return [np.where(*case.inputs)]


@place(
    "Clip",
    when=lambda case: case.opset >= 11 and bool(np.isinf(case.inputs[0].astype(float)).any()),
    why="a limit that is left out clips infinities to the greatest number; the function body of opset 13 keeps them",
)
def _clip(case: Case, theirs: list[Any] | None) -> list[Any]:
    x, low, high = (*case.inputs, None, None)[:3]
    x = x if low is None else np.maximum(x, low)
    return [x if high is None else np.minimum(x, high)]


def _leaves_integers(case: Case) -> bool:
    """A cast of floats to integers that do not hold them."""
    x, target = case.inputs[0], _target(case)
    if kind(x.dtype) != "f" or kind(target) not in "iu":
        return False
    low, high = integer_range(target)
    whole = np.trunc(x.astype(np.float64))
    return bool((np.isnan(whole) | (whole < low) | (whole > high)).any())


def _target(case: Case) -> np.dtype[Any]:
    return case.inputs[1].dtype if case.op == "CastLike" else types.dtype_of(types.tensor(case.attributes["to"]))


@place(
    "Cast", "CastLike", when=_leaves_integers, why="undefined in the text, and it wraps; saturates here, NaN gives 0"
)
def _saturated(case: Case, theirs: list[Any] | None) -> list[Any]:
    """Of 2 and 4 bits the higher ones are dropped, as the suite's data has it."""
    target = _target(case)
    low, high = integer_range(target)

    def whole(value: float) -> int:
        if math.isnan(value):
            return 0
        if bits(target) < 8 and math.isfinite(value):
            return (int(value) - low) % (high - low + 1) + low
        return low if value < low else high if value > high else int(value)

    return [_integers([whole(v) for v in case.inputs[0].astype(float).flat], case.inputs[0].shape, target)]


def _integers(values: Sequence[int], shape: tuple[int, ...], dtype: Any) -> Any:
    """An array of Python's integers, which wrap into the type."""
    low, high = integer_range(np.dtype(dtype))
    return np.array([(v - low) % (high - low + 1) + low for v in values], object).reshape(shape).astype(dtype)


@place(
    "Pow",
    when=lambda case: kind(case.inputs[0].dtype) in "iu",
    why="integers pass through float64; they are exact and wrap",
)
def _pow(case: Case, theirs: list[Any] | None) -> list[Any]:
    x, y = np.broadcast_arrays(*case.inputs)
    powers = [int(Fraction(int(a)) ** int(b)) for a, b in zip(x.flat, y.flat, strict=True)]
    return [_integers(powers, x.shape, x.dtype)]


@place(
    "Sign",
    when=lambda case: case.inputs[0].dtype.itemsize == 2 and bool(np.isnan(case.inputs[0].astype(float)).any()),
    why="NaN of a half type gives 0, though NaN of float32 stays NaN",
)
def _sign(case: Case, theirs: list[Any] | None) -> list[Any]:
    return [np.sign(case.inputs[0].astype(np.float32)).astype(case.inputs[0].dtype)]


def _axes(case: Case) -> tuple[int, ...] | None:
    """The axes of a reduction; None for all."""
    given = case.attributes.get("axes") if len(case.inputs) == 1 else case.inputs[1]
    if given is None or not len(given):
        return () if case.attributes.get("noop_with_empty_axes") else None
    return tuple(int(axis) for axis in given)


def _reduced(case: Case, function: Callable[..., Any]) -> list[Any]:
    """``function`` over the case's axes, in its type."""
    keep = bool(case.attributes.get("keepdims", 1))
    result = function(case.inputs[0], axis=_axes(case), keepdims=keep)
    return [np.asarray(result).astype(case.inputs[0].dtype)]


def _has_nan(case: Case) -> bool:
    return bool(np.isnan(case.inputs[0].astype(float)).any())


@place("ReduceMax", "ReduceMin", when=_has_nan, why="a NaN that is not the first is lost; NaN propagates")
def _extreme(case: Case, theirs: list[Any] | None) -> list[Any]:
    return _reduced(case, np.max if case.op == "ReduceMax" else np.min)


@place(
    "ReduceLogSumExp",
    when=lambda case: _has_nan(case) or kind(case.inputs[0].dtype) in "iu",
    why="NaN beside an infinity is lost, it propagates; integers are computed in integers, here in float64",
)
def _log_sum_exp(case: Case, theirs: list[Any] | None) -> list[Any]:
    def function(x: Any, axis: Any, keepdims: bool) -> Any:
        x = x.astype(np.float64)
        most = np.max(x, axis, keepdims=True, initial=-np.inf)
        shift = np.where(np.isfinite(most), most, 0)
        total = np.log(np.sum(np.exp(x - shift), axis, keepdims=True)) + shift
        return total.reshape(np.sum(x, axis, keepdims=keepdims).shape)

    return _reduced(case, function)


@place(
    "LogSoftmax",
    when=lambda case: bool(np.isposinf(case.inputs[0].astype(float)).any()),
    why="float64 rows with an infinity keep numbers beside the NaN; x - max(x) is NaN there, and so is the row's sum",
)
def _log_softmax(case: Case, theirs: list[Any] | None) -> list[Any]:
    x, axis = case.inputs[0], case.attributes.get("axis", -1 if case.opset >= 13 else 1)
    rows = x.astype(np.float64)
    if case.opset < 13:
        rows, axis = rows.reshape(math.prod(x.shape[:axis]), -1), 1
    shifted = rows - rows.max(axis=axis, keepdims=True)
    result = shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))
    return [result.reshape(x.shape).astype(x.dtype)]


@place(
    "ReduceSum",
    "ReduceProd",
    "ReduceL1",
    "ReduceSumSquare",
    when=lambda case: kind(case.inputs[0].dtype) in "iu",
    why="integers pass through float64 or saturate; they are exact and wrap",
)
def _exact(case: Case, theirs: list[Any] | None) -> list[Any]:
    of = {"ReduceL1": np.abs, "ReduceSumSquare": np.square}.get(case.op, lambda x: x)
    function = np.prod if case.op == "ReduceProd" else np.sum
    return _reduced(case, lambda x, **where: function(of(x), dtype=x.dtype, **where))


@place(
    "ReduceMean",
    when=lambda case: case.inputs[0].size == 0 and kind(case.inputs[0].dtype) == "f",
    why="the mean of nothing is 0; 0 / 0 is NaN",
)
def _mean(case: Case, theirs: list[Any] | None) -> list[Any]:
    return _reduced(case, lambda x, **where: np.sum(x, **where) * np.nan)


def _totals(case: Case) -> list[tuple[Fraction, Fraction] | None]:
    """Of each element of the broadcast inputs the sum and the sum of magnitudes; None where one is not finite."""
    columns = zip(*(x.astype(np.float64).flat for x in np.broadcast_arrays(*case.inputs)), strict=True)
    return [
        (sum(map(Fraction, column), Fraction(0)), sum((abs(Fraction(value)) for value in column), Fraction(0)))
        if np.isfinite(column).all()
        else None
        for column in columns
    ]


def _cancels(case: Case) -> bool:
    """Whether some sum is so small beside what it is of that most digits, or all, are lost on the way."""
    if kind(case.inputs[0].dtype) != "f":
        return False
    return any(pair is not None and abs(pair[0]) * 128 < pair[1] for pair in _totals(case))


@exact("Sum", "Mean", when=_cancels, why="sums that cancel what was rounded before; exact mode rounds them once")
def _sum(case: Case) -> list[Any]:
    arrays = np.broadcast_arrays(*(x.astype(np.float64) for x in case.inputs))
    totals = np.array([np.nan if pair is None else float(pair[0]) for pair in _totals(case)]).reshape(arrays[0].shape)
    totals = np.where(np.isfinite(arrays).all(axis=0), totals, np.sum(arrays, axis=0)).astype(case.inputs[0].dtype)
    return [totals if case.op == "Sum" else (totals.astype(np.float64) / len(arrays)).astype(totals.dtype)]


@place("ArgMax", "ArgMin", "Hardmax", when=_has_nan, why="NaN is passed over; the first NaN counts as the extreme")
def _position(case: Case, theirs: list[Any] | None) -> list[Any]:
    x, options = case.inputs[0], case.attributes
    if case.op == "Hardmax":
        axis = options.get("axis", -1 if case.opset >= 13 else 1)
        rows = x if case.opset >= 13 else x.reshape(math.prod(x.shape[:axis]), -1)
        axis = axis if case.opset >= 13 else -1
        result = np.zeros_like(rows)
        np.put_along_axis(result, np.argmax(rows.astype(float), axis, keepdims=True), 1, axis)
        return [result.reshape(x.shape)]
    axis, function = options.get("axis", 0), np.argmax if case.op == "ArgMax" else np.argmin
    keep, x = bool(options.get("keepdims", 1)), x.astype(float)
    if options.get("select_last_index"):
        return [np.asarray(x.shape[axis] - 1 - function(np.flip(x, axis), axis, keepdims=keep))]
    return [np.asarray(function(x, axis, keepdims=keep))]


@place(
    "Dropout",
    when=lambda case: case.opset < 12 and len(case.outputs) == 2,
    why="the mask at inference is all false before opset 12; nothing is dropped, so all is true",
)
def _mask(case: Case, theirs: list[Any] | None) -> list[Any]:
    x = case.inputs[0]
    return [x, np.ones(x.shape, bool if case.opset >= 10 else x.dtype)]


@place(
    "Shrink",
    when=lambda case: kind(case.inputs[0].dtype) in "iu" or case.inputs[0].dtype == np.float64,
    why="computed in float32; it is exact on integers, and of double precision",
)
def _shrink(case: Case, theirs: list[Any] | None) -> list[Any]:
    x = case.inputs[0]
    bias, limit = (
        float(np.float32(case.attributes.get(name, default))) for name, default in (("bias", 0), ("lambd", 0.5))
    )
    if kind(x.dtype) == "f":
        return [np.where(x < -limit, x + bias, np.where(x > limit, x - bias, 0.0))]
    step = Fraction(bias)
    shrunk = [int(v + step) if v < -limit else int(v - step) if v > limit else 0 for v in map(int, x.flat)]
    return [_integers(shrunk, x.shape, x.dtype)]


@place(
    "Squeeze",
    when=lambda case: case.opset >= 13 and len(case.inputs) == 2 and case.inputs[1].size == 0,
    why="axes that are given and empty drop all axes of size 1; they name none",
)
def _squeeze(case: Case, theirs: list[Any] | None) -> list[Any]:
    return [case.inputs[0]]


@place(
    "Slice",
    when=lambda case: len(case.inputs) == 5 and bool(((case.inputs[2] == 2**31 - 1) & (case.inputs[4] < 0)).any()),
    why="INT_MAX as the end of a negative step runs to the front; the text clamps it to the last index",
)
def _slice(case: Case, theirs: list[Any] | None) -> list[Any]:
    x, starts, ends, axes, steps = case.inputs
    for start, end, axis, step in zip(starts, ends, range(x.ndim) if axes is None else axes, steps, strict=False):
        places = range(*slice(int(start), int(end), int(step)).indices(x.shape[axis]))
        x = np.take(x, np.array(places, np.int64), axis=int(axis))
    return [x]


@place(
    "Gather", when=lambda case: case.inputs[0].dtype == object, why="of rows of strings only the first one is copied"
)
def _gather(case: Case, theirs: list[Any] | None) -> list[Any]:
    x, index = case.inputs
    return [np.asarray(np.take(x, index, axis=case.attributes.get("axis", 0)), object)]


@place(
    "NonZero", when=lambda case: case.inputs[0].ndim == 0, why="a scalar counts as one axis; the text says shape (0, N)"
)
def _non_zero(case: Case, theirs: list[Any] | None) -> list[Any]:
    return [np.zeros((0, int(bool(case.inputs[0]))), np.int64)]


def _kernel(case: Case) -> list[tuple[int, int, int, int]]:
    """Of each spatial axis the size, the kernel's reach, the stride and the dilation."""
    x, given = case.inputs[0], case.attributes
    sizes = given.get("kernel_shape") or case.inputs[3 if case.op == "QLinearConv" else 1].shape[2:]
    strides, dilations = (given.get(name) or [1] * len(sizes) for name in ("strides", "dilations"))
    zipped = zip(x.shape[2:], sizes, strides, dilations, strict=True)
    return [(n, (k - 1) * dilation + 1, stride, dilation) for n, k, stride, dilation in zipped]


def _auto_pad_is_wrong(case: Case) -> bool:
    match case.attributes.get("auto_pad"):
        case "VALID":
            return bool(case.attributes.get("ceil_mode"))
        case "SAME_UPPER" | "SAME_LOWER":
            return any(dilation > 1 or reach < stride for _, reach, stride, dilation in _kernel(case))
    return False


@place(
    "Conv",
    "ConvInteger",
    "QLinearConv",
    "MaxPool",
    "AveragePool",
    "LpPool",
    when=_auto_pad_is_wrong,
    why="SAME forgets the dilation, or refuses it, and pads by a negative number; VALID forgets its formula in "
    "ceil_mode. Right with the pads that the text gives",
)
def _explicit_pads(case: Case, theirs: list[Any] | None) -> Case:
    mode, pads = case.attributes["auto_pad"], []
    for size, reach, stride, _ in _kernel(case):
        total = 0 if mode == "VALID" else max((-(-size // stride) - 1) * stride + reach - size, 0)
        before = total // 2 if mode == "SAME_UPPER" else total - total // 2
        pads.append((before, total - before))
    kept = {name: value for name, value in case.attributes.items() if name not in ("auto_pad", "ceil_mode")}
    given = {**kept, "pads": [before for before, _ in pads] + [after for _, after in pads]}
    return replace(case, attributes=given)


@place("Col2Im", when=lambda case: len(case.inputs[1]) != 2, why="other than two spatial axes get mixed up")
def _col2im(case: Case, theirs: list[Any] | None) -> list[Any]:
    x, image, block = case.inputs
    rank, out = len(image), np.zeros((0,))
    strides, dilations, pads = (case.attributes[name] for name in ("strides", "dilations", "pads"))
    padded = [int(n) + pads[i] + pads[i + rank] for i, n in enumerate(image)]
    counts = [(n - (k - 1) * dil - 1) // s + 1 for n, k, dil, s in zip(padded, block, dilations, strides, strict=True)]
    columns = x.reshape(x.shape[0], -1, *block, *counts)
    out = np.zeros((*columns.shape[:2], *padded), x.dtype)
    for tap in np.ndindex(*map(int, block)):
        for at in np.ndindex(*counts):
            where = tuple(a * s + t * dil for a, s, t, dil in zip(at, strides, tap, dilations, strict=True))
            out[(..., *where)] += columns[(..., *tap, *at)]
    return [out[(..., *(slice(pads[i], padded[i] - pads[i + rank]) for i in range(rank)))]]


@place(
    "QuantizeLinear",
    when=lambda case: case.inputs[1].dtype == np.float16,
    why="divides halves in float32 and rounds that to a whole number; the quotient is a half first",
)
def _half_quotient(case: Case, theirs: list[Any] | None) -> list[Any]:
    x, scale, *point = case.inputs
    axis, block = case.attributes.get("axis", 1), case.attributes.get("block_size", 0)

    def spread(values: Any) -> Any:
        if values.size == 1:
            return values.reshape(())
        if block:
            return np.repeat(values, block, axis)[tuple(map(slice, x.shape))]
        return values.reshape([-1 if i == axis % x.ndim else 1 for i in range(x.ndim)])

    chosen = case.attributes.get("output_dtype", code(np.uint8))
    dtype = point[0].dtype if point else types.dtype_of(types.tensor(chosen))
    whole = np.rint((x / spread(scale)).astype(np.float64))
    return [
        np.clip(whole + (spread(point[0]).astype(int) if point else 0), *integer_range(dtype)).astype(int).astype(dtype)
    ]


@place(
    "QuantizeLinear",
    "DequantizeLinear",
    when=lambda case: bool(case.attributes.get("block_size")) and case.inputs[1].size == 1,
    why="refuses a single block; it is all of the axis",
)
def _single_block(case: Case, theirs: list[Any] | None) -> Case:
    given = {name: value for name, value in case.attributes.items() if name not in ("axis", "block_size")}
    scalars = (value.reshape(()) for value in case.inputs[1:])
    return replace(case, inputs=(case.inputs[0], *scalars), attributes=given)


@place(
    "MatMul",
    "MatMulInteger",
    when=lambda case: case.inputs[0].size == 0,
    why="a sum of no integers is what lay in memory, or is refused; it is 0",
)
def _empty_product(case: Case, theirs: list[Any] | None) -> list[Any]:
    a, b = case.inputs[:2]
    dtype = a.dtype if case.op == "MatMul" else np.dtype(np.int32)
    return [np.zeros(np.matmul(a.astype(float), b.astype(float)).shape, dtype)]


@place("OneHot", when=lambda case: case.inputs[0].ndim == 0, why="refuses a scalar; it gives one axis")
def _one_hot(case: Case, theirs: list[Any] | None) -> list[Any]:
    index, depth, (off, on) = int(case.inputs[0]), int(case.inputs[1].reshape(())), case.inputs[2]
    result = np.full(depth, off, case.inputs[2].dtype)
    if -depth <= index < depth:
        result[index] = on
    return [result]


@place(
    "Attention",
    when=lambda case: case.attributes.get("qk_matmul_output_mode") == 2,
    why="a hidden score is the type's least number; the function body says -infinity",
)
def _hidden(case: Case, theirs: list[Any] | None) -> list[Any]:
    assert theirs is not None
    least = np.finfo(theirs[-1].dtype).min
    return [*theirs[:-1], np.where(theirs[-1] <= least / 2, -np.inf, theirs[-1]).astype(theirs[-1].dtype)]


@place(
    "SplitToSequence",
    when=lambda case: case.attributes.get("keepdims") == 0 and len(case.inputs) == 2,
    why="keepdims counts beside split; the text ignores it there",
)
def _split_to_sequence(case: Case, theirs: list[Any] | None) -> Case:
    return replace(case, attributes={**case.attributes, "keepdims": 1})


@place(
    "Attention",
    when=lambda case: case.attributes.get("is_causal") == 1 and len(case.inputs) > 4 and case.inputs[0].shape[-2] == 1,
    why="a single query of grouped heads loses its past; query i sees the keys j <= i + past length (the text)",
)
def _causal(case: Case, theirs: list[Any] | None) -> Case:
    """The same by a mask."""
    q, k, v, mask, past, *rest = case.inputs
    queries, keys = (x.shape[-2] for x in (q, k))
    allowed = np.tri(queries, keys + past.shape[2], past.shape[2], dtype=bool)
    if mask is None or mask.dtype == bool:
        mask = allowed if mask is None else allowed & mask
    else:
        mask = np.where(allowed, mask, -np.inf).astype(mask.dtype)
    return replace(case, inputs=(q, k, v, mask, past, *rest), attributes={**case.attributes, "is_causal": 0})


@place(
    "Einsum",
    when=lambda case: "..." in case.attributes["equation"] and len({x.ndim for x in case.inputs}) > 1,
    why="refuses ellipses of different rank; they broadcast (the text)",
)
def _einsum(case: Case, theirs: list[Any] | None) -> list[Any]:
    wide = [x.astype(np.float64) if kind(x.dtype) == "f" else x for x in case.inputs]
    return [np.asarray(np.einsum(case.attributes["equation"], *wide)).astype(case.inputs[0].dtype)]


@place(
    "StringSplit",
    when=lambda case: bool(case.attributes.get("delimiter")) and bool((case.inputs[0] == "").any()),
    why="an empty string has no piece, though delimiters part empty strings (the reference evaluator)",
)
def _string_split(case: Case, theirs: list[Any] | None) -> list[Any]:
    pieces = [text.split(case.attributes["delimiter"], case.attributes.get("maxsplit", -1)) for text in case.inputs[0]]
    width = max(map(len, pieces))
    padded = [some + [""] * (width - len(some)) for some in pieces]
    return [np.array(padded, object), np.array([len(some) for some in pieces], np.int64)]


def _least_over_minus_one(case: Case) -> bool:
    """Of integers, where the quotient is one more than the type holds."""
    a, b = case.inputs[:2]
    return kind(a.dtype) == "i" and bool((a == integer_range(a.dtype)[0]).any() and (b == -1).any())


@place(
    "Div", "Mod", when=_least_over_minus_one, why="the process dies of the least integer over -1; it wraps", fatal=True
)
def _division(case: Case, theirs: list[Any] | None) -> list[Any]:
    a, b = np.broadcast_arrays(*case.inputs)
    quotients, rests = [], []
    for x, y in zip(map(int, a.flat), map(int, b.flat), strict=True):
        truncated = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        quotients.append(truncated)
        rests.append(x - truncated * y if case.attributes.get("fmod") else x % y)
    return [_integers(quotients if case.op == "Div" else rests, a.shape, a.dtype)]


@place(
    "Sigmoid",
    when=lambda case: bool((case.inputs[0].astype(float) < -8).any()),
    why="few digits far below 0, and 0 from -18 on; exp(x) / (1 + exp(x)) is not",
)
def _sigmoid(case: Case, theirs: list[Any] | None) -> list[Any]:
    x = case.inputs[0].astype(np.float64)
    return [(np.exp(np.minimum(x, 700)) / (1 + np.exp(np.minimum(x, 700)))).astype(case.inputs[0].dtype)]


@place("RNN", "GRU", "LSTM", when=lambda case: case.attributes.get("layout") == 1, why="layout 1 is refused; it works")
def _batch_first(case: Case, theirs: list[Any] | None) -> list[Any]:
    """By layout 0: X and the initial states have the batch first, Y has it first, and Y_h and Y_c."""
    swapped = [
        value if value is None or value.ndim == 1 or i in (1, 2, 3, 7) else np.moveaxis(value, 0, 1)
        for i, value in enumerate(case.inputs)
    ]
    other = {name: value for name, value in case.attributes.items() if name != "layout"}
    answer = ask(replace(case, inputs=tuple(swapped), attributes=other))
    assert answer.values is not None, answer.refusal
    wanted = [i for i, want in enumerate(case.outputs) if want]
    values = [
        np.moveaxis(v, 2, 0) if i == 0 else np.moveaxis(v, 0, 1) for i, v in zip(wanted, answer.values, strict=True)
    ]
    return [value.astype(case.inputs[0].dtype) for value in values]


@place(
    "Pad",
    when=lambda case: case.attributes.get("mode") == "reflect",
    why="refuses a pad as long as the axis; it goes on reflecting, as in NumPy",
)
def _reflect(case: Case, theirs: list[Any] | None) -> list[Any]:
    x = case.inputs[0]
    pads = case.inputs[1] if case.opset >= 11 else np.array(case.attributes["pads"])
    axes = case.inputs[3] if len(case.inputs) == 4 else np.arange(x.ndim)
    widths = [(0, 0)] * x.ndim
    for i, axis in enumerate(axes):
        widths[axis] = (int(pads[i]), int(pads[i + len(axes)]))
    return [np.pad(x, widths, mode="reflect")]


@place(
    "Loop",
    when=lambda case: case.inputs[1] is None,
    why="stops on the body's condition where only M is given; the text does not read it there",
)
def _trips_alone(case: Case, theirs: list[Any] | None) -> list[Any]:
    """The body of the oracle's own case: the state is doubled, and the trip's number added."""
    state, seen = case.inputs[2], []
    for trip in range(int(case.inputs[0])):
        state = state + state + np.float32(trip)
        seen.append(state)
    return [state, np.stack(seen) if seen else np.zeros((0, *[0] * state.ndim), np.float32)]


@exact(
    "BitCast",
    when=lambda case: kind(case.inputs[0].dtype) == "f" and _has_nan(case),
    why="which NaN an operation returns depends on the machine; exact mode reads the bits of one, positive and quiet",
)
def _bits(case: Case) -> list[Any]:
    x = case.inputs[0].copy()
    x[np.isnan(x.astype(float))] = np.array(np.nan).astype(x.dtype)
    return [x.view(_target(case))]
