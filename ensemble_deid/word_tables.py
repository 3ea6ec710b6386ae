"""Public lists of words and phrases from `rules/knowledge`, searched in place, without a Python string for each."""

import mmap
import os
from bisect import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from hashlib import sha256
from itertools import compress, count
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.errors import ConfigError, RuleError
from ensemble_deid.mapped import StringTable
from ensemble_deid.resources import rules_directory

_LARGEST = 100_000_000
_MOST_WORDS = 10_000
_LINE_END, _TAB, _ZERO = b"\n\t0"


def mapped_lines(path: Path) -> bytes | mmap.mmap:
    """Map a list of lines; a missing last line end is added.

    A list of a user's own is read, not mapped: an editor may truncate it. Raises OSError, and RuleError where a
    list is damaged or too large.
    """
    with path.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        if size > _LARGEST:
            raise RuleError(f"{path}: larger than {_LARGEST:,} bytes")
        installed = path.is_relative_to(rules_directory()) and size > 0
        content = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) if installed else stream.read()
    try:
        str(memoryview(content), "utf-8")
    except UnicodeDecodeError:
        raise RuleError(f"{path}: not UTF-8") from None
    return content if not size or content[-1:] == b"\n" else content[:] + b"\n"


@dataclass(frozen=True, slots=True, eq=False)
class WordTable(Mapping[str, int]):
    """Words with bins from 1 to 9."""

    words: StringTable = field(repr=False)
    bins: NDArray[np.uint8] = field(repr=False)

    @classmethod
    def of(cls, bins: Mapping[str, int]) -> "WordTable":
        words = StringTable.of(bins)
        return cls(words, np.array([bins[word] for word in words], np.uint8))

    @classmethod
    def of_lines(cls, content: bytes | mmap.mmap, path: Path) -> "WordTable":
        """Read lines of a word, a tab and a bin. Raises RuleError with the line at fault."""
        text = np.frombuffer(content, np.uint8)
        line_ends = np.flatnonzero(text == _LINE_END)
        starts = np.concatenate([[0], line_ends + 1])[: len(line_ends)]
        bins = text[line_ends - 1] - _ZERO
        wrong = (line_ends - starts < 3) | (text[np.maximum(line_ends - 2, 0)] != _TAB) | (bins < 1) | (bins > 9)
        if wrong.any():
            line = 1 + int(np.flatnonzero(wrong)[0])
            raise RuleError(f"{path}: line {line}: expected a word, a tab and a bin from 1 to 9")
        words = StringTable(text, (line_ends - 2).astype(np.uint32), gap=3)
        if words.in_order:
            return cls(words, bins)
        return cls.of(dict(zip(words, bins.tolist(), strict=True)))

    def bins_of(self, words: Sequence[str]) -> list[int]:
        """Return the bin of each word, 0 where the table lacks it."""
        places = self.words.find(words)
        bins: list[int] = np.where(places < 0, 0, self.bins[places] if len(self.bins) else 0).tolist()
        return bins

    def __getitem__(self, word: str) -> int:
        level = self.bins_of([word])[0]
        if not level:
            raise KeyError(word)
        return level

    def __contains__(self, word: object) -> bool:
        return word in self.words

    def __iter__(self) -> Iterator[str]:
        return iter(self.words)

    def __len__(self) -> int:
        return len(self.words)


@dataclass(frozen=True, slots=True, eq=False)
class PhraseTable:
    """Phrases of words with one blank between them."""

    phrases: StringTable = field(repr=False)
    longest: int
    _seen: dict[str, frozenset[tuple[str, ...]]] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, phrases: Iterable[str], *, longest: int) -> "PhraseTable":
        """Return the table of phrases in any order; those of more than `longest` words are never found."""
        return cls(StringTable.of(phrases), longest)

    @classmethod
    def of_lines(cls, content: bytes | mmap.mmap, *, longest: int) -> "PhraseTable":
        """Return the table of lines of a phrase, which need not be sorted."""
        text = np.frombuffer(content, np.uint8)
        phrases = StringTable(text, np.flatnonzero(text == _LINE_END).astype(np.uint32))
        return cls(phrases if phrases.in_order else StringTable.of(phrases), longest)

    def by_first_word(self, words: Sequence[str]) -> dict[str, frozenset[tuple[str, ...]]]:
        """Return the phrases that begin with each word, as tuples of words; words that begin none are left out."""
        found = {word: self._seen[word] for word in words if word in self._seen}
        new = [word for word in words if word not in found]
        # "!" comes next after the blank.
        first, after = self.phrases.beginning_with(new, before=b"!")
        for place in np.flatnonzero(first < after).tolist():
            split = (tuple(line.split(" ")) for line in self.phrases[first[place] : after[place]])
            found[new[place]] = frozenset(p for p in split if p[0] == new[place] and len(p) <= self.longest)
        if len(self._seen) < _MOST_WORDS:
            self._seen.update(found)
        return {word: phrases for word, phrases in found.items() if phrases}

    def matches(self, words: Sequence[str], bounds: Sequence[int]) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Yield the row and the words of every phrase in documents, in their order, of one row the longest first.

        `bounds` are the rows at which documents begin, and the number of rows: no phrase goes on in the next document.
        """
        found = self.by_first_word(list(dict.fromkeys(words)))
        # Where a word begins phrases, hardly ever is its next word one of theirs; None is for a phrase of one word.
        seconds = {w: {phrase[1] if len(phrase) > 1 else None for phrase in found[w]} for w in found}
        longest = {w: max(map(len, found[w])) for w in found}
        following = [*words[1:], ""]
        for row in compress(count(), map(found.__contains__, words)):
            word = words[row]
            if following[row] in seconds[word]:
                for size in range(min(longest[word], bounds[bisect(bounds, row)] - row), 1, -1):
                    if (phrase := tuple(words[row : row + size])) in found[word]:
                        yield row, phrase
            if None in seconds[word]:
                yield row, (word,)


@lru_cache(maxsize=32)
def read_word_table(path: Path) -> tuple[WordTable, str]:
    """Read a list of words once, with its SHA-256. Raises OSError, and RuleError with the line at fault."""
    content = mapped_lines(path)
    return WordTable.of_lines(content, path), sha256(content).hexdigest()


@cache
def listed_words(name: str) -> WordTable:
    """Return a public list of `rules/knowledge/en`, such as `english`, of words without case and accents.

    Raises ConfigError where the list cannot be read.
    """
    path = rules_directory() / "knowledge" / "en" / f"{name}.words"
    try:
        return read_word_table(path)[0]
    except OSError as error:
        raise ConfigError(f"{path}: the list of words cannot be read ({error.strerror})") from None


@lru_cache(maxsize=1 << 14)
def is_listed(word: str, *lists: str) -> bool:
    """Return whether a word without case and accents is on one of the public lists. Raises ConfigError as above."""
    return any(word in listed_words(name) for name in lists)
