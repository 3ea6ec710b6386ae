"""Stand-off annotations: files of places in the characters of a text file, by brat, BERT-deid and PhysioNet."""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from ensemble_deid.corpora.checks import (
    Notice,
    ReadNote,
    ReadOutcome,
    check_id,
    checked_span,
    note_with_spans,
    read_utf8,
    shown_tag,
    unknown_label,
)
from ensemble_deid.errors import CorpusError
from ensemble_deid.note.document import Document
from ensemble_deid.note.labels import I2B2_TYPES
from ensemble_deid.note.span import Span

# brat: `name.txt` with the text, `name.ann` with lines `T1<tab>LABEL start end<tab>text`.
#
# Offsets count characters of the decoded .txt file, including CRs and a byte order mark. Relations, attributes, events
# and notes in the .ann file are ignored. A discontinuous span (`0 5;8 12`) becomes one span per fragment.

_PLACE = re.compile(r"(\S+) (-?[0-9]{1,12} -?[0-9]{1,12}(?:;-?[0-9]{1,12} -?[0-9]{1,12})*)")
_LABEL = re.compile(r"[^\s;]+")
_BLANKS = str.maketrans("\t\n\r", "   ")


def read_brat_note(path: Path, *, gold: bool = True) -> ReadNote:
    """Read a .txt file and, for gold, its .ann, which may be empty, not missing. CorpusError names file and line."""
    document = Document(path.stem, read_utf8(path))
    if not gold:
        return note_with_spans(document, ())
    annotations = path.with_suffix(".ann")
    if not annotations.exists() and not annotations.is_symlink():
        raise CorpusError(f"{path}: there is no {annotations.name} beside it (an empty one says that it has no PHI)")
    spans: list[Span] = []
    notices: Counter[Notice] = Counter()
    for number, line in enumerate(read_utf8(annotations).removeprefix("\ufeff").split("\n"), start=1):
        if line.startswith("T"):
            found = _read_line(line.removesuffix("\r"), document.text, f"{annotations}:{number}")
            notices[Notice.FRAGMENTS] += len(found) > 1
            spans.extend(found)
    return note_with_spans(document, spans, notices=notices)


def _read_line(line: str, text: str, place: str) -> list[Span]:
    identity, _, rest = line.partition("\t")
    described, tab, surface = rest.partition("\t")
    match = _PLACE.fullmatch(described)
    if match is None:
        raise CorpusError(f"{place}: expected 'T<number><tab>LABEL start end<tab>text'")
    fragments = [tuple(map(int, pair.split())) for pair in match.group(2).split(";")]
    own = surface if tab and len(fragments) == 1 else None
    place = f"{place}: {shown_tag(identity)}"
    return [checked_span(start, end, match.group(1), text, place, surface=own) for start, end in fragments]


def render_brat_note(document: Document) -> dict[str, str]:
    """Return the contents of the .ann and the .txt file by suffix; CorpusError on a label that brat cannot hold."""
    lines: list[str] = []
    for number, span in enumerate(sorted(document.spans), start=1):
        if not _LABEL.fullmatch(span.label):
            raise CorpusError(
                f"note {document.id}: the label '{span.label}' cannot be written in brat (white space or ;)"
            )
        surface = document.text[span.start : span.end].translate(_BLANKS)
        lines.append(f"T{number}\t{span.label} {span.start} {span.end}\t{surface}\n")
    return {".ann": "".join(lines), ".txt": document.text}


# The files in which BERT-deid reads the Dernoncourt-Lee corpus: `txt/NAME.txt`, and `ann/NAME.gs` as CSV.
#
# Source: Johnson et al. 2020 (section 3.3, "Harmonization") and the documentation of their software (TRAINING.md). The
# columns `start`, `stop` (characters of the text, the end not included) and `entity_type` are needed, `document_id` and
# `entity` checked. Each note is of another patient (Dernoncourt et al. 2017, JAMIA 24:596).

_NEEDED = ("start", "stop", "entity_type")
_OFFSET = re.compile(r"[0-9]{1,9}")


def read_dernoncourt_lee_note(path: Path, *, gold: bool = True) -> ReadNote:
    """Read the note of `NAME.gs`, whose text is in `../txt`, or else beside it. CorpusError names file and line."""
    name = path.stem
    check_id(name, str(path))
    places = (path.parent.parent / "txt" / f"{name}.txt", path.with_name(f"{name}.txt"))
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise CorpusError(f"{path}: the note's text is neither {places[0]} nor {places[1]}")
    text = read_utf8(found)
    spans = _read_spans(path, name, text) if gold else []
    return note_with_spans(Document(name, text), spans, place=str(path))


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
        raise CorpusError(f"{place}: the line and the header have different numbers of cells")
    cells = {str(column): str(cell) for column, cell in row.items()}
    if cells.get("document_id", name) != name:
        raise CorpusError(f"{place}: an annotation of another note than the file's name says")
    if not all(_OFFSET.fullmatch(cells[column]) for column in ("start", "stop")):
        raise CorpusError(f"{place}: start and stop are whole numbers")
    label = cells["entity_type"].upper()
    # An empty cell counts as missing.
    surface = cells.get("entity") or None
    span = checked_span(int(cells["start"]), int(cells["stop"]), label, text, place, surface=surface, tag="the span")
    if label not in I2B2_TYPES:
        raise CorpusError(f"{place}: {unknown_label(label, I2B2_TYPES, 'i2b2')}")
    return span


# The files of PhysioNet's de-identification software: `id.text` with the notes, `id.phi` with the places of PHI.
#
# Source: Neamatullah et al. 2008 (BMC Med Inform Decis Mak 8:32) and the software's documentation. In `id.text` a note
# stands between a line `START_OF_RECORD=patient||||note||||` and a line `||||END_OF_RECORD`. In `id.phi` a line
# `Patient 1<TAB>Note 1` is followed by a line for each place, `start<TAB>start<TAB>end`: characters from the first one
# after the line that opens the record, the end not included. The file has no types, so every place is labelled `PHI`.

_OPENING = re.compile(r"START_OF_RECORD=(\d{1,9})\|\|\|\|(\d{1,9})\|\|\|\|\s*")
_CLOSING = "||||END_OF_RECORD"
_HEAD = re.compile(r"Patient\s+(\d{1,9})\s+Note\s+(\d{1,9})")
_PHI_PLACE = re.compile(r"(\d{1,9})\s+(\d{1,9})\s+(\d{1,9})")
_Key = tuple[int, int]


def read_physionet_notes(path: Path, *, gold: bool = True) -> Iterator[ReadOutcome]:
    """Yield (id, note) for the notes of `NAME.text`, annotated in `NAME.phi`; the id is patient-note.

    Raises CorpusError, with file and line, for broken files, a missing one, and annotations of a note that is not
    there.
    """
    places = _read_places(path.with_suffix(".phi")) if gold else {}
    documents = list(_read_records(path))
    lone = sorted(places.keys() - {key for key, _, _ in documents})
    if lone:
        patient, note = lone[0]
        raise CorpusError(
            f"{path.with_suffix('.phi')}: annotates patient {patient}, note {note}, which {path.name} does not have"
        )
    for key, line, text in documents:
        spans = [
            checked_span(start, end, "PHI", text, place, tag="the span") for place, start, end in places.get(key, ())
        ]
        document = Document(f"{key[0]}-{key[1]}", text, patient_id=str(key[0]))
        yield document.id, note_with_spans(document, spans, place=f"{path}:{line}")


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
        head, place = _HEAD.fullmatch(bare), _PHI_PLACE.fullmatch(bare)
        if head:
            current = places.setdefault((int(head[1]), int(head[2])), [])
        elif place and current is not None and place[1] == place[2]:
            current.append((f"{path}:{number}", int(place[1]), int(place[3])))
        elif bare:
            raise CorpusError(f"{path}:{number}: expected 'Patient N Note N', or below that 'start start end'")
    return places
