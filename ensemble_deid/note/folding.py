"""One spelling for strings that are compared; `reading.py` does the same to whole notes, with a map of offsets."""

import json
import unicodedata
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import files

import regex

# Unicode's space separators but for the blank, and the zero-width space.
SPACES = "\u200b\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
# Hyphen, non-breaking hyphen, minus; the longer dashes stay, which stand between things.
_HYPHENS, _APOSTROPHES = "\u2010\u2011\u2212", "\u2019\u02bc"
_PLAIN = {**dict.fromkeys(SPACES, " "), **dict.fromkeys(_HYPHENS, "-"), **dict.fromkeys(_APOSTROPHES, "'")}
ALIKE: Mapping[int, str] = str.maketrans(_PLAIN)
# In a regex a blank may be layout, and a hyphen a range.
_LITERALS = str.maketrans(
    {character: plain.replace(" ", "\\ ").replace("-", "\\-") for character, plain in _PLAIN.items()}
)
# Soft hyphens, joiners, marks of direction and of byte order, fillers, variation selectors, tags.
INVISIBLE = r"[\p{Default_Ignorable_Code_Point}--\u200b]"
_INVISIBLES = regex.compile(INVISIBLE + "+", regex.V1)


def visible(text: str) -> str:
    """Return a text without default-ignorable characters; the zero-width space stays, since it may separate words."""
    return text if text.isascii() else _INVISIBLES.sub("", text)


def normalised_literals(source: str) -> str:
    """Return a regex for texts in their normal form: what it spells out otherwise, such as `’`, would never match."""
    return source if source.isascii() else unicodedata.normalize("NFC", source.translate(_LITERALS))


def unaccented(text: str) -> str:
    """Return a text in compatibility form (`ﬁ` is `fi`) without accents and other combining marks."""
    if text.isascii():
        return text
    return "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))


def folded(text: str) -> str:
    """Return a text without case, accents and invisible characters; blanks and punctuation stay."""
    if text.isascii():
        return text.lower()
    return unaccented(unaccented(visible(text)).casefold())


def same_string(surface: str) -> str:
    """Return a string of PHI without case, accents, repeated white space and invisible characters."""
    if surface.isascii():
        return " ".join(surface.lower().split())
    return " ".join(unaccented(visible(surface).casefold()).split())


@lru_cache(maxsize=1 << 14)
def fold(value: str) -> str:
    """Return the letters and digits of `value` without case and accents, as log-in names and addresses have them."""
    plain = value.casefold()
    if not plain.isascii():
        plain = unicodedata.normalize("NFKD", plain)
    return plain if plain.isalnum() else "".join(filter(str.isalnum, plain))


def without_marks(value: str) -> str:
    """Return `value` in NFC without invisible characters and combining marks of their own, which no pattern matches."""
    if value.isascii():
        return value
    composed = unicodedata.normalize("NFC", visible(value))
    return "".join(c for c in composed if not unicodedata.category(c).startswith("M"))


def match_case(original: str, value: str) -> str:
    """Return `value` in upper or lower case if all of `original` is, else unchanged."""
    cased = [character for character in original if character.isalpha()]
    if len(cased) > 1 and all(character.isupper() for character in cased):
        return value.upper()
    if cased and all(character.islower() for character in cased):
        return value.lower()
    return value


@cache
def look_alikes() -> Mapping[int, str]:
    """Map letters of other scripts to the Latin letter that they look like (Unicode TS 39, confusable_homoglyphs)."""
    # Not its module, which would keep all of the table.
    confusables = json.loads((files("confusable_homoglyphs") / "confusables.json").read_bytes())
    # Missing in the table: ka and kappa.
    found = {0x43A: "k", 0x3BA: "k"}
    for character, alike in confusables.items():
        if len(character) != 1 or character.isascii() or not character.isalpha():
            continue
        if "LATIN" in unicodedata.name(character, ""):
            continue
        plain = [
            entry["c"] for entry in alike if len(entry["c"]) == 1 and entry["c"].isascii() and entry["c"].isalpha()
        ]
        if plain:
            # The table has l for every I, whatever its case.
            found[ord(character)] = "I" if plain[0] == "l" and character.isupper() else plain[0]
    return found
