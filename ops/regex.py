"""Regular expressions in RE2's syntax, matched in time linear in the text.

Python's own ``re`` reads another syntax, gives digits, ``$`` and others another meaning, and may take exponential time.
Source: https://github.com/google/re2/wiki/Syntax
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from dataclasses import dataclass
from functools import cache

_LAST = 0x10FFFF
_CASED = 0x1E944
"""From here on no code point has a case."""
_LIMIT = 100_000
"""Instructions of a program; RE2 limits its memory in the same way."""
_DEPTH = 150

_POSIX = {
    "alnum": "09AZaz",
    "alpha": "AZaz",
    "ascii": "\x00\x7f",
    "blank": "\t\t  ",
    "cntrl": "\x00\x1f\x7f\x7f",
    "digit": "09",
    "graph": "!~",
    "lower": "az",
    "print": " ~",
    "punct": "!/:@[`{~",
    "space": "\t\r  ",
    "upper": "AZ",
    "word": "09AZ__az",
    "xdigit": "09AFaf",
}
_PERL = {"d": "09", "s": "\t\n\f\r  ", "w": "09AZ__az"}
_ESCAPES = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}
_CATEGORIES = frozenset(
    "C Cc Cf Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs".split()
)


@cache
def _orbits():
    """For each code point with a case the others that it equals where case does not count."""
    group = {}
    for code in range(_CASED):
        if code in (0x130, 0x131):  # Turkish i, which has a case of its own
            continue
        character = chr(code)
        others = {other for other in (character.lower(), character.upper(), character.title()) if len(other) == 1}
        if others == {character}:
            continue
        members = {code, *map(ord, others)}
        for member in list(members):
            members |= group.get(member, set())
        for member in members:
            group[member] = members
    return group


@dataclass(frozen=True)
class _Set:
    """A set of characters: ranges of code points, categories of Unicode, and other sets."""

    ranges: tuple[tuple[int, int], ...] = ()
    categories: tuple[str, ...] = ()
    parts: tuple[_Set, ...] = ()
    negated: bool = False
    folded: bool = False

    def __contains__(self, code):
        codes = _orbits().get(code, (code,)) if self.folded else (code,)
        return any(map(self._holds, codes)) != self.negated

    def _holds(self, code):
        place = bisect_right(self.ranges, (code, _LAST)) - 1
        if place >= 0 and code <= self.ranges[place][1]:
            return True
        if self.categories and unicodedata.category(chr(code)).startswith(self.categories):
            return True
        return any(code in part for part in self.parts)


def _ranges(pairs):
    """Sorted ranges that do not overlap."""
    merged = []
    for low, high in sorted(pairs):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


def _named(ends, negated, folded):
    """A set from the ends of its ranges, such as ``"09AZ"``."""
    return _Set(_ranges(zip(map(ord, ends[::2]), map(ord, ends[1::2]), strict=True)), negated=negated, folded=folded)


class _Parser:
    """Reads a pattern into a tree of tuples: set, cat, alt, repeat, at (an empty-width assertion)."""

    def __init__(self, pattern):
        self.pattern = pattern
        self.place = 0
        self.flags = frozenset()
        self.depth = 0

    def error(self, why):
        return ValueError(f"pattern {self.pattern!r} is not valid in RE2's syntax: {why} at position {self.place}")

    def peek(self, text):
        return self.pattern.startswith(text, self.place)

    def take(self, text):
        found = self.peek(text)
        self.place += len(text) * found
        return found

    def next(self):
        if self.place == len(self.pattern):
            raise self.error("it ends too early")
        self.place += 1
        return self.pattern[self.place - 1]

    def parse(self):
        tree = self.alternatives()
        if self.place < len(self.pattern):
            raise self.error("a ) without (")
        return tree

    def alternatives(self):
        flags = self.flags
        self.depth += 1
        if self.depth > _DEPTH:
            raise self.error(f"groups nest deeper than {_DEPTH}")
        branches = [self.sequence()]
        while self.take("|"):
            branches.append(self.sequence())
        self.flags = flags
        self.depth -= 1
        return branches[0] if len(branches) == 1 else ("alt", branches)

    def sequence(self):
        items, repeated = [], True
        while self.place < len(self.pattern) and not self.peek("|") and not self.peek(")"):
            bounds = self.repetition()
            if bounds is None:
                atoms = self.atom()
                items += atoms
                repeated = not atoms
                continue
            if repeated:
                raise self.error("a repetition with nothing to repeat")
            items[-1] = ("repeat", items[-1], *bounds)
            repeated = True
        return items[0] if len(items) == 1 else ("cat", items)

    def repetition(self):
        """The bounds of a repetition that stands here; None where there is none."""
        start = self.place
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.take(sign):
                self.take("?")
                return bounds
        if not self.take("{"):
            return None
        low = self.number()
        high = low
        if low is not None and self.take(","):
            high = None if self.peek("}") else self.number()
            if high is None and not self.peek("}"):
                low = None
        if low is None or not self.take("}"):
            self.place = start
            return None
        self.take("?")
        if max(low, high or 0) > 1000 or (high is not None and high < low):
            raise self.error("a repetition that is not between 0 and 1000 times")
        return low, high

    def number(self):
        start = self.place
        while self.place < len(self.pattern) and self.pattern[self.place] in "0123456789":
            self.place += 1
        return int(self.pattern[start : self.place]) if self.place > start else None

    def literal(self, code):
        return ("set", _Set(((code, code),), folded="i" in self.flags))

    def atom(self):
        """What stands here, as a list: flags alone are nothing, and quoted text is many."""
        if self.take("\\Q"):
            text, _, _ = self.pattern[self.place :].partition("\\E")
            self.place = min(self.place + len(text) + 2, len(self.pattern))
            return [self.literal(ord(character)) for character in text]
        character = self.next()
        match character:
            case "(":
                return self.group()
            case "[":
                return [("set", self.bracket())]
            case ".":
                return [("set", _Set(negated=True) if "s" in self.flags else _Set(((10, 10),), negated=True))]
            case "^":
                return [("at", "line start" if "m" in self.flags else "start")]
            case "$":
                return [("at", "line end" if "m" in self.flags else "end")]
            case "\\":
                return self.escaped()
        return [self.literal(ord(character))]

    def escaped(self):
        for letter, kind in (("A", "start"), ("z", "end"), ("b", "boundary"), ("B", "no boundary")):
            if self.take(letter):
                return [("at", kind)]
        known = self.class_escape()
        return [self.literal(self.code()) if known is None else ("set", known)]

    def class_escape(self):
        """The set that d, s, w or p{...} means behind the backslash; None where something else stands there."""
        letter = self.pattern[self.place : self.place + 1]
        if letter and letter.lower() in _PERL:
            self.place += 1
            return _named(_PERL[letter.lower()], letter.isupper(), "i" in self.flags)
        if letter not in ("p", "P"):
            return None
        self.place += 1
        name = self.next()
        if name == "{":
            name, brace, _ = self.pattern[self.place :].partition("}")
            if not brace:
                raise self.error("a { without }")
            self.place += len(name) + 1
        negated = (letter == "P") != name.startswith("^")
        name = name.removeprefix("^")
        if name == "Any":
            return _Set(((0, _LAST),), negated=negated)
        if name not in _CATEGORIES:
            raise self.error(f"{name!r} is no general category of Unicode (scripts are not known here)")
        names = ("Cc", "Cf", "Co", "Cs") if name == "C" else (name,)
        return _Set(categories=names, negated=negated, folded="i" in self.flags)

    def code(self):
        """The code point of an escape, behind the backslash."""
        letter = self.next()
        if letter in _ESCAPES:
            return _ESCAPES[letter]
        if letter == "x":
            if self.take("{"):
                digits, _, _ = self.pattern[self.place :].partition("}")
                self.place += len(digits) + 1
            else:
                digits = self.next() + self.next()
            if not digits or set(digits.lower()) - set("0123456789abcdef") or int(digits, 16) > _LAST:
                raise self.error("a bad number behind \\x")
            return int(digits, 16)
        if letter in "01234567":
            start = self.place - 1
            while self.place < min(start + 3, len(self.pattern)) and self.pattern[self.place] in "01234567":
                self.place += 1
            if letter == "0" or self.place > start + 1:
                return int(self.pattern[start : self.place], 8)
        if letter.isalnum() or not letter.isascii():
            raise self.error(f"the escape \\{letter}")
        return ord(letter)

    def bracket(self):
        negated, folded = self.take("^"), "i" in self.flags
        ranges, parts, first = [], [], True
        while first or not self.take("]"):
            first = False
            if self.take("[:"):
                name, found, _ = self.pattern[self.place :].partition(":]")
                if not found or name.removeprefix("^") not in _POSIX:
                    raise self.error("a bad name of a class")
                self.place += len(name) + 2
                parts.append(_named(_POSIX[name.removeprefix("^")], name.startswith("^"), folded))
                continue
            low = self.bracket_item()
            if isinstance(low, _Set):
                parts.append(low)
                continue
            high = low
            if self.peek("-") and not self.peek("-]"):
                self.take("-")
                high = self.bracket_item()
                if isinstance(high, _Set) or high < low:
                    raise self.error("a bad range")
            ranges.append((low, high))
        return _Set(_ranges(ranges), parts=tuple(parts), negated=negated, folded=folded)

    def bracket_item(self):
        """A code point, or the set of an escape."""
        character = self.next()
        if character != "\\":
            return ord(character)
        known = self.class_escape()
        return self.code() if known is None else known

    def group(self):
        outer = self.flags
        if self.take("?"):
            name = next((sign for sign in ("P<", "<") if self.peek(sign)), "")
            if name and not self.peek("<=") and not self.peek("<!"):
                word, found, _ = self.pattern[self.place + len(name) :].partition(">")
                if not found or not word.replace("_", "a").isalnum():
                    raise self.error("a bad name of a group")
                self.place += len(name) + len(word) + 1
            elif not self.new_flags():
                return []
        tree = self.alternatives()
        if not self.take(")"):
            raise self.error("a ( without )")
        self.flags = outer
        return [tree]

    def new_flags(self):
        """Reads flags up to a colon (True), or to the end of the parentheses (False)."""
        on, off = set(), set()
        target = on
        while (letter := self.next()) not in (":", ")"):
            if letter == "-" and target is on:
                target = off
            elif letter in ("i", "m", "s", "U"):
                target.add(letter)
            else:
                raise self.error(f"(?{letter}")
        if (letter == ")" and not on | off) or (target is off and not off):
            raise self.error("no flags")
        self.flags = (self.flags | on) - off
        return letter == ":"


class Pattern:
    """A compiled pattern: a list of instructions that many threads may run at once.

    Args:
        pattern: in RE2's syntax.

    Raises:
        ValueError: it is not valid, or too large.
    """

    def __init__(self, pattern):
        self.pattern = pattern
        self.program = []
        self.start = self._compiled(_Parser(pattern).parse(), self._added("match"))

    def _added(self, *instruction):
        if len(self.program) >= _LIMIT:
            raise ValueError(
                f"pattern {self.pattern[:40]!r} is too large: its repetitions come to more than {_LIMIT} steps"
            )
        self.program.append(instruction)
        return len(self.program) - 1

    def _compiled(self, tree, after):
        """The first instruction of ``tree``, which goes on to the instruction ``after``."""
        match tree:
            case ("set", characters):
                return self._added("set", characters, after)
            case ("at", kind):
                return self._added("at", kind, after)
            case ("cat", items):
                for item in reversed(items):
                    after = self._compiled(item, after)
                return after
            case ("alt", branches):
                return self._added("split", *[self._compiled(branch, after) for branch in branches])
            case ("repeat", item, low, high):
                if high is None:
                    loop = self._added("split", after)
                    self.program[loop] = ("split", after, self._compiled(item, loop))
                    after = loop
                for _ in range((high or low) - low):
                    after = self._added("split", after, self._compiled(item, after))
                for _ in range(low):
                    size = len(self.program)
                    after = self._compiled(item, after)
                    if len(self.program) == size:  # nothing, however often
                        break
                return after
        raise AssertionError(tree)

    def matches(self, texts):
        """For each text whether the whole of it matches."""
        steps, ends = {}, {}
        first = (frozenset([self.start]), None)
        return [self._matches(text, first, steps, ends) for text in texts]

    def _matches(self, text, state, steps, ends):
        for character in text:
            known = steps.get((state, character))
            if known is None:
                if len(steps) > _LIMIT:
                    steps.clear()
                known = steps[state, character] = self._step(state, character)
            if not known[0]:
                return False
            state = known
        if state not in ends:
            ends[state] = any(self.program[i][0] == "match" for i in self._reached(*state, None))
        return ends[state]

    def _step(self, state, character):
        """The instructions after ``character``, and what assertions need to know of it."""
        code, kind = ord(character), _kind(character)
        program = self.program
        reached = (program[i] for i in self._reached(*state, kind))
        return frozenset(step[2] for step in reached if step[0] == "set" and code in step[1]), kind

    def _reached(self, places, before, behind):
        """All instructions that follow without a character, between characters of these kinds."""
        todo, seen = list(places), set(places)
        while todo:
            step = self.program[todo.pop()]
            if step[0] == "split":
                following = step[1:]
            elif step[0] == "at" and _holds(step[1], before, behind):
                following = step[2:]
            else:
                continue
            todo += [place for place in following if place not in seen]
            seen.update(following)
        return seen


def _kind(character):
    """What assertions see of a character; None stands for the start and end of the text."""
    if character == "\n":
        return "line"
    return "word" if character.isascii() and (character.isalnum() or character == "_") else "other"


def _holds(kind, before, behind):
    match kind:
        case "start":
            return before is None
        case "end":
            return behind is None
        case "line start":
            return before in (None, "line")
        case "line end":
            return behind in (None, "line")
    return ((before == "word") != (behind == "word")) == (kind == "boundary")
