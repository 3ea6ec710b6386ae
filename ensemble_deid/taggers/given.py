"""Another system as a member of the stack: its spans are given with the notes (`Document.given`), not computed.

Its labels need not be the corpus's. A label of its own becomes those labels that its spans overlap in training notes:
the commonest is the member's answer, the others are alternatives with less confidence.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from ensemble_deid.errors import ConfigError, CorpusError, ModelError
from ensemble_deid.features.batch import Batch
from ensemble_deid.note.document import Document
from ensemble_deid.note.overlaps import drop_overlaps
from ensemble_deid.note.span import Span
from ensemble_deid.parsing import strict_json
from ensemble_deid.taggers.base import Proposals

_LEAST_SHARE = 0.1
"""Of the annotated spans that those of a label overlap, the least share that makes a corpus label one of its own."""


class SpanSource(Protocol):
    """Where a member's spans come from: hashable, and small enough to be sent to other processes."""

    def spans(self, document: Document) -> tuple[Span, ...]:
        """Return the member's spans in a note as written. Raises CorpusError where it says nothing of the note."""
        ...

    def to_json(self) -> dict[str, str | None]:
        """Return what a model or a run records of it."""
        ...


Members = tuple[tuple[str, SpanSource], ...]
"""The sources of the members' spans, by their names."""


def with_given(document: Document, members: Members) -> Document:
    """Return a note as written with the spans of the members. Raises CorpusError where one says nothing of it."""
    return replace(document, given={name: source.spans(document) for name, source in members}) if members else document


def all_with_given(documents: Sequence[Document], members: Members) -> list[Document]:
    """Return notes to train on with the spans of the members. Raises CorpusError, once for all notes that lack them."""
    found, problems = [], []
    for document in documents:
        try:
            found.append(with_given(document, members))
        except CorpusError as error:
            problems.append(str(error))
    if problems:
        raise CorpusError(f"{problems[0]} ({len(problems)} of {len(documents)} notes have no spans of a member)")
    return found


@dataclass(frozen=True, slots=True)
class GivenTagger:
    """A member; `labels` has for each label of its spans the shares of the corpus's labels, the largest first."""

    name: str
    labels: Mapping[str, Mapping[str, float]]

    @classmethod
    def fit(cls, name: str, train: Batch, *, labels: Iterable[str]) -> "GivenTagger":
        """Learn what the member's labels are called in the notes; a label of the corpus is called what it is."""
        known = set(labels)
        counts: dict[str, Counter[str]] = {}
        for document in train.documents:
            for span in _given(document, name):
                count = counts.setdefault(span.label, Counter())
                count.update(gold.label for gold in document.spans if gold.overlaps(span))
        shares = {
            own: {own: 1.0} if own in known else _shares({k: n for k, n in count.items() if k in known})
            for own, count in counts.items()
        }
        return cls(name, {**{label: {label: 1.0} for label in sorted(known)}, **dict(sorted(shares.items()))})

    def propose(self, batch: Batch, *, n_best: int) -> Proposals:
        """Return the given spans. Raises ConfigError where a note has none given, not even an empty list of them."""
        best, candidates = [], []
        for document in batch.documents:
            answer: list[Span] = []
            others: list[Span] = []
            for span in _given(document, self.name):
                if document.text[span.start : span.end].isspace():
                    continue
                shares = self.labels.get(span.label, {})
                for rank, (label, share) in enumerate(shares.items()):
                    score = span.score * share / max(shares.values())
                    (others if rank else answer).append(Span(span.start, span.end, label, score, self.name))
            best.append(drop_overlaps(answer))
            candidates.append((*answer, *others))
        return Proposals(tuple(best), tuple(candidates))

    def save(self, directory: Path) -> None:
        content = json.dumps(self.labels, ensure_ascii=False, indent=1)
        (directory / _file(self.name)).write_text(content + "\n", encoding="utf-8")

    @classmethod
    def load(cls, name: str, directory: Path, *, labels: Iterable[str]) -> "GivenTagger":
        """Read what `save` wrote. Raises ModelError where it is damaged."""
        path, known = directory / _file(name), set(labels)
        try:
            content = strict_json(path.read_text(encoding="utf-8"))
            found = {own: {label: float(share) for label, share in shares.items()} for own, shares in content.items()}
            if not all(set(shares) <= known and all(0 < s <= 1 for s in shares.values()) for shares in found.values()):
                raise ValueError("labels that the model does not have")
        except (ValueError, TypeError, AttributeError):
            raise ModelError(f"{path}: damaged") from None
        return cls(name, found)


def _file(name: str) -> str:
    return f"member_{name}.json"


def _given(document: Document, name: str) -> tuple[Span, ...]:
    if name not in document.given:
        raise ConfigError(
            f"the model was trained with the member {name}, whose spans must be given: --member {name}=..."
        )
    return document.given[name]


def _shares(counts: Mapping[str, int]) -> dict[str, float]:
    total = sum(counts.values())
    ranked = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    return {label: count / total for label, count in ranked if count >= _LEAST_SHARE * total}
