"""Every error that OneModel raises on purpose. Each message names what is wrong, what was expected, and what to do."""

from collections.abc import Sequence
from typing import Any

__all__ = [
    "BackendError",
    "ExecutionError",
    "InexactOperatorError",
    "InputError",
    "LimitError",
    "ModelError",
    "OneModelError",
    "UnsupportedOperatorError",
]


class OneModelError(Exception):
    """The base of all errors of OneModel.

    Attributes:
        nodes: the refused nodes, where the error names some; each has ``name``, ``op_type``, ``domain``, ``opset`` and
            ``reason``.
    """

    def __init__(self, message: str, nodes: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.nodes = tuple(nodes)


class ModelError(OneModelError):
    """The model is not valid ONNX, or cannot be read."""


class UnsupportedOperatorError(OneModelError):
    """The model has operators that no entry and no function body defines."""


class InexactOperatorError(OneModelError):
    """The session is exact, and the model has operators whose result exact mode does not define."""


class InputError(OneModelError):
    """What the caller passed does not fit the model's inputs or outputs, or the configuration."""


class BackendError(OneModelError):
    """The backend or device that was asked for is not there, or does not compute as the mode needs."""


class LimitError(OneModelError):
    """The model goes beyond a limit of the session's configuration."""


class ExecutionError(OneModelError):
    """A node failed while the model ran; ``__cause__`` is what it raised."""
