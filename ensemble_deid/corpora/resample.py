"""Enlarge a corpus, for training only, with copies in which surrogates replace all PHI; gold offsets follow.

The surrogates are those of the output (`surrogates/`), under a throwaway key made from the seed, and are consistent
within a patient and copy.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from ensemble_deid.corpora.edits import Edit, apply_edits
from ensemble_deid.errors import ConfigError
from ensemble_deid.note.document import Document
from ensemble_deid.note.folding import fold, match_case, without_marks
from ensemble_deid.note.overlaps import join_overlaps
from ensemble_deid.note.span import Span
from ensemble_deid.surrogates.choices import Keyed
from ensemble_deid.surrogates.date_forms import is_day_first
from ensemble_deid.surrogates.patient import PatientSurrogates, SurrogateSettings, is_spanish, kind_of

_LETTERS = re.compile(r"[^\W\d_]+")
_DIGIT = re.compile(r"\d")


def resample_corpus(documents: Sequence[Document], *, copies: int, seed: int) -> list[Document]:
    """Return `copies` resampled copies of the notes, copy by copy in the order given, without the originals.

    Copy c of note `101-01` is called `101-01-c<c>` and has the same patient. A corpus with MEDDOCAN labels is taken to
    be Spanish, any other English. Overlapping spans are replaced as one, with the label of the longest. What has no
    surrogate (the type OTHER, an age) is replaced by another value of the same label and form from the corpus. Raises
    ConfigError if `copies` is below one.
    """
    if copies < 1:
        raise ConfigError(f"copies must be at least 1, not {copies}")
    notes = [document.with_spans(_joined(document.spans)) for document in documents]
    corpus = _CorpusValues.of(notes)
    by_patient = sorted(range(len(notes)), key=lambda index: notes[index].group)
    result: list[Document] = []
    for copy in range(1, copies + 1):
        secret = hashlib.sha256(f"ensemble_deid resample, seed {seed}, copy {copy}".encode()).digest()
        fresh: dict[int, Document] = {}
        for patient, group in groupby(by_patient, key=lambda index: notes[index].group):
            own = {index: notes[index] for index in group}
            values = _PatientCopy.of(own.values(), corpus, Keyed(secret, ("resample", patient)))
            for index, note in own.items():
                metadata, name = {**note.metadata, "copy": str(copy)}, f"{note.id}-c{copy}"
                fresh[index] = replace(values.rewrite(note), id=name, patient_id=patient, metadata=metadata)
        result += [fresh[index] for index in range(len(notes))]
    return result


@dataclass(frozen=True, slots=True)
class _CorpusValues:
    """A corpus's language, its order of day and month, and its strings by label and form.

    A string is repeated as often as it occurs, so that frequent ones are drawn often.
    """

    spanish: bool
    day_first: bool
    by_form: dict[tuple[str, str], list[str]] = field(repr=False)

    @classmethod
    def of(cls, notes: Iterable[Document]) -> "_CorpusValues":
        strings = sorted((span.label, _surface(note, span)) for note in notes for span in note.spans)
        spanish = any(is_spanish(label) for label, _ in strings)
        dates = (surface for label, surface in strings if kind_of(label, surface) == "DATE")
        by_form: dict[tuple[str, str], list[str]] = {}
        for label, surface in strings:
            for form in (_form(surface), ""):
                by_form.setdefault((label, form), []).append(surface)
        return cls(spanish, spanish or is_day_first(dates), by_form)

    def other(self, surface: str, label: str, keyed: Keyed, *, same_form: bool) -> str | None:
        """Return another string of the label, of the same form where there is one; None where there is no other."""
        for form in (_form(surface),) if same_form else (_form(surface), ""):
            values = self.by_form[label, form]
            value = keyed.pick(values, "other", label, fold(surface), fits=lambda v: fold(v) != fold(surface))
            if value is not None:
                return match_case(surface, value)
        return None


@dataclass(frozen=True, slots=True)
class _PatientCopy:
    """Rewrites one patient's notes."""

    corpus: _CorpusValues
    keyed: Keyed
    surrogates: PatientSurrogates

    @classmethod
    def of(cls, notes: Iterable[Document], corpus: _CorpusValues, keyed: Keyed) -> "_PatientCopy":
        known = frozenset(" ".join(_surface(n, span).casefold().split()) for n in notes for span in n.spans)
        settings = SurrogateSettings(day_first=corpus.day_first)
        scope = (keyed.scope[0], keyed.scope[1])
        return cls(corpus, keyed, PatientSurrogates(keyed.secret, scope, settings, known, corpus.spanish))

    def rewrite(self, note: Document) -> Document:
        """Return the note with surrogates, and spans with adjusted offsets; the note's spans must not overlap."""
        dates = [_surface(note, span) for span in note.spans if kind_of(span.label, "") == "DATE"]
        year = self.surrogates.latest_year(map(without_marks, dates)) or self.surrogates.year
        return apply_edits(note, [Edit(s.start, s.end, self._value(note, s, year)) for s in sorted(note.spans)])

    def _value(self, note: Document, span: Span, year: int) -> str:
        surface = _surface(note, span)
        kind = kind_of(span.label, surface)
        value = None
        if kind == "DATE":
            # A copy for training has no reader from whom a birth date would have to be hidden.
            value = self.surrogates.dates.shift(without_marks(surface), year=year)
        elif kind != "AGE":
            value = self.surrogates.value(note.text, span.start, span.end, span.label)
        value = value or self.corpus.other(surface, span.label, self.keyed, same_form=kind == "AGE")
        if value is None and kind != "AGE":
            value = self.surrogates.value(note.text, span.start, span.end, "IDNUM")
        return value or surface


def _surface(note: Document, span: Span) -> str:
    return note.text[span.start : span.end]


def _form(surface: str) -> str:
    """Return a string with its words and digits made alike: `45 y.o.` has the form of `67 y.o.`."""
    return _DIGIT.sub("0", _LETTERS.sub("a", surface))


def _joined(spans: Sequence[Span]) -> list[Span]:
    """Return one span for each group of overlapping ones, with the label of the longest."""
    return join_overlaps(sorted(spans), prefer=lambda span: span.end - span.start)
