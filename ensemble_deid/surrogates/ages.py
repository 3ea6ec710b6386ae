"""Ages in digits and in words: those over 89 are capped, and recognised."""

import re

from ensemble_deid.note.folding import fold
from ensemble_deid.note.number_words import BELOW_TWENTY, DIGITS, TENS, cardinal

WORDS = tuple(cardinal(number).replace(" ", "-") for number in range(100))
SPANISH_WORDS: tuple[str, ...] = tuple(
    "cero un dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciséis diecisiete "
    "dieciocho diecinueve veinte".split()
)
_NUMBER = re.compile(r"[0-9]{1,3}")
_COMPOSED = rf"(?:{'|'.join(TENS)})(?:[ -](?:{'|'.join(DIGITS[1:])}))?"
_SPELLED = re.compile(rf"\b(?:{_COMPOSED}|{'|'.join((*BELOW_TWENTY, *SPANISH_WORDS))})\b", re.IGNORECASE)
_AGE_WORDS = frozenset(
    """y yo yr yrs year years old o of age aged ages m f mo mos mth mths month months wk wks week weeks d day days h hr
    hrs hour hours s th st nd rd a an and or to in at the about around approximately approx almost nearly over under
    early mid late middle end half quarter her his their male female man woman boy girl gentleman lady infant baby child
    tens teens twenties thirties forties fifties sixties seventies eighties
    año años mes meses semana semanas día días dia dias hora horas de edad y a los las la el unos casi media medio
    recién nacido varón mujer niño niña""".split()
)
_DATE = re.compile(r"[0-9]\s*[/.-]\s*[0-9]{1,2}\s*[/.-]\s*[0-9]")
# `'95`, `3/95`; but not `'90s`, in which somebody may be, nor `94-95` and `94.5`.
_SHORT_YEAR = re.compile(r"['’][0-9]{2}(?![0-9]|\s?['’]?s\b)|(?<![0-9])(?:0?[1-9]|1[0-2])\s*[/.-]\s*[0-9]{2}(?![0-9])")
_WORD = re.compile(r"[^\W\d_]+")
_FIRST_CAPPED, _OLDEST_KNOWN, _MOST_UNITS = 90, 125, 1000
_LONG_NUMBER = re.compile(r"[0-9]{4}")
_SHORT_UNIT = re.compile(
    r"[\s-]*(?:months?|mos?|mths?|weeks?|wks?|days?|hours?|hrs?|m/o|meses|mes|semanas?|días?)\b", re.I
)
_DECADE = re.compile(r"[0-9]0\s?['’]?s\b|nineties")
_YEARS = re.compile(r"\b(?:years?|yrs?|y/?o|años?)\b|[0-9]\s?y", re.I)
_HUNDRED = re.compile(r"hundred|centenarian|cien", re.I)
_GREAT = re.compile(r"\b(?:(?:one|a) hundred|hundred|centenarian|cien(?:to)?|noventa|nineties)\b", re.I)
_FOLDED_AGE_WORDS = frozenset(map(fold, _AGE_WORDS))


def capped_age(surface: str, *, following: str = "") -> str | None:
    """Return the age as it is up to 89 and as `90+` beyond; None for what is no age of the first 120 years.

    A string with any other word than those of ages is no age: the word may be a name. Nor is a date.
    `following` is the text after it: months, weeks and days count as such, a decade over 89 (`90s`) as no age.
    """
    numbers = _numbers(surface)
    if any(c.isdecimal() and not c.isascii() for c in surface):
        return None
    if not numbers or _LONG_NUMBER.search(surface) or _HUNDRED.search(surface) or _DATE.search(surface):
        return None
    if any(word.casefold() not in _AGE_WORDS for word in _WORD.findall(_SPELLED.sub(" ", surface))):
        return None
    short = _SHORT_UNIT.search(surface) or _SHORT_UNIT.match(following)
    in_years = not short or _YEARS.search(surface) is not None
    if not in_years or max(numbers) < _FIRST_CAPPED:
        return surface if max(numbers) < (_FIRST_CAPPED if in_years else _MOST_UNITS) else None
    decade = following[:1] == "s" or _DECADE.search(surface) is not None
    return None if decade or max(numbers) > _OLDEST_KNOWN or len(numbers) > 1 else f"{_FIRST_CAPPED}+"


def is_great_age(surface: str) -> bool:
    """Whether a string, if it is an age, is over 89 (`94`, `in her nineties`); a bare number counts under any label."""
    words = _WORD.findall(_GREAT.sub(" ", _SPELLED.sub(" ", surface)))
    if any(fold(word) not in _FOLDED_AGE_WORDS for word in words):
        return False
    if (
        _LONG_NUMBER.search(surface)
        or _DATE.search(surface)
        or (_SHORT_UNIT.search(surface) and not _YEARS.search(surface))
    ):
        return False
    numbers = _numbers(_SHORT_YEAR.sub(" ", surface))
    return bool(_GREAT.search(surface)) or _FIRST_CAPPED <= max(numbers, default=0) <= _OLDEST_KNOWN


def _numbers(surface: str) -> list[int]:
    numbers = [int(digits) for digits in _NUMBER.findall(surface)]
    for match in _SPELLED.finditer(surface):
        words = match.group().lower()
        numbers.append((SPANISH_WORDS if words in SPANISH_WORDS else WORDS).index("-".join(words.split())))
    return numbers
