"""Notes in portions that fit into memory: short ones together, a very long one in stretches.

Processing takes memory and time for each token, some 2 kilobytes and 100 microseconds, and a token has four characters
or more in running text, but one in a row of full stops. So a portion is bounded in characters and in tokens: it is
worth a third of a gigabyte, whatever the notes are, and the time grows with the length of the text alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.note.tokens import tokenize

PORTION = 500_000
"""Characters that are processed at once."""
_LEAST_CHARACTERS = 3
"""A token counts as at least so many characters."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A document, or a stretch of one: which it is of those given, and where in it the stretch begins."""

    index: int
    start: int
    document: Document

    def in_whole(self, span: Span) -> Span:
        return replace(span, start=span.start + self.start, end=span.end + self.start) if self.start else span


def portions(documents: Sequence[Document], *, size: int = PORTION) -> Iterator[list[Piece]]:
    """Yield the documents in lists of pieces with at most `size` characters, and a third as many tokens, in order.

    A document longer than that is cut into stretches, each of which is read like a note of its own. Annotations of the
    documents are left out of stretches, and so are given spans that a cut divides.
    """
    # No text has more tokens than characters: with notes as short as these, none need be counted.
    if _LEAST_CHARACTERS * sum(len(document.text) for document in documents) <= size:
        whole_notes = [Piece(index, 0, document) for index, document in enumerate(documents)]
        if whole_notes:
            yield whole_notes
        return
    portion: list[Piece] = []
    room = size
    for index, document in enumerate(documents):
        for start, end in stretches(document.text, longest=size, most_tokens=max(1, size // _LEAST_CHARACTERS)):
            whole = end - start == len(document.text)
            piece = document if whole else _stretch(document, start, end)
            weight = max(end - start, _LEAST_CHARACTERS * len(tokenize([piece])))
            if portion and weight > room:
                yield portion
                portion, room = [], size
            portion.append(Piece(index, start, piece))
            room -= weight
    if portion:
        yield portion


def _stretch(document: Document, start: int, end: int) -> Document:
    given = {
        name: tuple(
            replace(span, start=span.start - start, end=span.end - start)
            for span in spans
            if start <= span.start and span.end <= end
        )
        for name, spans in document.given.items()
    }
    return replace(document, text=document.text[start:end], spans=(), given=given)


def stretches(text: str, *, longest: int, most_tokens: int | None = None) -> list[tuple[int, int]]:
    """Cut a text into stretches of at most `longest` characters and `most_tokens` tokens that make up the whole.

    An empty text is one stretch.

    A cut falls after the last empty line in the second half of what fits, else after the last line end, else after
    the last blank, and anywhere only where there is none of these: PHI within a line is not cut unless the line is
    as long as half a stretch.
    """
    found: list[tuple[int, int]] = []
    start = 0
    while (fitting := _fitting(text[start : start + longest + 1], longest, most_tokens)) < len(text) - start:
        end = _cut(text, start + fitting // 2, start + fitting)
        found.append((start, end))
        start = end
    return [*found, (start, len(text))]


def _fitting(text: str, longest: int, most_tokens: int | None) -> int:
    """Return how many of the text's first characters make up a stretch."""
    # A text with fewer characters than that cannot have more tokens.
    if most_tokens is not None and len(text) > most_tokens:
        starts = tokenize([Document("", text[:longest])]).start
        if len(starts) > most_tokens:
            return int(starts[most_tokens])
    return min(len(text), longest)


def _cut(text: str, low: int, high: int) -> int:
    for mark in ("\n\n", "\n", "\r", " "):
        at = text.rfind(mark, low, high)
        if at >= 0:
            return at + len(mark)
    return high
