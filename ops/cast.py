"""Casts from one element type to another."""

from __future__ import annotations

from onemodel.ops.element import tensor_type
from onemodel.ops.registry import operator

_UNSIGNED_ZERO = (18, 20)  # float8e4m3fnuz, float8e5m2fnuz


def _to(types, attributes):
    return [tensor_type(attributes["to"])]


@operator("Cast", since=24, elementwise=True, widen=False, types=_to)
def cast(input, /, *, to, saturate=1, round_mode="up", xp):
    """The same numbers as ``to``, a code of TensorProto.DataType; see ``extension.convert`` for what does not fit."""
    if round_mode not in ("up", "down", "nearest"):
        raise ValueError(f"round_mode {round_mode!r} must be up, down or nearest")
    return xp.convert(input, to, saturate=bool(saturate), round_mode=round_mode)


@operator("Cast", since=6, elementwise=True, widen=False, types=_to)
def cast_before_24(input, /, *, to, saturate=1, xp):
    """Before opset 24 an infinity becomes NaN in the 8-bit floats without a negative zero, even where it saturates."""
    return xp.convert(input, to, saturate="finite" if saturate and to in _UNSIGNED_ZERO else bool(saturate))


@operator("CastLike", since=24, elementwise=True, widen=False, types=("target_type",))
def cast_like(input, target_type, /, *, saturate=1, round_mode="up", xp):
    """The first input in the element type of the second."""
    return cast(input, to=xp.onnx_code(target_type.dtype), saturate=saturate, round_mode=round_mode, xp=xp)


@operator("CastLike", since=15, elementwise=True, widen=False, types=("target_type",))
def cast_like_before_24(input, target_type, /, *, saturate=1, xp):
    """With Cast's rules before opset 24."""
    return cast_before_24(input, to=xp.onnx_code(target_type.dtype), saturate=saturate, xp=xp)
