"""Surrogate dates: all of a patient's dates are shifted by the same number of days, each in the format it has.

Intervals between full dates are preserved; a partial date (a month, a weekday, a season, a holiday, a year) is shifted
as the full date would be. The number of days is chosen so that every partial date changes.
"""

import re
from collections.abc import Iterator
from datetime import date, timedelta

import numpy as np

from ensemble_deid.note.folding import match_case
from ensemble_deid.surrogates.calendar_words import HOLIDAYS, SEASON_STYLES, WEEKDAY_STYLES, find_word, style_word
from ensemble_deid.surrogates.date_forms import (
    DAY_FIRST,
    DAY_MONTH,
    DECADE,
    FULL_YEAR,
    HOLIDAY,
    MONTH_FIRST,
    SEASON,
    WEEKDAY,
    full_year,
    month_number,
    rewrite,
)

_YEAR_DAYS = 365.25
_MID_SEASON = ((4, 15), (7, 15), (10, 15), (1, 15))
UNKNOWN_YEAR = 2000


def is_day_first(surfaces: Iterator[str]) -> bool:
    """Return whether a corpus writes 14/5 rather than 5/14, judging by the unambiguous dates."""
    votes = 0
    for surface in surfaces:
        for match in DAY_MONTH.finditer(surface):
            first, second = int(match.group(1)), int(match.group(3))
            votes += (first > 12 >= second) - (second > 12 >= first)
    return votes > 0


def latest_year(surfaces: Iterator[str]) -> int:
    """Return the latest four-digit year among a note's dates, which its partial dates are taken to be in."""
    years = (int(year) for surface in surfaces for year in FULL_YEAR.findall(surface))
    return max((year for year in years if 1800 <= year <= 2300), default=UNKNOWN_YEAR)


class DateShift:
    """Shifts one patient's dates by `days`."""

    def __init__(self, random: np.random.Generator, *, day_first: bool = False) -> None:
        self.days = _draw_days(random)
        self._random = random
        self._forms = DAY_FIRST if day_first else MONTH_FIRST

    def replace(self, surface: str, *, year: int) -> str:
        """Return the shifted date in the format of `surface`; `year` is assumed where none is written."""
        replaced = self._first_form(surface, year)
        if replaced.casefold() != surface.casefold():
            return replaced
        return self._otherwise(surface)

    def _first_form(self, surface: str, year: int) -> str:
        for pattern, move in ((HOLIDAY, self._holiday), (SEASON, self._season), (DECADE, self._decade)):
            match = pattern.search(surface)
            if match:
                head, tail = surface[: match.start()], surface[match.end() :]
                rest = "" if pattern is DECADE else tail
                moved = self._dates(head, year) + move(match.group(), year) + self._dates(rest, year)
                return moved + tail[len(rest) :]
        return self._dates(surface, year)

    def _dates(self, surface: str, year: int) -> str:
        """Shift every weekday and every date in numbers or with a month's name in the string, from left to right."""
        done, cursor = "", 0
        while cursor < len(surface):
            weekday = WEEKDAY.match(surface, cursor)
            if weekday:
                done += self._weekday(weekday.group())
                cursor = weekday.end()
                continue
            matches = (form.match(surface, cursor) for form in self._forms)
            moved = next((new for match in matches if match and (new := self._moved(match, year))), None)
            if moved is None:
                done += surface[cursor]
                cursor += 1
            else:
                text, cursor = moved
                done += text
        return done

    def _moved(self, match: "re.Match[str]", reference: int) -> tuple[str, int] | None:
        found = {name: text for name, text in match.groupdict().items() if text is not None}
        if "yy" in found:
            year = full_year(int(found["yy"]), reference)
        else:
            year = int(found.get("y", reference))
        month = month_number(found)
        try:
            meant = date(year, 7 if month is None else month, int(found.get("d", 15 if month else 1)))
            moved = meant + timedelta(days=self.days)
        except (ValueError, OverflowError):
            return None
        # A day of the month alone may be shifted to itself; only then is the interval changed by one day.
        if set(found) <= {"d", "ord"} and moved.day == int(found["d"]):
            moved += timedelta(days=1)
        return rewrite(match, found, moved), match.end()

    def _weekday(self, word: str) -> str:
        style, index = find_word(word, WEEKDAY_STYLES)
        return style_word(word, WEEKDAY_STYLES[style][(index + self.days) % 7])

    def _season(self, word: str, year: int) -> str:
        style, index = find_word(word, SEASON_STYLES)
        month, day = _MID_SEASON[index]
        moved = date(year, month, day) + timedelta(days=self.days)
        return style_word(word, SEASON_STYLES[style][((moved.month - 3) % 12) // 3])

    def _holiday(self, word: str, year: int) -> str:
        named = {name.casefold(): place for name, place in HOLIDAYS.items()}
        month, day = named[word.casefold().replace("’", "'")]
        target = (date(year, month, day) + timedelta(days=self.days)).timetuple().tm_yday

        def distance(name: str) -> tuple[int, str]:
            away = abs(date(2001, *HOLIDAYS[name]).timetuple().tm_yday - target)
            return min(away, 365 - away), name

        others = [name for name, place in HOLIDAYS.items() if place != (month, day)]
        return match_case(word, min(others, key=distance))

    def _decade(self, word: str, _year: int) -> str:
        digits = word.lstrip("'’")
        moved = (int(digits) + (10 if self.days > 0 else -10)) % 10 ** len(digits)
        return word[: len(word) - len(digits)] + str(moved).zfill(len(digits))

    def _otherwise(self, surface: str) -> str:
        if any(character.isdecimal() for character in surface):
            return re.sub(r"\d", lambda match: str((int(match.group()) + 1 + self.days % 9) % 10), surface)
        names = [name for name in HOLIDAYS if name.casefold() != surface.casefold()]
        return match_case(surface, names[int(self._random.integers(len(names)))])


def _draw_days(random: np.random.Generator) -> int:
    # One to eight years and two to ten months, not a whole number of weeks: no year, season, month or weekday is kept.
    days = round(int(random.integers(1, 9)) * _YEAR_DAYS) + int(random.integers(62, 300))
    days += days % 7 == 0
    return days if random.random() < 0.5 else -days
