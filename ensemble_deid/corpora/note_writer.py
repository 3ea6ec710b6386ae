"""Write notes one at a time, without keeping them in memory; one that cannot be written does not end the run."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from ensemble_deid.atomic import open_atomically
from ensemble_deid.corpora.formats import Format, format_named
from ensemble_deid.corpora.write import corpus_file, remove_document, write_document
from ensemble_deid.errors import CorpusError
from ensemble_deid.text.document import Document


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
            self.stream.write(between.encode() + _rendered(document, found))
        self.written.add(document.id)

    def withhold(self, name: str) -> None:
        """Remove what an earlier run wrote for the note of that name: none of it is to pass for this run's.

        A name that this run has written stays (another note may have the same). Raises CorpusError where a file cannot
        be removed. In one file for all there is nothing to remove: it is written anew.
        """
        if self.stream is None and name not in self.written:
            remove_document(name, self.directory, self.format)


@contextmanager
def note_writer(directory: Path, format: str) -> Iterator[NoteWriter]:
    """Provide a writer of notes into `directory`.

    For some formats this is `write_document`: the note's files exist when it returns. For the others all notes go to
    one file such as `corpus.jsonl` (`directory` may also be the file itself), which is created or replaced when the
    block ends without an error.
    """
    frame = format_named(format).frame
    if frame is None:
        directory.mkdir(parents=True, exist_ok=True)
        yield NoteWriter(directory, format)
        return
    with open_atomically(corpus_file(directory, format)) as stream:
        stream.write(frame.start.encode())
        yield NoteWriter(directory, format, stream)
        stream.write(frame.end.encode())


def _rendered(document: Document, format: Format) -> bytes:
    try:
        return format.render_note(document)[format.suffix].encode("utf-8")
    except UnicodeEncodeError:
        raise CorpusError("a note's id, label or metadata holds half of a surrogate pair") from None
