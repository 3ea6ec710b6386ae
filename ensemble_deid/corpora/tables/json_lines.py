"""JSON Lines in and out: of each object the text, the ids and the dates are replaced, and every other byte stays.

The json module reads values and forgets how they were written, so each top-level value is located in its line.
"""

import codecs
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from ensemble_deid.atomic import open_atomically
from ensemble_deid.corpora.checks import check_id, check_text, decode_utf8, reading
from ensemble_deid.corpora.edits import spliced
from ensemble_deid.corpora.records import NewRecord, OnOutput, Record, digest_of
from ensemble_deid.corpora.tables.columns import ALL, Columns
from ensemble_deid.errors import CorpusError

DEFAULTS = {"text": "text", "id": "id", "patient": "patient_id"}
"""The fields that a line of this project's own JSONL has."""
ANNOTATIONS = "spans"
_DECODER = json.JSONDecoder()
_BLANK = re.compile(r"[ \t\r\n]*")
_SURROGATE_PAIR = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_PIECE = re.compile(rf"{_SURROGATE_PAIR.pattern}|\\u[0-9a-fA-F]{{4}}|\\.|[^\\]", re.DOTALL)
_SHOWN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,40}")
_Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Line:
    raw: str
    values: dict[str, Any]
    places: dict[str, _Place]


@dataclass(slots=True)
class JsonLines:
    """A JSONL file. Fields that nobody names are kept, with a warning, unless `columns.keep` lists those to keep."""

    path: Path
    columns: Columns
    format: str = "jsonl"
    bits: tuple[int, int] = (64, 64)
    kept: set[str] = field(default_factory=set)

    def count(self) -> int:
        """Return the number of lines that are not blank."""
        return sum(record.is_note for record in self.records())

    def warnings(self) -> Sequence[str]:
        """Return which fields are handed out as they are."""
        shown = sorted(name for name in self.kept if _SHOWN.fullmatch(name))
        hidden = len(self.kept) - len(shown)
        names = ", ".join([*shown, *([f"{hidden} with names that are not shown"] if hidden else [])])
        return [f"{self.path}: handed out as they are, whatever they hold, are the fields {names}"] if names else []

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
        self._look_at_others(line, place)
        return Record(
            f"line {number}",
            text,
            id=_plain(line, self.columns.id, place, check=check_id),
            patient=_plain(line, self.columns.patient, place),
            dates=tuple(_plain(line, name, place) for name in self.columns.dates),
            raw=line,
        )

    def _look_at_others(self, line: _Line, place: str) -> None:
        others = set(line.values) - {*self.columns.treated, ANNOTATIONS}
        if self.columns.keep and ALL not in self.columns.keep:
            unnamed = others - set(self.columns.keep)
            if unnamed:
                raise CorpusError(f"{place}: {len(unnamed)} fields are neither treated nor named by --keep-columns")
        elif not self.columns.keep:
            self.kept |= others

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
            start, end = line.places[self.columns.text]
            inner = line.raw[start + 1 : end - 1]
            pieces: Sequence[str] = _PIECE.findall(inner) if "\\" in inner else inner
            ascii_only = inner.isascii()
            spliced_text = spliced(pieces, new.edits, lambda value: json.dumps(value, ensure_ascii=ascii_only)[1:-1])
            changes[self.columns.text] = f'"{spliced_text}"'
        names = (self.columns.id, self.columns.patient, *self.columns.dates)
        before = (record.id, record.patient, *record.dates)
        for name, old, now in zip(names, before, (new.id, new.patient, *new.dates), strict=True):
            if name is not None and name in line.places and old != now:
                changes[name] = json.dumps(now, ensure_ascii=False)
        if line.values.get(ANNOTATIONS):
            # They refer to the old text, and may quote it; the new ones are in spans.jsonl.
            changes[ANNOTATIONS] = "[]"
        parts: list[str] = []
        position = 0
        for name, (start, end) in line.places.items():
            if name in changes:
                parts += [line.raw[position:start], changes[name]]
                position = end
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
    start = 1 if raw.startswith("\ufeff") else 0
    values: dict[str, Any] = {}
    places: dict[str, _Place] = {}
    try:
        whole = json.loads(raw[start:])
        if not isinstance(whole, dict):
            raise CorpusError(f"{place}: expected an object")
        # What is valid as a whole is walked through once more, without looking for errors.
        at = _skip(raw, raw.index("{", start) + 1)
        while raw[at] != "}":
            name, at = _scanned(raw, at)
            at = _skip(raw, _skip(raw, at) + 1)
            value, end = _DECODER.raw_decode(raw, at)
            if name in values:
                raise CorpusError(f"{place}: a field occurs twice")
            values[name], places[name] = value, (at, end)
            at = _skip(raw, end)
            at = _skip(raw, at + 1) if raw[at] == "," else at
    except json.JSONDecodeError as error:
        raise CorpusError(f"{place}: broken JSON at column {error.colno}: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise CorpusError(f"{place}: broken JSON ({type(error).__name__})") from None
    return _Line(raw, values, places)


def _scanned(raw: str, at: int) -> tuple[str, int]:
    """Return a name, and where its string ends."""
    name, end = _DECODER.raw_decode(raw, at)
    return str(name), end


def _skip(raw: str, at: int) -> int:
    found = _BLANK.match(raw, at)
    return found.end() if found else at
