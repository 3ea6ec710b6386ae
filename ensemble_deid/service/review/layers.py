"""A reviewer's layer of a note: begun from what the model found; in adjudication, from what the reviewers decided.

A note that was drawn at random for an audit is read blind: its layers begin empty, and what the model found comes up in
adjudication only, where no reader has marked any of it.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ensemble_deid.note.overlaps import overlapping_pairs
from ensemble_deid.note.span import Span
from ensemble_deid.service.review.accounts import acting
from ensemble_deid.service.review.records import ADJUDICATION, ReviewError, ReviewSpan, read_spans

_Key = tuple[int, int, str]
MODEL = "model"
"""Who marked a span of an audited note that no reader marked."""


@dataclass(frozen=True, slots=True)
class Merged:
    """What finished layers of one note amount to: spans that all have, and who has the others."""

    agreed: tuple[_Key, ...]
    disputed: Mapping[_Key, tuple[str, ...]]


def has_layer(database: sqlite3.Connection, reviewer: str, note: int, *, finished: bool = False) -> bool:
    """Whether a reviewer has begun a note, or `finished` it."""
    wanted = "SELECT 1 FROM layers WHERE reviewer = ? AND note = ? AND finished >= ?"
    return database.execute(wanted, (reviewer, note, finished)).fetchone() is not None


def begin_layer(database: sqlite3.Connection, reviewer: str, note: int) -> None:
    """Make the reviewer's layer of a note where there is none.

    Raises ReviewError for a note that was assigned to others, for an adjudicator who has read it as a reviewer, and as
    `merge` does.
    """
    place = (reviewer, note)
    if not may_read(database, reviewer, note):
        raise ReviewError(
            "whoever reviewed a note does not settle its differences: leave it to a third person"
            if reviewer == ADJUDICATION
            else "this note is assigned to others"
        )
    if has_layer(database, reviewer, note):
        return
    merged = merge(database, note) if reviewer == ADJUDICATION else None
    database.execute("INSERT INTO layers (reviewer, note) VALUES (?, ?)", place)
    if merged is not None:
        rows = [(*place, *key, "found", "accepted", "") for key in merged.agreed]
        rows += [(*place, *key, "disputed", "undecided", ", ".join(who)) for key, who in merged.disputed.items()]
        database.executemany(
            'INSERT INTO spans (reviewer, note, start, "end", label, kind, status, origin) '
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            rows,
        )
    elif not is_drawn(database, note):
        database.execute(
            'INSERT INTO spans (reviewer, note, start, "end", label, score, kind, status) '
            "SELECT ?, note, start, \"end\", label, score, kind, 'undecided' FROM predictions WHERE note = ? "
            'ORDER BY start, "end", label',
            place,
        )


def may_read(database: sqlite3.Connection, reviewer: str, note: int) -> bool:
    """Whether a reviewer may work on a note; an adjudicator on those alone that the account has not read itself."""
    if reviewer != ADJUDICATION:
        return is_assigned(database, reviewer, note)
    account = acting()
    return account is None or not has_layer(database, account.name, note)


def is_assigned(database: sqlite3.Connection, reviewer: str, note: int) -> bool:
    """Whether a reviewer may work on a note: all may on all until notes are assigned."""
    (free,) = database.execute(
        "SELECT NOT EXISTS (SELECT 1 FROM assignments) OR EXISTS "
        "(SELECT 1 FROM assignments WHERE reviewer = ? AND note = ?)",
        (reviewer, note),
    ).fetchone()
    return bool(free)


def is_drawn(database: sqlite3.Connection, note: int) -> bool:
    """Whether a note is read blind: it was drawn at random, for an audit or with `review draw --blind`."""
    (drawn,) = database.execute("SELECT drawn FROM notes WHERE id = ?", (note,)).fetchone()
    return bool(drawn)


def finished_by(database: sqlite3.Connection, note: int) -> list[str]:
    """Return the reviewers who finished a note, adjudication apart, in order of their names."""
    rows = database.execute(
        "SELECT reviewer FROM layers WHERE note = ? AND finished AND reviewer != ? ORDER BY reviewer",
        (note, ADJUDICATION),
    )
    return [row["reviewer"] for row in rows]


def accepted(database: sqlite3.Connection, reviewer: str, note: int) -> list[ReviewSpan]:
    """Return the accepted spans of a layer in text order."""
    return [span for span in read_spans(database, reviewer, note) if span.status == "accepted"]


def check_no_overlap(spans: Sequence[ReviewSpan]) -> None:
    """Raise ReviewError where two spans overlap: a result can hold only one of them, and a person has to say which."""
    pairs = overlapping_pairs([Span(*span.key) for span in spans])
    if pairs:
        first, second = pairs[0]
        raise ReviewError(
            f"the spans {first.start}-{first.end} and {second.start}-{second.end} overlap: accept one of them, which "
            "rejects the other"
        )


def merge(database: sqlite3.Connection, note: int) -> Merged:
    """Compare the layers of all who finished a note. Raises ReviewError where fewer than two did."""
    reviewers = finished_by(database, note)
    if len(reviewers) < 2:
        raise ReviewError("fewer than two reviewers have finished this note")
    marked_by: dict[_Key, list[str]] = {}
    for reviewer in reviewers:
        for key in dict.fromkeys(span.key for span in accepted(database, reviewer, note)):
            marked_by.setdefault(key, []).append(reviewer)
    agreed = tuple(sorted(key for key, who in marked_by.items() if len(who) == len(reviewers)))
    disputed = {key: tuple(who) for key, who in marked_by.items() if len(who) < len(reviewers)}
    if is_drawn(database, note):
        found = database.execute('SELECT start, "end", label FROM predictions WHERE note = ?', (note,)).fetchall()
        for start, end, label in found:
            if not any(key[0] < end and start < key[1] for key in marked_by):
                disputed[start, end, label] = (MODEL,)
    return Merged(agreed, dict(sorted(disputed.items())))
