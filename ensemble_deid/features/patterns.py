"""Regular expressions that find PHI, read from `rules/patterns/*.toml`: text that a person reads and edits.

A file holds `name`, `description`, and `[[pattern]]` tables: `name`, `label`, `regex`, optional `flags` (names from
`re`), optional `group` (number or name of the group that is the PHI, default 0), `positive` examples in which the
PHI stands between « and », and `negative` examples in which the pattern must find nothing. An earlier pattern wins
over a later one where their matches overlap. `confidence` is the precision, 0 to 1, of a pattern that is added to a
trained model; training measures that of the others itself. `enforce = true` lets the matches of an added pattern hold
whatever the final estimator says.

A `[words]` table names pieces that several patterns share; `(?&name)` in a regex, or in a later piece, stands for the
piece as a group of its own:

    months = ["enero", "febrero"]                      # a short list of words, escaped and tried longest first
    country = { file = "../words/es-countries.txt" }   # a longer one, in a file beside: `read_shared_words`
    surname = "[A-Z][a-z]+"                            # a piece of regex
    street = { verbose = '''...''' }                   # a long one, over several lines, with comments (re.VERBOSE)

Whether a piece is verbose is its own affair: it means the same in every regex that calls it.

A model may come from somebody else, and a regex can take time without end. Patterns are matched by the library `regex`,
which takes the syntax of `re` and can be stopped, within the time that a note's length allows.
"""

import re
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import regex

from ensemble_deid.errors import CorpusError, RuleError
from ensemble_deid.features.compiled_patterns import Compiled, keep_compiled, read_compiled
from ensemble_deid.features.pattern_starts import StartTable, beginnings
from ensemble_deid.features.shared_words import any_of, inline_word_lists
from ensemble_deid.note.document import Document
from ensemble_deid.note.folding import normalised_literals
from ensemble_deid.note.span import Span
from ensemble_deid.parsing import read_text, strict_toml

_KEYS = {"name", "label", "regex", "flags", "group", "positive", "negative", "confidence", "enforce"}
_CALL = re.compile(r"\(\?&(\w+)\)")
# An escaped character or a character class, which a verbose regex reads as it stands; or a comment.
_COMMENT = re.compile(r"(\\.|\[\^?\]?(?:\\.|[^\]\\])*\])|#[^\n]*", re.DOTALL)
FLAGS = {"IGNORECASE": regex.I, "MULTILINE": regex.M, "DOTALL": regex.S, "VERBOSE": regex.X, "ASCII": regex.A}
_LONGEST_REGEX = 1_000_000
_LONGEST_OF_ALL = 4_000_000
_SECONDS = 5.0
# The patterns of this project take some 6 microseconds a character altogether.
_SECONDS_PER_CHARACTER = 2e-4
_FRESH = 0.01
_CHARACTERS_A_START = 16


class TimeLimit:
    """So many seconds of the processor, from now on.

    Asking the system for them takes longer than matching a pattern on a short text, so they are read again only when
    the clock, which costs next to nothing, has gone on by a hundredth of a second.
    """

    def __init__(self, seconds: float) -> None:
        self._end = time.process_time() + seconds
        self._left = seconds
        self._read = time.monotonic()

    def left(self) -> float:
        """Return the seconds that are left. Raises TimeoutError when there are none."""
        now = time.monotonic()
        if now - self._read > _FRESH:
            self._left, self._read = self._end - time.process_time(), now
        if self._left <= 0:
            raise TimeoutError
        return self._left


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """One compiled pattern with its examples."""

    name: str
    label: str
    regex: regex.Pattern[str]
    group: int | str = 0
    positive: tuple[str, ...] = ()
    negative: tuple[str, ...] = ()
    confidence: float | None = None
    enforce: bool = False
    begins: bytes = field(default=b"", repr=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pattern) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self._parts())

    def _parts(self) -> tuple[object, ...]:
        # A compiled regex equals itself alone, not another one of the same text.
        written = (self.name, self.label, self.regex.pattern, self.regex.flags, self.group)
        return (*written, self.positive, self.negative, self.confidence, self.enforce)

    def matches(
        self, text: str, *, limit: TimeLimit | None = None, starts: Sequence[int] | None = None
    ) -> list[tuple[int, int]]:
        """Return the places of the PHI group of every match that has one. Raises TimeoutError at the limit.

        `starts` has every place where a match can begin; None: each place is tried.
        """
        places = []
        for match in self._found(text, limit, starts):
            start, end = match.span(self.group)
            if start < end:
                places.append((start, end))
            # The library counts the time of each match anew.
            if limit is not None:
                limit.left()
        return places

    def _found(self, text: str, limit: TimeLimit | None, starts: Sequence[int] | None) -> Iterator[regex.Match[str]]:
        # A match that is tried at a place takes as long as a search over some 16 characters.
        if starts is None or len(starts) * _CHARACTERS_A_START > len(text):
            yield from self.regex.finditer(text, timeout=None if limit is None else limit.left())
            return
        after = 0
        for start in starts:
            if start >= after:
                match = self.regex.match(text, start, timeout=None if limit is None else limit.left())
                if match is not None:
                    after = match.end()
                    yield match


@dataclass(frozen=True)
class PatternSet:
    """The patterns of one file, in order of precedence, and its text, which contains the words of its word lists."""

    name: str
    patterns: tuple[Pattern, ...]
    source: str

    @cached_property
    def starts(self) -> StartTable:
        """Where in a text the patterns can begin."""
        return StartTable([pattern.begins for pattern in self.patterns])

    @property
    def labels(self) -> frozenset[str]:
        """Labels that the set can propose."""
        return frozenset(pattern.label for pattern in self.patterns)

    def relabelled(self, new_label: Callable[[str], str | None]) -> "PatternSet":
        """Return the set with other labels, without the patterns whose label has none (None)."""
        named = ((pattern, new_label(pattern.label)) for pattern in self.patterns)
        return PatternSet(self.name, tuple(replace(p, label=label) for p, label in named if label), self.source)

    def where(self, *, enforced: bool) -> "PatternSet | None":
        """Return the set with only the patterns that are enforced, or are not; None where there are none."""
        chosen = tuple(pattern for pattern in self.patterns if pattern.enforce is enforced)
        return PatternSet(self.name, chosen, self.source) if chosen else None

    def restricted_to(self, labels: Sequence[str]) -> "PatternSet":
        """Return the set without the patterns whose label is not among `labels`."""
        wanted = set(labels)
        return PatternSet(self.name, tuple(p for p in self.patterns if p.label in wanted), self.source)


def find_all(patterns: PatternSet, document: Document) -> list[Span]:
    """Return every match of every pattern, overlapping ones too, ordered by precedence; source = pattern name.

    The document is one as it is read (`note/reading.py`). Raises CorpusError, which names the
    document and the pattern, where this takes longer than 5 seconds of the processor and 200 microseconds a character.
    """
    limit = TimeLimit(_SECONDS + _SECONDS_PER_CHARACTER * len(document.text))
    spans = []
    for pattern, starts in zip(patterns.patterns, patterns.starts.starts(document.text), strict=True):
        if starts == []:
            continue
        try:
            places = pattern.matches(document.text, limit=limit, starts=starts)
        except TimeoutError:
            raise CorpusError(f"{document.id}: the pattern {pattern.name} takes too long on this note") from None
        spans += [Span(start, end, pattern.label, 1.0, pattern.name) for start, end in places]
    return spans


def read_patterns(path: Path) -> PatternSet:
    """Read and compile a pattern file and the word lists that it names.

    Raises RuleError with the file and the pattern, or the line of the word list, at fault.
    """
    source = read_text(path, RuleError, missing="no such pattern file")
    try:
        source = inline_word_lists(source, path)
    except tomllib.TOMLDecodeError as error:
        raise RuleError(f"{path}: {error}") from None
    return parse_patterns(source, path=str(path))


def parse_patterns(source: str, *, path: str = "<patterns>", keep: bool = False) -> PatternSet:
    """Compile the text of a pattern file, which must not name word lists; `path` only appears in errors.

    With `keep` the compiled regexes are kept in the user's cache (`compiled_patterns.py`).
    """
    try:
        content = strict_toml(source)
    except tomllib.TOMLDecodeError as error:
        raise RuleError(f"{path}: {error}") from None
    tables = content.get("pattern")
    if not isinstance(tables, list) or not tables:
        raise RuleError(f"{path}: there is no [[pattern]] table")
    compiled = read_compiled(source) if keep else {}
    # An entry of the cache is whole: without `words`, a pattern that it lacks would be refused.
    is_new, length = not compiled, 0
    words = _read_words(content.get("words", {}), path) if is_new else {}
    patterns: list[Pattern] = []
    for number, table in enumerate(tables, 1):
        if not isinstance(table, dict):
            raise RuleError(f"{path}: pattern {number}: must be a table")
        place = f"{path}: pattern {number} ({table.get('name', 'unnamed')})"
        pattern = _compile(table, words, place, compiled)
        if any(other.name == pattern.name for other in patterns):
            raise RuleError(f"{place}: the name is used twice")
        patterns.append(pattern)
        length += len(pattern.regex.pattern)
        if length > _LONGEST_OF_ALL:
            raise RuleError(f"{place}: the regexes up to here are longer than {_LONGEST_OF_ALL:,} characters")
    if keep and is_new:
        keep_compiled(source, compiled)
    return PatternSet(str(content.get("name", Path(path).stem)), tuple(patterns), source)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A piece of regex that holds no more calls, and the mode in which it is written."""

    source: str
    verbose: bool

    def inside(self, *, verbose: bool) -> str:
        """Return the piece as a group of a regex that is verbose, or is not."""
        change = "" if self.verbose == verbose else "x" if self.verbose else "-x"
        return f"(?{change}:{self.source})"


def _read_words(table: object, path: str) -> dict[str, _Piece]:
    """Turn the `[words]` table into pieces."""
    if not isinstance(table, dict):
        raise RuleError(f"{path}: [words] must be a table")
    pieces: dict[str, _Piece] = {}
    for name, value in table.items():
        place = f"{path}: [words] {name}"
        match value:
            case str():
                pieces[name] = _Piece(_expand(value, pieces, place, verbose=False), verbose=False)
            case {"verbose": str(source), **others} if not others:
                pieces[name] = _Piece(_expand(source, pieces, place, verbose=True), verbose=True)
            case {"file": _}:
                raise RuleError(f"{place}: only a pattern file that is read from disk can name a word list")
            case list() if value and all(isinstance(word, str) for word in value):
                pieces[name] = _Piece(any_of(value), verbose=False)
            case _:
                raise RuleError(f"{place}: expected a list of words, the file of one, or a piece of regex")
    return pieces


def _expand(source: str, words: Mapping[str, _Piece], place: str, *, verbose: bool) -> str:
    """Put the pieces in the place of their calls."""
    if verbose:  # a comment at the end of a piece would hide the end of the group that the piece becomes
        source = _COMMENT.sub(lambda found: found[1] or "", source)
    unknown = [name for name in _CALL.findall(source) if name not in words]
    if unknown:
        raise RuleError(f"{place}: no piece {unknown[0]!r} stands in [words] before it")
    # Pieces that call others twice each would double at every step.
    if len(source) + sum(len(words[name].source) + 6 for name in _CALL.findall(source)) > _LONGEST_REGEX:
        raise RuleError(f"{place}: longer than {_LONGEST_REGEX:,} characters with its pieces in their places")
    return _CALL.sub(lambda call: words[call[1]].inside(verbose=verbose), source)


def _compile(table: dict[str, Any], words: Mapping[str, _Piece], place: str, known: Compiled) -> Pattern:
    """Return a pattern; its regex is taken from the `known` ones, or compiled and added to them."""
    unknown = sorted(set(table) - _KEYS)
    if unknown:
        raise RuleError(f"{place}: unknown key {unknown[0]!r}; known: {', '.join(sorted(_KEYS))}")
    missing = [key for key in ("name", "label", "regex") if not isinstance(table.get(key), str)]
    if missing:
        raise RuleError(f"{place}: {missing[0]!r} must be given as text")
    for key in ("flags", "positive", "negative"):
        values = table.get(key, [])
        if not (isinstance(values, list) and all(isinstance(value, str) for value in values)):
            raise RuleError(f"{place}: {key!r} must be a list of texts")
    flags = 0
    for name in table.get("flags", ()):
        if name not in FLAGS:
            raise RuleError(f"{place}: unknown flag {name!r}; known: {', '.join(FLAGS)}")
        flags |= FLAGS[name]
    try:
        if table["name"] not in known:
            source = normalised_literals(_expand(table["regex"], words, place, verbose=bool(flags & regex.X)))
            known[table["name"]] = regex.compile(source, flags), beginnings(source, flags)
        compiled, begins = known[table["name"]]
    except (regex.error, RecursionError, OverflowError) as error:
        raise RuleError(f"{place}: the regex does not compile: {error}") from None
    group = table.get("group", 0)
    if not (
        group in compiled.groupindex if isinstance(group, str) else type(group) is int and 0 <= group <= compiled.groups
    ):
        raise RuleError(f"{place}: the regex has no group {group!r}")
    confidence = table.get("confidence")
    if confidence is not None and not (type(confidence) in (int, float) and 0 <= confidence <= 1):
        raise RuleError(f"{place}: 'confidence' must be a number from 0 to 1")
    enforce = table.get("enforce", False)
    if type(enforce) is not bool:
        raise RuleError(f"{place}: 'enforce' must be true or false")
    return Pattern(
        table["name"],
        table["label"],
        regex=compiled,
        group=group,
        positive=tuple(table.get("positive", ())),
        negative=tuple(table.get("negative", ())),
        confidence=confidence,
        enforce=enforce,
        begins=begins,
    )
