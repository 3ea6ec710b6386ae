"""What the sequence models think of every token, and how a candidate's probability is pooled with it.

The pool is logarithmic: a weighted mean of log odds (Genest and Zidek 1986). The SVM learns whether a candidate is an
annotated span, borders and label included. Its probability is low as well for a name with a doubtful border or label,
and such a name must be removed all the same. What the sequence models think of the candidate's tokens, PHI or not,
knows nothing of borders. The pool of both orders candidates by what a user of de-identified notes asks for. Of
candidates that overlap, the SVM alone knows better which has the right borders and label (`note/overlaps.py`,
`suppressed_scores`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ensemble_deid.arrays import Floats, Int64s, range_sums
from ensemble_deid.features.batch import Batch
from ensemble_deid.stacking.candidates import CandidateTable, NamedColumns
from ensemble_deid.taggers.base import Proposals

_LEAST = 1e-4
"""Probabilities are kept this far from 0 and 1: beyond them an SVM's tell no more."""


def pooled(probability: Floats, odds: Floats, weight: float) -> Floats:
    """Return the pool of probabilities (n,) and other log odds (n,), which have this weight, as probabilities."""
    bounded = np.clip(probability, _LEAST, 1 - _LEAST)
    mean = (1 - weight) * np.log(bounded / (1 - bounded)) + weight * odds
    return np.asarray(1 / (1 + np.exp(-mean)), dtype=np.float64)


def pooled_with_sequences(probability: Floats, columns: NamedColumns, weight: float) -> Floats:
    """Return candidates' probabilities pooled with the sequence models' mean log odds, which are the net's columns.

    Without sequence models, or at weight 0, the probabilities are returned as they are.
    """
    odds = columns.of_kinds("phi")
    return pooled(probability, odds.mean(axis=1), weight) if weight and odds.shape[1] else probability


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
        odds = range_sums(self.log_odds, first, after) / size
        agrees = np.zeros_like(odds)
        for label in range(len(table.labels)):
            rows = np.flatnonzero(table.label == label)
            agrees[rows] = range_sums(self.label == label, first[rows], after[rows]) / size[rows]
        return np.concatenate([odds, agrees], axis=1)
