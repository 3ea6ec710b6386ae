"""Strings that were believed to be PHI in one note of a patient, searched in all notes of this patient.

A name that the model finds in the heading of one note and misses in the middle of another is found there, too.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from ensemble_deid.deidentify.replacement import Replacer
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.surrogates.patient import is_spanish

_LEAST = 3
_LEAST_DIGITS = 5
_SOURCE = "patient"
Strings = dict[str, tuple[str, float]]
Hides = Callable[[str], bool]
"""Whether what stands in the place of a label's spans shows nothing of them."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a patient before a note is written: `taken` are all strings of PHI, normalised.

    `spanish`: the notes are in Spanish, as far as labels tell.
    """

    taken: frozenset[str] = field(repr=False)
    wanted: Strings = field(repr=False)
    pattern: re.Pattern[str] | None = field(repr=False)
    hides: Hides
    spanish: bool = False

    def and_taken(self, strings: frozenset[str]) -> "Known":
        """Return the same with more strings of PHI, which are not searched."""
        return replace(self, taken=self.taken | strings) if strings else self

    def search(self, document: Document) -> Document:
        """Return the note with a span wherever one of its patient's strings stands.

        Spans that overlap become one. Its label is one that hides its spans, if any of them has such a label.
        """
        if self.pattern is None:
            return document
        # Matches are looked ahead to, so that one inside or across another is found, too.
        matches = self.pattern.finditer(document.text)
        added = [Span(match.start(1), match.end(1), *self.wanted[match[1]], _SOURCE) for match in matches]
        return document.with_spans(_joined([*document.spans, *added], self.hides))


NOTHING = Known(frozenset(), {}, None, lambda label: True)


@dataclass(slots=True)
class PatientStrings:
    """Strings by patient, each with its label and its highest score. They are kept in memory, never on disk.

    `normalise` is `Replacer.normalise`; `hides` says which labels have styles that show nothing (by default all).
    """

    normalise: Callable[[str], str]
    hides: Hides = lambda label: True
    strings: dict[str, Strings] = field(default_factory=dict, repr=False)
    # The notes of a patient mostly follow each other.
    _last: tuple[str, Known] | None = field(default=None, init=False, repr=False)

    @classmethod
    def of_run(cls, replacer: Replacer) -> "PatientStrings":
        """Return an empty collection for what this replacer is to replace."""
        return cls(replacer.normalise, replacer.styles.hides)

    def add(self, document: Document) -> None:
        """Take up what was found in a note; a note without a patient stands alone and has nothing to share."""
        if document.patient_id is not None:
            self._add(self.strings.setdefault(document.patient_id, {}), document)

    def of(self, document: Document) -> Known:
        """Return what is known of the document's patient; of a note without one, what was found in itself."""
        if document.patient_id is None:
            alone: Strings = {}
            self._add(alone, document)
            return self._known(alone)
        if self._last is None or self._last[0] != document.patient_id:
            self._last = (document.patient_id, self._known(self.strings.get(document.patient_id, {})))
        return self._last[1]

    def _known(self, strings: Strings) -> Known:
        wanted = {surface: value for surface, value in strings.items() if _is_telling(surface)}
        longest_first = sorted(wanted, key=lambda surface: (-len(surface), surface))
        words = "|".join(map(re.escape, longest_first))
        pattern = re.compile(rf"(?<!\w)(?=({words})(?!\w))") if wanted else None
        spanish = any(is_spanish(label) for label, _ in strings.values())
        return Known(frozenset(map(self.normalise, strings)), wanted, pattern, self.hides, spanish)

    def _add(self, strings: Strings, document: Document) -> None:
        for span in sorted(document.spans):
            surface = document.text[span.start : span.end]
            known = strings.get(surface)
            # What is a name in one note and a town in another must not be shown as the town.
            if known is None or (self.hides(known[0]), known[1]) < (self.hides(span.label), span.score):
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


def _joined(spans: Iterable[Span], hides: Hides) -> list[Span]:
    """Return the spans with those that overlap joined to one, which has the label of the longest that hides its spans.

    A label that shows them counts where there is no other. Of two over the same characters the model's own comes first.
    """
    groups: list[list[Span]] = []
    end = 0
    for span in sorted(spans, key=lambda span: (span.start, -span.end, span.source == _SOURCE, span.source)):
        if groups and span.start < end:
            groups[-1].append(span)
        else:
            groups.append([span])
        end = max(end, span.end)
    return [_one(group, hides) for group in groups]


def _one(spans: list[Span], hides: Hides) -> Span:
    if len(spans) == 1:
        return spans[0]
    # Of several that are as long, the first one.
    best = max(spans, key=lambda span: (hides(span.label), span.end - span.start))
    end, score = max(span.end for span in spans), max(span.score for span in spans)
    return Span(spans[0].start, end, best.label, score, best.source)
