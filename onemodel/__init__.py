"""Run ONNX models in Python, exact or fast."""

import logging as _logging
from pathlib import Path as _Path

# In a checkout ``ops`` and ``backends`` stand beside this folder, in a wheel they lie inside it.
_HERE = _Path(__file__).resolve().parent
if not (_HERE / "ops").is_dir():
    __path__.append(str(_HERE.parent))

_logging.getLogger("onemodel").addHandler(_logging.NullHandler())

from onemodel.config import Limits, SessionConfig
from onemodel.digest import EXACT_REVISION
from onemodel.errors import (
    BackendError,
    ExecutionError,
    InexactOperatorError,
    InputError,
    LimitError,
    ModelError,
    OneModelError,
    UnsupportedOperatorError,
)
from onemodel.ops.registry import operator
from onemodel.session import Session

__version__ = "0.1.0"

__all__ = [
    "EXACT_REVISION",
    "BackendError",
    "ExecutionError",
    "InexactOperatorError",
    "InputError",
    "LimitError",
    "Limits",
    "ModelError",
    "OneModelError",
    "Session",
    "SessionConfig",
    "UnsupportedOperatorError",
    "__version__",
    "operator",
]
