"""A text for matching known identifiers: words and numbers without case and accents, with their offsets."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from ensemble_deid.note.folding import folded as fold_string
from ensemble_deid.note.folding import look_alikes
from ensemble_deid.note.reading import Reading, read

_WORD = re.compile(r"[^\W\d_]+(?:['’`][^\W\d_]+)*|\d+")
_POSSESSIVE = re.compile(r"['’`]s\Z")
_APOSTROPHES = str.maketrans("", "", "'’`")
_STROKES = str.maketrans("đðłøħŧı", "ddlohti")
_BLANK_LINE = re.compile(r"\n[ \t\r]*\n")
_WIDEST_GAP = 3
_LETTERS_AND_DIGITS = [
    *(str.maketrans("013457", letters) for letters in ("oleast", "oieast")),
    str.maketrans("oilsb", "01158"),
]


@dataclass(frozen=True)
class Words:
    """The words and numbers of a text as it is read: `folded[i]` stands for characters `[starts[i], ends[i])`.

    These are places in `text`, the reading; `original` has those in the text that was read.
    Letters and digits next to each other are cut apart. Apostrophes within a word are left out (`O'Brien` is `obrien`),
    and a possessive `'s` is no part of the word.
    """

    text: str = field(repr=False)
    folded: Sequence[str] = field(repr=False)
    starts: Sequence[int]
    ends: Sequence[int]
    reading: Reading = field(repr=False)

    @classmethod
    def of(cls, text: str) -> "Words":
        reading = read(text)
        text = reading.text
        plain, origin = _plain(text)
        folded: list[str] = []
        starts: list[int] = []
        ends: list[int] = []
        for match in _WORD.finditer(plain):
            word = match[0] if match[0].isalnum() else _POSSESSIVE.sub("", match[0])
            end = origin[match.start() + len(word) - 1] + 1
            while end < len(text) and unicodedata.combining(text[end]):
                end += 1
            folded.append(word.translate(_APOSTROPHES))
            starts.append(origin[match.start()])
            ends.append(end)
        return cls(text, folded, starts, ends, reading)

    def __len__(self) -> int:
        return len(self.folded)

    def original(self, first: int, last: int) -> tuple[int, int]:
        """Return where a run of words, from first to last, stands in the text that was read."""
        return self.reading.original(self.starts[first], self.ends[last])

    def misread(self) -> Iterator[tuple[int, int, str]]:
        """Yield the first word, the last word and a reading of each run of letters and digits: `482l3` as `48213`."""
        first = 0
        for last in range(len(self)):
            if last + 1 < len(self) and self.starts[last + 1] == self.ends[last]:
                continue
            if last > first:
                run = "".join(self.folded[first : last + 1])
                for table in _LETTERS_AND_DIGITS:
                    yield first, last, run.translate(table)
            first = last + 1

    @cached_property
    def compact(self) -> str:
        return "".join(self.folded)

    @cached_property
    def places(self) -> Sequence[int]:
        """Where in `compact` each word begins, and where the last one ends."""
        places = [0]
        for word in self.folded:
            places.append(places[-1] + len(word))
        return places

    @cached_property
    def word_ending_at(self) -> dict[int, int]:
        """The number of the word that ends at a place in `compact`."""
        return {place: number for number, place in enumerate(self.places[1:])}

    def gap(self, number: int) -> str:
        return self.text[self.ends[number] : self.starts[number + 1]]

    def joined(self, number: int) -> bool:
        """Whether a word and the next one can be parts of one value: little stands between them."""
        gap = self.gap(number)
        return len(gap.strip()) <= _WIDEST_GAP and len(gap) <= 2 * _WIDEST_GAP and not _BLANK_LINE.search(gap)

    def capitalised(self, number: int) -> bool:
        """Whether a word begins with a capital letter, or is of a script that has none."""
        first = self.text[self.starts[number]]
        return first.isupper() or first.istitle() or first.lower() == first.upper()

    def opens_sentence(self, number: int) -> bool:
        """Whether a word stands at the beginning of a sentence or a line."""
        if number == 0:
            return True
        gap = self.gap(number - 1)
        return any(mark in gap for mark in ".!?:\n\r")


def compacted(value: str) -> str:
    """Return a value as `Words.compact` would have it."""
    return Words.of(value).compact


def _plain(text: str) -> tuple[str, Sequence[int]]:
    """Return the text in lower case without accents, and the place in the text of each of its characters."""
    if text.isascii():
        return text.lower(), range(len(text))
    parts: list[str] = []
    origin: list[int] = []
    for place, character in enumerate(text):
        folded = _folded(character)
        parts.append(folded)
        origin += [place] * len(folded)
    return "".join(parts), origin


@lru_cache(maxsize=10_000)
def _folded(character: str) -> str:
    """Return a character without case, accents and strokes: nothing for an accent, several for `ß`.

    It is the Latin letter that it looks like in either case, `h` for the Cyrillic `Н` and `н`: else a word in capitals
    would be another one.
    """
    folded = fold_string(character).translate(_STROKES)
    if len(folded) != 1 or folded.isascii() or not character.isalpha():
        return folded
    found = (look_alikes().get(ord(form)) for form in (folded.upper(), folded, character) if len(form) == 1)
    return fold_string(next(filter(None, found), folded))
