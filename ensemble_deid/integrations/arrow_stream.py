"""De-identifying a stream of Arrow record batches, such as Spark gives its workers, in bounded memory."""

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from ensemble_deid.corpora.records import NewRecord, Record
from ensemble_deid.corpora.tables.arrow import ArrowWriter, id_bits, output_schema, pyarrow, records_of
from ensemble_deid.corpora.tables.columns import Columns
from ensemble_deid.deidentify.cells import EMPTIED, Cells
from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.deidentify.known.site_lists import LEFT, SiteLists
from ensemble_deid.deidentify.latest_years import LatestYears
from ensemble_deid.deidentify.notes import Note
from ensemble_deid.deidentify.replaced import patient_of, remark_on
from ensemble_deid.deidentify.replacement import Replacer
from ensemble_deid.deidentify.together import replaced_together, strings_of
from ensemble_deid.errors import DeidError
from ensemble_deid.note.document import Document


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What is done with the rows; `problem` is the name of a new column that says why a note is withheld.

    `lists` are what the site knows besides the model.
    """

    columns: Columns
    replacer: Replacer
    threshold: float | None = None
    problem: str = "problem"
    lists: SiteLists = field(default_factory=SiteLists)


def deidentified_batches(batches: Iterable[Any], model: Deidentifier, options: StreamOptions) -> Iterator[Any]:
    """Yield the record batches without PHI, as `deidentify` writes a table, and with a column more, of problems.

    Rows of a patient that follow each other are processed as one record: sort by patient. The notes of one patient and
    a few batches are in memory at a time. A withheld note is missing, and its reason is in the new column, which also
    says of a note that is written how many of its dates are missing, and how many known identifiers are left in it.
    Raises ConfigError, ModelError.
    """
    done: deque[Any] = deque()
    problems: deque[str | None] = deque()
    stream = iter(batches)
    first = next(stream, None)
    if first is None:
        return
    pa = pyarrow()
    schema = output_schema(first.schema, options.columns)
    cells = Cells(options.replacer, options.columns, id_bits(first.schema, options.columns), model.labels)
    final = schema.append(pa.field(options.problem, pa.string()))

    def finish(rows: Any) -> None:
        own = [problems.popleft() for _ in range(len(rows))]
        done.append(pa.RecordBatch.from_arrays([*rows.columns, pa.array(own, type=pa.string())], schema=final))

    writer = ArrowWriter(finish, schema, options.columns)
    for patient in _patients(_records(_chained(first, stream), options.columns), model, options):
        for record, new, problem in patient.rewritten(options, cells):
            problems.append(problem)
            writer.write(record, new)
        while done:
            yield done.popleft()


@dataclass(slots=True)
class _Patient:
    """The records of one patient, with what was found in them."""

    records: list[Record] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def rewritten(self, options: StreamOptions, cells: Cells) -> Iterator[tuple[Record, NewRecord, str | None]]:
        """Yield what becomes of each record, and what was wrong with it."""
        lists = options.lists
        strings = strings_of(self.notes, options.replacer, lists)
        years = LatestYears()
        for record in self.records:
            years.add(record)
        taken = [years.taken(record) for record in self.records]
        counts: Counter[str] = Counter()
        outcomes = replaced_together(self.notes, options.replacer, lists, strings=strings, taken=taken, counts=counts)
        for record, note, outcome, dated in zip(self.records, self.notes, outcomes, taken, strict=True):
            document = note if isinstance(note, Document) else record.document()
            known = strings.of(document).and_taken(lists.taken(document.patient_id) | dated)
            left, before = counts.pop(LEFT, 0), Counter(cells.counts)
            try:
                if isinstance(outcome, DeidError):
                    raise outcome
                dates = cells.dates(record, known)
                new = NewRecord(outcome.edits, cells.id(record), cells.patient(record), dates)
                emptied = cells.counts - before
                nobody = None if record.placeholder is None else "the patient is a placeholder such as NULL"
                remarks = [remark_on(left), nobody, *(f"{emptied[name]} {name}" for name in EMPTIED if emptied[name])]
                yield record, new, "; ".join(filter(None, remarks)) or None
            except DeidError as error:
                reason = str(error).removeprefix(f"{record.name}: ")
                yield record, NewRecord(None, *cells.treated_or_empty(record, known)), reason


def _chained(first: Any, stream: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from stream


def _records(batches: Iterator[Any], columns: Columns) -> Iterator[Record]:
    for rows in batches:
        yield from records_of(rows, columns, first=1)


def _patients(records: Iterator[Record], model: Deidentifier, options: StreamOptions) -> Iterator[_Patient]:
    waiting: deque[Record] = deque()

    def documents() -> Iterator[Document]:
        for record in records:
            waiting.append(record)
            yield record.document()

    places = options.lists.places
    notes = model.predict_each(documents(), must_stay=places, threshold=options.threshold)
    found = ((waiting.popleft(), note) for note in notes)
    for _, group in groupby(found, key=lambda pair: _owner(pair[0])):
        patient = _Patient()
        for record, note in group:
            patient.records.append(record)
            patient.notes.append(note)
        yield patient


def _owner(record: Record) -> tuple[bool, str]:
    if record.patient is None:
        return True, patient_of(None, record.text or "")
    return False, str(record.patient)
