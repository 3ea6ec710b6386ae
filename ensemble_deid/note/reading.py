"""Text as patterns and learners read it: one spelling of what looks alike, and where each character of it stood.

Some programs write `é` as a letter and a mark that follows it (NFD); web pages and word processors have spaces, hyphens
and apostrophes of their own, and invisible characters inside words: Unicode's default-ignorable format characters, such
as the soft hyphen, joiners and marks of direction. A pattern that knows letters, a blank and `-` would end there, or
find nothing. The zero-width space is one of them, too, but words may be separated by it: it counts as a blank.
"""

import unicodedata
from dataclasses import dataclass, field

import numpy as np
import regex
from numpy.typing import NDArray

# Unicode's space separators but for the blank, and the zero-width space.
_SPACES = "\u200b\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
# Hyphen, non-breaking hyphen, minus; the longer dashes stay, which stand between things.
_HYPHENS, _APOSTROPHES = "\u2010\u2011\u2212", "\u2019\u02bc"
_PLAIN = {**dict.fromkeys(_SPACES, " "), **dict.fromkeys(_HYPHENS, "-"), **dict.fromkeys(_APOSTROPHES, "'")}
_ALIKE = str.maketrans(_PLAIN)
# In a regex a blank may be layout, and a hyphen a range.
_LITERALS = str.maketrans(
    {character: plain.replace(" ", "\\ ").replace("-", "\\-") for character, plain in _PLAIN.items()}
)
# Soft hyphens, zero-width joiners, marks of direction and of byte order.
_INVISIBLE = r"[[\p{Cf}&&\p{Default_Ignorable_Code_Point}]--\u200b]"
_INVISIBLES = regex.compile(_INVISIBLE + "+", regex.V1)
# A character with the marks and invisible characters after it; a text may also begin with such.
_CLUSTER = regex.compile(rf"[^\p{{M}}{_INVISIBLE}]?[\p{{M}}{_INVISIBLE}]+", regex.V1)


@dataclass(frozen=True, slots=True, eq=False)
class NormalForm:
    """A text in its normal form; its character k stood at `[starts[k], ends[k])`, both int64 (characters,)."""

    text: str = field(repr=False)
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    def original(self, start: int, end: int) -> tuple[int, int]:
        """Return where `[start, end)`, which is not empty, stood, with the marks and invisible characters after it."""
        return int(self.starts[start]), int(self.ends[end - 1])


def is_invisible(character: str) -> bool:
    """Return whether a character is a default-ignorable format character other than the zero-width space."""
    return _INVISIBLES.fullmatch(character) is not None


def visible(text: str) -> str:
    """Return a text without invisible characters."""
    return text if text.isascii() else _INVISIBLES.sub("", text)


def normalised(text: str) -> str:
    """Return a text with plain spaces, hyphens and apostrophes, in NFC, and without invisible characters."""
    return text if text.isascii() else unicodedata.normalize("NFC", visible(text).translate(_ALIKE))


def normalised_literals(source: str) -> str:
    """Return a regex for texts in their normal form: what it spells out otherwise, such as `’`, would never match."""
    return source if source.isascii() else unicodedata.normalize("NFC", source.translate(_LITERALS))


def normal_form(text: str) -> NormalForm | None:
    """Return the normal form of a text, None where the text is in it."""
    alike = text if text.isascii() else text.translate(_ALIKE)
    if alike.isascii() or (unicodedata.is_normalized("NFC", alike) and not _INVISIBLES.search(alike)):
        everything = np.arange(len(text))
        return None if alike == text else NormalForm(alike, everything, everything + 1)
    parts: list[str] = []
    starts: list[NDArray[np.int64]] = []
    ends: list[NDArray[np.int64]] = []
    place = 0
    for cluster in _CLUSTER.finditer(alike):
        low, high = cluster.span()
        letter = unicodedata.normalize("NFC", visible(cluster.group()))
        parts += [alike[place:low], letter]
        starts += [np.arange(place, low), np.full(len(letter), low)]
        ends += [np.arange(place + 1, low + 1), np.full(len(letter), high)]
        place = high
    parts.append(alike[place:])
    starts.append(np.arange(place, len(alike)))
    ends.append(np.arange(place + 1, len(alike) + 1))
    return NormalForm("".join(parts), np.concatenate(starts), np.concatenate(ends))
