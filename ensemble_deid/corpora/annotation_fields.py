"""What annotation tools keep beside a note's text: its id, patient, site and metadata, under names of our own."""

from typing import Any

from ensemble_deid.corpora.checks import check_id
from ensemble_deid.corpora.json_fields import metadata_field, optional_string
from ensemble_deid.text.document import Document

NOTE_ID = "note_id"


def note_fields(document: Document) -> dict[str, Any]:
    """Return the fields that a tool is to hand back: what is empty is left out."""
    fields: dict[str, Any] = {NOTE_ID: document.id}
    if document.patient_id is not None:
        fields["patient_id"] = document.patient_id
    if document.site is not None:
        fields["site"] = document.site
    if document.metadata:
        fields["metadata"] = dict(sorted(document.metadata.items()))
    return fields


def note_of_fields(fields: dict[str, Any], text: str, fallback_id: str, place: str) -> Document:
    """Return the note without spans; one that no id of ours came with has the fallback. Raises CorpusError."""
    identity = optional_string(fields, NOTE_ID, place) or fallback_id
    check_id(identity, place)
    return Document(
        identity,
        text,
        patient_id=optional_string(fields, "patient_id", place),
        site=optional_string(fields, "site", place),
        metadata=metadata_field(fields, place),
    )
