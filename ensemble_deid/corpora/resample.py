"""Enlarge a corpus: the same notes with every PHI replaced by a fresh value of the same form, gold offsets rewritten.

Within a patient (and copy) the values are consistent: a person keeps one name in full, in part and as initials; all
dates move by one number of days; a number keeps its replacement however it is punctuated. No span keeps its string.
Meant for training only: whether it helps is chosen on the development notes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from ensemble_deid.corpora.resampling.ages import AgeShift
from ensemble_deid.corpora.resampling.codes import CodeMap
from ensemble_deid.corpora.resampling.dates import DateShift, is_day_first, latest_year
from ensemble_deid.corpora.resampling.letters import fold, match_case
from ensemble_deid.corpora.resampling.persons import PersonMap
from ensemble_deid.corpora.resampling.places import PlaceMap
from ensemble_deid.corpora.resampling.source import ENGLISH_ORIGINS, SPANISH_ORIGINS, ValueSource
from ensemble_deid.corpora.resampling.web import WebMap
from ensemble_deid.errors import ConfigError
from ensemble_deid.phi.maps import MEDDOCAN_TO_I2B2, to_i2b2
from ensemble_deid.phi.taxonomy import I2B2_TYPES
from ensemble_deid.seeding import generator
from ensemble_deid.text.document import Document
from ensemble_deid.text.span import Span

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


def resample_corpus(
    documents: Sequence[Document], *, copies: int, seed: int, origins: Origins | None = None
) -> list[Document]:
    """Return `copies` resampled copies of the notes, copy by copy in the order given; the originals are not in it.

    The copy c of note `101-01` is called `101-01-c<c>` and stays with its patient, so that folds keep them together.
    Without `origins`, a corpus with MEDDOCAN labels is taken as Spanish, any other as English. Overlapping spans are
    replaced as one (the longest gives the label). What has no form of its own (the type OTHER, an age told without a
    number) gets another value of its label from the corpus. The result depends on notes, seed and the version of Faker
    alone. Raises ConfigError when `copies` is below one or Faker is missing.
    """
    if copies < 1:
        raise ConfigError(f"copies must be at least 1, not {copies}")
    notes = [document.with_spans(_merged(document.spans)) for document in documents]
    chosen = origins or _guess_origins(notes)
    day_first = is_day_first(
        note.text[span.start : span.end] for note in notes for span in note.spans if _kind(span.label) == "DATE"
    )
    shared = _values_by_label(notes)
    order = {id(note): index for index, note in enumerate(notes)}
    by_patient = sorted(notes, key=lambda note: (note.group, order[id(note)]))
    result: list[Document] = []
    for copy in range(1, copies + 1):
        fresh: dict[int, Document] = {}
        for patient, group in groupby(by_patient, key=lambda note: note.group):
            own = list(group)
            values = _PatientValues(own, chosen, shared, f"resample {patient} {copy}", seed=seed, day_first=day_first)
            for note in own:
                fresh[order[id(note)]] = _copy(values.rewrite(note), patient, copy)
        result += [fresh[index] for index in range(len(notes))]
    return result


def _copy(note: Document, patient: str, copy: int) -> Document:
    metadata = {**note.metadata, "copy": str(copy)}
    return replace(note, id=f"{note.id}-c{copy}", patient_id=patient, metadata=metadata)


def _guess_origins(notes: Sequence[Document]) -> Origins:
    own = set(MEDDOCAN_TO_I2B2) - set(I2B2_TYPES)
    return SPANISH if any(span.label in own for note in notes for span in note.spans) else ENGLISH


def _kind(label: str) -> str:
    """Return the i2b2 type by which a span is replaced; labels of no known scheme count as numbers or words."""
    return to_i2b2(label) or label


def _merged(spans: Sequence[Span]) -> list[Span]:
    """Return the spans with every run of overlapping ones made into one that covers them."""
    merged: list[Span] = []
    longest: list[Span] = []
    for span in sorted(spans):
        if merged and span.start < merged[-1].end:
            longest[-1] = max(longest[-1], span, key=lambda s: s.end - s.start)
            end = max(merged[-1].end, span.end)
            merged[-1] = replace(merged[-1], end=end, label=longest[-1].label)
        else:
            merged.append(span)
            longest.append(span)
    return merged


def _values_by_label(notes: Sequence[Document]) -> dict[str, tuple[str, ...]]:
    """Return every string of a label as often as it occurs, so that common ones are drawn often."""
    values: dict[str, list[str]] = {}
    for note in notes:
        for span in note.spans:
            values.setdefault(span.label, []).append(note.text[span.start : span.end])
    return {label: tuple(sorted(strings)) for label, strings in values.items() if len(set(map(fold, strings))) > 1}


class _PatientValues:
    """Everything that one patient's notes get in one copy."""

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
            (_kind(span.label), note.text[span.start : span.end]) for note in notes for span in sorted(note.spans)
        ]
        self._persons = PersonMap(self._source, [surface for kind, surface in surfaces if kind in _PEOPLE])
        self._places = PlaceMap(self._source, self._codes, [surface for kind, surface in surfaces if kind in _PLACES])
        self._web = WebMap(self._source, self._persons, self._codes)
        self._jobs: dict[str, str] = {}
        self._others: dict[tuple[str, str], str] = {}

    def rewrite(self, note: Document) -> Document:
        """Return the note with fresh values and the spans where they now stand."""
        year = latest_year(note.text[span.start : span.end] for span in note.spans if _kind(span.label) == "DATE")
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
        surface, kind = text[span.start : span.end], _kind(span.label)
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
