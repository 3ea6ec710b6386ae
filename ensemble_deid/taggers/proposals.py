"""From decoded tag sequences to spans of documents."""

import numpy as np

from ensemble_deid.taggers.base import Proposals, TokenScores
from ensemble_deid.taggers.decoding import Decoded, SequenceSpan
from ensemble_deid.text.span import Span
from ensemble_deid.text.tags import TagScheme, entity_rows
from ensemble_deid.text.tokens import TokenTable


def chain_proposals(decoded: Decoded, tokens: TokenTable, scheme: TagScheme, *, source: str) -> Proposals:
    """Return spans with their marginals as scores, grouped by document, and the scores of every token.

    An entity of the best tagging that crosses the end of a sequence is the union of its parts, with the lowest of their
    scores.
    """
    n_documents = len(tokens.document_starts) - 1
    best: list[list[Span]] = [[] for _ in range(n_documents)]
    candidates: list[list[Span]] = [[] for _ in range(n_documents)]
    probability: dict[tuple[int, int, int], float] = {}
    by_first: dict[tuple[int, int], list[SequenceSpan]] = {}

    def make(first: int, after: int, label: int, score: float) -> Span:
        return Span(int(tokens.start[first]), int(tokens.end[after - 1]), scheme.labels[label], score, source)

    for span in decoded.candidates:
        probability[(span.first, span.after, span.label)] = span.probability
        by_first.setdefault((span.first, span.label), []).append(span)
        candidates[int(tokens.document[span.first])].append(make(span.first, span.after, span.label, span.probability))
    first_rows, after_rows, labels = entity_rows(decoded.best, tokens)
    for first, after, label in zip(first_rows.tolist(), after_rows.tolist(), labels.tolist(), strict=True):
        score = probability.get((first, after, label))
        document = int(tokens.document[first])
        if score is None:
            score = _weakest_part(first, after, label, by_first)
            candidates[document].append(make(first, after, label, score))
        best[document].append(make(first, after, label, score))
    bounds = tokens.document_starts[1:-1].tolist()
    scores = zip(np.split(decoded.phi, bounds), np.split(decoded.label, bounds), strict=True)
    return Proposals(
        tuple(map(tuple, best)),
        tuple(tuple(sorted(spans)) for spans in candidates),
        tuple(TokenScores(phi, label) for phi, label in scores) if n_documents else (),
    )


def _weakest_part(first: int, after: int, label: int, by_first: dict[tuple[int, int], list[SequenceSpan]]) -> float:
    """Return the lowest probability among the parts of an entity that crosses sequence ends."""
    score = 1.0
    while first < after:
        parts = [span for span in by_first.get((first, label), ()) if span.after <= after]
        if not parts:
            return score
        longest = max(parts, key=lambda span: span.after)
        score = min(score, longest.probability)
        first = longest.after
    return score
