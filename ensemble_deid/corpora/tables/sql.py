"""Rows of a database by SQLAlchemy: a query in, a new table of the same columns and types in the same database out."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ensemble_deid.corpora.edits import edited
from ensemble_deid.corpora.records import CountedByReading, NewRecord, OnOutput, Record, Value
from ensemble_deid.corpora.tables.columns import Columns
from ensemble_deid.errors import ConfigError, CorpusError, needs_extra

_ROWS = 1000
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,50}(\.[A-Za-z_][A-Za-z0-9_]{0,50})?")
_UNFINISHED = "__unfinished"


def sqlalchemy() -> Any:
    with needs_extra("sql", "a database"):
        import sqlalchemy
    return sqlalchemy


@dataclass(slots=True)
class SqlQuery(CountedByReading):
    """The rows of a query that ends with ORDER BY and a unique column, and the new table `table_out` for them.

    A `resumed` run accepts a whole table with the very rows that it would write: it may have been killed then.
    """

    url: str = field(repr=False)
    query: str = field(repr=False)
    table_out: str
    columns: Columns
    format: str = "sql"
    bits: tuple[int, int] = (64, 64)
    resumed: bool = False
    engine: Any = field(init=False, repr=False)
    names: list[str] = field(init=False)

    def __post_init__(self) -> None:
        sa = sqlalchemy()
        if not _NAME.fullmatch(self.table_out):
            raise ConfigError("--table-out must be a name of letters, digits and _, or SCHEMA.NAME")
        if not re.search(r"\border\s+by\b", self.query, re.IGNORECASE):
            raise ConfigError("--query must end with ORDER BY and a unique column: it is run twice")
        try:
            self.engine = sa.create_engine(self.url, poolclass=sa.pool.NullPool)
        except (sa.exc.SQLAlchemyError, ImportError) as error:
            # The message may quote the URL, which can hold a password.
            raise ConfigError(f"the database's URL cannot be used ({type(error).__name__})") from None
        if self.engine.dialect.name == "sqlite":
            sa.event.listen(self.engine, "connect", _set_up_sqlite)
        if self.engine.dialect.name == "postgresql":
            # As it takes names without quotes; inspection compares them as they are.
            self.table_out = self.table_out.lower()
        with self._connected() as connection:
            result = connection.execute(sa.text(f"SELECT * FROM ({self._inner}) AS notes WHERE 1 = 0"))
            self.columns = self.columns.among(list(result.keys()), "the query")
            self.names = self.columns.written(list(result.keys()))
            self.bits = self._sizes(connection)
            connection.rollback()

    @property
    def file(self) -> Path | None:
        """The database, where it is a file (of SQLite)."""
        name = self.engine.url.database if self.engine.dialect.name == "sqlite" else None
        return Path(name) if name else None

    @property
    def _inner(self) -> str:
        # A colon would begin the name of a parameter.
        return self.query.strip().rstrip(";").replace(":", r"\:")

    def count(self) -> int:
        if self.columns.text is None or self.columns.more_texts:
            return CountedByReading.count(self)
        column = self._quoted(self.columns.text)
        with self._connected() as connection:
            query = f"SELECT COUNT({column}) FROM ({self._inner}) AS notes"
            return int(connection.execute(sqlalchemy().text(query)).scalar_one())

    def records(self) -> Iterator[Record]:
        texts = self.columns.texts
        with self._connected() as connection:
            reading = connection.execution_options(stream_results=True, yield_per=_ROWS)
            for number, row in enumerate(reading.execute(sqlalchemy().text(self._inner)).mappings(), start=1):
                values = dict(row)
                wrong = [
                    name
                    for name in self.columns.treated
                    if not isinstance(values[name], (str | None) if name in texts else Value)
                ]
                values |= dict.fromkeys(wrong)
                place, error = f"row {number}", None
                if wrong:
                    error = CorpusError(f"{place}: the column {wrong[0]} has a value of an unknown type")
                cells = partial(_plain, tuple(row.values()))
                hidden = dict.fromkeys(texts) if wrong else {}
                yield self.columns.record(place, {**values, **hidden}, error=error, raw=values, cells=cells)

    @contextmanager
    def writer(self, out: Path, on_output: OnOutput) -> Iterator["_TableWriter"]:
        """Provide a writer; the table has another name until the block ends, so that no half table passes for one."""
        sa = sqlalchemy()
        unfinished, named = f"{self.table_out}{_UNFINISHED}", "*"
        if self.columns.drop_rest or self.columns.drop:
            named = ", ".join(map(self._quoted, self.names))
        with self._connected() as connection:
            # What a killed run left.
            connection.execute(sa.text(f"DROP TABLE IF EXISTS {unfinished}"))
            connection.execute(
                sa.text(f"CREATE TABLE {unfinished} AS SELECT {named} FROM ({self._inner}) AS notes WHERE 1 = 0")
            )
            connection.commit()
        with self._connected() as connection:
            names = list(connection.execute(sa.text(f"SELECT * FROM {unfinished}")).keys())
            columns = ", ".join(self._quoted(name) for name in names)
            values = ", ".join(f":c{number}" for number in range(len(names)))
            insert = sa.text(f"INSERT INTO {unfinished} ({columns}) VALUES ({values})")
            writer = _TableWriter(connection, insert, names, self.columns)
            yield writer
            writer.flush()
            digest = _digest_of_rows(connection, unfinished)
            if not self._exists(connection):
                last = f"ALTER TABLE {unfinished} RENAME TO {self.table_out.rpartition('.')[2]}"
            elif self.resumed and _digest_of_rows(connection, self.table_out) == digest:
                last = f"DROP TABLE {unfinished}"
            else:
                raise CorpusError(f"{self.table_out}: the table exists, with other rows; drop it, or name another one")
            connection.execute(sa.text(last))
            connection.commit()
        on_output(Path(self.table_out), digest)

    @contextmanager
    def exclusive(self) -> Iterator[bool]:
        """Lock the new table for runs on any machine; yields False without locks. ConfigError if another run has it."""
        if self.engine.dialect.name != "postgresql":
            yield self.file is not None
            return
        schema, _, name = self.table_out.rpartition(".")
        with self._connected() as connection:
            session = connection.execution_options(isolation_level="AUTOCOMMIT")
            named = f"ensemble_deid {schema or connection.dialect.default_schema_name}.{name}"
            key = int.from_bytes(hashlib.sha256(named.encode()).digest()[:8], "big", signed=True)
            if not session.execute(sqlalchemy().text("SELECT pg_try_advisory_lock(:key)"), {"key": key}).scalar_one():
                raise ConfigError(f"{self.table_out}: another run is writing there; wait for its end")
            yield True

    def refuse_existing(self) -> None:
        """Raise CorpusError where the new table exists already, unless the run is `resumed`."""
        with self._connected() as connection:
            if not self.resumed and self._exists(connection):
                raise CorpusError(
                    f"{self.table_out}: the table exists; drop it, or name another one; --resume where a run was killed"
                )

    def digest(self) -> str | None:
        """Return the digest of the new table's rows, in whatever order they are; None where there is no table."""
        with self._connected() as connection:
            return _digest_of_rows(connection, self.table_out) if self._exists(connection) else None

    def input_digest(self) -> str:
        """Return the digest of the rows that the query returns, in whatever order they are."""
        with self._connected() as connection:
            return _digest_of_rows(connection, f"({self._inner}) AS notes")

    def _exists(self, connection: Any) -> bool:
        schema, _, name = self.table_out.rpartition(".")
        return bool(sqlalchemy().inspect(connection).has_table(name, schema=schema or None))

    def _sizes(self, connection: Any) -> tuple[int, int]:
        """Return the bits of integers in the columns of ids and patients, which a view of the query tells."""
        sa = sqlalchemy()
        if connection.dialect.name == "sqlite":
            # Its integers are of 64 bits, whatever a column is called.
            return (64, 64)
        view = f"{self.table_out.rpartition('.')[2]}{_UNFINISHED}_types"
        connection.execute(sa.text(f"CREATE TEMPORARY VIEW {view} AS SELECT * FROM ({self._inner}) AS notes"))
        types = {column["name"]: column["type"] for column in sa.inspect(connection).get_columns(view)}

        def bits(name: str | None) -> int:
            kind = types.get(name)
            if isinstance(kind, sa.BigInteger) or not isinstance(kind, sa.Integer):
                return 64
            return 16 if isinstance(kind, sa.SmallInteger) else 32

        return bits(self.columns.id), bits(self.columns.patient)

    def _quoted(self, name: str) -> str:
        quoted: str = self.engine.dialect.identifier_preparer.quote_identifier(name)
        return quoted.replace(":", r"\:")

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        sa = sqlalchemy()
        try:
            with self.engine.connect() as connection:
                yield connection
        except sa.exc.SQLAlchemyError as error:
            # The message may quote a row.
            raise CorpusError(f"the database refuses ({_reason(error)})") from None


@dataclass(slots=True)
class _TableWriter:
    connection: Any
    insert: Any
    names: list[str]
    columns: Columns
    rows: list[dict[str, Any]] = field(default_factory=list)

    def write(self, record: Record, new: NewRecord) -> None:
        values = dict(record.raw)
        for name in self.columns.texts if record.is_note else ():
            made = None if record.text is None else self.columns.edits(record.raw, new.edits).get(name)
            values[name] = None if made is None else edited(record.raw[name], made)
        values |= {name: now for name, (_, now) in self.columns.beside(record, new).items()}
        self.rows.append({f"c{number}": values[name] for number, name in enumerate(self.names)})
        if len(self.rows) >= _ROWS:
            self.flush()

    def flush(self) -> None:
        if self.rows:
            self.connection.execute(self.insert, self.rows)
            self.rows = []


def _digest_of_rows(connection: Any, table: str) -> str:
    """Return the names of the columns and the sum of the hashes of all rows, which their order does not change."""
    # Of this statement alone: those of the connection would make a cursor of the next statement, too.
    options = {"stream_results": True, "yield_per": _ROWS}
    result = connection.execute(sqlalchemy().text(f"SELECT * FROM {table}"), execution_options=options)
    total = _hash_of(tuple(result.keys()))
    for row in result:
        total += _hash_of(tuple(row))
    return f"{total % (1 << 256):064x}"


def _set_up_sqlite(connection: Any, _: Any) -> None:
    """Let SQLite hand out text that is not UTF-8 as bytes, which withhold their note; it would end the run.

    New rows wait in memory for the commit: for spilling them, SQLite would wait for the reader, and that for the rows.
    """

    def decoded(data: bytes) -> str | bytes:
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            return data

    connection.text_factory = decoded
    connection.execute("PRAGMA cache_spill = OFF")


def _plain(row: Sequence[Any]) -> list[Any]:
    return [bytes(value) if isinstance(value, memoryview) else value for value in row]


def _hash_of(values: tuple[Any, ...]) -> int:
    return int.from_bytes(hashlib.sha256(repr(values).encode("utf-8", "backslashreplace")).digest(), "big")


def _reason(error: Exception) -> str:
    """Return the types of an error and of what is behind it, without their messages."""
    behind = getattr(error, "orig", None)
    return type(error).__name__ if behind is None else f"{type(error).__name__}, {type(behind).__name__}"
