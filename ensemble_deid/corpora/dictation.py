"""Write a note as a speech recogniser does: punctuation, numbers and dates in words, names spelled letter by letter."""

import re

import numpy as np

from ensemble_deid.corpora.edits import Edit
from ensemble_deid.note.document import Document
from ensemble_deid.note.number_words import DIGITS, ORDINALS, TEENS, TENS

_MONTHS = "January February March April May June July August September October November December".split()
_NUMBERS = frozenset("PHONE FAX ZIP MEDICALRECORD IDNUM ACCOUNT HEALTHPLAN SSN LICENSE DEVICE".split())
_NUMERIC_DATE = re.compile(r"(\d{1,2})[/-](\d{1,2})(?:[/-](\d{4}|\d{2}))?")
_MARK = re.compile(r"([.,:;])(?=\s)")
_SAID = {".": " period", ",": " comma", ":": " colon", ";": " semicolon"}
_NAME = re.compile(r"[A-Z][a-z]{2,8}")
DATES_SAID, NAMES_SPELLED, PUNCTUATED_NOTES = 0.7, 0.15, 0.5


def cardinal(number: int) -> str:
    """Return a number below 100 in words.

    >>> from ensemble_deid.corpora.dictation import cardinal
    >>> cardinal(7), cardinal(14), cardinal(40), cardinal(83)
    ('seven', 'fourteen', 'forty', 'eighty three')
    """
    if number < 10:
        return DIGITS[number]
    if number < 20:
        return TEENS[number - 10]
    tens, ones = divmod(number, 10)
    return TENS[tens - 2] + (f" {DIGITS[ones]}" if ones else "")


def ordinal(number: int) -> str:
    """Return the ordinal of a day of the month in words."""
    if number <= 20:
        return ORDINALS[number - 1]
    tens, ones = divmod(number, 10)
    return f"{TENS[tens - 2]} {ORDINALS[ones - 1]}" if ones else {3: "thirtieth"}[tens]


def year_in_words(year: int) -> str:
    """Return a year of four digits as it is said.

    >>> from ensemble_deid.corpora.dictation import year_in_words
    >>> year_in_words(2071), year_in_words(2005), year_in_words(1900)
    ('twenty seventy one', 'twenty oh five', 'nineteen hundred')
    """
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
    spans = sorted(note.spans)
    for span in spans:
        if sum(span.start < other.end and other.start < span.end for other in spans) > 1:
            continue
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
        for match in _MARK.finditer(note.text):
            if not any(span.start < match.end() and match.start() < span.end for span in spans):
                edits.append(Edit(match.start(), match.end(), _SAID[match[0]]))
    return edits
