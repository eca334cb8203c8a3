"""Control flow: operators that run graphs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from onemodel.ops.axes import integers, one_axis
from onemodel.ops.element import agree, code_of
from onemodel.ops.registry import operator


def _of_branches(types, attributes):
    """The types of If's outputs, each of which comes from one branch or the other."""
    branches = attributes["then_branch"], attributes["else_branch"]
    for number, (first, second) in enumerate(zip(*branches, strict=False), 1):
        if not agree(first, second):
            raise ValueError(
                f"output {number} is {first} from then_branch, but {second} from else_branch; give both the same type"
            )
    return [
        second if first is None or second == f"optional({first})" else first
        for first, second in zip(*branches, strict=False)
    ]


def _check_state(initial, made):
    """Raise unless the body makes each value that it carries of the type that it starts with."""
    for number, (first, second) in enumerate(zip(initial, made, strict=False), 1):
        if not agree(first, second):
            raise ValueError(f"state {number} is {first} at first, but {second} from the body; give both the same type")


def _of_loop(types, attributes):
    """The types of Loop's outputs: what it carries, and its scan outputs."""
    going, *made = attributes["body"] or [None]
    if not agree(going, "tensor(bool)"):
        raise ValueError(f"the condition that the body makes is {going}; it must be tensor(bool)")
    _check_state(types[2:], made)
    return [given or types[2 + i] if i + 2 < len(types) else given for i, given in enumerate(made)]


def _of_scan(types, attributes):
    """The types of Scan's outputs: its state, and its scan outputs."""
    _check_state(types[: max(len(types) - attributes["num_scan_inputs"], 0)], attributes["body"])
    return list(attributes["body"])


@operator(
    "If",
    since=1,
    host=("cond",),
    widen=False,
    bodies={"then_branch": lambda types, attributes: (), "else_branch": lambda types, attributes: ()},
    types=_of_branches,
)
def if_(cond, /, *, then_branch, else_branch, wanted):
    """What ``then_branch`` gives where ``cond`` holds, else what ``else_branch`` gives."""
    branch = then_branch if _truth(cond) else else_branch
    _check_outputs(branch, 0, len(wanted))
    return branch()


def _check_outputs(body, first, count):
    """Raise unless ``body`` has ``count`` outputs after its first ones."""
    if len(body.types) < first + count:
        raise ValueError(f"the subgraph has {len(body.types)} outputs; this node needs {first + count} of it")


def _truth(cond):
    if math.prod(cond.shape) != 1:
        raise ValueError(f"the condition of shape {cond.shape} must have one element")
    return bool(cond[(0,) * cond.ndim])


@operator(
    "Loop",
    since=1,
    host=("M", "cond", "body:0", "body:in:0", "body:in:1"),
    widen=False,
    bodies={"body": lambda types, attributes: ["tensor(int64)", "tensor(bool)", *types[2:]]},
    types=_of_loop,
)
def loop(M=None, cond=None, /, *v_initial, body, wanted, xp):
    """``body`` M times at most, as long as its condition holds; last come the values it carries, then its scan outputs.

    A missing M is no bound. Where ``cond`` is missing but M is given, the body's condition is not read.
    """
    state = v_initial
    _check_outputs(body, 1, max(len(wanted), len(state)))
    scanned: list[list[Any]] = [[] for _ in body.types[1 + len(state) :]]
    trips = None if M is None else _count(M)
    going = cond is None or _truth(cond)
    done = 0
    while going and (trips is None or done < trips):
        result = body(np.asarray(done, dtype=np.int64), np.asarray(going), *state)
        state = result[1 : 1 + len(state)]
        for values, value in zip(scanned, result[1 + len(state) :], strict=True):
            values.append(value)
        if cond is not None or trips is None:
            going = _truth(result[0])
        done += 1
    return (*state, *_stacked(scanned, body, 1 + len(state), [0] * len(scanned), xp))


def _count(m):
    if math.prod(m.shape) != 1:
        raise ValueError(f"M of shape {m.shape} must have one element")
    return int(m[(0,) * m.ndim])


def _stacked(scanned, body, first, axes, xp):
    """Each list of values as one array; without values an empty one of the type and shape that the body declares."""
    return [
        xp.stack(values, axis=one_axis(axis, values[0].ndim + 1)) if values else _empty(body, first + i, axis, xp)
        for i, (values, axis) in enumerate(zip(scanned, axes, strict=True))
    ]


def _empty(body, i, axis, xp):
    sizes = [n if isinstance(n, int) else 0 for n in body.shapes[i] or ()]
    sizes.insert(one_axis(axis, len(sizes) + 1), 0)
    return xp.zeros(tuple(sizes), dtype=_dtype(body.types[i], xp))


def _dtype(value_type, xp):
    """The dtype of a tensor type's text, ``tensor(float)``."""
    if value_type is None:
        raise ValueError("no iteration ran, and the type of a scan output is not known; declare it in the model")
    return xp.onnx_dtype(code_of(value_type))


@operator(
    "Scan",
    since=9,
    widen=False,
    bodies={"body": lambda types, attributes: list(types)},
    types=_of_scan,
)
def scan(
    *initial_state_and_scan_inputs,
    body,
    num_scan_inputs,
    scan_input_axes=None,
    scan_input_directions=None,
    scan_output_axes=None,
    scan_output_directions=None,
    wanted,
    xp,
):
    """``body`` once for each step of the scan inputs, along an axis and in a direction each; scan outputs likewise."""
    values = initial_state_and_scan_inputs
    state, inputs = values[: len(values) - num_scan_inputs], values[len(values) - num_scan_inputs :]
    if not 0 < num_scan_inputs <= len(values):
        raise ValueError(f"num_scan_inputs is {num_scan_inputs}, but there are {len(values)} inputs")
    _check_outputs(body, 0, max(len(wanted), len(state)))
    count = len(body.types) - len(state)
    axes = _flags("scan_input_axes", scan_input_axes, num_scan_inputs)
    axes = [one_axis(axis, x.ndim) for axis, x in zip(axes, inputs, strict=True)]
    backward = _flags("scan_input_directions", scan_input_directions, num_scan_inputs)
    output_axes = _flags("scan_output_axes", scan_output_axes, count)
    prepended = _flags("scan_output_directions", scan_output_directions, count)
    lengths = {x.shape[axis] for axis, x in zip(axes, inputs, strict=True)}
    if len(lengths) != 1:
        raise ValueError(f"the scan inputs have {sorted(lengths)} steps; they must have as many")
    state, scanned = _scan(body, state, inputs, axes, backward, lengths.pop())
    scanned = [values[::-1] if flag else values for values, flag in zip(scanned, prepended, strict=True)]
    return (*state, *_stacked(scanned, body, len(state), output_axes, xp))


def _flags(name, given, count):
    """One integer per scan input or output: 0 where the attribute is omitted."""
    flags = [0] * count if given is None else integers(given)
    if len(flags) != count:
        raise ValueError(f"{name} has {len(flags)} entries; it must have {count}")
    return flags


def _scan(body, state, inputs, axes, backward, steps):
    """The state after ``steps`` steps, and a list of values per scan output."""
    scanned: list[list[Any]] = [[] for _ in body.types[len(state) :]]
    for step in range(steps):
        parts = [
            x[(*[slice(None)] * axis, steps - 1 - step if reverse else step, ...)]
            for x, axis, reverse in zip(inputs, axes, backward, strict=True)
        ]
        result = body(*state, *parts)
        state = result[: len(state)]
        for values, value in zip(scanned, result[len(state) :], strict=True):
            values.append(value)
    return state, scanned


@operator(
    "Scan",
    since=8,
    host=("sequence_lens",),
    widen=False,
    bodies={"body": lambda types, attributes: list(types[1:])},
    types=lambda types, attributes: _of_scan(types[1:], attributes),
)
def scan_of_batches(
    sequence_lens=None, /, *initial_state_and_scan_inputs, body, num_scan_inputs, directions=None, wanted, xp
):
    """Before opset 9 axis 0 is a batch, axis 1 is scanned, and what follows a sequence's end is zero."""
    values = initial_state_and_scan_inputs
    state, inputs = values[: len(values) - num_scan_inputs], values[len(values) - num_scan_inputs :]
    if not 0 < num_scan_inputs <= len(values) or any(x.ndim < 2 for x in inputs):
        raise ValueError(f"num_scan_inputs is {num_scan_inputs}; so many inputs must have a batch axis and a scan axis")
    _check_outputs(body, 0, max(len(wanted), len(state)))
    batch, most = inputs[0].shape[:2]
    if any(x.shape[:2] != (batch, most) for x in inputs) or any(x.shape[:1] != (batch,) for x in state):
        raise ValueError(f"all scan inputs must have {batch} batches of {most} steps like the first; states {batch}")
    lengths = [most] * batch if sequence_lens is None else integers(sequence_lens)
    if len(lengths) != batch or not all(0 <= n <= most for n in lengths):
        raise ValueError(f"sequence_lens {lengths} must be {batch} lengths from 0 to {most}")
    backward = _flags("directions", directions, num_scan_inputs)
    states, outputs = [], []
    for i, steps in enumerate(lengths):
        row = [x[i, ...] for x in inputs]
        last, scanned = _scan(body, [x[i, ...] for x in state], row, [0] * len(row), backward, steps)
        states.append(last)
        stacked = _stacked(scanned, body, len(state), [0] * len(scanned), xp)
        outputs.append([xp.pad(x, [(0, most - steps), *[(0, 0)] * (x.ndim - 1)]) for x in stacked])
    if batch == 0:
        return (*state, *_stacked([[] for _ in body.types[len(state) :]], body, len(state), [0] * len(body.types), xp))
    return tuple(xp.stack(rows, axis=0) for rows in (*zip(*states, strict=True), *zip(*outputs, strict=True)))


def _item(value_type):
    """The type of a sequence's items; of a tensor the type itself."""
    return value_type[len("seq(") : -1] if value_type is not None and value_type.startswith("seq(") else value_type


@operator(
    "SequenceMap",
    since=17,
    widen=False,
    bodies={"body": lambda types, attributes: list(map(_item, types))},
    types=lambda types, attributes: [None if item is None else f"seq({item})" for item in attributes["body"]],
)
def sequence_map(input_sequence, /, *additional_inputs, body, xp):
    """``body`` once for each item of the sequence, with the items beside it of other sequences, and whole tensors."""
    for other in additional_inputs:
        if isinstance(other, list) and len(other) != len(input_sequence):
            raise ValueError(f"a sequence of {len(other)} beside one of {len(input_sequence)}; they must be as long")
    results = [
        body(item, *(other[i] if isinstance(other, list) else other for other in additional_inputs))
        for i, item in enumerate(input_sequence)
    ]
    return tuple([result[i] for result in results] for i in range(len(body.types)))
