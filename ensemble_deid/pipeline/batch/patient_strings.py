"""Strings that were believed to be PHI in one note of a patient, searched in all notes of this patient.

A name that the model finds in the heading of one note and misses in the middle of another is found there, too.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ensemble_deid.text.document import Document
from ensemble_deid.text.span import Span

_LEAST = 3
_LEAST_DIGITS = 5
_SOURCE = "patient"
Strings = dict[str, tuple[str, float]]


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a patient before a note is written: `taken` are all strings of PHI, normalised."""

    taken: frozenset[str] = field(repr=False)
    wanted: Strings = field(repr=False)
    pattern: re.Pattern[str] | None = field(repr=False)

    def search(self, document: Document) -> Document:
        """Return the note with a span wherever one of its patient's strings stands.

        What overlaps a span that the model found, and reaches beyond it, takes its place together with it.
        """
        if self.pattern is None:
            return document
        # Matches are looked ahead to, so that one inside or across another is found, too.
        matches = self.pattern.finditer(document.text)
        added = [Span(match.start(1), match.end(1), *self.wanted[match[1]], _SOURCE) for match in matches]
        return document.with_spans(_joined([*document.spans, *added]))


@dataclass(slots=True)
class PatientStrings:
    """Strings by patient, each with its label and its highest score. They are kept in memory, never on disk.

    `normalise` is `Replacer.normalise`.
    """

    normalise: Callable[[str], str]
    strings: dict[str, Strings] = field(default_factory=dict, repr=False)
    # The notes of a patient mostly follow each other.
    _last: tuple[str, Known] | None = field(default=None, init=False, repr=False)

    def add(self, document: Document) -> None:
        """Take up what was found in a note; a note without a patient stands alone and has nothing to share."""
        if document.patient_id is not None:
            _add(self.strings.setdefault(document.patient_id, {}), document)

    def of(self, document: Document) -> Known:
        """Return what is known of the document's patient; of a note without one, what was found in itself."""
        if document.patient_id is None:
            alone: Strings = {}
            _add(alone, document)
            return self._known(alone)
        if self._last is None or self._last[0] != document.patient_id:
            self._last = (document.patient_id, self._known(self.strings.get(document.patient_id, {})))
        return self._last[1]

    def _known(self, strings: Strings) -> Known:
        wanted = {surface: value for surface, value in strings.items() if _is_telling(surface)}
        longest_first = sorted(wanted, key=lambda surface: (-len(surface), surface))
        words = "|".join(map(re.escape, longest_first))
        pattern = re.compile(rf"(?<!\w)(?=({words})(?!\w))") if wanted else None
        return Known(frozenset(map(self.normalise, strings)), wanted, pattern)


def _add(strings: Strings, document: Document) -> None:
    for span in sorted(document.spans):
        surface = document.text[span.start : span.end]
        if surface not in strings or strings[surface][1] < span.score:
            strings[surface] = (span.label, span.score)


def _is_telling(surface: str) -> bool:
    """Whether a string, met elsewhere, is likely to mean the same: neither short, nor a small number, nor plain words.

    A string without a capital or a digit is a word like any other.
    """
    if len(surface) < _LEAST or not (surface[0].isalnum() or surface[-1].isalnum()):
        return False
    digits = sum(c.isdigit() for c in surface)
    if not any(c.isalpha() for c in surface):
        return digits >= _LEAST_DIGITS
    return digits > 0 or any(c.isupper() for c in surface) or not surface.isascii()


def _joined(spans: Iterable[Span]) -> list[Span]:
    """Return the spans with those that overlap joined to one, which has the label of the longest.

    Of two over the same characters the model's own comes first: what another note says of the string may be another
    label, with a style that keeps it.
    """
    joined: list[Span] = []
    longest = 0
    for span in sorted(spans, key=lambda span: (span.start, -span.end, span.source == _SOURCE, span.source)):
        if not joined or span.start >= joined[-1].end:
            joined.append(span)
            longest = span.end - span.start
            continue
        last = joined[-1]
        if span.end <= last.end:
            continue
        best = span if span.end - span.start > longest else last
        longest = max(longest, span.end - span.start)
        joined[-1] = Span(last.start, span.end, best.label, max(last.score, span.score), best.source)
    return joined
