"""Notes and what the model finds in them, on their way into a store; what is there already is not predicted again."""

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence

from ensemble_deid.errors import DeidError
from ensemble_deid.pipeline.deidentifier import Deidentifier
from ensemble_deid.service.review.errors import ReviewError
from ensemble_deid.service.review.file import ReviewFile
from ensemble_deid.service.review.uncertainty import disagreement, note_disagreement, note_uncertainty, shown
from ensemble_deid.stacking.single_tokens import SOURCE
from ensemble_deid.text.document import Document

Progress = Callable[[int, int], None]


def fill(
    file: ReviewFile,
    documents: Sequence[Document],
    model: Deidentifier,
    *,
    threshold: float,
    progress: Progress,
    jobs: int = 1,
) -> list[str]:
    """Add the notes that the store lacks, each in one transaction, and return why some were withheld.

    Raises ReviewError for a note whose text is not the one in the store: its spans would not fit.
    """
    missing = list(_missing(file, documents))
    withheld: list[str] = []
    for done, note in enumerate(model.predict_each(missing, threshold=0.0, jobs=jobs), start=1):
        if isinstance(note, DeidError):
            withheld.append(str(note))
        else:
            with file.transaction() as database:
                add_note(database, note, threshold, submodels=len(model.description.submodels))
        progress(done, len(missing))
    return withheld


def _missing(file: ReviewFile, documents: Sequence[Document]) -> Iterator[Document]:
    with file.transaction() as database:
        for document in documents:
            row = database.execute("SELECT text FROM notes WHERE name = ?", (document.id,)).fetchone()
            if row is None:
                yield document
            elif row["text"] != document.text:
                raise ReviewError(f"{document.id}: the note is not the one in {file.path}; use a new --store")


def add_note(database: sqlite3.Connection, note: Document, threshold: float, *, submodels: int) -> None:
    """Store a note with what was predicted for it at threshold 0 by a model of so many submodels.

    Single tokens that no candidate covers are no doubts of the model, unless its threshold is so low as to take them.
    """
    kinds = shown([span for span in note.spans if span.source != SOURCE or span.score >= threshold], threshold)
    spans = [span for span, _ in kinds]
    order = (note_uncertainty(spans, threshold), note_disagreement(spans, submodels))
    row = (note.id, note.text, note.patient_id, note.site, json.dumps(dict(note.metadata)), *order)
    made = database.execute(
        "INSERT INTO notes (name, text, patient, site, metadata, uncertainty, disagreement) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        row,
    )
    database.executemany(
        'INSERT INTO predictions (note, start, "end", label, score, kind, disagreement) VALUES (?, ?, ?, ?, ?, ?, ?)',
        [
            (made.lastrowid, span.start, span.end, span.label, span.score, kind, disagreement(span, submodels))
            for span, kind in kinds
        ],
    )
