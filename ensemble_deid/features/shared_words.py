"""Word lists beside pattern files, and the regex that matches any of some words."""

import json
import re
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

from ensemble_deid.errors import RuleError
from ensemble_deid.parsing import read_text, strict_toml

_HEAD = "# source: "


def read_shared_words(path: Path) -> tuple[str, ...]:
    """Return the entries of a word list file. Raises RuleError with the file and the line at fault.

    The file is UTF-8 text. Its first line, `# source: ...`, says what the list is and where it comes from; each further
    line is one entry, sorted by code point and without repetition, so that a change shows as the lines it adds or
    deletes.
    """
    text = read_text(path, RuleError, missing="no such word list")
    head, *entries = text.removesuffix("\n").split("\n")
    if not head.removeprefix(_HEAD).strip() or not head.startswith(_HEAD):
        raise RuleError(f"{path}:1: expected '{_HEAD}...', what the list is and where it comes from")
    if not entries:
        raise RuleError(f"{path}: the list has no entries")
    for number, entry in enumerate(entries, 2):
        problem = _what_is_wrong(entry)
        if problem:
            raise RuleError(f"{path}:{number}: {problem}")
    for number, (before, entry) in enumerate(pairwise(entries), 3):
        if entry == before:
            raise RuleError(f"{path}:{number}: the entry repeats the line before it")
        if entry < before:
            raise RuleError(f"{path}:{number}: not sorted by code point: the entry belongs before line {number - 1}")
    return tuple(entries)


def _what_is_wrong(entry: str) -> str:
    """Return what is wrong with one line by itself; nothing for a sound entry."""
    if not entry.strip():
        return "the line is blank"
    if entry != entry.strip():
        return "the entry begins or ends with white space"
    if entry.startswith("#"):
        return "only the first line can be a comment"
    if not entry.isprintable():
        return "the entry contains a character that cannot be seen"
    return ""


def inline_word_lists(source: str, path: Path) -> str:
    """Return the text of the pattern file `path` with the words themselves where `[words]` names a file.

    The result can be read without the list files, and is what a model keeps. Raises RuleError as `read_word_list` does,
    and where the entry cannot be replaced because it spans several lines.
    """
    words = strict_toml(source).get("words", {})
    if not isinstance(words, dict):
        raise RuleError(f"{path}: [words] must be a table")
    named = {name: value for name, value in words.items() if isinstance(value, dict) and "file" in value}
    lists: dict[str, list[str]] = {}
    for name, value in named.items():
        if set(value) != {"file"} or not isinstance(value["file"], str):
            raise RuleError(f'{path}: [words] {name}: a word list is named by {{ file = "..." }} and nothing else')
        lists[name] = list(read_shared_words(path.parent / value["file"]))
        line = re.compile(rf"^{re.escape(name)}[ \t]*=[ \t]*\{{[^{{}}\n]*\}}", re.MULTILINE)
        # An array of strings is written alike in JSON and TOML.
        array = f"{name} = {json.dumps(lists[name], ensure_ascii=False)}"
        source = line.sub(array.replace("\\", r"\\"), source, count=1)
    found = strict_toml(source).get("words", {})
    for name, entries in lists.items():
        if found[name] != entries:
            raise RuleError(f'{path}: [words] {name}: must stand on one line, as {name} = {{ file = "..." }}')
    return source


def any_of(words: Sequence[str]) -> str:
    """Return a regex that matches any of the words, the longest first, as a tree of their common beginnings.

    Python's `re` tries the branches of an alternative one by one; in a tree it looks at each letter once. The regex
    means the same with and without VERBOSE.
    """
    return _tree(sorted(set(words)))


def _tree(words: Sequence[str]) -> str:
    rest_of: dict[str, list[str]] = {}
    for word in words:
        rest_of.setdefault(word[:1], []).append(word[1:])
    can_end = rest_of.pop("", None) is not None
    branches = [_escaped(letter) + _tree(rests) for letter, rests in rest_of.items()]
    if not branches:
        return ""
    if len(branches) == 1 and not can_end:
        return branches[0]
    return f"(?:{'|'.join(branches)})" + ("?" if can_end else "")


@cache
def _escaped(letter: str) -> str:
    return re.escape(letter)
