"""Surrogate dates: all of a patient's dates are shifted by the same number of days, each in the format it has.

Intervals between full dates are preserved; a partial date (a month, a weekday, a season, a holiday, a year) is shifted
as the full date would be. The number of days is chosen so that every partial date changes.
"""

import re
from collections.abc import Iterator
from datetime import date, timedelta

import numpy as np

from ensemble_deid.surrogates.calendar_words import (
    HOLIDAYS,
    MONTH_STYLES,
    SEASON_STYLES,
    WEEKDAY_STYLES,
    find_word,
    style_word,
    words_pattern,
)
from ensemble_deid.surrogates.letters import match_case

_MONTH = rf"(?P<mon>{words_pattern(MONTH_STYLES)})\.?"
_SEP = r"(?:,?\s+(?:of|de|del)\s+|[\s.,/-]{1,3})"
_DAY = r"(?P<d>\d{1,2})(?P<ord>st|nd|rd|th)?"
_YEAR4 = r"(?P<y>\d{4})"
_YEAR = r"(?:(?P<y>\d{4})|['’](?P<yy>\d{2}))"
_YEAR_ANY = r"(?:(?P<y>\d{4})|['’]?(?P<yy>\d{2}))"
_M, _D = r"(?P<m>\d{1,2})", r"(?P<d>\d{1,2})"
_SIGN = r"(?P<sep>[-/.])"
_FORMS = (
    rf"{_YEAR4}{_SIGN}{_M}(?P=sep){_D}",
    rf"{_M}{_SIGN}{_D}(?P=sep){_YEAR_ANY}",
    rf"{_D}{_SIGN}{_M}(?P=sep){_YEAR_ANY}",
    rf"{_DAY}{_SEP}{_MONTH}{_SEP}{_YEAR_ANY}",
    rf"{_MONTH}{_SEP}{_YEAR}",
    rf"{_MONTH}{_SEP}{_DAY}{_SEP}{_YEAR}",
    rf"{_MONTH}{_SEP}{_DAY}",
    rf"{_MONTH}{_SEP}(?P<yy>\d{{2}})",
    rf"{_DAY}{_SEP}{_MONTH}",
    r"(?P<y>\d{4})(?P<m>\d{2})(?P<d>\d{2})",
    r"(?P<m>\d{2})(?P<d>\d{2})(?P<y>\d{4})",
    rf"{_M}[-/]{_YEAR4}",
    rf"{_M}{_SIGN}{_D}",
    rf"{_D}{_SIGN}{_M}",
    rf"{_M}/(?P<yy>\d{{2}})",
    _YEAR4,
    r"['’](?P<yy>\d{2})",
    _DAY,
    _MONTH,
)
_DAY_FIRST_ORDER = {1: 2, 2: 1, 12: 13, 13: 12}
_MONTH_FIRST = tuple(re.compile(rf"(?<![^\W_]){form}(?![^\W_])", re.IGNORECASE) for form in _FORMS)
_DAY_FIRST = tuple(_MONTH_FIRST[_DAY_FIRST_ORDER.get(index, index)] for index in range(len(_FORMS)))
_DECADE = re.compile(r"(?<![^\W_])['’]?(?:\d{2})?\d0(?=s\b)")
_WEEKDAY = re.compile(rf"(?<![^\W_])(?:{words_pattern(WEEKDAY_STYLES)})(?=s?(?![^\W_]))", re.IGNORECASE)
_SEASON = re.compile(rf"(?<![^\W_])(?:{words_pattern(SEASON_STYLES)})(?![^\W_])", re.IGNORECASE)
_HOLIDAY = re.compile(
    "|".join(sorted((re.escape(name).replace("'", "['’]") for name in HOLIDAYS), key=len, reverse=True)), re.IGNORECASE
)
_FULL_YEAR = re.compile(r"(?<!\d)\d{4}(?!\d)")
_DAY_MONTH = re.compile(r"(?<!\d)(\d{1,2})([-/.])(\d{1,2})\2\d{2,4}(?!\d)")
_YEAR_DAYS = 365.25
_MID_SEASON = ((4, 15), (7, 15), (10, 15), (1, 15))
UNKNOWN_YEAR = 2000


def is_day_first(surfaces: Iterator[str]) -> bool:
    """Return whether a corpus writes 14/5 rather than 5/14, judging by the unambiguous dates."""
    votes = 0
    for surface in surfaces:
        for match in _DAY_MONTH.finditer(surface):
            first, second = int(match.group(1)), int(match.group(3))
            votes += (first > 12 >= second) - (second > 12 >= first)
    return votes > 0


def latest_year(surfaces: Iterator[str]) -> int:
    """Return the latest four-digit year among a note's dates, which its partial dates are taken to be in."""
    years = (int(year) for surface in surfaces for year in _FULL_YEAR.findall(surface))
    return max((year for year in years if 1800 <= year <= 2300), default=UNKNOWN_YEAR)


class DateShift:
    """Shifts one patient's dates by `days`."""

    def __init__(self, random: np.random.Generator, *, day_first: bool = False) -> None:
        self.days = _draw_days(random)
        self._random = random
        self._forms = _DAY_FIRST if day_first else _MONTH_FIRST

    def replace(self, surface: str, *, year: int) -> str:
        """Return the shifted date in the format of `surface`; `year` is assumed where none is written."""
        replaced = self._first_form(surface, year)
        if replaced.casefold() != surface.casefold():
            return replaced
        return self._otherwise(surface)

    def _first_form(self, surface: str, year: int) -> str:
        for pattern, move in ((_HOLIDAY, self._holiday), (_SEASON, self._season), (_DECADE, self._decade)):
            match = pattern.search(surface)
            if match:
                head, tail = surface[: match.start()], surface[match.end() :]
                rest = "" if pattern is _DECADE else tail
                moved = self._dates(head, year) + move(match.group(), year) + self._dates(rest, year)
                return moved + tail[len(rest) :]
        return self._dates(surface, year)

    def _dates(self, surface: str, year: int) -> str:
        """Shift every weekday and every date in numbers or with a month's name in the string, from left to right."""
        done, cursor = "", 0
        while cursor < len(surface):
            weekday = _WEEKDAY.match(surface, cursor)
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
            year = _full_year(int(found["yy"]), reference)
        else:
            year = int(found.get("y", reference))
        month = _month_number(found)
        try:
            meant = date(year, 7 if month is None else month, int(found.get("d", 15 if month else 1)))
            moved = meant + timedelta(days=self.days)
        except (ValueError, OverflowError):
            return None
        # A day of the month alone may be shifted to itself; only then is the interval changed by one day.
        if set(found) <= {"d", "ord"} and moved.day == int(found["d"]):
            moved += timedelta(days=1)
        return _rewrite(match, found, moved), match.end()

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


def _full_year(two_digits: int, reference: int) -> int:
    year = reference - reference % 100 + two_digits
    return year - 100 if year > reference + 1 else year


def _month_number(found: dict[str, str]) -> int | None:
    if "mon" in found:
        return find_word(found["mon"], MONTH_STYLES)[1] + 1
    return int(found["m"]) if "m" in found else None


def _rewrite(match: "re.Match[str]", found: dict[str, str], moved: date) -> str:
    padded = "m" in found and not any(len(found[name]) == 1 for name in ("m", "d") if name in found)
    padded_day = padded or found.get("d", "")[:1] == "0"
    values = {
        "y": f"{moved.year:04d}",
        "yy": f"{moved.year % 100:02d}",
        "m": f"{moved.month:02d}" if padded else str(moved.month),
        "d": f"{moved.day:02d}" if padded_day else str(moved.day),
        "ord": match_case(found.get("ord", ""), _ordinal(moved.day)),
    }
    if "mon" in found:
        style, _ = find_word(found["mon"], MONTH_STYLES)
        values["mon"] = style_word(found["mon"], MONTH_STYLES[style][moved.month - 1])
    text, cursor = "", match.start()
    for name in sorted((name for name in found if name in values), key=match.start):
        text += match.string[cursor : match.start(name)] + values[name]
        cursor = match.end(name)
    return text + match.string[cursor : match.end()]


def _ordinal(day: int) -> str:
    return "th" if 10 <= day % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
