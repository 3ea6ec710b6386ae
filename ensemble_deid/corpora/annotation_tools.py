"""JSON of annotation tools: Doccano's lines and Label Studio's tasks.

The ids in a file are the tool's own numbers; ours is in the metadata entry `note_id`, which both tools preserve.
"""

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from ensemble_deid.corpora.checks import (
    ReadNote,
    ReadOutcome,
    check_text,
    checked_span,
    decode_utf8,
    note_with_spans,
    outcomes,
    read_utf8,
)
from ensemble_deid.corpora.json_fields import (
    Utf16Offsets,
    integer_field,
    json_kind,
    list_field,
    note_fields,
    note_of_fields,
    object_of,
    optional_string,
    parse_json,
    string_field,
)
from ensemble_deid.corpora.jsonl import lines_of
from ensemble_deid.errors import CorpusError
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span

# Doccano's JSONL for sequence labelling: `{"id", "text", "label": [[start, end, "LABEL"], ...]}`, one note a line.
#
# With relations, Doccano exports `"entities": [{"start_offset", "end_offset", "label"}]` instead, which is read, too.
# Offsets are UTF-16 code units, since Doccano counts as its JavaScript editor does (its issue 2290), unless a project
# counts grapheme clusters: nothing in the file says so.

LABEL_FIELDS = ("label", "labels", "entities")


def read_doccano_notes(path: Path, *, gold: bool = True) -> Iterator[ReadOutcome]:
    """Yield (id or file:line, note or error) for each line that is not blank."""
    return outcomes((place, partial(_read_line, line, place, path.stem, gold)) for line, place in lines_of(path))


def _read_line(line: bytes, place: str, stem: str, gold: bool) -> ReadNote:
    entry = object_of(parse_json(decode_utf8(line, place), place), place)
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
    spans = [_doccano_span(item, text, offsets, f"{place}: {field} {number}") for number, item in enumerate(items)]
    return note_with_spans(document, spans, place=place)


def _doccano_span(item: object, text: str, offsets: Utf16Offsets, place: str) -> Span:
    if isinstance(item, list) and len(item) == 3:
        item = dict(zip(("start_offset", "end_offset", "label"), item, strict=True))
    if not isinstance(item, dict):
        kind = f"a list of {len(item)}" if isinstance(item, list) else json_kind(item)
        raise CorpusError(f"{place}: expected [start, end, label], not {kind}")
    values: dict[str, Any] = item
    units = (integer_field(values, "start_offset", place), integer_field(values, "end_offset", place))
    label = string_field(values, "label", place)
    if not label:
        raise CorpusError(f"{place}: the label is empty")
    start, end = (offsets.to_points(unit) for unit in units)
    if start is None or end is None:
        raise CorpusError(
            f"{place}: {units[0]}-{units[1]} (in UTF-16 units) do not fall between characters of the text"
        )
    return checked_span(start, end, label, text, place)


def render_doccano_note(document: Document) -> str:
    """Return the note as one line including its newline; scores and sources are left out."""
    check_text(document.text, f"note {document.id}")
    offsets = Utf16Offsets(document.text)
    labels = [[offsets.to_units(span.start), offsets.to_units(span.end), span.label] for span in sorted(document.spans)]
    entry = {"text": document.text, "label": labels, **note_fields(document)}
    return json.dumps(entry, ensure_ascii=False) + "\n"


# Label Studio's JSON: a list of tasks with `data` and `annotations`, as it imports and exports it ("JSON").
#
# Offsets are code points; older versions counted UTF-16 code units. A region has its own `text`: a task is read in
# UTF-16 units where all its regions agree with their text in these units, and not all do in code points.

_CONTROL, _OBJECT = "label", "text"
"""The names of the tags in the labelling configuration that goes with what is written."""
_Region = tuple[int, int, str | None, tuple[str, ...], str]
"""Start, end, the region's own text, its labels, and its place for messages."""
_Offset = Callable[[int], int | None]


def read_label_studio_notes(path: Path, *, gold: bool = True) -> Iterator[ReadOutcome]:
    """Yield (id or place, note or error) for each task of the file. Raises CorpusError unless it is a list of tasks."""
    content = parse_json(read_utf8(path).removeprefix("\ufeff"), str(path))
    tasks = [content] if isinstance(content, dict) else content
    if not isinstance(tasks, list):
        raise CorpusError(f"{path}: expected a list of tasks, not {json_kind(content)}")
    return outcomes(
        (f"{path}: task {number}", partial(_read_task, task, path, number, gold))
        for number, task in enumerate(tasks, start=1)
    )


def _read_task(task: object, path: Path, number: int, gold: bool) -> ReadNote:
    place = f"{path}: task {number}"
    task = object_of(task, place)
    if "data" not in task:
        raise CorpusError(
            f"{place}: there is no 'data': export as JSON (not JSON-MIN, which leaves out what is needed)"
        )
    data = object_of(task["data"], f"{place}: 'data'")
    strings = [_OBJECT] if _OBJECT in data else [key for key, value in data.items() if isinstance(value, str)]
    if len(strings) != 1:
        raise CorpusError(f"{place}: 'data' needs the note in 'text', or as its only string")
    text = string_field(data, strings[0], place)
    own = task.get("id")
    fallback = f"{path.stem}-{own if isinstance(own, int | str) else number}"
    document = note_of_fields(data, text, fallback, place)
    if not gold:
        return note_with_spans(document, (), place=place)
    regions = [
        region
        for index, item in enumerate(list_field(_annotation(task, place), "result", place))
        for region in _region(item, f"{place}: result {index}")
    ]
    to_offset = _offsets(text, regions)
    spans = [span for region in regions for span in _spans(region, text, to_offset)]
    return note_with_spans(document, spans, place=place)


def _annotation(task: dict[str, Any], place: str) -> dict[str, Any]:
    """Return the one annotation that counts: not skipped, and where there are several the only ground truth."""
    given = [object_of(item, f"{place}: an annotation") for item in list_field(task, "annotations", place)]
    found = [annotation for annotation in given if not annotation.get("was_cancelled")]
    if len(found) > 1:
        truths = [annotation for annotation in found if annotation.get("ground_truth")]
        if len(truths) != 1:
            raise CorpusError(f"{place}: has {len(found)} annotations; mark one of them as the ground truth")
        found = truths
    if not found:
        raise CorpusError(f"{place}: has no annotation (an empty one says that the note has no PHI)")
    return found[0]


def _region(item: object, place: str) -> Iterator[_Region]:
    """Yield the region if it is a labelled stretch of text; choices, relations and the like are none."""
    entry = object_of(item, place)
    kind = entry.get("type")
    if kind == "hypertextlabels":
        raise CorpusError(
            f"{place}: labels HTML; only the tag Text is read, whose offsets count characters of the note"
        )
    if kind != "labels":
        return
    value = object_of(entry.get("value"), f"{place}: 'value'")
    labels = list_field(value, "labels", place)
    if not labels or not all(isinstance(label, str) and label for label in labels):
        raise CorpusError(f"{place}: 'labels' must be a list of labels that are not empty")
    for label in labels:
        check_text(label, f"{place}: a label")
    start, end = integer_field(value, "start", place), integer_field(value, "end", place)
    yield start, end, optional_string(value, "text", place), tuple(labels), place


def _offsets(text: str, regions: list[_Region]) -> _Offset:
    utf16 = Utf16Offsets(text)
    as_units = utf16.differ and not _agree(text, regions, int) and _agree(text, regions, utf16.to_points)
    return utf16.to_points if as_units else int


def _agree(text: str, regions: list[_Region], to_offset: _Offset) -> bool:
    for start, end, surface, _, _ in regions:
        first, after = to_offset(start), to_offset(end)
        if first is None or after is None or surface is None or not _same(text[first:after], surface):
            return False
    return True


def _same(covered: str, surface: str) -> bool:
    # Some versions write a line end in a region's text as a backslash and an n.
    return surface in (covered, covered.replace("\n", "\\n"))


def _spans(region: _Region, text: str, to_offset: _Offset) -> list[Span]:
    start, end, surface, labels, place = region
    first, after = to_offset(start), to_offset(end)
    if first is None or after is None:
        raise CorpusError(f"{place}: its place {start}-{end} does not lie between characters of the text")
    if surface is not None and _same(text[max(first, 0) : max(after, 0)], surface):
        surface = None
    return [checked_span(first, after, label, text, place, surface=surface) for label in labels]


def render_label_studio_note(document: Document) -> str:
    """Return the note as a task with one annotation; scores and sources are left out."""
    check_text(document.text, f"note {document.id}")
    result = [
        {
            "id": f"span{number}",
            "from_name": _CONTROL,
            "to_name": _OBJECT,
            "type": "labels",
            "value": {
                "start": span.start,
                "end": span.end,
                "text": document.text[span.start : span.end],
                "labels": [span.label],
            },
        }
        for number, span in enumerate(sorted(document.spans), start=1)
    ]
    task = {"data": {_OBJECT: document.text, **note_fields(document)}, "annotations": [{"result": result}]}
    return json.dumps(task, ensure_ascii=False)
