"""ai.onnx.ml: maps, categories, labels, scaling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest

import onemodel
from tests.ops.harness import PATHS, model, onnxruntime_gives, same, session_on
from tests.ops.ml_harness import Ml, floats, words

ML = Ml(opset=4)
ml, gives, like_onnxruntime, refused = ML.run, ML.gives, ML.like_onnxruntime, ML.refused


class TestArrayFeatureExtractor:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
    def test_columns(self, dtype: Any) -> None:
        x = np.arange(12).reshape(3, 4).astype(dtype)
        gives(x[:, [2, 0, 2]], "ArrayFeatureExtractor", x, np.array([2, 0, 2]))

    def test_last_axis_of_many(self) -> None:
        x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
        like_onnxruntime("ArrayFeatureExtractor", x, np.array([[3, 1]]), opset=1)

    def test_a_vector_becomes_a_row(self) -> None:
        like_onnxruntime("ArrayFeatureExtractor", floats(5, 6, 7), np.array([1, 0]), opset=1)
        gives(words(["b"]), "ArrayFeatureExtractor", words("a", "b"), np.array(1))

    @pytest.mark.parametrize("index", [-1, 3])
    def test_an_index_out_of_range(self, index: int) -> None:
        refused("not in [0, 2]", "ArrayFeatureExtractor", floats(1, 2, 3), np.array([index]))

    def test_a_scalar(self) -> None:
        refused("scalar", "ArrayFeatureExtractor", np.float32(1).reshape(()), np.array([0]))


class TestFeatureVectorizer:
    def test_cut_and_filled_up(self) -> None:
        inputs = floats([1, 2], [3, 4]), floats([1, 2, 3], [4, 5, 6])
        like_onnxruntime("FeatureVectorizer", *inputs, inputdimensions=[3, 2], opset=1)

    def test_vectors_are_rows(self) -> None:
        gives(floats([1, 2, 3, 4]), "FeatureVectorizer", floats(1, 2), floats(3, 4), inputdimensions=[2, 2])

    @pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float64])
    def test_types(self, dtype: Any) -> None:
        gives(floats([1, 2]), "FeatureVectorizer", np.array([[1, 2]], dtype), inputdimensions=[2])

    def test_without_dimensions_all_columns(self) -> None:
        gives(floats([1, 2, 3]), "FeatureVectorizer", floats([1, 2]), floats([3]))

    def test_bad_input(self) -> None:
        refused("as many rows", "FeatureVectorizer", floats([1], [2]), floats([3]), inputdimensions=[1, 1])
        refused("one number from 0 on", "FeatureVectorizer", floats([1]), floats([3]), inputdimensions=[1])
        refused("one number from 0 on", "FeatureVectorizer", floats([1, 2]), inputdimensions=[-1])
        refused("matrices or vectors", "FeatureVectorizer", floats([[1]]), inputdimensions=[1])


def of_map(op: str, value_type: str, value: dict[Any, Any], **options: Any) -> Any:
    """What ``op`` makes of a map, the same on every path."""
    proto = model(op, [value], input_types=[value_type], **(ML.options | options))
    results = []
    for path in PATHS:
        with session_on(path, proto) as session:
            results += session.run(None, {"x0": value})
        same(results[-1], results[0])
    return results[0]


class TestCastMap:
    @pytest.mark.parametrize("cast", ["TO_FLOAT", "TO_INT64", "TO_STRING"])
    @pytest.mark.parametrize("form", ["DENSE", "SPARSE"])
    def test_floats(self, cast: str, form: str) -> None:
        value, value_type = {3: -2.5, 0: 1.25}, "map(int64,tensor(float))"
        options: dict[str, Any] = {"cast_to": cast, "map_form": form, "max_map": 5}
        want = onnxruntime_gives(model("CastMap", [value], input_types=[value_type], **ML.options, **options), value)
        got = of_map("CastMap", value_type, value, **options)
        same(got, words(*want) if cast == "TO_STRING" else want)

    def test_floats_become_integers_as_in_cast(self) -> None:
        value = dict(enumerate([-1.9, np.nan, np.inf, -np.inf, 1e30]))
        got = of_map("CastMap", "map(int64,tensor(float))", value, cast_to="TO_INT64")
        same(got, np.array([[-1, 0, 2**63 - 1, -(2**63), 2**63 - 1]]))

    def test_strings(self) -> None:
        text = "map(int64,tensor(string))"
        same(of_map("CastMap", text, {1: "2.5", 0: "-1"}), floats([-1, 2.5]))
        same(of_map("CastMap", text, {1: "7", 0: "-1"}, cast_to="TO_INT64"), np.array([[-1, 7]]))
        same(of_map("CastMap", text, {5: "b", 2: "a"}, cast_to="TO_STRING"), words(["a", "b"]))
        got = of_map("CastMap", text, {1: "b"}, cast_to="TO_STRING", map_form="SPARSE", max_map=2)
        same(got, words(["0.f", "b"]))

    @pytest.mark.parametrize("key", [-1, 5])
    def test_a_key_out_of_range(self, key: int) -> None:
        proto = model(
            "CastMap", [{}], input_types=["map(int64,tensor(float))"], map_form="SPARSE", max_map=5, **ML.options
        )
        with pytest.raises(onemodel.ExecutionError, match=r"must be in \[0, 4\]"):
            onemodel.Session(proto, mode="fast").run(None, {"x0": {key: 1.0}})

    def test_a_bad_cast(self) -> None:
        proto = model("CastMap", [{}], input_types=["map(int64,tensor(float))"], cast_to="TO_INT", **ML.options)
        with pytest.raises(onemodel.ExecutionError, match="TO_INT64"):
            onemodel.Session(proto, mode="fast").run(None, {"x0": {1: 1.0}})


class TestDictVectorizer:
    def test_the_specification_s_example(self) -> None:
        got = of_map(
            "DictVectorizer", "map(string,tensor(int64))", {"a": 4, "c": 8}, string_vocabulary=["a", "c", "b", "z"]
        )
        same(got, np.array([4, 8, 0, 0]))

    @pytest.mark.parametrize(("value_type", "dtype"), [("float", np.float32), ("double", np.float64)])
    def test_numbers(self, value_type: str, dtype: Any) -> None:
        got = of_map("DictVectorizer", f"map(int64,tensor({value_type}))", {7: 0.1, 99: 5.0}, int64_vocabulary=[5, 7])
        same(got, np.array([0, 0.1], dtype))

    def test_strings(self) -> None:
        got = of_map("DictVectorizer", "map(int64,tensor(string))", {7: "x"}, int64_vocabulary=[5, 7])
        same(got, words("", "x"))

    def test_two_vocabularies(self) -> None:
        with pytest.raises(onemodel.ExecutionError, match="only one"):
            of_map("DictVectorizer", "map(int64,tensor(float))", {7: 1.0})


class TestZipMap:
    def test_integers(self) -> None:
        x = floats([0.25, 0.5], [1, 2])
        assert ml("ZipMap", x, classlabels_int64s=[3, 4]) == [{3: 0.25, 4: 0.5}, {3: 1, 4: 2}]

    def test_a_vector_is_one_row(self) -> None:
        x = floats(0.2, 0.8)
        got = ml("ZipMap", x, classlabels_strings=["a", "b"])
        assert got == onnxruntime_gives(model("ZipMap", [x], classlabels_strings=["a", "b"], **ML.options), x)
        assert all(isinstance(value, np.float32) for value in got[0].values())

    def test_bad_input(self) -> None:
        refused("must have 3 columns", "ZipMap", floats([1, 2]), classlabels_int64s=[1, 2, 3])
        refused("only one", "ZipMap", floats([1, 2]))


CATEGORIES: Mapping[str, Any] = {"cats_strings": ["a", "b", "a"], "cats_int64s": [1, 2, 3]}


class TestCategoryMapper:
    def test_to_integers(self) -> None:
        gives(
            np.array([[3, 2], [-7, 3]]),
            "CategoryMapper",
            words(["a", "b"], ["z", "a"]),
            default_int64=-7,
            **CATEGORIES,
        )

    def test_to_strings(self) -> None:
        gives(words("a", "b", "?"), "CategoryMapper", np.array([1, 2, 9]), default_string="?", **CATEGORIES)

    def test_repeated_categories_as_onnxruntime(self) -> None:
        like_onnxruntime("CategoryMapper", words("a", "b", "z"), opset=1, **CATEGORIES)

    def test_lists_of_different_length(self) -> None:
        refused("1 keys for 2 values", "CategoryMapper", words("a"), cats_strings=["a"], cats_int64s=[1, 2])


def tensor(array: Any) -> onnx.TensorProto:
    return onnx.numpy_helper.from_array(np.asarray(array))


NAN = float("nan")


ELEMENTS: Mapping[str, Any] = {
    "strings": words("b", "z", "a"),
    "int64s": np.array([20, 99, 10]),
    "floats": floats(2.5, 99, 1.5),
}
TABLE: Mapping[str, Any] = {"strings": ["a", "b"], "int64s": [10, 20], "floats": [1.5, 2.5]}
FOUND: Mapping[str, Any] = {
    "strings": words("b", "_Unused", "a"),
    "int64s": np.array([20, -1, 10]),
    "floats": floats(2.5, -0.0, 1.5),
}


class TestLabelEncoder:
    @pytest.mark.parametrize("opset", [2, 4])
    @pytest.mark.parametrize("keys", list(TABLE))
    @pytest.mark.parametrize("values", list(TABLE))
    def test_every_kind(self, opset: int, keys: str, values: str) -> None:
        options: dict[str, Any] = {f"keys_{keys}": TABLE[keys], f"values_{values}": TABLE[values]}
        got = ml("LabelEncoder", ELEMENTS[keys].reshape(1, 3), opset=opset, **options)
        same(got, FOUND[values].reshape(1, 3))
        if values == "floats":
            assert np.signbit(got[0, 1])

    @pytest.mark.parametrize(
        ("values", "default", "made"),
        [("strings", "?", words("?")), ("int64s", 5, np.array([5])), ("floats", 0.5, floats(0.5))],
    )
    @pytest.mark.parametrize("opset", [2, 4])
    def test_defaults(self, opset: int, values: str, default: Any, made: Any) -> None:
        options = {f"values_{values}": TABLE[values], f"default_{values.removesuffix('s')}": default}
        gives(made, "LabelEncoder", np.array([3]), opset=opset, keys_int64s=[1, 2], **options)

    @pytest.mark.parametrize("keys", [np.int16, np.int32, np.int64, np.float32, np.float64, object])
    @pytest.mark.parametrize("values", [np.int16, np.int32, np.int64, np.float32, np.float64, object])
    def test_tensors(self, keys: Any, values: Any) -> None:
        def made(numbers: Any, dtype: Any) -> Any:
            return words(*map(str, numbers)) if dtype is object else np.array(numbers, dtype)

        unknown = {object: "_Unused", np.float32: -0.0, np.float64: -0.0}.get(values, -1)
        got = ml(
            "LabelEncoder",
            made([3, 9, 1], keys),
            keys_tensor=tensor(made([1, 3], keys)),
            values_tensor=tensor(made([10, 30], values)),
        )
        same(got, words("30", unknown, "10") if values is object else np.array([30, unknown, 10], values))

    def test_default_tensor(self) -> None:
        gives(
            np.array([7, 5], np.int16),
            "LabelEncoder",
            words("a", "q"),
            keys_strings=["a"],
            values_tensor=tensor(np.array([7], np.int16)),
            default_tensor=tensor(np.array([5], np.int16)),
        )
        gives(
            words("x", "?"),
            "LabelEncoder",
            np.array([1, 2]),
            keys_int64s=[1],
            values_strings=["x"],
            default_tensor=tensor(words("?")),
        )

    @pytest.mark.parametrize("opset", [2, 4])
    def test_the_last_of_equal_keys_wins(self, opset: int) -> None:
        options: dict[str, Any] = {"opset": opset, "values_int64s": [1, 2, 3]}
        gives(np.array([3, 2]), "LabelEncoder", np.array([5, 6]), keys_int64s=[5, 6, 5], **options)
        gives(np.array([3, 2]), "LabelEncoder", words("a", "b"), keys_strings=["a", "b", "a"], **options)
        gives(np.array([3, 2]), "LabelEncoder", floats(5, 6), keys_floats=[5.0, 6.0, 5.0], **options)

    def test_nan_and_zeros(self) -> None:
        x = floats(NAN, -NAN, 0.0, -0.0, 1)
        options: dict[str, Any] = {"keys_floats": [NAN, 0.0, NAN], "values_int64s": [1, 2, 3]}
        gives(np.array([3, 3, 2, 2, -1]), "LabelEncoder", x, opset=4, **options)

    def test_bits_before_version_4(self) -> None:
        x = floats(NAN, 0.0, -0.0, 1)
        x = np.append(x, np.uint32(0x7FC00001).view(np.float32))
        options: dict[str, Any] = {"keys_floats": [NAN, 0.0], "values_int64s": [1, 2]}
        gives(np.array([1, 2, -1, -1, -1]), "LabelEncoder", x, opset=2, **options)

    def test_before_version_2_labels_are_places(self) -> None:
        options: dict[str, Any] = {"classes_strings": ["a", "b", "a"], "opset": 1}
        gives(np.array([[2, 1], [-1, 2]]), "LabelEncoder", words(["a", "b"], ["z", "a"]), **options)
        gives(words("a", "b", "a", "_Unused", "_Unused"), "LabelEncoder", np.array([0, 1, 2, 3, -1]), **options)
        like_onnxruntime("LabelEncoder", words("a", "b", "z"), **options)

    def test_bad_input(self) -> None:
        refused("2 of the keys_*", "LabelEncoder", words("a"), keys_strings=["a"], keys_int64s=[1], values_floats=[1.0])
        refused("0 of the values_*", "LabelEncoder", words("a"), keys_strings=["a"])
        refused("1 keys for 2 values", "LabelEncoder", words("a"), keys_strings=["a"], values_int64s=[1, 2])
        refused("do not fit", "LabelEncoder", words("a"), keys_int64s=[1], values_int64s=[1])

    def test_empty(self) -> None:
        gives(
            np.zeros((0, 2), np.int64), "LabelEncoder", np.zeros((0, 2), np.int64), keys_int64s=[1], values_int64s=[1]
        )


class TestOneHotEncoder:
    def test_integers(self) -> None:
        like_onnxruntime("OneHotEncoder", np.array([[1, 5], [2, 7]]), cats_int64s=[5, 1, 2], opset=1)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_floats_are_cut(self, dtype: Any) -> None:
        x = np.array([1.7, -1.5, 0.9], dtype)
        like_onnxruntime("OneHotEncoder", x, cats_int64s=[1, 2, -1], opset=1)

    def test_int32(self) -> None:
        gives(floats([0, 1]), "OneHotEncoder", np.array([4], np.int32), cats_int64s=[3, 4])

    def test_strings(self) -> None:
        gives(floats([[0, 1], [0, 0]]), "OneHotEncoder", words(["b", "q"]), cats_strings=["a", "b"])

    def test_the_last_of_equal_categories_wins(self) -> None:
        like_onnxruntime("OneHotEncoder", np.array([1, 2, 5]), cats_int64s=[1, 2, 1], opset=1)

    def test_a_missing_category_may_be_an_error(self) -> None:
        gives(floats([1, 0]), "OneHotEncoder", np.array([1]), cats_int64s=[1, 2], zeros=0)
        refused("of no category", "OneHotEncoder", np.array([3]), cats_int64s=[1, 2], zeros=0)
        refused("of no category", "OneHotEncoder", words("c"), cats_strings=["a"], zeros=0)

    def test_bad_input(self) -> None:
        refused("only one", "OneHotEncoder", np.array([3]))
        refused("do not fit", "OneHotEncoder", np.array([3]), cats_strings=["a"])


class TestBinarizer:
    def test_above_the_threshold(self) -> None:
        like_onnxruntime("Binarizer", floats(0.5, 1.5, np.inf, -np.inf), threshold=0.5, opset=1)

    def test_nan_is_not_above(self) -> None:
        gives(floats(0, 1), "Binarizer", floats(NAN, 2), threshold=1.0)

    @pytest.mark.parametrize(
        ("threshold", "expected"),
        [
            (0.5, [0, 0, 1]),
            (-0.5, [0, 1, 1]),
            (0.0, [0, 0, 1]),
            (-1e30, [1, 1, 1]),
            (1e30, [0, 0, 0]),
            (NAN, [0, 0, 0]),
        ],
    )
    @pytest.mark.parametrize("dtype", [np.int32, np.int64])
    def test_integers(self, dtype: Any, threshold: float, expected: list[int]) -> None:
        gives(np.array(expected, dtype), "Binarizer", np.array([-1, 0, 1], dtype), threshold=threshold)

    def test_nothing_is_above_nan(self) -> None:
        gives(np.zeros((2,)), "Binarizer", np.array([1.0, NAN]), threshold=NAN)


class TestImputer:
    def test_one_value_for_each_feature(self) -> None:
        x = floats([1, NAN], [NAN, 4])
        like_onnxruntime("Imputer", x, imputed_value_floats=[7.0, 8.0], replaced_value_float=NAN, opset=1)

    def test_one_value_for_all(self) -> None:
        gives(
            np.array([9.0, 0, NAN]),
            "Imputer",
            np.array([-1.0, 0, NAN]),
            imputed_value_floats=[9.0],
            replaced_value_float=-1.0,
        )

    @pytest.mark.parametrize("dtype", [np.int32, np.int64])
    def test_integers(self, dtype: Any) -> None:
        x = np.array([[[0, 1], [2, 0]]], dtype)
        gives(np.array([[[5, 1], [2, 6]]], dtype), "Imputer", x, imputed_value_int64s=[5, 6])

    def test_bad_input(self) -> None:
        refused("imputed_value_floats must be given", "Imputer", floats([1]), imputed_value_int64s=[1])
        refused("imputed_value_int64s must be given", "Imputer", np.array([1]), imputed_value_floats=[1.0])
        refused("2 imputed values", "Imputer", floats([1, 2, 3]), imputed_value_floats=[1.0, 2.0])


class TestScaler:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
    def test_each_feature(self, dtype: Any) -> None:
        x = np.array([[1, 2], [3, 4]], dtype)
        like_onnxruntime("Scaler", x, offset=[1.0, 0.5], scale=[2.0, -3.0], opset=1)

    def test_one_for_all(self) -> None:
        gives(floats([0, 2], [4, 6]), "Scaler", floats([1, 2], [3, 4]), offset=[1.0], scale=[2.0])
        gives(floats([0, 3], [4, 9]), "Scaler", floats([1, 2], [3, 4]), offset=[1.0], scale=[2.0, 3.0])

    def test_either_may_be_missing(self) -> None:
        gives(floats(2, 4), "Scaler", floats(1, 2), scale=[2.0])
        gives(floats(0, 1), "Scaler", floats(1, 2), offset=[1.0])

    def test_doubles_are_rounded_once(self) -> None:
        x = np.array([[16777217.0]])
        gives(floats([1]), "Scaler", x, offset=[16777216.0], scale=[1.0])

    def test_bad_input(self) -> None:
        refused("2 scales", "Scaler", floats([1, 2, 3]), scale=[1.0, 2.0])


class TestNormalizer:
    X = floats([-2, -1], [0, 0], [3, -4])

    @pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
    def test_rows(self, norm: str, dtype: Any) -> None:
        like_onnxruntime("Normalizer", self.X.astype(dtype), norm=norm, opset=1)

    @pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
    def test_a_vector_is_one_row(self, norm: str) -> None:
        like_onnxruntime("Normalizer", floats(3, -4), norm=norm, opset=1)

    def test_the_greatest_element_not_the_largest(self) -> None:
        gives(floats([1, -2]), "Normalizer", floats([1, -2]), norm="MAX")

    def test_empty(self) -> None:
        gives(np.zeros((2, 0), np.float32), "Normalizer", np.zeros((2, 0), np.float32))

    def test_bad_input(self) -> None:
        refused("L3", "Normalizer", self.X, norm="L3")
        refused("must be [samples, features]", "Normalizer", floats([[1]]))
