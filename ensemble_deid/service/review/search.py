"""Every occurrence of a string in a text."""

import re
from collections.abc import Iterator

from ensemble_deid.service.review.errors import ReviewError


def occurrences(text: str, wanted: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Yield the places of what `searched` compiled."""
    yield from (match.span() for match in wanted.finditer(text))


def searched(words: str, *, whole_words: bool, match_case: bool) -> re.Pattern[str]:
    """Compile a search for a string, in which a space stands for any white space, a line break included.

    Raises ReviewError for a string without a visible character.
    """
    parts = words.split()
    if not parts:
        raise ReviewError("there is nothing to search for")
    # The white space of a run is never matched in two ways, so the search takes linear time.
    pattern = r"\s+".join(map(re.escape, parts))
    if whole_words:
        pattern = rf"(?<!\w){pattern}(?!\w)"
    return re.compile(pattern, 0 if match_case else re.IGNORECASE)
