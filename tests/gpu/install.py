"""The stand-in for CuPy in ``sys.modules``, in place of the real one, for a while."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import ModuleType
from typing import Any

from tests.gpu import cpu_kernels
from tests.gpu.capture import Cublas, Driver
from tests.gpu.stand_in import make

_PACKAGES = ("cupy", "cupy_backends", "array_api_compat.cupy")


def kernels_here() -> str:
    """The option ``kernels`` for sessions: without g++ the stand-in cannot run our own kernels."""
    standing_in = "stand-in" in getattr(sys.modules.get("cupy"), "__version__", "stand-in")
    return "generic" if standing_in and cpu_kernels.compiler() is None else "native"


@contextmanager
def installed() -> Iterator[ModuleType]:
    """The stand-in in ``sys.modules``, in place of the real CuPy and all that has imported it; undone at the end."""
    from onemodel.backends import made

    def swap(those: dict[str, ModuleType]) -> dict[str, ModuleType]:
        present = {name: module for name, module in sys.modules.items() if _ours(name)}
        for name in present:
            _unload(name)
        for name, module in those.items():
            _load(name, module)
        made.cache_clear()
        return present

    before = swap(_kept or make())
    from onemodel.backends import cupy_libraries

    cupy_libraries.__dict__.update(cublas=Cublas, driver=Driver)
    try:
        yield sys.modules["cupy"]
    finally:
        _kept.update(swap(before))


def where_cupy_is() -> AbstractContextManager[Any]:
    """The real CuPy where it has a GPU, else the stand-in."""
    try:
        import cupy
    except ImportError:
        return installed()
    return nullcontext() if cupy.is_available() else installed()


_kept: dict[str, ModuleType] = {}
"""The stand-in and what has imported it, once it was installed."""


def _ours(name: str) -> bool:
    """Whether a module is CuPy's, or made of it."""
    return name.startswith("onemodel.backends.cupy_") or any(
        name == package or name.startswith(f"{package}.") for package in _PACKAGES
    )


def _unload(name: str) -> None:
    """Take a module out of ``sys.modules``, and out of the package that holds it, from which imports take it too."""
    del sys.modules[name]
    package, _, short = name.rpartition(".")
    if package in sys.modules and not _ours(package):
        vars(sys.modules[package]).pop(short, None)


def _load(name: str, module: ModuleType) -> None:
    """The other way round."""
    sys.modules[name] = module
    package, _, short = name.rpartition(".")
    if package in sys.modules and not _ours(package):
        setattr(sys.modules[package], short, module)
