"""What a site knows of its patients and staff: names, numbers and addresses, which are searched in every note."""

from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from ensemble_deid.deidentify.known.dates import DateIndex, read_date
from ensemble_deid.deidentify.known.kinds import KINDS, Kind, Matching, label_for
from ensemble_deid.deidentify.known.names import Certainty, NameIndex, Person, ordinary_words
from ensemble_deid.deidentify.known.table import SiteFile, StringIndex
from ensemble_deid.deidentify.known.words import Words, compacted
from ensemble_deid.errors import CorpusError
from ensemble_deid.note.document import known_patient
from ensemble_deid.surrogates.affixes import TITLES

# Initials of a patient, which count only beside other evidence: `J.S.` alone may be anything.

_LEAST, _MOST = 2, 4
_GAPS = (".", ". ", "")
_BEFORE = TITLES | frozenset("patient patients pt name initials".split())
_NEAR = 5


class InitialsIndex:
    """The initials of people, in any order: all of a name's, or the first and the last."""

    def __init__(self, people: Sequence[Person]) -> None:
        self._entries: dict[str, int] = {}
        for person in people:
            for chosen in person.initials():
                if _LEAST <= len(chosen) <= _MOST and len(person.parts) >= _LEAST:
                    self._entries.setdefault("".join(sorted(chosen)), person.entry)

    def find(self, words: Words, evidence: Collection[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
        """Yield the first word, the last word and the entry of initials that something beside them marks as a name.

        That is a title or a word for the patient before them or, for initials with full stops, a match in `evidence`
        (first and last word) at most five words away.
        """
        if not self._entries:
            return
        for first, last, dotted in initials_groups(words):
            letters = "".join(sorted("".join(words.folded[first : last + 1])))
            entry = self._entries.get(letters)
            if entry is None:
                continue
            before = words.folded[first - 1] if first and words.joined(first - 1) else ""
            near = any(first - _NEAR <= end and start <= last + _NEAR for start, end in evidence)
            if before in (_BEFORE if dotted else TITLES) or (dotted and near):
                yield first, last, entry


def initials_groups(words: Words) -> Iterator[tuple[int, int, bool]]:
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


COLUMNS = ("patient_id", "kind", "value")
_MOST_PATIENTS = 64
_LEAST_CUT, _LEAST_CUT_OF_MANY = 4, 7
_LEAST_MISREAD = 5
"""So many letters has a name that is found in pieces: a patient's own, and one of all people's."""
_MOST_AROUND = 8
"""So many matches before one are looked at for one that it lies in."""


@dataclass(frozen=True, slots=True)
class Identifier:
    """A value of the file. Where it holds for all notes, it belongs to no patient."""

    kind: Kind
    value: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Match:
    """Characters `[start, end)` where a known identifier stands; `own` where it is the patient's."""

    start: int
    end: int
    label: str
    certainty: Certainty
    own: bool


class Matcher:
    """Finds a list of identifiers, all of one patient (`own`) or all for every note, in a text."""

    def __init__(self, identifiers: Sequence[Identifier], *, labels: Collection[str], own: bool) -> None:
        self.own = own
        entries: dict[tuple[str, bool], int] = {}
        people: list[Person] = []
        strings: list[tuple[str, int]] = []
        days: list[tuple[date, int]] = []
        zips: set[str] = set()
        self._together: dict[str, int] = {}

        def entry(type: str, *, ordinary: bool = False) -> int:
            return entries.setdefault((label_for(type, labels), ordinary), len(entries))

        for identifier in identifiers:
            kind = identifier.kind
            day = read_date(identifier.value) if kind.matching is Matching.DATE else None
            if day is not None:
                days.append((day, entry(kind.type)))
                continue
            if kind.matching is Matching.NAME:
                person = Person.of(identifier.value, entry(kind.type))
                if person is not None:
                    people.append(person)
                    strings += [(form, person.entry) for form in person.written_apart()]
                    self._together.update(dict.fromkeys(person.written_together(), person.entry))
                continue
            for form, type in kind.forms(identifier.value):
                strings.append((form, entry(type, ordinary=form in ordinary_words())))
                zips.update([form] if type == "ZIP" else [])
                if form.isalpha() and (type == "CITY" or len(Words.of(identifier.value)) == 1):
                    # One word alone is found with a typing error, too.
                    people.append(Person((form,), frozenset(), entry(type)))
        self._names = NameIndex(people, own=own)
        self._initials = InitialsIndex(people if own else ())
        least = _LEAST_CUT if own else _LEAST_CUT_OF_MANY
        parts = {part: person.entry for person in people for part in person.parts if len(part) >= least}
        self._cut = StringIndex(parts.items())
        self._misread = parts | {
            form: entry for form, entry in strings if form.isdecimal() and len(form) >= _LEAST_MISREAD
        }
        self._dates = DateIndex(days)
        self._strings = StringIndex(strings, zips=zips)
        self._entries = list(entries)

    def find(self, words: Words) -> Iterator[Match]:
        """Yield the matches, which may overlap."""
        found = list(self._places(words))
        evidence = [(first, last) for first, last, _, certainty in found if certainty is not Certainty.WEAK]
        found += [(*place, Certainty.PART) for place in self._initials.find(words, evidence)]
        for first, last, entry, certainty in found:
            label, _ = self._entries[entry]
            yield Match(*words.original(first, last), label, certainty, self.own)

    def _places(self, words: Words) -> Iterator[tuple[int, int, int, Certainty]]:
        yield from self._names.find(words)
        for number, word in enumerate(words.folded):
            if word in self._together:
                yield number, number, self._together[word], Certainty.WHOLE
        for first, last, entry in self._cut.find(words):
            if last > first and _may_be_cut(words, first, last):
                yield first, last, entry, Certainty.WHOLE
        for first, last, word in words.misread():
            entry_misread = self._misread.get(word)
            if entry_misread is not None:
                yield first, last, entry_misread, Certainty.WHOLE
        for first, last, entry in self._strings.find(words):
            ordinary = self._entries[entry][1] and not words.capitalised(first)
            yield first, last, entry, Certainty.WEAK if ordinary else Certainty.WHOLE
        for first, last, entry in self._dates.find(words):
            yield first, last, entry, Certainty.WHOLE


def _may_be_cut(words: Words, first: int, last: int) -> bool:
    """Whether words that make up a name together (`Oko nkwo`) are no words of their own (`may or`)."""
    pieces = words.folded[first : last + 1]
    return not all(piece in ordinary_words() and len(piece) > 1 for piece in pieces)


def _says_as_much(one: Match, other: Match) -> bool:
    """Whether a match makes another one superfluous, which begins where it does or later."""
    return other.end <= one.end and other.certainty <= one.certainty and (one.own or not other.own)


class KnownIdentifiers:
    """The known identifiers of each patient, indexed when the patient's notes come, and those for every note."""

    def __init__(
        self,
        by_patient: dict[str, list[Identifier]],
        for_all: Sequence[Identifier] = (),
        *,
        labels: Collection[str],
        hash: str = "",
    ) -> None:
        self.hash = hash
        self._by_patient = by_patient
        self._for_all = for_all
        self._labels = labels
        self._everywhere = Matcher(for_all, labels=labels, own=False)
        self._patients: OrderedDict[str, Matcher] = OrderedDict()
        self._added: set[tuple[str, Identifier]] = set()

    @classmethod
    def read(cls, path: str | Path, *, labels: Collection[str]) -> "KnownIdentifiers":
        """Read a CSV or TSV file with the columns patient_id, kind and value; `labels` are the model's.

        Raises CorpusError, which names the file and the line and quotes no value.
        """
        file = SiteFile.read(path)
        by_patient: dict[str, list[Identifier]] = {}
        for_all: list[Identifier] = []
        for line, (named, kind_name, value) in file.rows(COLUMNS):
            patient = known_patient(named)
            kind = KINDS.get("".join(filter(str.isalnum, kind_name.casefold())))
            if kind is None:
                raise CorpusError(f"{path}:{line}: the kind is none of {', '.join(KINDS)}")
            if not patient and kind.needs_patient:
                raise CorpusError(f"{path}:{line}: this kind of identifier needs a patient_id")
            file.check_value(line, len(compacted(value)), kind.least)
            if kind.matching is Matching.NAME and Person.of(value, 0) is None:
                raise CorpusError(f"{path}:{line}: no part of the name has two letters")
            if kind.matching is Matching.DATE and read_date(value) is None:
                raise CorpusError(f"{path}:{line}: the date is not written as YYYY-MM-DD")
            (by_patient.setdefault(patient, []) if patient else for_all).append(Identifier(kind, value))
        return cls(by_patient, for_all, labels=labels, hash=file.hash)

    def copy(self) -> "KnownIdentifiers":
        """Return the same, to which others can be added."""
        by_patient = {patient: list(found) for patient, found in self._by_patient.items()}
        return KnownIdentifiers(by_patient, self._for_all, labels=self._labels, hash=self.hash)

    def add(self, patient: str, identifier: Identifier) -> None:
        if (patient, identifier) not in self._added:
            self._added.add((patient, identifier))
            self._by_patient.setdefault(patient, []).append(identifier)
            self._patients.pop(patient, None)

    def entries(self) -> Iterator[tuple[str | None, list[tuple[str, str]]]]:
        """Yield each patient with type and value of what is known; None with what holds for every note."""
        for patient, found in (None, self._for_all), *self._by_patient.items():
            yield patient, sorted((identifier.kind.type, identifier.value) for identifier in found)

    def of(self, patient: str) -> Sequence[Identifier]:
        return self._by_patient.get(patient, ())

    def has(self, patient: str | None) -> bool:
        return patient in self._by_patient

    def avoided(self, patient: str | None) -> Iterator[str]:
        """Yield a patient's known values and parts of names, which no surrogate may equal; dates are left out."""
        for identifier in () if patient is None else self._by_patient.get(patient, ()):
            if identifier.kind.matching is Matching.DATE:
                continue
            yield identifier.value
            person = Person.of(identifier.value, 0) if identifier.kind.matching is Matching.NAME else None
            yield from () if person is None else (part for part in person.parts if len(part) > 1)

    def find(self, text: str, patient: str | None) -> list[Match]:
        """Return the matches in a text of that patient, in text order; none lies inside one that tells as much."""
        words = Words.of(text)
        matches = list(self._everywhere.find(words))
        if patient is not None and self.has(patient):
            matches += self._matcher(patient).find(words)
        kept: list[Match] = []
        for match in sorted(set(matches), key=lambda m: (m.start, -m.end, -m.certainty, not m.own, m.label)):
            if not any(_says_as_much(other, match) for other in reversed(kept[-_MOST_AROUND:])):
                kept.append(match)
        return kept

    def _matcher(self, patient: str) -> Matcher:
        matcher = self._patients.pop(patient, None)
        if matcher is None:
            matcher = Matcher(self._by_patient[patient], labels=self._labels, own=True)
            if len(self._patients) >= _MOST_PATIENTS:
                self._patients.popitem(last=False)
        self._patients[patient] = matcher
        return matcher
