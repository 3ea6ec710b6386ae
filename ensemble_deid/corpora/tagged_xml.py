"""The XML of the shared tasks: stand-off tags of 2014, 2016 and MEDDOCAN, and elements inside the text of 2006."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ensemble_deid.corpora.checks import (
    Notice,
    ReadNote,
    ReadOutcome,
    check_id,
    checked_span,
    note_with_spans,
    patient_of_name,
    shown_tag,
    unknown_label,
)
from ensemble_deid.corpora.xml_parser import IN_ATTRIBUTE, XmlNode, escaped, read_tree
from ensemble_deid.errors import CorpusError
from ensemble_deid.note.document import Document
from ensemble_deid.note.labels import CATEGORY_OF_TYPE, MEDDOCAN_CATEGORY_OF_TYPE, to_i2b2
from ensemble_deid.note.span import Span

# What the i2b2 2014, N-GRID 2016 and MEDDOCAN tasks share: `<TEXT>` and stand-off `<TAGS>`, with a fixed set of labels.
#
# The text is what an XML 1.0 parser returns for `<TEXT>`: a literal CR LF or CR is one LF, a character reference
# `&#13;` is a CR. Offsets count characters (code points) of that text.

_INTEGER = re.compile(r"-?[0-9]{1,12}")
_ATTRIBUTE_NAME = re.compile(r"(?!xml)[A-Za-z_][A-Za-z0-9_.-]*")
_PATIENT, _SITE = "patient", "site"


@dataclass(frozen=True, slots=True)
class XmlScheme:
    """What differs between the tasks: root element, labels and their elements, patients, ids of tags."""

    name: str
    root: str
    element_of_label: Mapping[str, str]
    label_of_tag: Callable[[str, str], str]
    """(element, TYPE in upper case) -> label, known or not."""
    label_to_write: Callable[[str], str | None]
    patient_of_name: Callable[[str], str | None]
    tag_id: Callable[[int], str]


def read_xml_note(path: Path, scheme: XmlScheme, *, gold: bool) -> ReadNote:
    """Read one file; its name without the suffix is the note's id. `gold=False` leaves the tags unread."""
    root = read_tree(path)
    texts = root.all("TEXT")
    if len(texts) != 1:
        raise CorpusError(f"{path}: one <TEXT> element is needed, the file has {len(texts)}")
    if texts[0].children:
        raise CorpusError(
            f"{path}:{texts[0].children[0].line}: an element occurs inside <TEXT>: only the format i2b2-2006 has "
            "elements inside the text, this one has stand-off <TAGS>"
        )
    text, metadata = texts[0].text, root.attributes
    patient, site = metadata.pop(_PATIENT, None), metadata.pop(_SITE, None)
    patient = scheme.patient_of_name(path.stem) if patient is None else patient
    document = Document(path.stem, text, patient_id=patient, site=site, metadata=metadata)
    if not gold:
        return note_with_spans(document, ())
    notices: Counter[Notice] = Counter()
    tags = [tag for tags in root.all("TAGS") for tag in tags.children]
    spans = [_read_tag(tag, text, path, scheme, notices) for tag in tags]
    return note_with_spans(document, spans, notices=notices)


def _read_tag(tag: XmlNode, text: str, path: Path, scheme: XmlScheme, notices: Counter[Notice]) -> Span:
    place = f"{path}:{tag.line}: {shown_tag(tag.attributes.get('id', '?'))}"
    kind = tag.attributes.get("TYPE", tag.name)
    label = scheme.label_of_tag(tag.name.upper(), kind.upper())
    element = scheme.element_of_label.get(label)
    if element is None:
        raise CorpusError(f"{place}: {unknown_label(kind, scheme.element_of_label, scheme.name)}")
    if element != tag.name.upper():
        notices[Notice.CATEGORY] += 1
    for name in ("start", "end"):
        if not _INTEGER.fullmatch(tag.attributes.get(name, "")):
            said = "is not an integer" if name in tag.attributes else "is missing"
            raise CorpusError(f"{place}: the attribute '{name}' {said}")
    start, end = int(tag.attributes["start"]), int(tag.attributes["end"])
    return checked_span(start, end, label, text, place, surface=tag.attributes.get("text"))


def render_xml_note(document: Document, scheme: XmlScheme) -> str:
    """Return the file's content. Raises CorpusError for labels and characters that the format cannot represent.

    The site, the patient (unless the file's name tells it) and metadata become attributes of the root.
    """
    text = document.text
    # A parser would turn a CR inside CDATA into LF, and end the section at the first ]]>.
    body = escaped(text, document.id)
    if "]]>" not in text and "\r" not in text:
        body = f"<![CDATA[{text}]]>"
    attributes = {key: value for key, value in sorted(document.metadata.items()) if _ATTRIBUTE_NAME.fullmatch(key)}
    told_by_name = scheme.patient_of_name(document.id) == document.patient_id
    for name, value in ((_SITE, document.site), (_PATIENT, None if told_by_name else document.patient_id)):
        attributes.pop(name, None)
        if value is not None:
            attributes[name] = value
    lines = [
        '<?xml version="1.0" encoding="UTF-8" ?>',
        f"<{scheme.root}{_attributes(attributes, document.id)}>",
        f"<TEXT>{body}</TEXT>",
        "<TAGS>",
        *(_render_tag(document, span, index, scheme) for index, span in enumerate(sorted(document.spans))),
        "</TAGS>",
        f"</{scheme.root}>",
        "",
    ]
    return "\n".join(lines)


def _render_tag(document: Document, span: Span, index: int, scheme: XmlScheme) -> str:
    label = scheme.label_to_write(span.label)
    if label is None:
        raise CorpusError(
            f"note {document.id}: the label '{span.label}' of the span {span.start}-{span.end} "
            f"has no place in the {scheme.name} format"
        )
    attributes = {
        "id": scheme.tag_id(index),
        "start": str(span.start),
        "end": str(span.end),
        "text": document.text[span.start : span.end],
        "TYPE": label,
        "comment": "",
    }
    return f"<{scheme.element_of_label[label]}{_attributes(attributes, document.id)} />"


def _attributes(attributes: Mapping[str, str], name: str) -> str:
    return "".join(f' {key}="{escaped(value, name, IN_ATTRIBUTE)}"' for key, value in attributes.items())


# The XML of the 2014 i2b2/UTHealth and 2016 N-GRID de-identification tasks.
#
# Source: Stubbs and Uzuner 2015 (J Biomed Inform 58 Suppl:S20-S29). A file `XXX-YY.xml` is note YY of patient XXX.

I2B2 = XmlScheme(
    name="i2b2",
    root="deIdi2b2",
    element_of_label=CATEGORY_OF_TYPE,
    # The guidelines write other locations as LOCATION with TYPE OTHER, the corpus as LOCATION-OTHER.
    label_of_tag=lambda element, kind: "LOCATION-OTHER" if (element, kind) == ("LOCATION", "OTHER") else kind,
    label_to_write=to_i2b2,
    patient_of_name=patient_of_name,
    tag_id=lambda index: f"P{index}",
)


# The XML of MEDDOCAN (Marimon et al. 2019, IberLEF): Spanish clinical cases.
#
# Notes made from the same article differ in the last number of their names (`S0004-06142005000500011-1`, `-2`). They
# may describe the same people, so the id up to the last hyphen serves as the patient, and folds keep them together.

_ARTICLE_AND_NOTE = re.compile(r"(.+)-[0-9]+")


MEDDOCAN = XmlScheme(
    name="meddocan",
    root="MEDDOCAN",
    element_of_label=MEDDOCAN_CATEGORY_OF_TYPE,
    label_of_tag=lambda _element, kind: kind,
    label_to_write=lambda label: label if label in MEDDOCAN_CATEGORY_OF_TYPE else None,
    patient_of_name=lambda name: match.group(1) if (match := _ARTICLE_AND_NOTE.fullmatch(name)) else None,
    tag_id=lambda index: f"T{index + 1}",
)


# The XML of the 2006 i2b2 de-identification task: records in one file, PHI as elements inside their text.
#
# Source: Uzuner et al. 2007 (JAMIA 14:550-563). A file is `<ROOT>` with `<RECORD ID="...">`s, each with a `<TEXT>` in
# which `<PHI TYPE="...">` encloses PHI. Each record is of another patient.

I2B2_2006_ROOT = "ROOT"
_I2B2_2006_TYPES = ("PATIENT", "DOCTOR", "HOSPITAL", "ID", "DATE", "LOCATION", "PHONE", "AGE")
"""The eight types of the task; ID and LOCATION are categories of the 2014 task."""


def read_i2b2_2006_notes(path: Path, *, gold: bool = True) -> Iterator[ReadOutcome]:
    """Yield (id, note) for every record of a file. CorpusError, with file and line, where the format is another."""
    root = read_tree(path)
    if root.name != I2B2_2006_ROOT:
        raise CorpusError(f"{path}:{root.line}: the root is no <{I2B2_2006_ROOT}>")
    notes = [_read_record(record, path, gold) for record in _elements(root, "RECORD", path)]
    return ((note.document.id, note) for note in notes)


def _read_record(record: XmlNode, path: Path, gold: bool) -> ReadNote:
    place = f"{path}:{record.line}"
    identity = record.attributes.get("ID", "")
    check_id(identity, place)
    texts = _elements(record, "TEXT", path)
    if len(texts) != 1:
        raise CorpusError(f"{place}: a record has one <TEXT>, this one {len(texts)}")
    _elements(texts[0], "PHI", path, in_text=True)
    text, spans = "", []
    for piece in texts[0].content:
        if isinstance(piece, str):
            text += piece
        else:
            spans.append(Span(len(text), len(text) + len(piece.text), _label_of(piece, path)))
            text += piece.text
    return note_with_spans(Document(identity, text), spans if gold else (), place=place)


def _label_of(node: XmlNode, path: Path) -> str:
    """Return the label of a `<PHI>` element, which holds text alone."""
    _elements(node, "", path, in_text=True)
    if not node.text:
        raise CorpusError(f"{path}:{node.line}: an empty <PHI> element")
    label = node.attributes.get("TYPE", "").upper()
    if label not in _I2B2_2006_TYPES:
        raise CorpusError(f"{path}:{node.line}: {unknown_label(label, _I2B2_2006_TYPES, 'i2b2-2006')}")
    return label


def _elements(node: XmlNode, name: str, path: Path, *, in_text: bool = False) -> list[XmlNode]:
    """Return the elements in a node, which must all have the name; beside them is text only where it is allowed."""
    if node.text.strip() and not in_text:
        raise CorpusError(f"{path}:{node.line}: text outside of <TEXT>")
    for child in node.children:
        if child.name != name:
            raise CorpusError(
                f"{path}:{child.line}: an element in <{node.name}> that the 2006 format does not have there"
            )
    return node.children
