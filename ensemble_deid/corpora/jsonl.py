"""JSON Lines: one object per line,
`{"id", "patient_id", "site", "text", "spans": [{"start", "end", "label"}], "metadata"}`.

`id` and `text` are required, and no other keys are possible: a mistyped `patient` would leave every note a patient of
its own. A span may have a `text` (checked), a `score` and a `source` (kept). Offsets count
characters (code points) of the decoded text.
"""

import codecs
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from ensemble_deid.corpora.checks import (
    ReadNote,
    ReadOutcome,
    check_id,
    check_text,
    checked_span,
    decode_utf8,
    note_with_spans,
    outcomes,
    reading,
)
from ensemble_deid.corpora.json_fields import (
    integer_field,
    list_field,
    metadata_field,
    object_of,
    optional_string,
    parse_json,
    refuse_unknown_keys,
    string_field,
)
from ensemble_deid.errors import CorpusError
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span

FIELDS = ("id", "patient_id", "site", "text", "spans", "metadata")
_SPAN_FIELDS = ("start", "end", "label", "text", "score", "source")


def read_jsonl_notes(path: Path, *, gold: bool = True) -> Iterator[ReadOutcome]:
    """Yield (id or file:line, note or error) for each line that is not blank; one line is in memory at a time."""
    return outcomes((place, partial(_read_line, line, place, gold)) for line, place in lines_of(path))


def lines_of(path: Path) -> Iterator[tuple[bytes, str]]:
    """Yield each line that is not blank, without its end and a byte order mark, and its place."""
    with reading(path) as stream:
        for number, line in enumerate(stream, start=1):
            content = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
            if content.strip(b" \t\r\n"):
                yield content.removesuffix(b"\n"), f"{path}:{number}"


def _read_line(line: bytes, place: str, gold: bool) -> ReadNote:
    entry = object_of(parse_json(decode_utf8(line, place), place), place)
    refuse_unknown_keys(entry, FIELDS, place)
    identity, text = string_field(entry, "id", place), string_field(entry, "text", place)
    check_id(identity, place)
    patient, site = (optional_string(entry, key, place) for key in ("patient_id", "site"))
    document = Document(identity, text, patient_id=patient, site=site, metadata=metadata_field(entry, place))
    if not gold:
        return note_with_spans(document, (), place=place)
    spans = list_field(entry, "spans", place)
    read = [span_of_json(item, text, f"{place}: span {i}") for i, item in enumerate(spans)]
    return note_with_spans(document, read, place=place)


def span_of_json(item: object, text: str, place: str) -> Span:
    """Return the span that an object of JSON says. Raises CorpusError naming the place."""
    item = object_of(item, place)
    refuse_unknown_keys(item, _SPAN_FIELDS, place)
    start, end = integer_field(item, "start", place), integer_field(item, "end", place)
    label = string_field(item, "label", place)
    source = string_field(item, "source", place) if "source" in item else ""
    surface = optional_string(item, "text", place)
    score = item.get("score", 1.0)
    if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1:
        raise CorpusError(f"{place}: 'score' must be a number from 0 to 1")
    if not label:
        raise CorpusError(f"{place}: 'label' is empty")
    checked_span(start, end, label, text, place, surface=surface)
    return Span(start, end, label, float(score), source)


def render_jsonl_note(document: Document) -> str:
    """Return the note as one line including its newline; default scores and empty sources are left out."""
    check_text(document.text, f"note {document.id}")
    entry: dict[str, Any] = {"id": document.id, "patient_id": document.patient_id, "text": document.text}
    entry["spans"] = [
        {"start": span.start, "end": span.end, "label": span.label}
        | ({} if span.score == 1.0 else {"score": span.score})
        | ({"source": span.source} if span.source else {})
        for span in sorted(document.spans)
    ]
    if document.site is not None:
        entry["site"] = document.site
    if document.metadata:
        entry["metadata"] = dict(sorted(document.metadata.items()))
    return json.dumps(entry, ensure_ascii=False) + "\n"
