"""Torch's exporters, quiet, from a case to a ModelProto."""

from __future__ import annotations

import contextlib
import inspect
import io
import logging
import os
import tempfile
import warnings
from collections.abc import Iterator
from copy import copy
from typing import Any

import onnx
import torch
from torch import nn

from tests.models.torch_exports.cases import LEGACY, TRACED, Case
from tests.models.torch_exports.feeds import Feeds


class ExportError(Exception):
    """The exporter refused; the text says why in one line."""


def tensors(feeds: Feeds) -> tuple[torch.Tensor, ...]:
    """The feeds as torch takes them."""
    return tuple(torch.from_numpy(value.copy()) for value in feeds.values())


class Exporter:
    """Exports the model of a case at any opset.

    Args:
        case: the case.
        kind: which exporter.
        module: its model, with weights.
        feeds: inputs to trace it with.

    Raises:
        ExportError: torch cannot trace the model.
    """

    def __init__(self, case: Case, kind: str, module: nn.Module, feeds: Feeds) -> None:
        self.case, self.kind, self.feeds = case, kind, feeds
        self.module: Any = module
        with _refusals():
            if kind != LEGACY:
                self.module = torch.export.export(module, tensors(feeds), dynamic_shapes=self._dynamic_shapes())
            elif case.scripted:
                self.module = torch.jit.script(module)

    def shared(self, kind: str) -> Exporter | None:
        """The same for another exporter, where it can go on from what is traced already; else None."""
        if LEGACY in (self.kind, kind):
            return None
        other = copy(self)
        other.kind = kind
        return other

    def at(self, opset: int) -> onnx.ModelProto:
        """The model at ``opset``.

        Raises:
            ExportError: the exporter cannot, or it gives another opset.
        """
        with _refusals():
            model = self._legacy(opset) if self.kind == LEGACY else self._new(opset)
        (got,) = (entry.version for entry in model.opset_import if entry.domain == "")
        if got != opset:
            raise ExportError(f"asked for opset {opset}, the exporter stays at {got}")
        return model

    def _legacy(self, opset: int) -> onnx.ModelProto:
        file = io.BytesIO()
        torch.onnx.export(
            self.module,
            tensors(self.feeds),
            file,  # type: ignore[arg-type] # the older exporter takes an open file
            input_names=list(self.feeds),
            output_names=list(self.case.outputs),
            opset_version=opset,
            dynamic_axes={name: dict(axes) for name, axes in self.case.dynamic.items()},
            dynamo=False,
        )
        return onnx.load_model_from_string(file.getvalue())

    def _new(self, opset: int) -> onnx.ModelProto:
        program = torch.onnx.export(
            self.module,
            (),
            input_names=list(self.feeds),
            output_names=list(self.case.outputs),
            opset_version=opset,
            optimize=self.kind != TRACED,
            verbose=False,
        )
        assert program is not None
        return program.model_proto

    def _dynamic_shapes(self) -> tuple[Any, ...]:
        """In the form of the arguments: those of ``*past`` are one tuple."""
        free = torch.export.Dim.DYNAMIC
        shapes = [dict.fromkeys(self.case.dynamic.get(name, ()), free) for name in self.feeds]
        parameters = list(inspect.signature(self.module.forward).parameters.values())
        if parameters[-1].kind is not inspect.Parameter.VAR_POSITIONAL:
            return tuple(shapes)
        return (*shapes[: len(parameters) - 1], tuple(shapes[len(parameters) - 1 :]))


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """Whatever an exporter raises is an ``ExportError``, and all else that it has to say is dropped."""
    fused = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # the older exporter has no translation for it
    try:
        with quiet(), torch.no_grad():
            yield
    except Exception as error:
        raise ExportError(_line(error)) from error
    finally:
        torch.backends.mha.set_fastpath_enabled(fused)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without warnings, logs and prints, those from C++ too."""
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryFile() as sink, warnings.catch_warnings(), contextlib.ExitStack() as stack:
        warnings.simplefilter("ignore")
        stack.callback(logging.disable, level)
        for stream in (1, 2):
            kept = os.dup(stream)
            stack.callback(os.close, kept)
            stack.callback(os.dup2, kept, stream)
            os.dup2(sink.fileno(), stream)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield


def _line(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {(str(error).strip() or '-').splitlines()[0]}"[:300]
