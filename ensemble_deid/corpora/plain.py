"""A folder of .txt files without annotations. The text is the decoded bytes unchanged, so offsets count every CR."""

from pathlib import Path

from ensemble_deid.corpora.checks import ReadNote, note_with_spans, read_utf8
from ensemble_deid.text.document import Document


def read_plain_note(path: Path) -> ReadNote:
    """Read one note; it has no spans. CorpusError on bytes that are not UTF-8, or NUL."""
    return note_with_spans(Document(path.name[: -len(path.suffix)], read_utf8(path)), ())


def render_plain_note(document: Document) -> str:
    """Return the note's text; spans are not written."""
    return document.text
