"""BioC XML (Comeau et al. 2013, Database bat064): a collection of documents, passages and stand-off annotations.

Offsets count characters (code points) from the beginning of the document, as the Python library `bioc` does. The text
of a document is its passages (or their sentences), each at its offset; what lies between two of them becomes line ends,
which is what a passage break means. An annotation's label is its infon `type`; one with several locations becomes one
span for each. Relations are ignored.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

from ensemble_deid.corpora.checks import Notice, ReadNote, check_id, check_span, note_with_spans
from ensemble_deid.corpora.xml_parser import XmlNode, read_tree
from ensemble_deid.corpora.xml_tags import IN_ATTRIBUTE, IN_TEXT, refuse_unwritable
from ensemble_deid.errors import CorpusError
from ensemble_deid.text.document import Document
from ensemble_deid.text.span import Span

COLLECTION_START = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<collection>\n<source>ensemble_deid</source>\n<date></date>\n<key></key>\n'
)
COLLECTION_END = "</collection>\n"
_LABEL = "type"
_RESERVED = ("patient_id", "site")
_LONGEST_GAP = 10_000


@dataclass(slots=True)
class _Reading:
    """One document while it is read."""

    path: Path
    pieces: list[str] = field(default_factory=list, repr=False)
    length: int = 0
    annotations: list[XmlNode] = field(default_factory=list, repr=False)

    def add(self, part: XmlNode) -> None:
        """Put a passage or sentence at its offset."""
        self.annotations += part.all("annotation")
        text = part.first("text")
        if text is None or not text.text:
            for sentence in part.all("sentence"):
                self.add(sentence)
            return
        offset = part.first("offset")
        start = -1 if offset is None else _integer(offset.text)
        place = f"{self.path}:{part.line}"
        if start < self.length:
            raise CorpusError(
                f"{place}: a {part.name} has no offset, or one before the end of the {part.name} before it"
            )
        if start - self.length > _LONGEST_GAP:
            raise CorpusError(f"{place}: more than {_LONGEST_GAP} characters are missing before this {part.name}")
        self.pieces += ["\n" * (start - self.length), text.text]
        self.length = start + len(text.text)
        for sentence in part.all("sentence"):
            self.annotations += sentence.all("annotation")


def read_bioc_notes(path: Path, *, gold: bool = True) -> Iterator[tuple[str, ReadNote | CorpusError]]:
    """Yield (id or place, note or error) for each document. Raises CorpusError on broken XML."""
    root = read_tree(path)
    if root.name != "collection":
        raise CorpusError(f"{path}:{root.line}: the root is no <collection>")
    for number, node in enumerate(root.all("document"), start=1):
        try:
            note = _read_document(node, path, gold)
        except CorpusError as error:
            yield f"{path.stem}-{number}", error
        else:
            yield note.document.id, note


def _read_document(node: XmlNode, path: Path, gold: bool) -> ReadNote:
    place = f"{path}:{node.line}"
    identity = node.first("id")
    name = "" if identity is None else identity.text
    check_id(name, place)
    reading = _Reading(path, annotations=node.all("annotation"))
    for passage in node.all("passage"):
        reading.add(passage)
    infons = _infons(node, path)
    patient, site = (infons.pop(key, None) for key in _RESERVED)
    document = Document(name, "".join(reading.pieces), patient_id=patient, site=site, metadata=infons)
    if not gold:
        return note_with_spans(document, (), place=place)
    notices: Counter[Notice] = Counter()
    spans: list[Span] = []
    for annotation in reading.annotations:
        found = _spans(annotation, document.text, path)
        notices[Notice.FRAGMENTS] += len(found) > 1
        spans += found
    return note_with_spans(document, spans, notices=notices, place=place)


def _spans(annotation: XmlNode, text: str, path: Path) -> list[Span]:
    place = f"{path}:{annotation.line}: an annotation"
    label = _infons(annotation, path).get(_LABEL)
    if not label:
        raise CorpusError(f"{place} has no infon '{_LABEL}', which is its label")
    locations = annotation.all("location")
    if not locations:
        raise CorpusError(f"{place} has no location")
    own = annotation.first("text")
    surface = own.text if own is not None and own.text and len(locations) == 1 else None
    spans: list[Span] = []
    for location in locations:
        start, length = (_integer(location.attributes.get(name, "")) for name in ("offset", "length"))
        if start < 0 or length < 0:
            raise CorpusError(f"{place}: 'offset' and 'length' of a location must be whole numbers")
        check_span(start, start + length, text, place, surface=surface, tag="its place")
        spans.append(Span(start, start + length, label))
    return spans


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
    infons = {key: value for key, value in sorted(document.metadata.items()) if key not in _RESERVED}
    for key, value in zip(_RESERVED, (document.patient_id, document.site), strict=True):
        if value is not None:
            infons[key] = value
    text = _escaped(document.text, document.id)
    annotations = "".join(
        f'<annotation id="T{number}">{_render_infons({_LABEL: span.label}, document.id)}'
        f'<location offset="{span.start}" length="{span.end - span.start}"/>'
        f"<text>{_escaped(document.text[span.start : span.end], document.id)}</text></annotation>\n"
        for number, span in enumerate(sorted(document.spans), start=1)
    )
    return (
        f"<document>\n<id>{_escaped(document.id, document.id)}</id>\n{_render_infons(infons, document.id)}"
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
