"""From tag scores to spans: the best tagging, and the spans of the n best with their exact probabilities."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.taggers.chain import Chain, Floats, Ints, Marginals, n_best, path_probability, viterbi
from ensemble_deid.text.tags import TagScheme

_BATCH_TOKENS = 4096

NEGLIGIBLE = 1e-4
"""Probability of a tag at a token under which it is not searched for; far below any confidence that is kept."""


@dataclass(frozen=True, slots=True, eq=False)
class SequenceSpan:
    """A span of rows `[first, after)` of all tokens with a label index, and its probability."""

    first: int
    after: int
    label: int
    probability: float


@dataclass(slots=True, eq=False)
class Decoded:
    """The decoded tags and spans of a batch of tokens.

    `best` int32 (n_tokens,) is the most probable sequence's tags; `candidates` are the distinct spans of the `n_best`
    most probable sequences, each with its exact marginal probability.
    """

    best: Ints
    candidates: list[SequenceSpan] = field(default_factory=list)


def length_batches(starts: Ints, n_tokens: int) -> Iterator[Ints]:
    """Yield indexes of sequences in batches of at most about 4096 tokens, longest first, within a batch and overall."""
    lengths = np.diff(np.append(starts, n_tokens))
    order = np.argsort(-lengths, kind="stable").astype(np.int32)
    begin = 0
    while begin < len(order):
        # The first sequence is the longest, and the others are padded to its length.
        size = max(1, _BATCH_TOKENS // max(1, int(lengths[order[begin]])))
        yield order[begin : begin + size]
        begin += size


def decode(
    chain: Chain, emissions: Floats, starts: Ints, *, n: int, certain: float = 0.999, negligible: float = NEGLIGIBLE
) -> Decoded:
    """Decode all tokens: emissions (n_tokens, tags), sequences beginning at `starts`.

    With `n` > 0 the spans of the n best sequences become candidates. A sequence whose best tagging has probability
    over `certain` contributes that tagging alone: what else could be said of it has less than 1 - `certain`.

    Nothing is searched where nothing can be found: tags whose marginal is below `negligible` at every token of a batch
    are left out of its search, and a sequence without any other tag than `O` is not searched at all. A tagging through
    such a tag, and so each of its spans with it, is less probable than `negligible`.
    """
    best = np.zeros(len(emissions), dtype=np.int32)
    found = Decoded(best)
    bounds = np.append(starts, len(emissions)).astype(np.int32)
    for batch in length_batches(starts, len(emissions)):
        first, lengths = bounds[batch], bounds[batch + 1] - bounds[batch]
        steps = np.arange(lengths[0])
        within = steps[None, :] < lengths[:, None]
        rows = first[:, None] + np.minimum(steps[None, :], lengths[:, None] - 1)
        scores = emissions[rows]
        marginals = Marginals.from_emissions(chain, scores, lengths)
        probable = (marginals.forward * marginals.backward >= negligible) & within[:, :, None]
        # Sequences that hold the same kinds of PHI are searched together, among the tags of these alone.
        for chosen in _alike(np.asarray(probable.any(axis=1))):
            active = np.union1d([0], np.flatnonzero(probable[chosen].any(axis=(0, 1)))).astype(np.int32)
            if len(active) == 1:
                continue
            part = _Part(chain.select(active), active, scores[chosen][:, : lengths[chosen[0]], active], lengths[chosen])
            tags = part.active[viterbi(part.chain, part.scores, part.lengths)]
            inside = within[chosen][:, : tags.shape[1]]
            best[rows[chosen][:, : tags.shape[1]][inside]] = tags[inside]
            if n > 0:
                _add_candidates(found, marginals.select(chosen), part, tags, first[chosen], n, certain)
    found.candidates.sort(key=lambda span: (span.first, span.after, span.label))
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Sequences of a batch, longest first, with the few tags that are searched: `active` are their codes in the scheme.

    `scores` is (sequences, time, active tags).
    """

    chain: Chain
    active: Ints
    scores: Floats
    lengths: Ints


def _alike(tags: NDArray[np.bool_]) -> Iterator[NDArray[np.intp]]:
    """Yield groups of sequences, each in ascending order, by how many tags they have: those with few are soon done."""
    counts = tags[:, 1:].sum(axis=1)
    edges = (0, 1, 9, 17, 33, tags.shape[1])
    for low, high in itertools.pairwise(edges):
        chosen = np.flatnonzero((counts >= low) & (counts < high))
        if len(chosen):
            yield chosen


def _add_candidates(
    found: Decoded, marginals: Marginals, part: _Part, tags: Ints, first_rows: Ints, n: int, certain: float
) -> None:
    paths: list[list[Ints]] = [[path] for path in tags]
    unsure = np.flatnonzero(path_probability(marginals, tags) <= certain)
    if len(unsure):
        longest = int(part.lengths[unsure[0]])
        others, other_scores = n_best(part.chain, part.scores[unsure, :longest], part.lengths[unsure], n)
        for i, taggings, values in zip(unsure.tolist(), others, other_scores, strict=True):
            size = int(part.lengths[i])
            paths[i].extend(
                part.active[path[:size]] for path, value in zip(taggings, values, strict=True) if np.isfinite(value)
            )
    for i, (taggings, offset) in enumerate(zip(paths, first_rows.tolist(), strict=True)):
        spans = {span for path in taggings for span in spans_of(path[: part.lengths[i]])}
        for first, after, label in sorted(spans):
            probability = marginals.span_probability(i, first, after, label)
            found.candidates.append(SequenceSpan(first + offset, after + offset, label, probability))


def spans_of(tags: Sequence[int] | Ints) -> list[tuple[int, int, int]]:
    """Return (first, after, label index) of the entities in a tag sequence; an `I-` with none before it opens one."""
    spans: list[tuple[int, int, int]] = []
    opened, label, going_on = -1, 0, 0
    for t, tag in enumerate([*np.asarray(tags).tolist(), 0]):
        if opened >= 0 and tag != going_on:
            spans.append((opened, t, label))
            opened = -1
        if tag > 0 and opened < 0:
            opened, label = t, TagScheme.label_of(tag)
            going_on = TagScheme.inside(label)
    return spans
