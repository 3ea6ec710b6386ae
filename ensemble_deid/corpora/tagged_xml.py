"""Read and write one note in the XML formats, with a fixed set of labels."""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ensemble_deid.corpora.checks import (
    Notice,
    ReadNote,
    check_span,
    note_with_spans,
    patient_of_name,
    shown_tag,
    unknown_label,
)
from ensemble_deid.corpora.xml_tags import PATIENT_ATTRIBUTE, SITE_ATTRIBUTE, XmlTag, parse_note, render_note
from ensemble_deid.errors import CorpusError
from ensemble_deid.note.document import Document
from ensemble_deid.note.labels import CATEGORY_OF_TYPE, MEDDOCAN_CATEGORY_OF_TYPE, to_i2b2
from ensemble_deid.note.span import Span

# Read and write one note in the XML formats, with a fixed set of labels.


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
    note = parse_note(path)
    metadata = dict(note.attributes)
    patient, site = metadata.pop(PATIENT_ATTRIBUTE, None), metadata.pop(SITE_ATTRIBUTE, None)
    identity = path.name[: -len(path.suffix)]
    document = Document(
        identity,
        note.text,
        patient_id=scheme.patient_of_name(identity) if patient is None else patient,
        site=site,
        metadata=metadata,
    )
    notices: Counter[Notice] = Counter()
    if not gold:
        return note_with_spans(document, ())
    spans = [_read_tag(tag, note.text, path, scheme, notices) for tag in note.tags]
    return note_with_spans(document, spans, notices=notices)


def _read_tag(tag: XmlTag, text: str, path: Path, scheme: XmlScheme, notices: Counter[Notice]) -> Span:
    place = f"{path}:{tag.line}: {shown_tag(tag.id)}"
    kind = tag.attributes.get("TYPE", tag.element)
    label = scheme.label_of_tag(tag.element.upper(), kind.upper())
    element = scheme.element_of_label.get(label)
    if element is None:
        raise CorpusError(f"{place}: {unknown_label(kind, scheme.element_of_label, scheme.name)}")
    if element != tag.element.upper():
        notices[Notice.CATEGORY] += 1
    start, end = tag.integer("start", path), tag.integer("end", path)
    check_span(start, end, text, place, surface=tag.attributes.get("text"), tag="its place")
    return Span(start, end, label)


def render_xml_note(document: Document, scheme: XmlScheme) -> str:
    """Return the file's content; CorpusError on labels or characters that the format cannot represent."""
    tags: list[tuple[str, Mapping[str, str]]] = []
    for index, span in enumerate(sorted(document.spans)):
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
        tags.append((scheme.element_of_label[label], attributes))
    told_by_name = scheme.patient_of_name(document.id) == document.patient_id
    return render_note(document, tags, root=scheme.root, patient=None if told_by_name else document.patient_id)


# The XML of the 2014 i2b2/UTHealth and 2016 N-GRID de-identification tasks.
#
# Source: Stubbs and Uzuner 2015 (J Biomed Inform 58 Suppl:S20-S29). A file `XXX-YY.xml` is note YY of patient XXX.


def _label_of_tag(element: str, kind: str) -> str:
    # The guidelines write other locations as LOCATION with TYPE OTHER, the corpus as LOCATION-OTHER.
    return "LOCATION-OTHER" if (element, kind) == ("LOCATION", "OTHER") else kind


_I2B2 = XmlScheme(
    name="i2b2",
    root="deIdi2b2",
    element_of_label=CATEGORY_OF_TYPE,
    label_of_tag=_label_of_tag,
    label_to_write=to_i2b2,
    patient_of_name=patient_of_name,
    tag_id=lambda index: f"P{index}",
)


def read_i2b2_note(path: Path, *, gold: bool = True) -> ReadNote:
    """Read one note; CorpusError names file, line and tag. `gold=False` leaves the tags unread."""
    return read_xml_note(path, _I2B2, gold=gold)


def render_i2b2_note(document: Document) -> str:
    """Return the note as XML, MEDDOCAN labels as i2b2 types; CorpusError on a label without an i2b2 type."""
    return render_xml_note(document, _I2B2)


# The XML of MEDDOCAN (Marimon et al. 2019, IberLEF): Spanish clinical cases.
#
# Notes made from the same article differ in the last number of their names (`S0004-06142005000500011-1`,
# `-2`). They may
# describe the same people, so the id up to the last hyphen serves as the patient, and folds keep them together.


_ARTICLE_AND_NOTE = re.compile(r"(.+)-[0-9]+")


def _article_of_name(name: str) -> str | None:
    match = _ARTICLE_AND_NOTE.fullmatch(name)
    return match.group(1) if match else None


_MEDDOCAN = XmlScheme(
    name="meddocan",
    root="MEDDOCAN",
    element_of_label=MEDDOCAN_CATEGORY_OF_TYPE,
    label_of_tag=lambda _element, kind: kind,
    label_to_write=lambda label: label if label in MEDDOCAN_CATEGORY_OF_TYPE else None,
    patient_of_name=_article_of_name,
    tag_id=lambda index: f"T{index + 1}",
)


def read_meddocan_note(path: Path, *, gold: bool = True) -> ReadNote:
    """Read one note; CorpusError names file, line and tag. `gold=False` leaves the tags unread."""
    return read_xml_note(path, _MEDDOCAN, gold=gold)


def render_meddocan_note(document: Document) -> str:
    """Return the note as XML; CorpusError on a label that is not in MEDDOCAN (there is no map to it)."""
    return render_xml_note(document, _MEDDOCAN)
