"""Doccano's JSONL for sequence labelling: `{"id", "text", "label": [[start, end, "LABEL"], ...]}`, one note a line.

With relations, Doccano exports `"entities": [{"start_offset", "end_offset", "label"}]` instead, which is read, too.
Offsets are UTF-16 code units, since Doccano counts as its JavaScript editor does (its issue 2290), unless a project
counts grapheme clusters: nothing in the file says so. The ids in the file are Doccano's own numbers; ours is in
`note_id`, which Doccano keeps as metadata and hands back.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ensemble_deid.corpora.checks import ReadNote, check_span, check_text, note_with_spans
from ensemble_deid.corpora.json_fields import (
    Utf16Offsets,
    integer_field,
    json_kind,
    list_field,
    note_fields,
    note_of_fields,
    object_of,
    parse_json,
    string_field,
)
from ensemble_deid.corpora.jsonl import lines_of
from ensemble_deid.errors import CorpusError
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span

LABEL_FIELDS = ("label", "labels", "entities")


def read_doccano_notes(path: Path, *, gold: bool = True) -> Iterator[tuple[str, ReadNote | CorpusError]]:
    """Yield (id or file:line, note or error) for each line that is not blank."""
    for line, place in lines_of(path):
        try:
            if isinstance(line, CorpusError):
                raise line
            note = _read_line(line, place, path.stem, gold)
        except CorpusError as error:
            yield place, error
        else:
            yield note.document.id, note


def _read_line(line: str, place: str, stem: str, gold: bool) -> ReadNote:
    entry = object_of(parse_json(line, place), place)
    text = string_field(entry, "text", place)
    number = entry.get("id")
    own = str(number) if isinstance(number, int | str) else place.rpartition(":")[2]
    document = note_of_fields(entry, text, f"{stem}-{own}", place)
    if not gold:
        return note_with_spans(document, (), place=place)
    field = next((name for name in LABEL_FIELDS if name in entry), None)
    if field is None:
        raise CorpusError(f"{place}: there is no 'label' (an empty list says that the note has no PHI)")
    offsets = Utf16Offsets(text)
    items = list_field(entry, field, place)
    spans = [_span(item, text, offsets, f"{place}: {field} {number}") for number, item in enumerate(items)]
    return note_with_spans(document, spans, place=place)


def _span(item: object, text: str, offsets: Utf16Offsets, place: str) -> Span:
    if isinstance(item, list):
        if len(item) != 3:
            raise CorpusError(f"{place}: expected [start, end, label], not a list of {len(item)}")
        values: dict[str, Any] = dict(zip(("start_offset", "end_offset", "label"), item, strict=True))
    elif isinstance(item, dict):
        values = item
    else:
        raise CorpusError(f"{place}: expected [start, end, label], not {json_kind(item)}")
    units = (integer_field(values, "start_offset", place), integer_field(values, "end_offset", place))
    label = string_field(values, "label", place)
    if not label:
        raise CorpusError(f"{place}: the label is empty")
    start, end = (offsets.to_points(unit) for unit in units)
    if start is None or end is None:
        raise CorpusError(f"{place}: {units[0]}-{units[1]} (in UTF-16 units) do not lie between characters of the text")
    check_span(start, end, text, place, tag="its place")
    return Span(start, end, label)


def render_doccano_note(document: Document) -> str:
    """Return the note as one line including its newline; scores and sources are left out."""
    check_text(document.text, f"note {document.id}")
    offsets = Utf16Offsets(document.text)
    labels = [[offsets.to_units(span.start), offsets.to_units(span.end), span.label] for span in sorted(document.spans)]
    entry = {"text": document.text, "label": labels, **note_fields(document)}
    return json.dumps(entry, ensure_ascii=False) + "\n"
