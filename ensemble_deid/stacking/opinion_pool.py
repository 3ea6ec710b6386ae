"""A logarithmic opinion pool (Genest and Zidek 1986): weighted means of log odds.

The SVM learns whether a candidate is an annotated span, borders and label included. Its probability is low as well for
a name with a doubtful border or label, and such a name must be removed all the same. What the sequence models think of
the candidate's tokens, PHI or not, knows nothing of borders. The pool of both orders candidates by what a user of
de-identified notes asks for. Of candidates that overlap, the SVM alone knows better which has the right borders and
label (`resolved_by`).
"""

import numpy as np

from ensemble_deid.stacking.candidates import CandidateTable
from ensemble_deid.stacking.named_columns import Floats, NamedColumns
from ensemble_deid.stacking.overlaps import overlapping_candidates

_LEAST = 1e-4
"""Probabilities are kept this far from 0 and 1: beyond them an SVM's tell no more."""
_SUPPRESSED = 1 - 1e-6
"""What a suppressed candidate's score is multiplied by, so that it is lower than that of the one that suppresses it."""


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


def resolved_by(rank: Floats, scores: Floats, table: CandidateTable) -> Floats:
    """Return the scores (n,), changed so that overlapping candidates are resolved by `rank` (n,), not by the scores.

    Greedy non-maximum suppression: in order of `rank`, a candidate that is not suppressed yet suppresses those that it
    overlaps, and takes the highest of their scores. So at every threshold there is a span wherever there was one, with
    the borders and label that rank highest.
    """
    if np.array_equal(rank, scores):
        return scores
    overlapping: list[list[int]] = [[] for _ in range(len(table))]
    for row, other in zip(*(rows.tolist() for rows in overlapping_candidates(table)), strict=True):
        overlapping[row].append(other)
    found = scores.copy()
    suppressed = np.zeros(len(table), dtype=bool)
    # Ties as `drop_overlaps` breaks them.
    order = np.lexsort((table.label, table.start, table.start - table.end, -rank))
    for row in order.tolist():
        if suppressed[row]:
            found[row] = scores[row] * _SUPPRESSED
            continue
        others = [other for other in overlapping[row] if not suppressed[other]]
        found[row] = scores[[row, *others]].max()
        suppressed[others] = True
    return found
