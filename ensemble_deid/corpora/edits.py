"""Edit a note's text and keep its gold spans where they belong."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from ensemble_deid.text.document import Document
from ensemble_deid.text.span import Span


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """Replace the characters `[start, end)` by `text`; an insertion where both are equal."""

    start: int
    end: int
    text: str = field(repr=False)


def apply_edits(document: Document, edits: Iterable[Edit]) -> Document:
    """Return the note with all edits made; offsets of edits and spans are those of the text that came in.

    An edit inside a span becomes part of it; a span inside a deletion is dropped; an insertion at a span's edge stays
    outside. Raises ValueError for edits that overlap each other, cross the edge of a span, or replace a whole span and
    more by anything but nothing.
    """
    made = sorted(edits)
    pieces: list[str] = []
    before = 0
    for edit in made:
        if not before <= edit.start <= edit.end <= len(document.text):
            raise ValueError(f"{document.id}: edits overlap or reach outside the text")
        pieces += [document.text[before : edit.start], edit.text]
        before = edit.end
    pieces.append(document.text[before:])
    spans = [moved for span in document.spans if (moved := _moved(span, made)) is not None]
    return replace(document, text="".join(pieces), spans=tuple(spans))


def _moved(span: Span, edits: list[Edit]) -> Span | None:
    start, end = span.start, span.end
    for edit in edits:
        grown = len(edit.text) - (edit.end - edit.start)
        if edit.end <= span.start:
            start += grown
            end += grown
        elif edit.start >= span.end:
            break
        elif span.start <= edit.start and edit.end <= span.end:
            end += grown
        elif edit.start <= span.start and span.end <= edit.end and not edit.text:
            return None
        else:
            raise ValueError(f"an edit crosses the edge of the span {span.start}-{span.end} ({span.label})")
    return replace(span, start=start, end=end) if end > start else None
