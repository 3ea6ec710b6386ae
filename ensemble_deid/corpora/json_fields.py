"""Values of a parsed JSON object, checked: what is missing or of another type is an error that names the place."""

import json
from typing import Any

from ensemble_deid.corpora.checks import check_text
from ensemble_deid.errors import CorpusError


def parse_json(content: str, place: str) -> Any:
    """Return what the JSON says; CorpusError which says where it is broken."""
    try:
        return json.loads(content)
    except json.JSONDecodeError as error:
        where = f"column {error.colno}" if error.lineno == 1 else f"line {error.lineno}, column {error.colno}"
        raise CorpusError(f"{place}: broken JSON at {where}: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise CorpusError(f"{place}: broken JSON ({type(error).__name__})") from None


def kind_of(value: object) -> str:
    """Return what kind of value this is, as messages say it."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def object_of(value: object, place: str) -> dict[str, Any]:
    """Return the value if it is an object, else raise CorpusError."""
    if not isinstance(value, dict):
        raise CorpusError(f"{place}: expected an object, not {kind_of(value)}")
    return value


def list_field(entry: dict[str, Any], key: str, place: str) -> list[Any]:
    """Return a list, empty where it is missing or null; CorpusError if it is something else."""
    value = entry.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise CorpusError(f"{place}: '{key}' must be a list, not {kind_of(value)}")
    return value


def string_field(entry: dict[str, Any], key: str, place: str) -> str:
    """Return a string that a note can hold; CorpusError if it is missing, something else, or holds NUL."""
    value = entry.get(key)
    if not isinstance(value, str):
        raise CorpusError(f"{place}: '{key}' must be a string, not {kind_of(value) if key in entry else 'missing'}")
    check_text(value, f"{place}: '{key}'")
    return value


def optional_string(entry: dict[str, Any], key: str, place: str) -> str | None:
    """Return a string, or None where it is missing or null."""
    return None if entry.get(key) is None else string_field(entry, key, place)


def integer_field(entry: dict[str, Any], key: str, place: str) -> int:
    """Return an integer; CorpusError if it is missing or something else."""
    value = entry.get(key)
    if type(value) is not int:
        raise CorpusError(f"{place}: '{key}' must be an integer, not {kind_of(value) if key in entry else 'missing'}")
    return value


def metadata_field(entry: dict[str, Any], place: str) -> dict[str, str]:
    """Return the object `metadata`, whose values are strings; empty where it is missing or null."""
    metadata = {} if entry.get("metadata") is None else entry["metadata"]
    if not isinstance(metadata, dict):
        raise CorpusError(f"{place}: 'metadata' must be an object, not {kind_of(metadata)}")
    for number, (key, value) in enumerate(metadata.items(), start=1):
        # Neither is quoted: a key, too, may be anything.
        if not isinstance(value, str):
            raise CorpusError(f"{place}: value {number} of 'metadata' must be a string, not {kind_of(value)}")
        check_text(key, f"{place}: key {number} of 'metadata'")
        check_text(value, f"{place}: value {number} of 'metadata'")
    return dict(metadata)
