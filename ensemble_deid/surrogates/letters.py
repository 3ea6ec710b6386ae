"""Give a new value the letter case of the one it replaces."""

import unicodedata


def match_case(original: str, value: str) -> str:
    """Return `value` in capitals or small letters where `original` is written so throughout, else as it is."""
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
