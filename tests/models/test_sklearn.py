"""Pipelines of scikit-learn, converted by skl2onnx, give what scikit-learn gives.

Data and estimators are seeded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import helper
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType, StringTensorType
from sklearn import (
    calibration,
    cluster,
    compose,
    decomposition,
    discriminant_analysis,
    ensemble,
    feature_selection,
    gaussian_process,
    linear_model,
    mixture,
    multiclass,
    multioutput,
    naive_bayes,
    neighbors,
    neural_network,
    pipeline,
    preprocessing,
    svm,
    tree,
)
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.impute import SimpleImputer

import onemodel
from tests.models.oracle import Oracle

Array = NDArray[Any]
ROWS = 120
PATHS: list[dict[str, Any]] = [{"mode": "fast"}, {"mode": "fast", "kernels": "generic"}, {"mode": "exact"}]


def data(seed: int = 0) -> tuple[Array, Array, Array]:
    """Features, three classes and a target that depend on them."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((ROWS, 5)).astype(np.float32)
    value = x[:, 0] * 2 - x[:, 1] * x[:, 2] + rng.standard_normal(ROWS) * 0.1
    return x, np.digitize(value, [-1, 1]), value.astype(np.float32)


X, CLASSES, TARGET = data()
NEW = data(1)[0][:40]
TWO = (CLASSES > 0).astype(np.int64)


CONVERTED_OTHERWISE = {
    "LDA, two": "skl2onnx takes a softmax over two scores, scikit-learn a sigmoid of one",
    "nearest neighbours, by distance": "skl2onnx weighs neighbours otherwise than scikit-learn does",
}
"""Models whose conversion changes the numbers: these agree with ONNX Runtime alone."""


def converted(estimator: Any, x: Array, **options: Any) -> onnx.ModelProto:
    chosen = {id(estimator): options} if options else None
    proto: onnx.ModelProto = to_onnx(estimator, x[:1], options=chosen, target_opset={"": 18, "ai.onnx.ml": 3})
    assert {entry.domain for entry in proto.opset_import} <= {"", "ai.onnx", "ai.onnx.ml"}
    return proto


def answers(proto: onnx.ModelProto, feeds: Mapping[str, Any], tolerance: float = 1e-4) -> list[list[Any]]:
    """The outputs on each path, exact mode where it takes the model; all of them agree with ONNX Runtime's."""
    theirs = Oracle(proto).run(feeds)
    found = []
    for options in PATHS:
        try:
            session = onemodel.Session(proto, **options)
        except onemodel.InexactOperatorError:
            continue
        found.append(session.run(None, dict(feeds)))
        for ours, other in zip(found[-1], theirs, strict=True):
            if isinstance(other, np.ndarray):
                assert (ours.shape, ours.dtype) == (other.shape, other.dtype)
                agrees(ours, other, tolerance)
    assert len(found) > 1
    return found


def agrees(got: Any, want: Any, tolerance: float = 1e-4) -> None:
    want = np.asarray(want)
    if want.dtype.kind in "iub":
        np.testing.assert_array_equal(np.asarray(got).reshape(want.shape), want)
    elif want.dtype.kind in "OU":
        assert np.asarray(got).reshape(-1).tolist() == want.reshape(-1).tolist()
    else:
        scale = float(np.abs(want).max(initial=1))
        np.testing.assert_allclose(np.asarray(got).reshape(want.shape), want, atol=tolerance * scale, rtol=tolerance)


# Classifiers


CLASSIFIERS: dict[str, Any] = {
    "decision tree": tree.DecisionTreeClassifier(max_depth=5, random_state=0),
    "random forest": ensemble.RandomForestClassifier(12, max_depth=6, random_state=0),
    "extra trees": ensemble.ExtraTreesClassifier(12, max_depth=6, random_state=0),
    "gradient boosting": ensemble.GradientBoostingClassifier(n_estimators=12, random_state=0),
    "AdaBoost": ensemble.AdaBoostClassifier(n_estimators=8, random_state=0),
    "bagging": ensemble.BaggingClassifier(tree.DecisionTreeClassifier(max_depth=4), 5, random_state=0),
    "voting": ensemble.VotingClassifier(
        [("a", linear_model.LogisticRegression()), ("b", naive_bayes.GaussianNB())],
        voting="soft",
        flatten_transform=False,
    ),
    "stacking": ensemble.StackingClassifier(
        [("a", linear_model.LogisticRegression()), ("b", tree.DecisionTreeClassifier(max_depth=3))], cv=3
    ),
    "logistic regression": linear_model.LogisticRegression(),
    "SGD": linear_model.SGDClassifier(loss="log_loss", random_state=0),
    "SVC, rbf": svm.SVC(probability=False, decision_function_shape="ovo"),
    "SVC, linear": svm.SVC(kernel="linear", decision_function_shape="ovo"),
    "SVC, poly": svm.SVC(kernel="poly", degree=2, coef0=0.5, decision_function_shape="ovo"),
    "SVC, sigmoid": svm.SVC(kernel="sigmoid", gamma=0.05, decision_function_shape="ovo"),
    "NuSVC": svm.NuSVC(nu=0.3, decision_function_shape="ovo"),
    "linear SVC": svm.LinearSVC(random_state=0),
    "nearest neighbours": neighbors.KNeighborsClassifier(4),
    "Gaussian naive Bayes": naive_bayes.GaussianNB(),
    "Bernoulli naive Bayes": naive_bayes.BernoulliNB(),
    "LDA": discriminant_analysis.LinearDiscriminantAnalysis(),
    "QDA": discriminant_analysis.QuadraticDiscriminantAnalysis(),
    "MLP": neural_network.MLPClassifier(hidden_layer_sizes=(8,), max_iter=60, random_state=0),
    "one versus rest": multiclass.OneVsRestClassifier(linear_model.LogisticRegression()),
    "calibrated": calibration.CalibratedClassifierCV(naive_bayes.GaussianNB(), cv=2),
    "pipeline": pipeline.make_pipeline(
        preprocessing.StandardScaler(), decomposition.PCA(3, random_state=0), linear_model.LogisticRegression()
    ),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("labels", ["three", "two", "text"])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifier(name: str, labels: str) -> None:
    y = {"three": CLASSES, "two": TWO, "text": np.array(["cold", "mild", "hot"])[CLASSES]}[labels]
    estimator = CLASSIFIERS[name].fit(X, y)
    raw = not hasattr(estimator, "predict_proba")
    proto = converted(
        estimator, X, **({"raw_scores": True} if raw else {}), **({} if name == "linear SVC" else {"zipmap": False})
    )
    if raw:
        want = estimator.decision_function(NEW)
        if want.ndim == 1:
            want = np.stack([-want, want], 1)
    else:
        want = estimator.predict_proba(NEW)
    for label, scores in answers(proto, {"X": NEW}):
        agrees(label, estimator.predict(NEW))
        if f"{name}, {labels}" not in CONVERTED_OTHERWISE:
            agrees(scores, want)


@pytest.mark.parametrize("labels", ["integers", "text"])
def test_zipmap(labels: str) -> None:
    y = CLASSES if labels == "integers" else np.array(["cold", "mild", "hot"])[CLASSES]
    estimator = ensemble.RandomForestClassifier(5, random_state=0).fit(X, y)
    proto = converted(estimator, X)
    assert any(node.op_type == "ZipMap" for node in proto.graph.node)
    want = estimator.predict_proba(NEW)
    for label, rows in answers(proto, {"X": NEW}):
        agrees(label, estimator.predict(NEW))
        assert [list(row) for row in rows] == [list(estimator.classes_)] * len(NEW)
        agrees([list(row.values()) for row in rows], want)


# Regressors and outliers


REGRESSORS: dict[str, Any] = {
    "decision tree": tree.DecisionTreeRegressor(max_depth=5, random_state=0),
    "random forest": ensemble.RandomForestRegressor(12, max_depth=6, random_state=0),
    "extra trees": ensemble.ExtraTreesRegressor(12, max_depth=6, random_state=0),
    "gradient boosting": ensemble.GradientBoostingRegressor(n_estimators=12, random_state=0),
    "AdaBoost": ensemble.AdaBoostRegressor(n_estimators=5, random_state=0),
    "bagging": ensemble.BaggingRegressor(n_estimators=4, random_state=0),
    "linear": linear_model.LinearRegression(),
    "ridge": linear_model.Ridge(),
    "elastic net": linear_model.ElasticNet(alpha=0.01),
    "Bayesian ridge": linear_model.BayesianRidge(),
    "Huber": linear_model.HuberRegressor(),
    "Poisson": linear_model.PoissonRegressor(),
    "SVR, rbf": svm.SVR(),
    "SVR, poly": svm.SVR(kernel="poly", degree=2, coef0=1.0),
    "NuSVR": svm.NuSVR(),
    "linear SVR": svm.LinearSVR(random_state=0, max_iter=5000),
    "nearest neighbours": neighbors.KNeighborsRegressor(4),
    "nearest neighbours, by distance": neighbors.KNeighborsRegressor(4, weights="distance"),
    "MLP": neural_network.MLPRegressor(hidden_layer_sizes=(8,), max_iter=60, random_state=0),
    "Gaussian process": gaussian_process.GaussianProcessRegressor(alpha=0.1, random_state=0),
    "voting": ensemble.VotingRegressor([("a", linear_model.Ridge()), ("b", linear_model.LinearRegression())]),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", REGRESSORS)
def test_regressor(name: str) -> None:
    y = np.abs(TARGET) if name == "Poisson" else TARGET
    estimator = REGRESSORS[name].fit(X, y)
    proto = converted(estimator, X)
    tolerance = 2e-3 if name == "Gaussian process" else 1e-4
    for (got,) in answers(proto, {"X": NEW}, tolerance):
        if name not in CONVERTED_OTHERWISE:
            agrees(got, estimator.predict(NEW).astype(np.float32), tolerance)


def test_several_targets() -> None:
    targets = np.stack([TARGET, TARGET**2], 1)
    for estimator in (
        multioutput.MultiOutputRegressor(linear_model.Ridge()),
        ensemble.RandomForestRegressor(4, max_depth=5, random_state=0),
    ):
        proto = converted(estimator.fit(X, targets), X)
        for (got,) in answers(proto, {"X": NEW}):
            agrees(got, estimator.predict(NEW).astype(np.float32))


@pytest.mark.parametrize(
    "estimator",
    [svm.OneClassSVM(nu=0.2), ensemble.IsolationForest(n_estimators=10, random_state=0)],
    ids=lambda estimator: type(estimator).__name__,
)
def test_outliers(estimator: Any) -> None:
    proto = to_onnx(estimator.fit(X), X[:1], target_opset={"": 18, "ai.onnx.ml": 3})
    for label, scores in answers(proto, {"X": NEW}):
        agrees(label, estimator.predict(NEW))
        agrees(scores, estimator.decision_function(NEW).astype(np.float32))


@pytest.mark.parametrize(
    "estimator",
    [cluster.KMeans(3, n_init=2, random_state=0), mixture.GaussianMixture(3, random_state=0)],
    ids=lambda estimator: type(estimator).__name__,
)
def test_clusters(estimator: Any) -> None:
    proto = converted(estimator.fit(X), X)
    want = estimator.transform(NEW) if hasattr(estimator, "transform") else estimator.predict_proba(NEW)
    for label, scores in answers(proto, {"X": NEW}):
        agrees(label, estimator.predict(NEW).astype(np.int64))
        agrees(scores, want.astype(np.float32), 1e-3)


# Transformers


TRANSFORMERS: dict[str, Any] = {
    "standard": preprocessing.StandardScaler(),
    "min max": preprocessing.MinMaxScaler(),
    "max abs": preprocessing.MaxAbsScaler(),
    "robust": preprocessing.RobustScaler(),
    "normaliser l1": preprocessing.Normalizer("l1"),
    "normaliser l2": preprocessing.Normalizer("l2"),
    "binarizer": preprocessing.Binarizer(threshold=0.25),
    "polynomial": preprocessing.PolynomialFeatures(2),
    "bins": preprocessing.KBinsDiscretizer(
        4, encode="ordinal", subsample=None, quantile_method="averaged_inverted_cdf"
    ),
    "power": preprocessing.PowerTransformer(),
    "PCA": decomposition.PCA(3, random_state=0),
    "SVD": decomposition.TruncatedSVD(3, random_state=0),
    "selection": feature_selection.SelectKBest(k=2),
    "union": pipeline.make_union(preprocessing.StandardScaler(), decomposition.PCA(2, random_state=0)),
}


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_transformer(name: str) -> None:
    estimator = TRANSFORMERS[name].fit(X, CLASSES)
    proto = converted(estimator, X)
    for (got,) in answers(proto, {"X": NEW}):
        agrees(got, np.asarray(estimator.transform(NEW), np.float32), 1e-3 if name == "power" else 1e-4)


@pytest.mark.parametrize("strategy", ["mean", "median", "most_frequent", "constant"])
def test_imputer(strategy: str) -> None:
    holes = X.copy()
    holes[::3, 1] = holes[1::4, 3] = np.nan
    estimator = SimpleImputer(strategy=strategy, fill_value=-7.0 if strategy == "constant" else None).fit(holes)
    for (got,) in answers(converted(estimator, X), {"X": holes}):
        agrees(got, estimator.transform(holes))


# Strings


WORDS = np.array([["red", "big"], ["green", "small"], ["blue", "big"], ["red", "small"]], object)


def test_columns_of_numbers_and_strings() -> None:
    """StandardScaler and OneHotEncoder side by side, then a classifier: what people export."""
    rng = np.random.default_rng(0)
    words = WORDS[rng.integers(0, 4, ROWS)]
    table = np.concatenate([X.astype(object), words], 1)
    columns = compose.ColumnTransformer(
        [
            ("numbers", preprocessing.StandardScaler(), [0, 1, 2, 3, 4]),
            ("words", preprocessing.OneHotEncoder(handle_unknown="ignore"), [5, 6]),
        ],
        sparse_threshold=0,
    )
    estimator = pipeline.make_pipeline(columns, ensemble.RandomForestClassifier(8, random_state=0))
    estimator.fit(table, np.array(["no", "yes"])[TWO])
    types = [(f"n{i}", FloatTensorType([None, 1])) for i in range(5)]
    types += [(f"w{i}", StringTensorType([None, 1])) for i in range(2)]
    proto = to_onnx(
        estimator,
        initial_types=types,
        options={id(estimator): {"zipmap": False}},
        target_opset={"": 18, "ai.onnx.ml": 3},
    )
    asked = np.concatenate([NEW.astype(object), WORDS[rng.integers(0, 4, len(NEW))]], 1)
    asked[3, 5] = "a colour that is not known"
    feeds: dict[str, Array] = {f"n{i}": asked[:, i : i + 1].astype(np.float32) for i in range(5)}
    feeds |= {f"w{i}": asked[:, 5 + i : 6 + i] for i in range(2)}
    for label, scores in answers(proto, feeds):
        agrees(label, estimator.predict(asked))
        agrees(scores, estimator.predict_proba(asked))


@pytest.mark.parametrize(
    "encoder",
    [
        preprocessing.OneHotEncoder(sparse_output=False),
        preprocessing.OrdinalEncoder(dtype=np.int64),
    ],
    ids=["one hot", "ordinal"],
)
def test_encoders(encoder: Any) -> None:
    encoder.fit(WORDS)
    types = [("X", StringTensorType([None, 2]))]
    proto = to_onnx(encoder, initial_types=types, target_opset={"": 18, "ai.onnx.ml": 3})
    for (got,) in answers(proto, {"X": WORDS[::-1].copy()}):
        agrees(got, encoder.transform(WORDS[::-1]).astype(got.dtype))


def test_labels_back_to_words() -> None:
    encoder = preprocessing.LabelEncoder().fit(WORDS[:, 0])
    proto = to_onnx(encoder, initial_types=[("X", StringTensorType([None]))], target_opset={"": 18, "ai.onnx.ml": 3})
    for (got,) in answers(proto, {"X": WORDS[:, 0].copy()}):
        agrees(got, encoder.transform(WORDS[:, 0]).astype(np.int64))


TEXTS = [
    "the cat sat on the mat", "dogs chase the cat", "a dog barks at night", "the night is dark", "cats and dogs play",
    "markets fell on friday", "the bank raised its rates", "stocks rise as rates fall", "traders sold the stock",
]  # fmt: skip


@pytest.mark.parametrize(("grams", "weights"), [((1, 1), "TF"), ((1, 2), "TF"), ((1, 2), "TFIDF")])
def test_a_text_classifier(grams: tuple[int, int], weights: str) -> None:
    """Words, their counts, a linear classifier: skl2onnx has com.microsoft's Tokenizer there, ai.onnx StringSplit."""
    counter = CountVectorizer(tokenizer=str.split, token_pattern=None, ngram_range=grams)
    steps: list[Any] = [counter, linear_model.LogisticRegression()]
    if weights == "TFIDF":
        steps.insert(1, TfidfTransformer(norm=None))
    estimator = pipeline.make_pipeline(*steps).fit(TEXTS, [0] * 5 + [1] * 4)
    terms = sorted(counter.vocabulary_, key=lambda term: len(term.split()))
    singles = sum(len(term.split()) == 1 for term in terms)
    idf = {"weights": [float(steps[1].idf_[counter.vocabulary_[term]]) for term in terms]} if weights == "TFIDF" else {}
    (logistic,) = steps[-1:]
    nodes = [
        helper.make_node("StringNormalizer", ["text"], ["lower"], case_change_action="LOWER", locale="C"),
        helper.make_node("StringSplit", ["lower"], ["words", "counts"], delimiter=" "),
        helper.make_node(
            "TfIdfVectorizer",
            ["words"],
            ["features"],
            mode=weights,
            min_gram_length=1,
            max_gram_length=grams[1],
            max_skip_count=0,
            pool_strings=[word for term in terms for word in term.split()],
            ngram_counts=[0, singles],
            ngram_indexes=[counter.vocabulary_[term] for term in terms],
            **idf,
        ),
        helper.make_node(
            "LinearClassifier",
            ["features"],
            ["label", "scores"],
            domain="ai.onnx.ml",
            coefficients=[*-logistic.coef_[0], *logistic.coef_[0]],
            intercepts=[-logistic.intercept_[0], logistic.intercept_[0]],
            classlabels_ints=[0, 1],
        ),
        helper.make_node("Sigmoid", ["scores"], ["chances"]),
    ]
    graph = helper.make_graph(
        nodes,
        "text",
        [helper.make_tensor_value_info("text", onnx.TensorProto.STRING, ["N"])],
        [onnx.ValueInfoProto(name=name) for name in ("label", "chances")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 3)])
    asked = ["the dog and the cat", "RATES fell at the bank on friday", "a word that nobody knows", "night"]
    for label, chances in answers(proto, {"text": np.array(asked, object)}):
        agrees(label, estimator.predict(asked))
        agrees(chances, estimator.predict_proba(asked))


@pytest.mark.parametrize("opsets", [(9, 1), (11, 2), (13, 3), (15, 3), (18, 3)])
def test_older_opsets(opsets: tuple[int, int]) -> None:
    estimator = pipeline.make_pipeline(
        preprocessing.StandardScaler(), ensemble.GradientBoostingClassifier(n_estimators=5, random_state=0)
    ).fit(X, CLASSES)
    proto = to_onnx(
        estimator,
        X[:1],
        options={id(estimator): {"zipmap": False}},
        target_opset=dict(zip(("", "ai.onnx.ml"), opsets, strict=True)),
    )
    for label, scores in answers(proto, {"X": NEW}):
        agrees(label, estimator.predict(NEW))
        agrees(scores, estimator.predict_proba(NEW))
