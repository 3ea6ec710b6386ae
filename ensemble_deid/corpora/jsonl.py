"""JSON Lines: one object per line,
`{"id", "patient_id", "site", "text", "spans": [{"start", "end", "label"}], "metadata"}`.

`id` and `text` are required. A span may have a `text` (checked), a `score` and a `source` (kept). Offsets count
characters (code points) of the decoded text.
"""

import codecs
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ensemble_deid.corpora.checks import (
    ReadNote,
    check_id,
    check_span,
    check_text,
    decode_utf8,
    note_with_spans,
    reading,
)
from ensemble_deid.errors import CorpusError
from ensemble_deid.text.document import Document
from ensemble_deid.text.span import Span


def read_jsonl_notes(path: Path, *, gold: bool = True) -> Iterator[tuple[str, ReadNote | CorpusError]]:
    """Yield (id or file:line, note or error) for each line that is not blank; one line is in memory at a time."""
    with reading(path) as stream:
        for number, line in enumerate(stream, start=1):
            place = f"{path}:{number}"
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            if not line.strip(b" \t\r\n"):
                continue
            try:
                note = _read_line(decode_utf8(line.removesuffix(b"\n"), place), place, gold)
            except CorpusError as error:
                yield place, error
            else:
                yield note.document.id, note


def _read_line(line: str, place: str, gold: bool) -> ReadNote:
    try:
        entry = json.loads(line)
    except json.JSONDecodeError as error:
        raise CorpusError(f"{place}: broken JSON at column {error.colno}: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise CorpusError(f"{place}: broken JSON ({type(error).__name__})") from None
    if not isinstance(entry, dict):
        raise CorpusError(f"{place}: expected an object, not {_kind(entry)}")
    identity, text = _string(entry, "id", place), _string(entry, "text", place)
    check_id(identity, place)
    patient, site = (None if entry.get(key) is None else _string(entry, key, place) for key in ("patient_id", "site"))
    document = Document(identity, text, patient_id=patient, site=site, metadata=_metadata(entry, place))
    if not gold:
        return note_with_spans(document, (), place=place)
    spans = [] if entry.get("spans") is None else entry["spans"]
    if not isinstance(spans, list):
        raise CorpusError(f"{place}: 'spans' must be a list, not {_kind(spans)}")
    read = [_span(item, text, f"{place}: span {i}") for i, item in enumerate(spans)]
    return note_with_spans(document, read, place=place)


def _string(entry: dict[str, Any], key: str, place: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str):
        raise CorpusError(f"{place}: '{key}' must be a string, not {_kind(value) if key in entry else 'missing'}")
    check_text(value, f"{place}: '{key}'")
    return value


def _metadata(entry: dict[str, Any], place: str) -> dict[str, str]:
    metadata = {} if entry.get("metadata") is None else entry["metadata"]
    if not isinstance(metadata, dict):
        raise CorpusError(f"{place}: 'metadata' must be an object, not {_kind(metadata)}")
    for number, (key, value) in enumerate(metadata.items(), start=1):
        # Neither is quoted: a key, too, may be anything.
        if not isinstance(value, str):
            raise CorpusError(f"{place}: value {number} of 'metadata' must be a string, not {_kind(value)}")
        check_text(key, f"{place}: key {number} of 'metadata'")
        check_text(value, f"{place}: value {number} of 'metadata'")
    return dict(metadata)


def _span(item: object, text: str, place: str) -> Span:
    if not isinstance(item, dict):
        raise CorpusError(f"{place}: expected an object, not {_kind(item)}")
    for key in ("start", "end"):
        if type(item.get(key)) is not int:
            raise CorpusError(f"{place}: '{key}' must be an integer, not {_kind(item.get(key))}")
    label = _string(item, "label", place)
    source = _string(item, "source", place) if "source" in item else ""
    surface = _string(item, "text", place) if item.get("text") is not None else None
    score = item.get("score", 1.0)
    if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1:
        raise CorpusError(f"{place}: 'score' must be a number from 0 to 1")
    if not label:
        raise CorpusError(f"{place}: 'label' is empty")
    check_span(item["start"], item["end"], text, place, surface=surface, tag="its place")
    return Span(item["start"], item["end"], label, float(score), source)


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def render_jsonl_note(document: Document) -> str:
    """Return the note as one line including its newline; default scores and empty sources are left out."""
    check_text(document.text, f"note {document.id}")
    entry: dict[str, Any] = {"id": document.id, "patient_id": document.patient_id, "text": document.text}
    entry["spans"] = [_render_span(span) for span in sorted(document.spans)]
    if document.site is not None:
        entry["site"] = document.site
    if document.metadata:
        entry["metadata"] = dict(sorted(document.metadata.items()))
    return json.dumps(entry, ensure_ascii=False) + "\n"


def _render_span(span: Span) -> dict[str, object]:
    entry: dict[str, object] = {"start": span.start, "end": span.end, "label": span.label}
    if span.score != 1.0:
        entry["score"] = span.score
    if span.source:
        entry["source"] = span.source
    return entry
