"""Tokens as the 2014 i2b2 script cuts them: runs of ASCII letters and digits."""

import re

_RUN = re.compile(r"[A-Za-z0-9]+")
Place = tuple[int, int]


def runs_in(text: str, start: int, end: int) -> list[Place]:
    """Cut `text[start:end]` into its runs, as (start, end) in `text`; without any, one empty token at `end`.

    A run is cut where the stretch begins or ends, so that a stretch over half a word gives half a token.
    """
    return [match.span() for match in _RUN.finditer(text, start, end)] or [(end, end)]


def tokens_of(text: str) -> list[Place]:
    """Return the runs of a whole text, as (start, end); none where it has no ASCII letter or digit."""
    return [match.span() for match in _RUN.finditer(text)]
