"""OneModel behind ONNX's own backend interface, ``onnx.backend.base.Backend``.

The module itself is such a backend, so that what expects one takes it as it is::

    import onnx.backend.test
    import onemodel.onnx_backend

    suite = onnx.backend.test.BackendTest(onemodel.onnx_backend, __name__)

It computes in fast mode, on NumPy for device ``"CPU"`` and on CuPy for ``"CUDA"``. ``make_backend`` makes the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TypeProto, helper
from onnx.backend.base import Backend, BackendRep, namedtupledict

from onemodel.backends import get_backend
from onemodel.backends.base import Unavailable
from onemodel.errors import BackendError, InputError
from onemodel.session import Session

__all__ = [
    "OneModelBackend",
    "OneModelRep",
    "is_compatible",
    "make_backend",
    "prepare",
    "run_model",
    "run_node",
    "supports_device",
]

_DEVICE_KINDS = {"numpy": "CPU", "strict": "CPU", "cupy": "CUDA"}
_DEFAULT_BACKENDS = {"CPU": "numpy", "CUDA": "cupy"}
_Outputs = Sequence[tuple[np.dtype[Any], tuple[int, ...]]]


class OneModelRep(BackendRep):
    """A prepared model.

    Attributes:
        session: the session that runs it.
    """

    def __init__(self, session: Session, model: onnx.ModelProto) -> None:
        initializers = {tensor.name for tensor in model.graph.initializer}
        initializers.update(tensor.values.name for tensor in model.graph.sparse_initializer)
        self.session = session
        self._inputs = [value.name for value in model.graph.input]
        self._required = [name for name in self._inputs if name not in initializers]
        self._result = namedtupledict("Outputs", [value.name for value in model.graph.output])

    def run(self, inputs: Any, **kwargs: Any) -> Any:
        """Run the model once.

        Args:
            inputs: values by name, or a sequence: one value for each graph input that no initializer gives, in the
                graph's order, or one for each graph input up to any point.
            **kwargs: none is known.

        Returns:
            the outputs as a named tuple, which takes a name as index too.

        Raises:
            InputError: more values came than the graph has inputs, or an unknown keyword.
            OneModelError: whatever ``Session.run`` raises.
        """
        if kwargs:
            raise InputError(f"run() takes no keyword {', '.join(map(repr, kwargs))}; options belong to prepare()")
        return self._result(*self.session.run(None, self.feeds(inputs)))

    def feeds(self, inputs: Any) -> dict[str, Any]:
        """``inputs`` of ``run`` by name."""
        if isinstance(inputs, Mapping):
            return dict(inputs)
        if not isinstance(inputs, (list, tuple)):
            inputs = [inputs]
        if len(inputs) > len(self._inputs):
            raise InputError(f"{len(inputs)} input values came, the model has {len(self._inputs)}: {self._inputs}")
        names = self._required if len(inputs) == len(self._required) else self._inputs
        return dict(zip(names, inputs, strict=False))


class OneModelBackend(Backend):
    """ONNX's backend interface over ``onemodel.Session``; see ``make_backend``."""

    backend: str | None = None
    options: Mapping[str, Any] = {"mode": "fast"}

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> OneModelRep:
        """Make a session of a model.

        Args:
            model: a ModelProto.
            device: ``"CPU"``, ``"CUDA"``, or ``"CUDA:1"`` for the GPU of that index.
            **kwargs: fields of ``SessionConfig``; they go before the backend's own options. The ``rtol`` and ``atol``
                that the official suite passes on mean nothing here.

        Raises:
            BackendError: this backend has no such device.
            OneModelError: whatever ``Session`` raises.
        """
        options = {**cls.options, **{key: value for key, value in kwargs.items() if key not in ("rtol", "atol")}}
        kind, index = _parse(device)
        backend = cls.backend or _DEFAULT_BACKENDS.get(kind)
        if backend is None or _DEVICE_KINDS.get(backend) != kind:
            raise BackendError(f"device {device!r} is not one of this backend's; {cls.__name__} runs on {cls._kinds()}")
        if index is not None:
            options.setdefault("device", index)
        options.setdefault("backend", backend)
        return OneModelRep(Session(model, **options), model)

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str = "CPU", **kwargs: Any) -> Any:
        """Prepare a model and run it once; see ``prepare`` and ``OneModelRep.run``."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: _Outputs | None = None,
        **kwargs: Any,
    ) -> Any:
        """Run one node.

        Args:
            node: the node.
            inputs: its values by name, or a sequence in the order of ``node.input``, with or without entries for those
                left out (``""``).
            device: as ``prepare`` takes it.
            outputs_info: dtype and shape of each output; what is left out is inferred.
            **kwargs: ``opset_version``, the opset of the node's domain (the newest that onnx knows by default), and
                fields of ``SessionConfig``.

        Returns:
            the node's outputs as a named tuple.

        Raises:
            InputError: the number of values does not fit the node, or a value's type cannot be told (None).
            OneModelError: whatever ``Session`` and its ``run`` raise.
        """
        opset = kwargs.pop("opset_version", None)
        feeds = _node_feeds(node, inputs)
        graph_inputs = [helper.make_value_info(name, _type_of(name, value)) for name, value in feeds.items()]
        names = [name for name in node.output if name]
        outputs = [helper.make_empty_tensor_value_info(name) for name in names]
        for output, (dtype, shape) in zip(outputs, outputs_info or (), strict=False):
            element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
            output.type.CopyFrom(helper.make_tensor_type_proto(element, shape))
        graph = helper.make_graph([node], "node", graph_inputs, outputs)
        imports = [helper.make_opsetid(node.domain, opset or _newest_opset(node.domain))]
        model = helper.make_model(graph, opset_imports=imports)
        return cls.run_model(model, feeds, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """True where a session can be made on ``device``: ``"CPU"``, ``"CUDA"`` or ``"CUDA:0"``."""
        kind, index = _parse(device)
        backend = cls.backend or _DEFAULT_BACKENDS.get(kind)
        if backend is None or _DEVICE_KINDS.get(backend) != kind:
            return False
        try:
            get_backend(backend, index)
        except Unavailable:
            return False
        return True

    @classmethod
    def _kinds(cls) -> str:
        return repr(_DEVICE_KINDS[cls.backend]) if cls.backend else " and ".join(map(repr, _DEFAULT_BACKENDS))


def make_backend(backend: str | None = None, mode: str | None = "fast", **options: Any) -> type[OneModelBackend]:
    """An ``onnx.backend.base.Backend`` class for one of OneModel's namespaces.

    Args:
        backend: as ``SessionConfig`` takes it. ``None`` goes by the device: NumPy for ``"CPU"``, CuPy for ``"CUDA"``.
        mode: ``"fast"``, ``"exact"``, or ``None`` for the backend's default.
        **options: other fields of ``SessionConfig``.

    Raises:
        InputError: there is no such backend.
    """
    if backend is not None and backend not in _DEVICE_KINDS:
        raise InputError(f"backend={backend!r} is not known; it is one of {', '.join(map(repr, _DEVICE_KINDS))}")
    name = "".join(str(part).capitalize() for part in ("OneModel", backend, mode) if part)
    members = {"backend": backend, "options": {"mode": mode, **options}, "__module__": __name__}
    return type(name, (OneModelBackend,), members)


def _parse(device: str) -> tuple[str, int | None]:
    """``"CUDA:1"`` as ("CUDA", 1)."""
    kind, _, index = device.partition(":")
    if index and not index.isdecimal():
        return device, None
    return kind, int(index) if index and kind != "CPU" else None


def _node_feeds(node: onnx.NodeProto, inputs: Any) -> dict[str, Any]:
    if isinstance(inputs, Mapping):
        return dict(inputs)
    if not isinstance(inputs, (list, tuple)):
        inputs = [inputs]
    given = [name for name in node.input if name]
    if len(inputs) == len(given):
        return dict(zip(given, inputs, strict=True))
    if len(inputs) == len(node.input):
        return {name: value for name, value in zip(node.input, inputs, strict=True) if name}
    raise InputError(f"{len(inputs)} input values came, the {node.op_type} node has {len(given)} inputs: {given}")


def _type_of(name: str, value: Any) -> TypeProto:
    """The ONNX type of a value; tensors keep their rank and shape."""
    if isinstance(value, list) and value:
        element = _type_of(name, value[0])
        if len({np.shape(item) for item in value}) > 1:
            element.tensor_type.ClearField("shape")
        return helper.make_sequence_type_proto(element)
    if value is None or isinstance(value, list):
        raise InputError(f"the type of input {name!r} cannot be told from {value!r}; make a model and use run_model")
    array = value if hasattr(value, "dtype") else np.asarray(value)
    dtype = np.dtype(object) if array.dtype.kind in "UT" else np.dtype(str(array.dtype))
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(dtype), array.shape)


def _newest_opset(domain: str) -> int:
    domain = "" if domain == "ai.onnx" else domain
    return max((s.since_version for s in onnx.defs.get_all_schemas() if s.domain == domain), default=1)


is_compatible = OneModelBackend.is_compatible
prepare = OneModelBackend.prepare
run_model = OneModelBackend.run_model
run_node = OneModelBackend.run_node
supports_device = OneModelBackend.supports_device
