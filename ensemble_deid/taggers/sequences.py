"""The sequences that a learner sees: whole lines, merged up to a maximum length."""

import numpy as np

from ensemble_deid.arrays import Int32s
from ensemble_deid.note.span import Span
from ensemble_deid.note.tags import TagScheme, entity_rows
from ensemble_deid.note.tokens import TokenTable, first_rows
from ensemble_deid.taggers.base import Proposals, TokenScores
from ensemble_deid.taggers.decoding import Decoded, SequenceSpan

_LONGEST = 1000


def merge_lines(tokens: TokenTable, *, max_tokens: int) -> Int32s:
    """Return the first row of each sequence: lines of one document, merged up to `max_tokens`.

    A longer line is a sequence of its own, so that every token keeps its context, unless it has more than 1000 tokens:
    sequences are computed token by token, many of them together, and an endless one would be computed alone.
    """
    lines = _split_endless(first_rows(tokens.line), tokens, longest=max(max_tokens, _LONGEST))
    ends = np.append(lines, len(tokens))[1:]
    starts: list[int] = []
    size = 0
    last_document = -1
    for low, high, document in zip(lines.tolist(), ends.tolist(), tokens.document[lines].tolist(), strict=True):
        if document != last_document or size + high - low > max_tokens:
            starts.append(low)
            size = 0
        size += high - low
        last_document = document
    return np.asarray(starts, dtype=np.int32)


def _split_endless(lines: Int32s, tokens: TokenTable, *, longest: int) -> Int32s:
    """Return the first rows of the lines and of the parts of longer ones, which are split where a sentence begins."""
    lengths = np.diff(np.append(lines, len(tokens)))
    sentences = tokens.sentence_starts
    splits: list[int] = []
    for line in np.flatnonzero(lengths > longest).tolist():
        low, high = int(lines[line]), int(lines[line] + lengths[line])
        while high - low > longest:
            last = int(sentences[np.searchsorted(sentences, low + longest, side="right") - 1])
            low = last if last > low + longest // 2 else low + longest
            splits.append(low)
    return np.sort(np.append(lines, splits)).astype(np.int32) if splits else lines


def sequence_of_rows(starts: Int32s, n_tokens: int) -> Int32s:
    """Return the index of each row's sequence, (n_tokens,)."""
    marks = np.zeros(n_tokens, dtype=np.int32)
    marks[starts[1:]] = 1
    return np.cumsum(marks).astype(np.int32)


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
