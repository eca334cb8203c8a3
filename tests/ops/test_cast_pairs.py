"""Cast between all pairs of element types, against the tables of its text written out for one number at a time.

A number is a Python integer, a Fraction or a float that is no Fraction: NaN, an infinity, -0.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

from tests.ops.harness import LATEST, run

Array = NDArray[Any]
Number = int | float | Fraction


class Format(NamedTuple):
    """Binary floats: digits of the significand, the least normal exponent, the greatest number, and what is beyond."""

    digits: int
    least: int
    greatest: Fraction
    beyond: str


def ieee(digits: int, bias: int) -> Format:
    return Format(digits, 1 - bias, (2 - Fraction(2) ** (1 - digits)) * 2**bias, "infinity")


FORMATS = {
    "DOUBLE": ieee(53, 1023),
    "FLOAT": ieee(24, 127),
    "FLOAT16": ieee(11, 15),
    "BFLOAT16": ieee(8, 127),
    "FLOAT8E4M3FN": Format(4, -6, Fraction(448), "nan"),
    "FLOAT8E4M3FNUZ": Format(4, -7, Fraction(240), "nan, one zero"),
    "FLOAT8E5M2": Format(3, -14, Fraction(57344), "infinity"),
    "FLOAT8E5M2FNUZ": Format(3, -15, Fraction(57344), "nan, one zero"),
    "FLOAT6E2M3": Format(4, 0, Fraction(15, 2), "nothing"),
    "FLOAT6E3M2": Format(3, -2, Fraction(28), "nothing"),
    "FLOAT4E2M1": Format(2, 0, Fraction(6), "nothing"),
}
SATURATE = ("FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "FLOAT8E8M0")
INTEGERS = {f"{sign}INT{width}": width for sign in ("", "U") for width in (2, 4, 8, 16, 32, 64)}
NAMES = (*FORMATS, "FLOAT8E8M0", *INTEGERS, "BOOL", "STRING")


def dtype_of(name: str) -> np.dtype[Any]:
    return np.dtype(helper.tensor_dtype_to_np_dtype(getattr(TensorProto, name)))


def limits(name: str) -> tuple[int, int]:
    width = INTEGERS[name]
    return (0, 2**width - 1) if name[0] == "U" else (-(2 ** (width - 1)), 2 ** (width - 1) - 1)


# The numbers to cast


def interesting() -> Iterator[Fraction]:
    """What lies at the ends of each format, and half way between its numbers."""
    for form in FORMATS.values():
        top = Fraction(2) ** (math.frexp(form.greatest)[1] if form.digits < 53 else 1024)
        last = top / 2**form.digits
        tiny = Fraction(2) ** (form.least - form.digits + 1)
        ulp = Fraction(2) ** (1 - form.digits)
        yield from (form.greatest, form.greatest + last / 2, form.greatest + last, form.greatest * 9 / 8)
        yield from (
            tiny,
            tiny / 2,
            tiny * 3 / 2,
            tiny * 5 / 2,
            tiny * 9 / 16,
            tiny / 4,
            Fraction(2) ** form.least - tiny / 2,
        )
        yield from (1 + ulp / 2, 1 + 3 * ulp / 2, 1 + ulp * 9 / 16, 1 + ulp * 7 / 16)
    for width in INTEGERS.values():
        for power in (width - 1, width):
            yield from (Fraction(2**power + d, 4) for d in (0, -1, 1, -2, 2, -4, 4))
            yield from (Fraction(2**power) + d for d in (0, -1, 1, Fraction(-1, 2), Fraction(1, 2)))
    for power in (-127, -126, 126, 127):
        yield from (
            Fraction(2) ** power * factor
            for factor in (Fraction(1, 2), 1, Fraction(5, 4), Fraction(3, 2), Fraction(7, 4))
        )
    yield from map(Fraction, (0, Fraction(1, 3), Fraction(5, 2), 3, Fraction(7, 2), 36, 200, 1000, 10**10, 10**30))


@cache
def samples(name: str) -> Array:
    """Elements of a type: all of them up to 8 bits, else many."""
    dtype = dtype_of(name)
    if name == "STRING":
        plain = [
            f"{sign}{text}" for text in ("0", "1", "2.5", "300", "0.1", "1e5", "1e30", "7e-46", "inf") for sign in "+-"
        ]
        return np.array([*plain, "NaN", "9007199254740993", "1.000000059604644775390625000000001"], object)
    if dtype.itemsize == 1:
        width = INTEGERS.get(name, {"FLOAT4E2M1": 4, "FLOAT6E2M3": 6, "FLOAT6E3M2": 6, "BOOL": 1}.get(name, 8))
        codes = np.arange(2**width, dtype=np.uint8)
        low = limits(name)[0] if name in INTEGERS else 0
        return (codes.astype(np.int16) + low).astype(dtype) if low or name in INTEGERS else codes.view(dtype)
    found = [sign * number for number in interesting() for sign in (1, -1)]
    if name in INTEGERS:
        low, high = limits(name)
        return np.array(sorted({int(n) for n in found if low <= n <= high}), dtype)
    values = [float(n) for n in found if abs(n) <= FORMATS["DOUBLE"].greatest]
    with np.errstate(over="ignore"):
        narrow = np.array([*values, -0.0, math.nan, math.inf, -math.inf]).astype(dtype)
    bits = narrow.view(f"u{dtype.itemsize}")
    _, first = np.unique(bits, return_index=True)
    more = bits[np.sort(first)]
    near = np.concatenate([more, more + 1, more - 1])
    return np.unique(near).view(dtype)


def number(element: Any, name: str) -> Number:
    """The number that an element is."""
    if name == "STRING":
        text = element.lower().removeprefix("+")
        if text.lstrip("-") in ("inf", "nan"):
            return float(text)
        exact = Fraction(Decimal(text))
        return -0.0 if exact == 0 and text[0] == "-" else exact
    if name in INTEGERS or name == "BOOL":
        return int(element)
    value = float(element)
    return value if not math.isfinite(value) or (value == 0 and math.copysign(1, value) < 0) else Fraction(value)


@cache
def numbers(name: str) -> list[Number]:
    return [number(element, name) for element in samples(name)]


# The text, for one number


def rounded(value: Fraction, form: Format) -> Fraction:
    """The nearest number of a format without an end, the even one of two."""
    if value == 0:
        return value
    magnitude = abs(value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    exponent -= magnitude < Fraction(2) ** exponent
    step = Fraction(2) ** (max(exponent, form.least) - form.digits + 1)
    return round(value / step) * step


def to_float(value: Number, name: str, saturate: bool, opset: int) -> int | float:
    form = FORMATS[name]
    negative = math.copysign(1, value) < 0
    sign = -1 if negative else 1
    if value != value:
        return 0 if form.beyond == "nothing" else math.nan  # an integer: the zero may have either sign
    infinite = not isinstance(value, Fraction) and abs(value) == math.inf
    near = Fraction(0) if infinite or value == 0 else rounded(Fraction(value), form)
    if infinite or abs(near) > form.greatest:
        if form.beyond == "nothing" or (name in SATURATE and saturate):
            # The table of opset 19 to 23 has NaN for infinities where there is no negative zero.
            strange = infinite and form.beyond == "nan, one zero" and opset < 24
            return math.nan if strange else sign * float(form.greatest)
        return sign * math.inf if form.beyond == "infinity" else math.nan
    if near == 0:
        return 0.0 if form.beyond == "nan, one zero" else sign * 0.0
    return float(near)


def to_power(value: Number, saturate: bool, round_mode: str) -> float:
    """float8e8m0: the sign is ignored."""
    least, greatest = Fraction(2) ** -127, Fraction(2) ** 127
    if value != value:
        return math.nan
    size = greatest * 2 if value in (math.inf, -math.inf) else abs(Fraction(value))
    if not least <= size <= greatest:
        return float(max(least, min(size, greatest))) if saturate else math.nan
    below = Fraction(2) ** (size.numerator.bit_length() - size.denominator.bit_length())
    below = below / 2 if below > size else below
    if size == below or round_mode == "down":
        return float(below)
    return float(below * 2 if round_mode == "up" or size >= below * 3 / 2 else below)


def to_integer(value: Number, name: str, source: str) -> int:
    low, high = limits(name)
    if value != value:
        return 0
    if abs(value) == math.inf:
        return high if value > 0 else low
    whole = math.trunc(value)
    if source in INTEGERS or source == "BOOL" or INTEGERS[name] < 8:
        return (whole - low) % (high - low + 1) + low
    return min(max(whole, low), high)


def right(value: Number, source: str, name: str, saturate: bool, round_mode: str, opset: int) -> Any:
    if name == "BOOL":
        return value != 0
    if name in INTEGERS:
        return to_integer(value, name, source)
    if name == "FLOAT8E8M0":
        return to_power(value, saturate, round_mode)
    return to_float(value, name, saturate, opset)


# All pairs


NEW = {"FLOAT8E8M0": 24, "INT2": 25, "UINT2": 25, "FLOAT6E2M3": 28, "FLOAT6E3M2": 28}
"""The opset that brought a type, where it is not 23 or before."""


def options(source: str, to: str) -> list[dict[str, Any]]:
    if to == "FLOAT8E8M0":
        return [{"saturate": s, "round_mode": mode} for s in (1, 0) for mode in ("up", "down", "nearest")]
    if to not in SATURATE:
        return [{}]
    return [{}, {"saturate": 0}, *([] if source in NEW else [{"opset": 23}, {"opset": 23, "saturate": 0}])]


@pytest.mark.parametrize(("source", "to"), [*itertools.product(NAMES, NAMES)])
@np.errstate(invalid="ignore")  # quiet and signalling NaN are compared as numbers
def test_cast(source: str, to: str) -> None:
    x = samples(source)
    for chosen in options(source, to):
        got = run("Cast", x, to=getattr(TensorProto, to), **chosen)
        assert got.dtype == dtype_of(to)
        if source == to:
            same = got == x if to == "STRING" else got.view(np.uint8) == x.view(np.uint8)
            assert same.all()
        elif to == "STRING":
            assert [as_text(text, value, source) for text, value in zip(got, x, strict=True)] == [""] * x.size
        else:
            meant = {"saturate": 1, "round_mode": "up", "opset": LATEST} | chosen
            saturate, mode, opset = bool(meant["saturate"]), meant["round_mode"], meant["opset"]
            want = [right(value, source, to, saturate, mode, opset) for value in numbers(source)]
            wrong = [(e, g, w) for e, g, w in zip(x, got, want, strict=True) if not equal(g, w)]
            assert not wrong, f"{chosen}: {len(wrong)} wrong (from, got, right): {wrong[:5]}"


def equal(got: Any, want: Any) -> bool:
    if not isinstance(want, float):
        return bool(got == want)
    value = float(got)
    return (
        math.isnan(value) if math.isnan(want) else value == want and math.copysign(1, value) == math.copysign(1, want)
    )


def as_text(text: str, element: Any, source: str) -> str:
    """What is wrong with the text of a number; nothing where it is plain notation, and the shortest that reads back."""
    if source == "BOOL" or source in INTEGERS:
        return "" if text == str(int(element)) else f"{text} for {int(element)}"
    value = float(element)
    if not math.isfinite(value):
        return "" if text == ("NaN" if math.isnan(value) else "INF" if value > 0 else "-INF") else f"{text} for {value}"
    if not re.fullmatch(r"-?(0|[1-9]\d*)(\.\d*[1-9])?", text) or (text[0] == "-") != (math.copysign(1, value) < 0):
        return f"{text} for {value}"
    if source == "FLOAT8E8M0":
        digits = len(text.strip("-0.").replace(".", ""))
        return "" if Fraction(text) == Fraction(value) or digits < 17 else f"{text} for {value}"
    back = rounded(Fraction(text), FORMATS[source])
    return "" if back == Fraction(value) else f"{text} reads back as {float(back)}, not {value}"
