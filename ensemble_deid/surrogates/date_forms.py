"""The words and forms in which notes write dates and ranges of days, and how to fill a form with other days."""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date, timedelta
from functools import cache

from ensemble_deid.note.folding import match_case

_Styles = tuple[tuple[str, ...], ...]


def _styles(*lines: str) -> _Styles:
    return tuple(tuple(line.split()) for line in lines)


# Within a style the words are in calendar order.
MONTH_STYLES = _styles(
    "January February March April May June July August September October November December",
    "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec",
    "Jan Feb March April May June July Aug Sept Oct Nov Dec",
    "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "ene feb mar abr may jun jul ago sep oct nov dic",
)
WEEKDAY_STYLES = _styles(
    "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    "Mon Tue Wed Thu Fri Sat Sun",
    "Mon Tues Weds Thurs Fri Sat Sun",
    "Mo Tu We Th Fr Sa Su",
    "lunes martes miércoles jueves viernes sábado domingo",
)
SEASON_STYLES = _styles(
    "spring summer fall winter",
    "spring summer autumn winter",
    "primavera verano otoño invierno",
)
HOLIDAYS: Mapping[str, tuple[int, int]] = {
    "New Year's Day": (1, 1),
    "New Year's": (1, 1),
    "New Year": (1, 1),
    "Epiphany": (1, 6),
    "Martin Luther King Day": (1, 18),
    "MLK Day": (1, 18),
    "Lunar New Year": (2, 3),
    "Groundhog Day": (2, 2),
    "Valentine's Day": (2, 14),
    "Valentine's": (2, 14),
    "Presidents' Day": (2, 18),
    "Washington's Birthday": (2, 18),
    "Ash Wednesday": (2, 26),
    "St. Patrick's Day": (3, 17),
    "Nowruz": (3, 20),
    "Palm Sunday": (4, 5),
    "Good Friday": (4, 10),
    "Easter Sunday": (4, 12),
    "Easter": (4, 12),
    "Passover": (4, 14),
    "Mother's Day": (5, 10),
    "Memorial Day": (5, 28),
    "Juneteenth": (6, 19),
    "Father's Day": (6, 21),
    "Fourth of July": (7, 4),
    "Independence Day": (7, 4),
    "Labor Day": (9, 4),
    "Rosh Hashanah": (9, 20),
    "Yom Kippur": (9, 29),
    "Columbus Day": (10, 12),
    "Halloween": (10, 31),
    "Diwali": (11, 2),
    "Election Day": (11, 5),
    "Veterans Day": (11, 11),
    "Thanksgiving": (11, 25),
    "Hanukkah": (12, 12),
    "Christmas Eve": (12, 24),
    "Christmas": (12, 25),
    "Kwanzaa": (12, 27),
    "New Year's Eve": (12, 31),
}
"""Names with the day around which they fall (moving feasts: their middle)."""


def words_pattern(styles: _Styles) -> str:
    """Return the alternation of all words, longest first, so that no word prevents a longer match."""
    return "|".join(
        re.escape(word) for word in sorted({w for style in styles for w in style}, key=lambda w: (-len(w), w))
    )


def find_word(word: str, styles: _Styles) -> tuple[int, int]:
    """Return (style, index) of the first style that contains the word, ignoring case; KeyError if none does."""
    folded = word.casefold()
    for style, words in enumerate(styles):
        for index, known in enumerate(words):
            if known.casefold() == folded:
                return style, index
    raise KeyError("the word is in no style")


def style_word(original: str, word: str) -> str:
    """Return `word` in the case of `original`: upper case, lower case, or capitalised."""
    capital = word[0].upper() + word[1:]
    return match_case(original, capital if original[:1].isupper() else word.lower())


_MONTH = rf"(?P<mon>{words_pattern(MONTH_STYLES)})\.?"
_SEP = r"(?:,?\s+(?:of|de|del)\s+|[\s.,/-]{1,3})"
# After `in` two digits may be a number of days or weeks.
_SEP_YEAR = rf"(?:{_SEP}|,?\s+in\s+(?=\d{{4}}|['’]))"
_DAY = r"(?P<d>\d{1,2})(?P<ord>st|nd|rd|th)?"
_YEAR4 = r"(?P<y>\d{4})"
_YEAR = r"(?:(?P<y>\d{4})|['’](?P<yy>\d{2}))"
_YEAR_ANY = r"(?:(?P<y>\d{4})|['’]?(?P<yy>\d{2}))"
_M, _D = r"(?P<m>\d{1,2})", r"(?P<d>\d{1,2})"
_SIGN = r"(?P<sep>[-/.])"
# A sign with blanks around it, or blanks alone; and what must then stand between the other two numbers.
_SIGN_OR_BLANK = r"(?:\s*(?P<sep>[-/.])\s*|\s+)"
_SAME = r"(?(sep)\s*(?P=sep)\s*|\s+)"
# A year of two digits has the sign before it; one of four may also stand apart: `3/5 2014`, `3/5, 2014`, `3/5 in 2014`.
_THEN_YEAR = rf"(?:(?:{_SAME}|,?\s+(?:(?:in|of)\s+)?){_YEAR4}|(?(sep)\s*(?P=sep)\s*['’]?(?P<yy>\d{{2}})|(?!)))"
# `2014 Dec`, `2014-Dec-25`, but not the start of `2014-Dec 2015` or `2014 Dec 3-5`; a time may follow.
_YEAR_FIRST = rf"{_YEAR}(?:[-/.]|\s+){_MONTH}(?:(?:[-/.]|,?\s+){_DAY})?(?!(?:{_SEP}|\s*[–—(;&+]\s*)['’]?\d(?!\d?:\d))"
_FORMS = (
    rf"{_YEAR4}{_SIGN_OR_BLANK}{_M}{_SAME}{_D}",
    rf"{_M}{_SIGN_OR_BLANK}{_D}{_THEN_YEAR}",
    rf"{_D}{_SIGN_OR_BLANK}{_M}{_THEN_YEAR}",
    rf"{_DAY}{_SEP}{_MONTH}{_SEP_YEAR}{_YEAR_ANY}",
    rf"{_MONTH}{_SEP_YEAR}{_YEAR}",
    rf"{_MONTH}{_SEP}{_DAY}{_SEP_YEAR}{_YEAR}",
    rf"{_MONTH}{_SEP}{_DAY}",
    rf"{_MONTH}{_SEP}(?P<yy>\d{{2}})",
    rf"{_DAY}{_SEP}{_MONTH}",
    r"(?P<y>\d{4})(?P<m>\d{2})(?P<d>\d{2})",
    r"(?P<m>\d{2})(?P<d>\d{2})(?P<y>\d{4})",
    rf"{_M}[-/]{_YEAR4}",
    rf"{_M}{_SIGN}{_D}",
    rf"{_D}{_SIGN}{_M}",
    rf"{_M}/(?P<yy>\d{{2}})",
    _YEAR_FIRST,
    _YEAR4,
    r"['’](?P<yy>\d{2})",
    _DAY,
    _MONTH,
    rf"(?P<d>\d{{1,2}}){_MONTH}(?P<y>\d{{4}})",
)
_DAY_FIRST_ORDER = {1: 2, 2: 1, 12: 13, 13: 12}
DECADE = re.compile(r"(?<![^\W_])['’]?(?:\d{2})?\d0(?=s\b)")
WEEKDAY = re.compile(rf"(?<![^\W_])(?:{words_pattern(WEEKDAY_STYLES)})(?=s?(?![^\W_]))", re.IGNORECASE)
SEASON = re.compile(rf"(?<![^\W_])(?:{words_pattern(SEASON_STYLES)})(?![^\W_])", re.IGNORECASE)
HOLIDAY = re.compile(
    "|".join(sorted((re.escape(name).replace("'", "['’]") for name in HOLIDAYS), key=len, reverse=True)), re.IGNORECASE
)
_DAY_MONTH = re.compile(r"(?<!\d)(\d{1,2})([-/.])(\d{1,2})\2\d{2,4}(?!\d)")

Move = Callable[[int, int], date | None]
"""Month and day -> the shifted day, None for a day that does not exist."""

_RANGE_MONTH = rf"(?P<mon>{words_pattern(MONTH_STYLES)})\.?"
_RANGE_DAYS = r"(?P<d>\d{1,2})(?:st|nd|rd|th)?(?P<dash>\s*(?:[-–]|to|and)\s*)(?P<d2>\d{1,2})(?:st|nd|rd|th)?"
_RANGE_YEAR = r"(?P<between>,?\s+)(?P<y>\d{4})"
_ALONE = r"(?![\w/.]*\d)(?![^\W_])"
RANGES: tuple["re.Pattern[str]", ...] = (
    re.compile(rf"{_RANGE_MONTH}(?P<gap>\s+){_RANGE_DAYS}(?:{_RANGE_YEAR})?{_ALONE}", re.IGNORECASE),
    re.compile(
        rf"(?<![\d/.-]){_RANGE_DAYS}(?P<gap>\s+(?:of\s+)?){_RANGE_MONTH}(?:{_RANGE_YEAR})?{_ALONE}", re.IGNORECASE
    ),
    re.compile(
        r"(?<![\d/.-])(?P<m>\d{1,2})/(?P<d>\d{1,2})(?P<dash>\s*[-–]\s*)(?P<d2>\d{1,2})"
        rf"(?:{_RANGE_YEAR})?(?![\d/.:-])"
    ),
)


@cache
def forms(*, day_first: bool) -> tuple["re.Pattern[str]", ...]:
    """Return the forms of a date; compiling them takes longer than most imports."""
    order = (_DAY_FIRST_ORDER.get(index, index) if day_first else index for index in range(len(_FORMS)))
    # A time may follow, as in 2014-03-05T10:22.
    return tuple(re.compile(rf"(?<![^\W_]){_FORMS[index]}(?!(?!t\d)[^\W_])", re.IGNORECASE) for index in order)


def is_day_first(surfaces: Iterator[str]) -> bool:
    """Return whether a corpus writes 14/5 rather than 5/14, judging by the unambiguous dates."""
    votes = 0
    for surface in surfaces:
        for match in _DAY_MONTH.finditer(surface):
            first, second = int(match.group(1)), int(match.group(3))
            votes += (first > 12 >= second) - (second > 12 >= first)
    return votes > 0


def full_year(two_digits: int, reference: int) -> int:
    """Return the year that two digits stand for in a note of the year `reference`."""
    year = reference - reference % 100 + two_digits
    return year - 100 if year > reference + 1 else year


def month_number(found: dict[str, str]) -> int | None:
    """Return the month that a form names, None where it names none."""
    if "mon" in found:
        return find_word(found["mon"], MONTH_STYLES)[1] + 1
    return int(found["m"]) if "m" in found else None


def rewrite(match: "re.Match[str]", found: dict[str, str], moved: date) -> str:
    """Return the match with the day `moved` in the parts that the form has."""
    padded = "m" in found and not any(len(found[name]) == 1 for name in ("m", "d") if name in found)
    padded_day = padded or found.get("d", "")[:1] == "0"
    last = 0 if moved.day in (11, 12, 13) else moved.day % 10
    ordinal = {1: "st", 2: "nd", 3: "rd"}.get(last, "th")
    values = {
        "y": f"{moved.year:04d}",
        "yy": f"{moved.year % 100:02d}",
        "m": f"{moved.month:02d}" if padded else str(moved.month),
        "d": f"{moved.day:02d}" if padded_day else str(moved.day),
        "ord": match_case(found.get("ord", ""), ordinal),
    }
    if "mon" in found:
        style, _ = find_word(found["mon"], MONTH_STYLES)
        values["mon"] = style_word(found["mon"], MONTH_STYLES[style][moved.month - 1])
    text, cursor = "", match.start()
    for name in sorted((name for name in found if name in values), key=match.start):
        text += match.string[cursor : match.start(name)] + values[name]
        cursor = match.end(name)
    return text + match.string[cursor : match.end()]


def shift_range(match: "re.Match[str]", move: Move) -> tuple[str, int] | None:
    """Return the shifted range and where it ends; the month is written twice where the days are in two months."""
    found = match.groupdict()
    name = found.get("mon")
    month = find_word(name, MONTH_STYLES)[1] + 1 if name else int(found["m"])
    first, last = (move(month, int(found[day])) for day in ("d", "d2"))
    days = int(found["d2"]) - int(found["d"])
    if first is None or last is None or days <= 0:
        return None
    last = first + timedelta(days=days)
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
