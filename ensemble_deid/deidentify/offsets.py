"""What a run has found so far, on disk: offsets and labels without text, so that a broken run can go on.

Each line holds notes that were processed together; a line cut short by a crash does not count. Texts are recognised by
HMACs under the run's key; a temporary key is in a private file beside the offsets until the run ends.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

from ensemble_deid.atomic import naming, write_new_private_file
from ensemble_deid.corpora.records import Record
from ensemble_deid.deidentify.prediction import Note
from ensemble_deid.errors import CorpusError, DeidError
from ensemble_deid.keys import Key
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.parsing import strict_json

FILE = "offsets.jsonl"
KEY_FILE = "offsets.key"


@dataclass(frozen=True, slots=True)
class Found:
    """The spans of a note whose text and patient have this hash, or why it is withheld."""

    text_hash: str | None
    spans: tuple[Span, ...] = ()
    error: str | None = None

    @classmethod
    def of(cls, note: Note, record: Record, key: Key) -> "Found":
        """Return the spans found in a record's note, or why it is withheld."""
        if isinstance(note, DeidError):
            return cls(_hash(record, key), error=str(note))
        return cls(_hash(record, key), note.spans)

    def check(self, record: Record, key: Key) -> None:
        """Raise CorpusError where the record's text or patient has changed since the spans were found."""
        if _hash(record, key) != self.text_hash:
            raise CorpusError(f"{record.name}: the input has changed since the run began: run without --resume")

    def apply(self, document: Document) -> Note:
        return CorpusError(self.error) if self.error is not None else document.with_spans(self.spans)

    def to_json(self) -> list[Any]:
        spans = [[span.start, span.end, span.label, span.score, span.source] for span in self.spans]
        return [self.text_hash, spans, self.error]


@dataclass(slots=True)
class OffsetFile:
    """The file of a run's offsets, whose first line has the settings."""

    path: Path
    settings: Mapping[str, Any]
    notes: int = 0
    _length: int = field(default=0, init=False)

    def begin(self, *, resume: bool) -> None:
        """Count the notes that an earlier run has found; without `resume`, drop them.

        Raises CorpusError when there is nothing to resume, or the settings differ.
        """
        if not resume:
            self.path.unlink(missing_ok=True)
            return
        for number, (line, end) in enumerate(self._whole_lines()):
            if number == 0:
                self._refuse_others(line)
            else:
                self.notes += len(line["notes"])
            self._length = end
        if not self._length:
            raise CorpusError(f"{self.path.parent}: has no run to resume")

    def _refuse_others(self, begun: Mapping[str, Any]) -> None:
        differing = [name for name, value in self.settings.items() if begun.get(name) != value]
        if differing:
            raise CorpusError(f"{self.path.parent}: the run was begun with other settings: {', '.join(differing)}")

    @contextmanager
    def appending(self) -> Iterator["OffsetWriter"]:
        """Provide a writer that goes on after the last whole line."""
        # Around the opening: what could not be written is tried once more when the file is closed.
        with naming(self.path), self.path.open("r+b" if self._length else "wb") as stream:
            stream.truncate(self._length)
            stream.seek(self._length)
            if not self._length:
                _write(stream, dict(self.settings))
            yield OffsetWriter(stream)

    def read(self) -> Iterator[Found]:
        """Yield what was found in each note, in order. Raises CorpusError where that was another run."""
        for number, (line, _) in enumerate(self._whole_lines()):
            if number == 0:
                self._refuse_others(line)
                continue
            for text_hash, spans, error in line["notes"]:
                yield Found(text_hash, tuple(Span(*span) for span in spans), error)

    def _whole_lines(self) -> Iterator[tuple[dict[str, Any], int]]:
        """Yield each line, and where in the file it ends."""
        if not self.path.is_file():
            return
        end = 0
        with self.path.open("rb") as stream:
            for line in stream:
                try:
                    entry = strict_json(line)
                except ValueError:
                    return
                if not line.endswith(b"\n"):
                    return
                end += len(line)
                yield entry, end


@dataclass(frozen=True, slots=True)
class OffsetWriter:
    """Writes what was found, at once."""

    stream: BinaryIO

    def add(self, found: Sequence[Found]) -> None:
        _write(self.stream, {"notes": [note.to_json() for note in found]})


def _write(stream: BinaryIO, entry: Mapping[str, Any]) -> None:
    stream.write(json.dumps(entry, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n")
    stream.flush()


def key_of_run(folder: Path, key: Key, *, resume: bool) -> Key:
    """Return the key of a run: the one given or, in the place of a throwaway one, that which an unfinished run kept."""
    if key.throwaway and resume and (folder / KEY_FILE).is_file():
        return replace(Key.from_file(folder / KEY_FILE), throwaway=True)
    return key


def keep_key(folder: Path, key: Key, *, resume: bool) -> None:
    """Keep a throwaway key, under which texts are known again, for as long as a run can be resumed."""
    path = folder / KEY_FILE
    if not (key.throwaway and resume):
        path.unlink(missing_ok=True)
    if key.throwaway and not path.exists():
        write_new_private_file(path, f"{key.text}\n".encode("ascii"))


def _hash(record: Record, key: Key) -> str | None:
    if record.text is None:
        return None
    return key.fingerprint("note", f"{record.patient!r}\n{record.text}".encode("utf-8", "surrogatepass"))[:16]
