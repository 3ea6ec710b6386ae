"""BioC: a collection of documents, passages and stand-off annotations, as XML or JSON (Comeau et al. 2013, bat064).

Offsets count characters (code points) from the beginning of the document, as the Python library `bioc` does. The text
of a document is its passages (or their sentences), each at its offset; what lies between two of them becomes line ends,
which is what a passage break means. An annotation's label is its infon `type`; one with several locations becomes one
span for each. Relations are ignored.

The library `bioc` cannot read notes safely: it expands entities, drops the text behind a comment or a nested element,
and gives up the whole collection where one document is damaged.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from ensemble_deid.corpora.checks import (
    Notice,
    ReadNote,
    check_id,
    check_span,
    check_text,
    note_with_spans,
    read_utf8,
)
from ensemble_deid.corpora.json_fields import (
    json_kind,
    list_field,
    object_of,
    optional_string,
    parse_json,
    string_field,
)
from ensemble_deid.corpora.xml_parser import XmlNode, read_tree
from ensemble_deid.corpora.xml_tags import IN_ATTRIBUTE, IN_TEXT, refuse_unwritable
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
class _Part:
    """A passage or a sentence (`kind`); `offset` is -1 where it has none."""

    place: str
    kind: str
    offset: int
    text: str = field(repr=False)
    annotations: Sequence[Callable[[], Annotation]] = field(repr=False)
    sentences: Sequence["_Part"] = ()


@dataclass(frozen=True, slots=True)
class BiocDocument:
    """A document; annotations are read only where they are asked for."""

    place: str
    name: str
    infons: Mapping[str, str] = field(repr=False)
    annotations: Sequence[Callable[[], Annotation]] = field(repr=False)
    passages: Sequence[_Part]


@dataclass(slots=True)
class _Reading:
    """One document while it is put together."""

    pieces: list[str] = field(default_factory=list, repr=False)
    length: int = 0
    annotations: list[Callable[[], Annotation]] = field(default_factory=list, repr=False)

    def add(self, part: _Part) -> None:
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


# XML.


XML_START = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<collection>\n<source>ensemble_deid</source>\n<date></date>\n<key></key>\n'
)
XML_END = "</collection>\n"


def read_bioc_notes(path: Path, *, gold: bool = True) -> Iterator[tuple[str, ReadNote | CorpusError]]:
    """Yield (id or place, note or error) for each document. Raises CorpusError on broken XML."""
    root = read_tree(path)
    if root.name != "collection":
        raise CorpusError(f"{path}:{root.line}: the root is no <collection>")
    for number, node in enumerate(root.all("document"), start=1):
        try:
            note = note_of(_document_of_node(node, path), gold=gold)
        except CorpusError as error:
            yield f"{path.stem}-{number}", error
        else:
            yield note.document.id, note


def _document_of_node(node: XmlNode, path: Path) -> BiocDocument:
    place = f"{path}:{node.line}"
    identity = node.first("id")
    name = "" if identity is None else identity.text
    check_id(name, place)
    passages = [_part_of_node(passage, path) for passage in node.all("passage")]
    return BiocDocument(place, name, _infons_of_node(node, path), _annotations_of_node(node, path), passages)


def _part_of_node(node: XmlNode, path: Path) -> _Part:
    offset, text = node.first("offset"), node.first("text")
    return _Part(
        place=f"{path}:{node.line}",
        kind=node.name,
        offset=-1 if offset is None else _integer_of_text(offset.text),
        text="" if text is None else text.text,
        annotations=_annotations_of_node(node, path),
        sentences=[_part_of_node(sentence, path) for sentence in node.all("sentence")],
    )


def _annotations_of_node(node: XmlNode, path: Path) -> list[Callable[[], Annotation]]:
    return [partial(_annotation_of_node, annotation, path) for annotation in node.all("annotation")]


def _annotation_of_node(node: XmlNode, path: Path) -> Annotation:
    text = node.first("text")
    locations = [
        (
            _integer_of_text(location.attributes.get("offset", "")),
            _integer_of_text(location.attributes.get("length", "")),
        )
        for location in node.all("location")
    ]
    return Annotation(
        f"{path}:{node.line}", _infons_of_node(node, path), locations, None if text is None else text.text
    )


def _infons_of_node(node: XmlNode, path: Path) -> dict[str, str]:
    infons: dict[str, str] = {}
    for infon in node.all("infon"):
        key = infon.attributes.get("key")
        if key is None:
            raise CorpusError(f"{path}:{infon.line}: an infon has no key")
        infons[key] = infon.text
    return infons


def _integer_of_text(text: str) -> int:
    """Return a whole number, -1 where there is none."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 12 else -1


def render_bioc_note(document: Document) -> str:
    """Return the note as a `<document>` of one passage; CorpusError on what XML cannot represent."""
    text = _escaped(document.text, document.id)
    annotations = "".join(
        f'<annotation id="T{number}">{_render_infons({LABEL: span.label}, document.id)}'
        f'<location offset="{span.start}" length="{span.end - span.start}"/>'
        f"<text>{_escaped(document.text[span.start : span.end], document.id)}</text></annotation>\n"
        for number, span in enumerate(sorted(document.spans), start=1)
    )
    return (
        f"<document>\n<id>{_escaped(document.id, document.id)}</id>\n{_render_infons(infons_of(document), document.id)}"
        f"<passage>\n<offset>0</offset>\n<text>{text}</text>\n{annotations}</passage>\n</document>\n"
    )


def _render_infons(infons: Mapping[str, str], name: str) -> str:
    for key in infons:
        refuse_unwritable(key, name)
    return "".join(
        f'<infon key="{escape(key, IN_ATTRIBUTE)}">{_escaped(value, name)}</infon>' for key, value in infons.items()
    )


def _escaped(text: str, name: str) -> str:
    refuse_unwritable(text, name)
    return escape(text, IN_TEXT)


# JSON, as the library `bioc` and PubTator write it: objects in the place of elements.


JSON_START = (
    '{"bioctype": "BioCCollection", "source": "ensemble_deid", "date": "", "key": "", "version": "1.0", "infons": {},\n'
    '"documents": [\n'
)
JSON_END = "\n]}\n"


def read_bioc_json_notes(path: Path, *, gold: bool = True) -> Iterator[tuple[str, ReadNote | CorpusError]]:
    """Yield (id or place, note or error) for each document. Raises CorpusError where it is no collection."""
    content = object_of(parse_json(read_utf8(path).removeprefix("\ufeff"), str(path)), str(path))
    if "documents" not in content:
        raise CorpusError(f"{path}: there are no 'documents', which a collection of BioC has")
    for number, entry in enumerate(list_field(content, "documents", str(path)), start=1):
        place = f"{path}: document {number}"
        try:
            note = note_of(_document_of_object(entry, place), gold=gold)
        except CorpusError as error:
            yield f"{path.stem}-{number}", error
        else:
            yield note.document.id, note


def _document_of_object(entry: object, place: str) -> BiocDocument:
    document = object_of(entry, place)
    name = string_field(document, "id", place)
    check_id(name, place)
    passages = _parts(document, "passage", place)
    return BiocDocument(
        place, name, _infons_of_object(document, place), _annotations_of_object(document, place), passages
    )


def _parts(entry: dict[str, Any], kind: str, place: str) -> list[_Part]:
    """Return the passages of a document, or the sentences of a passage."""
    parts = []
    for number, item in enumerate(list_field(entry, f"{kind}s", place), start=1):
        here = f"{place}, {kind} {number}"
        part = object_of(item, here)
        sentences = _parts(part, "sentence", here) if kind == "passage" else []
        text = optional_string(part, "text", here) or ""
        parts.append(
            _Part(
                place=here,
                kind=kind,
                offset=_integer_of_value(part.get("offset")),
                text=text,
                annotations=_annotations_of_object(part, here),
                sentences=sentences,
            )
        )
    return parts


def _annotations_of_object(entry: dict[str, Any], place: str) -> list[Callable[[], Annotation]]:
    return [partial(_annotation_of_object, item, place) for item in list_field(entry, "annotations", place)]


def _annotation_of_object(item: object, place: str) -> Annotation:
    annotation = object_of(item, place)
    locations = [object_of(location, place) for location in list_field(annotation, "locations", place)]
    places = [
        (_integer_of_value(location.get("offset")), _integer_of_value(location.get("length"))) for location in locations
    ]
    return Annotation(place, _infons_of_object(annotation, place), places, optional_string(annotation, "text", place))


def _infons_of_object(entry: dict[str, Any], place: str) -> dict[str, str]:
    """Return the infons, whose values are strings; numbers, as PubTator writes them, become strings, null is none."""
    infons: dict[str, str] = {}
    given = {} if entry.get("infons") is None else object_of(entry["infons"], f"{place}: 'infons'")
    for number, (key, value) in enumerate(given.items(), start=1):
        if value is None:
            continue
        if isinstance(value, dict | list):
            raise CorpusError(f"{place}: infon {number} must be a string, not {json_kind(value)}")
        text = value if isinstance(value, str) else json.dumps(value)
        check_text(key, f"{place}: the key of infon {number}")
        check_text(text, f"{place}: infon {number}")
        infons[key] = text
    return infons


def _integer_of_value(value: object) -> int:
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
    passage = _rendered_part(
        "BioCPassage", {"offset": 0, "text": document.text, "sentences": [], "annotations": annotations}
    )
    content = {"id": document.id, "passages": [passage], "annotations": []}
    return json.dumps(_rendered_part("BioCDocument", content, infons_of(document)), ensure_ascii=False)


def _rendered_part(kind: str, content: Mapping[str, Any], infons: Mapping[str, str] | None = None) -> dict[str, Any]:
    return {"bioctype": kind, "infons": dict(infons or {}), **content, "relations": []}
