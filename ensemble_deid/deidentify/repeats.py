"""Repeats: strings that were believed to be PHI at one place, searched in all of the patient's notes."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from ensemble_deid.deidentify.known.site_lists import Hides
from ensemble_deid.note.document import Document
from ensemble_deid.note.folding import same_string
from ensemble_deid.note.labels import category_of
from ensemble_deid.note.overlaps import join_overlaps, outside
from ensemble_deid.note.reading import as_read, read
from ensemble_deid.note.span import Span
from ensemble_deid.surrogates.patient import is_spanish

SOURCE = "repeat"
"""The source of a span that repeats another."""
WORD = re.compile(r"\w+")
"""What strings are searched as: no letter, digit or underscore beside them."""
_LEAST = 3
_LEAST_DIGITS = 5
_SURE = 0.5
_Strings = dict[str, tuple[str, float]]


@dataclass(frozen=True, slots=True)
class Known:
    """The facts about a patient before a note is written: `taken` are all strings of PHI, normalised.

    `wanted` are those that are searched, the longest first, `sure` those that some span finds with `min_score`,
    normalised. `spanish`: the notes are in Spanish, as far as labels tell.
    """

    taken: frozenset[str] = field(repr=False)
    wanted: _Strings = field(repr=False)
    hides: Hides
    spanish: bool = False
    sure: frozenset[str] = field(default=frozenset(), repr=False)

    def and_taken(self, strings: frozenset[str]) -> "Known":
        """Return the same with more strings of PHI, which are not searched."""
        return replace(self, taken=self.taken | strings) if strings else self

    def search(self, document: Document) -> Document:
        """Return the note with a span wherever one of its patient's strings stands as whole words.

        Overlapping spans are joined under the label of the longest whose style hides the text, if any.
        """
        reading = read(document.text)
        added: dict[int, Span] = {}
        for surface, (label, score) in self.wanted.items():
            for start in places(reading.text, surface):
                place = reading.original(start, start + len(surface))
                added.setdefault(start, Span(*place, label, score, SOURCE))
        hidden = [span for span in document.spans if self.hides(span.label)]
        spans = [*document.spans, *outside(hidden, added.values())]
        if len(spans) == len(document.spans):
            return document
        return document.with_spans(
            join_overlaps(spans, prefer=lambda span: (self.hides(span.label), span.end - span.start))
        )


NOTHING = Known(frozenset(), {}, lambda label: True)


@dataclass(slots=True)
class PatientStrings:
    """Strings by patient, kept only in memory, with label and highest score; a score of `min_score` makes one sure."""

    hides: Hides = lambda label: True
    min_score: float = 0.0
    strings: dict[str, _Strings] = field(default_factory=dict, repr=False)
    # The notes of a patient mostly follow each other.
    _last: tuple[str, Known] | None = field(default=None, init=False, repr=False)

    def add(self, document: Document) -> None:
        """Remember what was found in a note; a note without a patient stands alone and has nothing to share."""
        if document.patient_id is not None:
            self._add(self.strings.setdefault(document.patient_id, {}), document)
            self._last = None

    def add_found(self, patient: str, found: Iterable[tuple[str, str, float]]) -> None:
        """Remember strings, each with its label and score, that were found in a note of an earlier night."""
        strings = self.strings.setdefault(patient, {})
        for surface, label, score in found:
            self._take(strings, surface, label, score)
        self._last = None

    def of(self, document: Document) -> Known:
        """Return what is known of the document's patient; of a note without one, what was found in itself."""
        if document.patient_id is None:
            alone: _Strings = {}
            self._add(alone, document)
            return self._known(alone)
        if self._last is None or self._last[0] != document.patient_id:
            self._last = (document.patient_id, self._known(self.strings.get(document.patient_id, {})))
        return self._last[1]

    def _known(self, strings: _Strings) -> Known:
        telling = [
            surface for surface, found in strings.items() if _is_telling(surface) or _are_initials(surface, *found)
        ]
        telling.sort(key=lambda surface: (-len(surface), surface))
        spanish = any(is_spanish(label) for label, _ in strings.values())
        wanted = {surface: strings[surface] for surface in telling}
        sure = frozenset(same_string(string) for string, (_, score) in strings.items() if score >= self.min_score)
        return Known(frozenset(map(same_string, strings)), wanted, self.hides, spanish=spanish, sure=sure)

    def _add(self, strings: _Strings, document: Document) -> None:
        note = as_read(document)
        for span in sorted(note.spans):
            surface = note.text[span.start : span.end]
            self._take(strings, surface, span.label, span.score)

    def _take(self, strings: _Strings, surface: str, label: str, score: float) -> None:
        known = strings.get(surface)
        # What is a name in one note and a town in another must not be shown as the town. The order of notes, which may
        # come night by night, decides nothing.
        if known is None or (self.hides(known[0]), known[1], known[0]) < (self.hides(label), score, label):
            strings[surface] = (label, score)


def places(text: str, surface: str) -> Iterator[int]:
    """Yield where a string begins in a text, with no letter, digit or underscore beside it."""
    start = text.find(surface)
    while start >= 0:
        end = start + len(surface)
        if not (start and _is_of_word(text[start - 1])) and not (end < len(text) and _is_of_word(text[end])):
            yield start
        start = text.find(surface, start + 1)


def _is_of_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _is_telling(surface: str) -> bool:
    """Whether a string is likely to mean the same elsewhere: neither short, nor a small number, nor plain words."""
    if len(surface) < _LEAST or not (surface[0].isalnum() or surface[-1].isalnum()):
        return False
    digits = sum(c.isdigit() for c in surface)
    if not any(c.isalpha() for c in surface):
        return digits >= _LEAST_DIGITS
    return digits > 0 or any(c.isupper() for c in surface) or not surface.isascii()


def _are_initials(surface: str, label: str, score: float) -> bool:
    """Whether a string is the two initials with which a person signs, found with at least even odds."""
    initials = len(surface) == 2 and surface.isalpha() and surface.isupper()
    return initials and category_of(label) == "NAME" and score >= _SURE
