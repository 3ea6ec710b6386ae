"""Take away what announces a name in running prose: titles, credentials, first names, and names that any list has.

Training notes mostly write `Dr. Marcia Hidalgo, MD`; many real ones write `Hidalgo agrees`. Sequence models that learn
from the first kind alone rely on the title. The edits leave field names and headers (`Attending: Dr. Hidalgo`) alone.
"""

import re
from functools import cache

import numpy as np

from ensemble_deid.corpora.edits import Edit
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.word_tables import listed_words

NAME_LABELS = frozenset({"DOCTOR", "PATIENT"})
TITLE = re.compile(r"\b(?:Drs?|Mr|Mrs|Ms|Miss|Prof|Nurse|Sister|Fr|Rev|Sgt)\.?[ \t]+$", re.IGNORECASE)
_CREDENTIALS = re.compile(
    r",?[ \t]+(?:M\.?D|R\.?N|D\.?O|N\.?P|PA-?C|Ph\.?D|FRCP|MBBS|LCSW|PharmD|DPT|RD)\b\.?", re.IGNORECASE
)
_SINGLE = re.compile(r"[A-Z][a-z]+")
_PROSE = 12
TITLES_DROPPED, CREDENTIALS_DROPPED, FIRST_NAMES_DROPPED, REFILLED = 0.6, 0.5, 0.35, 0.5
_SYLLABLES = (
    "ka ren mol shi var tek lan dur esh bri ton quil mar ov zad nih fen gar iku wen sor thal bek ruz dal mi ja ont cre "
    "vil"
).split()


def bare_names(note: Document, rng: np.random.Generator) -> list[Edit]:
    """Return the edits that leave bare surnames: titles and credentials off, full names cut to their last word."""
    edits: list[Edit] = []
    for span in names_of(note):
        surface = note.text[span.start : span.end]
        if _in_prose(note, span):
            title = TITLE.search(note.text, 0, span.start)
            if title and rng.random() < TITLES_DROPPED and _free(note, title.start(), span.start):
                edits.append(Edit(title.start(), span.start, ""))
            cut = surface.rfind(" ") + 1
            if cut and surface[cut : cut + 1].isupper() and rng.random() < FIRST_NAMES_DROPPED:
                edits.append(Edit(span.start, span.start + cut, ""))
        credentials = _CREDENTIALS.match(note.text, span.end)
        if credentials and rng.random() < CREDENTIALS_DROPPED and _free(note, span.end, credentials.end()):
            edits.append(Edit(span.end, credentials.end(), ""))
    return edits


def refilled_names(note: Document, rng: np.random.Generator) -> list[Edit]:
    """Return the edits that put made-up and English-word surnames for single-word names, one for each in a note."""
    new: dict[str, str] = {}
    edits = []
    for span in names_of(note):
        surface = note.text[span.start : span.end]
        if not _SINGLE.fullmatch(surface):
            continue
        if surface not in new:
            new[surface] = _surname(rng) if rng.random() < REFILLED else surface
        if new[surface] != surface:
            edits.append(Edit(span.start, span.end, new[surface]))
    return edits


@cache
def surnames_that_are_words() -> tuple[str, ...]:
    """Return the English words that are surnames, too, in lower case."""
    return tuple(sorted(word for word in listed_words("english") & listed_words("surname") if word.isalpha()))


def _surname(rng: np.random.Generator) -> str:
    if rng.random() < 0.5:
        words = surnames_that_are_words()
        return words[int(rng.integers(len(words)))].capitalize()
    return made_up_name(rng)


def made_up_name(rng: np.random.Generator) -> str:
    """Return two or three syllables in a row, which make no word."""
    count = int(rng.integers(2, 4))
    return "".join(_SYLLABLES[int(k)] for k in rng.integers(len(_SYLLABLES), size=count)).capitalize()


def names_of(note: Document) -> list[Span]:
    """Return the spans of names on one line that overlap no other span."""
    ordered = sorted(note.spans)
    alone = [
        span
        for k, span in enumerate(ordered)
        if (k == 0 or max(s.end for s in ordered[:k]) <= span.start)
        and (k + 1 == len(ordered) or span.end <= ordered[k + 1].start)
    ]
    return [s for s in alone if s.label in NAME_LABELS and "\n" not in note.text[s.start : s.end]]


def _in_prose(note: Document, span: Span) -> bool:
    line = note.text[note.text.rfind("\n", 0, span.start) + 1 : span.start]
    return len(line) > _PROSE and ":" not in line[-6:]


def _free(note: Document, start: int, end: int) -> bool:
    return all(span.end <= start or end <= span.start for span in note.spans)
