"""A BioC document as its XML and its JSON mean it (Comeau et al. 2013, Database bat064), and the note that it makes.

Offsets count characters (code points) from the beginning of the document, as the Python library `bioc` does. The text
of a document is its passages (or their sentences), each at its offset; what lies between two of them becomes line ends,
which is what a passage break means. An annotation's label is its infon `type`; one with several locations becomes one
span for each. Relations are ignored.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ensemble_deid.corpora.checks import Notice, ReadNote, check_span, note_with_spans
from ensemble_deid.errors import CorpusError
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span

LABEL = "type"
RESERVED = ("patient_id", "site")
_LONGEST_GAP = 10_000


@dataclass(frozen=True, slots=True)
class Annotation:
    """What one annotation says; `locations` are (offset, length), -1 where a value is no whole number."""

    place: str
    infons: Mapping[str, str] = field(repr=False)
    locations: Sequence[tuple[int, int]]
    text: str | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class Part:
    """A passage or a sentence (`kind`); `offset` is -1 where it has none."""

    place: str
    kind: str
    offset: int
    text: str = field(repr=False)
    annotations: Sequence[Callable[[], Annotation]] = field(repr=False)
    sentences: Sequence["Part"] = ()


@dataclass(frozen=True, slots=True)
class BiocDocument:
    """A document; annotations are read only where they are asked for."""

    place: str
    name: str
    infons: Mapping[str, str] = field(repr=False)
    annotations: Sequence[Callable[[], Annotation]] = field(repr=False)
    passages: Sequence[Part]


@dataclass(slots=True)
class _Reading:
    """One document while it is put together."""

    pieces: list[str] = field(default_factory=list, repr=False)
    length: int = 0
    annotations: list[Callable[[], Annotation]] = field(default_factory=list, repr=False)

    def add(self, part: Part) -> None:
        """Put a passage or sentence at its offset."""
        self.annotations += part.annotations
        if not part.text:
            for sentence in part.sentences:
                self.add(sentence)
            return
        if part.offset < self.length:
            raise CorpusError(
                f"{part.place}: a {part.kind} has no offset, or one before the end of the {part.kind} before it"
            )
        if part.offset - self.length > _LONGEST_GAP:
            raise CorpusError(f"{part.place}: more than {_LONGEST_GAP} characters are missing before this {part.kind}")
        self.pieces += ["\n" * (part.offset - self.length), part.text]
        self.length = part.offset + len(part.text)
        for sentence in part.sentences:
            self.annotations += sentence.annotations


def note_of(source: BiocDocument, *, gold: bool) -> ReadNote:
    """Return the note. Raises CorpusError for parts in the wrong order and annotations that do not fit."""
    reading = _Reading(annotations=list(source.annotations))
    for passage in source.passages:
        reading.add(passage)
    infons = dict(source.infons)
    patient, site = (infons.pop(key, None) for key in RESERVED)
    document = Document(source.name, "".join(reading.pieces), patient_id=patient, site=site, metadata=infons)
    if not gold:
        return note_with_spans(document, (), place=source.place)
    notices: Counter[Notice] = Counter()
    spans: list[Span] = []
    for read in reading.annotations:
        found = _spans(read(), document.text)
        notices[Notice.FRAGMENTS] += len(found) > 1
        spans += found
    return note_with_spans(document, spans, notices=notices, place=source.place)


def _spans(annotation: Annotation, text: str) -> list[Span]:
    place = f"{annotation.place}: an annotation"
    label = annotation.infons.get(LABEL)
    if not label:
        raise CorpusError(f"{place} has no infon '{LABEL}', which is its label")
    if not annotation.locations:
        raise CorpusError(f"{place} has no location")
    surface = annotation.text if annotation.text and len(annotation.locations) == 1 else None
    spans: list[Span] = []
    for start, length in annotation.locations:
        if start < 0 or length < 0:
            raise CorpusError(f"{place}: 'offset' and 'length' of a location must be whole numbers")
        check_span(start, start + length, text, place, surface=surface, tag="its place")
        spans.append(Span(start, start + length, label))
    return spans


def infons_of(document: Document) -> dict[str, str]:
    """Return the infons of a document: its metadata, then its patient and site."""
    infons = {key: value for key, value in sorted(document.metadata.items()) if key not in RESERVED}
    for key, value in zip(RESERVED, (document.patient_id, document.site), strict=True):
        if value is not None:
            infons[key] = value
    return infons
