"""A file for each note: read in any format of corpora, written as plain text under the same names."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from ensemble_deid.atomic import open_atomically, write_bytes_atomically
from ensemble_deid.corpora.edits import edited
from ensemble_deid.corpora.formats import format_named
from ensemble_deid.corpora.input_options import folders_read
from ensemble_deid.corpora.read import Location, iterate_notes, locate_corpus
from ensemble_deid.corpora.records import NewRecord, OnOutput, Record
from ensemble_deid.corpora.write import corpus_file, remove_document, remove_written, write_document
from ensemble_deid.errors import CorpusError
from ensemble_deid.note.document import Document

_SUFFIX = ".txt"


@dataclass(slots=True)
class NoteFiles:
    """The note files of one folder, or of several below it: `places` are relative to it. Ids are the files' names."""

    places: Sequence[tuple[Path, Location]]
    format: str = "files"
    bits: tuple[int, int] = (64, 64)

    def count(self) -> int:
        return sum(len(location.files) for _, location in self.places)

    def warnings(self) -> Sequence[str]:
        return [remark for _, location in self.places for remark in location.remarks]

    def records(self) -> Iterator[Record]:
        """Yield every note; one that cannot be read has its error."""
        for folder, note in self.notes():
            if isinstance(note, CorpusError):
                yield Record(str(folder / (note.note or "")), error=note, raw=(folder, note.note))
            else:
                yield Record(str(folder / note.id), note.text, patient=note.patient_id, raw=(folder, note.id))

    def notes(self) -> Iterator[tuple[Path, Document | CorpusError]]:
        """Yield every note, or why it cannot be read, with its folder."""
        for folder, location in self.places:
            for note in iterate_notes(location, file_names=True):
                yield folder, note

    @contextmanager
    def writer(self, out: Path, on_output: OnOutput) -> Iterator["_FileWriter"]:
        """Provide a writer into the folder `out`, or of the one file `out` where its name is that of a text."""
        single = out if is_single(out, self) else None
        if single is None:
            out.mkdir(parents=True, exist_ok=True)
        yield _FileWriter(out, single, on_output)


@dataclass(slots=True)
class _FileWriter:
    out: Path
    single: Path | None
    on_output: OnOutput
    written: set[Path] = field(default_factory=set)

    def write(self, record: Record, new: NewRecord) -> None:
        """Write the note's file; of a note that is withheld, remove what an earlier run wrote."""
        folder, name = record.raw
        path = self.single or self.out / folder / f"{name or ''}{_SUFFIX}"
        if new.edits is None or record.text is None:
            # Another note may have the same name.
            if path not in self.written:
                remove_written(name or "", [path])
            return
        data = edited(record.text, new.edits).encode("utf-8")
        if not _holds(path, data):
            try:
                write_bytes_atomically(path, data)
            except OSError as error:
                raise CorpusError(f"{error.filename}: cannot be written: {error.strerror}") from None
        # In this order: a file that cannot be recorded is withheld, and so removed.
        self.on_output(path, hashlib.sha256(data).hexdigest())
        self.written.add(path)


def is_single(out: Path, source: NoteFiles) -> bool:
    """Whether `out` names the one file that the source's one file becomes."""
    one_file = len(source.places) == 1 and source.places[0][1].source.is_file()
    return one_file and out.suffix.lower() == _SUFFIX and not out.is_dir()


def nested_locations(root: Path, *, format: str | None, leave_out: Sequence[Path]) -> list[tuple[Path, Location]]:
    """Return each folder in or below `root`, relative to it, that has notes or anything else to tell of.

    Linked folders are not read, but known. Raises CorpusError where no folder may hold a note, or one cannot be read.
    """
    found: list[tuple[Path, Location]] = []
    for here, entries in folders_read(root, leave_out=leave_out):
        location = locate_corpus(here, format=format, may_be_empty=True)
        # The folders that are read themselves are no entries.
        unreadable = {entry: what for entry, what in location.unreadable.items() if entry in entries}
        linked = tuple(folder for folder in location.folders if folder in entries)
        location = replace(location, folders=linked, unreadable=unreadable)
        if location.files or location.folders or location.unreadable or location.remarks:
            found.append((here.relative_to(root), location))
    if not any(location.files or location.folders or location.unreadable for _, location in found):
        raise CorpusError(f"{root}: the corpus is empty: no folder in it has notes")
    return found


def _holds(path: Path, data: bytes) -> bool:
    """Whether an earlier run has written just this: it need not be written again."""
    try:
        return path.stat().st_size == len(data) and path.read_bytes() == data
    except OSError:
        return False


# Write notes one at a time, without keeping them in memory; one that cannot be written does not end the run.


@dataclass(slots=True)
class NoteWriter:
    """Writes notes into a folder, or into one file, and takes away what an earlier run wrote for the others."""

    directory: Path
    format: str
    stream: BinaryIO | None = None
    written: set[str] = field(default_factory=set)

    def write(self, document: Document) -> None:
        """Write one note; ids must be distinct. Raises CorpusError where it cannot be written: withhold it then."""
        if self.stream is None:
            write_document(document, self.directory, self.format)
        else:
            found = format_named(self.format)
            between = found.frame.between if found.frame is not None and self.written else ""
            try:
                self.stream.write((between + found.render_note(document)[found.suffix]).encode("utf-8"))
            except UnicodeEncodeError:
                raise CorpusError("a note's id, label or metadata holds half of a surrogate pair") from None
        self.written.add(document.id)

    def withhold(self, name: str) -> None:
        """Remove what an earlier run wrote for a note that this run withholds. Raises CorpusError where it cannot."""
        if self.stream is None and name not in self.written:
            remove_document(name, self.directory, self.format)


@contextmanager
def note_writer(directory: Path, format: str) -> Iterator[NoteWriter]:
    """Provide a writer into `directory`; a format's one file for all notes is in place when the block ends."""
    frame = format_named(format).frame
    if frame is None:
        directory.mkdir(parents=True, exist_ok=True)
        yield NoteWriter(directory, format)
        return
    with open_atomically(corpus_file(directory, format)) as stream:
        stream.write(frame.start.encode())
        yield NoteWriter(directory, format, stream)
        stream.write(frame.end.encode())
