"""BioC JSON, as the Python library `bioc` and PubTator write it: BioC with objects in the place of elements.

See `bioc_document.py` for what offsets and infons mean.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ensemble_deid.corpora.bioc_document import LABEL, Annotation, BiocDocument, Part, infons_of, note_of
from ensemble_deid.corpora.checks import ReadNote, check_id, check_text, read_utf8
from ensemble_deid.corpora.json_fields import kind_of, list_field, object_of, optional_string, parse_json, string_field
from ensemble_deid.errors import CorpusError
from ensemble_deid.note.document import Document

COLLECTION_START = (
    '{"bioctype": "BioCCollection", "source": "ensemble_deid", "date": "", "key": "", "version": "1.0", "infons": {},\n'
    '"documents": [\n'
)
COLLECTION_END = "\n]}\n"


def read_bioc_json_notes(path: Path, *, gold: bool = True) -> Iterator[tuple[str, ReadNote | CorpusError]]:
    """Yield (id or place, note or error) for each document. Raises CorpusError where it is no collection."""
    content = object_of(parse_json(read_utf8(path).removeprefix("\ufeff"), str(path)), str(path))
    if "documents" not in content:
        raise CorpusError(f"{path}: there are no 'documents', which a collection of BioC has")
    for number, entry in enumerate(list_field(content, "documents", str(path)), start=1):
        place = f"{path}: document {number}"
        try:
            note = note_of(_document(entry, place), gold=gold)
        except CorpusError as error:
            yield f"{path.stem}-{number}", error
        else:
            yield note.document.id, note


def _document(entry: object, place: str) -> BiocDocument:
    document = object_of(entry, place)
    name = string_field(document, "id", place)
    check_id(name, place)
    passages = _parts(document, "passage", place)
    return BiocDocument(place, name, _infons(document, place), _annotations(document, place), passages)


def _parts(entry: dict[str, Any], kind: str, place: str) -> list[Part]:
    """Return the passages of a document, or the sentences of a passage."""
    parts = []
    for number, item in enumerate(list_field(entry, f"{kind}s", place), start=1):
        here = f"{place}, {kind} {number}"
        part = object_of(item, here)
        sentences = _parts(part, "sentence", here) if kind == "passage" else []
        text = optional_string(part, "text", here) or ""
        parts.append(Part(here, kind, _integer(part.get("offset")), text, _annotations(part, here), sentences))
    return parts


def _annotations(entry: dict[str, Any], place: str) -> list[Callable[[], Annotation]]:
    return [partial(_annotation, item, place) for item in list_field(entry, "annotations", place)]


def _annotation(item: object, place: str) -> Annotation:
    annotation = object_of(item, place)
    locations = [object_of(location, place) for location in list_field(annotation, "locations", place)]
    places = [(_integer(location.get("offset")), _integer(location.get("length"))) for location in locations]
    return Annotation(place, _infons(annotation, place), places, optional_string(annotation, "text", place))


def _infons(entry: dict[str, Any], place: str) -> dict[str, str]:
    """Return the infons, whose values are strings; numbers, as PubTator writes them, become strings, null is none."""
    infons: dict[str, str] = {}
    given = {} if entry.get("infons") is None else object_of(entry["infons"], f"{place}: 'infons'")
    for number, (key, value) in enumerate(given.items(), start=1):
        if value is None:
            continue
        if isinstance(value, dict | list):
            raise CorpusError(f"{place}: infon {number} must be a string, not {kind_of(value)}")
        text = value if isinstance(value, str) else json.dumps(value)
        check_text(key, f"{place}: the key of infon {number}")
        check_text(text, f"{place}: infon {number}")
        infons[key] = text
    return infons


def _integer(value: object) -> int:
    """Return a whole number, -1 where there is none."""
    return value if type(value) is int else -1


def render_bioc_json_note(document: Document) -> str:
    """Return the note as a document of one passage; scores and sources are left out."""
    check_text(document.text, f"note {document.id}")
    annotations = [
        {
            "id": f"T{number}",
            "infons": {LABEL: span.label},
            "text": document.text[span.start : span.end],
            "locations": [{"offset": span.start, "length": span.end - span.start}],
        }
        for number, span in enumerate(sorted(document.spans), start=1)
    ]
    passage = _part("BioCPassage", {"offset": 0, "text": document.text, "sentences": [], "annotations": annotations})
    content = {"id": document.id, "passages": [passage], "annotations": []}
    return json.dumps(_part("BioCDocument", content, infons_of(document)), ensure_ascii=False)


def _part(kind: str, content: Mapping[str, Any], infons: Mapping[str, str] | None = None) -> dict[str, Any]:
    return {"bioctype": kind, "infons": dict(infons or {}), **content, "relations": []}
