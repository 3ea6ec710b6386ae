"""Write notes one at a time, without keeping them in memory; one that cannot be written does not end the run."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from ensemble_deid.atomic import open_atomically
from ensemble_deid.corpora.jsonl import render_jsonl_note
from ensemble_deid.corpora.write import jsonl_file, remove_document, write_document
from ensemble_deid.errors import CorpusError
from ensemble_deid.text.document import Document


@dataclass(slots=True)
class NoteWriter:
    """Writes notes into a folder, or as lines of one file, and takes away what an earlier run wrote for the others."""

    directory: Path
    format: str
    lines: BinaryIO | None = None
    written: set[str] = field(default_factory=set)

    def write(self, document: Document) -> None:
        """Write one note; ids must be distinct. Raises CorpusError where it cannot be written: withhold it then."""
        if self.lines is None:
            write_document(document, self.directory, self.format)
        else:
            self.lines.write(_line(document))
        self.written.add(document.id)

    def withhold(self, name: str) -> None:
        """Remove what an earlier run wrote for the note of that name: none of it is to pass for this run's.

        A name that this run has written stays (another note may have the same). Raises CorpusError where a file cannot
        be removed. In a file of lines there is nothing to remove: it is written anew.
        """
        if self.lines is None and name not in self.written:
            remove_document(name, self.directory, self.format)


@contextmanager
def note_writer(directory: Path, format: str) -> Iterator[NoteWriter]:
    """Provide a writer of notes into `directory`.

    For most formats this is `write_document`: the note's files exist when it returns. For jsonl each note becomes a
    line of one `corpus.jsonl` (`directory` may also be the file itself), which is created or replaced when the block
    ends without an error.
    """
    if format != "jsonl":
        directory.mkdir(parents=True, exist_ok=True)
        yield NoteWriter(directory, format)
        return
    with open_atomically(jsonl_file(directory)) as stream:
        yield NoteWriter(directory, format, stream)


def _line(document: Document) -> bytes:
    try:
        return render_jsonl_note(document).encode("utf-8")
    except UnicodeEncodeError:
        raise CorpusError("a note's id, label or metadata holds half of a surrogate pair") from None
