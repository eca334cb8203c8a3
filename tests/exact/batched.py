"""Operators with a batch, and how each takes one, so that a row of it can be run alone; the others, with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from tests.exact.digest_cases import ELEMENTWISE, IMAGES, PAIRS, ROWS, allowed, numbers
from tests.exact.patterns import FLOATS, Array, Patterns, bits, scaled
from tests.oracle.draw import tensor

BATCH = 5


class Rows:
    """An input whose axis ``axis`` is the batch."""

    def __init__(self, array: Array, axis: int = 0) -> None:
        self.array = array
        self.axis = axis

    def take(self, index: Any) -> Array:
        return np.asarray(np.take(self.array, index, axis=self.axis))


@dataclass(frozen=True)
class Batched:
    """One node with a batch.

    Attributes:
        inputs: ``Rows``, or what is the same for all rows.
        axes: axis of the batch in each output.
        options: of ``harness.model``.
    """

    inputs: tuple[Any, ...]
    axes: tuple[int, ...] = (0,)
    options: Mapping[str, Any] = field(default_factory=dict)


def floats(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Array:
    return scaled(dtype, shape, *shape, seed, spread=6, most=1)


def rows(*shape: int, axis: int = 0, seed: int = 0) -> Rows:
    """A batch of floats."""
    return Rows(floats(*shape, seed=seed), axis)


def whole(low: int, high: int, *shape: int, dtype: Any = np.int64) -> Array:
    return np.asarray(Patterns(*shape, 3).integers(low, high, shape)).astype(dtype)


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


def words(*shape: int) -> Array:
    """Strings."""
    return np.array(["", "a b", "Ab", "3.5", "xyz a"], object)[whole(0, 5, *shape)]


def case(*inputs: Any, out: tuple[int, ...] = (0,), **options: Any) -> Batched:
    """The entry; ``out`` has the axis of the batch in each output."""
    return Batched(inputs, out, {"outputs": len(out), **options})


B = BATCH
ML = {"domain": "ai.onnx.ml", "opset": 5}
_FOREST: dict[str, Any] = {
    "nodes_falsenodeids": [2, 0, 0],
    "nodes_featureids": [1, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_nodeids": [0, 1, 2],
    "nodes_treeids": [0, 0, 0],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_values": [0.0, 0.0, 0.0],
}


def _scan() -> Any:
    """A running sum."""
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("Add", ["s", "x"], ["t"]), helper.make_node("Identity", ["t"], ["y"])]
    given = [value(name, TensorProto.FLOAT, [None, None]) for name in "sx"]
    return helper.make_graph(nodes, "body", given, [value(name, TensorProto.FLOAT, [None, None]) for name in "ty"])


BATCHED: dict[str, Batched] = {
    **{
        op: case(Rows(whole(0, 2, B, 9).astype(bool)), Rows(whole(0, 2, B, 9, 1)[..., 0].astype(bool)))
        for op in ("And", "Or", "Xor")
    },
    "AffineGrid": case(rows(B, 2, 3), Rows(np.repeat([[B, 2, 4, 3]], B, 0)), align_corners=1),
    "Attention": case(rows(B, 3, 7, 8), rows(B, 3, 9, 8), rows(B, 3, 9, 8), is_causal=1),
    "BatchNormalization": case(rows(B, 3, 6), *(floats(3, seed=i) for i in range(3)), abs(floats(3, seed=4))),
    "CausalConvWithState": case(rows(B, 4, 9), floats(4, 1, 3), floats(4), rows(B, 4, 2), out=(0, 0)),
    "CenterCropPad": case(rows(B, 7, 3), ints(4), axes=[1]),
    "Col2Im": case(rows(B, 8, 9), ints(4, 4), ints(2, 2)),
    "Compress": case(rows(B, 4, 3), np.array([True, False, True, True]), axis=1),
    "Concat": case(rows(B, 4), rows(B, 3), axis=1),
    "Conv": case(rows(B, 3, 9, 8), floats(4, 3, 3, 3), floats(4)),
    "ConvInteger": case(Rows(whole(0, 256, B, 3, 6, 5, dtype=np.uint8)), whole(0, 9, 2, 3, 2, 2, dtype=np.uint8)),
    "ConvTranspose": case(rows(B, 3, 4, 4), floats(3, 2, 3, 3), strides=[2, 2]),
    "DeformConv": case(rows(B, 2, 5, 5), floats(3, 2, 2, 2), rows(B, 8, 4, 4)),
    "DepthToSpace": case(rows(B, 8, 2, 3), blocksize=2),
    "DequantizeLinear": case(Rows(whole(0, 256, B, 7, dtype=np.uint8)), np.float32(0.3), np.uint8(9)),
    "DFT": case(rows(B, 12, 1), None, np.array(1)),
    "DFT inverse": case(rows(B, 3, 10, 2), None, np.array(2), inverse=1),
    "Det": case(rows(B, 4, 4)),
    "Dropout": case(rows(B, 7)),
    "Einsum": case(rows(B, 4, 30), floats(30, 5), equation="bij,jk->bki"),
    "Expand": case(rows(B, 1, 4), ints(1, 3, 4)),
    "Flatten": case(rows(B, 3, 2)),
    "Gather": case(rows(B, 6, 2), ints(4, 0, -1), axis=1),
    "GatherElements": case(rows(B, 6), Rows(whole(-6, 6, B, 9)), axis=1),
    "GRU": case(rows(6, B, 5, axis=1), floats(1, 9, 5), floats(1, 9, 3), out=(2, 1), hidden_size=3),
    "GatherND": case(rows(B, 6, 2), Rows(whole(0, 6, B, 1)), batch_dims=1),
    "Gemm": case(rows(B, 40), floats(7, 40), floats(7), transB=1, alpha=0.3, beta=1.7),
    "GridSample": case(rows(B, 2, 5, 6), rows(B, 3, 4, 2), mode="cubic"),
    "GroupNormalization": case(rows(B, 6, 5), floats(6), floats(6, seed=1), num_groups=3),
    "Identity": case(rows(B, 7)),
    "InstanceNormalization": case(rows(B, 6, 5), floats(6), floats(6, seed=1)),
    "LSTM": case(
        *(
            rows(6, B, 5, axis=1),
            floats(2, 12, 5),
            floats(2, 12, 3),
            floats(2, 24),
            Rows(whole(1, 7, B, dtype=np.int32)),
        ),
        out=(2, 1, 1),
        hidden_size=3,
        direction="bidirectional",
    ),
    "LayerNormalization": case(rows(B, 33), floats(33), floats(33, seed=1), out=(0, 0, 0)),
    "LinearAttention": case(
        *(rows(B, 6, 8, seed=i) for i in range(3)), out=(0, 0), update_rule="linear", q_num_heads=2, kv_num_heads=2
    ),
    "MatMul": case(rows(B, 301), floats(301, 23)),
    "MatMul stacks": case(rows(B, 4, 30), rows(B, 30, 6)),
    "MatMulInteger": case(Rows(whole(0, 256, B, 30, dtype=np.uint8)), whole(0, 256, 30, 4, dtype=np.uint8)),
    "NegativeLogLikelihoodLoss": case(rows(B, 6, 3), Rows(whole(0, 6, B, 3)), floats(6), reduction="none"),
    "OneHot": case(Rows(whole(0, 6, B, 3)), np.array(6), floats(2)),
    "Pad": case(rows(B, 4, 5), ints(0, 1, 2, 0, 0, 3), np.float32(0.5), mode="constant"),
    "QLinearConv": case(
        *(Rows(whole(0, 256, B, 3, 6, 5, dtype=np.uint8)), np.float32(0.01), np.uint8(100)),
        *(whole(0, 256, 4, 3, 3, 3, dtype=np.uint8), np.float32(0.02), np.uint8(99), np.float32(0.4), np.uint8(5)),
    ),
    "QLinearMatMul": case(
        *(Rows(whole(0, 256, B, 30, dtype=np.uint8)), np.float32(0.01), np.uint8(100)),
        *(whole(0, 256, 30, 4, dtype=np.uint8), np.float32(0.02), np.uint8(99), np.float32(0.4), np.uint8(5)),
    ),
    "QuantizeLinear": case(rows(B, 40), np.float32(0.013), np.uint8(120)),
    "RMSNormalization": case(rows(B, 33), floats(33)),
    "RNN": case(rows(6, B, 5, axis=1), floats(1, 3, 5), floats(1, 3, 3), out=(2, 1), hidden_size=3),
    "RegexFullMatch": case(Rows(words(B, 4)), pattern="[a-z ]*"),
    "Reshape": case(rows(B, 4, 6), ints(0, -1, 3)),
    "Resize": case(rows(B, 2, 5, 6), None, np.float32([1, 1, 1.7, 0.6]), mode="cubic", antialias=1),
    "ReverseSequence": case(rows(B, 6, 2), Rows(whole(1, 7, B)), batch_axis=0, time_axis=1),
    "RoiAlign": case(
        floats(2, 3, 8, 9),
        Rows(abs(floats(B, 4)) * np.float32(4)),
        Rows(whole(0, 2, B)),
        output_height=2,
        output_width=3,
    ),
    "MaxRoiPool": case(
        floats(2, 3, 8, 9),
        Rows(np.concatenate([whole(0, 2, B, 1), whole(0, 4, B, 2), whole(4, 8, B, 2)], 1).astype(np.float32)),
        pooled_shape=[2, 3],
    ),
    "RotaryEmbedding": case(rows(B, 3, 6, 8), floats(9, 4), floats(9, 4, seed=1), Rows(whole(0, 9, B, 6))),
    "STFT": case(rows(B, 60, 1), np.array(8), floats(16)),
    "Scan": case(rows(B, 4), rows(B, 6, 4), out=(0, 1), body=_scan(), num_scan_inputs=1, scan_input_axes=[1]),
    "Scatter": case(rows(B, 6), Rows(whole(0, 6, B, 3)), rows(B, 3, seed=1), axis=1, opset=10),
    "ScatterElements": case(rows(B, 6), Rows(whole(0, 6, B, 9)), rows(B, 9, seed=1), axis=1, reduction="add"),
    "Slice": case(rows(B, 9, 4), ints(8, 0), ints(1, 4), ints(1, 2), ints(-3, 2)),
    "SoftmaxCrossEntropyLoss": case(rows(B, 6, 3), Rows(whole(0, 6, B, 3)), out=(0, 0), reduction="none"),
    "SpaceToDepth": case(rows(B, 2, 4, 6), blocksize=2),
    "Split": case(rows(B, 6), out=(0, 0, 0), axis=1, num_outputs=3),
    "Squeeze": case(rows(B, 1, 4), ints(1)),
    "StringConcat": case(Rows(words(B, 4)), words(4)),
    "TensorScatter": case(rows(B, 2, 6, 4), rows(B, 2, 3, 4), Rows(whole(0, 4, B))),
    "TfIdfVectorizer": case(
        Rows(whole(0, 4, B, 6)),
        mode="TFIDF",
        min_gram_length=1,
        max_gram_length=2,
        max_skip_count=1,
        ngram_counts=[0, 2],
        ngram_indexes=[0, 1, 2],
        pool_int64s=[1, 2, 1, 2],
        weights=[0.3, 0.7, 0.11],
    ),
    "Tile": case(rows(B, 3), ints(1, 4)),
    "Transpose": case(rows(B, 3, 4), perm=[0, 2, 1]),
    "Trilu": case(rows(B, 5, 4), np.array(-1)),
    "Unsqueeze": case(rows(B, 4), ints(1)),
    "Upsample": case(rows(B, 2, 3, 4), np.float32([1, 1, 2, 1.5]), mode="linear", opset=9),
    "ArrayFeatureExtractor": case(rows(B, 6), ints(4, 1), **ML),
    "CategoryMapper": case(Rows(words(B, 4)), cats_int64s=[1, 2], cats_strings=["Ab", "3.5"], **ML),
    "FeatureVectorizer": case(rows(B, 3), rows(B, 2), inputdimensions=[3, 2], **ML),
    "Imputer": case(rows(B, 3), imputed_value_floats=[1.0, 2.0, 3.0], replaced_value_float=0.5, **ML),
    "LabelEncoder": case(Rows(whole(0, 4, B, 3)), keys_int64s=[0, 2], values_floats=[0.1, 0.7], **ML),
    "LinearClassifier": case(
        rows(B, 3),
        out=(0, 0),
        coefficients=[0.1, 0.7, -0.3, 1.1, 0.4, -0.9],
        intercepts=[0.5, -0.25],
        classlabels_ints=[3, 5],
        post_transform="SOFTMAX",
        **ML,
    ),
    "LinearRegressor": case(rows(B, 3), coefficients=[0.1, 0.7, -0.3], intercepts=[0.5], **ML),
    "Normalizer": case(rows(B, 30), norm="L2", **ML),
    "OneHotEncoder": case(Rows(whole(0, 4, B)), cats_int64s=[0, 2], **ML),
    "SVMRegressor": case(
        rows(B, 2),
        kernel_type="RBF",
        kernel_params=[0.3, 0.0, 0.0],
        n_supports=2,
        support_vectors=[0.1, 0.7, -0.3, 1.1],
        coefficients=[0.4, -0.9],
        rho=[0.2],
        **ML,
    ),
    "SVMClassifier": case(
        rows(B, 2),
        out=(0, 0),
        kernel_type="RBF",
        kernel_params=[0.3, 0.0, 0.0],
        vectors_per_class=[1, 1],
        support_vectors=[0.1, 0.7, -0.3, 1.1],
        coefficients=[0.4, -0.9],
        rho=[0.2],
        classlabels_ints=[0, 1],
        prob_a=[0.3],
        prob_b=[0.1],
        **ML,
    ),
    "Scaler": case(rows(B, 3), offset=[0.1, 0.2, 0.3], scale=[3.0, 0.7, 1.1], **ML),
    "TreeEnsemble": case(
        rows(B, 2),
        tree_roots=[0],
        n_targets=1,
        nodes_featureids=[1],
        nodes_modes=tensor(np.uint8([0])),
        nodes_splits=tensor(np.float32([0])),
        nodes_truenodeids=[0],
        nodes_trueleafs=[1],
        nodes_falsenodeids=[1],
        nodes_falseleafs=[1],
        leaf_targetids=[0, 0],
        leaf_weights=tensor(np.float32([0.1, 0.7])),
        **ML,
    ),
    "TreeEnsembleRegressor": case(
        rows(B, 2),
        target_ids=[0, 0],
        target_nodeids=[1, 2],
        target_treeids=[0, 0],
        target_weights=[0.1, 0.7],
        n_targets=1,
        **_FOREST,
        **{**ML, "opset": 3},
    ),
    "TreeEnsembleClassifier": case(
        rows(B, 2),
        out=(0, 0),
        class_ids=[0, 1],
        class_nodeids=[1, 2],
        class_treeids=[0, 0],
        class_weights=[0.1, 0.7],
        classlabels_int64s=[0, 1],
        post_transform="SOFTMAX",
        **_FOREST,
        **{**ML, "opset": 3},
    ),
    "FlexAttention": case(*(rows(B, 2, 6, 8, seed=i) for i in range(3)), domain="ai.onnx.preview", opset=1),
}


def _from_tables() -> dict[str, Batched]:
    """What ``digest_cases`` has tables of, on every float type."""
    found: dict[str, Batched] = {}
    for dtype in FLOATS.values():
        for table, count in ((ELEMENTWISE, 1), (PAIRS, 2)):
            for name, attributes in table.items():
                inputs = [Rows(bits(dtype, (B, 307), 7, i)) for i in range(count)]
                if allowed(name.split()[0], dtype):
                    found[f"{name} {dtype.name}"] = case(*inputs, **attributes)
        for name, (others, attributes) in ROWS.items():
            op = name.split()[0]
            for kind in ("plain", "spread", "bits"):
                if allowed(op, dtype) and op != "Unique":
                    out = (0, 0) if op == "TopK" else (0,)
                    first = Rows(numbers(kind, dtype, (B, 261), 8))
                    found[f"{name} {dtype.name} {kind}"] = case(first, *others, out=out, **attributes)
        for name, attributes in IMAGES.items():
            if allowed(name, dtype):
                found[f"{name} {dtype.name}"] = case(Rows(numbers("spread", dtype, (B, 3, 9, 8), 9)), **attributes)
        found[f"MatMul {dtype.name}"] = case(
            Rows(numbers("zero sums", dtype, (B, 301), 1)), numbers("few bits", dtype, (301, 9), 2)
        )
        filters = numbers("plain", dtype, (5, 3, 3, 3), 4)
        found[f"Conv {dtype.name}"] = case(Rows(numbers("spread", dtype, (B, 3, 9, 8), 3)), filters)
    return found


BATCHED |= _from_tables()

_DRAWS = "a draw hangs on the place of its element in the whole tensor"
_NO_BATCH = "makes its output from sizes or attributes"
_WHOLE = "sequences, optionals and maps: it moves whole tensors, or takes one map"
_BODY = "runs the operators of its subgraph, which have entries of their own"
_ALL = "what it lists or counts is spread over the whole tensor"
_STEP = "one step of an optimizer on whole tensors"
EXEMPT: Mapping[str, str] = {
    **dict.fromkeys(
        "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike".split(), _DRAWS
    ),
    **dict.fromkeys(
        "BlackmanWindow Constant ConstantOfShape EyeLike HammingWindow HannWindow Range Shape Size".split(),
        _NO_BATCH,
    ),
    **dict.fromkeys(
        "ConcatFromSequence Optional OptionalGetElement OptionalHasElement SplitToSequence".split(), _WHOLE
    ),
    **dict.fromkeys(
        "SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength".split(), _WHOLE
    ),
    **dict.fromkeys("CastMap DictVectorizer ZipMap".split(), _WHOLE),
    **dict.fromkeys("If Loop SequenceMap".split(), _BODY),
    **dict.fromkeys("MaxUnpool NonMaxSuppression NonZero ScatterND StringNormalizer StringSplit Unique".split(), _ALL),
    **dict.fromkeys("Adagrad Adam Momentum".split(), _STEP),
    "Gradient": "the slopes of a whole graph, whose operators have entries of their own",
    "MelWeightMatrix": _NO_BATCH,
    "DynamicQuantizeLinear": "its scale comes from the range of the whole tensor",
}
"""Operators without a batch."""
