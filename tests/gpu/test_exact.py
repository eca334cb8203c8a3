"""Exact mode on CuPy: NumPy's bits, by kernels that keep subnormal numbers.

All of it runs where CuPy's own kernels of float32 are refused (``no_float32``), and OneModel's run on the CPU.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper

import onemodel
from onemodel.backends import get_backend
from onemodel.backends.exact import elementary, powers
from tests.exact import digests
from tests.gpu import cpu_kernels, device_rules, models
from tests.gpu.cpu_kernels import FLOATS
from tests.gpu.test_compilation import COMPILER, nvrtc_missing, under_sanitizers
from tests.gpu.test_kernels import programs
from tests.models_by_hand import graph_model
from tests.ops.harness import model

pytestmark = pytest.mark.skipif(cpu_kernels.compiler() is None, reason="g++, which builds the kernels, is not there")

Array = np.ndarray[Any, Any]
INTEGERS = [np.dtype(t) for t in "bhilBHIL?"]
HOST = get_backend("numpy").namespace("exact")


@pytest.fixture(autouse=True)
def strict(cupy: Any) -> Iterator[None]:
    with device_rules.no_float32(), np.errstate(all="ignore"):
        yield


@pytest.fixture
def xp(cupy: Any) -> Any:
    return get_backend("cupy").namespace("exact")


@pytest.fixture
def library(cupy: Any) -> Any:
    """What the exact definitions compute with."""
    from types import SimpleNamespace

    from onemodel.backends import cupy_exact

    return SimpleNamespace(**cupy_exact.MEMBERS)


def sample(dtype: Any, count: int = 1 << 12, seed: int = 0) -> Array:
    """All kinds of bits, and numbers of ordinary size; of special ones each."""
    random = np.random.default_rng(seed)
    bits = random.integers(0, 256, count * dtype.itemsize, dtype=np.uint8).view(dtype)
    special = np.array([0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan], dtype)
    least = np.arange(1, 5, dtype=f"u{dtype.itemsize}").view(dtype)
    usual = (random.integers(-(1 << 20), 1 << 20, count) * 2.0**-16).astype(dtype)
    return np.concatenate([bits, usual, special, least, -least])


def same(got: Any, want: Any, what: str = "") -> None:
    """The same dtype, shape and bits, but for those of NaN."""
    from onemodel.backends.cupy_exact_array import to_host

    found, want = to_host(got), np.asarray(want)
    assert (found.dtype, found.shape) == (want.dtype, want.shape), what
    kind = f"u{found.itemsize}"
    equal = np.ascontiguousarray(found).view(kind) == np.ascontiguousarray(want).view(kind)
    assert (equal | ((found != found) & (want != want))).all(), what


BINARY = "add subtract multiply divide copysign equal not_equal less less_equal greater greater_equal".split()
UNARY = "negative abs sqrt ceil floor trunc round sign square reciprocal isnan isinf isfinite signbit".split()


def test_single_operations(dtype: Any, library: Any) -> None:
    x, y = sample(dtype), np.roll(sample(dtype, seed=1), 7)
    wide = dtype if dtype == np.float64 else np.dtype(np.float32)
    names = {"abs": "absolute", "round": "rint"}
    a, b = library.from_host(x), library.from_host(y)

    def expected(name: str, *operands: Array) -> Array:
        result = getattr(np, names.get(name, name))(*(operand.astype(wide) for operand in operands))
        return np.asarray(result if result.dtype == bool else result.astype(dtype))

    for name in BINARY:
        same(getattr(library, name)(a, b), expected(name, x, y), name)
    for name in UNARY:
        same(getattr(library, name)(a), expected(name, x), name)


def test_operators_and_numbers(dtype: Any, library: Any) -> None:
    x = sample(dtype)
    a = library.from_host(x)
    scale = np.asarray(0.75, dtype)
    same(library.multiply(a, library.asarray(0.75, dtype=dtype)), (x * scale).astype(dtype))
    if dtype.itemsize > 2:
        same(2 - a * 0.75 / 3, dtype.type(2) - x * dtype.type(0.75) / dtype.type(3))
        same(-(a + 1e-45 if dtype == np.float32 else a), -(x + dtype.type(1e-45) if dtype == np.float32 else x))
    same((a > 0) & ~(a >= 2) | (a != a), (x > 0) & ~(x >= 2) | (x != x))
    b = library.from_host(np.arange(12).reshape(3, 4))
    same(3 - b * 2 & 5 ^ 1 | b << 1, 3 - np.arange(12).reshape(3, 4) * 2 & 5 ^ 1 | np.arange(12).reshape(3, 4) << 1)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 4), ()),
        ((), (2, 1)),
        ((3, 4), (4,)),
        ((3, 4), (3, 1)),
        ((2, 3, 4, 5), (3, 1, 1)),
        ((2, 3, 4, 5), (3, 4, 1)),
        ((2, 1, 4, 1), (3, 1, 5)),
        ((1, 1), (1,)),
        ((0, 4), (1, 4)),
        ((2, 3), (1, 2, 3)),
    ],
    ids=str,
)
def test_broadcasting(library: Any, a: Any, b: Any) -> None:
    x, y = (np.arange(1, 1 + int(np.prod(shape)), dtype=np.float32).reshape(shape) for shape in (a, b))
    left, right = library.from_host(x), library.from_host(y)
    same(left / right, x / y)
    same(right < left, y < x)
    if x.ndim > 1:
        same(library.permute_dims(left, tuple(range(x.ndim))[::-1]) - 1, x.T - np.float32(1))
        same(left[..., ::-2] * 3, x[..., ::-2] * np.float32(3))


def test_conversions(library: Any) -> None:
    for source in (*FLOATS, *INTEGERS):
        x = sample(source) if source in FLOATS else np.random.default_rng(0).integers(0, 256, 4096, np.uint8)
        x = x if source in FLOATS else (x & 1).astype(bool) if source.kind == "b" else x.view(source)
        given = library.from_host(x)
        for target in (*FLOATS, *INTEGERS):
            code = int(helper.np_dtype_to_tensor_dtype(target))
            same(library.convert(given, code), HOST.convert(x, code), f"{source} to {target}")
            if target in FLOATS or source in INTEGERS:
                same(library.astype(given, target), HOST.convert(x, code), f"{source} as {target}")


def test_small_types_have_one_nan(xp: Any) -> None:
    """Bit for bit, for some of them have no NaN."""
    from onemodel.backends.cupy_narrow import DTYPES

    small = [dtype for dtype in DTYPES if "float" in dtype.name]
    for source, target in permutations(small, 2):
        x = np.arange(1 << ml_dtypes.finfo(source).bits, dtype=np.uint8).view(source)
        code = int(helper.np_dtype_to_tensor_dtype(target))
        got = xp.to_host(xp.convert(xp.from_host(x), code))
        assert got.tobytes() == HOST.convert(x, code).tobytes(), f"{source} to {target}"


def test_ties_are_rounded_once(library: Any) -> None:
    for target, last in ((np.dtype(np.float16), 11), (FLOATS[3], 8)):
        code = int(helper.np_dtype_to_tensor_dtype(target))
        ties = 1 + (np.arange(16) * 2 + 1) * 2.0**-last
        x = np.concatenate([np.nextafter(ties, 0), ties, np.nextafter(ties, 9)])
        same(library.convert(library.from_host(x), code), HOST.convert(x, code))
        whole = (ties * 2.0**60).astype(np.int64)
        x = np.concatenate([whole - 1, whole, whole + 1, -whole - 1])
        same(library.convert(library.from_host(x), code), HOST.convert(x, code))


def test_orders(dtype: Any, library: Any, xp: Any) -> None:
    x = sample(dtype, 300)[: 4 * 150].reshape(4, 150)
    x[1, 3:9] = np.array([0.0, -0.0, 0.0, 3.0, -0.0, 3.0])
    a = library.from_host(x)
    wide = x.astype(np.float64)
    for axis in (0, 1, -1):
        for name in ("argmax", "argmin"):
            same(getattr(library, name)(a, axis=axis), getattr(np, name)(wide, axis=axis), name)
        for descending in (False, True):
            options = {"axis": axis, "descending": descending, "stable": True}
            same(library.argsort(a, **options), HOST.argsort(wide, **options), f"argsort {options}")
        for name in ("max", "min"):
            same(getattr(xp, name)(a, axis=axis), getattr(HOST, name)(x, axis=axis), name)
    table = np.sort(wide[wide == wide]).astype(dtype)
    same(library.searchsorted(library.from_host(table), a), np.searchsorted(table.astype(np.float64), wide))
    same(library.nonzero(library.from_host(x[0]))[0], np.nonzero(wide[0])[0])
    same(library.count_nonzero(a), np.count_nonzero(wide))
    assert bool(library.any(library.from_host(np.array([5e-324]).astype(np.float64))))
    assert bool(library.all(library.from_host(np.arange(1, 3, dtype=f"u{dtype.itemsize}").view(dtype))))


def test_moves_keep_subnormal_numbers(dtype: Any, xp: Any) -> None:
    x = np.arange(24, dtype=f"u{dtype.itemsize}").view(dtype).reshape(4, 6)
    a, least = xp.from_host(x), np.ones(1, f"u{dtype.itemsize}").view(dtype)
    place, mask = np.array([3, 0, 2]), x != x[1, 1]
    same(xp.take(a, xp.from_host(place), axis=0), x[place])
    same(xp.where(xp.from_host(mask), a, xp.from_host(least)), np.where(mask, x, least).astype(dtype))
    same(xp.concat([a, a[:, ::-1]], axis=0), np.concatenate([x, x[:, ::-1]]))
    same(xp.tril(a), HOST.tril(x))
    same(xp.pad(a, [(1, 0), (0, 2)], xp.from_host(least[0])), HOST.pad(x, [(1, 0), (0, 2)], least[0]))
    same(xp.full((2, 3), float(least[0].astype(np.float64)), dtype=dtype), np.full((2, 3), least[0]))
    same(xp.gather(a, xp.from_host(place), 1), x[:, place])
    b = xp.zeros((4, 6), dtype=dtype)
    b[1:, ...] = a[1:, ...]
    b[xp.from_host(mask)] = a[xp.from_host(mask)]
    b[0, 5] = float(least[0].astype(np.float64))
    want = np.where(mask, x, np.zeros((), dtype)).astype(dtype)
    want[1:] = x[1:]
    want[0, 5] = least[0]
    same(b, want)
    rows = xp.from_host(np.array([2, 0, 2, 1]))
    for reduction in ("none", "add", "mul", "max", "min"):
        updates = np.roll(x, 5)
        want = HOST.scatter(x, np.array([2, 0, 2, 1]), updates, reduction)
        same(xp.scatter(a, rows, xp.from_host(updates), reduction), want, reduction)


@pytest.mark.parametrize("kind", [np.int64, np.int16, *(t.type for t in FLOATS)])
@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_scatter(xp: Any, reduction: str, kind: Any) -> None:
    dtype = np.dtype(kind)
    drawn = sample(np.dtype(np.float64) if dtype.kind == "i" else dtype, 400)
    if dtype.kind == "i":
        drawn = drawn.view(np.int64).astype(dtype)
    np.random.default_rng(2).shuffle(drawn)
    x, updates = drawn[:54].reshape(6, 9), drawn[54:414].reshape(40, 9)
    rows = np.random.default_rng(1).integers(0, 5, len(updates))
    got = xp.scatter(xp.from_host(x), xp.from_host(rows), xp.from_host(updates), reduction)
    same(got, HOST.scatter(x, rows, updates, reduction))


def test_weighted_taps(xp: Any) -> None:
    places = [[0, 1, 6, 3, 2], [1, None, 5, 2, None], [None, None, 4, 1, 0]]
    weights = [[0.3, 1.0, 0.1, 0.7, 0.9], [0.7, 0.0, 0.2, 0.1, 0.0], [0.0, 0.0, 0.7, 0.2, 0.1]]
    for kind in (np.float32, np.float64):
        x = (sample(np.dtype(kind), 100)[:84] * np.ldexp(1, -140)).astype(kind).reshape(3, 7, 4)
        same(xp.weighted_taps(xp.from_host(x), places, weights, 1), HOST.weighted_taps(x, places, weights, 1))


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("name", sorted({*elementary.PROVEN, *powers.NAMES}))
def test_functions(xp: Any, name: str, kind: str) -> None:
    count = 1 << 14 if kind == "float32" else 1 << 11
    x, y = sample(np.dtype(kind), count), np.roll(sample(np.dtype(kind), count, seed=1), 5)
    arrays = (x, y) if name in powers.NAMES else (x,)
    same(getattr(xp, name)(*map(xp.from_host, arrays)), getattr(HOST, name)(*arrays), name)


def test_sums_and_products(dtype: Any, xp: Any) -> None:
    random = np.random.default_rng(0)

    def drawn(*shape: int) -> Array:
        exponents = random.integers(-12, 3, shape) if dtype == np.float16 else random.integers(-70, 60, shape)
        return np.asarray((random.integers(-999, 999, shape) * 2.0**exponents).astype(dtype))

    a, b, w = drawn(5, 40), drawn(40, 7), drawn(6, 2, 3, 3)
    image = drawn(1, 4, 9, 8)
    image[0, 0, 0, :3] = np.inf
    device = [xp.from_host(array) for array in (a, b, image, w)]
    same(xp.matmul(*device[:2]), HOST.matmul(a, b))
    same(xp.conv(*device[2:], (1, 1), (1, 1), 2), HOST.conv(image, w, (1, 1), (1, 1), 2))
    for name in ("sum", "mean", "prod", "cumulative_sum"):
        same(getattr(xp, name)(device[0], axis=1), getattr(HOST, name)(a, axis=1), name)
    tiny = np.arange(-7, 8, dtype=np.int64).astype(dtype) * np.ones(1, f"u{dtype.itemsize}").view(dtype)
    same(xp.sum(xp.from_host(tiny[:11])), HOST.sum(tiny[:11]))


def test_elementwise_operators_are_one_kernel(cupy: Any, xp: Any) -> None:
    from onemodel.backends import cupy_exact_programs

    made = set()
    for name, (function, count, attributes) in programs().items():
        for kind in (np.float32, np.float64):
            arrays = [sample(np.dtype(kind), 200, seed=i) for i in range(count)]
            given = [xp.from_host(array) for array in arrays]
            got = cupy_exact_programs.kernel_of(function).function(*given, **attributes, xp=xp)
            if got is not NotImplemented:
                same(got, function(*arrays, **attributes, xp=HOST), name)
                made.add(name.partition("-")[0])
    assert made >= {"Gelu", "Mish", "Elu", "HardSwish", "Selu", "Softplus", "ThresholdedRelu"}


def test_what_is_not_listed_raises(cupy: Any, xp: Any, library: Any) -> None:
    x = library.from_host(np.ones(3, np.float32))
    with pytest.raises(TypeError, match="exact mode on CuPy has no std"):
        library.std(x)
    with pytest.raises(TypeError, match="exact mode on CuPy has no sum of float32"):
        library.sum(x)
    with pytest.raises(TypeError, match="exact mode on CuPy has no bitwise_and of float32"):
        x & x
    with pytest.raises(RuntimeError, match="CuPy's kernel for add takes subnormal float32 numbers for 0"):
        x.array + x.array


# Sessions


def _tiny() -> tuple[onnx.ModelProto, dict[str, Array]]:
    proto = model("Mul", [np.ones(3, np.float32)] * 2)
    return proto, {"x0": np.array([1e-40, -1e-44, 3], np.float32), "x1": np.array([0.5, 1, 2], np.float32)}


class TestSessions:
    def test_subnormal_numbers_stay(self, cupy: Any) -> None:
        proto, feeds = _tiny()
        session = onemodel.Session(proto, backend="cupy", mode="exact")
        assert session.get_providers() == ["cupy:exact"]
        (y,) = session.run(None, feeds)
        np.testing.assert_array_equal(y, feeds["x0"] * feeds["x1"])
        assert y[1] != 0

    def test_outputs_on_the_device_are_cupys(self, cupy: Any) -> None:
        proto, feeds = _tiny()
        for outputs, given in (("feeds", {name: cupy.asarray(x) for name, x in feeds.items()}), ("backend", feeds)):
            session = onemodel.Session(proto, backend="cupy", mode="exact", outputs=outputs)
            with device_rules.no_reads():
                results = session.run(None, given)
            assert isinstance(results[0], cupy.ndarray)
            np.testing.assert_array_equal(results[0].get(), feeds["x0"] * feeds["x1"])
            assert session.digest(results) == onemodel.Session(proto, mode="exact").digest(
                onemodel.Session(proto, mode="exact").run(None, feeds)
            )

    def test_outputs_alias_neither_feeds_nor_each_other(self, cupy: Any) -> None:
        nodes = [helper.make_node("Identity", ["x"], ["a"]), helper.make_node("Identity", ["a"], ["b"])]
        session = onemodel.Session(
            graph_model(nodes, [("x", "tensor(float)", [4])], ["a", "b"]), backend="cupy", mode="exact"
        )
        x = cupy.asarray(np.arange(4, dtype=np.float32))
        a, b = session.run(None, {"x": x})
        assert not any(np.shares_memory(one.host, other.host) for one, other in ((a, x), (b, x), (a, b)))

    @pytest.mark.parametrize("make", [models.convolutional, models.transformer, lambda: models.transformer(half=True)])
    @pytest.mark.parametrize("kernels", ["native", "generic"])
    def test_networks(self, cupy: Any, make: Any, kernels: Any) -> None:
        proto, feeds = make()
        session = onemodel.Session(proto, backend="cupy", mode="exact", kernels=kernels)
        host = onemodel.Session(proto, mode="exact")
        assert session.digest(session.run(None, feeds)) == host.digest(host.run(None, feeds))

    def test_both_modes_live_side_by_side(self, cupy: Any) -> None:
        proto, feeds = _tiny()
        exact = onemodel.Session(proto, backend="cupy", mode="exact")
        with (
            device_rules.no_float32(),
            pytest.raises(onemodel.ExecutionError, match="takes subnormal float32 numbers for 0"),
        ):
            onemodel.Session(proto, backend="cupy").run(None, feeds)
        assert exact.run(None, feeds)[0][1] != 0


# The digests of docs/exactness.md


def _differences(cases: Any) -> list[Any]:
    expected = digests.known()
    counts, found = digests.compare([case for case in cases if case.name in expected], expected, backend="cupy")
    assert counts["same"] > 0.9 * sum(counts.values()), counts
    return found


def test_some_digests_are_numpys(cupy: Any) -> None:
    assert _differences(digests.every_case(models=False, names=digests.known())[::8]) == []


@pytest.mark.slow
def test_all_digests_are_numpys(cupy: Any) -> None:
    assert _differences(digests.every_case(names=digests.known())) == []


# For real GPUs, and with sanitizers

COMPILE = """
import re, sys
from onemodel.backends import cupy_exact_launch as launch
from onemodel.backends.exact import elementary, powers
from onemodel.backends.exact.source import cuda_source

architecture = sys.argv[1]
names = sorted({*elementary.PROVEN, *powers.NAMES})
sources = [launch.operations_source()]
scatters = [f"scatter<{t}, {f}>" for t in ("float", "double") for f in ("Add", "Multiply", "Larger", "Smaller")]
sources += [(launch.source("indices.cu"), scatters)]
sources += [(launch.source("taps.cu"), ["weighted_taps<float>", "weighted_taps<double>"])]
sources += [(cuda_source(elementary.program(name, kind), "program"), ()) for name in names
            for kind in ("float32", "float64")]
found = set()
for text, kernels in sources:
    made = launch.translate(text, kernels, f"compute_{architecture}", ("-Werror", "all-warnings"))
    ptx = made.code.decode()
    assert len(made.names) == len(kernels)
    assert "fma.rn" not in ptx and ".ftz" not in ptx and ".approx" not in ptx, text[:2000]
    found.update(re.findall(r"(?:div|sqrt)[.]\\w+[.]f\\d+", ptx))
    launch.translate(text, kernels, f"sm_{architecture}", ("-Werror", "all-warnings"))
print(sorted(found))
"""


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["80", "90", "100"])
def test_kernels_compile_for_gpus(architecture: str, root: Path) -> None:
    if reason := nvrtc_missing():
        pytest.skip(reason)
    done = subprocess.run([COMPILER, "-c", COMPILE, architecture], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip() == str(["div.rn.f32", "div.rn.f64", "sqrt.rn.f32", "sqrt.rn.f64"])


@pytest.mark.slow
def test_kernels_are_clean_under_sanitizers(root: Path) -> None:
    functions = " or ".join(f"test_functions[{name}" for name in ("exp-float32]", "sin-float32]", "pow-float32]"))
    operations = "single or numbers or broadcasting or conversions or ties or orders or moves"
    under_sanitizers(root, __file__, f"{operations} or {functions}")
