"""Notes and what the model finds in them, on their way into a store; what is there already is not predicted again."""

import json
import math
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence

from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.errors import DeidError
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.service.review.file import ReviewFile
from ensemble_deid.service.review.records import ReviewError, SpanKind
from ensemble_deid.stacking.sequence_scores import SOURCE

# Where a person's look is needed most: spans whose score is near the threshold, or on which the submodels disagree.


# Of what scores below the threshold, the part from here on is suggested: this share of the threshold.
_SUGGESTED_FROM = 0.5


def uncertainty(score: float, threshold: float) -> float:
    """Return 1 for a score at the threshold, falling to 0 towards the scores 0 and 1."""
    room = 1 - threshold if score >= threshold else threshold
    return 1.0 - (abs(score - threshold) / room if room else 0.0)


def note_uncertainty(spans: Iterable[Span], threshold: float) -> float:
    """Return the uncertainty of a note: that of its most uncertain span, 0 without spans."""
    return max((uncertainty(span.score, threshold) for span in spans), default=0.0)


def disagreement(span: Span, submodels: int) -> float:
    """Return the vote entropy of a span, in bits: how evenly the submodels are divided on it.

    A submodel votes for a span where it is part of its own answer (`Span.source`). 1 where half of them do, 0 where all
    or none do (query by committee; Dagan and Engelson 1995). A single token that no candidate covers is no submodel's.
    """
    votes = len([name for name in span.source.split("+") if name and name != SOURCE])
    if not 0 < votes < submodels:
        return 0.0
    share = votes / submodels
    return -(share * math.log2(share) + (1 - share) * math.log2(1 - share))


def note_disagreement(spans: Iterable[Span], submodels: int) -> float:
    """Return the disagreement on a note: that on its most disputed span, 0 without spans."""
    return max((disagreement(span, submodels) for span in spans), default=0.0)


def shown(spans: Iterable[Span], threshold: float) -> list[tuple[Span, SpanKind]]:
    """Return the spans that a reviewer is to see, found or suggested, of all those predicted at threshold 0."""
    kinds: list[tuple[Span, SpanKind]] = []
    for span in spans:
        if span.score >= threshold:
            kinds.append((span, "found"))
        elif span.score >= _SUGGESTED_FROM * threshold and span.score > 0:
            kinds.append((span, "suggested"))
    return kinds


FillProgress = Callable[[int, int], None]


def fill(
    file: ReviewFile,
    documents: Sequence[Document],
    model: Deidentifier,
    *,
    threshold: float,
    progress: FillProgress,
    jobs: int = 1,
) -> list[str]:
    """Add the notes that the store lacks, each in one transaction, and return why some were withheld.

    Raises ReviewError for a note whose text is not the one in the store: its spans would not fit.
    """
    with file.transaction() as database:
        if database.execute("SELECT 1 FROM notes WHERE drawn").fetchone():
            raise ReviewError(f"{file.path}: holds the sample of an audit, to which no note is added: use `audit read`")
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


def add_note(
    database: sqlite3.Connection, note: Document, threshold: float, *, submodels: int, drawn: bool = False
) -> None:
    """Store a note with what was predicted for it at threshold 0 by a model of so many submodels.

    Single tokens that no candidate covers are no doubts of the model, unless its threshold is so low as to take them.
    A note that was `drawn` at random for an audit is read without what was predicted, in the order of drawing.
    """
    kinds = shown([span for span in note.spans if span.source != SOURCE or span.score >= threshold], threshold)
    spans = [span for span, _ in kinds]
    order = (0.0, 0.0) if drawn else (note_uncertainty(spans, threshold), note_disagreement(spans, submodels))
    row = (note.id, note.text, note.patient_id, note.site, json.dumps(dict(note.metadata)), *order, int(drawn))
    made = database.execute(
        "INSERT INTO notes (name, text, patient, site, metadata, uncertainty, disagreement, drawn) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        row,
    )
    database.executemany(
        'INSERT INTO predictions (note, start, "end", label, score, kind, disagreement) VALUES (?, ?, ?, ?, ?, ?, ?)',
        [
            (made.lastrowid, span.start, span.end, span.label, span.score, kind, disagreement(span, submodels))
            for span, kind in kinds
        ],
    )
