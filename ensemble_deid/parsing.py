"""Text, JSON and TOML from outside: strict, and bounded in time and depth. No error quotes a value."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from ensemble_deid.errors import DeidError

_MOST_PARTS = 50
_PART = r"""(?:[A-Za-z0-9_-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+"""
# The standard library takes a minute and a half for a key of 60,000 parts.
_LONG_KEY = re.compile(rf"(?<![A-Za-z0-9_-])(?:{_PART}\.[ \t]*+){{{_MOST_PARTS}}}")


def read_text(path: Path, error: type[DeidError], *, missing: str = "") -> str:
    """Return the text of a UTF-8 file. Raises `error` with the path; `missing` is its message where there is none."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as cause:
        gone = missing and isinstance(cause, FileNotFoundError)
        raise error(f"{path}: {missing if gone else f'cannot be read ({cause.strerror})'}") from None
    except UnicodeDecodeError as cause:
        raise error(f"{path}: not UTF-8 at byte {cause.start}") from None


def read_toml(path: Path, error: type[DeidError], *, missing: str = "") -> dict[str, Any]:
    """Return what a TOML file says; errors as those of `read_text`."""
    try:
        return strict_toml(read_text(path, error, missing=missing))
    except tomllib.TOMLDecodeError as cause:
        raise error(f"{path}: cannot be read as TOML: {cause}") from None


def strict_json(content: str | bytes) -> Any:
    """Return what the JSON says.

    Raises ValueError (JSONDecodeError where it is broken) for repeated keys, NaN and infinity, and too deep nesting.
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
    """Return what the TOML says. Raises tomllib.TOMLDecodeError, also for values nested too deeply or too large."""
    if _LONG_KEY.search(content):
        raise tomllib.TOMLDecodeError(f"a key has more than {_MOST_PARTS} parts")
    try:
        return tomllib.loads(content)
    except RecursionError:
        raise tomllib.TOMLDecodeError("values are nested too deeply") from None
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:
        # An integer of thousands of digits.
        raise tomllib.TOMLDecodeError("a value is out of range") from None
