"""Run a case on every path and hold it against ONNX Runtime, or against the right value where that is known wrong."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import Any

import numpy as np

import onemodel
from tests.ops import harness
from tests.oracle import known
from tests.oracle.draw import Case, kind
from tests.oracle.peer import Answer, ask

TOLERANCES = {"float16": (4e-3, 4e-3), "bfloat16": (3e-2, 3e-2), "float64": (1e-7, 1e-9), "complex128": (1e-7, 1e-9)}
"""How far two results may lie apart, relative and absolute."""
DEFAULT = (2e-5, 1e-6)
COARSE = (0.13, 0.02)
"""For floats of 8 bits and fewer."""

STATUSES = ("equal", "equal in wider types", "right where it is wrong", "both refuse", "own paths only", "WRONG")


@dataclass(frozen=True)
class Result:
    """How a case went; ``message`` tells what is wrong."""

    case: Case
    status: str
    message: str = ""

    @property
    def wrong(self) -> bool:
        return self.status == "WRONG"


def check(case: Case) -> Result:
    """One case, on all paths."""
    place = known.find(case)
    answer = Answer(missing=True) if place is not None and place.fatal else ask(case)
    try:
        return Result(case, _check(case, place, answer))
    except AssertionError as error:
        return Result(case, "WRONG", _short(error))
    except onemodel.OneModelError as error:
        return _refused(case, answer, error)
    except Exception:  # noqa: BLE001 - the command goes on with the next case
        return Result(case, "WRONG", traceback.format_exc(limit=-3))


def _check(case: Case, place: known.Place | None, answer: Answer) -> str:
    rtol, atol = _tolerance(case.inputs, case)
    exact = known.exact_values(case)
    ours = _outputs(case, harness.run_model(case.model, *case.inputs, rtol=rtol, atol=atol, exact=exact))
    if case.free:
        return "own paths only"
    if place is not None:
        theirs = None if answer.values is None else answer.narrowed(ours)
        with np.errstate(all="ignore"):
            right = place.right(case, theirs)
        if isinstance(right, list):
            _same(ours, right, case, "what is right")
            return "right where it is wrong"
        answer = ask(right)
    if answer.missing:
        return "own paths only"
    assert answer.values is not None, f"gives {_brief(ours)}; ONNX Runtime refuses: {answer.refusal}"
    _same(ours, answer.narrowed(ours), case, "ONNX Runtime", wide=answer.stand_in is not None)
    if place is not None:
        return "right where it is wrong"
    return "equal" if answer.stand_in is None else "equal in wider types"


def _refused(case: Case, answer: Answer, error: onemodel.OneModelError) -> Result:
    """All paths must refuse it."""
    feeds = {f"x{i}": value for i, value in enumerate(case.inputs) if value is not None}
    for path in harness.PATHS:
        if "strict" in path and not harness.standard(list(case.inputs)):
            continue
        try:
            with harness.session_on(path, case.model) as session:
                session.run(None, feeds)
        except onemodel.OneModelError:
            continue
        return Result(case, "WRONG", f"{path} does not refuse what numpy fast refuses: {error}")
    if answer.values is not None:
        return Result(case, "WRONG", f"refused ({error}); ONNX Runtime gives {_brief(answer.values)}")
    return Result(case, "own paths only" if answer.missing else "both refuse")


def differ(answer: Answer, place: known.Place, case: Case) -> bool:
    """Whether ONNX Runtime's answer is none, or not what is right in this place."""
    if answer.values is None:
        return not answer.missing
    with np.errstate(all="ignore"):
        right = place.right(case, answer.values)
    if not isinstance(right, list):
        right = ask(right).values or []
    try:
        _same(answer.narrowed(right), right, case, "")
    except (AssertionError, ValueError):
        return True
    return False


def _outputs(case: Case, outputs: Any) -> list[Any]:
    return outputs if sum(case.outputs) != 1 else [outputs]


def _tolerance(values: Any, case: Case, wide: bool = False) -> tuple[float, float]:
    """The widest tolerance that the element types among ``values`` and the case call for; an ``atol`` of 0 stays 0."""
    rtol, atol = 0.0, 0.0
    for value in values:
        if isinstance(value, (list, tuple)):
            found = _tolerance(value, case)
        elif value is None or isinstance(value, dict) or kind(value.dtype) not in "fc":
            continue
        elif kind(value.dtype) == "f" and value.dtype.itemsize == 1:
            found = COARSE
        else:
            found = TOLERANCES.get(value.dtype.name, DEFAULT)
        rtol, atol = max(rtol, found[0]), max(atol, found[1])
    rtol, atol = (rtol, atol) if rtol else DEFAULT
    if wide:
        rtol, atol = max(rtol, DEFAULT[0]), max(atol, DEFAULT[1])
    return max(rtol, case.rtol or 0), 0.0 if case.atol == 0 else max(atol, case.atol or 0)


def _same(ours: list[Any], theirs: list[Any], case: Case, whose: str, *, wide: bool = False) -> None:
    rtol, atol = _tolerance([*theirs, *case.inputs], case, wide)
    for i, (got, want) in enumerate(zip(ours, theirs, strict=True)):
        what = f"output {i} against {whose}"
        harness.same(got, want, rtol=rtol, atol=atol, what=what)
        if case.zeros:
            _same_zeros(got, want, what)


def _same_zeros(got: Any, want: Any, what: str) -> None:
    if isinstance(want, list):
        for ours, theirs in zip(got, want, strict=True):
            _same_zeros(ours, theirs, what)
    elif isinstance(want, np.ndarray) and kind(want.dtype) == "f":
        one, other = got.astype(np.float64), want.astype(np.float64)
        wrong = (one == 0) & (other == 0) & (np.signbit(one) != np.signbit(other))
        assert not wrong.any(), f"{what}: signs of zeros differ at {np.argwhere(wrong)[:3].tolist()}"


def _short(error: AssertionError) -> str:
    """The message without NumPy's second half, which prints the arrays again."""
    lines = [line for line in str(error).splitlines() if line.strip() and "tolerance" not in line]
    return "\n".join(line for line in lines[:14] if "Max " not in line and "Mismatch at" not in line)


def _brief(values: Any) -> str:
    text = " ".join(str(values).split())
    return text if len(text) < 300 else f"{text[:300]} ..."
