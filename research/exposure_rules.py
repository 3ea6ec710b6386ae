"""What a reader of de-identified notes suspects by simple rules, who knows this project's lists and ranges.

They are public, but for the key: where surrogate telephone numbers are 555-01xx, another one is the original's.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache

from ensemble_deid.note.folding import fold
from ensemble_deid.surrogates.affixes import CREDENTIALS, KEPT_PARTS, TITLES
from ensemble_deid.surrogates.dates import DateText
from ensemble_deid.surrogates.lists import SURNAMES, generic_words, name_lists, plain_list, towns
from research.exposure_places import HiddenNote, Place

_WORD = re.compile(r"[^\W\d_]+")
_SHORTEST = 3
_LONGEST_ACRONYM = 6
_NUMBER = re.compile(r"[(+]?\d[\d\s().+-]*\d")
_PHONE_DIGITS = (7, 10, 11)
_EXAMPLE_LINE = re.compile(r"55501\d\d\Z")
_SSN = re.compile(r"\d{3}-\d{2}-\d{4}")
_ADDRESS = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")
_EXAMPLE_NETWORKS = ("192.0.2.", "198.51.100.", "203.0.113.")
_WEB = re.compile(r"@|https?://|www\.", re.IGNORECASE)
_EXAMPLE_DOMAIN = re.compile(r"\.example\.(?:com|org|net)\b", re.IGNORECASE)
_YEAR = 2028
"""By which years of two digits are read, as surrogates are where no year has four."""


def readers_rules(notes: Sequence[HiddenNote]) -> list[list[float]]:
    """Return for every place 1 where a rule says that it is the original's, else 0.

    A name and a place are suspect by a word that is on none of the lists that surrogates are taken from; a date, by a
    year that is not the most frequent one of the patient's; a number or an address, outside the ranges for examples.
    """
    years: dict[str, Counter[int]] = {}
    for note in notes:
        count = years.setdefault(note.document.group, Counter())
        count.update(year for place in note.places if place.category == "DATE" for year in _years(note, place))
    found: list[list[float]] = []
    for note in notes:
        # Of equally frequent years the latest.
        usual = max(years[note.document.group].items(), key=lambda item: item[::-1], default=(None, 0))[0]
        found.append([float(_is_suspect(note, place, usual)) for place in note.places])
    return found


def _is_suspect(note: HiddenNote, place: Place, usual: int | None) -> bool:
    surface = note.document.text[place.start : place.end]
    rules: dict[str, Callable[[], bool]] = {
        "NAME": lambda: bool(_words(surface) - _name_words()),
        "LOCATION": lambda: bool(_place_words(surface) - _words_of_places()),
        "DATE": lambda: any(year != usual for year in _years(note, place)),
    }
    return rules.get(place.category, lambda: False)() or _is_outside_examples(surface)


def _is_outside_examples(surface: str) -> bool:
    if _WEB.search(surface):
        return not _EXAMPLE_DOMAIN.search(surface)
    if _ADDRESS.fullmatch(surface):
        return not surface.startswith(_EXAMPLE_NETWORKS)
    if _SSN.fullmatch(surface):
        return not surface.startswith("9")
    digits = "".join(filter(str.isdecimal, surface))
    is_phone = bool(_NUMBER.fullmatch(surface)) and len(digits) in _PHONE_DIGITS and not surface.isdecimal()
    return is_phone and not _EXAMPLE_LINE.search(digits)


def _years(note: HiddenNote, place: Place) -> list[int]:
    return DateText(0, day_first=False).years(note.document.text[place.start : place.end], year=_YEAR) or []


def _words(surface: str) -> set[str]:
    """Return the words of a name that tell something, folded."""
    words = {fold(word) for word in _WORD.findall(surface) if len(word) >= _SHORTEST}
    return words - TITLES - CREDENTIALS - KEPT_PARTS


def _place_words(surface: str) -> set[str]:
    """Return the words of a place that are no abbreviations, whose surrogates are any letters."""
    words = [word for word in _WORD.findall(surface) if len(word) >= _SHORTEST and not word.islower()]
    return {fold(word) for word in words if not (word.isupper() and len(word) <= _LONGEST_ACRONYM)}


@cache
def _name_words() -> frozenset[str]:
    return frozenset(fold(part) for names in name_lists().given_out.values() for n in names for part in _parts(n))


@cache
def _words_of_places() -> frozenset[str]:
    lists = name_lists()
    surnames = (name for (_, kind), names in lists.given_out.items() if kind == SURNAMES for name in names)
    townships = (name for names in towns().by_state.values() for name in names)
    every = (*surnames, *townships, *plain_list("place-names"), *towns().states.values(), *plain_list("countries-en"))
    return generic_words() | {fold(part) for name in every for part in _parts(name)}


def _parts(name: str) -> list[str]:
    return _WORD.findall(name)
