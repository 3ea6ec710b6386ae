"""Compiled patterns, kept in the user's cache: compiling a model's takes a second, reading them a few milliseconds.

As with Python's own compiled modules, what is kept is derived from the source alone and belongs to one version of the
library. Nothing of a note is in it. Without a cache that can be written, or with another's file in it, patterns are
compiled.
"""

import base64
import hashlib
import json
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import regex
from regex import _regex

from ensemble_deid.atomic import write_bytes_atomically
from ensemble_deid.parsing import strict_json

Compiled = dict[tuple[str, int], regex.Pattern[str]]
"""The text of a regex, and its flags -> the regex compiled."""


def cache_directory() -> Path:
    """Return the folder for what can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ensemble_deid"


def read_compiled(source: str) -> Compiled:
    """Return the regexes that were kept for the text of a pattern file; none where there are none."""
    try:
        path = _path(source)
        status = path.stat()
        own = not hasattr(os, "geteuid") or status.st_uid == os.geteuid()
        if not own or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return {}
        digest, _, content = path.read_bytes().partition(b"\n")
        if hashlib.sha256(content).hexdigest().encode() != digest:
            return {}
        return {(one["regex"], one["flags"]): _restored(one) for one in strict_json(content)}
    except (OSError, RuntimeError, ValueError, KeyError, TypeError):
        return {}


def keep_compiled(source: str, compiled: Compiled) -> None:
    """Keep compiled regexes for the text of a pattern file, where that is possible."""
    kept = [_content(text, flags, found) for (text, flags), found in compiled.items()]
    content = json.dumps([one for one in kept if one is not None]).encode()
    with suppress(OSError, RuntimeError):
        path = _path(source)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_bytes_atomically(path, hashlib.sha256(content).hexdigest().encode() + b"\n" + content)


def _path(source: str) -> Path:
    named = hashlib.sha256(f"{regex.__version__}\0{source}".encode()).hexdigest()
    return cache_directory() / f"patterns-{named[:32]}.json"


def _content(text: str, flags: int, compiled: regex.Pattern[str]) -> dict[str, Any] | None:
    """Return what makes up a compiled regex; None for one with lists of words beside it, which no pattern has."""
    _, all_flags, code, groups, _, lists, _, offset, required, required_flags, count = compiled._pickled_data
    if lists or not isinstance(code, bytes):
        return None
    return {
        "regex": text,
        "flags": flags,
        "all_flags": all_flags,
        "code": base64.b64encode(code).decode(),
        "groups": groups,
        "required": [offset, list(required), required_flags],
        "count": count,
    }


def _restored(content: Mapping[str, Any]) -> regex.Pattern[str]:
    groups = dict(content["groups"])
    offset, required, required_flags = content["required"]
    numbered = {number: name for name, number in groups.items()}
    code = base64.b64decode(content["code"])
    parts: tuple[Any, ...] = (
        content["regex"],
        content["all_flags"],
        code,
        groups,
        numbered,
        {},
        [],
        offset,
        tuple(required),
    )
    found: regex.Pattern[str] = _regex.compile(*parts, required_flags, content["count"])
    return found
