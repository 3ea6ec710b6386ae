"""Write notes in any of the formats; each file is written atomically."""

from collections.abc import Iterable
from pathlib import Path

from ensemble_deid.atomic import write_text_atomically
from ensemble_deid.corpora.formats import format_named
from ensemble_deid.errors import CorpusError
from ensemble_deid.text.document import Document

JSONL_NAME = "corpus.jsonl"
_LONGEST_NAME = 240


def write_document(document: Document, directory: Path, format: str) -> tuple[Path, ...]:
    """Write one note as `<id>.<suffix>` (brat: two files; jsonl: a file of one line) and return the paths.

    Raises CorpusError if the id cannot be a file name, or the format cannot represent a label or a character; nothing
    is written then.
    """
    contents = format_named(format).render_note(document)
    name = _file_name(document.id)
    paths = []
    for suffix, content in contents.items():
        path = directory / f"{name}{suffix}"
        _write(path, content, document.id)
        paths.append(path)
    return tuple(paths)


def write_corpus(documents: Iterable[Document], directory: Path, format: str) -> tuple[Path, ...]:
    """Write all notes into `directory` and return the paths: a file per note, or `corpus.jsonl` with a line per note.

    For jsonl, `directory` may also be the file itself (a name that ends in .jsonl). Raises like `write_document`, and
    on repeated ids; all notes are rendered before the first file is written.
    """
    chosen = format_named(format)
    notes = list(documents)
    _refuse_repeated_ids(notes)
    if format == "jsonl":
        content = "".join(chosen.render_note(note)[".jsonl"] for note in notes)
        path = jsonl_file(directory)
        _write(path, content, path.name)
        return (path,)
    rendered = [(_file_name(note.id), note.id, chosen.render_note(note)) for note in notes]
    paths = []
    for name, identity, contents in rendered:
        for suffix, content in contents.items():
            path = directory / f"{name}{suffix}"
            _write(path, content, identity)
            paths.append(path)
    return tuple(paths)


def jsonl_file(place: Path) -> Path:
    """Return the file that JSONL is written to: `corpus.jsonl` in a folder, or `place` itself if it is named so."""
    return place if place.suffix.lower() == ".jsonl" and not place.is_dir() else place / JSONL_NAME


def _refuse_repeated_ids(notes: Iterable[Document]) -> None:
    seen: set[str] = set()
    for note in notes:
        if note.id in seen:
            raise CorpusError(f"the id '{note.id}' occurs twice: one note would overwrite the other")
        seen.add(note.id)


def _file_name(identity: str) -> str:
    # Ids come from the input, so they must not lead out of the folder, make hidden files, or be invalid file names.
    bad = identity.startswith(".") or any(c in "/\\" or ord(c) < 32 or ord(c) == 127 for c in identity)
    if not identity or bad or len(identity.encode("utf-8", "replace")) > _LONGEST_NAME:
        shown = "".join(c if c.isprintable() else "?" for c in identity[:60])
        raise CorpusError(
            f"the id '{shown}' cannot be a file name (empty, too long, hidden, or with / \\ or control characters)"
        )
    return identity


def _write(path: Path, content: str, identity: str) -> None:
    try:
        write_text_atomically(path, content)
    except UnicodeEncodeError as error:
        raise CorpusError(f"note {identity}: character {error.start} is half of a surrogate pair") from None
    except OSError as error:
        raise CorpusError(f"{path}: cannot be written: {error.strerror}") from None
