"""BioC XML: a collection of documents, passages and stand-off annotations (see `bioc_document.py`)."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from xml.sax.saxutils import escape

from ensemble_deid.corpora.bioc_document import LABEL, Annotation, BiocDocument, Part, infons_of, note_of
from ensemble_deid.corpora.checks import ReadNote, check_id
from ensemble_deid.corpora.xml_parser import XmlNode, read_tree
from ensemble_deid.corpora.xml_tags import IN_ATTRIBUTE, IN_TEXT, refuse_unwritable
from ensemble_deid.errors import CorpusError
from ensemble_deid.note.document import Document

COLLECTION_START = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<collection>\n<source>ensemble_deid</source>\n<date></date>\n<key></key>\n'
)
COLLECTION_END = "</collection>\n"


def read_bioc_notes(path: Path, *, gold: bool = True) -> Iterator[tuple[str, ReadNote | CorpusError]]:
    """Yield (id or place, note or error) for each document. Raises CorpusError on broken XML."""
    root = read_tree(path)
    if root.name != "collection":
        raise CorpusError(f"{path}:{root.line}: the root is no <collection>")
    for number, node in enumerate(root.all("document"), start=1):
        try:
            note = note_of(_document(node, path), gold=gold)
        except CorpusError as error:
            yield f"{path.stem}-{number}", error
        else:
            yield note.document.id, note


def _document(node: XmlNode, path: Path) -> BiocDocument:
    place = f"{path}:{node.line}"
    identity = node.first("id")
    name = "" if identity is None else identity.text
    check_id(name, place)
    passages = [_part(passage, path) for passage in node.all("passage")]
    return BiocDocument(place, name, _infons(node, path), _annotations(node, path), passages)


def _part(node: XmlNode, path: Path) -> Part:
    offset, text = node.first("offset"), node.first("text")
    return Part(
        f"{path}:{node.line}",
        node.name,
        -1 if offset is None else _integer(offset.text),
        "" if text is None else text.text,
        _annotations(node, path),
        [_part(sentence, path) for sentence in node.all("sentence")],
    )


def _annotations(node: XmlNode, path: Path) -> list[Callable[[], Annotation]]:
    return [partial(_annotation, annotation, path) for annotation in node.all("annotation")]


def _annotation(node: XmlNode, path: Path) -> Annotation:
    text = node.first("text")
    locations = [
        (_integer(location.attributes.get("offset", "")), _integer(location.attributes.get("length", "")))
        for location in node.all("location")
    ]
    return Annotation(f"{path}:{node.line}", _infons(node, path), locations, None if text is None else text.text)


def _infons(node: XmlNode, path: Path) -> dict[str, str]:
    infons: dict[str, str] = {}
    for infon in node.all("infon"):
        key = infon.attributes.get("key")
        if key is None:
            raise CorpusError(f"{path}:{infon.line}: an infon has no key")
        infons[key] = infon.text
    return infons


def _integer(text: str) -> int:
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
