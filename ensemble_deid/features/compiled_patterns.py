"""A cache of compiled patterns: compiling a model's takes a second, reading them a few milliseconds.

An entry belongs to a pattern file's text, the versions of Python and the library, and the code that turns the one into
regexes; it holds nothing of a note. If the cache cannot be written, or its file belongs to another user, patterns are
compiled.
"""

import base64
import hashlib
import json
import os
import stat
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import regex
from regex import _regex

from ensemble_deid.atomic import write_bytes_atomically
from ensemble_deid.parsing import strict_json

Compiled = dict[str, tuple[regex.Pattern[str], bytes]]
"""Name of a pattern -> compiled regex, and its `beginnings`."""
_CODE = ("compiled_patterns.py", "patterns.py", "pattern_starts.py", "shared_words.py", "../note/folding.py")


def cache_directory() -> Path:
    """Return the user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ensemble_deid"


def read_compiled(source: str) -> Compiled:
    """Return the cached regexes of all patterns of a file with this text; none where any is missing."""
    try:
        path = _path(source)
        status = path.stat()
        own = not hasattr(os, "geteuid") or status.st_uid == os.geteuid()
        if not own or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return {}
        digest, _, content = path.read_bytes().partition(b"\n")
        if hashlib.sha256(content).hexdigest().encode() != digest:
            return {}
        return {name: _restored(one) for name, one in strict_json(content).items()}
    except (OSError, RuntimeError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def keep_compiled(source: str, compiled: Compiled) -> None:
    """Cache compiled regexes for the text of a pattern file, if possible."""
    kept = {name: _content(*found) for name, found in compiled.items()}
    if None in kept.values():
        return
    content = json.dumps(kept).encode()
    with suppress(OSError, RuntimeError):
        path = _path(source)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_bytes_atomically(path, hashlib.sha256(content).hexdigest().encode() + b"\n" + content)


def _path(source: str) -> Path:
    code = [(Path(__file__).parent / name).read_bytes() for name in _CODE]
    versions = f"{sys.version_info[:2]} {regex.__version__}\0{source}".encode()
    named = hashlib.sha256(b"\0".join([*code, versions])).hexdigest()
    return cache_directory() / f"patterns-{named[:32]}.json"


def _content(compiled: regex.Pattern[str], begins: bytes) -> dict[str, Any] | None:
    """Return the parts of a compiled regex; None for one with named lists, which no pattern has."""
    _, all_flags, code, groups, _, lists, _, offset, required, required_flags, count = compiled._pickled_data
    if lists or not isinstance(code, bytes):
        return None
    return {
        "regex": compiled.pattern,
        "all_flags": all_flags,
        "code": base64.b64encode(code).decode(),
        "groups": groups,
        "required": [offset, list(required), required_flags],
        "count": count,
        "begins": base64.b64encode(begins).decode(),
    }


def _restored(content: Mapping[str, Any]) -> tuple[regex.Pattern[str], bytes]:
    groups = dict(content["groups"])
    offset, required, required_flags = content["required"]
    numbered = {number: name for name, number in groups.items()}
    parts = (content["regex"], content["all_flags"], base64.b64decode(content["code"]), groups, numbered)
    needs = (offset, tuple(required), required_flags, content["count"])
    # Between them: named lists, which no pattern has.
    found: regex.Pattern[str] = _regex.compile(*parts, {}, [], *needs)
    return found, base64.b64decode(content["begins"])
