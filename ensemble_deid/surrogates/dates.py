"""Dates of the output: every part of the string is understood and shifted, or there is no surrogate."""

import re
from collections.abc import Callable, Iterator
from copy import copy
from datetime import date, timedelta
from enum import Enum
from functools import cache

from ensemble_deid.note.folding import match_case
from ensemble_deid.surrogates.choices import Keyed
from ensemble_deid.surrogates.date_forms import (
    DECADE,
    HOLIDAY,
    HOLIDAYS,
    RANGES,
    SEASON,
    SEASON_STYLES,
    WEEKDAY,
    WEEKDAY_STYLES,
    Move,
    find_word,
    forms,
    full_year,
    month_number,
    rewrite,
    shift_range,
    style_word,
    words_pattern,
)

USUAL_YEAR = 2028
"""What years of two digits are read by where no year has four: 00 to 29 are years of this century."""
POSSIBLE_YEARS = range(1850, 2150)
"""Others, such as 9999, stand for no date."""
# Four digits are a time of day before "h" or "hours", and after "at" where they can be no year of a patient's life.
_TIME = re.compile(
    r"(?:t|at\s+)?\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:\s*[ap]\.?m\b\.?)?(?:\s*(?:z\b|utc\b|[+-]\d{2}:?\d{2}))?"
    r"|(?:at\s+)?(?:[01]\d|2[0-3])[0-5]\d\s*h(?:(?:ou)?rs?)?\b|at\s+(?:0\d|1[0-8]|2[1-3])[0-5]\d(?![\w/.-]*\d)",
    re.I,
)
_BETWEEN = re.compile(r"[\s,;()\[\]/–—-]+|\.(?!\d)")
_WORD = re.compile(r"[^\W\d_]+")
_KEPT_WORDS = frozenset(
    """the of on in and or to at by since until till from through thru between before after around about approximately
    early late mid beginning middle end week weeks weekend month day year night morning afternoon evening noon fy cy
    el la los las de del en y o a al desde hasta entre principios finales mediados día mes año semana""".split()
)
_YEARS = re.compile(r"(?<![\d/.-])(\d{4})([-–/])(\d{2})(?![\d/.-])")
_YEAR_AFTER = re.compile(r"(,?\s+(?:(?:of|in|del?)\s+)?)(\d{4}|['’]\d{2})(?!\d)", re.IGNORECASE)
_WORD_DAY = re.compile(r"\s+day(?![^\W_])", re.IGNORECASE)
_YEAR_MONTH = re.compile(r"(?P<y>\d{4})(?P<sep>[-/])(?P<m>0[1-9]|1[0-2])(?![\d/.-])")
# Beside a bare number a day of the month is a part of a date whose form is unknown; times of day are no such numbers.
_BESIDE = r"[\s,;()\[\]/.–—-]+"
_NUMBER_BEFORE = re.compile(rf"(?<![\d:])\d+{_BESIDE}\Z")
_NUMBER_AFTER = re.compile(rf"{_BESIDE}(?!\d{{1,2}}(?::\d|st\b|nd\b|rd\b|th\b))\d", re.IGNORECASE)
# A year may stand beside another year or the month of one, as in 2013 - 2014 and 2013 - 3/2014.
_PART_BEFORE = re.compile(rf"(?<![\d:])(?:\d{{1,2}}{_BESIDE}|\d+\s+)\Z")
_PART_AFTER = re.compile(
    r"[-/.–—]\d{1,2}(?!\d)|\s*[-/.–—]\s*\d{1,2}(?![\d:]|\s*[-/.]\s*\d)"
    r"|[\s,;()\[\]]+(?!\d{1,2}:\d)\d{1,2}(?!\d)|\s+(?!\d{1,2}:\d)\d"
)
_UNITS = "weeks?|weekends?|days?|nights?|months?|years?|semanas?|días?|mes(?:es)?|años?"
_UNIT_AFTER = re.compile(rf"[\s-]*(?:{_UNITS}|noon|fy|cy)(?![^\W_])", re.IGNORECASE)
_BEFORE_COUNT = f"weeks?|months?|years?|fy|cy|at|semana|mes|año|{words_pattern(SEASON_STYLES)}"
_UNIT_BEFORE = re.compile(rf"(?<![^\W_])(?:{_BEFORE_COUNT})[\s-]+\Z", re.IGNORECASE)
_NTH_WEEK = re.compile(r"[1-5](?:st|nd|rd|th)(?=\s+week(?:end)?\s+(?:of|in)\s)", re.IGNORECASE)
_MID_SEASON = ((4, 15), (7, 15), (10, 15), (1, 15))
# A shift is longer than five years, so that no year and no decade stays, and may be of any length up to 25 years: the
# wider and more even the range, the less do visits on weekdays tell of it (research/date_linkage.py).
_SHORTEST, _LONGEST = 1830, 9131
_MONTH, _SEASON_DAYS = 31, 92
_WEEK = 7
_MOST_READ = 1000  # strings of a patient
_LEAP = (2, 29)
_MONTH_YEAR, _MONTH_DAY, _DAY_MONTH, _MONTH_SHORT_YEAR, _YEAR_FIRST, _YEAR, _SHORT_YEAR, _DAY = range(11, 19)


class _Part(Enum):
    """What a part of a string names."""

    DAY = "a day of the month alone"
    UNDATED = "a date, month, holiday or season without a year"
    DATED = "a date or month with its year"
    NAMED = "a holiday or season with its year"
    YEAR = "a year alone"
    DECADE = "a decade"


class Parts:
    """The parts of one string, from left to right, and the years that they name."""

    def __init__(self) -> None:
        self.years: list[int] = []
        self._kinds: set[_Part] = set()
        self._range_of_years = False

    def add(self, part: _Part, year: int) -> None:
        """Take up the next part; `year` is the one that it names or is taken to be in."""
        if has_year(part):
            self.years.append(year)
        self._range_of_years |= part is _Part.YEAR and _Part.NAMED in self._kinds
        self._kinds.add(part)

    def stand_apart(self) -> bool:
        """Whether two parts may be one date, wrong if each is shifted alone: `25 Dec (2014)`, `March 2014, the 5th`."""
        if self._range_of_years or {_Part.YEAR, _Part.UNDATED} <= self._kinds:
            return True
        return _Part.DAY in self._kinds and len(self._kinds) > 1


def has_year(part: _Part) -> bool:
    """Whether a year is written in such a part."""
    return part in (_Part.DATED, _Part.NAMED, _Part.YEAR)


def keyed_days(keyed: Keyed, *, whole_weeks: bool) -> int:
    """Return a patient's shift, one of `possible_days`, all of which are equally likely."""
    return possible_days(whole_weeks=whole_weeks)[keyed.number(len(possible_days(whole_weeks=whole_weeks)), "days")]


@cache
def possible_days(*, whole_weeks: bool) -> tuple[int, ...]:
    """Return all shifts in days, five to 25 years to the past or future: whole weeks only, or anything but these."""
    later = [days for days in range(_SHORTEST, _LONGEST + 1) if (days % _WEEK == 0) == whole_weeks]
    return (*(-days for days in reversed(later)), *later)


class DateText:
    """Shifts what a patient's notes say about time by `days`."""

    def __init__(self, days: int, *, day_first: bool) -> None:
        self.days = days
        self._forms = forms(day_first=day_first)
        self._parts = Parts()
        self._read: dict[tuple[str, int], tuple[str | None, Parts]] = {}

    def shift(self, surface: str, *, year: int) -> str | None:
        """Return the string with all its dates shifted; None where a part of it is not understood. Times of day stay.

        `year` is assumed where none is written.
        """
        shifted, parts = self._shifted(surface, year)
        return None if parts.stand_apart() else shifted

    def years(self, surface: str, *, year: int) -> list[int] | None:
        """Return the years that the string names, None where it is no date; a date without a year names none."""
        shifted, parts = self._shifted(surface, year)
        return None if shifted is None else sorted(set(parts.years))

    def _shifted(self, surface: str, year: int) -> tuple[str | None, Parts]:
        """Return the shifted string and its parts, found once: all dates are asked for several times."""
        if (surface, year) not in self._read:
            if len(self._read) >= _MOST_READ:
                self._read.clear()
            # Another thread may read a string of the same patient: each has parts of its own.
            own = copy(self)
            shifted = own._shift(surface, year)
            found = self._read[surface, year] = shifted, own._parts
            return found
        return self._read[surface, year]

    def _shift(self, surface: str, year: int) -> str | None:
        done: list[str] = []
        self._parts = Parts()
        cursor = 0
        moved = False
        while cursor < len(surface):
            kept = self._kept(surface, cursor)
            found = None if kept else self._found(surface, cursor, year)
            if found is not None:
                moved = True
                text, cursor = found
            elif kept:
                text, cursor = surface[cursor:kept], kept
            else:
                return None
            done.append(text)
        return "".join(done) if moved else None

    def _kept(self, surface: str, cursor: int) -> int | None:
        """Return the end of what stays as it is: separators, times of day, words such as `early` and `2nd week`."""
        for pattern in (_TIME, _BETWEEN, _NTH_WEEK):
            match = pattern.match(surface, cursor)
            if match:
                return match.end()
        word = _WORD.match(surface, cursor)
        return word.end() if word and word.group().casefold() in _KEPT_WORDS else None

    def _found(self, surface: str, cursor: int, year: int) -> tuple[str, int] | None:
        for pattern, move in self._special():
            match = pattern.match(surface, cursor)
            moved = move(match, year) if match else None
            if moved is not None:
                return moved
        for index, form in enumerate(self._forms):
            match = form.match(surface, cursor)
            if match and _stands_alone(index, match):
                text = self._moved(match, year)
                if text is not None:
                    return text, match.end()
        return None

    def _special(self) -> Iterator[tuple["re.Pattern[str]", Callable[["re.Match[str]", int], tuple[str, int] | None]]]:
        for pattern in RANGES:
            yield pattern, lambda match, year: shift_range(match, self._mover(match, year))
        yield _YEARS, self._year_span
        yield _YEAR_MONTH, self._year_month
        yield DECADE, self._decade
        yield HOLIDAY, self._holiday
        yield SEASON, self._season
        yield WEEKDAY, self._weekday

    def _mover(self, match: "re.Match[str]", reference: int) -> Move:
        digits = match.groupdict().get("y")
        year = int(digits) if digits else reference
        part = _Part.DATED if digits else _Part.UNDATED

        def move(month: int, day: int) -> date | None:
            moved = self._day(part, year, month, day)
            # As a single day without its year.
            stays = moved is not None and not digits and (moved.month, moved.day) == (month, day)
            return moved + timedelta(days=1) if moved is not None and stays else moved

        return move

    def _day(self, part: _Part, year: int, month: int, day: int) -> date | None:
        if (month, day) == _LEAP and not has_year(part):
            # Where no year is written, 29 February is that of the last leap year.
            year = next(y for y in range(year, year - 9, -1) if y % 4 == 0 and (y % 100 != 0 or y % 400 == 0))
        try:
            moved = date(year, month, day) + timedelta(days=self.days)
        except (ValueError, OverflowError):
            return None
        self._parts.add(part, year)
        return moved

    def _moved(self, match: "re.Match[str]", reference: int) -> str | None:
        found = {name: text for name, text in match.groupdict().items() if text is not None}
        year = full_year(int(found["yy"]), reference) if "yy" in found else int(found.get("y", reference))
        try:
            month = month_number(found)
        except KeyError:
            return None
        day = int(found.get("d", 15 if month else 1))
        moved = self._day(_part_of(found), year, 7 if month is None else month, day)
        if moved is None:
            return None
        dated = "y" in found or "yy" in found
        if not dated and month in (None, moved.month) and ("d" not in found or moved.day == day):
            # Without its year a day or month may be shifted to itself; only then is the interval changed by one.
            moved += timedelta(days=1 if "d" in found else _MONTH)
        return rewrite(match, found, moved)

    def _year_span(self, match: "re.Match[str]", _year: int) -> tuple[str, int] | None:
        first, short = int(match[1]), int(match[3])
        if short != (first + 1) % 100 and short <= 12:
            return None
        second = full_year(short, first + 99)
        moved = [self._day(_Part.YEAR, year, 7, 1) for year in (first, second)]
        if moved[0] is None or moved[1] is None:
            return None
        return f"{moved[0].year:04d}{match[2]}{moved[1].year % 100:02d}", match.end()

    def _year_month(self, match: "re.Match[str]", _year: int) -> tuple[str, int] | None:
        moved = self._day(_Part.DATED, int(match["y"]), int(match["m"]), 15)
        return None if moved is None else (f"{moved.year:04d}{match['sep']}{moved.month:02d}", match.end())

    def _weekday(self, match: "re.Match[str]", _year: int) -> tuple[str, int]:
        style, index = find_word(match.group(), WEEKDAY_STYLES)
        word = style_word(match.group(), WEEKDAY_STYLES[style][(index + self.days) % _WEEK])
        plural = match.string[match.end() : match.end() + 1].casefold() == "s"
        return word + "s" * plural, match.end() + plural

    def _decade(self, match: "re.Match[str]", reference: int) -> tuple[str, int] | None:
        digits = match.group().lstrip("'’")
        first = int(digits) if len(digits) == 4 else full_year(int(digits), reference)
        moved = self._day(_Part.DECADE, first + 5, 1, 1)
        if moved is None:
            return None
        head = match.group()[: len(match.group()) - len(digits)]
        return f"{head}{str(moved.year // 10 * 10)[-len(digits) :]}s", match.end() + 1

    def _season(self, match: "re.Match[str]", reference: int) -> tuple[str, int] | None:
        style, index = find_word(match.group(), SEASON_STYLES)

        def name(moved: date) -> str:
            other = ((moved.month - 3) % 12) // 3
            if other == index and not _YEAR_AFTER.match(match.string, match.end()):
                # As a month without its year.
                other = ((moved + timedelta(days=_SEASON_DAYS)).month - 3) % 12 // 3
            return style_word(match.group(), SEASON_STYLES[style][other])

        return self._named_time(match, _MID_SEASON[index], name, reference)

    def _holiday(self, match: "re.Match[str]", reference: int) -> tuple[str, int] | None:
        named = {name.casefold(): place for name, place in HOLIDAYS.items()}
        place = named[match.group().casefold().replace("’", "'")]

        def name(moved: date) -> str:
            others = [name for name, other in HOLIDAYS.items() if other != place]
            return match_case(match.group(), min(others, key=lambda other: (_days_from(other, moved), other)))

        # `Christmas Day` is Christmas; the other holiday may have the word in its name.
        return self._named_time(_WORD_DAY.match(match.string, match.end()) or match, place, name, reference)

    def _named_time(
        self, match: "re.Match[str]", place: tuple[int, int], name: Callable[[date], str], reference: int
    ) -> tuple[str, int] | None:
        """Shift a season or holiday together with the year that may follow it."""
        after = _YEAR_AFTER.match(match.string, match.end())
        digits = after[2].lstrip("'’") if after else ""
        year = int(digits) if len(digits) == 4 else full_year(int(digits), reference) if digits else reference
        moved = self._day(_Part.NAMED if digits else _Part.UNDATED, year, *place)
        if moved is None:
            return None
        if after is None:
            return name(moved), match.end()
        written = f"{moved.year:04d}" if len(digits) == 4 else f"{after[2][0]}{moved.year % 100:02d}"
        return name(moved) + after[1] + written, after.end()


def _days_from(holiday: str, day: date) -> int:
    away = abs(date(2001, *HOLIDAYS[holiday]).timetuple().tm_yday - day.timetuple().tm_yday)
    return min(away, 365 - away)


def _part_of(found: dict[str, str]) -> _Part:
    if not {"mon", "m", "d"} & set(found):
        return _Part.YEAR
    if "y" in found or "yy" in found:
        return _Part.DATED
    return _Part.UNDATED if "mon" in found or "m" in found else _Part.DAY


def _stands_alone(index: int, match: "re.Match[str]") -> bool:
    """Whether a short form is not a part of a longer date, such as one with an impossible day."""
    before, after = match.string[: match.start()], match.string[match.end() :]
    if index in (_MONTH_DAY, _DAY_MONTH, _MONTH_SHORT_YEAR):
        sign = match.groupdict().get("sep") or "/"
        # Around a hyphen blanks make it a dash, as in 3-5 - 3-9.
        sign = sign if sign == "-" else rf"\s*{re.escape(sign)}\s*"
    elif index == _MONTH_YEAR:
        sign = r"(?:[-/.]|\s+[/.]\s*|\s+)"
    elif index == _DAY:
        return not (_NUMBER_BEFORE.search(before) or _NUMBER_AFTER.match(after) or _counts(match, before, after))
    elif index in (_YEAR, _SHORT_YEAR):
        return not (_PART_BEFORE.search(before) or _PART_AFTER.match(after))
    else:
        return True
    return not re.search(rf"\d{sign}\Z", before) and not re.match(rf"{sign}\d", after)


def _counts(match: "re.Match[str]", before: str, after: str) -> bool:
    """Whether a number is no day: it counts (`2 weeks`, `3rd day`), or names an hour or year (`at 10`, `spring 14`)."""
    if _UNIT_AFTER.match(after):
        return True
    return match["ord"] is None and _UNIT_BEFORE.search(before) is not None
