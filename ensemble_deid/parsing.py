"""JSON and TOML from outside: strict, and bounded in time and depth. No error quotes a value."""

import json
import re
import tomllib
from typing import Any

_MOST_PARTS = 50
_PART = r"""(?:[A-Za-z0-9_-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+"""
# The standard library takes a minute and a half for a key of 60,000 parts.
_LONG_KEY = re.compile(rf"(?<![A-Za-z0-9_-])(?:{_PART}\.[ \t]*+){{{_MOST_PARTS}}}")


def strict_json(content: str | bytes) -> Any:
    """Return what the JSON says.

    Raises ValueError (`json.JSONDecodeError` where it is broken) for a key that occurs twice, for NaN and infinity,
    and for values that are nested too deeply.
    """
    try:
        return json.loads(content, object_pairs_hook=_object, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("values are nested too deeply") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} is not UTF-8") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key occurs twice in one object")
    return found


def _refuse_constant(_: str) -> None:
    raise ValueError("NaN and infinity are not JSON")


def strict_toml(content: str) -> dict[str, Any]:
    """Return what the TOML says. Raises tomllib.TOMLDecodeError, also for what is nested too deeply."""
    if _LONG_KEY.search(content):
        raise tomllib.TOMLDecodeError(f"a key has more than {_MOST_PARTS} parts")
    try:
        return tomllib.loads(content)
    except RecursionError:
        raise tomllib.TOMLDecodeError("values are nested too deeply") from None
