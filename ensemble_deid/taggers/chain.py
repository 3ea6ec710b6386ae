"""Exact inference in a linear chain: what the CRF and the network share once they have scored tags and transitions.

Sequences are batched by length; a batch is (batch, time, tags). Probabilities are kept scaled step by step, so that
the forward and backward passes are matrix products (Rabiner 1989, section V.A).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

_BATCH_TOKENS = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """Transition scores of a linear chain, in the log domain: `transitions` (from, to), `start` and `end` (tags,)."""

    transitions: Floats
    start: Floats
    end: Floats

    @property
    def n_tags(self) -> int:
        """Number of tags."""
        return len(self.start)


@dataclass(frozen=True, slots=True, eq=False)
class SequenceSpan:
    """A span of rows `[first, after)` of all tokens with a label index, and its probability."""

    first: int
    after: int
    label: int
    probability: float


@dataclass(slots=True, eq=False)
class Decoded:
    """What a chain says of a batch of tokens.

    `best` int32 (n_tokens,) is the most probable sequence's tags; `candidates` are the distinct spans of the `n_best`
    most probable sequences, each with its exact marginal probability.
    """

    best: Ints
    candidates: list[SequenceSpan] = field(default_factory=list)


def length_batches(starts: Ints, n_tokens: int) -> Iterator[Ints]:
    """Yield indexes of sequences of one length each, in batches of about 4096 tokens, shortest first."""
    lengths = np.diff(np.append(starts, n_tokens))
    order = np.argsort(lengths, kind="stable")
    for length in np.unique(lengths).tolist():
        same = order[lengths[order] == length]
        step = max(1, _BATCH_TOKENS // max(1, length))
        for i in range(0, len(same), step):
            yield same[i : i + step].astype(np.int32)


def viterbi(chain: Chain, emissions: Floats) -> Ints:
    """Return the best tags, (batch, time), of emissions (batch, time, tags)."""
    size, time, _ = emissions.shape
    score = chain.start + emissions[:, 0]
    back = np.zeros((time, size, chain.n_tags), dtype=np.int32)
    for t in range(1, time):
        # (batch, from, to)
        through = score[:, :, None] + chain.transitions
        back[t] = through.argmax(axis=1)
        score = through.max(axis=1) + emissions[:, t]
    tags = np.zeros((size, time), dtype=np.int32)
    tags[:, -1] = (score + chain.end).argmax(axis=1)
    rows = np.arange(size)
    for t in range(time - 1, 0, -1):
        tags[:, t - 1] = back[t, rows, tags[:, t]]
    return tags


def n_best(chain: Chain, emissions: Floats, n: int) -> tuple[Ints, Floats]:
    """Return the n best tag sequences (batch, n, time) and their scores (batch, n), best first.

    Where a sequence has fewer than n taggings the rest have score -inf. Of all tags to come from, only the n whose
    best path is best can be on one of the n best paths: the others are beaten n times over by those best paths alone.
    """
    size, time, tags = emissions.shape
    width = min(n, tags)
    # (batch, tags, n): the n best scores of paths that end in a tag
    score = np.full((size, tags, n), -np.inf)
    score[:, :, 0] = chain.start + emissions[:, 0]
    came_from = np.zeros((time, size, tags, n), dtype=np.int32)
    came_rank = np.zeros((time, size, tags, n), dtype=np.int32)
    rows = np.arange(size)[:, None, None]
    for t in range(1, time):
        # (batch, to, from), then the best `width` of from
        through = score[:, None, :, 0] + chain.transitions.T[None]
        origin = _top(through, width)
        # (batch, to, width, n)
        moves = chain.transitions[origin, np.arange(tags)[None, :, None]]
        paths_in = (score[rows, origin] + moves[..., None]).reshape(size, tags, width * n)
        chosen = _top(paths_in, n)
        came_from[t] = np.take_along_axis(origin, chosen // n, axis=2)
        came_rank[t] = chosen % n
        score = np.take_along_axis(paths_in, chosen, axis=2) + emissions[:, t, :, None]
    final = (score + chain.end[None, :, None]).reshape(size, tags * n)
    state = _top(final, n)
    scores = np.take_along_axis(final, state, axis=1)
    paths = np.zeros((size, n, time), dtype=np.int32)
    tag, rank = state // n, state % n
    for t in range(time - 1, -1, -1):
        paths[:, :, t] = tag
        tag, rank = came_from[t, rows[:, :, 0], tag, rank], came_rank[t, rows[:, :, 0], tag, rank]
    return paths, scores


def _top(values: Floats, n: int) -> NDArray[np.int64]:
    """Return the indexes of the n largest of the last axis, largest first; ties go to the lower index."""
    if values.shape[-1] <= n:
        return np.argsort(-values, axis=-1, kind="stable")[..., :n]
    part = np.sort(np.argpartition(-values, n - 1, axis=-1)[..., :n], axis=-1)
    order = np.argsort(-np.take_along_axis(values, part, axis=-1), axis=-1, kind="stable")
    return np.take_along_axis(part, order, axis=-1)


@dataclass(frozen=True, slots=True, eq=False)
class Marginals:
    """Scaled forward and backward passes of a batch of sequences of one length.

    `forward[b, t]` is P(tag_t | emissions up to t), `backward[b, t]` the scaled rest; their product is the tag's
    marginal. `local[b, t]` holds exp(emission) divided by the step's scale, so that a path's probability is a product.
    """

    forward: Floats
    backward: Floats
    local: Floats
    moves: Floats
    end: Floats

    @classmethod
    def of(cls, chain: Chain, emissions: Floats) -> "Marginals":
        """Run forward-backward over emissions (batch, time, tags)."""
        _, time, tags = emissions.shape
        top = float(chain.transitions.max()) if tags else 0.0
        moves = np.exp(chain.transitions - top)
        weights = np.exp(emissions - emissions.max(axis=2, keepdims=True))
        forward = np.empty_like(weights)
        local = np.empty_like(weights)
        for t in range(time):
            before = np.exp(chain.start - chain.start.max()) if t == 0 else forward[:, t - 1] @ moves
            step = before * weights[:, t]
            scale = step.sum(axis=1, keepdims=True)
            forward[:, t] = step / scale
            local[:, t] = weights[:, t] / scale
        end = np.exp(chain.end - chain.end.max())
        backward = np.empty_like(weights)
        backward[:, -1] = end / (forward[:, -1] @ end)[:, None]
        for t in range(time - 2, -1, -1):
            backward[:, t] = (backward[:, t + 1] * local[:, t + 1]) @ moves.T
        return cls(forward, backward, local, moves, end)

    def span_probability(self, sequence: int, first: int, after: int, label: int) -> float:
        """Return P(tags `first` to `after` spell exactly one entity of `label`) in one sequence of the batch.

        The entity may open with `B-`, or with an `I-` that continues nothing; it must not go on at `after`.
        """
        begin, inside = 2 * label + 1, 2 * label + 2
        forward, local, moves = self.forward[sequence], self.local[sequence], self.moves
        orphan = forward[first, inside]
        if first > 0:
            into = forward[first - 1] * moves[:, inside]
            orphan = (into.sum() - into[begin] - into[inside]) * local[first, inside]
        if after - first == 1:
            tail_begin, tail_inside = forward[first, begin], orphan
        else:
            mass = forward[first, begin] * moves[begin, inside] + orphan * moves[inside, inside]
            steps = local[first + 1 : after, inside]
            tail_begin = 0.0
            tail_inside = mass * float(np.prod(steps)) * moves[inside, inside] ** (after - first - 2)
        rest = self.backward[sequence, after - 1]
        total = tail_begin * rest[begin] + tail_inside * rest[inside]
        if after < forward.shape[0]:
            going_on = local[after, inside] * self.backward[sequence, after, inside]
            total -= (tail_begin * moves[begin, inside] + tail_inside * moves[inside, inside]) * going_on
        return float(min(1.0, max(0.0, total)))


def decode(chain: Chain, emissions: Floats, starts: Ints, *, n: int, certain: float = 0.999) -> Decoded:
    """Decode all tokens: emissions (n_tokens, tags), sequences beginning at `starts`.

    With `n` > 0 the spans of the n best sequences become candidates. A sequence whose best tagging has probability
    over `certain` contributes that tagging alone: what else could be said of it has less than 1 - `certain`.
    """
    best = np.zeros(len(emissions), dtype=np.int32)
    found = Decoded(best)
    lengths = np.diff(np.append(starts, len(emissions)))
    for batch in length_batches(starts, len(emissions)):
        rows = starts[batch].astype(np.int64)[:, None] + np.arange(lengths[batch[0]])[None, :]
        scores = emissions[rows]
        tags = viterbi(chain, scores)
        best[rows] = tags
        if n > 0:
            _add_candidates(found, chain, scores, tags, rows, n, certain)
    found.candidates.sort(key=lambda span: (span.first, span.after, span.label))
    return found


def _add_candidates(
    found: Decoded, chain: Chain, scores: Floats, tags: Ints, rows: NDArray[np.int64], n: int, certain: float
) -> None:
    marginals = Marginals.of(chain, scores)
    paths: list[list[Ints]] = [[path] for path in tags]
    unsure = np.flatnonzero(_path_probability(marginals, tags) <= certain)
    if len(unsure):
        others, other_scores = n_best(chain, scores[unsure], n)
        for i, taggings, values in zip(unsure.tolist(), others, other_scores, strict=True):
            paths[i].extend(path for path, value in zip(taggings, values, strict=True) if np.isfinite(value))
    for i, taggings in enumerate(paths):
        spans = {span for path in taggings for span in spans_of(path)}
        offset = int(rows[i, 0])
        for first, after, label in sorted(spans):
            probability = marginals.span_probability(i, first, after, label)
            found.candidates.append(SequenceSpan(first + offset, after + offset, label, probability))


def _path_probability(marginals: Marginals, tags: Ints) -> Floats:
    """Return the probability of one tagging a sequence, (batch,)."""
    rows = np.arange(len(tags))
    log = np.log(np.maximum(marginals.forward[rows, 0, tags[:, 0]], 1e-300))
    for t in range(1, tags.shape[1]):
        step = marginals.moves[tags[:, t - 1], tags[:, t]] * marginals.local[rows, t, tags[:, t]]
        log += np.log(np.maximum(step, 1e-300))
    return np.asarray(np.exp(log) * marginals.backward[rows, -1, tags[:, -1]], dtype=np.float64)


def spans_of(tags: Sequence[int] | Ints) -> list[tuple[int, int, int]]:
    """Return (first, after, label index) of the entities that one tag sequence spells; an orphan `I-` opens one."""
    spans: list[tuple[int, int, int]] = []
    opened, label = -1, 0
    for t, tag in enumerate([*np.asarray(tags).tolist(), 0]):
        if opened >= 0 and tag != 2 * label + 2:
            spans.append((opened, t, label))
            opened = -1
        if tag > 0 and opened < 0:
            opened, label = t, (tag - 1) // 2
    return spans
