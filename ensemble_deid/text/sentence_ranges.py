"""The sentences of a note as ranges of characters, and the form in which two of them are the same sentence."""

from ensemble_deid.text.document import Document
from ensemble_deid.text.tokens import tokenize


def sentence_ranges(document: Document) -> list[tuple[int, int]]:
    """Return start and end of every sentence, in text order: the parts of lines that `tokenize` tells apart."""
    tokens = tokenize([document], split_lines=True)
    if not len(tokens):
        return []
    first = tokens.sentence_starts.tolist()
    starts, ends = tokens.start.tolist(), tokens.end.tolist()
    return [(starts[low], ends[high - 1]) for low, high in zip(first, [*first[1:], len(starts)], strict=True)]


def plain_sentence(text: str) -> str:
    """Return a sentence with single blanks for its white space."""
    return " ".join(text.split())
