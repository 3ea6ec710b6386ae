"""What the parts of one string say of time, and whether each of them can be shifted by itself."""

from enum import Enum


class Part(Enum):
    """What a part of a string names."""

    DAY = "a day of the month alone"
    UNDATED = "a date, month, holiday or season without a year"
    DATED = "a date or month with its year"
    NAMED = "a holiday or season with its year"
    YEAR = "a year alone"


class Parts:
    """The parts of one string, from left to right, and the years that they name."""

    def __init__(self) -> None:
        self.years: list[int] = []
        self._kinds: set[Part] = set()
        self._range_of_years = False

    def clear(self) -> None:
        """Forget everything, for the next string."""
        self.years.clear()
        self._kinds.clear()
        self._range_of_years = False

    def add(self, part: Part, year: int) -> None:
        """Take up the next part; `year` is the one that it names or is taken to be in."""
        if has_year(part):
            self.years.append(year)
        self._range_of_years |= part is Part.YEAR and Part.NAMED in self._kinds
        self._kinds.add(part)

    def stand_apart(self) -> bool:
        """Whether two parts may be one date, whose days or years would go astray if each were shifted alone.

        So they may where a year stands beside what has none (`25 Dec (2014)`), a day of the month beside anything
        else (`March 2014, the 5th`), or a year behind a season with its year (`winter of 2013-2014`).
        """
        if self._range_of_years or {Part.YEAR, Part.UNDATED} <= self._kinds:
            return True
        return Part.DAY in self._kinds and len(self._kinds) > 1


def has_year(part: Part) -> bool:
    """Whether a year is written in such a part."""
    return part not in (Part.DAY, Part.UNDATED)
