"""The stand-off files in which BERT-deid reads the Dernoncourt-Lee corpus: `txt/NAME.txt`, and `ann/NAME.gs` as CSV.

Source: Johnson et al. 2020 (section 3.3, "Harmonization") and the documentation of their software (TRAINING.md), which
describes one form for its four corpora: a file of annotations begins with the names of its columns, of which `start`,
`stop` (characters of the text, the end not included) and `entity_type` are read, and `document_id` and `entity`, where
they are there, must be the note's name and the text at the place. Each note is of another patient (Dernoncourt et al.
2017, JAMIA 24:596).
"""

import csv
import io
from collections.abc import Mapping
from pathlib import Path

from ensemble_deid.corpora.checks import ReadNote, check_id, check_span, note_with_spans, read_utf8, unknown_label
from ensemble_deid.errors import CorpusError
from ensemble_deid.note.document import Document
from ensemble_deid.note.labels import I2B2_TYPES
from ensemble_deid.note.span import Span

_NEEDED = ("start", "stop", "entity_type")
_MOST_DIGITS = 9


def read_dernoncourt_lee_note(path: Path, *, gold: bool = True) -> ReadNote:
    """Read the note of a file `NAME.gs`, whose text is in the folder `txt` beside its own, or else beside it.

    Raises CorpusError, with file and line, where there is no text and where the file is not as described above.
    """
    name = path.name[: -len(path.suffix)]
    check_id(name, str(path))
    text = read_utf8(_text_file(path, name))
    spans = _read_spans(path, name, text) if gold else []
    return note_with_spans(Document(name, text), spans, place=str(path))


def _text_file(path: Path, name: str) -> Path:
    places = (path.parent.parent / "txt" / f"{name}.txt", path.with_name(f"{name}.txt"))
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise CorpusError(f"{path}: the note's text is neither {places[0]} nor {places[1]}")
    return found


def _read_spans(path: Path, name: str, text: str) -> list[Span]:
    # The quoted text of a place may hold line ends, which the reader of CSV has to see as they are.
    rows = csv.DictReader(io.StringIO(read_utf8(path), newline=""), strict=True)
    spans = []
    try:
        missing = [column for column in _NEEDED if column not in (rows.fieldnames or ())]
        if missing:
            raise CorpusError(f"{path}:1: there is no column {missing[0]}")
        for row in rows:
            spans.append(_read_span(row, f"{path}:{rows.line_num}", name, text))
    except csv.Error:
        raise CorpusError(f"{path}:{rows.line_num}: broken CSV") from None
    return spans


def _read_span(row: Mapping[str | None, str | list[str] | None], place: str, name: str, text: str) -> Span:
    if None in row or None in row.values():
        raise CorpusError(f"{place}: the line has not as many cells as there are columns")
    cells = {str(column): str(cell) for column, cell in row.items()}
    if cells.get("document_id", name) != name:
        raise CorpusError(f"{place}: an annotation of another note than the file's name says")
    start, end = (_offset(cells[column], place) for column in ("start", "stop"))
    # An empty cell is one that nobody filled in.
    check_span(start, end, text, place, surface=cells.get("entity") or None)
    label = cells["entity_type"].upper()
    if label not in I2B2_TYPES:
        raise CorpusError(f"{place}: {unknown_label(label, I2B2_TYPES, 'i2b2')}")
    return Span(start, end, label)


def _offset(cell: str, place: str) -> int:
    if not (cell.isascii() and cell.isdigit() and len(cell) <= _MOST_DIGITS):
        raise CorpusError(f"{place}: start and stop are whole numbers")
    return int(cell)
