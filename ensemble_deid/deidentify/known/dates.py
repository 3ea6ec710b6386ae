"""Known dates, such as a birth date, found in whatever form a note writes them."""

import re
from collections.abc import Iterable, Iterator
from datetime import date

from ensemble_deid.deidentify.known.words import Words, compacted
from ensemble_deid.surrogates.calendar_words import MONTH_STYLES

_VALUE = re.compile(r"(\d{4})-?(\d{2})-?(\d{2})(?:[T ].*)?", re.DOTALL)
_MONTHS = {compacted(name): number for style in MONTH_STYLES for number, name in enumerate(style, start=1)}
_BETWEEN = frozenset("st nd rd th of de del".split())
_MOST_WORDS = 6
_PARTS = 3


def read_date(value: str) -> date | None:
    """Return the day of a value such as 1950-03-05, 19500305 or 1950-03-05T00:00:00; None for any other form.

    Others, such as 3/5/1950, may mean two days.
    """
    match = _VALUE.fullmatch(value.strip())
    try:
        return None if match is None else date(*map(int, match.groups()))
    except ValueError:
        return None


class DateIndex:
    """An index of days, each with the number of its entry.

    A day is found with its year, of four digits or two: 3/5/1950, 05.03.50, March 5th, 1950, 5-Mar-50, 19500305. Of two
    numbers either may be the month.
    """

    def __init__(self, days: Iterable[tuple[date, int]]) -> None:
        self._entries: dict[tuple[str, ...], int] = {}
        for day, entry in days:
            for form in _forms(day):
                self._entries.setdefault(form, entry)

    def find(self, words: Words) -> Iterator[tuple[int, int, int]]:
        """Yield the first and the last word of every occurrence, and the entry."""
        if not self._entries:
            return
        for first, word in enumerate(words.folded):
            if word.isdecimal() or word in _MONTHS:
                for last, parts in _runs(words, first):
                    entry = self._entries.get(parts)
                    if entry is not None:
                        yield first, last, entry
                        break


def _runs(words: Words, first: int) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield a word alone, and with the next two parts of a date, each with the number of the last word."""
    parts: list[str] = []
    for number in range(first, min(first + _MOST_WORDS, len(words))):
        if number > first and not words.joined(number - 1):
            return
        word = words.folded[number]
        if word in _BETWEEN:
            continue
        if not word.isdecimal() and word not in _MONTHS:
            return
        parts.append(_plain(word))
        if len(parts) in (1, _PARTS):
            yield number, tuple(parts)
        if len(parts) == _PARTS:
            return


def _plain(word: str) -> str:
    """Return a part of a date as `_forms` has it: the number of a month by its name, no leading zero."""
    if not word.isdecimal():
        return f"month {_MONTHS[word]}"
    return word.lstrip("0") if len(word) <= 2 else word


def _forms(day: date) -> Iterator[tuple[str, ...]]:
    year, short = f"{day.year:04d}", f"{day.year % 100:02d}"
    number, in_words = str(day.day), f"month {day.month}"
    for month in (str(day.month), in_words):
        for ending in (year, _plain(short)):
            yield from ((month, number, ending), (number, month, ending))
        yield year, month, number
    for parts in (("%m", "%d"), ("%d", "%m")):
        together = day.strftime("".join(parts))
        yield from ((f"{year}{together}",), (f"{together}{year}",), (f"{together}{short}",))
