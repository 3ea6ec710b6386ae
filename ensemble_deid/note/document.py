"""A note with its annotations. Its text and metadata are kept out of reprs, logs and error messages."""

import hashlib
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from ensemble_deid.errors import CorpusError
from ensemble_deid.note.span import Span

# Without case, punctuation and blanks: `<NA>`, `n/a` and `N.A.` are `na`.
_NOBODY = frozenset(
    "null none nil nan nat na notavailable notapplicable notknown notrecorded unknown unk undefined unspecified "
    "missing nopatient noid nomrn tbd desconocido desconocida ninguno ninguna sindatos noconsta".split()
)


def known_patient(value: str | None) -> str | None:
    """Return a patient's id or FHIR reference as given; None for a placeholder: `NULL`, `n/a`, `unknown`, `-`, `0`."""
    if value is None:
        return None
    name = value.strip().casefold().removeprefix("patient/")
    letters = "".join(filter(str.isalnum, name))
    return None if not letters.strip("0") or letters in _NOBODY or name in ("-1", "\\n") else value


def is_missing(value: object) -> bool:
    """Whether a cell of pandas is empty: None, NaN or NA."""
    is_nan = isinstance(value, float) and value != value
    return value is None or is_nan or type(value).__name__ in ("NAType", "NaTType")


def patient_text(value: Hashable) -> str | None:
    """Return a patient of any hashable type as text, None for None; 7, 7.0 and "7" are one patient.

    Raises CorpusError for NaN, and for an object without a text form of its own, which would differ in every run.
    """
    if value is None or isinstance(value, str):
        return value
    if is_missing(value):
        raise CorpusError("the patient is NaN, a missing value: give None for a note of nobody")
    kind = type(value)
    if not isinstance(value, Hashable) or (kind.__str__, kind.__repr__) == (object.__str__, object.__repr__):
        raise CorpusError(f"a patient of the type {kind.__name__}: give what can be hashed, and written as text")
    # A column of integers with gaps is one of floats in pandas.
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


@dataclass(frozen=True, slots=True)
class Document:
    """One clinical note: its text as the reader defines it, and spans whose offsets refer to that text.

    `patient_id` groups the notes of one patient; a note whose patient is unknown forms its own group: there it is None,
    also where a placeholder such as `NULL` was given (`known_patient`). `site`
    identifies the institution that wrote the note (None if unknown); all notes of a patient have the same site.
    `fold_group` names a larger group than the patient that folds keep together (see `grouped_by_site`). `given` has
    the spans of other systems that are members of the stack, by their names (`taggers/given.py`).
    Raises ValueError if a span extends beyond the text.

    >>> from ensemble_deid import Document, Span
    >>> note = Document("note-1", "Date: 03/04/2019", (Span(6, 16, "DATE"),), patient_id="7")
    >>> note.group, note.text[6:16], "Date" in repr(note)
    ('7', '03/04/2019', False)
    """

    id: str
    text: str = field(repr=False)
    spans: tuple[Span, ...] = ()
    patient_id: str | None = None
    metadata: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), hash=False, repr=False)
    site: str | None = None
    fold_group: str | None = None
    given: Mapping[str, tuple[Span, ...]] = field(default_factory=lambda: MappingProxyType({}), hash=False, repr=False)

    def __post_init__(self) -> None:
        if self.patient_id is not None and known_patient(self.patient_id) is None:
            object.__setattr__(self, "patient_id", None)
        for span in self.spans:
            if span.end > len(self.text):
                raise ValueError(
                    f"document {self.id}: the span {span.start}-{span.end} ({span.label}) reaches outside "
                    f"the text of {len(self.text)} characters"
                )

    @property
    def group(self) -> str:
        """The `fold_group`, else the patient's id, else the note's own; folds and resamples keep a group together."""
        if self.fold_group is not None:
            return self.fold_group
        return self.patient_id if self.patient_id is not None else self.id

    @property
    def patient(self) -> str:
        """The patient's id, the note's own where the patient is unknown."""
        return self.patient_id if self.patient_id is not None else self.id

    @property
    def is_copy(self) -> bool:
        """Whether the note is a changed copy of another note of the patient, made for training."""
        return "copy" in self.metadata

    def with_spans(self, spans: Iterable[Span]) -> "Document":
        """Return the same note with other annotations."""
        return replace(self, spans=tuple(spans))


def grouped_by_site(documents: Iterable[Document]) -> list[Document]:
    """Return the notes with their site as the group that folds keep together; a note of unknown site keeps its own."""
    return [
        replace(document, fold_group=None if document.site is None else f"site {document.site}")
        for document in documents
    ]


def patient_of(patient: str | None, text: str) -> str:
    """Return the patient on whom a note's surrogates depend; a note without one gets an id made from its text."""
    if patient is not None:
        return patient
    return f"sha256 {hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"
