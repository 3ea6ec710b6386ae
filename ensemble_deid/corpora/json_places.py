"""JSON in which every value knows where it is written, so that one can be replaced and every other byte stays.

The json module reads values, and forgets how they were written.
"""

import json
import re
from dataclasses import dataclass, field
from typing import Any

from ensemble_deid.corpora.json_fields import parse_json
from ensemble_deid.errors import CorpusError

_DECODER = json.JSONDecoder()
_BLANK = re.compile(r"[ \t\r\n]*")
_SURROGATE_PAIR = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_PIECE = re.compile(rf"{_SURROGATE_PAIR}|\\u[0-9a-fA-F]{{4}}|\\.|[^\\]", re.DOTALL)
_DEEPEST = 100


@dataclass(slots=True)
class JsonValue:
    """A value and where it is written, `[start, end)`; of an object and a list only their members know their values."""

    start: int
    end: int = -1
    plain: Any = field(default=None, repr=False)
    members: dict[str, "JsonValue"] = field(default_factory=dict, repr=False)
    items: list["JsonValue"] = field(default_factory=list, repr=False)

    def string(self, name: str) -> str | None:
        """Return the string that is the member of that name, None where there is none."""
        member = self.members.get(name)
        return member.plain if member is not None and isinstance(member.plain, str) else None

    def pieces(self, raw: str) -> list[str]:
        """Return how each character of a string is written."""
        inner = raw[self.start + 1 : self.end - 1]
        return _PIECE.findall(inner) if "\\" in inner else list(inner)


def read_places(raw: str, place: str) -> JsonValue:
    """Return the value with its places. Raises CorpusError where it is broken, too deep, or a key occurs twice."""
    parse_json(raw, place)
    # What is valid as a whole is walked through once more, without looking for errors.
    return _value(raw, _skip(raw, 0), place, 0)


def _value(raw: str, at: int, place: str, depth: int) -> JsonValue:
    if depth > _DEEPEST:
        raise CorpusError(f"{place}: values are nested more than {_DEEPEST} deep")
    value = JsonValue(at)
    if raw[at] not in "{[":
        value.plain, value.end = _DECODER.raw_decode(raw, at)
        return value
    close = "}" if raw[at] == "{" else "]"
    at = _skip(raw, at + 1)
    while raw[at] != close:
        if close == "}":
            name, at = _DECODER.raw_decode(raw, at)
            at = _skip(raw, _skip(raw, at) + 1)
            member = value.members[name] = _value(raw, at, place, depth + 1)
        else:
            member = _value(raw, at, place, depth + 1)
            value.items.append(member)
        at = _skip(raw, member.end)
        if raw[at] == ",":
            at = _skip(raw, at + 1)
    value.end = at + 1
    return value


def _skip(raw: str, at: int) -> int:
    found = _BLANK.match(raw, at)
    return found.end() if found else at
