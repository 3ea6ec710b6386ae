"""Match the letter case of a surrogate to the string it replaces."""

import unicodedata


def match_case(original: str, value: str) -> str:
    """Return `value` in upper or lower case if all of `original` is, else unchanged."""
    letters = [character for character in original if character.isalpha()]
    if len(letters) > 1 and all(character.isupper() for character in letters):
        return value.upper()
    if letters and all(character.islower() for character in letters):
        return value.lower()
    return value


def fold(value: str) -> str:
    """Return the letters of `value` without case and accents, as they appear in log-in names and addresses."""
    decomposed = unicodedata.normalize("NFKD", value.casefold())
    return "".join(character for character in decomposed if character.isalnum())


def without_marks(value: str) -> str:
    """Return `value` with accents inside their letters (NFC), and without all other combining marks.

    Patterns for letters know no mark that stands alone, such as an accent of NFD or a vowel sign of Thai or Devanagari.
    """
    if value.isascii():
        return value
    return "".join(c for c in unicodedata.normalize("NFC", value) if not unicodedata.category(c).startswith("M"))
