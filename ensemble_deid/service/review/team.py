"""What a team shares: who reviews which notes, notes drawn at random, and the guideline in its versions."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from ensemble_deid.seeds import generator
from ensemble_deid.service.review.accounts import acting, read_accounts
from ensemble_deid.service.review.records import ReviewError

_UNASSIGNED = """
SELECT id, coalesce(patient, 'note ' || id) FROM notes WHERE id NOT IN (SELECT note FROM assignments) ORDER BY id
"""
_UNTOUCHED = """
SELECT id, coalesce(patient, 'note ' || id) AS owner FROM notes WHERE place IS NULL AND NOT drawn AND owner NOT IN (
    SELECT coalesce(patient, 'note ' || id) FROM notes WHERE id IN (SELECT note FROM layers)
) ORDER BY id
"""


@dataclass(frozen=True, slots=True)
class Guideline:
    """A version of the guideline; version 0 is the empty one before the first."""

    version: int = 0
    time: str = ""
    author: str = ""
    text: str = ""


def read_guideline(database: sqlite3.Connection) -> Guideline:
    """Return the last version."""
    row = database.execute(
        "SELECT version, time, author, text FROM guidelines ORDER BY version DESC LIMIT 1"
    ).fetchone()
    return Guideline() if row is None else Guideline(*row)


def write_guideline(database: sqlite3.Connection, text: str, *, after: int) -> Guideline:
    """Store the version that follows `after`. Raises ReviewError where another one was stored meanwhile."""
    if read_guideline(database).version != after:
        raise ReviewError("another version of the guideline was stored meanwhile: open it again")
    account = acting()
    new = Guideline(
        after + 1, datetime.now(UTC).isoformat(timespec="seconds"), account.name if account else "", text.strip()
    )
    database.execute(
        "INSERT INTO guidelines (version, time, author, text) VALUES (?, ?, ?, ?)",
        (new.version, new.time, new.author, new.text),
    )
    return new


def assign(database: sqlite3.Connection, reviewers: Sequence[str], *, each: int, seed: int) -> dict[str, int]:
    """Assign the notes that nobody has, `each` to so many of the reviewers, and return how many each reviewer has.

    A patient's notes go to the same reviewers, also those of a later call, and those with the fewest notes are next.
    Raises ReviewError.
    """
    reviewers = list(dict.fromkeys(reviewers))
    if not 0 < each <= len(reviewers):
        raise ReviewError(f"each note to {each}: there are {len(reviewers)} reviewers")
    accounts = {account.name for account in read_accounts(database)}
    if accounts and (strangers := sorted(set(reviewers) - accounts)):
        raise ReviewError(f"there is no account {strangers[0]}")
    counts = database.execute("SELECT reviewer, count(*) FROM assignments GROUP BY reviewer")
    load = dict.fromkeys(reviewers, 0) | dict(counts.fetchall())
    for notes in _by_patient(database, _UNASSIGNED, seed):
        free = sorted(reviewers, key=lambda name: (load[name], reviewers.index(name)))
        chosen = _reviewers_of(database, notes[0]) or free[:each]
        for name in chosen:
            load[name] += len(notes)
            rows = [(name, note) for note in notes]
            database.executemany("INSERT INTO assignments (reviewer, note) VALUES (?, ?)", rows)
    return load


def _reviewers_of(database: sqlite3.Connection, note: int) -> list[str]:
    """Return who has other notes of the patient, in order of their names."""
    rows = database.execute(
        "SELECT DISTINCT reviewer FROM assignments JOIN notes ON notes.id = assignments.note "
        "WHERE patient = (SELECT patient FROM notes WHERE id = ?) ORDER BY reviewer",
        (note,),
    )
    return [row["reviewer"] for row in rows]


def draw(database: sqlite3.Connection, wanted: int, *, blind: bool, seed: int) -> int:
    """Draw whole patients at random until there are `wanted` notes, and return how many were drawn.

    Only patients of whom nobody has begun a note are drawn. The order of drawing is stored; `blind` notes are read
    without what the model found. Raises ReviewError where there are too few.
    """
    if wanted < 1:
        raise ReviewError(f"{wanted} notes: at least one is drawn")
    (place,) = database.execute("SELECT coalesce(max(place), -1) + 1 FROM notes").fetchone()
    first = place
    for notes in _by_patient(database, _UNTOUCHED, seed):
        if place - first >= wanted:
            break
        for note in notes:
            database.execute("UPDATE notes SET place = ?, drawn = ? WHERE id = ?", (place, int(blind), note))
            place += 1
    if place - first < wanted:
        raise ReviewError(f"{wanted} notes: only {place - first} are of patients of whom nobody has begun a note")
    return int(place - first)


def _by_patient(database: sqlite3.Connection, query: str, seed: int) -> list[list[int]]:
    """Return the notes of a query by patient, in random order."""
    patients: dict[str, list[int]] = {}
    for note, patient in database.execute(query):
        patients.setdefault(patient, []).append(note)
    notes = list(patients.values())
    return [notes[row] for row in generator(seed, "review draw").permutation(len(notes)).tolist()]
