"""The cases whose bits ``digests.json`` keeps, one node each.

Two kinds: *wide* cases over many elements of every exponent, for what is made of floats; and cases that the oracle's
entries draw, small and awkward, for every operator. All numbers come from ``patterns``.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import defs, helper

from onemodel import types
from tests.exact.patterns import FLOATS, Array, Patterns, bits, scaled
from tests.ops import harness
from tests.oracle import chapters
from tests.oracle.draw import ENTRIES, Draw, integer_range, versions

Feeds = dict[str, Any]


@dataclass(frozen=True)
class DigestCase:
    """One model with its feeds.

    Attributes:
        name: unique; begins with the operator.
        make: makes the model and the feeds.
    """

    name: str
    make: Callable[[], tuple[onnx.ModelProto, Feeds]]

    @property
    def op(self) -> str:
        return self.name.partition(" ")[0]


def _one_node(op: str, inputs: list[Any], **options: Any) -> tuple[onnx.ModelProto, Feeds]:
    feeds = {f"x{i}": value for i, value in enumerate(inputs) if value is not None}
    return harness.model(op, inputs, **options), feeds


# Wide cases

_NEW = "float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz float8e8m0 float6e2m3 float6e3m2 float4e2m1".split()
SMALL = {name: types.dtype_of(f"tensor({name})") for name in _NEW}


def _without_attributes(operators: str) -> dict[str, Mapping[str, Any]]:
    return {name: {} for name in operators.split()}


ELEMENTWISE: Mapping[str, Mapping[str, Any]] = {
    **_without_attributes(
        """
        Abs Acos Acosh Asin Asinh Atan Atanh Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid HardSwish IsInf IsNaN
        LeakyRelu Log Mish Neg Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Swish Tan
        Tanh ThresholdedRelu
        """
    ),
    "Gelu by-tanh": {"approximate": "tanh"},
    "Elu 0.3": {"alpha": 0.3},
    "Celu 0.3": {"alpha": 0.3},
    "Swish 1.7": {"alpha": 1.7},
    "Shrink soft": {"bias": 0.3, "lambd": 0.7},
}

PAIRS: Mapping[str, Mapping[str, Any]] = {
    **_without_attributes("Add Div Equal Greater Less Max Mean Min Mul Pow PRelu Sub Sum SwiGLU"),
    "Mod": {"fmod": 1},
    "Mod floored": {},
}

ROWS: Mapping[str, tuple[tuple[Any, ...], Mapping[str, Any]]] = {
    **{
        f"Reduce{name}": ((np.int64([1]),), {"keepdims": 0})
        for name in "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare".split()
    },
    "CumSum": ((np.int64(1),), {}),
    "CumSum reverse": ((np.int64(1),), {"reverse": 1, "exclusive": 1}),
    "CumProd": ((np.int64(1),), {}),
    "Softmax": ((), {"axis": 1}),
    "LogSoftmax": ((), {"axis": 1}),
    "Hardmax": ((), {"axis": 1}),
    "ArgMax": ((), {"axis": 1}),
    "ArgMin": ((), {"axis": 1, "select_last_index": 1}),
    "TopK": ((np.int64([20]),), {"axis": 1}),
    "Unique": ((), {}),
    "LpNormalization": ((), {"axis": 1, "p": 1}),
    "LpNormalization 2": ((), {"axis": 1, "p": 2}),
    "MeanVarianceNormalization": ((), {"axes": [1]}),
}
"""Operators on rows: what follows the first input, and the attributes."""

IMAGES: Mapping[str, Mapping[str, Any]] = {
    "AveragePool": {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1},
    "MaxPool": {"kernel_shape": [3, 3], "strides": [2, 2]},
    "LpPool": {"kernel_shape": [3, 2], "p": 3},
    "LRN": {"size": 3},
    **_without_attributes("GlobalAveragePool GlobalLpPool GlobalMaxPool"),
}

KINDS = ("plain", "spread", "zero sums", "few bits", "bits")


def numbers(kind: str, dtype: Any, shape: tuple[int, ...], *seeds: int) -> Array:
    """Numbers of a kind: of one order of magnitude; of many; rows that sum to zero; of 8 bits; of any bits at all."""
    if kind == "bits":
        return bits(dtype, shape, *seeds)
    wide = np.dtype(dtype).itemsize > 2
    if kind == "spread":
        return scaled(dtype, shape, *seeds, spread=60 if wide else 9, most=20 if wide else 4)
    if kind == "few bits":
        with np.errstate(invalid="ignore"):
            return scaled(ml_dtypes.bfloat16, shape, *seeds).astype(dtype)
    values = scaled(dtype, shape, *seeds, spread=4 if kind == "plain" else 20 if wide else 6)
    if kind == "zero sums":
        half = shape[-1] // 2
        values[..., half : 2 * half] = -values[..., :half][..., Patterns(*seeds, 1).permutation(half)]
        values[..., 2 * half :] = 0
    return values


def allowed(op: str, dtype: np.dtype[Any]) -> bool:
    """Whether the latest version of an operator takes this type as its first input."""
    schema = defs.get_schema(op, harness.LATEST)
    constraints = {each.type_param_str: each.allowed_type_strs for each in schema.type_constraints}
    return types.of_dtype(dtype) in constraints.get(schema.inputs[0].type_str, [schema.inputs[0].type_str])


def _seed(name: str) -> int:
    return zlib.crc32(name.encode())


def _case(name: str, make: Callable[[int], list[Any]], **options: Any) -> DigestCase:
    """A case whose inputs are made from a seed of its name."""
    return DigestCase(name, lambda: _one_node(name.split()[0], make(_seed(name)), **options))


def _elementwise() -> Iterator[DigestCase]:
    def one(dtype: Any, seed: int) -> list[Any]:
        return [np.stack([bits(dtype, (1201,), seed), scaled(dtype, (1201,), seed, spread=16, most=5)])]

    def two(dtype: Any, seed: int) -> list[Any]:
        return [one(dtype, seed)[0], one(dtype, seed + 1)[0]]

    def one_of_ends(dtype: Any, seed: int) -> list[Any]:
        return [_ends(dtype)]

    def two_of_ends(dtype: Any, seed: int) -> list[Any]:
        return [np.ascontiguousarray(side) for side in np.meshgrid(_ends(dtype), _ends(dtype))]

    for table, make, make_ends in ((ELEMENTWISE, one, one_of_ends), (PAIRS, two, two_of_ends)):
        for name, attributes in table.items():
            for dtype in FLOATS.values():
                if allowed(name.split()[0], dtype):
                    yield _case(f"{name} {dtype.name}", partial(make, dtype), **attributes)
                    yield _case(f"{name} ends {dtype.name}", partial(make_ends, dtype), **attributes)


def _ends(dtype: Any) -> Array:
    """Where functions have limits and turn: infinities, NaN, zeros, the greatest and least numbers, and small ones."""
    limits = ml_dtypes.finfo(dtype)
    ends = [np.inf, limits.max, limits.smallest_normal, limits.smallest_subnormal, 0, 0.5, 1, 1.5, 2, 3]
    positive = np.array([float(end) for end in ends]).astype(dtype)
    return np.concatenate([positive, -positive, np.array([np.nan]).astype(dtype)])


def _rows() -> Iterator[DigestCase]:
    for name, (others, attributes) in ROWS.items():
        op = name.split()[0]
        outputs = {"TopK": 2, "Unique": 4}.get(op, 1)
        for dtype in FLOATS.values():
            for kind in KINDS:
                if allowed(op, dtype):
                    make = partial(_first_and_others, kind, dtype, (4, 523), others)
                    yield _case(f"{name} {dtype.name} {kind}", make, outputs=outputs, **attributes)
    for name, attributes in IMAGES.items():
        for dtype in FLOATS.values():
            for kind in ("plain", "spread", "bits"):
                if allowed(name, dtype):
                    make = partial(_first_and_others, kind, dtype, (2, 3, 9, 8), ())
                    yield _case(f"{name} {dtype.name} {kind}", make, **attributes)


def _first_and_others(kind: str, dtype: Any, shape: tuple[int, ...], others: tuple[Any, ...], seed: int) -> list[Any]:
    return [numbers(kind, dtype, shape, seed), *others]


def _normalizations() -> Iterator[DigestCase]:
    image, channel = (2, 6, 5, 7), (6,)
    shapes: Mapping[str, tuple[tuple[tuple[int, ...], ...], Mapping[str, Any]]] = {
        "LayerNormalization": (((4, 97), (97,), (97,)), {"outputs": 3}),
        "RMSNormalization": (((4, 97), (97,)), {}),
        "InstanceNormalization": ((image, channel, channel), {}),
        "GroupNormalization": ((image, channel, channel), {"num_groups": 3}),
        "BatchNormalization": ((image, *[channel] * 4), {}),
        "BatchNormalization training": ((image, *[channel] * 4), {"training_mode": 1, "outputs": 3}),
    }
    for name, (parts, options) in shapes.items():
        for dtype in FLOATS.values():
            for kind in ("plain", "spread"):
                make = partial(_with_variance, kind, dtype, parts)
                yield _case(f"{name} {dtype.name} {kind}", make, **options)


def _with_variance(kind: str, dtype: Any, shapes: Sequence[tuple[int, ...]], seed: int) -> list[Any]:
    """The fifth input is a variance, so positive."""
    values = [numbers(kind, dtype, shape, seed, i) for i, shape in enumerate(shapes)]
    return [*values[:4], *map(abs, values[4:])]


PRODUCTS: Mapping[str, tuple[tuple[tuple[int, ...], ...], Mapping[str, Any]]] = {
    "MatMul": (((19, 301), (301, 23)), {}),
    "MatMul vectors": (((301,), (301,)), {}),
    "MatMul stacks": (((3, 1, 5, 40), (2, 40, 7)), {}),
    "MatMul short": (((40, 3), (3, 50)), {}),
    "Gemm": (((11, 130), (9, 130), (9,)), {"transB": 1, "alpha": 0.3, "beta": 1.7}),
    "Einsum": (((3, 4, 30), (30, 5, 3)), {"equation": "bij,jkb->bik"}),
    "Conv": (((2, 8, 9, 8), (5, 8, 3, 3), (5,)), {"pads": [1, 1, 1, 1]}),
    "Conv depthwise": (((1, 6, 9, 8), (6, 1, 3, 3)), {"group": 6, "strides": [2, 2]}),
    "Conv one": (((1, 70, 40), (6, 70, 1)), {}),
    "ConvTranspose": (((1, 6, 5, 4), (6, 3, 3, 3)), {"strides": [2, 2]}),
    "Attention": (((2, 3, 7, 16), (2, 3, 11, 16), (2, 3, 11, 16)), {"is_causal": 1, "softcap": 3.0}),
}


def _products() -> Iterator[DigestCase]:
    for name, (shapes, attributes) in PRODUCTS.items():
        for dtype in FLOATS.values():
            for kind in KINDS:
                if allowed(name.split()[0], dtype) and (kind, name) != ("bits", "Attention"):
                    yield _case(f"{name} {dtype.name} {kind}", partial(_factors, kind, dtype, shapes), **attributes)


def _factors(kind: str, dtype: Any, shapes: Sequence[tuple[int, ...]], seed: int) -> list[Any]:
    """Rows of the left factor that sum to zero come with a right factor of few bits, so that much cancels."""
    kinds = [kind, "few bits" if kind == "zero sums" else kind, "plain"]
    return [numbers(which, dtype, shape, seed, i) for i, (which, shape) in enumerate(zip(kinds, shapes, strict=False))]


def _casts() -> Iterator[DigestCase]:
    sources = {**FLOATS, **SMALL}
    whole = "int8 uint8 int16 uint16 int32 uint32 int64 uint64 int4 uint4 int2 uint2 bool".split()
    for source, dtype in sources.items():
        for target in (*sources, *whole):
            name = {"float32": "float", "float64": "double"}.get(target, target)
            code = types.code_of(f"tensor({name})")
            yield _case(f"Cast {source} to {target}", partial(_cast_floats, dtype), to=code)
    for source in ("int64", "uint64", "int32", "int4", "uint2", "int2"):
        for target in ("float", "double", "float16", "bfloat16", "float8e4m3fn", "float8e5m2"):
            code = types.code_of(f"tensor({target})")
            yield _case(f"Cast {source} to {target}", partial(_cast_integers, source), to=code)


def _cast_floats(dtype: Any, seed: int) -> list[Any]:
    """Any bits; and numbers of moderate size, among which the limits and ties of narrow types lie."""
    near = [scaled(dtype, (600,), seed, spread=30, most=12)] if dtype.itemsize > 1 else []
    return [np.concatenate([bits(dtype, (600,), seed), *near])]


def _cast_integers(dtype: str, seed: int) -> list[Any]:
    """Whole numbers of every number of bits."""
    words = Patterns(seed).words(800) >> np.resize(np.arange(64, dtype=np.uint64), 800)
    element = types.dtype_of(f"tensor({dtype})")
    if element.itemsize > 1:
        return [words.astype(element)]
    low, high = integer_range(element)
    return [((words % np.uint64(high - low + 1)).astype(np.int8) + np.int8(low)).astype(element)]


# Operators that the oracle has no entry for

_TRAINING = {"domain": "ai.onnx.preview.training", "opset": 1}
_ML = {"domain": "ai.onnx.ml", "opset": 5}


def _optimizer(op: str, dtype: Any, count: int, **options: Any) -> DigestCase:
    """One step of an optimizer: the tensor, its gradient, and ``count`` states."""

    def make(seed: int) -> list[Any]:
        arrays = [scaled(dtype, (3, 40), seed, i, spread=4) for i in range(2 + count)]
        squares = arrays if op == "Momentum" else [*arrays[:-1], abs(arrays[-1])]
        return [np.asarray(0.125, dtype), np.asarray(3, np.int64), *squares]

    return _case(f"{op} {np.dtype(dtype).name}", make, outputs=1 + count, **_TRAINING, **options)


def _gradient() -> tuple[onnx.ModelProto, Feeds]:
    """The slope of the sum of tanh(x w)."""
    node = helper.make_node
    nodes = [
        node("MatMul", ["x", "w"], ["p"]),
        node("Tanh", ["p"], ["t"]),
        node("ReduceSum", ["t"], ["y"], keepdims=0),
        node("Gradient", ["x", "w"], ["dx", "dw"], domain=_TRAINING["domain"], xs=["x", "w"], y="y"),
    ]
    kinds = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [None, None]) for name in "xw"]
    graph = helper.make_graph(nodes, "slope", kinds, [onnx.ValueInfoProto(name=name) for name in ("y", "dx", "dw")])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(str(_TRAINING["domain"]), 1)]
    feeds = {"x": scaled(np.float32, (5, 12), 1), "w": scaled(np.float32, (12, 7), 2)}
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), feeds


def _bits_of_results(dtype: str) -> tuple[onnx.ModelProto, Feeds]:
    """The bits of computed values, NaN among them: whose payload and sign survive, each machine decides for itself."""
    node, target = helper.make_node, {"float": "int32", "double": "int64", "float16": "int16"}[dtype]
    results = {op: ["x", "y"] for op in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow")}
    results |= {op: ["x"] for op in "Sqrt Log Sin Neg Abs Relu Round Softsign Tanh Softmax".split()}
    results |= {op: ["x", "axis"] for op in ("ReduceSum", "ReduceMax", "ReduceMean", "ReduceProd", "CumSum")}
    results["MatMul"] = ["x", "t"]
    nodes = [node(op, inputs, [op]) for op, inputs in results.items()]
    code = types.code_of(f"tensor({target})")
    nodes += [node("BitCast", [name], [f"{name}_bits"], to=code) for name in results]
    nodes += [node("Cast", [name], [f"{name}_8"], to=types.code_of("tensor(float8e5m2)")) for name in results]
    nodes += [node("BitCast", [f"{name}_8"], [f"{name}_8_bits"], to=types.code_of("tensor(uint8)")) for name in results]
    nodes += [node("Cast", [name], [f"{name}_text"], to=onnx.TensorProto.STRING) for name in results]
    outputs = [onnx.ValueInfoProto(name=f"{name}_{kind}") for name in results for kind in ("bits", "8_bits", "text")]
    value_type = types.dtype_of(f"tensor({dtype})")
    pool = bits(value_type, (6, 40), 77)
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5], value_type)
    nan = np.array([np.nan], value_type)
    with np.errstate(invalid="ignore"):
        x = np.concatenate(
            [pool, special[:, None], -special[:, None], np.broadcast_to(nan, (6, 1)), -special[::-1, None]], 1
        )
    feeds = {"x": x, "y": np.ascontiguousarray(x[::-1, ::-1]), "t": np.ascontiguousarray(x.T)}
    infos = [helper.make_tensor_value_info(name, types.code_of(f"tensor({dtype})"), None) for name in feeds]
    axis = onnx.numpy_helper.from_array(np.array([1]), "axis")
    graph = helper.make_graph(nodes, "bits", infos, outputs, [axis])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 26)], ir_version=13), feeds


def _special() -> Iterator[DigestCase]:
    for name in ("float", "double", "float16"):
        yield DigestCase(f"BitCast of-results {name}", partial(_bits_of_results, name))
    attention = [(1, 2, 5, 8), (1, 2, 9, 8), (1, 2, 9, 8)]
    for dtype in (np.float32, np.float64):
        yield _optimizer("Adagrad", dtype, 1, decay_factor=0.1, norm_coefficient=0.01)
        yield _optimizer("Adam", dtype, 2, norm_coefficient=0.01)
        yield _optimizer("Momentum", dtype, 1, alpha=0.9, beta=0.8, mode="nesterov", norm_coefficient=0.01)
        yield _case(
            f"FlexAttention {np.dtype(dtype).name}",
            partial(_factors, "plain", dtype, attention),
            domain="ai.onnx.preview",
            opset=1,
        )
    yield DigestCase("Gradient float32", _gradient)
    numbers_of = {3: -2.5, 0: 1.25, 4: 0.1}
    for cast in ("TO_FLOAT", "TO_INT64", "TO_STRING"):
        kind = ["map(int64,tensor(float))"]
        yield _case(f"CastMap {cast}", lambda _: [numbers_of], input_types=kind, cast_to=cast, **_ML)
    words = {"a": 0.1, "c": -8.0}
    vocabulary, kind = ["a", "c", "b", "z"], ["map(string,tensor(double))"]
    yield _case("DictVectorizer", lambda _: [words], input_types=kind, string_vocabulary=vocabulary, **_ML)


@cache
def wide() -> tuple[DigestCase, ...]:
    """All cases that are not drawn."""
    parts = (_elementwise(), _rows(), _normalizations(), _products(), _casts(), _special())
    return tuple(case for part in parts for case in part)


# Drawn cases

SEEDS = 16
"""How many draws of an operator are looked at."""
ALWAYS = 2
"""How many of them are taken whatever they are."""


def drawn_names(op: str) -> list[str]:
    """Names of cases of an operator: the first draws, and those that bring a version or a type of its inputs anew."""
    chosen, seen = [], set[Any]()
    for seed in range(SEEDS):
        case = _drawn(op, seed)
        span = next(span for span in versions(op) if span[0] <= case.opset <= span[1])
        kinds = {value.dtype.name for value in case.inputs if isinstance(value, np.ndarray)} or {"none"}
        brought = {(span, kind) for kind in kinds}
        if seed < ALWAYS or not brought <= seen:
            chosen.append(f"{op} drawn {seed}")
            seen |= brought
    return chosen


def drawn(name: str) -> DigestCase:
    """The drawn case of this name."""
    op, _, seed = name.split()

    def make() -> tuple[onnx.ModelProto, Feeds]:
        case = _drawn(op, int(seed))
        return case.model, {f"x{i}": value for i, value in enumerate(case.inputs) if value is not None}

    return DigestCase(name, make)


def _drawn(op: str, seed: int) -> Any:
    chapters.load(places=False)
    patterns: Any = Patterns(_seed(op), seed)
    spans = versions(op)[::-1]
    first, last = spans[seed % len(spans)]
    return ENTRIES[op](Draw(op, seed, int(patterns.integers(first, last + 1)), patterns))


def operators() -> list[str]:
    """The operators that have drawn cases."""
    chapters.load(places=False)
    return sorted(ENTRIES)
