"""De-identifying a stream of Arrow record batches, such as Spark gives its workers, in bounded memory."""

import json
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
from ensemble_deid.errors import CorpusError
from ensemble_deid.note.document import Document, patient_of
from ensemble_deid.note.span import Span

OWNER, FOUND = "_ensemble_deid_owner", "_ensemble_deid_found"
"""Columns that `read_batches` adds: a note's patient, and the model's findings without text."""


def read_batches(batches: Iterable[Any], model: Deidentifier, columns: Columns, options: RunOptions) -> Iterator[Any]:
    """Yield the record batches with the model's findings, for `deidentified_batches` in another task.

    Rows are read independently, so they can be spread in any way; there a patient's notes are processed together.
    """
    pa = pyarrow()
    waiting: deque[Any] = deque()
    owners: deque[str] = deque()
    found: deque[str] = deque()

    def records() -> Iterator[Record]:
        for batch in batches:
            waiting.append(batch)
            yield from records_of(batch, columns, first=1)

    for record, note in _found(records(), model, options):
        owners.append(_owner(record)[1])
        found.append(_encoded(record, note))
        while waiting and len(found) >= len(waiting[0]):
            yield _with_read(pa, waiting.popleft(), owners, found)
    while waiting:
        yield _with_read(pa, waiting.popleft(), owners, found)


def _without_read(batch: Any, read: deque[str] | None) -> Any:
    """Return a batch without the added columns, and keep the findings."""
    if read is None:
        return batch
    read.extend(batch.column(FOUND).to_pylist())
    return batch.select([name for name in batch.schema.names if name not in (OWNER, FOUND)])


def _with_read(pa: Any, batch: Any, owners: deque[str], found: deque[str]) -> Any:
    new = [pa.array([column.popleft() for _ in range(len(batch))], type=pa.string()) for column in (owners, found)]
    schema = batch.schema.append(pa.field(OWNER, pa.string())).append(pa.field(FOUND, pa.string()))
    return pa.RecordBatch.from_arrays([*batch.columns, *new], schema=schema)


def _encoded(record: Record, note: Note) -> str:
    """Return the model's findings in a note as JSON without text: its spans, or why it is withheld."""
    if not isinstance(note, Document):
        return json.dumps(str(note).removeprefix(f"{record.name}: "))
    return json.dumps([(span.start, span.end, span.label, float(span.score), span.source) for span in note.spans])


def _decoded(record: Record, found: str) -> Note:
    content = json.loads(found)
    if isinstance(content, str):
        return CorpusError(f"{record.name}: {content}")
    return record.document().with_spans(Span(*values) for values in content)


def deidentified_batches(
    batches: Iterable[Any],
    model: Deidentifier,
    columns: Columns,
    options: RunOptions,
    *,
    problem: str = "problem",
    withheld: str | None = None,
) -> Iterator[Any]:
    """Yield the record batches without PHI, as `deidentify` writes a table, and with a column more, of problems.

    Rows of a patient that follow each other are processed together: sort by patient. The notes of one patient and a few
    batches are in memory at a time. A withheld note is missing, and its reason is in the new column `problem`, which
    also says of a note that is written how many of its dates are missing, and how many known identifiers are left in
    it; `withheld` names a boolean column that tells which rows are withheld. Batches of `read_batches` have
    been read by the model. Raises ConfigError, ModelError.
    """
    done: deque[Any] = deque()
    problems: deque[tuple[str | None, bool]] = deque()
    stream = iter(batches)
    first = next(stream, None)
    if first is None:
        return
    read: deque[str] | None = deque() if FOUND in first.schema.names else None
    stream = (_without_read(batch, read) for batch in chain([first], stream))
    first = next(stream)
    pa = pyarrow()
    schema = output_schema(first.schema, columns)
    rows = RowPass.of(model, options, columns, id_bits(first.schema, columns))
    more = [pa.field(problem, pa.string()), *([] if withheld is None else [pa.field(withheld, pa.bool_())])]
    final = pa.schema([*schema, *more], metadata=schema.metadata)

    def finish(batch: Any) -> None:
        own = zip(*(problems.popleft() for _ in range(len(batch))), strict=True) if len(batch) else ((), ())
        new = [pa.array(values, type=field.type) for values, field in zip(own, more, strict=False)]
        done.append(pa.RecordBatch.from_arrays([*batch.columns, *new], schema=final))

    writer = ArrowWriter(finish, schema, columns)
    records = (record for batch in chain([first], stream) for record in records_of(batch, columns, first=1))
    if read is None:
        found = _found(records, model, options)
    else:
        found = ((record, _decoded(record, read.popleft())) for record in records)
    for _, group in groupby(found, key=lambda pair: _owner(pair[0])):
        for record, rewritten in _rewritten(list(group), rows.fresh()):
            problems.append((_problem(record, rewritten), rewritten.result.error is not None))
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
        rows.notes.learn(note)
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
