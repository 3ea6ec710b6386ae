"""Notes in portions that fit into memory: short ones together, a very long one in stretches.

Processing takes some 500 bytes and 20 microseconds a character, so a portion is worth a quarter of a gigabyte, however
many or long the notes are, and the time grows with the length of the text alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ensemble_deid.text.document import Document
from ensemble_deid.text.span import Span

PORTION = 500_000
"""Characters that are processed at once."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A document, or a stretch of one: which it is of those given, and where in it the stretch begins."""

    index: int
    start: int
    document: Document

    def in_whole(self, span: Span) -> Span:
        """Return a span of the piece as one of the whole document."""
        return replace(span, start=span.start + self.start, end=span.end + self.start) if self.start else span


def portions(documents: Sequence[Document], *, size: int = PORTION) -> Iterator[list[Piece]]:
    """Yield the documents in lists of pieces with at most `size` characters together, in order.

    A document longer than that is cut into stretches, each of which is read like a note of its own. Annotations of the
    documents are left out of stretches.
    """
    portion: list[Piece] = []
    room = size
    for index, document in enumerate(documents):
        for start, end in stretches(document.text, longest=size):
            whole = end - start == len(document.text)
            piece = document if whole else replace(document, text=document.text[start:end], spans=())
            if portion and end - start > room:
                yield portion
                portion, room = [], size
            portion.append(Piece(index, start, piece))
            room -= end - start
    if portion:
        yield portion


def stretches(text: str, *, longest: int) -> list[tuple[int, int]]:
    """Cut a text into stretches of at most `longest` characters that make up the whole; an empty text is one.

    A cut falls after the last empty line in the second half of what fits, else after the last line end, else after
    the last blank, and anywhere only where there is none of these: PHI within a line is not cut unless the line is
    as long as half a stretch.
    """
    found: list[tuple[int, int]] = []
    start = 0
    while len(text) - start > longest:
        end = _cut(text, start + longest // 2, start + longest)
        found.append((start, end))
        start = end
    return [*found, (start, len(text))]


def _cut(text: str, low: int, high: int) -> int:
    for mark in ("\n\n", "\n", "\r", " "):
        at = text.rfind(mark, low, high)
        if at >= 0:
            return at + len(mark)
    return high
