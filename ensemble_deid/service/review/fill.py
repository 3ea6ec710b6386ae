"""Fill a store with notes and what the model finds in them, and take out what the reviewers decided.

Notes that are in the store already are not predicted again.
"""

import json
import math
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.errors import DeidError
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.service.review.file import ReviewFile
from ensemble_deid.service.review.layers import accepted, check_no_overlap, finished_by, has_layer, merge
from ensemble_deid.service.review.records import ADJUDICATION, ReviewError, SpanKind
from ensemble_deid.stacking.sequence_scores import SOURCE

# Of what scores below the threshold, the part from here on is suggested: this share of the threshold.
_SUGGESTED_FROM = 0.5


def uncertainty(score: float, threshold: float) -> float:
    """Return 1 for a score at the threshold, falling to 0 towards the scores 0 and 1."""
    room = 1 - threshold if score >= threshold else threshold
    return 1.0 - (abs(score - threshold) / room if room else 0.0)


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
        # Notes that `review draw` drew have a place in the order of drawing; those of an audit have none.
        if database.execute("SELECT 1 FROM notes WHERE drawn AND place IS NULL").fetchone():
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
    order = (0.0, 0.0)
    if kinds and not drawn:
        most_uncertain = max(uncertainty(span.score, threshold) for span, _ in kinds)
        order = most_uncertain, max(disagreement(span, submodels) for span, _ in kinds)
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
            documents.append(
                Document(
                    id=row["name"],
                    text=row["text"],
                    spans=tuple(Span(*span.key) for span in spans),
                    patient_id=row["patient"],
                    metadata=json.loads(row["metadata"]),
                    site=row["site"],
                )
            )
    return Reviewed(tuple(documents), unfinished, disputed)


def _layer(database: sqlite3.Connection, note: int, reviewer: str | None) -> str | None:
    """Return whose layer counts; None where nobody finished the note, "" where reviewers differ."""
    finished = finished_by(database, note)
    if has_layer(database, ADJUDICATION, note, finished=True):
        finished.append(ADJUDICATION)
    if reviewer is not None:
        return reviewer if reviewer in finished else None
    if ADJUDICATION in finished:
        return ADJUDICATION
    if len(finished) < 2:
        return finished[0] if finished else None
    return "" if merge(database, note).disputed else finished[0]
