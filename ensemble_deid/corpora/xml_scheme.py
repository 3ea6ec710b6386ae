"""Read and write one note in the XML formats, with a fixed set of labels."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ensemble_deid.corpora.checks import Notice, ReadNote, check_span, note_with_spans, shown_tag, unknown_label
from ensemble_deid.corpora.xml_tags import PATIENT_ATTRIBUTE, SITE_ATTRIBUTE, XmlTag, parse_note, render_note
from ensemble_deid.errors import CorpusError
from ensemble_deid.text.document import Document
from ensemble_deid.text.span import Span


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
