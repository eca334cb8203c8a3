"""Strings, and random numbers."""

from __future__ import annotations

import numpy as np

from tests.oracle.draw import Case, Draw, code, draws


@draws("StringConcat")
def string_concat(d: Draw) -> Case:
    return d.case(*(d.array(object, shape) for shape in d.broadcast(2)))


@draws("StringSplit")
def string_split(d: Draw) -> Case:
    words = ["a b c", " a  b ", "", "a,b,,c", "one", "x, y"]
    x = np.array([d.pick(*words) for _ in range(d.integer(1, 4))], object)
    return d.case(x, outputs=2, delimiter=d.maybe(",", " ", ""), maxsplit=d.maybe(1, 2))


@draws("RegexFullMatch")
def regex(d: Draw) -> Case:
    x = np.array([d.pick("abc", "a1", "", "Zz9", "a\nb") for _ in range(d.integer(1, 4))], object)
    return d.case(x, pattern=d.pick("[a-z]+", "a.*", "", r"\w+\d", "(ab|a)c?1?"))


@draws("StringNormalizer")
def string_normalizer(d: Draw) -> Case:
    words = [d.pick("Monday", "tuesday", "MONDAY", "Wednesday", "x") for _ in range(d.integer(1, 4))]
    x = np.array(words if d.chance() else [words], object)
    stop = d.maybe(["monday"], ["Monday", "x"])
    options = {"case_change_action": d.maybe("LOWER", "UPPER", "NONE"), "is_case_sensitive": d.maybe(0, 1)}
    return d.case(x, stopwords=stop, locale=d.maybe("en_US", probability=0.2), **options)


@draws("TfIdfVectorizer")
def tf_idf(d: Draw) -> Case:
    """Four grams of one item and three of two."""
    words, pool = d.chance(), [2, 3, 5, 4, 5, 6, 7, 8, 6, 7]
    x = d.rng.integers(2, 9, d.pick((6,), (2, 6))).astype(d.pick(np.int32, np.int64))
    return d.case(
        np.array(list(map(str, x.flat)), object).reshape(x.shape) if words else x,
        mode=d.pick("TF", "IDF", "TFIDF"),
        min_gram_length=d.pick(1, 2),
        max_gram_length=2,
        max_skip_count=d.integer(0, 3),
        ngram_counts=[0, 4],
        ngram_indexes=[int(place) for place in d.rng.permutation(7)],
        weights=d.maybe([d.real(0.5, 2) for _ in range(7)]),
        pool_strings=list(map(str, pool)) if words else None,
        pool_int64s=None if words else pool,
    )


@draws("RandomUniform", "RandomNormal")
def random(d: Draw) -> Case:
    """Numbers of a stream of our own: the shape and type alone are settled."""
    return d.case(
        shape=list(d.shape(1)), seed=float(d.integer(0, 99)), dtype=d.maybe(code(d.dtype())), rtol=1e-5, free=True
    )


@draws("RandomUniformLike", "RandomNormalLike")
def random_like(d: Draw) -> Case:
    x = d.array(d.dtype("T1", among=("float32", "float64")), d.shape())
    return d.case(x, seed=float(d.integer(0, 99)), dtype=d.maybe(code(d.dtype("T2"))), rtol=1e-5, free=True)


@draws("Bernoulli")
def bernoulli(d: Draw) -> Case:
    x = d.array(d.dtype("T1", among=("float32", "float64")), d.shape(), "between", 0, 1)
    return d.case(x, seed=float(d.integer(0, 99)), dtype=d.maybe(code(d.dtype("T2"))), rtol=1e-5, free=True)


@draws("Multinomial")
def multinomial(d: Draw) -> Case:
    x = d.array(d.dtype("T1", among=("float32", "float64")), (d.integer(1, 3), d.integer(1, 4)), "between", -2, 2)
    return d.case(x, seed=float(d.integer(0, 99)), sample_size=d.integer(1, 5), rtol=1e-5, free=True)
