"""How far a review is: the notes in the order in which they need a look, progress, and agreement."""

import sqlite3
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from ensemble_deid.evaluation.views import tokens_of
from ensemble_deid.note.counts import Counts
from ensemble_deid.note.overlaps import Covered
from ensemble_deid.service.review.accounts import acting
from ensemble_deid.service.review.layers import accepted, finished_by
from ensemble_deid.service.review.records import ADJUDICATION

Order = Literal["score", "disagreement", "drawn"]
"""Which notes come first: a score near the threshold, submodels that disagree, or drawn at random (`review draw`)."""
PAGE = 100
"""The notes of a page of the list."""


@dataclass(frozen=True, slots=True)
class NoteLine:
    """A note in a reviewer's list; `open` counts the spans without a decision."""

    id: int
    name: str
    finished: bool
    open: int
    patient: str | None = None


@dataclass(frozen=True, slots=True)
class NotePage:
    """A page of a reviewer's list: at most `size` lines from `offset` on, of `total` in all.

    `previous` and `next` are the notes beside the one that the page was asked around, `first_open` is the first of the
    whole list that is not finished.
    """

    total: int
    finished: int
    size: int
    offset: int
    lines: tuple[NoteLine, ...]
    previous: int | None
    next: int | None
    first_open: int | None


@dataclass(frozen=True, slots=True)
class PairAgreement:
    """Agreement of two reviewers on the notes that both finished: strict on spans, and Cohen's kappa of tokens.

    F1 is None where neither marked anything, kappa where chance alone gives agreement.
    """

    first: str
    second: str
    notes: int
    both: int
    first_only: int
    second_only: int
    f1: float | None
    kappa: float | None


def note_page(
    database: sqlite3.Connection,
    reviewer: str,
    *,
    order: Order = "score",
    around: int | None = None,
    offset: int | None = None,
) -> NotePage:
    """Return a page of a reviewer's notes by patient, open and most uncertain patients first; for adjudication, of two.

    It is the page at `offset`, else the one that holds the note `around`, else the first.
    """
    adjudication = _adjudication_lines(database) if reviewer == ADJUDICATION else None
    listed = _ordered(database, reviewer, order) if adjudication is None else [(n.id, n.finished) for n in adjudication]
    places = {note: place for place, (note, _) in enumerate(listed)}
    at = None if around is None else places.get(around)
    start = (at or 0) // PAGE * PAGE if offset is None else offset
    window = slice(start, start + PAGE)
    if adjudication is None:
        lines = _reviewer_lines(database, reviewer, listed[window])
    else:
        lines = tuple(adjudication[window])
    return NotePage(
        total=len(listed),
        finished=sum(finished for _, finished in listed),
        size=PAGE,
        offset=start,
        lines=lines,
        previous=listed[at - 1][0] if at else None,
        next=listed[at + 1][0] if at is not None and at + 1 < len(listed) else None,
        first_open=next((note for note, finished in listed if not finished), None),
    )


def reviewers(database: sqlite3.Connection) -> list[str]:
    """Return everyone who has begun a note, adjudication apart."""
    rows = database.execute(
        "SELECT DISTINCT reviewer FROM layers WHERE reviewer != ? ORDER BY reviewer", (ADJUDICATION,)
    )
    return [row["reviewer"] for row in rows]


def agreement(database: sqlite3.Connection) -> list[PairAgreement]:
    """Return the agreement of every two reviewers who have finished a note in common (Hripcsak and Rothschild 2005)."""
    counts: dict[tuple[str, str], list[Counts]] = {}
    tokens: dict[tuple[str, str], Counter[tuple[bool, bool]]] = {}
    shared = (
        "SELECT id, text FROM notes WHERE (SELECT count(*) FROM layers WHERE note = notes.id AND finished "
        "AND reviewer != ?) > 1 ORDER BY id"
    )
    for note, text in database.execute(shared, (ADJUDICATION,)).fetchall():
        marked = {name: {span.key for span in accepted(database, name, note)} for name in finished_by(database, note)}
        places = tokens_of(text)
        covered = {name: Covered((start, end) for start, end, _ in keys) for name, keys in marked.items()}
        phi = {name: [found.overlaps(*place) for place in places] for name, found in covered.items()}
        for first, second in combinations(sorted(marked), 2):
            a, b = marked[first], marked[second]
            counts.setdefault((first, second), []).append(Counts(len(a & b), len(b - a), len(a - b)))
            tokens.setdefault((first, second), Counter()).update(zip(phi[first], phi[second], strict=True))
    pairs = []
    for (first, second), notes in sorted(counts.items()):
        total = sum(notes, Counts())
        pairs.append(
            PairAgreement(
                first,
                second,
                notes=len(notes),
                both=total.tp,
                first_only=total.fn,
                second_only=total.fp,
                f1=total.f1,
                kappa=_kappa(tokens[first, second]),
            )
        )
    return pairs


def _kappa(tokens: Counter[tuple[bool, bool]]) -> float | None:
    """Return Cohen's kappa (1960) from the number of tokens that each of two reviewers marked or not."""
    n = tokens.total()
    first, second = (sum(count for pair, count in tokens.items() if pair[side]) for side in (0, 1))
    expected = first * second + (n - first) * (n - second)
    observed = n * sum(count for (one, other), count in tokens.items() if one == other)
    return None if expected == n * n else (observed - expected) / (n * n - expected)


def to_settle(database: sqlite3.Connection) -> int:
    """Return how many notes adjudication lists: those that two reviewers have finished."""
    return len(_adjudication_lines(database))


def _ordered(database: sqlite3.Connection, reviewer: str, order: Order) -> list[tuple[int, bool]]:
    """Return the reviewer's notes in their order, with whether they are finished.

    A patient's notes are together, in the order in which they came; patients with an open note come first, each by the
    note of theirs that needs a look most.
    """
    rows = database.execute(
        """
        SELECT notes.id, coalesce(layers.finished, 0) AS done, coalesce(patient, 'note ' || notes.id)
        FROM notes LEFT JOIN layers ON layers.note = notes.id AND layers.reviewer = :reviewer
        WHERE NOT EXISTS (SELECT 1 FROM assignments)
            OR EXISTS (SELECT 1 FROM assignments WHERE assignments.note = notes.id AND reviewer = :reviewer)
        ORDER BY done, CASE :order WHEN 'drawn' THEN coalesce(-place, -1e9) WHEN 'score' THEN uncertainty
            ELSE disagreement END DESC, uncertainty DESC, notes.id
        """,
        {"reviewer": reviewer, "order": order},
    )
    patients: dict[str, list[tuple[int, bool]]] = {}
    for note, done, patient in rows:
        patients.setdefault(patient, []).append((note, bool(done)))
    return [line for notes in patients.values() for line in sorted(notes)]


def _reviewer_lines(
    database: sqlite3.Connection, reviewer: str, notes: Sequence[tuple[int, bool]]
) -> tuple[NoteLine, ...]:
    """Return the lines of some notes; only for these are spans counted."""
    lines = []
    for note, finished in notes:
        name, patient, untouched, predicted, undecided = database.execute(
            """
            SELECT name, patient, NOT EXISTS (SELECT 1 FROM layers WHERE note = :note AND reviewer = :reviewer),
                (SELECT count(*) FROM predictions WHERE note = :note AND NOT notes.drawn),
                (SELECT count(*) FROM spans WHERE note = :note AND reviewer = :reviewer AND status = 'undecided')
            FROM notes WHERE id = :note
            """,
            {"note": note, "reviewer": reviewer},
        ).fetchone()
        lines.append(NoteLine(note, name, finished, predicted if untouched else undecided, patient))
    return tuple(lines)


def _adjudication_lines(database: sqlite3.Connection) -> list[NoteLine]:
    """Return the lines of the notes that two reviewers have finished, those with most left to settle first.

    Whoever began to review a note does not see it there.
    """
    account = acting()
    disputed = _disputed(database)
    rows = database.execute(
        """
        SELECT notes.id, notes.name, notes.patient, own.finished,
            (SELECT count(*) FROM spans WHERE spans.note = notes.id AND spans.reviewer = :name
                AND spans.status = 'undecided') AS undecided
        FROM notes LEFT JOIN layers AS own ON own.note = notes.id AND own.reviewer = :name
        WHERE (SELECT count(*) FROM layers WHERE layers.note = notes.id AND finished AND reviewer != :name) > 1
            AND NOT EXISTS (SELECT 1 FROM layers WHERE layers.note = notes.id AND reviewer = :acting)
        """,
        {"name": ADJUDICATION, "acting": account.name if account else None},
    )
    lines = []
    for note, name, patient, finished, undecided in rows:
        count = disputed.get(note, 0) if finished is None else undecided
        lines.append(NoteLine(note, name, bool(finished), count, patient))
    return sorted(lines, key=lambda line: (line.finished, -line.open, line.id))


def _disputed(database: sqlite3.Connection) -> dict[int, int]:
    """Return how many differences each note has that two finished, where adjudication has not begun it.

    They are the spans that some and not all marked, and of an audited note what the model alone found.
    """
    rows = database.execute(
        """
        WITH done AS (
            SELECT note, count(*) AS reviewers FROM layers
            WHERE finished AND reviewer != :name
                AND note NOT IN (SELECT note FROM layers WHERE reviewer = :name)
            GROUP BY note HAVING count(*) > 1
        ), marked AS (
            SELECT spans.note FROM done
            JOIN layers ON layers.note = done.note AND layers.finished
            JOIN spans ON spans.note = layers.note AND spans.reviewer = layers.reviewer AND spans.status = 'accepted'
            GROUP BY spans.note, spans.start, spans."end", spans.label
            HAVING count(DISTINCT spans.reviewer) < max(done.reviewers)
        )
        SELECT note, count(*) FROM (
            SELECT note FROM marked
            UNION ALL
            SELECT found.note FROM done
            JOIN notes ON notes.id = done.note AND notes.drawn
            JOIN predictions AS found ON found.note = done.note
            WHERE NOT EXISTS (
                SELECT 1 FROM spans
                JOIN layers ON layers.note = spans.note AND layers.reviewer = spans.reviewer AND layers.finished
                WHERE spans.note = found.note AND spans.status = 'accepted'
                    AND spans.start < found."end" AND found.start < spans."end"
            )
        ) GROUP BY note
        """,
        {"name": ADJUDICATION},
    )
    return dict(rows.fetchall())
