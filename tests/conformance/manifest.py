"""The lists of the cases that must pass, one per namespace, and what each namespace is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from importlib import metadata
from pathlib import Path
from typing import Any

import onnx

FOLDER = Path(__file__).parent
Run = Callable[[Mapping[str, Any]], list[Any]]
Prepare = Callable[[onnx.ModelProto], Run]

NAMESPACES: Mapping[str, Mapping[str, Any]] = {
    "numpy-fast": {"backend": "numpy", "mode": "fast"},
    "numpy-exact": {"backend": "numpy", "mode": "exact"},
    "strict-fast": {"backend": "strict", "mode": "fast"},
    "cupy-fast": {"backend": "cupy", "mode": "fast"},
    "cupy-exact": {"backend": "cupy", "mode": "exact"},
}
"""Namespace to the options of ``onemodel.onnx_backend.make_backend``."""
PEERS = ("onnx-reference", "onnxruntime")
STRICT_TYPES = frozenset(
    "bool float double int8 int16 int32 int64 uint8 uint16 uint32 uint64 complex64 complex128".split()
)
"""The element types that array-api-strict has: those of the Array API standard."""
STRICTEST_FLAGS: Mapping[str, bool] = {"boolean_indexing": False, "data_dependent_shapes": False}
"""What the standard leaves to a library, which array-api-strict can be told to refuse."""
DATA_DEPENDENT = ("Compress", "NonMaxSuppression", "NonZero", "Unique")
"""Operators whose outputs' shapes depend on values, so that they need what ``STRICTEST_FLAGS`` refuse."""


def manifest_path(namespace: str) -> Path:
    return FOLDER / f"manifest-{namespace}.txt"


def read_manifest(namespace: str) -> list[str]:
    """The names in a namespace's manifest, as written; none where there is no manifest yet."""
    path = manifest_path(namespace)
    return path.read_text(encoding="utf-8").split() if path.exists() else []


def write_manifest(namespace: str, names: Iterable[str]) -> None:
    manifest_path(namespace).write_text("".join(f"{name}\n" for name in sorted(set(names))), encoding="utf-8")


def read_peers() -> dict[str, dict[str, int]]:
    """What the peers pass by the suite's own comparison: peer with its version, to kind, to count."""
    peers: dict[str, dict[str, int]] = json.loads((FOLDER / "peers.json").read_text(encoding="utf-8"))
    return peers


def write_peer(peer: str, counts: Mapping[str, int]) -> None:
    """Put a peer's counts by kind into ``peers.json``, in place of those of another version."""
    package = peer.replace("-", ".")
    kept = {name: value for name, value in read_peers().items() if name.split()[0] != package}
    label = f"{package} {metadata.version(package.split('.')[0])}"
    text = json.dumps(dict(sorted({**kept, label: dict(counts)}.items())), indent=2)
    (FOLDER / "peers.json").write_text(text + "\n", encoding="utf-8")


def namespaces_with_manifest() -> list[str]:
    return [namespace for namespace in NAMESPACES if manifest_path(namespace).exists()]


def environment(namespace: str) -> AbstractContextManager[Any]:
    """What a namespace runs in: CuPy's on a stand-in over NumPy, which needs no GPU."""
    if NAMESPACES.get(namespace, {}).get("backend") != "cupy":
        return nullcontext()
    from tests.gpu.install import installed

    return installed()


def preparer(namespace: str, **options: Any) -> Prepare:
    """What makes a case's model ready to run in a namespace, or in a peer.

    Args:
        namespace: one of ``NAMESPACES`` or ``PEERS``.
        **options: more options for ``make_backend``.

    Raises:
        KeyError: there is no such namespace.
    """
    if namespace == "onnx-reference":
        return _prepare_reference
    if namespace == "onnxruntime":
        return _prepare_onnxruntime
    from onemodel.onnx_backend import make_backend

    device = "CPU"
    if NAMESPACES[namespace]["backend"] == "cupy":
        from tests.gpu.install import kernels_here

        device, options = "CUDA", {"kernels": kernels_here(), **options}
    backend = make_backend(**{**NAMESPACES[namespace], **options})

    def prepare(model: onnx.ModelProto) -> Run:
        prepared = backend.prepare(model, device)
        return lambda feeds: list(prepared.run(feeds))

    return prepare


def _prepare_reference(model: onnx.ModelProto) -> Run:
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(model)
    return lambda feeds: list(evaluator.run(None, dict(feeds)))


def _prepare_onnxruntime(model: onnx.ModelProto) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda feeds: list(session.run(None, dict(feeds)))
