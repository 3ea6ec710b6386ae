"""Edits to a note's text: in the text itself, with its gold spans kept where they belong, or in how it is written."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span


class Edit(NamedTuple):
    """Replace the characters `[start, end)` by `text`; an insertion where both are equal."""

    start: int
    end: int
    text: str

    def __repr__(self) -> str:
        """Return the places alone, without text."""
        return f"Edit({self.start}, {self.end})"


def edited(text: str, edits: Iterable[Edit]) -> str:
    """Return the text with edits made, which are in order."""
    parts: list[str] = []
    position = 0
    for start, end, new in edits:
        parts += [text[position:start], new]
        position = end
    return "".join([*parts, text[position:]])


def spliced(pieces: Sequence[str], edits: Iterable[Edit], encode: Callable[[str], str]) -> str:
    """Return an encoded text with edits made in order: `pieces[i]` encodes character i, and is kept outside of them."""
    parts: list[str] = []
    position = 0
    for start, end, new in edits:
        parts += [*pieces[position:start], encode(new)]
        position = end
    return "".join([*parts, *pieces[position:]])


BETWEEN = "\n\n"
"""Between the texts that are one note, such as several columns of a row."""


def within(edits: Sequence[Edit], start: int, end: int) -> list[Edit]:
    """Return the edits of one of several texts; the new value of one that reaches over several is in the first."""
    found: list[Edit] = []
    for first, after, new in edits:
        low, high = max(first, start), min(after, end)
        if low < high:
            found.append(Edit(low - start, high - start, new if first >= start else ""))
    return found


def apply_edits(document: Document, edits: Iterable[Edit]) -> Document:
    """Return the note with all edits made; offsets of edits and spans are those of the text that came in.

    An edit inside a span becomes part of it; a span inside a deletion is dropped; an insertion at a span's edge stays
    outside. Raises ValueError for edits that overlap each other, cross the edge of a span, or replace a whole span and
    more by anything but nothing.
    """
    made = sorted(edits)
    before = 0
    for edit in made:
        if not before <= edit.start <= edit.end <= len(document.text):
            raise ValueError(f"{document.id}: edits overlap or reach outside the text")
        before = edit.end
    spans = [moved for span in document.spans if (moved := _moved(span, made)) is not None]
    return replace(document, text=edited(document.text, made), spans=tuple(spans))


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
