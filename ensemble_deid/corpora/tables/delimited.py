"""CSV and TSV, read so that every byte outside the replaced values can be written again as it was.

The csv module forgets quotes and line ends; here a row is its raw fields. Quotes may surround whole fields only, with
quotes inside doubled (RFC 4180): anything else could be read in two ways.
"""

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

from ensemble_deid.corpora.compressed import reading_plain, writing_compressed
from ensemble_deid.corpora.edits import Edit, edited, spliced
from ensemble_deid.corpora.records import CountedByReading, NewRecord, OnOutput, Record, digest_of
from ensemble_deid.corpora.tables.columns import Columns
from ensemble_deid.errors import CorpusError

DELIMITERS = {"csv": ",", "tsv": "\t"}
_LONGEST_ROW = 1 << 26
_QUOTED_PIECE = re.compile('""|[^"]', re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Row:
    fields: list[str]
    end: str


@dataclass(slots=True)
class DelimitedTable(CountedByReading):
    """A CSV or TSV file in UTF-8 whose first row names the columns."""

    path: Path
    format: str
    columns: Columns
    bits: tuple[int, int] = (64, 64)

    def __post_init__(self) -> None:
        if self.columns.drop_rest or self.columns.fields:
            with reading_plain(self.path) as stream:
                _, names = self._header(self._rows(stream))
            self.columns = self.columns.among(names, str(self.path))

    def _header(self, rows: Iterator[_Row]) -> tuple[_Row, list[str]]:
        header = next(rows, None)
        if header is None:
            raise CorpusError(f"{self.path}: is empty: the first row must name the columns")
        return header, [_value(field) for field in header.fields]

    def records(self) -> Iterator[Record]:
        with reading_plain(self.path) as stream:
            rows = self._rows(stream)
            _, names = self._header(rows)
            self.columns.check(names, str(self.path))
            at = {name: names.index(name) for name in self.columns.treated}
            for number, row in enumerate(rows, start=1):
                if row.fields == [""]:
                    yield Record(f"row {number}", blank=True, raw=(row, at))
                    continue
                if len(row.fields) != len(names):
                    raise CorpusError(
                        f"{self.path}: row {number} below the header has {len(row.fields)} fields, not {len(names)}"
                    )
                values = _values(row, at)
                yield self.columns.record(f"row {number}", values, raw=(row, at), cells=partial(_cells, row))

    def _rows(self, stream: BinaryIO) -> Iterator[_Row]:
        delimiter = DELIMITERS[self.format]
        field = re.compile(rf'(?:"[^"]*(?:""[^"]*)*"|[^"{delimiter}\r\n]*)(?={delimiter}|\Z)')
        raw = ""
        quotes = line = first = 0
        for text in _lines(stream, self.path):
            line += 1
            first = first if raw else line
            raw += text
            quotes += text.count('"')
            if len(raw) > _LONGEST_ROW:
                raise CorpusError(f"{self.path}:{first}: a quote that is opened here is not closed")
            if quotes % 2:
                continue
            yield _split(raw, field, f"{self.path}:{first}")
            raw, quotes = "", 0
        if raw:
            raise CorpusError(f"{self.path}:{first}: a quote that is opened here is not closed")

    @contextmanager
    def writer(self, out: Path, on_output: OnOutput) -> Iterator["_DelimitedWriter"]:
        with writing_compressed(out) as stream:
            with reading_plain(self.path) as source:
                if source.read(3) == b"\xef\xbb\xbf":
                    stream.write(b"\xef\xbb\xbf")
            with reading_plain(self.path) as source:
                header, names = self._header(self._rows(source))
            written = [names.index(name) for name in self.columns.written(names)]
            writer = _DelimitedWriter(stream, DELIMITERS[self.format], written, self.columns)
            writer.line(header)
            yield writer
        on_output(out, digest_of(out))


@dataclass(slots=True)
class _DelimitedWriter:
    stream: BinaryIO
    delimiter: str
    written: list[int]
    columns: Columns

    def line(self, row: _Row) -> None:
        fields = [row.fields[index] for index in self.written] if len(row.fields) > 1 else row.fields
        self.stream.write((self.delimiter.join(fields) + row.end).encode("utf-8"))

    def write(self, record: Record, new: NewRecord) -> None:
        row, place = record.raw
        if record.blank:
            self.line(row)
            return
        fields = list(row.fields)
        for name, (before, after) in self.columns.beside(record, new).items():
            if before != after:
                index = place[name]
                fields[index] = self._encoded("" if after is None else str(after), quoted=fields[index][:1] == '"')
        for name, edits in self.columns.edits(_values(row, place), new.edits).items():
            # A withheld note's cell is empty, in quotes: a row of nothing at all would pass for an empty line.
            fields[place[name]] = '""' if edits is None else self._edited(fields[place[name]], edits)
        if [fields[index] for index in self.written] == [""]:
            # Of one column, an empty field without quotes would be a blank line, which readers leave out.
            fields[self.written[0]] = '""'
        self.line(_Row(fields, row.end))

    def _edited(self, raw: str, edits: Sequence[Edit]) -> str:
        if not edits:
            return raw
        if raw[:1] == '"':
            inner = raw[1:-1]
            pieces: Sequence[str] = _QUOTED_PIECE.findall(inner) if '""' in inner else inner
            return '"' + spliced(pieces, edits, lambda new: new.replace('"', '""')) + '"'
        return self._encoded(edited(raw, edits), quoted=False)

    def _encoded(self, value: str, *, quoted: bool) -> str:
        """Return the value as a field, in quotes where its field was, or where it would be read otherwise."""
        if quoted or any(special in value for special in (self.delimiter, '"', "\r", "\n")):
            return '"' + value.replace('"', '""') + '"'
        return value


def _lines(stream: BinaryIO, path: Path) -> Iterator[str]:
    try:
        with io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as lines:
            yield from lines
    except UnicodeDecodeError as error:
        raise CorpusError(
            f"{path}:{_broken_line(path)}: is not UTF-8 ({error.reason}); convert the file first"
        ) from None


def _broken_line(path: Path) -> int:
    """Return the number of the first line that is not UTF-8: the stream is decoded in larger pieces."""
    with reading_plain(path) as stream:
        return next((number for number, line in enumerate(stream, start=1) if not _is_utf8(line)), 1)


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _split(raw: str, field: re.Pattern[str], place: str) -> _Row:
    body = raw.rstrip("\r\n")
    fields: list[str] = []
    position = 0
    while True:
        match = field.match(body, position)
        if match is None:
            raise CorpusError(f"{place}: a quote inside a field: a field with quotes must be quoted, and they doubled")
        fields.append(match[0])
        if match.end() == len(body):
            return _Row(fields, raw[len(body) :])
        position = match.end() + 1


def _values(row: _Row, at: Mapping[str, int]) -> dict[str, str | None]:
    # An empty cell holds no id, no date and no note.
    return {name: _value(row.fields[index]) or None for name, index in at.items()}


def _cells(row: _Row) -> list[str]:
    return list(map(_value, row.fields))


def _value(raw: str) -> str:
    return raw[1:-1].replace('""', '"') if raw[:1] == '"' else raw
