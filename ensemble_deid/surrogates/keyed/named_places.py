"""Hospitals, organisations, streets and other places of the output: generic words stay, the others are replaced."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from ensemble_deid.note.folding import fold, match_case
from ensemble_deid.surrogates.keyed.choices import Keyed
from ensemble_deid.surrogates.keyed.codes import Codes
from ensemble_deid.surrogates.keyed.geography import Geography
from ensemble_deid.surrogates.keyed.known import Avoided
from ensemble_deid.surrogates.keyed.lists import DEFAULT_ORIGIN, SURNAMES, name_lists
from ensemble_deid.surrogates.place_words import GENERIC_WORDS, PLAIN_WORDS

_WORD = re.compile(r"[^\W\d_]+(?:['’.](?!s\b)[^\W\d_]+)*", re.IGNORECASE)
_LONGEST_ACRONYM = 6
_SMALL = ("of", "and", "the", "for", "at", "in", "de", "del", "la", "y")
_PLAIN_IF_SMALL = frozenset(
    "st nd rd th km block exit gate line tunnel heights roundabout turnoff cutoff shaft bend gorge jail diner off near "
    "behind between from opposite outside".split()
)
"""Words that are no name where they are written small: `12th`, `Larkin shaft`."""


@dataclass(slots=True)
class NamedPlaces:
    """The places in one patient's notes: a word is always replaced alike, and an abbreviation fits the new name."""

    keyed: Keyed
    avoided: Avoided
    codes: Codes
    geography: Geography
    known: frozenset[str] = field(repr=False)
    language: str = "en"

    def replace(self, surface: str) -> str | None:
        """Return another name of a place, None for a string without letters and digits."""
        words = list(_WORD.finditer(surface))
        if not words:
            return self.codes.replace(surface, "IDNUM")
        if len(words) == 1 and self._is_acronym(words[0].group()):
            fresh = self._acronym(words[0].group())
            return self._around(surface, [(words[0].start(), words[0].end(), fresh)])
        small = surface.islower()
        named = [word for word in words if self._names_the_place(word.group(), all_small=small)]
        if not named and not any(map(str.isdecimal, surface)):
            # Of nothing but generic words the first is replaced.
            named = words[:1]
        return self._around(surface, [(word.start(), word.end(), self.word(word.group())) for word in named])

    def word(self, word: str) -> str:
        """Return another word for the name of a place: a town for a town, else a plain word or a surname."""
        if self.geography.language == "en" and self.geography.is_town(word):
            town = self.geography.city(word)
            if town is not None:
                return town
        surnames = name_lists().given_out[DEFAULT_ORIGIN[self.language], SURNAMES]
        values = PLAIN_WORDS + surnames[:: max(1, len(surnames) // len(PLAIN_WORDS))]
        values = surnames if self.language != "en" else values

        def fits(value: str) -> bool:
            return fold(value)[:1] != fold(word)[:1] and self.avoided.allows_words(value)

        value = self.keyed.pick(values, "place", fold(word), fits=fits)
        return match_case(word, value) if value else self.codes.replace(word, "IDNUM") or ""

    def _around(self, surface: str, edits: list[tuple[int, int, str]]) -> str:
        done, cursor = "", 0
        for start, end, fresh in edits:
            done += self.codes.digits(surface[cursor:start]) + fresh
            cursor = end
        return done + self.codes.digits(surface[cursor:])

    @staticmethod
    def _names_the_place(word: str, *, all_small: bool) -> bool:
        # Single letters (Apt 2R) are not distinctive; a name may be written small (`hospital of springfield`).
        plain = word.islower() and not all_small and word in _PLAIN_IF_SMALL
        return len(word) > 1 and not plain and fold(word) not in GENERIC_WORDS

    @staticmethod
    def _is_acronym(word: str) -> bool:
        return word.isupper() and 1 < len(word) <= _LONGEST_ACRONYM and fold(word) not in GENERIC_WORDS

    def _acronym(self, letters: str) -> str:
        for name in sorted(self.known):
            words = [match.group() for match in _WORD.finditer(name)]
            for small in (False, True):
                if len(words) > 1 and _initials(words, small) == letters.casefold():
                    fresh = [match.group() for match in _WORD.finditer(self.replace(name) or "")]
                    value = _initials(fresh, small).upper()
                    if value != letters and value and self.avoided.allows(value):
                        return value
        return self.codes.replace(letters, "IDNUM") or ""


def _initials(words: Iterable[str], small: bool) -> str:
    """Return the initials of a name; with `small` also those of `of`, `the` and the like."""
    return "".join(word[0].casefold() for word in words if small or word.casefold() not in _SMALL)
