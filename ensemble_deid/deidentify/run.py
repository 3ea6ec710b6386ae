"""De-identifying a batch in two passes: first find, and keep offsets without text on disk; then write.

Everything that a patient's notes hold is known before the first of them is written. What is kept in memory meanwhile
are the distinct strings believed to be PHI, by patient, and nothing of the notes around them.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from ensemble_deid.corpora.records import NewRecord, Record, Source, Writer
from ensemble_deid.deidentify.cells import NOBODY, Cells
from ensemble_deid.deidentify.chain import FAILED, MANIFEST, SPANS
from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.deidentify.known.site_lists import SiteLists
from ensemble_deid.deidentify.latest_years import LatestYears
from ensemble_deid.deidentify.notes import Note
from ensemble_deid.deidentify.offsets import FILE as OFFSETS
from ensemble_deid.deidentify.offsets import KEY_FILE, Found, OffsetFile, keep_key
from ensemble_deid.deidentify.patient_strings import Known, PatientStrings
from ensemble_deid.deidentify.replaced import replaced
from ensemble_deid.deidentify.replacement import Replacement, Replacer
from ensemble_deid.deidentify.run_files import RunFiles
from ensemble_deid.errors import CorpusError, DeidError
from ensemble_deid.model.combiners import SVM
from ensemble_deid.note.document import Document

IN_LISTED_SENTENCES = "spans dropped in sentences of the inclusion list"
"""The name of a count of a run."""
Report = Callable[[int, int], None]
"""Is told how many notes are written and withheld so far."""


@dataclass(slots=True)
class Batch:
    """One run: a source of notes, what finds and replaces their PHI, and the folder that says what was done.

    `settings` are recorded; `finding` are those that decide what is found, and must be the same when a run is resumed.
    With `standard`, `out` is a file that waits for standard output.
    """

    source: Source
    out: Path
    folder: Path
    model: Deidentifier
    replacer: Replacer
    cells: Cells
    settings: Mapping[str, Any]
    finding: Mapping[str, Any]
    lists: SiteLists = field(default_factory=SiteLists)
    threshold: float | None = None
    combiner: str = SVM
    jobs: int = 1
    standard: bool = False
    problems: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    years: LatestYears = field(default_factory=LatestYears)
    head: str = ""

    def find(self, report: Callable[[int], None], *, resume: bool = False) -> PatientStrings:
        """Run the model over the notes that were not processed before, and return the strings of all patients.

        `report` is told the number of notes done. Raises CorpusError where a run cannot be resumed.
        """
        self.cells.orders.learn(self.cells.columns.dates, (record.dates for record in self.source.records()))
        self.folder.mkdir(parents=True, exist_ok=True)
        offsets = OffsetFile(self.folder / OFFSETS, self.finding)
        offsets.begin(resume=resume)
        keep_key(self.folder, self.replacer.key, resume=resume)
        for name in (MANIFEST, SPANS, FAILED):
            # Those of an earlier run must not pass for this one's.
            (self.folder / name).unlink(missing_ok=True)
        strings = PatientStrings.of_run(self.replacer)
        records = self._notes()
        done = 0
        for record, found in zip(islice(records, offsets.notes), offsets.read(), strict=False):
            found.check(record.text, record.name, self.replacer.key)
            self._take_up(strings, record, found)
            done += 1
        report(done)
        texts: list[Record] = []
        chunks = self.model.predict_chunks(
            _documents(records, texts), threshold=self.threshold, combiner=self.combiner, jobs=self.jobs
        )
        with offsets.appending() as file:
            for chunk in chunks:
                ready, texts[: len(chunk)] = texts[: len(chunk)], []
                key = self.replacer.key
                finds = [Found.of(note, record.text, key) for note, record in zip(chunk, ready, strict=True)]
                file.add(finds)
                for record, found in zip(ready, finds, strict=True):
                    self._take_up(strings, record, found)
                done += len(chunk)
                report(done)
        return strings

    def _notes(self) -> Iterator[Record]:
        """Yield the records with notes; the dates of all are taken up."""
        for record in self.source.records():
            self.years.add(record)
            if record.is_note:
                yield record

    def write(self, strings: PatientStrings, report: Report) -> None:
        """Write every record, and then the run's own files. Raises CorpusError where the input has changed."""
        offsets = OffsetFile(self.folder / OFFSETS, self.finding)
        founds = offsets.read()
        with ExitStack() as stack:
            table = self.source.format == "sql"
            key = self.replacer.key
            opened = RunFiles.opened(self.folder, self.settings, key=key, standard=self.standard, table=table)
            files = stack.enter_context(opened)
            with self.source.writer(self.out, files.output) as writer:
                for record in self.source.records():
                    if not record.is_note:
                        known = self._known(record, record.document(), strings)
                        writer.write(record, NewRecord((), *self.cells.treated_or_empty(record, known)))
                        continue
                    found = next(founds, None)
                    if found is None:
                        raise CorpusError(f"{record.name}: the input has changed while it was read")
                    if record.placeholder is not None:
                        self.counts[NOBODY] += 1
                    self._write_note(record, found, strings, writer, files)
                    report(self.counts["written"], len(self.problems))
                if next(founds, None) is not None:
                    raise CorpusError("the input has changed while it was read: notes are missing")
            self.counts.update(self.cells.counts)
            self.counts["withheld"] = len(self.problems)
            self.head = files.end(dict(sorted(self.counts.items())))
        for name in (OFFSETS, KEY_FILE):
            (self.folder / name).unlink(missing_ok=True)

    def _write_note(
        self, record: Record, found: Found, strings: PatientStrings, writer: Writer, files: RunFiles
    ) -> None:
        if record.error is None:
            found.check(record.text, record.name, self.replacer.key)
        note = self._note(record, found)
        known = self._known(record, record.document() if isinstance(note, DeidError) else note, strings)
        outcome = note if isinstance(note, DeidError) else self._replaced(note, known)
        new: NewRecord | DeidError
        try:
            if isinstance(outcome, DeidError):
                raise outcome
            dates = self.cells.dates(record, known)
            new = NewRecord(outcome.edits, self.cells.id(record), self.cells.patient(record), dates)
            writer.write(record, new)
        except (CorpusError, ValueError) as error:
            problem = str(error) if isinstance(error, DeidError) else f"{record.name}: writing failed (ValueError)"
            self.problems.append(problem)
            files.failure(record, problem)
            # Ids that cannot be treated are emptied with the text.
            writer.write(record, NewRecord(None, *self.cells.treated_or_empty(record, known)))
            return
        self.counts["written"] += 1
        files.note(record, new, outcome)

    def _note(self, record: Record, found: Found) -> Note:
        """Return the note with what the model found in it, or why it is withheld."""
        if record.error is not None:
            return record.error
        note = found.apply(record.document())
        if isinstance(note, DeidError):
            return note
        note, dropped = self._without_listed(note)
        if dropped:
            self.counts[IN_LISTED_SENTENCES] += dropped
        return note

    def _known(self, record: Record, note: Document, strings: PatientStrings) -> Known:
        return strings.of(note).and_taken(self.lists.taken(note.patient_id) | self.years.taken(record))

    def _replaced(self, note: Document, known: Known) -> Replacement | DeidError:
        """Return the text without PHI, or why the note is withheld."""
        searched = known.search(note)
        self.counts["spans from other notes"] += len(set(searched.spans) - set(note.spans))
        listed = self.lists.apply(searched, self.counts, hides=self.replacer.styles.hides, by_model=note.spans)
        return replaced(listed, self.replacer, self.lists, taken=known.taken, counts=self.counts)

    def _without_listed(self, note: Document) -> tuple[Document, int]:
        if self.model.description.inclusion is None:
            # Looking for what is known takes longer.
            return note, 0
        return self.model.without_listed(note, must_stay=self.lists.places(note))

    def _take_up(self, strings: PatientStrings, record: Record, found: Found) -> None:
        """Add what was found in a note, and what the site's lists say of it, to the strings of its patient."""
        if found.error is None and record.error is None:
            note, _ = self._without_listed(record.document().with_spans(found.spans))
            strings.add(self.lists.apply(note, hides=self.replacer.styles.hides))


def _documents(records: Iterator[Record], taken: list[Record]) -> Iterator[Note]:
    """Yield the notes; the records wait in `taken` until their results come, in the same order."""
    for record in records:
        taken.append(record)
        yield record.error if record.error is not None else record.document()
