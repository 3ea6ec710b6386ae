"""What the sequence models think of every token, whether a candidate covers it or not."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ensemble_deid.arrays import Floats, Int64s
from ensemble_deid.features.batch import Batch
from ensemble_deid.stacking.candidates import CandidateTable
from ensemble_deid.taggers.base import Proposals

LOG_ODDS = 9.0
"""Log odds are kept within these bounds: beyond them they tell no more."""


@dataclass(frozen=True, slots=True, eq=False)
class SequenceScores:
    """The sequence models' scores of all tokens: log odds and likeliest label, (n_tokens, models)."""

    models: tuple[str, ...]
    log_odds: Floats
    label: Int64s
    phi: Floats

    @classmethod
    def of(cls, proposals: Mapping[str, Proposals], batch: Batch) -> "SequenceScores":
        """Return the scores of the submodels that have any."""
        models = tuple(name for name, proposed in proposals.items() if proposed.tokens)
        shape = (len(batch.tokens), len(models))
        phi, label = np.zeros(shape), np.zeros(shape, dtype=np.int64)
        for column, name in enumerate(models):
            phi[:, column] = np.concatenate([scores.phi for scores in proposals[name].tokens])
            label[:, column] = np.concatenate([scores.label for scores in proposals[name].tokens])
        least = 1 / (1 + np.exp(LOG_ODDS))
        clipped = np.clip(phi, least, 1 - least)
        return cls(models, np.log(clipped / (1 - clipped)), label, phi)

    def likeliest(self) -> Int64s:
        """Return the label that the model surest of PHI gives to each token, (n_tokens,)."""
        rows = np.arange(len(self.label))
        return np.asarray(self.label[rows, self.phi.argmax(axis=1)], dtype=np.int64)

    def of_candidates(self, table: CandidateTable, batch: Batch) -> Floats:
        """Return the columns `phi:` and `agrees:` of every candidate, (n, 2 * models)."""
        first, after = table.token_ranges(batch.tokens)
        size = np.maximum(after - first, 1)[:, None]
        total = np.zeros((len(self.log_odds) + 1, len(self.models)))
        np.cumsum(self.log_odds, axis=0, out=total[1:])
        odds = (total[after] - total[first]) / size
        agrees = np.zeros_like(odds)
        for label in range(len(table.labels)):
            rows = np.flatnonzero(table.label == label)
            total[1:] = np.cumsum(self.label == label, axis=0)
            agrees[rows] = (total[after[rows]] - total[first[rows]]) / size[rows]
        return np.concatenate([odds, agrees], axis=1)
