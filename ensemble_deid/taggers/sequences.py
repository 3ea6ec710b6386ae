"""The sequences that a learner sees: whole lines, merged up to a maximum length."""

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.text.tokens import TokenTable, first_rows

Ints = NDArray[np.int32]


def merge_lines(tokens: TokenTable, *, max_tokens: int) -> Ints:
    """Return the first row of each sequence: lines of one document, merged up to `max_tokens`.

    A longer line is a sequence of its own and is not split, so that every token keeps its context.
    """
    lines = first_rows(tokens.line)
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


def sequence_of_rows(starts: Ints, n_tokens: int) -> Ints:
    """Return the index of each row's sequence, (n_tokens,)."""
    marks = np.zeros(n_tokens, dtype=np.int32)
    marks[starts[1:]] = 1
    return np.cumsum(marks).astype(np.int32)
