"""Scores for single tokens that no candidate covers, so that a threshold can reach a recall beyond the candidates'.

What no submodel and no net proposes cannot be found at any threshold of the candidates. Johnson et al. 2020 (table 5)
fix sensitivities up to 99.9, which a system can serve only where other tokens have a score, too. A token's is `HIGHEST`
times the probability of PHI that the sequence models' mean log odds stand for; where candidates' scores are pooled with
these (`sequence_scores.py`), it is the pool with an SVM that is sure of nothing there, and below `HIGHEST`. So all of
them lie below the thresholds that training searches for the best F1, and nearly all below every candidate; they matter
to those alone who ask for more than the candidates can give.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.arrays import Flags, Floats, Int32s
from ensemble_deid.features.batch import Batch
from ensemble_deid.note.span import Span
from ensemble_deid.stacking.sequence_scores import SequenceScores, pooled
from ensemble_deid.taggers.base import Proposals

HIGHEST = 0.05
"""All scores lie below it: it is the lowest threshold that training searches, and what has that score is found."""
SOURCE = "token"
"""The source of such a span."""
_LEAST_TOKENS, _SHARE = 12, 4
"""A note has such spans at a quarter of its tokens at most, or at twelve (as many as the net's): the likeliest. With
all of them every word of a long note would be PHI at 0."""
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
        # Before the cut: a comma is never PHI by itself, and would take a word's place.
        free = free[_has_letter_or_digit(batch.documents[document].text, starts[free], ends[free])]
        most = max(_LEAST_TOKENS, (high - low) // _SHARE)
        likeliest = free[np.argsort(-odds[low + free], kind="stable")[:most]]
        for place in np.sort(likeliest).tolist():
            row = low + place
            span = Span(int(starts[place]), int(ends[place]), labels[label[row]], float(score[row]), SOURCE)
            found[document].append(span)
    return found


def _has_letter_or_digit(text: str, starts: Int32s, ends: Int32s) -> Flags:
    """Return which of these strings of a text have a letter or digit."""
    bounds = zip(starts.tolist(), ends.tolist(), strict=True)
    return np.array([any(map(str.isalnum, text[start:end])) for start, end in bounds], dtype=bool)


def _uncovered(starts: Int32s, ends: Int32s, spans: Sequence[Span]) -> NDArray[np.intp]:
    """Return the places of the tokens that no span touches."""
    change = np.zeros(len(starts) + 1, dtype=np.int64)
    np.add.at(change, np.searchsorted(ends, [span.start for span in spans], side="right"), 1)
    np.add.at(change, np.searchsorted(starts, [span.end for span in spans], side="left"), -1)
    return np.flatnonzero(np.cumsum(change)[:-1] == 0)


def _scores(odds: Floats, pool_weight: float) -> Floats:
    if not pool_weight:
        return np.asarray(HIGHEST / (1 + np.exp(-odds)), dtype=np.float64)
    return np.minimum(pooled(np.zeros(len(odds)), odds, pool_weight), np.nextafter(HIGHEST, 0))


def _mean_log_odds(phi: Floats) -> Floats:
    """Return the models' mean log odds, (n_tokens,), from their probabilities, (n_tokens, models)."""
    bounded = np.clip(phi, _LEAST, 1 - _LEAST)
    return np.asarray(np.log(bounded / (1 - bounded)).mean(axis=1), dtype=np.float64)
