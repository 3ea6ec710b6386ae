"""Parquet and Arrow (Feather) files by batches: values of untreated columns stay, metadata and hidden values go."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import available_timezones

from ensemble_deid.atomic import open_atomically
from ensemble_deid.corpora.edits import edited
from ensemble_deid.corpora.record_map import FieldKind
from ensemble_deid.corpora.records import CountedByReading, NewRecord, OnOutput, Record, Value, digest_of
from ensemble_deid.corpora.tables.columns import Columns
from ensemble_deid.errors import ConfigError, CorpusError, needs_extra

_ROWS = 1000
_UNITS_A_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


def pyarrow() -> Any:
    with needs_extra("tables", "a Parquet or Arrow file"):
        import pyarrow
        import pyarrow.parquet
    return pyarrow


class _Batch(NamedTuple):
    """Rows that are together in memory, and the values of the treated columns."""

    rows: Any
    values: dict[str, list[Any]]


_BROKEN = object()
"""Stands for a value that cannot be read, such as text that is not UTF-8."""


def check_types(schema: Any, columns: Columns, place: str, *, dictionaries: bool = False) -> None:
    """Raise CorpusError where a column is missing, has no purpose, or is of a type that cannot be treated."""
    columns.check(schema.names, place)
    types, rules = pyarrow().types, dict(columns.fields)
    for name in columns.treated:
        kind = schema.field(name).type
        if types.is_dictionary(kind) and dictionaries:
            kind = kind.value_type
        is_text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
        rule = rules[name].kind if name in rules else None
        is_date = (name in columns.dates or rule is FieldKind.DATE) and (
            types.is_date(kind) or types.is_timestamp(kind)
        )
        is_id = name in (columns.id, columns.patient) and types.is_integer(kind)
        # Smaller integers have no room for a pseudonym.
        is_id |= types.is_integer(kind) and (rule in (FieldKind.AGE, FieldKind.CODES) or types.is_int64(kind))
        if not (is_text or is_date or is_id):
            raise CorpusError(f"{place}: the column {name} is of type {kind}, which cannot be treated")


def id_bits(schema: Any, columns: Columns) -> tuple[int, int]:
    """Return the sizes of integers in the columns of ids and patients; 64 where they hold text."""

    def bits(name: str | None) -> int:
        kind = None if name is None else schema.field(name).type
        return 64 if kind is None or not pyarrow().types.is_integer(kind) else int(kind.bit_width)

    return bits(columns.id), bits(columns.patient)


def output_schema(schema: Any, columns: Columns, *, dictionaries: bool = True) -> Any:
    """Return the schema of the output without metadata; columns that are treated may be empty. Raises CorpusError.

    Extension types become their storage types, and so do dictionaries unless `dictionaries` is set: an Arrow file
    writes a dictionary once, so it would have to hold the values of all rows.
    """
    pa, emptied = pyarrow(), set(columns.treated)
    fields = []
    for column in map(schema.field, columns.written(schema.names)):
        kind = _plain_type(column.type, column.name, dictionaries)
        fields.append(pa.field(column.name, kind, column.nullable or column.name in emptied))
    return pa.schema(fields)


def _plain_type(kind: Any, column: str, dictionaries: bool) -> Any:
    """Return a type without the metadata of fields inside it. Raises CorpusError for one that cannot be made clean."""
    pa = pyarrow()
    types = pa.types

    def plain(field: Any) -> Any:
        return pa.field(field.name, _plain_type(field.type, column, dictionaries), field.nullable)

    if isinstance(kind, pa.BaseExtensionType):
        return _plain_type(kind.storage_type, column, dictionaries)
    if types.is_dictionary(kind):
        value = _plain_type(kind.value_type, column, dictionaries)
        return pa.dictionary(kind.index_type, value, kind.ordered) if dictionaries else value
    if types.is_struct(kind):
        return pa.struct([plain(kind.field(number)) for number in range(kind.num_fields)])
    if types.is_map(kind):
        return pa.map_(plain(kind.key_field), plain(kind.item_field), kind.keys_sorted)
    if types.is_fixed_size_list(kind):
        return pa.list_(plain(kind.value_field), kind.list_size)
    if types.is_list(kind) or types.is_large_list(kind):
        return (pa.list_ if types.is_list(kind) else pa.large_list)(plain(kind.value_field))
    zone = kind.tz if types.is_timestamp(kind) else None
    named = not zone or re.fullmatch(r"[+-]\d\d:\d\d", zone) or zone in available_timezones()
    if types.is_nested(kind) or types.is_run_end_encoded(kind) or not named:
        raise CorpusError(f"the column {column} is of a type that cannot be written without what nobody has read in it")
    return kind


def _clean(array: Any, kind: Any) -> Any:
    """Return the array as one of a plain type that holds its values and nothing else."""
    pa = pyarrow()
    types = pa.types
    if isinstance(array.type, pa.BaseExtensionType):
        return _clean(array.storage, kind)
    if types.is_dictionary(array.type):
        values = _clean(array.dictionary_decode(), getattr(kind, "value_type", kind))
        return values.dictionary_encode().cast(kind) if types.is_dictionary(kind) else values
    if types.is_struct(kind):
        # The children of a missing row are missing, too.
        children = [_clean(child, kind.field(number).type) for number, child in enumerate(array.flatten())]
        valid = array.is_valid().buffers()[1] if array.null_count else None
        return pa.Array.from_buffers(kind, len(array), [valid], children=children)
    if types.is_string_view(kind) or types.is_binary_view(kind):
        other = pa.large_string() if types.is_string_view(kind) else pa.large_binary()
        return _clean(array.cast(other), other).cast(kind)
    taken = array.take(pa.array(range(len(array)), type=pa.int64()))
    if not types.is_nested(kind):
        return taken
    if types.is_map(kind):
        entries = pa.StructArray.from_arrays(
            [_clean(taken.keys, kind.key_type), _clean(taken.items, kind.item_type)],
            fields=[kind.key_field, kind.item_field],
        )
        return pa.Array.from_buffers(kind, len(taken), taken.buffers()[:2], children=[entries])
    own = 1 if types.is_fixed_size_list(kind) else 2
    return pa.Array.from_buffers(
        kind, len(taken), taken.buffers()[:own], children=[_clean(taken.values, kind.value_type)]
    )


def records_of(rows: Any, columns: Columns, *, first: int) -> Iterator[Record]:
    """Yield the rows of a record batch, the first of which is row `first` of the table."""
    batch = _Batch(rows, {name: _values(rows.column(name)) for name in columns.treated})
    for index in range(len(rows)):
        place, error = f"row {first + index}", None
        values = {name: batch.values[name][index] for name in columns.treated}
        hidden = [name for name, value in values.items() if value is _BROKEN]
        if hidden:
            error = CorpusError(f"{place}: the column {hidden[0]} has a value that cannot be read")
            values |= dict.fromkeys((*hidden, *columns.texts))
        yield columns.record(place, values, error=error, raw=(batch, index), cells=partial(_cells, rows, index))


def _cells(rows: Any, index: int) -> object:
    row = rows.slice(index, 1)
    try:
        return row.to_pylist()
    except UnicodeDecodeError:
        # Only in a column that stays as it is; others make an error.
        return row.serialize().to_pybytes()


@dataclass(slots=True)
class ArrowTable(CountedByReading):
    """A Parquet, Arrow IPC or Feather (version 2) file."""

    path: Path
    format: str
    columns: Columns
    bits: tuple[int, int] = (64, 64)

    def __post_init__(self) -> None:
        with self._opened() as (schema, _):
            self.columns = self.columns.among(schema.names, str(self.path))
            check_types(schema, self.columns, str(self.path), dictionaries=self.format == "parquet")
            try:
                output_schema(schema, self.columns, dictionaries=self.format == "parquet")
            except CorpusError as error:
                raise CorpusError(f"{self.path}: {error}") from None
            self.bits = id_bits(schema, self.columns)

    def count(self) -> int:
        text, more = self.columns.text, self.columns.more_texts
        if text is None or more:
            return CountedByReading.count(self)
        with self._opened() as (_, batches):
            return sum(len(rows) - rows.column(text).null_count for rows in batches)

    def records(self) -> Iterator[Record]:
        number = 1
        with self._opened() as (_, batches):
            for rows in batches:
                yield from records_of(rows, self.columns, first=number)
                number += len(rows)

    @contextmanager
    def writer(self, out: Path, on_output: OnOutput) -> Iterator["ArrowWriter"]:
        with self._opened() as (schema, _):
            schema = output_schema(schema, self.columns, dictionaries=self.format == "parquet")
        with open_atomically(out) as stream, self._file_writer(stream, schema) as file:
            writer = ArrowWriter(file.write_batch, schema, self.columns)
            yield writer
            writer.flush()
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
    """Hands rewritten record batches to `write_batch`, each after its last row; rows never written are left out."""

    write_batch: Callable[[Any], None]
    schema: Any
    columns: Columns
    new: list[tuple[Record, NewRecord]] = field(default_factory=list)

    def write(self, record: Record, new: NewRecord) -> None:
        """Write the record with the last one of its batch."""
        batch, index = record.raw
        if self.new and self.new[0][0].raw[0] is not batch:
            self.flush()
        self.new.append((record, new))
        if index == len(batch.rows) - 1:
            self.flush()

    def flush(self) -> None:
        if not self.new:
            return
        pa, rows = pyarrow(), self.new[0][0].raw[0].rows
        if len(self.new) < len(rows):
            rows = rows.take(pa.array([record.raw[1] for record, _ in self.new], type=pa.int64()))
        try:
            self.write_batch(self._rewritten(rows))
        except pa.ArrowException as error:
            # No single note can be withheld for that; the message might quote a value.
            raise ConfigError(f"rows cannot be written as a table ({type(error).__name__})") from None
        self.new = []

    def _rewritten(self, rows: Any) -> Any:
        pa, columns = pyarrow(), self.columns
        kept = [rows.column(name) for name in self.schema.names]
        arrays = [_clean(array, kind) for array, kind in zip(kept, self.schema.types, strict=True)]
        broken = any(record.error is not None for record, _ in self.new)
        beside = [columns.beside(record, new) for record, new in self.new]
        put: dict[str, tuple[list[Value], list[Value]]] = {}
        for name in beside[0]:
            put[name] = [pair[name][0] for pair in beside], [pair[name][1] for pair in beside]
        places = [record.raw for record, _ in self.new]
        old_texts = [{name: batch.values[name][index] for name in columns.texts} for batch, index in places]
        new_texts = [_texts(columns, *pair, old) for pair, old in zip(self.new, old_texts, strict=True)]
        for name in columns.texts:
            put[name] = [texts[name] for texts in old_texts], [texts[name] for texts in new_texts]
        for name, (old, now) in put.items():
            if old != now or broken:
                place = self.schema.get_field_index(name)
                arrays[place] = _array(arrays[place], old, now)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _texts(columns: Columns, record: Record, new: NewRecord, values: dict[str, Any]) -> dict[str, Value]:
    made = {} if record.text is None else columns.edits(values, new.edits)
    return dict.fromkeys(columns.texts) | {
        name: edited(str(values[name]), edits) for name, edits in made.items() if edits is not None
    }


def _values(column: Any) -> list[Any]:
    pa = pyarrow()
    if pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
        column = column.cast(pa.date32(), safe=False)
    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError):
        # Not all rows are to be lost for one.
        return [_value(cell) for cell in column]


def _value(cell: Any) -> Any:
    try:
        return cell.as_py()
    except (ValueError, OverflowError):
        return _BROKEN


def _array(column: Any, old: list[Value], now: list[Value]) -> Any:
    """Return the new values with the column's type; of a time stamp the day is moved, and the time of day stays."""
    pa, kind = pyarrow(), column.type
    if pa.types.is_dictionary(kind):
        return pa.array(now, type=kind.value_type).dictionary_encode().cast(kind)
    if not (pa.types.is_date64(kind) or pa.types.is_timestamp(kind)):
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
    except (pa.ArrowException, OSError) as error:
        # For damaged pages pyarrow has an OSError that is none of the system's.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise CorpusError(f"{path}: cannot be read as a table ({type(error).__name__})") from None
