"""Checks that every reader makes: bytes, characters, spans. No message quotes the note."""

import difflib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from ensemble_deid.errors import CorpusError
from ensemble_deid.text.document import Document
from ensemble_deid.text.span import Span, overlapping_pairs

_WHITE = str.maketrans("\t\n\r", "   ")
_PATIENT_AND_NOTE = re.compile(r"([A-Za-z0-9]+)-(\d{2,3})")
_SHOWN = 60


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


def read_utf8(path: Path) -> str:
    """Return the file's text with its newlines unchanged; CorpusError on unreadable, non-UTF-8 or NUL bytes."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CorpusError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorpusError(f"{path}: byte {error.start} is not UTF-8 ({error.reason}); convert the file first") from None
    if "\0" in text:
        raise CorpusError(f"{path}: byte {data.index(0)} is NUL, which no note may hold")
    return text


def check_text(text: str, place: str) -> None:
    """Raise CorpusError on characters that cannot be kept: NUL and lone surrogates (JSON can contain both)."""
    nul = text.find("\0")
    if nul >= 0:
        raise CorpusError(f"{place}: character {nul} of the text is NUL, which no note may hold")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise CorpusError(f"{place}: character {error.start} of the text is half of a surrogate pair") from None


def check_span(
    start: int, end: int, text: str, place: str, *, surface: str | None = None, tag: str = "the span"
) -> None:
    """Raise CorpusError unless `[start, end)` lies within `text` and, if `surface` is given, covers that string.

    Tabs and newlines are compared as blanks, since XML attributes and brat columns cannot contain them.
    """
    if not 0 <= start < end <= len(text):
        raise CorpusError(
            f"{place}: {tag} {start}-{end} does not lie inside the text of {len(text)} characters "
            "(0 <= start < end <= length is needed)"
        )
    if surface is None:
        return
    wanted, found = text[start:end].translate(_WHITE), surface.translate(_WHITE)
    if wanted != found:
        pairs = zip(wanted, found, strict=False)
        differs = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(wanted), len(found)))
        raise CorpusError(
            f"{place}: {tag} {start}-{end} covers {len(wanted)} characters of the text, but its own text of "
            f"{len(found)} characters differs from them at character {differs}"
        )


def note_with_spans(
    document: Document, spans: Iterable[Span], *, notices: Mapping[Notice, int] | None = None
) -> ReadNote:
    """Return the note with its spans in text order; repeated spans are dropped, overlapping ones kept, both counted."""
    unique: dict[tuple[int, int, str], Span] = {}
    counts: Counter[Notice] = Counter(notices or {})
    for span in spans:
        if span.key in unique:
            counts[Notice.REPEATED] += 1
        unique.setdefault(span.key, span)
    ordered = tuple(sorted(unique.values()))
    counts[Notice.OVERLAP] += len(overlapping_pairs(ordered))
    return ReadNote(document.with_spans(ordered), +counts)


def unknown_label(label: str, known: Collection[str], scheme: str) -> str:
    """Return the message for a label that a fixed scheme does not have, with the most similar one that it has."""
    nearest = difflib.get_close_matches(label.upper(), sorted(known), n=1, cutoff=0.0)
    return f"'{label[:_SHOWN]}' is not a type of {scheme}; the nearest known is '{nearest[0]}'"


def patient_of_name(name: str) -> str | None:
    """Return XXX for a note named XXX-YY (i2b2 2014: patient, then note in chronological order), else None."""
    match = _PATIENT_AND_NOTE.fullmatch(name)
    return match.group(1) if match else None
