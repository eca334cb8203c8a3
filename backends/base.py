"""What a backend must offer, and how its namespaces are put together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache, partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto
from onnx.helper import tensor_dtype_to_np_dtype

from onemodel.backends import extension
from onemodel.backends.fusion import Fusion, Joined, Meanings

if TYPE_CHECKING:
    from onemodel.backends.exact.program import Program

Array = Any
"""An array of the backend's library."""

STANDARD = tuple(
    """
    bool complex64 complex128 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 e inf nan newaxis pi abs
    acos acosh add all any arange argmax argmin argsort asarray asin asinh astype atan atan2 atanh bitwise_and
    bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor broadcast_arrays broadcast_shapes
    broadcast_to can_cast ceil clip concat conj copysign cos cosh count_nonzero cumulative_prod cumulative_sum diff
    divide empty empty_like equal exp expand_dims expm1 eye fft finfo flip floor floor_divide full full_like greater
    greater_equal hypot iinfo imag isdtype isfinite isin isinf isnan less less_equal linalg linspace log log10 log1p
    log2 logaddexp logical_and logical_not logical_or logical_xor matmul matrix_transpose max maximum mean meshgrid min
    minimum moveaxis multiply negative nextafter nonzero not_equal ones ones_like permute_dims positive pow prod real
    reciprocal remainder repeat reshape result_type roll round searchsorted sign signbit sin sinh sort sqrt square
    squeeze stack std subtract sum take take_along_axis tan tanh tensordot tile tril triu trunc unique_all unique_counts
    unique_inverse unique_values unstack var vecdot where zeros zeros_like
    """.split()
)
"""The names of the Array API standard 2025.12 that operators may use (https://data-apis.org/array-api/2025.12/)."""


class Unavailable(Exception):
    """A backend or device that is not there; the text says what is missing and how to get it."""


class Namespace:
    """The functions and dtypes that operators may use: the Array API standard and ``extension``'s functions."""

    block_scale = 1
    """How many times as many elements exact mode takes at a time as suit a CPU's cache."""
    prepare: Callable[..., Any] | None = None
    """Makes a constant factor ready for products, once; None where they take it as it is."""

    def __init__(self, label: str, members: Mapping[str, Any]) -> None:
        self.__dict__.update(members)
        self.label = label

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"the {self.label} namespace has no {name!r}; operators use the Array API standard 2025.12 and the "
            "functions of onemodel.backends.extension"
        )

    def run_program(self, program: Program, *arrays: Array) -> Array:
        """What a program of exact mode gives for 1-D arrays of one length; here as written."""
        return program.run(self, *arrays)

    def table(self, make: Callable[..., np.ndarray[Any, Any]], *arguments: str) -> Array:
        """What ``make`` gives on the host, which depends on its arguments alone; here made and moved each time."""
        return self.from_host(make(*arguments))


def build_namespace(label: str, library: ModuleType, members: Mapping[str, Any]) -> Namespace:
    """The standard's names from ``library``, the extension functions as written there, and ``members`` over both."""
    namespace = Namespace(label, {name: getattr(library, name) for name in STANDARD})
    for name, function in extension.FUNCTIONS.items():
        setattr(namespace, name, partial(function, xp=namespace))
    namespace.__dict__.update(members)
    return namespace


@cache
def numpy_dtype(code: int) -> np.dtype[Any]:
    """NumPy's dtype (of ml_dtypes where NumPy has none) for an ONNX element type code; strings are objects."""
    return np.dtype(object) if code == TensorProto.STRING else np.dtype(tensor_dtype_to_np_dtype(code))


class Kernel:
    """A native kernel: a function with an operator's own signature that one backend prefers over the generic one.

    Attributes:
        function: called like the operator.
        since: the meaning that it computes.
        dtypes: NumPy names of the first input's element types that it takes.
        halves: it takes float16 and bfloat16 as they are, and rounds once itself.
        partial: it returns NotImplemented for what it leaves to the generic form.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        since: int,
        dtypes: Collection[str],
        *,
        halves: bool = False,
        partial: bool = False,
    ) -> None:
        self.function = function
        self.since = since
        self.dtypes = frozenset(dtypes)
        self.halves = halves
        self.partial = partial


class Backend(ABC):
    """One array library on one device."""

    name: str
    default_mode: str
    array_type: type[Any]
    """The class of the backend's arrays; every value of a run is one."""
    has_graphs = False
    """Whether ``capture`` captures."""
    on_host = False
    """True where the backend's arrays are NumPy arrays, so that nothing ever moves."""
    waiting: frozenset[str] = frozenset()
    """The namespace's functions that wait for the device, because what they give depends on values there."""
    host_operators: frozenset[tuple[str, str]] = frozenset()
    """Domains and names of operators that would wait so often that they run on the host, with NumPy."""

    def for_mode(self, mode: str) -> Backend:
        """The backend of sessions in ``mode``, where its arrays are others in one mode than in the other."""
        return self

    @abstractmethod
    def namespace(self, mode: str) -> Namespace:
        """The namespace that operators of a session in ``mode`` get as ``xp``; Unavailable where there is none."""

    def generic_namespace(self, mode: str) -> Namespace:
        """The same without kernels of our own."""
        return self.namespace(mode)

    def kernels(self, mode: str) -> Mapping[tuple[str, str], Kernel]:
        """The native kernels of ``mode``, by operator domain and name."""
        return {}

    def program(self, function: Callable[..., Any]) -> Kernel | None:
        """An elementwise operator's function compiled into one kernel; None where the backend runs it as written."""
        return None

    def fusion(self, mode: str) -> Fusion | None:
        """How neighbouring elementwise operators become one step; None where they do not."""
        return None

    def chains(self, mode: str) -> Mapping[Meanings, Joined]:
        """Operators that become one step where each reads the result of the one before alone."""
        return {}

    @abstractmethod
    def from_host(self, array: np.ndarray[Any, Any]) -> Array:
        """A NumPy array as one of the backend's; the copy is left out where there is no need for one."""

    @abstractmethod
    def to_host(self, array: Array) -> np.ndarray[Any, Any]:
        """A backend array as a NumPy array."""

    def normalise(self, value: Any) -> Any:
        """What an operator returned, as the backend's arrays: scalars become 0-d arrays, lists keep their items."""
        if value is None or isinstance(value, (self.array_type, np.ndarray, dict)):
            return value
        if isinstance(value, list):
            return [self.normalise(item) for item in value]
        if isinstance(value, str):
            return np.asarray(value, object)
        return np.asarray(value) if isinstance(value, np.generic) else self.of_number(value)

    @abstractmethod
    def of_number(self, value: Any) -> Array:
        """A Python number, or an array of the library's that is not yet of ``array_type``, as the backend's array."""

    def running(self) -> AbstractContextManager[Any]:
        """Entered for the length of each run, in the thread of the run."""
        return nullcontext()

    # What a backend on a device has more to say about

    def holds(self, value_type: str) -> bool:
        """Whether the backend's arrays can hold values of an ONNX type; NumPy's hold the others."""
        return True

    def adopt(self, given: Any) -> Array | None:
        """A caller's array on the backend's device as one of the backend's, not copied; None for one elsewhere."""
        return None

    def released(self, array: Array) -> Any:
        """One of the backend's arrays as callers get it."""
        return array

    def memory_of(self, array: Array) -> Any:
        """What two arrays have in common where they may share memory."""
        return id(array)

    def bound(self, call: Callable[..., Any], node: Any) -> Callable[..., Any]:
        """``call`` of a step, so made that transfers and refusals in it can be told as those of ``node``."""
        return call

    def pending(self) -> Pending | None:
        """What this thread's run has put off to check (see ``extension.refuse``); asked inside ``running``."""
        return None

    def synchronize(self) -> None:  # noqa: B027 - most backends have nothing to wait for
        """Wait until all work on the device is done."""

    def recording(self) -> AbstractContextManager[list[Transfer | Choice]]:
        """A list that gets each transfer and each choice of this thread within a run."""
        return nullcontext([])

    def capture(self, run: Callable[[list[Any]], list[Any]], inputs: Sequence[Any]) -> Captured:
        """The work that ``run`` queues on the device for inputs of these shapes and types, to be queued again at once.

        Args:
            run: gives the outputs for inputs; called more than once.
            inputs: arrays on the device, and None.

        Raises:
            NotCapturable: something in it cannot be repeated without running it.
        """
        raise NotCapturable(f"backend {self.name!r} has no graphs")


@dataclass(frozen=True)
class Transfer:
    """Something that moved between the host and the device in a run.

    Attributes:
        direction: ``"to_host"``, for which the host has waited, or ``"to_device"``.
        what: the function that moved it.
        bytes: how much.
        node: the node that needed it.
    """

    direction: str
    what: str
    bytes: int
    node: Any


@dataclass(frozen=True)
class Choice:
    """A way of computing that a run took.

    Attributes:
        node: the node that it is about.
        text: which way, and why.
    """

    node: Any
    text: str


class NotCapturable(Exception):
    """A run cannot be captured; the text says what in it."""


class Captured(ABC):
    """Captured work, and the memory that it uses."""

    @abstractmethod
    def replay(self, inputs: Sequence[Any]) -> list[Any]:
        """The outputs for inputs like those captured, in memory of their own; asked inside ``running``.

        Any number of threads may ask at once. Checks that the work puts off are those of the run that asks.
        """

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes on the device that it keeps."""

    @abstractmethod
    def wait(self) -> None:
        """Wait until nothing of it is at work."""


class Refused(Exception):
    """Values that a run had put off to check are wrong.

    Attributes:
        node: the node that refuses them.
        error: what it would have raised.
    """

    def __init__(self, node: Any, error: Exception) -> None:
        super().__init__(f"{node}: {error}")
        self.node = node
        self.error = error


class Pending(ABC):
    """Checks that one run has put off."""

    @abstractmethod
    def done(self) -> bool:
        """Whether they can be read without waiting."""

    @abstractmethod
    def settle(self) -> None:
        """Read them, waiting where need be; Refused where one found something wrong."""


class HostBackend(Backend):
    """A backend whose arrays are NumPy arrays."""

    default_mode = "exact"
    array_type = np.ndarray
    on_host = True

    def from_host(self, array: np.ndarray[Any, Any]) -> Array:
        return array

    def to_host(self, array: Array) -> np.ndarray[Any, Any]:
        result: np.ndarray[Any, Any] = array
        return result

    def of_number(self, value: Any) -> Array:
        return np.asarray(value)

    def running(self) -> AbstractContextManager[Any]:
        return np.errstate(all="ignore")


class NamespaceCache:
    """Makes each namespace once, by mode."""

    def __init__(self, **makers: Callable[[], Namespace]) -> None:
        self._makers = makers
        self._made: dict[str, Namespace] = {}

    def __call__(self, mode: str) -> Namespace:
        if mode not in self._makers:
            raise Unavailable(f"mode {mode!r} is not there yet; the modes are {', '.join(map(repr, self._makers))}")
        if mode not in self._made:
            self._made[mode] = self._makers[mode]()
        return self._made[mode]
