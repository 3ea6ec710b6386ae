"""Where the spans of another system in the stack come from: a file or a recognizer, named where a model is used."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from ensemble_deid.corpora.checks import decode_utf8
from ensemble_deid.corpora.json_fields import list_field, object_of, parse_json, string_field
from ensemble_deid.corpora.jsonl import lines_of, span_of_json
from ensemble_deid.corpora.records import digest_of
from ensemble_deid.deidentify.recognizers import GROUP, Recognizer, check_recorded
from ensemble_deid.errors import ConfigError, CorpusError
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.submodels import check_member_name
from ensemble_deid.taggers.given import Members, SpanSource

_RECOGNIZER = "recognizer:"
_GROUPS = ("ensemble_deid.submodels", GROUP)
"""The entry points of installed systems: members by their own names, and recognizers."""


@dataclass(frozen=True, slots=True)
class SpansOfNotes:
    """A file of JSON Lines with the `spans` of notes, known by their `id`; a `text` must be that of the note."""

    path: Path
    sha256: str

    def spans(self, document: Document) -> tuple[Span, ...]:
        """Return the spans of the line with a note's id. Raises CorpusError for none, and for one of another text."""
        place, entry = _lines(self.path, self.sha256).get(document.id, ("", None))
        if entry is None:
            raise CorpusError(f"{self.path}: has no line with the id {document.id}")
        if entry.get("text", document.text) != document.text:
            raise CorpusError(f"{place}: its text is not that of the note {document.id}")
        spans = list_field(entry, "spans", place)
        return tuple(span_of_json(item, document.text, f"{place}: span {i}") for i, item in enumerate(spans))

    def to_json(self) -> dict[str, str | None]:
        return {"file": self.path.name, "sha256": self.sha256}


@dataclass(frozen=True, slots=True)
class SpansOfRecognizer:
    """A recognizer by its name, `module:function` or that of an installed one."""

    name: str
    digest: str = field(compare=False)

    def spans(self, document: Document) -> tuple[Span, ...]:
        """Return what the recognizer finds, overlapping spans too. Raises CorpusError where it fails."""
        return tuple(sorted(_recognizer(self.name).found(document.text)))

    def to_json(self) -> dict[str, str | None]:
        return {"recognizer": self.name, "version": self.digest}


@lru_cache(maxsize=8)
def _recognizer(name: str) -> Recognizer:
    return Recognizer.of(name, groups=_GROUPS)


@lru_cache(maxsize=8)
def _lines(path: Path, sha256: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return place and content of each line, by the note's id. Raises CorpusError."""
    if digest_of(path) != sha256:
        raise CorpusError(f"{path}: was changed while it was in use")
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for line, place in lines_of(path):
        entry = object_of(parse_json(decode_utf8(line, place), place), place)
        identity = string_field(entry, "id", place)
        if identity in found:
            raise CorpusError(f"{place}: another line has the id {identity}")
        if "spans" not in entry:
            raise CorpusError(f"{place}: has no 'spans'")
        found[identity] = place, entry
    return found


def member_sources(members: Mapping[str, str | Path]) -> Members:
    """Return the sources of members by name: a file of spans, or `recognizer:NAME`.

    Raises ConfigError for an invalid name, a missing file, or a recognizer that cannot be imported, and CorpusError for
    a file that cannot be read.
    """
    return tuple((name, _source(name, given)) for name, given in sorted(members.items()))


def _source(name: str, given: str | Path) -> SpanSource:
    check_member_name(name)
    if isinstance(given, str) and given.startswith(_RECOGNIZER):
        found = _recognizer(given.removeprefix(_RECOGNIZER))
        digest = found.version or found.sha256 or ""
        check_recorded(digest, f"member {name}")
        return SpansOfRecognizer(given.removeprefix(_RECOGNIZER), digest)
    path = Path(given).absolute()
    if not path.is_file():
        raise ConfigError(f"member {name}: there is no file {given}")
    source = SpansOfNotes(path, digest_of(path))
    # A file that cannot be read is found now, not at the first note.
    _lines(source.path, source.sha256)
    return source


def parse_members(entries: Sequence[str]) -> dict[str, str]:
    """Return the members of `NAME=...` options; a bare name means an installed system. Raises ConfigError."""
    found: dict[str, str] = {}
    for entry in entries:
        name, sign, given = entry.partition("=")
        if bool(sign) != bool(given) or not name or name in found:
            raise ConfigError(f"--member {entry}: expected NAME=FILE.jsonl, NAME=recognizer:NAME or NAME, each once")
        found[name] = given or f"{_RECOGNIZER}{name}"
    return found


def files_of_members(members: Mapping[str, str | Path]) -> list[Path]:
    """Return the files that members name, which no output may replace."""
    return [Path(given) for given in members.values() if not str(given).startswith(_RECOGNIZER)]
