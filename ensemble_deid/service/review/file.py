"""The file of a review: an SQLite database in which every decision is one transaction."""

import json
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from ensemble_deid.service.review.records import ReviewError, StoreError

# Marks the databases that are ours ("edRv"); the version is that of the tables below.
_APPLICATION = 0x65645276
_VERSION = 4
_WAIT_SECONDS = 10.0
_SCHEMA = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE notes (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, text TEXT NOT NULL, patient TEXT, site TEXT,
    metadata TEXT NOT NULL, uncertainty REAL NOT NULL, disagreement REAL NOT NULL DEFAULT 0,
    drawn INTEGER NOT NULL DEFAULT 0, place INTEGER
);
CREATE TABLE predictions (
    note INTEGER NOT NULL REFERENCES notes, start INTEGER NOT NULL, "end" INTEGER NOT NULL, label TEXT NOT NULL,
    score REAL NOT NULL, kind TEXT NOT NULL, disagreement REAL NOT NULL DEFAULT 0
);
CREATE INDEX predictions_of_note ON predictions (note);
CREATE TABLE layers (
    reviewer TEXT NOT NULL, note INTEGER NOT NULL REFERENCES notes, finished INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (reviewer, note)
);
CREATE INDEX layers_of_note ON layers (note);
CREATE TABLE spans (
    id INTEGER PRIMARY KEY AUTOINCREMENT, reviewer TEXT NOT NULL, note INTEGER NOT NULL REFERENCES notes,
    start INTEGER NOT NULL, "end" INTEGER NOT NULL, label TEXT NOT NULL, score REAL, kind TEXT NOT NULL,
    status TEXT NOT NULL, origin TEXT NOT NULL DEFAULT ''
);
CREATE INDEX spans_of_layer ON spans (note, reviewer);
CREATE TABLE steps (
    id INTEGER PRIMARY KEY AUTOINCREMENT, reviewer TEXT NOT NULL, time TEXT NOT NULL, action TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'done', account TEXT NOT NULL DEFAULT ''
);
CREATE INDEX steps_of_reviewer ON steps (reviewer, state);
CREATE TABLE changes (
    id INTEGER PRIMARY KEY AUTOINCREMENT, step INTEGER NOT NULL REFERENCES steps, note INTEGER NOT NULL,
    span INTEGER, before TEXT, after TEXT
);
CREATE INDEX changes_of_step ON changes (step);
"""
_TEAM = """
CREATE TABLE accounts (name TEXT PRIMARY KEY, role TEXT NOT NULL, salt BLOB NOT NULL, hash BLOB NOT NULL);
CREATE TABLE assignments (reviewer TEXT NOT NULL, note INTEGER NOT NULL REFERENCES notes, PRIMARY KEY (reviewer, note));
CREATE TABLE guidelines (
    version INTEGER PRIMARY KEY, time TEXT NOT NULL, author TEXT NOT NULL, text TEXT NOT NULL
)
"""
# What brings a store of a format to the next one. Stores of format 1 did not keep how far submodels disagree: for their
# notes it counts as none. Those of format 2 have no notes that were drawn at random for an audit, those of format 3 no
# accounts, assignments, guideline and random queue.
_FROM = {
    1: """
ALTER TABLE notes ADD COLUMN disagreement REAL NOT NULL DEFAULT 0;
ALTER TABLE predictions ADD COLUMN disagreement REAL NOT NULL DEFAULT 0;
CREATE INDEX layers_of_note ON layers (note);
PRAGMA user_version = 2
""",
    2: """
ALTER TABLE notes ADD COLUMN drawn INTEGER NOT NULL DEFAULT 0;
PRAGMA user_version = 3
""",
    3: f"""
ALTER TABLE notes ADD COLUMN place INTEGER;
ALTER TABLE steps ADD COLUMN account TEXT NOT NULL DEFAULT '';
{_TEAM};
PRAGMA user_version = 4
""",
}


class ReviewFile:
    """An open store; several processes may have the same one open."""

    def __init__(self, path: Path, *, create: bool) -> None:
        """Open a store, or make a new one that only its owner can read. Raises ReviewError and OSError."""
        self.path = path
        if create and not path.exists():
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
        elif not path.is_file():
            raise ReviewError(f"{path}: no such review")
        self._lock = threading.Lock()
        try:
            self._database = sqlite3.connect(path, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False)
            self._database.row_factory = sqlite3.Row
            # A decision that was answered is on the disk, also when the power fails.
            self._database.execute("PRAGMA synchronous = FULL")
            self._prepare(create=create)
        except sqlite3.DatabaseError:
            raise ReviewError(f"{path}: not a review store, or damaged") from None

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Give the database for changes that are stored together or not at all. Raises ReviewError where it fails."""
        with self._lock:
            try:
                self._database.execute("BEGIN IMMEDIATE")
                try:
                    yield self._database
                    self._database.execute("COMMIT")
                except BaseException:
                    if self._database.in_transaction:
                        self._database.execute("ROLLBACK")
                    raise
            except (sqlite3.IntegrityError, sqlite3.ProgrammingError):
                raise
            except sqlite3.DatabaseError as error:
                # Its names are those of the system (disk full, locked, damaged), without the values of a statement.
                raise StoreError(f"{self.path}: cannot be read or written ({error.sqlite_errorname})") from None

    def close(self) -> None:
        with self._lock:
            self._database.close()

    def _prepare(self, *, create: bool) -> None:
        with self.transaction() as database:
            (application,) = database.execute("PRAGMA application_id").fetchone()
            (version,) = database.execute("PRAGMA user_version").fetchone()
            (tables,) = database.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            if create and (application, tables) == (0, 0):
                for statement in (_SCHEMA + _TEAM).split(";"):
                    database.execute(statement)
                # PRAGMA takes no parameters; both are numbers of this file.
                database.execute(f"PRAGMA application_id = {_APPLICATION:d}")
                database.execute(f"PRAGMA user_version = {_VERSION:d}")
            elif application != _APPLICATION:
                raise ReviewError(f"{self.path}: is another program's database, not the store of a review")
            elif not 0 < version <= _VERSION:
                raise ReviewError(f"{self.path}: was made by another version of ensemble-deid (format {version})")
            else:
                for before in range(version, _VERSION):
                    for statement in _FROM[before].split(";"):
                        database.execute(statement)


@dataclass(frozen=True, slots=True)
class Facts:
    """The model's checksum and threshold, and the labels that reviewers can give: the model's, then further ones."""

    checksum: str
    threshold: float
    labels: tuple[str, ...]


def read_facts(file: ReviewFile) -> Facts:
    """Return what was stored. Raises ReviewError where nothing was."""
    with file.transaction() as database:
        rows = {row["name"]: json.loads(row["value"]) for row in database.execute("SELECT name, value FROM facts")}
    if not rows:
        raise ReviewError(f"{file.path}: the review holds no notes yet")
    return Facts(rows["checksum"], rows["threshold"], tuple(rows["labels"]))


def settle_facts(file: ReviewFile, facts: Facts) -> Facts:
    """Store the facts of a new review, or check those of an old one; labels are added to it.

    Raises ReviewError where the review was begun with another model: its spans cannot be explained by this one.
    """
    with file.transaction() as database:
        empty = database.execute("SELECT 1 FROM facts").fetchone() is None
    if not empty:
        known = read_facts(file)
        if (known.checksum, known.threshold) != (facts.checksum, facts.threshold):
            raise ReviewError(f"{file.path}: was begun with another model, or another threshold; use a new --store")
        facts = Facts(known.checksum, known.threshold, tuple(dict.fromkeys((*known.labels, *facts.labels))))
    with file.transaction() as database:
        rows = [(name, json.dumps(value)) for name, value in asdict(facts).items()]
        database.executemany("INSERT OR REPLACE INTO facts (name, value) VALUES (?, ?)", rows)
    return facts
