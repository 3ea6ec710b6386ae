"""Notes as a person writes them: a head, a line `---`, and text with PHI as `[[TYPE:surface text]]`.

The format and the annotation guide are in `data/README.md`. Every problem is named as file:line:column and does not
quote the note.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ensemble_deid.corpora.checks import patient_of_name, read_utf8, unknown_label
from ensemble_deid.errors import CorpusError
from ensemble_deid.phi.taxonomy import CATEGORY_OF_TYPE, I2B2_TYPES
from ensemble_deid.text.document import Document
from ensemble_deid.text.span import Span

_BRACKETS = re.compile(r"\[\[|\]\]")
_MARK_HEAD = re.compile(r"([A-Za-z0-9_-]+):")
_WORD_OF_NAME = re.compile(r"[^\W\d_]{3,}")
_NAMES = ("PATIENT", "DOCTOR")
_MAY_CROSS_LINES = ("NAME", "LOCATION")
_SHORTEST_REPEAT = 3
_HEAD_KEYS = ("kind", "excuse")


def read_marked_note(path: Path) -> Document:
    """Read one `XXX-YY.note` file as a document with gold spans and its kind as metadata.

    Raises CorpusError, one line for each problem: a broken head; marks that are nested, unclosed, empty, of unknown
    type, with white space at an edge, or broken over lines outside names and addresses; a marked string (for people:
    each word of three letters or more) that also stands unmarked in the note and is not excused.
    """
    source = read_utf8(path)
    place = _Place(path, source)
    problems: list[str] = []
    metadata, excused, body_at = _read_head(source, place)
    pieces, spans, starts = _read_body(source, body_at, place, problems)
    identity = path.name[: -len(path.suffix)]
    patient = patient_of_name(identity)
    if patient is None:
        problems.append(f"{path}: the name is not XXX-YY (patient, note)")
    text = "".join(pieces)
    problems += _unmarked_repeats(text, spans, starts, excused, place)
    if problems:
        raise CorpusError("\n".join(problems))
    return Document(identity, text, tuple(spans), patient_id=patient, metadata=metadata)


@dataclass(frozen=True, slots=True)
class _Place:
    """Says where an offset of the source stands."""

    path: Path
    source: str = field(repr=False)

    def at(self, offset: int) -> str:
        line = self.source.count("\n", 0, offset) + 1
        return f"{self.path}:{line}:{offset - self.source.rfind(chr(10), 0, offset)}"


def _read_head(source: str, place: _Place) -> tuple[dict[str, str], frozenset[str], int]:
    carriage = source.find("\r")
    if carriage >= 0:
        raise CorpusError(f"{place.at(carriage)}: a CR; notes are written with LF newlines")
    end = source.find("\n---\n")
    if end < 0:
        raise CorpusError(f"{place.path}: there is no line '---' after the head")
    values: dict[str, str] = {}
    for number, line in enumerate(source[:end].split("\n"), start=1):
        key, colon, value = line.partition(":")
        if not colon or key not in _HEAD_KEYS or key in values:
            raise CorpusError(f"{place.path}:{number}:1: expected 'kind: ...' or 'excuse: ...', each at most once")
        values[key] = value.strip()
    if not values.get("kind"):
        raise CorpusError(f"{place.path}:1:1: the head has no kind")
    excused = frozenset(word.strip() for word in values.get("excuse", "").split(",") if word.strip())
    return {"kind": values["kind"]}, excused, end + len("\n---\n")


def _read_body(
    source: str, begin: int, place: _Place, problems: list[str]
) -> tuple[list[str], list[Span], dict[int, int]]:
    """Return the text in pieces, its spans, and for each piece's place in the text its place in the source."""
    pieces: list[str] = []
    spans: list[Span] = []
    starts: dict[int, int] = {}
    length, cursor = 0, begin

    def keep(start: int, end: int) -> None:
        nonlocal length
        starts[length] = start
        pieces.append(source[start:end])
        length += end - start

    for opening, closing in _bracket_pairs(source, begin, place, problems):
        keep(cursor, opening)
        cursor = closing + 2
        head = _MARK_HEAD.match(source, opening + 2, closing)
        if head is None:
            problems.append(f"{place.at(opening)}: expected [[TYPE:text]]")
            continue
        label, before = head.group(1), length
        problem = _mark_problem(label, source[head.end() : closing], place.at(opening))
        if problem:
            problems.append(problem)
            continue
        keep(head.end(), closing)
        spans.append(Span(before, length, label))
    keep(cursor, len(source))
    return pieces, spans, starts


def _bracket_pairs(source: str, begin: int, place: _Place, problems: list[str]) -> Iterator[tuple[int, int]]:
    opening: int | None = None
    for bracket in _BRACKETS.finditer(source, begin):
        if bracket.group() == "[[":
            if opening is not None:
                problems.append(
                    f"{place.at(bracket.start())}: a mark inside the mark that opens at {place.at(opening)}"
                )
            opening = bracket.start()
        elif opening is None:
            problems.append(f"{place.at(bracket.start())}: ]] without [[")
        else:
            yield opening, bracket.start()
            opening = None
    if opening is not None:
        problems.append(f"{place.at(opening)}: [[ without ]]")


def _mark_problem(label: str, surface: str, where: str) -> str | None:
    if label not in I2B2_TYPES:
        return str(unknown_label(label, I2B2_TYPES, where, "i2b2"))
    if not surface:
        return f"{where}: an empty mark"
    if surface != surface.strip():
        return f"{where}: white space at an edge of the mark"
    if "\n" in surface and CATEGORY_OF_TYPE[label] not in _MAY_CROSS_LINES:
        return f"{where}: a line break inside a mark of type {label}"
    return None


def _unmarked_repeats(
    text: str, spans: list[Span], starts: dict[int, int], excused: frozenset[str], place: _Place
) -> Iterator[str]:
    wanted: dict[str, Span] = {}
    for span in spans:
        surface = text[span.start : span.end]
        words = _WORD_OF_NAME.findall(surface) if span.label in _NAMES else []
        for string in (surface, *words):
            if len(string) >= _SHORTEST_REPEAT and string not in excused:
                wanted.setdefault(string, span)
    if not wanted:
        return
    # Marked stretches are blanked by a character that no note holds, so that offsets stay.
    characters = list(text)
    for span in spans:
        characters[span.start : span.end] = "\0" * (span.end - span.start)
    unmarked = "".join(characters)
    begins = sorted(starts)
    for string, span in wanted.items():
        found = re.search(rf"(?<!\w){re.escape(string)}(?!\w)", unmarked)
        if found:
            at = place.at(_source_offset(found.start(), begins, starts))
            marked = place.at(_source_offset(span.start, begins, starts))
            yield f"{at}: {len(string)} characters that are marked {span.label} at {marked} stand here unmarked"


def _source_offset(offset: int, begins: list[int], starts: dict[int, int]) -> int:
    piece = max(begin for begin in begins if begin <= offset)
    return starts[piece] + offset - piece
