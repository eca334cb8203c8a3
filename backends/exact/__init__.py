"""The exact namespace: correctly rounded, so the same bits everywhere.

What is exact in every library stays the library's own: moves of elements, comparisons, bit and integer arithmetic, IEEE
754's single operations, rounding to integers. Sums, products, extremes and elementary functions have definitions of
their own here. Everything else is refused when a session is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, wraps
from types import ModuleType
from typing import Any

from onemodel.backends import extension
from onemodel.backends.base import Namespace, build_namespace
from onemodel.backends.exact import (
    convolution,
    determinants,
    division,
    elementary,
    extremes,
    fourier,
    products,
    rounding,
    sums,
)
from onemodel.backends.exact.trust import check_product

DEFINED: dict[str, Callable[..., Any]] = {
    **sums.FUNCTIONS,
    **products.FUNCTIONS,
    **convolution.FUNCTIONS,
    **extremes.FUNCTIONS,
    **division.FUNCTIONS,
    **elementary.FUNCTIONS,
    "one_nan": rounding.one_nan,
    "as_factor": products.Prepared,
    **fourier.FUNCTIONS,
    **determinants.FUNCTIONS,
}
"""Functions that take the place of the library's; their ``xp`` is the library's own namespace, to compute with."""

COMPUTED = frozenset(DEFINED) - extremes.FUNCTIONS.keys() - {"one_nan", "prepare"}
"""Those of them that compute; they have no definition for complex numbers."""

ALWAYS = frozenset(
    """
    bool complex64 complex128 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 e inf nan newaxis pi abs
    add all any arange argmax argmin argsort asarray astype bitwise_and bitwise_invert bitwise_left_shift bitwise_or
    bitwise_right_shift bitwise_xor broadcast_arrays broadcast_shapes broadcast_to can_cast ceil concat conj copysign
    count_nonzero diff divide empty empty_like equal expand_dims eye finfo flip floor full full_like greater
    greater_equal iinfo imag isdtype isfinite isin isinf isnan less less_equal logical_and logical_not logical_or
    logical_xor meshgrid moveaxis multiply negative nextafter nonzero not_equal ones ones_like
    permute_dims positive real reciprocal repeat reshape result_type roll round searchsorted sign signbit sqrt square
    squeeze stack subtract take take_along_axis tile tril triu trunc unstack where zeros zeros_like
    """.split()
)
"""Functions of the standard that give the same bits in every library, on every type."""

ON_INTEGERS = frozenset({"floor_divide"})
"""Functions that do so on integers and booleans."""

NATIVE = frozenset(
    """
    bitcast checked_indices contiguous convert extend from_host gather host_dtype integer_matmul onnx_dtype pad scatter
    to_host windows
    """.split()
)
"""Functions a backend brings itself in both modes; they move elements and compute nothing."""


TAKE_INTEGERS = frozenset({"checked_indices", "refuse_zero", "trunc_divide"})
"""Extension functions that are only ever called with integers, whatever the operator's own element type is."""


def verdict(name: str) -> str:
    """``"always"``, ``"integers"`` or ``"never"``: on which element types the standard's function ``name`` is exact."""
    if name in ALWAYS or name in NATIVE or name in DEFINED:
        return "always"
    return "integers" if name in ON_INTEGERS else "never"


def exact_namespace(label: str, library: ModuleType, members: Mapping[str, Any]) -> Namespace:
    """``library``'s namespace with what is not exact replaced by a definition that is, or by a function that raises.

    Raises:
        Unavailable: the library's float64 product is not what exact products are made of.
    """
    own = build_namespace(label, library, members)
    check_product(own)
    namespace = build_namespace(label, library, members)
    for name, function in DEFINED.items():
        setattr(namespace, name, partial(function, xp=own))
    namespace.__dict__["prepare"] = partial(products.Prepared, xp=own)
    for name, value in list(vars(namespace).items()):
        if name in extension.FUNCTIONS or name in DEFINED or name in ("label", "prepare", "block_scale"):
            continue
        match verdict(name):
            case "integers":
                setattr(namespace, name, _integers_only(name, value, namespace))
            case "never":
                setattr(namespace, name, _refused(name))
    return namespace


def _refused(name: str) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise TypeError(f'{name} has no exact definition yet; mode="fast" computes it')

    return refuse


def _integers_only(name: str, function: Callable[..., Any], xp: Namespace) -> Callable[..., Any]:
    @wraps(function)
    def compute(*args: Any, **options: Any) -> Any:
        for array in args:
            dtype = getattr(array, "dtype", None)
            if dtype is not None and xp.host_dtype(dtype).kind not in "iub":
                raise TypeError(f'{name} of {dtype} has no exact definition yet; mode="fast" computes it')
        return function(*args, **options)

    return compute
