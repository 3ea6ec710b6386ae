"""Where in a text a pattern can begin to match: elsewhere it need not be tried.

The first characters of what a regex matches are read from its parse by Python's `re`, and what it needs further on: a
character of one set, with only characters of another before it. The sets are supersets: what `re` and `regex` take
differently, and any character beyond ASCII, is always in them. A regex that `re` cannot parse, or that can match
nothing, is tried everywhere.
"""

import re
import warnings
import zlib
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import numpy as np
import regex

from ensemble_deid.arrays import Flags

Beginning = tuple[int, ...]
"""Sets of characters, as bits: of the one before the match, then of its first ones; after the last any may follow."""
Need = tuple[int, int]
"""Sets of characters: from where a match begins, only those of the first come before one of the second."""
_LENGTH = 5
_MOST = 400
_SYMBOLS = 129
_OTHER = 1 << 128
"""All characters that are not ASCII, and what lies beyond the text."""
_ALL = (1 << _SYMBOLS) - 1
_ASCII = _ALL & ~_OTHER


def _bits(codes: Iterable[int]) -> int:
    return sum(1 << code for code in codes)


_DIGIT = _bits(range(48, 58))
_UPPER, _LOWER = _bits(range(65, 91)), _bits(range(97, 123))
_WORD = _DIGIT | _UPPER | _LOWER | 1 << 95
_SPACE = _bits([*range(9, 14), 32])
# `re` counts four control characters as white space, `regex` does not.
_MAYBE_SPACE = _SPACE | _bits(range(28, 32))
_LINE_START = {True: 1 << 10 | _OTHER, False: _OTHER}
# Of `regex` alone are fuzzy matching and POSIX classes, which `re` reads as plain characters.
# So are octal numbers, which blanks end for `re` alone, and white space that only `regex` leaves out where verbose.
_OF_REGEX = re.compile(r"\{(?!\d*,?\d*\})|\[\^?\[|\[:[^\]]*:\]|\\0|[^\S \t\n\r\v\f]")

_Parts = Sequence[Any]
_Sets = tuple[int, int]
"""The characters that an item surely matches, and all that it can match."""


def _not(sets: _Sets) -> _Sets:
    return _ASCII & ~sets[1], _ALL & ~sets[0]


_CLASSES: dict[Any, _Sets] = {
    op.CATEGORY_DIGIT: (_DIGIT, _DIGIT | _OTHER),
    op.CATEGORY_WORD: (_WORD, _WORD | _OTHER),
    op.CATEGORY_SPACE: (_SPACE, _MAYBE_SPACE | _OTHER),
}
_CLASSES |= {
    op.CATEGORY_NOT_DIGIT: _not(_CLASSES[op.CATEGORY_DIGIT]),
    op.CATEGORY_NOT_WORD: _not(_CLASSES[op.CATEGORY_WORD]),
    op.CATEGORY_NOT_SPACE: _not(_CLASSES[op.CATEGORY_SPACE]),
}


def beginnings(source: str, flags: int) -> bytes:
    """Return the packed beginnings of a regex for `StartTable`; empty where it is to be tried everywhere."""
    if _OF_REGEX.search(source):
        return b""
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            # The number of `regex.ASCII` is that of `re.DEBUG`, which prints; without it more characters count.
            tree = parser.parse(source, flags & ~regex.ASCII)
    except (re.error, RecursionError, OverflowError):
        return b""
    if warned or tree.getwidth()[0] == 0:
        return b""
    walk = _Walk()
    walk.done |= walk.sequence(tree, tree.state.flags, {(_ALL, _ALL)})
    need = [part >> code & 1 > 0 for part in _need(tree, tree.state.flags, 0)[1] for code in range(_SYMBOLS)]
    found = np.concatenate([*(_pairs(walk.done, place) for place in range(_LENGTH)), need])
    return zlib.compress(np.packbits(found).tobytes())


class _Walk:
    """Collects a regex's beginnings from its parse: tuples of character sets, the first for the character before it.

    `done` ones are not continued; the last set of an open one is for the next character.
    """

    def __init__(self) -> None:
        self.done: set[Beginning] = set()

    def sequence(self, items: Iterable[tuple[Any, Any]], flags: int, opened: set[Beginning]) -> set[Beginning]:
        """Return the open beginnings, each continued by what the items match."""
        for kind, value in items:
            if len(opened) > _MOST:
                self.done |= opened
                return set()
            opened = self._item(kind, value, flags, opened)
        return opened

    def _item(self, kind: Any, value: Any, flags: int, opened: set[Beginning]) -> set[Beginning]:
        if (sets := _sets(kind, value, flags)) is not None:
            return self._character(sets[1], opened)
        parts, inside, least, most = _parts(kind, value, flags)
        if parts:
            return self._repeat(parts, inside, least, most, opened)
        if kind in (op.ASSERT, op.ASSERT_NOT):
            direction, items = value
            return _after(_behind(kind, direction, items, flags), opened)
        if kind is op.AT and value is op.AT_BOUNDARY:
            edges = ((_WORD | _OTHER, _ALL & ~_WORD), (_ALL & ~_WORD, _WORD | _OTHER))
            return {kept for before, then in edges for kept in _after(before, opened, then)}
        if kind is op.AT:
            starts = value in (op.AT_BEGINNING, op.AT_BEGINNING_STRING)
            several = value is op.AT_BEGINNING and bool(flags & re.MULTILINE)
            return _after(_LINE_START[several] if starts else _ALL, opened)
        self.done |= opened
        return set()

    def _character(self, allowed: int, opened: set[Beginning]) -> set[Beginning]:
        longer = _after(_ALL, opened, allowed)
        self.done |= {one for one in longer if len(one) > _LENGTH}
        return {(*one, _ALL) for one in longer if len(one) <= _LENGTH}

    def _repeat(self, parts: _Parts, flags: int, least: int, most: int, opened: set[Beginning]) -> set[Beginning]:
        found: set[Beginning] = set()
        least = min(least, _LENGTH)
        for times in range(min(int(most), least + _LENGTH) + 1):
            if times:
                opened = {one for items in parts for one in self.sequence(items, flags, opened)}
            if times >= least:
                found |= opened
        return found


def _parts(kind: Any, value: Any, flags: int) -> tuple[_Parts, int, int, int]:
    """Return the sequences of which an item matches one, if any, their flags, and how often at least and at most."""
    if kind is op.SUBPATTERN:
        return value[3:], (flags | value[1]) & ~value[2], 1, 1
    if kind in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
        return value[2:], flags, value[0], value[1]
    return value[1] if kind is op.BRANCH else (value,) if kind is op.ATOMIC_GROUP else (), flags, 1, 1


def _need(items: Iterable[tuple[Any, Any]], flags: int, passed: int) -> tuple[int, Need]:
    """Return all characters of what the items match and of those `passed` before, and the most telling need."""
    best = _ALL, _ALL
    for kind, value in items:
        parts, inside, least, _ = _parts(kind, value, flags)
        looks = kind in (op.AT, op.ASSERT, op.ASSERT_NOT)
        if kind is op.ASSERT and value[0] > 0:
            parts = value[1:]
        found = [_need(part, inside, passed) for part in parts]
        if (sets := _sets(kind, value, flags)) is not None:
            found = [(passed | sets[1], (passed, sets[1]))]
        if found and least:
            before, wanted = (reduce(or_, sets) for sets in zip(*(need for _, need in found), strict=True))
            best = min(best, (before, wanted), key=_share)
        if not looks:
            passed = reduce(or_, (characters for characters, _ in found)) if found else _ALL
    return passed, best


def _share(need: Need) -> float:
    """Return in how much of a text a need is met, roughly; one of the first character is among the pairs, too."""
    ends = (need[1], _ALL & ~need[0] & ~need[1])
    met, not_met = (some.bit_count() + 5 * (some & _LOWER).bit_count() + 40 * (some >> 32 & 1) for some in ends)
    return met / (met + not_met) if need[0] else 1.0


def _after(before: int, opened: set[Beginning], then: int = _ALL) -> set[Beginning]:
    """Return the open beginnings, narrowed to a last character in `before` and a next one in `then`, if possible."""
    narrowed = ((*one[:-2], one[-2] & before, one[-1] & then) for one in opened)
    return {one for one in narrowed if one[-2] and one[-1]}


def _behind(kind: Any, direction: int, items: Sequence[tuple[Any, Any]], flags: int) -> int:
    """Return the characters that can precede the place of an assertion; all, unless a look-behind says more."""
    sets = _sets(*items[-1], flags) if direction < 0 and len(items) else None
    if sets is None or (kind is op.ASSERT_NOT and len(items) > 1):
        return _ALL
    return sets[1] | _OTHER if kind is op.ASSERT else _not(sets)[1]


def _sets(kind: Any, value: Any, flags: int) -> _Sets | None:
    """Return the sets of one item of a parse; None where it is not a single character."""
    if kind is op.ANY:
        return 0, _ALL
    if kind is op.NOT_LITERAL:
        return _not(_range(value, value, flags))
    if kind is op.LITERAL:
        return _range(value, value, flags)
    if kind is not op.IN:
        return None
    surely = possibly = 0
    for part, given in value:
        if part is op.NEGATE:
            continue
        low, high = given if part is op.RANGE else (given, given)
        sets = _CLASSES[given] if part is op.CATEGORY else _range(low, high, flags)
        surely, possibly = surely | sets[0], possibly | sets[1]
    found = surely, possibly
    return _not(found) if value[0][0] is op.NEGATE else found


def _range(low: int, high: int, flags: int) -> _Sets:
    exact = _bits(range(low, min(high, 127) + 1))
    if not flags & re.IGNORECASE:
        return exact, exact | (_OTHER if high > 127 else 0)
    if high > 127:
        return exact, _ALL
    return exact, exact | (exact & _UPPER) << 32 | (exact & _LOWER) >> 32 | _OTHER


def _pairs(found: Iterable[Beginning], place: int) -> Flags:
    """Return which pairs of characters can stand at `place` and after it in beginnings, (symbols * symbols,)."""
    sets = sorted({(*one, *[_ALL] * (_LENGTH + 1 - len(one)))[place : place + 2] for one in found})
    content = b"".join(part.to_bytes(17, "little") for pair in sets for part in pair)
    rows = np.unpackbits(np.frombuffer(content, np.uint8).reshape(-1, 2, 17), axis=2, bitorder="little")
    first, second = rows[:, :, :_SYMBOLS].astype(np.float32).transpose(1, 0, 2)
    return np.asarray((first.T @ second).reshape(-1) > 0)


class StartTable:
    """Where each of many patterns can begin, by what `beginnings` gave for them."""

    def __init__(self, patterns: Sequence[bytes]) -> None:
        self._known = [number for number, found in enumerate(patterns) if found]
        self._size = len(patterns)
        # Of each pair at each place, then of each character of a need's two sets: the patterns, in words of 64.
        table = np.zeros((_LENGTH * _SYMBOLS**2 + 2 * _SYMBOLS, -(-len(self._known) // 64)), dtype="<u8")
        for bit, number in enumerate(self._known):
            flags = np.unpackbits(np.frombuffer(zlib.decompress(patterns[number]), np.uint8), count=len(table))
            table[:, bit // 64] |= flags.astype(np.uint64) << np.uint64(bit % 64)
        self._pairs = table[: -2 * _SYMBOLS].reshape(_LENGTH, _SYMBOLS**2, -1 if self._known else 0)
        needs = [int.from_bytes(row.tobytes(), "little") for row in table[-2 * _SYMBOLS :]]
        self._passed, self._wanted = needs[:_SYMBOLS], needs[_SYMBOLS:]

    def starts(self, text: str) -> list[list[int] | None]:
        """Return for each pattern where it can begin in the text; None where it is to be tried everywhere."""
        codes = np.full(len(text) + _LENGTH + 1, _SYMBOLS - 1)
        codes[1 : len(text) + 1] = np.minimum(np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4"), 128)
        pairs = codes[:-1] * _SYMBOLS + codes[1:]
        words, rows, met = self._pairs.shape[2], bytearray(), 0
        # From the end of the text on: a need is met here, or further on and this may come before.
        for code in codes[len(text) : 0 : -1].tolist():
            met = self._wanted[code] | self._passed[code] & met
            rows += met.to_bytes(8 * words, "little")
        able = np.frombuffer(rows, "<u8").reshape(len(text), words)[::-1]
        for place in range(_LENGTH):
            able &= self._pairs[place][pairs[place : place + len(text)]]
        some = np.flatnonzero(able.any(axis=1))
        flags = np.unpackbits(able[some].view(np.uint8), axis=1, count=len(self._known), bitorder="little")
        which, at = np.nonzero(flags.T)
        places, bounds = some[at].tolist(), np.searchsorted(which, np.arange(len(self._known) + 1)).tolist()
        found: list[list[int] | None] = [None] * self._size
        for number, low, high in zip(self._known, bounds, bounds[1:], strict=False):
            found[number] = places[low:high]
        return found
