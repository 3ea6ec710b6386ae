"""The XML of MEDDOCAN (Marimon et al. 2019, IberLEF): Spanish clinical cases.

Notes made from the same article differ in the last number of their names (`S0004-06142005000500011-1`, `-2`). They may
describe the same people, so the id up to the last hyphen serves as the patient, and folds keep them together.
"""

import re
from pathlib import Path

from ensemble_deid.corpora.checks import ReadNote
from ensemble_deid.corpora.xml_scheme import XmlScheme, read_xml_note, render_xml_note
from ensemble_deid.phi.taxonomy import MEDDOCAN_CATEGORY_OF_TYPE
from ensemble_deid.text.document import Document

_ARTICLE_AND_NOTE = re.compile(r"(.+)-[0-9]+")


def _article_of_name(name: str) -> str | None:
    match = _ARTICLE_AND_NOTE.fullmatch(name)
    return match.group(1) if match else None


_SCHEME = XmlScheme(
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
    return read_xml_note(path, _SCHEME, gold=gold)


def render_meddocan_note(document: Document) -> str:
    """Return the note as XML; CorpusError on a label that is not in MEDDOCAN (there is no map to it)."""
    return render_xml_note(document, _SCHEME)
