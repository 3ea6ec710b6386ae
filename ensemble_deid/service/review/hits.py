"""Where a string occurs in all notes, with a few words around each occurrence."""

import sqlite3
from dataclasses import dataclass

from ensemble_deid.service.review.edits import Search, occurrences, searched
from ensemble_deid.service.review.layers import may_read

_LISTED = 200
_AROUND = 40


@dataclass(frozen=True, slots=True)
class Hit:
    """One occurrence."""

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
    wanted = searched(search.words, whole_words=search.whole_words, match_case=search.match_case)
    total = notes = 0
    hits: list[Hit] = []
    for row in database.execute("SELECT id, name, text FROM notes ORDER BY id"):
        if not may_read(database, reviewer, row["id"]):
            continue
        text = row["text"]
        places = list(occurrences(text, wanted))
        total += len(places)
        notes += bool(places)
        for start, end in places[: _LISTED - len(hits)]:
            before, after = text[max(0, start - _AROUND) : start], text[end : end + _AROUND]
            hits.append(
                Hit(
                    note=row["id"],
                    name=row["name"],
                    start=start,
                    end=end,
                    before=before,
                    found=text[start:end],
                    after=after,
                )
            )
    return Hits(total, notes, tuple(hits))
