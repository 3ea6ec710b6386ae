"""Parquet and Arrow (Feather) files, batch by batch: the columns that are not treated are written as they were read."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from ensemble_deid.atomic import open_atomically
from ensemble_deid.corpora.edits import edited
from ensemble_deid.corpora.records import NewRecord, OnOutput, Record, Value, digest_of
from ensemble_deid.corpora.tables.columns import Columns
from ensemble_deid.errors import ConfigError, CorpusError

_ROWS = 1000
_UNITS_A_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


def pyarrow() -> Any:
    """Return pyarrow with its file formats. Raises ConfigError, which names the extra, where it is missing."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ConfigError("Parquet and Arrow need an extra: pip install 'ensemble_deid[tables]'") from None
    return pyarrow


@dataclass(frozen=True, slots=True)
class _Batch:
    """Rows that are together in memory, and the values of the treated columns."""

    rows: Any
    values: dict[str, list[Value]]


def check_types(schema: Any, columns: Columns, place: str, *, dictionaries: bool = False) -> None:
    """Raise CorpusError where a column is missing, has no purpose, or is of a type that cannot be treated."""
    columns.check(schema.names, place)
    types = pyarrow().types
    for name in columns.treated:
        kind = schema.field(name).type
        if types.is_dictionary(kind) and dictionaries:
            kind = kind.value_type
        is_text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
        is_date = name in columns.dates and (types.is_date(kind) or types.is_timestamp(kind))
        is_id = name in (columns.id, columns.patient) and types.is_integer(kind)
        if not (is_text or is_date or is_id):
            raise CorpusError(f"{place}: the column {name} is of type {kind}, which cannot be treated")


def id_bits(schema: Any, columns: Columns) -> tuple[int, int]:
    """Return the sizes of integers in the columns of ids and patients; 64 where they hold text."""
    sizes = [
        64
        if name is None or not pyarrow().types.is_integer(schema.field(name).type)
        else schema.field(name).type.bit_width
        for name in (columns.id, columns.patient)
    ]
    return (sizes[0], sizes[1])


def output_schema(schema: Any, columns: Columns) -> Any:
    """Return the schema of the output: a withheld note is missing, and so is a date that cannot be shifted."""
    for name in (columns.text, *columns.dates):
        schema = schema.set(schema.get_field_index(name), schema.field(name).with_nullable(True))
    return schema


def records_of(rows: Any, columns: Columns, *, first: int) -> Iterator[Record]:
    """Yield the rows of a record batch, the first of which is row `first` of the table."""
    batch = _Batch(rows, {name: _values(rows.column(name)) for name in columns.treated})
    for index in range(len(rows)):
        yield _record(first + index, index, batch, columns)


def _record(number: int, index: int, batch: _Batch, columns: Columns) -> Record:
    def value(name: str | None) -> Value:
        return None if name is None else batch.values[name][index]

    text = value(columns.text)
    return Record(
        f"row {number}",
        None if text is None else str(text),
        id=value(columns.id),
        patient=value(columns.patient),
        dates=tuple(value(name) for name in columns.dates),
        raw=(batch, index),
    )


@dataclass(slots=True)
class ArrowTable:
    """A Parquet, Arrow IPC or Feather (version 2) file."""

    path: Path
    format: str
    columns: Columns
    bits: tuple[int, int] = (64, 64)

    def __post_init__(self) -> None:
        with self._opened() as (schema, _):
            check_types(schema, self.columns, str(self.path), dictionaries=self.format == "parquet")
            self.bits = id_bits(schema, self.columns)

    def count(self) -> int:
        """Return the number of notes."""
        with self._opened() as (_, batches):
            return sum(len(rows) - rows.column(self.columns.text).null_count for rows in batches)

    def warnings(self) -> Sequence[str]:
        """Return nothing: columns that are handed out as they are have been named."""
        return ()

    def records(self) -> Iterator[Record]:
        """Yield every row."""
        number = 1
        with self._opened() as (_, batches):
            for rows in batches:
                yield from records_of(rows, self.columns, first=number)
                number += len(rows)

    @contextmanager
    def writer(self, out: Path, on_output: OnOutput) -> Iterator["ArrowWriter"]:
        """Provide a writer of the whole table; the file is in place when the block ends."""
        with self._opened() as (schema, _), open_atomically(out) as stream:
            schema = output_schema(schema, self.columns)
            with self._file_writer(stream, schema) as file:
                writer = ArrowWriter(file.write_batch, schema, self.columns)
                yield writer
        on_output(out, digest_of(out))

    def _file_writer(self, stream: Any, schema: Any) -> Any:
        pa = pyarrow()
        if self.format == "parquet":
            with _errors_of(self.path), pa.parquet.ParquetFile(self.path) as file:
                groups = file.metadata.num_row_groups
                codec = file.metadata.row_group(0).column(0).compression if groups else "SNAPPY"
            return pa.parquet.ParquetWriter(stream, schema, compression="NONE" if codec == "UNCOMPRESSED" else codec)
        new = pa.ipc.new_file if _is_ipc_file(self.path) else pa.ipc.new_stream
        return new(stream, schema)

    @contextmanager
    def _opened(self) -> Iterator[tuple[Any, Iterator[Any]]]:
        """Provide the schema and the batches."""
        pa = pyarrow()
        with _errors_of(self.path):
            if self.format == "parquet":
                with pa.parquet.ParquetFile(self.path) as file:
                    yield file.schema_arrow, file.iter_batches(batch_size=_ROWS)
                return
            with pa.OSFile(str(self.path), "rb") as source:
                if _is_ipc_file(self.path):
                    with pa.ipc.open_file(source) as reader:
                        batches = (reader.get_batch(number) for number in range(reader.num_record_batches))
                        yield reader.schema, batches
                else:
                    with pa.ipc.open_stream(source) as reader:
                        yield reader.schema, iter(reader)


@dataclass(slots=True)
class ArrowWriter:
    """Hands record batches to `write_batch`, rewritten, each when the last of its rows has been written."""

    write_batch: Callable[[Any], None]
    schema: Any
    columns: Columns
    new: list[tuple[Record, NewRecord]] = field(default_factory=list)

    def write(self, record: Record, new: NewRecord) -> None:
        """Write the record with the last one of its batch."""
        self.new.append((record, new))
        batch, _ = record.raw
        if len(self.new) == len(batch.rows):
            try:
                self.write_batch(self._rewritten(batch.rows))
            except pyarrow().ArrowException as error:
                # No single note can be withheld for that; the message might quote a value.
                raise ConfigError(f"rows cannot be written as a table ({type(error).__name__})") from None
            self.new = []

    def _rewritten(self, rows: Any) -> Any:
        pa, names = pyarrow(), self.columns
        arrays = list(rows.columns)

        def put(name: str | None, old: list[Value], now: list[Value]) -> None:
            if name is None:
                return
            place = rows.schema.get_field_index(name)
            # The dictionary of an array has also values of other rows, which may be texts as they were.
            if old != now or pa.types.is_dictionary(arrays[place].type):
                arrays[place] = _array(arrays[place], old, now)

        texts = [_text(record, new) for record, new in self.new]
        put(names.text, [record.text for record, _ in self.new], list(texts))
        put(names.id, [record.id for record, _ in self.new], [new.id for _, new in self.new])
        put(names.patient, [record.patient for record, _ in self.new], [new.patient for _, new in self.new])
        for number, name in enumerate(names.dates):
            put(name, [record.dates[number] for record, _ in self.new], [new.dates[number] for _, new in self.new])
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _text(record: Record, new: NewRecord) -> str | None:
    return None if record.text is None or new.edits is None else edited(record.text, new.edits)


def _values(column: Any) -> list[Value]:
    pa = pyarrow()
    if pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
        column = column.cast(pa.date32(), safe=False)
    found: list[Value] = column.to_pylist()
    return found


def _array(column: Any, old: list[Value], now: list[Value]) -> Any:
    """Return the new values with the column's type; of a time stamp the day is moved, and the time of day stays."""
    pa, kind = pyarrow(), column.type
    if pa.types.is_date32(kind):
        return pa.array(now, type=kind)
    if not (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        if pa.types.is_dictionary(kind):
            return pa.array(now, type=kind.value_type).dictionary_encode().cast(kind)
        return pa.array(now, type=kind)
    day = _UNITS_A_DAY["ms" if pa.types.is_date(kind) else kind.unit]
    moved = [
        number + (after - before).days * day if isinstance(before, date) and isinstance(after, date) else None
        for number, before, after in zip(column.cast(pa.int64()).to_pylist(), old, now, strict=True)
    ]
    return pa.array(moved, type=pa.int64()).cast(kind)


def _is_ipc_file(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(6) == b"ARROW1"


@contextmanager
def _errors_of(path: Path) -> Iterator[None]:
    """Name the file where pyarrow cannot read it; its own message might quote a value."""
    pa = pyarrow()
    try:
        yield
    except pa.ArrowException as error:
        raise CorpusError(f"{path}: cannot be read as a table ({type(error).__name__})") from None
