"""The initial-state tagger: regular expressions alone (Zhao et al. 2020, table 1)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from ensemble_deid.config import Config
from ensemble_deid.features.batch import Batch
from ensemble_deid.taggers.base import Progress, Proposals
from ensemble_deid.taggers.confidence import SourceConfidence
from ensemble_deid.text.tags import TagScheme

FILE = "regex.json"


@dataclass(frozen=True, slots=True)
class RegexTagger:
    """The batch's pattern matches, each with the precision that its pattern has on the training notes."""

    confidence: SourceConfidence

    @classmethod
    def fit(cls, train: Batch, dev: Batch | None, *, scheme: TagScheme, config: Config, progress: Progress) -> Self:
        """Measure the patterns; nothing else is learned."""
        return cls(SourceConfidence.measured(train.initial, (document.spans for document in train.documents)))

    def propose(self, batch: Batch, *, n_best: int) -> Proposals:
        """Return the winning matches; a pattern has no second best."""
        best = tuple(self.confidence.scored(spans) for spans in batch.initial)
        return Proposals(best, best)

    def save(self, directory: Path) -> None:
        """Write the patterns' figures; the patterns themselves are kept with the model as text."""
        (directory / FILE).write_text(self.confidence.to_json(), encoding="utf-8")

    @classmethod
    def load(cls, directory: Path, *, scheme: TagScheme, config: Config) -> Self:
        """Read the figures. Raises ModelError."""
        return cls(SourceConfidence.from_json((directory / FILE).read_text(encoding="utf-8")))
