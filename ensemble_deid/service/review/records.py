"""What a store holds, as rows are read: spans with what was decided about them."""

import sqlite3
from dataclasses import dataclass
from typing import Literal

from ensemble_deid.errors import DeidError

# What a review refuses.


class ReviewError(DeidError):
    """A store that cannot be used, or a decision that does not fit the state of the review; quotes no note."""


class StoreError(ReviewError):
    """A store that could not be read or written, such as on a full disk: no decision of the reviewer is at fault."""


Status = Literal["undecided", "accepted", "rejected"]
SpanKind = Literal["found", "suggested", "added", "disputed"]
"""Where a span comes from: the model found it, it scored below the threshold, a person added it, reviewers differ."""

ADJUDICATION = "adjudication"
"""The name under which differences between reviewers are settled."""


@dataclass(frozen=True, slots=True)
class ReviewSpan:
    """A span in one reviewer's layer of a note; offsets in code points, `origin` the reviewers who marked it."""

    id: int
    start: int
    end: int
    label: str
    score: float | None
    kind: SpanKind
    status: Status
    origin: str = ""

    @property
    def key(self) -> tuple[int, int, str]:
        """Start, end and label."""
        return (self.start, self.end, self.label)

    @property
    def marked(self) -> bool:
        """Whether it would count as PHI if the note were finished now; disputed spans have to be decided first."""
        return self.status == "accepted" or (self.status == "undecided" and self.kind != "suggested")

    def overlaps(self, start: int, end: int) -> bool:
        """Whether it shares a character with `[start, end)`."""
        return self.start < end and start < self.end


def read_spans(database: sqlite3.Connection, reviewer: str, note: int) -> list[ReviewSpan]:
    """Return the spans of a reviewer's layer in text order."""
    rows = database.execute(
        'SELECT id, start, "end", label, score, kind, status, origin FROM spans WHERE note = ? AND reviewer = ? '
        'ORDER BY start, "end", label, id',
        (note, reviewer),
    )
    return [ReviewSpan(*row) for row in rows]


def read_disagreements(database: sqlite3.Connection, note: int) -> dict[tuple[int, int, str], float]:
    """Return how far the submodels disagreed on each span that was predicted for a note."""
    rows = database.execute('SELECT start, "end", label, disagreement FROM predictions WHERE note = ?', (note,))
    return {(start, end, label): value for start, end, label, value in rows}
