"""Decisions that can be undone: each is stored with what stood before, and stays in the store as a record."""

import json
import sqlite3
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

from ensemble_deid.service.review.accounts import acting
from ensemble_deid.service.review.layers import has_layer, may_read
from ensemble_deid.service.review.records import ADJUDICATION, ReviewError, ReviewSpan


class ReviewStep:
    """One decision of one reviewer while it is made, in the transaction that stores it."""

    def __init__(self, database: sqlite3.Connection, reviewer: str, action: str) -> None:
        self._database, self._reviewer = database, reviewer
        account = acting()
        # What was undone before cannot be done again after something new.
        database.execute("UPDATE steps SET state = 'dropped' WHERE reviewer = ? AND state = 'undone'", (reviewer,))
        made = database.execute(
            "INSERT INTO steps (reviewer, time, action, account) VALUES (?, ?, ?, ?)",
            (reviewer, datetime.now(UTC).isoformat(timespec="seconds"), action, account.name if account else ""),
        )
        self._id = made.lastrowid
        self._changes = 0

    def add(self, note: int, start: int, end: int, label: str) -> int:
        """Make a new span, which is accepted, and return its id."""
        made = self._database.execute(
            'INSERT INTO spans (reviewer, note, start, "end", label, kind, status) '
            "VALUES (?, ?, ?, ?, ?, 'added', 'accepted')",
            (self._reviewer, note, start, end, label),
        )
        span = made.lastrowid or 0
        new = ReviewSpan(span, start, end, label, score=None, kind="added", status="accepted")
        self._record(note, span, None, _packed(new))
        return span

    def change(self, note: int, span: ReviewSpan, **new: Any) -> None:
        """Change some of a span's fields; nothing is recorded where they are so already."""
        changed = replace(span, **new)
        if changed != span:
            _restore(self._database, self._reviewer, note, span.id, _packed(changed))
            self._record(note, span.id, _packed(span), _packed(changed))

    def finish(self, note: int, *, finished: bool) -> None:
        place = (self._reviewer, note)
        (before,) = self._database.execute(
            "SELECT finished FROM layers WHERE reviewer = ? AND note = ?", place
        ).fetchone()
        if bool(before) != finished:
            _restore(self._database, self._reviewer, note, None, str(int(finished)))
            self._record(note, None, str(before), str(int(finished)))

    def close(self) -> None:
        """End the step; one that changed nothing leaves no trace."""
        if not self._changes:
            self._database.execute("DELETE FROM steps WHERE id = ?", (self._id,))

    def _record(self, note: int, span: int | None, before: str | None, after: str | None) -> None:
        self._changes += 1
        self._database.execute(
            "INSERT INTO changes (step, note, span, before, after) VALUES (?, ?, ?, ?, ?)",
            (self._id, note, span, before, after),
        )


def undo(database: sqlite3.Connection, reviewer: str) -> int | None:
    """Take the reviewer's last step back and return a note that it changed, None where there is none.

    Raises ReviewError where a note of the step is being adjudicated.
    """
    return _replay(database, reviewer, backwards=True)


def redo(database: sqlite3.Connection, reviewer: str) -> int | None:
    """Do the step that was undone last again; otherwise as `undo`."""
    return _replay(database, reviewer, backwards=False)


def may_replay(database: sqlite3.Connection, reviewer: str, *, backwards: bool) -> bool:
    """Whether there is a step that `undo` (backwards) or `redo` can replay."""
    step = _step_to_replay(database, reviewer, backwards=backwards)
    if step is None:
        return False
    notes = [row["note"] for row in database.execute("SELECT DISTINCT note FROM changes WHERE step = ?", (step,))]
    return reviewer == ADJUDICATION or not any(is_adjudicated(database, note) for note in notes)


def _step_to_replay(database: sqlite3.Connection, reviewer: str, *, backwards: bool) -> int | None:
    wanted = "SELECT max(id) FROM steps WHERE reviewer = ? AND state = 'done'"
    if not backwards:
        wanted = "SELECT min(id) FROM steps WHERE reviewer = ? AND state = 'undone'"
    step: int | None = database.execute(wanted, (reviewer,)).fetchone()[0]
    return step


def refuse_adjudicated(database: sqlite3.Connection, reviewer: str, note: int) -> None:
    """Raise ReviewError where the note's adjudication rests on this reviewer's decisions already."""
    if reviewer != ADJUDICATION and is_adjudicated(database, note):
        raise ReviewError("the adjudication of this note has begun: it can be changed there only")


def is_adjudicated(database: sqlite3.Connection, note: int) -> bool:
    """Whether the adjudication of a note has begun."""
    return has_layer(database, ADJUDICATION, note)


def _replay(database: sqlite3.Connection, reviewer: str, *, backwards: bool) -> int | None:
    step = _step_to_replay(database, reviewer, backwards=backwards)
    if step is None:
        return None
    changes = database.execute("SELECT note, span, before, after FROM changes WHERE step = ? ORDER BY id", (step,))
    rows = changes.fetchall()
    for note in {row["note"] for row in rows}:
        refuse_adjudicated(database, reviewer, note)
        if not may_read(database, reviewer, note):
            raise ReviewError("this note is others' to change")
    for row in reversed(rows) if backwards else rows:
        _restore(database, reviewer, row["note"], row["span"], row["before" if backwards else "after"])
    state = "undone" if backwards else "done"
    database.execute("UPDATE steps SET state = ? WHERE id = ?", (state, step))
    return int(rows[0]["note"])


def _restore(database: sqlite3.Connection, reviewer: str, note: int, span: int | None, content: str | None) -> None:
    """Give a span, or (None) the note's being finished, the state that was packed; None deletes the span."""
    if span is None:
        place = (int(content or 0), reviewer, note)
        database.execute("UPDATE layers SET finished = ? WHERE reviewer = ? AND note = ?", place)
    elif content is None:
        database.execute("DELETE FROM spans WHERE id = ?", (span,))
    else:
        database.execute(
            'INSERT OR REPLACE INTO spans (id, reviewer, note, start, "end", label, score, kind, status, origin) '
            "VALUES (:id, :reviewer, :note, :start, :end, :label, :score, :kind, :status, :origin)",
            {**json.loads(content), "id": span, "reviewer": reviewer, "note": note},
        )


def _packed(span: ReviewSpan) -> str:
    return json.dumps(asdict(span))
