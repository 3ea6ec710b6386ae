"""Answers of trained systems kept in files, so that a broken experiment goes on where it stopped and never mixes two.

A file has what the answer was made from (settings, fingerprints of the notes, versions) and the spans with their
scores, as offsets: no text of notes. The same command goes on by itself. (`run_folder.py` is for experiments whose
parts belong to one run, which is begun once and continued on request.)
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from ensemble_deid.atomic import write_text_atomically
from ensemble_deid.errors import ConfigError, CorpusError
from ensemble_deid.evaluation.curve import keep_above
from ensemble_deid.model.ensemble import Ensemble
from ensemble_deid.model.options import PredictionOptions
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span

Documents = tuple[Document, ...]
Parsed = TypeVar("Parsed")
_KINDS = {"config": "settings", "packages": "versions of libraries"}


@dataclass(frozen=True, slots=True)
class ScoredAnswer:
    """All that a system gives a score, and the threshold that it works with as it is."""

    scored: Documents = field(repr=False)
    threshold: float

    @classmethod
    def of(cls, ensemble: Ensemble, documents: Sequence[Document]) -> "ScoredAnswer":
        """Let a model annotate the texts of notes."""
        spans = ensemble.predict(documents, PredictionOptions(threshold=0.0))
        scored = tuple(document.with_spans(found) for document, found in zip(documents, spans, strict=True))
        return cls(scored, ensemble.stacker.threshold)

    @property
    def answer(self) -> Documents:
        """The notes with what the system keeps as it is."""
        return keep_above(self.scored, self.threshold)


def read_answer(path: Path, origin: Mapping[str, Any], documents: Sequence[Document]) -> ScoredAnswer | None:
    """Return a stored answer for these notes; None where there is none yet.

    Raises ConfigError where it was made from other notes or settings, CorpusError where the file is damaged.
    """

    def parse(content: Mapping[str, Any]) -> ScoredAnswer:
        return ScoredAnswer(stored_spans(content, documents), float(content["threshold"]))

    return read_stored(path, origin, parse)


def stored_spans(content: Mapping[str, Any], documents: Sequence[Document]) -> Documents:
    """Return the notes with the spans that a file has for them; ValueError, KeyError or TypeError where it has none."""
    spans = content["spans"]
    return tuple(document.with_spans(Span(*values) for values in spans[document.id]) for document in documents)


def read_stored(path: Path, origin: Mapping[str, Any], parse: Callable[[Mapping[str, Any]], Parsed]) -> Parsed | None:
    """Return what `parse` makes of a file's content, None where there is no file yet.

    Raises ConfigError where its `origin` is another, CorpusError where it is damaged.
    """
    if not path.exists():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        found = content["origin"]
        if found != origin:
            differing = sorted(key for key in origin if not isinstance(found, dict) or found.get(key) != origin[key])
            made_from = ", ".join(_KINDS.get(key, key) for key in differing) or "something else"
            raise ConfigError(f"{path}: made from other {made_from}; give another folder as --out")
        return parse(content)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise CorpusError(f"{path}: damaged; delete it, and it is made again") from None


def stored_answer(
    path: Path, origin: Mapping[str, Any], documents: Sequence[Document], make: Callable[[], ScoredAnswer]
) -> ScoredAnswer:
    """Return the stored answer, made and stored now where there is none yet; errors are those of `read_answer`."""
    found = read_answer(path, origin, documents)
    if found is None:
        found = make()
        spans = {
            document.id: [[span.start, span.end, span.label, span.score] for span in document.spans]
            for document in found.scored
        }
        content = {"origin": origin, "threshold": found.threshold, "spans": spans}
        write_text_atomically(path, json.dumps(content) + "\n")
    return found
