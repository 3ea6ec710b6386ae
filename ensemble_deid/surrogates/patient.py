"""The surrogates of one patient: a replacement for all PHI in the patient's notes, equal PHI replaced alike."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ensemble_deid.note.document import Document
from ensemble_deid.note.labels import I2B2_TYPES, MEDDOCAN_TO_I2B2, to_i2b2
from ensemble_deid.note.span import Span
from ensemble_deid.seeds import generator
from ensemble_deid.surrogates.ages import AgeShift
from ensemble_deid.surrogates.codes import CodeMap
from ensemble_deid.surrogates.dates import DateShift, latest_year
from ensemble_deid.surrogates.letters import fold, match_case
from ensemble_deid.surrogates.persons import PersonMap
from ensemble_deid.surrogates.places import PlaceMap
from ensemble_deid.surrogates.source import ENGLISH_ORIGINS, SPANISH_ORIGINS, ValueSource
from ensemble_deid.surrogates.web import WebMap

_BEFORE = 12
_PLACES = ("HOSPITAL", "ORGANIZATION", "STREET", "CITY", "STATE", "COUNTRY", "LOCATION-OTHER")
_PEOPLE = ("PATIENT", "DOCTOR")


@dataclass(frozen=True, slots=True)
class Origins:
    """Faker locales: `home` for places, streets and occupations, `names` for people."""

    home: str
    names: tuple[str, ...]


ENGLISH = Origins("en_US", ENGLISH_ORIGINS)
SPANISH = Origins("es_ES", SPANISH_ORIGINS)


def origins_of(notes: Iterable[Document]) -> Origins:
    """Return `SPANISH` for notes with MEDDOCAN labels, else `ENGLISH`."""
    own = set(MEDDOCAN_TO_I2B2) - set(I2B2_TYPES)
    return SPANISH if any(span.label in own for note in notes for span in note.spans) else ENGLISH


def kind_of(label: str) -> str:
    """Return the i2b2 type that decides how a span is replaced, or the label itself if it is of no known scheme."""
    return to_i2b2(label) or label


def values_by_label(notes: Iterable[Document]) -> dict[str, tuple[str, ...]]:
    """Return all strings of each label, repeated as often as they occur, so that frequent ones are drawn often."""
    values: dict[str, list[str]] = {}
    for note in notes:
        for span in note.spans:
            values.setdefault(span.label, []).append(note.text[span.start : span.end])
    return {label: tuple(sorted(strings)) for label, strings in values.items() if len(set(map(fold, strings))) > 1}


class PatientSurrogates:
    """Makes the surrogates of one patient's notes.

    `shared` has the strings of each label from which values without a format of their own are drawn
    (`values_by_label`); `name` and `seed` determine the random values; `day_first` means that dates are written 14/5.
    Raises ConfigError when Faker is missing or lacks a locale.
    """

    def __init__(
        self,
        notes: Sequence[Document],
        origins: Origins,
        shared: Mapping[str, tuple[str, ...]],
        name: str,
        *,
        seed: int,
        day_first: bool,
    ) -> None:
        self._shared = shared
        self._source = ValueSource(generator(seed, name), home=origins.home, origins=origins.names)
        self._dates = DateShift(generator(seed, f"{name} dates"), day_first=day_first)
        self._ages = AgeShift(generator(seed, f"{name} ages"))
        self._codes = CodeMap(generator(seed, f"{name} codes"))
        surfaces = [
            (kind_of(span.label), note.text[span.start : span.end]) for note in notes for span in sorted(note.spans)
        ]
        self._persons = PersonMap(self._source, [surface for kind, surface in surfaces if kind in _PEOPLE])
        self._places = PlaceMap(self._source, self._codes, [surface for kind, surface in surfaces if kind in _PLACES])
        self._web = WebMap(self._source, self._persons, self._codes)
        self._jobs: dict[str, str] = {}
        self._others: dict[tuple[str, str], str] = {}

    def rewrite(self, note: Document) -> Document:
        """Return the note with surrogates, and spans with adjusted offsets; the note's spans must not overlap."""
        year = latest_year(note.text[span.start : span.end] for span in note.spans if kind_of(span.label) == "DATE")
        pieces: list[str] = []
        spans: list[Span] = []
        length = cursor = 0
        for span in sorted(note.spans):
            between, value = note.text[cursor : span.start], self._value(note.text, span, year)
            start = length + len(between)
            pieces += (between, value)
            length = start + len(value)
            spans.append(replace(span, start=start, end=length))
            cursor = span.end
        pieces.append(note.text[cursor:])
        return replace(note, text="".join(pieces), spans=tuple(spans))

    def _value(self, text: str, span: Span, year: int) -> str:
        surface, kind = text[span.start : span.end], kind_of(span.label)
        if kind in _PEOPLE:
            before = text[max(0, span.start - _BEFORE) : span.start]
            value = self._persons.replace(surface, before=before, formal=kind == "DOCTOR")
        elif kind in _PLACES:
            value = self._places.replace(surface, kind)
        elif kind == "DATE":
            value = self._dates.replace(surface, year=year)
        elif kind == "AGE":
            value = self._ages.replace(surface, following=text[span.end : span.end + 1])
            value = value if value != surface else self._other(surface, span.label)
        elif kind == "PROFESSION":
            value = self._job(surface)
        elif kind == "EMAIL":
            value = self._web.email(surface)
        elif kind == "URL":
            value = self._web.url(surface)
        elif kind == "USERNAME":
            value = self._web.handle(surface)
        elif kind == "OTHER":
            value = self._other(surface, span.label)
        else:
            value = self._codes.replace(surface, kind)
        return value if value != surface else self._codes.replace(surface, "IDNUM")

    def _other(self, surface: str, label: str) -> str:
        if label not in self._shared:
            return surface
        key = (label, fold(surface))
        if key not in self._others:
            self._others[key] = self._source.pick(self._shared[label], surface)
        return match_case(surface, self._others[key])

    def _job(self, surface: str) -> str:
        key = " ".join(surface.casefold().split())
        if key not in self._jobs:
            self._jobs[key] = self._source.job(surface)
        value = self._jobs[key]
        return match_case(surface, value.capitalize() if surface[0].isupper() else value)
