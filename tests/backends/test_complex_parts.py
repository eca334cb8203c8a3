"""Complex numbers as pairs, and pairs as complex numbers: every bit stays."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from onemodel.backends import get_backend

PARTS = list(itertools.product([0.0, -0.0, 1.5, np.inf, -np.inf, np.nan], repeat=2))


@pytest.mark.parametrize("name", ["numpy", "strict"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("mode", ["fast", "exact"])
def test_every_pair_of_parts(name: str, mode: str, dtype: Any) -> None:
    backend = get_backend(name)
    xp: Any = backend.namespace(mode)
    pairs = np.array(PARTS, dtype)
    joined = xp.join_complex(backend.from_host(pairs))
    assert backend.to_host(joined).dtype == np.result_type(dtype, np.complex64)
    assert backend.to_host(joined).tobytes() == pairs.tobytes()
    assert backend.to_host(xp.split_complex(joined)).tobytes() == pairs.tobytes()
    turned = xp.join_complex(xp.permute_dims(backend.from_host(np.ascontiguousarray(pairs.T)), (1, 0)))
    assert backend.to_host(turned).tobytes() == pairs.tobytes()


@pytest.mark.parametrize("name", ["numpy", "strict"])
@pytest.mark.parametrize("mode", ["fast", "exact"])
def test_a_number_without_axes(name: str, mode: str) -> None:
    backend = get_backend(name)
    xp: Any = backend.namespace(mode)
    number = backend.from_host(np.asarray(complex(0.5, np.nan), np.complex64))
    assert xp.split_complex(number).shape == (2,)
    assert xp.join_complex(xp.split_complex(number)).shape == ()
    if mode == "exact":
        assert xp.one_nan(number).shape == ()
