"""De-identifying a stream of Arrow record batches, such as Spark gives its workers, in bounded memory."""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from typing import Any

from ensemble_deid.corpora.records import Record
from ensemble_deid.corpora.tables.arrow import ArrowWriter, id_bits, output_schema, pyarrow, records_of
from ensemble_deid.corpora.tables.columns import Columns
from ensemble_deid.deidentify.cells import EMPTIED
from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.deidentify.options import RunOptions
from ensemble_deid.deidentify.prediction import Note
from ensemble_deid.deidentify.rows import Rewritten, RowPass
from ensemble_deid.note.document import patient_of


def deidentified_batches(
    batches: Iterable[Any],
    model: Deidentifier,
    columns: Columns,
    options: RunOptions,
    *,
    problem: str = "problem",
) -> Iterator[Any]:
    """Yield the record batches without PHI, as `deidentify` writes a table, and with a column more, of problems.

    Rows of a patient that follow each other are processed together: sort by patient. The notes of one patient and a few
    batches are in memory at a time. A withheld note is missing, and its reason is in the new column `problem`, which
    also says of a note that is written how many of its dates are missing, and how many known identifiers are left in
    it. Raises ConfigError, ModelError.
    """
    done: deque[Any] = deque()
    problems: deque[str | None] = deque()
    stream = iter(batches)
    first = next(stream, None)
    if first is None:
        return
    pa = pyarrow()
    schema = output_schema(first.schema, columns)
    rows = RowPass.of(model, options, columns, id_bits(first.schema, columns))
    final = schema.append(pa.field(problem, pa.string()))

    def finish(batch: Any) -> None:
        own = [problems.popleft() for _ in range(len(batch))]
        done.append(pa.RecordBatch.from_arrays([*batch.columns, pa.array(own, type=pa.string())], schema=final))

    writer = ArrowWriter(finish, schema, columns)
    records = (record for batch in chain([first], stream) for record in records_of(batch, columns, first=1))
    found = _found(records, model, options)
    for _, group in groupby(found, key=lambda pair: _owner(pair[0])):
        for record, rewritten in _rewritten(list(group), rows.fresh()):
            problems.append(_problem(record, rewritten))
            writer.write(record, rewritten.new)
        while done:
            yield done.popleft()


def _found(records: Iterator[Record], model: Deidentifier, options: RunOptions) -> Iterator[tuple[Record, Note]]:
    waiting: deque[Record] = deque()

    def notes() -> Iterator[Note]:
        for record in records:
            waiting.append(record)
            yield record.note

    for note in chain.from_iterable(model.read_notes(notes(), options)):
        yield waiting.popleft(), note


def _rewritten(found: list[tuple[Record, Note]], rows: RowPass) -> Iterator[tuple[Record, Rewritten]]:
    """Yield what becomes of each record of a patient."""
    for record, _ in found:
        rows.see(record)
    for _, note in found:
        rows.learn(note)
    for record, note in found:
        yield record, rows.rewrite(record, note)


def _problem(record: Record, rewritten: Rewritten) -> str | None:
    """Return why a note is withheld, or what whoever reads it must know."""
    if rewritten.result.error is not None:
        return rewritten.result.error.removeprefix(f"{record.name}: ")
    emptied = rewritten.emptied
    nobody = None if record.placeholder is None else "the patient is a placeholder such as NULL"
    remarks = [rewritten.result.remark, nobody, *(f"{emptied[name]} {name}" for name in EMPTIED if emptied.get(name))]
    return "; ".join(filter(None, remarks)) or None


def _owner(record: Record) -> tuple[bool, str]:
    if record.patient is None:
        return True, patient_of(None, record.text or "")
    return False, str(record.patient)
