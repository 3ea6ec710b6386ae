"""A run over records in two passes: first find, and keep offsets without text on disk; then write.

So all that a patient's notes hold is known before the first is written. Memory holds only the distinct strings of PHI.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ensemble_deid.corpora.record_map import FieldKind
from ensemble_deid.corpora.records import NoteSource, Record, Value, Writer
from ensemble_deid.deidentify.cells import NOBODY
from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.deidentify.manifest import FAILED, MANIFEST, SPANS, RunFiles
from ensemble_deid.deidentify.offsets import FILE as OFFSETS
from ensemble_deid.deidentify.offsets import KEY_FILE, Found, OffsetFile, keep_key
from ensemble_deid.deidentify.one_pass import DeidentificationResult
from ensemble_deid.deidentify.options import RunOptions
from ensemble_deid.deidentify.prediction import Note, Report, RunProgress
from ensemble_deid.deidentify.repeats import WORD
from ensemble_deid.deidentify.rows import Rewritten, RowPass
from ensemble_deid.errors import CorpusError
from ensemble_deid.note.document import Document
from ensemble_deid.note.reading import is_ordinary, remember_ordinary
from ensemble_deid.note.span import Span

_COMPARED = (
    "Left are the notes as they came, with the label and score of every span that was replaced; right is what was "
    "written. A tag with a question mark stands where a span is not sure, or reads as medicine."
)

if TYPE_CHECKING:
    from ensemble_deid.evaluation.render.html.notes import NotesPage


@dataclass(slots=True, kw_only=True)
class Run:
    """One run: a source of notes, what finds and replaces their PHI, and the folder that says what was done.

    `settings` are recorded; `finding` are those that must be the same when a run is resumed. `labels` counts spans and
    `words` the words of the notes written. With `standard`, `out` waits for standard output. `compare` is a page with
    the notes before and after, which contains PHI. `treated` is told of every record. `shown` gives a message as it is
    recorded.
    """

    source: NoteSource
    out: Path
    folder: Path
    model: Deidentifier
    options: RunOptions
    rows: RowPass
    settings: Mapping[str, Any]
    finding: Mapping[str, Any]
    standard: bool = False
    compare: Path | None = None
    report: Report = field(default=lambda progress: None)
    shown: Callable[[str], str] = field(default=lambda message: message)
    treated: Callable[[Record, Note, Rewritten], None] = field(default=lambda record, note, rewritten: None)
    problems: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    labels: Counter[str] = field(default_factory=Counter)
    words: int = 0
    total: int = 0
    head: str = ""
    _page: "NotesPage | None" = field(default=None, init=False, repr=False)

    def find(self, *, resume: bool = False) -> None:
        """Run the model over notes not processed before; learn from all. CorpusError where a run cannot resume."""
        self.total = self.source.count()
        self._look_beside()
        self.folder.mkdir(parents=True, exist_ok=True)
        offsets, key = OffsetFile(self.folder / OFFSETS, self.finding), self.options.replacer.key
        offsets.begin(resume=resume)
        keep_key(self.folder, key, resume=resume)
        for name in (MANIFEST, SPANS, FAILED):
            # Those of an earlier run must not pass for this one's.
            (self.folder / name).unlink(missing_ok=True)
        records, done = (record for record in self.source.records() if record.is_note), 0
        for record, found in zip(islice(records, offsets.notes), offsets.read(), strict=False):
            found.check(record, key)
            self.rows.notes.learn(_note(record, found))
            done += 1
        self.report(RunProgress("read", done, self.total))
        waiting: list[Record] = []
        chunks = self.model.read_notes(_documents(records, waiting), self.options)
        with offsets.appending() as file:
            for chunk in chunks:
                ready, waiting[: len(chunk)] = waiting[: len(chunk)], []
                finds = [Found.of(note, record, key) for note, record in zip(chunk, ready, strict=True)]
                file.add(finds)
                for record, found in zip(ready, finds, strict=True):
                    self.rows.notes.learn(_note(record, found))
                # Each note is met again when all are written.
                texts = (note.text for note in chunk if isinstance(note, Document))
                remember_ordinary(filter(is_ordinary, texts))
                done += len(chunk)
                self.report(RunProgress("read", done, self.total))

    def write(self) -> None:
        """Write every record, and then the run's own files. Raises CorpusError where the input has changed."""
        offsets = OffsetFile(self.folder / OFFSETS, self.finding)
        founds = offsets.read()
        with ExitStack() as stack:
            table = self.source.format == "sql"
            opened = RunFiles.opened(
                self.folder, self.settings, key=self.options.replacer.key, standard=self.standard, table=table
            )
            files = stack.enter_context(opened)
            if self.compare is not None:
                # Here, not above: a page needs what only figures need, which takes half a second to load.
                from ensemble_deid.evaluation.render.html.notes import notes_page

                page = notes_page(self.compare, title="Notes before and after", about=_COMPARED)
                self._page = stack.enter_context(page)
            with self.source.writer(self.out, files.output) as writer:
                for record in self.source.records():
                    if not record.is_note:
                        beside = self.rows.without_text(record)
                        writer.write(record, beside.new)
                        self.treated(record, record.document(), beside)
                        continue
                    found = next(founds, None)
                    if found is None:
                        raise CorpusError(f"{record.name}: the input has changed while it was read")
                    if record.placeholder is not None:
                        self.counts[NOBODY] += 1
                    self._write_note(record, found, writer, files)
                    withheld = len(self.problems)
                    self.report(RunProgress("write", self.counts["written"] + withheld, self.total, withheld))
                if next(founds, None) is not None:
                    raise CorpusError("the input has changed while it was read: notes are missing")
            self.counts.update(self.rows.cells.counts)
            self.counts["withheld"] = len(self.problems)
            if self._page is not None:
                for problem in self.problems:
                    self._page.withhold(problem)
            counts = {name: n for name, n in sorted(self.counts.items()) if n or name in ("written", "withheld")}
            self.head = files.end(counts, labels=dict(sorted(self.labels.items())), words=self.words)
        for name in (OFFSETS, KEY_FILE):
            (self.folder / name).unlink(missing_ok=True)

    def _look_beside(self) -> None:
        """Learn from all records what is beside the texts: the order of dates, and what is known of patients."""
        cells = self.rows.cells
        names = cells.columns.dates
        if not names and not cells.mapped:
            return

        def dates() -> Iterator[list[tuple[str, Value]]]:
            for record in self.source.records():
                self.rows.see(record)
                fields = [(field.name, field.value) for field in record.fields if field.rule.kind is FieldKind.DATE]
                yield [*zip(names, record.dates, strict=False), *fields]

        cells.orders.learn(names, dates())

    def _write_note(self, record: Record, found: Found, writer: Writer, files: RunFiles) -> None:
        if record.error is None:
            found.check(record, self.options.replacer.key)
        note = _note(record, found)
        rewritten = self.rows.rewrite(record, note)
        self.counts.update(rewritten.result.counts)
        problem = rewritten.result.error
        if problem is None:
            try:
                writer.write(record, rewritten.new)
            except CorpusError as error:
                problem = str(error)
            except ValueError as error:
                # The message is left out, since it might quote the note.
                problem = f"{record.name}: writing failed ({type(error).__name__})"
        if problem is None:
            self.counts["written"] += 1
            self.labels.update(span.label for span in rewritten.result.spans)
            self.words += sum(1 for _ in WORD.finditer(record.text or ""))
            files.note(record, rewritten.new, rewritten.result)
            if self._page is not None:
                self._page.add(*_compared(record, rewritten.result))
            self.treated(record, note, rewritten)
            return
        problem = self.shown(problem)
        self.problems.append(problem)
        files.failure(record, problem)
        if rewritten.result.error is None:
            rewritten = self.rows.withheld(record, note, rewritten.result, tried=rewritten.emptied)
        writer.write(record, rewritten.new)
        self.treated(record, note, rewritten)


def _note(record: Record, found: Found) -> Note:
    return record.error if record.error is not None else found.apply(record.document())


def _compared(record: Record, result: DeidentificationResult) -> tuple[Document, Document]:
    old = [Span(span.start, span.end, span.label, span.score) for span in result.replaced]
    new = [Span(s.new_start, s.new_end, s.label, s.score) for s in result.replaced if s.new_end > s.new_start]
    return Document(record.name, record.text or "", tuple(old)), Document(record.name, result.text or "", tuple(new))


def _documents(records: Iterator[Record], taken: list[Record]) -> Iterator[Note]:
    """Yield the notes; the records wait in `taken` until their results come, in the same order."""
    for record in records:
        taken.append(record)
        yield record.note
