"""Recognizers of others: any callable from a text to spans, or a file of spans, enforced or as one opinion more.

They are named in a run's options, never in a model's folder or a policy, so that loading those imports no code.
"""

import hashlib
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from operator import index
from pathlib import Path
from typing import Any

from ensemble_deid.corpora.jsonl import read_jsonl_notes
from ensemble_deid.corpora.records import digest_of
from ensemble_deid.deidentify.prediction import Note
from ensemble_deid.errors import ConfigError, CorpusError, DeidError
from ensemble_deid.note.labels import NEW_LABEL, is_label
from ensemble_deid.note.overlaps import overlapping_pairs
from ensemble_deid.note.rtf import DATA, rtf_data
from ensemble_deid.note.span import ENFORCED, VOTE, Span

GROUP = "ensemble_deid.recognizers"
"""The entry points of installed recognizers."""
Finding = Span | tuple[int, int, str] | tuple[int, int, str, float]
Finder = Callable[[str], Iterable[Finding]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recognizer:
    """Something that finds spans in a text, by a name under which a run records it.

    Its spans are enforced: they are removed whatever the model and the allow list say. With `least` they are votes:
    those with at least this score count like spans of the model, the others are dropped. `labels` are labels of its own
    for which a style may be given. `sha256` (of its source file) or `version` says which one it is: what is recorded,
    as runs and projects are, needs one of them.

    >>> import re
    >>> from ensemble_deid import Deidentifier, Recognizer
    >>> def badges(text):
    ...     return [(*match.span(), "BADGE") for match in re.finditer("UPX-[0-9]+", text)]
    >>> model = Deidentifier.load("model")
    >>> model.deidentify("Badge UPX-55555", recognizers=[Recognizer.of(badges)]).text
    'Badge [BADGE]'
    """

    name: str
    find: Finder = field(repr=False)
    least: float | None = None
    labels: frozenset[str] = frozenset()
    version: str = ""
    sha256: str | None = None

    def __post_init__(self) -> None:
        if self.least is not None and not 0 <= self.least <= 1:
            raise ConfigError(f"recognizer {self.name}: the least score of a vote is from 0 to 1, not {self.least}")
        for label in self.labels:
            if not is_label(label):
                raise ConfigError(f"recognizer {self.name}: a label may hold {NEW_LABEL}")

    @classmethod
    def of(
        cls, given: "Recognizer | Finder | str", *, least: float | None = None, groups: Sequence[str] = (GROUP,)
    ) -> "Recognizer":
        """Return a recognizer for a callable, for `module:function`, or for the name of an installed one.

        In a name, `@0.7` at its end is the least score of a vote. Attributes `labels` and `version` of the callable
        become those of the recognizer. Raises ConfigError for what cannot be imported or called.
        """
        if isinstance(given, Recognizer):
            return given if least is None else replace(given, least=least)
        if not isinstance(given, str):
            return cls._of_callable(given, name_of(given), least=least)
        name, least = _with_score(given, least)
        point = next((point for group in groups for point in entry_points(group=group, name=name)), None)
        if point is None and ":" not in name:
            known = sorted({found for group in groups for found in entry_points(group=group).names})
            listed = ", ".join(known) or "none"
            raise ConfigError(f"recognizer {name}: name module:function, or an installed one: {listed}")
        point = point or EntryPoint(name, name, GROUP)
        version = "" if point.dist is None else f"{point.dist.name} {point.dist.version}"
        found = loaded(point, f"recognizer {name}")
        return cls._of_callable(found, name, least=least, version=version, module=point.module)

    @classmethod
    def _of_callable(
        cls, find: Finder, name: str, *, least: float | None, version: str = "", module: str = ""
    ) -> "Recognizer":
        if not callable(find):
            raise ConfigError(f"recognizer {name}: cannot be called")
        labels = frozenset(getattr(find, "labels", ()))
        version, sha256 = version or str(getattr(find, "version", "")), source_digest(find, module=module)
        return cls(name=name, find=find, least=least, labels=labels, version=version, sha256=sha256)

    @classmethod
    def from_file(cls, path: str | Path) -> "Recognizer":
        """Return one that knows the spans of notes from a JSONL file, as `predict --format jsonl` writes it.

        A note is known by its text; one that the file does not hold is withheld. `FILE@0.7` as in `of`. Raises
        CorpusError, which names file and line, also for two lines with one text and different spans.
        """
        least = None
        if not Path(path).is_file():
            name, least = _with_score(str(path), None)
            path = Path(name)
        known: dict[bytes, tuple[Span, ...]] = {}
        for place, note in read_jsonl_notes(Path(path)):
            if isinstance(note, CorpusError):
                raise note
            document = note.document
            if not all(is_label(span.label) for span in document.spans):
                raise CorpusError(f"{path}: {place}: a label may hold {NEW_LABEL}")
            if known.setdefault(_digest(document.text), document.spans) != document.spans:
                raise CorpusError(f"{path}: {place}: another line has the same text, and other spans")
        labels = frozenset(span.label for spans in known.values() for span in spans)
        path = Path(path)
        return cls(name=path.name, find=_SpansOfFile(known), least=least, labels=labels, sha256=digest_of(path))

    @property
    def is_file(self) -> bool:
        """Whether it is a file of spans, which says nothing of notes that it does not hold."""
        return isinstance(self.find, _SpansOfFile)

    def spans_of_file(self, text: str) -> tuple[Span, ...] | None:
        """Return what a file of spans says of a text; None where it has no line with this text."""
        known = self.find.known.get(_digest(text)) if isinstance(self.find, _SpansOfFile) else None
        return known and tuple(span for span in known if self.least is None or span.score >= self.least)

    def to_json(self) -> dict[str, str | float | None]:
        """Return what a run records of it. Raises ConfigError where nothing would show that it changed."""
        check_recorded(self.version or self.sha256, f"recognizer {self.name}")
        return {"name": self.name, "least": self.least, "version": self.version, "sha256": self.sha256}

    def spans(self, text: str) -> list[Span]:
        """Return the spans in a text, which do not overlap. Raises CorpusError as `found` does."""
        found = self.found(text)
        if overlapping_pairs(found):
            raise CorpusError(f"recognizer {self.name}: two of its spans overlap")
        return sorted(span for span in found if self.least is None or span.score >= self.least)

    def found(self, text: str) -> set[Span]:
        """Return every span in a text. Raises CorpusError, which quotes nothing, for whatever goes wrong."""
        try:
            return {self._span(finding, text) for finding in self.find(text)}
        except DeidError as error:
            raise CorpusError(f"recognizer {self.name}: {error}") from None
        except Exception as error:  # noqa: BLE001 (whatever happens, the note is withheld; the message may quote it)
            raise CorpusError(f"recognizer {self.name}: failed ({type(error).__name__})") from None

    def _span(self, finding: Finding, text: str) -> Span:
        # Whatever a callable of others returns.
        given: Any = finding
        if isinstance(finding, Span):
            given = finding.start, finding.end, finding.label, finding.score
        start, end, label, score = (*given, 1.0)[:4]
        start, end = index(start), index(end)
        if not 0 <= start < end <= len(text):
            raise CorpusError(f"a span {start}-{end} does not lie inside the text of {len(text)} characters")
        if not isinstance(label, str) or not is_label(label):
            raise CorpusError(f"a label may hold {NEW_LABEL}")
        return Span(start, end, label, float(score), (ENFORCED if self.least is None else VOTE) + self.name)


@dataclass(frozen=True, slots=True)
class _SpansOfFile:
    known: Mapping[bytes, tuple[Span, ...]] = field(repr=False)

    def __call__(self, text: str) -> tuple[Span, ...]:
        spans = self.known.get(_digest(text))
        if spans is None:
            raise CorpusError("the file has no line with the text of this note")
        return spans


def recognised(note: Note, recognizers: Sequence[Recognizer]) -> Note:
    """Return a note with data in RTF and spans of recognizers after those that it has, or why it is withheld."""
    if isinstance(note, DeidError):
        return note
    data = [Span(start, end, DATA, 1.0, ENFORCED + DATA) for start, end, _ in rtf_data(note.text)]
    if not recognizers and not data:
        return note
    try:
        found = [span for recognizer in recognizers for span in recognizer.spans(note.text)]
    except CorpusError as error:
        return CorpusError(f"{note.id}: {error}")
    return note.with_spans((*note.spans, *data, *found))


def loaded(point: EntryPoint, place: str) -> Any:
    """Import the callable that an entry point names. Raises ConfigError, which begins with `place`."""
    module, _, attributes = point.value.partition(":")
    try:
        found: Any = import_module(module)
        for name in attributes.split("."):
            found = getattr(found, name)
    except Exception as error:  # noqa: BLE001 (a module of others may raise anything)
        why = f"{type(error).__name__}; is its folder in PYTHONPATH?" if isinstance(error, ImportError) else error
        raise ConfigError(f"{place}: cannot be imported ({why})") from None
    if not callable(found):
        raise ConfigError(f"{place}: cannot be called")
    return found


def source_digest(function: object, *, module: str = "") -> str | None:
    """Return the SHA-256 of the file that defines a callable by name, or else of `module`.

    None, without a `module`, for a partial, a lambda, a local function or an object with state, which can change alone.
    """
    own = str(getattr(function, "__module__", ""))
    found: Any = sys.modules.get(own)
    for name in getattr(function, "__qualname__", "").split("."):
        found = getattr(found, name, None)
    is_own = found is function or (inspect.ismethod(found) and found == function)
    path = getattr(sys.modules.get(own if is_own else module), "__file__", None)
    return digest_of(Path(path)) if path is not None and Path(path).is_file() else None


def check_recorded(version: str | None, place: str) -> None:
    """Raise ConfigError where a callable has neither a digest nor a version."""
    if not version:
        raise ConfigError(
            f"{place}: a run could not tell when it changes: use a function of a module, or set its attribute `version`"
        )


def name_of(function: object) -> str:
    """Return `module:name` of a callable."""
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{getattr(named, '__module__', '')}:{getattr(named, '__qualname__', '')}"


def _with_score(given: str, least: float | None) -> tuple[str, float | None]:
    name, at, score = given.rpartition("@")
    if not at:
        return given, least
    try:
        return name, float(score)
    except ValueError:
        raise ConfigError(f"{given}: after @ comes the least score of a vote, from 0 to 1") from None


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
