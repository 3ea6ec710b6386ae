"""Initials of a patient, which count only beside other evidence: `J.S.` alone may be anything."""

from collections.abc import Collection, Iterator, Sequence

from ensemble_deid.pipeline.known.names import Person
from ensemble_deid.pipeline.known.words import Words
from ensemble_deid.surrogates.keyed.affixes import TITLES

_LEAST, _MOST = 2, 4
_GAPS = (".", ". ", "")
_BEFORE = TITLES | frozenset("patient patients pt name initials".split())
_NEAR = 5


class InitialsIndex:
    """The initials of people, in any order: all of a name's, or the first and the last."""

    def __init__(self, people: Sequence[Person]) -> None:
        self._entries: dict[str, int] = {}
        for person in people:
            letters = [part[0] for part in person.parts if part[0].isalpha()]
            for chosen in (letters, [*letters[:1], *letters[-1:]]):
                if _LEAST <= len(chosen) <= _MOST and len(person.parts) >= _LEAST:
                    self._entries.setdefault("".join(sorted(chosen)), person.entry)

    def find(self, words: Words, evidence: Collection[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
        """Yield the first and last word and the entry of initials beside evidence.

        That is a title or a word for the patient before them; or, where they are written with full stops, one of the
        matches `evidence` (first and last word) not more than five words away.
        """
        if not self._entries:
            return
        for first, last, dotted in _groups(words):
            letters = "".join(sorted("".join(words.folded[first : last + 1])))
            entry = self._entries.get(letters)
            if entry is None:
                continue
            before = words.folded[first - 1] if first and words.joined(first - 1) else ""
            near = any(first - _NEAR <= end and start <= last + _NEAR for start, end in evidence)
            if before in (_BEFORE if dotted else TITLES) or (dotted and near):
                yield first, last, entry


def _groups(words: Words) -> Iterator[tuple[int, int, bool]]:
    """Yield the runs of capital letters that may be initials: one by one with full stops (`J. S.`), or as one word."""
    number = 0
    while number < len(words):
        last = number
        if len(words.folded[number]) == 1 and words.capitalised(number):
            while _goes_on(words, last):
                last += 1
            dotted = words.text[words.ends[last] : words.ends[last] + 1] == "."
            if last > number and dotted:
                yield number, last, True
        elif (
            _LEAST <= len(words.folded[number]) <= _MOST
            and words.text[words.starts[number] : words.ends[number]].isupper()
        ):
            yield number, number, False
        number = last + 1


def _goes_on(words: Words, number: int) -> bool:
    if number + 1 >= len(words) or len(words.folded[number + 1]) != 1 or not words.capitalised(number + 1):
        return False
    return words.gap(number) in _GAPS
