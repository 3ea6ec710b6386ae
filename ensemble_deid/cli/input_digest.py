"""What a run has read, as a digest, so that it is not taken for done with other notes."""

import hashlib
from contextlib import suppress
from pathlib import Path

from ensemble_deid.corpora.note_files import NoteFiles
from ensemble_deid.corpora.records import Source, digest_of
from ensemble_deid.corpora.tables.several import SeveralTables
from ensemble_deid.corpora.tables.sql import SqlQuery


def input_digest(source: Source) -> str | None:
    """Return a digest of all files of a folder or all rows of a query; None for one file, whose digest is known."""
    if isinstance(source, SqlQuery):
        return source.input_digest()
    if isinstance(source, NoteFiles):
        files = {file for _, place in source.places for file in place.files}
    elif isinstance(source, SeveralTables):
        files = {file for file, _ in source.tables}
    else:
        return None
    lines = "".join(f"{_digest_or_none(file)}  {file}\n" for file in sorted(files))
    return hashlib.sha256(lines.encode("utf-8", "surrogateescape")).hexdigest()


def _digest_or_none(file: Path) -> str | None:
    # Twice: where only the first try fails, its note is read all the same, and the run is to be known again.
    for _ in range(2):
        with suppress(OSError):
            return digest_of(file)
    # Its note is withheld, with the reason, when it is read.
    return None
