"""The XML of the 2014 i2b2/UTHealth and 2016 N-GRID de-identification tasks.

Source: Stubbs and Uzuner 2015 (J Biomed Inform 58 Suppl:S20-S29). A file `XXX-YY.xml` is note YY of patient XXX.
"""

from pathlib import Path

from ensemble_deid.corpora.checks import ReadNote, patient_of_name
from ensemble_deid.corpora.xml_scheme import XmlScheme, read_xml_note, render_xml_note
from ensemble_deid.phi.maps import to_i2b2
from ensemble_deid.phi.taxonomy import CATEGORY_OF_TYPE
from ensemble_deid.text.document import Document


def _label_of_tag(element: str, kind: str) -> str:
    # The guidelines write other locations as LOCATION with TYPE OTHER, the corpus as LOCATION-OTHER.
    return "LOCATION-OTHER" if (element, kind) == ("LOCATION", "OTHER") else kind


_SCHEME = XmlScheme(
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
    return read_xml_note(path, _SCHEME, gold=gold)


def render_i2b2_note(document: Document) -> str:
    """Return the note as XML, MEDDOCAN labels as i2b2 types; CorpusError on a label without an i2b2 type."""
    return render_xml_note(document, _SCHEME)
