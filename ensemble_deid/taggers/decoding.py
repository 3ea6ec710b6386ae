"""From tag scores to spans: the best tagging, and the spans of the n best with their exact probabilities."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.arrays import Floats, Int32s, Int64s
from ensemble_deid.note.tags import TagScheme
from ensemble_deid.taggers.chain import LinearChain, Marginals, n_best, path_probability, sorted_top

_BATCH_TOKENS = 4096
_LEAST_BATCH = 16
_WIDTH = 8

NEGLIGIBLE = 1e-3
"""Probability of PHI at a token under which it is not searched for, a tenth of the least confidence that is kept."""


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
    most probable sequences, each with its exact marginal probability. `phi` float32 and `label` int16 (n_tokens,) are
    those of `TokenScores`.
    """

    best: Int32s
    phi: NDArray[np.float32]
    label: NDArray[np.int16]
    candidates: list[SequenceSpan] = field(default_factory=list)


def length_batches(starts: Int32s, n_tokens: int) -> Iterator[Int32s]:
    """Yield indexes of sequences in batches, longest first, within a batch and overall.

    A batch has at most about 4096 tokens, or 16 sequences if these are long: a step takes hardly longer for many
    sequences than for one.
    """
    lengths = np.diff(np.append(starts, n_tokens))
    order = np.argsort(-lengths, kind="stable").astype(np.int32)
    begin = 0
    while begin < len(order):
        # The first sequence is the longest, and the others are padded to its length.
        size = max(_LEAST_BATCH, _BATCH_TOKENS // max(1, int(lengths[order[begin]])))
        yield order[begin : begin + size]
        begin += size


def decode(chain: LinearChain, emissions: Floats, starts: Int32s, *, n: int, certain: float = 0.999) -> Decoded:
    """Decode all tokens: emissions (n_tokens, tags), sequences beginning at `starts`.

    With `n` > 0 the spans of the n best sequences become candidates. A sequence whose best tagging has probability
    over `certain` contributes that tagging alone: what else could be said of it has less than 1 - `certain`.

    Nothing is searched where nothing can be found: a sequence without a token whose chance of PHI reaches `NEGLIGIBLE`
    has no candidates, and elsewhere the `_WIDTH` most probable tags of each token are searched. What is left out has a
    probability under that of any candidate that is kept.
    """
    n_tokens = len(emissions)
    best = np.zeros(n_tokens, dtype=np.int32)
    found = Decoded(best, np.zeros(n_tokens, dtype=np.float32), np.zeros(n_tokens, dtype=np.int16))
    bounds = np.append(starts, n_tokens).astype(np.int32)
    for batch in length_batches(starts, n_tokens):
        first, lengths = bounds[batch], bounds[batch + 1] - bounds[batch]
        steps = np.arange(lengths[0])
        # (sequences, steps): rows of all tokens, a shorter sequence padded with its last.
        rows = first[:, None] + np.minimum(steps, lengths[:, None] - 1)
        within = steps < lengths[:, None]
        marginals = Marginals.from_emissions(chain, emissions[rows], lengths)
        probability = marginals.of_tags()
        if chain.n_tags > 1:
            of_labels = probability[:, :, 1::2] + probability[:, :, 2::2]
            found.phi[rows[within]] = np.minimum(of_labels.sum(axis=2), 1.0)[within]
            found.label[rows[within]] = of_labels.argmax(axis=2)[within]
        searched = np.flatnonzero(((1 - probability[:, :, 0] >= NEGLIGIBLE) & within).any(axis=1))
        if not len(searched):
            continue
        longest = int(lengths[searched[0]])
        rows, within = rows[searched, :longest], within[searched, :longest]
        likely = sorted_top(probability[searched, :longest], min(_WIDTH, chain.n_tags))
        paths, scores = n_best(chain, emissions[rows], lengths[searched], max(1, n), likely=likely)
        best[rows[within]] = paths[:, 0][within]
        if n > 0:
            kept = np.isfinite(scores) & (path_probability(marginals, searched, paths[:, 0]) <= certain)[:, None]
            kept[:, 0] = True
            found.candidates += _candidates(marginals, searched[kept.nonzero()[0]], paths[kept], first)
    found.candidates.sort(key=lambda span: (span.first, span.after, span.label))
    return found


def _candidates(
    marginals: Marginals, sequences: NDArray[np.intp], paths: Int32s, first_rows: Int32s
) -> Iterator[SequenceSpan]:
    """Return the distinct spans of taggings (paths, time), each of one of the sequences of a batch."""
    # A 0 between the paths keeps their spans apart.
    room = paths.shape[1] + 1
    low, high, kind = entities_in(np.pad(paths, ((0, 0), (0, 1))).ravel())
    path = low // room
    found = sequences[path], low - path * room, high - path * room, kind
    sizes = len(first_rows), room, room, marginals.moves.shape[0]
    sequence, first, after, label = np.unravel_index(np.unique(np.ravel_multi_index(found, sizes)), sizes)
    probability = marginals.span_probabilities(sequence, first, after, label.astype(np.int32))
    columns = first + first_rows[sequence], after + first_rows[sequence], label, probability
    return map(SequenceSpan, *(column.tolist() for column in columns))


def entities_in(tags: Int32s) -> tuple[Int64s, Int64s, Int32s]:
    """Return where the entities in a sequence of tags begin, where they have ended, and the index of their labels.

    An `I-` with none before it begins one.
    """
    label, inside = TagScheme.label_of(tags), tags > 0
    goes_on = inside[1:] & (tags[1:] == TagScheme.inside(label[:-1]))
    first = np.flatnonzero(inside & ~np.append(False, goes_on))
    after = np.flatnonzero(inside & ~np.append(goes_on, False)) + 1
    return first, after, label[first]
