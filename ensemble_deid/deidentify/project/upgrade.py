"""What a new model would find otherwise than the one that a project's notes were handed out with, without gold."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice

from ensemble_deid.corpora.records import NoteSource, Record
from ensemble_deid.corpora.tables.columns import Columns
from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.deidentify.options import RunOptions
from ensemble_deid.deidentify.project.memory import said_in
from ensemble_deid.deidentify.project.night import Night, Project
from ensemble_deid.deidentify.project.store import KeptNote
from ensemble_deid.deidentify.rows import RowPass
from ensemble_deid.errors import DeidError
from ensemble_deid.note.reading import as_read

_Place = tuple[int, int]
SAME, RENAMED, MOVED, LOST, NEW = "same", "other label", "other bounds", "lost", "new"
KINDS = (SAME, RENAMED, MOVED, LOST, NEW)


@dataclass(slots=True)
class Upgrade:
    """How spans change, by label: that of the old model, of what is new that of the new one."""

    notes: int = 0
    changed: int = 0
    unread: int = 0
    by_label: dict[str, Counter[str]] = field(default_factory=dict)

    def add(self, old: dict[_Place, str], new: dict[_Place, str]) -> None:
        self.notes += 1
        self.changed += old != new
        for place, label in old.items():
            kind = LOST if not _touches(place, new) else MOVED
            if place in new:
                kind = SAME if new[place] == label else RENAMED
            self.by_label.setdefault(label, Counter())[kind] += 1
        for place, label in new.items():
            if not _touches(place, old):
                self.by_label.setdefault(label, Counter())[NEW] += 1


def compare_models(
    project: Project, source: NoteSource, model: Deidentifier, options: RunOptions, most: int
) -> Upgrade:
    """Compare what a model finds in the first `most` unchanged notes of a source with what was found at hand-out."""
    known = list(islice(_known(project, source, options), most))
    mapped = any(record.fields for record, _ in known)
    rows = RowPass.of(model, options, Columns(), source.bits, mapped=mapped)
    for row in project.store.rows(patients={row.patient for _, row in known}) if mapped else ():
        rows.notes.options.add_known(row.memory["patient"], said_in(row.memory))
    found, notes = Upgrade(), rows.notes
    predicted = chain.from_iterable(model.read_notes((record.document() for record, _ in known), options))
    for note, (_, row) in zip(predicted, known, strict=True):
        if isinstance(note, DeidError):
            found.unread += 1
            continue
        spoken = as_read(notes.believed(note))
        old = {(start, end): label for start, end, _, label, _ in row.memory["found"]}
        found.add(old, {(span.start, span.end): span.label for span in spoken.spans})
    return found


def _known(project: Project, source: NoteSource, options: RunOptions) -> Iterator[tuple[Record, KeptNote]]:
    night = Night(project=project, source=source, options=options)
    for record in source.records():
        if record.is_note and record.error is None:
            row = night.row(record)
            before = None if row is None else next(iter(project.store.rows(tags=[row.tag])), None)
            if row is not None and before is not None and before.input == row.input and "values" in before.memory:
                yield record, before


def _touches(place: _Place, others: dict[_Place, str]) -> bool:
    return any(start < place[1] and place[0] < end for start, end in others)
