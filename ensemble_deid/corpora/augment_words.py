"""Edits of a note's words for `augment`: dictated numbers and punctuation, names without their cues."""

import re
from functools import cache

import numpy as np

from ensemble_deid.corpora.edits import Edit
from ensemble_deid.note.document import Document
from ensemble_deid.note.number_words import DIGITS, ORDINALS, TENS, cardinal
from ensemble_deid.note.overlaps import apart
from ensemble_deid.note.span import Span
from ensemble_deid.word_tables import listed_words

# What a speech recogniser writes: punctuation, numbers and dates in words, names spelled letter by letter.

_MONTHS = "January February March April May June July August September October November December".split()
_NUMBERS = frozenset("PHONE FAX ZIP MEDICALRECORD IDNUM ACCOUNT HEALTHPLAN SSN LICENSE DEVICE".split())
_NUMERIC_DATE = re.compile(r"(\d{1,2})[/-](\d{1,2})(?:[/-](\d{4}|\d{2}))?")
_MARK = re.compile(r"([.,:;])(?=\s)")
_SAID = {".": " period", ",": " comma", ":": " colon", ";": " semicolon"}
_NAME = re.compile(r"[A-Z][a-z]{2,8}")
DATES_SAID, NAMES_SPELLED, PUNCTUATED_NOTES = 0.7, 0.15, 0.5


def ordinal(number: int) -> str:
    """Return the ordinal of a day of the month in words."""
    if number <= 20:
        return ORDINALS[number - 1]
    tens, ones = divmod(number, 10)
    return f"{TENS[tens - 2]} {ORDINALS[ones - 1]}" if ones else {3: "thirtieth"}[tens]


def year_in_words(year: int) -> str:
    """Return a year of four digits as people say it: `twenty oh five`, `nineteen hundred`."""
    century, rest = divmod(year, 100)
    if not rest:
        return f"{cardinal(century)} hundred"
    return f"{cardinal(century)} {f'oh {DIGITS[rest]}' if rest < 10 else cardinal(rest)}"


def date_in_words(surface: str) -> str | None:
    """Return `3/14/2071` as `March fourteenth twenty seventy one`; None for what is not such a date."""
    match = _NUMERIC_DATE.fullmatch(surface)
    if not match or not (1 <= int(match[1]) <= 12 and 1 <= int(match[2]) <= 31):
        return None
    said = f"{_MONTHS[int(match[1]) - 1]} {ordinal(int(match[2]))}"
    if match[3] is None:
        return said
    return f"{said} {year_in_words(int(match[3]) if len(match[3]) == 4 else 2000 + int(match[3]))}"


def digits_in_words(surface: str, rng: np.random.Generator) -> str:
    """Return an identifier digit by digit; letters stay, marks become blanks."""
    zero = "oh" if rng.random() < 0.5 else "zero"
    words = re.sub(r"\d", lambda match: f" {zero if match[0] == '0' else DIGITS[int(match[0])]} ", surface)
    return " ".join(re.sub(r"[-()./+]", " ", words).split())


def dictated(note: Document, rng: np.random.Generator) -> list[Edit]:
    """Return the edits that say a note's numbers and dates, spell some names and, in half of the notes, punctuation."""
    edits = []
    for span in apart(note.spans):
        surface = note.text[span.start : span.end]
        said = None
        if span.label in _NUMBERS and any(character.isdigit() for character in surface):
            said = digits_in_words(surface, rng)
        elif span.label == "DATE" and rng.random() < DATES_SAID:
            said = date_in_words(surface)
        elif span.label in ("DOCTOR", "PATIENT") and rng.random() < NAMES_SPELLED and _NAME.fullmatch(surface):
            said = "-".join(surface.upper())
        if said and said != surface:
            edits.append(Edit(span.start, span.end, said))
    if rng.random() < PUNCTUATED_NOTES:
        marks = (match for match in _MARK.finditer(note.text) if _free(note, match.start(), match.end()))
        edits += [Edit(match.start(), match.end(), _SAID[match[0]]) for match in marks]
    return edits


# Remove the cues of names in prose: titles, credentials, first names, and names on lists.
#
# Training notes mostly write `Dr. Marcia Hidalgo, MD`; many real ones write `Hidalgo agrees`. Sequence models that
# learn from the first kind alone rely on the title. The edits leave field names and headers (`Attending: Dr. Hidalgo`)
# alone.

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
    """Return the edits that reduce names to bare surnames: no titles or credentials, only the last word."""
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
    """Return the edits that replace each single-word name of a note by a made-up or English-word surname."""
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
    both = set(listed_words("english")).intersection(listed_words("surname"))
    return tuple(sorted(filter(str.isalpha, both)))


def _surname(rng: np.random.Generator) -> str:
    if rng.random() < 0.5:
        words = surnames_that_are_words()
        return words[int(rng.integers(len(words)))].capitalize()
    return made_up_name(rng)


def made_up_name(rng: np.random.Generator) -> str:
    """Return a made-up word of two or three syllables."""
    count = int(rng.integers(2, 4))
    return "".join(_SYLLABLES[int(k)] for k in rng.integers(len(_SYLLABLES), size=count)).capitalize()


def names_of(note: Document) -> list[Span]:
    """Return the spans of names on one line that overlap no other span."""
    alone = apart(note.spans)
    return [s for s in alone if s.label in NAME_LABELS and "\n" not in note.text[s.start : s.end]]


def _in_prose(note: Document, span: Span) -> bool:
    line = note.text[note.text.rfind("\n", 0, span.start) + 1 : span.start]
    return len(line) > _PROSE and ":" not in line[-6:]


def _free(note: Document, start: int, end: int) -> bool:
    return all(span.end <= start or end <= span.start for span in note.spans)
