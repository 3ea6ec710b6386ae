"""Places in a message for values that are known when it is written."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from ensemble_deid.corpora.record_map import Field, FieldRule

_Maker = Callable[[Sequence[object]], str]
_MARK = re.compile("\0([0-9]+)\0")


@dataclass(slots=True)
class FieldSlots:
    """The values of a message that have a rule, and how each replacement is written.

    Marks hold NUL, which no message may hold.
    """

    fields: list[Field] = field(default_factory=list, repr=False)
    makers: list[_Maker] = field(default_factory=list, repr=False)

    def add(self, name: str, rule: FieldRule, value: object, written: Callable[[str], str]) -> str:
        """Add a value, and return the mark in whose place it is written."""
        return self._mark(name, rule, value, [partial(_whole, written=written)])[0]

    def add_lines(self, name: str, rule: FieldRule, value: str, written: Callable[[str], str]) -> list[str]:
        """Add a value of several lines, and return a mark for each; what has fewer lines is written in the last."""
        count = value.count("\n") + 1
        makers = [partial(_line, number=number, count=count, written=written) for number in range(count)]
        return self._mark(name, rule, value, makers)

    def _mark(self, name: str, rule: FieldRule, value: object, makers: Sequence[Callable[[object], str]]) -> list[str]:
        place = len(self.fields)
        self.fields.append(Field(name, rule, value))
        first = len(self.makers)
        self.makers += [partial(_of_field, place=place, make=make) for make in makers]
        return [f"\0{number}\0" for number in range(first, len(self.makers))]

    def filled(self, content: str, values: Sequence[object]) -> str:
        """Return the content with the new values; without any, nothing is in their places."""
        given = values or [None] * len(self.fields)
        return _MARK.sub(lambda match: self.makers[int(match[1])](given), content)


def _of_field(values: Sequence[object], *, place: int, make: Callable[[object], str]) -> str:
    return make(values[place])


def _whole(value: object, *, written: Callable[[str], str]) -> str:
    return "" if value is None else written(str(value))


def _line(value: object, *, number: int, count: int, written: Callable[[str], str]) -> str:
    lines = "" if value is None else str(value)
    if lines.count("\n") + 1 == count:
        return written(lines.split("\n")[number])
    return written(lines) if number == count - 1 else ""
