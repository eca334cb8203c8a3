"""Native kernels of NumPy in fast mode."""

from __future__ import annotations

from onemodel.backends import numpy_convolution, numpy_elementwise, numpy_normalization, numpy_ordering, numpy_pooling
from onemodel.backends.base import Kernel

FAST: dict[tuple[str, str], Kernel] = {
    **numpy_convolution.KERNELS,
    **numpy_pooling.KERNELS,
    **numpy_normalization.KERNELS,
    **numpy_elementwise.KERNELS,
    **numpy_ordering.KERNELS,
}
