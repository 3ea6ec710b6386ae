"""A logarithmic opinion pool (Genest and Zidek 1986): weighted means of log odds.

The SVM learns whether a candidate is an annotated span, borders and label included. Its probability is low as well for
a name with a doubtful border or label, and such a name must be removed all the same. What the sequence models think of
the candidate's tokens, PHI or not, knows nothing of borders. The pool of both orders candidates by what a user of
de-identified notes asks for. Of candidates that overlap, the SVM alone knows better which has the right borders and
label (`note/overlaps.py`, `suppressed_scores`).
"""

import numpy as np

from ensemble_deid.arrays import Floats
from ensemble_deid.stacking.named_columns import NamedColumns

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
