"""The order of day, month and year in columns of dates: as somebody says, or as the column's own values show."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from ensemble_deid.corpora.records import Value
from ensemble_deid.errors import ConfigError, CorpusError

ORDERS = ("dmy", "mdy", "ymd")
_TIME = r"[ T]\s*\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:\s*[ap]\.?m\.?)?(?:\s*(?:z|utc|[+-]\d{2}:?\d{2}))?\s*"
# 03042019 has no separators; 20190304 is in another order.
_NO_SEPARATOR = r"(?<=\d\d)(?=\d\d(?:19|20)\d\d(?!\d))"
_NUMERIC = re.compile(
    rf"\s*(\d{{1,2}})\s*([-/. ]|{_NO_SEPARATOR})\s*(\d{{1,2}})\s*\2\s*(\d{{4}}|\d{{2}})(?:{_TIME})?", re.IGNORECASE
)
_TWO_NUMBERS = re.compile(r"(?<!\d)(?<!\d[-/.])(\d{1,2})\s*[-/.]\s*(\d{1,2})(?![\d:])")
_MONTHS = range(1, 13)
_PIVOT = 30


@dataclass(frozen=True, slots=True)
class NumericDate:
    """Three numbers that are a date in some order; the year may be the first one where it has two digits."""

    written: str = field(repr=False)
    places: tuple[tuple[int, int], ...]

    @classmethod
    def read(cls, value: Value) -> "NumericDate | None":
        """Return the numbers of a string that is a date and begins with no year of four digits; None for others."""
        match = _NUMERIC.fullmatch(value) if isinstance(value, str) else None
        return None if match is None else cls(match.string, (match.span(1), match.span(3), match.span(4)))

    def day(self, order: str) -> date | None:
        """Return the day in an order, None where it is none."""
        texts = dict(zip(order, (self.written[slice(*place)] for place in self.places), strict=True))
        year = int(texts["y"])
        if len(texts["y"]) == 2:
            year += 2000 if year < _PIVOT else 1900
        elif len(texts["d"]) == 4 or len(texts["m"]) == 4:
            return None
        try:
            return date(year, int(texts["m"]), int(texts["d"]))
        except ValueError:
            return None

    def rewritten(self, day: date, order: str) -> str:
        """Return the string with another day in its place, written with as many digits, and all else as it was."""
        parts = {"d": day.day, "m": day.month, "y": day.year}
        made, position = "", 0
        for name, (start, end) in zip(order, self.places, strict=True):
            width = end - start
            number = parts[name] % 100 if name == "y" and width == 2 else parts[name]
            made += self.written[position:start] + str(number).zfill(width)
            position = end
        return made + self.written[position:]


@dataclass(slots=True)
class DateOrders:
    """The order of day, month and year in each column.

    `told` holds for all columns; without it, `learn` finds the orders in the values of all rows. `begun` are the orders
    with which earlier parts of the same table were written: they come first.
    """

    told: str | None = None
    found: Mapping[str, str | None] = field(default_factory=dict)
    begun: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.told is not None and self.told not in ORDERS:
            raise ConfigError(f"the order of dates must be one of {', '.join(ORDERS)}, not {self.told[:20]}")

    def learn(self, names: Iterable[str], rows: Iterable[Iterable[tuple[str, Value]]]) -> None:
        """Find the order that all values of each column have; a row is (column, value) pairs.

        `names` are columns that have an order even where no row has a value. Raises CorpusError where the order of a
        column is not clear, or differs from that of earlier parts of the table.
        """
        fits: dict[str, Counter[str]] = {name: Counter() for name in names}
        unclear: set[str] = set()
        for row in rows:
            for name, value in row:
                possible = _possible(value)
                fits.setdefault(name, Counter()).update({"all": bool(possible), **dict.fromkeys(possible, 1)})
                if _is_ambiguous(value):
                    unclear.add(name)
        if self.told is None:
            self.found = {name: self._agreed(name, found, unclear=name in unclear) for name, found in fits.items()}
            return
        self.found = dict.fromkeys(fits, self.told)
        for name in fits:
            self._check_begun(name, (self.told,))

    def of(self, name: str, value: Value) -> str | None:
        """Return the order of a value in a column; None where it does not matter. Raises CorpusError."""
        order = self.begun.get(name) or self.told or self.found.get(name)
        if order is None and _is_ambiguous(value):
            raise CorpusError(_problem(name))
        return order or next(iter(_possible(value)), None)

    def _agreed(self, name: str, fits: Counter[str], *, unclear: bool) -> str | None:
        """Return the one order that all dates of a column have; None where it does not matter."""
        candidates = [order for order in ORDERS if fits["all"] and fits[order] == fits["all"]]
        if name in self.begun:
            self._check_begun(name, candidates if fits["all"] else ORDERS)
            return self.begun[name]
        if unclear and len(candidates) != 1:
            raise CorpusError(_problem(name))
        return candidates[0] if len(candidates) == 1 else None

    def _check_begun(self, name: str, possible: Sequence[str | None]) -> None:
        begun = self.begun.get(name)
        if begun not in (None, *possible):
            raise CorpusError(f"the dates of the column {name} are not in the order {begun}, as those before were")


def _possible(value: Value) -> tuple[str, ...]:
    numbers = NumericDate.read(value)
    return () if numbers is None else tuple(order for order in ORDERS if numbers.day(order) is not None)


def _is_ambiguous(value: Value) -> bool:
    """Whether two orders give other days; also in other forms than that of a single date, such as 3/4 and ranges."""
    numbers = NumericDate.read(value)
    if numbers is not None:
        return len({numbers.day(order) for order in _possible(value)}) > 1
    pairs = _TWO_NUMBERS.findall(value) if isinstance(value, str) else ()
    return any(first != second and int(first) in _MONTHS and int(second) in _MONTHS for first, second in pairs)


def _problem(name: str) -> str:
    return (
        f"the dates of the column {name} may be read with the day or the month first, as in 3/4/2019: "
        f"say which with --date-order ({', '.join(ORDERS)})"
    )
