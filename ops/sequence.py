"""Sequences and optionals: Python lists, and None or a value."""

from __future__ import annotations

from onemodel.ops.axes import integers, one_axis, one_number
from onemodel.ops.element import tensor_type
from onemodel.ops.registry import operator
from onemodel.ops.shape import concat, parts


@operator("SequenceConstruct", since=11, widen=False)
def sequence_construct(*inputs, xp):
    """A sequence of the inputs."""
    return list(inputs)


@operator("SequenceEmpty", since=11, widen=False)
def sequence_empty(*, dtype=None, xp):
    """A sequence without items; ``dtype`` says of which tensors."""
    if dtype is not None and tensor_type(dtype) is None:
        raise ValueError(f"dtype {dtype} is not an element type of ONNX; see TensorProto.DataType")
    return []


@operator("SequenceLength", since=11, metadata=True, widen=False)
def sequence_length(input_sequence, /, *, xp):
    """How many items there are, a 0-d int64."""
    return xp.asarray(len(input_sequence), dtype=xp.int64)


def _place(position, count):
    """A position among ``count``, counted from the front."""
    place = one_number(position, "position", int)
    if not -count <= place < count:
        raise IndexError(f"position {place} is out of range; it goes from {-count} to {count - 1}")
    return place % count


@operator("SequenceAt", since=11, host=("position",), widen=False)
def sequence_at(input_sequence, position, /, *, xp):
    """The item at ``position``, which counts from the end where it is negative."""
    return input_sequence[_place(position, len(input_sequence))]


@operator("SequenceErase", since=11, host=("position",), widen=False)
def sequence_erase(input_sequence, position=None, /, *, xp):
    """The sequence without the item at ``position``, or without its last one."""
    place = _place(-1 if position is None else position, len(input_sequence))
    return input_sequence[:place] + input_sequence[place + 1 :]


@operator("SequenceInsert", since=11, host=("position",), widen=False)
def sequence_insert(input_sequence, tensor, position=None, /, *, xp):
    """The sequence with ``tensor`` before the item at ``position``, or at its end."""
    count = len(input_sequence)
    place = count if position is None else one_number(position, "position", int)
    if not -count <= place <= count:
        raise IndexError(f"position {place} is out of range; it goes from {-count} to {count}")
    place = place if place >= 0 else place + count
    return [*input_sequence[:place], tensor, *input_sequence[place:]]


@operator("ConcatFromSequence", since=11, widen=False)
def concat_from_sequence(input_sequence, /, *, axis, new_axis=0, xp):
    """The items one after the other along ``axis``, which is a new one with ``new_axis``."""
    if not input_sequence:
        raise ValueError("the sequence is empty; there is nothing to concatenate")
    if new_axis not in (0, 1):
        raise ValueError(f"new_axis {new_axis} must be 0 or 1")
    if new_axis:
        return xp.stack(input_sequence, axis=one_axis(axis, input_sequence[0].ndim + 1))
    return concat(*input_sequence, axis=axis, xp=xp)


@operator("SplitToSequence", since=11, host=("split",), widen=False)
def split_to_sequence(input, split=None, /, *, axis=0, keepdims=1, xp):
    """Parts along ``axis``: all of the size ``split`` (1 where omitted) but the last one, or of the sizes ``split``."""
    axis = one_axis(axis, input.ndim)
    length = input.shape[axis]
    if split is None or split.ndim == 0:
        each = 1 if split is None else one_number(split, "split", int)
        if each < 1:
            raise ValueError(f"split {each} must be positive")
        sizes = [min(each, length - start) for start in range(0, length, each)]
    else:
        sizes = integers(split)
    result = list(parts(input, sizes, axis, len(sizes)))
    return result if keepdims or split is not None else [xp.squeeze(part, axis=axis) for part in result]


# Optionals


@operator("Optional", since=15, widen=False)
def optional(input=None, /, *, type=None, xp):
    """An optional that holds the input, or nothing."""
    if input is None and type is None:
        raise ValueError("an optional without an input needs the attribute type")
    return input


@operator("OptionalHasElement", since=18, metadata=True, widen=False)
def optional_has_element(input=None, /, *, xp):
    """Whether there is a value, a 0-d boolean."""
    return xp.asarray(input is not None, dtype=xp.bool)


@operator("OptionalHasElement", since=15, metadata=True, widen=False)
def optional_has_element_before_18(input, /, *, xp):
    """Before opset 18 the input is an optional."""
    return optional_has_element(input, xp=xp)


@operator("OptionalGetElement", since=15, widen=False)
def optional_get_element(input, /, *, xp):
    """The value of an optional; a tensor or a sequence as it is."""
    if input is None:
        raise ValueError("the optional is empty; there is no element to get")
    return input
