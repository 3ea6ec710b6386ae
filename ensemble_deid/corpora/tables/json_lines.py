"""JSON Lines in and out: of each object the text, the ids and the dates are replaced, and every other byte stays."""

import codecs
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from ensemble_deid.corpora.checks import check_id, check_text, decode_utf8
from ensemble_deid.corpora.compressed import reading_plain, writing_compressed
from ensemble_deid.corpora.edits import Edit, edited, spliced
from ensemble_deid.corpora.json_fields import JsonValue, object_of, parse_json, read_places, refuse_unknown_keys
from ensemble_deid.corpora.records import CountedByReading, NewRecord, OnOutput, Record, digest_of
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
class JsonLines(CountedByReading):
    """A JSONL file. A line with a field that nobody names is withheld: it may hold PHI."""

    path: Path
    columns: Columns
    format: str = "jsonl"
    bits: tuple[int, int] = (64, 64)

    def records(self) -> Iterator[Record]:
        with reading_plain(self.path) as stream:
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
        for name in self.columns.texts:
            text = line.values.get(name)
            if not isinstance(text, str) and not (self.columns.drop_rest and text is None):
                raise CorpusError(f"{place}: '{name}' must be a string")
            check_text(text or "", f"{place}: '{name}'")
        if ALL not in self.columns.keep and not self.columns.drop_rest:
            named = (*self.columns.treated, *self.columns.keep, *self.columns.drop, ANNOTATIONS)
            try:
                refuse_unknown_keys(line.values, named, place)
            except CorpusError as error:
                raise CorpusError(f"{error} (--keep-columns NAMES or all hands fields out as they are)") from None
        values = {name: _plain(line, name, place) for name in self.columns.treated if name not in self.columns.texts}
        if self.columns.id is not None and isinstance(values[self.columns.id], str):
            check_id(values[self.columns.id], place)
        texts = {name: line.values.get(name) for name in self.columns.texts}
        return self.columns.record(f"line {number}", values | texts, raw=line, cells=lambda: line.values)

    @contextmanager
    def writer(self, out: Path, on_output: OnOutput) -> Iterator["LineWriter"]:
        with writing_compressed(out) as stream:
            yield LineWriter(stream, self._rendered)
        on_output(out, digest_of(out))

    def _rendered(self, record: Record, new: NewRecord) -> bytes:
        line: _Line = record.raw
        changes: dict[str, str] = {}
        for name, edits in self.columns.edits(line.values, new.edits).items():
            if edits:
                place = line.places[name]
                pieces, ascii_only = place.pieces(line.raw), line.raw[place.start : place.end].isascii()
                made = spliced(pieces, edits, partial(_encoded, ascii_only=ascii_only))
                changes[name] = f'"{made}"'
        for name, (old, now) in self.columns.beside(record, new).items():
            if name in line.places and old != now:
                changes[name] = json.dumps(now, ensure_ascii=False)
        if line.values.get(ANNOTATIONS) is not None:
            # They refer to the old text, and may quote it; the new ones are in spans.jsonl.
            changes[ANNOTATIONS] = "[]"
        if self.columns.drop_rest or self.columns.drop:
            members = (
                f"{json.dumps(name, ensure_ascii=False)}: "
                + changes.get(name, line.raw[line.places[name].start : line.places[name].end])
                for name in self.columns.written(line.places)
            )
            return f"{line.mark}{{{', '.join(members)}}}\n".encode()
        edits = [Edit(at.start, at.end, changes[name]) for name, at in line.places.items() if name in changes]
        return (line.mark + edited(line.raw, edits)).encode()


@dataclass(slots=True)
class LineWriter:
    """Writes each record on a line as `rendered`; a blank line stays, and one of a withheld note is left out."""

    stream: BinaryIO
    rendered: Callable[[Record, NewRecord], bytes]

    def write(self, record: Record, new: NewRecord) -> None:
        if record.blank:
            self.stream.write(record.raw)
        elif record.error is None and new.edits is not None:
            self.stream.write(self.rendered(record, new))


def _plain(line: _Line, name: str, place: str) -> Any:
    """Return the value beside the text: a string, an integer, or None where there is none."""
    value = line.values.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if not isinstance(value, str):
        raise CorpusError(f"{place}: '{name}' must be a string or an integer")
    check_text(value, place)
    return value


def _encoded(value: str, *, ascii_only: bool) -> str:
    return json.dumps(value, ensure_ascii=ascii_only)[1:-1]


def _parse(raw: str, place: str) -> _Line:
    """Return the object of a line, with the place of each of its values. Raises CorpusError, which quotes nothing."""
    mark = "\ufeff" if raw.startswith("\ufeff") else ""
    content = raw.removeprefix(mark)
    return _Line(mark, content, object_of(parse_json(content, place), place), read_places(content, place).members)
