"""Write notes in any of the formats; each file is written atomically."""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from ensemble_deid.atomic import write_files_atomically
from ensemble_deid.corpora.checks import check_file_name, printable
from ensemble_deid.corpora.formats import Frame, format_named
from ensemble_deid.errors import CorpusError
from ensemble_deid.note.document import Document

_STEM = "corpus"
_SHOWN = 60


def write_document(document: Document, directory: Path, format: str) -> tuple[Path, ...]:
    """Write one note as `<id>.<suffix>` (brat: two files) and return the paths.

    Raises CorpusError if the id cannot be a file name, or the format cannot represent a label or a character; nothing
    is written then.
    """
    return _write(_note_files(document, directory, format), document.id)


def remove_document(identity: str, directory: Path, format: str) -> None:
    """Remove the files that `write_document` would have written for that id. Raises CorpusError where that fails."""
    remove_written(identity, [directory / f"{identity}{suffix}" for suffix in format_named(format).suffixes])


def remove_written(identity: str, paths: Iterable[Path]) -> None:
    """Remove the files of an earlier run for that id. Raises CorpusError where that fails."""
    try:
        check_file_name(identity, "")
    except CorpusError:
        # Then nothing can have been written for it.
        return
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise CorpusError(f"{path}: of an earlier run, cannot be removed: {error.strerror}") from None


def write_corpus(documents: Iterable[Document], directory: Path | str, format: str) -> tuple[Path, ...]:
    """Write all notes into `directory` and return the paths: a file per note, or one file, such as `corpus.jsonl`.

    Where it is one file, `directory` may also be that file itself (a name with the suffix of the format). Raises like
    `write_document`, and on repeated ids; all notes are rendered before the first file is written.

    >>> from ensemble_deid import Document, Span, write_corpus
    >>> notes = [Document("note-1", "Date: 03/04/2019", (Span(6, 16, "DATE"),))]
    >>> [path.name for path in write_corpus(notes, "as_brat", "brat")]
    ['note-1.txt', 'note-1.ann']
    """
    directory = Path(directory)
    notes = list(documents)
    repeated = next((identity for identity, n in Counter(note.id for note in notes).items() if n > 1), None)
    if repeated is not None:
        raise CorpusError(f"the id '{repeated}' occurs twice: one note would overwrite the other")
    found = format_named(format)
    if found.frame is not None:
        path = corpus_file(directory, format)
        return _write(
            {path: _framed(found.frame, (found.render_note(note)[found.suffix] for note in notes))}, path.name
        )
    rendered = [(_note_files(note, directory, format), note.id) for note in notes]
    return tuple(path for files, identity in rendered for path in _write(files, identity))


def _note_files(document: Document, directory: Path, format: str) -> dict[Path, str]:
    found = format_named(format)
    contents = found.render_note(document)
    if found.frame is not None:
        contents = {suffix: _framed(found.frame, [content]) for suffix, content in contents.items()}
    check_file_name(document.id, f"note {printable(document.id[:_SHOWN])}")
    return {directory / f"{document.id}{suffix}": content for suffix, content in contents.items()}


def _framed(frame: Frame, notes: Iterable[str]) -> str:
    return frame.start + frame.between.join(notes) + frame.end


def corpus_file(place: Path, format: str) -> Path:
    """Return the one file that notes are written to: `corpus.<suffix>` in a folder, or `place` if it is named so."""
    suffix = format_named(format).suffix
    return place if place.suffix.lower() == suffix and not place.is_dir() else place / f"{_STEM}{suffix}"


def _write(contents: Mapping[Path, str], identity: str) -> tuple[Path, ...]:
    try:
        write_files_atomically({path: content.encode("utf-8") for path, content in contents.items()})
    except UnicodeEncodeError as error:
        raise CorpusError(f"note {identity}: character {error.start} is half of a surrogate pair") from None
    except OSError as error:
        raise CorpusError(f"{error.filename}: cannot be written: {error.strerror}") from None
    # The text was written last, so that it never stands without its annotations; it is named first.
    return tuple(contents)[::-1]
