"""Values that are found whatever stands between their parts: numbers, addresses, e-mail addresses, names of places."""

import re
from collections.abc import Iterable, Iterator

from ensemble_deid.pipeline.known.words import Words

_HEAD = 4
_LONG_NUMBER = 7
_DIGIT_BEFORE = re.compile(r"\d[.,/-]\Z")
_DIGIT_AFTER = re.compile(r"[.,/-]\d")


class StringIndex:
    """An index of values by their letters and digits (`compacted`), each with the number of its entry.

    A value is found where it begins and ends with a word or number of the text, with or without separators: 555-0100,
    (555) 0100, 5550100. The time does not grow with the number of values, only with that of their different lengths.
    """

    def __init__(self, values: Iterable[tuple[str, int]]) -> None:
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
                entry = self._entries.get(compact[place : place + length])
                if entry is None:
                    continue
                last = words.word_ending_at.get(place + length)
                if last is not None and _is_one_value(words, first, last, compact[place : place + length]):
                    return last, entry
        return None


def _is_one_value(words: Words, first: int, last: int, value: str) -> bool:
    if not all(words.joined(number) for number in range(first, last)):
        return False
    if not value.isdecimal() or len(value) >= _LONG_NUMBER:
        return True
    # A short number must not be made of several, nor be part of a decimal number, a date or a range.
    gaps = (words.gap(number) for number in range(first, last))
    start, end = words.starts[first], words.ends[last]
    alone = not _DIGIT_BEFORE.search(words.text[max(0, start - 2) : start]) and not _DIGIT_AFTER.match(words.text, end)
    return alone and all(gap in ("-", " ", "") for gap in gaps)
