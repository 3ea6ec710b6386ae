"""Ranges of days that share a month's name or number: `March 3-5, 2014`, `3-5 March`, `12/4-9`."""

import re
from collections.abc import Callable
from datetime import date

from ensemble_deid.surrogates.calendar_words import MONTH_STYLES, find_word, style_word, words_pattern

Move = Callable[[int, int], date | None]
"""Month and day -> the shifted day, None for a day that does not exist."""

_NAME = rf"(?P<mon>{words_pattern(MONTH_STYLES)})\.?"
_DAYS = r"(?P<d>\d{1,2})(?:st|nd|rd|th)?(?P<dash>\s*(?:[-–]|to|and)\s*)(?P<d2>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<between>,?\s+)(?P<y>\d{4})"
_ALONE = r"(?![\w/.]*\d)(?![^\W_])"
RANGES: tuple["re.Pattern[str]", ...] = (
    re.compile(rf"{_NAME}(?P<gap>\s+){_DAYS}(?:{_YEAR})?{_ALONE}", re.IGNORECASE),
    re.compile(rf"(?<![\d/.-]){_DAYS}(?P<gap>\s+(?:of\s+)?){_NAME}(?:{_YEAR})?{_ALONE}", re.IGNORECASE),
    re.compile(
        rf"(?<![\d/.-])(?P<m>\d{{1,2}})/(?P<d>\d{{1,2}})(?P<dash>\s*[-–]\s*)(?P<d2>\d{{1,2}})(?:{_YEAR})?(?![\d/.:-])"
    ),
)


def shift_range(match: "re.Match[str]", move: Move) -> tuple[str, int] | None:
    """Return the shifted range and where it ends; the month is written twice where the days are in two months."""
    found = match.groupdict()
    name = found.get("mon")
    month = find_word(name, MONTH_STYLES)[1] + 1 if name else int(found["m"])
    first, last = (move(month, int(found[day])) for day in ("d", "d2"))
    if first is None or last is None or int(found["d"]) >= int(found["d2"]):
        return None
    dash, gap = found["dash"], found.get("gap", "/")
    names = [_month(name, day) for day in (first, last)]
    if name is None or match.start("mon") < match.start("d"):
        second = f"{last.day}" if first.month == last.month else f"{names[1]}{gap}{last.day}"
        text = f"{names[0]}{gap}{first.day}{dash}{second}"
    else:
        opening = f"{first.day}" if first.month == last.month else f"{first.day}{gap}{names[0]}"
        text = f"{opening}{dash}{last.day}{gap}{names[1]}"
    year = f"{found['between']}{last.year:04d}" if found.get("y") else ""
    return text + year, match.end()


def _month(name: str | None, day: date) -> str:
    if name is None:
        return str(day.month)
    style, _ = find_word(name, MONTH_STYLES)
    return style_word(name, MONTH_STYLES[style][day.month - 1])
