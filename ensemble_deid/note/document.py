"""A note with its annotations. Its text and metadata are kept out of reprs, logs and error messages."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from ensemble_deid.note.span import Span


def _no_metadata() -> Mapping[str, str]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Document:
    """One clinical note: its text as the reader defines it, and spans whose offsets refer to that text.

    `patient_id` groups the notes of one patient; a note whose patient is unknown (None) forms its own group. `site`
    identifies the institution that wrote the note (None if unknown); all notes of a patient have the same site.
    `fold_group` names a larger group than the patient that folds keep together (see `grouped_by_site`).
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
    metadata: Mapping[str, str] = field(default_factory=_no_metadata, hash=False, repr=False)
    site: str | None = None
    fold_group: str | None = None

    def __post_init__(self) -> None:
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

    def with_spans(self, spans: Iterable[Span]) -> "Document":
        """Return the same note with other annotations."""
        return replace(self, spans=tuple(spans))


def grouped_by_site(documents: Iterable[Document]) -> list[Document]:
    """Return the notes with their site as the group that folds keep together; a note of unknown site keeps its own."""
    return [
        replace(document, fold_group=None if document.site is None else f"site {document.site}")
        for document in documents
    ]
