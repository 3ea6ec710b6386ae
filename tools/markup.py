"""Notes with inline marks: a head, a line `---`, and text with PHI as `[[TYPE:surface text]]`.

The format and the annotation guide are in `data/README.md`. Problems are reported as `file:line:column: message`, and
no message quotes the note.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ensemble_deid.corpora.checks import patient_of_name, read_utf8, unknown_label
from ensemble_deid.corpora.xml_parser import UNWRITABLE
from ensemble_deid.errors import CorpusError
from ensemble_deid.note.document import Document
from ensemble_deid.note.labels import CATEGORY_OF_TYPE, I2B2_TYPES
from ensemble_deid.note.span import Span
from tools.reserved_values import unreserved_value
from tools.unmarked import unmarked_forms, unmarked_repeats

_BRACKETS = re.compile(r"\[\[|\]\]")
_MARK_HEAD = re.compile(r"([A-Za-z0-9_-]+):")
_SITE = re.compile(r"[A-Z][0-9]{2,3}")
_MAY_CROSS_LINES = ("NAME", "LOCATION")
_HEAD_KEYS = ("kind", "site", "excuse")
_HEAD_END = "\n---\n"


def read_marked_note(path: Path) -> Document:
    """Read one `XXX-YY.note` file as a document with gold spans and site, and its kind as metadata.

    Raises CorpusError with one line per problem, in text order: a broken head; marks that are nested,
    unclosed, empty, of unknown type, with white space at an edge, or with a line break outside names and addresses;
    numbers and addresses that could belong to somebody; characters that XML cannot represent; and, unless excused,
    marked strings (for people: each word of three letters or more) that also occur unmarked in the note, and unmarked
    telephone numbers, social security numbers, URLs and full dates.
    """
    source = _Source(path, read_utf8(path))
    identity = path.name[: -len(path.suffix)]
    patient = patient_of_name(identity)
    if patient is None:
        source.complain(0, "the file's name is not XXX-YY.note (patient, note)")
    for found in UNWRITABLE.finditer(source.text):
        source.complain(found.start(), f"U+{ord(found.group()):04X} cannot be written in XML")
    head, body_at = _read_head(source)
    body = _read_body(source, body_at)
    excused = frozenset(word.strip() for word in head.get("excuse", "").split(",") if word.strip())
    _complain_of_unmarked(source, body, excused)
    source.refuse()
    metadata = {"kind": head["kind"]}
    return Document(identity, body.text, tuple(body.spans), patient_id=patient, site=head["site"], metadata=metadata)


@dataclass(slots=True)
class _Source:
    """The content of one file, and the problems found in it."""

    path: Path
    text: str = field(repr=False)
    problems: list[tuple[int, str]] = field(default_factory=list)
    line_starts: list[int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.line_starts = [0, *(found.end() for found in re.finditer("\n", self.text))]

    def complain(self, offset: int, message: str) -> None:
        self.problems.append((offset, message))

    def place(self, offset: int) -> str:
        line = bisect_right(self.line_starts, offset)
        return f"{self.path}:{line}:{offset - self.line_starts[line - 1] + 1}"

    def refuse(self) -> None:
        """Raise CorpusError if there are problems."""
        if self.problems:
            ordered = sorted(self.problems, key=lambda problem: problem[0])
            raise CorpusError("\n".join(f"{self.place(offset)}: {message}" for offset, message in ordered))


@dataclass(slots=True)
class _Body:
    """The note's text in pieces as it is read, its spans, and the position of each piece in the source."""

    source_starts: list[int] = field(default_factory=list)
    text_starts: list[int] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list, repr=False)
    spans: list[Span] = field(default_factory=list)
    length: int = 0

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def keep(self, source: _Source, start: int, end: int) -> None:
        self.source_starts.append(start)
        self.text_starts.append(self.length)
        self.pieces.append(source.text[start:end])
        self.length += end - start

    def source_offset(self, offset: int) -> int:
        piece = bisect_right(self.text_starts, offset) - 1
        return self.source_starts[piece] + offset - self.text_starts[piece]


def _read_head(source: _Source) -> tuple[dict[str, str], int]:
    """Return the values in the head, and the offset of the body."""
    carriage = source.text.find("\r")
    if carriage >= 0:
        source.complain(carriage, "a CR; notes are written with LF newlines")
        source.refuse()
    end = source.text.find(_HEAD_END)
    if end < 0:
        source.complain(0, "there is no line '---' after the head")
        source.refuse()
    values: dict[str, str] = {}
    offset = 0
    for line in source.text[:end].split("\n"):
        key, colon, value = line.partition(":")
        if not colon or key not in _HEAD_KEYS or key in values:
            source.complain(offset, "expected 'kind: ...', 'site: ...' or 'excuse: ...', each at most once")
        elif key == "site" and not _SITE.fullmatch(value.strip()):
            source.complain(offset, "a site is a capital letter and two or three digits, as in 'site: S01'")
        values.setdefault(key, value.strip())
        offset += len(line) + 1
    for key in ("kind", "site"):
        if key not in values or (key == "kind" and not values[key]):
            source.complain(0, f"the head has no {key}")
    return values, end + len(_HEAD_END)


def _read_body(source: _Source, begin: int) -> _Body:
    """Return the text without its marks, and the marks as spans; problems are added to the source."""
    body = _Body()
    cursor = begin
    for opening, closing in _bracket_pairs(source, begin):
        body.keep(source, cursor, opening)
        cursor = closing + 2
        head = _MARK_HEAD.match(source.text, opening + 2, closing)
        if head is None:
            source.complain(opening, "expected [[TYPE:text]]")
            continue
        problem = _mark_problem(head.group(1), source.text[head.end() : closing])
        if problem:
            source.complain(opening, problem)
        if head.end() < closing:
            before = body.length
            body.keep(source, head.end(), closing)
            body.spans.append(Span(before, body.length, head.group(1)))
    body.keep(source, cursor, len(source.text))
    if not body.text.strip():
        source.complain(begin, "the note has no text")
    return body


def _bracket_pairs(source: _Source, begin: int) -> Iterator[tuple[int, int]]:
    opening: int | None = None
    for bracket in _BRACKETS.finditer(source.text, begin):
        if bracket.group() == "[[":
            if opening is not None:
                source.complain(bracket.start(), f"a mark inside the mark that opens at {source.place(opening)}")
            opening = bracket.start()
        elif opening is None:
            source.complain(bracket.start(), "]] without [[")
        else:
            yield opening, bracket.start()
            opening = None
    if opening is not None:
        source.complain(opening, "[[ without ]]")


def _complain_of_unmarked(source: _Source, body: _Body, excused: frozenset[str]) -> None:
    advice = "mark them, or list the string under 'excuse:' in the head"
    repeated: set[int] = set()
    for offset, length, span in unmarked_repeats(body.text, body.spans, excused=excused):
        repeated.add(offset)
        marked = source.place(body.source_offset(span.start))
        told = f"{length} characters that are marked {span.label} at {marked} are unmarked here ({advice})"
        source.complain(body.source_offset(offset), told)
    for offset, length, label in unmarked_forms(body.text, body.spans, excused=excused):
        if offset in repeated:
            continue
        told = f"{length} characters that have the form of a {label} are unmarked here ({advice})"
        source.complain(body.source_offset(offset), told)


def _mark_problem(label: str, surface: str) -> str | None:
    if label not in I2B2_TYPES:
        return unknown_label(label, I2B2_TYPES, "i2b2")
    if not surface:
        return "an empty mark"
    if surface != surface.strip():
        return "white space at an edge of the mark"
    if "\n" in surface and CATEGORY_OF_TYPE[label] not in _MAY_CROSS_LINES:
        return f"a line break inside a mark of type {label}"
    return unreserved_value(label, surface)
