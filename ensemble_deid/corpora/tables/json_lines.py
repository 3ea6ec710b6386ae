"""JSON Lines in and out: of each object the text, the ids and the dates are replaced, and every other byte stays."""

import codecs
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ensemble_deid.atomic import open_atomically
from ensemble_deid.corpora.checks import check_id, check_text, decode_utf8, reading
from ensemble_deid.corpora.edits import spliced
from ensemble_deid.corpora.json_fields import JsonValue, object_of, parse_json, read_places, refuse_unknown_keys
from ensemble_deid.corpora.records import NewRecord, OnOutput, Record, digest_of
from ensemble_deid.corpora.tables.columns import ALL, Columns
from ensemble_deid.errors import CorpusError

DEFAULTS = {"text": "text", "id": "id", "patient": "patient_id"}
"""The fields that a line of this project's own JSONL has."""
ANNOTATIONS = "spans"


@dataclass(frozen=True, slots=True)
class _Line:
    mark: str
    raw: str
    values: dict[str, Any]
    places: dict[str, JsonValue]


@dataclass(slots=True)
class JsonLines:
    """A JSONL file. A line with a field that nobody names is withheld: it may hold PHI."""

    path: Path
    columns: Columns
    format: str = "jsonl"
    bits: tuple[int, int] = (64, 64)

    def count(self) -> int:
        """Return the number of lines that are not blank."""
        return sum(record.is_note for record in self.records())

    def warnings(self) -> Sequence[str]:
        """Return nothing: fields that are handed out as they are have been named."""
        return ()

    def records(self) -> Iterator[Record]:
        """Yield every line; one that cannot be read has its error, which names file and line."""
        with reading(self.path) as stream:
            for number, data in enumerate(stream, start=1):
                place = f"{self.path}:{number}"
                if not data.removeprefix(codecs.BOM_UTF8).strip(b" \t\r\n"):
                    yield Record(f"line {number}", blank=True, raw=data)
                    continue
                try:
                    yield self._record(data, number, place)
                except CorpusError as error:
                    yield Record(f"line {number}", error=error)

    def _record(self, data: bytes, number: int, place: str) -> Record:
        line = _parse(decode_utf8(data, place), place)
        text = line.values.get(self.columns.text)
        if not isinstance(text, str):
            raise CorpusError(f"{place}: '{self.columns.text}' must be a string")
        check_text(text, f"{place}: '{self.columns.text}'")
        if ALL not in self.columns.keep:
            named = (*self.columns.treated, *self.columns.keep, ANNOTATIONS)
            try:
                refuse_unknown_keys(line.values, named, place)
            except CorpusError as error:
                raise CorpusError(f"{error} (--keep-columns NAMES or all hands fields out as they are)") from None
        return Record(
            f"line {number}",
            text,
            id=_plain(line, self.columns.id, place, check=check_id),
            patient=_plain(line, self.columns.patient, place),
            dates=tuple(_plain(line, name, place) for name in self.columns.dates),
            raw=line,
            cells=lambda: line.values,
        )

    @contextmanager
    def writer(self, out: Path, on_output: OnOutput) -> Iterator["_LineWriter"]:
        """Provide a writer of the whole file, which is in place when the block ends."""
        with open_atomically(out) as stream:
            yield _LineWriter(stream, self.columns)
        on_output(out, digest_of(out))


@dataclass(slots=True)
class _LineWriter:
    stream: BinaryIO
    columns: Columns

    def write(self, record: Record, new: NewRecord) -> None:
        if record.blank:
            self.stream.write(record.raw)
        elif record.error is None and new.edits is not None:
            self.stream.write(self._rendered(record, new).encode("utf-8"))

    def _rendered(self, record: Record, new: NewRecord) -> str:
        line: _Line = record.raw
        changes: dict[str, str] = {}
        if new.edits:
            place = line.places[self.columns.text]
            pieces, ascii_only = place.pieces(line.raw), line.raw[place.start : place.end].isascii()
            spliced_text = spliced(pieces, new.edits, lambda value: json.dumps(value, ensure_ascii=ascii_only)[1:-1])
            changes[self.columns.text] = f'"{spliced_text}"'
        names = (self.columns.id, self.columns.patient, *self.columns.dates)
        before = (record.id, record.patient, *record.dates)
        for name, old, now in zip(names, before, (new.id, new.patient, *new.dates), strict=True):
            if name is not None and name in line.places and old != now:
                changes[name] = json.dumps(now, ensure_ascii=False)
        if line.values.get(ANNOTATIONS) is not None:
            # They refer to the old text, and may quote it; the new ones are in spans.jsonl.
            changes[ANNOTATIONS] = "[]"
        parts = [line.mark]
        position = 0
        for name, place in line.places.items():
            if name in changes:
                parts += [line.raw[position : place.start], changes[name]]
                position = place.end
        return "".join([*parts, line.raw[position:]])


def _plain(line: _Line, name: str | None, place: str, *, check: Callable[[str, str], None] = check_text) -> Any:
    """Return an id or a date: a string, an integer, or None where there is none."""
    value = None if name is None else line.values.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if not isinstance(value, str):
        raise CorpusError(f"{place}: '{name}' must be a string or an integer")
    check(value, place)
    return value


def _parse(raw: str, place: str) -> _Line:
    """Return the object of a line, with the place of each of its values. Raises CorpusError, which quotes nothing."""
    mark = "\ufeff" if raw.startswith("\ufeff") else ""
    content = raw.removeprefix(mark)
    return _Line(mark, content, object_of(parse_json(content, place), place), read_places(content, place).members)
