"""How far a review is: the notes in the order in which they need a look, progress, and agreement."""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from ensemble_deid.service.review.layers import accepted, finished_by, merge
from ensemble_deid.service.review.records import ADJUDICATION
from ensemble_deid.text.counts import Counts


@dataclass(frozen=True, slots=True)
class NoteLine:
    """A note in a reviewer's list; `open` counts the spans without a decision."""

    id: int
    name: str
    finished: bool
    open: int
    uncertainty: float


@dataclass(frozen=True, slots=True)
class PairAgreement:
    """Strict agreement of two reviewers on the notes that both finished; F1 None where neither marked anything."""

    first: str
    second: str
    notes: int
    both: int
    first_only: int
    second_only: int
    f1: float | None


def note_lines(database: sqlite3.Connection, reviewer: str) -> list[NoteLine]:
    """Return a reviewer's notes, the open and most uncertain ones first; for adjudication, those that two finished."""
    lines = list(_adjudication_lines(database) if reviewer == ADJUDICATION else _reviewer_lines(database, reviewer))
    return sorted(lines, key=lambda line: (line.finished, -line.uncertainty, line.id))


def reviewers(database: sqlite3.Connection) -> list[str]:
    """Return everyone who has begun a note, adjudication apart."""
    rows = database.execute(
        "SELECT DISTINCT reviewer FROM layers WHERE reviewer != ? ORDER BY reviewer", (ADJUDICATION,)
    )
    return [row["reviewer"] for row in rows]


def agreement(database: sqlite3.Connection) -> list[PairAgreement]:
    """Return the agreement of every two reviewers who have finished a note in common (Hripcsak and Rothschild 2005)."""
    counts: dict[tuple[str, str], list[Counts]] = {}
    for (note,) in database.execute("SELECT DISTINCT note FROM layers WHERE finished ORDER BY note").fetchall():
        marked = {name: {span.key for span in accepted(database, name, note)} for name in finished_by(database, note)}
        for first, second in combinations(sorted(marked), 2):
            a, b = marked[first], marked[second]
            counts.setdefault((first, second), []).append(Counts(len(a & b), len(b - a), len(a - b)))
    pairs = []
    for (first, second), notes in sorted(counts.items()):
        total = sum(notes, Counts())
        pairs.append(PairAgreement(first, second, len(notes), total.tp, total.fn, total.fp, total.f1))
    return pairs


def _reviewer_lines(database: sqlite3.Connection, reviewer: str) -> Iterator[NoteLine]:
    rows = database.execute(
        """
        SELECT notes.id, notes.name, notes.uncertainty, layers.finished, layers.note IS NULL AS untouched,
            (SELECT count(*) FROM predictions WHERE predictions.note = notes.id) AS predicted,
            (SELECT count(*) FROM spans WHERE spans.note = notes.id AND spans.reviewer = :reviewer
                AND spans.status = 'undecided') AS undecided
        FROM notes LEFT JOIN layers ON layers.note = notes.id AND layers.reviewer = :reviewer
        """,
        {"reviewer": reviewer},
    )
    for row in rows:
        count = row["predicted"] if row["untouched"] else row["undecided"]
        yield NoteLine(row["id"], row["name"], bool(row["finished"]), count, row["uncertainty"])


def _adjudication_lines(database: sqlite3.Connection) -> Iterator[NoteLine]:
    rows = database.execute(
        """
        SELECT notes.id, notes.name, own.finished,
            (SELECT count(*) FROM spans WHERE spans.note = notes.id AND spans.reviewer = :name
                AND spans.status = 'undecided') AS undecided
        FROM notes LEFT JOIN layers AS own ON own.note = notes.id AND own.reviewer = :name
        WHERE (SELECT count(*) FROM layers WHERE layers.note = notes.id AND finished AND reviewer != :name) > 1
        """,
        {"name": ADJUDICATION},
    ).fetchall()
    for row in rows:
        begun = row["finished"] is not None
        count = row["undecided"] if begun else len(merge(database, row["id"]).disputed)
        yield NoteLine(row["id"], row["name"], bool(row["finished"]), count, float(count))
