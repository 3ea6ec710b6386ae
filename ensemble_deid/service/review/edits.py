"""The decisions that a reviewer can make, each as one step, and the search for a string in all notes.

Whatever becomes marked as PHI rejects the marked spans that it overlaps, so that the last decision holds and the result
has no overlaps.
"""

import re
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ensemble_deid.service.review.layers import begin_layer, check_no_overlap, finished_by, has_layer, may_read
from ensemble_deid.service.review.records import ADJUDICATION, ReviewError, ReviewSpan, Status, read_spans
from ensemble_deid.service.review.steps import ReviewStep, is_adjudicated, refuse_adjudicated


@dataclass(frozen=True, slots=True)
class Search:
    """A string to be found in all notes; a space in it stands for any white space, a line break included."""

    words: str
    whole_words: bool = True
    match_case: bool = False

    def pattern(self) -> re.Pattern[str]:
        """Compile the search. Raises ReviewError for a string without a visible character."""
        parts = self.words.split()
        if not parts:
            raise ReviewError("there is nothing to search for")
        # The white space of a run is never matched in two ways, so the search takes linear time.
        pattern = r"\s+".join(map(re.escape, parts))
        if self.whole_words:
            pattern = rf"(?<!\w){pattern}(?!\w)"
        return re.compile(pattern, 0 if self.match_case else re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Marked:
    """What marking all occurrences did: how many are marked now, and how many lie in or across other marked spans."""

    marked: int
    skipped: int


def add_span(database: sqlite3.Connection, reviewer: str, note: int, start: int, end: int, label: str) -> int:
    """Mark a place of a note and return the span's id; a span that is there already is accepted instead."""
    _open(database, reviewer, note)
    _check_place(database, note, start, end)
    step = ReviewStep(database, reviewer, "add")
    span = _mark(step, spans=read_spans(database, reviewer, note), note=note, start=start, end=end, label=label)
    step.close()
    return span


def decide(database: sqlite3.Connection, reviewer: str, note: int, span: int, status: Status) -> None:
    """Accept or reject a span, or leave it undecided again.

    What the model found counts as PHI while it is undecided, so that leaving it undecided rejects what it overlaps, as
    accepting it does. An undecided difference rejects nothing: the note cannot be finished before it is decided.
    """
    found = _find(database, reviewer, note, span)
    step = ReviewStep(database, reviewer, status)
    if replace(found, status=status).marked and (status == "accepted" or found.kind != "disputed"):
        _reject_overlapped(step, read_spans(database, reviewer, note), note, found.start, found.end, besides=span)
    step.change(note, found, status=status)
    step.close()


def alter(
    database: sqlite3.Connection,
    reviewer: str,
    note: int,
    span: int,
    *,
    start: int | None = None,
    end: int | None = None,
    label: str | None = None,
) -> None:
    """Give a span other ends or another label, which accepts it."""
    found = _find(database, reviewer, note, span)
    new_start = found.start if start is None else start
    new_end = found.end if end is None else end
    _check_place(database, note, new_start, new_end)
    step = ReviewStep(database, reviewer, "relabel" if label is not None else "stretch")
    _reject_overlapped(step, read_spans(database, reviewer, note), note, new_start, new_end, besides=span)
    step.change(note, found, start=new_start, end=new_end, label=label or found.label, status="accepted")
    step.close()


def finish(database: sqlite3.Connection, reviewer: str, note: int, *, finished: bool, settle: bool = False) -> None:
    """End the work on a note, or open it again.

    With `settle`, what the model found and nobody rejected is accepted, and what it suggested is rejected. Raises
    ReviewError without it while spans are undecided; in adjudication while differences are; and where two spans that
    would be accepted overlap, as stores of earlier versions may hold them.
    """
    refuse_adjudicated(database, reviewer, note)
    begin_layer(database, reviewer, note)
    spans = read_spans(database, reviewer, note)
    undecided = [span for span in spans if span.status == "undecided"] if finished else []
    disputed = sum(span.kind == "disputed" for span in undecided)
    if disputed:
        raise ReviewError(f"decide about the differences first: {disputed} left")
    if undecided and not settle:
        raise ReviewError(f"{len(undecided)} spans are undecided: decide about them, or say that they stay as shown")
    if finished:
        check_no_overlap([span for span in spans if span.marked])
    step = ReviewStep(database, reviewer, "finish" if finished else "reopen")
    for span in undecided:
        step.change(note, span, status="accepted" if span.marked else "rejected")
    step.finish(note, finished=finished)
    step.close()


def mark_all(database: sqlite3.Connection, reviewer: str, search: Search, label: str) -> Marked:
    """Mark every occurrence of a string in all notes, as one step.

    An occurrence inside or across another marked span stays as it is; so do finished notes, those of others, notes
    whose adjudication has begun and, in adjudication, notes that fewer than two reviewers finished, or that the
    adjudicator reviewed.
    """
    wanted = search.pattern()
    step = ReviewStep(database, reviewer, "mark all")
    marked = skipped = 0
    for row in database.execute("SELECT id, text FROM notes ORDER BY id").fetchall():
        note = row["id"]
        places = [match.span() for match in wanted.finditer(row["text"])]
        if not places:
            continue
        if not _may_mark(database, reviewer, note):
            skipped += len(places)
            continue
        begin_layer(database, reviewer, note)
        spans = read_spans(database, reviewer, note)
        for start, end in places:
            near = [span for span in spans if span.overlaps(start, end)]
            if any(span.marked and (span.start, span.end) != (start, end) for span in near):
                skipped += 1
                continue
            _mark(step, spans=near, note=note, start=start, end=end, label=label)
            marked += 1
            if near:
                spans = read_spans(database, reviewer, note)
    step.close()
    return Marked(marked, skipped)


def _may_mark(database: sqlite3.Connection, reviewer: str, note: int) -> bool:
    if has_layer(database, reviewer, note, finished=True) or not may_read(database, reviewer, note):
        return False
    if reviewer != ADJUDICATION:
        return not is_adjudicated(database, note)
    return is_adjudicated(database, note) or len(finished_by(database, note)) > 1


def _open(database: sqlite3.Connection, reviewer: str, note: int) -> None:
    refuse_adjudicated(database, reviewer, note)
    begin_layer(database, reviewer, note)
    if has_layer(database, reviewer, note, finished=True):
        raise ReviewError("the note is finished: open it again to change it")


def _find(database: sqlite3.Connection, reviewer: str, note: int, span: int) -> ReviewSpan:
    _open(database, reviewer, note)
    found = next((one for one in read_spans(database, reviewer, note) if one.id == span), None)
    if found is None:
        raise ReviewError("this span is no longer there: load the note again")
    return found


def _check_place(database: sqlite3.Connection, note: int, start: int, end: int) -> None:
    (text,) = database.execute("SELECT text FROM notes WHERE id = ?", (note,)).fetchone()
    if not 0 <= start < end <= len(text):
        raise ReviewError(f"{start}-{end} lies outside the note of {len(text)} characters")
    if not text[start:end].strip():
        raise ReviewError(f"{start}-{end} is white space alone")


def _mark(step: ReviewStep, spans: Sequence[ReviewSpan], note: int, start: int, end: int, label: str) -> int:
    """Accept the span at this very place, or add one."""
    same = [span for span in spans if (span.start, span.end) == (start, end)]
    same.sort(key=lambda span: (span.label != label, not span.marked, span.id))
    if not same:
        _reject_overlapped(step, spans, note, start, end)
        return step.add(note, start, end, label)
    _reject_overlapped(step, spans, note, start, end, besides=same[0].id)
    step.change(note, same[0], label=label, status="accepted")
    return same[0].id


def _reject_overlapped(
    step: ReviewStep, spans: Sequence[ReviewSpan], note: int, start: int, end: int, *, besides: int | None = None
) -> None:
    for span in spans:
        if span.id != besides and span.status != "rejected" and span.overlaps(start, end):
            step.change(note, span, status="rejected")


_LISTED = 200
_AROUND = 40


@dataclass(frozen=True, slots=True)
class Hit:
    note: int
    name: str
    start: int
    end: int
    before: str
    found: str
    after: str


@dataclass(frozen=True, slots=True)
class Hits:
    """How many occurrences there are, in how many notes, and the first of them."""

    total: int
    notes: int
    hits: tuple[Hit, ...]


def find_hits(database: sqlite3.Connection, reviewer: str, search: Search) -> Hits:
    """Search all notes that a reviewer may see. Raises ReviewError where there is nothing to search for."""
    wanted = search.pattern()
    total = notes = 0
    hits: list[Hit] = []
    for row in database.execute("SELECT id, name, text FROM notes ORDER BY id"):
        if not may_read(database, reviewer, row["id"]):
            continue
        text = row["text"]
        places = [match.span() for match in wanted.finditer(text)]
        total += len(places)
        notes += bool(places)
        for start, end in places[: _LISTED - len(hits)]:
            before, after = text[max(0, start - _AROUND) : start], text[end : end + _AROUND]
            hits.append(
                Hit(row["id"], row["name"], start=start, end=end, before=before, found=text[start:end], after=after)
            )
    return Hits(total, notes, tuple(hits))
