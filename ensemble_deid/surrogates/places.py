"""Surrogate names of places and organisations: generic words are kept, distinctive words are replaced."""

import re
from collections.abc import Iterable

from ensemble_deid.note.folding import fold, match_case
from ensemble_deid.surrogates.codes import CodeMap
from ensemble_deid.surrogates.place_words import COUNTRY_SHORT, GENERIC_WORDS, STATES
from ensemble_deid.surrogates.source import ValueSource

_WORD = re.compile(r"[^\W\d_]+(?:['’.](?!s\b)[^\W\d_]+)*", re.IGNORECASE)
_STATE_NAMES = {name.casefold(): short for short, name in STATES.items()}
_LONGEST_ACRONYM = 6
_WHOLE = ("CITY", "STATE", "COUNTRY")


class PlaceMap:
    """One patient's places: a word is always replaced alike, and an abbreviation matches the new name."""

    def __init__(self, source: ValueSource, codes: CodeMap, names: Iterable[str]) -> None:
        """`names` are all hospitals, organisations and other places named in the patient's notes."""
        self._source = source
        self._codes = codes
        self._words: dict[str, str] = {}
        self._whole: dict[tuple[str, str], str] = {}
        self._acronyms: dict[str, str] = {}
        for name in names:
            words = [match.group() for match in _WORD.finditer(name)]
            for letters in (_capitals(words), _capitals(words, generic=True)):
                if len(letters) > 1:
                    self._acronyms.setdefault(letters, name)

    def replace(self, surface: str, label: str) -> str:
        """Return the new place for a span of the i2b2 type `label`."""
        if label in _WHOLE and any(map(str.isdecimal, surface)) and not any(map(str.islower, surface)):
            # A number as a place is a postal code, which some schemes do not distinguish from a town.
            return self._codes.replace(surface, "ZIP")
        if label in _WHOLE:
            key = (label, self._state_key(surface) if label == "STATE" else fold(surface))
            if key not in self._whole:
                self._whole[key] = self._draw_whole(surface, label)
            return self._in_form(surface, self._whole[key], label)
        return self._named(surface)

    def _draw_whole(self, surface: str, label: str) -> str:
        if label == "CITY":
            return self._source.city(surface)
        if label == "COUNTRY":
            return self._source.country(surface)
        short = _state_short(surface)
        if short is not None:
            return self._source.pick(tuple(sorted(STATES)), short)
        return self._source.state(surface)

    def _state_key(self, surface: str) -> str:
        return _state_short(surface) or fold(surface)

    def _in_form(self, surface: str, value: str, label: str) -> str:
        letters = fold(surface)
        if label == "STATE" and _state_short(surface) is not None:
            return match_case(surface, value if len(letters) == 2 else STATES[value])
        if label == "COUNTRY" and surface.replace(".", "").isupper() and len(letters) <= 3:
            dotted = "." in surface
            choices = tuple(short for short in COUNTRY_SHORT if ("." in short) == dotted)
            index = sum(map(ord, value)) % len(choices)
            return choices[index] if fold(choices[index]) != letters else choices[index - 1]
        return match_case(surface, value)

    def _named(self, surface: str) -> str:
        words = list(_WORD.finditer(surface))
        if len(words) == 1 and self._looks_short(words[0].group()) and not any(map(str.isdecimal, surface)):
            word = words[0]
            fresh = self._acronym(word.group())
            return self._numbers(surface[: word.start()]) + fresh + self._numbers(surface[word.end() :])
        if not words:
            return self._codes.replace(surface, "IDNUM")
        small = surface.islower()
        named = [word for word in words if self._makes_the_name(word.group(), small)]
        if not named and not any(character.isdecimal() for character in surface):
            # If all words are generic, the first one is replaced.
            named = words[:1]
        done, cursor = "", 0
        for word in named:
            short = self._looks_short(word.group()) and not surface.isupper()
            fresh = self._acronym(word.group()) if short else self._word(word.group())
            done += self._numbers(surface[cursor : word.start()]) + fresh
            cursor = word.end()
        return done + self._numbers(surface[cursor:])

    @staticmethod
    def _makes_the_name(word: str, all_small: bool) -> bool:
        # Lower-case words inside a name (turnoff, shaft) and single letters (Apt 2R) are not distinctive.
        return len(word) > 1 and (all_small or not word.islower()) and fold(word) not in GENERIC_WORDS

    def _word(self, word: str) -> str:
        key = fold(word)
        if key not in self._words:
            self._words[key] = self._source.place_word(word)
        return match_case(word, self._words[key])

    def _numbers(self, text: str) -> str:
        return re.sub(r"\d+", lambda match: self._codes.replace(match.group(), "IDNUM"), text)

    def _looks_short(self, word: str) -> bool:
        return word.isupper() and 1 < len(word) <= _LONGEST_ACRONYM and (word in self._acronyms or len(word) <= 4)

    def _acronym(self, letters: str) -> str:
        name = self._acronyms.get(letters)
        if name is not None:
            fresh_words = [match.group() for match in _WORD.finditer(self._named(name))]
            generic = letters != _capitals([match.group() for match in _WORD.finditer(name)])
            fresh = _capitals(fresh_words, generic=generic)
            if fresh and fresh != letters:
                return fresh
        key = f"acronym {letters}"
        if key not in self._words:
            self._words[key] = self._codes.replace(letters, "IDNUM")
        return self._words[key]


def _capitals(words: Iterable[str], *, generic: bool = False) -> str:
    """Return the initials of a name; with `generic` also those of lower-case words."""
    return "".join(word[0].upper() for word in words if generic or word[0].isupper())


def _state_short(surface: str) -> str | None:
    letters = surface.replace(".", "").upper()
    return letters if letters in STATES else _STATE_NAMES.get(" ".join(surface.split()).casefold())
