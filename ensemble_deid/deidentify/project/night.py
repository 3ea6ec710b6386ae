"""One night of a project: which notes of an input are to be done, with what is known, and what is kept of them."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ensemble_deid.corpora.messages.files import MessageFile
from ensemble_deid.corpora.records import NoteSource, Record
from ensemble_deid.corpora.tables.several import SeveralTables
from ensemble_deid.deidentify.cells import owner_of
from ensemble_deid.deidentify.options import RunOptions
from ensemble_deid.deidentify.prediction import Note
from ensemble_deid.deidentify.project.memory import (
    FOUND_LATER,
    OTHER_VALUES,
    Context,
    WaitingRows,
    found_in,
    remember,
    said_in,
    taught,
    taught_beside,
)
from ensemble_deid.deidentify.project.store import HELD, Commit, KeptNote, Store
from ensemble_deid.deidentify.rows import Rewritten, RowPass, latest_year
from ensemble_deid.errors import ConfigError, CorpusError
from ensemble_deid.note.document import Document

ONE_FILE_A_NOTE = ("files", "fhir", "hl7", "xml")
"""Forms of input whose output may grow night by night in one folder."""
CORRECTED = "the note was corrected"
WITHHELD = "withheld"
BROKEN_OFF = "a run was broken off, or is not at its end"
READY = "enough notes of its patient have come"
OTHER_SETTINGS = "it was made with another model, other lists or settings"
"""Why a note is to be handed out again; `WITHHELD` is of no use before it, or the settings, are other ones."""
UNCHANGED = "notes are as they were handed out, and were not done again"
HELD_BACK = "notes wait for more notes of their patient"
CORRECTIONS = "notes were corrected: replace their outputs"
AGAIN = "notes were handed out again: replace their outputs"
TAKEN_BACK = "notes are withheld that were handed out: delete their outputs, which `project diff` lists"
LISTED = "notes of earlier nights are to be handed out again: see `project status`"
COUNTED = (UNCHANGED, HELD_BACK, CORRECTIONS, AGAIN, TAKEN_BACK, LISTED)
"""Names of counts."""
_BEYOND = {"version", "arithmetic", "batch_size", "project", "key"}
_BEYOND |= {"format", "columns", "keep_fields", "input", "inputs", "places", "out", "recursive"}
"""Settings of a run that change little, that a release has in common, or that say where notes come from and go."""
_SPANS = "spans digest"
"""In a note's memory, what files of spans said of it."""
_JUDGED = (None, OTHER_VALUES, FOUND_LATER, OTHER_SETTINGS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project's store, and how a night adds to it.

    `hold`: a note waits until the project knows so many of its patient. `only_known`: a note that the project does not
    know is refused. `again`: unchanged notes are handed out too.
    """

    store: Store
    hold: int = 0
    only_known: bool = False
    again: bool = False

    def options(self, options: RunOptions) -> RunOptions:
        """Return a run's options as the project needs them. Raises ConfigError for another key, or other styles."""
        if options.replacer.key.secret != self.store.key.secret:
            raise ConfigError("the run has another key than the project: give the project's --key-file to both")
        styles = options.replacer.styles
        styles = replace(styles, settings=replace(styles.settings, open_ended=True))
        made = replace(options, replacer=replace(options.replacer, styles=styles))
        self.store.check_settings(settings_of(made))
        return made


def settings_of(options: RunOptions) -> dict[str, Any]:
    """Return what all nights of a release have in common."""
    replacer = options.replacer
    styles = replacer.styles
    return {"scope": replacer.scope, "styles": styles.to_json(), "surrogates": asdict(styles.settings)}


def made_with(store: Store, settings: Mapping[str, Any], options: RunOptions) -> Callable[[str], str]:
    """Return what gives, for a patient's tag, an HMAC of all that a run finds and withholds that patient's notes with.

    Of the known identifiers only the patient's own count, and those of everybody: the list may grow every night. So may
    files of spans, which count for the notes that they hold (`Night.row`).
    """
    general = {name: value for name, value in settings.items() if name not in _BEYOND}
    general["lists"] = {name: value for name, value in general.get("lists", {}).items() if name != "known"}
    pairs = zip(general.get("recognizers", ()), options.recognizers, strict=True)
    general["recognizers"] = [recorded for recorded, recognizer in pairs if not recognizer.is_file]
    entries = dict(() if options.lists.known is None else options.lists.known.entries())
    told = json.dumps([general, entries.pop(None, [])], sort_keys=True)
    own = {store.tag("patient", str(patient)): json.dumps(found) for patient, found in entries.items()}
    return lambda patient: store.tag("made", told + own.get(patient, ""))


@dataclass(slots=True, kw_only=True)
class Night:
    """The notes of one input that a project hands out now. `plan` first, then `begin`, `treated` for each, `commit`.

    Their outputs go to `place`, by a model, with options, and with settings (`made_with`). A `streamed` source has no
    files whose names could be ids. `would_repeat` when every note of the plan was withheld before, and nothing changed
    since.
    """

    project: Project
    source: NoteSource
    streamed: bool = False
    place: str = ""
    model: str = ""
    options: RunOptions = field(default_factory=RunOptions, repr=False)
    made: Callable[[str], str] = lambda patient: ""
    todo: dict[str, KeptNote] = field(default_factory=dict, init=False, repr=False)
    would_repeat: bool = field(default=True, init=False)
    counts: Counter[str] = field(default_factory=Counter, init=False)
    _done: WaitingRows = field(init=False, repr=False)
    _rows: RowPass = field(init=False, repr=False)
    _held: list[KeptNote] = field(default_factory=list, init=False, repr=False)
    _beside: dict[str, KeptNote] = field(default_factory=dict, init=False, repr=False)

    @property
    def store(self) -> Store:
        return self.project.store

    @property
    def digest(self) -> str:
        """A hash of what is to be done, by which a run that was broken off is known again."""
        lines = (f"{tag} {row.input} {row.memory[_SPANS] or ''}\n" for tag, row in sorted(self.todo.items()))
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    @property
    def _authorities(self) -> set[str]:
        """The assigning authority of the patients' ids, where messages name it."""
        found: set[str] = getattr(self.source, "authorities", set())
        return found

    def plan(self) -> None:
        """Find out which notes are to be done. Raises CorpusError for notes without an id, and for two of the same."""
        given: dict[str, KeptNote] = {}
        places: dict[str, str] = {}
        if self.store.authority is not None:
            self._authorities.add(self.store.authority)
        for record in self.source.records():
            row = self.row(record)
            if row is None:
                continue
            # Rows without an id may be alike.
            beside = self._beside.get(row.tag, row)
            if row.tag in given or beside.input != row.input or (record.is_note and row.tag in self._beside):
                raise CorpusError(f"{record.name}: another record of the input has the same id")
            if record.is_note:
                given[row.tag], places[row.tag] = row, record.name
            else:
                self._beside[row.tag] = row
        rows = self.store.rows(tags=given)
        # Of a known note, what shows whether it was corrected.
        known = {row.tag: replace(row, memory={k: row.memory.get(k) for k in ("patient", _SPANS)}) for row in rows}
        # Of a new note that cannot be read, the run's failed.jsonl tells; of one that was handed out, the store must.
        given = {tag: row for tag, row in given.items() if tag in known or row.due != WITHHELD}
        given = {tag: self._of_its_patient(row, known) for tag, row in given.items()}
        unknown = [places[tag] for tag in given if tag not in known]
        if self.project.only_known and unknown:
            raise CorpusError(f"{unknown[0]}: the project does not know this note, so it cannot be corrected")
        enough = self._patients_with_enough(given)
        for tag, row in given.items():
            before = known.get(tag)
            if before is not None and not self.project.again and _is_same(before, row):
                self.counts[UNCHANGED] += 1
            elif row.patient not in enough and (before is None or before.due in (HELD, READY)):
                self.counts[HELD_BACK] += 1
                self._held.append(row)
            else:
                self.todo[tag] = row
                self.would_repeat &= before is not None and _is_same(before, row, due=WITHHELD)

    def wants(self, record: Record) -> bool:
        """Whether a record is to be written: a note of the plan, one that cannot be read, or one without a note."""
        id = self.id_of(record) if record.is_note and record.error is None else None
        return id is None or self.store.tag("note", id) in self.todo

    def id_of(self, record: Record) -> str | None:
        """Return a record's id; None for one neither read nor named. Raises CorpusError for a note without an id."""
        if record.id is not None and record.is_note:
            return str(record.id)
        named = self.source.format == "files" or isinstance(self.source, SeveralTables)
        if named and self.source.format in ONE_FILE_A_NOTE and not self.streamed:
            return record.name
        if isinstance(self.source, MessageFile) and record.key is None and not self.streamed:
            return f"{self.source.path.name} {record.name}"
        if record.key is not None:
            return record.key
        if record.error is not None:
            return None
        if not record.is_note:
            content = hashlib.sha256(repr(record.cells()).encode("utf-8", "surrogatepass")).hexdigest()[:16]
            return f"row {content} of {owner_of(record)}"
        raise CorpusError(f"{record.name}: has no id: a project knows notes by --id-column, or by their files")

    def row(self, record: Record) -> KeptNote | None:
        """Return a record as the store knows it before its output; without a note, with the facts of its patient."""
        id = None if record.blank else self.id_of(record)
        if id is None:
            return None
        patient = owner_of(record)
        tags = self.store.tag("note", id), self.store.tag("patient", patient)
        content = repr((record.text, record.patient, record.dates, record.error is None and record.cells()))
        memory: dict[str, Any] = {"id": id, "patient": patient, _SPANS: self._spans_digest(record)}
        if not record.is_note:
            memory |= {"beside": True, "year": latest_year(record), **(taught_beside(record) if record.fields else {})}
        due = HELD if record.error is None else WITHHELD
        input, made = self.store.tag("cells", content), self.made(tags[1])
        return KeptNote(*tags, input, memory, model=self.model, made=made, due=due)

    def _new_key(self, record: Record) -> str | None:
        """Return the output's name for a resource without an id column."""
        type, _, id = (record.key or "").partition("/")
        kinds = (field.rule.of for field in record.fields if field.name == f"{type}.id" and field.value == id)
        return next((f"{type}/{self.options.replacer.pseudonym(id, kind=kind)}" for kind in kinds), None)

    def _spans_digest(self, record: Record) -> str | None:
        """Return an HMAC of a note's spans in files of spans, "" for no spans; None where no file has its text."""
        files = [recognizer for recognizer in self.options.recognizers if recognizer.is_file]
        found = [file.spans_of_file(record.text or "") for file in files]
        if record.text is None or all(spans is None for spans in found):
            return None
        told = [spans and [(*span.key, span.score) for span in spans] for spans in found]
        least = [file.least for file in files]
        return self.store.tag("spans", repr((told, least))) if any(spans != () for spans in found) else ""

    def _of_its_patient(self, row: KeptNote, known: Mapping[str, KeptNote]) -> KeptNote:
        """Return a note, one that cannot be read as of the patient whose it was."""
        if row.due != WITHHELD:
            return row
        before = known[row.tag]
        memory = {**row.memory, "patient": before.memory["patient"]}
        return replace(row, patient=before.patient, made=self.made(before.patient), memory=memory)

    def _patients_with_enough(self, given: dict[str, KeptNote]) -> set[str]:
        patients = {row.patient for row in given.values()}
        if self.project.hold < 2:
            return patients
        before = (row for row in self.store.rows(patients=patients) if "beside" not in row.memory)
        notes = {(row.patient, row.tag) for row in (*before, *given.values())}
        sizes = Counter(patient for patient, _ in notes)
        return {patient for patient in patients if sizes[patient] >= self.project.hold}

    def begin(self, rows: RowPass) -> None:
        """Record where outputs may be from now on, and let a run know what the patients' other notes told."""
        self._rows, self._done = rows, WaitingRows(self.store)
        rows.cells.orders.begun = self.store.orders
        with self.store.changing() as commit:
            written = {**self.todo, **self._beside}
            # Of a new note, the place of its output is kept while it is processed.
            begun = [replace(r, memory={**r.memory, "outs": [self.place]}, due=BROKEN_OFF) for r in written.values()]
            new = {row.tag: row for row in (*self._held, *begun)}
            for before in commit.rows(tags=list(new)):
                del new[before.tag]
                if before.tag in written:
                    commit.put(self._begun_again(commit, before, written[before.tag]))
            for row in new.values():
                commit.put(row)
        for row in self.store.rows(patients={row.patient for row in written.values()}):
            if row.tag not in written:
                patient, year = row.memory["patient"], row.memory.get("year")
                rows.notes.strings.add_found(patient, found_in(row.memory))
                rows.notes.options.add_known(patient, said_in(row.memory))
                if year is not None:
                    rows.years.years[patient] = max(year, rows.years.years.get(patient, year))

    def _begun_again(self, commit: Commit, before: KeptNote, row: KeptNote) -> KeptNote:
        """Return a known note's row while it is processed again: what was kept, and the place of its new output."""
        if before.patient != row.patient and row.due != WITHHELD:
            commit.change(patient=row.memory["patient"], note=row.memory["id"], outs=[self.place])
        outs = list(dict.fromkeys([*before.memory.get("outs", ()), self.place]))
        due = BROKEN_OFF if before.output is None else before.due or BROKEN_OFF
        return replace(before, memory={**before.memory, "outs": outs}, due=due)

    def treated(self, record: Record, note: Note, rewritten: Rewritten) -> None:
        """Keep what a later night needs of a record that was written, or withheld: that one, too, names its patient."""
        given = self.row(record)
        row = None if given is None else (self.todo if record.is_note else self._beside).get(given.tag)
        if record.blank or (record.error is not None and row is None):
            return
        if row is None or given is None or given.input != row.input:
            raise CorpusError(f"{record.name}: the input has changed while it was read")
        year = None if record.patient is None else self._rows.years.years.get(str(record.patient))
        passed, memory = self._rows.notes, {**row.memory, "year": year, "new_patient": rewritten.new.patient}
        keyed = record.id is None and row.memory["id"] == record.key
        memory["new_id"] = self._new_key(record) if keyed else rewritten.new.id
        if isinstance(note, Document):
            memory |= taught(passed.believed(note))
            memory |= taught_beside(record) if self._rows.cells.mapped else {}
        if rewritten.new.edits is None or not isinstance(note, Document):
            self._done.add(replace(row, memory=memory, due=WITHHELD))
            return
        known = passed.known(note, self._rows.years.taken(record))
        context = Context(passed.options, self._rows.cells, self.store.salted, row.memory["patient"])
        memory |= remember(record, rewritten.result, context, known)
        new = rewritten.result.text, rewritten.new.id, rewritten.new.patient, rewritten.new.dates, *rewritten.new.fields
        self._done.add(replace(row, memory=memory, output=self.store.tag("output", repr(new)), due=None))

    def commit(self) -> None:
        """Keep all of the night, and mark the notes of earlier nights whose output would be another one now."""
        try:
            with self.store.changing(nights=1) as commit:
                self._commit(commit)
        except ConfigError as error:
            unknown = f"delete {self.place}, and the run's folder: the project does not count this night"
            raise ConfigError(f"{error}; {unknown}") from None

    def _commit(self, commit: Commit) -> None:
        orders = self._rows.cells.orders.found
        settled = {name: order for name, order in orders.items() if order is not None}
        commit.settle(settings_of(self._rows.notes.options), settled, self._authorities)
        patients: set[str] = set()
        left = set(self._done.tags)
        for before in commit.rows(tags=self._done.tags):
            row = self._done.row(before.tag)
            memory = {**row.memory, "outs": before.memory["outs"]}
            if "found" not in memory:
                # Nobody has read it: what its last version told is still known, and of whom.
                memory |= {name: before.memory.get(name, []) for name in ("found", "said")}
            kept = replace(row, memory=memory)
            commit.put(kept)
            self._replaced(commit, before, kept)
            left.remove(row.tag)
            if "beside" not in row.memory or (before.input, before.output) != (row.input, row.output):
                patients |= {before.patient, row.patient}
        if left:
            raise ConfigError(f"{self.store.shown}: a patient was forgotten meanwhile")
        patients |= {
            patient for patient, made, due in commit.made() if (made != self.made(patient)) != (due == OTHER_SETTINGS)
        }
        self.counts[LISTED] = sum(self._mark(commit, patient) for patient in sorted(patients))

    def _replaced(self, commit: Commit, before: KeptNote, row: KeptNote) -> None:
        corrected, moved = _is_corrected(before, row), before.patient != row.patient
        if not moved and (before.output is None or (before.output == row.output and not corrected)):
            return
        later = OTHER_SETTINGS if before.made != row.made else OTHER_VALUES
        why = CORRECTED if corrected else before.due if before.due != BROKEN_OFF else later
        if before.output is not None:
            self.counts[TAKEN_BACK if row.output is None else CORRECTIONS if corrected else AGAIN] += 1
        facts = {"note": row.memory["id"], "why": why, "old": before.output, "new": row.output, "since": before.night}
        outs = [out for out in before.memory["outs"] if out != self.place] or [self.place]
        facts |= {"outs": outs} if moved else {}
        commit.change(patient=before.memory["patient"], out=outs[-1], **facts)

    def _mark(self, commit: Commit, patient: str) -> int:
        """Mark the notes of a patient whose output would be another one now; return how many are new among them."""
        rows, marked, made = list(commit.rows(patients=[patient])), 0, self.made(patient)
        if not rows:
            return 0
        notes = sum("beside" not in row.memory for row in rows)
        options, cells = self._rows.notes.options, self._rows.cells
        context = Context.of([row.memory for row in rows], options=options, cells=cells, key=self.store.salted)
        for row in rows:
            due = row.due
            if due == HELD and notes >= self.project.hold:
                due = READY
            elif row.output is not None and due in _JUDGED:
                due = OTHER_SETTINGS if row.made != made else context.why_due(row.memory)
            if due != row.due:
                commit.put(replace(row, due=due))
                marked += due is not None and row.due is None
        return marked


def _is_same(before: KeptNote, row: KeptNote, *, due: str | None = None) -> bool:
    settled = before.due == due and (before.patient, before.made) == (row.patient, row.made)
    return settled and not _is_corrected(before, row)


def _is_corrected(before: KeptNote, row: KeptNote) -> bool:
    """Whether a note's cells changed, or its spans in files of spans: a file of one night need not hold older notes."""
    spans = row.memory[_SPANS]
    return before.input != row.input or (spans is not None and spans != (before.memory.get(_SPANS) or ""))
