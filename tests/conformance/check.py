"""One case, from its model to the verdict."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.conformance.cases import Case
from tests.conformance.compare import compare_as_suite, compare_strictly
from tests.conformance.manifest import Prepare

STAGES = ("data", "prepare", "run", "suite's comparison", "strict comparison")


class CaseFailure(AssertionError):
    """A case did not pass; ``__cause__`` is why.

    Attributes:
        stage: where it failed, one of ``STAGES``.
    """

    def __init__(self, case: Case, stage: str, cause: BaseException) -> None:
        super().__init__(f"{case.name} failed at stage {stage!r}: {type(cause).__name__}: {cause}")
        self.stage = stage


def check(case: Case, prepare: Prepare) -> None:
    """Run a case once per data set, fed by name, and compare the outputs in both ways.

    The feeds are read-only, so that an operator that writes into its inputs fails.

    Raises:
        CaseFailure: anything went wrong, an error of the suite's own comparison included.
    """
    stage = STAGES[0]
    try:
        data_sets = case.data_sets()
        model = case.model
        stage = STAGES[1]
        run = prepare(model)
        for data in data_sets:
            stage = STAGES[2]
            outputs = run({name: _read_only(value) for name, value in data.feeds.items()})
            stage = STAGES[3]
            compare_as_suite(data.expected, outputs, case.rtol, case.atol)
            stage = STAGES[4]
            units = 2 if case.composite else 1
            compare_strictly(data.expected, outputs, case.rtol, case.atol, bfloat16_units=units)
    except Exception as error:
        raise CaseFailure(case, stage, error) from error


def _read_only(value: Any) -> Any:
    if isinstance(value, list):
        return [_read_only(item) for item in value]
    if isinstance(value, np.ndarray):
        value = value.view()
        value.flags.writeable = False
    return value
