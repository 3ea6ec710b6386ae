"""What people read: the folder of an audit, with the plan and the store of the review, and the readings so far.

Readers see the notes in the order of the plan, without what the model found. What counts is the beginning of that order
up to the first unit of which a note is not done: by two readers, and settled where they differ. Were later notes
counted, too, the quick ones would come first, and the sample would no longer be random.
"""

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from ensemble_deid.atomic import write_text_atomically
from ensemble_deid.audit.plan import AuditPlan, DrawnNote, read_plan
from ensemble_deid.audit.release import Release
from ensemble_deid.errors import ConfigError, ModelError
from ensemble_deid.evaluation.pairs import EvaluationError
from ensemble_deid.model.manifest import Manifest
from ensemble_deid.note.document import Document
from ensemble_deid.note.labels import I2B2_TYPES
from ensemble_deid.note.span import SpanKey
from ensemble_deid.service.review.file import Facts, ReviewFile, settle_facts
from ensemble_deid.service.review.fill import add_note, reviewed
from ensemble_deid.service.review.layers import accepted, finished_by

PLAN, STORE = "plan.json", "readings.sqlite"
_PLAN_FACT = "audit"


@dataclass(frozen=True, slots=True)
class AuditedNote:
    """A note as two people read it: `gold` has the settled spans, `marked` those of each reader and the model."""

    drawn: DrawnNote
    gold: Document
    readers: tuple[str, str]
    marked: tuple[frozenset[SpanKey], frozenset[SpanKey], frozenset[SpanKey]]


@dataclass(frozen=True, slots=True)
class Readings:
    """The notes of an audit that count, in the order of the plan; `later` counts finished notes that do not count yet.

    `digest` is the SHA-256 of the texts and of every mark in them.
    """

    plan: AuditPlan
    notes: tuple[AuditedNote, ...]
    later: int
    digest: str

    @property
    def units(self) -> int:
        """How many patients, or notes, were read in full."""
        return len({note.drawn.unit for note in self.notes})

    @property
    def complete(self) -> bool:
        """Whether all of the sample was read: bounds that were not made for stopping hold only then."""
        return len(self.notes) == len(self.plan.notes)

    @property
    def readers(self) -> tuple[str, ...]:
        return tuple(sorted({name for note in self.notes for name in note.readers}))


def make_audit(folder: Path, plan: AuditPlan, release: Release, manifest: Manifest, *, threshold: float) -> None:
    """Write the plan and the store with its notes into a new folder. Raises ConfigError where there is one."""
    if folder.exists():
        raise ConfigError(f"{folder}: exists; every audit has a folder of its own")
    folder.mkdir(parents=True, mode=0o700)
    documents = {document.id: document for document in release.documents}
    # A reader may find what the model has no label for.
    further = I2B2_TYPES if set(manifest.labels) & set(I2B2_TYPES) else ()
    labels = tuple(dict.fromkeys((*manifest.labels, *further)))
    file = ReviewFile(folder / STORE, create=True)
    settle_facts(file, Facts(plan.model, threshold, labels))
    with file.transaction() as database:
        for drawn in plan.notes:
            note = documents[drawn.note]
            # In the released text nothing that the run replaced is PHI any more.
            shown = note if plan.side == "original" else note.with_spans(())
            add_note(database, shown, 0.0, submodels=0, drawn=True)
        database.execute("INSERT INTO facts (name, value) VALUES (?, ?)", (_PLAN_FACT, json.dumps(plan.digest)))
    file.close()
    write_text_atomically(folder / PLAN, plan.to_json())


@contextmanager
def opened_audit(folder: Path) -> Iterator[tuple[AuditPlan, ReviewFile]]:
    """Open an audit. Raises ConfigError where the plan is not the one that its notes were drawn by."""
    plan = read_plan(folder / PLAN)
    file = ReviewFile(folder / STORE, create=False)
    try:
        with file.transaction() as database:
            row = database.execute("SELECT value FROM facts WHERE name = ?", (_PLAN_FACT,)).fetchone()
        if row is None or json.loads(row["value"]) != plan.digest:
            raise ConfigError(f"{folder / PLAN}: is not the plan by which the notes of {folder / STORE} were drawn")
        yield plan, file
    finally:
        file.close()


def read_readings(folder: Path) -> Readings:
    """Return the readings of an audit that count. Raises ConfigError and ReviewError."""
    with opened_audit(folder) as (plan, file), file.transaction() as database:
        rows = database.execute("SELECT id, name FROM notes WHERE drawn").fetchall()
        numbers = {row["name"]: row["id"] for row in rows}
        gold = {document.id: document for document in reviewed(database).documents}
        done = {name for name in gold if name in numbers and len(finished_by(database, numbers[name])) > 1}
        counted: list[AuditedNote] = []
        for _, notes in groupby(plan.notes, key=lambda note: note.unit):
            unit = list(notes)
            if not all(note.note in done for note in unit):
                break
            counted += [_read(database, note, numbers[note.note], gold[note.note], plan) for note in unit]
    content = [(n.gold.id, n.gold.text, sorted(s.key for s in n.gold.spans), *map(sorted, n.marked)) for n in counted]
    digest = hashlib.sha256(repr((plan.digest, content)).encode("utf-8", "surrogatepass")).hexdigest()
    return Readings(plan, tuple(counted), len(done) - len(counted), digest)


def _read(database: sqlite3.Connection, drawn: DrawnNote, number: int, gold: Document, plan: AuditPlan) -> AuditedNote:
    first, second = finished_by(database, number)[:2]
    found = database.execute('SELECT start, "end", label FROM predictions WHERE note = ?', (number,)).fetchall()
    marks = [frozenset(span.key for span in accepted(database, name, number)) for name in (first, second)]
    kept = [span for span in gold.spans if span.label not in plan.kept_labels]
    # A note of an unknown patient is a patient of its own, under the unit's number everywhere.
    note = replace(gold.with_spans(kept), fold_group=str(drawn.unit))
    return AuditedNote(drawn, note, (first, second), (marks[0], marks[1], frozenset((s, e, n) for s, e, n in found)))


def require_read(readings: Readings) -> None:
    """Raise EvaluationError where nothing can be said yet."""
    if not readings.notes:
        raise EvaluationError("nothing counts yet: the first notes of the plan are not read by two, or not settled")


def require_certifiable(readings: Readings, seen: Sequence[bool]) -> None:
    """Raise an error where the notes cannot carry a certificate of a model that has `seen` each of them or not.

    EvaluationError: not all was read, only what was left was marked, or units were not drawn with equal probability;
    ModelError: the model was trained, or its threshold chosen, on some of them.
    """
    require_read(readings)
    plan = readings.plan
    if plan.side != "original" or plan.kept_labels:
        raise EvaluationError("a certificate needs all PHI of the notes: an audit of the originals, of every label")
    if not readings.complete:
        raise EvaluationError("a certificate needs the whole sample: when to stop must not depend on what was found")
    if not plan.equal:
        raise EvaluationError("a certificate needs units that were drawn with equal probability, not small strata more")
    if any(seen):
        raise ModelError(
            f"the model has seen {sum(seen)} of the notes of the audit, in training or where its threshold was chosen: "
            "what is measured on them does not hold for others. Draw a new audit"
        )
