"""ai.onnx.ml: linear models, support vector machines, and the transforms of scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from sklearn import datasets, svm

from tests.ops.harness import same
from tests.ops.ml_harness import Ml, floats, words

ML = Ml(opset=1)
ml, gives, like_onnxruntime, refused = ML.run, ML.gives, ML.like_onnxruntime, ML.refused
TRANSFORMS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"]
KERNELS = ["LINEAR", "POLY", "RBF", "SIGMOID"]


X = floats([0.3, 0.2], [-1, 0.5], [0.25, 0.75])
THREE: Mapping[str, Any] = {"coefficients": [0.5, 0.4, -0.3, 0.6, 0.1, 0.2], "intercepts": [0.1, 0.2, 0.3]}


class TestTransforms:
    """On scores between 0 and 1, which every transform takes."""

    @pytest.mark.parametrize("name", TRANSFORMS)
    def test_like_onnxruntime(self, name: str) -> None:
        scores = floats([0.2, 0.3, 0.9], [0.5, 0.25, 0.125])
        eye = np.eye(3).ravel().tolist()
        like_onnxruntime(
            "LinearRegressor", scores, coefficients=eye, intercepts=[0.0] * 3, targets=3, post_transform=name
        )

    def of(self, name: str, *scores: float) -> Any:
        eye = np.eye(len(scores)).ravel().tolist()
        return ml("LinearRegressor", floats(scores), coefficients=eye, targets=len(scores), post_transform=name)

    def test_softmax_zero_keeps_zeros(self) -> None:
        same(self.of("SOFTMAX_ZERO", 0, 1, 0), floats([0, 1, 0]))
        same(self.of("SOFTMAX_ZERO", 0, 0), floats([0, 0]))
        weights = np.exp(floats(-3, -1))
        same(self.of("SOFTMAX_ZERO", -3, 0, -1), floats([weights[0], 0, weights[1]]) / weights.sum())
        same(self.of("SOFTMAX_ZERO", -200, 0, -300), floats([1, 0, 0]))
        same(self.of("SOFTMAX_ZERO", 1e-8, 2), floats([1e-8 * np.exp(-2), 1]), atol=1e-12)

    def test_softmax_does_not_overflow(self) -> None:
        same(self.of("SOFTMAX", 1000, 1000, -1000), floats([0.5, 0.5, 0]))

    def test_probit_is_the_quantile(self) -> None:
        got = self.of("PROBIT", 0.0, 0.5, 0.975, 0.16, 1.0)
        np.testing.assert_allclose(got, [[-np.inf, 0, 1.96, -0.99, np.inf]], atol=5e-3)

    def test_one_score_is_transformed_too(self) -> None:
        same(self.of("LOGISTIC", 0.5), floats([1 / (1 + np.exp(-0.5))]))
        same(self.of("SOFTMAX", 0.5), floats([1]))

    def test_an_unknown_transform(self) -> None:
        refused("'SOFTMIN' is not", "LinearRegressor", X, coefficients=[1.0, 2.0], post_transform="SOFTMIN")


class TestLinearRegressor:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
    def test_types(self, dtype: Any) -> None:
        x = np.array([[1, 2], [3, -4]], dtype)
        gives(floats([6], [-2]), "LinearRegressor", x, coefficients=[2.0, 2.0], intercepts=[0.0])

    def test_targets(self) -> None:
        like_onnxruntime("LinearRegressor", X, targets=3, **THREE)

    def test_a_vector_is_one_sample(self) -> None:
        like_onnxruntime("LinearRegressor", X[0], targets=3, **THREE)

    def test_without_intercepts(self) -> None:
        like_onnxruntime("LinearRegressor", X, coefficients=[1.0, 2.0], targets=1)

    def test_doubles_are_rounded_once(self) -> None:
        gives(floats([1]), "LinearRegressor", np.array([[16777217.0, 1.0]]), coefficients=[1.0, -16777216.0])

    def test_bad_input(self) -> None:
        refused("3 coefficients are not 1", "LinearRegressor", X, coefficients=[1.0, 2.0, 3.0])
        refused("2 intercepts for 1", "LinearRegressor", X, coefficients=[1.0, 2.0], intercepts=[1.0, 2.0])
        refused("must be [samples, features]", "LinearRegressor", X[None], coefficients=[1.0, 2.0])


class TestLinearClassifier:
    @pytest.mark.parametrize("name", [name for name in TRANSFORMS if name != "PROBIT"])
    @pytest.mark.parametrize(
        "labels", [{"classlabels_ints": [7, 8, 9]}, {"classlabels_strings": ["a", "b", "c"]}], ids=["ints", "strings"]
    )
    def test_classes(self, name: str, labels: Any) -> None:
        like_onnxruntime("LinearClassifier", X, outputs=2, post_transform=name, **THREE, **labels)

    @pytest.mark.parametrize("dtype", [np.float64, np.int32, np.int64])
    def test_types(self, dtype: Any) -> None:
        x = np.array([[1, 2], [3, -4]], dtype)
        like_onnxruntime("LinearClassifier", x, outputs=2, classlabels_ints=[7, 8, 9], **THREE)

    def test_without_intercepts(self) -> None:
        got = ml("LinearClassifier", floats([1, 2]), outputs=2, coefficients=[1.0, 0, 0, 1.0], classlabels_ints=[5, 6])
        same(got, [np.array([6]), floats([1, 2])])

    def binary(self, name: str) -> Any:
        x = floats([0.3], [-0.2])
        return ml(
            "LinearClassifier",
            x,
            outputs=2,
            coefficients=[1.0],
            intercepts=[0.0],
            classlabels_ints=[5, 6],
            post_transform=name,
        )

    def test_one_row_of_coefficients_is_the_second_class_s(self) -> None:
        same(self.binary("NONE"), [np.array([6, 5]), floats([-0.3, 0.3], [0.2, -0.2])])
        side = 1 / (1 + np.exp(-floats(-0.3, 0.3)))
        same(self.binary("LOGISTIC")[1][0], side)
        same(self.binary("SOFTMAX")[1][0], np.exp(floats(-0.3, 0.3)) / np.exp(floats(-0.3, 0.3)).sum())

    def test_one_row_like_onnxruntime(self) -> None:
        like_onnxruntime(
            "LinearClassifier",
            floats([0.3], [-0.2]),
            outputs=2,
            coefficients=[1.0],
            intercepts=[0.0],
            classlabels_strings=["no", "yes"],
            post_transform="LOGISTIC",
        )

    def test_one_label(self) -> None:
        options: dict[str, Any] = {"outputs": 2, "coefficients": [1.0], "intercepts": [0.0]}
        x = floats([0.3], [-0.2])
        same(ml("LinearClassifier", x, classlabels_ints=[5], **options), [np.array([5, 0]), x])
        same(ml("LinearClassifier", x, classlabels_strings=["q"], **options), [words("q", "0"), x])

    def test_bad_input(self) -> None:
        options: dict[str, Any] = {"outputs": 2, "coefficients": [1.0, 2.0]}
        refused("only one", "LinearClassifier", X, **options)
        refused("only one", "LinearClassifier", X, classlabels_ints=[1], classlabels_strings=["a"], **options)
        refused("3 scores for 2", "LinearClassifier", X, outputs=2, classlabels_ints=[1, 2], **THREE)


VECTORS: Mapping[str, Any] = {"support_vectors": [1.0, 0, 0, 1, 1, 1, -1, 0], "kernel_params": [0.5, 0.1, 2.0]}
REGRESSION: Mapping[str, Any] = {"n_supports": 4, "coefficients": [0.5, 0.4, -0.3, -0.6], "rho": [0.1], **VECTORS}
TWO: Mapping[str, Any] = {
    "coefficients": [0.5, 0.4, -0.3, -0.6],
    "vectors_per_class": [2, 2],
    "rho": [0.1],
    "classlabels_ints": [7, 8],
    **VECTORS,
}
MANY: Mapping[str, Any] = {
    "coefficients": [0.5, 0.4, -0.3, -0.6, 0.2, -0.1, 0.7, 0.3],
    "vectors_per_class": [2, 1, 1],
    "rho": [0.1, -0.2, 0.05],
    "classlabels_strings": ["a", "b", "c"],
    **VECTORS,
}


class TestSVMRegressor:
    @pytest.mark.parametrize("kernel", KERNELS)
    def test_kernels(self, kernel: str) -> None:
        like_onnxruntime("SVMRegressor", X, kernel_type=kernel, **REGRESSION)

    def test_a_fractional_degree(self) -> None:
        options = {**REGRESSION, "kernel_params": [0.5, 2.1, 2.5]}
        like_onnxruntime("SVMRegressor", X, kernel_type="POLY", **options)

    def test_one_class(self) -> None:
        gives(floats([1], [-1], [1]), "SVMRegressor", X, one_class=1, **REGRESSION)

    def test_without_vectors_it_is_linear(self) -> None:
        options: dict[str, Any] = {"coefficients": [0.5, 0.4], "rho": [0.1], "kernel_params": [0.5, 0.1, 2.0]}
        like_onnxruntime("SVMRegressor", X, kernel_type="RBF", **options)

    @pytest.mark.parametrize("dtype", [np.float64, np.int64])
    def test_types(self, dtype: Any) -> None:
        x = np.array([[1, 2], [-3, 0]], dtype)
        want = ml("SVMRegressor", x.astype(np.float32), kernel_type="RBF", **REGRESSION)
        gives(want, "SVMRegressor", x, kernel_type="RBF", **REGRESSION)

    def test_many_samples_are_cut_into_parts(self) -> None:
        rng = np.random.default_rng(0)
        vectors = rng.standard_normal((300, 20)).astype(np.float32)
        x = rng.standard_normal((400, 20)).astype(np.float32)
        like_onnxruntime(
            "SVMRegressor",
            x,
            kernel_type="RBF",
            n_supports=300,
            support_vectors=vectors.ravel().tolist(),
            coefficients=rng.standard_normal(300).tolist(),
            rho=[0.5],
            kernel_params=[0.05, 0.0, 0.0],
            atol=1e-5,
        )

    def test_bad_input(self) -> None:
        refused("are not 5 vectors", "SVMRegressor", X, **{**REGRESSION, "n_supports": 5})
        refused("'GAUSS' is not", "SVMRegressor", X, kernel_type="GAUSS", **REGRESSION)


class TestSVMClassifier:
    @pytest.mark.parametrize("kernel", KERNELS)
    def test_kernels(self, kernel: str) -> None:
        like_onnxruntime("SVMClassifier", X, outputs=2, kernel_type=kernel, **MANY)

    @pytest.mark.parametrize("name", [name for name in TRANSFORMS if name != "PROBIT"])
    def test_transforms_of_duels(self, name: str) -> None:
        like_onnxruntime("SVMClassifier", X, outputs=2, post_transform=name, **MANY)

    @pytest.mark.parametrize("name", TRANSFORMS)
    def test_transforms_of_probabilities(self, name: str) -> None:
        options: dict[str, Any] = {"prob_a": [-1.2, -0.9, -0.7], "prob_b": [0.1, 0.0, 0.2]}
        like_onnxruntime("SVMClassifier", X, outputs=2, post_transform=name, rtol=1e-4, **options, **MANY)

    @pytest.mark.parametrize("name", ["NONE", "LOGISTIC"])
    def test_two_classes(self, name: str) -> None:
        like_onnxruntime("SVMClassifier", X, outputs=2, post_transform=name, **TWO)

    def test_two_classes_with_probabilities(self) -> None:
        like_onnxruntime("SVMClassifier", X, outputs=2, prob_a=[-1.2], prob_b=[0.1], **TWO)

    def test_probabilities_couple_those_of_pairs(self) -> None:
        """They minimise the squares of p(j) r(i, j) - p(i) r(j, i) over all pairs: solved here as a linear system."""
        a, b = [-1.2, -0.9, -0.7], [0.1, 0.0, 0.2]
        scores = ml("SVMClassifier", X, outputs=2, **MANY)[1].astype(np.float64)
        got = ml("SVMClassifier", X, outputs=2, prob_a=a, prob_b=b, **MANY)[1]
        for row, probabilities in zip(1 / (1 + np.exp(scores * a + b)), got, strict=True):
            r = np.zeros((3, 3))
            r[np.triu_indices(3, 1)] = row
            r[np.tril_indices(3, -1)] = (1 - r.T)[np.tril_indices(3, -1)]
            system = np.ones((4, 4))
            system[:3, :3] = -r.T * r + np.diag((r**2).sum(axis=0))
            system[3, 3] = 0
            want = np.linalg.solve(system, [0, 0, 0, 1])[:3]
            np.testing.assert_allclose(probabilities, want, atol=2e-3)
            assert abs(probabilities.sum() - 1) < 1e-6

    def test_two_classes_softmax(self) -> None:
        scores = ml("SVMClassifier", X, outputs=2, **TWO)[1]
        weights = np.exp(scores)
        got = ml("SVMClassifier", X, outputs=2, post_transform="SOFTMAX", **TWO)[1]
        same(got, weights / weights.sum(axis=1, keepdims=True))

    def test_without_vectors_it_is_linear(self) -> None:
        options: dict[str, Any] = {"coefficients": [0.5, 0.4, -0.3, -0.6, 0.1, 0.2], "rho": [0.1]}
        like_onnxruntime(
            "SVMClassifier", X, outputs=2, classlabels_ints=[7, 8, 9], kernel_params=[0.5, 0.1, 2.0], **options
        )

    def test_a_linear_model_of_two_classes_takes_the_highest_score(self) -> None:
        x, options = floats([1, 0], [0, 1]), {"coefficients": [2.0, 0.5, 1.0, 1.0], "rho": [0.0]}
        got = ml("SVMClassifier", x, outputs=2, classlabels_ints=[7, 8], **options)
        same(got, [np.array([7, 8]), floats([2, 1], [0.5, 1])])

    def test_bad_input(self) -> None:
        refused("3 classes need 3", "SVMClassifier", X, outputs=2, **{**MANY, "rho": [0.1]})
        refused("are not 2 for each", "SVMClassifier", X, outputs=2, **{**MANY, "coefficients": [0.5]})
        refused("in prob_a as in prob_b", "SVMClassifier", X, outputs=2, prob_a=[1.0], **MANY)
        refused("3 numbers in prob_a", "SVMClassifier", X, outputs=2, prob_a=[1.0], prob_b=[1.0], **MANY)


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "sigmoid"])
class TestLikeScikitLearn:
    def attributes(self, model: Any, kernel: str) -> dict[str, Any]:
        return {
            "coefficients": model.dual_coef_.ravel().tolist(),
            "support_vectors": model.support_vectors_.ravel().tolist(),
            "rho": model.intercept_.tolist(),
            "kernel_type": kernel.upper(),
            "kernel_params": [float(model._gamma), 0.0, 3.0],
        }

    def test_classes(self, kernel: str) -> None:
        x, y = datasets.load_iris(return_X_y=True)
        x = x / x.max(axis=0)
        model = svm.SVC(kernel=kernel, decision_function_shape="ovo").fit(x, y)
        got = ml(
            "SVMClassifier",
            x,
            outputs=2,
            classlabels_ints=[0, 1, 2],
            vectors_per_class=model.n_support_.tolist(),
            **self.attributes(model, kernel),
        )
        assert np.array_equal(got[0], model.predict(x))
        np.testing.assert_allclose(got[1], model.decision_function(x), rtol=1e-5, atol=2e-4)

    def test_regression(self, kernel: str) -> None:
        x, y = datasets.load_diabetes(return_X_y=True)
        model = svm.SVR(kernel=kernel).fit(x, y)
        got = ml("SVMRegressor", x, n_supports=len(model.support_), **self.attributes(model, kernel))
        np.testing.assert_allclose(got[:, 0], model.predict(x), rtol=1e-5)
