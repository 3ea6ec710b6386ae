"""JSON that is read with care: fields are checked for presence and type.

`read_places` also finds where each value is written, so that one can be replaced and every other byte stays.
"""

import difflib
import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from ensemble_deid.corpora.checks import check_id, check_text
from ensemble_deid.errors import CorpusError
from ensemble_deid.note.document import Document
from ensemble_deid.parsing import strict_json

_LONGEST_KEY = 40
_KEY = re.compile(rf"[A-Za-z_][A-Za-z0-9_.-]{{0,{_LONGEST_KEY - 1}}}")


def parse_json(content: str, place: str) -> Any:
    """Return what the JSON says; CorpusError which says where it is broken."""
    try:
        return strict_json(content)
    except json.JSONDecodeError as error:
        where = f"column {error.colno}" if error.lineno == 1 else f"line {error.lineno}, column {error.colno}"
        raise CorpusError(f"{place}: broken JSON at {where}: {error.msg}") from None
    except ValueError as error:
        raise CorpusError(f"{place}: broken JSON: {error}") from None


def json_kind(value: object) -> str:
    """Return what kind of value this is, as messages say it."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def object_of(value: object, place: str) -> dict[str, Any]:
    """Return the value if it is an object, else raise CorpusError."""
    if not isinstance(value, dict):
        raise CorpusError(f"{place}: expected an object, not {json_kind(value)}")
    return value


def refuse_unknown_keys(entry: Iterable[str], known: Collection[str], place: str) -> None:
    """Raise CorpusError for an unknown key. A key may be anything: it is shown only where it resembles a known one."""
    unknown = next((key for key in entry if key not in known), None)
    if unknown is None:
        return
    close = difflib.get_close_matches(unknown[:_LONGEST_KEY], known, n=1) if _KEY.fullmatch(unknown) else []
    meant = f" '{unknown}'; did you mean '{close[0]}'?" if close else f"; known are {', '.join(known)}"
    raise CorpusError(f"{place}: unknown key{meant}")


def list_field(entry: dict[str, Any], key: str, place: str) -> list[Any]:
    """Return a list, empty where it is missing or null; CorpusError if it is something else."""
    value = entry.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise CorpusError(f"{place}: '{key}' must be a list, not {json_kind(value)}")
    return value


def string_field(entry: dict[str, Any], key: str, place: str) -> str:
    """Return a string that a note can hold; CorpusError if it is missing, something else, or holds NUL."""
    value = entry.get(key)
    if not isinstance(value, str):
        raise CorpusError(f"{place}: '{key}' must be a string, not {json_kind(value) if key in entry else 'missing'}")
    check_text(value, f"{place}: '{key}'")
    return value


def optional_string(entry: dict[str, Any], key: str, place: str) -> str | None:
    return None if entry.get(key) is None else string_field(entry, key, place)


def integer_field(entry: dict[str, Any], key: str, place: str) -> int:
    """Return an integer; CorpusError if it is missing or something else."""
    value = entry.get(key)
    if type(value) is not int:
        raise CorpusError(f"{place}: '{key}' must be an integer, not {json_kind(value) if key in entry else 'missing'}")
    return value


def metadata_field(entry: dict[str, Any], place: str) -> dict[str, str]:
    """Return the object `metadata`, whose values are strings; empty where it is missing or null."""
    metadata = {} if entry.get("metadata") is None else entry["metadata"]
    if not isinstance(metadata, dict):
        raise CorpusError(f"{place}: 'metadata' must be an object, not {json_kind(metadata)}")
    for number, (key, value) in enumerate(metadata.items(), start=1):
        # Neither is quoted: a key, too, may be anything.
        if not isinstance(value, str):
            raise CorpusError(f"{place}: value {number} of 'metadata' must be a string, not {json_kind(value)}")
        check_text(key, f"{place}: key {number} of 'metadata'")
        check_text(value, f"{place}: value {number} of 'metadata'")
    return dict(metadata)


# What annotation tools keep beside a note's text: its id, patient, site and metadata, under names of our own.

NOTE_ID = "note_id"


def note_fields(document: Document) -> dict[str, Any]:
    """Return the fields that a tool is to hand back: what is empty is left out."""
    metadata = dict(sorted(document.metadata.items())) or None
    fields = {NOTE_ID: document.id, "patient_id": document.patient_id, "site": document.site, "metadata": metadata}
    return {name: value for name, value in fields.items() if value is not None}


def note_of_fields(fields: dict[str, Any], text: str, fallback_id: str, place: str) -> Document:
    """Return the note without spans; one that no id of ours came with has the fallback. Raises CorpusError."""
    identity = optional_string(fields, NOTE_ID, place) or fallback_id
    check_id(identity, place)
    return Document(
        identity,
        text,
        patient_id=optional_string(fields, "patient_id", place),
        site=optional_string(fields, "site", place),
        metadata=metadata_field(fields, place),
    )


# Offsets in UTF-16 code units, in which tools written in Java and JavaScript count, and in code points, as here.

_LAST_OF_ONE_UNIT = "\uffff"


class Utf16Offsets:
    """Translates offsets into one text; a character beyond U+FFFF is two units long."""

    def __init__(self, text: str) -> None:
        self._length = len(text)
        # Most texts have no such character: then the offsets are the same.
        self._units: list[int] | None = None
        self._points: dict[int, int] = {}
        if text and max(text) > _LAST_OF_ONE_UNIT:
            self._units = [0, *accumulate(1 + (character > _LAST_OF_ONE_UNIT) for character in text)]
            self._points = {unit: point for point, unit in enumerate(self._units)}

    @property
    def differ(self) -> bool:
        """Whether the two kinds of offsets differ anywhere in the text."""
        return self._units is not None

    def to_units(self, offset: int) -> int:
        """Return an offset in code points as one in code units."""
        return offset if self._units is None else self._units[offset]

    def to_points(self, unit: int) -> int | None:
        """Return an offset in code units as one in code points; None outside the text and inside a character."""
        if self._units is None:
            return unit if 0 <= unit <= self._length else None
        return self._points.get(unit)


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
