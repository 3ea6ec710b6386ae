"""Names of known people, found whole or in part: in any order, with initials, short forms and typing errors.

Which occurrences of a word count depends on what stands beside it: a patient's own name counts wherever it can be a
name, while that of one of thousands of staff must not take away every `Will` and `Long`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache
from itertools import combinations, groupby
from typing import NamedTuple

from ensemble_deid.deidentify.known.words import Words
from ensemble_deid.surrogates.affixes import ALSO_NAMES, CREDENTIALS, KEPT_PARTS, SUFFIXES, TITLES
from ensemble_deid.surrogates.lists import name_lists
from ensemble_deid.word_tables import listed_words

# Ordinary words: what is on the public lists of English and medical words, such as `long`, `may` or `foley`.


@cache
def ordinary_words() -> frozenset[str]:
    """Read the lists once. Raises ConfigError where the installation lacks them."""
    return frozenset(listed_words("english")).union(listed_words("medical"))


# Words at an edit distance of one, found by look-ups instead of comparisons.
#
# Two words that differ by one letter have a form in common that lacks a letter of each (the symmetric deletes of W.
# Garbe's SymSpell). So every word is stored under all its forms with a letter deleted.

SHORTEST = 6
"""Words with fewer letters are not looked for with typing errors: too many other words are like them."""


class Typos:
    """An index of words, of which those with six letters or more are found with one typing error."""

    def __init__(self, words: Iterable[str]) -> None:
        self._words: dict[str, list[str]] = {}
        for word in sorted(set(words)):
            if len(word) >= SHORTEST:
                for form in {word, *deletions(word)}:
                    self._words.setdefault(form, []).append(word)

    def near(self, word: str) -> list[str]:
        """Return the words that differ from this one by exactly one edit."""
        if len(word) < SHORTEST - 1:
            return []
        forms = {word, *deletions(word)}
        found = {near for form in forms for near in self._words.get(form, ())}
        return sorted(near for near in found if near != word and within_one_edit(word, near))


def within_one_edit(first: str, second: str) -> bool:
    """Whether one letter inserted, deleted or substituted, or two neighbours exchanged, makes one of the other."""
    if len(first) > len(second):
        first, second = second, first
    start = 0
    while start < len(first) and first[start] == second[start]:
        start += 1
    rest, other = first[start:], second[start:]
    if len(rest) < len(other):
        return rest == other[1:]
    return rest[1:] == other[1:] or (rest[2:] == other[2:] and rest[:2] == other[1::-1])


def deletions(word: str) -> list[str]:
    """Return a word without each of its letters in turn."""
    return [word[:place] + word[place + 1 :] for place in range(len(word))]


PARTICLES = KEPT_PARTS - SUFFIXES
_MOST_BETWEEN = 3
_SHORTEST_ALONE = 3
_SHORTEST_JOINED = 5
_MOST_SEEN = 200_000
"""So many distinct words are remembered, then forgotten together."""


@dataclass(frozen=True, slots=True)
class Person:
    """The folded parts of a name in order, particles such as `de` apart; `entry` is the number of the name's value.

    `sides` has all of its words, those before and after each comma apart.
    """

    parts: tuple[str, ...] = field(repr=False)
    particles: frozenset[str] = field(repr=False)
    entry: int
    sides: tuple[tuple[str, ...], ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, name: str, entry: int) -> "Person | None":
        """Return the person of a name without titles and credentials; None where no part has two letters."""
        words = _words_of(name)
        while len(words) > 1 and words[0].folded in TITLES - ALSO_NAMES:
            words.pop(0)
        while len(words) > 1 and _is_credential(words):
            words.pop()
        kept = [place for place in range(len(words)) if _is_particle(words, place)]
        particles = frozenset(words[place].folded for place in kept)
        parts = tuple(dict.fromkeys(word.folded for place, word in enumerate(words) if place not in kept))
        sides = tuple(tuple(word.folded for word in side) for _, side in groupby(words, key=lambda word: word.side))
        return cls(parts, particles, entry, sides) if any(len(part) > 1 for part in parts) else None

    def written_together(self) -> Iterator[str]:
        """Yield the forms without blanks: those of user names and of words without a blank between them."""
        for parts in (self.parts, [part for part in self.parts if len(part) > 1]):
            if len(parts) > 1:
                yield from ("".join(parts), "".join([parts[-1], *parts[:-1]]))
        for side in self.sides:
            for first, last in combinations(range(len(side)), 2):
                # `Van Dyke` as `Vandyke`; not `Jo Hanna H` as `Johannah`.
                form = "".join(side[first : last + 1])
                if len(side[last]) > 1 and len(form) >= _SHORTEST_JOINED and form not in ordinary_words():
                    yield form

    def initials(self) -> tuple[list[str], list[str]]:
        """Return the initials of all parts, and those of the first and the last; what a comma puts first is last."""
        spoken = dict.fromkeys(word for side in (*self.sides[1:], *self.sides[:1]) for word in side)
        letters = [word[0] for word in spoken if word in self.parts and word not in SUFFIXES and word[0].isalpha()]
        return letters, [*letters[:1], *letters[-1:]]

    def written_apart(self) -> Iterator[str]:
        """Yield the parts that may be written as two words (`Mc Tavish`)."""
        yield from (part for part in self.parts if part.startswith("mc"))


class _Word(NamedTuple):
    """A word of a listed name: folded, as written, and the number of commas before it."""

    folded: str
    written: str
    side: int


def _words_of(name: str) -> list[_Word]:
    words = Words.of(name)
    written = [words.text[start:end] for start, end in zip(words.starts, words.ends, strict=True)]
    sides = [words.text.count(",", 0, start) for start in words.starts]
    return [word for word in map(_Word, words.folded, written, sides) if not word.folded.isdecimal()]


def _is_credential(words: Sequence[_Word]) -> bool:
    """Whether the last word is a credential or suffix; one that may be a name (`Vance, JD`, `KIM DO`) only if clear."""
    *others, last = words
    if last.folded not in CREDENTIALS | SUFFIXES or not (last.side or len(others) > 1):
        return False
    if last.folded not in ALSO_NAMES:
        return True
    alone = last.side > others[-1].side
    in_contrast = not all(word.written.isupper() for word in others)
    return len(others) > 1 and last.written.isupper() and (alone or in_contrast)


def _is_particle(words: Sequence[_Word], place: int) -> bool:
    """Whether a word belongs to the next one: not before a comma or an initial, nor as a given name (`Van Johnson`)."""
    word, after = words[place], words[min(place + 1, len(words) - 1)]
    if after is word or word.folded not in PARTICLES or word.side != after.side or len(after.folded) == 1:
        return False
    is_first = place == 0 or words[place - 1].side != word.side
    begins_given = is_first and (word.side > 0 or words[-1].side == 0)
    small = word.written.islower() and not all(other.written.islower() for other in words)
    return small or not begins_given or (word.folded not in ALSO_NAMES and after.folded in PARTICLES)


class Certainty(IntEnum):
    """How much a match tells: a word that may well be another one, part of a name, or a name with several parts."""

    WEAK = 0
    PART = 1
    WHOLE = 2


class _Grade(IntEnum):
    EXACT = 0
    SHORT_FORM = 1
    TYPO = 2


_Hits = dict[int, tuple[_Grade, int]]
"""For each person that a word can name: how, and which part of the name it is."""


class NameIndex:
    """An index of people's names. `own` people belong to the patient of the notes that are searched."""

    def __init__(self, people: Iterable[Person], *, own: bool) -> None:
        self.people: Sequence[Person] = tuple(people)
        self.own = own
        self._full_forms = name_lists().full_forms
        self._exact: dict[str, _Hits] = {}
        self._forms: dict[str, _Hits] = {}
        for number, person in enumerate(self.people):
            for index, part in enumerate(person.parts):
                if len(part) > 1:
                    self._exact.setdefault(part, {}).setdefault(number, (_Grade.EXACT, index))
                    for form in (part, *self._full_forms.get(part, ())):
                        self._forms.setdefault(form, {}).setdefault(number, (_Grade.SHORT_FORM, index))
        self._typos = Typos(self._exact)
        self._seen: dict[str, _Hits] = {}

    def find(self, words: Words) -> Iterator[tuple[int, int, int, Certainty]]:
        """Yield the first and last word, the entry and the certainty of every match, in text order."""
        if not self.people:
            return
        hits = [self._hits(word) for word in words.folded]
        whole = list(self._whole(words, hits))
        covered = {number for first, last, _ in whole for number in range(first, last + 1)}
        found = [(*match, Certainty.WHOLE) for match in whole]
        for number, hit in enumerate(hits):
            if hit and number not in covered:
                certainty = self._alone(words, number, min(grade for grade, _ in hit.values()))
                if certainty is not None:
                    found.append((number, number, self.people[min(hit)].entry, certainty))
        yield from sorted(found)

    def _hits(self, word: str) -> _Hits:
        """Return the people whom a word can name, the same object for the same word."""
        known = self._seen.get(word)
        if known is None:
            if len(self._seen) >= _MOST_SEEN:
                self._seen.clear()
            known = self._seen[word] = self._look_up(word)
        return known

    def _look_up(self, word: str) -> _Hits:
        if len(word) < 2 or word.isdecimal():
            return {}
        found = dict(self._exact.get(word, {}))
        for form in (word, *self._full_forms.get(word, ())):
            for number, hit in self._forms.get(form, {}).items():
                found.setdefault(number, hit)
        for near in self._typos.near(word):
            for number, (_, index) in self._exact[near].items():
                found.setdefault(number, (_Grade.TYPO, index))
        return found

    def _whole(self, words: Words, hits: Sequence[_Hits]) -> Iterator[tuple[int, int, int]]:
        """Yield runs of two and more parts of one name; runs that overlap are joined."""
        pairs = [pair for number, hit in enumerate(hits) if hit for pair in self._pairs(words, hits, number)]
        runs: list[tuple[int, int, int]] = []
        for first, last, person in sorted(pairs):
            if runs and first <= runs[-1][1]:
                runs[-1] = (runs[-1][0], max(last, runs[-1][1]), runs[-1][2])
            else:
                runs.append((first, last, person))
        for first, last, person in runs:
            yield *self._extended(words, first, last, self.people[person]), self.people[person].entry

    def _pairs(self, words: Words, hits: Sequence[_Hits], number: int) -> Iterator[tuple[int, int, int]]:
        """Yield this word with the next part of the same name, and with an initial beside it."""
        hit = hits[number]
        for other in range(number + 1, min(number + 2 + _MOST_BETWEEN, len(words))):
            if not words.joined(other - 1):
                break
            person = self._shared(words, number, other, hit, hits[other])
            if person is not None:
                yield number, other, person
                break
            if len(words.folded[other]) > 1 and words.folded[other] not in PARTICLES:
                break
        for first, last, beside in ((number - 1, number, number - 1), (number, number + 1, number + 1)):
            if first < 0 or last == len(words) or not words.joined(first):
                continue
            letter = words.folded[beside]
            if len(letter) == 1 and words.capitalised(beside) and words.capitalised(number):
                people = [p for p, (grade, index) in hit.items() if self._has_initial(p, letter, index, grade)]
                if people:
                    yield first, last, min(people)

    def _has_initial(self, person: int, letter: str, index: int, grade: _Grade) -> bool:
        others = (part for number, part in enumerate(self.people[person].parts) if number != index)
        return grade == _Grade.EXACT and any(part[0] == letter for part in others)

    def _shared(self, words: Words, number: int, other: int, one: _Hits, two: _Hits) -> int | None:
        """Return the first person of whom both words name a part, and not the same one."""
        fewer, more = sorted((one, two), key=len)
        people = [person for person in fewer if person in more and fewer[person][1] != more[person][1]]
        if not people:
            return None
        exact = any(one[person][0] == two[person][0] == _Grade.EXACT for person in people)
        # `this will long remain` names no one, though somebody is called Will Long.
        plain = not any(words.capitalised(place) or self._is_rare(words.folded[place]) for place in (number, other))
        return None if plain and not (self.own and exact) else min(people)

    def _extended(self, words: Words, first: int, last: int, person: Person) -> tuple[int, int]:
        """Return the run with the initials and particles of the name beside it."""

        def belongs(number: int) -> bool:
            word = words.folded[number]
            initial = len(word) == 1 and words.capitalised(number) and any(part[0] == word for part in person.parts)
            return initial or word in person.particles

        while first > 0 and words.joined(first - 1) and belongs(first - 1):
            first -= 1
        while last + 1 < len(words) and words.joined(last) and belongs(last + 1):
            last += 1
        return first, last

    def _alone(self, words: Words, number: int, grade: _Grade) -> Certainty | None:
        """Judge one part of a name with no other part beside it; None where it is nothing to speak of."""
        word, capitalised = words.folded[number], words.capitalised(number)
        titled = number > 0 and words.folded[number - 1] in TITLES and words.joined(number - 1)
        rare, exact = self._is_rare(word), grade == _Grade.EXACT
        if titled and capitalised:
            return Certainty.PART
        if len(word) < _SHORTEST_ALONE:
            certain = self.own and exact and capitalised and not words.text[words.starts[number] + 1].isupper()
            return Certainty.PART if certain else None
        if grade == _Grade.TYPO and not rare:
            return None
        if rare:
            return Certainty.PART if self.own or exact else Certainty.WEAK
        if self.own and capitalised and (exact or not words.opens_sentence(number)):
            return Certainty.PART
        return Certainty.WEAK if self.own or capitalised else None

    @staticmethod
    def _is_rare(word: str) -> bool:
        return word not in ordinary_words() and word not in PARTICLES
