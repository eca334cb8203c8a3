"""What a session may be told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from onemodel.errors import InputError

Mode = Literal["exact", "fast"]
Kernels = Literal["native", "generic"]
Outputs = Literal["feeds", "numpy", "backend"]

_BACKENDS = ("numpy", "cupy", "strict")


@dataclass(frozen=True)
class Limits:
    """What a model may cost before it is refused with a ``LimitError``.

    Attributes:
        nodes: nodes of the whole model, counted with every function body written out at each call.
        depth: how deep subgraphs and function calls may nest.
        fold_bytes: how many bytes of results are computed once, when the session is made. What does not fit, or takes
            many seconds, is computed in each run instead, which is no error. Sparse tensors, made dense, may take as
            much; more is refused.
    """

    nodes: int = 1_000_000
    depth: int = 100
    fold_bytes: int = 1 << 29

    def __post_init__(self) -> None:
        for field in fields(self):
            _refuse_unless_whole(f"limits.{field.name}", getattr(self, field.name), 0)


def _refuse_unless_whole(name: str, value: Any, least: int, *, or_none: bool = False) -> None:
    if or_none and value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        kinds = "None or a whole number" if or_none else "a whole number"
        raise InputError(f"{name}={value!r} is not valid; it is {kinds} from {least} on")


@dataclass(frozen=True)
class SessionConfig:
    """How a session computes.

    Attributes:
        backend: ``"numpy"`` (CPU), ``"cupy"`` (NVIDIA GPU), or ``"strict"``, which runs on array-api-strict to prove
            that an operator keeps to the Array API standard.
        mode: ``"exact"`` (correctly rounded, the same bits everywhere) or ``"fast"`` (the library's own kernels).
            ``None`` takes the backend's default: exact on NumPy, fast elsewhere.
        device: index of the GPU; ``None`` takes the current one. The CPU backends have only device ``None``.
        threads: threads of the BLAS libraries that are loaded when the session is made, for the length of each run;
            ``None`` leaves the process's setting alone. The setting belongs to the process, so sessions that run at the
            same time share it.
        kernels: ``"generic"`` turns the backend's native kernels off, so that every operator runs as written in
            ``ops``.
        seed: of nodes that draw random numbers and have no ``seed`` of their own: the same seed gives the same draws in
            every run. ``None`` draws anew in every run, which exact mode refuses.
        outputs: ``"feeds"`` gives outputs in the feeds' array library, ``"numpy"`` always NumPy arrays, ``"backend"``
            the backend's own arrays.
        graphs: a run whose feeds have the shapes and types of an earlier one may replay that run's work as a CUDA
            graph, which costs the host next to nothing. For backend ``"cupy"`` in fast mode; see docs/gpu.md for what
            it takes.
        operators: functions made by ``onemodel.operator`` that this session alone prefers over the registered ones.
        limits: see ``Limits``.

    Raises:
        InputError: a value is not one of those allowed.
    """

    backend: str = "numpy"
    mode: Mode | None = None
    device: int | None = None
    threads: int | None = None
    kernels: Kernels = "native"
    seed: int | None = None
    outputs: Outputs = "feeds"
    graphs: bool = False
    operators: Sequence[Callable[..., Any]] = ()
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        allowed: dict[str, tuple[Any, ...]] = {
            "backend": _BACKENDS,
            "mode": (*get_args(Mode), None),
            "kernels": get_args(Kernels),
            "outputs": get_args(Outputs),
        }
        for name, values in allowed.items():
            if getattr(self, name) not in values:
                options = ", ".join(map(repr, values))
                raise InputError(f"{name}={getattr(self, name)!r} is not known; it is one of {options}")
        for name, least in (("device", 0), ("threads", 1), ("seed", 0)):
            _refuse_unless_whole(name, getattr(self, name), least, or_none=True)
        if not isinstance(self.graphs, bool):
            raise InputError(f"graphs={self.graphs!r} is not valid; it is True or False")
        if not isinstance(self.limits, Limits):
            raise InputError(f"limits={self.limits!r} is not valid; it is a onemodel.Limits")
        if not isinstance(self.operators, Sequence):
            raise InputError(f"operators={self.operators!r} is not valid; it is a list of functions")
        for function in self.operators:
            if not hasattr(function, "operators"):
                raise InputError(
                    f"operators holds {function!r}, which onemodel.operator has not made; decorate it with "
                    "@onemodel.operator(name, domain=..., since=..., register=False)"
                )

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The names of all options."""
        return tuple(field.name for field in fields(cls))
