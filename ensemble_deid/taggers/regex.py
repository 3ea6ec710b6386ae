"""The regex submodel: the pattern matches by themselves (Zhao et al. 2020, table 1)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from ensemble_deid.config import RegexConfig
from ensemble_deid.features.batch import Batch
from ensemble_deid.note.overlaps import drop_overlaps
from ensemble_deid.note.tags import TagScheme
from ensemble_deid.taggers.base import FitOptions, Proposals
from ensemble_deid.taggers.confidence import SourceConfidence

FILE = "regex.json"


@dataclass(frozen=True, slots=True)
class RegexTagger:
    """Proposes the batch's pattern matches, each scored with its pattern's precision on the training notes.

    Matches of patterns that were added after training come with a confidence of their own.
    """

    confidence: SourceConfidence

    @classmethod
    def fit(cls, train: Batch, dev: Batch | None, options: FitOptions) -> Self:
        """Measure the precision of each pattern; nothing else is learned."""
        return cls(SourceConfidence.measured(train.initial, (document.spans for document in train.documents)))

    def propose(self, batch: Batch, *, n_best: int) -> Proposals:
        """Return the matches that no earlier pattern overlaps; patterns offer no alternatives.

        Matches of added patterns are candidates, too. Where they overlap others, the highest-scoring is predicted.
        """
        trained = tuple(self.confidence.scored(spans) for spans in batch.initial)
        if not batch.added:
            return Proposals(trained, trained)
        candidates = tuple((*old, *new) for old, new in zip(trained, batch.added, strict=True))
        return Proposals(tuple(map(drop_overlaps, candidates)), candidates)

    def save(self, directory: Path) -> None:
        """Write the patterns' counts; the patterns themselves are stored with the model as text."""
        (directory / FILE).write_text(self.confidence.to_json(), encoding="utf-8")

    @classmethod
    def load(cls, directory: Path, *, scheme: TagScheme, config: RegexConfig, device: str) -> Self:
        return cls(SourceConfidence.from_json((directory / FILE).read_bytes()))
