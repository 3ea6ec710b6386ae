"""One night of a project: which notes of an input are to be done, with what is known, and what is kept of them."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ensemble_deid.corpora.records import NoteSource, OnOutput, Record, Writer
from ensemble_deid.corpora.tables.several import SeveralTables
from ensemble_deid.deidentify.one_pass import patient_of
from ensemble_deid.deidentify.options import RunOptions
from ensemble_deid.deidentify.prediction import Note
from ensemble_deid.deidentify.project.memory import FOUND_LATER, OTHER_VALUES, Context, found_in, remember
from ensemble_deid.deidentify.project.store import HELD, Commit, KeptNote, Store
from ensemble_deid.deidentify.rows import Rewritten, RowPass
from ensemble_deid.errors import ConfigError, CorpusError
from ensemble_deid.note.document import Document

ONE_FILE_A_NOTE = ("files", "fhir", "hl7")
"""Forms of input whose output may grow night by night in one folder."""
CORRECTED = "the note was corrected"
UNCHANGED = "notes are as they were handed out, and were not done again"
HELD_BACK = "notes wait for more notes of their patient"
CORRECTIONS = "notes were corrected: replace their outputs"
AGAIN = "notes were handed out again: replace their outputs"
LISTED = "notes of earlier nights are to be handed out again: see `project status`"
"""Names of counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project's store, and how a night adds to it.

    `hold`: a note waits until so many of its patient are known. With `only_known`, a note that the project does not
    know is refused: it is no correction.
    """

    store: Store
    hold: int = 0
    only_known: bool = False

    def options(self, options: RunOptions) -> RunOptions:
        """Return a run's options as the project needs them. Raises ConfigError for another key, or other styles."""
        if options.replacer.key.secret != self.store.key.secret:
            raise ConfigError("the run has another key than the project: give the project's --key-file to both")
        styles = options.replacer.styles
        styles = replace(styles, settings={**styles.settings, "open_ended": True})
        made = replace(options, replacer=replace(options.replacer, styles=styles))
        self.store.check_settings(settings_of(made))
        return made


def settings_of(options: RunOptions) -> dict[str, Any]:
    """Return what all nights of a release have in common."""
    replacer = options.replacer
    settings = dict(sorted(replacer.styles.settings.items()))
    return {"scope": replacer.project, "styles": replacer.styles.to_json(), "surrogates": settings}


@dataclass(slots=True)
class Night:
    """The notes of one input that a project hands out now. `plan` first, then `begin`, `written` for each, `commit`."""

    project: Project
    source: NoteSource
    out: Path = Path()
    model: str = ""
    todo: dict[str, KeptNote] = field(default_factory=dict, init=False, repr=False)
    counts: Counter[str] = field(default_factory=Counter, init=False)
    done: dict[str, KeptNote] = field(default_factory=dict, init=False, repr=False)
    _rows: RowPass = field(init=False, repr=False)
    _held: list[KeptNote] = field(default_factory=list, init=False, repr=False)
    _before: dict[str, KeptNote] = field(default_factory=dict, init=False, repr=False)

    @property
    def store(self) -> Store:
        """The project's store."""
        return self.project.store

    @property
    def digest(self) -> str:
        """A hash of what is to be done, by which a run that was broken off is known again."""
        lines = (f"{tag} {row.input}\n" for tag, row in sorted(self.todo.items()))
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    def plan(self) -> None:
        """Find out which notes are to be done. Raises CorpusError for notes without an id, and for two of the same."""
        given: dict[str, KeptNote] = {}
        for record in self.source.records():
            if not record.is_note or record.error is not None:
                continue
            row = self.row(record)
            if row.tag in given:
                raise CorpusError(f"{record.name}: another note of the input has the same id")
            given[row.tag] = row
        self._before = {row.tag: row for row in self.store.rows(tags=given)}
        if self.project.only_known and given.keys() - self._before.keys():
            unknown = next(row for tag, row in given.items() if tag not in self._before)
            raise CorpusError(f"{unknown.memory['id']}: the project knows no such note, so it cannot be corrected")
        enough = self._patients_with_enough(given)
        for tag, row in given.items():
            before = self._before.get(tag)
            if before is not None and before.due is None and (before.input, before.patient) == (row.input, row.patient):
                self.counts[UNCHANGED] += 1
            elif row.patient not in enough and (before is None or before.due == HELD):
                self.counts[HELD_BACK] += 1
                self._held.append(row)
            else:
                self.todo[tag] = row

    def row(self, record: Record) -> KeptNote:
        """Return a note of the input as the store knows it, before anything is known of its output."""
        named = self.source.format == "files" or isinstance(self.source, SeveralTables)
        if record.id is None and not (named and self.source.format in ONE_FILE_A_NOTE):
            raise CorpusError(f"{record.name}: has no id: a project knows notes by --id-column, or by their files")
        id, text = str(record.name if record.id is None else record.id), record.text or ""
        patient = patient_of(None if record.patient is None else str(record.patient), text)
        memory = {"id": id, "patient": patient, "out": str(self.out)}
        tags = self.store.tag("note", id), self.store.tag("patient", patient), self.store.tag("text", text)
        return KeptNote(*tags, memory, model=self.model, due=HELD)

    def _patients_with_enough(self, given: dict[str, KeptNote]) -> set[str]:
        patients = {row.patient for row in given.values()}
        if self.project.hold < 2:
            return patients
        notes = {(row.patient, row.tag) for row in (*self.store.rows(patients=patients), *given.values())}
        sizes = Counter(patient for patient, _ in notes)
        return {patient for patient in patients if sizes[patient] >= self.project.hold}

    def begin(self, rows: RowPass) -> None:
        """Let a run know what the patients' other notes told."""
        self._rows = rows
        for patient, others in self._others().items():
            rows.notes.strings.add_found(patient, (found for row in others for found in found_in(row.memory)))
            years = [row.memory["year"] for row in others if row.memory.get("year") is not None]
            if years:
                rows.years.years[patient] = max(*years, rows.years.years.get(patient, years[0]))

    def _others(self) -> dict[str, list[KeptNote]]:
        others: dict[str, list[KeptNote]] = {}
        for row in self.store.rows(patients={row.patient for row in self.todo.values()}):
            if row.tag not in self.todo:
                others.setdefault(row.memory["patient"], []).append(row)
        return others

    def written(self, record: Record, note: Note, rewritten: Rewritten) -> None:
        """Keep what a later night needs of a note that was written."""
        row = self.row(record)
        if row.tag not in self.todo or not isinstance(note, Document):
            raise CorpusError(f"{record.name}: the input has changed while it was read")
        options, passed = self._rows.notes.options, self._rows.notes
        known = passed.known(note, self._rows.years.taken(record))
        believed, key = passed.believed(note), self.store.key
        kept = remember(note, believed, rewritten.result, known=known, options=options, key=key)
        year = None if record.patient is None else self._rows.years.years.get(str(record.patient))
        new = {"new_id": rewritten.new.id, "new_patient": rewritten.new.patient, "year": year}
        output = hashlib.sha256((rewritten.result.text or "").encode("utf-8", "surrogatepass")).hexdigest()
        self.done[row.tag] = replace(row, memory={**row.memory, **kept, **new}, output=output, due=None)

    def commit(self) -> None:
        """Keep all of the night, and mark the notes of earlier nights whose output would be another one now."""
        options = self._rows.notes.options
        with self.store.night_commit(settings_of(options)) as commit:
            before = {row.tag: row for row in commit.rows(tags=[*self.done, *(row.tag for row in self._held)])}
            for row in self._held:
                if row.tag not in before:
                    commit.put(row)
            for tag, row in self.done.items():
                commit.put(row)
                if tag in before:
                    self._replaced(commit, before[tag], row)
            patients = {row.patient for row in (*self.done.values(), *before.values())}
            self.counts[LISTED] = sum(_mark(commit, patient, options) for patient in sorted(patients))

    def _replaced(self, commit: Commit, before: KeptNote, row: KeptNote) -> None:
        if before.output is None or before.output == row.output:
            return
        corrected = before.input != row.input
        why = CORRECTED if corrected else before.due or "other model or settings"
        self.counts[CORRECTIONS if corrected else AGAIN] += 1
        facts = {"note": row.memory["id"], "why": why, "old": before.output, "new": row.output, "since": before.night}
        commit.change(row.patient, **facts, out=before.memory.get("out"))


def _mark(commit: Commit, patient: str, options: RunOptions) -> int:
    """Mark the notes of a patient whose output would be another one now; return how many are new among them."""
    rows = list(commit.rows(patients=[patient]))
    if not rows:
        return 0
    name, marked = rows[0].memory["patient"], 0
    context = Context.of((row.memory for row in rows), options, commit.store.key, name)
    for row in rows:
        if row.output is None or row.due not in (None, OTHER_VALUES, FOUND_LATER) or name.startswith("sha256 "):
            continue
        due = context.why_due(row.memory)
        if due != row.due:
            commit.mark(row, due)
            marked += due is not None and row.due is None
    return marked


@dataclass(slots=True)
class NewNotes:
    """The records of a source that a night is to write; the others are left out."""

    source: NoteSource
    night: Night

    @property
    def format(self) -> str:
        """That of the source."""
        return self.source.format

    @property
    def bits(self) -> tuple[int, int]:
        """Those of the source."""
        return self.source.bits

    def count(self) -> int:
        """Return the number of notes to be done."""
        return sum(record.is_note for record in self.records())

    def records(self) -> Iterator[Record]:
        """Yield the records to be written, also those without a note."""
        for record in self.source.records():
            if not record.is_note or record.error is not None or self.night.row(record).tag in self.night.todo:
                yield record

    def writer(self, out: Path, on_output: OnOutput) -> AbstractContextManager[Writer]:
        """Provide the source's writer."""
        return self.source.writer(out, on_output)

    def warnings(self) -> Sequence[str]:
        """Return those of the source."""
        return self.source.warnings()
