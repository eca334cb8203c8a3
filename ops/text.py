"""Text: string tensors are NumPy arrays of ``str`` objects, on every backend."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from onemodel.ops.regex import Pattern
from onemodel.ops.registry import operator


def is_text(x):
    """Whether an array holds strings."""
    return getattr(x.dtype, "kind", "") == "O"


def text(values, shape):
    """Strings, in order, as an array of this shape."""
    result = np.empty(len(values), dtype=object)
    result[:] = values
    return result.reshape(shape)


def chosen(labels, indices, xp):
    """``labels[i]`` for each index, an array: of int64 for numbers, of strings for strings."""
    if labels and isinstance(labels[0], str):
        return text(labels, -1)[np.asarray(xp.to_host(indices))]
    return xp.take(xp.asarray(labels, dtype=xp.int64), indices)


def _flat(x):
    return x.reshape(-1).tolist()


@operator("StringConcat", since=20, host=("x", "y"))
def string_concat(x, y, /, *, xp):
    """x followed by y, with NumPy's broadcasting."""
    first, second = np.broadcast_arrays(x, y)
    return text([a + b for a, b in zip(_flat(first), _flat(second), strict=True)], first.shape)


@operator("StringSplit", since=20, host=("x",))
def string_split(x, /, *, delimiter=None, maxsplit=None, xp):
    """The pieces of each string between delimiters, with empty strings filled up along a new last axis; their number.

    Without a delimiter, pieces are parted by white space of any length, and white space at both ends is dropped.
    """
    most = -1 if maxsplit is None else maxsplit
    pieces = [item.split(delimiter, most) if delimiter else item.strip().split(None, most) for item in _flat(x)]
    width = max(map(len, pieces), default=0)
    padded = [piece for some in pieces for piece in (*some, *[""] * (width - len(some)))]
    counts = np.array([len(some) for some in pieces], np.int64).reshape(x.shape)
    return text(padded, (*x.shape, width)), xp.from_host(counts)


@operator("StringNormalizer", since=10, host=("x",))
def string_normalizer(x, /, *, case_change_action="NONE", is_case_sensitive=0, locale=None, stopwords=None, xp):
    """The strings of a row without the stop words, then in the case asked for; one empty string where none is left.

    Upper and lower case are Unicode's, whatever ``locale`` says.
    """
    change = {"NONE": str, "LOWER": str.lower, "UPPER": str.upper}.get(case_change_action)
    if change is None:
        raise ValueError(f"case_change_action {case_change_action!r} is not LOWER, UPPER or NONE")
    if x.ndim not in (1, 2) or (x.ndim == 2 and x.shape[0] != 1):
        raise ValueError(f"X of shape {x.shape} must be [C] or [1, C]")
    key = str if is_case_sensitive else str.lower
    stops = set(map(key, stopwords or ()))
    kept = [change(item) for item in _flat(x) if key(item) not in stops] or [""]
    return text(kept, (1,) * (x.ndim - 1) + (len(kept),))


@operator("RegexFullMatch", since=20, host=("x",))
def regex_full_match(x, /, *, pattern=None, once, xp):
    """Whether the whole of each string matches the pattern, in RE2's syntax."""
    if pattern is None:
        raise ValueError("the attribute 'pattern' is missing")
    found = once(Pattern, pattern).matches(_flat(x))
    return xp.from_host(np.array(found, bool).reshape(x.shape))


@operator("TfIdfVectorizer", since=9, host=("x",))
def tf_idf_vectorizer(
    x,
    /,
    *,
    max_gram_length,
    max_skip_count,
    min_gram_length,
    mode,
    ngram_counts,
    ngram_indexes,
    pool_int64s=None,
    pool_strings=None,
    weights=None,
    once,
    xp,
):
    """How often each n-gram of the pool occurs in each row (TF), or whether it does (IDF), times its weight (not TF).

    The items of an n-gram stand next to each other, or with the same number of items between each two, up to
    ``max_skip_count``.
    """
    if mode not in ("TF", "IDF", "TFIDF"):
        raise ValueError(f"mode {mode!r} is not TF, IDF or TFIDF")
    if bool(pool_int64s) == bool(pool_strings) or is_text(x) != bool(pool_strings):
        raise ValueError("pool_strings must be given for strings, or pool_int64s for integers, and not both")
    if x.ndim not in (1, 2):
        raise ValueError(f"X of shape {x.shape} must be [C] or [N, C]")
    if not 1 <= min_gram_length <= max_gram_length <= len(ngram_counts) or max_skip_count < 0:
        raise ValueError(
            f"min_gram_length {min_gram_length} and max_gram_length {max_gram_length} must be in order, from 1 to the "
            f"{len(ngram_counts)} lengths in ngram_counts, and max_skip_count {max_skip_count} not negative"
        )
    lengths = range(min_gram_length, max_gram_length + 1)
    pool = once(_Pool, pool_strings or pool_int64s, ngram_counts, lengths)
    if len(ngram_indexes) != pool.size or min(ngram_indexes) < 0 or len(weights or ngram_indexes) != pool.size:
        raise ValueError(
            f"the pool has {pool.size} n-grams; ngram_indexes, which holds no negative numbers, and weights must have "
            f"as many: they have {len(ngram_indexes)} and {len(weights or ngram_indexes)}"
        )
    rows = x.reshape((1,) * (2 - x.ndim) + x.shape)
    counts = pool.counts(rows, max_gram_length, max_skip_count).astype(np.float32)
    if mode == "IDF":
        counts = np.minimum(counts, np.float32(1))
    if weights and mode != "TF":
        counts *= np.array(weights, np.float32)
    result = np.zeros((max(ngram_indexes) + 1, len(rows)), np.float32)
    np.add.at(result, np.array(ngram_indexes), counts.T)
    return xp.from_host(np.ascontiguousarray(result.T).reshape(*x.shape[:-1], len(result)))


class _Pool:
    """N-grams as a tree of states: each item leads on from the state of the items before it.

    Args:
        items: the n-grams' items, all 1-grams first, then all 2-grams ...
        starts: where the n-grams of each length start.
        lengths: those that count.

    Attributes:
        size: the number of n-grams of all lengths.
    """

    def __init__(self, items, starts, lengths):
        self.items = {item: i for i, item in enumerate(dict.fromkeys(items))}
        steps, ends = {}, [-1]
        self.size = 0
        bounds = (*starts, len(items))
        for length, (start, stop) in enumerate(pairwise(bounds), start=1):
            if not 0 <= start <= stop <= len(items) or (stop - start) % length:
                raise ValueError(f"ngram_counts {list(starts)} does not part the {len(items)} items into whole n-grams")
            for first in range(start, stop, length):
                state = 0
                for item in items[first : first + length] if length in lengths else ():
                    key = state * len(self.items) + self.items[item]
                    if key not in steps:
                        steps[key] = len(ends)
                        ends.append(-1)
                    state = steps[key]
                if state and ends[state] >= 0:
                    raise ValueError(f"the pool holds {items[first : first + length]} twice")
                if state:
                    ends[state] = self.size
                self.size += 1
        self.keys = np.array(sorted(steps), np.int64)
        self.targets = np.array([steps[key] for key in sorted(steps)], np.int64)
        self.ends = np.array([*ends, -1], np.int64)  # the last one is state -1's

    def counts(self, rows, longest, skips):
        """How often each n-gram occurs in each row: shape (rows, size)."""
        items = [self.items.get(item, -1) for item in _flat(rows)]
        tokens = np.array(items, np.int64).reshape(rows.shape)
        total = np.zeros(len(rows) * self.size, np.int64)
        for distance in range(1, min(skips + 2, max(rows.shape[1], 2))):
            states = np.zeros(rows.shape, np.int64)
            for n in range(1, longest + 1):
                reach = (n - 1) * distance
                if reach >= rows.shape[1]:
                    break
                states = self._next(states[:, : rows.shape[1] - reach], tokens[:, reach:])
                if n == 1 and distance > 1:
                    continue
                found = self.ends[states]
                row, column = np.nonzero(found >= 0)
                total += np.bincount(row * self.size + found[row, column], minlength=len(total))
        return total.reshape(len(rows), self.size)

    def _next(self, states, tokens):
        """The states after these items; -1, from which nothing leads on, where the pool has no such n-gram."""
        if not len(self.keys):
            return np.full_like(states, -1)
        keys = states * len(self.items) + tokens
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where((tokens >= 0) & (self.keys[places] == keys), self.targets[places], -1)
