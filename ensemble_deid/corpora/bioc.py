"""BioC: a collection of documents, passages and stand-off annotations, as XML or JSON (Comeau et al. 2013, bat064).

Offsets count characters (code points) from the beginning of the document; gaps between passages become line ends. An
annotation's label is its infon `type`; one with several locations becomes a span for each. Relations are ignored.

The library `bioc` cannot read notes safely: it expands entities, drops the text behind a comment or a nested element,
and gives up the whole collection where one document is damaged.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ensemble_deid.corpora.checks import (
    Notice,
    ReadNote,
    ReadOutcome,
    check_id,
    check_text,
    checked_span,
    note_with_spans,
    outcomes,
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
from ensemble_deid.corpora.xml_parser import IN_ATTRIBUTE, XmlNode, escaped, read_tree
from ensemble_deid.errors import CorpusError
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span

LABEL = "type"
RESERVED = ("patient_id", "site")
_LONGEST_GAP = 10_000
_Object = dict[str, Any]


@dataclass(slots=True)
class _Reading:
    """A document under construction; its annotations, with their places, are read only if asked for."""

    pieces: list[str] = field(default_factory=list, repr=False)
    length: int = 0
    annotations: list[tuple[object, str]] = field(default_factory=list, repr=False)

    def add(self, item: object, kind: str, place: str, *, known: bool = False) -> None:
        """Put a passage or sentence at its offset; `known` if the passage already gave a sentence's text."""
        part = object_of(item, place)
        text = optional_string(part, "text", place)
        if text and not known:
            offset = part.get("offset")
            if type(offset) is not int or offset < self.length:
                raise CorpusError(f"{place}: a {kind} has no offset, or one before the end of the {kind} before it")
            if offset - self.length > _LONGEST_GAP:
                raise CorpusError(f"{place}: more than {_LONGEST_GAP} characters are missing before this {kind}")
            self.pieces += ["\n" * (offset - self.length), text]
            self.length = offset + len(text)
        self.annotate(part, place)
        for number, sentence in enumerate(list_field(part, "sentences", place), start=1):
            self.add(sentence, "sentence", f"{place}, sentence {number}", known=known or bool(text))

    def annotate(self, part: _Object, place: str) -> None:
        self.annotations += [(item, place) for item in list_field(part, "annotations", place)]


def _note(item: object, place: str, gold: bool) -> ReadNote:
    source = object_of(item, place)
    name = string_field(source, "id", place)
    check_id(name, place)
    reading = _Reading()
    reading.annotate(source, place)
    for number, passage in enumerate(list_field(source, "passages", place), start=1):
        reading.add(passage, "passage", f"{place}, passage {number}")
    infons = _infons(source, place)
    patient, site = (infons.pop(key, None) for key in RESERVED)
    document = Document(name, "".join(reading.pieces), patient_id=patient, site=site, metadata=infons)
    if not gold:
        return note_with_spans(document, (), place=place)
    notices: Counter[Notice] = Counter()
    spans: list[Span] = []
    for annotation, where in reading.annotations:
        found = _spans(object_of(annotation, where), document.text, where)
        notices[Notice.FRAGMENTS] += len(found) > 1
        spans += found
    return note_with_spans(document, spans, notices=notices, place=place)


def _spans(annotation: _Object, text: str, part: str) -> list[Span]:
    place = f"{part}: an annotation"
    label = _infons(annotation, part).get(LABEL)
    if not label:
        raise CorpusError(f"{place} has no infon '{LABEL}', which is its label")
    locations = [object_of(location, place) for location in list_field(annotation, "locations", place)]
    if not locations:
        raise CorpusError(f"{place} has no location")
    surface = (optional_string(annotation, "text", place) or None) if len(locations) == 1 else None
    spans: list[Span] = []
    for location in locations:
        start, length = location.get("offset"), location.get("length")
        if type(start) is not int or type(length) is not int or start < 0 or length < 0:
            raise CorpusError(f"{place}: 'offset' and 'length' of a location must be whole numbers")
        spans.append(checked_span(start, start + length, label, text, place, surface=surface))
    return spans


def _infons(entry: _Object, place: str) -> dict[str, str]:
    """Return the infons, whose values are strings; numbers, as PubTator writes them, become strings, null none."""
    infons: dict[str, str] = {}
    given = {} if entry.get("infons") is None else object_of(entry["infons"], f"{place}: 'infons'")
    for number, (key, value) in enumerate(given.items(), start=1):
        if key is None:
            raise CorpusError(f"{place}: infon {number} has no key")
        if value is None:
            continue
        if isinstance(value, dict | list):
            raise CorpusError(f"{place}: infon {number} must be a string, not {json_kind(value)}")
        text = value if isinstance(value, str) else json.dumps(value)
        check_text(key, f"{place}: the key of infon {number}")
        check_text(text, f"{place}: infon {number}")
        infons[key] = text
    return infons


def _infons_of(document: Document) -> dict[str, str]:
    metadata = {key: value for key, value in sorted(document.metadata.items()) if key not in RESERVED}
    own = zip(RESERVED, (document.patient_id, document.site), strict=True)
    return metadata | {key: value for key, value in own if value is not None}


# JSON, as the library `bioc` and PubTator write it.

JSON_START = (
    '{"bioctype": "BioCCollection", "source": "ensemble_deid", "date": "", "key": "", "version": "1.0", "infons": {},\n'
    '"documents": [\n'
)
JSON_END = "\n]}\n"


def read_bioc_json_notes(path: Path, *, gold: bool = True) -> Iterator[ReadOutcome]:
    """Yield (id or place, note or error) for each document. Raises CorpusError where it is no collection."""
    content = object_of(parse_json(read_utf8(path).removeprefix("\ufeff"), str(path)), str(path))
    if "documents" not in content:
        raise CorpusError(f"{path}: there are no 'documents', which a collection of BioC has")
    return outcomes(
        (f"{path.stem}-{number}", partial(_note, entry, f"{path}: document {number}", gold))
        for number, entry in enumerate(list_field(content, "documents", str(path)), start=1)
    )


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
    passage = {"offset": 0, "text": document.text, "sentences": [], "annotations": annotations, "relations": []}
    content = {
        "bioctype": "BioCDocument",
        "infons": _infons_of(document),
        "id": document.id,
        "passages": [{"bioctype": "BioCPassage", "infons": {}, **passage}],
        "annotations": [],
        "relations": [],
    }
    return json.dumps(content, ensure_ascii=False)


# XML: the same objects as elements.

XML_START = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<collection>\n<source>ensemble_deid</source>\n<date></date>\n<key></key>\n'
)
XML_END = "</collection>\n"


def read_bioc_notes(path: Path, *, gold: bool = True) -> Iterator[ReadOutcome]:
    """Yield (id or place, note or error) for each document. Raises CorpusError on broken XML."""
    root = read_tree(path, external_dtd=True)
    if root.name != "collection":
        raise CorpusError(f"{path}:{root.line}: the root is no <collection>")
    return outcomes(
        (f"{path.stem}-{number}", partial(_note_of_node, node, path, gold))
        for number, node in enumerate(root.all("document"), start=1)
    )


def _note_of_node(node: XmlNode, path: Path, gold: bool) -> ReadNote:
    return _note(_object_of_node(node, path), f"{path}:{node.line}", gold)


def _object_of_node(node: XmlNode, path: Path) -> _Object:
    """Return a document, passage, sentence or annotation as the object that JSON has in its place.

    Raises CorpusError for an element inside its text, and a second text: part of the note would be left out.
    """
    texts = node.all("text")
    inside = [*texts[1:], *(part for text in texts for part in text.children)]
    if inside:
        raise CorpusError(f"{path}:{inside[0].line}: <{node.name}> has more than one text, or an element inside it")
    return {
        "id": node.text_of("id") or "",
        "offset": _whole(node.text_of("offset")),
        "text": node.text_of("text"),
        "infons": {infon.attributes.get("key"): infon.text for infon in node.all("infon")},
        "locations": [
            {name: _whole(location.attributes.get(name)) for name in ("offset", "length")}
            for location in node.all("location")
        ],
        **{
            f"{kind}s": [_object_of_node(part, path) for part in node.all(kind)]
            for kind in ("passage", "sentence", "annotation")
        },
    }


def _whole(text: str | None) -> int | None:
    text = (text or "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 12 else None


def render_bioc_note(document: Document) -> str:
    """Return the note as a `<document>` of one passage; CorpusError on what XML cannot represent."""
    text = escaped(document.text, document.id)
    annotations = "".join(
        f'<annotation id="T{number}">{_render_infons({LABEL: span.label}, document.id)}'
        f'<location offset="{span.start}" length="{span.end - span.start}"/>'
        f"<text>{escaped(document.text[span.start : span.end], document.id)}</text></annotation>\n"
        for number, span in enumerate(sorted(document.spans), start=1)
    )
    return (
        f"<document>\n<id>{escaped(document.id, document.id)}</id>\n{_render_infons(_infons_of(document), document.id)}"
        f"<passage>\n<offset>0</offset>\n<text>{text}</text>\n{annotations}</passage>\n</document>\n"
    )


def _render_infons(infons: Mapping[str, str], name: str) -> str:
    return "".join(
        f'<infon key="{escaped(key, name, IN_ATTRIBUTE)}">{escaped(value, name)}</infon>'
        for key, value in infons.items()
    )
