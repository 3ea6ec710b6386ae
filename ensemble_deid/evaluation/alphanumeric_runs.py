"""Tokens as the 2014 i2b2 script cuts them: runs of ASCII letters and digits."""

import re
from bisect import bisect_right
from collections.abc import Sequence

from ensemble_deid.note.document import Document

_RUN = re.compile(r"[A-Za-z0-9]+")
Place = tuple[int, int]


def runs_in(text: str, start: int, end: int) -> list[Place]:
    """Cut `text[start:end]` into its runs, as (start, end) in `text`; without any, one empty token at `end`.

    A run is cut at `start` and `end`, so a span over half a word gives half a token.
    """
    return [match.span() for match in _RUN.finditer(text, start, end)] or [(end, end)]


def tokens_of(text: str) -> list[Place]:
    """Return the runs of a whole text, as (start, end); none where it has no ASCII letter or digit."""
    return [match.span() for match in _RUN.finditer(text)]


def label_tokens(document: Document, tokens: Sequence[Place]) -> list[str | None]:
    """Return each token's label: that of the first annotation, in text order, that covers any of it; None for none.

    `tokens` are in text order and do not overlap, as `tokens_of` gives them.
    """
    ends = [end for _, end in tokens]
    labels: list[str | None] = [None] * len(tokens)
    for span in sorted(document.spans):
        for index in range(bisect_right(ends, span.start), len(tokens)):
            if tokens[index][0] >= span.end:
                break
            if labels[index] is None:
                labels[index] = span.label
    return labels
