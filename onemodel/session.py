"""A model ready to run."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from onemodel import conversion, loader, threads
from onemodel.backends import get_backend
from onemodel.backends.base import Choice, Pending, Refused, Transfer, Unavailable
from onemodel.backends.exact.trust import check_arithmetic
from onemodel.config import SessionConfig
from onemodel.digest import EXACT_REVISION, digest_of
from onemodel.errors import BackendError, ExecutionError, InputError, LimitError
from onemodel.graphs import Graphs, GraphState
from onemodel.metadata import ModelMetadata, NodeArg, node_arg
from onemodel.plan import Planner
from onemodel.profile import NodeTime, Profile, timed
from onemodel.program import Program

_MOST_PROGRAMS = 64
"""Programs that a session keeps, one for each set of fed initializers and wanted intermediate values."""


class Session:
    """A model ready to run on one backend in one mode.

    Args:
        model: a path, bytes, a binary file object, or an ``onnx.ModelProto``.
        config: how to compute; see ``SessionConfig``.
        folder: where external data lies, for a model that does not come from a path.
        external_data: external data by location, preferred over the folder.
        **options: single options of ``SessionConfig``, over those of ``config``.

    Attributes:
        config: the configuration as given.
        mode: ``"exact"`` or ``"fast"``.
        backend: the name of the backend.

    Raises:
        ModelError: the model is not valid, or cannot be read.
        UnsupportedOperatorError: it has operators that nothing defines; all are named.
        InexactOperatorError: the session is exact and some operators have no exact result; all are named.
        BackendError: the backend or device is not there.
        LimitError: the model is beyond ``config.limits``.
        InputError: an option is not valid.
    """

    def __init__(
        self,
        model: Any,
        config: SessionConfig | None = None,
        *,
        folder: Any = None,
        external_data: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        unknown = sorted(set(options) - set(SessionConfig.names()))
        if unknown:
            known = ", ".join(SessionConfig.names())
            raise InputError(f"Session has no option {', '.join(map(repr, unknown))}; its options are {known}")
        if config is not None and not isinstance(config, SessionConfig):
            raise InputError(
                f"config is {conversion.what_is(config)}; pass a SessionConfig, or single options by name: mode='fast'"
            )
        config = config or SessionConfig()
        self.config = replace(config, **options) if options else config
        self._loaded = loader.load(model, folder=folder, external_data=external_data, limits=self.config.limits)
        try:
            self._backend = get_backend(self.config.backend, self.config.device)
            self.mode = self.config.mode or self._backend.default_mode
            self._backend = self._backend.for_mode(self.mode)
            self._check_arithmetic()
            if self.config.graphs and not (self._backend.has_graphs and self.mode == "fast"):
                raise InputError(
                    f"graphs=True is for backend 'cupy' in fast mode; this session is {self._backend.name!r}, "
                    f"{self.mode}: leave graphs away"
                )
            self._graphs = Graphs(self._backend) if self.config.graphs else None
            self._planner = Planner(
                self._loaded.model, self._loaded.opset_imports, self.config, self._backend, self.mode
            )
            self._lock = threading.Lock()
            self._programs: OrderedDict[tuple[frozenset[str], tuple[str, ...]], Program] = OrderedDict()
            self._checks: deque[Pending] = deque()
            if self.config.threads is not None:
                threads.look_up()
            self._program(frozenset(), ())
        except Unavailable as error:
            raise BackendError(str(error)) from error
        except RecursionError as error:
            raise LimitError(
                "the model's functions and subgraphs nest deeper than Python's recursion limit allows; "
                "sys.setrecursionlimit raises it"
            ) from error
        self.backend = self._backend.name

    def __reduce__(self) -> tuple[Any, ...]:
        model, folder, external_data = self._loaded.serialize()
        return _restore, (type(self), model, self.config, folder, external_data)

    def __repr__(self) -> str:
        return f"<onemodel.Session of {self._graph.name!r}: {self.backend}, {self.mode}>"

    # Questions, as ONNX Runtime answers them

    @property
    def _graph(self) -> Any:
        return self._loaded.model.graph

    def get_inputs(self) -> list[NodeArg]:
        """The inputs that every run must feed."""
        return list(self._inputs.values())

    def get_overridable_initializers(self) -> list[NodeArg]:
        """The initializers that a run may feed in place of their value."""
        return list(self._overridable.values())

    def get_outputs(self) -> list[NodeArg]:
        """The outputs, in the order in which ``run(None, ...)`` returns them."""
        return [node_arg(value) for value in self._graph.outputs]

    def get_modelmeta(self) -> ModelMetadata:
        """What the model says of itself."""
        model = self._loaded.model
        return ModelMetadata(
            model.producer_name or "",
            self._graph.name or "",
            model.domain or "",
            model.doc_string or "",
            self._graph.doc_string or "",
            model.model_version or 0,
            dict(model.metadata_props),
        )

    def get_providers(self) -> list[str]:
        """The backend and mode, in the place of ONNX Runtime's execution providers."""
        return [f"{self.backend}:{self.mode}"]

    def memory(self) -> dict[str, int]:
        """Bytes that the session holds between runs: ``constants``, weights and folded values; ``graphs``, if any."""
        with self._lock:
            held = [value for program in self._programs.values() for value in program.constants()]
        sizes = {id(value): value.nbytes for value in held}
        told = {"constants": sum(sizes.values())}
        return told if self._graphs is None else {**told, "graphs": sum(state.bytes for state in self.graphs())}

    def graphs(self) -> list[GraphState]:
        """Of ``graphs=True``: for each signature of feeds whether it has a CUDA graph, and why not; the latest last."""
        return [] if self._graphs is None else self._graphs.states()

    def digest(self, outputs: Sequence[Any] | Mapping[str, Any]) -> str:
        """One line that is the same wherever the outputs are, bit for bit: ``exact-1:`` and 64 hexadecimal digits.

        In exact mode two sessions of one model, fed the same inputs, have the same line on any two machines. The words
        in front are the mode and ``EXACT_REVISION``; a fast session's line says ``fast-1:`` and holds for its machine.

        The digits are the SHA-256 of these bytes, where a *number* is 8 bytes, unsigned and little-endian, and a *text*
        is the number of its UTF-8 bytes, then these bytes:

        1. the text ``onemodel``, the number ``EXACT_REVISION``, the number of outputs;
        2. for each output, in the order of their names (of code points): the name as a text, and the value:

           - a tensor: its ONNX type as a text (``tensor(float)``), the number of dimensions, each dimension's size as a
             number, then the elements in row-major order, little-endian. Booleans are one byte, 0 or 1. Types of less
             than 8 bits take one byte each: integers as (u)int8, floats with their bits lowest. Complex numbers are
             their real part, then the imaginary one. Every NaN is the positive quiet NaN with payload zero (0x7FC00000
             in float32; 0x7F in float8e4m3fn, 0x7E in float8e5m2, which have more than one too). Strings are texts;
           - a sequence: the text ``seq``, the number of items, each item as a value;
           - a map: the text ``map``, the number of entries, then for each key, in ascending order, the key as a tensor
             without dimensions (int64 or string) and the value as one;
           - an empty optional: the text ``none``. One that is not empty is the value in it.

        Args:
            outputs: all outputs as ``run(None, ...)`` returns them, or any values by name.

        Raises:
            InputError: these are not the model's outputs, or no values of ONNX.
        """
        if not isinstance(outputs, Mapping):
            names = [value.name for value in self._graph.outputs]
            if isinstance(outputs, str) or not isinstance(outputs, Sequence) or len(outputs) != len(names):
                given = f"{len(outputs)} of them" if isinstance(outputs, (list, tuple)) else conversion.what_is(outputs)
                raise InputError(
                    f"digest takes the {len(names)} outputs as run(None, ...) returns them, or values by name; "
                    f"got {given}"
                )
            outputs = dict(zip(names, outputs, strict=True))
        backend = self._backend

        def to_host(value: Any) -> Any:
            # The backend's own arrays of small types offer no protocol.
            bare = hasattr(value, "dtype") and not hasattr(value, "__dlpack__") and not hasattr(value, "__array__")
            own = value if bare or isinstance(value, backend.array_type) else backend.adopt(value)
            return value if own is None else backend.to_host(own)

        values = {name: conversion.moved(value, to_host) for name, value in outputs.items()}
        return f"{self.mode}-{EXACT_REVISION}:{digest_of(values)}"

    def external_hashes(self) -> dict[str, str]:
        """SHA-256 of the model's external data, by location: of the whole files, or buffers, that hold it."""
        return {
            location: hashlib.sha256(data).hexdigest()
            for location, data in sorted(self._loaded.external_data().items())
        }

    @cached_property
    def _inputs(self) -> dict[str, NodeArg]:
        initializers = self._graph.initializers
        return {value.name: node_arg(value) for value in self._graph.inputs if value.name not in initializers}

    @cached_property
    def _overridable(self) -> dict[str, NodeArg]:
        return {name: node_arg(self._graph.initializers[name]) for name in sorted(loader.overridable(self._loaded))}

    # Runs

    def run(self, output_names: Sequence[str] | None, feeds: Mapping[str, Any], run_options: Any = None) -> list[Any]:
        """Run the model.

        Args:
            output_names: which values to return: outputs or any intermediate value of the main graph; None is all
                outputs.
            feeds: an array for each input, by name: NumPy's, or anything with DLPack or ``__array__``. The dtype, rank
                and fixed dimensions must be the model's. Initializers that the model lists as inputs may be fed too. A
                sequence is a list, an empty optional None.
            run_options: taken for the sake of ONNX Runtime's signature; must be None.

        Returns:
            the values, in the order of ``output_names``.

        Raises:
            InputError: a feed or an output name does not fit the model.
            BackendError: the session is exact, and this thread flushes subnormal numbers or does not round to nearest.
            ExecutionError: a node failed.
        """
        if isinstance(output_names, str):
            raise InputError(
                f"output_names is the text {output_names!r}; pass a list of names, or None for all outputs"
            )
        if output_names is not None and not (
            isinstance(output_names, Iterable) and all(isinstance(name, str) for name in output_names)
        ):
            raise InputError(f"output_names is {output_names!r}; pass a list of names, or None for all outputs")
        if run_options is not None:
            raise InputError("run_options must be None; a session's options are those of SessionConfig")
        return self._run(None if output_names is None else tuple(output_names), feeds)

    def __call__(self, /, **feeds: Any) -> dict[str, Any]:
        """Run the model on ``feeds``, an array for each input by name; returns all outputs by name."""
        names = tuple(output.name for output in self.get_outputs())
        return dict(zip(names, self._run(None, feeds), strict=True))

    def profile(self, feeds: Mapping[str, Any]) -> Profile:
        """Run the model once on ``feeds``, and tell how long each node took and what moved to and from the device.

        Raises:
            InputError, ExecutionError: as ``run``.
        """
        times: list[NodeTime] = []
        with self._backend.recording() as record:
            self._run(None, feeds, lambda program: timed(program, self._backend, times))
        told = [entry for entry in record if entry.node is not None]
        return Profile(
            times,
            [entry for entry in told if isinstance(entry, Transfer)],
            [entry for entry in told if isinstance(entry, Choice)],
            self.graphs(),
        )

    def _run(
        self,
        names: tuple[str, ...] | None,
        feeds: Mapping[str, Any],
        wrap: Callable[[Program], Program] = lambda program: program,
    ) -> list[Any]:
        if not isinstance(feeds, Mapping):
            raise InputError(f"feeds is a {type(feeds).__name__}; it must be a mapping of input names to arrays")
        self._check_names(feeds)
        fed = frozenset(name for name in feeds if name not in self._inputs)
        outputs = tuple(value.name for value in self._graph.outputs)
        extra = () if names is None else tuple(sorted({name for name in names if name not in outputs}))
        if strange := [name for name in extra if name not in self._value_names]:
            raise InputError(
                f"the main graph has no value {', '.join(map(repr, strange))}; its outputs are {_names(outputs)}"
            )
        planned = self._program(fed, extra)
        program = wrap(planned)
        declared = self._inputs | self._overridable if fed else self._inputs
        arrays = [
            conversion.feed(
                f"input {name!r}", declared[name].type, declared[name].shape, feeds[name], self._backend.adopt
            )
            for name in program.names
        ]
        self._check_arithmetic()
        self._settle_earlier(wait=False)
        with self._backend.running(), threads.limited(self.config.threads):
            inputs, host = self._placed(program, arrays)
            if self._graphs is None or program is not planned:
                results = self._execute(program, inputs, host)
            else:
                results = self._graphs.run(program, inputs, host, lambda values: self._execute(program, values, host))
            if self.mode == "exact":
                xp: Any = self._backend.namespace(self.mode)
                results = [conversion.moved(value, xp.one_nan) for value in results]
            checks = self._backend.pending()
        if names is not None:
            by_name = dict(zip((*outputs, *extra), results, strict=True))
            results = [by_name[name] for name in names]
        return self._exported(planned, results, arrays, feeds, checks)

    def synchronize(self) -> None:
        """Wait until all work on the device is done.

        Raises:
            ExecutionError: a run whose outputs stayed on the device had got an index out of range, or the like.
        """
        self._backend.synchronize()
        self._settle_earlier(wait=True)

    def _placed(self, program: Program, arrays: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        """The feeds as the program's steps read them, on the device and on the host."""
        backend = self._backend
        if backend.on_host:
            return arrays, arrays

        def upload(array: Any) -> Any:
            return backend.from_host(array) if isinstance(array, np.ndarray) else array

        there = zip(arrays, program.inputs, strict=True)
        here = zip(program.names, arrays, program.host_inputs, strict=True)
        return [None if slot is None else conversion.moved(array, upload) for array, slot in there], [
            None if slot is None else backend.bound(conversion.moved, f"input {name!r}")(array, backend.to_host)
            for name, array, slot in here
        ]

    def _settle_earlier(self, *, wait: bool) -> None:
        """Read what runs have put off whose outputs stayed on the device: all, or what need not be waited for."""
        with self._lock:
            while self._checks and (wait or self._checks[0].done()):
                _settle(self._checks.popleft())

    def _execute(self, program: Program, inputs: Sequence[Any], arrays: Sequence[Any]) -> list[Any]:
        slots = program.template.copy()
        for slot, value in zip(program.inputs, inputs, strict=True):
            if slot is not None:
                slots[slot] = value
        for slot, value in zip(program.host_inputs, arrays, strict=True):
            if slot is not None:
                slots[slot] = value
        program.execute(slots)
        return [slots[slot] for slot in program.outputs]

    def _program(self, fed: frozenset[str], extra: tuple[str, ...]) -> Program:
        key = fed, extra
        with self._lock:
            if key not in self._programs:
                self._programs[key] = self._planner.plan(fed, extra)
                self._backend.synchronize()  # its constants are there for runs on any stream
                if len(self._programs) > _MOST_PROGRAMS:
                    self._programs.popitem(last=False)
            self._programs.move_to_end(key)
            return self._programs[key]

    @cached_property
    def _value_names(self) -> set[str]:
        graph = self._graph
        made = {value.name for node in graph for value in node.outputs if value.name}
        return made | {value.name for value in graph.inputs} | set(graph.initializers)

    def _check_arithmetic(self) -> None:
        """In exact mode: the calling thread rounds as IEEE 754 says."""
        if self.mode == "exact":
            try:
                check_arithmetic()
            except Unavailable as error:
                raise BackendError(str(error)) from error

    def _check_names(self, feeds: Mapping[str, Any]) -> None:
        unknown = [name for name in feeds if name not in self._inputs and name not in self._overridable]
        if unknown:
            raise InputError(
                f"the model has no input {', '.join(map(repr, unknown))}; its inputs are {_names(self._inputs)}"
            )
        missing = [name for name in self._inputs if name not in feeds]
        if missing:
            raise InputError(
                f"no feed for the input {', '.join(map(repr, missing))}; the inputs are {_names(self._inputs)}"
            )

    def _exported(
        self,
        program: Program,
        results: Sequence[Any],
        arrays: Sequence[Any],
        feeds: Mapping[str, Any],
        checks: Pending | None,
    ) -> list[Any]:
        """The results as the caller gets them: no views of constants, feeds or one another."""
        if not self._backend.on_host:
            library = None
            adopted = any(isinstance(array, self._backend.array_type) for array in arrays)
            if self.config.outputs == "feeds" and adopted:
                library = conversion.library_of(feeds.values())
            if library is not None or self.config.outputs == "backend":
                if checks is not None:
                    self._checks.append(checks)
                return self._exported_on_device(program, results, arrays, library)
        owners = {id(_owner(array)) for array in arrays if isinstance(array, np.ndarray)}
        exported = []
        for result in results:
            array = conversion.moved(result, self._backend.to_host)
            if isinstance(array, np.ndarray):
                if not array.flags.writeable or id(_owner(array)) in owners:
                    array = array.copy()
                owners.add(id(_owner(array)))
            elif isinstance(array, list):
                array = [item.copy() if isinstance(item, np.ndarray) else item for item in array]
            exported.append(array)
        if checks is not None:
            _settle(checks)
        if self.config.outputs == "feeds":
            library = conversion.library_of(feeds.values())
            if library is not None:
                back = partial(conversion.to_library, library=library)
                return [conversion.moved(array, back) for array in exported]
        return exported

    def _exported_on_device(
        self, program: Program, results: Sequence[Any], arrays: Sequence[Any], library: Any
    ) -> list[Any]:
        """The same for outputs that stay on the device, as arrays of ``library`` or else the backend's own."""
        backend = self._backend
        fed = (backend.memory_of(array) for array in arrays if isinstance(array, backend.array_type))
        kept = {*program.constant_memory, *fed}

        def own(array: Any) -> Any:
            if isinstance(array, np.ndarray):
                array = backend.from_host(array)
            if isinstance(array, np.ndarray):
                return array.copy()
            if backend.memory_of(array) in kept:
                array = array.copy()
            kept.add(backend.memory_of(array))
            return backend.released(array)

        with backend.running():
            exported = [conversion.moved(result, own) for result in results]
            if library is None or library.__name__.partition(".")[2] == backend.name:
                return exported
            # DLPack orders streams of the device that is current.
            return [conversion.moved(array, partial(conversion.to_library, library=library)) for array in exported]


def _restore(
    session: type[Session], model: bytes, config: SessionConfig, folder: Any, external_data: Mapping[str, Any] | None
) -> Session:
    return session(model, config, folder=folder, external_data=external_data)


def _owner(array: Any) -> Any:
    """The array or buffer whose memory an array shows."""
    while getattr(array, "base", None) is not None:
        array = array.base
    return array


def _settle(checks: Pending) -> None:
    try:
        checks.settle()
    except Refused as refused:
        error = refused.error
        raise ExecutionError(f"{refused.node} failed: {type(error).__name__}: {error}") from error


def _names(inputs: Iterable[str]) -> str:
    return ", ".join(map(repr, inputs)) or "none"
