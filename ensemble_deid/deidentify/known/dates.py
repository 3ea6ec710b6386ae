"""Known dates, such as a birth date, found in whatever form a note writes them."""

import re
from collections.abc import Iterable, Iterator
from datetime import date
from functools import cache

from ensemble_deid.deidentify.known.words import Words, compacted
from ensemble_deid.note.number_words import ORDINALS, TENS, cardinal
from ensemble_deid.surrogates.date_forms import MONTH_STYLES

_VALUE = re.compile(r"(\d{4})-?(\d{2})-?(\d{2})(?:[T ].*)?", re.DOTALL)
_ELSEWHERE = """
januar februar märz april mai juni juli august september oktober november dezember
jan feb mrz apr mai jun jul aug sept okt nov dez
jänner feber maerz april mai juni juli august september oktober november dezember
janvier février mars avril mai juin juillet août septembre octobre novembre décembre
janv févr mars avr mai juin juil août sept oct nov déc
gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre
gen feb mar apr mag giu lug ago set ott nov dic
janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro
jan fev mar abr mai jun jul ago set out nov dez
januari februari maart april mei juni juli augustus september oktober november december
jan feb mrt apr mei jun jul aug sep okt nov dec
"""
"""Months in German, French, Italian, Portuguese and Dutch."""
_ROMAN = (
    "i ii iii iv v vi vii viii ix x xi xii xiii xiv xv xvi xvii xviii xix xx xxi xxii xxiii xxiv xxv xxvi xxvii xxviii "
    "xxix xxx xxxi"
).split()
_STYLES = (*MONTH_STYLES, *map(str.split, _ELSEWHERE.strip().splitlines()), _ROMAN[:12])
_BETWEEN = frozenset("st nd rd th the of and day in year de del y el dia ano le er re den der il do di".split())
_MOST_WORDS = 12

_UNOS = (
    "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciseis diecisiete "
    "dieciocho diecinueve veinte veintiuno veintidos veintitres veinticuatro veinticinco veintiseis veintisiete "
    "veintiocho veintinueve"
).split()
_DIECES = "treinta cuarenta cincuenta sesenta setenta ochenta noventa".split()


def read_date(value: str) -> date | None:
    """Return the day of 1950-03-05, 19500305 or 1950-03-05T00:00:00; None for other forms: 3/5/1950 may be two days."""
    match = _VALUE.fullmatch(value.strip())
    try:
        return None if match is None else date(*map(int, match.groups()))
    except ValueError:
        return None


class DateIndex:
    """An index of days, each with the number of its entry.

    Days are found in any form with a year of two or four digits: 3/5/1950, 05.03.50, March 5th, 1950, 5. März 1950,
    V.III.1950, 19500305. Of two numbers either may be the month.
    """

    def __init__(self, days: Iterable[tuple[date, int]]) -> None:
        self._entries: dict[tuple[str, ...], int] = {}
        for day, entry in days:
            for form in date_forms(day):
                self._entries.setdefault(form, entry)

        self._firsts = frozenset(form[0] for form in self._entries)

    def find(self, words: Words) -> Iterator[tuple[int, int, int]]:
        """Yield the first and the last word of every occurrence, and the entry."""
        for first, word in enumerate(words.folded if self._entries else ()):
            if date_part(word) in self._firsts:
                for last, parts in _runs(words, first):
                    entry = self._entries.get(parts)
                    if entry is not None:
                        yield first, last, entry
                        break


def _runs(words: Words, first: int) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield a word alone, and with the next parts of a date, each with the number of the last word."""
    parts: list[str] = []
    for number in range(first, min(first + _MOST_WORDS, len(words))):
        if number > first and not words.joined(number - 1):
            return
        word = words.folded[number]
        if word not in _BETWEEN:
            parts.append(date_part(word))
            yield number, tuple(parts)


@cache
def _months() -> dict[str, int]:
    """Return the number of each month by its names; reading these takes longer than most imports."""
    return {compacted(name): number for style in _STYLES for number, name in enumerate(style, start=1)}


def date_part(word: str) -> str:
    """Return a part of a date as `date_forms` has it: the number of a month by its name, no leading zero."""
    if word in _months():
        return f"month {_months()[word]}"
    return word.lstrip("0") if word.isdecimal() and len(word) <= 2 else word


def date_forms(day: date) -> Iterator[tuple[str, ...]]:
    """Yield the words of each form of a day, as `date_part` has them."""
    year, short = f"{day.year:04d}", f"{day.year % 100:02d}"
    number, in_words = str(day.day), f"month {day.month}"
    for month in (str(day.month), in_words):
        for ending in (year, date_part(short)):
            yield from ((month, number, ending), (number, month, ending))
        yield year, month, number
    roman = date_part(_ROMAN[day.day - 1])
    for days in ((number,), (roman,), *_day_in_words(day.day)):
        for years in ((year,), (date_part(short),), *_year_in_words(day.year)):
            yield from ((*days, in_words, *years), (in_words, *days, *years))
    for parts in (("%m", "%d"), ("%d", "%m")):
        together = day.strftime("".join(parts))
        yield from ((f"{year}{together}",), (f"{together}{year}",), (f"{together}{short}",))


def _english(number: int) -> tuple[str, ...]:
    return tuple(cardinal(number).split())


def _spanish(number: int) -> tuple[str, ...]:
    if number < len(_UNOS):
        return (_UNOS[number],)
    return (_DIECES[number // 10 - 3], *([_UNOS[number % 10]] if number % 10 else []))


def _day_in_words(number: int) -> Iterator[tuple[str, ...]]:
    yield (ORDINALS[number - 1],) if number <= len(ORDINALS) else ("thirtieth",)
    if number > len(ORDINALS) and number % 10:
        yield TENS[number // 10 - 2], ORDINALS[number % 10 - 1]
    yield _english(number)
    yield _spanish(number)
    if number == 1:
        yield from (("primero",), ("primeiro",), ("primo",), ("premier",), ("ersten",), ("erster",), ("1", "o"))


def _year_in_words(year: int) -> Iterator[tuple[str, ...]]:
    century, rest = divmod(year, 100)
    if century < 10:
        return
    ending = _english(rest) if rest else ()
    yield *_english(century), "hundred", *ending
    yield *_english(year // 1000), "thousand", *((*_english(century % 10), "hundred") if century % 10 else ()), *ending
    if rest:
        yield *_english(century), *(("oh",) if rest < 10 else ()), *ending
    hundreds = {9: "novecientos", 8: "ochocientos"}
    if century % 10 in (0, *hundreds):
        thousands = ("mil",) if year < 2000 else (*_spanish(year // 1000), "mil")
        yield *thousands, *([hundreds[century % 10]] if century % 10 else []), *(_spanish(rest) if rest else ())
