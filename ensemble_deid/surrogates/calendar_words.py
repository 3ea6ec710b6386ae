"""Months, weekdays, seasons and holidays as they appear in notes. Within a style the words are in calendar order."""

import re
from collections.abc import Mapping

from ensemble_deid.note.folding import match_case

_Styles = tuple[tuple[str, ...], ...]


def _split(words: str) -> tuple[str, ...]:
    return tuple(words.split())


MONTH_STYLES: _Styles = (
    _split("January February March April May June July August September October November December"),
    _split("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec"),
    _split("Jan Feb March April May June July Aug Sept Oct Nov Dec"),
    _split("enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre"),
    _split("ene feb mar abr may jun jul ago sep oct nov dic"),
)
WEEKDAY_STYLES: _Styles = (
    _split("Monday Tuesday Wednesday Thursday Friday Saturday Sunday"),
    _split("Mon Tue Wed Thu Fri Sat Sun"),
    _split("Mon Tues Weds Thurs Fri Sat Sun"),
    _split("Mo Tu We Th Fr Sa Su"),
    _split("lunes martes miércoles jueves viernes sábado domingo"),
)
SEASON_STYLES: _Styles = (
    _split("spring summer fall winter"),
    _split("spring summer autumn winter"),
    _split("primavera verano otoño invierno"),
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
