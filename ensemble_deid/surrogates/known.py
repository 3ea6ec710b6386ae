"""The facts about one patient: strings that no surrogate may equal, and the full names of people."""

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from ensemble_deid.note.folding import fold
from ensemble_deid.surrogates.affixes import KEPT_PARTS, kept_parts, parts_of_name
from ensemble_deid.surrogates.lists import NameLists, generic_words, name_lists

GIVEN, FAMILY = "given", "family"
_SHORTEST = 3
_LONGEST_NAME = 5
_POSSESSIVE = re.compile(r"['’]s?\Z")
_WORD = re.compile(r"[^\W\d_]+")
# An e-mail address, a URL, a host, or a log-in name such as `ann.poe`; but not `J.Poe`.
_ADDRESS = re.compile(r".*(?:@|://)|www\.|[^\s,]*[^\W\d_]{2}\.[^\W\d_]{2}[^\s,]*\Z")


class Avoided:
    """The PHI of one patient, which must not stand in a surrogate; with `whole_only` a part of it may."""

    def __init__(self, known: Collection[str], *, whole_only: bool = False) -> None:
        self._strings = frozenset(fold(string) for string in known) - {""}
        self._words, self._lengths = frozenset[str](), list[int]()
        if whole_only:
            return
        words = {fold(word.group()) for string in known for word in _WORD.finditer(string)}
        self._words = frozenset(word for word in words if len(word) > 1) - generic_words()
        self._lengths = sorted({len(string) for string in self._strings if len(string) >= _SHORTEST})

    def allows(self, value: str) -> bool:
        """Whether the value equals none of the strings and contains none of three or more letters or digits."""
        folded = fold(value)
        if folded in self._strings:
            return False
        # A value is short, but a patient's PHI may be thousands of strings: its parts are looked up among them.
        return not any(
            folded[start : start + length] in self._strings
            for length in self._lengths
            if length <= len(folded)
            for start in range(len(folded) - length + 1)
        )

    def has_word(self, word: str) -> bool:
        """Whether a folded word is one of the strings' words, single letters and generic ones excepted."""
        return word in self._words

    def allows_words(self, value: str) -> bool:
        """Whether, besides, no word of the value is a word of the strings, generic ones such as `Hospital` excepted."""
        return self.allows(value) and all(fold(word) not in self._words for word in _WORD.findall(value))


@dataclass(frozen=True, slots=True)
class NamePart:
    """Characters `[start, end)` of a name; the role is empty for a title, a credential, `de`, `Jr.` and the like."""

    start: int
    end: int
    word: str
    role: str


class KnownNames:
    """The full names among one patient's PHI, by which a part alone, initials and short forms are recognised.

    In Spanish (`language` es) a person has two surnames: of three parts the last two, of two parts both where the
    first is no given name.
    """

    def __init__(self, known: Collection[str], language: str = "en") -> None:
        self.lists: NameLists = name_lists()
        self._two_surnames = language == "es"
        self.words: set[str] = set()
        self.full: list[tuple[NamePart, ...]] = []
        self._votes: dict[str, Counter[str]] = {}
        for string in sorted(known):
            self._learn(string)
        self._by_initials: dict[str, tuple[NamePart, ...]] = {}
        self._by_word: dict[str, list[int]] = {}
        # With all parts first, then with the first and the last one.
        for place, name in enumerate(self.full):
            self._by_initials.setdefault("".join(sorted(part.word[0] for part in name)), name)
            for part in name:
                self._by_word.setdefault(part.word, []).append(place)
        for name in self.full:
            self._by_initials.setdefault("".join(sorted((name[0].word[0], name[-1].word[0]))), name)

    def parts(self, surface: str, *, usual: str, clinician: bool = True) -> list[NamePart]:
        """Return the parts of a name; `usual` is the role of one part alone of which nothing is known.

        A name that may be a `clinician`'s has a credential where another has initials (`Smith, PA`).
        """
        tokens = parts_of_name(_POSSESSIVE.sub("", surface))
        words = [fold(surface[start:end]) for start, end in tokens]
        kept = kept_parts(surface, tokens, clinician=clinician)
        names = [index for index, stays in enumerate(kept) if not stays]
        roles = self._roles(surface, tokens, words, names, usual)
        return [NamePart(start, end, words[index], roles.get(index, "")) for index, (start, end) in enumerate(tokens)]

    def canonical(self, word: str, role: str) -> str:
        """Return the full form of a given name (`johnny` -> `john`), of several that which the notes have."""
        if role != GIVEN:
            return word
        forms = self.lists.full_forms.get(word, ())
        return next((form for form in forms if form in self.words), forms[0] if forms else word)

    def of_initials(self, letters: Collection[str]) -> tuple[NamePart, ...] | None:
        """Return the first full name with these initials, None for none."""
        return self._by_initials.get("".join(sorted(letters)))

    def owner_of(self, letter: str, beside: Collection[str]) -> NamePart | None:
        """Return the part of a full name that a single letter stands for, in a name with a part in `beside`."""
        for place in sorted({place for word in beside for place in self._by_word.get(word, ())}):
            for part in self.full[place]:
                if len(part.word) > 1 and part.word[0] == letter and part.word not in beside:
                    return part
        return None

    def is_known(self, word: str) -> bool:
        """Whether the folded word is a part of a full name of these notes, or stands beside a title or a credential."""
        return word in self._votes

    def role(self, word: str, usual: str) -> str:
        """Return the role of one word alone: as in the full names of these notes, or as the lists have it."""
        votes = self._votes.get(word)
        if votes:
            # Ties are decided in favour of the surname, not by the order of the counter.
            return max((GIVEN, FAMILY), key=lambda role: (votes[role], role == FAMILY))
        given, surname = self.lists.is_given(word), self.lists.is_surname(word)
        return usual if given == surname else GIVEN if given else FAMILY

    def _learn(self, string: str) -> None:
        words = [word.group() for word in _WORD.finditer(string)]
        self.words.update(fold(word) for word in words)
        if _ADDRESS.match(string):
            # What it has of names, it has in no order that tells given names from surnames.
            return
        if any(map(str.isdecimal, string)) or len(words) < 2 or len(parts_of_name(string)) > _LONGEST_NAME:
            return
        if any(fold(word) in generic_words() - KEPT_PARTS and len(word) > 1 for word in words):
            return
        parts = [part for part in self.parts(string, usual=GIVEN) if part.role and part.word]
        for part in parts:
            if len(part.word) > 1:
                # One name beside a title or a credential does not say which of the two it is.
                self._votes.setdefault(part.word, Counter()).update([part.role] if len(parts) > 1 else ())
        if len([part for part in parts if len(part.word) > 1]) > 1:
            # Given names first, as initials have them; what a comma puts first is the surname.
            self.full.append(tuple(sorted(parts, key=lambda part: part.role == FAMILY)))

    def _roles(
        self, surface: str, tokens: list[tuple[int, int]], words: list[str], names: list[int], usual: str
    ) -> dict[int, str]:
        if not names:
            return {}
        if len(names) == 1:
            return {names[0]: self.role(words[names[0]], usual)}
        comma = surface.find(",")
        if comma >= 0 and any(tokens[index][0] > comma for index in names) and tokens[names[0]][1] <= comma:
            return {index: FAMILY if tokens[index][1] <= comma else GIVEN for index in names}
        last = max((index for index in names if len(words[index]) > 1), default=names[-1])
        roles = dict.fromkeys(names, GIVEN)
        roles[last] = FAMILY
        for index in reversed([index for index in names if index < last]):
            # A hyphen joins two surnames.
            if surface[tokens[index][1] : tokens[index + 1][0]] != "-":
                break
            roles[index] = FAMILY
        if self._two_surnames and len(words[last]) > 1:
            roles |= self._first_surname(words, names, last)
            if all(roles[index] == FAMILY for index in names):
                return roles
        if all(roles[index] == FAMILY for index in names):
            return dict.fromkeys(names, self.role(words[names[0]], usual))
        first_word, last_word = words[names[0]], words[last]
        if self._only(first_word, FAMILY) and self._only(last_word, GIVEN) and len(names) == 2:
            # `Garcia Maria`, without a comma.
            return {names[0]: FAMILY, last: GIVEN}
        return roles

    def _first_surname(self, words: list[str], names: list[int], last: int) -> dict[int, str]:
        """Return the role of the part before the last surname, where it is the first of two."""
        before = [index for index in names if index < last and len(words[index]) > 1]
        if len(before) > 1 or (before and not self.lists.is_given(words[before[0]])):
            return {before[-1]: FAMILY}
        return {}

    def _only(self, word: str, role: str) -> bool:
        votes = self._votes.get(word)
        if votes:
            return votes[role] == max(votes.values()) and len(votes) == 1
        given, surname = self.lists.is_given(word), self.lists.is_surname(word)
        return given != surname and (given if role == GIVEN else surname)
