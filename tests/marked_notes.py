"""Notes written by hand, with their spans in the text as `<LABEL|surface>`."""

import re

from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span

_MARK = re.compile(r"<([A-Z0-9_-]+)\|([^>]*)>")


def marked_note(marked: str, *, id: str = "n1", patient: str | None = "7") -> Document:
    """Return the note of a text with marks."""
    text, spans, cursor = "", [], 0
    for match in _MARK.finditer(marked):
        text += marked[cursor : match.start()]
        spans.append(Span(len(text), len(text) + len(match[2]), match[1]))
        text += match[2]
        cursor = match.end()
    return Document(id, text + marked[cursor:], tuple(spans), patient_id=patient)
