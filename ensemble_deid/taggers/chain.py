"""Exact inference in a linear chain, shared by the CRF and the network, given the scores of tags and transitions.

A batch is (batch, time, tags), longest sequence first: the sequences that have not ended at a step are the first ones,
and only they are computed. Probabilities are rescaled at every step, so that the forward and backward passes are
matrix products (Rabiner 1989, section V.A).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.arrays import Floats, Int32s, Int64s, row_products
from ensemble_deid.compiled import has_core
from ensemble_deid.note.tags import TagScheme


@dataclass(frozen=True, slots=True, eq=False)
class LinearChain:
    """Transition scores of a linear chain, in the log domain: `transitions` (from, to), `start` and `end` (tags,)."""

    transitions: Floats
    start: Floats
    end: Floats

    @property
    def n_tags(self) -> int:
        return len(self.start)


def _running(lengths: Int32s) -> list[int]:
    """Return for each step how many sequences are longer; lengths descend, so these are the first ones of the batch."""
    steps = np.arange(int(lengths[0]))
    return [int(n) for n in (lengths[None, :] > steps[:, None]).sum(axis=1)]


def n_best(
    chain: LinearChain, emissions: Floats, lengths: Int32s, n: int, *, likely: Int64s | None = None
) -> tuple[Int32s, Floats]:
    """Return the n best tag sequences (batch, n, time) and their scores (batch, n), best first.

    `emissions` is (batch, time, tags), `lengths` (batch,) gives the steps of each sequence in descending order; the
    tags after a sequence's end are 0. Where a sequence has fewer than n
    taggings the rest have score -inf. Every tagging that is better than the n-th best is there; where several are
    equal to that one, which of them is there is not said, and a worse one can stand in the place of another.

    With `likely` (batch, time, tags), in ascending order, only taggings among these tags are searched.
    """
    size, time, tags = emissions.shape
    if likely is None:
        likely = _likely_tags(chain, emissions, lengths, min(n, tags))
    width = likely.shape[2]
    paths = np.zeros((size, n, time), dtype=np.int32)
    if has_core():
        from ensemble_deid import _core

        scores = np.empty((size, n))
        given = np.ascontiguousarray(emissions, np.float64), np.ascontiguousarray(likely), lengths.astype(np.int32)
        chained = (chain.transitions, chain.start, chain.end)
        _core.n_best(chained, given, (paths, scores), (time, tags, width, n))
        return paths, scores
    running = _running(lengths)
    # (batch, width, n): the n best scores of paths that end in a likely tag
    score = np.full((size, width, n), -np.inf)
    score[:, :, 0] = np.take_along_axis(chain.start + emissions[:, 0], likely[:, 0], axis=1)
    came_from = np.zeros((time, size, width, n), dtype=np.int64)
    for t in range(1, time):
        k = running[t]
        before, now = likely[:k, t - 1], likely[:k, t]
        # (batch, to, from), then (batch, to, from and rank)
        moves = chain.transitions[before[:, None, :], now[:, :, None]]
        paths_in = (score[:k, None] + moves[..., None]).reshape(k, width, width * n)
        chosen = top(paths_in, n)
        came_from[t, :k] = chosen
        local = np.take_along_axis(emissions[:k, t], now, axis=1)
        score[:k] = np.take_along_axis(paths_in, chosen, axis=2) + local[:, :, None]
    rows = np.arange(size)[:, None]
    final = (score + chain.end[likely[rows[:, 0], lengths - 1]][:, :, None]).reshape(size, width * n)
    state = top(final, n)
    scores = np.take_along_axis(final, state, axis=1)
    for t in range(time - 1, -1, -1):
        k = running[t]
        # A state is the place of a tag among the likely ones, and the rank of a path that ends in it.
        place, rank = state[:k] // n, state[:k] % n
        paths[:k, :, t] = likely[rows[:k], t, place]
        state[:k] = came_from[t, rows[:k], place, rank]
    return paths, scores


def _likely_tags(chain: LinearChain, emissions: Floats, lengths: Int32s, n: int) -> Int64s:
    """Return for each step the n tags with the best paths through them, in the order of tags, (batch, time, n).

    No other tag is on a path better than the n-th best: the best paths through these n are n different ones, and none
    is worse than the best path through a tag that was left out.
    """
    time = emissions.shape[1]
    running = _running(lengths)
    forward = np.zeros_like(emissions)
    backward = np.zeros_like(emissions)
    forward[:, 0] = chain.start + emissions[:, 0]
    for t in range(1, time):
        k = running[t]
        # (batch, from, to)
        forward[:k, t] = (forward[:k, t - 1, :, None] + chain.transitions).max(axis=1) + emissions[:k, t]
    backward[np.arange(len(lengths)), lengths - 1] = chain.end
    for t in range(time - 2, -1, -1):
        k = running[t + 1]
        onward = backward[:k, t + 1] + emissions[:k, t + 1]
        # (batch, from, to)
        backward[:k, t] = (onward[:, None, :] + chain.transitions).max(axis=2)
    return sorted_top(forward + backward, n)


def top(values: Floats, n: int) -> Int64s:
    """Return the indexes of n of the largest of the last axis, largest first; equal ones in the order of indexes."""
    if values.shape[-1] <= n:
        return np.argsort(-values, axis=-1, kind="stable")[..., :n]
    part = np.sort(np.argpartition(-values, n - 1, axis=-1)[..., :n], axis=-1)
    order = np.argsort(-np.take_along_axis(values, part, axis=-1), axis=-1, kind="stable")
    return np.take_along_axis(part, order, axis=-1)


def sorted_top(values: Floats, n: int) -> Int64s:
    """Return the indexes of n of the largest of the last axis, ascending."""
    if not has_core() or values.shape[-1] <= n:
        return np.sort(top(values, n), axis=-1)
    from ensemble_deid import _core

    found = np.empty((*values.shape[:-1], n), dtype=np.int64)
    _core.likely_tags(np.ascontiguousarray(values), found, values.shape[-1], n)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Marginals:
    """Scaled forward and backward passes of a batch of sequences; what lies after a sequence's end is 0.

    `forward[b, t]` is P(tag_t | emissions up to t), `backward[b, t]` the scaled rest; their product is the tag's
    marginal. `local[b, t]` holds exp(emission) divided by the step's scale, so that a path's probability is a product.
    """

    forward: Floats
    backward: Floats
    local: Floats
    moves: Floats
    lengths: Int32s

    @classmethod
    def from_emissions(cls, chain: LinearChain, emissions: Floats, lengths: Int32s) -> "Marginals":
        """Run forward-backward over emissions (batch, time, tags); `lengths` is as in `n_best`."""
        size, time, _ = emissions.shape
        moves, start, end = (np.exp(part - part.max()) for part in (chain.transitions, chain.start, chain.end))
        local = emissions - emissions.max(axis=2, keepdims=True)
        np.exp(local, out=local)
        local[np.arange(time) >= lengths[:, None]] = 0.0
        forward, backward = np.zeros((2, *emissions.shape))
        if has_core():
            from ensemble_deid import _core

            chances = (moves, np.ascontiguousarray(moves.T), start, end)
            _core.forward_backward(chances, lengths.astype(np.int32), (forward, backward, local), time)
            return cls(forward, backward, local, moves, lengths)
        running = _running(lengths)
        for t in range(time):
            k = running[t]
            before = start if t == 0 else row_products(forward[:k, t - 1], moves)
            step = before * local[:k, t]
            scale = step.sum(axis=1, keepdims=True)
            forward[:k, t] = step / scale
            local[:k, t] /= scale
        rows, last = np.arange(size), lengths - 1
        backward[rows, last] = end / (forward[rows, last] * end).sum(axis=1, keepdims=True)
        for t in range(time - 2, -1, -1):
            k = running[t + 1]
            backward[:k, t] = row_products(backward[:k, t + 1] * local[:k, t + 1], moves.T)
        return cls(forward, backward, local, moves, lengths)

    def of_tags(self) -> Floats:
        """Return the marginal of every tag at every token, (batch, time, tags)."""
        return self.forward * self.backward

    def span_probabilities(self, sequence: Int64s, first: Int64s, after: Int64s, label: Int32s) -> Floats:
        """Return P(tags `first` to `after` spell exactly one entity of `label`) for each of many spans, (n,).

        All arguments are (n,), the first being the sequence in the batch. The entity may open with `B-`, or with an
        `I-` that continues nothing; it must not go on at `after`.
        """
        begin, inside = TagScheme.begin(label), TagScheme.inside(label)
        moves, rows, size = self.moves, np.arange(len(first)), after - first
        enter, stay = moves[begin, inside], moves[inside, inside]
        begun, orphan = (self.forward[sequence, first, tag] for tag in (begin, inside))
        into = self.forward[sequence, first - 1] * np.ascontiguousarray(moves.T)[inside]
        opened = into.sum(axis=1) - into[rows, begin] - into[rows, inside]
        orphan = np.where(first > 0, opened * self.local[sequence, first, inside], orphan)
        mass = begun * enter + orphan * stay
        steps = np.ones(len(first))
        for step in range(1, int(size.max(initial=0))):
            going = step < size
            steps[going] *= self.local[sequence[going], first[going] + step, inside[going]]
        # One by one: numpy squares where it may, which is not always the same to the last bit.
        powers = [chance ** max(0, more) for chance, more in zip(stay.tolist(), (size - 2).tolist(), strict=True)]
        tail_begin = np.where(size == 1, begun, 0.0)
        tail_inside = np.where(size == 1, orphan, mass * steps * np.array(powers))
        rest_begin, rest_inside = (self.backward[sequence, after - 1, tag] for tag in (begin, inside))
        total = tail_begin * rest_begin + tail_inside * rest_inside
        onward = np.minimum(after, self.local.shape[1] - 1)
        going_on = self.local[sequence, onward, inside] * self.backward[sequence, onward, inside]
        going_on *= after < self.lengths[sequence]
        total -= (tail_begin * enter + tail_inside * stay) * going_on
        # NaN counts as 0.
        return np.fmax(np.minimum(total, 1.0), 0.0)


def path_probability(marginals: Marginals, sequences: NDArray[np.intp], tags: Int32s) -> Floats:
    """Return the probability of one tagging each of some sequences, (sequences,)."""
    last, steps = marginals.lengths[sequences] - 1, np.arange(tags.shape[1])
    chances = marginals.local[sequences[:, None], steps, tags]
    chances[:, 1:] *= marginals.moves[tags[:, :-1], tags[:, 1:]]
    chances[:, 0] = marginals.forward[sequences, 0, tags[:, 0]]
    chances[steps > last[:, None]] = 1.0
    log = np.log(np.maximum(chances, 1e-300)).cumsum(axis=1)[:, -1]
    ends = marginals.backward[sequences, last, tags[np.arange(len(tags)), last]]
    return np.asarray(np.exp(log) * ends, dtype=np.float64)


def loss_and_gradient(
    chain: LinearChain, emissions: Floats, lengths: Int32s, tags: Int32s
) -> tuple[float, tuple[Floats, Floats, Floats, Floats]]:
    """Return the sum over sequences of -log P(tags), and its gradient: what is expected, less what the tags have.

    `emissions` and `lengths` are as in `n_best`, the first as long as the longest; `tags` is (batch, time). The
    gradient is that of the emissions, the transitions, `start` and `end`.
    """
    found, rows, last = Marginals.from_emissions(chain, emissions, lengths), np.arange(len(lengths)), lengths - 1
    steps = np.arange(emissions.shape[1])
    within = steps < lengths[:, None]
    # Each step was scaled by its largest emission, and by a sum whose inverse `local` holds at that emission.
    divided = emissions.max(axis=2) - np.log(found.local.max(axis=2), where=within, out=np.zeros(within.shape))
    log_z = (divided * within).sum() + last.sum() * chain.transitions.max()
    log_z += len(lengths) * (chain.start.max() + chain.end.max())
    log_z -= np.log(found.backward[rows, last, chain.end.argmax()]).sum()
    score = (emissions[rows[:, None], steps, tags] * within).sum()
    score += (chain.transitions[tags[:, :-1], tags[:, 1:]] * within[:, 1:]).sum()
    score += (chain.start[tags[:, 0]] + chain.end[tags[rows, last]]).sum()
    by_tag = found.of_tags()
    by_tag[rows[:, None], steps, tags] -= within
    into = (found.local * found.backward)[:, 1:].reshape(-1, chain.n_tags)
    moves = found.forward[:, :-1].reshape(-1, chain.n_tags).T @ into
    moves *= found.moves
    np.subtract.at(moves, (tags[:, :-1], tags[:, 1:]), within[:, 1:])
    return float(log_z - score), (by_tag, moves, by_tag[:, 0].sum(axis=0), by_tag[rows, last].sum(axis=0))
