"""A submodel that reads every word in lower case."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ensemble_deid.features.batch import Batch
from ensemble_deid.features.uncased import uncased
from ensemble_deid.taggers.base import Proposals, Tagger


@dataclass(frozen=True, slots=True, eq=False)
class UncasedTagger:
    """A trained submodel behind `uncased`."""

    tagger: Tagger = field(repr=False)

    @classmethod
    def fit(cls, fit_one: Callable[[Batch, Batch | None], Tagger], train: Batch, dev: Batch | None) -> "UncasedTagger":
        """Let `fit_one` train on the notes in lower case."""
        return cls(fit_one(uncased(train), None if dev is None else uncased(dev)))

    def propose(self, batch: Batch, *, n_best: int) -> Proposals:
        """Return what the submodel proposes for the notes in lower case; lower case moves no offsets."""
        return self.tagger.propose(uncased(batch), n_best=n_best)

    def save(self, directory: Path) -> None:
        """Write the submodel's own files."""
        self.tagger.save(directory)
