"""Which characters of a text spans cover, asked for many places."""

from bisect import bisect_left
from collections.abc import Iterable


class Covered:
    """The characters in any of the places `[start, end)`; a question takes the logarithm of their number."""

    def __init__(self, places: Iterable[tuple[int, int]]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in sorted(places):
            if self._ends and start <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            else:
                self._starts.append(start)
                self._ends.append(end)

    def overlaps(self, start: int, end: int) -> bool:
        """Whether any of the characters `[start, end)` is covered."""
        place = bisect_left(self._starts, end) - 1
        return place >= 0 and start < end and self._ends[place] > start
