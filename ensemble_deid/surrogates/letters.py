"""Match the letter case of a surrogate to the string it replaces."""

import unicodedata
from functools import lru_cache

from ensemble_deid.note.reading import visible


def match_case(original: str, value: str) -> str:
    """Return `value` in upper or lower case if all of `original` is, else unchanged."""
    letters = [character for character in original if character.isalpha()]
    if len(letters) > 1 and all(character.isupper() for character in letters):
        return value.upper()
    if letters and all(character.islower() for character in letters):
        return value.lower()
    return value


@lru_cache(maxsize=1 << 14)
def fold(value: str) -> str:
    """Return the letters of `value` without case and accents, as they appear in log-in names and addresses."""
    folded = value.casefold()
    if not folded.isascii():
        folded = unicodedata.normalize("NFKD", folded)
    return folded if folded.isalnum() else "".join(filter(str.isalnum, folded))


def without_marks(value: str) -> str:
    """Return `value` with accents inside their letters (NFC), without other combining marks and invisible characters.

    Patterns for letters know no mark that stands alone, such as an accent of NFD or a vowel sign of Thai or Devanagari,
    and no soft hyphen.
    """
    if value.isascii():
        return value
    composed = unicodedata.normalize("NFC", visible(value))
    return "".join(c for c in composed if not unicodedata.category(c).startswith("M"))
