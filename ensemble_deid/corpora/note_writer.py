"""Write notes one at a time, without keeping them in memory; one that cannot be written does not end the run."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ensemble_deid.atomic import open_atomically
from ensemble_deid.corpora.jsonl import render_jsonl_note
from ensemble_deid.corpora.write import jsonl_file, write_document
from ensemble_deid.errors import CorpusError
from ensemble_deid.text.document import Document


@contextmanager
def note_writer(directory: Path, format: str) -> Iterator[Callable[[Document], None]]:
    """Provide a function that writes one note into `directory`; ids must be distinct.

    For most formats this is `write_document`: the note's files exist when it returns. For jsonl each note becomes a
    line of one `corpus.jsonl` (`directory` may also be the file itself), which is created or replaced when the block
    ends without an error. The function raises CorpusError if a note cannot be written, and can then be called with the
    next note.
    """
    if format != "jsonl":
        yield lambda document: _write_one(document, directory, format)
        return
    with open_atomically(jsonl_file(directory)) as stream:
        yield lambda document: _write_line(document, stream.write)


def _write_one(document: Document, directory: Path, format: str) -> None:
    write_document(document, directory, format)


def _write_line(document: Document, write: Callable[[bytes], int]) -> None:
    try:
        line = render_jsonl_note(document).encode("utf-8")
    except UnicodeEncodeError:
        raise CorpusError("a note's id, label or metadata holds half of a surrogate pair") from None
    write(line)
