"""The rows of the files that a site gives: CSV or TSV with a header, each row with its line."""

import csv
import hashlib
import io
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ensemble_deid.corpora.checks import decode_utf8, reading
from ensemble_deid.deidentify.known.words import Words
from ensemble_deid.errors import CorpusError

# Values that are found whatever stands between their parts: numbers, addresses, e-mail addresses, names of places.

_HEAD = 4
_LONG_NUMBER, _PLAIN_NUMBER, _PLUS_FOUR = 7, 5, 4
_DIGIT_BEFORE = re.compile(r"\d[.,/-]\Z")
_DIGIT_AFTER = re.compile(r"[.,/-]\d")


class StringIndex:
    """An index of values by their letters and digits (`compacted`), each with the number of its entry.

    Values are found at word bounds, with or without separators: 555-0100, (555) 0100, 5550100. Lookup time depends on
    how many lengths the values have, not on how many values there are. Those in `zips` may have four digits more behind
    a hyphen (`62704-1234`).
    """

    def __init__(self, values: Iterable[tuple[str, int]], *, zips: Collection[str] = ()) -> None:
        self._zips = frozenset(zips)
        self._entries: dict[str, int] = {}
        lengths: dict[str, set[int]] = {}
        for value, entry in values:
            if value:
                self._entries.setdefault(value, entry)
                lengths.setdefault(value[:_HEAD], set()).add(len(value))
        self._lengths = {head: sorted(found, reverse=True) for head, found in lengths.items()}
        self._heads = sorted({len(head) for head in lengths}, reverse=True)

    def find(self, words: Words) -> Iterator[tuple[int, int, int]]:
        """Yield the first and the last word of every occurrence, and the entry: the longest at each place."""
        if not self._entries:
            return
        for first, word in enumerate(words.folded):
            place = words.places[first]
            found = self._at(words, first, place)
            if found is None and word[0] == "0" and word.strip("0"):
                # A number may have leading zeros in a text that it does not have in a list.
                found = self._at(words, first, place + len(word) - len(word.lstrip("0")))
            if found is not None:
                yield first, *found

    def _at(self, words: Words, first: int, place: int) -> tuple[int, int] | None:
        compact = words.compact
        for size in self._heads:
            for length in self._lengths.get(compact[place : place + size], ()):
                value = compact[place : place + length]
                last = words.word_ending_at.get(place + length)
                if value not in self._entries or last is None:
                    continue
                last += value in self._zips and _has_four_more(words, last)
                if _is_one_value(words, first, last, value):
                    return last, self._entries[value]
        return None


def _has_four_more(words: Words, last: int) -> bool:
    after = words.folded[last + 1] if last + 1 < len(words) else ""
    return after.isdecimal() and len(after) == _PLUS_FOUR and words.gap(last) == "-"


def _is_one_value(words: Words, first: int, last: int, value: str) -> bool:
    if not all(words.joined(number) for number in range(first, last)):
        return False
    if not value.isdecimal() or len(value) >= _LONG_NUMBER:
        return True
    # A short number must not be made of several, nor be part of a decimal number, a date or a range; one of five digits
    # may have any separator in it (`48,213`).
    gaps = (words.gap(number) for number in range(first, last))
    start, end = words.starts[first], words.ends[last]
    alone = not _DIGIT_BEFORE.search(words.text[max(0, start - 2) : start]) and not _DIGIT_AFTER.match(words.text, end)
    if len(value) >= _PLAIN_NUMBER:
        return alone and all(len(gap) <= 1 for gap in gaps)
    return alone and all(gap in ("-", " ", "") for gap in gaps)


_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_LONGEST_VALUE = 200


@dataclass(frozen=True, slots=True)
class SiteFile:
    """A file as it was read: enough of its hash to see a change, and too little to confirm a guess of what it holds."""

    path: Path
    text: str = field(repr=False)
    hash: str

    @classmethod
    def read(cls, path: str | Path) -> "SiteFile":
        """Read a text file in UTF-8. Raises CorpusError."""
        with reading(Path(path)) as stream:
            data = stream.read()
        text = decode_utf8(data, str(path)).removeprefix("\ufeff")
        return cls(Path(path), text, hashlib.sha256(data).hexdigest()[:8])

    def rows(self, columns: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
        """Yield the line number and the cells of `columns` of each row. CorpusError for a missing column or cell."""
        delimiter = _DELIMITERS.get(self.path.suffix.lower())
        if delimiter is None:
            raise CorpusError(f"{self.path}: must be a table whose name ends in .csv or .tsv")
        rows = csv.reader(io.StringIO(self.text, newline=""), delimiter=delimiter, strict=True)
        header: list[str] | None = None
        at: list[int] = []
        line = 1
        try:
            for row in rows:
                if header is None:
                    header = ["_".join(name.casefold().split()) for name in row]
                    at = self._places(header, columns)
                elif row and len(row) != len(header):
                    raise CorpusError(f"{self.path}:{line}: the row has {len(row)} cells, the header {len(header)}")
                elif row:
                    yield line, [row[index].strip() for index in at]
                line = rows.line_num + 1
        except csv.Error:
            # The message of the module may quote the row.
            raise CorpusError(f"{self.path}:{line}: the row's quotes are not those of a {delimiter!r} table") from None
        if header is None:
            raise CorpusError(f"{self.path}: is empty: the first row must name the columns")

    def _places(self, header: list[str], columns: Sequence[str]) -> list[int]:
        for name in columns:
            if header.count(name) != 1:
                problem = "there is no column" if name not in header else "more than one column is called"
                raise CorpusError(f"{self.path}:1: {problem} {name!r}; needed: {', '.join(columns)}")
        return [header.index(name) for name in columns]

    def check_value(self, line: int, letters: int, least: int) -> None:
        """Raise CorpusError for a value with fewer letters and digits than are needed, or far too many."""
        if letters < least:
            raise CorpusError(f"{self.path}:{line}: the value has {letters} letters and digits; {least} are needed")
        if letters > _LONGEST_VALUE:
            raise CorpusError(f"{self.path}:{line}: the value has more than {_LONGEST_VALUE} letters and digits")
