"""The files of PhysioNet's de-identification software: `id.text` with the notes, `id.phi` with the places of PHI.

Source: Neamatullah et al. 2008 (BMC Med Inform Decis Mak 8:32) and the software's documentation. In `id.text` a note
stands between a line `START_OF_RECORD=patient||||note||||` and a line `||||END_OF_RECORD`. In `id.phi` a line
`Patient 1<TAB>Note 1` is followed by a line for each place, `start<TAB>start<TAB>end`: characters from the first one
after the line that opens the record, the end not included. The file has no types, so every place is labelled `PHI`.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from ensemble_deid.corpora.checks import ReadNote, check_span, note_with_spans, read_utf8
from ensemble_deid.errors import CorpusError
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span

LABEL = "PHI"
_OPENING = re.compile(r"START_OF_RECORD=(\d{1,9})\|\|\|\|(\d{1,9})\|\|\|\|\s*")
_CLOSING = "||||END_OF_RECORD"
_HEAD = re.compile(r"Patient\s+(\d{1,9})\s+Note\s+(\d{1,9})")
_PLACE = re.compile(r"(\d{1,9})\s+(\d{1,9})\s+(\d{1,9})")
_Key = tuple[int, int]


def read_physionet_notes(path: Path, *, gold: bool = True) -> Iterator[ReadNote]:
    """Yield every note of a file `NAME.text`, with the annotations in `NAME.phi` beside it.

    The id of a note is patient-note. CorpusError, with file and line, for broken files, for annotations of a note that
    is not there, and where there is no file of annotations.
    """
    places = _read_places(path.with_suffix(".phi")) if gold else {}
    documents = list(_read_records(path))
    lone = sorted(places.keys() - {key for key, _, _ in documents})
    if lone:
        raise CorpusError(f"{path.with_suffix('.phi')}: annotates {_name(lone[0])}, which {path.name} does not have")
    for key, line, text in documents:
        spans = []
        for place, start, end in places.get(key, ()):
            check_span(start, end, text, place)
            spans.append(Span(start, end, LABEL))
        document = Document(f"{key[0]}-{key[1]}", text, patient_id=str(key[0]))
        yield note_with_spans(document, spans, place=f"{path}:{line}")


def _read_records(path: Path) -> Iterator[tuple[_Key, int, str]]:
    """Yield patient and note, the line they begin in, and the text between the lines that open and close a record."""
    key: _Key | None = None
    begin = 0
    lines: list[str] = []
    for number, line in enumerate(read_utf8(path).split("\n"), 1):
        opening = _OPENING.fullmatch(line)
        if key is None and opening:
            key, begin, lines = (int(opening[1]), int(opening[2])), number, []
        elif opening:
            raise CorpusError(f"{path}:{number}: a record begins inside another one")
        elif key is not None and line.rstrip() == _CLOSING:
            yield key, begin, "\n".join(lines)
            key = None
        elif key is not None:
            lines.append(line)
        elif line.strip():
            raise CorpusError(f"{path}:{number}: text outside of a record")
    if key is not None:
        raise CorpusError(f"{path}:{begin}: the record does not end")


def _read_places(path: Path) -> dict[_Key, list[tuple[str, int, int]]]:
    """Return (file and line, start, end) of every annotation, by patient and note."""
    if not path.is_file():
        raise CorpusError(f"{path}: there is no such file with the annotations of the notes")
    places: dict[_Key, list[tuple[str, int, int]]] = {}
    current: list[tuple[str, int, int]] | None = None
    for number, line in enumerate(read_utf8(path).splitlines(), 1):
        bare = line.strip()
        head, place = _HEAD.fullmatch(bare), _PLACE.fullmatch(bare)
        if head:
            current = places.setdefault((int(head[1]), int(head[2])), [])
        elif place and current is not None and place[1] == place[2]:
            current.append((f"{path}:{number}", int(place[1]), int(place[3])))
        elif bare:
            raise CorpusError(f"{path}:{number}: expected 'Patient N Note N', or below that 'start start end'")
    return places


def _name(key: _Key) -> str:
    return f"patient {key[0]}, note {key[1]}"
