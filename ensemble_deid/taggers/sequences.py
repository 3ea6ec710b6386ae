"""The sequences that a learner sees: whole lines, merged up to a maximum length."""

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.text.tokens import TokenTable, first_rows

Ints = NDArray[np.int32]
_LONGEST = 1000


def merge_lines(tokens: TokenTable, *, max_tokens: int) -> Ints:
    """Return the first row of each sequence: lines of one document, merged up to `max_tokens`.

    A longer line is a sequence of its own, so that every token keeps its context, unless it has more than 1000 tokens:
    sequences are computed token by token, many of them together, and an endless one would be computed alone.
    """
    lines = _split_endless(first_rows(tokens.line), tokens, longest=max(max_tokens, _LONGEST))
    ends = np.append(lines, len(tokens))[1:]
    starts: list[int] = []
    size = 0
    last_document = -1
    for low, high, document in zip(lines.tolist(), ends.tolist(), tokens.document[lines].tolist(), strict=True):
        if document != last_document or size + high - low > max_tokens:
            starts.append(low)
            size = 0
        size += high - low
        last_document = document
    return np.asarray(starts, dtype=np.int32)


def _split_endless(lines: Ints, tokens: TokenTable, *, longest: int) -> Ints:
    """Return the first rows of the lines and of the parts of longer ones, which are split where a sentence begins."""
    lengths = np.diff(np.append(lines, len(tokens)))
    sentences = tokens.sentence_starts
    splits: list[int] = []
    for line in np.flatnonzero(lengths > longest).tolist():
        low, high = int(lines[line]), int(lines[line] + lengths[line])
        while high - low > longest:
            last = int(sentences[np.searchsorted(sentences, low + longest, side="right") - 1])
            low = last if last > low + longest // 2 else low + longest
            splits.append(low)
    return np.sort(np.append(lines, splits)).astype(np.int32) if splits else lines


def sequence_of_rows(starts: Ints, n_tokens: int) -> Ints:
    """Return the index of each row's sequence, (n_tokens,)."""
    marks = np.zeros(n_tokens, dtype=np.int32)
    marks[starts[1:]] = 1
    return np.cumsum(marks).astype(np.int32)
