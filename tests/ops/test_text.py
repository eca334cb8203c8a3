"""Text: concatenation, splitting, normalisation, regular expressions, n-grams."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from onemodel.ops.regex import Pattern
from tests.ops.harness import check, like_onnxruntime, model, onnxruntime_gives, refused, run, same


def words(*values: Any) -> NDArray[Any]:
    return np.array(values, dtype=object)


def scalar(value: str) -> NDArray[Any]:
    return np.array(value, dtype=object)


class TestStringConcat:
    def test_broadcasting(self) -> None:
        like_onnxruntime("StringConcat", words(["a"], ["b"]), words("x", "", "é"))

    def test_scalars(self) -> None:
        check(scalar("ab"), "StringConcat", scalar("a"), scalar("b"))

    def test_empty(self) -> None:
        check(np.zeros((0, 2), object), "StringConcat", np.zeros((0, 2), object), words("a", "b"))


class TestStringSplit:
    TEXTS = ("a,b,,c", ",a,", "none", "a, b")

    @pytest.mark.parametrize("maxsplit", [None, 0, 1, 2, 9])
    @pytest.mark.parametrize("delimiter", [",", ",,", "a,"])
    def test_delimiters(self, delimiter: str, maxsplit: int | None) -> None:
        options = {} if maxsplit is None else {"maxsplit": maxsplit}
        like_onnxruntime("StringSplit", words(*self.TEXTS).reshape(2, 2), outputs=2, delimiter=delimiter, **options)

    @pytest.mark.parametrize("maxsplit", [None, 0, 1, 2, 9])
    @pytest.mark.parametrize("delimiter", [None, ""])
    def test_spaces(self, delimiter: str | None, maxsplit: int | None) -> None:
        options: dict[str, Any] = {} if maxsplit is None else {"maxsplit": maxsplit}
        options |= {} if delimiter is None else {"delimiter": delimiter}
        like_onnxruntime("StringSplit", words("  a  b c  ", "a", "", "   "), outputs=2, **options)

    def test_all_white_space_counts(self) -> None:
        got = run("StringSplit", words("\ta\n b\u3000c\n"), outputs=2)
        same(got, [words(["a", "b", "c"]), np.array([3])])

    def test_an_empty_string_is_one_piece_between_delimiters(self) -> None:
        got = run("StringSplit", words("", "a-"), outputs=2, delimiter="-")
        same(got, [words(["", ""], ["a", ""]), np.array([1, 2])])

    def test_a_scalar(self) -> None:
        same(run("StringSplit", scalar("a b"), outputs=2), [words("a", "b"), np.array(2)])

    def test_empty(self) -> None:
        same(
            run("StringSplit", np.zeros((2, 0), object), outputs=2),
            [np.zeros((2, 0, 0), object), np.zeros((2, 0), int)],
        )


class TestStringNormalizer:
    TEXTS = ("Monday", "tuesday", "MONDAY", "Été")

    @pytest.mark.parametrize("case", ["NONE", "LOWER", "UPPER"])
    @pytest.mark.parametrize(
        ("sensitive", "kept"), [(1, ["tuesday", "MONDAY", "Été"]), (0, ["tuesday", "Été"])], ids=["sensitive", "not"]
    )
    def test_stop_words(self, case: str, sensitive: int, kept: list[str]) -> None:
        change: Any = {"NONE": str, "LOWER": str.lower, "UPPER": str.upper}[case]
        options = {"stopwords": ["Monday"], "is_case_sensitive": sensitive, "case_change_action": case}
        want = words(*map(change, kept))
        check(want, "StringNormalizer", words(*self.TEXTS), **options)
        check(want.reshape(1, -1), "StringNormalizer", words(self.TEXTS), **options)

    def test_words_are_dropped_whole_and_accents_stay(self) -> None:
        check(words("a the b", "é"), "StringNormalizer", words("a the b", "the", "é"), stopwords=["the"], locale="C")

    def test_the_default_is_not_case_sensitive(self) -> None:
        check(words("b"), "StringNormalizer", words("A", "b"), stopwords=["a"])

    def test_one_empty_string_is_left(self) -> None:
        check(words(""), "StringNormalizer", words("a", "a"), stopwords=["a"])
        check(words([""]), "StringNormalizer", words(["a", "a"]), stopwords=["a"])

    def test_an_empty_string_is_kept(self) -> None:
        check(words("", "b"), "StringNormalizer", words("", "b"))

    def test_bad_input(self) -> None:
        refused("must be [C] or [1, C]", "StringNormalizer", words(["a"], ["b"]))
        refused("'TITLE' is not", "StringNormalizer", words("a"), case_change_action="TITLE")


PATTERNS = {
    "alternatives": ("cat|dog|", ["cat", "dog", "", "cats"]),
    "greedy and not": ("a+?b*c{2}", ["acc", "aabbcc", "cc", "ac"]),
    "counted": ("(ab){2,3}", ["ab", "abab", "ababab", "abababab"]),
    "open count": ("a{2,}", ["a", "aa", "aaaaa"]),
    "not a count": ("x{,2}", ["x{,2}", "xx"]),
    "class": ("[a-c-e]+", ["a-e", "d", "abc"]),
    "class with brackets": ("[]^[]+", ["][^", "a"]),
    "negated class": ("[^a]", ["\n", "a", "é"]),
    "dot": (".", ["a", "\n", "é"]),
    "dot of all": ("(?s).", ["a", "\n"]),
    "digits": (r"\d+", ["12", "٣", ""]),
    "not digits": (r"\D", ["a", "1", "٣"]),
    "spaces": (r"\s", [" ", "\n", "\v", "\u3000"]),
    "words": (r"\w+", ["aZ_9", "é"]),
    "posix": (r"[[:alpha:]]+[[:^digit:]]", ["ab!", "a1", "é!"]),
    "property": (r"\p{Lu}\pN", ["A1", "a1", "Éⅷ", "A٣"]),
    "no property": (r"\P{L}[\p{^Lu}]", ["1a", "1A", "aa"]),
    "boundary": (r"\bab\b.?\B", ["ab", "ab.", "abc"]),
    "end": ("a$", ["a", "a\n"]),
    "end of line": ("(?m)a$.?\n^b", ["a\nb", "ab"]),
    "text ends": (r"\Aa\z", ["a", "ab"]),
    "quoted": (r"\Qa.b*\E+", ["a.b*", "a.b**", "aab"]),
    "numbers": (r"\x41\x{1F600}\101\t", ["A😀A\t", "A"]),
    "names": ("(?P<one>a)(?:b)", ["ab", "a"]),
    "flags": ("a(?i)b|c(?-i:d)", ["aB", "Ab", "Cd", "CD"]),
    "case of other letters": ("(?i)straße[k]ǆ", ["STRASSE", "straßeKǅ", "STRAẞE\u212aǄ", "straßekǆ"]),
    "case and negation": ("(?i)[^k]", ["k", "K", "\u212a", "l"]),
    "punctuation": (r"\.\-\_\/", [".-_/", "a"]),
    "empty": ("", ["", "a"]),
}


class TestRegexFullMatch:
    @pytest.mark.parametrize("name", list(PATTERNS))
    def test_like_onnxruntime(self, name: str) -> None:
        pattern, texts = PATTERNS[name]
        like_onnxruntime("RegexFullMatch", words(*texts), pattern=pattern)

    @pytest.mark.parametrize(
        "pattern", ["((((){1000}){1000}){1000}){1000}", "(((a{0}){1000}){1000}){1000}", r"((\Q\E){9}){9}"]
    )
    def test_nothing_repeated_is_nothing(self, pattern: str) -> None:
        check(np.array([True, False]), "RegexFullMatch", words("", "a"), pattern=pattern)

    def test_shapes(self) -> None:
        check(np.array([[True], [False]]), "RegexFullMatch", words(["a"], ["b"]), pattern="a")
        check(np.array(True), "RegexFullMatch", scalar("a"), pattern="a")
        check(np.zeros((0,), bool), "RegexFullMatch", np.zeros((0,), object), pattern="a")

    @pytest.mark.parametrize(
        ("pattern", "why"),
        [
            ("a**", "nothing to repeat"),
            ("*a", "nothing to repeat"),
            ("a{2}{3}", "nothing to repeat"),
            ("a{1001}", "0 and 1000"),
            ("a{2,1}", "0 and 1000"),
            ("(a", r"\( without \)"),
            ("a)", r"\) without \("),
            ("[a", "too early"),
            ("[b-a]", "bad range"),
            (r"[a-\d]", "bad range"),
            ("[[:letter:]]", "name of a class"),
            (r"\1", r"the escape \\1"),
            (r"\y", r"the escape \\y"),
            (r"\x{110000}", r"behind \\x"),
            (r"\p{Letter}", "no general category"),
            (r"\p{Lu", "{ without }"),
            ("(?=a)", r"\(\?="),
            ("(?<!a)", r"\(\?<"),
            ("(?P<a-b>c)", "name of a group"),
            ("(?x)a", r"\(\?x"),
            ("(?i-)a", "no flags"),
            ("((a{100}){100}){100}", "too large"),
            ("(" * 200 + ")" * 200, "nest deeper"),
            ("a\\", "too early"),
        ],
    )
    def test_what_re2_does_not_have(self, pattern: str, why: str) -> None:
        with pytest.raises(ValueError, match=why):
            Pattern(pattern)

    def test_a_bad_pattern_names_the_node(self) -> None:
        refused("is not valid in RE2's syntax", "RegexFullMatch", words("a"), pattern="(a")
        refused("'pattern' is missing", "RegexFullMatch", words("a"))

    @pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(a*)*b", "(.*)(.*)(.*)(.*)b"])
    def test_time_is_linear(self, pattern: str) -> None:
        assert Pattern(pattern).matches(["a" * 20_000, "a" * 20_000 + "b"]) == [False, True]

    def test_like_re_where_the_syntax_is_the_same(self) -> None:
        draw = random.Random(0)

        def grown(depth: int) -> str:
            chance = draw.random()
            if depth == 0 or chance < 0.35:
                return draw.choice(["a", "b", "c", ".", "[ab]", "[^b]", r"\w", r"\d", "(?:a|)"])
            if chance < 0.6:
                return grown(depth - 1) + grown(depth - 1)
            if chance < 0.75:
                return f"(?:{grown(depth - 1)}|{grown(depth - 1)})"
            if chance < 0.95:
                return f"(?:{grown(depth - 1)}){draw.choice(['*', '+', '?', '{2}', '{1,3}', '{0,2}', '*?'])}"
            return draw.choice([r"\b", "^"]) + grown(depth - 1)

        texts = ["".join(letters) for n in range(4) for letters in product("ab1\n", repeat=n)]
        for _ in range(200):
            pattern = grown(3)
            want = [re.compile(pattern, re.ASCII).fullmatch(text) is not None for text in texts]
            assert Pattern(pattern).matches(texts) == want, pattern


def counted(row: Sequence[Any], gram: Sequence[Any], skips: int) -> int:
    """How often ``gram`` stands in ``row``, at every distance of its items."""
    distances = range(1, skips + 2) if len(gram) > 1 else [1]
    return sum(
        [*row[start : start + (len(gram) - 1) * distance + 1 : distance]] == [*gram]
        for distance in distances
        for start in range(len(row))
    )


class TestTfIdfVectorizer:
    POOL = (2, 3, 5, 4, 5, 6, 7, 8, 6, 7)
    ROWS = ([1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8])

    def options(self, **changes: Any) -> dict[str, Any]:
        return {
            "mode": "TF",
            "min_gram_length": 1,
            "max_gram_length": 2,
            "max_skip_count": 0,
            "ngram_counts": [0, 4],
            "ngram_indexes": [0, 1, 2, 3, 4, 5, 6],
            "pool_int64s": list(self.POOL),
            **changes,
        }

    @pytest.mark.parametrize("skips", [0, 1, 5])
    @pytest.mark.parametrize(("least", "most"), [(1, 1), (2, 2), (1, 2)])
    @pytest.mark.parametrize("dtype", [np.int32, np.int64])
    def test_like_onnxruntime(self, skips: int, least: int, most: int, dtype: Any) -> None:
        options = self.options(max_skip_count=skips, min_gram_length=least, max_gram_length=most)
        like_onnxruntime("TfIdfVectorizer", np.array(self.ROWS, dtype), **options)
        like_onnxruntime("TfIdfVectorizer", np.array(self.ROWS[0], dtype), **options)

    def test_more_skips_than_items(self) -> None:
        row = np.array(self.ROWS[1])
        check(
            run("TfIdfVectorizer", row, **self.options(max_skip_count=5)),
            "TfIdfVectorizer",
            row,
            **self.options(max_skip_count=2**62),
        )

    @pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
    def test_modes(self, mode: str) -> None:
        weights = [0.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
        options = self.options(mode=mode, weights=weights, max_skip_count=5)
        like_onnxruntime("TfIdfVectorizer", np.array(self.ROWS), **options)
        del options["weights"]
        like_onnxruntime("TfIdfVectorizer", np.array(self.ROWS), **options)

    def test_strings(self) -> None:
        pool = [str(item) for item in self.POOL]
        options = self.options(max_skip_count=3, pool_strings=pool)
        del options["pool_int64s"]
        like_onnxruntime("TfIdfVectorizer", np.array(self.ROWS).astype(str).astype(object), **options)

    def test_a_weight_belongs_to_its_n_gram_not_to_its_column(self) -> None:
        options = self.options(
            mode="TFIDF",
            min_gram_length=1,
            max_gram_length=1,
            ngram_counts=[0],
            pool_int64s=[7, 8],
            ngram_indexes=[1, 0],
            weights=[10.0, 100.0],
        )
        check(np.array([100, 20], np.float32), "TfIdfVectorizer", np.array([7, 8, 7]), **options)

    def test_columns_without_an_n_gram_and_shared_ones(self) -> None:
        options = self.options(
            mode="TFIDF",
            max_gram_length=1,
            ngram_counts=[0],
            pool_int64s=[7, 8],
            ngram_indexes=[2, 2],
            weights=[10.0, 100.0],
        )
        check(np.array([0, 0, 120], np.float32), "TfIdfVectorizer", np.array([7, 8, 7]), **options)

    def test_long_n_grams_by_counting(self) -> None:
        rng = np.random.default_rng(0)
        rows = rng.integers(0, 3, (4, 9))
        grams = [g for n in (1, 2, 3) for g in combinations_with_replacement((0, 1, 2), n)]
        starts = [0, 3, 3 + 2 * 6]
        got = run(
            "TfIdfVectorizer",
            rows,
            mode="TF",
            min_gram_length=2,
            max_gram_length=3,
            max_skip_count=2,
            ngram_counts=starts,
            ngram_indexes=list(range(len(grams))),
            pool_int64s=[item for gram in grams for item in gram],
        )
        want = [[counted(row, g, 2) if len(g) > 1 else 0 for g in grams] for row in rows.tolist()]
        same(got, np.array(want, np.float32))

    @pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 3)])
    def test_empty(self, shape: tuple[int, ...]) -> None:
        check(np.zeros((*shape[:-1], 7), np.float32), "TfIdfVectorizer", np.zeros(shape, int), **self.options())

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"mode": "COUNT"}, "'COUNT' is not"),
            ({"pool_strings": ["a"]}, "not both"),
            ({"min_gram_length": 0}, "min_gram_length 0"),
            ({"max_gram_length": 3}, "the 2 lengths"),
            ({"max_skip_count": -1}, "max_skip_count -1"),
            ({"ngram_counts": [0, 3]}, "whole n-grams"),
            ({"ngram_indexes": [0, 1]}, "the pool has 7 n-grams"),
            ({"ngram_indexes": [0, 1, 2, 3, 4, 5, -1]}, "no negative numbers"),
            ({"weights": [1.0]}, "and weights must have as many: they have 7 and 1"),
            ({"pool_int64s": [2, 3, 5, 4, 5, 6, 7, 8, 5, 6]}, "holds (5, 6) twice"),
        ],
    )
    def test_bad_attributes(self, changes: dict[str, Any], message: str) -> None:
        refused(message, "TfIdfVectorizer", np.array(self.ROWS), **self.options(**changes))

    def test_bad_input(self) -> None:
        refused("must be [C] or [N, C]", "TfIdfVectorizer", np.zeros((1, 1, 1), int), **self.options())
        refused("for strings", "TfIdfVectorizer", words("a"), **self.options())

    def test_no_n_grams_of_the_lengths(self) -> None:
        options = self.options(min_gram_length=2, ngram_counts=[0, 10], ngram_indexes=list(range(10)))
        got = run("TfIdfVectorizer", np.array(self.ROWS), **options)
        same(
            got,
            onnxruntime_gives(
                model("TfIdfVectorizer", [np.array(self.ROWS)], opset=21, **options), np.array(self.ROWS)
            ),
        )
        assert not got.any()
