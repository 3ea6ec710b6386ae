"""A logarithmic opinion pool (Genest and Zidek 1986): weighted means of log odds.

The SVM learns whether a candidate is an annotated span, borders and label included. Its probability is low as well for
a name with a doubtful border or label, and such a name must be removed all the same. What the sequence models think of
the candidate's tokens, PHI or not, knows nothing of borders. The pool of both orders candidates by what a user of
de-identified notes asks for. Which of those that overlap has the right borders and label, the SVM knows better alone.
"""

import numpy as np

from ensemble_deid.stacking.candidates import CandidateTable
from ensemble_deid.stacking.named_columns import Floats, NamedColumns
from ensemble_deid.stacking.overlaps import overlapping_pairs

_LEAST = 1e-4
"""Probabilities are kept this far from 0 and 1: beyond them an SVM's tell no more."""


_BEHIND = 1 - 1e-6
"""What the score of a candidate is multiplied by that must not equal the score of one it overlaps."""


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


def promoted(table: CandidateTable, rank: Floats, scores: Floats) -> Floats:
    """Return scores (n,) by which the candidates that `rank` (n,) puts first win where candidates overlap.

    In order of `rank`, each candidate that overlaps none before it takes the highest score of those that it overlaps.
    So there is a span wherever there was one, at every threshold, and it has the likeliest borders and label.
    """
    if np.array_equal(rank, scores):
        return scores
    rivals: list[list[int]] = [[] for _ in range(len(table))]
    for row, rival in zip(*(rows.tolist() for rows in overlapping_pairs(table)), strict=True):
        rivals[row].append(rival)
    found = scores.copy()
    beaten = np.zeros(len(table), dtype=bool)
    # Ties as `drop_overlaps` breaks them.
    order = np.lexsort((table.label, table.start, table.start - table.end, -rank))
    for row in order.tolist():
        if beaten[row]:
            found[row] = scores[row] * _BEHIND
            continue
        free = [rival for rival in rivals[row] if not beaten[rival]]
        found[row] = max(scores[[row, *free]])
        beaten[free] = True
    return found
