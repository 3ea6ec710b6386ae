"""Checks that every reader makes: bytes, characters, ids, spans. No message quotes the note."""

import difflib
import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import BinaryIO

from ensemble_deid.errors import CorpusError
from ensemble_deid.note.document import Document
from ensemble_deid.note.overlaps import distinct_spans, overlapping_pairs
from ensemble_deid.note.span import Span

_WHITE = str.maketrans("\t\n\r", "   ")
_PATIENT_AND_NOTE = re.compile(r"([A-Za-z0-9]+)-(\d{2,3})")
_TAG_ID = re.compile(r"[A-Za-z]{0,3}[0-9]{1,5}")
# Control characters, line ends, halves of surrogate pairs, and what turns the direction of writing.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_FLAGS = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_LONGEST_ID = 200
_LONGEST_NAME = 240
_LONGEST_LABEL = 60


class Notice(Enum):
    """Something unusual but acceptable that a reader found, and how it was handled."""

    OVERLAP = "overlapping pairs of gold spans were kept as they are"
    REPEATED = "repeated gold spans (same place, same label) were dropped"
    FRAGMENTS = "discontinuous spans were read as one span for each fragment"
    CATEGORY = "tags are in an element of another category than their TYPE; the TYPE was taken"


@dataclass(frozen=True, slots=True)
class ReadNote:
    """One note as it was read, with how often each notice applies to it."""

    document: Document
    notices: Mapping[Notice, int]
    place: str = ""
    """The file, or its line, for messages."""


ReadOutcome = tuple[str, ReadNote | CorpusError]
"""The id of a note that was read, or the name of an entry that could not be, and why."""


def outcomes(entries: Iterable[tuple[str, Callable[[], ReadNote]]]) -> Iterator[ReadOutcome]:
    """Read each entry of a file, going on after a bad one; `entries` are names with what reads the entry."""
    for name, read in entries:
        try:
            note = read()
        except CorpusError as error:
            yield name, error
        else:
            yield note.document.id, note


def read_utf8(path: Path) -> str:
    """Return the file's text with its newlines unchanged; CorpusError on unreadable, non-UTF-8 or NUL bytes."""
    with reading(path) as stream:
        return decode_utf8(stream.read(), str(path))


@contextmanager
def reading(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file. Raises CorpusError if it is not one or cannot be read; never waits for a pipe."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | _FLAGS), "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise CorpusError(f"{path}: cannot be read: not a regular file")
            yield stream
    except OSError as error:
        raise CorpusError(f"{path}: cannot be read: {error.strerror}") from None
    except MemoryError:
        raise CorpusError(f"{path}: cannot be read: it does not fit into memory") from None


def decode_utf8(data: bytes, place: str) -> str:
    """Return the text; CorpusError on bytes that are not UTF-8, and on NUL."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorpusError(
            f"{place}: byte {error.start} is not UTF-8 ({error.reason}); convert the file first"
        ) from None
    if "\0" in text:
        raise CorpusError(f"{place}: byte {data.index(0)} is NUL, which no note may hold")
    return text


def check_id(identity: str, place: str) -> None:
    """Raise CorpusError, which does not quote it, on an id that no message or file could show as it is."""
    found = _UNPRINTABLE.search(identity)
    if found:
        raise CorpusError(
            f"{place}: character {found.start()} of the id is U+{ord(found.group()):04X}: rename the note"
        )
    if not identity or len(identity) > _LONGEST_ID:
        raise CorpusError(f"{place}: the id has {len(identity)} characters; 1 to {_LONGEST_ID} are possible")


def check_file_name(identity: str, place: str) -> None:
    """Raise CorpusError on an id that would lead out of the output folder, or name a hidden file or none."""
    check_id(identity, place)
    if identity.startswith(".") or "/" in identity or "\\" in identity:
        raise CorpusError(f"{place}: the id cannot be a file name: it begins with a full stop, or has / or \\ in it")
    if len(identity.encode("utf-8", "replace")) > _LONGEST_NAME:
        raise CorpusError(f"{place}: the id cannot be a file name: it is longer than {_LONGEST_NAME} bytes")


def printable(text: str) -> str:
    """Return the text with what a terminal might act on written as an escape, lines apart."""
    return _UNPRINTABLE.sub(lambda found: "\n" if found[0] == "\n" else f"\\u{ord(found[0]):04x}", text)


def is_printable(name: str) -> bool:
    return not _UNPRINTABLE.search(name)


def shown_tag(identity: str) -> str:
    """Return how messages call a tag: by its id only where that can be nothing but a number."""
    return f"tag {identity}" if _TAG_ID.fullmatch(identity) else "a tag"


def check_text(text: str, place: str) -> None:
    """Raise CorpusError on characters that cannot be kept: NUL and lone surrogates (JSON can contain both)."""
    nul = text.find("\0")
    if nul >= 0:
        raise CorpusError(f"{place}: character {nul} of the text is NUL, which no note may hold")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise CorpusError(f"{place}: character {error.start} of the text is half of a surrogate pair") from None


def checked_span(
    start: int, end: int, label: str, text: str, place: str, *, surface: str | None = None, tag: str = "its place"
) -> Span:
    """Return the span. Raises CorpusError unless it lies within `text` and, if `surface` is given, covers that string.

    Tabs and newlines are compared as blanks, since XML attributes and brat columns cannot contain them.
    """
    if not 0 <= start < end <= len(text):
        raise CorpusError(
            f"{place}: {tag} {start}-{end} does not lie inside the text of {len(text)} characters "
            "(0 <= start < end <= length is needed)"
        )
    wanted = text[start:end].translate(_WHITE)
    found = wanted if surface is None else surface.translate(_WHITE)
    if wanted != found:
        pairs = zip(wanted, found, strict=False)
        differs = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(wanted), len(found)))
        raise CorpusError(
            f"{place}: {tag} {start}-{end} covers {len(wanted)} characters of the text, but its own text of "
            f"{len(found)} characters differs from them at character {differs}"
        )
    return Span(start, end, label)


def note_with_spans(
    document: Document, spans: Iterable[Span], *, notices: Mapping[Notice, int] | None = None, place: str = ""
) -> ReadNote:
    """Return the note with its spans in text order; repeated spans are dropped, overlapping ones kept, both counted."""
    given = tuple(spans)
    ordered = distinct_spans(given)
    counts: Counter[Notice] = Counter(notices or {})
    counts[Notice.REPEATED] += len(given) - len(ordered)
    counts[Notice.OVERLAP] += len(overlapping_pairs(ordered))
    return ReadNote(document.with_spans(ordered), +counts, place)


def unknown_label(label: str, known: Collection[str], scheme: str) -> str:
    """Return the message for an unknown label: the most similar known one, but not the label, which may be PHI."""
    nearest = difflib.get_close_matches(label[:_LONGEST_LABEL].upper(), sorted(known), n=1, cutoff=0.0)
    return f"its type is none of {scheme}; the nearest known is '{nearest[0]}'"


def patient_of_name(name: str) -> str | None:
    """Return XXX for a note named XXX-YY (i2b2 2014: patient, then note in chronological order), else None."""
    match = _PATIENT_AND_NOTE.fullmatch(name)
    return match.group(1) if match else None


def refuse_empty(path: Path | str) -> None:
    """Raise CorpusError for an empty name, as of a variable that is not set: it would be the current folder."""
    if path == "":
        raise CorpusError("the input has no name: is a variable not set?")
