"""Scores for single tokens that no candidate covers, so that a threshold can reach a recall beyond the candidates'.

What no submodel and no net proposes cannot be found at any threshold of the candidates. Johnson et al. 2020 (table 5)
fix sensitivities up to 99.9, which a system can serve only where other tokens have a score, too. A token's is `HIGHEST`
times the probability of PHI that the sequence models' mean log odds stand for; where candidates' scores are pooled with
these (`opinion_pool.py`), it is the pool with an SVM that is sure of nothing there, and at most `HIGHEST`. So all of
them lie below the thresholds that training searches for the best F1, and nearly all below every candidate; they matter
to those alone who ask for more than the candidates can give.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.features.batch import Batch
from ensemble_deid.stacking.named_columns import Floats
from ensemble_deid.stacking.opinion_pool import pooled
from ensemble_deid.stacking.sequence_scores import SequenceScores
from ensemble_deid.taggers.base import Proposals
from ensemble_deid.text.span import Span

HIGHEST = 0.05
SOURCE = "token"
"""The source of such a span."""
_SHARE = 4
"""A note has at most a quarter of its tokens as such spans, the likeliest: with all, every word would be PHI at 0."""
_LEAST = 1e-12


def single_tokens(
    resolved: Sequence[Sequence[Span]],
    proposals: Mapping[str, Proposals],
    batch: Batch,
    *,
    labels: Sequence[str],
    pool_weight: float = 0.0,
) -> list[list[Span]]:
    """Return the likeliest tokens with a letter or digit that no candidate covers as spans, by document.

    `resolved` are each document's candidates without those that overlap a more probable one: these are found at no
    threshold. There are no tokens without a sequence model.
    """
    found: list[list[Span]] = [[] for _ in batch.documents]
    scores = SequenceScores.of(proposals, batch)
    if not scores.models:
        return found
    odds, label, tokens = _mean_log_odds(scores.phi), scores.likeliest(), batch.tokens
    score = _scores(odds, pool_weight)
    for document, (low, high) in enumerate(pairwise(tokens.document_starts.tolist())):
        starts, ends = tokens.start[low:high], tokens.end[low:high]
        free = _uncovered(starts, ends, resolved[document])
        free = free[np.argsort(-odds[low + free], kind="stable")[: (high - low) // _SHARE]]
        text = batch.documents[document].text
        for place in np.sort(free).tolist():
            start, end = int(starts[place]), int(ends[place])
            if any(character.isalnum() for character in text[start:end]):
                row = low + place
                found[document].append(Span(start, end, labels[label[row]], float(score[row]), SOURCE))
    return found


def _uncovered(starts: NDArray[np.int32], ends: NDArray[np.int32], spans: Sequence[Span]) -> NDArray[np.intp]:
    """Return the places of the tokens that no span touches."""
    change = np.zeros(len(starts) + 1, dtype=np.int64)
    np.add.at(change, np.searchsorted(ends, [span.start for span in spans], side="right"), 1)
    np.add.at(change, np.searchsorted(starts, [span.end for span in spans], side="left"), -1)
    return np.flatnonzero(np.cumsum(change)[:-1] == 0)


def _scores(odds: Floats, pool_weight: float) -> Floats:
    if not pool_weight:
        return np.asarray(HIGHEST / (1 + np.exp(-odds)), dtype=np.float64)
    return np.minimum(pooled(np.zeros(len(odds)), odds, pool_weight), HIGHEST)


def _mean_log_odds(phi: Floats) -> NDArray[np.float64]:
    """Return the models' mean log odds, (n_tokens,), from their probabilities, (n_tokens, models)."""
    bounded = np.clip(phi, _LEAST, 1 - _LEAST)
    return np.asarray(np.log(bounded / (1 - bounded)).mean(axis=1), dtype=np.float64)
