"""What the reviewers decided, as a corpus."""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.service.review.layers import accepted, check_no_overlap, finished_by, merge
from ensemble_deid.service.review.records import ADJUDICATION, ReviewError


@dataclass(frozen=True, slots=True)
class Reviewed:
    """The notes that are ready, and how many are not: nobody finished them, or reviewers differ."""

    documents: tuple[Document, ...]
    unfinished: int
    disputed: int


def reviewed(database: sqlite3.Connection, *, reviewer: str | None = None, drawn: bool = False) -> Reviewed:
    """Return the finished notes with their accepted spans, in the order in which they came into the store.

    A note's spans are those of its adjudication; without one, those of its one reviewer, or of several who agree. With
    `reviewer`, those of this one alone; with `drawn`, only notes that were drawn at random (`review draw`): others were
    chosen for being hard, and measure no model. Raises ReviewError where a note's accepted spans overlap: the corpus
    could hold only one of them, and the other's text would count as no PHI.
    """
    documents: list[Document] = []
    unfinished = disputed = 0
    wanted = "SELECT id, name, text, patient, site, metadata FROM notes WHERE place IS NOT NULL OR NOT ? ORDER BY id"
    for row in database.execute(wanted, (drawn,)).fetchall():
        layer = _layer(database, row["id"], reviewer)
        if layer is None:
            unfinished += 1
        elif layer == "":
            disputed += 1
        else:
            spans = accepted(database, layer, row["id"])
            try:
                check_no_overlap(spans)
            except ReviewError as error:
                raise ReviewError(f"{row['name']}: {error}; then finish the note again") from None
            documents.append(_document(row, [Span(*span.key) for span in spans]))
    return Reviewed(tuple(documents), unfinished, disputed)


def _layer(database: sqlite3.Connection, note: int, reviewer: str | None) -> str | None:
    """Return whose layer counts; None where nobody finished the note, "" where reviewers differ."""
    finished = finished_by(database, note)
    adjudicated = database.execute(
        "SELECT finished FROM layers WHERE note = ? AND reviewer = ?", (note, ADJUDICATION)
    ).fetchone()
    if adjudicated is not None and adjudicated["finished"]:
        finished.append(ADJUDICATION)
    if reviewer is not None:
        return reviewer if reviewer in finished else None
    if ADJUDICATION in finished:
        return ADJUDICATION
    if len(finished) < 2:
        return finished[0] if finished else None
    return "" if merge(database, note).disputed else finished[0]


def _document(row: sqlite3.Row, spans: Sequence[Span]) -> Document:
    metadata = json.loads(row["metadata"])
    return Document(
        id=row["name"],
        text=row["text"],
        spans=tuple(spans),
        patient_id=row["patient"],
        metadata=metadata,
        site=row["site"],
    )
