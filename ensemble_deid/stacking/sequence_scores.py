"""The sequence models' opinion of every token: pooled with candidates' probabilities, or a score for other tokens.

The pool is logarithmic: a weighted mean of log odds (Genest and Zidek 1986). The SVM learns whether a candidate is an
annotated span, borders and label included. Its probability is low as well for a name with a doubtful border or label,
and such a name must be removed all the same. What the sequence models think of the candidate's tokens, PHI or not,
knows nothing of borders. The pool of both orders candidates by what a user of de-identified notes asks for. Of
candidates that overlap, the SVM alone knows better which has the right borders and label (`note/overlaps.py`,
`suppressed_scores`).

PHI that neither a submodel nor the net proposes cannot be found at any threshold of the candidates. Johnson et al. 2020
(table 5) fix sensitivities up to 99.9, which a system reaches only if the other tokens have scores, too. A token's
score is `HIGHEST` times the probability that the models' mean log odds stand for; where scores are pooled, these are
pooled with an SVM that is certain of nothing there. So all such scores lie below `HIGHEST`, hence below the thresholds
that training searches for the best F1, and nearly all of them below every candidate.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.arrays import Floats, Int64s, log_odds, range_sums
from ensemble_deid.features.batch import Batch
from ensemble_deid.note.span import Span
from ensemble_deid.note.tokens import TokenTable
from ensemble_deid.stacking.candidates import CandidateTable, NamedColumns
from ensemble_deid.taggers.base import Proposals

LOG_ODDS = 9.0
"""Log odds are kept within these bounds: beyond them they tell no more."""
HIGHEST = 0.05
"""All scores of single tokens lie below it: it is the lowest threshold that training searches."""
SOURCE = "token"
"""The source of such a span."""
_LEAST = 1e-4
"""Probabilities are kept this far from 0 and 1: beyond them an SVM's tell no more."""
_LEAST_TOKENS, _SHARE = 12, 4
"""A note has single tokens at a quarter of its tokens at most, or at twelve (as many as the net's): the likeliest. With
all of them every word of a long note would be PHI at 0."""
_LEAST_OF_TOKEN = 1e-12


def pooled(probability: Floats, odds: Floats, weight: float) -> Floats:
    """Return the pool of probabilities (n,) and other log odds (n,), which have this weight, as probabilities."""
    mean = (1 - weight) * log_odds(probability, bound=_LEAST) + weight * odds
    return np.asarray(1 / (1 + np.exp(-mean)), dtype=np.float64)


def pooled_with_sequences(probability: Floats, columns: NamedColumns, weight: float) -> Floats:
    """Return the probabilities pooled with the sequence models' mean log odds, which are the net's columns.

    Without sequence models, or at weight 0, the probabilities are passed through unchanged.
    """
    odds = columns.of_kinds("phi")
    return pooled(probability, odds.mean(axis=1), weight) if weight and odds.shape[1] else probability


@dataclass(frozen=True, slots=True, eq=False)
class SequenceScores:
    """The sequence models' scores of all tokens: log odds and likeliest label, (n_tokens, models)."""

    models: tuple[str, ...]
    log_odds: Floats
    label: Int64s
    phi: Floats

    @classmethod
    def of(cls, proposals: Mapping[str, Proposals], batch: Batch) -> "SequenceScores":
        models = tuple(name for name, proposed in proposals.items() if proposed.tokens)
        shape = (len(batch.tokens), len(models))
        phi, label = np.zeros(shape), np.zeros(shape, dtype=np.int64)
        for column, name in enumerate(models):
            phi[:, column] = np.concatenate([scores.phi for scores in proposals[name].tokens])
            label[:, column] = np.concatenate([scores.label for scores in proposals[name].tokens])
        return cls(models, log_odds(phi, bound=1 / (1 + np.exp(LOG_ODDS))), label, phi)

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
    odds = log_odds(scores.phi, bound=_LEAST_OF_TOKEN).mean(axis=1)
    if pool_weight:
        score = np.minimum(pooled(np.zeros(len(odds)), odds, pool_weight), np.nextafter(HIGHEST, 0))
    else:
        score = HIGHEST / (1 + np.exp(-odds))
    label, tokens = scores.likeliest(), batch.tokens
    for document, (low, high) in enumerate(pairwise(tokens.document_starts.tolist())):
        free = _uncovered(tokens, document, resolved[document])
        # Before the cut: a comma is never PHI by itself, and would take a word's place.
        bounds = zip(tokens.start[free].tolist(), tokens.end[free].tolist(), strict=True)
        text = batch.documents[document].text
        free = free[[any(map(str.isalnum, text[start:end])) for start, end in bounds]]
        most = max(_LEAST_TOKENS, (high - low) // _SHARE)
        for row in np.sort(free[np.argsort(-odds[free], kind="stable")[:most]]).tolist():
            place = int(tokens.start[row]), int(tokens.end[row])
            found[document].append(Span(*place, labels[label[row]], float(score[row]), SOURCE))
    return found


def _uncovered(tokens: TokenTable, document: int, spans: Sequence[Span]) -> NDArray[np.intp]:
    """Return the rows of a document's tokens that no span covers."""
    low, high = int(tokens.document_starts[document]), int(tokens.document_starts[document + 1])
    change = np.zeros(high - low + 1, dtype=np.int64)
    first, after = tokens.rows_in(document, [span.start for span in spans], [span.end for span in spans])
    np.add.at(change, first - low, 1)
    np.add.at(change, after - low, -1)
    return low + np.flatnonzero(np.cumsum(change)[:-1] == 0)
