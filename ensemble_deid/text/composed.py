"""Text with accents inside their letters (NFC), and where each of its characters stood before.

Some programs write `é` as a letter and a mark that follows it (NFD). A pattern for letters ends before such a mark.
"""

import unicodedata
from dataclasses import dataclass, field

import numpy as np
import regex
from numpy.typing import NDArray

_CLUSTER = regex.compile(r"\P{M}\p{M}+")


@dataclass(frozen=True, slots=True, eq=False)
class ComposedText:
    """A text in NFC; its character k stood at `[starts[k], ends[k])` of the original, both int64 (characters,)."""

    text: str = field(repr=False)
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    def original(self, start: int, end: int) -> tuple[int, int]:
        """Return where `[start, end)`, which is not empty, stood; letters keep their marks."""
        return int(self.starts[start]), int(self.ends[end - 1])


def compose(text: str) -> ComposedText | None:
    """Return the text with marks composed with the letter before them, None where NFC changes nothing."""
    if text.isascii() or unicodedata.is_normalized("NFC", text):
        return None
    parts: list[str] = []
    starts: list[NDArray[np.int64]] = []
    ends: list[NDArray[np.int64]] = []
    place = 0
    for cluster in _CLUSTER.finditer(text):
        low, high = cluster.span()
        letter = unicodedata.normalize("NFC", cluster.group())
        parts += [text[place:low], letter]
        starts += [np.arange(place, low), np.full(len(letter), low)]
        ends += [np.arange(place + 1, low + 1), np.full(len(letter), high)]
        place = high
    parts.append(text[place:])
    starts.append(np.arange(place, len(text)))
    ends.append(np.arange(place + 1, len(text) + 1))
    return ComposedText("".join(parts), np.concatenate(starts), np.concatenate(ends))
